//! What the service manager is told (sd_notify(3)). Without one, nothing.

use crate::config::Environment;
use sd_notify::NotifyState;
use std::{cell::RefCell, time::Duration};

/// A scheduler whose loop did not go round for so long hangs.
pub(super) const HANGS: Duration = Duration::from_secs(60);
/// How often the state is told while there is no watchdog.
const PAUSE: Duration = Duration::from_secs(10);

/// The service manager, if one wants to be told.
pub(super) struct Service {
    is_there: bool,
    watchdog: Option<Duration>,
    told: RefCell<String>,
}

impl Service {
    pub(super) fn of(environment: &Environment) -> Service {
        let watchdog = environment.var("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        Service {
            is_there: environment.var("NOTIFY_SOCKET").is_some(),
            watchdog: watchdog.map(Duration::from_micros),
            told: RefCell::default(),
        }
    }

    /// The first pass over everything has ended.
    pub(super) fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }
    /// The loop goes round.
    pub(super) fn alive(&self) {
        if self.watchdog.is_some() {
            self.tell(&[NotifyState::Watchdog]);
        }
    }
    /// `text` for `systemctl status`; told when it changes.
    pub(super) fn status(&self, text: &str) {
        if *self.told.borrow() != text {
            *self.told.borrow_mut() = text.to_string();
            self.tell(&[NotifyState::Status(text)]);
        }
    }
    pub(super) fn reloading(&self, _now: Duration) {
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now().ok());
        self.tell(&states);
    }
    pub(super) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping]);
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
