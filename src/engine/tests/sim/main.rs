//! Simulation: the real engine on a seeded executor, a virtual clock, in-memory remotes and an in-memory store.
//!
//! Property: *eventually stable reconciliation*. Whatever single fault or pair of faults happens at any
//! external call or store commit, once faults end the world becomes as declared (ESR-1), stays so with zero
//! writes (ESR-2), and is repaired after one outside change (ESR-3), within a bounded number of calls (ESR-B).
//!
//! Safety, also during faults: at every write that it has an intent (S8), that nothing is deleted while it is desired (S3),
//! that no older generation comes after a newer one where the remote can fence (S4), that of what no person consented to no
//! more is deleted than the guard allows (S5), that nothing foreign is deleted (S2) and that nothing exists twice (S1); at the
//! end that the memory is that of the world; of looking alone that it writes nothing (S9). Engines that are broken on purpose
//! show that S1 and S5 find what they are for. Rates (S7) are kept outside the engine, and
//! tested where they are: `src/layer/rate.rs`. No secret is in any of these worlds (S6): the program's tests look for one.
//!
//! `SIM_FULL=1` runs more seeds, and every pair of faults. A failing run prints `SIM_REPLAY=…`, which runs it alone, with a trace.

#![expect(clippy::unwrap_used, reason = "what cannot set up its world fails its test")]
#![expect(clippy::print_stdout, reason = "a simulation tells its figures and how to replay a failure")]

mod check;
mod executor;
mod explore;
mod hours;
mod memory;
mod rigged;
mod run;
mod scenario;
mod scheduled;
mod witness;

use scenario::Scenario;

macro_rules! scenarios {
    ($($module:ident: [$($name:ident),* $(,)?]),* $(,)?) => {
        $($(
            #[test]
            fn $name() {
                explore::everything(Scenario { name: stringify!($name), ..scenario::$module::$name() });
            }
        )*)*

        /// The scheduler comes to the same end whatever goes wrong.
        mod by_the_scheduler {
            use super::{Scenario, explore, scenario};

            $($(
                #[test]
                fn $name() {
                    let name = stringify!($name);
                    explore::by_chance(Scenario { name, scheduled: true, ..scenario::$module::$name() });
                }
            )*)*
        }

        fn all() -> Vec<Scenario> {
            vec![$($(Scenario { name: stringify!($name), ..scenario::$module::$name() }),*),*]
        }
    };
}

scenarios! {
    zone: [
        zone_create,
        zone_update,
        zone_delete,
        zone_swap_in_one_slot,
        zone_adopts_what_is_equal,
        zone_commit_arrives_mid_apply,
        zone_invalid_commit_then_fix,
        zone_foreign_writer,
        zone_two_daemons_one_frozen,
        zone_mass_deletion_is_held,
        zone_consent_is_for_all_of_a_plan,
        zone_held_commit_takes_nothing_over,
    ],
    host: [
        host_threshold_of_deletions_is_never_passed,
        host_consent_is_for_all_of_a_plan,
        host_held_commit_takes_nothing_over,
        host_consent_is_for_what_its_plan_named,
        host_batch_with_partial_success,
        host_update_and_delete,
        host_commit_arrives_mid_apply,
    ],
    shared: [
        zone_merges_with_others,
        zone_merges_with_others_who_write_meanwhile,
        host_merges_with_others_who_write_meanwhile,
    ],
    cloud: [
        cloud_create_with_tokens,
        cloud_held_commit_lets_nothing_go,
        cloud_abandoned_things_lose_our_mark_alone,
        cloud_abandoned_things_may_come_back,
        cloud_replace_with_tokens,
        cloud_create_without_tokens_under_lag,
        cloud_create_without_tokens_that_nothing_asks_for_meanwhile,
        cloud_create_in_part,
        cloud_create_with_tokens_that_somebody_deletes,
        chain_across_zone_host_and_cloud,
    ],
    moves: [
        host_move_of_nothing_is_an_update,
        host_rename_leaves_nothing_behind,
        cloud_rename_that_finds_nothing_leaves_nothing_behind,
        zone_record_moves_to_another_manifest,
        zone_record_moves_to_another_zone,
        cloud_move_writes_nothing,
        cloud_move_with_a_change,
        cloud_move_to_another_scope,
        cloud_move_of_what_is_being_made,
        cloud_move_without_tokens_of_what_is_being_made,
        cloud_move_and_back,
        cloud_move_that_is_taken_back,
        cloud_move_to_a_name_that_is_taken,
        cloud_move_to_a_name_that_was_freed,
        cloud_moves_that_swap_names,
        cloud_move_that_others_stand_on,
        cloud_two_moves_of_which_one_finds_nothing,
    ],
    claims: [
        issuer_with_claims,
        two_claims_at_one_name_beside_a_foreign_value,
        claims_that_end_are_never_held,
        claims_go_on_beside_a_deletion_that_is_held,
    ],
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..1_000 {
        let scenario = scenario::cloud::chain_across_zone_host_and_cloud();
        let first = run::run(&scenario, run::Faulty::Random { seed });
        let second = run::run(&scenario, run::Faulty::Random { seed });
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

#[test]
fn looking_never_writes() {
    for scenario in all() {
        let (calls, commits) = run::look(&scenario);
        assert_eq!((calls, commits), (0, 0), "{}", scenario.name);
    }
}

/// Failures of the first run of `scenario` that has one with this name.
fn first_failure(scenario: &Scenario, name: &str) -> Option<String> {
    let calm = std::iter::once(run::Faulty::Never);
    let mut runs = calm.chain((0..20_000).map(|seed| run::Faulty::Random { seed }));
    runs.find_map(|faulty| {
        run::run(scenario, faulty).failures.into_iter().find(|text| text.starts_with(name))
    })
}

#[test]
fn what_is_there_twice_for_a_moment_is_found_although_the_end_is_right() {
    let scenario =
        Scenario { name: "twice", ..scenario::cloud::cloud_create_with_tokens_that_somebody_deletes() };
    assert_eq!(first_failure(&scenario, "S1"), None);
    let broken = Scenario { broken: Some(memory::Broken::ForgetsTokens), ..scenario };
    assert!(first_failure(&broken, "S1").is_some(), "no run made it twice, or nobody saw it");
}

#[test]
fn what_goes_on_the_consent_to_another_plan_is_found() {
    let scenario = Scenario { name: "asked", ..scenario::host::host_consent_is_for_what_its_plan_named() };
    let broken = Scenario { broken: Some(memory::Broken::TakesAnyConsent), ..scenario };
    let found = first_failure(&broken, "S5");
    assert!(found.is_some_and(|text| text.contains("2 were deleted unasked, at most 1 may be")));
}
