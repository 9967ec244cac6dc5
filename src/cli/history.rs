//! `history`, `events`, `approvals`: what happened and what was consented to, from the state alone.

use super::{
    Args, Exit, Out,
    list::{self, ListFormat},
};
use crate::{
    config::Environment,
    render::{audit, counted},
    session::{Failure, HostState},
    store::{Approvals, EventFilter, HistoryFilter},
};
use clap::Args as ClapArgs;
use std::time::Duration;

/// How often a watch looks: one indexed query each time.
const WATCH: Duration = Duration::from_millis(500);

/// Arguments of `history`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct HistoryArgs {
    /// Only what concerns this address; `*` and `?` are wild
    #[arg(value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Only the last while, such as 30d
    #[arg(long, value_name = "DURATION")]
    pub since: Option<String>,
    /// Only what this one did
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ListFormat,
}

/// Arguments of `events`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct EventsArgs {
    /// Check that no event was changed, removed or put in between
    #[arg(long, conflicts_with = "watch")]
    pub verify: bool,
    /// Show what happens from now on, until Ctrl-C; `-o json` is one object a line
    #[arg(short, long)]
    pub watch: bool,
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ListFormat,
}

/// Arguments of `approvals`.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct ApprovalsArgs {
    /// Form of output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ListFormat,
}

/// Runs `history`.
pub(super) async fn run(
    args: &Args,
    history: &HistoryArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let state = HostState::open(args.config.as_deref(), &environment)?;
    let filter = HistoryFilter {
        address: history.address.as_deref().map(list::pattern).transpose()?,
        since: list::since(history.since.as_deref(), state.clock.now())?,
        actor: history.actor.clone(),
    };
    let entries = match state.reader().await? {
        Some(reader) => reader.history(&filter).await?,
        None => Vec::new(),
    };
    list::show(out, history.output, &entries, || audit::history(&entries))?;
    Ok(Exit::Good)
}

/// Runs `events`.
pub(super) async fn events(
    args: &Args,
    events: &EventsArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let state = HostState::open(args.config.as_deref(), &environment)?;
    if events.watch {
        return watch(&state, events.output, out).await;
    }
    let reader = state.reader().await?;
    if !events.verify {
        let found = match &reader {
            Some(reader) => reader.events(&EventFilter::default(), 0, usize::MAX).await?,
            None => Vec::new(),
        };
        list::show(out, events.output, &found, || audit::events(&found))?;
        return Ok(Exit::Good);
    }
    let Some(reader) = reader else {
        out.talk("there is no state yet, so there is nothing to check");
        return Ok(Exit::Good);
    };
    let found = reader.verify_events().await?;
    list::show(out, events.output, &found, || match &found.broken {
        None => format!(
            "{}, none was changed, removed or put in between",
            counted(found.checked as usize, "event")
        ),
        Some(broken) => {
            format!(
                "{} in order; number {}: {}",
                counted(found.checked as usize, "event"),
                broken.number,
                broken.why
            )
        }
    })?;
    Ok(if found.broken.is_some() { Exit::Error } else { Exit::Good })
}

/// Shows events as they are written, until a person stops it or nobody reads any more.
async fn watch(state: &HostState, format: ListFormat, out: &mut Out) -> Result<Exit, Failure> {
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    // Where there is no state yet, all of it is new.
    let mut last = match state.reader().await? {
        Some(reader) => Some((reader.last_event().await?, reader)),
        None => None,
    };
    out.talk("waiting for events; Ctrl-C ends");
    loop {
        tokio::select! {
            _ = &mut interrupted => return Ok(Exit::Good),
            () = state.clock.sleep(WATCH) => {}
        }
        let Some((number, reader)) = &mut last else {
            last = state.reader().await?.map(|reader| (0, reader));
            continue;
        };
        for event in reader.events(&EventFilter::default(), *number, usize::MAX).await? {
            *number = event.number;
            let is_heard = match format {
                ListFormat::Table | ListFormat::Wide => out.offer(&audit::event(&event)),
                ListFormat::Json => out.offer(&list::one_line(&event)?),
                ListFormat::Yaml => out.offer(&format!("---\n{}", list::yaml(&event)?)),
            };
            if !is_heard {
                return Ok(Exit::Good);
            }
        }
    }
}

/// Runs `approvals`.
pub(super) async fn approvals(
    args: &Args,
    approvals: &ApprovalsArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let state = HostState::open(args.config.as_deref(), &environment)?;
    let found = match state.reader().await? {
        Some(reader) => reader.approvals().await?,
        None => Approvals::default(),
    };
    list::show(out, approvals.output, &found, || audit::approvals(&found, state.clock.now()))?;
    Ok(Exit::Good)
}
