//! The published form.

use super::*;

#[test]
fn the_document_is_terraforms_shape_with_digest_state_reason_file_and_line() {
    let mut survey = survey(vec![update("www/A", "192.0.2.1", "192.0.2.2")]);
    plan_of(&mut survey).in_sync = 7;
    assert_snapshot!(document(&survey, &Options::default()).json(), @r#"
    {
      "formatVersion": "1.0",
      "format_version": "1.0",
      "state": "ready",
      "summary": {
        "create": 0,
        "update": 1,
        "replace": 0,
        "delete": 0,
        "adopt": 0,
        "move": 0,
        "forget": 0
      },
      "in_sync": 7,
      "sources": [
        {
          "name": "infra",
          "revision": "abc1234def",
          "label": "abc1234"
        }
      ],
      "domains": [
        {
          "name": "pdns/example.com",
          "scopes": [
            "pdns/example.com"
          ],
          "digest": "29fde71e3ef298312227db745efc78ce",
          "state": "ready",
          "reasons": [],
          "counts": {
            "create": 0,
            "update": 0,
            "replace": 0,
            "delete": 0
          }
        }
      ],
      "resource_changes": [
        {
          "address": "Zone/example.com#www/A",
          "provider": "pdns",
          "scope": "pdns/example.com",
          "id": "www/A",
          "type": "Zone",
          "change": {
            "actions": [
              "update"
            ],
            "before": {
              "content": "192.0.2.1"
            },
            "after": {
              "content": "192.0.2.2"
            }
          },
          "fields": [
            {
              "path": "content",
              "before": "192.0.2.1",
              "after": "192.0.2.2"
            }
          ],
          "reason": "commit abc1234",
          "state": "ready",
          "domain": "pdns/example.com",
          "digest": "29fde71e3ef298312227db745efc78ce",
          "file": "zones/example.com.yaml",
          "line": 12
        }
      ],
      "warnings": [],
      "conditions": [],
      "foreign": {
        "count": 0
      },
      "unassigned": [],
      "frozen": [],
      "problems": [],
      "failures": []
    }
    "#);
}

#[test]
fn each_change_has_terraforms_actions_or_one_of_ours() {
    let document = document(&rich(), &Options::default());
    let actions: Vec<String> =
        document.resource_changes.iter().map(|c| serde_json::to_string(&c.change.actions).unwrap()).collect();
    assert_eq!(
        actions,
        [
            r#"["move"]"#,
            r#"["adopt"]"#,
            r#"["forget"]"#,
            r#"["create"]"#,
            r#"["create"]"#,
            r#"["update"]"#,
            r#"["delete","create"]"#,
            r#"["delete"]"#
        ]
    );
    let states: Vec<State> = document.resource_changes.iter().map(|c| c.state).collect();
    use State::{Held, Ready};
    // A repair goes on while the commit is held; what the commit takes over and lets go of waits, a move does not.
    assert_eq!(states, [Ready, Held, Held, Held, Held, Ready, Held, Held]);
    let covered: Vec<bool> = document.resource_changes.iter().map(|c| c.digest.is_some()).collect();
    assert_eq!(covered, [false, false, false, true, true, false, true, true]);
}

#[test]
fn the_same_survey_gives_the_same_bytes_in_every_form() {
    let options = Options { show_foreign: true, ..Options::default() };
    let forms = || {
        let document = document(&rich(), &options);
        [document.json(), text(&document, &TextOptions::default()), markdown(&document)]
    };
    let first = forms();
    // A new process hashes differently; new maps do so within one process.
    for _ in 0..20 {
        assert_eq!(forms(), first);
    }
}

#[test]
fn a_document_survives_its_json() {
    let problems = [problem()];
    let options = Options { problems: &problems, show_foreign: true, ..Options::default() };
    let document = document(&rich(), &options);
    let back: Document = serde_json::from_str(&document.json()).unwrap();
    assert_eq!(back, document);
}

#[test]
fn a_reader_ignores_fields_it_does_not_know() {
    let mut json: serde_json::Value =
        serde_json::from_str(&document(&rich(), &Options::default()).json()).unwrap();
    json["later"] = true.into();
    json["resource_changes"][0]["later"] = true.into();
    assert!(serde_json::from_value::<Document>(json).is_ok());
}

#[test]
fn the_schema_describes_every_field_of_the_document() {
    let schema = Document::schema();
    let problems = [problem()];
    let options = Options { problems: &problems, show_foreign: true, ..Options::default() };
    let json = serde_json::to_value(document(&rich(), &options)).unwrap();
    let described = schema["properties"].as_object().unwrap();
    for key in json.as_object().unwrap().keys() {
        let description = described[key]["description"].as_str();
        assert!(description.is_some_and(|d| !d.is_empty()), "{key}");
    }
    let change = schema["$defs"]["ResourceChange"]["properties"].as_object().unwrap();
    for key in json["resource_changes"][0].as_object().unwrap().keys() {
        assert!(change.contains_key(key), "{key}");
    }
}

#[test]
fn a_resource_that_was_not_read_has_no_before() {
    let mut unread = delete("a/A", "");
    unread.work.observed.as_mut().unwrap().hash = Hash::of(b"content known only by its hash");
    let document = document(&survey(vec![unread]), &Options::default());
    assert_eq!(document.resource_changes[0].change.before, None);
}

#[test]
fn an_entry_without_observer_has_changes_without_values() {
    let scope = Scope::new("other", "x");
    let mut survey = Survey::default();
    survey.scopes.insert(scope.clone(), Ok(view(&scope, vec![create("a/A", "x")])));
    let document = document(&survey, &Options::default());
    assert_eq!(document.resource_changes[0].change.after, None);
    assert_eq!(&*document.resource_changes[0].domain, "other/x");
}
