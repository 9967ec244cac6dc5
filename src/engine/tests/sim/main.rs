//! Simulation: the real engine on a seeded executor, a virtual clock, in-memory remotes and an in-memory store.
//!
//! Property: *eventually stable reconciliation*. Whatever single fault or pair of faults happens at any
//! external call or store commit, once faults end the world becomes as declared (ESR-1), stays so with zero
//! writes (ESR-2), and is repaired after one outside change (ESR-3), within a bounded number of calls (ESR-B).
//!
//! Safety, also during faults: at every write that it has an intent (S8), that nothing is deleted while it is desired (S3),
//! that no older generation comes after a newer one where the remote can fence (S4), that no more is deleted unasked than
//! the guard allows (S5) and that nothing foreign is deleted (S2); at the end that nothing exists twice (S1) and that the
//! memory is that of the world; of looking alone that it writes nothing (S9). Rates (S7) are kept outside the engine, and
//! tested where they are: `src/layer/rate.rs`. No secret is in any of these worlds (S6): the program's tests look for one.
//!
//! `SIM_FULL=1` runs more seeds. A failing run prints `SIM_REPLAY=…`, which runs it alone, with a trace.

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

use scenario::Scenario;

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            explore::everything(Scenario::named(stringify!($name)));
        }
    )* };
}

scenarios!(
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
    host_threshold_of_deletions_is_never_passed,
    host_consent_is_for_all_of_a_plan,
    zone_consent_is_for_all_of_a_plan,
    zone_merges_with_others,
    zone_merges_with_others_who_write_meanwhile,
    host_merges_with_others_who_write_meanwhile,
    host_batch_with_partial_success,
    host_update_and_delete,
    host_commit_arrives_mid_apply,
    cloud_create_with_tokens,
    cloud_replace_with_tokens,
    cloud_create_without_tokens_under_lag,
    cloud_create_without_tokens_that_nothing_asks_for_meanwhile,
    cloud_create_in_part,
    cloud_held_commit_lets_nothing_go,
    host_move_of_nothing_is_an_update,
    host_rename_leaves_nothing_behind,
    cloud_rename_that_finds_nothing_leaves_nothing_behind,
    chain_across_zone_host_and_cloud,
    issuer_with_claims,
    claims_that_end_are_never_held,
    claims_go_on_beside_a_deletion_that_is_held,
    two_claims_at_one_name_beside_a_foreign_value,
);

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..1_000 {
        let scenario = Scenario::named("chain_across_zone_host_and_cloud");
        let first = run::run(&scenario, run::Faulty::Random { seed });
        let second = run::run(&scenario, run::Faulty::Random { seed });
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

#[test]
fn the_scheduler_comes_to_the_same_end_whatever_goes_wrong() {
    for scenario in Scenario::all() {
        explore::by_chance(Scenario { scheduled: true, ..scenario });
    }
}

#[test]
fn looking_never_writes() {
    for scenario in Scenario::all() {
        let (calls, commits) = run::look(&scenario);
        assert_eq!((calls, commits), (0, 0), "{}", scenario.name);
    }
}
