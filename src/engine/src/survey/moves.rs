//! `moved-from`: rows get the identity their manifest has now.
//!
//! Guarantees: a row is moved only within its entry, only when nothing desires its old identity and nothing is
//! tracked or being created under the new one. What was to be moved and is not found is told, as long as something
//! of the entry is left that it may have meant. Only where the remote assigns identity: where the key says it all,
//! what has another key is another resource, and the old one has to go. It deliberately writes nothing: the move
//! is a step of the plan.

use super::Survey;
use crate::{
    desired::Desired,
    plan::Change,
    store::{Row, ScopeMemory},
};
use reconciled_provider::{Address, ResourceId, Scope, problem::did_you_mean};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What `moved-from` comes to.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Addresses that rows were moved from, by where they are now.
    pub(super) moved: BTreeMap<(Scope, ResourceId), Address>,
    /// What says that it was moved and was not, though something is left that it may have been: why, for people.
    pub(super) lost: BTreeMap<(Scope, ResourceId), Arc<str>>,
}

impl Moves {
    /// What was to be moved and would be made anew, by entry.
    pub(super) fn made_anew(&self, survey: &Survey) -> BTreeMap<Arc<str>, Vec<Arc<str>>> {
        let mut found: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        for ((scope, id), text) in &self.lost {
            let Some(Ok(view)) = survey.scopes.get(scope) else { continue };
            if view.plan.steps.iter().any(|step| step.id == *id && step.change == Change::Create) {
                found.entry(scope.provider.clone()).or_default().push(text.clone());
            }
        }
        found
    }
}

/// Rows that a manifest says it was moved from get its identity, so that a rename is no delete and create.
///
/// `assigns` says of an entry whether its remote assigns identity.
pub(super) fn moves(
    desired: &Desired,
    memories: &mut BTreeMap<Scope, ScopeMemory>,
    assigns: impl Fn(&str) -> bool,
) -> Moves {
    let mut moves = Moves::default();
    if desired.manifests.iter().all(|m| m.moved_from.is_none()) {
        return moves;
    }
    let wanted: BTreeSet<(Scope, ResourceId)> = desired
        .scopes
        .iter()
        .flat_map(|(s, list)| list.iter().map(move |r| (s.clone(), r.id.clone())))
        .collect();
    let mut unfound = Vec::new();
    for (scope, resources) in desired.scopes.iter().filter(|(scope, _)| assigns(&scope.provider)) {
        for resource in resources {
            let Some(manifest) = desired.manifests.get(resource.origin.manifest as usize) else { continue };
            let Some(from) = &manifest.moved_from else { continue };
            // A create without an answer may have made it: then it is not the old one under a new name.
            let known = |m: &ScopeMemory| {
                m.rows.iter().any(|row| row.tracked.id == resource.id)
                    || m.open.iter().any(|open| open.intent.row.tracked.id == resource.id)
            };
            if memories.get(scope).is_some_and(known) {
                continue;
            }
            let old =
                memories.iter().filter(|(s, _)| s.provider == scope.provider).find_map(|(s, memory)| {
                    let index = memory.rows.iter().position(|row| {
                        means(from, row) && !wanted.contains(&(s.clone(), row.tracked.id.clone()))
                    })?;
                    Some((s.clone(), index))
                });
            let Some((old_scope, index)) = old else {
                unfound.push((scope, resource, from));
                continue;
            };
            let Some(memory) = memories.get_mut(&old_scope) else { continue };
            let mut row = Arc::make_mut(&mut memory.rows).remove(index);
            let old_id = std::mem::replace(&mut row.tracked.id, resource.id.clone());
            row.scope = scope.clone();
            moves.moved.insert((scope.clone(), resource.id.clone()), row.address.clone());
            let target = memories.entry(scope.clone()).or_default();
            let rows = Arc::make_mut(&mut target.rows);
            rows.push(row);
            rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
            target.moved_away.push((old_scope, old_id));
        }
    }
    for (scope, resource, from) in unfound {
        // Where nothing is left over, as in a new state, the annotation is history and there is nothing to lose.
        let left = memories.iter().filter(|(s, _)| s.provider == scope.provider).flat_map(|(s, memory)| {
            memory.rows.iter().filter(|row| !wanted.contains(&(s.clone(), row.tracked.id.clone())))
        });
        let left: BTreeSet<String> = left.map(|row| row.address.to_string()).collect();
        if left.is_empty() {
            continue;
        }
        let near = did_you_mean(&from.to_string(), left.iter().map(String::as_str));
        let hint = match (near, left.len()) {
            (Some(near), _) => format!("did you mean {near}?"),
            (None, 1) => {
                format!("what nothing declares any more is {}", left.iter().next().map_or("", |l| l))
            }
            (None, most) => format!("{most} that nothing declares any more are tracked"),
        };
        let text = format!("`reconciled/moved-from: {from}` names nothing that could be moved; {hint}");
        moves.lost.insert((scope.clone(), resource.id.clone()), text.into());
    }
    moves
}

/// True when `from` is the address of this row; its group may be left out, as everywhere.
fn means(from: &Address, row: &Row) -> bool {
    let of_group = from.group.as_deref().is_none_or(|group| group == row.manifest.group());
    of_group && Address { group: None, ..from.clone() } == Address { group: None, ..row.address.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{desired::ManifestMeta, store::RowState};
    use reconciled_provider::{
        Deletion, Drift, Hash, ManifestKey, Origin, PolicyId, Resource, Spec, Tracked,
    };

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("s", "toy", "Thing", "", name)
    }

    fn row(name: &str) -> Row {
        Row {
            scope: Scope::new("toy", name),
            tracked: Tracked::new(name.into(), Hash::default()),
            manifest: key(name),
            address: Address::of(&key(name), None),
            file: "f.yaml".into(),
            template: Hash::default(),
            normalizer: 1,
            deletion: Deletion::Delete,
            drift: Drift::Heal,
            merge: false,
            state: RowState::Settled,
            written_at: Default::default(),
            revision: "r".into(),
        }
    }

    /// What is moved and what is not found where `new` says that it was `from`, of what is tracked.
    fn check(from: &str, tracked: &[&str]) -> (Vec<String>, Vec<String>) {
        let meta = ManifestMeta {
            key: key("new"),
            address: Address::of(&key("new"), None),
            file: "f.yaml".into(),
            line: 1,
            content: Hash::default(),
            labels: BTreeMap::new(),
            after: [].into(),
            moved_from: Some(from.parse().unwrap()),
        };
        let scope = Scope::new("toy", "new");
        let resource = Resource {
            id: "new".into(),
            scope: scope.clone().into(),
            spec: Spec::known(b"x".to_vec()),
            origin: Origin { manifest: 0, line: 1 },
            policy: PolicyId(0),
        };
        let desired =
            Desired { manifests: vec![meta], scopes: [(scope, vec![resource])].into(), ..Desired::default() };
        let memory = |name: &&str| {
            (Scope::new("toy", *name), ScopeMemory { rows: vec![row(name)].into(), ..ScopeMemory::default() })
        };
        let mut memories = tracked.iter().map(memory).collect();
        let moves = moves(&desired, &mut memories, |_| true);
        let texts = moves.lost.values().map(ToString::to_string).collect();
        (moves.moved.values().map(ToString::to_string).collect(), texts)
    }

    #[test]
    fn a_group_may_be_named_or_left_out() {
        for from in ["Thing/old", "Thing.toy/old"] {
            assert_eq!(check(from, &["old", "other"]), (vec!["Thing/old".to_string()], Vec::new()), "{from}");
        }
    }

    #[test]
    fn what_names_nothing_is_told_while_something_is_left_that_it_may_mean() {
        let said = |hint: &str| format!("`reconciled/moved-from: {hint}");
        let (moved, lost) = check("Thing/odl", &["old"]);
        assert_eq!(moved, [""; 0]);
        assert_eq!(lost, [said("Thing/odl` names nothing that could be moved; did you mean Thing/old?")]);
        let (_, lost) = check("Thing.other/old", &["old"]);
        assert_eq!(lost.len(), 1, "another group is another thing");
        assert_eq!(check("Thing/old", &[]), (Vec::new(), Vec::new()), "in a new state it is history");
    }
}
