//! The guard: how much one revision may change in one domain without a person's consent.

use super::{
    Change, Exclusive, Reason, ScopePlan, Step,
    digest::digest,
    exclusive,
    guard_words::{ADOPTED, ANOTHER_PLACE, BY_HAND, FOREIGN_DELETE, PROTECTED, RECOVERED},
};
use crate::{
    desired::{Desired, SourceState},
    ready,
    store::Row,
};
use reconciled_provider::{Deletion, GuardDomain, Hash, Identity, ProviderInfo, Scope, Slot};
use std::{collections::BTreeSet, sync::Arc};

/// Limits of one domain: the host's alone. A manifest adds to them by what it says of itself, such as `deletion: protect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardLimits {
    /// Most deletes.
    pub max_deletes: u32,
    /// Most deletes as a share of what is tracked, in percent; counts from 3 deletes on.
    pub max_delete_percent: u32,
    /// Most updates.
    pub max_updates: u32,
    /// Most updates as a share of what is tracked, in percent; counts from 3 updates on.
    pub max_update_percent: u32,
    /// Words that are always held.
    pub always: Vec<Arc<str>>,
}

impl Default for GuardLimits {
    fn default() -> GuardLimits {
        let always = ["foreign-delete", "zone-delete", "apex-ns", "protected", "host-unselected"];
        GuardLimits {
            max_deletes: 5,
            max_delete_percent: 20,
            max_updates: 20,
            max_update_percent: 30,
            always: always.iter().map(|w| Arc::from(*w)).collect(),
        }
    }
}

/// The domain a scope is counted in: itself, or its entry.
pub fn domain(info: &ProviderInfo, scope: &Scope) -> Arc<str> {
    match info.guard {
        GuardDomain::Scope => scope.to_string().into(),
        GuardDomain::Provider | GuardDomain::Apart => scope.provider.clone(),
    }
}

/// Creates, updates, replaces, deletes that the guard counts.
pub type Counts = [u32; 4];

/// What the guard says of one domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Digest of the guarded steps; none when there are none.
    pub digest: Option<Hash>,
    /// What was counted.
    pub counts: Counts,
    /// Why it is held, one line each; empty when it may go on.
    pub reasons: Vec<Arc<str>>,
}

impl Verdict {
    /// True when a person must consent.
    pub fn is_held(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// What a revision changes and cannot be told now, of scopes or of manifests that cannot be read: nothing of it can be done, and it
/// counts with what can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// What is tracked there.
    pub tracked: u32,
    /// What is declared there.
    pub declared: u32,
    /// What is declared otherwise than it was applied.
    pub updates: u32,
    /// What is no longer declared.
    pub deletes: u32,
    /// What is frozen, in a domain of which something is held already: it may be a part of that.
    pub frozen: u32,
}

/// How much in these plans is frozen because its source was not read whole, a newer revision of it is not in force, or another source of
/// its repository is behind: what takes a change back may be refused, and of one of its files nothing may be known.
pub fn frozen(desired: &Desired, plans: &[&ScopePlan]) -> u32 {
    let is_in_doubt = |source: &str| {
        desired.sources.get(source).is_some_and(|source| !source.is_sure() || source.newest.is_some())
    };
    let frozen = plans.iter().flat_map(|plan| &plan.frozen).filter(|(key, _)| is_in_doubt(key.source()));
    frozen.map(|(_, count)| *count as u32).sum()
}

/// True where something in these plans is frozen since its source was not asked.
pub fn is_unasked(desired: &Desired, plans: &[&ScopePlan]) -> bool {
    plans.iter().flat_map(|plan| plan.frozen.keys()).any(|key| desired.unasked.contains(key.source()))
}

impl Unread {
    /// Adds a scope of which `rows` are remembered.
    pub fn add(&mut self, desired: &Desired, scope: &Scope, rows: &[Row]) {
        self.declared += desired.in_scope(scope).len() as u32;
        for row in rows {
            self.tracked += 1;
            match desired.declaring(scope, &row.tracked.id).first() {
                Some(declared) => {
                    self.updates += u32::from(!ready::is_of_declaration(desired, declared, row));
                }
                None => {
                    let is_known = desired.knows(&row.manifest, scope);
                    self.deletes += u32::from(is_known && row.deletion != Deletion::Abandon);
                }
            }
        }
    }
}

/// Judges the plans of one domain together, with what cannot be read of it.
///
/// `atomic`: a batch of this provider takes effect wholly or not at all, so that what it replaces is never
/// missing. `slot` is [`reconciled_provider::Observer::slot`].
pub fn judge(
    limits: &GuardLimits,
    desired: &Desired,
    plans: &[&ScopePlan],
    unread: Unread,
    atomic: bool,
    slot: impl Fn(&Step) -> Option<Slot>,
) -> Verdict {
    let guarded: Vec<Guarded<'_>> = plans
        .iter()
        .flat_map(|p| p.steps.iter().map(|s| (&p.scope, s)))
        .filter(|(_, step)| step.is_guarded())
        .collect();
    let counted = count(plans, &guarded, unread, atomic, slot);
    let mut reasons = too_many(limits, &counted);
    if unread.frozen > 0 && guarded.iter().any(|(_, step)| !is_input(step)) {
        let are = if unread.frozen == 1 { "1 is".to_owned() } else { format!("{} are", unread.frozen) };
        reasons.push(format!("{are} frozen and may be a part of what was held before").into());
    }
    reasons.extend(always(limits, plans, &guarded));
    reasons.extend(in_doubt(desired, &guarded));
    reasons.extend(unwritten(desired, (plans, unread), &guarded, counted.deletes));
    reasons.extend(by_source(desired, &guarded));
    Verdict { digest: digest(plans.iter().copied()), counts: counted.counts, reasons }
}

/// A step that the guard counts, with its scope.
type Guarded<'a> = (&'a Scope, &'a Step);

/// How much there is in a domain.
struct Counted {
    counts: Counts,
    updates: Count,
    deletes: Count,
    tracked: u32,
    /// Somebody changed something: an input that moved is no part of that.
    acts: bool,
}

/// Counts what is guarded, with what of the same change is put off or cannot be read.
fn count(
    plans: &[&ScopePlan],
    guarded: &[Guarded<'_>],
    unread: Unread,
    atomic: bool,
    slot: impl Fn(&Step) -> Option<Slot>,
) -> Counted {
    let taken = guarded
        .iter()
        .filter(|(_, s)| s.work.was.is_none() && matches!(s.change, Change::Update | Change::Replace));
    let tracked = plans.iter().map(|p| p.tracked as u32).sum::<u32>() + taken.count() as u32 + unread.tracked;
    // Only what comes in the same batch takes a place at once: a create that waits does not.
    let mut all = plans.iter().flat_map(|plan| plan.steps.iter().chain(&plan.unselected));
    let deletes_any = all.any(|step| step.change == Change::Delete);
    let created: BTreeSet<(&Scope, Slot)> = guarded
        .iter()
        .filter(|(_, s)| deletes_any && s.change == Change::Create && s.blocked.is_none())
        .filter_map(|(scope, s)| Some((*scope, slot(s)?)))
        .collect();
    let weight = |scope: &Scope, step: &Step| match step.change {
        Change::Update | Change::Continue | Change::Abandon => Some(Weight::Update),
        // One transaction that puts something else in its place is a change, not a loss.
        Change::Replace => Some(if atomic { Weight::Update } else { Weight::Delete }),
        // Like an abandonment it takes no more away than our mark.
        Change::Delete if step.ends_remains() => Some(Weight::Update),
        Change::Delete => {
            let is_taken = |other| created.contains(&(scope, other));
            let swapped = atomic && slot(step).is_some_and(|s| s.clashing().any(is_taken));
            Some(if swapped { Weight::Update } else { Weight::Delete })
        }
        _ => None,
    };
    let mut counts: Counts = [0; 4];
    let (mut updates, mut deletes) =
        (Count { now: 0, besides: unread.updates }, Count { now: 0, besides: unread.deletes });
    for (scope, step) in guarded {
        match step.change {
            Change::Create => counts[0] += 1,
            Change::Update | Change::Continue | Change::Abandon => counts[1] += 1,
            Change::Replace => counts[2] += 1,
            Change::Delete | Change::EndFormer => counts[3] += 1,
            _ => {}
        }
        match weight(scope, step) {
            Some(Weight::Update) => updates.now += 1,
            Some(Weight::Delete) => deletes.now += 1,
            None => {}
        }
    }
    for plan in plans {
        deletes.besides += plan.put_off;
        let put_off = plan.steps.iter().filter(|step| step.is_put_off());
        for step in put_off.chain(&plan.unselected) {
            match weight(&plan.scope, step) {
                Some(Weight::Update) => updates.besides += 1,
                Some(Weight::Delete) => deletes.besides += 1,
                None => {}
            }
        }
    }
    let acts = guarded.iter().any(|(scope, step)| !is_input(step) && weight(scope, step).is_some());
    Counted { counts, updates, deletes, tracked, acts }
}

/// Of a change that is too large no part goes on by itself, whichever kind of change that part is. An input that moved is no part
/// of what somebody changed: it counts with its own kind.
fn too_many(limits: &GuardLimits, counted: &Counted) -> Vec<Arc<str>> {
    let Counted { updates, deletes, tracked, acts, .. } = *counted;
    let mut reasons = Vec::new();
    if acts || deletes.now > 0 {
        reasons.extend(over(
            deletes,
            tracked,
            limits.max_deletes,
            limits.max_delete_percent,
            "deletes",
            "maxDeletes",
            "maxDeletePercent",
        ));
    }
    if acts || updates.now > 0 {
        reasons.extend(over(
            updates,
            tracked,
            limits.max_updates,
            limits.max_update_percent,
            "updates",
            "maxUpdates",
            "maxUpdatePercent",
        ));
    }
    reasons
}

/// What is always held.
fn always(limits: &GuardLimits, plans: &[&ScopePlan], guarded: &[Guarded<'_>]) -> Vec<Arc<str>> {
    let words: Vec<&'static str> = guarded.iter().flat_map(|(_, s)| words(s)).collect();
    let mut reasons = Vec::new();
    for word in &limits.always {
        let hits = words.iter().filter(|w| **w == &**word).count();
        if hits > 0 {
            let which = if &**word == PROTECTED { protected(guarded) } else { String::new() };
            reasons.push(format!("{hits} × `{word}` (guard.always){which}").into());
        }
    }
    // Who does without the word has not seen yet what goes.
    let first = first_foreign(plans);
    if first > 0 && !limits.always.iter().any(|word| **word == *FOREIGN_DELETE) {
        let text = "the first here by `exclusive` or `purge`, whatever guard.always says";
        reasons.push(format!("{first} × `{FOREIGN_DELETE}`, {text}").into());
    }
    reasons
}

/// How much of what it counts goes by `exclusive` or `purge` for the first time.
fn first_foreign(plans: &[&ScopePlan]) -> usize {
    let first = plans.iter().filter(|plan| plan.exclusive != Exclusive::AsBefore);
    first.flat_map(|plan| &plan.steps).filter(|step| step.is_guarded() && exclusive::is_foreign(step)).count()
}

/// What memory alone does not answer for.
fn in_doubt(desired: &Desired, guarded: &[Guarded<'_>]) -> Vec<Arc<str>> {
    let mut reasons = Vec::new();
    let by_hand = guarded.iter().filter(|(_, s)| s.guard_words.contains(&BY_HAND)).count();
    if by_hand > 0 {
        reasons.push(format!("{by_hand} changed by hand while suspended").into());
    }
    let elsewhere: Vec<_> = guarded.iter().filter(|(_, s)| s.guard_words.contains(&ANOTHER_PLACE)).collect();
    if let Some((scope, _)) = elsewhere.first() {
        let is = if elsewhere.len() == 1 { "is not as it was" } else { "are not as they were" };
        let (entry, count) = (&scope.provider, elsewhere.len());
        let may_be = "and may be somebody else's";
        reasons.push(format!("`{entry}` points to another place, where {count} {is} left, {may_be}").into());
    }
    let is_kept = |(scope, step): &&Guarded<'_>| {
        step.guard_words.contains(&RECOVERED) && is_put_back(desired, scope, step)
    };
    let kept = guarded.iter().filter(is_kept).count();
    if kept > 0 {
        let text = format!("the state was recovered: {kept} rolled back in it may have been resumed since");
        reasons.push(text.into());
    }
    reasons
}

/// What nobody wrote into a manifest.
fn unwritten(
    desired: &Desired,
    (plans, unread): (&[&ScopePlan], Unread),
    guarded: &[Guarded<'_>],
    deletes: Count,
) -> Vec<Arc<str>> {
    let mut reasons = Vec::new();
    // Nobody asks for that: a new version of a provider, or a hand elsewhere, would delete what holds data. What else of it a commit or
    // an input changes is no consent to the loss.
    let remade = guarded.iter().filter(|(_, s)| s.is_remade && s.is_remade_for_drift()).count();
    if remade > 0 {
        reasons.push(format!("{remade} × drift would be healed by deleting and making anew").into());
    }
    let is_empty = || plans.iter().all(|p| desired.in_scope(&p.scope).is_empty());
    if deletes.now > 0 && unread.declared == 0 && is_empty() {
        reasons.push("the desired state became empty".into());
    }
    if guarded.iter().any(|(_, s)| s.reason == Reason::Upgrade) {
        reasons.push("a new version of reconciled sees differences that no commit made".into());
    }
    reasons
}

/// What is held because of how the host has its source.
fn by_source(desired: &Desired, guarded: &[Guarded<'_>]) -> Vec<Arc<str>> {
    let mut reasons = Vec::new();
    let source = |step: &Step| source_of(desired, step);
    if guarded.iter().any(|(_, s)| source(s).is_some_and(|source| source.needs_consent)) {
        reasons.push("the source says `apply: approve`".into());
    }
    let moved = |step: &Step| step.change == Change::Delete && source(step).is_some_and(|s| s.path_changed);
    if guarded.iter().any(|(_, s)| moved(s)) {
        reasons
            .push("the source's `path` or `ignore` changed, and with it what is no longer declared".into());
    }
    reasons
}

/// Which ones are protected, and that some are because they are to be abandoned: that may be the default of their type.
fn protected(guarded: &[(&Scope, &Step)]) -> String {
    const NAMED: usize = 3;
    let all: Vec<&Step> = guarded
        .iter()
        .map(|(_, step)| *step)
        .filter(|step| words(step).any(|word| word == PROTECTED))
        .collect();
    let name = |step: &&Step| {
        let row = step.work.was.as_ref().or(step.work.row.as_ref());
        match row.map(|row| row.deletion) {
            Some(Deletion::Abandon) => format!("{} (to be abandoned, not deleted)", step.address),
            _ => step.address.to_string(),
        }
    };
    let mut names: Vec<String> = all.iter().take(NAMED).map(name).collect();
    if all.len() > NAMED {
        names.push(format!("{} more", all.len() - NAMED));
    }
    format!(": {}", names.join(", "))
}

/// True for what a moved input changes and no commit: a secret was rotated, an output is another one.
fn is_input(step: &Step) -> bool {
    step.reason == Reason::Input && step.change == Change::Update && step.is_guarded()
}

/// The word on what is held besides the inputs that moved, where those by themselves are not too much: they go on, as the repair
/// of drift does, and the digest of what is held is not another one for them. None where they wait with the rest.
pub fn beside_inputs(plans: &[&ScopePlan], judge: impl Fn(&[&ScopePlan]) -> Verdict) -> Option<Verdict> {
    let only = |wanted: bool| -> Vec<ScopePlan> {
        let part = |plan: &ScopePlan| {
            let steps = plan.steps.iter().filter(|step| !step.is_guarded() || is_input(step) == wanted);
            ScopePlan { steps: steps.cloned().collect(), ..plan.clone() }
        };
        plans.iter().map(|plan| part(plan)).collect()
    };
    if !plans.iter().any(|plan| plan.steps.iter().any(is_input)) {
        return None;
    }
    let inputs = only(true);
    if judge(&inputs.iter().collect::<Vec<_>>()).is_held() {
        return None;
    }
    let rest = only(false);
    // What is too much only together is held together.
    Some(judge(&rest.iter().collect::<Vec<_>>())).filter(Verdict::is_held)
}

/// The word on a whole domain, and whether inputs that moved go on beside what it holds.
pub fn word(plans: &[&ScopePlan], judge: impl Fn(&[&ScopePlan]) -> Verdict) -> (Verdict, bool) {
    let whole = judge(plans);
    match whole.is_held().then(|| beside_inputs(plans, judge)).flatten() {
        Some(beside) => (beside, true),
        None => (whole, false),
    }
}

/// Says in a plan whether the inputs that moved go on beside what is held.
pub fn let_inputs_go_on(plan: &mut ScopePlan, go_on: bool) {
    for step in &mut plan.steps {
        // What was said before is no reason: the word on a whole domain takes the place of that on a part.
        step.goes_on = false;
        step.goes_on = go_on && is_input(step);
    }
}

/// Has the guard count what it does not count elsewhere: what a recovered memory would make again, since it may be there by
/// another identity that is not remembered, or end, and what it keeps at an earlier revision, since a person may have let that go on
/// after all that it remembers; and what is taken over for a source that says `apply: approve`, since it
/// could be deleted afterwards.
pub fn doubt(plan: &mut ScopePlan, desired: &Desired, info: &ProviderInfo, is_recovering: bool) {
    let is_assigned = matches!(info.identity, Identity::Assigned { .. });
    let scope = plan.scope.clone();
    for step in plan.steps.iter_mut().chain(&mut plan.resumed) {
        let word = match step.change {
            Change::Create if is_recovering && is_assigned && step.reason == Reason::Restore => RECOVERED,
            Change::EndFormer if is_recovering => RECOVERED,
            _ if is_recovering && step.change.writes() && is_put_back(desired, &scope, step) => RECOVERED,
            Change::Adopt if source_of(desired, step).is_some_and(|source| source.needs_consent) => ADOPTED,
            _ => continue,
        };
        if !step.guard_words.contains(&word) {
            step.guard_words.push(word);
        }
    }
}

/// True for what a person kept at an earlier revision and that is to be so again. Who asks for a rollback now is heard.
fn is_put_back(desired: &Desired, scope: &Scope, step: &Step) -> bool {
    let is_pinned = || desired.pinned.contains_key(&(scope.clone(), step.id.clone()));
    !desired.pinned.is_empty() && !matches!(step.reason, Reason::Rollback(_)) && is_pinned()
}

/// The source of what a step is about.
fn source_of<'d>(desired: &'d Desired, step: &Step) -> Option<&'d SourceState> {
    let row = step.work.was.as_ref().or(step.work.row.as_ref())?;
    desired.sources.get(row.manifest.source())
}

/// Why a plan made from a recovered memory needs consent: what it does not remember may be needed, or there
/// already.
pub fn recovering(counts: &Counts, info: &ProviderInfo) -> Option<Arc<str>> {
    let [creates, _, replaces, deletes] = *counts;
    let assigned = matches!(info.identity, Identity::Assigned { .. });
    if replaces + deletes > 0 {
        return Some("the state was recovered: deletions need consent".into());
    }
    (assigned && creates > 0)
        .then(|| "the state was recovered: what would be created may be there already".into())
}

/// The guard words that count for this change: `…-delete` only when something goes, whole or, where it is not declared, in
/// part.
fn words(step: &Step) -> impl Iterator<Item = &'static str> {
    let goes = matches!(step.change, Change::Delete | Change::Replace);
    let changes = goes || matches!(step.change, Change::Update | Change::Continue);
    step.guard_words.iter().copied().filter(move |word| match *word {
        FOREIGN_DELETE => changes,
        word if word.ends_with("-delete") => goes,
        _ => changes,
    })
}

/// What a step weighs.
enum Weight {
    Update,
    Delete,
}

/// How much would be done, and how much of the same change is put off: suspended by a person, not asked for, or of what cannot be
/// read.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    now: u32,
    besides: u32,
}

fn over(
    Count { now, besides }: Count,
    tracked: u32,
    most: u32,
    percent: u32,
    what: &str,
    key: &str,
    percent_key: &str,
) -> Vec<Arc<str>> {
    let mut reasons = Vec::new();
    let count = now + besides;
    let some = if now == 0 { String::new() } else { format!(" with {besides}") };
    let with = match besides {
        0 => String::new(),
        _ => format!("{some} that are suspended, not asked for or in what cannot be read"),
    };
    if count > most {
        let what = if count == 1 { what.trim_end_matches('s') } else { what };
        reasons.push(format!("{count} {what}{with}, limit {most} (guard.{key})").into());
    }
    // u64: 100 × a large count must not wrap into "allowed".
    let share = u64::from(count) * 100;
    if count >= 3 && share > u64::from(percent) * u64::from(tracked) {
        let of = match share.checked_div(tracked.into()) {
            Some(shown) => format!("are {shown} % of {tracked} tracked"),
            None => "where nothing is tracked".into(),
        };
        reasons.push(format!("{count} {what}{with} {of}, limit {percent} % (guard.{percent_key})").into());
    }
    reasons
}
