//! What each form of a plan shows, on surveys made by hand.

mod document;
mod lines;
mod markdown;

use super::*;
use insta::assert_snapshot;
use reconciled_engine::{
    Desired, Row, RowState, SourceState,
    plan::{self, Reason, ScopePlan, Step, Work, guard::Verdict},
    store,
    survey::{Domain, Foreseen, Survey, View},
};
use reconciled_provider::{
    Address, Deletion, Delta, Drift, EntryPolicy, Error, FieldChange, Focus, Hash, ManifestKey, Observation,
    Observed, Observer, Origin, PolicyId, Reference as Ref, Resource, ResourceId, Scope, Shown, SourceFile,
    Span, Spec, Tracked, Version,
};
use reconciled_testkit::{Calm, Reference, Role, World};
use std::{sync::Arc, time::Duration};

fn document(survey: &Survey, options: &Options<'_>) -> Document {
    document_of(Role::Zone, survey, options)
}

/// The document where the remote is of this kind.
fn document_of(role: Role, survey: &Survey, options: &Options<'_>) -> Document {
    let provider = Reference::new(role, "pdns", "dns1", Arc::new(World::default()), Arc::new(Calm));
    let source = SourceState { revision: "abc1234def".into(), label: "abc1234".into(), ..Default::default() };
    let desired = Desired { sources: [("infra".into(), source)].into(), ..Desired::default() };
    Document::of(survey, &desired, &|entry| (entry == "pdns").then_some(&provider as &dyn Observer), options)
}

fn plain(survey: &Survey) -> String {
    text(&document(survey, &Options::default()), &TextOptions::default())
}

fn commit() -> Reason {
    Reason::Commit("abc1234".into())
}

fn address(id: &str) -> Address {
    Address {
        namespace: None,
        kind: "Zone".into(),
        group: None,
        name: "example.com".into(),
        part: Some(id.into()),
    }
}

fn spec(content: &str) -> Spec {
    Spec::known(content.as_bytes().to_vec())
}

fn row(id: &str) -> Row {
    Row {
        scope: Scope::new("pdns", "example.com"),
        tracked: Tracked::new(id.into(), Hash::default()),
        manifest: ManifestKey::new("infra", "dns", "Zone", "", "example.com"),
        address: address(id),
        file: "zones/example.com.yaml".into(),
        template: Hash::default(),
        normalizer: 1,
        deletion: Deletion::Delete,
        writes: EntryPolicy::Sync,
        drift: Drift::Heal,
        merge: false,
        state: RowState::Settled,
        written_at: Duration::ZERO,
        revision: "abc1234".into(),
    }
}

/// A step of `id` from one content to another.
fn step(change: plan::Change, id: &str, before: Option<&str>, after: Option<Spec>) -> Step {
    let observed = before.map(|b| Observed::new(id.into(), b.as_bytes().to_vec()));
    let desired = after.map(|spec| Resource {
        id: id.into(),
        scope: Arc::new(Scope::new("pdns", "example.com")),
        spec,
        origin: Origin { manifest: 0, line: 12 },
        policy: PolicyId(0),
    });
    let was = (change != plan::Change::Create && change != plan::Change::Adopt)
        .then(|| Row { template: before.map(|b| spec(b).template()).unwrap_or_default(), ..row(id) });
    Step {
        id: id.into(),
        address: address(id),
        reason: commit(),
        place: desired.as_ref().map(|_| ("zones/example.com.yaml".into(), 12)),
        fields: Vec::new(),
        before: observed.as_ref().map(|o| o.hash),
        after: desired.as_ref().map(|d| d.spec.template()),
        blocked: None,
        guard_words: Vec::new(),
        is_remade: false,
        goes_on: false,
        work: Work {
            desired,
            observed: observed.map(Box::new),
            row: None,
            was: was.map(Arc::new),
            delta: Delta::default(),
        },
        change,
    }
}

fn create(id: &str, content: &str) -> Step {
    step(plan::Change::Create, id, None, Some(spec(content)))
}

fn delete(id: &str, content: &str) -> Step {
    step(plan::Change::Delete, id, Some(content), None)
}

fn update(id: &str, before: &str, after: &str) -> Step {
    let mut step = step(plan::Change::Update, id, Some(before), Some(spec(after)));
    step.fields = vec![FieldChange::text("content", Some(before.into()), Some(after.into()))];
    step
}

fn condition(id: &str, kind: store::ConditionKind, reason: &str, message: &str) -> store::Condition {
    store::Condition {
        id: Some(id.into()),
        address: Some(address(id)),
        kind,
        reason: reason.into(),
        message: message.into(),
        hint: None,
        since: Duration::ZERO,
        next_try: None,
        declared: None,
    }
}

fn view(scope: &Scope, steps: Vec<Step>) -> View {
    View {
        memory: store::ScopeMemory::default(),
        seen: Arc::new(Observation {
            covered: Focus::All,
            complete: true,
            version: Version::Unknown,
            resources: Vec::new(),
        }),
        plan: ScopePlan {
            unselected: Vec::new(),
            resumed: Vec::new(),
            put_off: 0,
            frozen: Default::default(),
            scope: scope.clone(),
            base: Version::Unknown,
            steps,
            refreshed: Vec::new(),
            settled: Vec::new(),
            lapsed: Vec::new(),
            documents: Vec::new(),
            foreign: Vec::new(),
            foreign_count: 0,
            ignored_count: 0,
            conditions: Vec::new(),
            to_come: Vec::new(),
            still_refused: Vec::new(),
            spent: Vec::new(),
            let_go: Vec::new(),
            tracked: 0,
            in_sync: 0,
            unlike: 0,
            left: Vec::new(),
            as_declared: Vec::new(),
            ignored: Vec::new(),
            gone: Vec::new(),
            unanswered: Vec::new(),
            looked: Vec::new(),
        },
        skipped: false,
        health: Default::default(),
        looked_at: Default::default(),
    }
}

fn domain(scope: &Scope, reasons: &[&str], counts: [u32; 4]) -> Domain {
    Domain {
        name: scope.to_string().into(),
        scopes: vec![scope.clone()],
        verdict: Verdict {
            digest: Some(Hash::of(b"plan")),
            counts,
            reasons: reasons.iter().map(|r| Arc::from(*r)).collect(),
        },
        inputs_go_on: false,
        approval: None,
        guarded: Default::default(),
        manifests: Default::default(),
        revision: "abc1234".into(),
        foreseen: None,
    }
}

/// A survey of `pdns/example.com` with these steps.
fn survey(steps: Vec<Step>) -> Survey {
    let scope = Scope::new("pdns", "example.com");
    let mut survey = Survey::default();
    survey.domains.insert(scope.to_string().into(), domain(&scope, &[], [0; 4]));
    survey.scopes.insert(scope.clone(), Ok(view(&scope, steps)));
    survey
}

fn plan_of(survey: &mut Survey) -> &mut ScopePlan {
    let scope = Scope::new("pdns", "example.com");
    &mut survey.scopes.get_mut(&scope).unwrap().as_mut().unwrap().plan
}

/// One of everything.
fn rich() -> Survey {
    let mut moved =
        step(plan::Change::Move { from: address("old/A") }, "new/A", None, Some(spec("192.0.2.5")));
    moved.reason = commit();
    let mut repaired = update("drifted/A", "198.51.100.1", "192.0.2.3");
    repaired.reason = Reason::Drift;
    let mut adopted = step(plan::Change::Adopt, "here/A", Some("192.0.2.4"), Some(spec("192.0.2.4")));
    adopted.reason = Reason::Adopt;
    let on =
        [Ref { target: ManifestKey::new("infra", "aws", "SqsQueue", "", "jobs"), path: "status.arn".into() }];
    let waiting = Spec::waiting(Hash::of(b"t"), on.clone());
    let mut blocked = step(plan::Change::Create, "arn/TXT", None, Some(waiting));
    blocked.blocked = Some(plan::Blocked::Reference(vec![on[0].target.clone()]));
    let mut replaced = step(plan::Change::Replace, "mail/MX", Some("10 a."), Some(spec("!20 b.")));
    replaced.fields = vec![FieldChange::text("content", Some("10 a.".into()), Some("!20 b.".into()))];
    let mut survey = survey(vec![
        moved,
        adopted,
        step(plan::Change::Forget, "left/A", None, None),
        create("www/A", "192.0.2.1"),
        blocked,
        repaired,
        replaced,
        delete("gone/A", "192.0.2.9"),
    ]);
    let plan = plan_of(&mut survey);
    plan.in_sync = 412;
    plan.foreign_count = 2;
    plan.foreign = vec![("zz/A".into(), None), ("aa/A".into(), Some("externaldns/k8s".into()))];
    let waits = "waits for an output of SqsQueue/jobs";
    plan.conditions = vec![
        condition("arn/TXT", store::ConditionKind::Waiting, "WaitingForOutput", waits),
        store::Condition {
            hint: Some("to take it over as it is: reconciled adopt Zone/example.com#theirs/A".into()),
            ..condition("theirs/A", store::ConditionKind::Stalled, "Conflict", "it exists and is not tracked")
        },
        store::Condition {
            next_try: Some(Duration::from_secs(1_795_239_730)),
            ..condition("slow/A", store::ConditionKind::Waiting, "Progressing", "the remote is on its way")
        },
    ];
    let scope = Scope::new("pdns", "example.com");
    let reasons = ["1 × `protected` (guard.always)"];
    survey.domains.insert(scope.to_string().into(), domain(&scope, &reasons, [2, 0, 1, 1]));
    let error = Error::unavailable("list zone broken.example")
        .caused_by(std::io::Error::other("connection refused"))
        .hint("is the server running?");
    survey.scopes.insert(Scope::new("pdns", "broken.example"), Err(error));
    survey.unassigned.push((Scope::new("bind", "example.net"), 3));
    survey
}

fn problem() -> reconciled_provider::Problem {
    let file = SourceFile::new("zones/bad.yaml", "kind: Zone\nspec:\n  valuez: 1\n");
    let problem = reconciled_provider::Problem::error("unknown field `valuez`");
    problem.at(&file, Span { line: 3, column: 3 }).hint("did you mean `values`?")
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
