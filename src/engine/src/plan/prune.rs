//! What is tracked and no longer desired, and what is nobody's.
//!
//! Invariant: a deletion needs a complete observation of all of the scope, a source that was read whole, and
//! a row of that very source. Everything else leaves the resource as it is.

use super::{Blocked, CLAIMS, Change, EntryPolicy, Planner, Reason, ScopePlan, Step, Work};
use crate::store::{Condition, ConditionKind, Consent, OpenIntent, Row};
use reconciled_provider::{
    Address, Deletion, Focus, Identity, Marking, Observed, Owner, Resource, ResourceId,
};
use std::{sync::Arc, time::Duration};

/// Plans rows whose manifest no longer declares them.
pub(super) fn tracked_and_no_longer_desired(planner: &Planner<'_>, out: &mut ScopePlan) {
    let whole = planner.input.seen.complete && planner.input.seen.covered == Focus::All;
    for row in &planner.input.memory.rows {
        if planner.is_desired(&row.tracked.id) || !planner.selects(&row.address, None) {
            continue;
        }
        let is_claim = row.manifest.source() == CLAIMS;
        if !is_claim && !may_prune(planner, row) {
            out.in_sync += 1;
            continue;
        }
        match planner.input.seen.get(&row.tracked.id) {
            None if whole => out.lapsed.push(row.clone()),
            None => {}
            Some(_) if row.deletion == Deletion::Abandon && !is_claim => {
                out.steps.push(step(planner, Change::Forget, row, None))
            }
            Some(observed) if whole || is_claim => delete(planner, row, observed, out),
            Some(_) => {}
        }
    }
    for open in &planner.input.memory.open {
        ambiguous(planner, open, out);
    }
}

/// True when the row's own source was read whole and no longer declares it.
fn may_prune(planner: &Planner<'_>, row: &Row) -> bool {
    let Some(source) = planner.input.desired.sources.get(row.manifest.source()) else { return false };
    source.prunes && !source.broken.contains(&row.file) && !source.unassigned.contains(&row.manifest)
}

fn delete(planner: &Planner<'_>, row: &Row, observed: &Observed, out: &mut ScopePlan) {
    if let Owner::Other(other) = &observed.owner {
        // It was ours and somebody else marked it since: theirs to delete.
        out.conditions.push(Condition {
            id: Some(row.tracked.id.clone()),
            address: Some(row.address.clone()),
            kind: ConditionKind::Stalled,
            reason: "ManagementConflict".into(),
            message: format!("no longer declared, but it carries the ownership mark of `{other}`").into(),
            hint: Some(format!("to stop tracking it: reconciled forget {}", row.address).into()),
            since: Duration::ZERO,
            next_try: None,
        });
        return;
    }
    if row.merge {
        // Only our values go; what others put there stays.
        match planner.input.provider.merge(&[], Some(observed), Some(&row.tracked), &[]) {
            Ok(Some(rest)) => return leave(planner, row, observed, rest.resource, out),
            Ok(None) => {}
            Err(error) => {
                let found = step(planner, Change::Update, row, Some(observed));
                out.conditions.push(Condition {
                    message: error.chain().into(),
                    ..Blocked::Suspended.condition(&found)
                });
                return;
            }
        }
    }
    let mut found = step(planner, Change::Delete, row, Some(observed));
    if row.deletion == Deletion::Protect {
        found.guard_words.push("protected");
    }
    let source = planner.input.desired.sources.get(row.manifest.source());
    if source.is_some_and(|s| s.unselected.contains(&row.manifest)) {
        found.guard_words.push("host-unselected");
    }
    if let Some(word) = planner.input.provider.guard_word(planner.input.scope, &row.tracked.id) {
        found.guard_words.push(word);
    }
    if planner.input.policy != EntryPolicy::Sync {
        found.blocked = Some(Blocked::EntryPolicy(planner.input.policy));
    } else if planner.input.needed.contains(&row.manifest) {
        found.blocked = Some(Blocked::Dependant(row.manifest.clone()));
    }
    if let Some(blocked) = &found.blocked {
        out.conditions.push(blocked.condition(&found));
    }
    out.steps.push(found);
}

/// Takes our values out of a resource that others share; nothing of it is tracked afterwards.
fn leave(planner: &Planner<'_>, row: &Row, observed: &Observed, rest: Resource, out: &mut ScopePlan) {
    if rest.spec.hash() == Some(observed.hash) {
        out.lapsed.push(row.clone());
        return;
    }
    let mut found = step(planner, Change::Update, row, Some(observed));
    if let Some(delta) = planner.input.provider.compare(&rest, observed) {
        found.fields = delta.fields.clone();
        found.work.delta = delta;
    }
    found.after = Some(rest.spec.template());
    found.work.desired = Some(rest);
    found.work.row = None;
    out.steps.push(found);
}

/// A create without an outcome, of a remote that assigns identity: a question to answer by observing.
fn ambiguous(planner: &Planner<'_>, open: &OpenIntent, out: &mut ScopePlan) {
    let id = &open.intent.row.tracked.id;
    let info = planner.input.provider.info();
    let Identity::Assigned { client_token } = info.identity else { return };
    if &*open.intent.op != "create" || planner.input.seen.get(id).is_some() || planner.row(id).is_some() {
        return;
    }
    let Some(step) = out.steps.iter_mut().find(|s| s.id == *id && s.change == Change::Create) else { return };
    let same = step.work.desired.as_ref().and_then(|d| d.spec.hash()) == open.intent.after;
    if client_token && same {
        // The same request with the same token: the remote knows whether it has carried it out.
        return;
    }
    let visible_at = open.started_at + info.consistency_window;
    let tells = client_token || info.marking == Marking::Native;
    step.blocked = match (tells, planner.input.now < visible_at) {
        (true, false) => return,
        (true, true) => Some(Blocked::Ambiguous(Some(visible_at))),
        (false, _) => Some(Blocked::Ambiguous(None)),
    };
    let blocked = step.blocked.clone();
    if let Some(blocked) = blocked {
        out.conditions.push(blocked.condition(step));
    }
}

/// `forget` bars adoption until the manifest is gone: known only when every source was read whole.
pub(super) fn bars_that_end(planner: &Planner<'_>, out: &mut ScopePlan) {
    let sources = &planner.input.desired.sources;
    let whole = !sources.is_empty() && sources.values().all(|s| s.is_whole() && s.unassigned.is_empty());
    for (id, consent) in &planner.input.memory.consents {
        if whole && matches!(consent, Consent::Barred) && !planner.is_desired(id) {
            out.spent.push(id.clone());
        }
    }
}

/// Counts what is neither desired nor tracked; in an exclusive scope it shall go.
pub(super) fn foreign(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    let exclusive = input.desired.exclusive.contains(input.scope);
    let whole = input.seen.complete && input.seen.covered == Focus::All && input.selection.is_all();
    for observed in &input.seen.resources {
        if planner.is_desired(&observed.id)
            || planner.row(&observed.id).is_some()
            || observed.owner == Owner::System
        {
            continue;
        }
        let marked = match &observed.owner {
            Owner::Other(other) => Some(other.clone()),
            _ => None,
        };
        if exclusive && whole && marked.is_none() && input.policy == EntryPolicy::Sync {
            out.steps.push(foreign_delete(planner, observed));
            continue;
        }
        out.foreign.push((observed.id.clone(), marked));
    }
    out.foreign_count = out.foreign.len() as u32;
}

fn foreign_delete(planner: &Planner<'_>, observed: &Observed) -> Step {
    let input = planner.input;
    let part = input.provider.part(input.scope, &observed.id);
    let name: Arc<str> = if part.is_some() { input.scope.name.clone() } else { observed.id.0.clone() };
    let mut words = vec!["foreign-delete"];
    words.extend(input.provider.guard_word(input.scope, &observed.id));
    Step {
        change: Change::Delete,
        id: observed.id.clone(),
        address: Address { namespace: None, kind: "Foreign".into(), group: None, name, part },
        reason: Reason::Commit(label(planner, None)),
        place: None,
        fields: Vec::new(),
        before: Some(observed.hash),
        after: None,
        blocked: None,
        guard_words: words,
        work: Work {
            desired: None,
            observed: Some(observed.clone()),
            row: None,
            was: None,
            delta: Default::default(),
        },
    }
}

fn step(planner: &Planner<'_>, change: Change, row: &Row, observed: Option<&Observed>) -> Step {
    let is_claim = row.manifest.source() == CLAIMS;
    Step {
        change,
        id: ResourceId(row.tracked.id.0.clone()),
        address: row.address.clone(),
        reason: if is_claim { Reason::Claim } else { Reason::Commit(label(planner, Some(row))) },
        place: None,
        fields: Vec::new(),
        before: observed.map(|o| o.hash),
        after: None,
        blocked: None,
        guard_words: Vec::new(),
        work: Work {
            desired: None,
            observed: observed.cloned(),
            row: Some(row.clone()),
            was: Some(row.clone()),
            delta: Default::default(),
        },
    }
}

fn label(planner: &Planner<'_>, row: Option<&Row>) -> Arc<str> {
    let sources = &planner.input.desired.sources;
    let source = match row {
        Some(row) => sources.get(row.manifest.source()),
        None => sources.values().next(),
    };
    source.map(|s| s.label.clone()).unwrap_or_default()
}
