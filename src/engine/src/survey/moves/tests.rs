//! What is moved, and what is told of what is not.

use super::*;
use crate::{
    desired::{ManifestMeta, Pinned, Reach, SourceState},
    store::{Intent, OpenIntent},
};
use reconciled_provider::{ActionId, Deletion, Hash, ManifestKey, Origin, Policy, PolicyId, Resource, Spec};

fn key(name: &str) -> ManifestKey {
    ManifestKey::new("s", "toy", "Thing", "", name)
}

fn row(name: &str) -> Row {
    Row::settled(Scope::new("toy", name), name, key(name))
}

fn told(moves: &Moves) -> Vec<String> {
    moves.lost.values().map(|lost| lost.why.to_string()).collect()
}

/// A call of which nobody knows what became.
fn open_call(op: &str, row: Row) -> OpenIntent {
    OpenIntent {
        intent: Intent {
            action: ActionId(1),
            op: op.into(),
            token: "t".into(),
            row: row.into(),
            before: None,
            after: None,
            reason: "".into(),
            consented: None,
        },
        started_at: Default::default(),
    }
}

/// What is moved and what is not found where `new` says that it was `from`, of what is tracked.
fn check(from: &str, tracked: &[&str]) -> (Vec<String>, Vec<String>) {
    check_in(from, tracked.iter().map(|name| memory(row(name))).collect(), whole())
}

fn memory(row: Row) -> (Scope, ScopeMemory) {
    (Scope::clone(&row.scope), ScopeMemory { rows: vec![row].into(), ..ScopeMemory::default() })
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

/// What a manifest `new` declares in `scope`.
fn new_in(scope: &Scope) -> Resource {
    let origin = Origin { manifest: 0, line: 1 };
    Resource::new("new".into(), scope.clone().into(), Spec::known(b"x".to_vec()), origin, PolicyId(0))
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
    let meta = meta("new", Some(from));
    let scope = Scope::new("toy", "new");
    let resource = new_in(&scope);
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

/// A manifest that declares `Thing/NAME`.
fn meta(name: &str, from: Option<&str>) -> ManifestMeta {
    ManifestMeta {
        key: key(name),
        address: Address::of(&key(name), None),
        file: "f.yaml".into(),
        line: 1,
        content: Hash::default(),
        labels: BTreeMap::new(),
        after: [].into(),
        moved_from: from.map(|from| from.parse().unwrap()),
    }
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
    let resource = |name: &&str| {
        let scope = Scope::new("toy", *name);
        let resource = Resource::new(
            (*name).into(),
            scope.clone().into(),
            Spec::known(b"x".to_vec()),
            Origin { manifest: u32::from(*name == "old"), line: 1 },
            PolicyId(0),
        );
        (scope, Arc::new(vec![resource]))
    };
    let pin = |name: &&str| {
        let pinned = Pinned { label: "then".into(), newest: None, after: Default::default() };
        ((Scope::new("toy", *name), (*name).into()), pinned)
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
    let halfway = row("new").with(|row| row.manifest = key("old"));
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
    let other = row("new").with(|row| row.manifest = ManifestKey::new("s", "toy", "Other", "", "new"));
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
        memory(row("old").with(|row| row.manifest = key))
    };
    let open = |op: &str| open_call(op, row("old"));
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
    memories: BTreeMap<Scope, ScopeMemory>,
) -> (Moves, (Vec<String>, Vec<String>)) {
    moves_where(declared, memories, |_| {})
}

/// The same once `change` is made to what is desired.
fn moves_where(
    declared: &[(&str, Option<&str>)],
    mut memories: BTreeMap<Scope, ScopeMemory>,
    change: impl FnOnce(&mut Desired),
) -> (Moves, (Vec<String>, Vec<String>)) {
    let mut desired = Desired { sources: [("s".into(), whole())].into(), ..Desired::default() };
    for (index, (name, from)) in declared.iter().enumerate() {
        desired.manifests.push(ManifestMeta { line: index as u32 + 1, ..meta(name, *from) });
        let scope = Scope::new("toy", *name);
        let resource = Resource::new(
            (*name).into(),
            scope.clone().into(),
            Spec::known(b"x".to_vec()),
            Origin { manifest: index as u32, line: 1 },
            PolicyId(0),
        );
        desired.scopes.insert(scope, Arc::new(vec![resource]));
    }
    change(&mut desired);
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
    let scope = Scope::new("toy", "web");
    let asked = ScopeMemory { open: vec![open_call("create", row("web"))], ..ScopeMemory::default() };
    let (moves, (moved, lost)) =
        moves_of(&[("web", Some("Thing/old"))], [(scope, asked), memory(row("old"))].into());
    assert!(moved.is_empty() && moves.waiting.is_empty());
    assert!(lost[0].ends_with("a call that may have made Thing/web has no answer yet"), "{lost:?}");
}

#[test]
fn what_has_a_name_that_a_row_had_takes_that_back_once_nothing_desires_it() {
    let formerly = |name: &str, names: &[&str]| {
        let formerly = names.iter().map(|name| format!("Thing/{name}").parse().unwrap()).collect();
        memory(row(name).with(|row| row.formerly = formerly))
    };
    let one = || BTreeMap::from([formerly("c", &["a", "b"])]);
    let goes_back = (vec!["Thing/c".to_string()], Vec::new());
    // However many commits are taken back, and whatever the earlier one says that it was before.
    for declared in [("a", None), ("b", None), ("b", Some("Thing/a")), ("b", Some("Thing/zero"))] {
        assert_eq!(moves_of(&[declared], one()).1, goes_back, "{declared:?}");
    }
    assert_eq!(moves_of(&[("d", Some("Thing/a"))], one()).1, goes_back, "it was that, too");
    let heirs = |declared: &[(&str, Option<&str>)]| -> Vec<String> {
        let (moves, _) = moves_of(declared, one());
        moves.moved.keys().map(|(_, id)| id.to_string()).collect()
    };
    assert_eq!(heirs(&[("a", None), ("b", None)]), ["b"], "the later of its names");
    assert_eq!(heirs(&[("a", None), ("d", Some("Thing/c"))]), ["d"], "who says so comes first");
    assert_eq!(heirs(&[("a", None), ("c", None)]), [""; 0], "it is desired as it is called now");

    let nothing = (Vec::new(), Vec::new());
    let taken = [formerly("c", &["a"]), memory(row("a"))];
    assert_eq!(moves_of(&[("a", None)], taken.into()).1, nothing, "the name is another's by now");
    let (scope, memory) = formerly("c", &["a"]);
    let mut rows = Vec::clone(&memory.rows);
    rows[0].manifest = ManifestKey::new("s", "toy", "Other", "", "c");
    let other = ScopeMemory { rows: rows.into(), ..memory };
    assert_eq!(moves_of(&[("a", None)], [(scope, other)].into()).1, nothing, "it is of another kind");
}

#[test]
fn of_several_rows_that_had_a_name_none_is_taken_for_it() {
    let formerly = |name: &str| memory(row(name).with(|row| row.formerly = vec!["Thing/a".parse().unwrap()]));
    let text = "Thing/a may be Thing/c or Thing/d, each of which had that name before: say which with \
                `reconciled/moved-from`";
    let two = || BTreeMap::from([formerly("c"), formerly("d")]);
    assert_eq!(moves_of(&[("a", None)], two()).1, (Vec::new(), vec![text.to_string()]));
    let said = (vec!["Thing/d".to_string()], Vec::new());
    assert_eq!(moves_of(&[("a", Some("Thing/d"))], two()).1, said);
}

/// A row that is called `c` and was called `a`.
fn once_a() -> Row {
    row("c").with(|row| row.formerly = vec!["Thing/a".parse().unwrap()])
}

#[test]
fn what_is_declared_for_others_is_not_taken_by_who_has_a_name_that_it_had() {
    let place = || [(key("c"), Scope::new("toy", "c"))].into();
    let here = || [(Scope::new("toy", "c"), "c".into())].into();
    let states = [
        SourceState { unselected: [key("c")].into(), ..whole() },
        SourceState { unselected_in: place(), ..whole() },
        SourceState { unselected_parts: here(), ..whole() },
        SourceState { unassigned: [key("c")].into(), ..whole() },
        SourceState { unassigned_in: place(), ..whole() },
    ];
    for state in states {
        let text = format!("{state:?}");
        let set = |desired: &mut Desired| desired.sources = [("s".into(), state)].into();
        let (moves, found) = moves_where(&[("a", None)], [memory(once_a())].into(), set);
        assert_eq!(found, (Vec::new(), Vec::new()), "{text}");
        assert!(moves.waiting.is_empty(), "{text}");
    }
}

#[test]
fn what_another_source_may_declare_by_now_is_not_taken_back_before_that_is_known() {
    let set = |desired: &mut Desired| {
        desired.sources = [("s".into(), SourceState { awaits: Some("t".into()), ..whole() })].into();
    };
    let (moves, found) = moves_where(&[("a", None)], [memory(once_a())].into(), set);
    assert_eq!(found, (Vec::new(), Vec::new()));
    let [waiting] = &moves.waiting[..] else { panic!("{:?}", moves.waiting) };
    assert_eq!((&*waiting.from.1.0, &*waiting.to.1.0), ("c", "a"));
    // Who says so is believed.
    let (_, (moved, _)) = moves_where(&[("a", Some("Thing/c"))], [memory(once_a())].into(), set);
    assert_eq!(moved, ["Thing/c"]);
}

#[test]
fn what_is_to_be_left_to_others_is_not_written_over_by_who_has_a_name_that_it_had() {
    let abandoned = || [memory(once_a().with(|row| row.deletion = Deletion::Abandon))].into();
    let text = "Thing/c is not moved back to Thing/a: it is to be left as it is (`reconciled/deletion: abandon`); where both \
                are one, say `reconciled/moved-from: Thing/c`";
    assert_eq!(moves_of(&[("a", None)], abandoned()).1, (Vec::new(), vec![text.to_string()]));
    let goes_back = (vec!["Thing/c".to_string()], Vec::new());
    assert_eq!(moves_of(&[("a", Some("Thing/c"))], abandoned()).1, goes_back);
    // It is left to others under its earlier name as well.
    let set = |desired: &mut Desired| {
        let policy = Policy { deletion: Some(Deletion::Abandon), ..Policy::default() };
        let policy = desired.policies.intern(policy);
        let lists = desired.scopes.values_mut();
        lists.for_each(|list| Arc::make_mut(list).iter_mut().for_each(|one| one.policy = policy));
    };
    assert_eq!(moves_where(&[("a", None)], abandoned(), set).1, goes_back);
}

#[test]
fn a_row_with_calls_without_an_answer_is_one_and_waits_for_them() {
    let (scope, memory) = memory(once_a());
    let open = vec![open_call("update", once_a()), open_call("update", once_a())];
    let memories = [(scope, ScopeMemory { open, ..memory })].into();
    let (moves, found) = moves_of(&[("a", None)], memories);
    assert_eq!(found, (Vec::new(), Vec::new()));
    let [waiting] = &moves.waiting[..] else { panic!("{:?}", moves.waiting) };
    assert_eq!((&*waiting.from.1.0, &*waiting.to.1.0), ("c", "a"));
}

#[test]
fn what_cannot_be_read_of_another_source_holds_no_new_thing_unless_both_are_of_one_repository() {
    let found = |theirs: SourceState, awaits: Option<&str>| {
        let of_other = once_a().with(|row| row.manifest = ManifestKey::new("t", "toy", "Thing", "", "c"));
        let ours = SourceState { awaits: awaits.map(Arc::from), ..whole() };
        let set = |desired: &mut Desired| {
            desired.sources = [("s".into(), ours), ("t".into(), theirs)].into();
        };
        moves_where(&[("a", None)], [memory(of_other)].into(), set).1
    };
    let broken = || SourceState { broken: ["a.yaml".into()].into(), ..whole() };
    assert_eq!(found(broken(), None), (Vec::new(), Vec::new()));
    let text = "Thing/c is not moved back to Thing/a: not all that its source declares can be read";
    assert_eq!(found(broken(), Some("t")), (Vec::new(), vec![text.to_string()]));
    // A commit may take back what went to another source of its repository.
    assert_eq!(found(whole(), None), (vec!["Thing/c".to_string()], Vec::new()));
}

#[test]
fn what_a_row_was_called_before_is_remembered_and_goes_along() {
    let scope = Scope::new("toy", "new");
    let mut memories: BTreeMap<Scope, ScopeMemory> = [memory(row("old"))].into();
    let resource = new_in(&scope);
    let desired = Desired {
        manifests: vec![meta("new", Some("Thing/old"))],
        scopes: [(scope.clone(), Arc::new(vec![resource]))].into(),
        sources: [("s".into(), whole())].into(),
        ..Desired::default()
    };
    moves(&desired, &mut memories, |_| true);
    let old: Address = "Thing/old".parse().unwrap();
    // It gets its new name with the step that puts the move down.
    assert_eq!(
        (&memories[&scope].rows[0].address, &memories[&scope].rows[0].formerly[..]),
        (&old, &[old.clone()][..])
    );
    // It is this one's already: it may wait long until what else is declared of it is done.
    assert_eq!(memories[&scope].rows[0].manifest, key("new"));
}
