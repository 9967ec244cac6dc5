//! `plugin-exec`: becomes a provider's process that ends when the one that asked for it does. Nobody types it.

use super::Exit;
use crate::failure::Failure;
use clap::Args as ClapArgs;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::{os::unix::process::CommandExt, path::PathBuf, process::Command};

/// Arguments of `plugin-exec`.
#[derive(Clone, Debug, ClapArgs)]
pub struct PluginExecArgs {
    /// The process that asks for it
    #[arg(value_name = "PID")]
    pub parent: i32,
    /// The provider's program
    #[arg(value_name = "PROGRAM")]
    pub program: PathBuf,
    /// What people know it by, where that is not its path
    #[arg(value_name = "NAME")]
    pub name: Option<PathBuf>,
}

/// Runs the verb. Returns only when it failed.
pub(super) fn run(args: &PluginExecArgs) -> Result<Exit, Failure> {
    let failed = |why: String| Failure::plain(format!("run {}: {why}", args.program.display()));
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed(error.to_string()))?;
    // Who died before that was said sends no signal any more.
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != args.parent) {
        return Err(failed("who asked for it is gone".into()));
    }
    let mut command = Command::new(&args.program);
    command.arg0(args.name.as_ref().unwrap_or(&args.program));
    Err(failed(command.exec().to_string()))
}
