//! What a line of the plan shows, and what it hides.

use super::*;
use crate::operation::plan::{Details, ResourceChange};
use reconciled_engine::plan::Reason;
use reconciled_provider::{FieldChange, ResourceId, Shown};
use reconciled_testkit::Role;

#[test]
fn long_values_show_only_the_lines_that_differ() {
    let before = "[Unit]\nDescription=web\n[Service]\nExecStart=/bin/old\nRestart=always\n";
    let after = before.replace("/bin/old", "/bin/new");
    assert_snapshot!(plain(&survey(vec![update("web", before, &after), create("motd", before)])), @r#"
    pdns/example.com  1 to create, 1 to update
      ~ Zone/example.com#web   zones/example.com.yaml:12  commit abc1234
          content:
            - ExecStart=/bin/old
            + ExecStart=/bin/new
      + Zone/example.com#motd  content [Unit] … (5 lines)   zones/example.com.yaml:12  commit abc1234

    Plan: 1 to create, 1 to update, 0 to delete; 0 in sync
    "#);
}

#[test]
fn lines_fit_the_terminal_and_keep_place_and_reason() {
    let survey = survey(vec![create("www/TXT", &"x".repeat(500)), update("b/TXT", &"y".repeat(500), "z")]);
    let options = TextOptions { width: Some(100), ..TextOptions::default() };
    let shown = text(&document(&survey, &Options::default()), &options);
    assert!(shown.lines().all(|l| l.chars().count() <= 100), "{shown}");
    assert!(shown.contains("zones/example.com.yaml:12  commit abc1234"), "{shown}");
}

#[test]
fn a_long_list_is_cut_with_a_count_and_what_to_type() {
    let steps = (0..250).map(|i| create(&format!("r{i:03}/A"), "192.0.2.1")).collect();
    let survey = survey(steps);
    let options = Options { details: Details::First(200), ..Options::default() };
    let document = document(&survey, &options);
    let shown = text(&document, &TextOptions::default());
    assert!(shown.contains("      … 50 more (50 to create): -o json shows all of them\n"), "{shown}");
    assert!(shown.contains("r199/A") && !shown.contains("r200/A"), "{shown}");
    let all = text(&document, &TextOptions { limit: 0, ..TextOptions::default() });
    assert_eq!(all.matches("  + Zone/").count(), 250);
    // What is not shown was not made.
    assert!(document.resource_changes[199].change.after.is_some());
    assert!(document.resource_changes[200].change.after.is_none());
}

#[test]
fn a_text_shows_of_changes_that_are_counted_alone_what_it_shows_of_all() {
    let mut open = rich();
    open.domains.values_mut().for_each(|domain| domain.verdict.reasons.clear());
    let many: Vec<_> = (0..9).map(|i| create(&format!("r{i}/A"), "192.0.2.1")).collect();
    for survey in [rich(), open, survey(many)] {
        for limit in 1..10 {
            let of = |details| document(&survey, &Options { details, ..Options::default() });
            let (all, alone) = (of(Details::First(limit)), of(Details::Alone(limit)));
            let is_listed =
                |(index, change): &(usize, &ResourceChange)| *index < limit || change.blocked.is_some();
            let listed: Vec<_> = all.resource_changes.iter().enumerate().filter(is_listed).collect();
            assert_eq!(
                alone.resource_changes.iter().collect::<Vec<_>>(),
                listed.iter().map(|(_, c)| *c).collect::<Vec<_>>()
            );
            let options = TextOptions { limit, ..TextOptions::default() };
            assert_eq!(text(&alone, &options), text(&all, &options));
            assert_eq!((alone.state, alone.summary, alone.domains), (all.state, all.summary, all.domains));
        }
    }
}

#[test]
fn a_delete_and_a_create_of_equal_content_are_asked_about() {
    let survey = survey(vec![create("new/A", "192.0.2.1"), delete("old/A", "192.0.2.1")]);
    // Where the key is the identity nothing can be moved, so nothing is asked of two records of a zone.
    assert_eq!(document(&survey, &Options::default()).warnings, []);
    let document = document_of(Role::Cloud { tokens: true }, &survey, &Options::default());
    assert_eq!(
        document.warnings[0].message,
        "delete Zone/example.com#old/A + create Zone/example.com#new/A with equal spec: meant as a move?"
    );
    let shown = text(&document, &TextOptions::default());
    assert!(shown.contains("reconciled/moved-from: Zone/example.com#old/A"), "{shown}");
}

#[test]
fn a_sensitive_field_never_shows() {
    let mut change = step(plan::Change::Update, "web", Some("canary-old"), Some(spec("canary-new")));
    change.fields =
        vec![FieldChange { path: "content".into(), before: Shown::Sensitive, after: Shown::Sensitive }];
    // The provider shows `content`; the delta names a part of it, the whole, and something beside it.
    for path in ["content", "content.password", "content[0]"] {
        change.fields[0].path = path.into();
        let document = document(&survey(vec![change.clone()]), &Options::default());
        let forms = [document.json(), text(&document, &TextOptions::default()), markdown(&document)];
        for form in forms {
            assert!(!form.contains("canary") && form.contains("(sensitive)"), "{form}");
        }
        let change = &document.resource_changes[0].change;
        assert_eq!(change.before_sensitive.get("content"), Some(&true));
        assert_eq!(change.after_sensitive.get("content"), Some(&true));
    }
}

#[test]
fn an_unknown_value_is_known_after_apply() {
    let mut change = update("web", "old", "new");
    change.fields = vec![FieldChange {
        path: "content".into(),
        before: Shown::Text("old".into()),
        after: Shown::Unknown,
    }];
    let document = document(&survey(vec![change]), &Options::default());
    let shown = &document.resource_changes[0].change;
    assert_eq!(shown.after_unknown.get("content"), Some(&true));
    assert_eq!(shown.after.as_ref().unwrap().get("content"), None);
    let shown = text(&document, &TextOptions::default());
    assert!(shown.contains("      content: old → (known after apply)\n"), "{shown}");
}

#[test]
fn escape_sequences_in_names_and_values_reach_no_terminal() {
    let evil = "a\u{1b}]0;x\u{7}\u{9b}31m\u{202e}";
    let mut survey = rich();
    let plan = plan_of(&mut survey);
    for step in &mut plan.steps {
        Arc::make_mut(&mut step.address.whole).name = evil.into();
        step.place = Some((evil.into(), 1));
        step.reason = Reason::Commit(evil.into());
        step.fields = vec![FieldChange::text(evil, Some(evil.into()), Some(format!("{evil}\n{evil}")))];
    }
    for condition in &mut plan.conditions {
        condition.message = evil.into();
        condition.hint = Some(evil.into());
    }
    plan.foreign = vec![(ResourceId::from(evil), Some(evil.into()))];
    survey.scopes.insert(Scope::new(evil, evil), Err(Error::invalid(evil).hint(evil)));
    survey.unassigned.push((Scope::new(evil, evil), 1));
    survey.domains.values_mut().for_each(|d| d.verdict.reasons = vec![evil.into()]);
    let document = document(&survey, &Options { show_foreign: true, ..Options::default() });
    let shown = text(&document, &TextOptions { show_foreign: true, ..TextOptions::default() });
    for form in [shown, markdown(&document)] {
        let steers = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!form.contains(steers), "{form:?}");
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let document = document(&rich(), &Options::default());
    let colourless = text(&document, &TextOptions::default());
    let mut coloured = text(&document, &TextOptions { colour: true, ..TextOptions::default() });
    assert!(coloured.contains("\u{1b}[32m+\u{1b}[0m Zone/"), "{coloured}");
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        coloured = coloured.replace(&format!("\u{1b}[{code}m"), "");
    }
    assert_eq!(coloured, colourless);
}
