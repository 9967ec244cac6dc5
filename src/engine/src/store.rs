//! What the engine remembers, as a trait: transactions of plain data.
//!
//! The engine never holds a transaction open across a call. Everything that must be durable together is one
//! [`Store::commit`]; a fault before, in or after it is one the simulation can play.

mod ailment;
mod condition;
mod drifted;
mod row;

pub(crate) use ailment::LEFT_OUT;
pub use ailment::{Ailment, HealthState};
pub use condition::{Condition, ConditionKind};
pub use drifted::{DriftEnd, DriftField, Drifted};
pub use row::{Known, Row, RowState, Terms};

use crate::{
    pin::Pin,
    suspension::{OR_ASKED_FOR, Suspension},
};
use async_trait::async_trait;
use reconciled_provider::{
    ActionId, Address, Claim, ClaimState, Error, Hash, ManifestKey, ResourceId, Scope, Version,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// One action of a journaled group, as intended.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// Its name.
    pub action: ActionId,
    /// `create`, `update`, `replace`, `delete`, `continue`, `abandon`.
    pub op: Arc<str>,
    /// Token for the remote; the same when a create is tried again.
    pub token: Arc<str>,
    /// The row as it shall be once the action is done; for a delete, as it was.
    pub row: Arc<Row>,
    /// Hash of what was observed before.
    pub before: Option<Hash>,
    /// Hash of what it shall be.
    pub after: Option<Hash>,
    /// Why: `commit abc1234`, `drift`, `restore`, …
    pub reason: Arc<str>,
    /// Digest of the plan it was part of, where that took a person's consent.
    pub consented: Option<Hash>,
}

impl Intent {
    /// True when a new remote resource comes of it: a create, and the second half of a replacement.
    pub fn makes_anew(&self) -> bool {
        matches!(&*self.op, "create" | "replace")
    }
    /// True when nothing but our mark goes, from what is left to others.
    pub fn leaves(&self) -> bool {
        &*self.op == "abandon"
    }
}

/// An intent without an outcome: a question to answer by observing, not a job to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenIntent {
    /// What was intended.
    pub intent: Intent,
    /// When the call may have been sent, since the epoch.
    pub started_at: Duration,
}

/// What the journal says of an ended action.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// Which action.
    pub action: ActionId,
    /// `done`, `gone`, `pending`, `partial`, `failed`, `unknown`; or, when a later pass found the answer, `observed` where
    /// what was intended is there and `not-observed` where it is not.
    /// `unknown` leaves the intent open.
    pub outcome: Arc<str>,
    /// The error chain, for `partial`, `failed` and `unknown`.
    pub error: Option<Arc<str>>,
}

/// A plan that must not go on without consent.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// Guard domain: a scope as `PROVIDER/NAME`, or an entry's name.
    pub domain: Arc<str>,
    /// Digest of the held actions.
    pub digest: Hash,
    /// Why it is held, one line each.
    pub reasons: Vec<Arc<str>>,
    /// How many creates, updates, replaces and deletes.
    pub counts: [u32; 4],
    /// Revision label.
    pub revision: Arc<str>,
    /// Since when, since the epoch.
    pub since: Duration,
    /// When it will be held, in words, where it is not yet: a window is closed, or a person suspended it. Consent to it counts by
    /// then.
    pub once: Option<Arc<str>>,
}

impl Hold {
    /// When it goes on where a person consents to it now, in words; none where it does at once, since their word passes whatever
    /// window is closed.
    pub fn goes_on(&self) -> Option<&str> {
        self.once.as_deref().filter(|once| *once != OR_ASKED_FOR)
    }
}

/// A person's consent to one digest. Used once, gone after 24 h.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// What was consented to.
    pub digest: Hash,
    /// Why.
    pub reason: Arc<str>,
    /// By whom.
    pub actor: Arc<str>,
    /// When, since the epoch.
    pub at: Duration,
    /// When it was used, if it was.
    pub used_at: Option<Duration>,
}

/// A person's word on the ownership of one identity.
#[derive(Clone, Debug, PartialEq)]
pub enum Consent {
    /// Take it over as it was shown: bound to the observed hash; `from` is another instance that marked it.
    Adopt {
        /// Hash of what was shown.
        observed: Hash,
        /// The instance or tool whose mark may be replaced.
        from: Option<Arc<str>>,
    },
    /// Forgotten: not adopted again until its manifest is gone or `adopt` is said.
    Barred,
    /// Was tracked, and was left to others with our mark on it: the mark is no word of ours any more.
    LetGo,
}

/// What of a generation counts the revisions; what is above counts pins.
pub(crate) const OF_MANIFEST: u64 = u32::MAX as u64;

/// Stands in a fence for all that a source declares: its generation is the [newest] of the source's manifests, so that it moves
/// with each of them that changes or is new, or is pinned.
pub fn newest_of(source: &str) -> ManifestKey {
    ManifestKey::new(source, "*", "", "", "")
}

/// The generation of all that a source declares: that of the newest revision, and all pins together.
pub fn newest(generations: impl Iterator<Item = u64>) -> u64 {
    let (revision, pins) = generations.fold((0, 0), |(revision, pins), generation| {
        (revision.max(generation & OF_MANIFEST), pins + (generation >> 32))
    });
    revision + (pins << 32)
}

/// The source that such a key is of.
pub fn source_of_newest(key: &ManifestKey) -> Option<&str> {
    (key.group() == "*").then(|| key.source())
}

/// A claim as committed with the outcome that made it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimRow {
    /// Scope of the claiming resource.
    pub owner_scope: Scope,
    /// The claiming resource.
    pub owner: ResourceId,
    /// The claim.
    pub claim: Claim,
    /// Where it lands.
    pub scope: Scope,
    /// The resource that carries it.
    pub id: ResourceId,
    /// It was seen to be as claimed.
    pub synced: bool,
}

impl ClaimRow {
    /// What whoever made it is told of it.
    pub(crate) fn state(&self) -> ClaimState {
        let (owner, key) = (self.owner.clone(), self.claim.key.clone());
        ClaimState { owner, key, synced: self.synced, health: None }
    }
}

/// One line of the audit trail.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, since the epoch.
    pub at: Duration,
    /// `revision`, `create`, `update`, `delete`, `adopt`, `hold`, `approve`, `suspend`, `resume`, `stalled`, `recovered`, …
    pub kind: Arc<str>,
    /// The scope, if one is concerned.
    pub scope: Option<Scope>,
    /// The address, if one is concerned.
    pub address: Option<Address>,
    /// Revision label.
    pub revision: Arc<str>,
    /// Who: `engine`, or a person.
    pub actor: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// One line for people.
    pub message: Arc<str>,
}

/// A plan that a person consented to, from its first write until nothing of it is left.
///
/// Consent is used once, and covers all of its plan: what a failure or a crash left undone goes on with it, for as long as what
/// was declared stays. A step that was done, or found to be another one, leaves the plan and never comes back into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Begun {
    /// The guard domain.
    pub domain: Arc<str>,
    /// The consent. It is used, and lasts as long from then on as it would have unused.
    pub approval: Approval,
    /// The guarded steps that are left in each scope, as [`crate::plan::digest::guarded`] has them.
    pub left: BTreeMap<Scope, Vec<Hash>>,
    /// The manifests that the steps are of, as they were then; none for one that was gone. A commit that changes one of them makes
    /// another plan of it: a part of a plan is not what a person saw.
    pub manifests: BTreeMap<ManifestKey, Option<Hash>>,
}

impl Begun {
    /// True when the person consented to all of these steps, and none of them was done yet.
    ///
    /// Whether the manifests are the same is another question.
    pub fn covers(&self, scope: &Scope, steps: &[Hash]) -> bool {
        let left = self.left.get(scope).map_or(&[][..], Vec::as_slice);
        steps.iter().all(|step| left.binary_search(step).is_ok())
    }
}

/// A revision that came into force.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Source name.
    pub source: Arc<str>,
    /// Full commit id.
    pub commit: Arc<str>,
    /// What people call it.
    pub label: Arc<str>,
    /// Who wrote it, as the commit says.
    pub author: Arc<str>,
    /// First line of its message.
    pub subject: Arc<str>,
    /// Value of `path` it was read with: a changed path is held.
    pub path: Arc<str>,
    /// It is what a backup says, and its source was not had since: it may be long over.
    pub is_restored: bool,
}

/// A scope found wholly in sync at a version: while the version stands it need not be listed again.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownVersion {
    /// The token at that time.
    pub version: Version,
    /// How many foreign resources there were.
    pub foreign: u32,
}

/// A revision whose every resource was found in sync: nothing needs to be parsed while all of this stands, unless `inputs` is
/// [`Converged::LOOKED_AT`].
#[derive(Clone, Debug, PartialEq)]
pub struct Converged {
    /// Source name.
    pub source: Arc<str>,
    /// Full commit id.
    pub commit: Arc<str>,
    /// Hash of all else that decides the desired state: configuration, program version.
    pub inputs: Hash,
}

impl Converged {
    /// The inputs of what was found in sync by looking alone, as nothing says later whether that stands.
    pub const LOOKED_AT: Hash = Hash([0; 16]);
}

/// One thing to make durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Intents of one group, about to be sent. Fails with `Conflict` when one of the manifests has another
    /// generation than the plan was made from.
    Start {
        /// The scope.
        scope: Scope,
        /// What is intended.
        intents: Vec<Intent>,
        /// Generations the plan was made from.
        fence: Vec<(ManifestKey, u64)>,
        /// When, since the epoch.
        at: Duration,
    },
    /// Intents that have an answer.
    End(Vec<Ending>),
    /// Rows put or replaced, by scope and id.
    Rows(Arc<Vec<Row>>),
    /// Rows gone, with all that they claimed.
    Gone(Scope, Vec<ResourceId>),
    /// Rows seen to be as written: only their state becomes [`RowState::Settled`].
    Settled(Scope, Vec<ResourceId>),
    /// Documents that a scope was planned from, by manifest; none for a manifest that has nothing there any more.
    Documents(Scope, Vec<(ManifestKey, Option<Hash>)>),
    /// All conditions of a scope, replacing those before; `since` is kept for equal ones.
    Conditions(Scope, Vec<Condition>),
    /// A revision came into force: its manifests, and the generation of each that changed is raised.
    InForce {
        /// The revision.
        revision: Revision,
        /// Key and content hash of every manifest of the source; those not named are gone.
        manifests: Vec<(ManifestKey, Hash)>,
        /// When, since the epoch.
        at: Duration,
    },
    /// A hold put or replaced, by domain.
    Hold(Hold),
    /// The hold of a domain is over.
    Release(Arc<str>),
    /// A consent put.
    Approve(Approval),
    /// A consent used. Fails with `Conflict` when it was used already or has expired.
    UseApproval(Hash, Duration),
    /// A plan that was consented to and is begun now, in place of the one before it in its domain.
    Begun(Begun),
    /// Steps of a scope that were done or are no more, of the plan with this digest.
    StepsOver(Hash, Scope, Vec<Hash>),
    /// A word on one identity.
    Consent(Scope, ResourceId, Consent),
    /// The word on one identity is spent.
    ConsentSpent(Scope, ResourceId),
    /// All claims of one resource, replacing those before.
    Claims(Scope, ResourceId, Vec<ClaimRow>),
    /// A claim was seen to be as claimed, or no longer: owner scope, owner, key, synced.
    ClaimSynced(Scope, ResourceId, Arc<str>, bool),
    /// The scope was seen whole and in sync at this version; none when that no longer holds.
    Version(Scope, Option<KnownVersion>),
    /// A revision was found in sync as a whole; `Err` names a source of which that no longer holds.
    Converged(Result<Converged, Arc<str>>),
    /// A suspension put or replaced, by id.
    Suspend(Suspension),
    /// The suspension of this id is over because a person said so.
    Resume(Arc<str>),
    /// A scope was looked at since the suspension of this id that began at this time was over. It goes with the last of its scopes; one
    /// that a person put in its place since stays.
    Looked(Arc<str>, Duration, Scope),
    /// Rows went from the first scope to the second: what suspensions left in doubt goes along.
    Moved(Scope, Scope),
    /// A pin put or replaced, by scope and id. Raises the generation of its manifest.
    Pin(Pin),
    /// The pin of this resource is over. Raises the generation of its manifest.
    Unpin(Scope, ResourceId),
    /// Entries of the drift ledger that begin or change. An open one keeps when it was first seen, and the write that
    /// may have healed it where none is given.
    Drifted(Vec<Drifted>),
    /// Writes that were to heal these failed: they are no reason for what becomes of their entries.
    NotHealed(Scope, Vec<ResourceId>),
    /// Entries of the drift ledger that are over, and since when.
    DriftOver(Scope, Vec<(ResourceId, DriftEnd)>, Duration),
    /// All that is not healthy in a scope, replacing what was before.
    Ailments(Scope, Vec<Ailment>),
    /// A complete pass looked at a scope as declared by manifests up to this generation.
    LookedAt(Scope, u64),
    /// The place that the entry of a scope points to: what is remembered of the scope is there.
    Place(Scope, Hash),
    /// An event.
    Event(Event),
}

/// A row that is looked at under another name than the store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct MovedAway {
    /// Its name now.
    pub id: ResourceId,
    /// The scope in which the store has it.
    pub scope: Scope,
    /// Its name there.
    pub was: ResourceId,
}

/// Everything the engine reads of one scope, in one consistent snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScopeMemory {
    /// Tracked resources, sorted by id. A store that keeps them in memory lends them.
    pub rows: Arc<Vec<Row>>,
    /// Hash of the document of each manifest when the scope was last planned from it.
    pub documents: BTreeMap<ManifestKey, Hash>,
    /// Intents without an outcome.
    pub open: Vec<OpenIntent>,
    /// Claims that land in this scope.
    pub claims_here: Vec<ClaimRow>,
    /// Claims that resources of this scope made.
    pub claims_made: Vec<ClaimRow>,
    /// Words on identities.
    pub consents: Vec<(ResourceId, Consent)>,
    /// Conditions as last recorded.
    pub conditions: Vec<Condition>,
    /// The version at which the scope was last seen whole and in sync.
    pub version: Option<KnownVersion>,
    /// Open entries of the drift ledger, sorted by id.
    pub drifts: Vec<Drifted>,
    /// What is not healthy, sorted by id.
    pub ailments: Vec<Ailment>,
    /// The newest generation of a manifest here that a complete pass looked at.
    pub looked_at: u64,
    /// The place that its entry pointed to when all that is tracked was found there; none where that was never told.
    pub place: Option<Hash>,
    /// Old identities of rows that the planner moved here; never stored.
    pub moved_away: Vec<MovedAway>,
}

impl ScopeMemory {
    /// True when anything about the scope must still be looked at.
    pub fn is_remembered(&self) -> bool {
        !(self.rows.is_empty()
            && self.open.is_empty()
            && self.claims_here.is_empty()
            // What was let go of is of nobody's concern until it is declared again.
            && self.consents.iter().all(|(_, word)| *word == Consent::LetGo)
            && self.drifts.is_empty())
    }
}

/// The engine's memory. Implementations: SQLite in the root package, plain memory in the simulation.
///
/// Guarantees: [`Store::commit`] is atomic, durable when it returns, and refuses with `Conflict` when this
/// process is no longer the writer (another epoch began). Errors: `Unavailable` for a full disk or an I/O error.
#[async_trait]
pub trait Store: Send + Sync {
    /// The epoch of this writer: raised each time a process opens the store for writing.
    fn epoch(&self) -> u64;
    /// Makes all of `writes` durable, or none.
    async fn commit(&self, writes: Vec<Write>) -> Result<(), Error>;
    /// Rows that a commit is about to bring, should all go well: what can be done ahead of it is done. Nothing of it is seen, and
    /// nothing of it is kept, before that commit.
    fn foresee(&self, _rows: Arc<Vec<Row>>) {}
    /// What is remembered of one scope.
    async fn scope(&self, scope: &Scope) -> Result<ScopeMemory, Error>;
    /// What is remembered of every scope that has rows, open intents, claims, consents or conditions.
    async fn all(&self) -> Result<BTreeMap<Scope, ScopeMemory>, Error>;
    /// The version at which each scope was last seen whole and in sync.
    async fn versions(&self) -> Result<BTreeMap<Scope, KnownVersion>, Error>;
    /// The revision of a source that was last found in sync as a whole.
    async fn converged(&self, source: &str) -> Result<Option<Converged>, Error>;
    /// Rows whose manifest has this key, in any scope, as far as they put something out.
    async fn rows_with_outputs(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error>;
    /// True where something is tracked for this manifest and all of it was seen to be as written.
    async fn is_settled(&self, manifest: &ManifestKey) -> Result<bool, Error>;
    /// Rows anywhere that depend on this manifest.
    async fn dependants(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error>;
    /// Generation of each manifest of a source in force.
    async fn generations(&self, source: &str) -> Result<Vec<(ManifestKey, u64)>, Error>;
    /// Content of each manifest of a source, as it was when its commit came into force.
    async fn contents(&self, source: &str) -> Result<Vec<(ManifestKey, Hash)>, Error>;
    /// The revision in force of a source.
    async fn in_force(&self, source: &str) -> Result<Option<Revision>, Error>;
    /// Current holds.
    async fn holds(&self) -> Result<Vec<Hold>, Error>;
    /// What persons stopped, by id; also what is over, while scopes of it were not looked at since.
    async fn suspensions(&self) -> Result<Vec<Suspension>, Error>;
    /// What persons keep at an earlier revision, by scope and id; also what is over by itself.
    async fn pins(&self) -> Result<Vec<Pin>, Error>;
    /// The unused, unexpired approval of a digest.
    async fn approval(&self, digest: Hash) -> Result<Option<Approval>, Error>;
    /// Plans that were consented to and begun, and of which something is left; those that are too old are not.
    async fn begun(&self) -> Result<Vec<Begun>, Error>;
    /// True while a lost memory is being made anew: what it does not know may have been ours.
    async fn is_recovering(&self) -> Result<bool, Error>;
}
