//! Virtual hours of the scheduler over remotes that go away, hang, panic, or are written to by others.

mod away;
mod crowded;
mod fighting;
mod refused;
mod spared;
mod suspended;
mod twins;
mod unfinished;
mod waiting;

use crate::{
    executor::{Plan, Process, ProcessFaults, Sim, SimClock, Turn, turn},
    memory::{Disk, Memory, approve},
    rigged::{Rig, Rigged},
    run::bring_into_force,
    scenario::desired,
    scheduled::Tasks,
};
use futures_util::{FutureExt, future::select};
use reconciled_engine::{
    Desired, HealthState, Hidden, ManifestMeta, Store, Write,
    pass::{Engine, Patience, watched},
    plan::{EntryPolicy, guard::GuardLimits},
    scheduler::{BreakerState, Priority, Progress, Scheduler, Settings, Stance, Standing},
    store::ConditionKind,
    survey::{Calls, Early, Hurry, Judged, Recall, Rooms, SurveyOptions, Surveyor},
};
use reconciled_provider::{
    Clock, Cx, Focus, GuardDomain, Health, ManifestKey, Marking, Observer, Owner, Pace, Provider, Scope, Stop,
};
use reconciled_testkit::{
    Reference, Role, World,
    context::TableSecrets,
    faults::Calm,
    reference::{OVERDUE, snapshot},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::ready,
    pin::pin,
    slice,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// One daemon and its remotes: the entry `zone` lists and has versions, `host` neither, `issuer` needs records in `zone`.
/// `cloud`, where it is there, assigns identity and tells nobody what it made.
struct House {
    sim: Arc<Sim>,
    world: Arc<World>,
    disk: Arc<Mutex<Disk>>,
    store: Arc<Memory>,
    rig: Arc<Rig>,
    stop: Stop,
    engine: Engine,
    scheduler: Arc<Scheduler>,
    processes: Vec<Process>,
    wanted: Arc<Desired>,
}

impl House {
    fn new(settings: Settings) -> House {
        let sim = Sim::new(None, Plan::At(Vec::new()), false);
        House::on(sim, Arc::default(), Arc::default(), Arc::default(), settings)
    }

    /// A daemon on a disk and remotes that may have a past.
    fn on(
        sim: Arc<Sim>,
        disk: Arc<Mutex<Disk>>,
        world: Arc<World>,
        rig: Arc<Rig>,
        settings: Settings,
    ) -> House {
        let store = Arc::new(Memory::open(&disk, Arc::new(Calm)));
        let stop = Stop::default();
        let limits =
            GuardLimits { max_delete_percent: 100, max_update_percent: 100, ..GuardLimits::default() };
        let (mut entries, mut writers) = (BTreeMap::new(), BTreeMap::new());
        let cloud = Role::Cloud { tokens: false };
        let all = [("zone", Role::Zone), ("host", Role::Host), ("issuer", Role::Issuer), ("cloud", cloud)];
        for (entry, role) in all.into_iter().filter(|(entry, _)| *entry != "cloud" || rig.has_cloud) {
            // Without faults, and by the clock: a cloud is not done at once.
            let faults = Arc::new(ProcessFaults { sim: sim.clone(), crashed: Arc::default() });
            let inner = Reference::new(role, entry, "me", world.clone(), faults);
            let mut info = inner.info().clone();
            // As many as the scheduler has workers.
            info.concurrency = rig.concurrency.unwrap_or(8);
            if entry == "cloud" {
                // It can neither be listed nor marked: who made what only memory tells.
                (info.lists, info.marking, info.guard) =
                    (false, Marking::InventoryOnly, GuardDomain::Provider);
            }
            if entry == "host" && rig.is_apart {
                info.guard = GuardDomain::Apart;
            }
            let provider: Arc<dyn Provider> =
                Arc::new(Rigged { inner, info, entry, world: world.clone(), rig: rig.clone() });
            entries.insert(Arc::from(entry), watched(&provider, EntryPolicy::Sync, limits.clone()));
            writers.insert(Arc::from(entry), provider);
        }
        let cx = Cx {
            clock: Arc::new(SimClock(sim.clone())),
            secrets: Arc::new(TableSecrets::default()),
            deadline: MINUTE,
            stop: stop.clone(),
            pace: Pace::default(),
            answers: Default::default(),
            warnings: Default::default(),
        };
        let engine = Engine::new(
            Surveyor {
                entries,
                cx,
                outside: None,
                recall: Recall::of(100),
                hurry: Hurry::default(),
                rooms: Rooms::default(),
                judged: Judged::default(),
                calls: Calls::default(),
                early: Early::default(),
            },
            writers,
            store.clone(),
            "me".into(),
        );
        let tasks = Arc::new(Tasks::default());
        let scheduler = Scheduler::new(Arc::new(engine.clone()), tasks.clone(), settings);
        let running = scheduler.clone();
        let daemon = async move {
            let (run, work) = (pin!(running.run()), pin!(tasks.run()));
            select(run, work).await;
        };
        let processes = vec![Process::new(Box::pin(daemon), Arc::<AtomicBool>::default())];
        House { sim, world, disk, store, rig, stop, engine, scheduler, processes, wanted: Arc::default() }
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let until = self.sim.now() + time;
        loop {
            match turn(&self.sim, &mut self.processes, until) {
                Turn::Ran => {}
                Turn::Ended(index) => drop(self.processes.remove(index)),
                Turn::Quiet => break,
            }
        }
        self.sim.jump(until);
    }

    /// A commit: each of `scopes` shall hold one resource `a` with this content.
    fn commit(&mut self, revision: &'static str, scopes: &[Scope], content: &str) {
        let items: Vec<String> =
            scopes.iter().map(|scope| format!("{scope}|a-{}|{content}", scope.name)).collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        self.desire(desired(revision, &items).done(), scopes.iter().cloned().collect());
    }

    fn desire(&mut self, wanted: Arc<Desired>, changed: BTreeSet<Scope>) {
        let now = self.sim.now();
        bring_into_force(&*self.store, &wanted, now).now_or_never().unwrap().unwrap();
        self.wanted = wanted.clone();
        self.scheduler.desire(wanted, changed);
    }

    fn stance(&self, scope: &Scope) -> Stance {
        self.scheduler.standing().get(scope).map_or(Stance::Unknown, |standing| standing.stance)
    }

    fn is_as_declared(&self, scope: &Scope) -> bool {
        let wanted = self.wanted.in_scope(scope).iter();
        let wanted: BTreeMap<String, Vec<String>> = wanted
            .map(|r| (r.id.to_string(), vec![String::from_utf8_lossy(r.spec.bytes().unwrap()).into_owned()]))
            .collect();
        snapshot(&self.world, scope) == wanted
    }

    fn by_hand(&self, scope: &Scope, content: Option<&str>) {
        let id = format!("a-{}", scope.name);
        self.world.by_hand(scope, &id, content, Owner::Unmarked, self.sim.now());
    }

    fn commits(&self) -> u64 {
        self.disk.lock().unwrap().commits
    }

    /// ESR: everything is as declared, stays so without a write, and is repaired after one change by hand.
    fn settles(&mut self) {
        let scopes: Vec<Scope> = self.wanted.scopes.keys().cloned().collect();
        self.pass(HOUR);
        for scope in &scopes {
            assert!(self.is_as_declared(scope), "{scope} is {:?}", snapshot(&self.world, scope));
            assert_eq!(self.stance(scope), Stance::InSync, "{scope}");
        }
        let before = (self.world.calls().1, self.commits());
        self.pass(3 * HOUR);
        assert_eq!((self.world.calls().1, self.commits()), before, "something was written at rest");
        self.by_hand(&scopes[0], None);
        self.pass(HOUR);
        assert!(self.is_as_declared(&scopes[0]), "not repaired within an hour");
        assert_eq!(self.world.violations(), [""; 0]);
    }
}

fn zones(count: usize) -> Vec<Scope> {
    (0..count).map(|number| Scope::new("zone", format!("z{number:03}"))).collect()
}

#[test]
fn a_commit_ends_a_backoff() {
    let (mut house, zones) = (House::new(Settings::default()), zones(1));
    house.rig.silent.lock().unwrap().insert(zones[0].clone());
    house.commit("r1", &zones, "x@g1");
    house.pass(2 * HOUR);
    let standing = house.scheduler.standing()[&zones[0]].clone();
    assert_eq!(standing.stance, Stance::Failed);
    assert!(standing.failures > 8 && standing.error.is_some(), "{standing:?}");
    house.rig.silent.lock().unwrap().clear();
    // Whatever it was doing, it is in a wait of minutes now.
    while house.scheduler.standing()[&zones[0]].next_try.is_none() {
        house.pass(SECOND);
    }
    house.commit("r2", &zones, "x@g2");
    house.pass(SECOND);
    assert!(house.is_as_declared(&zones[0]), "it waited for its backoff");
    house.settles();
}

#[test]
fn three_scopes_that_hang_delay_no_other() {
    let (mut house, zones) = (House::new(Settings::default()), zones(20));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    house.rig.silent.lock().unwrap().extend(zones[..3].iter().cloned());
    house.commit("r2", &zones[..3], "x@g2");
    house.pass(HOUR);
    house.commit("r3", &zones, "x@g3");
    house.pass(SECOND);
    for zone in &zones[3..] {
        assert!(house.is_as_declared(zone), "{zone} waited for others");
    }
    house.pass(HOUR);
    let standing = house.scheduler.standing();
    assert!(zones[..3].iter().all(|zone| standing[zone].stance == Stance::Failed));
    assert_eq!(standing[&zones[5]].breaker, BreakerState::Closed, "the others do answer");
    house.rig.silent.lock().unwrap().clear();
    house.settles();
}

#[test]
fn a_large_source_does_not_delay_a_small_one() {
    let (mut house, zones) = (House::new(Settings::default()), zones(200));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    *house.rig.slow.lock().unwrap() = SECOND;
    house.commit("r2", &zones, "x@g2");
    house.pass(5 * SECOND);
    // Another source commits while all of that is under way.
    let small = Scope::new("zone", "small");
    let mut both = (*house.wanted).clone();
    let one = desired("r1", &["zone/small|a-small|x@g1"]).done();
    both.sources.insert("t".into(), one.sources["s"].clone());
    both.scopes.extend(one.scopes.clone());
    let key = ManifestKey::new("t", "test", "Thing", "", "a-small");
    both.manifests.push(ManifestMeta { key, ..one.manifests[0].clone() });
    Arc::make_mut(both.scopes.get_mut(&small).unwrap())[0].origin.manifest = both.manifests.len() as u32 - 1;
    house.desire(Arc::new(both), [small.clone()].into());
    house.pass(5 * SECOND);
    assert!(house.is_as_declared(&small));
    assert!(!house.is_as_declared(&zones[199]), "the large one is still at it");
    house.settles();
}

#[test]
fn an_operator_and_a_commit_go_before_a_resync_of_the_same_scope() {
    let (mut house, zones) = (House::new(Settings::default()), zones(20));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    *house.rig.slow.lock().unwrap() = 20 * SECOND;
    house.scheduler.wake(zones.clone(), Priority::Resync, Focus::All);
    house.pass(SECOND);
    *house.rig.slow.lock().unwrap() = Duration::ZERO;
    house.commit("r2", &zones, "x@g2");
    house.pass(SECOND);
    assert!(house.is_as_declared(&zones[0]), "it waited for the resync");
    house.settles();
}

#[test]
fn a_clock_that_jumps_a_month_brings_one_tick_and_no_stampede() {
    let (mut house, zones) = (House::new(Settings::default()), zones(60));
    house.commit("r1", &zones, "x@g1");
    house.pass(HOUR);
    house.rig.forget();
    house.sim.jump(house.sim.now() + 30 * 24 * HOUR);
    house.pass(MINUTE);
    assert_eq!(house.rig.probes.load(Ordering::SeqCst), 1);
    assert!(house.rig.reads.lock().unwrap().len() <= 20, "a sixth is read in full");
    assert!(house.sim.now() - house.scheduler.tick() <= 10 * SECOND, "the loop goes round");
    house.settles();
}

#[test]
fn a_repair_that_wrote_nothing_is_tried_again_and_is_no_flapping() {
    let (mut house, zones) = (House::new(Settings::default()), zones(1));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    let rows = |house: &House| house.disk.lock().unwrap().scopes[&zones[0]].rows.clone();
    let before = rows(&house);
    house.rig.full.lock().unwrap().insert(zones[0].clone());
    house.by_hand(&zones[0], Some("vandalized"));
    house.scheduler.wake([zones[0].clone()], Priority::Hint, Focus::All);
    house.pass(HOUR);
    assert_eq!(rows(&house), before);
    let drifts = house.disk.lock().unwrap().scopes[&zones[0]].drifts.clone();
    assert!(drifts.len() == 1 && drifts[0].action.is_none(), "{drifts:?}");
    house.rig.full.lock().unwrap().clear();
    house.pass(HOUR);
    assert!(house.is_as_declared(&zones[0]));
    house.settles();
}

#[test]
fn what_is_due_by_itself_is_done_as_often_as_it_is_and_is_no_drift() {
    let (mut house, zones) = (House::new(Settings::default()), zones(1));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    let before = house.world.calls().1;
    for _ in 0..12 {
        house.by_hand(&zones[0], Some(OVERDUE));
        house.scheduler.wake([zones[0].clone()], Priority::Hint, Focus::All);
        house.pass(MINUTE);
        assert!(house.is_as_declared(&zones[0]));
    }
    assert_eq!(house.world.calls().1 - before, 12);
    let disk = house.disk.lock().unwrap();
    assert!(disk.ledger.is_empty() && disk.scopes[&zones[0]].drifts.is_empty());
    drop(disk);
    house.settles();
}

#[test]
fn a_record_goes_with_who_needed_it_although_that_is_only_forgotten() {
    let mut house = House::new(Settings::default());
    let (issuer, claims) = (Scope::new("issuer", "ca"), Scope::new("zone", "claims"));
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.desire(desired("r1", &["issuer/ca|web|cert"]).abandoned().done(), [issuer.clone()].into());
    house.pass(15 * SECOND);
    // From here on nobody finds out that the record is there.
    house.rig.silent.lock().unwrap().insert(issuer.clone());
    house.pass(MINUTE);
    assert_eq!(snapshot(&house.world, &claims).len(), 1);
    house.desire(desired("r2", &[]).done(), [issuer.clone()].into());
    house.rig.silent.lock().unwrap().clear();
    house.pass(2 * MINUTE);
    assert_eq!(snapshot(&house.world, &issuer), BTreeMap::new(), "it was never issued");
    assert_eq!(snapshot(&house.world, &claims), BTreeMap::new());
    let disk = house.disk.lock().unwrap();
    let left = disk.scopes.values().flat_map(|memory| memory.claims_made.iter().chain(&memory.claims_here));
    assert_eq!(left.count(), 0);
}

#[test]
fn one_resource_after_the_other_is_mended_as_it_breaks() {
    let mut house = House::new(Settings::default());
    let scope = Scope::new("host", "units");
    let items: Vec<String> = (0..30).map(|number| format!("host/units|r{number:02}|x@g1")).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    house.desire(desired("r1", &items).done(), [scope.clone()].into());
    house.pass(MINUTE);
    *house.rig.slow.lock().unwrap() = SECOND;
    // Each break is seen by the look after the repair of the one before, so that no look finds all well.
    for number in 0..30 {
        let id = format!("r{number:02}");
        house.world.by_hand(&scope, &id, Some("vandalized"), Owner::Unmarked, house.sim.now());
        house.scheduler.wake([scope.clone()], Priority::Hint, Focus::All);
        house.pass(SECOND);
    }
    house.pass(3 * SECOND);
    assert!(house.is_as_declared(&scope), "{:?}", snapshot(&house.world, &scope));
    *house.rig.slow.lock().unwrap() = Duration::ZERO;
}

#[test]
fn a_panic_fails_one_pass_only() {
    let (mut house, zones) = (House::new(Settings::default()), zones(5));
    house.rig.panics.lock().unwrap().insert(zones[2].clone());
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    let failed: Vec<&Scope> = zones.iter().filter(|zone| house.stance(zone) != Stance::InSync).collect();
    assert_eq!(failed, [&zones[2]]);
    house.rig.panics.lock().unwrap().clear();
    house.settles();
}

#[test]
fn a_stop_lets_what_writes_end_and_begins_nothing() {
    let (mut house, zones) = (House::new(Settings::default()), zones(40));
    let hosts: Vec<Scope> = vec![Scope::new("host", "files")];
    *house.rig.slow_writes.lock().unwrap() = 10 * SECOND;
    house.commit("r1", &[zones.clone(), hosts].concat(), "x@g1");
    let mut watch = house.scheduler.watch();
    house.pass(5 * SECOND);
    house.stop.set();
    house.pass(SECOND);
    assert_eq!(house.processes.len(), 1, "it waits for what writes");
    house.pass(MINUTE);
    assert_eq!(house.processes.len(), 0, "it has ended");
    assert_eq!(house.world.calls().1, 0, "no write began after the wish to stop");
    assert!(house.disk.lock().unwrap().started.is_empty(), "nothing is left without an answer");
    while let Some(progress) = watch.next().now_or_never().expect("the stream has ended") {
        assert_ne!(progress, Progress::Idle);
    }
}

#[test]
fn a_pass_past_its_limit_is_stopped_and_tried_again() {
    let settings = Settings { pass_limit: MINUTE, ..Settings::default() };
    let (mut house, zones) = (House::new(settings), zones(3));
    house.commit("r1", &zones, "x@g1");
    house.pass(SECOND);
    *house.rig.slow_writes.lock().unwrap() = 100 * SECOND;
    house.commit("r2", &zones[..1], "x@g2");
    house.pass(50 * SECOND);
    let since = house.scheduler.standing()[&zones[0]].running_since;
    assert!(since.is_some());
    let ticket = house.scheduler.sync(&[zones[0].clone()].into());
    house.pass(70 * SECOND);
    assert!(house.scheduler.handled(&ticket).now_or_never().is_none(), "the pass before it does not count");
    assert_ne!(house.scheduler.standing()[&zones[0]].running_since, since, "it was stopped and began anew");
    house.pass(100 * SECOND);
    assert!(house.scheduler.handled(&ticket).now_or_never().is_some(), "a late pass has ended all the same");
    *house.rig.slow_writes.lock().unwrap() = Duration::ZERO;
    house.commit("r3", &zones, "x@g3");
    house.settles();
}

#[test]
fn who_only_observes_writes_nothing_and_says_what_differs() {
    let settings = Settings { observe: true, ..Settings::default() };
    let (mut house, zones) = (House::new(settings), zones(3));
    house.commit("r1", &zones, "x@g1");
    house.pass(3 * HOUR);
    assert_eq!(house.world.calls().1, 0);
    let disk = house.disk.lock().unwrap();
    assert!(zones.iter().all(|zone| &*disk.scopes[zone].conditions[0].reason == "Observing"));
    assert!(zones.iter().all(|zone| disk.scopes[zone].rows.is_empty()));
}

#[test]
fn scopes_without_versions_are_read_at_every_tick() {
    let mut house = House::new(Settings::default());
    let files = Scope::new("host", "files");
    house.commit("r1", slice::from_ref(&files), "x");
    house.pass(MINUTE);
    house.rig.forget();
    house.pass(24 * HOUR);
    let reads = house.rig.reads_of(&files);
    assert!((120..=180).contains(&reads), "{reads} reads in a day");
    assert_eq!(house.rig.probes.load(Ordering::SeqCst), 0);
    house.settles();
}

/// The figure that the idle budget is made of: one call a tick, a sixth read in full, nothing written.
#[test]
fn an_idle_day_of_a_hundred_scopes_costs_one_call_a_tick() {
    let (mut house, zones) = (House::new(Settings::default()), zones(100));
    house.commit("r1", &zones, "x@g1");
    house.pass(MINUTE);
    assert!(zones.iter().all(|zone| house.stance(zone) == Stance::InSync));
    house.rig.forget();
    let before = (house.commits(), house.world.calls().1);
    let wall = Instant::now();
    house.pass(24 * HOUR);
    let wall = wall.elapsed();
    let ticks = house.rig.probes.load(Ordering::SeqCst);
    assert!((120..=180).contains(&ticks), "{ticks} ticks in a day");
    for zone in &zones {
        let reads = house.rig.reads_of(zone);
        assert!(
            (ticks / 6..=ticks.div_ceil(6)).contains(&reads),
            "{zone}: {reads} full reads in {ticks} ticks"
        );
    }
    assert_eq!((house.commits(), house.world.calls().1), before, "nothing is written");
    println!(
        "an idle tick of 100 scopes, its share of full reads and of beats included: {:?}",
        wall / ticks as u32
    );
    house.settles();
}

#[test]
fn health_is_asked_for_although_nothing_moved_and_only_what_changes_is_written() {
    let mut house = House::new(Settings::default());
    let scope = Scope::new("host", "h1");
    house.commit("r1", slice::from_ref(&scope), "one");
    house.pass(HOUR);
    assert_eq!(house.stance(&scope), Stance::InSync);
    let known = |house: &House| {
        let disk = house.disk.lock().unwrap();
        (disk.scopes[&scope].ailments.clone(), disk.commits)
    };
    let (well, before) = known(&house);
    assert!(well.is_empty());

    house.world.fares(&scope, "a-h1", Health::Degraded { why: "it exits with 1".into() });
    house.pass(HOUR);
    let (ill, commits) = known(&house);
    assert_eq!(commits, before + 1, "one write for one change");
    let [ailment] = &ill[..] else { panic!("{ill:?}") };
    assert_eq!((ailment.state, &*ailment.message), (HealthState::Degraded, "it exits with 1"));
    assert!(ailment.id.as_ref().is_some_and(|id| &*id.0 == "a-h1"));
    // It is as declared all the same.
    assert_eq!(house.stance(&scope), Stance::InSync);
    house.pass(HOUR);
    assert_eq!(known(&house), (ill, commits), "what stays as it is costs no write");

    house.world.fares(&scope, "a-h1", Health::Healthy);
    house.pass(HOUR);
    assert_eq!(known(&house), (Vec::new(), commits + 1));
}

#[test]
fn what_is_on_its_way_is_looked_at_when_it_says() {
    let mut house = House::new(Settings::default());
    let scope = Scope::new("host", "h1");
    let way = Health::Progressing { why: "it starts".into(), recheck: 5 * SECOND };
    house.world.fares(&scope, "a-h1", way);
    house.commit("r1", slice::from_ref(&scope), "one");
    house.pass(3 * SECOND);
    assert_eq!(house.disk.lock().unwrap().scopes[&scope].ailments.len(), 1);
    house.world.fares(&scope, "a-h1", Health::Healthy);
    house.pass(6 * SECOND);
    assert!(house.disk.lock().unwrap().scopes[&scope].ailments.is_empty(), "long before the next resync");
}
