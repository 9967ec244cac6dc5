//! What the sources hold, brought into force, and what follows once it is in sync.
//!
//! Guarantees: the scheduler is told only of what is in force in the store; what cannot come into force is tried again by the
//! next poll, and said once.

use super::{
    source::AGAIN,
    state::{Bids, InForce, Loaded, Loop},
};
use crate::{
    daemon::follower::{Following, Left, NotInForce, Told},
    failure::Failure,
    manifest::Reported,
    operation::changed,
    session::{Outlook, Snapshot},
};
use reconciled_engine::{
    Desired, Store,
    scheduler::{Priority, Scheduler, Stance, Standing},
};
use reconciled_provider::{Focus, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
    time::Duration,
};

/// Commits that are in force, and when each was committed, by source.
type Commits = BTreeMap<Arc<str>, (Arc<str>, Duration)>;

impl Loop {
    /// Loads what the sources hold, brings it into force and says so to the scheduler.
    pub(super) async fn load(&mut self) -> Result<Loaded, Arc<Failure>> {
        let loaded = self.try_load().await;
        if let Ok(loaded) = &loaded {
            self.askers.iter_mut().for_each(|asker| asker.since.add(loaded, &asker.meant));
        }
        if let Err(failure) = &loaded {
            let now = self.session.surveyor.cx.clock.now();
            {
                let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
                let since = shown.failure.as_ref().map_or(now, |known| known.since);
                let (error, hint) = (failure.to_string(), failure.hint());
                if shown.failure.as_ref().is_none_or(|known| known.error != error) {
                    let hint = hint.as_deref();
                    tracing::error!(error = %failure, hint, "revision cannot come into force");
                }
                shown.failure = Some(NotInForce { error, hint, since });
            }
            // The next poll is as good as a first one.
            let soon = now + AGAIN;
            self.pins_due = self.pins_due.map(|due| due.max(soon));
            for source in self.sources.values_mut() {
                (source.snapshot, source.loaded, source.back, source.due) = (None, None, None, soon);
            }
        }
        loaded.map_err(Arc::new)
    }

    async fn try_load(&mut self) -> Result<Loaded, Failure> {
        let mut awaited = self.awaited();
        let snapshots = self.sources.values_mut().filter_map(|source| source.snapshot.take());
        let snapshots =
            snapshots.map(|snapshot| Snapshot { awaits: awaited.remove(&snapshot.name), ..snapshot });
        let snapshots: Vec<Snapshot> = snapshots.collect();
        let before = self.outlook.desired.clone();
        let mut outlook = self.session.load(snapshots, &*self.writing.db).await?;
        let sources = &self.sources;
        let accounts = |snapshot: &Snapshot, at: Duration| {
            sources.get(&snapshot.name).map(|s| s.accounts(snapshot, at)).unwrap_or_default()
        };
        let left = self.left(&outlook.snapshots());
        let brought =
            self.writing.bring_into_force(&outlook.snapshots(), &outlook.desired, false, &accounts).await?;
        self.forget_accounts(&outlook.snapshots(), &brought.moved);
        self.writing.end_pins(&outlook.pins).await?;
        // The audit trail has it: what is told of sources is how they stand from now on.
        outlook.pins.over.clear();
        self.writing.note_problems(&outlook).await?;
        let messages: BTreeMap<Arc<str>, Vec<String>> =
            outlook.sources().into_iter().map(|name| (name.clone(), outlook.messages_of(&name))).collect();
        // Once the next revision is in force, no pass that runs from this one may write.
        let mut generations = BTreeMap::new();
        for source in outlook.desired.sources.keys() {
            generations.extend(self.writing.db.generations(source).await?);
        }
        self.tell_news(&outlook, &messages);
        let is_whole = self.is_whole(&outlook);
        let Outlook { snapshots, desired, withheld, broken, outputs, secrets, pins, .. } = outlook;
        let desired = Arc::new(Desired { generations: Some(Arc::new(generations)), ..desired });
        let changed = self.changed_scopes(&desired);
        let commits = self.put_back(snapshots, &broken, &withheld);
        self.pins_due = pins.next();
        self.outlook = InForce {
            desired: desired.clone(),
            messages,
            broken,
            outputs,
            secrets,
            pins,
            is_whole,
            is_settled: false,
        };
        self.show_in_force();
        tracing::info!(scopes = changed.len(), "desired state is in force");
        // What ended until now was still about what is left.
        let left = left.map(|left| Left { standing: self.scheduler.standing(), ..left });
        let changed = self.hand_over(&desired, changed, brought.has_consent);
        self.show_told(commits, left);
        Ok(Loaded { changed, moved: brought.moved, desired: [before, desired] })
    }

    /// True when nothing is invalid, withheld or out of sight.
    fn is_whole(&self, outlook: &Outlook) -> bool {
        !outlook.has_errors()
            && outlook.is_newest()
            && outlook.withheld.is_empty()
            && outlook.snapshots.len() == self.sources.len()
            && outlook.desired.sources.values().all(|source| source.prunes && source.awaits.is_none())
    }

    /// The scopes in which something is desired otherwise than before.
    fn changed_scopes(&self, desired: &Desired) -> BTreeSet<Scope> {
        // Where any scope may be meant, those that only the inventory knows are too.
        let everything = || {
            let known = self.scheduler.standing().into_keys();
            let declared = self.outlook.desired.scopes.keys().chain(desired.scopes.keys());
            known.chain(declared.cloned()).collect()
        };
        changed(&self.outlook.desired, desired).unwrap_or_else(everything)
    }

    /// Logs what is said of sources for the first time: when it begins, not with each load. Why a source cannot be had is told
    /// when that begins.
    fn tell_news(&self, outlook: &Outlook, messages: &BTreeMap<Arc<str>, Vec<String>>) {
        let is_new = |source: &Arc<str>, message: &String| {
            self.outlook.messages.get(source).is_none_or(|before| !before.contains(message))
        };
        for Reported { source, problem } in &outlook.reported {
            if !is_new(source, &format!("{problem}\n")) {
                continue;
            }
            let place = problem.place.as_ref();
            let file = place.map(|place| &*place.file);
            let line = place.map(|place| place.line).filter(|line| *line > 0);
            let severity = if problem.is_error() { "error" } else { "warning" };
            let (hint, problem) = (problem.hint.as_deref(), &*problem.message);
            tracing::warn!(source = &**source, file, line, severity, problem, hint, "manifest problem");
        }
        for source in messages.keys() {
            for note in outlook.pins.messages_of(source).iter().filter(|note| is_new(source, note)) {
                tracing::info!(source = &**source, note, "an earlier revision is kept");
            }
        }
        let is_newly_withheld = |name: &&Arc<str>| {
            let said = messages.get(*name).and_then(|said| said.last());
            said.is_none_or(|said| is_new(name, said))
        };
        for name in outlook.withheld.iter().filter(is_newly_withheld) {
            tracing::warn!(
                source = &**name,
                "revision has errors that keep all of it from coming into force"
            );
        }
    }

    /// Gives the sources back what was loaded of them, shows how they stand with it, and returns their commits.
    fn put_back(
        &mut self,
        snapshots: Vec<Snapshot>,
        broken: &BTreeSet<Arc<str>>,
        withheld: &[Arc<str>],
    ) -> Commits {
        let mut commits = Commits::new();
        for snapshot in snapshots {
            let name = snapshot.name.clone();
            let (commit, label) = (snapshot.revision.to_string(), snapshot.label.to_string());
            let is_withheld = withheld.contains(&name);
            let is_broken = broken.contains(&name) || is_withheld;
            self.show(&name, |following| {
                (following.commit, following.label) = (commit, label);
                (following.broken, following.withheld) = (is_broken, is_withheld);
            });
            let time = snapshot.commit.as_ref().and_then(|commit| u64::try_from(commit.time).ok());
            let committed = Duration::from_secs(time.unwrap_or_default());
            commits.insert(name.clone(), (snapshot.revision.clone(), committed));
            let Some(source) = self.sources.get_mut(&name) else { continue };
            let polled = source.loaded.as_ref().map(|(polled, _)| polled);
            source.snapshot = Some(match snapshot.newest {
                // What is withheld stays what was offered: it may be good once others have changed.
                Some(newest) if is_withheld && polled == Some(&newest.revision) => *newest,
                newest => Snapshot { newest, ..snapshot },
            });
        }
        commits
    }

    /// Shows what is in force now.
    fn show_in_force(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.desired = self.outlook.desired.clone();
        shown.failure = None;
        shown.messages = self.outlook.messages.values().flatten().cloned().collect();
    }

    /// Has the scheduler see to what changed, and to what waits elsewhere where a commit may consent to it; returns the scopes of both.
    fn hand_over(
        &mut self,
        desired: &Arc<Desired>,
        mut changed: BTreeSet<Scope>,
        has_consent: bool,
    ) -> BTreeSet<Scope> {
        let held = if has_consent { held(&self.scheduler) } else { Vec::new() };
        self.scheduler.desire(desired.clone(), changed.clone());
        // A commit that came into force may consent to what waits elsewhere. Nothing changed there, so what a person asked for and is
        // held still counts: the consent is for the plan with it.
        self.scheduler.wake(held.iter().cloned(), Priority::Operator, Focus::All);
        changed.extend(held);
        self.bid(desired);
        changed
    }

    /// Shows of which commits the scheduler was told. All at once: whoever looks sees the new commits together with what was left.
    fn show_told(&self, commits: Commits, left: Option<Left>) {
        let at = self.session.surveyor.cx.clock.now();
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.left.extend(left);
        for (name, (commit, committed)) in commits {
            let seen = self.sources.get(&name).and_then(|source| source.seen.clone());
            let seen = seen.filter(|(seen, _)| *seen == commit).map(|(_, at)| at);
            let following = shown.sources.entry(name).or_default();
            if following.told.as_ref().is_none_or(|told| told.commit != commit) {
                following.told = Some(Told { commit, committed, seen, at });
            }
        }
    }

    /// The commits whose place those of `snapshots` take, before it is known how it stands with them.
    fn left(&self, snapshots: &[&Snapshot]) -> Option<Left> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let goes = |snapshot: &&Snapshot| {
            let following = shown.sources.get(&snapshot.name)?;
            let told = following.told.as_ref().filter(|told| told.commit != snapshot.revision);
            told.map(|_| (snapshot.name.clone(), following.clone()))
        };
        let sources: BTreeMap<Arc<str>, Following> = snapshots.iter().filter_map(goes).collect();
        drop(shown);
        (!sources.is_empty()).then(|| Left {
            sources,
            desired: self.outlook.desired.clone(),
            standing: BTreeMap::new(),
        })
    }

    /// Asks for what persons asked of the instance before, as far as the same is desired there: a word is for what was in
    /// force when it was said.
    fn bid(&mut self, desired: &Desired) {
        let Some(Bids { mut scopes, mut insisted, desired: before }) = self.bids.take() else { return };
        let changed = changed(&before, desired);
        for asked in [&mut scopes, &mut insisted] {
            asked.retain(|scope| changed.as_ref().is_some_and(|changed| !changed.contains(scope)));
        }
        self.scheduler.insist(&insisted);
        self.scheduler.bid(scopes);
    }

    /// What follows when everything was found in sync: bars are lifted, a recovery ends, a changed path counts.
    pub(super) async fn settle(&mut self) {
        if self.outlook.is_settled || !self.outlook.is_whole {
            return;
        }
        let standing = self.scheduler.standing();
        // An idle moment may be told after the next revision came into force, so nothing may be under way either.
        let is_done = |s: &Standing| s.stance == Stance::InSync && !s.is_queued && s.running_since.is_none();
        if !standing.values().all(is_done) {
            return;
        }
        if let Err(failure) = self.try_settle(standing.into_keys().collect()).await {
            tracing::warn!(error = %failure, "what is in sync cannot be remembered");
        }
    }

    async fn try_settle(&mut self, scopes: BTreeSet<Scope>) -> Result<(), Failure> {
        let writing = &self.writing;
        let desired = &self.outlook.desired;
        let snapshots: Vec<&Snapshot> = self.sources.values().filter_map(|s| s.snapshot.as_ref()).collect();
        if desired.sources.values().any(|s| s.path_changed) {
            writing.bring_into_force(&snapshots, desired, true, &|_, _| Vec::new()).await?;
        }
        writing.lift_bars(desired).await?;
        writing.end_recovery().await?;
        let versions = writing.db.versions().await?;
        if self.outlook.pins.is_empty() {
            let is_versioned = scopes.iter().all(|scope| versions.contains_key(scope));
            for converged in self.session.converged(&snapshots, is_versioned) {
                writing.engine.converged(converged).await?;
            }
        }
        self.outlook.is_settled = true;
        Ok(())
    }
}

/// The scopes in which something waits for a person.
pub(in crate::daemon) fn held(scheduler: &Scheduler) -> Vec<Scope> {
    let waits = |stance| matches!(stance, Stance::Held | Stance::Stalled);
    let standing = scheduler.standing().into_iter();
    standing.filter(|(_, standing)| waits(standing.stance)).map(|(scope, _)| scope).collect()
}
