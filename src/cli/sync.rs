//! `sync`: looks and acts now; consents to a rewound source.

use super::{
    Args, Exit, Out,
    args::timeout,
    follow::{follow, tell},
    host::{Host, tell_warnings},
    person::actor,
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{SyncAsk, SyncLine},
    session::{Ask, Session, Snapshot, Writing, rewound},
    text::time::span,
};
use clap::Args as ClapArgs;
use std::{sync::Arc, time::Duration};

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
    let limit = u64::try_from(timeout(&sync.timeout)?.0.as_millis()).unwrap_or(u64::MAX);
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
            let hear = |line: &SyncLine, out: &mut Out| match sync.json {
                true => out.data(&serde_json::to_string(line).unwrap_or_default()),
                false => tell(line, out),
            };
            return follow(&client, &ask, out, hear).await;
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
    let writing = session.writer().await?;
    let result = accept(&session, &writing, &source.into(), &accept_rewind.into(), &actor, out).await;
    writing.db.close().await;
    result
}

/// Brings `source` into force at the `commit` to which it was rewound. What is wrong with others is theirs: who accepts the rewinds of
/// several, one after the other, begins with one of them.
async fn accept(
    session: &Session,
    writing: &Writing,
    source: &Arc<str>,
    commit: &Arc<str>,
    actor: &str,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let ask = Ask {
        source: Some(source.to_string()),
        accept_rewind: Some((source.clone(), commit.clone())),
        ..Ask::default()
    };
    let outlook = session.outlook(&ask, &*writing.db).await?;
    outlook.messages_of(source).iter().for_each(|message| out.talk(message));
    if outlook.desired.sources.get(source).is_some_and(|state| state.path_changed) {
        return Err(Failure::hinted(
            format!(
                "the rewind of source {source} is not accepted: its `path` or `ignore` changed too, which is held \
                 on its own"
            ),
            "put back what it was until the rewind is in force",
        ));
    }
    let had = outlook.snapshots.iter().find(|snapshot| snapshot.name == *source);
    let Some(snapshot) = had.filter(|one| one.behind.is_none() && !outlook.withheld.contains(source)) else {
        out.talk(&format!("error: the rewind of source {source} is not accepted, for what is said above"));
        return Ok(Exit::Error);
    };
    if snapshot.revision != *commit {
        out.talk(&format!(
            "note: nothing was rewound: source {source} is at {}, and not at {commit}\n\
             hint: name the commit that is meant to be there: git rev-parse COMMIT",
            snapshot.revision
        ));
        return Ok(Exit::Good);
    }
    let consented = |snapshot: &Snapshot, at| vec![rewound(snapshot, actor, at)];
    writing.bring_into_force(&[snapshot], &outlook.desired, false, &consented).await?;
    let subject = snapshot.commit.as_ref().map_or("", |commit| commit.subject.as_str());
    out.say(&format!("source {source} is in force at {}: {subject}", snapshot.label));
    for other in outlook.snapshots.iter().filter(|one| one.name != *source && one.behind.is_some()) {
        out.talk(&format!("note: source {} stays at {}: reconciled plan says why", other.name, other.label));
    }
    out.talk("now: reconciled plan, then reconciled apply");
    Ok(if outlook.broken.contains(source) { Exit::Error } else { Exit::Good })
}
