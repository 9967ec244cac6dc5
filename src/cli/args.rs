//! Arguments that several verbs take, and the durations among them.

use crate::{
    config::Period,
    failure::Failure,
    operation::Selected,
    session::{Ask, Folder},
};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Arguments of every verb.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Host configuration [default: $RECONCILED_CONFIG, $XDG_CONFIG_HOME/reconciled/config.yaml, /etc/reconciled/config.yaml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Work alone; refused while a daemon has the state
    #[arg(long, global = true)]
    pub standalone: bool,
    /// Ask the daemon at this address, with the token in the file that $RECONCILED_TOKEN_FILE names
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Say more on standard error; twice or three times for still more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Form of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// The published form
    Json,
    /// For pull requests
    Markdown,
}

/// What is meant.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct SelectionArgs {
    /// Only this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Read this folder instead of a repository; `-` reads manifests from standard input
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// This revision instead of the newest
    #[arg(long, value_name = "REV", conflicts_with = "dir")]
    pub rev: Option<String>,
    /// Only what these addresses mean, deletions included; `*` and `?` are wild
    #[arg(long, value_name = "ADDRESS")]
    pub target: Vec<String>,
    /// Only manifests with such labels: team=web,env!=staging
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR")]
    pub selector: Vec<String>,
    /// List every scope, also those whose version says that nothing changed
    #[arg(long)]
    pub refresh: bool,
}

impl SelectionArgs {
    /// True where all that is declared is meant, of the newest revision.
    pub fn is_whole(&self) -> bool {
        let SelectionArgs { source, dir, rev, target, selector, refresh: _ } = self;
        source.is_none() && dir.is_none() && rev.is_none() && target.is_empty() && selector.is_empty()
    }

    /// The same, but for the folder, as an operation is asked for it.
    pub(super) fn selected(&self) -> Selected {
        Selected {
            source: self.source.clone(),
            rev: self.rev.clone(),
            target: self.target.clone(),
            selector: self.selector.clone(),
            refresh: self.refresh,
            by_person: false,
        }
    }

    /// What a session is asked for.
    pub(super) fn ask(&self) -> Result<Ask, Failure> {
        self.selected().ask(self.dir.clone().map(Folder::At))
    }
}

/// `--timeout`.
pub(super) fn timeout(text: &str) -> Result<Period, Failure> {
    text.parse().map_err(|_| Failure::hinted(format!("`{text}` is no duration"), "write 30s, 5m or 1h"))
}

/// `--for`, in milliseconds.
pub(super) fn period(text: &str) -> Result<u64, Failure> {
    let wrong = || Failure::hinted(format!("`{text}` is no duration"), "write 30m, 2h or 1d");
    let period: Period = text.parse().map_err(|_| wrong())?;
    if period.0.is_zero() {
        return Err(wrong());
    }
    Ok(u64::try_from(period.0.as_millis()).unwrap_or(u64::MAX))
}
