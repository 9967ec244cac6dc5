//! How each part of the upkeep went last, which goes from one instance to the next.

use super::turn::Turn;
use crate::{
    config::Config,
    failure::Failure,
    store::{ConditionEntry, Stamp},
};
use reconciled_engine::store::ConditionKind;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What the conditions are of.
pub(crate) const UPKEEP: &str = "upkeep";
/// How often it is looked whether anything is due.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// How often old events are taken out, and how long after the start of the host for the first time: by then the clock is set. Where
/// nobody knows when that was, it is after the start of the process.
pub(super) const TRIM: Duration = Duration::from_secs(3_600);
/// How long after the start of the process for the first time, wherever it runs.
pub(super) const SOON: Duration = Duration::from_secs(300);

/// One part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Backup,
    Export,
    Retention,
}

/// What does not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    why: String,
    /// Since the epoch.
    since: Duration,
}

/// What goes from one instance to the next.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Upkeep {
    /// How each part went last, once it was tried or is not wished for.
    last: Mutex<BTreeMap<Work, Option<Trouble>>>,
    /// Held by what works on files until it has ended, whoever still waits for it.
    pub(super) backing_up: Turn,
    pub(super) exporting: Turn,
    /// When the newest event was as this process began, since the epoch.
    began: Duration,
    /// How often the trail was looked at since.
    pub(super) looks: AtomicU64,
}

impl Work {
    pub(super) const ALL: [Work; 3] = [Work::Backup, Work::Export, Work::Retention];

    /// The word for metrics.
    pub(super) fn word(self) -> &'static str {
        match self {
            Work::Backup => "backup",
            Work::Export => "export",
            Work::Retention => "retention",
        }
    }
    pub(super) fn reason(self) -> &'static str {
        match self {
            Work::Backup => "NotBackedUp",
            Work::Export => "NotExported",
            Work::Retention => "NotTrimmed",
        }
    }
    fn text(self) -> &'static str {
        match self {
            Work::Backup => "the state cannot be backed up",
            Work::Export => "the audit trail cannot be exported",
            Work::Retention => "old events cannot be removed",
        }
    }
    fn hint(self) -> &'static str {
        match self {
            Work::Backup => "see to the folder that `backup.dir` names; it is tried again by itself",
            Work::Export => {
                "see to the file that `audit.export` names; it is tried again by itself, and no event is lost"
            }
            Work::Retention => "see the log; it is tried again by itself",
        }
    }
}

impl Upkeep {
    /// Of a process that found this to be the time of the newest event.
    pub(in crate::daemon) fn since(began: Duration) -> Upkeep {
        Upkeep { began, ..Upkeep::default() }
    }

    /// How late it is at least, for what cannot be taken back: a clock that is ahead, as one without a battery may be until it is
    /// set, makes nothing old. While this host was off it makes it earlier than it is, until the next start.
    pub(super) fn at_least(&self, now: Duration) -> Duration {
        now.min(self.began + self.has_run())
    }

    /// True once it is for so long that the clock was there to be set, on a host that is `up` for so long.
    pub(super) fn is_clock_set(&self, up: Duration) -> bool {
        let run = self.has_run();
        run >= TRIM || run >= SOON && up >= TRIM
    }

    /// How long this process has run at least, whatever the clock was set to meanwhile.
    fn has_run(&self) -> Duration {
        Duration::from_secs(LOOK.as_secs() * self.looks.load(Ordering::Relaxed))
    }

    pub(super) fn last(&self) -> MutexGuard<'_, BTreeMap<Work, Option<Trouble>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is not wished for, or no longer, is no trouble.
    pub(super) fn wished(&self, config: &Config) {
        let is_wished = [config.backup.is_some(), config.audit.export.is_some(), config.audit.keep.is_some()];
        let others = Work::ALL.into_iter().zip(is_wished).filter(|(_, is_wished)| !is_wished);
        self.last().extend(others.map(|(work, _)| (work, None)));
    }

    /// Takes down how it went; a failure is told when it begins.
    pub(super) fn told(&self, work: Work, result: &Result<(), Failure>, now: Duration) {
        let what = work.text();
        let mut last = self.last();
        let before = last.remove(&work).flatten();
        let trouble = result.as_ref().err().map(|failure| {
            match &before {
                None => tracing::error!(error = %failure, "{what}"),
                Some(_) => tracing::debug!(error = %failure, "{what}"),
            }
            let since = before.as_ref().map_or(now, |before| before.since);
            Trouble { why: failure.to_string(), since }
        });
        if trouble.is_none() && before.is_some() {
            tracing::info!(work = work.word(), "upkeep succeeds again");
        }
        last.insert(work, trouble);
    }

    pub(super) fn conditions(&self) -> Vec<ConditionEntry> {
        let condition = |(work, trouble): (&Work, &Option<Trouble>)| {
            let trouble = trouble.as_ref()?;
            let message = format!("{}: {}", work.text(), trouble.why);
            let (kind, since) = (ConditionKind::Stalled, Stamp(trouble.since));
            Some(ConditionEntry::of(UPKEEP, kind, work.reason(), message, since).hint(work.hint()))
        };
        self.last().iter().filter_map(condition).collect()
    }
}
