//! `sync`: consents to a rewound source.

use super::{
    Args, Exit, Out,
    apply::actor,
    plan::{tell_problems, tell_warnings},
};
use crate::{
    config::Environment,
    session::{Ask, Failure, Session},
};
use clap::Args as ClapArgs;
use reconciled_engine::{Store, Write, store::Event};
use reconciled_provider::Problem;

/// Arguments of `sync`.
#[derive(Clone, Debug, ClapArgs)]
pub struct SyncArgs {
    /// The source
    #[arg(long, value_name = "NAME")]
    pub source: String,
    /// Accept that the source now is at this commit, which does not descend from the one in force
    #[arg(long, value_name = "SHA")]
    pub accept_rewind: String,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    sync: &SyncArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let actor = actor(&environment);
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let ask = Ask {
        source: Some(sync.source.clone()),
        accept_rewind: Some((sync.source.as_str().into(), sync.accept_rewind.to_lowercase().into())),
        ..Ask::default()
    };
    let writing = session.writer().await?;
    let result = accept(&session, &writing, &ask, &actor, out).await;
    writing.db.close().await;
    result
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
            "the source's `path` changed too, which is held on its own",
            "put the old `path` back until the rewind is in force",
        ));
    }
    let invalid = outlook.problems.iter().any(Problem::is_error);
    if invalid || outlook.snapshots.iter().any(|snapshot| snapshot.behind.is_some()) {
        return Ok(Exit::Error);
    }
    writing.bring_into_force(&outlook.snapshots, &outlook.desired, false).await?;
    for snapshot in &outlook.snapshots {
        let event = Event {
            at: session.clock.now(),
            kind: "rewind".into(),
            scope: None,
            address: None,
            revision: snapshot.label.clone(),
            actor: actor.into(),
            reason: "accept-rewind".into(),
            message: format!("source {} rewound to {}", snapshot.name, snapshot.revision).into(),
        };
        writing.db.commit(vec![Write::Event(event)]).await?;
        let subject = snapshot.commit.as_ref().map_or("", |commit| commit.subject.as_str());
        out.data(&format!("source {} is in force at {}: {subject}", snapshot.name, snapshot.label));
    }
    out.talk("now: reconciled plan, then reconciled apply");
    Ok(Exit::Good)
}
