//! The kind `CronJob`; the doc comments of the fields are what `explain` prints.

use reconciled_provider::At;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Value of `kind`.
pub const CRON_JOB: &str = "CronJob";

/// A command that is run at times.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub struct CronJobSpec {
    /// The provider entry. Default: the only one that knows cron jobs.
    #[serde(rename = "provider")]
    pub _provider: Option<String>,
    /// Several provider entries that all get it.
    #[serde(rename = "providers")]
    pub _providers: Option<Vec<String>>,
    /// When it runs, as cron writes it: minute, hour, day of the month, month, day of the week; or `@daily` and its like.
    pub schedule: At<String>,
    /// The time zone of the schedule, such as `Europe/Berlin`. Default: that of the host.
    pub time_zone: Option<At<String>>,
    /// The program and its arguments. There is no shell: `[sh, -c, "…"]` has one.
    pub command: At<Vec<String>>,
    /// The user it runs as. Default: root.
    pub user: Option<At<String>>,
    /// The directory it runs in.
    pub working_directory: Option<At<String>>,
    /// Environment variables. No place for secrets: every user of the host may read them.
    #[serde(default)]
    pub environment: BTreeMap<String, At<String>>,
    /// What happens when it is time and the run before still goes on. Default: `Forbid`.
    #[serde(default)]
    pub concurrency_policy: Concurrency,
    /// What becomes of runs that were missed while the host was off. Default: `Skip`.
    #[serde(default)]
    pub missed_runs: MissedRuns,
    /// How late a run may begin, such as after the host was off or asleep; one that would begin later is left out.
    /// At least 10. Default: no limit.
    pub starting_deadline_seconds: Option<At<u32>>,
    /// A run that takes longer is ended, and failed.
    pub active_deadline_seconds: Option<At<u32>>,
    /// How many runs that went well are remembered. Default: 3.
    pub successful_jobs_history_limit: Option<At<u32>>,
    /// How many runs that failed are remembered. Default: 1.
    pub failed_jobs_history_limit: Option<At<u32>>,
    /// No further runs begin. Default: false.
    #[serde(default)]
    pub suspend: bool,
}

/// What happens when it is time and the run before still goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
pub enum Concurrency {
    /// Another run begins beside it.
    Allow,
    /// There is no further run before the next time.
    #[default]
    Forbid,
    /// The run before is ended, and another one begins.
    Replace,
}

/// What becomes of runs that were missed while the host was off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
pub enum MissedRuns {
    /// Nothing.
    #[default]
    Skip,
    /// One run makes up for them once the host is on.
    Run,
}
