//! What voids an approval, and what does not: two worlds and their digests.

use crate::case::Case;
use reconciled_provider::Hash;

const WORLD: &str = "
    desired www/A 192.0.2.2
    desired api/A 192.0.2.3
    tracked www/A 192.0.2.1
    tracked api/A 192.0.2.3
    tracked old/A 192.0.2.9
    observed www/A 192.0.2.1 owner=ours
    observed api/A 192.0.2.3 owner=ours
    observed old/A 192.0.2.9 owner=ours
";

fn digest(text: &str) -> Option<Hash> {
    Case::read(text).answer().verdicts[0].1.digest
}

/// `change` is a line to put in place of the one that begins with the same two words, or another line.
fn check(change: &str, stands: bool) {
    let begin: Vec<&str> = change.split_whitespace().take(2).collect();
    let other = |line: &&str| line.split_whitespace().take(2).collect::<Vec<_>>() != begin;
    let changed = WORLD.lines().filter(other).chain([change]).collect::<Vec<_>>().join("\n");
    let (before, after) = (digest(WORLD), digest(&changed));
    assert!(before.is_some() && after.is_some(), "{change}");
    assert_eq!(before == after, stands, "{change}");
}

#[test]
fn a_serial_an_unrelated_commit_and_a_foreign_change_leave_the_digest() {
    check("observation version=8", true);
    check("source infra label=fff9999", true);
    check("observed other/A 192.0.2.77", true);
    check("now 90000", true);
}

#[test]
fn drift_repair_and_claims_leave_the_digest() {
    check("observed api/A 192.0.2.200 owner=ours", true);
    check("claim _acme/TXT token", true);
}

#[test]
fn a_rotated_secret_behind_the_same_words_leaves_the_digest() {
    let world = |secret: &str| {
        format!("desired tls {secret} template=T2\ntracked tls old template=T1\nobserved tls old owner=ours")
    };
    assert_eq!(digest(&world("one")), digest(&world("two")));
}

#[test]
fn a_touched_resource_that_moves_voids_the_digest() {
    check("observed www/A 192.0.2.50 owner=ours", false);
    check("observed old/A 192.0.2.50 owner=ours", false);
    check("desired www/A 192.0.2.51", false);
    check("desired more/A 192.0.2.52", false);
}

#[test]
fn what_is_left_as_it_is_counts_as_seen_and_as_ignored() {
    let world = |ignore: &str, seen: &str| {
        digest(&format!(
            "desired a ttl=200;values=x {ignore}\ntracked a ttl=100;values=x\nobserved a ttl=100;values={seen} owner=ours"
        ))
    };
    let approved = world("ignore=values", "by-hand");
    assert_ne!(approved, world("", "by-hand"), "all of it would be written");
    assert_ne!(approved, world("ignore=values", "by-hand-again"), "something else would be written");
    assert_eq!(world("", "x"), world("ignore=values", "x"), "the same is written");
}

#[test]
fn the_order_of_rows_and_resources_leaves_the_digest() {
    let reversed = WORLD.lines().rev().collect::<Vec<_>>().join("\n");
    assert_eq!(digest(WORLD), digest(&reversed));
}

#[test]
fn nothing_to_guard_has_no_digest() {
    let world = "desired a 1\ntracked a 1\nobserved a 2 owner=ours";
    assert_eq!(digest(world), None);
}

#[test]
fn another_scope_with_the_same_steps_has_another_digest() {
    let world = |scope: &str| format!("scope {scope}\ndesired a 1\n");
    let of = |scope: &str| {
        let answer = Case::read(&world(scope)).answer();
        answer.verdicts.iter().find(|(name, _)| name.ends_with(scope)).unwrap().1.digest
    };
    assert_ne!(of("one"), of("two"));
}

/// The digest that a plan will have once nothing of it is stopped, and those of the same world with nothing stopped.
fn foreseen(world: &str, stopped: &str) -> (Option<Hash>, Option<Hash>) {
    let ahead = Case::read(&format!("{world}\n{stopped}")).answer();
    let [(_, _, verdict)] = &ahead.foreseen[..] else { panic!("nothing is stopped by {stopped}") };
    (verdict.digest, digest(world))
}

#[test]
fn what_is_stopped_has_the_digest_that_it_will_have() {
    for stopped in ["suspended all", "suspended all window"] {
        let (ahead, then) = foreseen(WORLD, stopped);
        assert!(then.is_some() && ahead == then, "{stopped}");
    }
}

#[test]
fn what_is_stopped_and_changes_meanwhile_is_another_plan() {
    let of = |world: &str| foreseen(world, "suspended all window").0;
    assert_ne!(of(WORLD), of(&format!("{WORLD}\ndesired more/A 192.0.2.52")));
    assert_ne!(of(WORLD), of(&WORLD.replace("observed old/A 192.0.2.9", "observed old/A 192.0.2.50")));
}
