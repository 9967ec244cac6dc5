//! Entries with many scopes: how long they may take, and how many of them are under way at once.

use super::*;

/// A house with a cloud, where entries take so much at once.
fn house(concurrency: usize, settings: Settings) -> House {
    let sim = Sim::new(None, Plan::At(Vec::new()), false);
    let rig = Rig { has_cloud: true, concurrency: Some(concurrency), ..Rig::default() };
    House::on(sim, Arc::default(), Arc::default(), rig.into(), settings)
}

fn clouds(count: usize) -> Vec<Scope> {
    (0..count).map(|number| Scope::new("cloud", format!("c{number:03}"))).collect()
}

impl House {
    /// How many there were at once at most.
    fn most(&self, entry: &'static str, call: &'static str) -> usize {
        self.rig.crowd.lock().unwrap().get(&(entry, call)).map_or(0, |[_, most]| *most)
    }
}

#[test]
fn a_survey_that_is_answered_goes_on_past_the_limit_of_a_pass() {
    let mut house = house(2, Settings { pass_limit: MINUTE, ..Settings::default() });
    let scopes = clouds(100);
    // More than four minutes of reading.
    *house.rig.slow.lock().unwrap() = 5 * SECOND;
    house.commit("r1", &scopes, "x@g1");
    house.pass(10 * MINUTE);
    assert!(scopes.iter().all(|scope| house.is_as_declared(scope)));
    *house.rig.slow.lock().unwrap() = Duration::ZERO;
    house.settles();
}

#[test]
fn a_survey_in_which_nothing_is_answered_is_late() {
    let mut house = house(2, Settings { pass_limit: MINUTE, ..Settings::default() });
    let scopes = clouds(100);
    *house.rig.silent.lock().unwrap() = scopes.iter().cloned().collect();
    house.commit("r1", &scopes, "x@g1");
    house.pass(MINUTE + SECOND);
    let read = house.rig.reads.lock().unwrap().len();
    assert!(read <= 3 * 2, "{read} are read, of which each fails after half a minute");
    assert_eq!(house.stance(&scopes[99]), Stance::Failed);
}

#[test]
fn no_more_is_under_way_of_an_entry_than_its_provider_takes() {
    for concurrency in [1, 3] {
        let mut house = house(concurrency, Settings::default());
        let scopes = [clouds(20), zones(20)].concat();
        (*house.rig.slow.lock().unwrap(), *house.rig.slow_writes.lock().unwrap()) = (SECOND, SECOND);
        house.commit("r1", &scopes, "x@g1");
        house.pass(10 * MINUTE);
        for scope in &scopes {
            assert!(house.is_as_declared(scope), "{scope}");
        }
        for entry in ["cloud", "zone"] {
            assert_eq!((house.most(entry, "read"), house.most(entry, "write")), (concurrency, concurrency));
        }
        *house.rig.slow.lock().unwrap() = Duration::ZERO;
        *house.rig.slow_writes.lock().unwrap() = Duration::ZERO;
        house.settles();
    }
}

#[test]
fn a_batch_that_reads_what_it_wrote_does_not_wait_for_itself() {
    let (mut house, zones) = (house(1, Settings::default()), zones(5));
    // Little enough that nothing is too old by the time of the next round.
    (*house.rig.slow.lock().unwrap(), *house.rig.slow_writes.lock().unwrap()) = (SECOND / 10, SECOND / 10);
    house.converges("r1", &zones, "x@g1", MINUTE);
    // What was written was read by the batch itself, and not once more.
    assert_eq!(house.rig.reads.lock().unwrap().len(), zones.len());
    assert_eq!((house.most("zone", "read"), house.most("zone", "write")), (1, 1));
}

#[test]
fn who_makes_way_does_not_even_read_what_is_known() {
    let (mut house, zones) = (House::new(Settings::default()), zones(3));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    let clock: Arc<dyn Clock> = Arc::new(SimClock(house.sim.clone()));
    let rush = house.engine.surveyor.hurry.rush(&clock);
    // Read without the scheduler, which may have something to do by itself meanwhile.
    let reads = |unhurried| {
        let before = house.store.recalls.load(Ordering::Relaxed);
        let only = Some(zones.iter().cloned().collect());
        let options = SurveyOptions { only, unhurried, ..SurveyOptions::default() };
        let _ = house.engine.surveyor.survey(&*house.store, &house.wanted, &options).now_or_never();
        house.store.recalls.load(Ordering::Relaxed) - before
    };
    assert_eq!((reads(true), reads(false)), (0, 3), "somebody is in a hurry");
    drop(rush);
    house.sim.jump(house.sim.now() + SECOND);
    assert_eq!(reads(true), 3, "nobody is");
}
