//! A host: it cannot list, each change is a call, and nothing fences.

use super::{When::*, *};

pub(crate) fn host_threshold_of_deletions_is_never_passed() -> Scenario {
    Scenario {
        roles: host(),
        script: vec![
            (AtRest, commit(files("r1", "abcdef"))),
            (AtRest, commit(files("r2", "cdef"))),
            (AfterPoints(3), commit(files("r3", "f"))),
        ],
        operator: true,
        guard: GuardLimits { max_deletes: 2, max_delete_percent: 100, ..GuardLimits::default() },
        expect: [(scope("host/files"), contents(&[("f", "f")]))].into(),
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}

pub(crate) fn host_consent_is_for_all_of_a_plan() -> Scenario {
    Scenario {
        roles: host(),
        script: vec![(AtRest, commit(files("r1", "abcd"))), (AtRest, commit(files("r2", "d")))],
        operator: true,
        consents_once: true,
        guard: GuardLimits { max_deletes: 1, max_delete_percent: 100, ..GuardLimits::default() },
        expect: [(scope("host/files"), contents(&[("d", "d")]))].into(),
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}

pub(crate) fn host_batch_with_partial_success() -> Scenario {
    Scenario {
        roles: host(),
        script: vec![(
            AtRest,
            commit(desired("r1", &["host/files|a|a", "host/files|b|b", "host/files|c|c"])),
        )],
        expect: [(scope("host/files"), contents(&[("a", "a"), ("b", "b"), ("c", "c")]))].into(),
        ..base()
    }
}

pub(crate) fn host_update_and_delete() -> Scenario {
    Scenario {
        roles: host(),
        before: vec![(scope("host/files"), "foreign", "f")],
        script: vec![
            (AtRest, commit(desired("r1", &["host/files|a|a", "host/files|b|b"]))),
            (AtRest, commit(desired("r2", &["host/files|a|!a2"]))),
        ],
        replaces: true,
        expect: [(scope("host/files"), contents(&[("a", "!a2"), ("foreign", "f")]))].into(),
        ..base()
    }
}

pub(crate) fn host_commit_arrives_mid_apply() -> Scenario {
    Scenario {
        roles: host(),
        script: vec![
            (AtRest, commit(desired("r1", &["host/files|a|a", "host/files|b|b", "host/files|c|c"]))),
            (AfterPoints(5), commit(desired("r2", &["host/files|a|a2", "host/files|b|b2"]))),
        ],
        expect: [(scope("host/files"), contents(&[("a", "a2"), ("b", "b2")]))].into(),
        ..base()
    }
}

/// A person consented once; what comes after that waits for another word, which nobody says.
pub(crate) fn host_consent_is_for_what_its_plan_named() -> Scenario {
    Scenario {
        roles: host(),
        script: vec![
            (AtRest, commit(files("r1", "abcdef"))),
            (AtRest, commit(files("r2", "def"))),
            (AtRest, Do::Approve),
            (AtRest, commit(files("r3", "f"))),
        ],
        guard: GuardLimits { max_deletes: 1, max_delete_percent: 100, ..GuardLimits::default() },
        expect: [(scope("host/files"), contents(&[("d", "d"), ("e", "e"), ("f", "f")]))].into(),
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}

/// Each scope runs by itself, and what it takes over waits for what another is held for.
pub(crate) fn host_held_commit_takes_nothing_over() -> Scenario {
    let before = ["host/f|a|a", "host/f|b|b", "host/f|c|c"];
    Scenario {
        roles: host(),
        before: vec![(scope("host/g"), "d", "d")],
        script: vec![
            (AtRest, commit(desired("r1", &before))),
            (AtRest, commit(desired("r2", &["host/f|a|a", "host/g|d|d"]))),
            (AtRest, commit(desired("r3", &before))),
        ],
        expect: [
            (scope("host/f"), contents(&[("a", "a"), ("b", "b"), ("c", "c")])),
            (scope("host/g"), contents(&[("d", "d")])),
        ]
        .into(),
        guard: GuardLimits { max_deletes: 0, ..GuardLimits::default() },
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}
