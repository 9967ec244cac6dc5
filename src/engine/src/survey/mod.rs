//! Looking: memory, versions, observation, diff and plan of many scopes, and the guard's word on each domain.
//!
//! A [`Surveyor`] holds observers only, so whatever it does cannot write to a remote; nor does it write to the
//! store. `plan` is a survey that is printed; `apply` carries out the very same survey.

mod behind;
mod calls;
mod commits;
mod effective;
mod elsewhere;
mod focus;
mod glance;
mod hurry;
mod judge;
mod look;
mod moves;
mod near;
mod recall;
mod recover;
mod rooms;
mod spared;
mod twins;
mod whole;

use crate::{
    desired::Desired,
    health::Assessment,
    journal::Seen,
    plan::{EntryPolicy, ScopePlan, Selection, guard::GuardLimits},
    ready,
    store::{ClaimRow, Consent, Row, ScopeMemory, Store},
    suspension::Suspension,
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use reconciled_provider::{
    ClaimState, Cx, Deltas, Error, GuardDomain, Hash, Identity, ManifestKey, Observation, Observer,
    ResourceId, Scope,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// By how much fewer reads there are at once where nobody waits.
const UNHURRIED: usize = 4;

/// One configured entry, as far as looking goes.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its observer.
    pub observer: Arc<dyn Observer>,
    /// What it may do.
    pub policy: EntryPolicy,
    /// Limits of its guard domains.
    pub guard: GuardLimits,
}

/// Everything that looking needs.
#[derive(Clone)]
pub struct Surveyor {
    /// Configured entries by name.
    pub entries: BTreeMap<Arc<str>, Watched>,
    /// Time, secrets, deadline.
    pub cx: Cx,
    /// What suspends besides the store: asked at the start of each survey.
    pub outside: Option<Outside>,
    /// What was seen of scopes whose versions stand.
    pub recall: Recall,
    /// Who is in a hurry.
    pub hurry: Hurry,
    /// How much of each entry is under way.
    pub rooms: Rooms,
    /// What was judged whole.
    pub judged: Judged,
    /// What this process waits for.
    pub calls: Calls,
}

/// Says what suspends besides the store: a file, a window that is closed.
pub type Outside = Arc<dyn Fn() -> Vec<Suspension> + Send + Sync>;

/// How a survey is made.
#[derive(Clone, Debug, Default)]
pub struct SurveyOptions {
    /// What the user selected.
    pub selection: Selection,
    /// Lists every scope, also those whose version stands.
    pub refresh: bool,
    /// Only these scopes; none means all that are desired or remembered.
    pub only: Option<BTreeSet<Scope>>,
    /// Asks remotes how things fare, which takes calls of its own: for a pass, not for a plan.
    pub health: bool,
    /// Somebody waits until what was written since then does its work.
    pub written_since: Option<Duration>,
    /// Scopes that somebody asks about; none means all of them. The others are left alone while they need not be looked at
    /// ([`Version::until`](reconciled_provider::Version::until)).
    pub asked: Option<BTreeSet<Scope>>,
    /// Where a person asks for what it leads to, now.
    pub by_person: ByPerson,
    /// Where a person means just that scope: what came to nothing there is tried once more.
    pub insisted: BTreeSet<Scope>,
    /// Nobody waits for it: fewer reads at once, and none while somebody is in a [`Hurry`].
    pub unhurried: bool,
    /// How many scopes were answered so far: a survey that goes on is not late, however many there are.
    pub answered: Answered,
    /// Those of it who wait for a seat.
    pub line: Line,
}

impl SurveyOptions {
    /// True where a person asks for just this to be done, and not for whatever there is to do: by its address. Consent to
    /// something else is no such word, and a plan that was consented to must not grow by it.
    fn tries_again(&self, scope: &Scope) -> bool {
        let is_target = self.by_person == ByPerson::Everything && !self.selection.targets.is_empty();
        is_target || self.insisted.contains(scope)
    }
}

/// How many scopes of a survey were answered; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Answered(Arc<AtomicUsize>);

impl Answered {
    /// How many there are now.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a person asks for something to be done now: a closed window may let that through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ByPerson {
    /// Nowhere.
    #[default]
    Nothing,
    /// In these scopes.
    In(BTreeSet<Scope>),
    /// Wherever it looks.
    Everything,
}

impl ByPerson {
    fn is_for(&self, scope: &Scope) -> bool {
        match self {
            ByPerson::Nothing => false,
            ByPerson::In(scopes) => scopes.contains(scope),
            ByPerson::Everything => true,
        }
    }
}

/// What was found in one scope, and the plan for it.
#[derive(Clone, Debug)]
pub struct View {
    /// What is remembered, with recovered rows.
    pub memory: ScopeMemory,
    /// What was seen.
    pub seen: Arc<Observation>,
    /// The plan.
    pub plan: ScopePlan,
    /// How what a person may take over would be changed by that, or why it cannot be.
    pub offered: Deltas,
    /// The version stood and nothing was asked of the scope itself.
    pub skipped: bool,
    /// How its resources fare.
    pub health: Assessment,
    /// The manifests that declare something here, if all of it was looked at and not all was as remembered.
    pub looked_at: BTreeSet<ManifestKey>,
}

/// What a survey found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Each scope's view, or why there is none.
    pub scopes: BTreeMap<Scope, Result<View, Error>>,
    /// Each guard domain.
    pub domains: BTreeMap<Arc<str>, Domain>,
    /// Remembered scopes whose entry is not configured here: left alone.
    pub unassigned: Vec<(Scope, usize)>,
    /// Guard domains of which not all could be read, or is frozen: what one is held for may be there.
    pub unread: BTreeSet<Arc<str>>,
    /// Scopes that nobody declares anything in any more and in which nothing is tracked: what kept something from being done
    /// there is over, and nobody need look.
    pub over: Vec<Scope>,
    /// Entries whose scopes are run apart and were judged together here, and the desired state that this was about.
    pub judged: BTreeMap<Arc<str>, Hash>,
}

impl Survey {
    /// The domain a scope belongs to.
    pub fn domain_of(&self, scope: &Scope) -> Option<&Domain> {
        self.domains.get(&*scope.to_string()).or_else(|| self.domains.get(&scope.provider))
    }
}

pub use calls::{Calls, UNDER_WAY};
pub use glance::{Ahead, Glance};
pub use hurry::{Hurry, Rush};
pub use judge::{Domain, Foreseen, Wanted};
use look::Look;
pub use recall::Recall;
pub(crate) use rooms::Room;
pub use rooms::{Line, Rooms};
pub use whole::Judged;

impl Surveyor {
    /// Surveys all scopes that are desired or remembered.
    ///
    /// Errors: only the store's; what goes wrong with a remote is part of the result, scope by scope.
    pub async fn survey(
        &self,
        store: &dyn Store,
        desired: &Desired,
        options: &SurveyOptions,
    ) -> Result<Survey, Error> {
        self.survey_again(store, desired, options, BTreeMap::new()).await
    }

    /// As [`Surveyor::survey`], where some scopes were read since the last call that may have changed them.
    pub(crate) async fn survey_again(
        &self,
        store: &dyn Store,
        desired: &Desired,
        options: &SurveyOptions,
        seen: BTreeMap<Scope, Seen>,
    ) -> Result<Survey, Error> {
        let (mut glance, facts) = match self.near(store, desired, options).await? {
            Some((memories, facts)) => (self.glance_at(memories, options).await, facts),
            None => {
                if options.unhurried {
                    self.hurry.make_way(&*self.cx.clock).await;
                }
                let glance = self.glance(store, options, Ahead::Nothing).await?;
                let facts = self.facts(desired, &glance.memories);
                (glance, facts)
            }
        };
        glance.take(seen, self.cx.clock.now());
        self.in_order(store, desired, glance, &facts, options).await
    }

    /// As [`Surveyor::survey`], beginning with a glance that was cast while the desired state was read.
    pub async fn survey_from(
        &self,
        store: &dyn Store,
        desired: &Desired,
        glance: Glance,
        options: &SurveyOptions,
    ) -> Result<Survey, Error> {
        let facts = self.facts(desired, &glance.memories);
        self.in_order(store, desired, glance, &facts, options).await
    }

    /// A survey of which the guard has said its word, and in which what comes after something waits for that.
    async fn in_order(
        &self,
        store: &dyn Store,
        desired: &Desired,
        glance: Glance,
        facts: &ready::Facts,
        options: &SurveyOptions,
    ) -> Result<Survey, Error> {
        let survey = self.survey_with(store, desired, glance, facts, options).await?;
        let mut survey = self.whole(store, desired, survey, options).await?;
        self.wait_behind(store, desired, facts, &mut survey, options).await?;
        Ok(survey)
    }

    /// What is known of edges.
    fn facts(&self, desired: &Desired, memories: &BTreeMap<Scope, ScopeMemory>) -> ready::Facts {
        let mut facts = ready::facts(desired, memories);
        facts.put_off(desired, |resource| self.only_reads(&resource.scope, &resource.id));
        facts
    }

    /// See [`Observer::only_reads`].
    pub(crate) fn only_reads(&self, scope: &Scope, id: &ResourceId) -> bool {
        self.entries.get(&scope.provider).is_some_and(|entry| entry.observer.only_reads(id))
    }

    async fn survey_with(
        &self,
        store: &dyn Store,
        desired: &Desired,
        glance: Glance,
        facts: &ready::Facts,
        options: &SurveyOptions,
    ) -> Result<Survey, Error> {
        let Glance { mut memories, versions, mut seen, late } = glance;
        let mut survey = Survey::default();
        let names = self.chosen(desired, &memories, options, &mut survey);
        let assigns = |entry: &str| {
            let info = self.entries.get(entry).map(|e| e.observer.info());
            info.is_some_and(|info| matches!(info.identity, Identity::Assigned { .. }))
        };
        let moves = moves::moves(desired, &mut memories, assigns);
        let elsewhere = self.elsewhere(store, desired, &memories, &names).await?;
        let remembered = twins::remembered(&memories);
        // What the guard counts where a scope of several cannot be read; such a list is lent, not copied.
        let is_of_several = |scope: &Scope| {
            self.entries
                .get(&scope.provider)
                .is_some_and(|entry| entry.observer.info().guard != GuardDomain::Scope)
        };
        let of_several = memories.iter().filter(|(scope, _)| is_of_several(scope));
        let rows: BTreeMap<Scope, Arc<Vec<Row>>> =
            of_several.map(|(scope, memory)| (scope.clone(), memory.rows.clone())).collect();
        seen.extend(self.spared(&names, &memories, late, options).await);
        let jobs: Vec<_> = names
            .into_iter()
            .map(|scope| {
                let memory = memories.remove(&scope).unwrap_or_default();
                let seen = seen.remove(&scope);
                (scope, memory, seen)
            })
            .collect();
        let suspensions = self.suspensions(store).await?;
        let recovering = store.is_recovering().await?;
        let nothing = BTreeMap::new();
        let for_person: Vec<_> = suspensions.iter().filter(|one| !one.lets_person()).cloned().collect();
        let jobs = jobs.into_iter().map(|job| (job.0.provider.clone(), job));
        let view = |(scope, memory, seen): (Scope, ScopeMemory, Option<_>)| {
            let (versions, moves) = (&versions, &moves.moved);
            let elsewhere = elsewhere.get(&scope).unwrap_or(&nothing);
            let suspensions = if options.by_person.is_for(&scope) { &*for_person } else { &*suspensions };
            async move {
                let version = versions.get(&scope);
                if options.unhurried {
                    self.hurry.make_way(&*self.cx.clock).await;
                }
                let look = Look {
                    surveyor: self,
                    desired,
                    scope: &scope,
                    version,
                    facts,
                    moves,
                    elsewhere,
                    suspensions,
                    options,
                };
                let view = match AssertUnwindSafe(look.view(memory, seen)).catch_unwind().await {
                    Ok(view) => view,
                    Err(_) => Err(Error::unexpected(format!("looking at {scope} panicked"))
                        .hint("this is a bug in the provider; other scopes go on")),
                };
                // What fails may do so after a minute each.
                options.answered.0.fetch_add(usize::from(view.is_ok()), Ordering::Relaxed);
                (scope, view)
            }
            .boxed()
        };
        survey.scopes = beside(jobs, |entry| self.width(entry, options), view).await.into_iter().collect();
        self.settle(desired, &remembered, &mut survey);
        self.judge(store, desired, &moves, &rows, recovering, &mut survey).await?;
        Ok(survey)
    }

    /// The scopes to look at. What is over, and what is remembered of entries that are not configured, is put down in `survey`.
    fn chosen(
        &self,
        desired: &Desired,
        memories: &BTreeMap<Scope, ScopeMemory>,
        options: &SurveyOptions,
        survey: &mut Survey,
    ) -> BTreeSet<Scope> {
        let mut names: BTreeSet<Scope> = desired.scopes.keys().cloned().collect();
        names.extend(memories.iter().filter(|(_, m)| m.is_remembered()).map(|(scope, _)| scope.clone()));
        let is_over = |(scope, memory): &(&Scope, &ScopeMemory)| {
            !memory.conditions.is_empty()
                && !memory.is_remembered()
                && !desired.scopes.contains_key(*scope)
                && self.entries.contains_key(&scope.provider)
                && options.only.as_ref().is_none_or(|only| only.contains(*scope))
                && desired.is_known(&scope.provider)
        };
        survey.over = memories.iter().filter(is_over).map(|(scope, _)| scope.clone()).collect();
        let counted = options.only.iter().flatten().filter(|scope| self.is_counted_whole(scope));
        let counted: BTreeSet<Arc<str>> = counted.map(|scope| scope.provider.clone()).collect();
        names.retain(|scope| {
            if !self.entries.contains_key(&scope.provider) {
                survey.unassigned.push((scope.clone(), memories.get(scope).map_or(0, |m| m.rows.len())));
                return false;
            }
            options.only.as_ref().is_none_or(|only| only.contains(scope) || counted.contains(&scope.provider))
        });
        names
    }

    /// True where all scopes of the entry are looked at and judged together, or its limits could be evaded one scope at a time.
    fn is_counted_whole(&self, scope: &Scope) -> bool {
        let entry = self.entries.get(&scope.provider);
        entry.is_some_and(|entry| entry.observer.info().guard == GuardDomain::Provider)
    }

    /// What scopes come to together. The order counts: a scope that is refused shows nothing any more, so what looks for
    /// twins does so before; of all that keeps a step it is the first that is told; and what stays is known before the
    /// guard counts.
    fn settle(&self, desired: &Desired, remembered: &twins::Remembered, survey: &mut Survey) {
        let unknown = twins::unknown(desired, remembered, survey);
        twins::wait(&self.entries, desired, &unknown, survey);
        twins::former::keep(&self.entries, desired, (remembered, &unknown), survey);
        twins::same::keep(&self.entries, desired, remembered, survey);
        twins::refuse(desired, survey);
        behind::end_in_order(&self.entries, desired, remembered, survey);
    }

    /// Reads of an entry at once, as far as this survey goes.
    fn width(&self, entry: &str, options: &SurveyOptions) -> usize {
        let width = self.entries.get(entry).map_or(1, |entry| entry.observer.info().concurrency);
        let width = if options.unhurried { width.div_ceil(UNHURRIED) } else { width };
        width.max(1)
    }

    /// What is suspended now, or was and is still in doubt.
    async fn suspensions(&self, store: &dyn Store) -> Result<Vec<Arc<Suspension>>, Error> {
        let known = store.suspensions().await?;
        let outside = self.outside.as_ref().map(|outside| outside()).unwrap_or_default();
        Ok(known.into_iter().chain(outside).map(Arc::new).collect())
    }
}

/// Does the jobs of each entry beside those of all others, `width` of them at once: an entry that is slow, or takes one at a
/// time, keeps no other waiting. What `work` makes of a job is made once there is room for it, so that it takes no memory and
/// is not timed before.
pub(crate) async fn beside<'a, J, T>(
    jobs: impl IntoIterator<Item = (Arc<str>, J)>,
    width: impl Fn(&str) -> usize,
    work: impl Fn(J) -> BoxFuture<'a, T>,
) -> Vec<T> {
    let mut entries: BTreeMap<Arc<str>, Vec<J>> = BTreeMap::new();
    for (entry, job) in jobs {
        entries.entry(entry).or_default().push(job);
    }
    let streams = entries.into_iter().map(|(entry, jobs)| {
        let width = width(&entry).max(1);
        stream::iter(jobs).map(&work).buffer_unordered(width)
    });
    stream::select_all(streams).collect().await
}

impl ScopeMemory {
    /// True when anything about the scope must still be looked at.
    pub fn is_remembered(&self) -> bool {
        !(self.rows.is_empty()
            && self.open.is_empty()
            && self.claims_here.is_empty()
            // What was let go of is of nobody's concern until it is declared again.
            && self.consents.iter().all(|(_, word)| *word == Consent::LetGo)
            && self.drifts.is_empty())
    }
}

pub(crate) fn claim_state(row: &ClaimRow) -> ClaimState {
    ClaimState { owner: row.owner.clone(), key: row.claim.key.clone(), synced: row.synced, health: None }
}

/// How long a survey may wait for one read when nobody said otherwise.
pub const READ_LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::block_on;
    use std::{future, task::Poll};

    #[test]
    fn what_a_job_takes_is_made_once_there_is_room_for_it() {
        let (made, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let jobs = (0..100).map(|number| (Arc::from(if number % 2 == 0 { "a" } else { "b" }), number));
        let width = |entry: &str| if entry == "a" { 3 } else { 1 };
        let work = |number: usize| {
            let under_way = made.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(under_way, Ordering::Relaxed);
            let mut turns = number % 5;
            let made = &made;
            future::poll_fn(move |cx| {
                cx.waker().wake_by_ref();
                if turns == 0 {
                    made.fetch_sub(1, Ordering::Relaxed);
                    return Poll::Ready(number);
                }
                turns -= 1;
                Poll::Pending
            })
            .boxed()
        };
        let mut done = block_on(beside(jobs, width, work));
        done.sort_unstable();
        assert_eq!(done, (0..100).collect::<Vec<_>>());
        assert_eq!(most.into_inner(), 4);
    }
}
