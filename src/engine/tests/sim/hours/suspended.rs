//! Hours in which a person has something suspended.

use super::*;
use reconciled_engine::{Extent, Passes, StoppedBy, Suspension};

impl House {
    /// A person's word, and the passes that run made to end; as the daemon does it.
    fn suspend(&mut self, extent: Extent, until: Option<Duration>) {
        self.stop(extent, until, StoppedBy::Person);
    }

    fn stop(&mut self, extent: Extent, until: Option<Duration>, stopped_by: StoppedBy) {
        let scopes = self.disk.lock().unwrap().scopes.keys().cloned().collect();
        let suspension = Suspension {
            id: "4f2a9c".into(),
            extent,
            except: Vec::new(),
            reason: "moving".into(),
            actor: "ada".into(),
            since: self.sim.now(),
            until,
            stopped_by,
            scopes,
        };
        self.store.commit(vec![Write::Suspend(suspension)]).now_or_never().unwrap().unwrap();
        let scheduler = self.scheduler.clone();
        let halted = Box::pin(async move { scheduler.halt().await });
        self.processes.push(Process::new(halted, Arc::<AtomicBool>::default()));
    }

    fn resume(&mut self) {
        self.store.commit(vec![Write::Resume("4f2a9c".into())]).now_or_never().unwrap().unwrap();
        let all: Vec<Scope> = self.scheduler.standing().into_keys().collect();
        self.scheduler.wake(all, Priority::Operator, Focus::All);
    }

    /// The process dies; another begins on the same disk and remotes.
    fn crash(&mut self) {
        let (disk, world, sim) = (self.disk.clone(), self.world.clone(), self.sim.clone());
        self.processes.clear();
        let wanted = self.wanted.clone();
        let fresh = House::on(sim, disk, world, Arc::default(), Settings::default());
        *self = fresh;
        let all = wanted.scopes.keys().cloned().collect();
        self.desire(wanted, all);
    }
}

#[test]
fn nothing_is_written_while_suspended_not_even_after_a_crash() {
    let (mut house, zones) = (House::new(Settings::default()), zones(40));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.commit("r2", &zones, "x@g2");
    house.pass(5 * SECOND);
    house.suspend(Extent::All, None);
    assert_eq!(house.processes.len(), 2, "it waits for what writes");
    house.pass(MINUTE);
    assert_eq!(house.processes.len(), 1, "what wrote has ended");
    let before = house.world.calls().1;
    assert!(before <= 40 + 16, "something was sent after the word: {before} writes");
    assert!(zones.iter().any(|zone| !house.is_as_declared(zone)), "it was stopped on the way");
    house.by_hand(&zones[0], Some("by hand"));
    house.commit("r3", &zones, "x@g3");
    house.pass(2 * HOUR);
    house.crash();
    house.pass(2 * HOUR);
    house.commit("r4", &zones, "x@g4");
    house.pass(2 * HOUR);
    assert_eq!(house.world.calls().1, before, "something was written while suspended");
    assert!(zones.iter().all(|zone| house.stance(zone) == Stance::Suspended));
    let told = house.disk.lock().unwrap().scopes[&zones[0]].conditions.clone();
    assert_eq!((&*told[0].reason, told[0].kind), ("SuspendedByPerson", ConditionKind::Suspended));
    house.resume();
    house.settles();
}

#[test]
fn what_is_not_meant_goes_on() {
    let (mut house, zones) = (House::new(Settings::default()), zones(3));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    house.suspend(Extent::Address("Thing/a-z001".parse().unwrap()), None);
    house.commit("r2", &zones, "x@g2");
    house.pass(MINUTE);
    assert!(house.is_as_declared(&zones[0]) && house.is_as_declared(&zones[2]));
    assert!(!house.is_as_declared(&zones[1]));
    house.resume();
    house.settles();
}

#[test]
fn what_was_changed_by_hand_is_held_once_the_time_is_over_and_the_rest_goes_on() {
    let (mut house, zones) = (House::new(Settings::default()), zones(3));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    house.suspend(Extent::All, Some(house.sim.now() + HOUR));
    house.pass(MINUTE);
    house.commit("r2", &zones, "x@g2");
    // Nobody looks at it while it is suspended: the daemon is down when the time is over.
    house.by_hand(&zones[0], Some("by hand"));
    house.crash();
    house.sim.jump(house.sim.now() + 2 * HOUR);
    house.pass(20 * MINUTE);
    assert_eq!(house.stance(&zones[0]), Stance::Held);
    assert!(house.is_as_declared(&zones[1]), "what nobody touched goes on");
    let hold = house.disk.lock().unwrap().holds.values().next().cloned().unwrap();
    assert_eq!(hold.reasons, ["1 changed by hand while suspended".into()]);
    let waits = house.disk.lock().unwrap().suspensions["4f2a9c"].scopes.clone();
    assert_eq!(waits, [zones[0].clone()].into());
    assert!(approve(&house.disk, &house.wanted, house.sim.now(), false));
    house.scheduler.wake([zones[0].clone()], Priority::Operator, Focus::All);
    house.pass(MINUTE);
    assert!(house.is_as_declared(&zones[0]));
    assert!(house.disk.lock().unwrap().suspensions.is_empty(), "it has come to its end");
    house.settles();
}

#[test]
fn what_was_changed_by_hand_is_held_under_another_name_in_another_scope() {
    // Renamed while it is suspended, and before anybody looked since.
    for meanwhile in [true, false] {
        let rig = Rig { has_cloud: true, ..Rig::default() };
        let sim = Sim::new(None, Plan::At(Vec::new()), false);
        let mut house = House::on(sim, Arc::default(), Arc::default(), rig.into(), Settings::default());
        let [old, new]: [Scope; 2] = ["cloud/q", "cloud/r"].map(|text| text.parse().unwrap());
        house.desire(desired("r1", &["cloud/q|old|x"]).done(), [old.clone()].into());
        house.pass(HOUR);
        assert_eq!(house.stance(&old), Stance::InSync);
        house.suspend(Extent::Address("Thing/old".parse().unwrap()), Some(house.sim.now() + HOUR));
        house.pass(MINUTE);
        house.world.by_hand(&old, "old", Some("by hand"), Owner::Unmarked, house.sim.now());
        if !meanwhile {
            house.sim.jump(house.sim.now() + 2 * HOUR);
        }
        let renamed = desired("r2", &["cloud/r|new|x"]).moved("new", "old").done();
        house.desire(renamed, [old.clone(), new.clone()].into());
        house.pass(30 * MINUTE);
        house.pass(2 * HOUR);
        let there = |house: &House| [&old, &new].map(|scope| snapshot(&house.world, scope).into_values());
        let contents = |house: &House| there(house).into_iter().flatten().flatten().collect::<Vec<_>>();
        assert_eq!(contents(&house), ["by hand"], "healed unasked, renamed meanwhile: {meanwhile}");
        assert_eq!(house.stance(&new), Stance::Held);
        let hold = house.disk.lock().unwrap().holds.values().next().cloned().unwrap();
        assert_eq!(hold.reasons, ["1 changed by hand while suspended".into()]);
        assert_eq!(house.disk.lock().unwrap().suspensions["4f2a9c"].scopes, [new.clone()].into());
        assert!(approve(&house.disk, &house.wanted, house.sim.now(), false));
        house.scheduler.wake([new.clone()], Priority::Operator, Focus::All);
        house.pass(HOUR);
        assert_eq!((contents(&house), house.stance(&new)), (vec!["x".to_string()], Stance::InSync));
        assert!(house.disk.lock().unwrap().suspensions.is_empty(), "it has come to its end");
        let rows = house.disk.lock().unwrap().scopes[&new].rows.clone();
        assert_eq!(rows[0].address.name.to_string(), "new");
    }
}

#[test]
fn a_person_who_resumes_has_what_was_changed_by_hand_healed() {
    let (mut house, zones) = (House::new(Settings::default()), zones(2));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    house.suspend(Extent::Provider("zone".into()), Some(house.sim.now() + HOUR));
    house.by_hand(&zones[0], None);
    house.pass(2 * HOUR);
    assert_eq!(house.stance(&zones[0]), Stance::Held);
    house.resume();
    house.pass(MINUTE);
    assert!(house.is_as_declared(&zones[0]));
    house.settles();
}

#[test]
fn a_person_passes_a_window_that_lets_them_with_what_is_in_force() {
    for manual in [true, false] {
        let (mut house, zones) = (House::new(Settings::default()), zones(2));
        house.commit("r1", &zones, "x@g1");
        house.pass(MINUTE);
        let passes = Passes { manual, ..Passes::default() };
        house.stop(Extent::All, None, StoppedBy::Window(passes));
        house.commit("r2", &zones, "x@g2");
        house.pass(HOUR);
        assert!(zones.iter().all(|zone| !house.is_as_declared(zone)), "a commit is no person's word");
        house.scheduler.sync(&[zones[0].clone()].into());
        house.pass(MINUTE);
        let is_done: Vec<bool> = zones.iter().map(|zone| house.is_as_declared(zone)).collect();
        assert_eq!(is_done, [manual, false], "it is for what they asked for");
        // A word is for what was in force when it was said: also where its pass had not ended by then.
        *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
        house.scheduler.bid([zones[1].clone()].into());
        house.commit("r3", &zones, "x@g3");
        house.pass(HOUR);
        assert!(zones.iter().all(|zone| !house.is_as_declared(zone)), "nobody asked for r3");
        house.resume();
        house.settles();
    }
}

/// A zone of eight, of which all but one are to go: more than may go unasked.
fn to_go(house: &mut House, zone: &Scope, revision: &'static str, kept: usize) {
    let items: Vec<String> = (0..kept).map(|number| format!("{zone}|r{number}|x@g1")).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    house.desire(desired(revision, &items).done(), [zone.clone()].into());
    house.pass(HOUR);
}

#[test]
fn consent_ahead_is_for_what_is_written_once_nothing_stops_it_and_lets_nothing_be_written_before() {
    for stopped_by in [StoppedBy::Person, StoppedBy::Window(Passes::default())] {
        let (mut house, zone) = (House::new(Settings::default()), zones(1).remove(0));
        to_go(&mut house, &zone, "r1", 8);
        house.stop(Extent::All, None, stopped_by);
        let before = house.world.calls().1;
        to_go(&mut house, &zone, "r2", 1);
        let hold = |house: &House| house.disk.lock().unwrap().holds.values().next().cloned();
        let known = hold(&house).expect("it is known ahead");
        assert!(known.once.is_some() && known.reasons[0].starts_with("7 deletes, limit 5"), "{known:?}");
        assert!(approve(&house.disk, &house.wanted, house.sim.now(), false));
        house.scheduler.wake([zone.clone()], Priority::Operator, Focus::All);
        house.pass(HOUR);
        house.crash();
        house.pass(HOUR);
        assert_eq!(house.world.calls().1, before, "something was written by a consent ahead of its time");
        assert!(house.disk.lock().unwrap().approvals[0].used_at.is_none());
        assert_eq!(hold(&house), Some(known));
        house.resume();
        house.pass(MINUTE);
        assert!(house.is_as_declared(&zone), "{:?}", snapshot(&house.world, &zone));
        assert!(hold(&house).is_none() && house.disk.lock().unwrap().begun.is_empty());
        house.settles();
    }
}

#[test]
fn what_changed_since_it_was_consented_to_ahead_is_held_again() {
    let (mut house, zone) = (House::new(Settings::default()), zones(1).remove(0));
    to_go(&mut house, &zone, "r1", 8);
    house.stop(Extent::All, None, StoppedBy::Window(Passes::default()));
    to_go(&mut house, &zone, "r2", 2);
    let hold = |house: &House| house.disk.lock().unwrap().holds.values().next().cloned().unwrap();
    let known = hold(&house);
    assert!(approve(&house.disk, &house.wanted, house.sim.now(), false));
    to_go(&mut house, &zone, "r3", 1);
    assert!(hold(&house).digest != known.digest && hold(&house).once.is_some());
    house.resume();
    house.pass(HOUR);
    assert_eq!((house.stance(&zone), snapshot(&house.world, &zone).len()), (Stance::Held, 8));
    assert_eq!(hold(&house).once, None);
    assert!(approve(&house.disk, &house.wanted, house.sim.now(), false));
    house.scheduler.wake([zone.clone()], Priority::Operator, Focus::All);
    house.pass(MINUTE);
    assert!(house.is_as_declared(&zone));
}
