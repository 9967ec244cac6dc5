//! `notify test`: has a receiver of notifications told that it can be told something.

use super::{Args, Exit, Out, host::Host};
use crate::{
    config::{Environment, HostSecrets},
    failure::Failure,
    operation::{self, NotifyTestAsk},
};
use clap::{Args as ClapArgs, Subcommand};

/// Arguments of `notify`.
#[derive(Clone, Debug, ClapArgs)]
pub struct NotifyArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: NotifyCommand,
}

/// What `notify` does.
#[derive(Clone, Debug, Subcommand)]
pub enum NotifyCommand {
    /// Send a message that says that the way works
    Test {
        /// The receiver, as `notify` of the configuration names it
        #[arg(value_name = "NAME")]
        receiver: String,
    },
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    notify: &NotifyArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let NotifyCommand::Test { receiver } = &notify.what;
    let ask = NotifyTestAsk { receiver: receiver.clone() };
    match Host::of_state(args, &environment, out).await? {
        Host::Daemon(client) => client.post::<()>("/v1/notify/test", &ask).await?,
        Host::Alone(state) => {
            // Nothing is marked here, so any key does.
            let secrets = HostSecrets::new([0; 32], environment, Default::default());
            operation::notify_test(&state.config, &secrets, &ask, state.clock.now()).await?;
        }
    }
    out.data(&format!("{receiver} was told"));
    Ok(Exit::Good)
}
