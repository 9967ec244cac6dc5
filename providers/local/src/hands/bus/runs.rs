//! How the last run of a unit went, and what it starts.

use super::{
    Bus,
    states::{SERVICE, SOCKET, UNIT},
    words::Trouble,
};
use data_encoding::HEXLOWER;
use futures_util::future::try_join_all;
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};

/// The last run of a service, whether it goes on or is over. Times are microseconds since the epoch, or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Changes with every start; empty when it never ran.
    pub invocation: String,
    /// When it began.
    pub began: u64,
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
        let invocation = self.property::<Vec<u8>>(path, UNIT, "InvocationID").await?;
        Ok(Run {
            invocation: HEXLOWER.encode(&invocation),
            began: self.property(path, UNIT, "InactiveExitTimestamp").await?,
            ended: self.property(path, UNIT, "InactiveEnterTimestamp").await?,
            result: self.property(path, SERVICE, "Result").await?,
            status: self.property(path, SERVICE, "ExecMainStatus").await?,
            restarts: self.property(path, SERVICE, "NRestarts").await?,
        })
    }
}
