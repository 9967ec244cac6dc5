//! What goes by another name, or is declared by another manifest: nothing of it is made anew.

use super::{When::*, *};

pub(crate) fn host_move_of_nothing_is_an_update() -> Scenario {
    Scenario {
        roles: host(),
        script: vec![
            (AtRest, commit(desired("r1", &["host/files|a|a", "host/files|b|b"]))),
            (AtRest, commit(desired("r2", &["host/files|a|a", "host/files|b|b2"]).moved("b", "old"))),
        ],
        expect: [(scope("host/files"), contents(&[("a", "a"), ("b", "b2")]))].into(),
        ..base()
    }
}

/// Where the name is the identity, another name is another resource, and the old one has to go.
pub(crate) fn host_rename_leaves_nothing_behind() -> Scenario {
    Scenario {
        roles: host(),
        script: renamed("host/files"),
        expect: [(scope("host/files"), contents(&[("a", "a"), ("new", "x")]))].into(),
        ..base()
    }
}

/// The move finds nothing under any name, so that one is created; only then may the old row go.
pub(crate) fn cloud_rename_that_finds_nothing_leaves_nothing_behind() -> Scenario {
    let mut script = renamed("cloud/q");
    let lost = Do::Hand { scope: scope("cloud/q"), id: "old", content: None };
    script.insert(1, (AtRest, lost));
    script[2].0 = AfterPoints(0);
    Scenario {
        roles: cloud(true),
        // Who sees it there for the last time finds out at the next look.
        excluded: vec![Fault::Stale],
        script,
        expect: [(scope("cloud/q"), contents(&[("a", "a"), ("new", "x")]))].into(),
        ..base()
    }
}

/// A hand-over: what another manifest declares now is neither deleted nor made anew.
pub(crate) fn zone_record_moves_to_another_manifest() -> Scenario {
    let record = |content: &str, manifest: &str| format!("zone/z|b|{content}||{manifest}");
    let (before, after) = (record("b@g1", "one"), record("b@g2", "two"));
    let stays = "zone/z|a|a@g1||one";
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &[stays, &before]))),
            (AtRest, commit(desired("r2", &[stays, &after]))),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g1"), ("b", "b@g2")]))].into(),
        keeps: true,
        ..base()
    }
}

/// It is in one of the two all the while.
pub(crate) fn zone_record_moves_to_another_zone() -> Scenario {
    let before = ["zone/y|a|a@g1", "zone/y|b|b@g1", "zone/z|c|c@g1"];
    let after = ["zone/y|a|a@g1", "zone/z|b|b@g2", "zone/z|c|c@g1"];
    Scenario {
        script: vec![(AtRest, commit(desired("r1", &before))), (AtRest, commit(desired("r2", &after)))],
        expect: [
            (scope("zone/y"), contents(&[("a", "a@g1")])),
            (scope("zone/z"), contents(&[("b", "b@g2"), ("c", "c@g1")])),
        ]
        .into(),
        ..base()
    }
}

/// The remote knows nothing of it: there it is called what it was called when it was made.
pub(crate) fn cloud_move_writes_nothing() -> Scenario {
    Scenario {
        expect: [(scope("cloud/q"), contents(&[("a", "a"), ("old", "x")]))].into(),
        ..moved(AtRest, "cloud/q|new|x")
    }
}

pub(crate) fn cloud_move_with_a_change() -> Scenario {
    Scenario {
        expect: [(scope("cloud/q"), contents(&[("a", "a"), ("new", "x2")]))].into(),
        ..moved(AtRest, "cloud/q|new|x2")
    }
}

pub(crate) fn cloud_move_to_another_scope() -> Scenario {
    Scenario {
        expect: [(scope("cloud/q"), contents(&[("a", "a")])), (scope("cloud/r"), contents(&[("new", "x2")]))]
            .into(),
        ..moved(AtRest, "cloud/r|new|x2")
    }
}

pub(crate) fn cloud_move_of_what_is_being_made() -> Scenario {
    Scenario {
        expect: [(scope("cloud/q"), contents(&[("a", "a"), ("new", "x2")]))].into(),
        must_hit: &["crash with an open intent", "moved", "a move waited for an answer"],
        ..moved(AfterPoints(5), "cloud/q|new|x2")
    }
}

pub(crate) fn cloud_move_without_tokens_of_what_is_being_made() -> Scenario {
    Scenario { excluded: vec![Fault::Duplicate], roles: cloud(false), ..cloud_move_of_what_is_being_made() }
}

pub(crate) fn cloud_move_and_back() -> Scenario {
    let mut there = moved(AtRest, "cloud/q|new|x2");
    let back = desired("r3", &["cloud/q|a|a", "cloud/q|old|x3"]).moved("old", "new");
    there.script.push((AtRest, commit(back)));
    Scenario { expect: [(scope("cloud/q"), contents(&[("a", "a"), ("old", "x3")]))].into(), ..there }
}

/// The commit that moved it is reverted, which says nothing of a move.
pub(crate) fn cloud_move_that_is_taken_back() -> Scenario {
    let mut there = moved(AtRest, "cloud/r|new|x2");
    there.script.push((AtRest, commit(desired("r3", &["cloud/q|a|a", "cloud/q|old|x3"]))));
    Scenario {
        expect: [
            (scope("cloud/q"), contents(&[("a", "a"), ("old", "x3")])),
            (scope("cloud/r"), contents(&[])),
        ]
        .into(),
        ..there
    }
}

/// That one of both finds nothing does not keep the other from being moved.
pub(crate) fn cloud_two_moves_of_which_one_finds_nothing() -> Scenario {
    let both =
        desired("r2", &["cloud/q|new|x2", "cloud/q|next|y2"]).moved("new", "old").moved("next", "other");
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|old|x", "cloud/q|other|y"]))),
            (AtRest, Do::Hand { scope: scope("cloud/q"), id: "old", content: None }),
            (AfterPoints(0), commit(both)),
        ],
        excluded: vec![Fault::Stale],
        expect: [(scope("cloud/q"), contents(&[("new", "x2"), ("next", "y2")]))].into(),
        ..moved(AtRest, "cloud/q|new|x2")
    }
}

/// Neither what is to be moved nor what has its name is lost.
pub(crate) fn cloud_move_to_a_name_that_is_taken() -> Scenario {
    let take = desired("r2", &["cloud/q|web|x2"]).moved("web", "old");
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|old|x", "cloud/q|web|y"]))),
            (AtRest, commit(take)),
            (AtRest, commit(desired("r3", &["cloud/q|old|x", "cloud/q|web|y"]))),
        ],
        expect: [(scope("cloud/q"), contents(&[("old", "x"), ("web", "y")]))].into(),
        must_hit: &["crash with an open intent", "held"],
        ..moved(AtRest, "cloud/q|new|x")
    }
}

/// Once there is room it is moved.
pub(crate) fn cloud_move_to_a_name_that_was_freed() -> Scenario {
    let mut taken = cloud_move_to_a_name_that_is_taken();
    taken.script.truncate(2);
    let last = commit(desired("r4", &["cloud/q|web|x2"]).moved("web", "old"));
    taken.script.extend([(AtRest, commit(desired("r3", &["cloud/q|old|x"]))), (AtRest, last)]);
    Scenario {
        expect: [(scope("cloud/q"), contents(&[("web", "x2")]))].into(),
        keeps: false,
        must_hit: &["crash with an open intent", "held", "moved"],
        ..taken
    }
}

/// In no order of commits would both have their rows, so nothing is written.
pub(crate) fn cloud_moves_that_swap_names() -> Scenario {
    let swap = desired("r2", &["cloud/q|a|y", "cloud/q|b|x"]).moved("a", "b").moved("b", "a");
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|a|x", "cloud/q|b|y"]))),
            (AtRest, commit(swap)),
            (AtRest, commit(desired("r3", &["cloud/q|a|x", "cloud/q|b|y"]))),
        ],
        expect: [(scope("cloud/q"), contents(&[("a", "x"), ("b", "y")]))].into(),
        ..cloud_move_to_a_name_that_is_taken()
    }
}

/// Who stands on it is neither deleted nor made anew with its name.
pub(crate) fn cloud_move_that_others_stand_on() -> Scenario {
    let on = |name: &str| format!("host/files|file|f|{name}");
    let (before, after) = (on("old"), on("new"));
    Scenario {
        roles: vec![("cloud", Role::Cloud { tokens: true }), ("host", Role::Host)],
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|old|x", &before]))),
            (AtRest, commit(desired("r2", &["cloud/q|new|x2", &after]).moved("new", "old"))),
        ],
        expect: [
            (scope("cloud/q"), contents(&[("new", "x2")])),
            (scope("host/files"), contents(&[("file", "f")])),
        ]
        .into(),
        ..moved(AtRest, "cloud/q|new|x2")
    }
}

/// `old` becomes `new`, and says so.
fn renamed(place: &str) -> Vec<(When, Do)> {
    let items = |name: &str| [format!("{place}|a|a"), format!("{place}|{name}|x")];
    let build = |revision, items: &[String; 2]| desired(revision, &[&items[0], &items[1]]);
    vec![
        (AtRest, commit(build("r1", &items("old")))),
        (AtRest, commit(build("r2", &items("new")).moved("new", "old"))),
    ]
}

/// What a cloud has as `old` goes on as `new`, which is declared so.
fn moved(when: When, new: &str) -> Scenario {
    Scenario {
        roles: cloud(true),
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|a|a", "cloud/q|old|x"]))),
            (when, commit(desired("r2", &["cloud/q|a|a", new]).moved("new", "old"))),
        ],
        keeps: true,
        must_hit: &["crash with an open intent", "moved"],
        ..base()
    }
}
