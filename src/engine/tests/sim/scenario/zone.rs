//! A zone: it lists, has versions, and a batch is one compare-and-swap.

use super::{When::*, *};

pub(crate) fn zone_create() -> Scenario {
    Scenario {
        script: vec![(AtRest, commit(desired("r1", &THREE)))],
        expect: [(scope("zone/z"), contents(&ALL_THREE))].into(),
        ..base()
    }
}

pub(crate) fn zone_update() -> Scenario {
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &THREE))),
            (AtRest, commit(desired("r2", &["zone/z|a|a@g2", "zone/z|b|b@g2", "zone/z|c|c@g1"]))),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g2"), ("c", "c@g1")]))].into(),
        ..base()
    }
}

pub(crate) fn zone_delete() -> Scenario {
    Scenario {
        before: vec![(scope("zone/z"), "foreign", "f")],
        script: vec![
            (AtRest, commit(desired("r1", &THREE))),
            (AtRest, commit(desired("r2", &["zone/z|a|a@g1"]))),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g1"), ("foreign", "f")]))].into(),
        ..base()
    }
}

pub(crate) fn zone_swap_in_one_slot() -> Scenario {
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &["zone/z|www/CNAME|x@g1", "zone/z|b|b@g1"]))),
            (AtRest, commit(desired("r2", &["zone/z|www/A|1@g2", "zone/z|b|b@g1"]))),
        ],
        expect: [(scope("zone/z"), contents(&[("www/A", "1@g2"), ("b", "b@g1")]))].into(),
        ..base()
    }
}

pub(crate) fn zone_adopts_what_is_equal() -> Scenario {
    Scenario {
        before: vec![(scope("zone/z"), "a", "a@g1"), (scope("zone/z"), "d", "d")],
        script: vec![(AtRest, commit(desired("r1", &THREE)))],
        expect: [(scope("zone/z"), contents(&[("a", "a@g1"), ("b", "b@g1"), ("c", "c@g1"), ("d", "d")]))]
            .into(),
        ..base()
    }
}

pub(crate) fn zone_commit_arrives_mid_apply() -> Scenario {
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &THREE))),
            (AfterPoints(2), commit(desired("r2", &["zone/z|a|a@g2", "zone/z|b|b@g1", "zone/z|d|d@g2"]))),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g1"), ("d", "d@g2")]))].into(),
        ..base()
    }
}

pub(crate) fn zone_invalid_commit_then_fix() -> Scenario {
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &THREE))),
            // The file that declares b and c is broken: nothing of it may go.
            (AtRest, commit(desired("r2", &["zone/z|a|a@g2"]).invalid())),
            (AtRest, commit(desired("r3", &["zone/z|a|a@g2", "zone/z|b|b@g3"]))),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g3")]))].into(),
        ..base()
    }
}

pub(crate) fn zone_foreign_writer() -> Scenario {
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &THREE))),
            (AfterPoints(3), Do::Hand { scope: scope("zone/z"), id: "x", content: Some("x") }),
            (AtRest, Do::Hand { scope: scope("zone/z"), id: "a", content: Some("vandalized") }),
            (AtRest, Do::Hand { scope: scope("zone/z"), id: "b", content: None }),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g1"), ("b", "b@g1"), ("c", "c@g1"), ("x", "x")]))]
            .into(),
        ..base()
    }
}

pub(crate) fn zone_two_daemons_one_frozen() -> Scenario {
    Scenario {
        script: vec![
            (AtRest, commit(desired("r1", &THREE))),
            (AfterPoints(4), Do::FreezeAndStartAnother),
            (AfterPoints(2), commit(desired("r2", &["zone/z|a|a@g2", "zone/z|b|b@g2", "zone/z|c|c@g2"]))),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g2"), ("c", "c@g2")]))].into(),
        ..base()
    }
}

pub(crate) fn zone_mass_deletion_is_held() -> Scenario {
    Scenario {
        script: vec![(AtRest, commit(desired("r1", &THREE))), (AtRest, commit(desired("r2", &[])))],
        operator: true,
        expect: [(scope("zone/z"), contents(&[]))].into(),
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}

/// Taking that commit back would delete what was never ours.
pub(crate) fn zone_held_commit_takes_nothing_over() -> Scenario {
    Scenario {
        before: vec![(scope("zone/z"), "d", "d")],
        script: vec![
            (AtRest, commit(desired("r1", &THREE))),
            (AtRest, commit(desired("r2", &["zone/z|a|a@g1", "zone/z|d|d"]))),
            (AtRest, commit(desired("r3", &THREE))),
        ],
        expect: [(scope("zone/z"), contents(&[("a", "a@g1"), ("b", "b@g1"), ("c", "c@g1"), ("d", "d")]))]
            .into(),
        guard: GuardLimits { max_deletes: 0, ..base().guard },
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}

pub(crate) fn zone_consent_is_for_all_of_a_plan() -> Scenario {
    Scenario {
        script: vec![(AtRest, commit(desired("r1", &THREE))), (AtRest, commit(desired("r2", &[])))],
        operator: true,
        consents_once: true,
        expect: [(scope("zone/z"), contents(&[]))].into(),
        must_hit: &["crash with an open intent", "held"],
        ..base()
    }
}
