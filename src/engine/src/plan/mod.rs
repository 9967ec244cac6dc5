//! The planner: desired × observed × tracked → steps with reasons. Pure, synchronous, no clock.
//!
//! Guarantees: same input, same steps in the same order; only tracked resources are changed; nothing is
//! deleted on an observation that is incomplete or covers a part; a step says why and what differs.
//!
//! It deliberately does not decide whether the steps may be carried out: that is the [`guard`].

mod agreed;
mod blocked;
mod condition;
mod difference;
pub mod digest;
mod documents;
pub(crate) mod exclusive;
pub mod foreseen;
pub mod guard;
mod kept;
mod needed;
mod order;
pub(crate) mod place;
mod prune;
mod reason;
mod remains;
mod resource;
pub(crate) mod shared;
mod stands;
mod step;
mod step_for;
mod suspended;
pub(crate) mod unanswered;

pub use agreed::as_shown;
pub use blocked::{Blocked, CREATE_UNKNOWN, DRIFTED, Elsewhere, POLICY_FORBIDS};
pub(crate) use blocked::{MADE_IN_PART, NOT_AS_PLANNED, STILL_HIDES};
pub use condition::{BY_ADOPT, STILL_THERE};
pub use exclusive::Exclusive;
pub use kept::{Kept, kept, written};
pub use reason::Reason;
pub use reconciled_provider::EntryPolicy;
pub use shared::Shared;
pub use step::{Change, Step, Work};

use crate::{
    desired::{Desired, ManifestMeta},
    selector::Selector,
    store::{Condition, Consent, KnownVersion, OpenIntent, Row, ScopeMemory},
    suspension::Suspension,
};
use reconciled_provider::{
    ActionId, Address, Deltas, Focus, Hash, ManifestKey, Observation, Observed, Observer, Pattern, Resource,
    ResourceId, Scope, Slot, Sorted, Version,
};
use std::{
    cell::{Cell, OnceCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What the planner sees of one scope.
pub struct ScopeInput<'a> {
    /// The scope.
    pub scope: &'a Scope,
    /// Its provider, for pure questions only.
    pub provider: &'a dyn Observer,
    /// What the entry may do.
    pub policy: EntryPolicy,
    /// The whole desired state.
    pub desired: &'a Desired,
    /// Desired resources of this scope, merged and claimed, one per id, sorted by id.
    pub effective: &'a [Resource],
    /// What is shared with others.
    pub shared: &'a Shared,
    /// What is remembered, with rows recovered from open intents and moves applied.
    pub memory: &'a ScopeMemory,
    /// Addresses that rows were moved from, by new id.
    pub moved: &'a BTreeMap<ResourceId, Address>,
    /// What was seen.
    pub seen: &'a Observation,
    /// What is written in the place of what is declared, where something is ignored.
    pub kept: &'a Kept,
    /// How what is written and what was seen differ.
    pub deltas: &'a Deltas,
    /// Manifests that others wait for and that are ready.
    pub ready: &'a BTreeSet<ManifestKey>,
    /// Those that are as they were last applied.
    pub there: &'a BTreeSet<ManifestKey>,
    /// Manifests that something stands on as they were before, each with one that does.
    pub stood_on: &'a BTreeMap<ManifestKey, ManifestKey>,
    /// Manifests that others still depend on, each with one that does.
    pub needed: &'a BTreeMap<ManifestKey, ManifestKey>,
    /// What is tracked here and declared in another scope, where it is not settled yet, or is hidden by this one.
    pub elsewhere: &'a BTreeMap<ResourceId, Elsewhere>,
    /// What the user selected.
    pub selection: &'a Selection,
    /// What persons stopped, and what they stopped and whose time is over.
    pub suspensions: &'a [Arc<Suspension>],
    /// A person asks for what came to nothing to be tried once more.
    pub tries_again: bool,
    /// Now, since the epoch: only for what waits on time.
    pub now: Duration,
}

/// What the user selected with `--target`, `-l` and `--source`. Empty selects everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Address patterns; any may match.
    pub targets: Vec<Pattern>,
    /// Labels a manifest must have.
    pub labels: Vec<Selector>,
    /// The source it must be of. All sources are read all the same: what another one declares is no prune.
    pub source: Option<Arc<str>>,
}

impl Selection {
    /// True when everything is selected.
    pub fn is_all(&self) -> bool {
        self.targets.is_empty() && self.labels.is_empty() && self.source.is_none()
    }
    /// True where a part of what such a manifest declares may be selected.
    pub(crate) fn may_select(
        &self,
        key: &ManifestKey,
        address: &Address,
        labels: Option<&BTreeMap<Arc<str>, Arc<str>>>,
    ) -> bool {
        let whole = |address: &Address| Address { part: None, ..address.clone() };
        let address = whole(address);
        let mut targets = self.targets.iter().map(|target| Pattern(whole(&target.0)));
        self.source.as_deref().is_none_or(|source| key.source() == source)
            && (self.targets.is_empty() || targets.any(|target| target.matches(&address, key.group())))
            && self.has_labels(labels)
    }
    fn selects(&self, address: &Address, group: &str, labels: Option<&BTreeMap<Arc<str>, Arc<str>>>) -> bool {
        let targeted = self.targets.is_empty() || self.targets.iter().any(|t| t.matches(address, group));
        targeted && self.has_labels(labels)
    }
    fn has_labels(&self, labels: Option<&BTreeMap<Arc<str>, Arc<str>>>) -> bool {
        let has = |selector: &Selector| labels.is_some_and(|l| selector.matches(|key| l.get(key)));
        self.labels.iter().all(has)
    }
}

/// The plan of one scope.
#[derive(Clone, Debug)]
pub struct ScopePlan {
    /// The scope.
    pub scope: Scope,
    /// Version of the observation it was made from.
    pub base: Version,
    /// Steps in the order they must happen.
    pub steps: Vec<Step>,
    /// What would be done besides and was not asked for: the guard counts it, since slices of a change that is too large are not
    /// small changes.
    pub unselected: Vec<Step>,
    /// The steps as they will be once no window and no person stops any of them; none where nothing that the guard counts is stopped.
    pub resumed: Vec<Step>,
    /// How much is to go besides, and cannot be seen for now: the guard counts it for the same reason.
    pub put_off: u32,
    /// Rows whose bookkeeping moved (file, manifest, edges) while the remote is as it should be.
    pub refreshed: Vec<Row>,
    /// Rows seen to be as written, and nothing else about them moved.
    pub settled: Vec<ResourceId>,
    /// Rows whose resource is gone and no longer wanted.
    pub lapsed: Vec<Row>,
    /// Documents that were not planned from before; none for a manifest that has nothing here any more.
    pub documents: Vec<(ManifestKey, Option<Hash>)>,
    /// Foreign resources left alone.
    pub foreign: Vec<(ResourceId, Option<Arc<str>>)>,
    /// How many foreign resources there are, also when they were not listed.
    pub foreign_count: u32,
    /// How many resources are left to others because a rule says so.
    pub ignored_count: u32,
    /// What keeps resources from being in sync.
    pub conditions: Vec<Condition>,
    /// What comes about by itself once its time has come, and keeps nothing from being in sync.
    pub to_come: Vec<Condition>,
    /// What was refused as it is declared, and was not asked for now: nothing was found out about it.
    pub still_refused: Vec<Condition>,
    /// Consents that the steps use up.
    pub spent: Vec<ResourceId>,
    /// Forgotten and declared no more, or gone: left to others, with our mark on it or where one may stay.
    pub let_go: Vec<ResourceId>,
    /// Rows in the scope, for the guard's percentages.
    pub tracked: usize,
    /// Resources that are in sync.
    pub in_sync: usize,
    /// Tracked resources that may neither be compared nor pruned, because it is not known what their source
    /// declares, by manifest.
    pub frozen: BTreeMap<ManifestKey, usize>,
    /// How many resources differ and are left so, because the difference is ignored, or were not compared.
    pub unlike: usize,
    /// Those of them that differ, and of which that is ignored.
    pub left: Vec<ResourceId>,
    /// What the ledger has as drifted and that is as declared again.
    pub as_declared: Vec<ResourceId>,
    /// What the ledger has as drifted and of which the difference is ignored now.
    pub ignored: Vec<ResourceId>,
    /// What is tracked and gone from the remote, where that is ignored.
    pub gone: Vec<ResourceId>,
    /// Intents that stay open: creates without an answer that no observation can answer and that nothing asks for now, and
    /// writes to what is shared whose values the inventory does not have yet.
    pub unanswered: Vec<ActionId>,
    /// Suspensions whose time is over and that leave nothing in doubt here, by id, and when they began.
    pub looked: Vec<(Arc<str>, Duration)>,
    /// The place that its entry points to, where that is to be remembered.
    pub place: Option<Hash>,
    /// Whether what nobody declared goes for the first time.
    pub exclusive: Exclusive,
}

impl ScopePlan {
    /// The plan of a scope seen at `base`, in which nothing is tracked and nothing is to be done.
    pub(super) fn nothing(scope: Scope, base: Version) -> ScopePlan {
        ScopePlan {
            scope,
            base,
            steps: Vec::new(),
            unselected: Vec::new(),
            resumed: Vec::new(),
            put_off: 0,
            refreshed: Vec::new(),
            settled: Vec::new(),
            lapsed: Vec::new(),
            documents: Vec::new(),
            foreign: Vec::new(),
            foreign_count: 0,
            ignored_count: 0,
            conditions: Vec::new(),
            to_come: Vec::new(),
            still_refused: Vec::new(),
            spent: Vec::new(),
            let_go: Vec::new(),
            tracked: 0,
            in_sync: 0,
            frozen: BTreeMap::new(),
            unlike: 0,
            left: Vec::new(),
            as_declared: Vec::new(),
            ignored: Vec::new(),
            gone: Vec::new(),
            unanswered: Vec::new(),
            looked: Vec::new(),
            place: None,
            exclusive: Exclusive::default(),
        }
    }
    /// When the first of what is to come is due.
    pub(crate) fn next_to_come(&self) -> Option<Duration> {
        self.to_come.iter().filter_map(|one| one.next_try).min()
    }
    /// True when the remote is as it should be and nothing waits: no steps, no conditions.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.conditions.is_empty()
    }
    /// The token to remember: set only when all of the scope was seen and is in sync.
    pub fn known_version(&self, seen: &Observation) -> Option<KnownVersion> {
        let whole = seen.complete && seen.covered == Focus::All && matches!(seen.version, Version::At(_));
        // Were a difference forgotten that is ignored now, nobody would look when it no longer is.
        let waits = !self.conditions.is_empty() || !self.to_come.is_empty();
        let settled = self.steps.is_empty() && !waits && self.unlike == 0;
        (whole && settled)
            .then(|| KnownVersion { version: seen.version.clone(), foreign: self.foreign_count })
    }
}

/// Plans one scope.
pub fn plan(input: &ScopeInput<'_>) -> ScopePlan {
    debug_assert!(input.effective.is_sorted_by(|one, next| one.id < next.id), "one resource for each id");
    let mut out = ScopePlan::nothing(input.scope.clone(), input.seen.version.clone());
    out.tracked = input.memory.rows.len();
    let planner = Planner {
        input,
        rows: Sorted::new(&input.memory.rows, |row| &row.tracked.id),
        seen: Sorted::new(&input.seen.resources, |observed| &observed.id),
        effective: Sorted::new(input.effective, |desired| &desired.id),
        manifests: OnceCell::new(),
        consents: OnceCell::new(),
        refusals: OnceCell::new(),
        open: OnceCell::new(),
        written: OnceCell::new(),
        files: OnceCell::new(),
        slots: OnceCell::new(),
        is_plain: stands::is_plain(input),
        declared_rows: Cell::new(0),
    };
    if input.memory.rows.is_empty() {
        // Nearly all of a new scope is a step: a vector that grows holds twice as much, and three times while it does.
        out.steps.reserve_exact(input.effective.len());
    }
    for desired in input.effective {
        planner.desired(desired, &mut out);
    }
    prune::tracked_and_no_longer_desired(&planner, &mut out);
    shared::tell_what_is_kept(&planner, &mut out);
    prune::words_that_end(&planner, &mut out);
    prune::foreign(&planner, &mut out);
    suspended::suspend(&planner, &mut out);
    unanswered::stay_open(&planner, &mut out);
    order::wait_for_each_other(input, &mut out.steps, &mut out.conditions);
    // What stays for others may be in the way, and may itself stand on something.
    needed::keep(&planner, &mut out);
    // Whatever else keeps what all are in keeps them.
    order::wait_for_holder(&planner, &mut out);
    prune::keep_what_holds_others(&planner, &mut out);
    prune::keep_what_would_be_hidden(&planner, &mut out);
    // What stays only now may stand on something, too.
    needed::keep(&planner, &mut out);
    place::doubt(&planner, &mut out);
    order::sort(input, &mut out.steps);
    out.exclusive = exclusive::of(&planner, &out);
    out.resumed = foreseen::resumed(input, &out.steps);
    if !input.seen.complete {
        let message = "not all of it could be read: nothing is created or deleted on the word of a part";
        let told = Condition::waiting("IncompleteRead", message);
        out.conditions.push(told.next_try(input.now + INCOMPLETE_AGAIN));
    }
    out.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
    out.spent.sort();
    out.let_go.sort();
    out.documents = documents::changed(&planner, &out.lapsed);
    out
}

/// The questions asked of the input.
struct Planner<'a> {
    input: &'a ScopeInput<'a>,
    rows: Sorted<'a, Row>,
    seen: Sorted<'a, Observed>,
    effective: Sorted<'a, Resource>,
    /// Positions of manifests by key, made when first asked for: few plans prune anything.
    manifests: OnceCell<BTreeMap<&'a ManifestKey, usize>>,
    /// Consents by id, and the latest open intent of each: a crash leaves as many as were sent.
    consents: OnceCell<BTreeMap<&'a ResourceId, &'a Consent>>,
    /// What was refused for what was declared of it.
    refusals: OnceCell<BTreeMap<&'a ResourceId, &'a Condition>>,
    open: OnceCell<BTreeMap<&'a ResourceId, &'a OpenIntent>>,
    /// What open intents may have written of what is shared.
    written: OnceCell<unanswered::Written<'a>>,
    /// The file of all rows of each manifest; none where there are several.
    files: OnceCell<BTreeMap<&'a ManifestKey, Option<&'a Arc<str>>>>,
    /// The places that what is declared here takes.
    slots: OnceCell<BTreeSet<Slot>>,
    /// Nothing is told of the scope besides.
    is_plain: bool,
    /// Rows whose resource is declared, as far as the table got.
    declared_rows: Cell<usize>,
}

impl<'a> Planner<'a> {
    fn row(&self, id: &ResourceId) -> Option<&'a Row> {
        self.rows.get(id)
    }

    fn is_desired(&self, id: &ResourceId) -> bool {
        self.effective.get(id).is_some()
    }

    fn consent(&self, id: &ResourceId) -> Option<&'a Consent> {
        let all = || self.input.memory.consents.iter().map(|(id, consent)| (id, consent)).collect();
        self.consents.get_or_init(all).get(id).copied()
    }

    /// That the remote refused just this declaration of it, or that it goes.
    fn refusal(&self, id: &ResourceId, declared: Option<Hash>) -> Option<&'a Condition> {
        let refused =
            |condition: &'a Condition| condition.id.as_ref().filter(|_| condition.declared.is_some());
        let all = || {
            let conditions = self.input.memory.conditions.iter();
            conditions.filter_map(|condition| Some((refused(condition)?, condition))).collect()
        };
        let known = self.refusals.get_or_init(all).get(id).copied();
        known.filter(|condition| declared.is_some() && condition.declared == declared)
    }

    /// The latest write to it that got no answer.
    fn unanswered(&self, id: &ResourceId) -> Option<&'a OpenIntent> {
        let all = || self.input.memory.open.iter().map(|open| (&open.intent.row.tracked.id, open)).collect();
        self.open.get_or_init(all).get(id).copied()
    }

    fn manifest(&self, desired: &Resource) -> Option<&'a ManifestMeta> {
        if self.input.shared.claimed.contains(&desired.id) {
            return None;
        }
        self.input.desired.manifests.get(desired.origin.manifest as usize)
    }

    fn address(&self, desired: &Resource) -> Address {
        let part = self.input.provider.part(self.input.scope, &desired.id);
        match self.manifest(desired) {
            Some(manifest) => Address { part, ..manifest.address.clone() },
            None => step_for::claim_address(self.input.scope, &desired.id, part),
        }
    }

    fn selects(&self, address: &Address, manifest: Option<&ManifestMeta>) -> bool {
        let selection = self.input.selection;
        let of_source =
            selection.source.as_deref().is_none_or(|s| manifest.is_some_and(|m| m.key.source() == s));
        selection.is_all()
            || of_source
                && selection.selects(
                    address,
                    manifest.map_or("", |m| m.key.group()),
                    manifest.map(|m| &m.labels),
                )
    }
    /// The labels of a manifest that is gone are not known: `-l` leaves what it tracked alone. What was claimed and is
    /// not any more belongs to nobody who could be selected: it always goes, or it would be left behind by whoever selects.
    fn selects_row(&self, row: &Row) -> bool {
        if row.manifest.source() == CLAIMS {
            return true;
        }
        let selection = self.input.selection;
        let labels = || self.declared(&row.manifest).map(|m| &m.labels);
        let of_source = selection.source.as_deref().is_none_or(|s| row.manifest.source() == s);
        selection.is_all() || of_source && selection.selects(&row.address, row.manifest.group(), labels())
    }
    /// The manifest of this key, if it is still desired.
    fn declared(&self, key: &ManifestKey) -> Option<&'a ManifestMeta> {
        let manifests = &self.input.desired.manifests;
        let index = self.manifests.get_or_init(|| {
            manifests.iter().enumerate().map(|(index, manifest)| (&manifest.key, index)).collect()
        });
        index.get(key).map(|index| &manifests[*index])
    }
    /// The file of all that is tracked of a manifest here, if it is one.
    fn only_file(&self, key: &ManifestKey) -> Option<&'a Arc<str>> {
        let rows: &'a [Row] = &self.input.memory.rows;
        let all = || {
            let mut files: BTreeMap<&'a ManifestKey, Option<&'a Arc<str>>> = BTreeMap::new();
            for row in rows {
                let file = files.entry(&row.manifest).or_insert(Some(&row.file));
                *file = file.filter(|file| **file == row.file);
            }
            files
        };
        self.files.get_or_init(all).get(key).copied().flatten()
    }
    /// The scope was planned from this very document before.
    fn is_same_document(&self, key: &ManifestKey, manifest: &ManifestMeta) -> bool {
        self.input.memory.documents.get(key) == Some(&manifest.content)
    }
    /// True when the ledger has an open entry for it.
    fn has_drifted(&self, id: &ResourceId) -> bool {
        self.input.memory.drifts.binary_search_by(|drift| drift.id.cmp(id)).is_ok()
    }
    fn covers(&self, id: &ResourceId) -> bool {
        self.input.seen.covered.covers(id)
    }
}

/// When an incomplete read is repeated.
const INCOMPLETE_AGAIN: Duration = Duration::from_secs(10);

/// Guard word of what was protected when it was last applied.
const PROTECTED: &str = "protected";

/// Guard word of what nobody declared and that goes all the same.
const FOREIGN_DELETE: &str = "foreign-delete";

/// Source part of the key of a resource that exists only because of claims.
pub const CLAIMS: &str = "$claims";
