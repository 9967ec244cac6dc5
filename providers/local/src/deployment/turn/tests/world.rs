//! A machine whose units are a table and whose checks say what they are told to, under a clock that is moved by hand.

use crate::{
    Config,
    deployment::{
        apply::apply,
        instance,
        kind::{Declared, Deployment, Instance},
        memory::Memory,
        observe::{health, observe},
        template,
    },
    hands::{
        Asked, Change, Check, Draft, Fault, Hands, Here, Job, Link, Manager, Put, Remove, Run, Seen, Start,
        UnitState, Unwell, Watched,
    },
    path::FilePath,
    systemd::{Places, RunState},
};
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::stream;
use reconciled_provider::{
    Action, ActionId, Batch, Clock, Cx, Error, Focus, Hash, Health, Journal, Observation, Op, Origin,
    Outcome, PolicyId, Resource, ResourceId, Scope, Spec, Tracked, Version, Want,
};
use reconciled_testkit::context::{HandClock, cx};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

/// What a check says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Says {
    Yes,
    No,
    /// It cannot be asked.
    Nothing,
}

/// What becomes of restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Restarts {
    #[default]
    Done,
    /// systemd does none of this unit.
    Refused,
    /// Nobody answers, and nothing comes of it.
    Lost,
    /// The run is still being ended once nobody waits for it any more.
    Slow,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) units: BTreeMap<String, UnitState>,
    /// `start web@1.service`, in order.
    pub(super) jobs: Vec<String>,
    /// By the name of the command; what is not in it says yes.
    pub(super) says: BTreeMap<String, Says>,
    /// How long each check takes.
    pub(super) takes: Duration,
    /// What a start ends as, where it does not end as `active`.
    pub(super) starts_as: Option<&'static str>,
    /// What becomes of restarts.
    pub(super) restarts: Restarts,
    /// systemd starts this unit by itself just before it reads the files.
    pub(super) begun_at_reload: Option<&'static str>,
    /// systemd starts the unit of the next job by itself just before.
    pub(super) begins_by_itself: bool,
    /// Nobody is reached for the next job of this unit.
    pub(super) unreached: Option<&'static str>,
    /// What systemd says of the last start of whatever does not run.
    pub(super) start: Start,
    /// When the present run of each unit began, in microseconds since the epoch.
    pub(super) began: u64,
    runs: u32,
    /// Jobs that are under way, and the most that ever were.
    under_way: (usize, usize),
    /// The same of links.
    pub(super) linking: (usize, usize),
}

#[derive(Debug)]
pub(super) struct World {
    here: Here,
    places: Places,
    pub(super) clock: Arc<HandClock>,
    pub(super) state: Mutex<State>,
    pub(super) rows: Mutex<BTreeMap<ResourceId, Tracked>>,
    pending: Mutex<BTreeSet<ResourceId>>,
    /// What a person suspended: nothing is done to it.
    pub(super) suspended: Mutex<BTreeSet<ResourceId>>,
    /// The file of a balancer, if there is one.
    balancer: Mutex<Option<String>>,
    dir: tempfile::TempDir,
}

pub(super) fn web(replicas: u32, content: &str, check: &str) -> Deployment {
    let checks = if check.is_empty() { Vec::new() } else { vec![Check::Command(check.into())] };
    Deployment {
        content: format!("[Service]\nExecStart={content}\n"),
        replicas,
        first: 1,
        max_unavailable: 1,
        max_surge: 0,
        canary: None,
        min_ready: 0,
        deadline: 60,
        history: 10,
        checks,
        fronts: Vec::new(),
        beside: BTreeMap::new(),
        stale: Vec::new(),
        refused: None,
        closed: None,
    }
}

impl World {
    pub(super) fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/etc/systemd/system")).unwrap();
        std::fs::create_dir_all(dir.path().join("root/run")).unwrap();
        let here = Here::new(Arc::new(Config::new(dir.path().join("root"), &["/etc", "/run"])));
        let clock = Arc::new(HandClock::default());
        clock.advance(Duration::from_secs(1_000));
        World {
            here,
            places: Places::system(),
            clock,
            state: Mutex::default(),
            rows: Mutex::default(),
            pending: Mutex::default(),
            suspended: Mutex::default(),
            balancer: Mutex::default(),
            dir,
        }
    }

    /// One on which `declared` runs.
    pub(super) async fn running(declared: &Deployment) -> World {
        let world = World::new();
        world.until_still(declared).await;
        world
    }

    fn cx(&self) -> Cx {
        Cx { clock: self.clock.clone(), ..cx() }
    }

    /// Has a balancer at `/etc/front.conf`, whose unit runs.
    pub(super) fn balance(&self, lines: &str) {
        *self.balancer.lock().unwrap() = Some(lines.into());
        let unit = UnitState { load: "loaded".into(), active: "active".into(), ..UnitState::default() };
        self.state.lock().unwrap().units.insert("front.service".into(), unit);
    }

    /// A unit of somebody else stands so.
    pub(super) fn runs_besides(&self, unit: &str, active: &str) {
        let state = UnitState { load: "loaded".into(), active: active.into(), ..UnitState::default() };
        self.state.lock().unwrap().units.insert(unit.into(), state);
    }

    fn desired(&self, declared: &Deployment) -> Vec<Resource> {
        let resource = |id: String, bytes: Vec<u8>| {
            Resource::new(
                id.as_str().into(),
                Arc::new(Scope::new("host", "deployments")),
                Spec::known(bytes),
                Origin { manifest: 0, line: 1 },
                PolicyId(0),
            )
        };
        let one = Instance {
            state: RunState::Running,
            enabled: None,
            checks: declared.checks.clone(),
            closed: None,
        };
        let balancer = self.balancer.lock().unwrap().clone();
        let balancer = balancer.map(|text| {
            let text = serde_json::Value::from(text);
            resource(
                "/etc/front.conf".into(),
                format!(r#"{{"balancer":{text},"reload":"front.service","drain":0}}"#).into(),
            )
        });
        let whole = resource(template("web"), Declared::Deployment(declared.clone()).encode());
        let one = Declared::Instance(one).encode();
        let instances = declared.range().map(|number| resource(instance("web", number), one.clone()));
        balancer.into_iter().chain([whole]).chain(instances).collect()
    }

    /// One pass; what became of the template, if anything was done to it.
    pub(super) async fn pass(&self, declared: &Deployment) -> Option<Outcome> {
        self.pass_over(self.desired(declared)).await
    }

    /// The same of a process that dies where it would put down that the template is as declared.
    pub(super) async fn pass_dying_when_done(&self, declared: &Deployment) -> Option<Outcome> {
        let (rows, pending) = (self.rows.lock().unwrap().clone(), self.pending.lock().unwrap().clone());
        let outcome = self.pass(declared).await;
        if matches!(outcome, Some(Outcome::Done(_))) {
            (*self.rows.lock().unwrap(), *self.pending.lock().unwrap()) = (rows, pending);
        }
        outcome
    }

    /// The same where not all of the deployment is known yet.
    pub(super) async fn pass_waiting(&self, declared: &Deployment) -> Option<Outcome> {
        let mut desired = self.desired(declared);
        desired.iter_mut().for_each(|resource| resource.spec = Spec::waiting(Hash::of(b""), []));
        self.pass_over(desired).await
    }

    /// The same once nothing is declared.
    pub(super) async fn take_down(&self) -> Option<Outcome> {
        self.pass_over(Vec::new()).await
    }

    async fn pass_over(&self, desired: Vec<Resource>) -> Option<Outcome> {
        let cx = self.cx();
        let tracked: Vec<Tracked> = self.rows.lock().unwrap().values().cloned().collect();
        let scope = Scope::new("host", "deployments");
        let want =
            Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &tracked, claims: &[] };
        let seen = observe(&cx, self, self, &want).await.unwrap();
        let batch = self.plan(&desired, &seen);
        let notes = Notes::default();
        apply(self, self, &cx, &batch, &notes).await.unwrap();
        for (id, tracked) in notes.0.into_inner().unwrap() {
            let op = &batch.actions.iter().find(|action| action.id == id).unwrap().op;
            self.rows.lock().unwrap().insert(op.id().clone(), tracked);
        }
        let mut of_template = None;
        for (id, outcome) in notes.1.into_inner().unwrap() {
            let id = batch.actions.iter().find(|action| action.id == id).unwrap().op.id().clone();
            self.pending.lock().unwrap().remove(&id);
            match &outcome {
                Outcome::Done(tracked) | Outcome::Partial(tracked, _) => {
                    self.rows.lock().unwrap().insert(id.clone(), tracked.clone());
                }
                Outcome::Pending { tracked, .. } => {
                    self.pending.lock().unwrap().insert(id.clone());
                    self.rows.lock().unwrap().insert(id.clone(), tracked.clone());
                }
                Outcome::Gone => drop(self.rows.lock().unwrap().remove(&id)),
                _ => {}
            }
            if *id.0 == *"web@.service" {
                of_template = Some(outcome);
            }
        }
        of_template
    }

    fn plan(&self, desired: &[Resource], seen: &Observation) -> Batch {
        let rows = self.rows.lock().unwrap().clone();
        let mut ops = Vec::new();
        for desired in desired.iter().filter(|desired| desired.spec.bytes().is_some()).cloned() {
            let (tracked, observed) = (rows.get(&desired.id).cloned(), seen.get(&desired.id).cloned());
            let is_pending = self.pending.lock().unwrap().contains(&desired.id);
            match (tracked, observed) {
                (Some(tracked), observed) if is_pending => {
                    ops.push(Op::Continue {
                        desired,
                        tracked: tracked.into(),
                        observed: observed.map(Into::into),
                        claims: Vec::new(),
                    });
                }
                (_, None) => ops.push(Op::Create { desired, delta: Default::default() }),
                (tracked, Some(observed)) if Some(&*observed.bytes) != desired.spec.bytes() => {
                    ops.push(Op::Update {
                        desired,
                        delta: Default::default(),
                        observed: observed.into(),
                        tracked: tracked.map(Box::new),
                    });
                }
                _ => {}
            }
        }
        for (id, row) in rows.into_iter().filter(|(id, _)| !desired.iter().any(|one| one.id == *id)) {
            match seen.get(&id).cloned() {
                Some(observed) => {
                    ops.push(Op::Delete { observed: observed.into(), tracked: Some(row.into()) })
                }
                None => drop(self.rows.lock().unwrap().remove(&id)),
            }
        }
        ops.retain(|op| !self.suspended.lock().unwrap().contains(op.id()));
        let action = |(i, op): (usize, Op)| Action { id: ActionId(i as u64), token: "t".into(), op };
        let actions = ops.into_iter().enumerate().map(action).collect();
        Batch { scope: Scope::new("host", "deployments"), base: Version::Unknown, actions }
    }

    /// Passes until nothing is on its way, each a second after the one before; what the last turn came to.
    pub(super) async fn until_still(&self, declared: &Deployment) -> Option<Outcome> {
        let mut last = None;
        for _ in 0..1_000 {
            match self.pass(declared).await {
                Some(outcome) => last = Some(outcome),
                None => return last,
            }
            if !matches!(last, Some(Outcome::Pending { .. })) && self.pending.lock().unwrap().is_empty() {
                return last;
            }
            self.clock.advance(Duration::from_secs(1));
        }
        panic!("it never ends: {:?}", self.memory())
    }

    pub(super) fn memory(&self) -> Memory {
        Memory::open(self.rows.lock().unwrap().get(&"web@.service".into()))
    }

    pub(super) fn says(&self, check: &str, says: Says) {
        self.state.lock().unwrap().says.insert(check.into(), says);
    }

    /// Jobs since the last time.
    pub(super) fn jobs(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().jobs)
    }

    /// The runs that units are in, by name.
    pub(super) fn runs(&self) -> Vec<(String, String)> {
        let state = self.state.lock().unwrap();
        state.units.iter().map(|(name, unit)| (name.clone(), unit.invocation.clone())).collect()
    }

    pub(super) fn running_units(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.units.iter().filter(|(_, unit)| unit.is_running()).map(|(name, _)| name.clone()).collect()
    }

    /// Files of units.
    pub(super) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path().join("root/etc/systemd/system")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The file of the balancer.
    pub(super) fn front(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("root/etc/front.conf")).unwrap()
    }
    /// Somebody writes it.
    pub(super) fn write_front(&self, text: &str) {
        std::fs::write(self.dir.path().join("root/etc/front.conf"), text).unwrap();
    }

    /// Somebody puts a link to it in its place.
    pub(super) fn link_front(&self) {
        let etc = self.dir.path().join("root/etc");
        std::fs::rename(etc.join("front.conf"), etc.join("aside")).unwrap();
        std::os::unix::fs::symlink("aside", etc.join("front.conf")).unwrap();
    }
    /// And takes that away again.
    pub(super) fn unlink_front(&self) {
        let etc = self.dir.path().join("root/etc");
        std::fs::rename(etc.join("aside"), etc.join("front.conf")).unwrap();
    }

    /// The most jobs that were under way at one time, since the last time.
    pub(super) fn most_jobs(&self) -> usize {
        std::mem::take(&mut self.state.lock().unwrap().under_way.1)
    }

    /// How the deployment fares.
    pub(super) async fn health(&self, declared: &Deployment) -> Health {
        self.health_of(declared, "web@.service").await
    }

    /// The same of one of its resources.
    pub(super) async fn health_of(&self, declared: &Deployment, id: &str) -> Health {
        let desired = self.desired(declared);
        let tracked: Vec<Tracked> = self.rows.lock().unwrap().values().cloned().collect();
        let scope = Scope::new("host", "deployments");
        let want =
            Want { scope: &scope, focus: &Focus::All, desired: &desired, tracked: &tracked, claims: &[] };
        let told = health(&self.cx(), self, self, &want, &BTreeMap::new()).await.unwrap();
        told.into_iter().find(|(told, _)| *told.0 == *id).unwrap().1
    }
}

/// Progress, and outcomes in the order they came.
#[derive(Default)]
struct Notes(Mutex<Vec<(ActionId, Tracked)>>, Mutex<Vec<(ActionId, Outcome)>>);

#[async_trait]
impl Journal for Notes {
    async fn started(&self, _: &[ActionId]) -> Result<(), Error> {
        Ok(())
    }
    async fn progress(&self, action: ActionId, tracked: Tracked) -> Result<(), Error> {
        self.0.lock().unwrap().push((action, tracked));
        Ok(())
    }
    async fn finished(&self, outcomes: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        self.1.lock().unwrap().extend(outcomes);
        Ok(())
    }
}

#[async_trait]
impl Hands for World {
    async fn look(&self, paths: &[FilePath]) -> Result<Vec<Seen>, Error> {
        self.here.look(paths).await
    }
    async fn list(&self, directory: &FilePath) -> Result<Vec<Seen>, Error> {
        self.here.list(directory).await
    }
    async fn list_all(&self) -> Result<Vec<Seen>, Error> {
        self.here.list_all().await
    }
    async fn put(&self, put: &Put) -> Result<(), Fault> {
        self.here.put(put).await
    }
    async fn remove(&self, remove: &Remove) -> Result<(), Fault> {
        self.here.remove(remove).await
    }
    async fn check(&self, check: &Check, asked: Asked<'_>) -> Result<(), Unwell> {
        let Check::Command(name) = check else { panic!("{check:?}") };
        let (says, takes) = {
            let state = self.state.lock().unwrap();
            let of_one = state.says.get(&format!("{name} {}", asked.instance));
            (of_one.or_else(|| state.says.get(name)).copied().unwrap_or(Says::Yes), state.takes)
        };
        self.clock.sleep(takes).await;
        match says {
            Says::Yes => Ok(()),
            Says::No => Err(Unwell::No(Error::unavailable(format!("{name} says no")))),
            Says::Nothing => Err(Unwell::NotAsked(Error::invalid(format!("there is no {name}")))),
        }
    }
    async fn watch(&self, _: &'static str, _: Watched) -> Result<(), Error> {
        Ok(())
    }
    fn changes(&self) -> BoxStream<'static, Vec<Change>> {
        Box::pin(stream::empty())
    }
}

#[async_trait]
impl Manager for World {
    async fn units(&self, names: &[String]) -> Result<Vec<UnitState>, Error> {
        let state = self.state.lock().unwrap();
        let one = |name: &String| {
            state.units.get(name).cloned().unwrap_or_else(|| UnitState {
                load: "loaded".into(),
                active: "inactive".into(),
                ..UnitState::default()
            })
        };
        Ok(names.iter().map(one).collect())
    }
    async fn triggers(&self, _: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
    async fn runs(&self, names: &[String]) -> Result<Vec<Run>, Error> {
        let began = self.state.lock().unwrap().began;
        Ok(names.iter().map(|_| Run { began, ..Run::default() }).collect())
    }
    async fn starts(&self, names: &[String]) -> Result<Vec<Start>, Error> {
        let start = self.state.lock().unwrap().start.clone();
        Ok(names.iter().map(|_| start.clone()).collect())
    }
    async fn link(&self, _: &str, _: Link) -> Result<(), Fault> {
        {
            let (now, most) = &mut self.state.lock().unwrap().linking;
            *now += 1;
            *most = (*most).max(*now);
        }
        tokio::task::yield_now().await;
        self.state.lock().unwrap().linking.0 -= 1;
        Ok(())
    }
    async fn reload(&self) -> Result<(), Fault> {
        let mut state = self.state.lock().unwrap();
        if let Some(unit) = state.begun_at_reload.take() {
            let unit = state.units.get_mut(unit).unwrap();
            (unit.active, unit.invocation) = ("active".into(), "of the old file".into());
        }
        Ok(())
    }
    async fn job(&self, name: &str, job: Job, of: &str) -> Result<(), Fault> {
        {
            let (now, most) = &mut self.state.lock().unwrap().under_way;
            *now += 1;
            *most = (*most).max(*now);
        }
        tokio::task::yield_now().await;
        let mut state = self.state.lock().unwrap();
        state.under_way.0 -= 1;
        if state.unreached == Some(name) {
            state.unreached = None;
            return Err(Error::unavailable("nobody is there").into());
        }
        if std::mem::take(&mut state.begins_by_itself)
            && let Some(unit) = state.units.get_mut(name)
        {
            unit.invocation += "'";
        }
        let now = state.units.get(name).map(|unit| unit.invocation.clone()).unwrap_or_default();
        if job != Job::Start && now != of {
            return Err(Error::conflict(format!("{name} is in the run `{now}`, and not in `{of}`")).into());
        }
        match (job, state.restarts) {
            (Job::Restart, Restarts::Refused) => {
                return Err(Error::invalid(format!("{name} may be requested by dependency only")).into());
            }
            (Job::Restart, Restarts::Lost) => {
                return Err(Fault::Unknown(Error::unavailable("nobody answers")));
            }
            _ => {}
        }
        state.jobs.push(format!("{} {name}", format!("{job:?}").to_lowercase()));
        if job == Job::Restart && state.restarts == Restarts::Slow {
            state.units.get_mut(name).unwrap().active = "deactivating".into();
            return Err(Fault::Unknown(Error::unavailable("the job ended with `timeout`")));
        }
        state.runs += 1;
        let active = match job {
            Job::Stop => "inactive",
            Job::Reload => return Ok(()),
            Job::Start | Job::Restart => state.starts_as.unwrap_or("active"),
        };
        let invocation = if job == Job::Stop { String::new() } else { state.runs.to_string() };
        let unit =
            UnitState { load: "loaded".into(), active: active.into(), invocation, ..UnitState::default() };
        state.units.insert(name.into(), unit);
        Ok(())
    }
    async fn reset_failed(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
    fn watch(&self, _: &'static str, _: BTreeSet<String>) {}
    fn changes(&self) -> BoxStream<'static, Option<String>> {
        Box::pin(stream::empty())
    }
    async fn verify(&self, units: &[Draft]) -> Vec<Result<(), Error>> {
        units.iter().map(|_| Ok(())).collect()
    }
    fn places(&self) -> &Places {
        &self.places
    }
}
