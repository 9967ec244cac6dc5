//! The runs of a job that are remembered, in the output `runs` of its service.
//!
//! systemd knows how the last run of a unit ended, and tells when one does. So a run is put down by the first look after
//! its end; of those that began and ended while nobody looked, only the last one is. The journal has them all.

use super::is_work;
use crate::{
    hands::{Manager, Run, ended},
    systemd::{HistoryLimits, Unit},
};
use reconciled_provider::{Error, Observation, Observed, ResourceId, Sealed, Tracked, Want};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// What is remembered of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    /// The oldest first.
    runs: Vec<Past>,
}

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Past {
    /// Its name in the journal: `_SYSTEMD_INVOCATION_ID`.
    invocation: String,
    /// When it began, in seconds since the epoch: of one that systemd began anew by itself, its last main process.
    at: u64,
    /// How long it took, in milliseconds.
    millis: u64,
    /// `success`, `exit-code`, `timeout` and others.
    result: String,
    /// The exit status of its process.
    status: i32,
}

impl Past {
    fn is_well(&self) -> bool {
        self.result == "success"
    }
}

impl History {
    pub(crate) fn open(tracked: Option<&Tracked>) -> History {
        tracked.and_then(|tracked| serde_json::from_slice(&tracked.outputs.0).ok()).unwrap_or_default()
    }

    pub(crate) fn seal(&self) -> Sealed {
        Sealed::new(serde_json::to_vec(self).unwrap_or_default())
    }

    /// The same with a run that is over, and without those that are too many.
    pub(crate) fn with(mut self, run: &Run, limits: HistoryLimits) -> History {
        let is_over = run.began > 0 && run.ended >= run.began && !run.invocation.is_empty();
        if is_over && self.runs.iter().all(|past| past.invocation != run.invocation) {
            self.runs.push(Past {
                invocation: run.invocation.clone(),
                at: run.began / 1_000_000,
                millis: (run.ended - run.began) / 1_000,
                result: run.result.clone(),
                status: run.status,
            });
        }
        let (mut successful, mut failed) = (0, 0);
        let newest_first = self.runs.into_iter().rev().filter(|past| {
            let (count, limit) = match past.is_well() {
                true => (&mut successful, limits.successful),
                false => (&mut failed, limits.failed),
            };
            *count += 1;
            *count <= limit
        });
        let mut runs: Vec<Past> = newest_first.collect();
        runs.reverse();
        History { runs }
    }

    /// One line for each run, the newest first, for a person who looks at `now`.
    pub(crate) fn lines(&self, now: Duration) -> Vec<String> {
        let line = |past: &Past| {
            let how = match past.is_well() {
                true => "success".to_owned(),
                false => ended(&past.result, past.status),
            };
            let took = Duration::from_millis(past.millis);
            let ago = now.as_secs().saturating_sub(past.at);
            format!("{how}, {} ago, took {took:?}, {}", span(ago), past.invocation)
        };
        self.runs.iter().rev().map(line).collect()
    }
}

/// Puts down the runs of the jobs that were seen; returns what is remembered of each.
pub(crate) async fn remember(
    manager: &dyn Manager,
    want: &Want<'_>,
    seen: &mut Observation,
) -> Result<BTreeMap<ResourceId, History>, Error> {
    let work = want.desired.iter().filter(|desired| is_work(&desired.id.0));
    let limits: BTreeMap<&ResourceId, HistoryLimits> = work
        .filter_map(|desired| Some((&desired.id, Unit::decode(desired.spec.bytes()?)?.history)))
        .collect();
    let tracked: BTreeMap<&ResourceId, &Tracked> =
        want.tracked.iter().map(|tracked| (&tracked.id, tracked)).collect();
    let jobs = seen.resources.iter_mut().filter_map(|job| Some((*limits.get(&job.id)?, job)));
    let jobs: Vec<(HistoryLimits, &mut Observed)> = jobs.collect();
    let mut all = BTreeMap::new();
    if jobs.is_empty() {
        return Ok(all);
    }
    let names: Vec<String> = jobs.iter().map(|(_, job)| job.id.0.to_string()).collect();
    for ((limits, job), run) in jobs.into_iter().zip(manager.runs(&names).await?) {
        let history = History::open(tracked.get(&job.id).copied()).with(&run, limits);
        job.outputs = history.seal();
        all.insert(job.id.clone(), history);
    }
    Ok(all)
}

/// Seconds in the largest unit that fits.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, result: &str) -> Run {
        let began = number * 60_000_000;
        Run {
            invocation: format!("{number:032x}"),
            began,
            awake: began,
            ended: began + 1_500_000,
            result: result.into(),
            status: i32::from(result != "success"),
            restarts: 0,
        }
    }

    #[test]
    fn of_each_kind_the_newest_are_kept_and_a_run_is_put_down_once() {
        let limits = HistoryLimits { successful: 2, failed: 1 };
        let mut history = History::default();
        for (number, result) in
            [(1, "success"), (2, "exit-code"), (3, "success"), (3, "success"), (4, "timeout"), (5, "success")]
        {
            history = history.with(&run(number, result), limits);
        }
        let told: Vec<(u64, &str)> = history.runs.iter().map(|past| (past.at, &*past.result)).collect();
        assert_eq!(told, [(180, "success"), (240, "timeout"), (300, "success")]);
        // One that goes on, and one that never was.
        let on = Run { ended: 0, ..run(6, "success") };
        assert_eq!(history.clone().with(&on, limits).with(&Run::default(), limits), history);
        assert_eq!(
            history.lines(Duration::from_secs(310))[1],
            "timeout, status 1, 1 min ago, took 1.5s, 00000000000000000000000000000004"
        );
        let none = history.with(&run(7, "success"), HistoryLimits { successful: 0, failed: 0 });
        assert_eq!(none, History::default());
    }

    #[test]
    fn what_is_remembered_survives_its_bytes() {
        let history = History::default().with(&run(1, "success"), HistoryLimits::default());
        let mut tracked = Tracked::new("a.service".into(), Default::default());
        tracked.outputs = history.seal();
        assert_eq!(History::open(Some(&tracked)), history);
        assert_eq!(History::open(None), History::default());
    }
}
