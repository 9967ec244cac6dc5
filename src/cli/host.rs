//! Who owns the state: the daemon, when its socket answers, or this process.

use super::{Args, Out};
use crate::{
    client::{Client, Identity},
    config::{self, Config, Environment},
    failure::Failure,
    operation::{self, EventsAsk, HistoryAsk},
    session::{HostState, Session, wrong_entries},
    store::{Approvals, EventEntry, HistoryEntry, Verification},
};
use std::path::Path;

/// Who a verb asks.
pub(super) enum Host {
    /// The daemon that has the state.
    Daemon(Client),
    /// Nobody has it: the verb works alone.
    Alone(Box<HostState>),
}

impl Host {
    /// Looks for the daemon that `--server` names, which needs no configuration; else for that of this one.
    ///
    /// Errors: no configuration, or one that cannot be used while no daemon answers; `--standalone` while a daemon has the state; a daemon that lets us not in, or is
    /// not there although it was named.
    pub(super) async fn find(args: &Args, environment: &Environment, out: &mut Out) -> Result<Host, Failure> {
        let host = Host::look(args, environment, out).await?;
        if let Host::Alone(state) = &host {
            out.talk(&alone(&state.config, &[]));
        }
        Ok(host)
    }

    /// As [`Host::find`], for who needs the state alone: what keeps entries from being used keeps it from nothing, and is said.
    pub(super) async fn of_state(
        args: &Args,
        environment: &Environment,
        out: &mut Out,
    ) -> Result<Host, Failure> {
        let host = Host::find(args, environment, out).await?;
        if let Host::Alone(state) = &host {
            let wrong = wrong_entries(&state.config);
            if !wrong.is_empty() {
                let wrong = Failure::Problems(wrong);
                out.talk(&format!(
                    "warning: nothing can be planned or applied with this configuration: {wrong}"
                ));
            }
        }
        Ok(host)
    }

    /// As [`Host::find`], for who says more of what it finds alone.
    pub(super) async fn look(args: &Args, environment: &Environment, out: &mut Out) -> Result<Host, Failure> {
        if let Some(server) = &args.server {
            let file = environment.var("RECONCILED_TOKEN_FILE").map(Path::new);
            let client = Client::remote(server, file)?;
            if let Some(identity) = client.identity().await? {
                out.talk(&using(&client, &identity));
            }
            return Ok(Host::Daemon(client));
        }
        let state = match HostState::open(args.config.as_deref(), environment) {
            Ok(state) => state,
            Err(failure @ Failure::Problems(_)) if !args.standalone => {
                return Host::in_spite_of(failure, args, environment, out).await;
            }
            Err(failure) => return Err(failure),
        };
        let Config { api, state_dir, .. } = &state.config;
        match daemon(&api.socket, state_dir.as_path()).await? {
            Some((client, _)) if args.standalone => Err(Failure::hinted(
                format!("a daemon has the state: it answers at {}", client.place),
                "leave out --standalone, or stop it: systemctl stop reconciled",
            )),
            Some((client, identity)) => {
                out.talk(&using(&client, &identity));
                Ok(Host::Daemon(client))
            }
            None => Ok(Host::Alone(Box::new(state))),
        }
    }

    /// The daemon of a configuration that is broken by now: it goes on with what it has read, and so does whoever asks it,
    /// above all to stop it.
    ///
    /// Errors: what is wrong with the configuration, where no daemon answers.
    async fn in_spite_of(
        broken: Failure,
        args: &Args,
        environment: &Environment,
        out: &mut Out,
    ) -> Result<Host, Failure> {
        let path = config::locate(args.config.as_deref(), environment)?;
        let config::Whereabouts { socket, state_dir } = config::whereabouts(&path, environment);
        // A daemon that lets us not in, or hangs, is no answer either; the file is what can be mended.
        let Ok(Some((client, identity))) = daemon(&socket, &state_dir).await else {
            return Err(broken);
        };
        out.talk(&format!(
            "warning: the configuration cannot be used, the daemon goes on with the one it has: {broken}"
        ));
        out.talk(&using(&client, &identity));
        Ok(Host::Daemon(client))
    }
}

impl Host {
    /// What happened.
    pub(super) async fn history(&self, ask: &HistoryAsk) -> Result<Vec<HistoryEntry>, Failure> {
        match self {
            Host::Daemon(client) => client.get("/v1/history", ask).await,
            Host::Alone(state) => match state.reader().await? {
                Some(reader) => operation::history(&reader, ask).await,
                None => Ok(Vec::new()),
            },
        }
    }

    /// The audit trail.
    pub(super) async fn events(&self, ask: &EventsAsk) -> Result<Vec<EventEntry>, Failure> {
        match self {
            Host::Daemon(client) => client.get("/v1/events", ask).await,
            Host::Alone(state) => match state.reader().await? {
                Some(reader) => operation::events(&reader, ask).await,
                None => Ok(Vec::new()),
            },
        }
    }

    /// Number of the newest event; 0 where there is none yet.
    pub(super) async fn last_event(&self) -> Result<i64, Failure> {
        match self {
            Host::Daemon(client) => client.get("/v1/events/last", &()).await,
            Host::Alone(state) => match state.reader().await? {
                Some(reader) => Ok(reader.last_event().await?),
                None => Ok(0),
            },
        }
    }

    /// Whether the audit trail holds together; none where there is no state yet.
    pub(super) async fn verify_events(&self) -> Result<Option<Verification>, Failure> {
        match self {
            Host::Daemon(client) => client.get("/v1/events/verify", &()).await.map(Some),
            Host::Alone(state) => match state.reader().await? {
                Some(reader) => Ok(Some(reader.verify_events().await?)),
                None => Ok(None),
            },
        }
    }

    /// What waits for consent, and what was consented to.
    pub(super) async fn approvals(&self) -> Result<Approvals, Failure> {
        match self {
            Host::Daemon(client) => client.get("/v1/approvals", &()).await,
            Host::Alone(state) => match state.reader().await? {
                Some(reader) => operation::approvals(&reader).await,
                None => Ok(Approvals::default()),
            },
        }
    }
}

/// The daemon behind `socket`, if it answers and its state is in `dir`.
async fn daemon(socket: &Path, dir: &Path) -> Result<Option<(Client, Identity)>, Failure> {
    // A socket's file outlives its daemon, but no daemon is without one.
    if !socket.exists() {
        return Ok(None);
    }
    let client = Client::unix(socket)?;
    let identity = client.identity().await?;
    // Two configurations may name one socket; the state decides whose daemon it is.
    let ours = |identity: &Identity| dir.to_string_lossy() == identity.state_dir;
    Ok(identity.filter(ours).map(|identity| (client, identity)))
}

/// Warnings about the configuration, for who works alone with it.
pub(super) fn tell_warnings(session: &Session, out: &mut Out) {
    for warning in &session.warnings {
        out.talk(&format!("{warning}\n"));
    }
}

/// The line that says that nobody else has the state, and what of the sources was looked at.
pub(super) fn alone(config: &Config, sources: &[(String, String)]) -> String {
    format!("standalone · state {}{}", config.state_dir.display(), named(sources))
}

fn named(sources: &[(String, String)]) -> String {
    sources.iter().map(|(name, label)| format!(" · source {name} at {label}")).collect()
}

fn using(client: &Client, identity: &Identity) -> String {
    let other = identity.other_version().map(|other| format!(" · {other}")).unwrap_or_default();
    let sources = named(&identity.sources);
    format!("using daemon at {} · state {}{sources}{other}", client.place, identity.state_dir)
}
