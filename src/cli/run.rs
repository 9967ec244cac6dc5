//! `run`: the daemon.

use super::{Args, Exit};
use crate::{
    config::Environment,
    failure::Failure,
    run::{self, Run},
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
    arguments: &RunArgs,
    environment: Environment,
    telemetry: Telemetry,
) -> Result<Exit, Failure> {
    let how = Run { config: args.config.clone(), observe: arguments.observe, telemetry };
    run::run(&how, environment).await?;
    Ok(Exit::Good)
}
