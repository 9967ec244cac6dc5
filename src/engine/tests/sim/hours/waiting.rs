//! Who waits for something in another scope goes on once that is ready.

use super::*;
use crate::scenario::Build;
use reconciled_provider::{Error, ErrorKind, Hash, Reference, Spec};

/// What is built, where others refer to `a`.
fn referring(build: Build) -> Desired {
    let mut wanted = (*build.done()).clone();
    let target = ManifestKey::new("s", "test", "Thing", "", "a");
    wanted.referred.insert(Reference { target, path: "status.id".into() });
    wanted
}

#[test]
fn who_comes_after_what_is_made_anew_waits_for_it_also_by_way_of_what_looks_as_declared() {
    // A pass is over one entry: what it does not look at may be what is made anew.
    for entry in ["host", "zone"] {
        let mut house = House::new(Settings::default());
        let [a, b] = ["a", "b"].map(|name| Scope::new("host", name));
        let c = Scope::new(entry, "c");
        let first = referring(desired("r1", &["host/a|a|!one", "host/b|b|x|a"]));
        house.desire(Arc::new(first), [a.clone(), b].into());
        house.pass(MINUTE);
        assert!(house.is_as_declared(&a));

        let not_now = Error::new(ErrorKind::PermissionDenied, "not now");
        house.rig.denied.lock().unwrap().insert(a.clone(), not_now);
        let last = format!("{c}|c|x|b");
        let second = referring(desired("r2", &["host/a|a|!two", "host/b|b|x|a", &last]));
        house.desire(Arc::new(second), [a.clone(), c.clone()].into());
        house.pass(MINUTE);
        let made = snapshot(&house.world, &c);
        assert!(made.is_empty(), "what {c} would be made in is about to be another one");

        house.rig.denied.lock().unwrap().clear();
        house.scheduler.sync(&[a.clone()].into());
        house.pass(MINUTE);
        assert!(house.is_as_declared(&a));
        assert!(house.is_as_declared(&c), "{:?}", house.scheduler.standing()[&c]);
    }
}

#[test]
fn who_comes_after_what_another_entry_holds_back_or_has_as_declared_waits_for_nothing() {
    let mut house = House::new(Settings::default());
    let [a, b] = ["a", "b"].map(|name| Scope::new("host", name));
    let [c, d] = ["c", "d"].map(|name| Scope::new("zone", name));
    let wanted = |revision: &'static str, leader: &str, more: &[&str]| {
        let leader = format!("host/a|a|{leader}");
        let items = [&[leader.as_str(), "host/b|b|x|a"][..], more].concat();
        // What is to be abandoned is not replaced without a person's word.
        Arc::new(referring(desired(revision, &items).abandoned()))
    };
    house.desire(wanted("r1", "!one", &[]), [a.clone(), b].into());
    house.pass(MINUTE);
    house.desire(wanted("r2", "!two", &["zone/c|c|x|b"]), [a.clone(), c.clone()].into());
    house.pass(MINUTE);
    assert_eq!((house.stance(&a), house.is_as_declared(&a)), (Stance::Held, false));
    assert!(house.is_as_declared(&c), "{:?}", house.scheduler.standing()[&c]);

    // Where all of it is ready nothing else is looked at.
    house.desire(wanted("r3", "!one", &["zone/c|c|x|b"]), [a.clone()].into());
    house.pass(MINUTE);
    assert_eq!(house.stance(&a), Stance::InSync);
    house.rig.forget();
    house.desire(wanted("r4", "!one", &["zone/c|c|x|b", "zone/d|d|x|b"]), [d.clone()].into());
    house.pass(SECOND);
    assert!(house.is_as_declared(&d), "{:?}", house.scheduler.standing()[&d]);
    assert_eq!(house.rig.reads_of(&a), 0);
}

#[test]
fn who_comes_after_what_is_held_apart_waits_for_it_once_that_was_consented_to() {
    let sim = Sim::new(None, Plan::At(Vec::new()), false);
    let rig = Rig { is_apart: true, ..Rig::default() };
    let mut house = House::on(sim, Arc::default(), Arc::default(), rig.into(), Settings::default());
    let [a, b, d] = ["a", "b", "d"].map(|name| Scope::new("host", name));
    let [c, e] = ["c", "e"].map(|name| Scope::new("zone", name));
    let wanted = |revision: &'static str, leader: &str, more: &[&str]| {
        let both = ["a", "d"].map(|name| format!("host/{name}|{name}|{leader}"));
        let items = [&[both[0].as_str(), both[1].as_str(), "host/b|b|x|a"][..], more].concat();
        // What is to be abandoned is not replaced without a person's word.
        Arc::new(referring(desired(revision, &items).abandoned()))
    };
    let first = [a.clone(), b, d.clone()];
    house.desire(wanted("r1", "!one", &[]), first.into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&a) && house.is_as_declared(&d));
    house.desire(wanted("r2", "!two", &[]), [a.clone(), d.clone()].into());
    house.pass(MINUTE);
    assert_eq!((house.stance(&a), house.stance(&d)), (Stance::Held, Stance::Held));

    house.desire(wanted("r3", "!two", &["zone/c|c|x|b"]), [c.clone()].into());
    house.pass(SECOND);
    assert!(house.is_as_declared(&c), "what is held may be so for long");
    // Nobody has looked at what is held since a person consented to it.
    assert!(approve(&house.disk, &house.wanted, house.sim.now(), false));
    house.desire(wanted("r4", "!two", &["zone/c|c|x|b", "zone/e|e|x|b"]), [e.clone()].into());
    house.pass(SECOND);
    assert!(!house.is_as_declared(&a), "its pass came too early for this");
    assert!(!house.is_as_declared(&e), "what it would be made in is about to be another one");
    house.scheduler.wake([a.clone(), d.clone()], Priority::Operator, Focus::All);
    house.pass(MINUTE);
    assert!(house.is_as_declared(&a) && house.is_as_declared(&d));
    assert!(house.is_as_declared(&e), "{:?}", house.scheduler.standing()[&e]);
}

#[test]
fn an_input_waits_for_nothing_that_is_held_by_way_of_what_is_as_declared() {
    let mut house = House::new(Settings::default());
    let [a, b, c] = ["a", "b", "c"].map(|name| Scope::new("host", name));
    let wanted = |revision: &'static str, leader: &str, moved: &str| {
        let leader = format!("host/a|a|{leader}");
        // What is to be abandoned is not replaced without a person's word.
        let build = desired(revision, &[leader.as_str(), "host/b|b|x|a", "host/c|c|x|b"]).abandoned();
        let mut wanted = referring(build);
        let last = Arc::make_mut(wanted.scopes.get_mut(&c).unwrap());
        last[0].spec = Spec::resolved(moved.as_bytes().to_vec(), Hash::of(b"with a secret"));
        Arc::new(wanted)
    };
    house.desire(wanted("r1", "!one", "x"), [a.clone(), b, c.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&a) && house.is_as_declared(&c));

    house.desire(wanted("r2", "!two", "y"), [a.clone(), c.clone()].into());
    house.pass(MINUTE);
    assert_eq!((house.stance(&a), house.is_as_declared(&a)), (Stance::Held, false));
    assert!(house.is_as_declared(&c), "{:?}", house.scheduler.standing()[&c]);

    assert!(approve(&house.disk, &house.wanted, house.sim.now(), false));
    house.scheduler.wake([a.clone()], Priority::Operator, Focus::All);
    house.pass(MINUTE);
    assert!(house.is_as_declared(&a));
}

#[test]
fn what_came_to_be_ready_while_somebody_was_looked_at_keeps_nobody_waiting() {
    let mut house = House::new(Settings::default());
    let (zone, host) = (Scope::new("zone", "a"), Scope::new("host", "b"));
    let both = |revision: &'static str, a: &str, b: &str| {
        let (a, b) = (format!("zone/a|a|{a}"), format!("host/b|b|{b}|a"));
        desired(revision, &[a.as_str(), b.as_str()]).done()
    };
    house.desire(both("r1", "x@g1", "x"), [zone.clone(), host.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&zone) && house.is_as_declared(&host));

    *house.rig.slow.lock().unwrap() = SECOND;
    house.desire(both("r2", "x@g2", "x"), [zone.clone()].into());
    while !house.is_as_declared(&zone) {
        house.pass(SECOND / 100);
    }
    // It is written and not yet seen. Who depends on it is looked at from here on, until long after it was.
    *house.rig.slow.lock().unwrap() = 10 * SECOND;
    house.desire(both("r3", "x@g2", "y"), [host.clone()].into());
    house.pass(SECOND / 100);
    *house.rig.slow.lock().unwrap() = SECOND;
    house.pass(5 * SECOND);
    assert_eq!(house.stance(&zone), Stance::InSync);
    assert!(!house.is_as_declared(&host), "it was looked at too early");
    house.pass(MINUTE);
    assert!(house.is_as_declared(&host), "{:?}", house.scheduler.standing()[&host]);
    assert_eq!(house.stance(&host), Stance::InSync);
}

#[test]
fn what_waits_for_a_move_that_is_called_off_goes_on_at_once() {
    let mut house = House::new(Settings::default());
    let [old, new] = ["a", "b"].map(|name| Scope::new("zone", name));
    let host = Scope::new("host", "h");
    house.desire(desired("r1", &["zone/a|k|one", "zone/a|x|one"]).done(), [old.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&old));

    // Where it moves to, it waits for a host that is away.
    house.rig.silent.lock().unwrap().insert(host.clone());
    let moved = desired("r2", &["zone/a|k|one", "zone/b|x|one|h", "host/h|h|one"]).done();
    house.desire(moved, [old.clone(), new.clone(), host].into());
    house.pass(MINUTE);
    assert!(
        house.scheduler.standing()[&old].waits && !house.is_as_declared(&old),
        "it stays until it is there"
    );

    house.desire(desired("r3", &["zone/a|k|one", "host/h|h|one"]).done(), [new].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&old), "{:?}", house.scheduler.standing()[&old]);
    assert_eq!(house.stance(&old), Stance::InSync);
}

#[test]
fn who_waits_for_what_does_not_do_its_work_goes_on_soon_after_it_does_and_nobody_asks_all_the_time() {
    let mut house = House::new(Settings::default());
    let (host, zone) = (Scope::new("host", "a"), Scope::new("zone", "b"));
    let ill = || Health::Degraded { why: "it does not answer".into() };
    house.world.fares(&host, "a", ill());
    let both = desired("r1", &["host/a|a|one", "zone/b|b|one|a"]).done();
    house.desire(both, [host.clone(), zone.clone()].into());
    house.pass(MINUTE);
    assert!(house.is_as_declared(&host) && !house.is_as_declared(&zone));
    house.world.fares(&host, "a", Health::Healthy);
    house.pass(MINUTE);
    assert!(house.is_as_declared(&zone), "{:?}", house.scheduler.standing()[&zone]);

    house.world.fares(&host, "a", ill());
    house.pass(HOUR);
    house.rig.forget();
    house.pass(24 * HOUR);
    let reads = house.rig.reads_of(&host);
    // Every five minutes, and at each tick.
    assert!((240..=480).contains(&reads), "{reads} reads in a day");
}

#[test]
fn what_found_no_place_while_another_commit_brought_one_is_tried_again_at_once() {
    let mut house = House::new(Settings::default());
    let (issuer, claims) = (Scope::new("issuer", "ca"), Scope::new("zone", "claims"));
    house.rig.claims_need_scopes.store(true, Ordering::SeqCst);
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.desire(desired("r1", &["issuer/ca|web|cert"]).done(), [issuer.clone()].into());
    house.pass(5 * SECOND);
    assert!(
        house.scheduler.standing()[&issuer].running_since.is_some(),
        "as it was desired, it has no place"
    );
    let both = desired("r2", &["issuer/ca|web|cert", "zone/claims|a|a@g1"]).done();
    house.desire(both, [claims.clone()].into());
    // Long before anybody looks again by the clock.
    house.pass(3 * MINUTE);
    assert!(house.is_as_declared(&issuer), "{:?}", house.scheduler.standing()[&issuer]);
    assert!(house.is_as_declared(&claims), "{:?}", snapshot(&house.world, &claims));
}

#[test]
fn who_claims_something_goes_on_in_one_pass_as_soon_as_it_is_there() {
    let mut house = House::new(Settings::default());
    let (issuer, claims) = (Scope::new("issuer", "ca"), Scope::new("zone", "claims"));
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.desire(desired("r1", &["issuer/ca|web|cert"]).done(), [issuer.clone()].into());
    let is_there = |house: &House| snapshot(&house.world, &claims).contains_key("challenge.ca");
    let mut since = house.sim.now();
    for _ in 0..30 {
        if is_there(&house) {
            break;
        }
        since = house.sim.now();
        house.pass(SECOND);
    }
    assert!(is_there(&house), "{:?}", house.scheduler.standing());
    // By the clock it would be looked at after a minute.
    house.pass(15 * SECOND);
    assert!(house.is_as_declared(&issuer), "{:?}", house.scheduler.standing()[&issuer]);
    let reads = house.rig.reads.lock().unwrap().clone();
    let reads = reads.iter().filter(|(at, scope)| *at >= since && *scope == issuer).count();
    assert_eq!(reads, 2, "it was read to go on, and once more behind that");
}

#[test]
fn what_is_carried_where_a_manifest_came_to_be_in_error_stays_and_is_waited_for() {
    let mut house = House::new(Settings::default());
    let (issuer, claims) = (Scope::new("issuer", "ca"), Scope::new("zone", "claims"));
    house.rig.claims_need_scopes.store(true, Ordering::SeqCst);
    let both = desired("r1", &["issuer/ca|web|cert", "zone/claims|a|a@g1"]).done();
    // It is claimed there, and nobody finds out that it is there.
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.desire(both, [issuer.clone(), claims.clone()].into());
    house.pass(15 * SECOND);
    house.rig.silent.lock().unwrap().insert(claims.clone());
    let mut hidden = (*desired("r2", &["issuer/ca|web|cert"]).done()).clone();
    hidden.sources.get_mut("s").unwrap().prunes = false;
    hidden.hidden = Hidden::where_said(|_, _, name| (name == "claims").then(|| "z.yaml".to_owned()));
    house.desire(Arc::new(hidden), [claims.clone()].into());
    // Several looks of its own.
    house.pass(5 * MINUTE);
    let standing = house.scheduler.standing()[&issuer].clone();
    assert_eq!((standing.stance, standing.error), (Stance::Waiting, None));
    house.rig.silent.lock().unwrap().clear();
    house.pass(HOUR);
    assert!(house.is_as_declared(&issuer), "{:?}", house.scheduler.standing()[&issuer]);
}

#[test]
fn what_is_carried_where_nothing_is_declared_any_more_goes_on_to_its_end() {
    let mut house = House::new(Settings::default());
    let (issuer, claims) = (Scope::new("issuer", "ca"), Scope::new("zone", "claims"));
    house.rig.claims_need_scopes.store(true, Ordering::SeqCst);
    let both = desired("r1", &["issuer/ca|web|cert", "zone/claims|a|a@g1"]).done();
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.desire(both, [issuer.clone(), claims.clone()].into());
    house.pass(15 * SECOND);
    house.rig.silent.lock().unwrap().insert(claims.clone());
    house.desire(desired("r2", &["issuer/ca|web|cert"]).done(), [claims.clone()].into());
    house.pass(5 * MINUTE);
    let standing = house.scheduler.standing()[&issuer].clone();
    assert_eq!((standing.stance, standing.error), (Stance::Waiting, None));
    house.rig.silent.lock().unwrap().clear();
    house.pass(HOUR);
    assert!(house.is_as_declared(&issuer), "{:?}", house.scheduler.standing()[&issuer]);
    let left = snapshot(&house.world, &claims);
    assert!(left.keys().all(|id| id == "a"), "what was claimed is given back: {left:?}");
}

#[test]
fn what_has_no_place_names_what_may_have_one_beside_that() {
    let mut house = House::new(Settings::default());
    let issuer = Scope::new("issuer", "ca");
    house.rig.claims_need_scopes.store(true, Ordering::SeqCst);
    let mut wanted = (*desired("r1", &["issuer/ca|web|cert"]).done()).clone();
    wanted.hidden = Hidden::where_said(|_, _, name| (name == "claims").then(|| "z.yaml".to_owned()));
    house.desire(Arc::new(wanted), [issuer.clone()].into());
    house.pass(MINUTE);
    let standing = house.scheduler.standing()[&issuer].clone();
    let told = "zone/claims is not declared, unless it is declared in z.yaml";
    assert_eq!((standing.stance, standing.error.as_deref()), (Stance::Stalled, Some(told)));
}

#[test]
fn what_would_be_carried_in_a_scope_of_other_hosts_has_no_place_and_says_whose_it_is() {
    let mut house = House::new(Settings::default());
    let issuer = Scope::new("issuer", "ca");
    house.rig.claims_need_scopes.store(true, Ordering::SeqCst);
    let mut wanted = (*desired("r1", &["issuer/ca|web|cert"]).done()).clone();
    wanted.hidden = Hidden::default().and_for_others(|source, _, _, name| {
        (source == "s" && name == "claims").then(|| "Thing/claims is for other hosts: role=b".to_owned())
    });
    house.desire(Arc::new(wanted), [issuer.clone()].into());
    house.pass(MINUTE);
    let standing = house.scheduler.standing()[&issuer].clone();
    let told = "zone/claims is not declared; Thing/claims is for other hosts: role=b";
    assert_eq!((standing.stance, standing.error.as_deref()), (Stance::Stalled, Some(told)));
    assert!(standing.hint.is_some_and(|hint| hint.starts_with("let both be for one host")));
}
