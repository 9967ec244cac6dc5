//! `sync`: looks and acts now; consents to a rewound source.

use super::{
    Args, Exit, Host, Out,
    apply::actor,
    follow::follow,
    plan::{tell_problems, tell_warnings},
};
use crate::{
    config::{Environment, Period},
    failure::Failure,
    operation::SyncAsk,
    session::{Ask, Session, Snapshot, rewound},
    text::time::span,
};
use clap::Args as ClapArgs;
use std::time::Duration;

/// How long a daemon may take to say that it is there: whoever waits for less waits for no daemon that hangs.
const MOMENT: Duration = Duration::from_secs(1);

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
    /// Accept that the source that is named, or the only one, now is at this commit, by all of its digits, which does not
    /// descend from the one in force
    #[arg(long, value_name = "SHA")]
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
    let limit = timeout(&sync.timeout)?;
    let finding = Host::find(args, &environment, out);
    // A daemon that hangs is waited for no longer than what it would be followed for.
    let host = match sync.wait {
        true => {
            let patience = Duration::from_millis(limit).max(MOMENT);
            let found = tokio::time::timeout(patience, finding).await;
            found.map_err(|_| {
                Failure::Silent(format!("the daemon does not answer within {}", span(patience)))
            })??
        }
        false => finding.await?,
    };
    let accept_rewind = sync.accept_rewind.as_ref().map(|commit| commit.to_lowercase());
    let state = match host {
        Host::Daemon(client) => {
            let ask = SyncAsk {
                addresses: sync.address.clone(),
                provider: sync.provider.clone(),
                source: sync.source.clone(),
                accept_rewind,
                only_changes: false,
                scopes: Vec::new(),
                follows_up: false,
                try_again: false,
                wait: sync.wait.then_some(limit),
                rev: sync.rev.as_ref().map(|commit| commit.to_lowercase()),
                request: sync.request.clone(),
            };
            return follow(&client, &ask, sync.json, out).await;
        }
        Host::Alone(state) => state,
    };
    let Some(accept_rewind) = accept_rewind else {
        return Err(Failure::Unreachable("no daemon has the state, so nothing can be asked of it".into()));
    };
    let source = match (&sync.source, &state.config.sources[..]) {
        (Some(name), _) => name.clone(),
        (None, [one]) => one.name.to_string(),
        (None, _) => {
            let hint = "name it: --source NAME";
            return Err(Failure::hinted("several sources are configured, and a rewind is that of one", hint));
        }
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
            "put back what it was until the rewind is in force",
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
        out.say(&format!("source {} is in force at {}: {subject}", snapshot.name, snapshot.label));
    }
    out.talk("now: reconciled plan, then reconciled apply");
    Ok(Exit::Good)
}
