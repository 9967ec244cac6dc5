//! Everything that is at work under one configuration.

use super::{
    control,
    fate::{self, Fates},
    follow::{self, Bids},
    follower::Follower,
    gathered::Gathered,
    given::Pending,
    hints,
    requests::Requests,
    tracked,
    upkeep::{self, Upkeep},
    wishes::Wishes,
};
use crate::{
    api::{Hooks, Tokens},
    failpoint,
    failure::Failure,
    notify,
    session::{Session, Writing, take_along},
};
use reconciled_engine::{
    scheduler::{Scheduler, Settings, Spawner, Stance},
    survey::Recall,
};
use reconciled_provider::Hash;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Resources of which it is kept what was seen, about 300 bytes each: what a push is planned
/// from is often what was just verified.
const RECALLED: usize = 20_000;

/// How an instance is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Look and record, write nothing.
    pub observe: bool,
}

/// One configuration at work.
pub struct Instance {
    /// Configuration, providers, sources.
    pub session: Arc<Session>,
    /// The state and the engine.
    pub writing: Arc<Writing>,
    /// The loop over the scopes.
    pub scheduler: Arc<Scheduler>,
    /// The loop over the sources.
    pub follower: Follower,
    /// Who may ask over TCP.
    pub tokens: Tokens,
    /// What forges may wake.
    pub hooks: Hooks,
    /// How the commit of each source fares.
    pub fates: watch::Receiver<Fates>,
    /// It looks and writes nothing.
    pub observes: bool,
    /// What was asked for with `sync`.
    pub(crate) requests: Requests,
    /// Consent of pushes that Git has not taken yet.
    pub(crate) pending: Arc<Pending>,
    /// Pushes that move several sources.
    pub(super) gathered: Arc<Gathered>,
    /// What was said of sources.
    pub(super) wishes: Arc<Wishes>,
    /// What of its own state does not succeed.
    pub(super) upkeep: Arc<Upkeep>,
    /// Why a forge cannot be told how commits fare, by source.
    unreported: Mutex<BTreeMap<Arc<str>, String>>,
    tasks: TaskTracker,
    was_ready: AtomicBool,
}

/// Tasks of the runtime, counted so that the end can wait for them.
struct Tasks(TaskTracker);

impl Spawner for Tasks {
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tracked(&self.0, future);
    }
}

impl Instance {
    /// Begins: the loops run from here on, as part of `all`.
    ///
    /// Takes over the open state from the one `before`, and what was said and is not done.
    pub(super) async fn start(
        mut session: Session,
        before: Option<&Instance>,
        options: &Options,
        all: &TaskTracker,
    ) -> Result<Arc<Instance>, Failure> {
        session.surveyor.recall = Recall::of(RECALLED);
        let writing = match before.map(|before| before.writing.db.clone()) {
            Some(db) => {
                take_along(&session.config, &db).await?;
                session.writing(db)
            }
            None => session.writer().await?,
        };
        let upkeep = match before {
            Some(before) => before.upkeep.clone(),
            None => {
                let newest = writing.db.reader().newest_event().await?;
                Arc::new(Upkeep::since(newest.unwrap_or_else(|| session.clock.now())))
            }
        };
        let pending = before.map(|before| before.pending.clone()).unwrap_or_default();
        let gathered = before.map(|before| before.gathered.clone()).unwrap_or_default();
        let wishes = before.map(|before| before.wishes.clone()).unwrap_or_default();
        let seed = Hash::of(session.config.instance.as_bytes()).0;
        let settings = Settings {
            resync: session.config.providers.iter().map(|entry| (entry.name.clone(), entry.resync)).collect(),
            seed: u64::from_le_bytes(std::array::from_fn(|i| seed[i])),
            observe: options.observe,
            ..Settings::default()
        };
        let tasks = TaskTracker::new();
        let scheduler = Scheduler::new(writing.engine.clone(), Arc::new(Tasks(tasks.clone())), settings);
        let (session, writing) = (Arc::new(session), Arc::new(writing));
        let tokens = Tokens::of(&session.config.tokens, &*session.secrets);
        let hooks = Hooks::of(&session.config.sources, &*session.secrets);
        let bids = before.map(|before| Bids {
            scopes: before.scheduler.bids(),
            insisted: before.scheduler.insisted(),
            desired: before.follower.desired(),
        });
        let (follower, following) =
            follow::follow(session.clone(), writing.clone(), scheduler.clone(), wishes.clone(), bids);
        let looping = scheduler.clone();
        tracked(&tasks, async move { failpoint::hanging("loop.hangs", looping.run()).await });
        tracked(&tasks, following.run());
        let (tell_fates, fates) = watch::channel(Fates::new());
        let instance = Arc::new(Instance {
            session,
            writing,
            scheduler,
            follower,
            tokens,
            hooks,
            fates,
            observes: options.observe,
            requests: Requests::default(),
            pending,
            gathered,
            wishes,
            upkeep,
            unreported: Mutex::default(),
            tasks,
            was_ready: AtomicBool::new(false),
        });
        tracked(&instance.tasks, control::watch(instance.clone()));
        tracked(&instance.tasks, fate::watch(instance.clone(), tell_fates));
        tracked(&instance.tasks, notify::watch(instance.clone()));
        tracked(&instance.tasks, upkeep::watch(instance.clone()));
        for watched in instance.session.surveyor.entries.values() {
            tracked(&instance.tasks, hints::watch(instance.clone(), watched.observer.clone()));
        }
        for source in &instance.session.config.sources {
            if let Some(report) = &source.report {
                let report = notify::report(instance.clone(), source.clone(), report.clone());
                tracked(&instance.tasks, report);
            }
        }
        let ended = instance.clone();
        tracked(all, async move { ended.ended().await });
        Ok(instance)
    }

    /// Says that it shall end: no new pass begins.
    pub(super) fn stop(&self) {
        self.session.surveyor.cx.stop.end();
        self.tasks.close();
    }

    /// Whether it was told to end: what it answers from then on may be because of that.
    pub(crate) fn is_ending(&self) -> bool {
        self.session.surveyor.cx.stop.is_set()
    }

    /// Returns once nothing of it runs any more.
    pub(super) async fn ended(&self) {
        self.tasks.wait().await;
    }

    /// True once each source was read or cannot be, and everything that is desired was looked at.
    pub fn is_ready(&self) -> bool {
        self.waits_for().is_none()
    }

    /// What it waits for before it [is ready](Instance::is_ready); names nothing that is managed.
    pub fn waits_for(&self) -> Option<String> {
        if self.was_ready.load(Ordering::Relaxed) {
            return None;
        }
        // In this order: what a source came to that was heard by then is in what is desired.
        let following = self.follower.sources();
        let desired = self.follower.desired();
        let standing = self.scheduler.standing();
        let is_read = |name: &Arc<str>| {
            let is_in_force = desired.sources.get(name).is_some_and(|source| !source.revision.is_empty());
            is_in_force || following.get(name).is_some_and(|source| source.was_heard)
        };
        let sources = &self.session.config.sources;
        let unread = sources.iter().filter(|source| !is_read(&source.name)).count();
        let looked = |scope: &&_| standing.get(*scope).is_some_and(|s| s.ended_at.is_some());
        let (all, seen) = (desired.scopes.len(), desired.scopes.keys().filter(looked).count());
        let why = match unread {
            0 if seen == all => None,
            0 => Some(format!("the first pass has not ended: {seen} of {all} scopes were looked at")),
            _ if unread == sources.len() => Some("no source was read yet".to_string()),
            _ => Some(format!("{} of {} sources were read", sources.len() - unread, sources.len())),
        };
        self.was_ready.fetch_or(why.is_none(), Ordering::Relaxed);
        why
    }

    /// Why a forge cannot be told how commits fare, by source.
    pub(crate) fn unreported(&self) -> BTreeMap<Arc<str>, String> {
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_unreported(&self, source: &Arc<str>, why: Option<String>) {
        let mut unreported = self.unreported.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => drop(unreported.insert(source.clone(), why)),
            None => drop(unreported.remove(source)),
        }
    }

    /// One line for the service manager.
    pub fn summary(&self) -> String {
        let sources = self.follower.sources();
        let labels: Vec<&str> =
            sources.values().map(|s| s.label.as_str()).filter(|l| !l.is_empty()).collect();
        let at = match labels.is_empty() {
            true => "no revision yet".to_string(),
            false => labels.join(", "),
        };
        // Of what was not looked at nothing is known, least of all that there is nothing.
        if let Some(why) = self.waits_for() {
            return if labels.is_empty() { why } else { format!("at {at}; {why}") };
        }
        let standing = self.scheduler.standing();
        let count = |stance| standing.values().filter(|s| s.stance == stance).count();
        let known = Stance::ALL.into_iter().filter(|stance| *stance != Stance::Unknown);
        let parts = known.map(|stance| (stance, count(stance))).filter(|(_, n)| *n > 0);
        let parts: Vec<String> = parts.map(|(stance, n)| format!("{n} {}", stance.word())).collect();
        format!("at {at}; scopes: {}", if parts.is_empty() { "none".into() } else { parts.join(", ") })
    }
}
