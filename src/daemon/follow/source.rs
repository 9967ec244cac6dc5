//! One source as the loop has it, and when it is polled.

use crate::{config::SourceConfig, daemon::wishes::Wish, session::Snapshot};
use reconciled_provider::Hash;
use std::{sync::Arc, time::Duration};

/// Until sources are polled again after their revisions could not come into force.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// At least so much lies between the beginnings of polls that hints lead to.
const HINTS: Duration = Duration::from_secs(1);

/// One source, as the loop has it.
pub(super) struct Source {
    pub(super) config: SourceConfig,
    /// As it is loaded: what the last poll came to that was concluded. None until it was had once.
    pub(super) snapshot: Option<Snapshot>,
    /// Commit and refusal that the last poll came to.
    pub(super) loaded: Option<(Arc<str>, Option<String>)>,
    /// When it is polled next, since the epoch.
    pub(super) due: Duration,
    pub(super) is_polling: bool,
    /// Asked for while it was polled: that poll may have begun too early.
    pub(super) again: bool,
    /// Hinted at while it was polled.
    pub(super) is_hinted: bool,
    /// When the last poll began, since the epoch.
    pub(super) began: Duration,
    /// The [round](super::state::Loop::round) of the last poll, and of the last that was told what the ref is at and is concluded.
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// The first round that began after another commit was found.
    pub(super) moved: u64,
    /// How often another commit came into force, and how often it had when the last poll began.
    pub(super) arrivals: u64,
    pub(super) judged_after: u64,
    /// A poll that came back and has not been concluded.
    pub(super) back: Option<Back>,
    /// Consent to a rewind, for the next poll.
    pub(super) accept_rewind: Option<Arc<Wish>>,
    /// The consent that the poll under way was given.
    pub(super) rewinding: Option<Arc<Wish>>,
    /// Pushes that the audit trail does not know of yet.
    pub(super) pushes: Vec<Arc<Wish>>,
    pub(super) polls: u64,
    /// The newest commit that was not in force when it was first seen, and when that was.
    pub(super) seen: Option<(Arc<str>, Duration)>,
    /// The commit that was in force when the daemon began.
    pub(super) was_in_force: Option<Arc<str>>,
}

/// A poll that came back, until what it came to is in force.
pub(super) struct Back {
    /// No other one was asked for since it began.
    pub(super) is_final: bool,
    /// There is something to load.
    pub(super) is_loaded: bool,
    /// Its [round](super::state::Loop::round), where it was told what the ref is at.
    pub(super) answered: Option<u64>,
    /// When it found another commit, since the epoch.
    pub(super) moved_at: Option<Duration>,
    /// What it came to; none where that is nothing that can be looked at.
    pub(super) snapshot: Option<Snapshot>,
}

impl Source {
    /// One that nothing is known of yet, but whether it may be ahead of others of its repository.
    pub(super) fn of(config: &SourceConfig, is_ahead: bool) -> Source {
        Source {
            config: config.clone(),
            snapshot: None,
            loaded: None,
            due: Duration::ZERO,
            is_polling: false,
            again: false,
            is_hinted: false,
            began: Duration::ZERO,
            asked: 0,
            answered: 0,
            moved: u64::from(is_ahead),
            arrivals: 0,
            judged_after: 0,
            back: None,
            accept_rewind: None,
            rewinding: None,
            pushes: Vec::new(),
            polls: 0,
            seen: None,
            was_in_force: None,
        }
    }
}

/// When a source that was hinted at is polled. A clock that went back is no reason to wait.
pub(super) fn after_hint(source: &Source, now: Duration) -> Duration {
    (source.began + HINTS).clamp(now, now + HINTS)
}

/// Longest time until the next poll. What is due later was put down before the clock went back.
pub(super) fn longest(source: &Source) -> Duration {
    source.config.interval.mul_f64(1.1).max(AGAIN)
}

/// Until the next poll: the interval ±10 %, so that sources of one server do not ask at once.
pub(super) fn spread(source: &Source) -> Duration {
    let seed = Hash::of(format!("{} {}", source.config.name, source.polls).as_bytes());
    let share = f64::from(u16::from_le_bytes([seed.0[0], seed.0[1]])) / f64::from(u16::MAX);
    source.config.interval.mul_f64(0.9 + 0.2 * share)
}
