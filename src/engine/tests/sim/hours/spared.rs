//! What is not read because the entry says of all its scopes at once how they are.

use super::*;
use reconciled_engine::{
    store::KnownVersion,
    survey::{Ahead, Heard},
};
use reconciled_provider::Version;

impl House {
    /// Brings a commit into force and carries it out without a daemon, which takes no longer than `limit`.
    pub(super) fn converges(
        &mut self,
        revision: &'static str,
        scopes: &[Scope],
        content: &str,
        limit: Duration,
    ) {
        let done = self.converging(revision, scopes, content);
        self.pass(limit);
        assert!(done.load(Ordering::SeqCst), "it did not end");
    }

    /// The same as it begins; true once it has ended in sync.
    fn converging(&mut self, revision: &'static str, scopes: &[Scope], content: &str) -> Arc<AtomicBool> {
        let items: Vec<String> =
            scopes.iter().map(|scope| format!("{scope}|a-{}|{content}", scope.name)).collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let (wanted, now) = (desired(revision, &items).done(), self.sim.now());
        bring_into_force(&*self.store, &wanted, now).now_or_never().unwrap().unwrap();
        self.wanted = wanted.clone();
        let (engine, patience) = (self.engine.clone(), Patience::until(now + HOUR));
        let done = Arc::<AtomicBool>::default();
        let told = done.clone();
        let apply = async move {
            let ended = engine.converge(&wanted, &SurveyOptions::default(), &patience).await.unwrap();
            told.store(ended.round.is_in_sync() && !ended.timed_out, Ordering::SeqCst);
        };
        self.processes = vec![Process::new(Box::pin(apply), Arc::default())];
        done
    }

    fn probes(&self) -> u64 {
        self.rig.probes.load(Ordering::SeqCst)
    }
}

#[test]
fn what_is_not_there_is_made_without_reading_it_first() {
    let (mut house, zones) = (House::new(Settings::default()), zones(100));
    house.by_hand(&zones[7], Some("x@g1"));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    assert_eq!(house.probes(), 1, "one list for all of them");
    for (number, zone) in zones.iter().enumerate() {
        // Once to see what was written; what was there is read before anything is concluded.
        assert_eq!(house.rig.reads_of(zone), if number == 7 { 2 } else { 1 }, "{zone}");
    }
    house.settles();
}

#[test]
fn what_came_to_be_after_the_list_is_not_overwritten_and_read_next() {
    let (mut house, zones) = (House::new(Settings::default()), zones(5));
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.commit("r1", &zones, "x@g1");
    house.pass(5 * SECOND);
    assert_eq!((house.probes(), house.rig.reads.lock().unwrap().len()), (1, 0));
    house.by_hand(&zones[3], Some("theirs"));
    house.pass(HOUR);
    assert_eq!(snapshot(&house.world, &zones[3]), [("a-z003".into(), vec!["theirs".into()])].into());
    assert_eq!(house.stance(&zones[3]), Stance::Stalled);
    assert!(house.rig.reads_of(&zones[3]) >= 1);
    for zone in zones.iter().filter(|zone| **zone != zones[3]) {
        assert!(house.is_as_declared(zone), "{zone}");
    }
}

#[test]
fn without_a_list_every_scope_is_read() {
    let (mut house, zones) = (House::new(Settings::default()), zones(5));
    house.rig.lists_nothing.store(true, Ordering::SeqCst);
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    for zone in &zones {
        assert_eq!((house.is_as_declared(zone), house.rig.reads_of(zone)), (true, 2), "{zone}");
    }
}

#[test]
fn what_was_seen_a_while_ago_is_read_again_only_where_it_moved() {
    let (mut house, zones) = (House::new(Settings::default()), zones(20));
    // Eight at a time: what is written first is looked at long before the last is written.
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.converges("r1", &zones, "x@g1", MINUTE);
    assert_eq!(house.probes(), 2, "one before all writes and one behind them");
    assert!(zones.iter().all(|zone| house.rig.reads_of(zone) == 1));

    house.rig.forget();
    let done = house.converging("r2", &zones, "x@g2");
    house.pass(15 * SECOND);
    house.by_hand(&zones[0], Some("by hand"));
    house.pass(2 * MINUTE);
    assert!(done.load(Ordering::SeqCst));
    assert!(zones.iter().all(|zone| house.is_as_declared(zone)), "what moved meanwhile was put back");
}

#[test]
fn an_entry_is_told_of_a_sweep_until_all_was_looked_at_and_never_while_anything_is_written() {
    let (mut house, zones) = (House::new(Settings::default()), zones(20));
    house.rig.lists_nothing.store(true, Ordering::SeqCst);
    house.converges("r1", &zones, "x@g1", MINUTE);
    let swept = house.rig.swept.lock().unwrap().clone();
    assert!(swept["read"][0] >= 20, "{swept:?}");
    assert_eq!(swept["write"], [0, 20]);
    assert_eq!(house.rig.sweeps.load(Ordering::SeqCst), 0);
}

#[test]
fn who_was_told_of_an_entry_just_now_does_not_ask_it_again_and_reads_what_moved_alone() {
    let (mut house, zones) = (House::new(Settings::default()), zones(3));
    house.converges("r1", &zones, "x@g1", MINUTE);
    house.by_hand(&zones[0], Some("by hand"));
    let asked = [true, false].map(|is_told| {
        let (surveyor, store, wanted) =
            (house.engine.surveyor.clone(), house.store.clone(), house.wanted.clone());
        let (done, scopes) = (Arc::<AtomicBool>::default(), zones.clone());
        let ended = done.clone();
        let plan = async move {
            let options = SurveyOptions::default();
            let said = surveyor.versions_of("zone", &scopes).await.unwrap();
            let heard: Heard = is_told.then(|| (Arc::from("zone"), said)).into_iter().collect();
            let glance = surveyor.glance(&*store, &options, Ahead::Nothing, ready(heard)).await.unwrap();
            surveyor.survey_from(&*store, &wanted, glance, &options).await.unwrap();
            ended.store(true, Ordering::SeqCst);
        };
        house.rig.forget();
        house.processes = vec![Process::new(Box::pin(plan), Arc::default())];
        house.pass(MINUTE);
        assert!(done.load(Ordering::SeqCst), "it did not end");
        if is_told {
            let reads: Vec<u64> = zones.iter().map(|zone| house.rig.reads_of(zone)).collect();
            assert_eq!(reads, [1, 0, 0]);
        }
        house.probes()
    });
    assert_eq!(asked, [1, 2]);
}

#[test]
fn entries_are_asked_side_by_side_what_moved() {
    let mut house = House::new(Settings::default());
    let at = KnownVersion { version: Version::At("1".into()), foreign: 0 };
    let known = ["zone", "host"].map(|entry| Write::Version(Scope::new(entry, "a"), Some(at.clone())));
    house.store.commit(known.into()).now_or_never().unwrap().unwrap();
    *house.rig.slow.lock().unwrap() = 10 * SECOND;
    house.rig.forget();
    let (surveyor, store) = (house.engine.surveyor.clone(), house.store.clone());
    let done = Arc::<AtomicBool>::default();
    let ended = done.clone();
    let glance = async move {
        surveyor
            .glance(&*store, &SurveyOptions::default(), Ahead::Nothing, ready(Heard::new()))
            .await
            .unwrap();
        ended.store(true, Ordering::SeqCst);
    };
    house.processes = vec![Process::new(Box::pin(glance), Arc::default())];
    house.pass(15 * SECOND);
    assert_eq!(house.probes(), 2);
    assert!(done.load(Ordering::SeqCst), "one waited for the other");
}
