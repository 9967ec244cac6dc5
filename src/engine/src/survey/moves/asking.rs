//! Who may ask for a row, which rows are left over for them, and whether one may become what they declare.

use super::names::{groupless, is_of_kind, means};
use crate::{
    desired::{Desired, ManifestMeta},
    store::{Row, ScopeMemory},
};
use reconciled_provider::{Address, ManifestKey, Resource, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A resource that says it was moved, that has a name which something else had before, or that a person keeps at an earlier
/// revision.
pub(super) struct Asking<'d> {
    pub(super) scope: &'d Scope,
    pub(super) resource: &'d Resource,
    pub(super) manifest: &'d ManifestMeta,
    pub(super) is_kept: bool,
    pub(super) there: There,
}

/// What there is under the identity that something is to be moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    /// What a call without an answer may have made: then it is not the old one under a new name.
    Asked,
    Tracked,
}

impl There {
    fn of(memory: Option<&ScopeMemory>, id: &ResourceId) -> There {
        let is_tracked = |m: &ScopeMemory| m.rows.iter().any(|row| row.tracked.id == *id);
        let is_asked = |m: &ScopeMemory| m.open.iter().any(|open| open.intent.row.tracked.id == *id);
        match memory {
            Some(memory) if is_tracked(memory) => There::Tracked,
            Some(memory) if is_asked(memory) => There::Asked,
            _ => There::Nothing,
        }
    }
}

/// All that says it was moved, has a name that something else had, or is kept at an earlier revision, where the remote assigns
/// identity.
pub(super) fn asking<'d>(
    desired: &'d Desired,
    memories: &BTreeMap<Scope, ScopeMemory>,
    wanted: &BTreeSet<(Scope, ResourceId)>,
    assigns: impl Fn(&str) -> bool,
) -> Vec<Asking<'d>> {
    let mut all = Vec::new();
    let here = memories.iter().filter(|(s, _)| assigns(&s.provider));
    let rows = here.flat_map(|(s, memory)| memory.rows.iter().map(move |row| (s, row)));
    let moved = rows.filter(|(_, row)| !row.formerly.is_empty());
    let left = moved.filter(|(s, row)| !wanted.contains(&((*s).clone(), row.tracked.id.clone())));
    let had: BTreeSet<(&Arc<str>, Address)> = left
        .flat_map(|(s, row)| {
            row.formerly.iter().map(move |name| (&s.provider, groupless(&name.without_part())))
        })
        .collect();
    for (scope, resources) in desired.scopes.iter().filter(|(scope, _)| assigns(&scope.provider)) {
        for resource in &**resources {
            let Some(manifest) = desired.manifests.get(resource.origin.manifest as usize) else { continue };
            let is_kept = desired.pinned.contains_key(&(scope.clone(), resource.id.clone()));
            let was_had = || had.contains(&(&scope.provider, groupless(&manifest.address)));
            if manifest.moved_from.is_some() || is_kept || !had.is_empty() && was_had() {
                let there = There::of(memories.get(scope), &resource.id);
                all.push(Asking { scope, resource, manifest, is_kept, there });
            }
        }
    }
    all
}

/// What is remembered and nothing desires: its scope, where its row is among those of that, and the row.
pub(super) type Unwanted<'m> = (&'m Scope, Option<usize>, &'m Row);

/// What nothing desires of an entry: rows, and what a call without an answer may have made, which may be there without a row.
pub(super) fn unwanted<'m>(
    memories: &'m BTreeMap<Scope, ScopeMemory>,
    wanted: &'m BTreeSet<(Scope, ResourceId)>,
    entry: &'m Arc<str>,
) -> impl Iterator<Item = Unwanted<'m>> + Clone {
    let here = memories.iter().filter(move |(s, _)| s.provider == *entry);
    let all = here.flat_map(|(s, memory)| {
        let open = memory.open.iter().map(|open| (None, &*open.intent.row));
        let rows = memory.rows.iter().enumerate().map(|(index, row)| (Some(index), row));
        rows.chain(open).map(move |(index, row)| (s, index, row))
    });
    all.filter(move |(s, _, row)| !wanted.contains(&((*s).clone(), row.tracked.id.clone())))
}

/// The manifests that say they were moved from this row and may have been, with their places.
pub(super) fn rivals<'d>(
    desired: &Desired,
    new: &[Asking<'d>],
    scope: &Scope,
    row: &Row,
) -> BTreeMap<&'d ManifestKey, String> {
    let may_be = |one: &&Asking<'d>| {
        one.scope.provider == scope.provider
            && refusal(desired, scope, row, &one.manifest.key).is_none()
            && one.manifest.moved_from.as_ref().is_some_and(|from| means(from, row))
    };
    let named = |one: &Asking<'d>| {
        let ManifestMeta { key, address, file, line, .. } = one.manifest;
        (key, format!("{address} ({file}:{line})"))
    };
    new.iter().filter(may_be).map(named).collect()
}

/// Why what `row` tracks in `scope` does not become what `manifest` declares, if it must not.
pub(super) fn refusal(
    desired: &Desired,
    scope: &Scope,
    row: &Row,
    manifest: &ManifestKey,
) -> Option<&'static str> {
    let source = desired.sources.get(manifest.source());
    let in_reach = row.manifest.source() == manifest.source()
        || source.is_some_and(|s| s.reach.covers(scope, &row.address, row.manifest.group()));
    let owner = desired.sources.get(row.manifest.source());
    // What a broken file declared is frozen, and may be declared there still.
    let is_frozen = owner.is_some_and(|s| !s.is_whole());
    let is_aside = || desired.set_aside.contains_key(&(scope.clone(), row.tracked.id.clone()));
    let is_in_newest = owner.is_some_and(|s| s.newest.is_some()) && is_aside();
    match () {
        () if !is_of_kind(&row.manifest, manifest) => Some("it is of another kind"),
        () if !in_reach => Some("its source may not write where that is"),
        () if is_frozen => Some("not all that its source declares can be read"),
        () if is_in_newest => {
            Some("the newest revision of its source, which is not in force, may declare it")
        }
        () => None,
    }
}
