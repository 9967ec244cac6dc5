//! `status`: how it stands, from the state alone. Reaches neither remote nor source, but for the facts of an `ADDRESS`
//! that `-o wide` asks remotes for, and `-o json` where it names one thing.

use super::{
    Args, Exit, Out,
    host::Host,
    list::{self, ListFormat},
};
use crate::{
    clock::SystemClock,
    config::Environment,
    failure::Failure,
    operation::{
        self, FactEntry, ManifestEntry, RequestEntry, ResourceEntry, SourceHealth, StatusAnswer, StatusAsk,
        Unknown,
    },
    render,
    session::{Session, outside},
    store::{ConditionEntry, DriftEntry, Status},
};
use clap::Args as ClapArgs;
use reconciled_engine::{BY_PERSON, plan::STILL_THERE};
use reconciled_provider::Clock;
use serde::Serialize;
use std::{collections::BTreeMap, path::Path, time::Duration};

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
    health: &'a BTreeMap<String, SourceHealth>,
    requests: &'a [RequestEntry],
}

#[derive(Serialize)]
struct Part<'a> {
    resources: &'a [ResourceEntry],
    manifests: &'a [ManifestEntry],
    conditions: &'a [ConditionEntry],
    facts: &'a [FactEntry],
    drifts: &'a [DriftEntry],
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    status: &StatusArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let host = Host::of_state(args, &environment, out).await?;
    loop {
        if status.watch && out.terminal {
            out.data("\u{1b}[H\u{1b}[2J");
        }
        let exit = once(&host, status, (args.config.as_deref(), &environment), out).await?;
        if !status.watch || out.closed {
            return Ok(exit);
        }
        SystemClock.sleep(WATCH).await;
    }
}

async fn once(
    host: &Host,
    args: &StatusArgs,
    (config, environment): (Option<&Path>, &Environment),
    out: &mut Out,
) -> Result<Exit, Failure> {
    // A program that lists many is not to wait for as many remotes.
    let is_one = args.address.as_deref().is_some_and(|address| !address.contains('*'));
    let wide = match args.output {
        ListFormat::Wide => args.address.is_some(),
        ListFormat::Json | ListFormat::Yaml => is_one,
        ListFormat::Table => false,
    };
    let quick = args.output != ListFormat::Wide;
    let ask = StatusAsk { address: args.address.clone(), wide, quick };
    let answer = match host {
        Host::Daemon(client) => client.get("/v1/status", &ask).await?,
        Host::Alone(state) => match state.reader().await? {
            Some(reader) => {
                let outside = outside(&state.config, state.clock.now());
                let late = operation::late(state, environment, &reader).await?;
                let mut answer =
                    operation::status(&state.config, &reader, None, &outside, &[], &late, &ask).await?;
                operation::add_unanswered(&reader, &ask, &mut answer, state.clock.now()).await?;
                operation::add_unknown(&reader, None, &ask, &mut answer).await?;
                operation::add_behind(&state.config, &reader, &ask, &mut answer, state.clock.now()).await?;
                let now = state.clock.now();
                if args.address.is_none() {
                    operation::add_without_revision(&state.config, &mut answer.status, now);
                } else if answer.unknown.is_some() {
                    let mut sources = operation::of_sources(&reader).await?;
                    operation::add_without_revision(&state.config, &mut sources, now);
                    answer.messages.extend(operation::without_revision(&state.config, &sources));
                }
                if wide {
                    match Session::open(config, environment.clone()).await {
                        Ok(session) => operation::add_facts(&session, &mut answer, ask.quick).await,
                        // What is wrong was said, and what is known without the remotes is still shown.
                        Err(Failure::Problems(_)) => {}
                        Err(failure) => return Err(failure),
                    }
                }
                answer
            }
            None => {
                let dir = state.config.state_dir.display();
                out.talk(&format!("no state in {dir} yet: nothing was applied"));
                out.talk("hint: to see what would be done: reconciled plan");
                if !matches!(args.output, ListFormat::Json | ListFormat::Yaml) {
                    return Ok(Exit::Good);
                }
                StatusAnswer { instance: state.config.instance.to_string(), ..StatusAnswer::default() }
            }
        },
    };
    let StatusAnswer { instance, status, health, resources, manifests, facts, messages, requests, unknown } =
        &answer;
    messages.iter().for_each(|message| out.talk(message));
    let now = SystemClock.now();
    if args.address.is_none() {
        let whole = Whole { instance, status, health, requests };
        list::show(out, args.output, &whole, || render::status::status(instance, status, health, now))?;
        return Ok(exit(args, status));
    }
    let part = Part { resources, manifests, conditions: &status.conditions, facts, drifts: &status.drifts };
    if let (Some(unknown), Some(address)) = (unknown, &args.address) {
        // A program is answered in its form all the same.
        if matches!(args.output, ListFormat::Json | ListFormat::Yaml) {
            list::show(out, args.output, &part, String::new)?;
        }
        return Err(nothing_known(address, unknown, host));
    }
    list::show(out, args.output, &part, || {
        let table = render::status::tracked(resources, &status.conditions, args.output == ListFormat::Wide);
        let more = [
            render::status::rests(resources, now),
            render::status::facts(facts),
            render::status::problems(status, now),
        ];
        more.iter().filter(|part| !part.is_empty()).fold(table, |all, part| format!("{all}\n{part}"))
    })?;
    if resources.is_empty() && status.conditions.is_empty() && status.elsewhere.is_empty() {
        out.talk(&format!("nothing is tracked at {}", args.address.as_deref().unwrap_or("*/*")));
    }
    Ok(exit(args, status))
}

/// Nobody knows the address, which is no news of how anything stands.
fn nothing_known(address: &str, unknown: &Unknown, host: &Host) -> Failure {
    let looked = match host {
        Host::Daemon(client) => {
            format!("neither tracked nor declared where the daemon at {} looks", client.place)
        }
        Host::Alone(state) => format!(
            "not tracked in {}, and no pass reported it; what is only declared, `reconciled plan` shows",
            state.config.state_dir.display()
        ),
    };
    let hint = match &unknown.near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "to see all that is tracked: reconciled status '*/*'".into(),
    };
    Failure::hinted(format!("nothing is known of `{address}`: {looked}"), hint)
}

fn exit(args: &StatusArgs, status: &Status) -> Exit {
    if !args.exit_code {
        return Exit::Good;
    }
    // A predecessor that is still there keeps nothing from being as declared.
    let counts = |c: &&ConditionEntry| c.reason != STILL_THERE;
    let any =
        |kinds: &[&str]| status.conditions.iter().filter(counts).any(|c| kinds.contains(&c.kind.as_str()));
    let pending = status.scopes.iter().any(|scope| scope.pending > 0);
    let is_on_its_way = !status.progressing.is_empty();
    // For a window that is closed nobody has to do anything, nor for a manifest that says `suspend`.
    let is_stopped = status.conditions.iter().any(|condition| condition.reason == BY_PERSON);
    let is_degraded = !status.degraded.is_empty();
    // What will be held is not held yet.
    let is_held = status.holds.iter().any(|hold| hold.once.is_none());
    if any(&["stalled", "held"]) || is_held || is_stopped || is_degraded {
        Exit::Person
    } else if any(&["waiting"]) || is_on_its_way || (args.address.is_none() && (pending || status.open > 0)) {
        Exit::Late
    } else {
        Exit::Good
    }
}
