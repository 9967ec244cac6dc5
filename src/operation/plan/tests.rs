//! The published form, of surveys made by hand.

use super::{Document, Options, State, fixture::*};
use insta::assert_snapshot;
use reconciled_engine::{
    plan::{Reason, Step},
    store,
    survey::Survey,
};
use reconciled_provider::{Address, Error, Hash, Scope};
use reconciled_testkit::Role;
use std::sync::Arc;

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
    Arc::make_mut(unread.work.observed.as_mut().unwrap()).hash = Hash::of(b"content known only by its hash");
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

#[test]
fn the_state_is_the_worst_of_what_is_in_the_plan() {
    let state = |survey: &Survey| document(survey, &Options::default()).state;
    let mut survey = survey(vec![create("a/A", "x")]);
    assert_eq!(state(&survey), State::Ready);
    let mut add = |kind| plan_of(&mut survey).conditions.push(condition("b/A", kind, "R", "m"));
    add(store::ConditionKind::Suspended);
    assert_eq!(state(&survey), State::Ready);
    plan_of(&mut survey).conditions.push(condition("b/A", store::ConditionKind::Waiting, "R", "m"));
    assert_eq!(state(&survey), State::Waiting);
    plan_of(&mut survey).conditions.push(condition("b/A", store::ConditionKind::Stalled, "R", "m"));
    assert_eq!(state(&survey), State::Held);
    survey.scopes.insert(Scope::new("pdns", "b"), Err(Error::unavailable("list b")));
    assert_eq!(state(&survey), State::Failed);
}

#[test]
fn what_needs_a_person_by_the_last_pass_needs_one_by_the_plan() {
    let stalled = |reason, declared| store::Condition {
        declared,
        ..condition("a/A", store::ConditionKind::Stalled, reason, "why")
    };
    let of_a = |survey: &Survey| {
        let document = document(survey, &Options::default());
        let blocked = document.resource_changes[0].blocked.clone().map(|blocked| blocked.message.to_string());
        (document.needs_person(), document.conditions.len(), document.resource_changes[0].state, blocked)
    };
    let mut gone = survey(vec![delete("a/A", "x")]);
    plan_of(&mut gone).conditions.push(stalled("invalid", Some(Hash::of(b"nothing"))));
    let refused = "its deletion was refused: why";
    assert_eq!(of_a(&gone), (true, 1, State::Waiting, Some(refused.into())));

    let known = |step: Step| {
        let mut survey = survey(vec![step]);
        let scope = Scope::new("pdns", "example.com");
        let view = survey.scopes.get_mut(&scope).unwrap().as_mut().unwrap();
        view.memory.conditions.push(stalled("Flapping", None));
        survey
    };
    let mut repair = update("a/A", "x", "y");
    assert_eq!(of_a(&known(repair.clone())), (false, 0, State::Ready, None), "it is declared otherwise now");
    repair.reason = Reason::Drift;
    assert_eq!(of_a(&known(repair)), (true, 1, State::Held, Some("why".into())));
}

/// A step of the manifest `name`, whose resources are called after it.
fn named(mut step: Step, name: &str) -> Step {
    step.address = Address { part: step.address.part, ..format!("Deployment/{name}").parse().unwrap() };
    step
}

#[test]
fn a_manifest_under_another_name_is_asked_about_where_its_name_is_the_identity() {
    let warnings = |steps| document(&survey(steps), &Options::default()).warnings;
    let gone = |content| vec![named(delete("web@", content), "web"), named(delete("web@1", "runs"), "web")];
    let made = |content| vec![named(create("new@", content), "new"), named(create("new@1", "runs"), "new")];
    let told = warnings([gone("x"), made("x")].concat());
    let [one] = &told[..] else { panic!("{told:?}") };
    assert_eq!(
        one.message,
        "delete Deployment/web + create Deployment/new with equal spec: meant as a move?"
    );
    assert!(one.hint.as_ref().unwrap().contains("Deployment/web goes and Deployment/new is made"), "{one:?}");
    // What is made of it may name it, too.
    assert_eq!(warnings([gone("job web"), made("job new")].concat()).len(), 1);
    assert_eq!(warnings([gone("x"), made("y")].concat()), []);
    assert_eq!(warnings([gone("x"), made("x")[..1].to_vec()].concat()), [], "it has fewer parts");
    let other = vec![named(create("other", "x"), "new"), named(create("other1", "runs"), "new")];
    assert_eq!(warnings([gone("x"), other].concat()), [], "its resources are not called after it");
}

#[test]
fn content_that_many_share_and_restores_are_not_asked_about() {
    let warnings =
        |steps| document_of(Role::Cloud { tokens: true }, &survey(steps), &Options::default()).warnings;
    assert_eq!(warnings(vec![create("a/A", "x"), create("b/A", "x"), delete("c/A", "x")]), []);
    let mut restored = create("a/A", "x");
    restored.reason = Reason::Restore;
    assert_eq!(warnings(vec![restored, delete("c/A", "x")]), []);
    let many = (0..30).flat_map(|i| {
        let content = format!("192.0.2.{i}");
        [create(&format!("new{i}/A"), &content), delete(&format!("old{i}/A"), &content)]
    });
    let listed = warnings(many.collect());
    assert_eq!(listed.len(), 21);
    assert_eq!(listed[20].message, "10 more pairs of a delete and a create with equal spec");
}
