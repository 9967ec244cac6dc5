//! What systemd is asked to do to a unit, and how such a job ends.

use super::{
    connection::Bus,
    objects::{UNIT, UNITS, escape},
    states::UnitState,
};
use futures_core::stream::Stream;
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};
use std::{future::poll_fn, pin::Pin, time::Duration};
use zbus::{MessageStream, OwnedObjectPath};

/// What is to be done to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Start it.
    Start,
    /// Stop it.
    Stop,
    /// Stop and start it, as one job.
    Restart,
    /// Have it read its configuration, or restart it where it cannot.
    Reload,
}

/// Longest time a job is waited for; systemd's own limit for a start is 90 s.
const JOB: Duration = Duration::from_secs(120);
/// After this a start that is on its way counts as begun: what comes of it is seen by whoever looks how the unit fares, and
/// others of the host do not wait for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether a job is over that no signal has told of.
const AGAIN: Duration = Duration::from_secs(5);

impl Bus {
    /// How the job at `path` ended: in systemd's word; in ours where no signal came, as it is lost with the bus, in a reload of it or
    /// in a crowd, by how the unit stands. A start that is on its way after a while is `done`.
    pub(super) async fn ending(
        &self,
        (name, job, of): (&str, Job, &str),
        path: &OwnedObjectPath,
        signals: &mut MessageStream,
    ) -> Result<String, Error> {
        let (mut waited, mut next) = (Duration::ZERO, PATIENCE);
        loop {
            let told = tokio::time::timeout(next, ended(signals, path)).await;
            if let Ok(Some(result)) = told {
                return Ok(result);
            }
            waited += next;
            next = AGAIN;
            let is_over = told.is_ok() || self.is_over(name, path).await?;
            let is_done = is_done(job, of, &self.state(name).await?);
            match is_over || matches!(job, Job::Start | Job::Restart) {
                true if is_done => return Ok("done".into()),
                _ if is_over => return Ok("failed".into()),
                _ if waited >= JOB => return Ok("timeout".into()),
                _ => {}
            }
        }
    }

    /// Whether the unit has no such job any more.
    async fn is_over(&self, name: &str, job: &OwnedObjectPath) -> Result<bool, Error> {
        let path = format!("{UNITS}{}", escape(name));
        let now: Result<(u32, OwnedObjectPath), _> = self.property(&path, UNIT, "Job").await;
        now.map(|(_, now)| now != *job).map_err(|trouble| trouble.error(&format!("ask systemd for {name}")))
    }
}

/// Whether a job may be done to a unit in the run `now`, empty for none, that was asked for the run `of` it.
pub(super) fn is_about(job: Job, of: &str, now: &str) -> bool {
    match job {
        Job::Start => true,
        // What ended by itself may be about to begin again.
        Job::Stop => now == of || now.is_empty(),
        Job::Restart | Job::Reload => now == of,
    }
}

/// Whether a job did what it should, going by how its unit stands now and by the run that it was in before.
fn is_done(job: Job, before: &str, now: &UnitState) -> bool {
    match job {
        Job::Start => now.is_running(),
        Job::Stop => !now.is_running(),
        Job::Restart => now.is_running() && now.invocation != before,
        // While it is `reloading` it may still have the old configuration.
        Job::Reload => now.active == "active",
    }
}

/// Waits for the signal that ends the job at `path`; none where no more signals come.
async fn ended(signals: &mut MessageStream, path: &OwnedObjectPath) -> Option<String> {
    loop {
        let message = poll_fn(|cx| Pin::new(&mut *signals).poll_next(cx)).await?.ok()?;
        let Ok((_, job, _, result)) = message.body().deserialize::<(u32, OwnedObjectPath, String, String)>()
        else {
            continue;
        };
        if job == *path {
            return Some(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_its_signal_a_job_is_done_where_the_unit_says_so() {
        let stands = |active: &str, invocation: &str| UnitState {
            active: active.into(),
            invocation: invocation.into(),
            ..UnitState::default()
        };
        for (job, active, invocation, expect) in [
            (Job::Start, "active", "a", true),
            (Job::Start, "failed", "", false),
            (Job::Stop, "active", "a", false),
            (Job::Stop, "inactive", "", true),
            // The old run may not have been ended yet.
            (Job::Restart, "active", "a", false),
            (Job::Restart, "active", "b", true),
            (Job::Restart, "deactivating", "a", false),
            (Job::Reload, "reloading", "a", false),
            (Job::Reload, "active", "a", true),
        ] {
            assert_eq!(
                is_done(job, "a", &stands(active, invocation)),
                expect,
                "{job:?} {active} {invocation}"
            );
        }
        assert!(is_done(Job::Restart, "", &stands("active", "a")), "it did not run before");
    }

    #[test]
    fn a_job_is_about_the_run_that_was_looked_at() {
        for (job, now, expect) in [
            (Job::Start, "b", true),
            (Job::Stop, "a", true),
            (Job::Stop, "b", false),
            (Job::Stop, "", true),
            (Job::Restart, "a", true),
            (Job::Restart, "b", false),
            // It would be started, which nobody asked for.
            (Job::Restart, "", false),
            (Job::Reload, "a", true),
            (Job::Reload, "", false),
        ] {
            assert_eq!(is_about(job, "a", now), expect, "{job:?} {now}");
        }
    }
}
