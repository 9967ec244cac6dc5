//! `run`: the daemon.

use super::{Args, Exit};
use crate::{
    config::Environment,
    daemon::{self, Run},
    failure::Failure,
    telemetry::Telemetry,
};
use clap::Args as ClapArgs;

/// Arguments of `run`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct RunArgs {
    /// Look and record, write nothing to any remote
    #[arg(long)]
    pub observe: bool,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    run: &RunArgs,
    environment: Environment,
    telemetry: Telemetry,
) -> Result<Exit, Failure> {
    let run = Run { config: args.config.clone(), observe: run.observe, telemetry };
    daemon::run(&run, environment).await?;
    Ok(Exit::Good)
}
