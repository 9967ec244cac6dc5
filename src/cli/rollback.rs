//! `rollback`: resources are kept as an earlier revision declares them.

use super::{
    Args, Exit, Out,
    answer::AnswerArgs,
    args::period,
    follow::{self, follow, tell_beside},
    host::{Host, tell_warnings},
    person::actor,
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, RollbackAsk, RolledBack, SyncAsk},
    session::Session,
};
use clap::Args as ClapArgs;
use std::collections::BTreeSet;

/// Addresses that are named one by one.
const SHOWN: usize = 20;
/// How long the daemon is followed, in milliseconds.
const FOLLOWED: u64 = 300_000;

/// Arguments of `rollback`.
#[derive(Clone, Debug, ClapArgs)]
pub struct RollbackArgs {
    /// The revision: a commit, or what names one in the source's repository
    #[arg(value_name = "REV")]
    pub rev: String,
    /// Only what these addresses mean; `*` and `?` are wild [default: all that differs]
    #[arg(long, value_name = "ADDRESS")]
    pub target: Vec<String>,
    /// Of this source; needed where several have such a revision
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Why; kept in the audit trail
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// For how long; without, until a commit changes it or `resume`
    #[arg(long = "for", value_name = "DURATION")]
    pub period: Option<String>,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    rollback: &RollbackArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let ask = RollbackAsk {
        rev: rollback.rev.clone(),
        source: rollback.source.clone(),
        target: rollback.target.clone(),
        reason: rollback.reason.clone(),
        period: rollback.period.as_deref().map(period).transpose()?,
    };
    let client = match Host::find(args, &environment, out).await? {
        Host::Daemon(client) => client,
        Host::Alone(state) => {
            if state.reader().await?.is_none() {
                return Err(operation::nothing_in_force());
            }
            return alone(args, &ask, rollback.answer, environment, out).await;
        }
    };
    let done: RolledBack = client.post("/v1/rollback", &ask).await?;
    rollback.answer.tell(&done, out, tell)?;
    let scopes: BTreeSet<String> =
        done.pins.iter().chain(&done.released).map(|pin| pin.scope.clone()).collect();
    let ask = SyncAsk {
        only_changes: true,
        follows_up: true,
        scopes: scopes.into_iter().collect(),
        wait: Some(FOLLOWED),
        ..SyncAsk::default()
    };
    let hear = if rollback.answer.is_json() { tell_beside } else { follow::tell };
    follow(&client, &ask, out, hear).await
}

async fn alone(
    args: &Args,
    ask: &RollbackAsk,
    answer: AnswerArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let actor = actor(&environment);
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let writing = session.writer().await?;
    let result = operation::rollback(&session, &writing.db, ask, &actor, session.clock.now()).await;
    writing.db.close().await;
    answer.tell(&result?, out, tell)?;
    out.talk("now: reconciled plan, then reconciled apply");
    Ok(Exit::Good)
}

fn tell(done: &RolledBack, out: &mut Out) {
    for pin in done.pins.iter().take(SHOWN) {
        let until = pin.until.map(|until| format!(" until {until}")).unwrap_or_default();
        out.say(&format!("{} is kept at {}{until}", pin.address, pin.label));
    }
    if let Some(more) = done.pins.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        out.data(&format!("… and {more} more"));
    }
    for pin in done.released.iter().take(SHOWN) {
        out.say(&format!("{} is no longer kept at {}", pin.address, pin.label));
    }
    for address in done.handed_over.iter().take(SHOWN) {
        out.talk(&format!("warning: {address} is not kept: {} has it no longer", done.source));
    }
    for fields in done.left_alone.iter().take(SHOWN) {
        out.talk(&format!("warning: {fields} stays as the remote has it: `reconciled/ignore`"));
    }
    if let [pin] = &done.pins[..] {
        out.talk(&format!("hint: to let it go on: reconciled resume {}", pin.address));
    } else if !done.pins.is_empty() {
        out.talk(&format!("hint: to let it go on: reconciled resume --source {}", done.source));
    }
}
