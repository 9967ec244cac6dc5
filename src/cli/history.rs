//! `history`, `events`, `approvals`: what happened and what was consented to, from the state alone.

use super::{
    Args, Exit, Host, Out,
    list::{self, ListFormat},
};
use crate::{
    clock::SystemClock,
    config::Environment,
    failure::Failure,
    operation::{EventsAsk, HistoryAsk},
    render::{audit, counted},
    store::{Stamp, Verification, export},
};
use clap::Args as ClapArgs;
use reconciled_provider::Clock;
use std::{fs::File, io::BufReader, path::PathBuf, time::Duration};

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
    /// With `--verify`: check this export of the audit trail instead of the state's own
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub file: Option<PathBuf>,
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
    let since = list::since(history.since.as_deref(), SystemClock.now())?.map(Stamp);
    let ask = HistoryAsk { address: history.address.clone(), since, actor: history.actor.clone() };
    let entries = Host::find(args, &environment, out).await?.history(&ask).await?;
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
    if let Some(file) = &events.file {
        let lines =
            File::open(file).map_err(|error| Failure::plain(format!("open {}: {error}", file.display())))?;
        let found = export::verify(BufReader::new(lines))
            .map_err(|error| Failure::plain(format!("{}: {error}", file.display())))?;
        return verified(&found, events.output, out);
    }
    let host = Host::find(args, &environment, out).await?;
    if events.watch {
        return watch(&host, events.output, out).await;
    }
    if !events.verify {
        let found = host.events(&EventsAsk::default()).await?;
        list::show(out, events.output, &found, || audit::events(&found))?;
        return Ok(Exit::Good);
    }
    let Some(found) = host.verify_events().await? else {
        out.talk("there is no state yet, so there is nothing to check");
        return Ok(Exit::Good);
    };
    verified(&found, events.output, out)
}

/// Tells what checking an audit trail came to.
fn verified(found: &Verification, format: ListFormat, out: &mut Out) -> Result<Exit, Failure> {
    list::show(out, format, found, || match &found.broken {
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
async fn watch(host: &Host, format: ListFormat, out: &mut Out) -> Result<Exit, Failure> {
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut after = host.last_event().await?;
    out.talk("waiting for events; Ctrl-C ends");
    loop {
        tokio::select! {
            _ = &mut interrupted => return Ok(Exit::Good),
            () = SystemClock.sleep(WATCH) => {}
        }
        for event in host.events(&EventsAsk { after, limit: None }).await? {
            after = event.number;
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
    let found = Host::find(args, &environment, out).await?.approvals().await?;
    list::show(out, approvals.output, &found, || audit::approvals(&found, SystemClock.now()))?;
    Ok(Exit::Good)
}
