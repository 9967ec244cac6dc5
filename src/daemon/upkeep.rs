//! What the daemon does for its state by the clock: backups, the export of the audit trail, its retention.
//!
//! Guarantees: none of it holds up a pass, and none that hangs holds up a reload or a stop; a backup is complete or not there;
//! the export repeats no event and leaves none out, also across a crash: where it goes on is read from the file itself, or,
//! where that was moved away or emptied, from the state. A crash between the file and the state repeats events only where the
//! file goes in the same moment. No event goes because a clock is ahead that is set within an hour after the host started, and within
//! [`SOON`] after the process did. What fails or hangs is tried again, told once and shown until it is over; a backup, which costs as
//! much as the state is large, less and less often. What hangs is not begun a second time beside itself, also by no later instance.

mod backups;
mod export;

pub(crate) use export::look_at as look_at_export;

use super::Instance;
use crate::{
    config::Config,
    failure::Failure,
    store::{ConditionEntry, Stamp},
};
use export::Export;
use futures_util::future::join;
use reconciled_engine::store::ConditionKind;
use reconciled_provider::Cx;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What the conditions are of.
pub(crate) const UPKEEP: &str = "upkeep";
/// How often it is looked whether anything is due.
const LOOK: Duration = Duration::from_secs(5);
/// How often old events are taken out, and how long after the start of the host for the first time: by then the clock is set. Where
/// nobody knows when that was, it is after the start of the process.
const TRIM: Duration = Duration::from_secs(3_600);
/// How long after the start of the process for the first time, wherever it runs.
const SOON: Duration = Duration::from_secs(300);
/// Longest time until a backup that failed is tried again.
const LONGEST: Duration = Duration::from_secs(900);
/// What took so long hangs, as on a mount whose server is away.
const HANGS: Duration = Duration::from_secs(300);
/// How long what is under way may take once the instance shall end.
const GRACE: Duration = Duration::from_secs(10);

/// One part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Backup,
    Export,
    Retention,
}

/// What does not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    why: String,
    /// Since the epoch.
    since: Duration,
}

/// What goes from one instance to the next.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// How each part went last, once it was tried or is not wished for.
    last: Mutex<BTreeMap<Work, Option<Trouble>>>,
    /// Held by what works on files until it has ended, whoever still waits for it.
    backing_up: Turn,
    exporting: Turn,
    /// When the newest event was as this process began, since the epoch.
    began: Duration,
    /// How often the trail was looked at since.
    looks: AtomicU64,
}

/// Whose turn it is.
type Turn = Arc<tokio::sync::Mutex<()>>;

impl Work {
    const ALL: [Work; 3] = [Work::Backup, Work::Export, Work::Retention];

    /// The word for metrics.
    fn word(self) -> &'static str {
        match self {
            Work::Backup => "backup",
            Work::Export => "export",
            Work::Retention => "retention",
        }
    }
    fn reason(self) -> &'static str {
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
    pub(super) fn since(began: Duration) -> Upkeep {
        Upkeep { began, ..Upkeep::default() }
    }

    /// How late it is at least, for what cannot be taken back: a clock that is ahead, as one without a battery may be until it is
    /// set, makes nothing old. While this host was off it makes it earlier than it is, until the next start.
    fn at_least(&self, now: Duration) -> Duration {
        now.min(self.began + self.has_run())
    }

    /// True once it is for so long that the clock was there to be set, on a host that is `up` for so long.
    fn is_clock_set(&self, up: Duration) -> bool {
        let run = self.has_run();
        run >= TRIM || run >= SOON && up >= TRIM
    }

    /// How long this process has run at least, whatever the clock was set to meanwhile.
    fn has_run(&self) -> Duration {
        Duration::from_secs(LOOK.as_secs() * self.looks.load(Ordering::Relaxed))
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<Work, Option<Trouble>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is not wished for, or no longer, is no trouble.
    fn wished(&self, config: &Config) {
        let is_wished = [config.backup.is_some(), config.audit.export.is_some(), config.audit.keep.is_some()];
        let others = Work::ALL.into_iter().zip(is_wished).filter(|(_, is_wished)| !is_wished);
        self.last().extend(others.map(|(work, _)| (work, None)));
    }

    /// Takes down how it went; a failure is told when it begins.
    fn told(&self, work: Work, result: &Result<(), Failure>, now: Duration) {
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

    fn conditions(&self) -> Vec<ConditionEntry> {
        let condition = |(work, trouble): (&Work, &Option<Trouble>)| {
            let trouble = trouble.as_ref()?;
            let message = format!("{}: {}", work.text(), trouble.why);
            let (kind, since) = (ConditionKind::Stalled, Stamp(trouble.since));
            Some(ConditionEntry::of(UPKEEP, kind, work.reason(), message, since).hint(work.hint()))
        };
        self.last().iter().filter_map(condition).collect()
    }
}

/// Adds what does not succeed to what is not well.
pub(crate) fn add_upkeep(instance: &Instance, conditions: &mut Vec<ConditionEntry>) {
    conditions.splice(0..0, instance.upkeep.conditions());
}

/// Each part by the word for metrics, and whether it fails or hangs.
pub(crate) fn failing(instance: &Instance) -> [(&'static str, bool); 3] {
    let last = instance.upkeep.last();
    Work::ALL.map(|work| (work.word(), last.get(&work).is_some_and(Option::is_some)))
}

/// The reasons of conditions whose end is known to be one: what was not tried since the start may still fail.
pub(crate) fn tried(instance: &Instance) -> BTreeSet<&'static str> {
    instance.upkeep.last().keys().map(|work| work.reason()).collect()
}

/// Runs until the instance stops.
pub(super) async fn watch(instance: Arc<Instance>) {
    instance.upkeep.wished(&instance.session.config);
    join(watch_backups(&instance), watch_trail(&instance)).await;
}

async fn watch_backups(instance: &Instance) {
    let cx = &instance.session.surveyor.cx;
    let Some(backups) = &instance.session.config.backup else { return };
    let mut pause = Pause::default();
    while !cx.stop.is_set() {
        let now = cx.clock.now();
        if pause.is_over(now) {
            let work = backups::back_up(instance, backups, now);
            let Some(result) = limited(instance, Work::Backup, work).await else { return };
            pause.after(&result, cx.clock.now());
        }
        rest(cx).await;
    }
}

async fn watch_trail(instance: &Instance) {
    let cx = &instance.session.surveyor.cx;
    let audit = &instance.session.config.audit;
    let mut export = audit.export.clone().map(Export::new);
    let mut trimmed = None::<Duration>;
    if export.is_none() && audit.keep.is_none() {
        return;
    }
    while !cx.stop.is_set() {
        let mut is_exported = true;
        if let Some(export) = &mut export {
            let Some(result) = limited(instance, Work::Export, export.go_on(instance)).await else { return };
            is_exported = result.is_ok();
        }
        let now = cx.clock.now();
        // What was not exported stays, whatever its age.
        if let Some(keep) = audit.keep.filter(|_| is_exported)
            // The newest event may itself be of a clock that was ahead, as it is at each start of a host without a battery.
            && instance.upkeep.is_clock_set(cx.clock.up())
            // A clock that went back is no reason to wait for what it said before.
            && trimmed.is_none_or(|at| now < at || at + TRIM <= now)
        {
            let cutoff = instance.upkeep.at_least(now).saturating_sub(keep);
            let gone = instance.writing.db.trim_events(cutoff).await;
            trimmed = Some(now);
            if let Ok(gone @ 1..) = gone {
                tracing::info!(events = gone, "old events are no longer kept");
            }
            instance.upkeep.told(Work::Retention, &gone.map(drop).map_err(Failure::from), now);
        }
        rest(cx).await;
        instance.upkeep.looks.fetch_add(1, Ordering::Relaxed);
    }
    // What the last passes did is in the file before the process ends.
    if let Some(export) = &mut export {
        let _ = limited(instance, Work::Export, export.go_on(instance)).await;
    }
}

async fn rest(cx: &Cx) {
    tokio::select! {
        () = cx.stop.wished() => {}
        () = cx.clock.sleep(LOOK) => {}
    }
}

/// Does `work` and takes down how it went, also that it hangs; it is waited for all the same, since another try would hang
/// as well and hold on to more. None where the instance ended meanwhile.
async fn limited(
    instance: &Instance,
    kind: Work,
    work: impl Future<Output = Result<(), Failure>>,
) -> Option<Result<(), Failure>> {
    let cx = &instance.session.surveyor.cx;
    let ended = async {
        cx.stop.wished().await;
        cx.clock.sleep(GRACE).await;
    };
    let (mut work, mut ended) = (pin!(work), pin!(ended));
    let mut hangs: Pin<Box<dyn Future<Output = ()> + Send + '_>> = cx.clock.sleep(HANGS);
    loop {
        tokio::select! {
            biased;
            result = &mut work => {
                instance.upkeep.told(kind, &result, cx.clock.now());
                return Some(result);
            }
            () = &mut hangs => {
                let why = format!("it has not ended within {} s, and is waited for", HANGS.as_secs());
                instance.upkeep.told(kind, &Err(Failure::plain(why)), cx.clock.now());
                hangs = Box::pin(std::future::pending());
            }
            () = &mut ended => {
                tracing::warn!(work = kind.word(), "upkeep has not ended, and is left to itself");
                return None;
            }
        }
    }
}

/// How long something that fails is let be: twice as long each time.
#[derive(Debug, Default)]
struct Pause {
    length: Duration,
    /// Since the epoch.
    until: Duration,
}

impl Pause {
    /// A clock that went back makes no pause longer.
    fn is_over(&self, now: Duration) -> bool {
        now >= self.until || now + self.length < self.until
    }

    fn after<T, E>(&mut self, result: &Result<T, E>, now: Duration) {
        self.length = if result.is_ok() { Duration::ZERO } else { (self.length * 2).clamp(LOOK, LONGEST) };
        self.until = now + self.length;
    }
}

fn about(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Failure {
    let path = path.to_path_buf();
    move |error| Failure::plain(format!("{doing} {}: {error}", path.display()))
}

/// Does `work` where it may hang, after what had `turn` before.
async fn blocking<T: Send + 'static>(
    turn: &Turn,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let turn = turn.clone().lock_owned().await;
    let work = move || {
        let result = work();
        drop(turn);
        result
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::plain(format!("work on files panicked: {error}"))),
    }
}

#[cfg(test)]
mod tests;
