//! How an instance begins: put together of a session and of what the one before it leaves, with all its loops as tasks.

use super::{
    control,
    fate::{self, Fates},
    follow::{self, Bids},
    hints,
    instance::Instance,
    requests::Requests,
    upkeep::{self, record::Upkeep},
};
use crate::{
    access::{Hooks, Tokens},
    failpoint,
    failure::Failure,
    notify,
    session::{Session, take_along},
};
use reconciled_engine::{
    scheduler::{Scheduler, Settings, Spawner},
    survey::Recall,
};
use reconciled_provider::Hash;
use std::{
    pin::Pin,
    sync::{Arc, Mutex, atomic::AtomicBool},
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
    pub(crate) async fn start(
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
}

/// Runs `task` as one of `tasks`.
pub(crate) fn tracked(tasks: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
    drop(tasks.spawn(task));
}
