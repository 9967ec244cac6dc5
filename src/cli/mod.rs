//! The command line: one file for each verb. Hints live here, decisions do not.
//!
//! Data goes to standard output, talk to standard error. Every verb ends in an [`Exit`].

mod adopt;
mod answer;
mod apply;
mod approve;
mod args;
mod backup;
mod check;
mod command;
mod completions;
mod confirm;
mod demo;
mod destination;
mod ended;
mod explain;
mod export;
mod follow;
mod foreign;
mod forget;
mod history;
mod hook;
mod host;
mod hostd;
mod import;
mod init;
mod interrupt;
mod list;
mod man;
mod notify;
mod out;
mod person;
mod plan;
mod plan_file;
mod plugin_exec;
mod plugin_serve;
mod probe;
mod progress;
mod renew;
mod rollback;
mod run;
mod settings;
mod status;
mod suspend;
mod sync;
mod take_over;
mod through;
mod token;
mod validate;

pub use args::Args;
pub use command::{Command, CommandLine};
pub use out::{Exit, Out};

use crate::{
    config::Environment,
    failure::Failure,
    telemetry::{self, Telemetry},
};
use clap::{CommandFactory as _, Parser as _};
use command::Misread;
use std::{ffi::OsString, pin::Pin};
use tracing_subscriber::EnvFilter;

/// Runs one invocation and returns its exit code.
pub async fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let environment = Environment::of_process();
    let mut out = Out::new(&environment);
    let line = match CommandLine::read(arguments) {
        Ok(line) => line,
        Err(Misread { error, hint }) => {
            let printed = error.print();
            // Usage errors are 1: clap's 2 would read as "changes pending".
            if error.use_stderr() {
                if let Some(hint) = hint {
                    out.talk(&format!("hint: {hint}"));
                }
                return Exit::Error.code();
            }
            out.note(printed);
            return out.end(Exit::Good.code());
        }
    };
    let (filter, wrong) = filter(&line.args, &environment);
    let telemetry = telemetry::start(filter);
    if let Some(error) = wrong {
        let hint = "hint: write levels, as in info,reconciled_engine=debug";
        out.talk(&format!("warning: RECONCILED_LOG has no effect: {error}\n{hint}"));
    }
    let code = match dispatch(&line, environment, telemetry, &mut out).await {
        Ok(exit) => exit.code(),
        Err(failure) => fail(&failure, &mut out),
    };
    out.end(code)
}

/// Runs one verb.
async fn dispatch(
    line: &CommandLine,
    environment: Environment,
    telemetry: Telemetry,
    out: &mut Out,
) -> Result<Exit, Failure> {
    line.only_here()?;
    let CommandLine { args, command } = line;
    match command {
        Command::Adopt(adopt) => adopt::run(args, adopt, environment, out).await,
        Command::Apply(apply) => apply::run(args, apply, environment, out).await,
        Command::Approvals(list) => history::approvals(args, list, environment, out).await,
        Command::Approve(approve) => approve::run(args, approve, environment, out).await,
        Command::Backup(backup) => backup::run(args, backup, environment, out).await,
        Command::Check(check) => check::run(args, check, environment, out).await,
        Command::Completions(completions) => completions::run(completions, CommandLine::command(), out),
        Command::Demo(demo) => demo::run(demo, within, environment, out).await,
        Command::Events(events) => history::events(args, events, environment, out).await,
        Command::Explain(explain) => explain::run(args, explain, environment, out).await,
        Command::Export(export) => export::run(args, export, environment, out).await,
        Command::Forget(forget) => forget::run(args, forget, environment, out).await,
        Command::History(history) => history::run(args, history, environment, out).await,
        Command::Hook(hook) => hook::run(hook, environment, out).await,
        Command::Hostd => hostd::run(args).await,
        Command::Import(import) => import::run(args, import, environment, out).await,
        Command::Init(init) => init::run(args, init, environment, out).await,
        Command::Man(man) => man::run(man, CommandLine::command(), out),
        Command::Notify(notify) => notify::run(args, notify, environment, out).await,
        Command::Plan(plan) => plan::run(args, plan, environment, out).await,
        Command::Renew(renew) => renew::run(args, renew, environment, out).await,
        Command::PluginExec(exec) => plugin_exec::run(exec),
        Command::PluginServe => plugin_serve::run().await,
        Command::Restore(restore) => backup::restore(args, restore, environment, out).await,
        Command::Resume(resume) => suspend::resume(args, resume, environment, out).await,
        Command::Rollback(rollback) => rollback::run(args, rollback, environment, out).await,
        Command::Run(run) => run::run(args, run, environment, telemetry).await,
        Command::State(state) => backup::state(args, state, environment, out).await,
        Command::Status(status) => status::run(args, status, environment, out).await,
        Command::Suspend(suspend) => suspend::run(args, suspend, environment, out).await,
        Command::Sync(sync) => sync::run(args, sync, environment, out).await,
        Command::Token(token) => token::run(token, out),
        Command::Validate(validate) => validate::run(validate, out),
    }
}

/// Runs one command line within another, as a [`demo::Program`].
fn within(
    words: Vec<OsString>,
    environment: Environment,
    out: &mut Out,
) -> Pin<Box<dyn Future<Output = Exit> + '_>> {
    Box::pin(async move {
        let line = match CommandLine::try_parse_from(words) {
            Ok(line) => line,
            Err(error) => {
                out.talk(&error.to_string());
                return Exit::Error;
            }
        };
        dispatch(&line, environment, Telemetry::default(), out).await.unwrap_or_else(|failure| {
            fail(&failure, out);
            Exit::Error
        })
    })
}

/// Tells a failure; the code is the process's.
fn fail(failure: &Failure, out: &mut Out) -> u8 {
    out.talk(&format!("error: {failure}"));
    if let Some(hint) = failure.hint() {
        out.talk(&format!("hint: {hint}"));
    }
    match failure {
        Failure::Unreachable(_) | Failure::Silent(_) | Failure::Away(_) => Exit::Unreachable.code(),
        _ => Exit::Error.code(),
    }
}

/// Diagnostics are quiet unless asked for. Also what is wrong with how that was done.
fn filter(args: &Args, environment: &Environment) -> (EnvFilter, Option<String>) {
    let level = match args.verbose {
        0 => "warn",
        1 => "info",
        2 => "reconciled=debug,reconciled_engine=debug,reconciled_dns=debug,info",
        _ => "debug",
    };
    match environment.var("RECONCILED_LOG").map(EnvFilter::try_new) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(level), Some(error.to_string())),
        None => (EnvFilter::new(level), None),
    }
}
