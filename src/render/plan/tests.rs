//! What each form of a plan shows, on surveys made by hand.

mod lines;
mod markdown;

use super::*;
use crate::operation::plan::{Document, Options, State, fixture::*};
use insta::assert_snapshot;
use reconciled_engine::{
    Desired, SourceState, plan, store,
    survey::{Foreseen, Survey},
};
use reconciled_provider::{Error, Hash, ManifestKey, Scope};
use std::{sync::Arc, time::Duration};

fn plain(survey: &Survey) -> String {
    text(&document(survey, &Options::default()), &TextOptions::default())
}

#[test]
fn the_text_shows_every_change_and_then_what_a_person_must_know() {
    let problems = [problem()];
    let options = Options { problems: &problems, show_foreign: true, ..Options::default() };
    let document = document(&rich(), &options);
    let shown = text(&document, &TextOptions { show_foreign: true, ..TextOptions::default() });
    assert_snapshot!(shown, @r#"
    pdns/example.com  2 to create, 1 to update, 1 to replace, 1 to delete, 1 to adopt, 1 to move, 1 to forget  HELD
      > Zone/example.com#new/A      moved from Zone/example.com#old/A   zones/example.com.yaml:12  commit abc1234
      = Zone/example.com#here/A     content 192.0.2.4   zones/example.com.yaml:12  adopt, held
      . Zone/example.com#left/A   commit abc1234, held
      + Zone/example.com#www/A      content 192.0.2.1   zones/example.com.yaml:12  commit abc1234, held
      + Zone/example.com#arn/TXT    (known after apply)   zones/example.com.yaml:12  commit abc1234, held
          waiting: for an output of SqsQueue/jobs
      ~ Zone/example.com#drifted/A   zones/example.com.yaml:12  drift
          content: 198.51.100.1 → 192.0.2.3
    -/+ Zone/example.com#mail/MX   zones/example.com.yaml:12  commit abc1234, held
          content: 10 a. → !20 b.
      - Zone/example.com#gone/A     content 192.0.2.9   commit abc1234, held

    HELD  pdns/example.com  29fde71e
      1 × `protected` (guard.always)
      hint: to consent: reconciled approve 29fde71e --reason "…"

    COULD NOT BE READ
      pdns/broken.example  unavailable: list zone broken.example: connection refused
          hint: is the server running?

    PROBLEMS IN MANIFESTS
      zones/bad.yaml:3:3  error: unknown field `valuez`
          hint: did you mean `values`?

    NEEDS A PERSON
      Zone/example.com#theirs/A  Conflict: it exists and is not tracked
          hint: to take it over as it is: reconciled adopt Zone/example.com#theirs/A

    WAITING
      Zone/example.com#slow/A  Progressing: the remote is on its way  next try 2026-11-21T05:42:10Z

    UNASSIGNED, left alone
      bind/example.net  3 tracked; no entry `bind` is configured here

    FOREIGN, left alone
      pdns/example.com  aa/A  marked by externaldns/k8s
      pdns/example.com  zz/A

    Plan: 2 to create, 1 to update, 1 to replace, 1 to delete, 1 to adopt, 1 to move, 1 to forget; 412 in sync
    2 foreign, left alone
    "#);
}

#[test]
fn nothing_to_do_is_one_line() {
    let mut survey = survey(Vec::new());
    plan_of(&mut survey).in_sync = 412;
    assert_eq!(plain(&survey), "No changes. 412 resources in sync.\n");
    let part = Document { incomplete: true, ..document(&survey, &Options::default()) };
    let expect = "No changes. 412 resources in sync. Errors kept part of it from being planned.";
    assert_eq!(super::lines::conclusion(&part), expect);
    plan_of(&mut survey).foreign_count = 148;
    assert_eq!(
        plain(&survey),
        "No changes. 412 resources in sync.\n148 foreign, left alone (--show-foreign)\n"
    );
}

#[test]
fn what_is_frozen_is_counted_apart_and_says_why() {
    let mut survey = survey(Vec::new());
    let key = |source: &str, name: &str| ManifestKey::new(source, "dns", "Zone", "", name);
    let plan = plan_of(&mut survey);
    plan.in_sync = 1;
    plan.frozen = [(key("infra", "a"), 2), (key("infra", "b"), 1), (key("gone", "c"), 4)].into();
    let state = SourceState { broken: ["a.yaml", "b.yaml"].map(Arc::from).into(), ..SourceState::default() };
    let desired = Desired { sources: [("infra".into(), state)].into(), ..Desired::default() };
    let document = Document::of(&survey, &desired, &|_| None, &Options::default());
    assert_snapshot!(text(&document, &TextOptions::default()), @"
    FROZEN: not changed, restored or deleted
      source gone  4 of Zone/c: its source was not read
      source infra  3 of Zone/a, Zone/b: files with errors may still declare it: a.yaml, b.yaml

    No changes. 1 resource in sync, 7 frozen.
    ");
}

#[test]
fn no_changes_is_never_said_alone_while_something_is_wrong() {
    let mut survey = survey(Vec::new());
    let stalled = condition("a/A", store::ConditionKind::Stalled, "Invalid", "refused");
    plan_of(&mut survey).conditions.push(stalled);
    survey.scopes.insert(Scope::new("pdns", "b"), Err(Error::unavailable("list b")));
    let text = plain(&survey);
    assert!(
        text.ends_with("No changes. 0 resources in sync, 1 in need of a person, 1 scope not read.\n"),
        "{text}"
    );
}

#[test]
fn an_approved_domain_is_not_held_and_says_who_consented() {
    let mut survey = survey(vec![delete("a/A", "x")]);
    let domain = survey.domains.values_mut().next().unwrap();
    domain.verdict.reasons = vec!["1 × `protected` (guard.always)".into()];
    domain.approval = Some(store::Approval {
        digest: Hash::of(b"plan"),
        reason: "cleaning up".into(),
        actor: "alice".into(),
        at: Duration::from_secs(1_795_239_730),
        used_at: None,
    });
    let document = document(&survey, &Options::default());
    assert_eq!((document.state, document.resource_changes[0].state), (State::Ready, State::Ready));
    assert_eq!(document.domains[0].approval.as_ref().unwrap().at, "2026-11-21T05:42:10Z");
    let shown = text(&document, &TextOptions::default());
    assert!(shown.contains("APPROVED  pdns/example.com  "), "{shown}");
    assert!(shown.contains(" by alice: cleaning up"), "{shown}");
}

#[test]
fn what_will_be_held_is_told_as_what_is_and_holds_nothing_up() {
    let mut survey = survey(vec![delete("a/A", "x")]);
    let domain = survey.domains.values_mut().next().unwrap();
    let mut later = domain.verdict.clone();
    later.reasons = vec!["7 deletes, limit 5 (guard.maxDeletes)".into()];
    later.digest = Some(Hash::of(b"later"));
    let once = "once the window opens";
    domain.foreseen = Some(Foreseen { verdict: later, approval: None, revision: "abc1234".into(), once });
    let shown = document(&survey, &Options::default());
    assert!(!shown.needs_person() && shown.state == State::Ready);
    let digest = Hash::of(b"later").to_string();
    let line = format!("pdns/example.com  {}  once the window opens", &digest[..8]);
    for told in [text(&shown, &TextOptions::default()), markdown(&shown)] {
        assert!(told.contains(&line) && told.contains("7 deletes, limit 5"), "{told}");
        assert!(told.contains(&format!("hint: to consent: reconciled approve {}", &digest[..8])), "{told}");
    }
    // What is held now comes first: what becomes of that is a part of what will be.
    survey.domains.values_mut().next().unwrap().verdict.reasons = vec!["too much".into()];
    assert_eq!(document(&survey, &Options::default()).domains[0].foreseen, None);
}

#[test]
fn what_a_change_waits_for_is_told_where_it_stands() {
    let mut blocked = create("a/A", "x");
    let key = ManifestKey::new("infra", "cert", "Certificate", "", "web");
    blocked.blocked = Some(plan::Blocked::Dependency(key));
    let mut survey = survey(vec![blocked]);
    let waits = "waits until Certificate/web is ready";
    plan_of(&mut survey).conditions =
        vec![condition("a/A", store::ConditionKind::Waiting, "WaitingForDependency", waits)];
    assert_snapshot!(plain(&survey), @r#"
    pdns/example.com  1 to create
      + Zone/example.com#a/A  content x   zones/example.com.yaml:12  commit abc1234
          waiting: until Certificate/web is ready

    Plan: 1 to create, 0 to update, 0 to delete; 0 in sync
    "#);
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
