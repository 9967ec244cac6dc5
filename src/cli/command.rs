//! The verbs, and how a command line is read: what was meant by one that nobody understands is a hint.

use super::{
    adopt::AdoptArgs,
    apply::ApplyArgs,
    approve::ApproveArgs,
    args::Args,
    backup::{BackupArgs, RestoreArgs, StateArgs},
    forget::ForgetArgs,
    history::{ApprovalsArgs, EventsArgs, HistoryArgs},
    plan::PlanArgs,
    status::StatusArgs,
    suspend::{ResumeArgs, SuspendArgs},
    sync::SyncArgs,
};
use crate::failure::Failure;
use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use std::{ffi::OsString, fmt};

/// Makes DNS and other things outside a Kubernetes cluster match a Git repository, and keeps them so.
#[derive(Debug, Parser)]
#[command(name = "reconciled", version, propagate_version = true, disable_help_subcommand = true)]
pub struct CommandLine {
    #[command(flatten)]
    pub args: Args,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take over what exists and differs from its manifest
    Adopt(AdoptArgs),
    /// Carry out what `plan` shows
    Apply(ApplyArgs),
    /// List what is held and what was approved
    Approvals(ApprovalsArgs),
    /// Consent to a held plan
    Approve(ApproveArgs),
    /// Write the state to a file
    Backup(BackupArgs),
    /// Check the configuration, credentials, sources, providers and the state
    Check(super::check::CheckArgs),
    /// Print the completions of a shell
    Completions(super::completions::CompletionsArgs),
    /// Take a tour in a scratch directory: no root, no network, no server
    Demo(super::demo::DemoArgs),
    /// List the audit trail
    Events(EventsArgs),
    /// Describe a kind of manifest, or say why an address is not in sync
    Explain(super::explain::ExplainArgs),
    /// Write a state file of Terraform of what is tracked
    Export(super::export::ExportArgs),
    /// Let go of what is tracked, without changing it
    Forget(ForgetArgs),
    /// List what happened
    History(HistoryArgs),
    /// What Git runs when somebody pushes; `init` installs it
    Hook(super::hook::HookArgs),
    /// Do for the daemon what it has no rights for; systemd starts it
    #[command(hide = true)]
    Hostd,
    /// Write manifests of what a provider holds already
    Import(super::import::ImportArgs),
    /// Make a repository to push to: it shows the plan, and pushing deploys
    Init(super::init::InitArgs),
    /// Write the manual pages
    Man(super::man::ManArgs),
    /// Try the ways of notifications
    Notify(super::notify::NotifyArgs),
    /// Show what would change, without changing anything
    Plan(PlanArgs),
    /// Make certificates anew although they are as declared
    Renew(super::renew::RenewArgs),
    /// Become a provider's process that ends with its parent
    #[command(hide = true)]
    PluginExec(super::plugin_exec::PluginExecArgs),
    /// Start the provider that the daemon asks for, with fewer rights; systemd starts it
    #[command(hide = true)]
    PluginServe,
    /// Bring back a state from a backup
    Restore(RestoreArgs),
    /// Write again to what was suspended, and let go on what was rolled back
    Resume(ResumeArgs),
    /// Keep resources as an earlier revision declares them
    Rollback(super::rollback::RollbackArgs),
    /// Make a new state
    State(StateArgs),
    /// Keep the world in step, until a signal says to stop
    Run(super::run::RunArgs),
    /// Show how it stands
    Status(StatusArgs),
    /// Write nothing to a part or to all of it; looking goes on
    Suspend(SuspendArgs),
    /// Look and act now: past backoff and intervals
    Sync(SyncArgs),
    /// Make a token for those who ask over TCP
    Token(super::token::TokenArgs),
    /// Check manifests without a configuration
    Validate(super::validate::ValidateArgs),
}

/// Arguments that mean nothing, or ask for help.
#[derive(Debug)]
pub(super) struct Misread {
    pub(super) error: clap::Error,
    /// What was meant.
    pub(super) hint: Option<String>,
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        self.hint.as_ref().map_or(Ok(()), |hint| writeln!(f, "hint: {hint}"))
    }
}

impl CommandLine {
    /// Reads the arguments. For a verb that there is not, none is suggested that only other programs start.
    pub(super) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine, Misread> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        // `help VERB` is what others have for `VERB --help`.
        if arguments.get(1).is_some_and(|verb| verb == "help") {
            arguments.remove(1);
            arguments.truncate(2);
            arguments.push("--help".into());
        }
        let is_apply = arguments.iter().any(|word| word == "apply");
        let mut error = match CommandLine::try_parse_from(arguments) {
            Ok(line) => return Ok(line),
            Err(error) => error,
        };
        let near = meant(&mut error);
        Err(Misread { hint: other_words(&error, is_apply).or(near), error })
    }

    /// Refuses `--server` for what no daemon elsewhere can be asked.
    pub(super) fn only_here(&self) -> Result<(), Failure> {
        let why = match &self.command {
            Command::Check(_) => "it looks at the configuration, credentials and state of this host",
            Command::Import(import) if import.is_state_file() => {
                "what a state file does not say is kept in the state of this host"
            }
            Command::Import(import) if import.from.is_some() => "it asks no daemon",
            Command::Export(_) => "it opens what is sealed with the key of this host",
            Command::Run(_) => "it is the daemon",
            Command::Restore(_) | Command::State(_) => "it works where no daemon has the state",
            Command::Hostd => "it is the helper of this host's daemon",
            Command::Hook(_) | Command::Init(_) => "it works in a repository of the daemon's own host",
            Command::Token(_) => "what it makes goes into the configuration of the daemon's host",
            Command::Completions(_)
            | Command::Demo(_)
            | Command::Man(_)
            | Command::PluginExec(_)
            | Command::PluginServe
            | Command::Validate(_) => "it asks no daemon",
            _ if self.args.standalone => "--standalone asks no daemon",
            _ => return Ok(()),
        };
        match self.args.server {
            Some(_) => Err(Failure::hinted(format!("this does not go with --server: {why}"), "leave it out")),
            None => Ok(()),
        }
    }
}

/// Takes the tips of clap out of `error`: what they come to is a hint like all others.
fn meant(error: &mut clap::Error) -> Option<String> {
    let verbs = CommandLine::command();
    let is_hidden = |word: &str| verbs.find_subcommand(word).is_some_and(clap::Command::is_hide_set);
    let mut near = None;
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
        near = near.or(match error.remove(kind) {
            Some(ContextValue::String(word)) => Some(word),
            // The nearest comes last.
            Some(ContextValue::Strings(words)) => words.into_iter().rfind(|word| !is_hidden(word)),
            _ => None,
        });
    }
    let other = match error.remove(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips.first().map(ToString::to_string),
        _ => None,
    };
    near.map(|near| format!("did you mean `{near}`?")).or(other)
}

/// What other programs call what there is here.
fn other_words(error: &clap::Error, is_apply: bool) -> Option<String> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    if ["list", "ls", "get", "show"].contains(&word(ContextKind::InvalidSubcommand)) {
        return Some("did you mean `status`?".into());
    }
    let forces = ["--force", "--doit", "--auto-approve", "--no-confirm", "-f"];
    let is_forced = is_apply && forces.contains(&word(ContextKind::InvalidArg));
    is_forced.then(|| {
        "to apply without asking: reconciled apply --yes; what is held waits for reconciled approve".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_programs_lead_to_ours() {
        let read = |words: &[&str]| {
            let words = ["reconciled"].iter().chain(words).map(OsString::from);
            CommandLine::read(words).unwrap_err().to_string()
        };
        assert_eq!(read(&["help"]), read(&["--help"]));
        assert_eq!(read(&["help", "sync"]), read(&["sync", "--help"]));
        for flag in ["--force", "--doit"] {
            let text = read(&["apply", flag]);
            assert!(text.contains("hint: to apply without asking: reconciled apply --yes"), "{text}");
            assert!(!text.contains("tip:") && !text.contains("did you mean"), "{text}");
        }
        assert!(read(&["list"]).contains("hint: did you mean `status`?"), "{}", read(&["list"]));
    }

    #[test]
    fn what_is_misspelled_is_told_with_what_was_meant() {
        let check = |words: &str, expect: &str| {
            let words = ["reconciled"].into_iter().chain(words.split(' ')).map(OsString::from);
            let misread = CommandLine::read(words).unwrap_err();
            assert_eq!(misread.hint.as_deref(), Some(expect));
            let text = misread.to_string();
            assert!(text.ends_with(&format!("hint: {expect}\n")) && !text.contains("tip:"), "{text}");
        };
        check("plan --sorce x", "did you mean `--source`?");
        check("status --watchh", "did you mean `--watch`?");
        check("apply --yess", "did you mean `--yes`?");
        check("plann", "did you mean `plan`?");
        check("state inti", "did you mean `init`?");
        check("plan -o jsn", "did you mean `json`?");
    }

    #[test]
    fn what_only_programs_start_is_not_suggested_to_people() {
        let read =
            |verb: &str| CommandLine::read(["reconciled", verb].map(OsString::from)).unwrap_err().to_string();
        let text = read("pln");
        assert!(text.contains("hint: did you mean `plan`?") && !text.contains("plugin"), "{text}");
        let text = read("plugin-srv");
        assert!(text.contains("unrecognized subcommand") && !text.contains("plugin-serve"), "{text}");
    }
}
