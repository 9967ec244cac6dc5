//! An answer as text: what a scenario expects.

use crate::case::Answer;
use reconciled_engine::plan::{Change, ScopePlan, Step, guard::Verdict};
use reconciled_provider::{Hash, ManifestKey, Shown};
use std::fmt::Write;

/// The answer, one fact a line. Digests are left out: they are compared, not read.
pub(crate) fn show(answer: &Answer) -> String {
    let mut out = String::new();
    for (plan, known) in answer.plans.iter().zip(&answer.known) {
        scope(&mut out, plan, *known);
    }
    for (name, verdict) in &answer.verdicts {
        guard(&mut out, name, "", verdict);
    }
    for (name, once, verdict) in &answer.foreseen {
        guard(&mut out, name, &format!(" {once}"), verdict);
    }
    out
}

fn guard(out: &mut String, name: &str, once: &str, verdict: &Verdict) {
    let word = if verdict.is_held() { "held" } else { "free" };
    let [creates, updates, replaces, deletes] = verdict.counts;
    writeln!(out, "guard {name}{once}: {word} +{creates} ~{updates} -/+{replaces} -{deletes}").unwrap();
    for reason in &verdict.reasons {
        writeln!(out, "  {reason}").unwrap();
    }
}

fn scope(out: &mut String, plan: &ScopePlan, known: bool) {
    writeln!(out, "scope {}", plan.scope).unwrap();
    for step in &plan.steps {
        line(out, step);
    }
    for condition in plan.conditions.iter().chain(&plan.to_come) {
        let id = condition.id.as_ref().map_or("-", |id| &id.0);
        let again = condition.next_try.map(|at| format!(" (again at {})", at.as_secs())).unwrap_or_default();
        writeln!(out, "  {:?} {} {id}: {}{again}", condition.kind, condition.reason, condition.message)
            .unwrap();
        if let Some(hint) = &condition.hint {
            writeln!(out, "    hint: {hint}").unwrap();
        }
    }
    let ids = |list: Vec<String>| list.join(", ");
    let rows = |rows: &[reconciled_engine::Row]| rows.iter().map(|r| r.tracked.id.to_string()).collect();
    let lists: [(&str, Vec<String>); 9] = [
        ("refreshed", rows(&plan.refreshed)),
        ("settled", plan.settled.iter().map(ToString::to_string).collect()),
        ("lapsed", rows(&plan.lapsed)),
        ("documents", plan.documents.iter().map(document).collect()),
        (
            "foreign",
            plan.foreign
                .iter()
                .map(|(id, owner)| match owner {
                    Some(owner) => format!("{id} of {owner}"),
                    None => id.to_string(),
                })
                .collect(),
        ),
        ("let go of", plan.let_go.iter().map(ToString::to_string).collect()),
        ("spent", plan.spent.iter().map(ToString::to_string).collect()),
        ("without an answer", plan.unanswered.iter().map(|action| action.0.to_string()).collect()),
        ("looked at since", plan.looked.iter().map(|(suspension, _)| suspension.to_string()).collect()),
    ];
    if plan.place.is_some() {
        out.push_str("  place remembered\n");
    }
    if plan.ignored_count > 0 {
        writeln!(out, "  ignored: {}", plan.ignored_count).unwrap();
    }
    for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        writeln!(out, "  {name}: {}", ids(list)).unwrap();
    }
    let memory = if known { "version remembered" } else { "version not remembered" };
    let frozen: usize = plan.frozen.values().sum();
    let frozen = if frozen > 0 { format!("{frozen} frozen, ") } else { String::new() };
    writeln!(out, "  {} in sync, {frozen}{memory}", plan.in_sync).unwrap();
}

fn document((manifest, content): &(ManifestKey, Option<Hash>)) -> String {
    format!("{manifest}{}", if content.is_some() { "" } else { " no more" })
}

fn line(out: &mut String, step: &Step) {
    let symbol = match step.change {
        Change::Create => "+",
        Change::Update => "~",
        Change::Delete | Change::EndFormer => "-",
        Change::Replace => "-/+",
        Change::Adopt => "=",
        Change::Move { .. } => ">",
        Change::Forget => "forget",
        Change::Abandon => "abandon",
        Change::Continue => "continue",
    };
    write!(out, "  {symbol} {} ({})", step.id, step.reason).unwrap();
    if let Change::Move { from } = &step.change {
        write!(out, " from {from}").unwrap();
    }
    for field in &step.fields {
        let side = |shown: &Shown| match shown {
            Shown::Text(text) => text.clone(),
            other => format!("{other:?}").to_lowercase(),
        };
        write!(out, " {}: {} → {}", field.path, side(&field.before), side(&field.after)).unwrap();
    }
    let declared = step.work.row.as_ref().map(|row| row.tracked.applied);
    let written = step.work.desired.as_ref().and_then(|desired| desired.spec.bytes());
    if let Some(bytes) = written.filter(|bytes| declared.is_some_and(|declared| declared != Hash::of(bytes)))
    {
        write!(out, " writes: {}", String::from_utf8_lossy(bytes)).unwrap();
    }
    if !step.guard_words.is_empty() {
        write!(out, " [{}]", step.guard_words.join(", ")).unwrap();
    }
    if let Some(blocked) = &step.blocked {
        let name = format!("{blocked:?}");
        let word = name.split(['(', ' ']).next().unwrap_or_default();
        write!(out, " blocked: {word}").unwrap();
    }
    out.push('\n');
}
