//! `sync`: looks and acts now; consents to a rewound source.

use super::{
    Args, Exit, Host, Out,
    apply::actor,
    follow::follow,
    plan::{tell_problems, tell_warnings},
};
use crate::{
    config::{Environment, Period},
    operation::SyncAsk,
    session::{Ask, Failure, Session, Snapshot, rewound},
};
use clap::Args as ClapArgs;

/// Arguments of `sync`.
#[derive(Clone, Debug, ClapArgs)]
pub struct SyncArgs {
    /// Only where these are declared or tracked; `*` and `?` are wild
    #[arg(value_name = "ADDRESS")]
    pub address: Vec<String>,
    /// Only this provider entry
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Follow it until it has converged, is held, or failed
    #[arg(long)]
    pub wait: bool,
    /// Wait for this commit, by its first seven digits or more, of the source that is named or the only one
    #[arg(long, value_name = "SHA", requires = "wait")]
    pub rev: Option<String>,
    /// How long to follow
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub timeout: String,
    /// Accept that the source now is at this commit, by all of its digits, which does not descend from the one in force
    #[arg(long, value_name = "SHA", requires = "source")]
    pub accept_rewind: Option<String>,
    /// How the request is called in `status -o json`, for those who look later
    #[arg(long, value_name = "NAME")]
    pub request: Option<String>,
    /// Print each line of the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    sync: &SyncArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let host = Host::find(args, &environment, out).await?;
    let accept_rewind = sync.accept_rewind.as_ref().map(|commit| commit.to_lowercase());
    if let Host::Daemon(client) = host {
        let timeout = timeout(&sync.timeout)?;
        let ask = SyncAsk {
            addresses: sync.address.clone(),
            provider: sync.provider.clone(),
            source: sync.source.clone(),
            accept_rewind,
            only_changes: false,
            scopes: Vec::new(),
            follows_up: false,
            wait: sync.wait.then_some(timeout),
            rev: sync.rev.as_ref().map(|commit| commit.to_lowercase()),
            request: sync.request.clone(),
        };
        return follow(&client, &ask, sync.json, out).await;
    }
    let (Some(source), Some(accept_rewind)) = (&sync.source, accept_rewind) else {
        return Err(Failure::Unreachable("no daemon has the state, so nothing can be asked of it".into()));
    };
    let actor = actor(&environment);
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let ask = Ask {
        source: Some(source.clone()),
        accept_rewind: Some((source.as_str().into(), accept_rewind.into())),
        ..Ask::default()
    };
    let writing = session.writer().await?;
    let result = accept(&session, &writing, &ask, &actor, out).await;
    writing.db.close().await;
    result
}

/// `--timeout`, in milliseconds.
pub(super) fn timeout(text: &str) -> Result<u64, Failure> {
    let period: Period = text
        .parse()
        .map_err(|_| Failure::hinted(format!("`{text}` is no duration"), "write 30s, 5m or 1h"))?;
    Ok(u64::try_from(period.0.as_millis()).unwrap_or(u64::MAX))
}

async fn accept(
    session: &Session,
    writing: &crate::session::Writing,
    ask: &Ask,
    actor: &str,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let outlook = session.outlook(ask, &*writing.db).await?;
    tell_problems(&outlook, out);
    let moved_path = outlook.desired.sources.values().any(|source| source.path_changed);
    if moved_path {
        return Err(Failure::hinted(
            "the source's `path` or `ignore` changed too, which is held on its own",
            "put the old `path` back until the rewind is in force",
        ));
    }
    let invalid = outlook.is_invalid();
    if invalid || outlook.snapshots.iter().any(|snapshot| snapshot.behind.is_some()) {
        return Ok(Exit::Error);
    }
    let consented = |snapshot: &Snapshot, at| vec![rewound(snapshot, actor, at)];
    writing.bring_into_force(&outlook.snapshots(), &outlook.desired, false, &consented).await?;
    for snapshot in &outlook.snapshots {
        let subject = snapshot.commit.as_ref().map_or("", |commit| commit.subject.as_str());
        out.data(&format!("source {} is in force at {}: {subject}", snapshot.name, snapshot.label));
    }
    out.talk("now: reconciled plan, then reconciled apply");
    Ok(Exit::Good)
}
