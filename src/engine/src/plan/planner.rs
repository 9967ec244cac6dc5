//! The questions that the rules of the planner ask of what it sees.
//!
//! Guarantees: what takes a look at all of a scope is asked for once, and only where a rule needs it. It deliberately decides
//! nothing: the rules are in the files beside it.

use super::{CLAIMS, ScopeInput, claimed, unanswered::Written};
use crate::{
    desired::ManifestMeta,
    store::{Condition, Consent, OpenIntent, Row, Terms},
};
use reconciled_provider::{Address, Focus, Hash, ManifestKey, Observed, Resource, ResourceId, Slot, Sorted};
use std::{
    cell::{Cell, OnceCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The questions asked of the input.
pub(super) struct Planner<'a> {
    pub(super) input: &'a ScopeInput<'a>,
    rows: Sorted<'a, Row>,
    pub(super) seen: Sorted<'a, Observed>,
    pub(super) effective: Sorted<'a, Resource>,
    /// Positions of manifests by key, made when first asked for: few plans prune anything.
    manifests: OnceCell<BTreeMap<&'a ManifestKey, usize>>,
    /// Consents by id, and the latest open intent of each: a crash leaves as many as were sent.
    consents: OnceCell<BTreeMap<&'a ResourceId, &'a Consent>>,
    /// What was refused for what was declared of it.
    refusals: OnceCell<BTreeMap<&'a ResourceId, &'a Condition>>,
    open: OnceCell<BTreeMap<&'a ResourceId, &'a OpenIntent>>,
    /// What open intents may have written of what is shared.
    pub(super) written: OnceCell<Written<'a>>,
    /// The file of all rows of each manifest; none where there are several.
    files: OnceCell<BTreeMap<&'a ManifestKey, Option<&'a Arc<str>>>>,
    /// The places that what is declared here takes.
    pub(super) slots: OnceCell<BTreeSet<Slot>>,
    /// Nothing is told of the scope besides.
    pub(super) is_plain: bool,
    /// Rows whose resource is declared, as far as the table got.
    pub(super) declared_rows: Cell<usize>,
    /// The terms of the row that was made last.
    pub(super) terms: Cell<Option<Arc<Terms>>>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(input: &'a ScopeInput<'a>) -> Planner<'a> {
        Planner {
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
            is_plain: is_plain(input),
            declared_rows: Cell::new(0),
            terms: Cell::default(),
        }
    }

    pub(super) fn row(&self, id: &ResourceId) -> Option<&'a Row> {
        self.rows.get(id)
    }

    pub(super) fn is_desired(&self, id: &ResourceId) -> bool {
        self.effective.get(id).is_some()
    }

    pub(super) fn consent(&self, id: &ResourceId) -> Option<&'a Consent> {
        let all = || self.input.memory.consents.iter().map(|(id, consent)| (id, consent)).collect();
        self.consents.get_or_init(all).get(id).copied()
    }

    /// That the remote refused just this declaration of it, or that it goes.
    pub(super) fn refusal(&self, id: &ResourceId, declared: Option<Hash>) -> Option<&'a Condition> {
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
    pub(super) fn unanswered(&self, id: &ResourceId) -> Option<&'a OpenIntent> {
        let all = || self.input.memory.open.iter().map(|open| (&open.intent.row.tracked.id, open)).collect();
        self.open.get_or_init(all).get(id).copied()
    }

    pub(super) fn manifest(&self, desired: &Resource) -> Option<&'a ManifestMeta> {
        if self.input.shared.claimed.contains(&desired.id) {
            return None;
        }
        self.input.desired.manifests.get(desired.origin.manifest as usize)
    }

    pub(super) fn address(&self, desired: &Resource) -> Address {
        let part = self.input.provider.part(self.input.scope, &desired.id);
        match self.manifest(desired) {
            Some(manifest) => Address { part, ..manifest.address.clone() },
            None => claimed::address(self.input.scope, &desired.id, part),
        }
    }

    pub(super) fn selects(&self, address: &Address, manifest: Option<&ManifestMeta>) -> bool {
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
    pub(super) fn selects_row(&self, row: &Row) -> bool {
        if row.manifest.source() == CLAIMS {
            return true;
        }
        let selection = self.input.selection;
        let labels = || self.declared(&row.manifest).map(|m| &m.labels);
        let of_source = selection.source.as_deref().is_none_or(|s| row.manifest.source() == s);
        selection.is_all() || of_source && selection.selects(&row.address, row.manifest.group(), labels())
    }
    /// The manifest of this key, if it is still desired.
    pub(super) fn declared(&self, key: &ManifestKey) -> Option<&'a ManifestMeta> {
        let manifests = &self.input.desired.manifests;
        let index = self.manifests.get_or_init(|| {
            manifests.iter().enumerate().map(|(index, manifest)| (&manifest.key, index)).collect()
        });
        index.get(key).map(|index| &manifests[*index])
    }
    /// What `by`, which stands on `on`, comes after by now and is not ready; none where all of it is.
    pub(super) fn awaited(&self, by: &ManifestKey, on: &ManifestKey) -> Option<ManifestKey> {
        let after = &self.declared(by)?.after;
        after.iter().find(|key| *key != on && !self.input.ready.contains(*key)).cloned()
    }
    /// The file of all that is tracked of a manifest here, if it is one.
    pub(super) fn only_file(&self, key: &ManifestKey) -> Option<&'a Arc<str>> {
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
    pub(super) fn is_same_document(&self, key: &ManifestKey, manifest: &ManifestMeta) -> bool {
        self.input.memory.documents.get(key) == Some(&manifest.content)
    }
    /// True when the ledger has an open entry for it.
    pub(super) fn has_drifted(&self, id: &ResourceId) -> bool {
        self.input.memory.drifts.binary_search_by(|drift| drift.id.cmp(id)).is_ok()
    }
    pub(super) fn covers(&self, id: &ResourceId) -> bool {
        self.input.seen.covered.covers(id)
    }
}

/// True where nothing is told of the scope besides what is declared, tracked and seen: each resource is judged by these alone.
fn is_plain(input: &ScopeInput<'_>) -> bool {
    let memory = input.memory;
    input.selection.is_all()
        && input.seen.complete
        && input.seen.covered == Focus::All
        && memory.consents.is_empty()
        && memory.open.is_empty()
        && memory.drifts.is_empty()
        && input.moved.is_empty()
        && input.desired.pinned.is_empty()
}
