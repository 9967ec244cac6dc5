//! `moved-from`: rows get the identity their manifest has now, and back where that is declared no more or a person keeps an
//! earlier revision.
//!
//! Guarantees: a row is moved only within its entry and kind, only from where its source may write, only when nothing
//! desires its old identity, nothing is tracked or being created under the new one, no other manifest says that it was moved from
//! it, and no call to the old one lacks its answer. What was to be moved and is not is told, as long as something of the entry is
//! left that it may have meant; neither it nor what has its new name is ended or written over before a person says so.
//! What is declared under a name that a row had before takes that row back, once nothing desires what it is called now: a move is
//! put down at once, also of a commit that is held or stopped, and taking such a commit back must find all as it was. Who says
//! `moved-from` comes first, then who has the later of its names; of several rows none is taken, nor one that is declared still, if for
//! others, or that is to be left to others. What a rollback keeps takes back the row of what was moved from it; where that is not
//! found, what would be made anew in its place is told. Only where the remote assigns identity: where the key says it all, what has
//! another key is another resource, and the old one has to go. It deliberately writes nothing: the move is a step of the plan. Nor does
//! it move what has to make room for another move (a chain, a swap): each scope commits its rows by itself, so that a death in between
//! would leave two rows of one name or none, and once names were swapped the annotations read as they did before. Of renames that took
//! each other's names, taken back at once, nothing is known: what has such a name by now is tracked under it.

mod asking;
mod formerly;
mod names;

use super::Survey;
use crate::{
    desired::{Desired, ManifestMeta},
    plan::{Change, Reason, Step},
    store::{Condition, MovedAway, Row, ScopeMemory},
};
use asking::{Asking, There, Unwanted, asking, refusal, rivals, unwanted};
use formerly::{awaited, left_to_others, once, unsure};
use names::{groupless, is_of_kind, means, names, was_called, whole};
use reconciled_provider::{Address, ResourceId, Scope, problem::did_you_mean};
use std::{
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    sync::Arc,
    time::Duration,
};

/// What `moved-from` comes to.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Addresses that rows were moved from, by where they are now.
    pub(super) moved: BTreeMap<(Scope, ResourceId), Address>,
    /// What says that it was moved and was not, though something is left that it may have been.
    lost: BTreeMap<(Scope, ResourceId), Lost>,
    /// What is moved once it is known what became of the calls to it.
    waiting: Vec<Waiting>,
    /// Scopes that rows were moved from, to other ones.
    left: BTreeSet<Scope>,
}

/// A move that is not made.
#[derive(Debug)]
struct Lost {
    /// Why, for people.
    why: Arc<str>,
    /// What stays under its old identity.
    old: Option<(Scope, ResourceId)>,
    /// What there is under the new one.
    there: There,
}

/// A move that cannot be made yet.
#[derive(Debug)]
struct Waiting {
    from: (Scope, ResourceId),
    to: (Scope, ResourceId),
    address: Address,
    why: Arc<str>,
}

/// Until a move that waits for an answer is tried again.
const AGAIN: Duration = Duration::from_secs(30);

impl Moves {
    /// Has what cannot be moved yet neither made anew, nor deleted or let go of.
    pub(super) fn put_off(&self, survey: &mut Survey, now: Duration) {
        let ends = |step: &Step| matches!(step.change, Change::Delete | Change::Abandon | Change::Forget);
        for Waiting { from, to, address, why } in &self.waiting {
            if let Some(Ok(view)) = survey.scopes.get_mut(&from.0) {
                let stays = |step: &Step| step.id != from.1 || !ends(step);
                view.plan.steps.retain(stays);
                view.plan.resumed.retain(stays);
            }
            let Some(Ok(view)) = survey.scopes.get_mut(&to.0) else { continue };
            let stays = |step: &Step| step.id != to.1 || step.change != Change::Create;
            view.plan.steps.retain(stays);
            view.plan.resumed.retain(stays);
            let told = Condition::waiting("MoveWaits", why.clone()).about(to.1.clone(), address.clone());
            view.plan.conditions.push(told.next_try(now + AGAIN));
            view.plan.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
        }
    }

    /// Has no suspension be over in a scope that was looked at without what was moved away from it.
    pub(super) fn leave_in_doubt(&self, survey: &mut Survey) {
        for scope in &self.left {
            if let Some(Ok(view)) = survey.scopes.get_mut(scope) {
                view.plan.looked.clear();
            }
        }
    }

    /// Why what was to be moved would be lost, by entry: it would be made anew or ended, or what has its name would be written over.
    pub(super) fn lost(&self, survey: &Survey) -> BTreeMap<Arc<str>, Vec<Arc<str>>> {
        let any = |(scope, id): (&Scope, &ResourceId), is: &dyn Fn(&Step) -> bool| {
            let Some(Ok(view)) = survey.scopes.get(scope) else { return false };
            view.plan.steps.iter().any(|step| step.id == *id && is(step))
        };
        // What is put off is judged once it is not.
        let ends = |step: &Step| matches!(step.change, Change::Delete | Change::Abandon) && step.is_guarded();
        let mut found: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        for ((scope, id), lost) in &self.lost {
            let goes_wrong = |step: &Step| match lost.there {
                There::Nothing => step.change == Change::Create,
                There::Asked => false,
                There::Tracked => {
                    let writes = matches!(step.change, Change::Create | Change::Update | Change::Replace);
                    writes && step.reason != Reason::Input && step.is_guarded()
                }
            };
            if any((scope, id), &goes_wrong) || lost.old.as_ref().is_some_and(|(s, id)| any((s, id), &ends)) {
                let texts = found.entry(scope.provider.clone()).or_default();
                if !texts.contains(&lost.why) {
                    texts.push(lost.why.clone());
                }
            }
        }
        found
    }

    fn lose(&mut self, asking: &Asking<'_>, old: Option<(Scope, ResourceId)>, why: String) {
        let lost = Lost { why: why.into(), old, there: asking.there };
        self.lost.insert((asking.scope.clone(), asking.resource.id.clone()), lost);
    }

    /// Gives the row at `index` of `old_scope` the identity of what `asking` declares.
    fn carry(
        &mut self,
        memories: &mut BTreeMap<Scope, ScopeMemory>,
        asking: &Asking<'_>,
        old_scope: Scope,
        index: usize,
    ) {
        let Asking { scope, resource, manifest, .. } = *asking;
        let Some(memory) = memories.get_mut(&old_scope) else { return };
        let mut row = Arc::make_mut(&mut memory.rows).remove(index);
        let old_id = std::mem::replace(&mut row.tracked.id, resource.id.clone());
        // Also while what is declared of it waits it is frozen, for other hosts, and referred to by its manifest of now.
        if row.manifest.source() == manifest.key.source() {
            (row.manifest, row.file) = (manifest.key.clone(), manifest.file.clone());
        }
        row.scope = scope.clone().into();
        row.formerly.retain(|name| *name != manifest.address);
        if row.address != manifest.address {
            row.know_as(&row.address.clone());
        }
        self.moved.insert((scope.clone(), resource.id.clone()), row.address.clone());
        if old_scope != *scope {
            self.left.insert(old_scope.clone());
        }
        let target = memories.entry(scope.clone()).or_default();
        let rows = Arc::make_mut(&mut target.rows);
        rows.push(row);
        rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
        target.moved_away.push(MovedAway { id: resource.id.clone(), scope: old_scope, was: old_id });
    }
}

/// Rows that a manifest says it was moved from get its identity, so that a rename is no delete and create.
///
/// `assigns` says of an entry whether its remote assigns identity.
pub(super) fn moves(
    desired: &Desired,
    memories: &mut BTreeMap<Scope, ScopeMemory>,
    assigns: impl Fn(&str) -> bool,
) -> Moves {
    let mut moves = Moves::default();
    let says_nothing = desired.pinned.is_empty() && desired.manifests.iter().all(|m| m.moved_from.is_none());
    let were_moved = |(scope, memory): (&Scope, &ScopeMemory)| {
        assigns(&scope.provider) && memory.rows.iter().any(|row| !row.formerly.is_empty())
    };
    if says_nothing && !memories.iter().any(were_moved) {
        return moves;
    }
    let wanted: BTreeSet<(Scope, ResourceId)> = desired
        .scopes
        .iter()
        .filter(|(scope, _)| assigns(&scope.provider))
        .flat_map(|(s, list)| list.iter().map(move |r| (s.clone(), r.id.clone())))
        .collect();
    let all = asking(desired, memories, &wanted, &assigns);
    let (new, taken): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.there == There::Nothing);
    let mut unfound = Vec::new();
    for one in &new {
        let Asking { scope, resource, manifest, .. } = *one;
        if moves.moved.contains_key(&(scope.clone(), resource.id.clone())) {
            continue;
        }
        let left = || unwanted(memories, &wanted, &scope.provider);
        let once = once(desired, &new, left(), one);
        let Some((old_scope, index, row)) = before(desired, memories, left(), &once, one) else {
            let why = kept_back(desired, memories, left(), one).or_else(|| unsure(&once, one));
            match (why, manifest.moved_from.as_ref()) {
                (Some(why), _) => moves.lose(one, None, why),
                (None, Some(from)) => unfound.push((one, from)),
                (None, None) => {}
            }
            continue;
        };
        let old = (old_scope.clone(), row.tracked.id.clone());
        if let Some(why) = refused(desired, &new, one, old_scope, row) {
            moves.lose(one, Some(old), why);
            continue;
        }
        let why = match (index, awaited(desired, one, row)) {
            (Some(index), None) => {
                moves.carry(memories, one, old.0, index);
                continue;
            }
            (_, Some(other)) => {
                let was = &row.address;
                format!("moves back from {was} once it is known that source {other} does not declare that")
            }
            (None, None) => format!("moves from {} once an earlier call to that has its answer", row.address),
        };
        moves.waiting.push(Waiting {
            from: old,
            to: (scope.clone(), resource.id.clone()),
            address: manifest.address.clone(),
            why: why.into(),
        });
    }
    let left: Vec<(&Scope, &Row)> = memories
        .iter()
        .filter(|(scope, _)| assigns(&scope.provider))
        .flat_map(|(scope, memory)| memory.rows.iter().map(move |row| (scope, row)))
        .filter(|(scope, row)| !wanted.contains(&((*scope).clone(), row.tracked.id.clone())))
        .collect();
    for (one, from) in unfound {
        // Where nothing is left over, as in a new state, the annotation is history and there is nothing to lose.
        let left = left.iter().filter(|(s, _)| s.provider == one.scope.provider);
        let left: BTreeSet<String> = left.map(|(_, row)| row.address.to_string()).collect();
        if !left.is_empty() {
            let text = unfound_text(desired, memories, &moves, one, from, &left);
            moves.lose(one, None, text);
        }
    }
    without_room(desired, &taken, &left, &mut moves);
    moves
}

/// What of all that is `left` this was before. Without a place among the rows where a call to it has no answer.
fn before<'m>(
    desired: &Desired,
    memories: &BTreeMap<Scope, ScopeMemory>,
    left: impl Iterator<Item = Unwanted<'m>> + Clone,
    once: &[Unwanted<'m>],
    one: &Asking<'_>,
) -> Option<Unwanted<'m>> {
    let Asking { manifest, is_kept, .. } = *one;
    let from = manifest.moved_from.as_ref();
    let named = left.clone().find(|(_, _, row)| from.is_some_and(|from| means(from, row)));
    let only = || match once {
        [only] => Some(*only),
        _ => None,
    };
    // What the newest revision moved away from here, and a person has go back.
    let went = |s: &Scope, row: &Row| {
        desired.pinned.contains_key(&(s.clone(), row.tracked.id.clone()))
            && declares(desired, row).is_some_and(|heir| was_moved(heir, manifest))
    };
    let old = named.or_else(only).or_else(|| left.clone().find(|(s, _, row)| is_kept && went(s, row)));
    // A row of which a call has no answer cannot be moved any more than what may have no row.
    let is_open = |(s, _, row): &Unwanted<'_>| {
        let open = |m: &ScopeMemory| m.open.iter().any(|o| o.intent.row.tracked.id == row.tracked.id);
        memories.get(*s).is_some_and(open)
    };
    old.map(|old| if is_open(&old) { (old.0, None, old.2) } else { old })
}

/// Why what was not found must not be made anew: a person keeps what is `left` and it may have been, or what it names.
fn kept_back<'m>(
    desired: &Desired,
    memories: &BTreeMap<Scope, ScopeMemory>,
    mut left: impl Iterator<Item = Unwanted<'m>>,
    one: &Asking<'_>,
) -> Option<String> {
    let Asking { scope, manifest, is_kept, .. } = *one;
    let is_pinned = |s: &Scope, row: &Row| desired.pinned.contains_key(&(s.clone(), row.tracked.id.clone()));
    let goes = |(s, _, row): &Unwanted<'_>| is_of_kind(&row.manifest, &manifest.key) && is_pinned(s, row);
    if let Some((_, _, row)) = left.find(|one| is_kept && goes(one)) {
        let (address, other) = (&manifest.address, &row.address);
        return Some(format!(
            "the rollback would make {address} anew and delete {other}, which may be the same under another \
             name"
        ));
    }
    let from = manifest.moved_from.as_ref()?;
    let mut rows = memories.iter().flat_map(|(s, m)| m.rows.iter().map(move |row| (s, row)));
    let (_, row) =
        rows.find(|(s, row)| is_pinned(s, row) && s.provider == scope.provider && means(from, row))?;
    Some(format!(
        "`reconciled/moved-from: {from}` names what a rollback keeps; to let it go on: reconciled resume {}",
        row.address
    ))
}

/// Why what `row` tracks in `old_scope` does not become what `one` of the `new` declares, if it must not.
fn refused(
    desired: &Desired,
    new: &[Asking<'_>],
    one: &Asking<'_>,
    old_scope: &Scope,
    row: &Row,
) -> Option<String> {
    let ManifestMeta { key, address, moved_from, .. } = one.manifest;
    if let Some(why) = refusal(desired, old_scope, row, key) {
        let was = |from: &&Address| means(from, row) || was_called(from, row);
        return Some(match moved_from.as_ref().filter(was) {
            Some(from) => format!("`reconciled/moved-from: {from}` does not move {}: {why}", row.address),
            None if one.is_kept => format!("the rollback does not move {} to {address}: {why}", row.address),
            None => format!("{} is not moved back to {address}: {why}", row.address),
        });
    }
    let rivals = rivals(desired, new, old_scope, row);
    let several = (rivals.len() > 1).then(|| {
        format!(
            "{} cannot be moved to each of {}: leave `reconciled/moved-from` out in all of them but one",
            row.address,
            rivals.into_values().collect::<Vec<_>>().join(", ")
        )
    });
    several.or_else(|| left_to_others(desired, one, row))
}

/// What is told of a word that names nothing, where these are `left`.
fn unfound_text(
    desired: &Desired,
    memories: &BTreeMap<Scope, ScopeMemory>,
    moves: &Moves,
    one: &Asking<'_>,
    from: &Address,
    left: &BTreeSet<String>,
) -> String {
    let here = memories.iter().filter(|(s, _)| s.provider == one.scope.provider);
    let mut rows = here.flat_map(|(s, memory)| memory.rows.iter().map(move |row| (s, row)));
    let is_moved = |s: &Scope, row: &Row| moves.moved.contains_key(&(s.clone(), row.tracked.id.clone()));
    let declared = rows.find(|(s, row)| means(from, row) && !is_moved(s, row));
    if let Some(still) = declared.and_then(|(s, row)| desired.declaring(s, &row.tracked.id).first()) {
        let ManifestMeta { file, line, .. } = desired.manifest(still.origin);
        return format!(
            "`reconciled/moved-from: {from}` names what {file}:{line} declares still; where its name goes to another one, \
             move it in a commit before"
        );
    }
    let near = did_you_mean(&from.to_string(), left.iter().map(String::as_str));
    let hint = match (near, left.len()) {
        (Some(near), _) => format!("did you mean {near}?"),
        (None, 1) => format!("what nothing declares any more is {}", left.iter().next().map_or("", |l| l)),
        (None, most) => format!("{most} that nothing declares any more are tracked"),
    };
    format!("`reconciled/moved-from: {from}` names nothing that could be moved; {hint}")
}

/// Tells of moves whose new identity is `taken`, unless what they name is there no more: then the annotation is history.
fn without_room(desired: &Desired, taken: &[Asking<'_>], left: &[(&Scope, &Row)], moves: &mut Moves) {
    let circles = Circles::of(taken);
    // There may be as many words that are history as rows that are left over.
    let named = |entry: &Arc<str>, address: &Address| (entry.clone(), groupless(address));
    let mut by_name: BTreeMap<_, Vec<&(&Scope, &Row)>> = BTreeMap::new();
    for one in left.iter().filter(|_| !taken.is_empty()) {
        by_name.entry(named(&one.0.provider, &one.1.address)).or_default().push(one);
    }
    for one in taken {
        let Some(from) = &one.manifest.moved_from else { continue };
        let address = &one.manifest.address;
        let mut rows = by_name.get(&named(&one.scope.provider, from)).into_iter().flatten();
        if let Some((s, row)) = rows.find(|(_, row)| means(from, row)) {
            let why = match (refusal(desired, s, row, &one.manifest.key), one.there) {
                (Some(why), _) => why.to_string(),
                (None, There::Asked) => {
                    format!("a call that may have made {address} has no answer yet")
                }
                (None, _) => format!(
                    "{address} is tracked already; move that or let it go in a commit before, or leave the annotation out"
                ),
            };
            let text = format!("`reconciled/moved-from: {from}` does not move {}: {why}", row.address);
            moves.lose(one, Some(((*s).clone(), row.tracked.id.clone())), text);
        } else if circles.has(one, from) {
            let text = format!(
                "`reconciled/moved-from: {from}` of {address} moves nothing: by such words names go round in a circle; move \
                 one of them to a third name in a commit before, or leave the annotation out"
            );
            moves.lose(one, None, text);
        }
    }
}

/// Where tracked resources say that they were moved from, by who they are: entry and address, with the group.
struct Circles(BTreeMap<(Arc<str>, Address), Address>);

impl Circles {
    fn of(taken: &[Asking<'_>]) -> Circles {
        let tracked = taken.iter().filter(|one| one.there == There::Tracked);
        let step = |one: &Asking<'_>| {
            let entry = one.scope.provider.clone();
            let group = one.manifest.key.group();
            let from = one.manifest.moved_from.as_ref()?;
            Some(((entry, whole(&one.manifest.address, group)), whole(from, group)))
        };
        Circles(tracked.filter_map(step).collect())
    }

    /// True where what `one` was moved `from` was moved from it, maybe with others between.
    fn has(&self, one: &Asking<'_>, from: &Address) -> bool {
        let entry = &one.scope.provider;
        let (itself, from) =
            (whole(&one.manifest.address, one.manifest.key.group()), whole(from, one.manifest.key.group()));
        let before = |at: &Address| self.0.get(&(entry.clone(), at.clone())).cloned();
        one.there == There::Tracked
            && from != itself
            && successors(before(&from), before).take(self.0.len()).any(|at| at == itself)
    }
}

/// The manifest that declares, or declared in the newest revision, what this row tracks.
fn declares<'d>(desired: &'d Desired, row: &Row) -> Option<&'d ManifestMeta> {
    let whole = row.address.without_part();
    let of_row = |m: &&ManifestMeta| m.key == row.manifest || m.address == whole;
    desired.manifests.iter().find(of_row)
}

/// True when `heir` says that it was moved from what `manifest` declares.
fn was_moved(heir: &ManifestMeta, manifest: &ManifestMeta) -> bool {
    heir.moved_from.as_ref().is_some_and(|from| names(from, &manifest.address, &manifest.key))
}

#[cfg(test)]
mod tests;
