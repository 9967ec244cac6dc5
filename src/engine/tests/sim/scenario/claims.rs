//! What needs something elsewhere for a time.

use super::{When::*, *};

pub(crate) fn issuer_with_claims() -> Scenario {
    Scenario {
        roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
        script: vec![(AtRest, commit(desired("r1", &["issuer/ca|web|cert"])))],
        expect: [(scope("issuer/ca"), contents(&[("web", "cert")])), (scope("zone/claims"), contents(&[]))]
            .into(),
        must_hit: &["crash with an open intent", "claim synced"],
        ..base()
    }
}

pub(crate) fn two_claims_at_one_name_beside_a_foreign_value() -> Scenario {
    Scenario {
        roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
        before: vec![(scope("zone/claims"), "challenge.ca", "theirs")],
        script: vec![
            (AtRest, commit(desired("r1", &["issuer/ca|web|cert"]))),
            (AtRest, commit(desired("r2", &["issuer/ca|api|cert", "issuer/ca|web|again"]))),
            (AtRest, another("zone/claims", "challenge.ca")),
        ],
        meddles: Some(another("zone/claims", "challenge.ca")),
        expect: [
            (scope("issuer/ca"), contents(&[("api", "cert"), ("web", "again")])),
            (scope("zone/claims"), contents(&[("challenge.ca", "theirs\ntheirs too")])),
        ]
        .into(),
        must_hit: &["crash with an open intent", "claim synced"],
        ..base()
    }
}

pub(crate) fn claims_that_end_are_never_held() -> Scenario {
    Scenario {
        roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
        script: vec![(AtRest, commit(desired("r1", &["issuer/ca|web|cert", "issuer/cb|api|cert"])))],
        expect: [
            (scope("issuer/ca"), contents(&[("web", "cert")])),
            (scope("issuer/cb"), contents(&[("api", "cert")])),
            (scope("zone/claims"), contents(&[])),
        ]
        .into(),
        guard: GuardLimits { max_deletes: 0, max_updates: 0, ..GuardLimits::default() },
        must_hit: &["crash with an open intent", "claim synced"],
        ..base()
    }
}

/// The next commit comes once nothing moves any more: by then the claims came and went, and the deletion is held.
pub(crate) fn claims_go_on_beside_a_deletion_that_is_held() -> Scenario {
    let zone = ["zone/claims|a|a@g1", "zone/claims|b|b@g1"];
    let cert = "issuer/ca|web|cert";
    Scenario {
        roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
        script: vec![
            (AtRest, commit(desired("r1", &zone))),
            (AtRest, commit(desired("r2", &[zone[0], cert]))),
            (AtRest, commit(desired("r3", &[zone[0], zone[1], cert]))),
        ],
        expect: [
            (scope("issuer/ca"), contents(&[("web", "cert")])),
            (scope("zone/claims"), contents(&[("a", "a@g1"), ("b", "b@g1")])),
        ]
        .into(),
        guard: GuardLimits { max_deletes: 0, ..base().guard },
        must_hit: &["crash with an open intent", "held", "claim synced beside what is held"],
        ..base()
    }
}
