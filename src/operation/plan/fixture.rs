//! Surveys made by hand, and the documents of them.

use super::{Document, Options};
use reconciled_engine::{
    Desired, Row, SourceState,
    plan::{self, Reason, ScopePlan, Step, Work, guard::Verdict},
    store,
    survey::{Domain, Survey, View},
};
use reconciled_provider::{
    Address, Error, FieldChange, Focus, Hash, ManifestKey, Observation, Observed, Observer, Origin, PolicyId,
    Reference as Ref, Resource, Scope, SourceFile, Span, Spec, Version,
};
use reconciled_testkit::{Calm, Reference, Role, World};
use std::{sync::Arc, time::Duration};

pub(crate) fn document(survey: &Survey, options: &Options<'_>) -> Document {
    document_of(Role::Zone, survey, options)
}

/// The document where the remote is of this kind.
pub(crate) fn document_of(role: Role, survey: &Survey, options: &Options<'_>) -> Document {
    let provider = Reference::new(role, "pdns", "dns1", Arc::new(World::default()), Arc::new(Calm));
    let source = SourceState { revision: "abc1234def".into(), label: "abc1234".into(), ..Default::default() };
    let desired = Desired { sources: [("infra".into(), source)].into(), ..Desired::default() };
    Document::of(survey, &desired, &|entry| (entry == "pdns").then_some(&provider as &dyn Observer), options)
}

pub(crate) fn commit() -> Reason {
    Reason::Commit("abc1234".into())
}

pub(crate) fn address(id: &str) -> Address {
    Address { part: Some(id.into()), .."Zone/example.com".parse().unwrap() }
}

pub(crate) fn spec(content: &str) -> Spec {
    Spec::known(content.as_bytes().to_vec())
}

pub(crate) fn row(id: &str) -> Row {
    let manifest = ManifestKey::new("infra", "dns", "Zone", "", "example.com");
    Row::settled(Scope::new("pdns", "example.com"), id, manifest).with(|row| {
        row.address = address(id);
        row.file = "zones/example.com.yaml".into();
        row.normalizer = 1;
        row.revision = "abc1234".into();
    })
}

/// A step of `id` from one content to another.
pub(crate) fn step(change: plan::Change, id: &str, before: Option<&str>, after: Option<Spec>) -> Step {
    let observed = before.map(|b| Observed::new(id.into(), b.as_bytes()));
    let desired = after.map(|spec| {
        Resource::new(
            id.into(),
            Arc::new(Scope::new("pdns", "example.com")),
            spec,
            Origin { manifest: 0, line: 12 },
            PolicyId(0),
        )
    });
    let was = (change != plan::Change::Create && change != plan::Change::Adopt)
        .then(|| row(id).with(|row| row.template = before.map(|b| spec(b).template()).unwrap_or_default()));
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
            observed: observed.map(Arc::new),
            row: None,
            was: was.map(Arc::new),
            delta: Default::default(),
        },
        change,
    }
}

pub(crate) fn create(id: &str, content: &str) -> Step {
    step(plan::Change::Create, id, None, Some(spec(content)))
}

pub(crate) fn delete(id: &str, content: &str) -> Step {
    step(plan::Change::Delete, id, Some(content), None)
}

pub(crate) fn update(id: &str, before: &str, after: &str) -> Step {
    let mut step = step(plan::Change::Update, id, Some(before), Some(spec(after)));
    step.fields = vec![FieldChange::text("content", Some(before.into()), Some(after.into()))];
    step
}

pub(crate) fn condition(
    id: &str,
    kind: store::ConditionKind,
    reason: &str,
    message: &str,
) -> store::Condition {
    store::Condition::of(kind, reason, message).about(id.into(), address(id))
}

pub(crate) fn view(scope: &Scope, steps: Vec<Step>) -> View {
    View {
        memory: store::ScopeMemory::default(),
        seen: Arc::new(Observation {
            covered: Focus::All,
            complete: true,
            version: Version::Unknown,
            resources: Vec::new(),
        }),
        plan: ScopePlan { steps, ..ScopePlan::nothing(scope.clone(), Version::Unknown) },
        offered: Default::default(),
        skipped: false,
        health: Default::default(),
        looked_at: Default::default(),
    }
}

pub(crate) fn domain(scope: &Scope, reasons: &[&str], counts: [u32; 4]) -> Domain {
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
pub(crate) fn survey(steps: Vec<Step>) -> Survey {
    let scope = Scope::new("pdns", "example.com");
    let mut survey = Survey::default();
    survey.domains.insert(scope.to_string().into(), domain(&scope, &[], [0; 4]));
    survey.scopes.insert(scope.clone(), Ok(view(&scope, steps)));
    survey
}

pub(crate) fn plan_of(survey: &mut Survey) -> &mut ScopePlan {
    let scope = Scope::new("pdns", "example.com");
    &mut survey.scopes.get_mut(&scope).unwrap().as_mut().unwrap().plan
}

/// One of everything.
pub(crate) fn rich() -> Survey {
    let mut moved =
        step(plan::Change::Move { from: address("old/A").into() }, "new/A", None, Some(spec("192.0.2.5")));
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

pub(crate) fn problem() -> reconciled_provider::Problem {
    let file = SourceFile::new("zones/bad.yaml", "kind: Zone\nspec:\n  valuez: 1\n");
    let problem = reconciled_provider::Problem::error("unknown field `valuez`");
    problem.at(&file, Span { line: 3, column: 3 }).hint("did you mean `values`?")
}
