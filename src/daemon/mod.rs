//! `reconciled run`: the loop without end, and who talks to it.
//!
//! ```text
//! signals, watchdog ─► run ─► Instance { session, state, engine, scheduler, follower } ─► stopped, or made anew
//!                       └──► api: one socket for all of them
//! ```
//!
//! Guarantees: one process has the state, from here until the last pass ended. A reload makes a new instance on
//! the same open state, or refuses and keeps the old one. After the wish to stop nothing new is written; what is
//! in flight ends or stays in the journal.

mod changes;
mod control;
mod follow;
mod instance;
mod service;
mod sync;

pub(crate) use control::{halt, resumed};
pub use follow::{Follower, Following, News};
pub use instance::{Instance, Options};
pub(crate) use sync::{consented, sync};

use crate::{
    api,
    clock::SystemClock,
    config::Environment,
    session::{Failure, Session},
};
use reconciled_provider::{Clock, Stop};
use service::Service;
use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::TaskTracker;

/// How long passes may take to end once the daemon shall stop; systemd gives 90 s.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// What `run` is told.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Host configuration, if named.
    pub config: Option<PathBuf>,
    /// Look and record, write nothing.
    pub observe: bool,
}

/// The instance that is at work. A reload puts another in its place.
pub struct Daemon {
    current: RwLock<Arc<Instance>>,
    /// Says that the process shall stop, for those who stream.
    pub stop: Stop,
}

impl Daemon {
    /// The instance at this moment.
    pub fn instance(&self) -> Arc<Instance> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs until a signal says to stop.
///
/// Errors: no usable configuration, another process has the state, the socket cannot be made.
pub async fn run(run: &Run, environment: Environment) -> Result<(), Failure> {
    let service = Service::of(&environment);
    let mut terminate = caught(SignalKind::terminate())?;
    let mut interrupt = caught(SignalKind::interrupt())?;
    let mut hangup = caught(SignalKind::hangup())?;
    let session = Session::open_to_write(run.config.as_deref(), environment.clone()).await?;
    session.warnings.iter().for_each(|warning| tracing::warn!("{}", warning.message));
    let options = Options { observe: run.observe };
    let tasks = TaskTracker::new();
    let first = Instance::start(session, None, &options, &tasks).await?;
    let daemon = Arc::new(Daemon { current: RwLock::new(first), stop: Stop::default() });
    let socket = api::Socket::bind(&daemon.instance().session.config.api)?;
    tracked(&tasks, api::serve(socket, daemon.clone()));
    tracing::info!(state = %daemon.instance().session.config.state_dir.display(), "daemon is running");
    let clock = SystemClock;
    let mut is_ready = false;
    loop {
        let instance = daemon.instance();
        if !is_ready && instance.is_ready() {
            is_ready = true;
            service.ready();
        }
        // Fed from the loop's own turns, so that a loop that hangs is found and ended.
        if clock.now().saturating_sub(instance.scheduler.tick()) < service::HANGS {
            service.alive();
        }
        service.status(&instance.summary());
        let pause = if is_ready { service.pause() } else { Duration::from_millis(50) };
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                service.reloading(clock.now());
                reload(&daemon, run, &environment, &options, &tasks).await;
                service.ready();
            }
            () = clock.sleep(pause) => {}
        }
    }
    service.stopping();
    tracing::info!("daemon is stopping: passes that run may end, no new one begins");
    daemon.stop.set();
    let instance = daemon.instance();
    instance.stop();
    tasks.close();
    tokio::select! {
        () = tasks.wait() => {}
        () = clock.sleep(STOP_LIMIT) => tracing::warn!("a pass did not end in time; its intents are in the journal"),
    }
    instance.writing.db.close().await;
    Ok(())
}

/// Makes a new instance from the configuration as it is now, or keeps the old one and says why.
async fn reload(
    daemon: &Arc<Daemon>,
    run: &Run,
    environment: &Environment,
    options: &Options,
    tasks: &TaskTracker,
) {
    let old = daemon.instance();
    let refused = |failure: &Failure| {
        tracing::error!(error = %failure, "reload refused: the configuration before stays in force");
    };
    let session = match Session::open(run.config.as_deref(), environment.clone()).await {
        Ok(session) => session,
        Err(failure) => return refused(&failure),
    };
    let (was, is) = (&old.session.config, &session.config);
    if was.state_dir != is.state_dir || was.api != is.api {
        return refused(&Failure::plain("`stateDir` and `api` need a restart"));
    }
    old.stop();
    old.ended().await;
    match Instance::start(session, Some(old.writing.db.clone()), options, tasks).await {
        Ok(instance) => {
            *daemon.current.write().unwrap_or_else(PoisonError::into_inner) = instance;
            tracing::info!("configuration is reloaded");
        }
        // Nothing of starting on an open state can fail today; the process manager begins anew if it does.
        Err(failure) => refused(&failure),
    }
}

fn caught(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind).map_err(|error| Failure::plain(format!("wait for signals: {error}")))
}

/// Runs `task` as one of `tasks`.
fn tracked(tasks: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
    drop(tasks.spawn(task));
}
