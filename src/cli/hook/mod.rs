//! `hook`: what Git runs while it receives a push.
//!
//! Guarantees: a tree is checked here, with or without a daemon; a daemon that is dead or slow never keeps a push
//! back. It needs neither configuration nor state, so it may run as any user that may push. All that is said
//! reaches the pusher as lines that Git begins with `remote: `.

mod consent;
mod daemon;
mod input;
mod options;
mod post;
mod pre;

use super::{Exit, Out};
use crate::{config::Environment, failure::Failure};
use clap::{Args as ClapArgs, Subcommand};
use input::updates;
use options::Options;
use std::path::PathBuf;

/// Arguments of `hook`.
#[derive(Clone, Debug, ClapArgs)]
pub struct HookArgs {
    #[command(subcommand)]
    which: Which,
}

/// The hooks, as in githooks(5).
#[derive(Clone, Debug, Subcommand)]
enum Which {
    /// Check a push, show its plan, and take or refuse it
    PreReceive(Place),
    /// Have a push that was taken applied, and follow it
    PostReceive(Place),
}

/// Where the daemon is.
#[derive(Clone, Debug, ClapArgs)]
struct Place {
    /// The daemon's socket
    #[arg(long, value_name = "FILE")]
    socket: PathBuf,
}

/// Runs the verb.
pub(super) async fn run(hook: &HookArgs, environment: Environment, out: &mut Out) -> Result<Exit, Failure> {
    let updates = updates(std::io::stdin().lock())?;
    let options = Options::of(&environment)?;
    match &hook.which {
        Which::PreReceive(place) => pre::run(&place.socket, &environment, &updates, &options, out).await,
        Which::PostReceive(place) => post::run(&place.socket, &environment, &updates, &options, out).await,
    }
}
