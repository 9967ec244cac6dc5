//! Who owns the state: the daemon, when its socket answers, or this process.

use super::{Args, Out};
use crate::{
    client::{Client, Identity},
    config::Environment,
    session::{Failure, HostState},
};

/// Who a verb asks.
pub(super) enum Host {
    /// The daemon that has the state.
    Daemon(Client),
    /// Nobody has it: the verb works alone.
    Alone(HostState),
}

impl Host {
    /// Looks for the daemon of this configuration.
    ///
    /// Errors: no configuration; `--standalone` while a daemon has the state; a socket that lets us not in.
    pub(super) async fn find(args: &Args, environment: &Environment, out: &mut Out) -> Result<Host, Failure> {
        let state = HostState::open(args.config.as_deref(), environment)?;
        match daemon(&state).await? {
            Some((client, _)) if args.standalone => Err(Failure::hinted(
                format!("a daemon has the state: it answers at {}", client.place),
                "leave out --standalone, or stop it: systemctl stop reconciled",
            )),
            Some((client, identity)) => {
                out.talk(&using(&client, &identity));
                Ok(Host::Daemon(client))
            }
            None => Ok(Host::Alone(state)),
        }
    }
}

/// The daemon of `state`, if it answers.
async fn daemon(state: &HostState) -> Result<Option<(Client, Identity)>, Failure> {
    let socket = &state.config.api.socket;
    // A socket's file outlives its daemon, but no daemon is without one.
    if !socket.exists() {
        return Ok(None);
    }
    let client = Client::unix(socket)?;
    let identity = client.identity().await?;
    // Two configurations may name one socket; the state decides whose daemon it is.
    let ours = |identity: &Identity| state.config.state_dir.to_string_lossy() == identity.state_dir;
    Ok(identity.filter(ours).map(|identity| (client, identity)))
}

fn using(client: &Client, identity: &Identity) -> String {
    let sources: Vec<String> =
        identity.sources.iter().map(|(name, label)| format!(" · source {name} at {label}")).collect();
    format!("using daemon at {} · state {}{}", client.place, identity.state_dir, sources.concat())
}
