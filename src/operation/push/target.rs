//! Which sources follow a repository that is pushed to.

use crate::{
    config::{Approver, Config, GitRef, OnHold, SourceConfig},
    manifest, session,
    source::Limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{path::Path, sync::Arc, time::Duration};

/// Who follows this repository?
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushTargetAsk {
    /// Its path, without links.
    pub repository: String,
}

/// What a hook must know to check a push. `init` leaves a copy in the repository for when nobody answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushTarget {
    /// The sources that follow the repository.
    pub sources: Vec<PushSource>,
    /// What happens to a push whose plan is held.
    pub on_hold: OnHold,
    /// How long a push waits for its plan, in milliseconds.
    pub plan_timeout: u64,
    /// How long a push follows what it set off, in milliseconds.
    pub push_timeout: u64,
    /// The daemon can do without files that are as they are in force: see `Upload::base`.
    #[serde(default)]
    pub knows_base: bool,
    /// It waits for all that a push moves: see `PushFollow::moves`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub knows_moves: bool,
}

/// One source of a repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushSource {
    /// Its name.
    pub name: String,
    /// What of the repository it follows.
    pub follows: GitRef,
    /// Folders of manifests.
    pub paths: Vec<Arc<str>>,
    /// Globs of files that are no manifests.
    pub ignore: Vec<Arc<str>>,
    /// How much of a tree is read.
    pub limits: Limits,
    /// Whoever pushes may consent to what is held.
    pub consents: bool,
    /// So may whoever may use the daemon's socket.
    #[serde(default = "yes")]
    pub socket: bool,
    /// A trailer of the commit may consent too.
    #[serde(default)]
    pub trailers: bool,
    /// Commits have to be signed; only the daemon knows by whom.
    #[serde(default)]
    pub verifies: bool,
    /// The commit that is in force, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<String>,
}

/// What was true of every daemon that says nothing of it.
fn yes() -> bool {
    true
}

impl PushTarget {
    /// What `config` says about the repository at `directory`, which has no link in it.
    pub fn of(config: &Config, directory: &Path) -> PushTarget {
        let sources = at(config, directory);
        let source = |source: &SourceConfig| PushSource {
            name: source.name.to_string(),
            follows: source.reference.clone(),
            paths: source.paths.iter().map(|path| manifest::on_host(path, &config.host)).collect(),
            ignore: source.ignore.clone(),
            limits: session::tree_limits(source),
            consents: source.approve.contains(&Approver::PushOption),
            socket: source.approve.contains(&Approver::Socket),
            trailers: source.approve.contains(&Approver::Trailer),
            verifies: source.verify.is_some(),
            in_force: None,
        };
        let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        PushTarget {
            sources: sources.iter().map(source).collect(),
            on_hold: config.hook.on_hold,
            plan_timeout: milliseconds(config.hook.plan_timeout),
            push_timeout: milliseconds(config.hook.push_timeout),
            knows_base: false,
            knows_moves: false,
        }
    }
}

impl PushSource {
    /// Says whether a push to the ref `name` may move the source.
    pub fn follows(&self, name: &str) -> bool {
        session::reference(&self.follows).is_ok_and(|reference| reference.follows(name))
    }

    /// Says whether it follows one ref that only moves on; else what is pushed may be one of many.
    pub fn is_line(&self) -> bool {
        is_line(&self.follows)
    }
}

/// Says whether a source follows one ref, whose commits descend from each other.
pub(crate) fn is_line(follows: &GitRef) -> bool {
    matches!(follows, GitRef::Branch(_) | GitRef::Tag(_))
}

/// The sources of `config` whose repository is at `directory`.
pub(super) fn at(config: &Config, directory: &Path) -> Vec<SourceConfig> {
    config.sources.iter().filter(|source| session::is_at(config, source, directory)).cloned().collect()
}
