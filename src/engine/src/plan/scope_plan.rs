//! The plan of one scope: the steps, and all else that was found out for them.

use super::{Exclusive, Step};
use crate::store::{Condition, KnownVersion, Row};
use reconciled_provider::{ActionId, Focus, Hash, ManifestKey, Observation, ResourceId, Scope, Version};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

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
    /// What keeps what was not asked for: no matter of this plan, and it is so all the same.
    pub besides: Vec<Condition>,
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
    pub fn nothing(scope: Scope, base: Version) -> ScopePlan {
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
            besides: Vec::new(),
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
