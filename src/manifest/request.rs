//! What is to be loaded: sources with the rules for their manifests, entries, and what this host knows besides.

use super::{files::Files, outputs::Outputs, secrets::SecretMarks};
use crate::config::{Allow, ApplyMode, Host, OnInvalid, SourceConfig, Vars};
use reconciled_provider::{Drift, Kinds, Observer, ResourceId, Scope};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A provider entry, as far as reading goes.
#[derive(Clone)]
pub struct EntryView {
    /// Name in the host configuration.
    pub name: Arc<str>,
    /// What normalizes.
    pub observer: Arc<dyn Observer>,
    /// The kinds it knows.
    pub kinds: Arc<Kinds>,
}

impl fmt::Debug for EntryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryView").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A configured entry that does not tell its kinds.
#[derive(Clone, Debug)]
pub struct Ailing {
    /// Its name.
    pub name: Arc<str>,
    /// The groups that its kinds may have, as far as its configuration tells.
    pub groups: Vec<Arc<str>>,
    /// What keeps it from telling them.
    pub why: Arc<str>,
    /// What to do about that.
    pub hint: Option<Arc<str>>,
}

/// How the manifests of a source are to be read.
#[derive(Clone, Debug)]
pub struct SourceRules {
    /// Folders; later ones override earlier ones.
    pub paths: Vec<Arc<str>>,
    /// Variables.
    pub vars: Vars,
    /// Globs of files that are no manifests.
    pub ignore: Vec<Arc<str>>,
    /// What an invalid file means for the rest.
    pub on_invalid: OnInvalid,
    /// What happens on drift where a manifest does not say.
    pub drift: Option<Drift>,
    /// What the manifests may touch.
    pub allow: Allow,
    /// Every revision needs a person's consent.
    pub needs_consent: bool,
}

impl Default for SourceRules {
    fn default() -> SourceRules {
        SourceRules {
            paths: vec![".".into()],
            vars: Vars::default(),
            ignore: Vec::new(),
            on_invalid: OnInvalid::Partial,
            drift: None,
            allow: Allow::All,
            needs_consent: false,
        }
    }
}

impl From<&SourceConfig> for SourceRules {
    fn from(config: &SourceConfig) -> SourceRules {
        SourceRules {
            paths: config.paths.clone(),
            vars: config.vars.clone(),
            ignore: config.ignore.clone(),
            on_invalid: config.on_invalid,
            drift: Some(config.drift),
            allow: config.allow.clone(),
            needs_consent: config.apply == ApplyMode::Approve,
        }
    }
}

/// One source at one revision.
pub struct SourceRequest<'a> {
    /// Name of the source.
    pub name: Arc<str>,
    /// Full commit id; empty for a folder.
    pub revision: Arc<str>,
    /// What people call the revision.
    pub label: Arc<str>,
    /// Its files.
    pub files: &'a dyn Files,
    /// False for a folder without a name: nothing is pruned on its word.
    pub prunes: bool,
    /// How its manifests are to be read.
    pub rules: SourceRules,
}

/// The source for which a resource is tracked.
pub type Owners = BTreeMap<(Scope, ResourceId), Arc<str>>;

/// Everything that decides what is desired.
pub struct Request<'a> {
    /// The sources, in the order of the configuration: what nobody owns yet goes to the first that declares it.
    pub sources: &'a [SourceRequest<'a>],
    /// The configured sources that are not among them, and what they may touch: nobody knows what they declare.
    pub lacking: &'a [(Arc<str>, Allow)],
    /// The configured entries.
    pub entries: &'a [EntryView],
    /// Those of them that do not tell their kinds.
    pub ailing: &'a BTreeMap<Arc<str>, Ailing>,
    /// Names that entries had, each with the one that it has by now: what was written before may name either.
    pub renamed: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// Every kind this program knows, configured or not.
    pub known: &'a Kinds,
    /// This host.
    pub host: &'a Host,
    /// Who owns what several sources declare, as far as it was asked for: see [`Loaded::contested`](super::Loaded::contested).
    pub owners: &'a Owners,
    /// What other resources put out.
    pub outputs: &'a dyn Outputs,
    /// Marks of secrets.
    pub secrets: &'a dyn SecretMarks,
}

/// What is checked besides the manifests themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// For this host: provider names, host selectors, variables and secrets count.
    Host,
    /// Only what every host agrees on.
    Anywhere,
}
