//! What is known of a survey only from memory, and what of it nobody knows: that may be any thing of its kind.

use crate::{
    desired::Desired,
    store::{OpenIntent, Row, ScopeMemory},
    survey::Survey,
};
use reconciled_provider::{Address, ManifestKey, ResourceId, Scope, Spec};
use std::{collections::BTreeMap, sync::Arc};

/// What is remembered of each scope, also where that cannot be read.
pub(in crate::survey) type Remembered = BTreeMap<Scope, (Arc<Vec<Row>>, Vec<OpenIntent>)>;

/// What is tracked and what has no answer, as memories have it.
pub(in crate::survey) fn remembered(memories: &BTreeMap<Scope, ScopeMemory>) -> Remembered {
    let of = |memory: &ScopeMemory| (memory.rows.clone(), memory.open.clone());
    memories.iter().map(|(scope, memory)| (scope.clone(), of(memory))).collect()
}

/// Resources of which nobody knows what they stand for, by the entry and kind of manifest they are of. One of each says enough.
#[derive(Default)]
pub(in crate::survey) struct Unknown {
    /// Declared and not tracked: they may be about to take over what something else has.
    pub(super) wanting: BTreeMap<Place, Address>,
    /// Tracked: they may have what something else is about to take over.
    pub(super) having: BTreeMap<Place, Address>,
    /// Being made by a call without an answer, and not found: they may be what something else finds in place of its own, and would
    /// delete.
    pub(super) making: BTreeMap<Place, Address>,
}

/// Entry, group and kind: only what shares them can be one thing.
pub(super) type Place = (Arc<str>, Arc<str>, Arc<str>);

pub(super) fn place(scope: &Scope, manifest: &ManifestKey) -> Place {
    (scope.provider.clone(), manifest.group().into(), manifest.kind().into())
}

/// What is not known of `survey`: asked for before anything in it is refused.
pub(in crate::survey) fn unknown(desired: &Desired, remembered: &Remembered, survey: &Survey) -> Unknown {
    let mut unknown = Unknown::default();
    for (scope, view) in &survey.scopes {
        let (rows, open) = match view {
            Ok(view) => (&**view.memory.rows, &*view.memory.open),
            Err(_) => remembered.get(scope).map_or((&[][..], &[][..]), |(rows, open)| (rows, open)),
        };
        let is_found = |id: &ResourceId| view.as_ref().is_ok_and(|view| view.seen.get(id).is_some());
        let made = open.iter().filter(|open| open.intent.makes_anew()).map(|open| &open.intent.row);
        let made = made.filter(|row| !is_found(&row.tracked.id));
        unknown.making.extend(made.map(|row| (place(scope, &row.manifest), row.address.clone())));
        for resource in desired.in_scope(scope) {
            let is_unknown = match view {
                // What it takes over is said in what nobody has yet.
                Ok(view) => {
                    matches!(resource.spec, Spec::Waiting { .. }) && view.seen.get(&resource.id).is_none()
                }
                Err(_) => true,
            };
            let manifest = desired.manifest(resource.origin);
            if is_unknown && !has_row(rows, &resource.id) {
                unknown.wanting.insert(place(scope, &manifest.key), manifest.address.clone());
            }
        }
        if view.is_err() {
            let having = rows.iter().map(|row| (place(scope, &row.manifest), row.address.clone()));
            unknown.having.extend(having);
        }
    }
    unknown
}

/// True when `id` is tracked; rows are sorted by id.
pub(super) fn has_row(rows: &[Row], id: &ResourceId) -> bool {
    rows.binary_search_by(|row| row.tracked.id.cmp(id)).is_ok()
}
