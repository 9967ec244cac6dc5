//! A cloud: it assigns identity, shows writes late and creates slowly; and all three in one chain.

use super::{When::*, *};

pub(crate) fn cloud_create_with_tokens() -> Scenario {
    Scenario {
        roles: cloud(true),
        script: vec![(AtRest, commit(desired("r1", &["cloud/q|a|a", "cloud/q|b|b"])))],
        expect: [(scope("cloud/q"), contents(&[("a", "a"), ("b", "b")]))].into(),
        must_hit: &["crash with an open intent", "stale read", "lost answer"],
        ..base()
    }
}

/// A commit that is held and taken back was never there: what it would have let go is made no second time.
pub(crate) fn cloud_held_commit_lets_nothing_go() -> Scenario {
    Scenario {
        roles: cloud(true),
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|other|o@g1", "cloud/q|queue|q@g1"]).abandoned())),
            (AtRest, commit(desired("r2", &["cloud/q|other|o@g2"]).abandoned())),
            (AtRest, commit(desired("r3", &["cloud/q|other|o@g1", "cloud/q|queue|q@g1"]).abandoned())),
        ],
        expect: [(scope("cloud/q"), contents(&[("other", "o@g1"), ("queue", "q@g1")]))].into(),
        guard: GuardLimits { max_deletes: 0, max_updates: 0, ..GuardLimits::default() },
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}

/// Our mark goes, and nothing else: neither the thing, nor what somebody makes of it meanwhile.
pub(crate) fn cloud_abandoned_things_lose_our_mark_alone() -> Scenario {
    let thing = ["cloud/q|other|o", "cloud/q|queue|q"];
    let theirs = Do::Hand { scope: scope("cloud/q"), id: "queue", content: Some("theirs") };
    Scenario {
        roles: cloud(true),
        script: vec![
            (AtRest, commit(desired("r1", &thing).abandoned())),
            (AtRest, commit(desired("r2", &thing[..1]).abandoned())),
            (AfterPoints(3), theirs),
        ],
        expect: [(scope("cloud/q"), contents(&[("other", "o"), ("queue", "theirs")]))].into(),
        keeps: true,
        abandoned: &["queue"],
        must_hit: &[
            "crash with an open intent",
            "lost answer",
            "stale read",
            "abandoned without our mark",
            "abandoned without an answer",
        ],
        ..base()
    }
}

/// A commit that is taken back while our mark goes: it stays tracked, or is taken over again as it is.
pub(crate) fn cloud_abandoned_things_may_come_back() -> Scenario {
    let thing = ["cloud/q|other|o", "cloud/q|queue|q"];
    Scenario {
        roles: cloud(true),
        script: vec![
            (AtRest, commit(desired("r1", &thing).abandoned())),
            (AtRest, commit(desired("r2", &thing[..1]).abandoned())),
            (AfterPoints(3), commit(desired("r3", &thing).abandoned())),
        ],
        expect: [(scope("cloud/q"), contents(&[("other", "o"), ("queue", "q")]))].into(),
        keeps: true,
        // What was begun before goes on.
        replaces: true,
        must_hit: &["crash with an open intent", "abandoned without our mark"],
        ..base()
    }
}

pub(crate) fn cloud_replace_with_tokens() -> Scenario {
    Scenario {
        roles: cloud(true),
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|a|!a1", "cloud/q|b|b"]))),
            (AtRest, commit(desired("r2", &["cloud/q|a|!a2", "cloud/q|b|b"]))),
        ],
        replaces: true,
        expect: [(scope("cloud/q"), contents(&[("a", "!a2"), ("b", "b")]))].into(),
        ..base()
    }
}

pub(crate) fn cloud_create_without_tokens_under_lag() -> Scenario {
    Scenario {
        roles: cloud(false),
        // A request delivered twice makes two objects where nothing can tell them apart.
        excluded: vec![Fault::Duplicate],
        script: vec![(AtRest, commit(desired("r1", &["cloud/q|a|a", "cloud/q|b|b"])))],
        expect: [(scope("cloud/q"), contents(&[("a", "a"), ("b", "b")]))].into(),
        must_hit: &["crash with an open intent", "stale read", "lost answer"],
        ..base()
    }
}

pub(crate) fn cloud_create_without_tokens_that_nothing_asks_for_meanwhile() -> Scenario {
    Scenario {
        roles: cloud(false),
        excluded: vec![Fault::Duplicate],
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|a|a", "cloud/q|b|b"]))),
            // The file that declares b is broken for a while.
            (AfterPoints(3), commit(desired("r2", &["cloud/q|a|a"]).invalid())),
            (AtRest, commit(desired("r3", &["cloud/q|a|a", "cloud/q|b|b"]))),
        ],
        expect: [(scope("cloud/q"), contents(&[("a", "a"), ("b", "b")]))].into(),
        must_hit: &["crash with an open intent", "lost answer"],
        ..base()
    }
}

pub(crate) fn cloud_create_in_part() -> Scenario {
    Scenario {
        roles: cloud(true),
        script: vec![(AtRest, commit(desired("r1", &["cloud/q|a|?a"])))],
        expect: [(scope("cloud/q"), contents(&[("a", "?a")]))].into(),
        must_hit: &["made in part, then the rest"],
        ..base()
    }
}

pub(crate) fn chain_across_zone_host_and_cloud() -> Scenario {
    Scenario {
        roles: vec![("zone", Role::Zone), ("host", Role::Host), ("cloud", Role::Cloud { tokens: true })],
        script: vec![
            (
                AtRest,
                commit(desired(
                    "r1",
                    &["cloud/q|queue|q", "host/files|file|f|queue", "zone/z|record|r@g1|file"],
                )),
            ),
            (AtRest, commit(desired("r2", &["cloud/q|queue|q"]))),
        ],
        expect: [
            (scope("cloud/q"), contents(&[("queue", "q")])),
            (scope("host/files"), contents(&[])),
            (scope("zone/z"), contents(&[])),
        ]
        .into(),
        operator: true,
        must_hit: &["crash with an open intent", "waited for a dependency"],
        ..base()
    }
}

/// All that goes by one name goes, and with it whatever was made of it twice.
pub(crate) fn cloud_create_with_tokens_that_somebody_deletes() -> Scenario {
    Scenario {
        roles: cloud(true),
        excluded: vec![Fault::Stale],
        script: vec![
            (AtRest, commit(desired("r1", &["cloud/q|a|a"]))),
            (AtRest, Do::Hand { scope: scope("cloud/q"), id: "a", content: None }),
        ],
        expect: [(scope("cloud/q"), contents(&[("a", "a")]))].into(),
        ..base()
    }
}
