//! Looking: memory, versions, observation, diff and plan of many scopes, and the guard's word on each domain.
//!
//! A [`Surveyor`] holds observers only, so whatever it does cannot write to a remote; nor does it write to the
//! store. `plan` is a survey that is printed; `apply` carries out the very same survey.

mod behind;
mod beside;
mod calls;
mod commits;
mod domain;
mod early;
mod effective;
mod elsewhere;
mod focus;
mod glance;
mod hurry;
mod judge;
mod judged;
mod look;
mod moves;
mod near;
mod options;
mod recall;
mod recover;
mod reread;
mod rooms;
mod spared;
mod surveyor;
mod twins;
mod view;
mod whole;

pub(crate) use beside::beside;
pub use calls::{Calls, UNDER_WAY};
pub use domain::{Domain, Foreseen, Wanted};
pub use early::Early;
pub use glance::{Ahead, Glance, Heard};
pub use hurry::{Hurry, Rush};
pub use judged::Judged;
pub use options::{Answered, ByPerson, SurveyOptions};
pub use recall::Recall;
pub(crate) use reread::{Reread, Seen};
pub(crate) use rooms::Room;
pub use rooms::{Line, Rooms};
pub use surveyor::{Outside, Surveyor, Watched};
pub use view::{Survey, View};

use crate::{
    desired::Desired,
    ready,
    store::{Row, ScopeMemory, Store},
};
use futures_util::FutureExt;
use look::Look;
use reconciled_provider::{Error, GuardDomain, Identity, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    future,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

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
                let glance = self.glance(store, options, Ahead::Nothing, future::ready(Heard::new())).await?;
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
        let sweep = self.sweep(&names);
        let now = self.cx.clock.now();
        let jobs: Vec<_> = names
            .into_iter()
            .map(|scope| {
                let mut memory = memories.remove(&scope).unwrap_or_default();
                self.early.correct(&mut memory, now);
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
        drop(sweep);
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
}

/// How long a survey may wait for one read when nobody said otherwise.
pub const READ_LIMIT: Duration = Duration::from_secs(60);
