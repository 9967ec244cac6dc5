//! `moved-from`: rows get the identity their manifest has now, and back where a person keeps an earlier revision.
//!
//! Guarantees: a row is moved only within its entry and kind, only from where its source may write, only when nothing
//! desires its old identity, nothing is tracked or being created under the new one, and no call to the old one lacks its
//! answer. What was to be moved and is not is told, as long as something of the entry is left that it may have meant.
//! What a rollback keeps takes back the row of what was moved from it; where that is not found, what would be made anew in
//! its place is told. Only where the remote assigns identity: where the key says it all, what has another key is another resource, and the
//! old one has to go. It deliberately writes nothing: the move is a step of the plan.

use super::Survey;
use crate::{
    desired::{Desired, ManifestMeta},
    plan::{Change, Step},
    store::{Condition, ConditionKind, MovedAway, Row, ScopeMemory},
};
use reconciled_provider::{Address, ManifestKey, ResourceId, Scope, problem::did_you_mean};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What `moved-from` comes to.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Addresses that rows were moved from, by where they are now.
    pub(super) moved: BTreeMap<(Scope, ResourceId), Address>,
    /// What says that it was moved and was not, though something is left that it may have been: why, for people.
    pub(super) lost: BTreeMap<(Scope, ResourceId), Arc<str>>,
    /// What is moved once it is known what became of the calls to it.
    waiting: Vec<Waiting>,
}

/// A move that cannot be made yet.
#[derive(Debug)]
struct Waiting {
    from: (Scope, ResourceId),
    to: (Scope, ResourceId),
    address: Address,
    why: Arc<str>,
}

/// Until a move that waits for an answer is tried again.
const AGAIN: Duration = Duration::from_secs(30);

impl Moves {
    /// Has what cannot be moved yet neither made anew, nor deleted or let go of.
    pub(super) fn put_off(&self, survey: &mut Survey, now: Duration) {
        let ends = |step: &Step| matches!(step.change, Change::Delete | Change::Abandon | Change::Forget);
        for Waiting { from, to, address, why } in &self.waiting {
            if let Some(Ok(view)) = survey.scopes.get_mut(&from.0) {
                let stays = |step: &Step| step.id != from.1 || !ends(step);
                view.plan.steps.retain(stays);
                view.plan.resumed.retain(stays);
            }
            let Some(Ok(view)) = survey.scopes.get_mut(&to.0) else { continue };
            let stays = |step: &Step| step.id != to.1 || step.change != Change::Create;
            view.plan.steps.retain(stays);
            view.plan.resumed.retain(stays);
            view.plan.conditions.push(Condition {
                id: Some(to.1.clone()),
                address: Some(address.clone()),
                kind: ConditionKind::Waiting,
                reason: "MoveWaits".into(),
                message: why.clone(),
                hint: None,
                since: Duration::ZERO,
                next_try: Some(now + AGAIN),
                declared: None,
            });
            view.plan.conditions.sort_by(|a, b| (&a.id, &a.reason).cmp(&(&b.id, &b.reason)));
        }
    }

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
    if desired.pinned.is_empty() && desired.manifests.iter().all(|m| m.moved_from.is_none()) {
        return moves;
    }
    let wanted: BTreeSet<(Scope, ResourceId)> = desired
        .scopes
        .iter()
        .flat_map(|(s, list)| list.iter().map(move |r| (s.clone(), r.id.clone())))
        .collect();
    let mut unfound = Vec::new();
    for (scope, resources) in desired.scopes.iter().filter(|(scope, _)| assigns(&scope.provider)) {
        for resource in &**resources {
            let Some(manifest) = desired.manifests.get(resource.origin.manifest as usize) else { continue };
            let is_kept = desired.pinned.contains_key(&(scope.clone(), resource.id.clone()));
            if manifest.moved_from.is_none() && !is_kept {
                continue;
            }
            // A create without an answer may have made it: then it is not the old one under a new name.
            let known = |m: &ScopeMemory| {
                m.rows.iter().any(|row| row.tracked.id == resource.id)
                    || m.open.iter().any(|open| open.intent.row.tracked.id == resource.id)
            };
            if memories.get(scope).is_some_and(known) {
                continue;
            }
            // Rows, and what a call without an answer may have made: that may be there without a row.
            let here = memories.iter().filter(|(s, _)| s.provider == scope.provider);
            let left = here.flat_map(|(s, memory)| {
                let open = memory.open.iter().map(|open| (None, &*open.intent.row));
                let rows = memory.rows.iter().enumerate().map(|(index, row)| (Some(index), row));
                rows.chain(open).map(move |(index, row)| (s, index, row))
            });
            let left = left.filter(|(s, _, row)| !wanted.contains(&((*s).clone(), row.tracked.id.clone())));
            let from = manifest.moved_from.as_ref();
            let old = left.clone().find(|(_, _, row)| from.is_some_and(|from| means(from, row)));
            // What the newest revision moved away from here, and a person has go back.
            let went = |s: &Scope, row: &Row| {
                desired.pinned.contains_key(&(s.clone(), row.tracked.id.clone()))
                    && declares(desired, row).is_some_and(|heir| was_moved(heir, manifest))
            };
            let old = old.or_else(|| left.clone().find(|(s, _, row)| is_kept && went(s, row)));
            // A row of which a call has no answer cannot be moved any more than what may have no row.
            let is_open = |(s, _, row): &(&Scope, Option<usize>, &Row)| {
                let open = |m: &ScopeMemory| m.open.iter().any(|o| o.intent.row.tracked.id == row.tracked.id);
                memories.get(*s).is_some_and(open)
            };
            let old = old.map(|old| if is_open(&old) { (old.0, None, old.2) } else { old });
            let Some((old_scope, index, row)) = old else {
                let goes = |(s, _, row): &(&Scope, Option<usize>, &Row)| {
                    let of_kind = (row.manifest.group(), row.manifest.kind())
                        == (manifest.key.group(), manifest.key.kind());
                    of_kind && desired.pinned.contains_key(&((*s).clone(), row.tracked.id.clone()))
                };
                if let Some((_, _, row)) = left.clone().find(|left| is_kept && goes(left)) {
                    let (address, other) = (&manifest.address, &row.address);
                    let text = format!(
                        "the rollback would make {address} anew and delete {other}, which may be the same under \
                         another name"
                    );
                    moves.lost.insert((scope.clone(), resource.id.clone()), text.into());
                } else if let Some(from) = from {
                    let mut rows = memories.iter().flat_map(|(s, m)| m.rows.iter().map(move |row| (s, row)));
                    let is_kept = |(s, row): &(&Scope, &Row)| {
                        let is_pinned = desired.pinned.contains_key(&((*s).clone(), row.tracked.id.clone()));
                        is_pinned && s.provider == scope.provider && means(from, row)
                    };
                    match rows.find(is_kept) {
                        Some((_, row)) => {
                            let text = format!(
                                "`reconciled/moved-from: {from}` names what a rollback keeps; to let it go on: \
                                 reconciled resume {}",
                                row.address
                            );
                            moves.lost.insert((scope.clone(), resource.id.clone()), text.into());
                        }
                        None => unfound.push((scope, resource, from)),
                    }
                }
                continue;
            };
            let index = match (refusal(desired, old_scope, row, &manifest.key), index) {
                (None, Some(index)) => index,
                (Some(why), _) => {
                    let text = match from.filter(|from| means(from, row)) {
                        Some(from) => {
                            format!("`reconciled/moved-from: {from}` does not move {}: {why}", row.address)
                        }
                        None => {
                            format!(
                                "the rollback does not move {} to {}: {why}",
                                row.address, manifest.address
                            )
                        }
                    };
                    moves.lost.insert((scope.clone(), resource.id.clone()), text.into());
                    continue;
                }
                (None, None) => {
                    let why =
                        format!("moves from {} once an earlier call to that has its answer", row.address);
                    moves.waiting.push(Waiting {
                        from: (old_scope.clone(), row.tracked.id.clone()),
                        to: (scope.clone(), resource.id.clone()),
                        address: manifest.address.clone(),
                        why: why.into(),
                    });
                    continue;
                }
            };
            let old_scope = old_scope.clone();
            let Some(memory) = memories.get_mut(&old_scope) else { continue };
            let mut row = Arc::make_mut(&mut memory.rows).remove(index);
            let old_id = std::mem::replace(&mut row.tracked.id, resource.id.clone());
            row.scope = scope.clone();
            moves.moved.insert((scope.clone(), resource.id.clone()), row.address.clone());
            let target = memories.entry(scope.clone()).or_default();
            let rows = Arc::make_mut(&mut target.rows);
            rows.push(row);
            rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
            target.moved_away.push(MovedAway { id: resource.id.clone(), scope: old_scope, was: old_id });
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

/// Why what `row` tracks in `scope` does not become what `manifest` declares, if it must not.
fn refusal(desired: &Desired, scope: &Scope, row: &Row, manifest: &ManifestKey) -> Option<&'static str> {
    let of_kind = (row.manifest.group(), row.manifest.kind()) == (manifest.group(), manifest.kind());
    let source = desired.sources.get(manifest.source());
    let in_reach = row.manifest.source() == manifest.source()
        || source.is_some_and(|s| s.reach.covers(scope, &row.address, row.manifest.group()));
    // What a broken file declared is frozen, and may be declared there still.
    let is_frozen = desired.sources.get(row.manifest.source()).is_some_and(|s| !s.is_whole());
    match () {
        () if !of_kind => Some("it is of another kind"),
        () if !in_reach => Some("its source may not write where that is"),
        () if is_frozen => Some("not all that its source declares can be read"),
        () => None,
    }
}

/// True when `from` is the address of this row; its group may be left out, as everywhere.
fn means(from: &Address, row: &Row) -> bool {
    names(from, &row.address, &row.manifest)
}

fn names(from: &Address, address: &Address, manifest: &ManifestKey) -> bool {
    let of_group = from.group.as_deref().is_none_or(|group| group == manifest.group());
    of_group && Address { group: None, ..from.clone() } == Address { group: None, ..address.clone() }
}

/// The manifest that declares, or declared in the newest revision, what this row tracks.
fn declares<'d>(desired: &'d Desired, row: &Row) -> Option<&'d ManifestMeta> {
    let whole = Address { part: None, ..row.address.clone() };
    let of_row = |m: &&ManifestMeta| m.key == row.manifest || m.address == whole;
    desired.manifests.iter().find(of_row)
}

/// True when `heir` says that it was moved from what `manifest` declares.
fn was_moved(heir: &ManifestMeta, manifest: &ManifestMeta) -> bool {
    heir.moved_from.as_ref().is_some_and(|from| names(from, &manifest.address, &manifest.key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        desired::{ManifestMeta, Reach, SourceState},
        store::{Intent, OpenIntent},
    };
    use reconciled_provider::{ActionId, Hash, ManifestKey, Origin, PolicyId, Resource, Spec};

    fn key(name: &str) -> ManifestKey {
        ManifestKey::new("s", "toy", "Thing", "", name)
    }

    fn row(name: &str) -> Row {
        Row::settled(Scope::new("toy", name), name, key(name))
    }

    /// What is moved and what is not found where `new` says that it was `from`, of what is tracked.
    fn check(from: &str, tracked: &[&str]) -> (Vec<String>, Vec<String>) {
        check_in(from, tracked.iter().map(|name| memory(row(name))).collect(), whole())
    }

    fn memory(row: Row) -> (Scope, ScopeMemory) {
        (row.scope.clone(), ScopeMemory { rows: vec![row].into(), ..ScopeMemory::default() })
    }

    /// The same of these memories, where the source of `new` stands so.
    fn check_in(
        from: &str,
        memories: BTreeMap<Scope, ScopeMemory>,
        source: SourceState,
    ) -> (Vec<String>, Vec<String>) {
        moves_in(from, memories, source).1
    }

    fn whole() -> SourceState {
        SourceState { prunes: true, ..SourceState::default() }
    }

    fn moves_in(
        from: &str,
        mut memories: BTreeMap<Scope, ScopeMemory>,
        source: SourceState,
    ) -> (Moves, (Vec<String>, Vec<String>)) {
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
        let desired = Desired {
            manifests: vec![meta],
            scopes: [(scope, Arc::new(vec![resource]))].into(),
            sources: [("s".into(), source)].into(),
            ..Desired::default()
        };
        let moves = moves(&desired, &mut memories, |_| true);
        let texts = moves.lost.values().map(ToString::to_string).collect();
        let found = (moves.moved.values().map(ToString::to_string).collect(), texts);
        (moves, found)
    }

    /// What is moved and what is told where a rollback keeps `old`, and what is tracked is `new`, moved from `from` by
    /// the newest revision.
    fn check_back(from: Option<&str>, memory: (Scope, ScopeMemory)) -> (Vec<String>, Vec<String>) {
        check_kept(from, memory, &["old"], &["old", "new"])
    }

    /// The same where these of both are declared and kept.
    fn check_kept(
        from: Option<&str>,
        memory: (Scope, ScopeMemory),
        declared: &[&str],
        kept: &[&str],
    ) -> (Vec<String>, Vec<String>) {
        let meta = |name: &str, from: Option<&str>| ManifestMeta {
            key: key(name),
            address: Address::of(&key(name), None),
            file: "f.yaml".into(),
            line: 1,
            content: Hash::default(),
            labels: BTreeMap::new(),
            after: [].into(),
            moved_from: from.map(|from| from.parse().unwrap()),
        };
        let resource = |name: &&str| {
            let scope = Scope::new("toy", *name);
            let resource = Resource {
                id: (*name).into(),
                scope: scope.clone().into(),
                spec: Spec::known(b"x".to_vec()),
                origin: Origin { manifest: u32::from(*name == "old"), line: 1 },
                policy: PolicyId(0),
            };
            (scope, Arc::new(vec![resource]))
        };
        let pin = |name: &&str| ((Scope::new("toy", *name), (*name).into()), "then".into());
        let desired = Desired {
            manifests: vec![meta("new", from), meta("old", None)],
            scopes: declared.iter().map(resource).collect(),
            sources: [("s".into(), whole())].into(),
            pinned: kept.iter().map(pin).collect(),
            ..Desired::default()
        };
        let moves = moves(&desired, &mut [memory].into(), |_| true);
        let texts = |all: &BTreeMap<_, Arc<str>>| all.values().map(ToString::to_string).collect();
        (moves.moved.values().map(ToString::to_string).collect(), texts(&moves.lost))
    }

    #[test]
    fn what_is_kept_at_an_earlier_revision_takes_back_what_was_moved_from_it() {
        for from in ["Thing/old", "Thing.toy/old"] {
            let expect = (vec!["Thing/new".to_string()], Vec::new());
            assert_eq!(check_back(Some(from), memory(row("new"))), expect, "{from}");
        }
        // It has the name it had before until what differs is written.
        let halfway = Row { manifest: key("old"), ..row("new") };
        assert_eq!(check_back(Some("Thing/old"), memory(halfway)).0, ["Thing/new"]);
    }

    #[test]
    fn what_a_rollback_keeps_is_not_made_anew_by_who_was_moved_from_it() {
        let (moved, lost) = check_kept(Some("Thing/old"), memory(row("old")), &["new", "old"], &["old"]);
        assert_eq!(moved, [""; 0]);
        let text = "`reconciled/moved-from: Thing/old` names what a rollback keeps; to let it go on: reconciled resume \
                    Thing/old";
        assert_eq!(lost, [text]);
    }

    #[test]
    fn what_may_be_the_same_under_another_name_is_told_before_a_rollback_makes_it_anew() {
        for from in [None, Some("Thing/between")] {
            let (moved, lost) = check_back(from, memory(row("new")));
            assert_eq!(moved, [""; 0]);
            let text = "the rollback would make Thing/old anew and delete Thing/new, which may be the same under \
                        another name";
            assert_eq!(lost, [text]);
        }
        // What is of another kind, or goes on, is another thing.
        let other = Row { manifest: ManifestKey::new("s", "toy", "Other", "", "new"), ..row("new") };
        assert_eq!(check_back(None, memory(other)), (Vec::new(), Vec::new()));
        assert_eq!(check_back(None, memory(row("third"))), (Vec::new(), Vec::new()));
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

    #[test]
    fn what_is_of_another_kind_or_out_of_reach_or_without_an_answer_is_not_moved() {
        let refused = |memory: (Scope, ScopeMemory), source: SourceState| {
            let (moved, lost) = check_in("Thing/old", [memory].into(), source);
            assert_eq!(moved, [""; 0]);
            lost.concat()
        };
        let of = |source: &str, kind: &str| {
            let key = ManifestKey::new(source, "toy", kind, "", "old");
            memory(Row { manifest: key, ..row("old") })
        };
        let open = |op: &str| OpenIntent {
            intent: Intent {
                action: ActionId(1),
                op: op.into(),
                token: "t".into(),
                row: row("old").into(),
                before: None,
                after: None,
                reason: "".into(),
                consented: None,
            },
            started_at: Default::default(),
        };
        let nowhere = || SourceState { reach: Reach::within(|_, _, _| false), ..whole() };
        assert!(refused(of("s", "Other"), whole()).ends_with("it is of another kind"));
        assert!(refused(of("other", "Thing"), nowhere()).contains("may not write where that is"));
        assert_eq!(check_in("Thing/old", [of("other", "Thing")].into(), whole()).0, ["Thing/old"]);
        let broken = SourceState { broken: ["a.yaml".into()].into(), ..whole() };
        assert!(refused(of("s", "Thing"), broken).contains("not all that its source declares"));
        for op in ["create", "update", "replace", "delete"] {
            let (scope, memory) = memory(row("old"));
            let asked = ScopeMemory { open: vec![open(op)], ..memory };
            // What was being made has no row.
            let unrowed = ScopeMemory { open: vec![open(op)], ..ScopeMemory::default() };
            for memory in [asked, unrowed] {
                let (moves, _) = moves_in("Thing/old", [(scope.clone(), memory)].into(), whole());
                assert!(moves.moved.is_empty() && moves.lost.is_empty(), "{op}");
                let [waiting] = &moves.waiting[..] else { panic!("{op}: {:?}", moves.waiting) };
                assert_eq!((&*waiting.from.1.0, &*waiting.to.1.0), ("old", "new"), "{op}");
            }
        }
    }
}
