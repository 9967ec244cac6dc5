//! `history`, `events`, `approvals`: what happened and what was consented to, from the state alone.

use super::{
    Args, Exit, Out,
    host::Host,
    list::{self, ListFormat},
};
use crate::{
    clock::SystemClock,
    config::Environment,
    failure::Failure,
    operation::{EventsAsk, HistoryAsk},
    render::audit,
    store::{Stamp, Verification, export},
    text::counted,
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
    /// With `--verify`: check this export of the audit trail instead of the state's own; of one in several files each, the
    /// oldest first
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub file: Vec<PathBuf>,
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
    let entries = Host::of_state(args, &environment, out).await?.history(&ask).await?;
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
    if !events.file.is_empty() {
        return verified(&exported(&events.file)?, Trail::Exported, events.output, out);
    }
    let host = Host::of_state(args, &environment, out).await?;
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
        if matches!(events.output, ListFormat::Json | ListFormat::Yaml) {
            list::show(out, events.output, &Verification::default(), String::new)?;
        }
        return Ok(Exit::Good);
    };
    verified(&found, Trail::OfState, events.output, out)
}

/// Checks an export in `files`, the oldest first.
fn exported(files: &[PathBuf]) -> Result<Verification, Failure> {
    let mut chain = export::Chain::default();
    for file in files {
        let failed = |why: &str| Failure::plain(format!("{}: {why}", file.display()));
        let lines = File::open(file).map_err(|error| failed(&format!("cannot be opened: {error}")))?;
        chain.read(BufReader::new(lines)).map_err(|error| failed(&error))?;
    }
    Ok(chain.found())
}

/// Where an audit trail was read that is checked.
#[derive(Clone, Copy)]
enum Trail {
    /// From the state, which knows where it begins and ends.
    OfState,
    /// From files, which know neither.
    Exported,
}

/// Tells what checking an audit trail came to.
fn verified(found: &Verification, of: Trail, format: ListFormat, out: &mut Out) -> Result<Exit, Failure> {
    list::show(out, format, found, || told(found, of))?;
    Ok(if found.broken.is_some() { Exit::Error } else { Exit::Good })
}

/// What a check came to, and how far that goes: what is not there was not checked.
fn told(found: &Verification, of: Trail) -> String {
    let checked = counted(found.checked as usize, "event");
    if let Some(broken) = &found.broken {
        return format!("{checked} in order; number {}: {}", broken.number, broken.why);
    }
    let Some(first) = found.first else { return "there is no event, so nothing was checked".into() };
    let last = first + found.checked as i64 - 1;
    let limits = match (of, first) {
        (Trail::OfState, 1) => String::new(),
        (Trail::OfState, _) => format!("; what came before {first} is not kept"),
        (Trail::Exported, 1) => format!("; whether more came after {last} is not known"),
        (Trail::Exported, _) => format!(
            "; what came before {first} is not there, so {first} itself is taken as given, and whether more came after {last} is not known"
        ),
    };
    format!("{checked}, number {first} to {last}: none was changed, removed or put in between{limits}")
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
    let found = Host::of_state(args, &environment, out).await?.approvals().await?;
    list::show(out, approvals.output, &found, || audit::approvals(&found, SystemClock.now()))?;
    Ok(Exit::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_of_a_trail_says_how_far_it_goes() {
        let check = |checked, first, of| told(&Verification { checked, first, broken: None }, of);
        assert_eq!(check(0, None, Trail::Exported), "there is no event, so nothing was checked");
        let all = "11 events, number 1 to 11: none was changed, removed or put in between";
        assert_eq!(check(11, Some(1), Trail::OfState), all);
        assert_eq!(
            check(11, Some(1), Trail::Exported),
            format!("{all}; whether more came after 11 is not known")
        );
        let part = "9 events, number 3 to 11: none was changed, removed or put in between; what came before 3 is not";
        assert_eq!(check(9, Some(3), Trail::OfState), format!("{part} kept"));
        assert!(
            check(9, Some(3), Trail::Exported)
                .starts_with(&format!("{part} there, so 3 itself is taken as given"))
        );
    }
}
