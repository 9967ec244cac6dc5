//! `status`: how it stands, from the state alone. Reaches neither remote nor source.

use super::{
    Args, Exit, Out,
    list::{self, ListFormat},
};
use crate::{
    config::Environment,
    render,
    session::{Failure, HostState},
    store::{ConditionEntry, Status, TrackedEntry},
};
use clap::Args as ClapArgs;
use reconciled_provider::{Address, Pattern};
use serde::Serialize;
use std::time::Duration;

/// How often `--watch` looks.
const WATCH: Duration = Duration::from_secs(2);

/// Arguments of `status`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct StatusArgs {
    /// List what is tracked at this address; `*` and `?` are wild
    #[arg(value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ListFormat,
    /// Show it again every two seconds
    #[arg(short, long)]
    pub watch: bool,
    /// Exit 3 when something needs a person, 4 when something waits
    #[arg(long)]
    pub exit_code: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    instance: &'a str,
    #[serde(flatten)]
    status: &'a Status,
}

#[derive(Serialize)]
struct Part<'a> {
    resources: &'a [TrackedEntry],
    conditions: &'a [ConditionEntry],
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    status: &StatusArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let state = HostState::open(args.config.as_deref(), &environment)?;
    // A pipe that was closed would never end the loop.
    if status.watch && !out.terminal {
        return Err(Failure::hinted("`--watch` needs a terminal", "leave it out, or run it under watch(1)"));
    }
    loop {
        if status.watch {
            out.data("\u{1b}[H\u{1b}[2J");
        }
        let exit = once(&state, status, out).await?;
        if !status.watch {
            return Ok(exit);
        }
        state.clock.sleep(WATCH).await;
    }
}

async fn once(state: &HostState, args: &StatusArgs, out: &mut Out) -> Result<Exit, Failure> {
    let now = state.clock.now();
    let pattern = args.address.as_deref().map(list::pattern).transpose()?;
    let Some(reader) = state.reader().await? else {
        out.talk(&format!("no state in {} yet: nothing was applied", state.config.state_dir.display()));
        out.talk("hint: to see what would be done: reconciled plan");
        if matches!(args.output, ListFormat::Json | ListFormat::Yaml) {
            let whole = Whole { instance: &state.config.instance, status: &Status::default() };
            list::show(out, args.output, &whole, String::new)?;
        }
        return Ok(Exit::Good);
    };
    let mut status = reader.status().await?;
    let Some(pattern) = pattern else {
        let whole = Whole { instance: &state.config.instance, status: &status };
        list::show(out, args.output, &whole, || {
            render::status::status(&state.config.instance, &status, now)
        })?;
        return Ok(exit(args, &status));
    };
    let rows = reader.rows(Some(&pattern)).await?;
    status.conditions.retain(|condition| concerns(&pattern, condition, &rows));
    status.holds.clear();
    let part = Part { resources: &rows, conditions: &status.conditions };
    list::show(out, args.output, &part, || {
        let table = render::status::tracked(&rows, &status.conditions, args.output == ListFormat::Wide);
        let problems = render::status::problems(&status.conditions, &[], now);
        if problems.is_empty() { table } else { format!("{table}\n{problems}") }
    })?;
    if rows.is_empty() && status.conditions.is_empty() {
        out.talk(&format!("nothing is tracked at {}", args.address.as_deref().unwrap_or("*/*")));
    }
    Ok(exit(args, &status))
}

fn concerns(pattern: &Pattern, condition: &ConditionEntry, rows: &[TrackedEntry]) -> bool {
    let tracked =
        rows.iter().any(|row| row.scope == condition.scope && Some(&row.id) == condition.id.as_ref());
    let address = condition.address.as_deref().and_then(|text| text.parse::<Address>().ok());
    let named = address.is_some_and(|address| {
        let group = address.group.clone().unwrap_or_default();
        pattern.matches(&address, &group)
    });
    tracked || named
}

fn exit(args: &StatusArgs, status: &Status) -> Exit {
    if !args.exit_code {
        return Exit::Good;
    }
    let any = |kinds: &[&str]| status.conditions.iter().any(|c| kinds.contains(&c.kind.as_str()));
    let pending = status.scopes.iter().any(|scope| scope.pending > 0);
    if any(&["stalled", "held"]) || !status.holds.is_empty() {
        Exit::Person
    } else if any(&["waiting"]) || (args.address.is_none() && (pending || status.open > 0)) {
        Exit::Late
    } else {
        Exit::Good
    }
}
