//! Entries that are left alone, since nobody answers there.

use super::*;
use reconciled_engine::pass::ScopeState;

#[test]
fn a_person_is_heard_while_a_remote_is_left_alone() {
    let (mut house, zones) = (House::new(Settings::default()), zones(20));
    house.rig.away.lock().unwrap().insert("zone".into());
    house.commit("r1", &zones, "x@g1");
    house.pass(HOUR);
    house.rig.away.lock().unwrap().clear();
    assert!(house.scheduler.standing().values().any(|s| matches!(s.breaker, BreakerState::Open(_))));
    house.scheduler.bid([zones[7].clone()].into());
    house.pass(Duration::from_secs(1));
    assert_eq!(house.stance(&zones[7]), Stance::InSync, "{:?}", house.scheduler.standing().get(&zones[7]));
}

#[test]
fn a_remote_that_is_away_at_the_start_is_left_alone_and_then_caught_up_with() {
    let (mut house, zones) = (House::new(Settings::default()), zones(20));
    house.rig.away.lock().unwrap().insert("zone".into());
    let host = Scope::new("host", "files");
    house.commit("r1", &[zones.clone(), vec![host.clone()]].concat(), "x@g1");
    house.pass(HOUR);
    assert_eq!(house.stance(&host), Stance::InSync, "another entry is not delayed");
    assert!(house.scheduler.standing().values().any(|s| matches!(s.breaker, BreakerState::Open(_))));
    let asked = house.rig.reads.lock().unwrap().iter().filter(|(_, s)| &*s.provider == "zone").count();
    assert!(asked <= 50, "{asked} reads in an hour of a remote that is away");
    house.rig.away.lock().unwrap().clear();
    house.pass(6 * MINUTE);
    assert!(
        zones.iter().all(|zone| house.stance(zone) == Stance::InSync),
        "{:?}",
        house.scheduler.standing()
    );
    house.settles();
}

#[test]
fn a_remote_that_was_left_alone_is_caught_up_with_although_the_clock_is_set_back() {
    let (mut house, zones) = (House::new(Settings::default()), zones(20));
    house.rig.away.lock().unwrap().insert("zone".into());
    house.commit("r1", &zones, "x@g1");
    house.pass(HOUR);
    let is_open = |standing: &Standing| matches!(standing.breaker, BreakerState::Open(_));
    for _ in 0..2 {
        // Not while one scope is being tried.
        let opens = (0..600).any(|_| {
            house.pass(SECOND);
            house.scheduler.standing().values().any(is_open)
        });
        assert!(opens, "{:?}", house.scheduler.standing());
        house.sim.put_back(12 * HOUR);
        house.pass(HOUR);
    }
    house.sim.put_back(12 * HOUR);
    house.rig.away.lock().unwrap().clear();
    house.pass(6 * MINUTE);
    let standing = house.scheduler.standing();
    let is_well = |zone: &Scope| {
        (standing[zone].stance, standing[zone].breaker) == (Stance::InSync, BreakerState::Closed)
    };
    assert!(zones.iter().all(is_well), "{standing:?}");
    house.settles();
}

#[test]
fn what_cannot_be_read_counts_with_what_goes_and_keeps_its_hold() {
    let rig = Arc::new(Rig { has_cloud: true, ..Rig::default() });
    let sim = Sim::new(None, Plan::At(Vec::new()), false);
    let mut house = House::on(sim, Arc::default(), Arc::default(), rig, Settings::default());
    let things: Vec<Scope> = (0..8).map(|n| Scope::new("cloud", format!("t{n}"))).collect();
    house.commit("r1", &things, "x@g1");
    house.pass(HOUR);
    let there =
        |house: &House| things.iter().filter(|scope| !snapshot(&house.world, scope).is_empty()).count();
    // Five may go unasked, and half of eight would.
    house.rig.silent.lock().unwrap().extend(things[..4].iter().cloned());
    house.commit("r2", &[], "x@g2");
    house.pass(HOUR);
    let reasons = |house: &House| house.disk.lock().unwrap().holds.values().next().map(|h| h.reasons.clone());
    let held = reasons(&house).unwrap();
    assert!(held[0].starts_with("8 deletes with 4 that are"), "{held:?}");
    // All that can be read is nothing that goes.
    let since = house.disk.lock().unwrap().holds.values().next().unwrap().since;
    house.rig.silent.lock().unwrap().extend(things.iter().cloned());
    house.pass(HOUR);
    house.rig.silent.lock().unwrap().clear();
    house.pass(HOUR);
    assert!(reasons(&house).unwrap()[0].starts_with("8 deletes, limit 5"), "{:?}", reasons(&house));
    assert_eq!(there(&house), 8);
    assert!(house.disk.lock().unwrap().holds.values().next().unwrap().since > since, "another digest");
}

#[test]
fn what_is_given_up_is_read_once_and_what_is_written_elsewhere_is_seen() {
    let mut house = House::new(Settings::default());
    let (zone, host) = (Scope::new("zone", "a"), Scope::new("host", "b"));
    house.rig.silent.lock().unwrap().insert(host.clone());
    let wanted = desired("r1", &["zone/a|a|x@g1", "host/b|b|x"]).done();
    let now = house.sim.now();
    bring_into_force(&*house.store, &wanted, now).now_or_never().unwrap().unwrap();
    let (engine, ended) = (house.engine.clone(), Arc::new(Mutex::new(None)));
    let (patience, told) = (Patience { until: now + HOUR, given_up: [host.clone()].into() }, ended.clone());
    let apply = async move {
        let ended = engine.converge(&wanted, &SurveyOptions::default(), &patience).await.unwrap();
        *told.lock().unwrap() = Some(ended);
    };
    house.processes = vec![Process::new(Box::pin(apply), Arc::default())];
    house.pass(MINUTE);
    let ended = ended.lock().unwrap().take().expect("it waits for what it cannot read");
    assert_eq!(ended.round.scopes[&zone].state, ScopeState::InSync);
    assert!(ended.round.scopes[&host].error.is_some() && !ended.timed_out);
    assert_eq!(house.rig.reads_of(&host), 1);
}
