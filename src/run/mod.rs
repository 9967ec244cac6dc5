//! `reconciled run`: from the start to the last pass, with what signals and the service manager say in between.
//!
//! ```text
//! signals, watchdog ─► run ─► Instance { session, state, engine, scheduler, follower } ─► stopped, or made anew
//!                       └──► api: one socket for all of them
//! ```
//!
//! Guarantees: one process has the state, from here until the last pass ended. A reload makes a new instance on
//! the same open state, or refuses and keeps the old one. After the wish to stop nothing new is written; what is
//! in flight ends or stays in the journal.

mod service;

use crate::{
    api,
    clock::SystemClock,
    config::Environment,
    daemon::{Daemon, Instance, Options, tracked},
    failure::Failure,
    operation,
    session::{Session, renames},
    telemetry::Telemetry,
};
use reconciled_provider::Clock;
use service::Service;
use std::{path::PathBuf, pin::pin, sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::task::TaskTracker;

/// How long passes may take to end once the daemon or its configuration shall stop; systemd gives 90 s, its watchdog
/// more.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// How long the state may take to be closed, which no disk needs that answers.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// How long the first pass may keep those waiting who start after the daemon: a remote that is away must not hold up
/// the start of a host.
const FIRST_PASS: Duration = Duration::from_secs(120);
/// How often it is looked how the first pass after a reload fares.
const BEGINNING: Duration = Duration::from_millis(250);

/// What `run` is told.
#[derive(Clone, Default)]
pub struct Run {
    /// Host configuration, if named.
    pub config: Option<PathBuf>,
    /// Look and record, write nothing.
    pub observe: bool,
    /// Where what it tells goes.
    pub telemetry: Telemetry,
}

/// Runs until a signal says to stop.
///
/// Errors: no usable configuration, another process has the state, the socket cannot be made.
pub async fn run(run: &Run, environment: Environment) -> Result<(), Failure> {
    let service = Service::of(&environment);
    let mut terminate = caught(SignalKind::terminate())?;
    let mut interrupt = caught(SignalKind::interrupt())?;
    let mut hangup = caught(SignalKind::hangup())?;
    let session = Session::open_to_run(run.config.as_deref(), environment.clone()).await?;
    tell_warnings(&session);
    let options = Options { observe: run.observe };
    let tasks = TaskTracker::new();
    tell(&run.telemetry, &session, &tasks);
    // Before anything is at work: a daemon that cannot be reached shall not begin.
    let socket = api::Socket::bind(&session.config.api).await?;
    tell_stale(&session);
    let first = Instance::start(session, None, &options, &tasks).await?;
    let daemon = Arc::new(Daemon::new(first));
    tracked(&tasks, api::serve(socket, daemon.clone()));
    tracing::info!(state = %daemon.instance().session.config.state_dir.display(), "daemon is running");
    let clock = SystemClock;
    let began = tokio::time::Instant::now();
    let mut reloaded = began;
    let (mut is_ready, mut refused) = (false, "");
    let outcome = 'run: loop {
        let (instance, now) = (daemon.instance(), clock.now());
        if !is_ready && (instance.is_ready() || began.elapsed() >= FIRST_PASS) {
            is_ready = true;
            service.ready();
        }
        // Fed from the loop's own turns, so that a loop that hangs is found and ended.
        if instance.goes_round(now) {
            match is_ready {
                true => service.alive(),
                false => service.starting(now),
            }
        }
        service.status(&format!("{refused}{}", instance.summary()));
        // After a reload it is told at once how it stands under the new configuration, and not when the watchdog is due.
        let pause = match (is_ready, instance.is_ready()) {
            (false, _) => Duration::from_millis(50),
            (true, false) if reloaded.elapsed() < FIRST_PASS => service.pause().min(BEGINNING),
            (true, _) => service.pause(),
        };
        tokio::select! {
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            _ = hangup.recv() => {
                // Who still starts is not reloading: READY would end the start before the first pass.
                if is_ready {
                    service.reloading();
                }
                let mut anew = pin!(reload(&daemon, run, &environment, &options, &tasks));
                let is_taken = loop {
                    tokio::select! {
                        is_taken = &mut anew => break is_taken,
                        _ = terminate.recv() => break 'run Ok(()),
                        _ = interrupt.recv() => break 'run Ok(()),
                        // What is under way ends within limits of its own, and longer than a watchdog waits.
                        () = clock.sleep(pause) => service.alive(),
                    }
                };
                refused = match is_taken {
                    Ok(true) => {
                        reloaded = tokio::time::Instant::now();
                        ""
                    }
                    Ok(false) => "reload refused, see the log; ",
                    Err(failure) => break Err(failure),
                };
                if is_ready {
                    service.ready();
                }
            }
            () = clock.sleep(pause) => {}
        }
    };
    service.stopping();
    tracing::info!("daemon is stopping: passes that run may end, no new one begins");
    daemon.stop.set();
    let instance = daemon.instance();
    instance.stop();
    run.telemetry.stop();
    tasks.close();
    tokio::select! {
        () = tasks.wait() => {}
        () = clock.sleep(STOP_LIMIT) => tracing::warn!("a pass did not end in time; its intents are in the journal"),
    }
    tokio::select! {
        () = instance.writing.db.close() => {}
        () = clock.sleep(CLOSE_LIMIT) => tracing::warn!("the state was not closed in time; its next owner goes on from its log"),
    }
    outcome
}

/// Makes a new instance from the configuration as it is now: true; or keeps the old one and says why: false.
///
/// Errors: none can follow the old one, which has ended. Nothing works then; the service manager begins anew.
async fn reload(
    daemon: &Daemon,
    run: &Run,
    environment: &Environment,
    options: &Options,
    tasks: &TaskTracker,
) -> Result<bool, Failure> {
    let old = daemon.instance();
    let refused = |failure: &Failure| {
        tracing::error!(error = %failure, "reload refused: the configuration before stays in force");
        Ok(false)
    };
    let metrics = old.session.metrics.clone();
    let session = match Session::open_anew(run.config.as_deref(), environment.clone(), metrics).await {
        Ok(session) => session,
        Err(failure) => return refused(&failure),
    };
    let (was, is) = (&old.session.config, &session.config);
    if was.state_dir != is.state_dir || was.api != is.api {
        return refused(&Failure::plain("`stateDir` and `api` need a restart"));
    }
    // What cannot be renamed now is found out while the old one is still there to go on.
    if let Err(error) = old.writing.db.reader().due(&renames(is)).await {
        return refused(&error.into());
    }
    tell_warnings(&session);
    tell_stale(&session);
    tracing::info!("configuration is read anew: passes that run may end first");
    old.stop();
    tokio::select! {
        () = old.ended() => {}
        // It is not broken off: what a remote is making would be a question for a person then.
        () = SystemClock.sleep(STOP_LIMIT) => {
            tracing::warn!("reload waits for a pass of the configuration before, which has a call under way");
            old.ended().await;
        }
    }
    // What the old one told went where it was told to.
    tell(&run.telemetry, &session, tasks);
    let instance = Instance::start(session, Some(&old), options, tasks).await?;
    daemon.replace(instance);
    tracing::info!("configuration is reloaded");
    Ok(true)
}

/// Tells what of the configuration may not be meant.
fn tell_warnings(session: &Session) {
    for warning in &session.warnings {
        let place = warning.place.as_ref();
        let (file, line) = (place.map(|place| &*place.file), place.map(|place| place.line));
        tracing::warn!(file, line, hint = warning.hint.as_deref(), "{}", warning.message);
    }
}

/// Tells of repositories whose hooks were written for another configuration: they know neither this socket nor what to refuse.
fn tell_stale(session: &Session) {
    match operation::stale(&session.config) {
        Ok(stale) => stale.iter().for_each(|one| tracing::warn!(hint = one.hint(), "{}", one.text())),
        Err(failure) => tracing::warn!(error = %failure, "the hooks of repositories cannot be looked at"),
    }
}

fn tell(telemetry: &Telemetry, session: &Session, tasks: &TaskTracker) {
    telemetry.configure(&session.config.telemetry, &session.config.instance, tasks);
}

fn caught(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind).map_err(|error| Failure::plain(format!("wait for signals: {error}")))
}
