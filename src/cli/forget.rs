//! `forget`: lets go of what is tracked, which stays as it is.

use super::{
    Args, Exit, Out,
    answer::AnswerArgs,
    host::Host,
    person::{actor, consent},
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, ForgetAsk, Forgotten},
    registry,
    render::status,
    store::{SHARES, TrackedEntry, UNANSWERED},
    text::clean,
};
use clap::Args as ClapArgs;
use reconciled_provider::ManifestKey;
use serde::Serialize;
use serde_json::Value as Json;

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
    let host = Host::of_state(args, &environment, out).await?;
    let rows: Vec<TrackedEntry> = match &host {
        Host::Daemon(client) => client.get("/v1/forget", &ask).await?,
        Host::Alone(state) => operation::forgettable(&state.reader_of_some().await?, &ask).await?,
    };
    let say = if forget.answer.is_json() { Out::talk } else { Out::data };
    say(out, &status::rows(&rows));
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
    let tracked: Vec<&TrackedEntry> =
        rows.iter().filter(|row| row.state != SHARES && !is_asked(row)).collect();
    let hints = ways_back(&tracked);
    forget.answer.tell(&LetGo { count: forgotten.count, resources: rows }, out, |_, _| {})?;
    out.talk(&format!("{} forgotten", forgotten.count));
    if questions > 0 {
        out.talk("what was sent without an answer counts as not made: while a manifest declares it, it is made anew");
    }
    if !hints.is_empty() {
        out.talk("what was tracked is not adopted again while a manifest declares it");
        hints.iter().for_each(|hint| out.talk(hint));
    }
    Ok(Exit::Good)
}

/// How what was let go of is taken back. What nothing can find but the id that the remote gave it is told with that: nobody knows it
/// any more.
fn ways_back(rows: &[&TrackedEntry]) -> Vec<String> {
    let is_by_id = |row: &&&TrackedEntry| {
        registry::needs_id(&ManifestKey(row.manifest.as_str().into()), &row.id.as_str().into())
    };
    let (by_id, others): (Vec<&&TrackedEntry>, Vec<_>) = rows.iter().partition(is_by_id);
    let mut hints = Vec::new();
    if !others.is_empty() {
        hints.push("hint: to take one back: reconciled adopt ADDRESS".to_owned());
    }
    if !by_id.is_empty() {
        let hint = "hint: to take one back, write its id among the annotations of its manifest, then: reconciled adopt ADDRESS";
        hints.push(hint.to_owned());
    }
    hints.extend(by_id.into_iter().filter_map(|row| {
        let remote = Json::from(row.remote.as_deref()?).to_string();
        Some(format!("  {}: reconciled/import: {}", clean(&row.address), clean(&remote)))
    }));
    hints
}
