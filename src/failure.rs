//! What keeps a verb, or the daemon, from doing its work: one type for all layers, with a word for machines and a hint.

use crate::{config::LocateError, source::SourceError, store::StoreError};
use reconciled_provider::{Error, Problem};
use std::fmt;

/// Why a verb could not go on.
#[derive(Debug)]
pub enum Failure {
    /// No configuration was found.
    Config(LocateError),
    /// What a person wrote has problems.
    Problems(Vec<Problem>),
    /// A source cannot be read.
    Source(Box<SourceError>),
    /// The state cannot be read or written.
    Store(Box<StoreError>),
    /// A remote, or the engine's memory, failed.
    Remote(Error),
    /// A daemon that should be there does not answer.
    Unreachable(String),
    /// A daemon is there and says nothing.
    Silent(String),
    /// A daemon elsewhere does not answer.
    Away(String),
    /// Anything else: message and hint.
    Other(String, Option<String>),
}

impl Failure {
    /// A failure with a hint.
    pub fn hinted(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::Other(message.into(), Some(hint.into()))
    }
    /// A failure that needs no hint.
    pub fn plain(message: impl Into<String>) -> Failure {
        Failure::Other(message.into(), None)
    }
    /// What kind of failure it is, as a word for machines.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Config(_) => "config",
            Failure::Problems(_) => "problems",
            Failure::Source(_) => "source",
            Failure::Store(_) => "store",
            Failure::Remote(error) => error.kind.word(),
            Failure::Unreachable(_) | Failure::Silent(_) | Failure::Away(_) => "unreachable",
            Failure::Other(..) => "error",
        }
    }
    /// What to type.
    pub fn hint(&self) -> Option<String> {
        match self {
            Failure::Config(error) => error.hint(),
            Failure::Problems(_) => None,
            Failure::Source(error) => Some(error.hint()).filter(|hint| !hint.is_empty()),
            Failure::Store(error) => error.hint(),
            Failure::Remote(error) => error.hint.clone(),
            Failure::Unreachable(_) => Some("start it: systemctl start reconciled, or reconciled run".into()),
            Failure::Silent(_) => {
                Some("it is there and hangs: systemctl status reconciled; to begin anew: systemctl restart reconciled".into())
            }
            Failure::Away(_) => Some("check --server, and on its host: systemctl status reconciled".into()),
            Failure::Other(_, hint) => hint.clone(),
        }
    }
    /// It as text, with its hint on a line of its own.
    pub fn with_hint(&self) -> String {
        let hint = self.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        format!("{self}{hint}")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Config(error) => write!(f, "{}", chain(error)),
            Failure::Problems(problems) => {
                // A warning is no reason by itself, so it does not come first.
                let (errors, warnings): (Vec<_>, Vec<_>) =
                    problems.iter().partition(|problem| problem.is_error());
                let texts: Vec<String> = errors.iter().chain(&warnings).map(ToString::to_string).collect();
                f.write_str(texts.join("\n\n").trim_start_matches("error: "))
            }
            Failure::Source(error) => f.write_str(&chain(error.as_ref())),
            Failure::Store(error) => f.write_str(&chain(error.as_ref())),
            Failure::Remote(error) => f.write_str(&error.chain()),
            Failure::Unreachable(message)
            | Failure::Silent(message)
            | Failure::Away(message)
            | Failure::Other(message, _) => f.write_str(message),
        }
    }
}

impl std::error::Error for Failure {}

/// An error and its causes, each said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // Some say what their source says.
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text += &format!(": {said}");
        }
        next = cause.source();
    }
    text
}

impl From<LocateError> for Failure {
    fn from(error: LocateError) -> Failure {
        Failure::Config(error)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        Failure::Source(Box::new(error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(Box::new(error))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Remote(error)
    }
}
