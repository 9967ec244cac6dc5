//! What the reading verbs are told: plain data, for the table, JSON and YAML renderers alike.

mod condition;
mod stamp;

pub use condition::ConditionEntry;
pub use stamp::Stamp;

use super::claim;
use reconciled_engine::{Desired, DriftField, Pin, SourceState, StoppedBy, Suspension};
use reconciled_provider::{Address, ManifestKey, Pattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc, time::Duration};

/// What is known as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Sources with a revision in force, by name.
    pub sources: Vec<SourceStatus>,
    /// Scopes with tracked resources or a known version, by name.
    pub scopes: Vec<ScopeStatus>,
    /// What is not in sync, and why.
    pub conditions: Vec<ConditionEntry>,
    /// What was found changed by somebody else and is not over, the newest first.
    #[serde(default)]
    pub drifts: Vec<DriftEntry>,
    /// What its remote says does not do its work, the longest first.
    #[serde(default)]
    pub degraded: Vec<DegradedEntry>,
    /// What its remote says does not do its work yet, the longest first.
    #[serde(default)]
    pub progressing: Vec<DegradedEntry>,
    /// What waits for consent.
    pub holds: Vec<HoldEntry>,
    /// What persons stopped.
    #[serde(default)]
    pub suspensions: Vec<SuspensionEntry>,
    /// What persons keep at an earlier revision.
    #[serde(default)]
    pub pins: Vec<PinEntry>,
    /// What is tracked for sources and entries that are not configured, said by who knows the configuration.
    #[serde(default)]
    pub unassigned: Vec<UnassignedEntry>,
    /// What manifests say that is for entries which are not configured here, as the last load found it.
    #[serde(default)]
    pub elsewhere: Vec<UnassignedManifest>,
    /// Tracked resources that are as desired and do their work, as far as is known.
    #[serde(default)]
    pub well: u64,
    /// Actions that were sent and have no answer yet.
    pub open: u64,
}

/// How many resources are tracked, and what is not for this instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackedHere {
    /// Of all entries that are configured here.
    pub here: u64,
    /// Of others, by scope.
    pub elsewhere: Vec<(String, u64)>,
    /// What manifests are for elsewhere, as it was last told.
    pub manifests: Vec<UnassignedManifest>,
}

/// What is tracked for a source or an entry that is not configured: left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnassignedEntry {
    /// `source` or `provider`.
    pub kind: String,
    /// What it was called.
    pub name: String,
    /// How many resources are tracked for it.
    pub tracked: u64,
}

/// A manifest, as far as it is for an entry that is not configured here: left to other hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct UnassignedManifest {
    /// Address of the manifest.
    pub address: Arc<str>,
    /// Its source.
    pub source: Arc<str>,
    /// Name of the entry; none where the manifest names none and no entry knows its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<str>>,
    /// Which entry to write, where one is expected here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Arc<str>>,
}

impl UnassignedManifest {
    /// What of `desired` is for entries that are not configured here; `hint` says of what no entry knows which one to write.
    pub fn of(desired: &Desired, hint: impl Fn(&ManifestKey) -> Option<String>) -> Vec<UnassignedManifest> {
        let of_source = |(source, state): (&Arc<str>, &SourceState)| -> Vec<UnassignedManifest> {
            let one = |(key, provider): &(ManifestKey, Arc<str>)| UnassignedManifest {
                address: Address::of(key, None).to_string().into(),
                source: source.clone(),
                provider: (!provider.is_empty()).then(|| provider.clone()),
                hint: if provider.is_empty() { hint(key).map(Arc::from) } else { None },
            };
            state.elsewhere.iter().map(one).collect()
        };
        desired.sources.iter().flat_map(of_source).collect()
    }
}

impl fmt::Display for UnassignedManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.provider {
            Some(provider) => write!(f, "{} (`{provider}`)", self.address),
            None => f.write_str(&self.address),
        }
    }
}

/// A source and its revision in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// Its name.
    pub source: String,
    /// Full commit id.
    pub commit: String,
    /// What people call the revision.
    pub label: String,
    /// Who wrote it.
    pub author: String,
    /// First line of its message.
    pub subject: String,
    /// Since when it is in force.
    pub since: Stamp,
    /// How many manifests it has.
    pub manifests: u64,
    /// All of it was found in sync.
    pub converged: bool,
    /// When the state was restored, where the source was not had since: nothing of it is done until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Stamp>,
}

/// A scope and what is tracked in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScopeStatus {
    /// `PROVIDER/NAME`.
    pub scope: String,
    /// Tracked resources.
    pub tracked: u64,
    /// Of these: written and not yet seen to be as written.
    pub applied: u64,
    /// Of these: on their way at the remote.
    pub pending: u64,
    /// Of these: as declared, and well as far as anybody knows, with what of them is held.
    #[serde(default)]
    pub well: u64,
    /// Foreign resources when it was last seen whole and in sync; none when it is not in sync.
    pub foreign: Option<u64>,
}

/// A resource that does not do its work, or not yet, by the word of its remote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DegradedEntry {
    /// Address for people.
    pub address: String,
    /// `PROVIDER/NAME`.
    pub scope: String,
    /// Remote key.
    pub id: String,
    /// What is the matter.
    pub message: String,
    /// Since when.
    pub since: Stamp,
    /// When it is looked at again, where that is decided and known.
    #[serde(default)]
    pub next_try: Option<Stamp>,
}

/// One entry of the drift ledger: something was found changed by somebody else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftEntry {
    /// Address for people.
    pub address: String,
    /// `PROVIDER/NAME`.
    pub scope: String,
    /// Remote key.
    pub id: String,
    /// `heal` or `warn`.
    pub mode: String,
    /// When it was first seen.
    pub first_seen: Stamp,
    /// It was gone from the remote.
    pub missing: bool,
    /// The fields that differed when it was last seen.
    pub fields: Vec<FieldEntry>,
    /// What became of it: `open` (to be healed), `reported` (and left, as `drift: warn` says), `healed` by this
    /// instance, `gone` (somebody else put it back, or something else is declared now), or `ignored` since.
    pub outcome: String,
    /// When it was seen to be over.
    pub ended_at: Option<Stamp>,
    /// The last write of this instance that may have healed it: its number in the journal.
    pub action: Option<u64>,
}

/// One field that was found changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldEntry {
    /// Its path.
    pub path: String,
    /// What the remote had; none where it had nothing. Secrets are never shown, long values are cut.
    pub remote: Option<String>,
    /// What is declared; none where nothing shall be.
    pub declared: Option<String>,
}

impl From<&DriftField> for FieldEntry {
    fn from(field: &DriftField) -> FieldEntry {
        FieldEntry {
            path: field.path.to_string(),
            remote: field.remote.as_deref().map(str::to_string),
            declared: field.declared.as_deref().map(str::to_string),
        }
    }
}

/// A plan that waits for consent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldEntry {
    /// Guard domain.
    pub domain: String,
    /// What is to be approved.
    pub digest: String,
    /// Why it is held.
    pub reasons: Vec<String>,
    /// How many.
    pub creates: u32,
    /// How many.
    pub updates: u32,
    /// How many.
    pub replaces: u32,
    /// How many.
    pub deletes: u32,
    /// Revision label.
    pub revision: String,
    /// Since when.
    pub since: Stamp,
    /// When it will be held, in words, where it is not yet: a closed window or a person stops it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<String>,
    /// The consent that counts for it, not used yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalEntry>,
}

/// What a person stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspensionEntry {
    /// What `resume` names; the path of the file where a file suspends.
    pub id: String,
    /// What is meant, as `suspend` was told.
    pub what: String,
    /// Addresses that are not meant all the same.
    pub except: Vec<String>,
    /// Why.
    pub reason: String,
    /// By whom.
    pub actor: String,
    /// Since when.
    pub since: Stamp,
    /// Until when; none until it is resumed. Once that is over, what was changed by hand meanwhile is held.
    pub until: Option<Stamp>,
    /// What ends it.
    pub hint: String,
    /// It is a window in time, and no person's word.
    #[serde(default)]
    pub is_window: bool,
}

impl From<&Suspension> for SuspensionEntry {
    fn from(suspension: &Suspension) -> SuspensionEntry {
        SuspensionEntry {
            id: suspension.id.to_string(),
            what: suspension.extent.to_string(),
            except: suspension.except.iter().map(|pattern| pattern.0.to_string()).collect(),
            reason: suspension.reason.to_string(),
            actor: suspension.actor.to_string(),
            since: Stamp(suspension.since),
            until: suspension.until.map(Stamp),
            hint: suspension.remedy(),
            is_window: matches!(suspension.stopped_by, StoppedBy::Window(_)),
        }
    }
}

/// What a person keeps at an earlier revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinEntry {
    /// What people call it.
    pub address: String,
    /// The scope it is in.
    pub scope: String,
    /// The resource.
    pub id: String,
    /// The source that declares it, or declared it then.
    pub source: String,
    /// The revision, as people call it.
    pub label: String,
    /// Why.
    pub reason: String,
    /// By whom.
    pub actor: String,
    /// Since when.
    pub since: Stamp,
    /// Until when; none until a commit changes it, or it is resumed.
    pub until: Option<Stamp>,
}

impl From<&Pin> for PinEntry {
    fn from(pin: &Pin) -> PinEntry {
        PinEntry {
            address: pin.address.to_string(),
            scope: pin.scope.to_string(),
            id: pin.id.0.to_string(),
            source: pin.manifest.source().to_string(),
            label: pin.label.to_string(),
            reason: pin.reason.to_string(),
            actor: pin.actor.to_string(),
            since: Stamp(pin.since),
            until: pin.until.map(Stamp),
        }
    }
}

/// A consent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalEntry {
    /// What was consented to.
    pub digest: String,
    /// Why.
    pub reason: String,
    /// By whom.
    pub actor: String,
    /// When.
    pub at: Stamp,
    /// Until when it can be used.
    pub expires_at: Stamp,
    /// When it was used, if it was.
    pub used_at: Option<Stamp>,
}

/// Holds, and consents from the newest on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    /// What waits for consent.
    pub holds: Vec<HoldEntry>,
    /// What was consented to.
    pub approvals: Vec<ApprovalEntry>,
}

/// State of what may have been made, and is not tracked.
pub const UNANSWERED: &str = "unanswered";

/// State of a manifest that may have values in what others share in its scope.
pub const SHARES: &str = "shares";

/// One tracked resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackedEntry {
    /// Address for people.
    pub address: String,
    /// `PROVIDER/NAME`.
    pub scope: String,
    /// Remote key.
    pub id: String,
    /// Identifier the remote assigned.
    pub remote: Option<String>,
    /// Identity of the manifest, `SOURCE/GROUP/KIND/NAMESPACE/NAME`.
    pub manifest: String,
    /// File it was last applied from.
    pub file: String,
    /// `settled`, `applied` or `pending`. `forget` alone speaks of `unanswered`, what may have been made, and of `shares`, a
    /// manifest that may have values in what others declare too.
    pub state: String,
    /// When the next step is due, while pending.
    pub recheck_at: Option<Stamp>,
    /// It is not looked at again by itself before this time, where its manifest says so (`reconciled/interval`); in the year 9999: not
    /// before something changes.
    #[serde(default)]
    pub rests_until: Option<Stamp>,
    /// When this instance last wrote it, if ever.
    pub written_at: Option<Stamp>,
    /// Revision that last changed it.
    pub revision: String,
    /// `delete`, `abandon` or `protect`.
    pub deletion: String,
    /// `heal`, `warn` or `ignore`.
    pub drift: String,
    /// Only some of its values are ours.
    pub merge: bool,
    /// Hash of the content last applied.
    pub applied: String,
    /// Manifests it depends on.
    pub depends_on: Vec<String>,
}

/// One line of the audit trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventEntry {
    /// Its number.
    pub number: i64,
    /// When.
    pub at: Stamp,
    /// `revision`, `create`, `hold`, …
    pub kind: String,
    /// `PROVIDER/NAME`, if a scope is concerned.
    pub scope: Option<String>,
    /// The address, if one is concerned.
    pub address: Option<String>,
    /// Revision label.
    pub revision: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// One line for people.
    pub message: String,
    /// Hash of the chain up to here.
    pub hash: String,
}

/// One thing that happened: a revision, an action or another event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// When.
    pub at: Stamp,
    /// `revision`, the word of an action (`create`, …), or the kind of an event.
    pub kind: String,
    /// `PROVIDER/NAME`, if a scope is concerned.
    pub scope: Option<String>,
    /// The address, if one is concerned.
    pub address: Option<String>,
    /// Revision label.
    pub revision: String,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// One line for people: subject of a commit, error of an action, message of an event.
    pub message: String,
    /// How an action ended; `open` while there is no answer. None for what is no action.
    pub outcome: Option<String>,
    /// Author of the commit that an action was done for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Who pushed that commit to a repository of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pusher: Option<String>,
    /// Who consented to the plan an action was part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<String>,
    /// Why they consented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_reason: Option<String>,
}

impl HistoryEntry {
    /// True when `who` had a part in it.
    pub(super) fn is_by(&self, who: &str) -> bool {
        let actors = [Some(&self.actor), self.pusher.as_ref(), self.approver.as_ref()];
        self.author.as_deref() == Some(who)
            || actors.into_iter().flatten().any(|actor| claim::names(actor, who))
            || self.kind == "push" && claim::in_push(&self.message) == Some(who)
    }
}

/// Which history is wanted; what is left out is not restricted.
#[derive(Clone, Debug, Default)]
pub struct HistoryFilter {
    /// Only what concerns these addresses.
    pub address: Option<Pattern>,
    /// Not before this time, since the epoch.
    pub since: Option<Duration>,
    /// Only what this one did.
    pub actor: Option<String>,
}

/// Which events are wanted; what is left out is not restricted.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only what concerns these addresses.
    pub address: Option<Pattern>,
    /// Not before this time, since the epoch.
    pub since: Option<Duration>,
    /// Only these kinds; empty for all.
    pub kinds: Vec<String>,
}
