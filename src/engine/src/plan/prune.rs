//! What is tracked and no longer desired, and what is nobody's.
//!
//! Invariant: a deletion needs a complete observation of all of the scope, a source that was read whole, and
//! a row of that very source. Everything else leaves the resource as it is.

use super::{
    Blocked, CLAIMS, CREATE_UNKNOWN, Change, Dependant, Elsewhere, Reason, ScopePlan, Step, Work,
    blocked::WAITING_FOR_MOVE,
    exclusive,
    guard_words::{FOREIGN_DELETE, PROTECTED},
    place,
    planner::Planner,
    remains,
    step::unplanned,
    step_for, unanswered,
};
use crate::{
    desired::SourceState,
    store::{Condition, Consent, OpenIntent, Row},
};
use reconciled_provider::{
    Address, Deletion, Delta, EntryPolicy, Error, Focus, Identity, LeftAlone, Marking, Merged, Observed,
    Origin, Owner, PolicyId, Resource, ResourceId, Spec, Whole,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Plans rows whose manifest no longer declares them.
pub(super) fn tracked_and_no_longer_desired(planner: &Planner<'_>, out: &mut ScopePlan) {
    let whole = planner.input.seen.complete && planner.input.seen.covered == Focus::All;
    let rows = &planner.input.memory.rows;
    // There is one resource for each id: where each row has its own, none is left.
    let left = if planner.declared_rows.get() == rows.len() { &[][..] } else { rows };
    for row in left {
        if planner.is_desired(&row.tracked.id) {
            continue;
        }
        if !planner.selects_row(row) {
            out.unlike += 1;
            continue;
        }
        let is_claim = row.manifest.source() == CLAIMS;
        if !is_claim && !may_prune(planner, row) {
            *out.frozen.entry(row.manifest.clone()).or_default() += 1;
            out.unlike += 1;
            continue;
        }
        match planner.seen.get(&row.tracked.id) {
            None if whole => gone(planner, row, out),
            Some(observed) if row.deletion == Deletion::Abandon && !is_claim => {
                abandon(planner, row, observed, out)
            }
            // It is left to others from now on.
            Some(observed) if !is_claim && is_let_go(planner, observed) => {
                out.steps.push(step_for::row(planner, Change::Forget, row, None))
            }
            Some(observed) if whole => delete(planner, row, observed, out),
            // It goes once all can be read.
            None | Some(_) => {
                let is_to_go = !planner.input.seen.complete && row.deletion != Deletion::Abandon && !is_claim;
                out.put_off += u32::from(is_to_go);
            }
        }
    }
    if !planner.input.memory.open.is_empty() {
        let creates = out.steps.iter().enumerate().filter(|(_, step)| step.change == Change::Create);
        let creates = creates.map(|(position, step)| (step.id.clone(), position)).collect();
        for open in &planner.input.memory.open {
            ambiguous(planner, open, &creates, out);
        }
    }
}

/// True when it is known that nobody declares the row's resource any more.
fn may_prune(planner: &Planner<'_>, row: &Row) -> bool {
    let input = planner.input;
    // Others may have declared values of a merged row, too.
    let all_spoke = !row.merge || input.shared.silent.is_empty();
    all_spoke
        && !is_aside(planner, &row.tracked.id)
        && input.desired.knows(&row.manifest, input.scope)
        && !is_elsewhere_by_error(planner, &row.tracked.id)
}

/// True where it is declared in another scope by now that only a manifest in error declares, such as a zone that went to another entry: what
/// is frozen there is still where it was.
fn is_elsewhere_by_error(planner: &Planner<'_>, id: &ResourceId) -> bool {
    let input = planner.input;
    let Some(Elsewhere { scope, .. }) = input.elsewhere.get(id) else { return false };
    // Scopes whose ids are names in one world have holders of one kind, whatever their providers.
    let Some(holder) = input.provider.holder(scope) else { return false };
    let is_declared = !input.desired.declaring(scope, &holder).is_empty();
    !is_declared && input.desired.set_aside.contains_key(&(scope.clone(), holder))
}

/// True where a file of another source may declare it by now, and is in error for something else; or a revision that is not in force.
pub(super) fn is_aside(planner: &Planner<'_>, id: &ResourceId) -> bool {
    let aside = &planner.input.desired.set_aside;
    !aside.is_empty() && aside.contains_key(&(planner.input.scope.clone(), id.clone()))
}

/// What is gone from the remote is remembered no longer once nothing is left of it, unless a write of ours may just not show yet, or
/// the entry may be put back to the place where it is.
fn gone(planner: &Planner<'_>, row: &Row, out: &mut ScopePlan) {
    match planner.unseen_until(row) {
        None if is_in_another_place(planner) => out.unlike += 1,
        // Its row goes with what is left of it.
        None if remains::delete(planner, row, out) => {}
        None => {
            remains::let_go(planner, row, out);
            out.lapsed.push(row.clone());
        }
        Some(at) => {
            let is_to_go = row.deletion != Deletion::Abandon && row.manifest.source() != CLAIMS;
            out.put_off += u32::from(is_to_go);
            let message = "no longer declared; written, not yet visible to reads";
            let told = Condition::waiting("NotYetVisible", message).next_try(at);
            out.conditions.push(about(row, told));
        }
    }
}

/// True where what is seen is not where the scope is remembered: that something is not there says nothing of the other place.
fn is_in_another_place(planner: &Planner<'_>) -> bool {
    place::is_another(planner.input.provider, planner.input.scope, planner.input.memory)
}

/// It is left to others as it is. Our mark would still say whose it is, so it goes with that where the provider can take it away:
/// a write like any other, which the guard counts and which waits where nothing may be written. Where the manifest itself forbade
/// that, nobody is left who could allow it.
fn abandon(planner: &Planner<'_>, row: &Row, observed: &Observed, out: &mut ScopePlan) {
    let may_write = !row.merge && row.writes >= EntryPolicy::UpsertOnly;
    if !(may_write
        && observed.owner == Owner::Ours
        && planner.input.provider.takes_marks_away(&row.tracked.id))
    {
        return out.steps.push(step_for::row(planner, Change::Forget, row, None));
    }
    let mut found = step_for::row(planner, Change::Abandon, row, Some(observed));
    found.work.delta = Delta::leaving().into();
    found.fields = found.work.delta.fields.clone();
    found.work.row = None;
    found.work.desired = Some(Resource::new(
        row.tracked.id.clone(),
        Arc::new(planner.input.scope.clone()),
        Spec::known(observed.bytes.clone()),
        Origin { manifest: u32::MAX, line: 0 },
        PolicyId::default(),
    ));
    if planner.input.policy < EntryPolicy::UpsertOnly {
        let blocked = Blocked::EntryPolicy(planner.input.policy);
        out.conditions.push(blocked.condition(&found));
        found.blocked = Some(blocked);
    }
    out.steps.push(found);
}

fn delete(planner: &Planner<'_>, row: &Row, observed: &Observed, out: &mut ScopePlan) {
    let mut rest = None;
    if row.merge {
        // Only our values go; what others put there stays.
        match shared_with_others(planner, row, observed) {
            Ok(merged) => rest = merged.map(|m| m.resource),
            Err(error) => {
                out.conditions.push(about(row, Condition::failed(&error)));
                return;
            }
        }
    }
    if let Owner::Other(other) = &observed.owner
        && (!row.merge || rest.is_none() && planner.is_owned_whole(observed))
    {
        // It was ours and somebody else marked it since: theirs to delete.
        let message = format!("no longer declared, but it carries the ownership mark of `{other}`");
        let hint = format!("to stop tracking it: reconciled forget {}", row.address);
        out.conditions.push(about(row, Condition::stalled("ManagementConflict", message).hint(hint)));
        return;
    }
    let mut found = match rest {
        Some(rest) if rest.spec.hash() == Some(observed.hash) => {
            out.lapsed.push(row.clone());
            return;
        }
        Some(rest) => leave(planner, row, observed, rest),
        None => step_for::row(planner, Change::Delete, row, Some(observed)),
    };
    if row.deletion == Deletion::Protect {
        found.guard_words.push(PROTECTED);
    }
    let source = planner.input.desired.sources.get(row.manifest.source());
    let is_unselected =
        |s: &SourceState| s.is_unselected(&row.manifest, planner.input.scope, &row.tracked.id);
    if source.is_some_and(is_unselected) {
        found.guard_words.push("host-unselected");
    }
    if let Some(word) = planner.input.provider.guard_word(planner.input.scope, &row.tracked.id) {
        found.guard_words.push(word);
    }
    // That others have a value there makes it no smaller a loss: ours goes either way.
    if planner.input.policy < EntryPolicy::Sync {
        found.blocked = Some(Blocked::EntryPolicy(planner.input.policy));
    } else {
        let elsewhere = || {
            let there = declared_elsewhere(planner, &row.tracked.id).filter(|there| !there.is_settled)?;
            Some(Blocked::Elsewhere(there.clone().into()))
        };
        found.blocked = still_needed(planner, row).or_else(elsewhere);
    }
    match &found.blocked {
        Some(blocked) => out.conditions.push(blocked.condition(&found)),
        None => out.conditions.extend(planner.refusal(&found.id, found.declared()).cloned()),
    }
    out.steps.push(found);
}

/// Why it stays for those that depend on its manifest. Where that declares other things by now, such as the same one at another
/// entry, they depend on these: once these are ready, it stays only for who was not written since.
fn still_needed(planner: &Planner<'_>, row: &Row) -> Option<Blocked> {
    let (input, on) = (planner.input, &row.manifest);
    let by = input.needed.get(on)?;
    if planner.declared(on).is_some() && input.ready.contains(on) {
        return input.stood_on.get(on).map(|by| Blocked::StandsOnFormer(by.clone()));
    }
    let depends = planner.declared(by).is_some_and(|manifest| manifest.after.contains(on));
    let is_declared = depends && planner.declared(on).is_some();
    let awaits = planner.awaited(by, on);
    let dependant = Dependant { on: on.clone(), by: by.clone(), awaits, is_declared };
    Some(Blocked::Dependant(dependant.into()))
}

/// Where it is declared and not settled yet, or not seen, so that its name would mean nothing without what is here. What takes its
/// place here is what the name means: it may be what the other scope waits for in turn.
fn declared_elsewhere<'p>(planner: &'p Planner<'_>, id: &ResourceId) -> Option<&'p Elsewhere> {
    let input = planner.input;
    let elsewhere = input.elsewhere.get(id)?;
    let of_declared = || input.effective.iter().filter_map(|one| input.provider.slot(&one.id)).collect();
    let slots = planner.slots.get_or_init(of_declared);
    let is_replaced =
        input.provider.slot(id).is_some_and(|slot| slot.clashing().any(|other| slots.contains(&other)));
    (!is_replaced).then_some(elsewhere)
}

/// True when it holds what others put there. Where the provider cannot tell, it may.
pub(super) fn holds_others(planner: &Planner<'_>, row: &Row, observed: &Observed) -> bool {
    !matches!(shared_with_others(planner, row, observed), Ok(None))
}

/// What is left of it without our values; none when nothing is.
fn shared_with_others(
    planner: &Planner<'_>,
    row: &Row,
    observed: &Observed,
) -> Result<Option<Merged>, Error> {
    let provider = planner.input.provider;
    let written = planner.written.get_or_init(|| unanswered::written(&planner.input.memory.open));
    let Some(left) = unanswered::without(provider, written, observed)? else { return Ok(None) };
    provider.merge(&[], Some(&left), Some(&row.tracked), &[])
}

/// Takes our values out of a resource that others share; nothing of it is tracked afterwards.
fn leave(planner: &Planner<'_>, row: &Row, observed: &Observed, rest: Resource) -> Step {
    let mut found = step_for::row(planner, Change::Update, row, Some(observed));
    if let Some(delta) = planner.input.provider.compare(&rest, observed) {
        found.fields = delta.fields.clone();
        found.work.delta = delta.into();
    }
    found.after = Some(rest.spec.template());
    found.work.desired = Some(rest);
    found.work.row = None;
    found
}

fn about(row: &Row, told: Condition) -> Condition {
    told.about(row.tracked.id.clone(), row.address.clone())
}

/// A create or replacement without an outcome, of a remote that assigns identity: a question to answer by
/// observing. A row does not answer it: what it remembers is the resource that was replaced or lost before.
fn ambiguous(
    planner: &Planner<'_>,
    open: &OpenIntent,
    creates: &BTreeMap<ResourceId, usize>,
    out: &mut ScopePlan,
) {
    let id = &open.intent.row.tracked.id;
    let info = planner.input.provider.info();
    let Identity::Assigned { client_token } = info.identity else { return };
    if !open.intent.makes_anew() || planner.seen.get(id).is_some() {
        return;
    }
    let tells = client_token || info.marking == Marking::Native;
    let Some(step) = creates.get(id).map(|position| &mut out.steps[*position]) else {
        // Nobody asks for it now. The question stays: whoever asks for it again must not make a second one.
        if !tells {
            out.unanswered.push(open.intent.action);
            let row = &open.intent.row;
            let message =
                "an earlier create may have succeeded, the remote cannot tell, and nothing asks for it now";
            let hint = format!(
                "look at the remote: if it is there, delete it there or declare it with its id as \
                 `reconciled/import`; then: reconciled forget {}",
                row.address
            );
            out.conditions.push(about(row, Condition::stalled(CREATE_UNKNOWN, message).hint(hint)));
        }
        return;
    };
    let same = step.work.desired.as_ref().and_then(|d| d.spec.hash()) == open.intent.after;
    if client_token && same {
        // The same request with the same token: the remote knows whether it has carried it out.
        return;
    }
    let visible_at = open.started_at + info.consistency_window;
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

/// `forget` bars adoption until the manifest is gone: known only when every source was read whole. What may bear our mark is
/// remembered as let go of from then on, until it is tracked again, bears the mark no more, or is declared and not there; in an
/// exclusive scope as long as it is there.
pub(super) fn words_that_end(planner: &Planner<'_>, out: &mut ScopePlan) {
    if planner.input.memory.consents.is_empty() || is_in_another_place(planner) {
        return;
    }
    let sources = &planner.input.desired.sources;
    let whole = !sources.is_empty() && sources.values().all(|s| s.is_sure() && s.unassigned.is_empty());
    for (id, consent) in &planner.input.memory.consents {
        match consent {
            Consent::Adopt { .. } => {}
            Consent::Barred if !whole || planner.is_desired(id) => {}
            Consent::Barred if is_left(planner, id) || !is_ours_no_more(planner, id) => {
                out.let_go.push(id.clone())
            }
            // Whoever wants the scope for itself would delete it with the next look.
            Consent::LetGo if is_left(planner, id) => {}
            Consent::LetGo
                if planner.row(id).is_none()
                    && !is_ours_no_more(planner, id)
                    && !is_gone_from_exclusive(planner, id) => {}
            Consent::Barred | Consent::LetGo => out.spent.push(id.clone()),
        }
    }
}

/// True where what was let go of is there, undeclared, in an exclusive scope.
fn is_left(planner: &Planner<'_>, id: &ResourceId) -> bool {
    let input = planner.input;
    let may_be_there =
        planner.seen.get(id).is_some() || !input.seen.complete || !input.seen.covered.covers(id);
    input.desired.exclusive.contains_key(input.scope)
        && may_be_there
        && !planner.is_desired(id)
        && planner.row(id).is_none()
}

/// True where the whole of an exclusive scope was seen, and it is not there: what is made by its name later is another thing.
fn is_gone_from_exclusive(planner: &Planner<'_>, id: &ResourceId) -> bool {
    let input = planner.input;
    exclusive::takes_all(input)
        && planner.seen.get(id).is_none()
        && input.seen.complete
        && input.seen.covered.covers(id)
}

/// True where it is seen not to bear our mark, or not to be there. What nobody declares or tracks may not have been looked for.
fn is_ours_no_more(planner: &Planner<'_>, id: &ResourceId) -> bool {
    let seen = &planner.input.seen;
    match planner.seen.get(id) {
        Some(observed) => observed.owner != Owner::Ours,
        None => planner.is_desired(id) && seen.complete && seen.covered.covers(id),
    }
}

/// Counts what is neither desired nor tracked; in an exclusive scope it shall go.
pub(super) fn foreign(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    let exclusive = input.desired.exclusive.contains_key(input.scope);
    let seen = input.seen.complete && input.seen.covered == Focus::All;
    // What a broken file or an unreachable source declares is not known to be foreign.
    let declared = input.desired.sources.values().all(|s| s.is_sure());
    let goes = exclusive && seen && declared && input.policy == EntryPolicy::Sync;
    for observed in &input.seen.resources {
        if planner.row(&observed.id).is_some()
            || planner.is_desired(&observed.id)
            || observed.owner == Owner::System
        {
            continue;
        }
        let marked = match &observed.owner {
            Owner::Other(other) => Some(other.clone()),
            _ => None,
        };
        let left = left_alone(planner, observed);
        if left == Some(LeftAlone::OfScope) {
            continue;
        }
        if left == Some(LeftAlone::Ignored) {
            out.ignored_count += 1;
            continue;
        }
        // Whoever said `forget` or `deletion: abandon` said that it stays.
        let was_let_go = || matches!(planner.consent(&observed.id), Some(Consent::Barred | Consent::LetGo));
        let stays = || was_let_go() || is_aside(planner, &observed.id);
        let may_go = goes && marked.is_none() && left.is_none() && !stays();
        if may_go && is_in_reach(planner, observed) {
            let step = foreign_delete(planner, observed);
            if planner.selects(&step.address, input.desired.exclusive_by(input.scope)) {
                out.steps.push(step);
                continue;
            }
        }
        out.foreign.push((observed.id.clone(), marked));
    }
    out.foreign_count = out.foreign.len() as u32;
}

/// True where a source that wants the scope for itself may write this resource: what the host denies it, it cannot delete by
/// leaving it out.
fn is_in_reach(planner: &Planner<'_>, observed: &Observed) -> bool {
    let (desired, scope) = (planner.input.desired, planner.input.scope);
    let wanting = desired.exclusive.get(scope).map_or(&[][..], Vec::as_slice);
    let reaches = |index: &u32| {
        let manifest = &desired.manifests[*index as usize];
        let Some(source) = desired.sources.get(manifest.key.source()) else { return false };
        let part = planner.input.provider.part(scope, &observed.id);
        let address = Address { part, ..manifest.address.clone() };
        source.reach.covers(scope, &address, manifest.key.group())
    };
    wanting.is_empty() || wanting.iter().any(reaches)
}

/// Whether what nobody declares is left to others, and why.
fn left_alone(planner: &Planner<'_>, observed: &Observed) -> Option<LeftAlone> {
    let rules = planner.input.desired.ignored.get(planner.input.scope).map_or(&[][..], Vec::as_slice);
    planner.input.provider.left_alone(planner.input.scope, rules, observed, planner.input.seen)
}

/// True for what is not deleted although we made it, once nothing of ours declares it.
fn is_let_go(planner: &Planner<'_>, observed: &Observed) -> bool {
    matches!(left_alone(planner, observed), Some(LeftAlone::Ignored | LeftAlone::OfScope))
}

/// Keeps what all others of the scope are in while one of them is there that this plan does not delete: it would go
/// with it, whoever it belongs to.
pub(super) fn keep_what_holds_others(planner: &Planner<'_>, out: &mut ScopePlan) {
    let scope = planner.input.scope;
    let Some(holder) = planner.input.provider.holder(scope) else { return };
    let goes = |step: &Step| step.change == Change::Delete && step.blocked.is_none();
    let Some(position) = out.steps.iter().position(|step| step.id == holder && goes(step)) else { return };
    let gone: BTreeSet<&ResourceId> = out.steps.iter().filter(|s| goes(s)).map(|step| &step.id).collect();
    let stays = |observed: &&Observed| {
        !gone.contains(&observed.id)
            && observed.owner != Owner::System
            && left_alone(planner, observed) != Some(LeftAlone::OfScope)
    };
    let kept: Vec<&Observed> = planner.input.seen.resources.iter().filter(stays).collect();
    let Some(first) = kept.first() else { return };
    let such_as = planner.input.provider.part(scope, &first.id).unwrap_or_else(|| first.id.0.clone());
    // What only stays for now keeps it no longer than that.
    let moves = |one: &Observed| planner.input.elsewhere.get(&one.id).filter(|there| !there.is_settled);
    let all_move = kept.iter().all(|one| moves(one).is_some());
    let blocked = match moves(first).filter(|_| all_move) {
        Some(elsewhere) => Blocked::Elsewhere(elsewhere.clone().into()),
        None => Blocked::NotEmpty { kept: kept.len(), such_as },
    };
    let step = &mut out.steps[position];
    out.conditions.push(blocked.condition(step));
    step.blocked = Some(blocked);
}

/// Keeps what is declared in another scope by now that this one hides, unless this one goes with it: its name would mean nothing,
/// however well it is there. Where what all of this one are in waits until others are there, it waits as long.
pub(super) fn keep_what_would_be_hidden(planner: &Planner<'_>, out: &mut ScopePlan) {
    let input = planner.input;
    if !input.elsewhere.values().any(|there| there.is_hidden) {
        return;
    }
    let may_go = |step: &Step| matches!(step.blocked, None | Some(Blocked::Elsewhere(_)));
    let holder = input.provider.holder(input.scope);
    let goes =
        |step: &&Step| step.change == Change::Delete && may_go(step) && holder.as_ref() == Some(&step.id);
    let waits_with = match out.steps.iter().find(goes).map(|holder| holder.blocked.clone()) {
        // All of it goes at once.
        Some(None) => return,
        found => found.flatten(),
    };
    for step in &mut out.steps {
        // Of what is gone itself no more than a mark is left.
        let is_there = !planner.is_desired(&step.id) && planner.seen.get(&step.id).is_some();
        let takes_away = is_there && matches!(step.change, Change::Delete | Change::Update);
        let is_free = if waits_with.is_some() { step.blocked.is_none() } else { may_go(step) };
        let there = declared_elsewhere(planner, &step.id);
        let Some(there) = there.filter(|there| there.is_hidden && takes_away && is_free) else { continue };
        let hidden = || Blocked::Hidden { by: input.scope.clone().into(), there: there.clone().into() };
        let blocked = waits_with.clone().unwrap_or_else(hidden);
        // That it is not there yet is nothing that a person has to mend.
        let waits =
            |told: &Condition| told.id.as_ref() == Some(&step.id) && *told.reason == *WAITING_FOR_MOVE;
        out.conditions.retain(|told| !waits(told));
        out.conditions.push(blocked.condition(step));
        step.blocked = Some(blocked);
    }
}

fn foreign_delete(planner: &Planner<'_>, observed: &Observed) -> Step {
    let input = planner.input;
    let mut words = vec![FOREIGN_DELETE];
    words.extend(input.provider.guard_word(input.scope, &observed.id));
    Step {
        change: Change::Delete,
        id: observed.id.clone(),
        address: foreign_address(planner, observed),
        reason: Reason::Commit(step_for::label(planner, None)),
        place: None,
        fields: Vec::new(),
        before: Some(observed.hash),
        after: None,
        blocked: None,
        guard_words: words,
        is_remade: false,
        goes_on: false,
        work: Work {
            desired: None,
            observed: Some(observed.clone().into()),
            row: None,
            was: None,
            delta: unplanned(),
        },
    }
}

/// What nobody declares is called as a part of the manifest by which it goes: by that name people can choose it and ask for
/// it. Where several say so, it is nobody's part.
fn foreign_address(planner: &Planner<'_>, observed: &Observed) -> Address {
    let input = planner.input;
    let part = input.provider.part(input.scope, &observed.id);
    if let Some(manifest) = input.desired.exclusive_by(input.scope) {
        let part = part.unwrap_or_else(|| observed.id.0.clone());
        return Address { part: Some(part), ..manifest.address.clone() };
    }
    let name: Arc<str> = if part.is_some() { input.scope.name.clone() } else { observed.id.0.clone() };
    let whole = Whole { namespace: None, kind: "Foreign".into(), group: None, name };
    Address { whole: whole.into(), part }
}
