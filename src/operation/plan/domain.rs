//! The guard's word on a plan, in the published form.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a plan, a domain or a change stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is in its way.
    #[default]
    Ready,
    /// It needs time or another resource.
    Waiting,
    /// It needs a person: consent, or something to be put right.
    Held,
    /// Something could not be read.
    Failed,
}

/// What the guard says of one domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardDomain {
    /// `PROVIDER/NAME` of a scope, or the name of an entry.
    pub name: Arc<str>,
    /// The scopes counted in it.
    pub scopes: Vec<Arc<str>>,
    /// Digest of its guarded changes, 32 hexadecimal digits: what an approval is bound to.
    pub digest: Option<Arc<str>>,
    /// Held, failed, waiting or ready.
    pub state: State,
    /// Why it is, or without its approval would be, held.
    pub reasons: Vec<Arc<str>>,
    /// What the guard counted.
    pub counts: Counts,
    /// A person's consent to the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// A trailer of a commit may consent to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trailers: bool,
    /// The state has a hold with this digest, so that the first digits name it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// What of it will be held once a window opens or a person resumes it; none while something is held now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreseen: Option<Foreseen>,
}

impl GuardDomain {
    /// The digests that a person has still to consent to: of what is held now, and of what will be.
    pub fn wanted(&self) -> impl Iterator<Item = &Arc<str>> {
        let now = self.digest.as_ref().filter(|_| self.state == State::Held);
        let later = self.foreseen.as_ref().filter(|foreseen| foreseen.approval.is_none());
        now.into_iter().chain(later.map(|foreseen| &foreseen.digest))
    }
}

/// What a closed window or a person stops, and will be held, or would be without its approval, once nothing does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Foreseen {
    /// When: `once the window opens`.
    pub once: Arc<str>,
    /// Its digest by then, if nothing of it changes: consent may be given ahead.
    pub digest: Arc<str>,
    /// Why it is, or without its approval would be, held.
    pub reasons: Vec<Arc<str>>,
    /// What the guard counted.
    pub counts: Counts,
    /// A person's consent to the digest: nothing is written by it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// As of the domain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

/// Changes that the guard counts: not repairs, restores and claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Creates.
    pub create: u32,
    /// Updates.
    pub update: u32,
    /// Replaces.
    pub replace: u32,
    /// Deletes.
    pub delete: u32,
}

/// A person's consent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// By whom.
    pub actor: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// When, RFC 3339.
    pub at: String,
}
