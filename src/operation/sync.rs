//! Having it done now, and following it: what `sync`, `apply` and a push ask a daemon, and what they are told.

use crate::{config::Approver, store::Stamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Look and act now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyncAsk {
    /// Only the scopes in which these addresses are declared or tracked.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Only the scopes of this entry.
    pub provider: Option<String>,
    /// Only this source.
    pub source: Option<String>,
    /// Consent to a rewind of the source, or of the only one, to this commit.
    pub accept_rewind: Option<String>,
    /// Only what a new revision changed: nothing else is read anew.
    #[serde(default)]
    pub only_changes: bool,
    /// With `only_changes`: these scopes too, `PROVIDER/NAME`.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// They were asked for before, by another verb: this is no person's word past a closed window.
    #[serde(default)]
    pub follows_up: bool,
    /// Also try once more what came to nothing in `scopes`, as it is done for `addresses`.
    #[serde(default)]
    pub try_again: bool,
    /// Follow it until it converged, is held, failed, or for so many milliseconds.
    pub wait: Option<u64>,
    /// Wait for this commit, by its first seven digits or more.
    pub rev: Option<String>,
    /// How the request is called in the answer, and in `status` for those who do not wait; by default one is made up.
    pub request: Option<String>,
}

/// What was asked for with `sync`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestEntry {
    /// How it is called.
    pub request: String,
    /// Who asked.
    pub actor: String,
    /// When.
    pub asked_at: Stamp,
    /// Every scope that it means ended a pass which began after it.
    pub handled: bool,
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SyncLine {
    /// A source is in force at a commit.
    Revision {
        /// Its name.
        source: String,
        /// Full commit id.
        commit: String,
        /// What people call it.
        label: String,
    },
    /// A word for people.
    Message {
        /// The word.
        text: String,
    },
    /// So many scopes are looked at.
    Begun {
        /// How many.
        scopes: usize,
        /// How the request is called.
        #[serde(default)]
        request: String,
    },
    /// A pass over a scope ended.
    Scope {
        /// `PROVIDER/NAME`.
        scope: String,
        /// `in sync`, `waiting`, `held`, `stalled`, `suspended` or `failed`.
        stance: String,
        /// What ended, as `CHANGE OUTCOME`.
        outcomes: BTreeMap<String, usize>,
        /// The error, if it failed.
        error: Option<String>,
        /// How long it took.
        milliseconds: u64,
    },
    /// A guard domain waits for consent, or will.
    Held {
        /// Its name.
        domain: String,
        /// What is to be approved.
        digest: String,
        /// Why.
        reasons: Vec<String>,
        /// When it will, in words, where a closed window or a person stops it now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        once: Option<String>,
        /// By which ways consent to it counts.
        #[serde(default)]
        ways: Vec<Approver>,
    },
    /// The end.
    End {
        /// How it ended.
        outcome: SyncOutcome,
        /// What ended altogether, as `CHANGE OUTCOME`.
        outcomes: BTreeMap<String, usize>,
        /// Scopes that are not in sync, and how they stand: a word, the error if there is one, and on a line of its own what to do about it.
        left: BTreeMap<String, String>,
        /// It failed by errors of manifests alone: nothing of that is tried again before they are mended.
        #[serde(default)]
        invalid: bool,
        /// Something may have been done before the question, which `outcomes` have not: what was pushed was in force by then.
        #[serde(default)]
        missed: bool,
        /// How long it took.
        milliseconds: u64,
        /// The request that this is the end of.
        #[serde(default)]
        request: String,
    },
}

/// How following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SyncOutcome {
    /// Everything is in sync.
    Converged,
    /// It was asked for; nobody waits.
    Accepted,
    /// A person must consent or act.
    Held,
    /// Something failed.
    Failed,
    /// A newer revision took its place.
    Superseded,
    /// It goes on, and nobody waits any longer.
    TimedOut,
    /// The commit that was waited for has not come.
    Missing,
}
