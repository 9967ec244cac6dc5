//! What the daemon does for its state by the clock: backups, the export of the audit trail, its retention.
//!
//! Guarantees: none of it holds up a pass, and none that hangs holds up a reload or a stop; a backup is complete or not there;
//! the export repeats no event and leaves none out, also across a crash: where it goes on is read from the file itself, or,
//! where that was moved away or emptied, from the state. A crash between the file and the state repeats events only where the
//! file goes in the same moment. No event goes because a clock is ahead that is set within an hour after the host started, and within
//! [`SOON`](record::SOON) after the process did. What fails or hangs is tried again, told once and shown until it is over; a backup,
//! which costs as much as the state is large, less and less often. What hangs is not begun a second time beside itself, also by no later instance.

mod backups;
mod export;
pub(super) mod record;
mod turn;

pub(crate) use export::look_at as look_at_export;
pub(crate) use record::UPKEEP;

use super::instance::Instance;
use crate::{failure::Failure, store::ConditionEntry};
use export::Export;
use futures_util::future::join;
use reconciled_provider::Cx;
use record::{LOOK, TRIM, Work};
use std::{
    collections::BTreeSet,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Longest time until a backup that failed is tried again.
const LONGEST: Duration = Duration::from_secs(900);
/// What took so long hangs, as on a mount whose server is away.
const HANGS: Duration = Duration::from_secs(300);
/// How long what is under way may take once the instance shall end.
const GRACE: Duration = Duration::from_secs(10);

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

#[cfg(test)]
mod tests;
