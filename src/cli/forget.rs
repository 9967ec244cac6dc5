//! `forget`: lets go of what is tracked, which stays as it is.

use super::{Args, Exit, Host, Out, answer::AnswerArgs, apply::actor, backup::consent};
use crate::{
    config::Environment,
    operation::{self, ForgetAsk, Forgotten},
    render,
    session::Failure,
    store::{SHARES, TrackedEntry, UNANSWERED},
};
use clap::Args as ClapArgs;
use serde::Serialize;

/// Arguments of `forget`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ForgetArgs {
    /// What to let go of; `*` and `?` are wild
    #[arg(value_name = "ADDRESS", required_unless_present_any = ["source", "all"], conflicts_with_all = ["source", "all"])]
    pub address: Option<String>,
    /// Everything this source declared
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Everything that is tracked
    #[arg(long, conflicts_with = "source")]
    pub all: bool,
    /// Do not ask, which only happens at a terminal
    #[arg(short, long)]
    pub yes: bool,
    #[command(flatten)]
    pub answer: AnswerArgs,
}

/// What was let go of.
#[derive(Serialize)]
struct LetGo {
    count: usize,
    resources: Vec<TrackedEntry>,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    forget: &ForgetArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let address = if forget.all { Some("*/*".into()) } else { forget.address.clone() };
    let ask = ForgetAsk { address, source: forget.source.clone() };
    let host = Host::find(args, &environment, out).await?;
    let rows: Vec<TrackedEntry> = match &host {
        Host::Daemon(client) => client.get("/v1/forget", &ask).await?,
        Host::Alone(state) => operation::forgettable(&state.reader_of_some().await?, &ask).await?,
    };
    let say = if forget.answer.is_json() { Out::talk } else { Out::data };
    say(out, &render::status::rows(&rows));
    let question = format!("Let go of these {}? They stay as they are.", rows.len());
    if !consent(forget.yes, &question, out)? {
        return Ok(Exit::Error);
    }
    let forgotten: Forgotten = match &host {
        Host::Daemon(client) => client.post("/v1/forget", &rows).await?,
        Host::Alone(state) => {
            let db = state.writer_as_named().await?;
            let result = operation::forget(&db, rows.clone(), &actor(&environment), state.clock.now()).await;
            db.close().await;
            result?
        }
    };
    let open: Vec<_> = rows.iter().filter(|row| row.state == UNANSWERED).collect();
    let questions = open.len();
    let is_asked = |row: &TrackedEntry| open.iter().any(|one| (&one.scope, &one.id) == (&row.scope, &row.id));
    let tracked = rows.iter().filter(|row| row.state != SHARES && !is_asked(row)).count();
    forget.answer.tell(&LetGo { count: forgotten.count, resources: rows }, out, |_, _| {})?;
    out.talk(&format!("{} forgotten", forgotten.count));
    if questions > 0 {
        out.talk("what was sent without an answer counts as not made: while a manifest declares it, it is made anew");
    }
    if tracked > 0 {
        out.talk("what was tracked is not adopted again while a manifest declares it");
        out.talk("hint: to take one back: reconciled adopt ADDRESS");
    }
    Ok(Exit::Good)
}
