//! What is moved, and what is told of what is not.

use super::*;
use crate::{
    desired::{ManifestMeta, Pinned, Reach, SourceState},
    store::{Intent, OpenIntent},
};
use reconciled_provider::{ActionId, Hash, ManifestKey, Origin, PolicyId, Resource, Spec};

fn key(name: &str) -> ManifestKey {
    ManifestKey::new("s", "toy", "Thing", "", name)
}

fn row(name: &str) -> Row {
    Row::settled(Scope::new("toy", name), name, key(name))
}

fn told(moves: &Moves) -> Vec<String> {
    moves.lost.values().map(|lost| lost.why.to_string()).collect()
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
    memories: BTreeMap<Scope, ScopeMemory>,
    source: SourceState,
) -> (Moves, (Vec<String>, Vec<String>)) {
    moves_beside(from, memories, source, BTreeSet::new())
}

/// The same where these are set aside.
fn moves_beside(
    from: &str,
    mut memories: BTreeMap<Scope, ScopeMemory>,
    source: SourceState,
    aside: BTreeSet<(Scope, ResourceId)>,
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
        set_aside: aside.into_iter().map(|place| (place, BTreeSet::new())).collect(),
        ..Desired::default()
    };
    let moves = moves(&desired, &mut memories, |_| true);
    let texts = told(&moves);
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
    let pin = |name: &&str| {
        ((Scope::new("toy", *name), (*name).into()), Pinned { label: "then".into(), newest: None })
    };
    let desired = Desired {
        manifests: vec![meta("new", from), meta("old", None)],
        scopes: declared.iter().map(resource).collect(),
        sources: [("s".into(), whole())].into(),
        pinned: kept.iter().map(pin).collect(),
        ..Desired::default()
    };
    let moves = moves(&desired, &mut [memory].into(), |_| true);
    (moves.moved.values().map(ToString::to_string).collect(), told(&moves))
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
    // What the newest revision declares is set aside; a move of anything else goes on.
    let behind = || SourceState { newest: Some("c0ffee1".into()), ..whole() };
    assert_eq!(check_in("Thing/old", [of("s", "Thing")].into(), behind()).0, ["Thing/old"]);
    let aside = (Scope::new("toy", "old"), "old".into());
    let (moves, (_, lost)) = moves_beside("Thing/old", [of("s", "Thing")].into(), behind(), [aside].into());
    assert!(moves.moved.is_empty());
    assert!(lost.concat().contains("which is not in force, may declare it"), "{lost:?}");
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

/// The same where these are declared, each with where it says it was moved from, and these are tracked.
fn check_all(declared: &[(&str, Option<&str>)], tracked: &[&str]) -> (Vec<String>, Vec<String>) {
    let memories = tracked.iter().map(|name| memory(row(name))).collect();
    let (moves, found) = moves_of(declared, memories);
    let olds = moves.lost.values().filter_map(|lost| lost.old.as_ref());
    assert!(olds.clone().all(|(_, id)| !declared.iter().any(|(name, _)| *name == &*id.0)), "{moves:?}");
    found
}

fn moves_of(
    declared: &[(&str, Option<&str>)],
    mut memories: BTreeMap<Scope, ScopeMemory>,
) -> (Moves, (Vec<String>, Vec<String>)) {
    let mut desired = Desired { sources: [("s".into(), whole())].into(), ..Desired::default() };
    for (index, (name, from)) in declared.iter().enumerate() {
        desired.manifests.push(ManifestMeta {
            key: key(name),
            address: Address::of(&key(name), None),
            file: "f.yaml".into(),
            line: index as u32 + 1,
            content: Hash::default(),
            labels: BTreeMap::new(),
            after: [].into(),
            moved_from: from.map(|from| from.parse().unwrap()),
        });
        let scope = Scope::new("toy", *name);
        let resource = Resource {
            id: (*name).into(),
            scope: scope.clone().into(),
            spec: Spec::known(b"x".to_vec()),
            origin: Origin { manifest: index as u32, line: 1 },
            policy: PolicyId(0),
        };
        desired.scopes.insert(scope, Arc::new(vec![resource]));
    }
    let moves = moves(&desired, &mut memories, |_| true);
    let found = (moves.moved.values().map(ToString::to_string).collect(), told(&moves));
    (moves, found)
}

const TAKEN: &str = "`reconciled/moved-from: Thing/old` does not move Thing/old: Thing/web is tracked already; move that or let \
                     it go in a commit before, or leave the annotation out";

#[test]
fn a_name_that_something_else_still_has_is_told() {
    let declared = [("web", Some("Thing/old")), ("z", None)];
    assert_eq!(check_all(&declared, &["old", "web", "z"]), (Vec::new(), vec![TAKEN.to_string()]));
    assert_eq!(check_all(&declared, &["web", "z"]), (Vec::new(), Vec::new()), "it is history");
    assert_eq!(check_all(&declared, &["old", "z"]).0, ["Thing/old"], "there is room");
    // What it was moved from long ago is declared anew.
    let again = [("web", Some("Thing/old")), ("old", None)];
    assert_eq!(check_all(&again, &["old", "web"]), (Vec::new(), Vec::new()));
}

#[test]
fn a_chain_is_told_at_both_of_its_ends() {
    let (moved, lost) = check_all(&[("b", Some("Thing/a")), ("c", Some("Thing/b"))], &["a", "b"]);
    assert_eq!(moved, [""; 0]);
    assert!(lost[0].contains("does not move Thing/a: Thing/b is tracked already"), "{lost:?}");
    let still = "`reconciled/moved-from: Thing/b` names what f.yaml:1 declares still; where its name goes to another one, move it \
                 in a commit before";
    assert_eq!(lost[1..], [still]);
}

#[test]
fn names_that_go_round_in_a_circle_are_told() {
    let swap = [("a", Some("Thing/b")), ("b", Some("Thing.toy/a"))];
    let (moved, lost) = check_all(&swap, &["a", "b"]);
    assert_eq!((moved.len(), lost.len()), (0, 2), "{lost:?}");
    assert!(lost[0].starts_with("`reconciled/moved-from: Thing/b` of Thing/a moves nothing"), "{lost:?}");
    let three = [("a", Some("Thing/c")), ("b", Some("Thing/a")), ("c", Some("Thing/b"))];
    assert_eq!(check_all(&three, &["a", "b", "c"]).1.len(), 3);
    // Who points into the circle is not in it, nor is who names itself.
    let beside = [swap[0], swap[1], ("d", Some("Thing/a")), ("e", Some("Thing/e"))];
    assert_eq!(check_all(&beside, &["a", "b", "d", "e"]).1.len(), 2);
}

#[test]
fn what_two_say_they_were_is_moved_to_neither() {
    let both = [("x", Some("Thing/a")), ("y", Some("Thing.toy/a"))];
    let text = "Thing/a cannot be moved to each of Thing/x (f.yaml:1), Thing/y (f.yaml:2): leave `reconciled/moved-from` out \
                in all of them but one";
    assert_eq!(check_all(&both, &["a"]), (Vec::new(), vec![text.to_string(); 2]));
    assert_eq!(
        check_all(&both, &["a", "x"]),
        (vec!["Thing/a".to_string()], Vec::new()),
        "one was it long ago"
    );
}

#[test]
fn what_may_be_there_by_a_call_without_an_answer_is_not_moved_to_and_told() {
    let (scope, asked) = memory(row("web"));
    let open = OpenIntent {
        intent: Intent {
            action: ActionId(1),
            op: "create".into(),
            token: "t".into(),
            row: asked.rows[0].clone().into(),
            before: None,
            after: None,
            reason: "".into(),
            consented: None,
        },
        started_at: Default::default(),
    };
    let asked = ScopeMemory { open: vec![open], ..ScopeMemory::default() };
    let (moves, (moved, lost)) =
        moves_of(&[("web", Some("Thing/old"))], [(scope, asked), memory(row("old"))].into());
    assert!(moved.is_empty() && moves.waiting.is_empty());
    assert!(lost[0].ends_with("a call that may have made Thing/web has no answer yet"), "{lost:?}");
}
