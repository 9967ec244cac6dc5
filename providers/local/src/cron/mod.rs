//! Cron jobs: a service that does the work and a timer that starts it, made from one manifest.
//!
//! Both are units as all others, in a scope of their own, `cron`, so that a plan tells whose they are: `CronJob/backup#timer`.

mod history;
mod kind;
mod normalize;
mod schedule;

pub(crate) use history::{History, remember};
pub use kind::{CRON_JOB, Concurrency, CronJobSpec, MissedRuns};
pub(crate) use normalize::normalize;

/// The name of the scope that the units of cron jobs are in.
pub const CRON: &str = "cron";

/// True for the unit whose runs are those of a job, where all of them are runs of one unit.
pub(crate) fn is_work(unit: &str) -> bool {
    part(unit) == Some("service") && !unit.contains('@')
}

/// The part of a job that a unit is: `service`, `timer` or `start`.
pub(crate) fn part(unit: &str) -> Option<&str> {
    match unit.strip_suffix("-start.service") {
        Some(_) => Some("start"),
        None => unit.rsplit_once('.').map(|(_, kind)| kind),
    }
}
