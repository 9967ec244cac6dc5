//! Who still stands on what another manifest was before: what was replaced by one that was made first goes after them.
//!
//! Guarantees: as long as anything that exists was applied with what is no more, or may have been, it is named. It
//! deliberately asks nobody: the inventory tells with what each was applied, and the desired state with what it was read.

use super::applied::is_as_declared;
use crate::{
    desired::{Desired, PutOut},
    store::{Row, RowState, ScopeMemory},
};
use reconciled_provider::{Hash, ManifestKey, Scope};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};

/// The outputs of all resources of a manifest, which count as one; where two have a name in common, the first by scope
/// and id. Of a manifest that moved to another entry both may be there: what it declared before counts only as long as nothing
/// that it declares now puts anything out.
pub fn outputs_of<'r>(
    rows: impl IntoIterator<Item = &'r Row>,
    is_declared_in: impl Fn(&Scope) -> bool,
) -> Map<String, Json> {
    let rows = rows.into_iter().filter(|row| !row.tracked.outputs.0.is_empty());
    let (declared, before): (Vec<&Row>, Vec<&Row>) = rows.partition(|row| is_declared_in(&row.scope));
    let mut rows = if declared.is_empty() { before } else { declared };
    // The store has its own order, and another answer would be news for ever.
    rows.sort_by(|a, b| (&a.scope, &a.tracked.id).cmp(&(&b.scope, &b.tracked.id)));
    let mut all = Map::new();
    for row in rows {
        // What is no object is the provider's mistake; nobody can refer to it.
        let outputs = serde_json::from_slice::<Map<String, Json>>(&row.tracked.outputs.0);
        for (name, value) in outputs.into_iter().flatten() {
            all.entry(name).or_insert(value);
        }
    }
    all
}

/// Tells outputs apart.
pub fn hash_of_outputs(outputs: &Map<String, Json>) -> Hash {
    let mut sorted = Json::Object(outputs.clone());
    sorted.sort_all_objects();
    Hash::of(&serde_json::to_vec(&sorted).unwrap_or_default())
}

/// What something stands on as it was before, also by way of others, each with one that does.
pub(super) fn stood_on(
    desired: &Desired,
    memories: &BTreeMap<Scope, ScopeMemory>,
    moved: &BTreeSet<&ManifestKey>,
) -> BTreeMap<ManifestKey, ManifestKey> {
    let mut edges: BTreeMap<&ManifestKey, BTreeSet<&ManifestKey>> = BTreeMap::new();
    for row in memories.values().flat_map(made) {
        edges.entry(&row.manifest).or_default().extend(row.tracked.after.iter());
    }
    edges.retain(|_, after| !after.is_empty());
    if edges.is_empty() {
        return BTreeMap::new();
    }
    let is_behind = |row: &&Row| {
        let declared = desired.declaring(&row.scope, &row.tracked.id).first();
        let is_applied = declared.is_some_and(|resource| is_as_declared(desired, resource, row));
        !is_applied
            || row.state != RowState::Settled
            || row.tracked.after.iter().any(|key| moved.contains(key))
    };
    let rows = memories.values().flat_map(made);
    let behind = rows.filter(|row| edges.contains_key(&row.manifest)).filter(is_behind);
    let mut found: BTreeMap<ManifestKey, ManifestKey> = BTreeMap::new();
    for by in behind.map(|row| &row.manifest).collect::<BTreeSet<_>>() {
        let mut next = vec![by];
        while let Some(key) = next.pop() {
            for on in edges.get(key).into_iter().flatten().copied() {
                if !found.contains_key(on) {
                    found.insert(on.clone(), by.clone());
                    next.push(on);
                }
            }
        }
    }
    found
}

/// Rows, and what writes without an answer may have made.
fn made(memory: &ScopeMemory) -> impl Iterator<Item = &Row> {
    memory.rows.iter().chain(memory.open.iter().map(|open| &*open.intent.row))
}

/// Manifests that put out something else by now than when the desired state was read.
///
/// The race: within one run of passes the first replaces what others refer to, and the desired state is read again only after
/// it. Until then those others look as declared.
pub(super) fn moved<'d>(
    desired: &'d Desired,
    memories: &BTreeMap<Scope, ScopeMemory>,
) -> BTreeSet<&'d ManifestKey> {
    if desired.outputs.is_empty() {
        return BTreeSet::new();
    }
    let mut rows: BTreeMap<&ManifestKey, Vec<&Row>> = BTreeMap::new();
    for row in memories.values().flat_map(|memory| memory.rows.iter()) {
        if desired.outputs.contains_key(&row.manifest) {
            rows.entry(&row.manifest).or_default().push(row);
        }
    }
    // Looked for where they were when that was read, or what is not to be found there would have moved for ever. What is tracked
    // no more, or for another source, stands nowhere that it could move from.
    let has_moved = |key: &ManifestKey, read: &PutOut| {
        let Some(rows) = rows.get(key) else { return false };
        let rows = rows.iter().copied();
        hash_of_outputs(&outputs_of(rows, |scope| read.declared_in.contains(scope))) != read.hash
    };
    let mut moved = BTreeSet::new();
    for (key, _) in desired.outputs.iter().filter(|(key, read)| has_moved(key, read)) {
        moved.insert(key);
        // A folder that stands for no source declares by manifests of its own what is tracked for others.
        let rows = rows.get(key).into_iter().flatten();
        let declaring = rows.filter_map(|row| desired.declaring(&row.scope, &row.tracked.id).first());
        moved.extend(declaring.map(|resource| &desired.manifest(resource.origin).key));
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::ManifestMeta;
    use reconciled_provider::{Origin, PolicyId, Resource, Sealed, Spec};
    use std::sync::Arc;

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("s", "test", "Thing", "", name)
    }

    /// Of `a ← b ← c`, applied with these words, what is stood on while these are declared and `a` put out `read`.
    fn check(applied: &[(&str, &str)], declared: &[(&str, &str)], read: &str) -> Vec<(String, String)> {
        let after = |name: &str| -> Arc<[ManifestKey]> {
            match name {
                "b" => [key("a")].into(),
                "c" => [key("b")].into(),
                _ => [].into(),
            }
        };
        let scope = |name: &str| Scope::new("cloud", name);
        let row = |(name, word): &(&str, &str)| {
            let spec = Spec::known(word.as_bytes().to_vec());
            Row::settled(scope(name), name, key(name)).with(|row| {
                row.tracked.applied = spec.hash().unwrap();
                row.tracked.after = after(name);
                row.tracked.outputs = Sealed::new(format!(r#"{{"id": "{name}"}}"#));
                row.template = spec.template();
            })
        };
        let memory = |one: &(&str, &str)| {
            let memory = ScopeMemory { rows: vec![row(one)].into(), ..ScopeMemory::default() };
            (scope(one.0), memory)
        };
        let resource = |(index, (name, word)): (usize, &(&str, &str))| {
            let resource = Resource::new(
                (*name).into(),
                Arc::new(scope(name)),
                Spec::known(word.as_bytes().to_vec()),
                Origin { manifest: index as u32, line: 1 },
                PolicyId::default(),
            );
            (scope(name), Arc::new(vec![resource]))
        };
        let manifest = |(name, _): &(&str, &str)| ManifestMeta::of_test(key(name), after(name));
        let read = Map::from_iter([("id".to_string(), Json::from(read))]);
        let read = PutOut { hash: hash_of_outputs(&read), declared_in: [scope("a")].into() };
        let desired = Desired {
            manifests: declared.iter().map(manifest).collect(),
            scopes: declared.iter().enumerate().map(resource).collect(),
            outputs: [(key("a"), read)].into(),
            ..Desired::default()
        };
        let memories: BTreeMap<Scope, ScopeMemory> = applied.iter().map(memory).collect();
        let found = stood_on(&desired, &memories, &moved(&desired, &memories));
        found.iter().map(|(on, by)| (on.name().into(), by.name().into())).collect()
    }

    #[test]
    fn what_was_put_out_at_another_entry_counts_until_something_is_put_out_at_the_one_that_is_declared() {
        let row = |entry: &str, outputs: &str| {
            let row = Row::settled(Scope::new(entry, "a"), "a", key("a"));
            row.with(|row| row.tracked.outputs = Sealed::new(outputs))
        };
        let check = |rows: &[Row], expect: Json| {
            let outputs = outputs_of(rows, |scope| &*scope.provider == "declared");
            assert_eq!(Json::Object(outputs), expect, "{rows:?}");
        };
        let before = || row("before", r#"{"id": "one", "size": 1}"#);
        let both = serde_json::json!({"id": "one", "size": 1});
        check(&[before()], both.clone());
        check(&[before(), row("declared", "")], both);
        // Nothing of what it was stays among it.
        check(&[before(), row("declared", r#"{"id": "two"}"#)], serde_json::json!({"id": "two"}));
    }

    #[test]
    fn whichever_order_rows_come_in_the_outputs_are_the_same() {
        let row = |entry: &str| {
            let row = Row::settled(Scope::new(entry, "a"), "a", key("a"));
            row.with(|row| row.tracked.outputs = Sealed::new(format!(r#"{{"id": "at {entry}"}}"#)))
        };
        // As text `aws-eu/a` comes before `aws/a`.
        for order in [["aws", "aws-eu"], ["aws-eu", "aws"]] {
            let rows = order.map(row);
            let outputs = outputs_of(&rows, |_| true);
            assert_eq!(Json::Object(outputs), serde_json::json!({"id": "at aws"}));
        }
    }

    fn by(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(on, by)| (on.to_string(), by.to_string())).collect()
    }

    #[test]
    fn what_was_not_written_since_stands_on_what_was_before() {
        let all = [("a", "x"), ("b", "x"), ("c", "x")];
        assert_eq!(check(&all, &all, "a"), by(&[]));
        assert_eq!(check(&all, &[("a", "y"), ("b", "x"), ("c", "x")], "a"), by(&[]));
        assert_eq!(check(&all, &[("a", "x"), ("b", "y"), ("c", "x")], "a"), by(&[("a", "b")]));
        // By way of another one, which has moved on itself.
        let last = [("a", "x"), ("b", "x"), ("c", "y")];
        assert_eq!(check(&all, &last, "a"), by(&[("a", "c"), ("b", "c")]));
        // What is declared no more is still there; what is not made yet stands on nothing.
        assert_eq!(check(&all[..2], &all[..1], "a"), by(&[("a", "b")]));
        assert_eq!(check(&all[..1], &all, "a"), by(&[]));
    }

    #[test]
    fn a_desired_state_that_was_read_before_says_nothing_of_who_moved_on() {
        let all = [("a", "x"), ("b", "x")];
        assert_eq!(check(&all, &all, "the one before"), by(&[("a", "b")]));
    }
}
