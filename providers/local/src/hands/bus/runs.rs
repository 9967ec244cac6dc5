//! How the last run of a unit went, and what it starts.

use super::{
    connection::Bus,
    objects::{SERVICE, SOCKET, UNIT},
    states::Properties,
    words::Trouble,
};
use data_encoding::HEXLOWER;
use futures_util::future::try_join_all;
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use zbus::OwnedVariant;

/// The last run of a service, whether it goes on or is over. Times are microseconds since the epoch, or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Changes with every start; empty when it never ran.
    pub invocation: String,
    /// When it began, at the latest: for so long it has stayed up.
    pub began: u64,
    /// When it began, at the earliest; 0 where that is not said.
    #[serde(default)]
    pub awake: u64,
    /// When it, or the one before it, ended.
    pub ended: u64,
    /// How it ended: `success`, `exit-code`, `timeout` and others.
    pub result: String,
    /// The exit status of its last main process.
    pub status: i32,
    /// How often in a row systemd started it anew by itself.
    #[serde(default)]
    pub restarts: u32,
}

/// What a run is read from.
const SAID: [(&str, &str); 7] = [
    (UNIT, "InvocationID"),
    (UNIT, "InactiveExitTimestamp"),
    (UNIT, "InactiveEnterTimestamp"),
    (SERVICE, "ExecMainStartTimestamp"),
    (SERVICE, "Result"),
    (SERVICE, "ExecMainStatus"),
    (SERVICE, "NRestarts"),
];

impl Run {
    /// What is younger than this it need not have read: its main process may have begun long after the commands that come before.
    pub(crate) fn earliest(&self) -> u64 {
        if self.awake > 0 { self.awake } else { self.began }
    }

    fn of(mut said: Properties) -> Result<Run, Trouble> {
        let invocation: Vec<u8> = said.take("InvocationID")?;
        let (awake, main): (u64, u64) =
            (said.take("InactiveExitTimestamp")?, said.take("ExecMainStartTimestamp")?);
        let restarts: u32 = said.take("NRestarts")?;
        Ok(Run {
            invocation: HEXLOWER.encode(&invocation),
            // From systemd 254 on what waits to be started anew does not become inactive again: it was awake since the run before
            // ended, and has begun between that and its main process. Elsewhere the main process is no beginning: commands may come
            // before it, and several be it one by one.
            began: if restarts > 0 { awake.max(main) } else { awake },
            awake,
            ended: said.take("InactiveEnterTimestamp")?,
            result: said.take("Result")?,
            status: said.take("ExecMainStatus")?,
            restarts,
        })
    }
}

impl Bus {
    /// The last run of each of these services, in their order.
    pub(super) async fn last_runs(&self, names: &[String]) -> Result<Vec<Run>, Error> {
        let listed = self.listed(names).await?;
        let asked = names.iter().zip(listed).map(async |(name, listed)| {
            let Some(path) = listed.and_then(|listed| listed.object()) else { return Ok(Run::default()) };
            let run = self.last_run(&path).await;
            run.map_err(|trouble| trouble.error(&format!("ask systemd for {name}")))
        });
        try_join_all(asked).await
    }

    /// The units that this one starts; none of a socket that starts one for each connection: they live without it.
    pub(super) async fn triggered(&self, name: &str) -> Result<Vec<String>, Error> {
        let listed = self.listed(&[name.to_owned()]).await?.into_iter().next().flatten();
        let Some(path) = listed.and_then(|listed| listed.object()) else { return Ok(Vec::new()) };
        let doing = |trouble: Trouble| trouble.error(&format!("ask systemd for {name}"));
        if name.ends_with(".socket") && self.property(&path, SOCKET, "Accept").await.map_err(doing)? {
            return Ok(Vec::new());
        }
        self.property(&path, UNIT, "Triggers").await.map_err(doing)
    }

    async fn last_run(&self, path: &str) -> Result<Run, Trouble> {
        let mut said = HashMap::new();
        // One by one: to tell all that it knows of a unit, systemd reads its files.
        for (interface, key) in SAID {
            said.insert(key.to_owned(), self.property::<OwnedVariant>(path, interface, key).await?);
        }
        Run::of(Properties(said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zbus::Variant;

    /// When a run began, at the latest and at the earliest, by what systemd says in that order: when it was no longer inactive, when
    /// its main process began, and how often it was started anew.
    fn began(awake: u64, main: u64, restarts: u32) -> (u64, u64) {
        let said: [(&str, Variant<'_>); 7] = [
            ("InvocationID", vec![0x4f_u8; 16].into()),
            ("InactiveExitTimestamp", awake.into()),
            ("InactiveEnterTimestamp", 1_796_133_526_000_100_u64.into()),
            ("ExecMainStartTimestamp", main.into()),
            ("Result", "success".into()),
            ("ExecMainStatus", 0_i32.into()),
            ("NRestarts", restarts.into()),
        ];
        let said = said.map(|(key, value)| (key.to_owned(), OwnedVariant::try_from(value).unwrap()));
        let Ok(run) = Run::of(Properties(said.into())) else { panic!("all of it is said") };
        (run.began, run.earliest())
    }

    #[test]
    fn a_run_that_systemd_began_anew_did_not_begin_while_it_waited_for_that() {
        let (first, second) = (1_796_133_526_000_200, 1_796_133_531_004_711);
        // With `RestartSec=5`, as systemd 254 says it, and as 252 does.
        assert_eq!(began(first, second, 1), (second, first));
        assert_eq!(began(second, second + 90, 1), (second + 90, second));
        // It waits: its main process is the one that ended.
        assert_eq!(began(second, first, 1), (second, second));
        // `ExecStartPre=` took the time between.
        assert_eq!(began(first, second, 0), (first, first));
    }

    #[test]
    fn of_a_run_whose_earliest_beginning_is_not_said_the_latest_counts() {
        let run = Run { began: 7, ..Run::default() };
        assert_eq!(run.earliest(), 7);
    }
}
