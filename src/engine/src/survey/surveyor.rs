//! Who looks, and with what. What is asked of it is in the files beside this one.
//!
//! Guarantees: every read has an end. It has observers only, so whatever it does cannot write to a remote.

use super::{Calls, Early, Hurry, Judged, Recall, Room, Rooms, SurveyOptions};
use crate::{
    desired::Desired,
    plan::{EntryPolicy, guard::GuardLimits},
    ready,
    store::{ScopeMemory, Store},
    suspension::Suspension,
};
use futures_util::{
    FutureExt,
    future::{Either, select},
};
use reconciled_provider::{Cx, Error, Focus, GuardDomain, Observation, Observer, ResourceId, Scope, Want};
use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
};

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
    /// When it met times that were to come.
    pub early: Early,
}

/// Says what suspends besides the store: a file, a window that is closed.
pub type Outside = Arc<dyn Fn() -> Vec<Suspension> + Send + Sync>;

/// By how much fewer reads there are at once where nobody waits.
const UNHURRIED: usize = 4;

impl Surveyor {
    /// Runs a read, which has an end: `cx.deadline`.
    pub async fn within<T>(
        &self,
        read: impl Future<Output = Result<T, Error>>,
        what: &str,
    ) -> Result<T, Error> {
        let limit = self.cx.deadline;
        match select(pin!(read), pin!(self.cx.clock.sleep(limit))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                Err(Error::unavailable(format!("{what}: no answer within {} s", limit.as_secs())))
            }
        }
    }

    /// Reads a scope of an entry that can list without being told what to look for.
    pub(crate) async fn list(&self, scope: &Scope) -> Result<Observation, Error> {
        let want = Want { scope, focus: &Focus::All, desired: &[], tracked: &[], claims: &[] };
        let observer = &self.entries[&scope.provider].observer;
        let what = format!("reading {scope}");
        let _seat = self.rooms.enter(&scope.provider, Room::Reads, observer.info().concurrency).await;
        let read = AssertUnwindSafe(self.within(observer.observe(&self.cx, &want), &what));
        read.catch_unwind().await.unwrap_or_else(|_| {
            Err(Error::unexpected(format!("{what} panicked"))
                .hint("this is a bug in the provider; other scopes go on"))
        })
    }

    /// Has what these scopes have in common looked at once for all of them, until what is returned is dropped.
    pub(super) fn sweep(&self, scopes: &BTreeSet<Scope>) -> Vec<Box<dyn Any + Send>> {
        let mut by_entry: BTreeMap<&str, Vec<Scope>> = BTreeMap::new();
        for scope in scopes {
            by_entry.entry(&scope.provider).or_default().push(scope.clone());
        }
        let begun = by_entry.into_iter();
        begun
            .filter_map(|(entry, scopes)| self.entries.get(entry)?.observer.sweep(&self.cx, &scopes))
            .collect()
    }

    /// What is known of edges.
    pub(super) fn facts(&self, desired: &Desired, memories: &BTreeMap<Scope, ScopeMemory>) -> ready::Facts {
        let mut facts = ready::facts(desired, memories);
        facts.put_off(desired, |resource| self.only_reads(&resource.scope, &resource.id));
        facts
    }

    /// See [`Observer::only_reads`].
    pub(crate) fn only_reads(&self, scope: &Scope, id: &ResourceId) -> bool {
        self.entries.get(&scope.provider).is_some_and(|entry| entry.observer.only_reads(id))
    }

    /// True where all scopes of the entry are looked at and judged together, or its limits could be evaded one scope at a time.
    pub(super) fn is_counted_whole(&self, scope: &Scope) -> bool {
        let entry = self.entries.get(&scope.provider);
        entry.is_some_and(|entry| entry.observer.info().guard == GuardDomain::Provider)
    }

    /// Reads of an entry at once, as far as this survey goes.
    pub(super) fn width(&self, entry: &str, options: &SurveyOptions) -> usize {
        let width = self.entries.get(entry).map_or(1, |entry| entry.observer.info().concurrency);
        let width = if options.unhurried { width.div_ceil(UNHURRIED) } else { width };
        width.max(1)
    }

    /// What is suspended now, or was and is still in doubt.
    pub(super) async fn suspensions(&self, store: &dyn Store) -> Result<Vec<Arc<Suspension>>, Error> {
        let known = store.suspensions().await?;
        let outside = self.outside.as_ref().map(|outside| outside()).unwrap_or_default();
        Ok(known.into_iter().chain(outside).map(Arc::new).collect())
    }
}
