//! One run: processes, script, faults, and the checks at the end.

use crate::{
    check,
    executor::{Plan, Process, ProcessFaults, Rng, Sim, SimClock, Turn, turn},
    memory::{Disk, Memory, approve},
    scenario::{Do, Scenario, When},
    scheduled, witness,
};
use futures_util::{
    FutureExt,
    future::{Either, select},
};
use reconciled_engine::{
    Desired, DriftEnd, Store, Write,
    pass::{Converge, Engine, Patience, ScopeState, watched},
    plan::EntryPolicy,
    store::{ConditionKind, Revision},
    survey::{Calls, Early, Hurry, Judged, Recall, Rooms, SurveyOptions, Surveyor},
};
use reconciled_provider::{Cx, Pace, Provider, ResourceId, Stop};
use reconciled_testkit::{Fault, Point, Reference, World, context::TableSecrets};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// Which faults a run meets.
#[derive(Clone, Debug)]
pub(crate) enum Faulty {
    Never,
    At(Vec<(usize, Fault)>),
    Random { seed: u64 },
}

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) failures: Vec<String>,
    pub(crate) points: Vec<Point>,
    pub(crate) happened: Vec<(usize, Fault)>,
    pub(crate) trace: Vec<String>,
    pub(crate) hits: BTreeSet<&'static str>,
}

/// The branch everybody watches.
pub(crate) struct Branch {
    tip: Mutex<(u64, Arc<Desired>)>,
    waiting: Mutex<Vec<Waker>>,
    /// Number of the commit that the last process found nothing left to do for.
    pub(crate) rested: AtomicU64,
}

impl Branch {
    fn push(&self, desired: Arc<Desired>) {
        let mut tip = self.tip.lock().unwrap();
        *tip = (tip.0 + 1, desired);
        drop(tip);
        std::mem::take(&mut *self.waiting.lock().unwrap()).into_iter().for_each(Waker::wake);
    }
    fn poke(&self) {
        let desired = self.tip.lock().unwrap().1.clone();
        self.push(desired);
    }
    pub(crate) fn tip(&self) -> (u64, Arc<Desired>) {
        self.tip.lock().unwrap().clone()
    }
    pub(crate) async fn moved(&self, from: u64) {
        std::future::poll_fn(|cx| {
            if self.tip.lock().unwrap().0 != from {
                return Poll::Ready(());
            }
            self.waiting.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Everything that outlives a process.
struct Stage<'s> {
    scenario: &'s Scenario,
    sim: Arc<Sim>,
    world: Arc<World>,
    disk: Arc<Mutex<Disk>>,
    branch: Arc<Branch>,
    hits: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl<'s> Stage<'s> {
    fn new(scenario: &'s Scenario, faulty: &Faulty, trace: bool) -> Stage<'s> {
        let (seed, plan) = match faulty {
            Faulty::Never => (None, Plan::At(Vec::new())),
            Faulty::At(list) => (None, Plan::At(list.clone())),
            Faulty::Random { seed } => {
                (Some(*seed), Plan::Random { most: 1 + Rng::new(*seed).below(4) as u32 })
            }
        };
        let sim = Sim::new(seed, plan, trace);
        let world = Arc::new(World::default());
        for (scope, id, content) in &scenario.before {
            world.by_hand(scope, id, Some(content), Scenario::owner_of_before(), sim.now());
        }
        let disk: Arc<Mutex<Disk>> = Arc::default();
        let branch =
            Arc::new(Branch { tip: Mutex::default(), waiting: Mutex::default(), rested: AtomicU64::new(0) });
        let stage = Stage { scenario, sim, world, disk, branch, hits: Arc::default() };
        stage.disk.lock().unwrap().broken = scenario.broken;
        witness::watch(scenario, &stage.sim, &stage.world, &stage.disk, &stage.branch);
        stage
    }

    fn process(&self) -> Process {
        let crashed = Arc::new(AtomicBool::new(false));
        let faults = Arc::new(ProcessFaults { sim: self.sim.clone(), crashed: crashed.clone() });
        let store = Arc::new(Memory::open(&self.disk, faults.clone()));
        let engine = self.engine(store.clone(), faults);
        let (branch, hits, sim) = (self.branch.clone(), self.hits.clone(), self.sim.clone());
        match self.scenario.scheduled {
            false => Process::new(Box::pin(daemon(engine, store, branch, hits, sim)), crashed),
            true => Process::new(Box::pin(scheduled::daemon(engine, store, branch, sim)), crashed),
        }
    }

    fn engine(&self, store: Arc<Memory>, faults: Arc<ProcessFaults>) -> Engine {
        let mut entries = BTreeMap::new();
        let mut writers: BTreeMap<Arc<str>, Arc<dyn Provider>> = BTreeMap::new();
        for (name, role) in &self.scenario.roles {
            let provider: Arc<dyn Provider> =
                Arc::new(Reference::new(*role, name, "me", self.world.clone(), faults.clone()));
            entries
                .insert(Arc::from(*name), watched(&provider, EntryPolicy::Sync, self.scenario.guard.clone()));
            writers.insert(Arc::from(*name), provider);
        }
        let clock = Arc::new(SimClock(self.sim.clone()));
        let cx = Cx {
            clock,
            secrets: Arc::new(TableSecrets::default()),
            deadline: Duration::from_secs(60),
            stop: Stop::default(),
            pace: Pace::default(),
            answers: Default::default(),
            warnings: Default::default(),
        };
        // Only what runs for long has anything to recall.
        let recall = Recall::of(if self.scenario.scheduled { 100 } else { 0 });
        Engine::new(
            Surveyor {
                entries,
                cx,
                outside: None,
                recall,
                hurry: Hurry::default(),
                rooms: Rooms::default(),
                judged: Judged::default(),
                calls: Calls::default(),
                early: Early::default(),
            },
            writers,
            store,
            "me".into(),
        )
    }
}

/// How often the remotes are looked at although nothing seems to have changed.
const RESYNC: Duration = Duration::from_secs(600);

/// The loop of one process: bring the tip into force, converge, rest until something moves.
async fn daemon(
    mut engine: Engine,
    store: Arc<Memory>,
    branch: Arc<Branch>,
    hits: Arc<Mutex<BTreeSet<&'static str>>>,
    sim: Arc<Sim>,
) {
    loop {
        let (number, desired) = branch.tip();
        if number == 0 {
            branch.moved(0).await;
            continue;
        }
        engine.renew();
        let clock = engine.surveyor.cx.clock.clone();
        let stop = engine.surveyor.cx.stop.clone();
        if bring_into_force(&*store, &desired, clock.now()).await.is_err() {
            if fenced(&store) {
                return;
            }
            hits.lock().unwrap().insert("commit refused");
            clock.sleep(Duration::from_secs(1)).await;
            continue;
        }
        let options = SurveyOptions { refresh: number % 2 == 0, health: true, ..SurveyOptions::default() };
        let patience = Patience::until(clock.now() + RESYNC * 6);
        let result = {
            let converge = pin!(engine.converge(&desired, &options, &patience));
            let newer = pin!(async {
                branch.moved(number).await;
                let tip = branch.tip().1;
                while bring_into_force(&*store, &tip, clock.now()).await.is_err() && !fenced(&store) {
                    clock.sleep(Duration::from_secs(1)).await;
                }
                stop.set();
            });
            match select(converge, newer).await {
                Either::Left((result, _)) => result,
                Either::Right((_, converge)) => converge.await,
            }
        };
        if fenced(&store) {
            return;
        }
        let rested = match &result {
            Ok(converge) => note(converge, &hits, &sim),
            Err(_) => {
                hits.lock().unwrap().insert("commit refused");
                false
            }
        };
        if rested && branch.tip().0 == number {
            branch.rested.store(number, Ordering::SeqCst);
            select(pin!(branch.moved(number)), clock.sleep(RESYNC)).await;
        } else {
            select(pin!(branch.moved(number)), clock.sleep(Duration::from_secs(5))).await;
        }
    }
}

pub(crate) fn fenced(store: &Memory) -> bool {
    store.disk.lock().unwrap().epoch != store.epoch
}

pub(crate) async fn bring_into_force(
    store: &dyn Store,
    desired: &Desired,
    at: Duration,
) -> Result<(), reconciled_provider::Error> {
    let source = &desired.sources["s"];
    if store.in_force("s").await?.is_some_and(|r| r.commit == source.revision) {
        return Ok(());
    }
    let text = |t: &str| Arc::<str>::from(t);
    let revision = Revision {
        is_restored: false,
        source: "s".into(),
        commit: source.revision.clone(),
        label: source.label.clone(),
        author: text(""),
        subject: text(""),
        path: text("."),
    };
    let manifests = desired.manifests.iter().map(|m| (m.key.clone(), m.content)).collect();
    store.commit(vec![Write::InForce { revision, manifests, at }]).await
}

/// Notes rare paths; true when nothing is left to do.
fn note(converge: &Converge, hits: &Mutex<BTreeSet<&'static str>>, sim: &Sim) -> bool {
    let mut hits = hits.lock().unwrap();
    for (scope, report) in &converge.round.scopes {
        sim.log(|| {
            format!(
                "{scope} {:?} {:?}",
                report.state,
                report.conditions.iter().map(|c| (&c.reason, &c.message)).collect::<Vec<_>>()
            )
        });
    }
    let did = |change, outcome| converge.outcomes.all.keys().any(|(_, c, o)| (*c, *o) == (change, outcome));
    if did("create", "partial") && did("update", "done") {
        hits.insert("made in part, then the rest");
    }
    if did("abandon", "done") {
        hits.insert("abandoned without our mark");
    }
    if did("abandon", "observed") {
        hits.insert("abandoned without an answer");
    }
    if !converge.round.held.is_empty() {
        hits.insert("held");
    }
    let waiting =
        converge.round.scopes.values().flat_map(|s| &s.conditions).any(|c| c.kind == ConditionKind::Waiting);
    let held = !converge.round.held.is_empty();
    let at_rest =
        |s: &ScopeState| matches!(s, ScopeState::InSync | ScopeState::Held) || held && *s == ScopeState::Idle;
    !converge.timed_out && (held || !waiting) && converge.round.scopes.values().all(|s| at_rest(&s.state))
}

/// Runs a scenario once.
pub(crate) fn run(scenario: &Scenario, faulty: Faulty) -> Outcome {
    run_traced(scenario, faulty, false)
}

pub(crate) fn run_traced(scenario: &Scenario, faulty: Faulty, trace: bool) -> Outcome {
    let stage = Stage::new(scenario, &faulty, trace);
    let mut failures = Vec::new();
    let mut processes = vec![stage.process()];
    let mut script = scenario.script.iter().peekable();
    let mut points_before = 0;
    // Generous: what is not at rest in a day of virtual time will not come to rest.
    let limit = stage.sim.now() + Duration::from_secs(24 * 3600);
    let (mut turns, mut wrong) = (0, 0);
    loop {
        turns += 1;
        if turns > 20_000 {
            failures.push("ESR-1: still busy after 20,000 turns".into());
            break;
        }
        let (points, happened) = stage.sim.counts();
        if let Some(what) = scenario.meddles.as_ref().filter(|_| happened > wrong) {
            act(&stage, what, &mut processes);
        }
        wrong = happened;
        let (tip, _) = stage.branch.tip();
        let at_rest = stage.branch.rested.load(Ordering::SeqCst) == tip;
        let passed = points - points_before;
        let next = script.peek().filter(|(when, _)| match when {
            When::AtRest => at_rest,
            When::AfterPoints(count) => at_rest || passed >= *count,
        });
        if next.is_some() {
            let (_, what) = script.next().unwrap();
            points_before = points;
            act(&stage, what, &mut processes);
            continue;
        }
        if at_rest && script.peek().is_none() {
            if scenario.operator && consent(&stage, scenario.consents_once) {
                stage.branch.poke();
                continue;
            }
            break;
        }
        match turn(&stage.sim, &mut processes, limit) {
            Turn::Ran => {}
            Turn::Ended(index) => {
                if !stage.disk.lock().unwrap().started.is_empty() {
                    stage.hits.lock().unwrap().insert("crash with an open intent");
                }
                let crashed = processes[index].crashed.load(Ordering::SeqCst);
                processes.remove(index);
                stage.sim.log(|| format!("process {index} {}", if crashed { "crashed" } else { "ended" }));
                if processes.is_empty() {
                    processes.push(stage.process());
                }
            }
            Turn::Quiet => {
                failures.push("ESR-1: nothing can run, and the world is not as declared".into());
                break;
            }
        }
    }
    stage.sim.calm();
    note_faults(&stage);
    if failures.is_empty() {
        failures.extend(check::world(scenario, &stage.world));
        failures.extend(check::memory(scenario, &stage.disk.lock().unwrap()));
        failures.extend(stable(&stage, &mut processes, limit));
        failures.extend(repaired(&stage, &mut processes, limit));
    }
    failures.extend(stage.world.violations());
    failures.extend(check::effort(scenario, &stage.world, stage.sim.counts().1));
    let hits = stage.hits.lock().unwrap().clone();
    Outcome {
        failures,
        points: stage.sim.points(),
        happened: stage.sim.happened(),
        trace: stage.sim.trace(),
        hits,
    }
}

/// A person consents to all that is held; true when anything was.
fn consent(stage: &Stage<'_>, only_once: bool) -> bool {
    let (_, desired) = stage.branch.tip();
    approve(&stage.disk, &desired, stage.sim.now(), only_once)
}

fn act(stage: &Stage<'_>, what: &Do, processes: &mut Vec<Process>) {
    match what {
        Do::Commit(desired) => {
            stage.sim.log(|| format!("commit {}", desired.sources["s"].label));
            stage.branch.push(desired.clone());
        }
        Do::Hand { scope, id, content } => {
            stage.sim.log(|| format!("by hand {scope}/{id} {content:?}"));
            stage.world.by_hand(scope, id, *content, Scenario::owner_of_before(), stage.sim.now());
            stage.branch.poke();
        }
        Do::Add { scope, id, line } => {
            let contents = stage.world.contents(scope);
            let object = contents.objects.get(&ResourceId::from(*id)).and_then(|list| list.first());
            let mut lines: BTreeSet<&str> = object.map(|o| o.content.lines().collect()).unwrap_or_default();
            if lines.insert(line) {
                stage.sim.log(|| format!("by hand {scope}/{id} and {line:?}"));
                let content = lines.into_iter().collect::<Vec<_>>().join("\n");
                let owner = Scenario::owner_of_before();
                stage.world.by_hand(scope, id, Some(&content), owner, stage.sim.now());
            }
            stage.branch.poke();
        }
        Do::Approve => {
            stage.sim.log(|| "a person consents".into());
            consent(stage, false);
            stage.branch.poke();
        }
        Do::FreezeAndStartAnother => {
            stage.sim.log(|| "frozen, another starts".into());
            processes[0].frozen_until = stage.sim.now() + Duration::from_secs(1800);
            stage.branch.poke();
            processes.push(stage.process());
        }
    }
}

fn note_faults(stage: &Stage<'_>) {
    let mut hits = stage.hits.lock().unwrap();
    for (_, fault) in stage.sim.happened() {
        match fault {
            Fault::Stale => hits.insert("stale read"),
            Fault::LoseResponse => hits.insert("lost answer"),
            Fault::Refuse(_) => hits.insert("commit refused"),
            _ => false,
        };
    }
    let disk = stage.disk.lock().unwrap();
    if disk.claim_synced {
        hits.insert("claim synced");
    }
    if disk.claim_synced_beside_a_hold {
        hits.insert("claim synced beside what is held");
    }
    if disk.waited {
        hits.insert("waited for a dependency");
    }
    if disk.moved {
        hits.insert("moved");
    }
    if disk.move_waited {
        hits.insert("a move waited for an answer");
    }
}

/// ESR-2: two more passes over everything write nothing, to no remote and not to the store.
fn stable(stage: &Stage<'_>, processes: &mut Vec<Process>, limit: Duration) -> Option<String> {
    let before = (stage.world.calls().1, stage.disk.lock().unwrap().commits);
    for _ in 0..2 {
        if settle(stage, processes, limit).is_none() {
            return Some("ESR-2: not at rest again although nothing moved".into());
        }
    }
    let after = (stage.world.calls().1, stage.disk.lock().unwrap().commits);
    // The first look after the last write may remember the version it saw.
    let commits = after.1 - before.1;
    (after.0 != before.0 || commits > 1)
        .then(|| format!("ESR-2: {} writes and {commits} commits at rest", after.0 - before.0))
}

/// Lets the processes come to rest again after a poke; `None` when they do not.
fn settle(stage: &Stage<'_>, processes: &mut Vec<Process>, limit: Duration) -> Option<()> {
    stage.branch.poke();
    let (tip, _) = stage.branch.tip();
    for _ in 0..20_000 {
        if stage.branch.rested.load(Ordering::SeqCst) == tip {
            return Some(());
        }
        match turn(&stage.sim, processes, limit) {
            Turn::Ran => {}
            Turn::Ended(index) => {
                processes.remove(index);
                if processes.is_empty() {
                    processes.push(stage.process());
                }
            }
            Turn::Quiet => return None,
        }
    }
    None
}

/// ESR-3: one outside change of what is declared is repaired.
fn repaired(stage: &Stage<'_>, processes: &mut Vec<Process>, limit: Duration) -> Vec<String> {
    let (_, desired) = stage.branch.tip();
    let found = desired.scopes.iter().find_map(|(scope, list)| Some((scope, list.first()?)));
    let Some((scope, resource)) = found.filter(|(s, _)| &*s.provider != "issuer") else { return Vec::new() };
    let entries = stage.disk.lock().unwrap().ledger.len();
    stage.world.by_hand(scope, &resource.id.0, None, Scenario::owner_of_before(), stage.sim.now());
    for _ in 0..2 {
        if settle(stage, processes, limit).is_none() {
            return vec!["ESR-3: not at rest after one outside change".into()];
        }
    }
    let failures = check::world(stage.scenario, &stage.world).into_iter();
    failures.chain(healed(stage, entries)).map(|f| format!("ESR-3: {f}")).collect()
}

/// One outside change is one entry of the drift ledger, and it was healed.
fn healed(stage: &Stage<'_>, before: usize) -> Option<String> {
    let disk = stage.disk.lock().unwrap();
    let new = &disk.ledger[before..];
    let is_held = !disk.holds.is_empty();
    let open: usize = disk.scopes.values().map(|memory| memory.drifts.len()).sum();
    let is_one = matches!(new, [(drift, DriftEnd::Healed)] if drift.action.is_some());
    let is_right = is_held || is_one && open == 0;
    (!is_right).then(|| format!("the ledger has {new:?} and {open} open entries of one outside change"))
}

/// S9: a survey alone. Returns the write calls and commits it made.
pub(crate) fn look(scenario: &Scenario) -> (u64, u64) {
    let stage = Stage::new(scenario, &Faulty::Never, false);
    let faults = Arc::new(ProcessFaults { sim: stage.sim.clone(), crashed: Arc::default() });
    let store = Arc::new(Memory::open(&stage.disk, faults.clone()));
    let engine = stage.engine(store.clone(), faults);
    for (_, what) in &scenario.script {
        let Do::Commit(desired) = what else { continue };
        let options = SurveyOptions::default();
        let survey = engine.surveyor.survey(&*store, desired, &options);
        let survey = survey.now_or_never().expect("without faults nothing waits").expect("the store is well");
        assert!(survey.scopes.values().all(Result::is_ok));
    }
    let commits = stage.disk.lock().unwrap().commits;
    (stage.world.calls().1, commits)
}
