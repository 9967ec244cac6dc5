//! What the service manager is told (sd_notify(3)). Without one, nothing.

use crate::config::Environment;
use sd_notify::NotifyState;
use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

/// How often the state is told while there is no watchdog.
const PAUSE: Duration = Duration::from_secs(10);
/// What is asked for while it starts: longer than the loop may be still, and than it takes to be told again.
const MORE_TIME: Duration = Duration::from_secs(90);

/// The service manager, if one wants to be told.
pub(super) struct Service {
    is_there: bool,
    watchdog: Option<Duration>,
    told: RefCell<String>,
    /// When more time to start was asked for, since the epoch.
    asked: Cell<Option<Duration>>,
}

impl Service {
    pub(super) fn of(environment: &Environment) -> Service {
        let watchdog = environment.var("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        Service {
            is_there: environment.var("NOTIFY_SOCKET").is_some(),
            watchdog: watchdog.map(Duration::from_micros),
            told: RefCell::default(),
            asked: Cell::default(),
        }
    }

    /// The first pass over everything has ended.
    pub(super) fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }
    /// The loop goes round, and the first pass goes on: the limit for starting is for those that hang.
    pub(super) fn starting(&self, now: Duration) {
        // A clock that went back is no reason to be silent.
        if self.asked.get().is_none_or(|asked| now < asked || asked + PAUSE <= now) {
            self.asked.set(Some(now));
            self.tell(&[NotifyState::ExtendTimeoutUsec(MORE_TIME.as_micros() as u32)]);
        }
    }
    /// The loop goes round. The watchdog counts from the first time it is told.
    pub(super) fn alive(&self) {
        if self.watchdog.is_some() {
            self.tell(&[NotifyState::Watchdog]);
        }
    }
    /// `text` for `systemctl status`; told when it changes.
    pub(super) fn status(&self, text: &str) {
        // A message is one assignment a line.
        let text = text.replace('\n', " ");
        if *self.told.borrow() != text {
            self.tell(&[NotifyState::Status(&text)]);
            *self.told.borrow_mut() = text;
        }
    }
    /// The configuration is read anew. Ends with [`Service::ready`].
    pub(super) fn reloading(&self) {
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now().ok());
        self.tell(&states);
        self.status("reading the configuration");
    }
    /// No new pass begins.
    pub(super) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping]);
        self.status("stopping: passes that run may end");
    }
    /// Until it is told again: half of what the watchdog allows.
    pub(super) fn pause(&self) -> Duration {
        self.watchdog.map_or(PAUSE, |limit| (limit / 2).min(PAUSE))
    }

    fn tell(&self, states: &[NotifyState<'_>]) {
        if self.is_there
            && let Err(error) = sd_notify::notify(states)
        {
            tracing::debug!(%error, "the service manager cannot be told");
        }
    }
}
