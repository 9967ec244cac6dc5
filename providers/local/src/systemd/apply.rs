//! Carrying out a batch of units: files of all, links of all, one reload of the manager, then the jobs.
//!
//! In this order, and never "stop, write, start", but where `onChange: stop-start` asks for it: whatever starts a unit meanwhile
//! (a timer, a socket) would start the old one. A death in between leaves files that the running unit does not have, which the next look sees as stale: that the files
//! are ours, and as which files the unit runs, is remembered before the first of them is written. A failure keeps that, so that
//! what it wrote is taken away once it is no longer declared.

use super::{
    Places, definition,
    files::{is_absent, is_as_wanted, make_directory, make_way, remove, remove_directory, text, write},
    listen::listen,
    look::{self, Look},
    memory::Memory,
    observe, reads,
    unit::{OnChange, RunState, Then, Unit},
};
use crate::{
    apply::begin,
    hands::{Fault, Hands, Job, Link, Manager, Seen, What},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, Journal, Observed, Op, Outcome, Resource, ResourceId, Tracked,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Carries out a batch.
pub(crate) async fn apply(
    hands: &dyn Hands,
    manager: &dyn Manager,
    cx: &Cx,
    batch: &Batch,
    journal: &dyn Journal,
) -> Result<(), Error> {
    if !begin(cx, batch, journal).await? {
        return Ok(());
    }
    let mut works: Vec<Work<'_>> = Vec::new();
    for action in in_order(&batch.actions) {
        let mut work = Work::of(action);
        if cx.stop.is_set() {
            work.end = Some(stopped(work.name).into());
        } else if let Err(fault) = work.prepare(cx, hands, manager, journal).await? {
            work.end = Some(fault);
        }
        works.push(work);
    }
    if works.iter().any(|work| work.is_changed || work.is_unread)
        && let Err(error) = read_files(manager, &mut works).await
    {
        // The files are there: what was done to them is found by the next look.
        works
            .iter_mut()
            .filter(|work| work.end.is_none())
            .for_each(|work| work.end = Some(Fault::Unknown(error.clone())));
    }
    // A socket takes its services down and up with it: they run as their files are after that.
    let (sockets, mut others): (Vec<Work<'_>>, Vec<Work<'_>>) =
        works.into_iter().partition(|work| kind(work.name) == "socket");
    for socket in sockets {
        let (outcome, restarted) = socket.finish(hands, manager, cx).await;
        journal.finished(vec![outcome]).await?;
        let is_of_it = |work: &&mut Work<'_>| restarted.iter().any(|name| name == work.name);
        others.iter_mut().filter(is_of_it).for_each(|work| {
            (work.is_running, work.is_stale, work.due) = (true, false, None);
        });
    }
    // A job may take minutes, so none waits for another that systemd does not have it wait for.
    let (mut left, mut jobs) = (others.into_iter(), FuturesUnordered::new());
    loop {
        while let Some(work) = (jobs.len() < JOBS).then(|| left.next()).flatten() {
            jobs.push(work.finish(hands, manager, cx));
        }
        let Some((outcome, _)) = jobs.next().await else { return Ok(()) };
        journal.finished(vec![outcome]).await?;
    }
}

/// Has the manager read all files, and sees which runs the jobs are about: one that began before that has the old files,
/// whoever began it, and no later look would know.
async fn read_files(manager: &dyn Manager, works: &mut [Work<'_>]) -> Result<(), Error> {
    if let Err(Fault::NoEffect(error) | Fault::Unknown(error)) = manager.reload().await {
        return Err(error);
    }
    let names: Vec<String> = works.iter().map(|work| work.name.to_owned()).collect();
    for (work, state) in works.iter_mut().zip(manager.units(&names).await?) {
        (work.is_running, work.run) = (state.is_running(), state.invocation);
    }
    Ok(())
}

/// Jobs that are waited for at one time.
const JOBS: usize = 16;
/// How often a unit that is coming up is looked at.
const STARTING: Duration = Duration::from_secs(1);
/// Longest wait before a unit is started once more that ended again and again before it was up.
const LONGEST: Duration = Duration::from_secs(300);

/// This process was told to end before it came to this.
fn stopped(name: &str) -> Error {
    Error::unavailable(format!("{name} was left as it is: this process ends")).hint("the next one goes on")
}

/// One action on its way.
struct Work<'a> {
    action: &'a Action,
    name: &'a str,
    desired: Option<&'a Resource>,
    unit: Option<Unit>,
    planned: Option<&'a Observed>,
    memory: Option<Memory>,
    /// The row that the plan was made from.
    row: Option<&'a Tracked>,
    /// What was put down before the first file was written.
    begun: Option<Tracked>,
    /// What it was found as.
    before: Memory,
    /// Something was written, and the manager has to read it.
    is_changed: bool,
    /// Somebody else wrote what the manager has not read.
    is_unread: bool,
    /// It runs as other files say.
    is_stale: bool,
    /// That is about nothing but what is taken over while it runs.
    is_taken_over: bool,
    /// It was stopped for its change, and is to be started whatever is declared of its state.
    is_stopped: bool,
    /// What files mean that it has not read.
    due: Option<Then>,
    /// What is in those that it reads, as looked at before the job.
    read: BTreeMap<String, String>,
    is_running: bool,
    /// The run that it was found in.
    run: String,
    /// Paths of what the plan says that differs, the drop-ins of others that go among them: what is to be ignored is in none,
    /// and what came since is in the next one.
    strays: BTreeSet<String>,
    end: Option<Fault>,
}

impl<'a> Work<'a> {
    fn of(action: &'a Action) -> Work<'a> {
        let (desired, planned, tracked) = match &action.op {
            Op::Create { desired, .. } => (Some(desired), None, None),
            Op::Update { desired, observed, tracked, .. }
            | Op::Replace { desired, observed, tracked, .. } => {
                (Some(desired), Some(&**observed), tracked.as_deref())
            }
            Op::Delete { observed, tracked } => (None, Some(&**observed), tracked.as_deref()),
            Op::Continue { desired, tracked, .. } => (Some(desired), None, Some(&**tracked)),
        };
        Work {
            action,
            name: &action.op.id().0,
            desired,
            unit: desired.and_then(|desired| Unit::decode(desired.spec.bytes()?)),
            planned,
            memory: Memory::open(tracked),
            row: tracked,
            begun: None,
            before: Memory::default(),
            is_changed: false,
            is_unread: false,
            is_stale: false,
            is_taken_over: false,
            is_stopped: false,
            due: None,
            read: BTreeMap::new(),
            is_running: false,
            run: String::new(),
            strays: planned_fields(&action.op),
            end: None,
        }
    }

    fn id(&self) -> &ResourceId {
        self.action.op.id()
    }

    async fn look(&self, hands: &dyn Hands, manager: &dyn Manager) -> Result<Look, Error> {
        let state = manager.units(&[self.name.to_owned()]).await?.pop().unwrap_or_default();
        look::look(hands, manager, state, self.name, self.unit.as_ref(), self.memory.as_ref()).await
    }

    /// Files and links. What is there must be what the plan was made from, or what is wanted already. The outer error is
    /// the journal's.
    async fn prepare(
        &mut self,
        cx: &Cx,
        hands: &dyn Hands,
        manager: &dyn Manager,
        journal: &dyn Journal,
    ) -> Result<Result<(), Fault>, Error> {
        let look = match self.seen_as_planned(cx, hands, manager).await {
            Ok(look) => look,
            Err(error) => return Ok(Err(error.into())),
        };
        if let Some(unit) = self.unit.clone() {
            self.compare(&unit, &look);
        }
        if self.row.is_none() || self.is_to_write(&look) || self.is_to_stop() {
            // From here on it is ours with its files, and runs as it does now, also for whoever finds it after a death.
            self.begun = self.tracked(&self.begins());
            if let Some(begun) = self.begun.clone() {
                journal.progress(self.action.id, begun).await?;
            }
        }
        Ok(self.write(hands, manager, &look).await)
    }

    /// Looks, and finds what the plan was made from.
    async fn seen_as_planned(
        &mut self,
        cx: &Cx,
        hands: &dyn Hands,
        manager: &dyn Manager,
    ) -> Result<Look, Error> {
        if self.desired.is_some() && self.unit.is_none() {
            return Err(Error::invalid(format!("not all is known yet of {}", self.name)));
        }
        let look = self.look(hands, manager).await?;
        let now = observe::observed(cx, self.id(), self.desired, self.memory.as_ref(), &look);
        if let Some(why) = now.as_ref().and_then(|now| Unit::decode(&now.bytes)?.refused) {
            return Err(why.into());
        }
        let is_done = match (self.desired, &now) {
            (Some(desired), Some(now)) => desired.spec.hash() == Some(now.hash),
            (None, None) => true,
            _ => false,
        };
        // What was begun is gone on with from wherever it stands.
        let is_begun = matches!(self.action.op, Op::Continue { .. });
        let is_planned = now.as_ref().map(|now| now.hash) == self.planned.map(|planned| planned.hash);
        if !is_done && !is_begun && !is_planned {
            return Err(Error::conflict(format!("{} changed since it was looked at", self.name)));
        }
        (self.is_running, self.is_unread) = (look.state.is_running(), look.state.needs_reload);
        self.run.clone_from(&look.state.invocation);
        let of_this_run = self.memory.as_ref().filter(|memory| memory.invocation == look.state.invocation);
        // A run that somebody else began is of the files as systemd has read them: those in place, or else the last known.
        let started_with = of_this_run.or(self.memory.as_ref().filter(|_| look.state.needs_reload));
        let effective = started_with.map_or_else(|| look.effective(), |memory| memory.effective.clone());
        // A row of an earlier version does not have it: then it is known where the files are those of the run.
        let fixed = match started_with {
            Some(memory) if memory.fixed.is_empty() && memory.effective != look.effective() => String::new(),
            Some(memory) if !memory.fixed.is_empty() => memory.fixed.clone(),
            _ => look.fixed(),
        };
        // Before its job it has read what the present run is known to have read.
        let read = of_this_run.map(|memory| memory.read.clone()).unwrap_or_default();
        self.read = reads::marks(cx, &look);
        if let Some(unit) = &self.unit {
            self.due = reads::due(&reads::seen(cx, unit, self.memory.as_ref(), &look));
        }
        self.before = Memory { effective, fixed, read, ..observe::remembered(cx, self.unit.as_ref(), &look) };
        Ok(look)
    }

    /// True where its files are not as declared.
    fn is_to_write(&self, look: &Look) -> bool {
        let Some(unit) = &self.unit else { return false };
        let is_left =
            self.memory.as_ref().is_some_and(|memory| memory.fragment) && !is_absent(&look.fragment);
        let of_fragment = unit
            .content
            .as_ref()
            .map_or(is_left, |content| !is_as_wanted(&look.fragment, content, &unit.beside));
        of_fragment
            || self.strays(look).next().is_some()
            || look.drop_ins.iter().any(|(name, seen)| match unit.drop_ins.get(name) {
                Some(content) => !is_as_wanted(seen, content, &unit.beside),
                None => !is_absent(seen),
            })
    }

    /// The drop-ins of others that go.
    fn strays<'l>(&self, look: &'l Look) -> impl Iterator<Item = &'l Seen> {
        look.beside.iter().filter(|seen| self.strays.contains(seen.path.as_str()))
    }

    /// What is remembered while its files are written: any that was ours or shall be may be there, and it runs as it did.
    fn begins(&self) -> Memory {
        let mut begins = self.before.clone();
        if let Some(had) = &self.memory {
            begins.fragment |= had.fragment;
            begins.drop_ins.extend(had.drop_ins.iter().cloned());
        }
        // Also by whoever died in between.
        begins.is_stopped = self.is_to_stop() || self.was_stopped();
        begins
    }

    /// Whether it runs as what will be in place says.
    fn compare(&mut self, unit: &Unit, look: &Look) {
        // What stays of others means something as well, or each write of ours were a reason to restart.
        let beside = look.beside.iter().filter(|seen| !self.strays.contains(seen.path.as_str()));
        let kept: Vec<String> = beside.filter_map(text).collect();
        let texts = || unit.content.iter().chain(unit.drop_ins.values()).chain(&kept).map(String::as_str);
        self.is_stale = self.before.effective != definition::effective(texts());
        self.is_taken_over = self.before.fixed == definition::fixed(texts());
    }

    /// True where it is to be stopped before its files change.
    fn is_to_stop(&self) -> bool {
        let is_asked = self.unit.as_ref().is_some_and(|unit| unit.on_change == OnChange::StopStart);
        is_asked && self.is_running && self.job(OnChange::StopStart) == Some(Job::Restart)
    }

    /// True where whoever was at it before stopped it for that.
    fn was_stopped(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.is_stopped)
    }

    async fn write(&mut self, hands: &dyn Hands, manager: &dyn Manager, look: &Look) -> Result<(), Fault> {
        match self.unit.clone() {
            Some(unit) => {
                if self.is_to_stop() {
                    // As it was started: what ends it may be another command from then on.
                    manager.job(self.name, Job::Stop, &self.run).await?;
                    (self.is_running, self.is_stopped) = (false, true);
                }
                let written = match self.write_files(hands, manager.places(), &unit, look).await {
                    Ok(()) => self.set_links(manager, &unit, look).await,
                    failed => failed,
                };
                // It goes on as it was: systemd has not read anew yet, and a person may be needed for what went wrong.
                if written.is_err() && self.is_stopped {
                    let is_started = manager.job(self.name, Job::Start, "").await.is_ok();
                    (self.is_running, self.is_stopped) = (is_started, !is_started);
                }
                written
            }
            None => self.take_away(hands, manager, look).await,
        }
    }

    async fn write_files(
        &mut self,
        hands: &dyn Hands,
        places: &Places,
        unit: &Unit,
        look: &Look,
    ) -> Result<(), Fault> {
        if let Some(content) = &unit.content {
            self.is_changed |= write(hands, places, &look.fragment, content, &unit.beside).await?;
        } else if self.memory.as_ref().is_some_and(|memory| memory.fragment)
            && matches!(look.fragment.what, What::File { .. })
        {
            // It is no longer declared, and would be in the way of a mask.
            self.is_changed |= remove(hands, &look.fragment).await?;
        }
        if unit.drop_ins.keys().any(|name| look.drop_ins.get(name).is_some_and(is_absent)) {
            make_way(hands, places, &places.drop_in_directory(self.name)?).await?;
            make_directory(hands, places.drop_in_directory(self.name)?).await?;
        }
        for (name, seen) in &look.drop_ins {
            match unit.drop_ins.get(name) {
                Some(content) => self.is_changed |= write(hands, places, seen, content, &unit.beside).await?,
                None => self.is_changed |= remove(hands, seen).await?,
            }
        }
        let strays: Vec<&Seen> = self.strays(look).collect();
        for seen in strays {
            self.is_changed |= remove(hands, seen).await?;
        }
        if unit.drop_ins.is_empty() && !look.drop_ins.is_empty() {
            remove_directory(hands, places.drop_in_directory(self.name)?).await?;
        }
        Ok(())
    }

    async fn set_links(&mut self, manager: &dyn Manager, unit: &Unit, look: &Look) -> Result<(), Fault> {
        let is_masked = look.state.file.starts_with("masked");
        let mask = unit.masked.filter(|wanted| *wanted != is_masked);
        let mask = mask.map(|mask| if mask { Link::Mask } else { Link::Unmask });
        let is_enabled = |wanted| observe::counts_as_enabled(unit, &look.state, wanted);
        let enable = unit.enabled.filter(|wanted| *wanted != is_enabled(*wanted));
        let enable = enable.map(|enable| if enable { Link::Enable } else { Link::Disable });
        for link in mask.into_iter().chain(enable) {
            manager.link(self.name, link).await?;
            self.is_changed = true;
        }
        Ok(())
    }

    /// What is ours of a unit that is no longer declared goes; a unit whose file is ours is stopped first.
    async fn take_away(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        look: &Look,
    ) -> Result<(), Fault> {
        let memory = self.memory.clone().unwrap_or_default();
        if memory.fragment && !is_absent(&look.fragment) {
            if self.is_running {
                manager.job(self.name, Job::Stop, &self.run).await?;
            }
            if observe::is_enabled(&look.state, false) {
                manager.link(self.name, Link::Disable).await?;
            }
            self.is_changed |= remove(hands, &look.fragment).await?;
        }
        for (_, seen) in look.drop_ins.iter().filter(|(name, _)| memory.drop_ins.contains(*name)) {
            self.is_changed |= remove(hands, seen).await?;
        }
        if !memory.drop_ins.is_empty() {
            remove_directory(hands, manager.places().drop_in_directory(self.name)?).await?;
        }
        Ok(())
    }

    /// What runs is brought to what is declared; returns the services that were stopped and started for that.
    async fn run(&self, manager: &dyn Manager) -> Result<Vec<String>, Fault> {
        let Some(unit) = &self.unit else {
            if self.memory.as_ref().is_some_and(|memory| memory.fragment) {
                manager.reset_failed(self.name).await?;
            }
            return Ok(Vec::new());
        };
        let job = match (unit.state, self.is_running) {
            (Some(RunState::Stopped), true) => Some(Job::Stop),
            (state, false)
                if state == Some(RunState::Running)
                    || state.is_none() && (self.is_stopped || self.was_stopped()) =>
            {
                // What failed too often within its limit would not be started.
                manager.reset_failed(self.name).await?;
                Some(Job::Start)
            }
            (_, true) => self.job(unit.on_change),
            _ => None,
        };
        match job {
            Some(job @ (Job::Start | Job::Restart)) if kind(self.name) == "socket" => {
                listen(manager, self.name, job, &self.run).await
            }
            Some(job) => manager.job(self.name, job, &self.run).await.map(|()| Vec::new()),
            None => Ok(Vec::new()),
        }
    }

    /// What is to be done to what runs, so that it runs as its files are.
    fn job(&self, on_change: OnChange) -> Option<Job> {
        let of_its_files = match (on_change, kind(self.name)) {
            _ if !self.is_stale => None,
            // systemd takes these over from the files while they are active.
            (OnChange::None, _) | (_, "target" | "slice" | "path") => None,
            (OnChange::Reload, "service") => Some(Then::Reload),
            // With the files that systemd has read by now.
            (_, "service") if self.is_taken_over => None,
            (_, "mount") if self.is_taken_over => Some(Then::Reload),
            _ => Some(Then::Restart),
        };
        of_its_files.max(self.due).map(|then| match then {
            Then::Reload => Job::Reload,
            Then::Restart => Job::Restart,
        })
    }

    /// The job, and how it all ended.
    async fn finish(
        mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        cx: &Cx,
    ) -> ((ActionId, Outcome), Vec<String>) {
        let mut restarted = Vec::new();
        if self.end.is_none() && self.came_to_nothing() {
            let early = self.early() + 1;
            let wait = STARTING * 2_u32.saturating_pow(early.min(8));
            let text = format!("start {}: it ended before it was up", self.name);
            let error = Error::unavailable(text)
                .retry_after(wait.min(LONGEST))
                .hint(format!("systemctl status {0}; journalctl -u {0}", self.name));
            let outcome = match self.tracked(&Memory { early, ..self.before.clone() }) {
                Some(tracked) => Outcome::Partial(tracked, error),
                None => Outcome::Unknown(error),
            };
            return ((self.action.id, outcome), restarted);
        }
        if self.end.is_none() {
            let ended = match cx.stop.is_set() {
                true => Err(Fault::Unknown(stopped(self.name))),
                false => self.run(manager).await,
            };
            match ended {
                Ok(names) => restarted = names,
                Err(fault) => self.end = Some(fault),
            }
        }
        let outcome = match self.end.take() {
            Some(fault) => self.failed(fault),
            None => match self.ended(cx, hands, manager).await {
                Ok(outcome) => outcome,
                Err(error) => self.failed(Fault::Unknown(error)),
            },
        };
        ((self.action.id, outcome), restarted)
    }

    /// True where all that was left of what was begun was that it comes up, and it does not run any more. To start it again is
    /// for a pass of its own, which may wait before that.
    fn came_to_nothing(&self) -> bool {
        let memory = self.memory.as_ref().filter(|memory| memory.is_starting);
        // systemd may have started it again by itself, or be about to.
        let has_ended = memory.is_some_and(|memory| !self.is_running || memory.invocation != self.run);
        matches!(self.action.op, Op::Continue { .. }) && has_ended && !self.is_changed
    }

    fn early(&self) -> u32 {
        self.memory.as_ref().map_or(0, |memory| memory.early)
    }

    /// What is remembered of a failure: files that were written are ours, and run as they did before.
    fn failed(&self, fault: Fault) -> Outcome {
        let is_begun = matches!(self.action.op, Op::Continue { .. });
        match (&self.begun, self.row, fault) {
            // Nobody else would know that it is to be started.
            (Some(begun), _, Fault::NoEffect(error) | Fault::Unknown(error)) if self.is_stopped => {
                Outcome::Partial(begun.clone(), error)
            }
            // What was begun stays begun: only its first pass knew what for, and it is finished whatever is said of drift.
            (_, _, Fault::NoEffect(error) | Fault::Unknown(error)) if is_begun && self.is_changed => {
                Outcome::Unknown(error)
            }
            (Some(begun), _, Fault::NoEffect(error) | Fault::Unknown(error)) if self.is_changed => {
                Outcome::Partial(begun.clone(), error)
            }
            (Some(_), Some(row), Fault::NoEffect(error)) if !is_begun => Outcome::Back(row.clone(), error),
            (_, _, fault) => fault.into(),
        }
    }

    fn tracked(&self, memory: &Memory) -> Option<Tracked> {
        let desired = self.desired?;
        let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
        tracked.private = memory.seal();
        tracked.outputs = self.row.map(|row| row.outputs.clone()).unwrap_or_default();
        Some(tracked)
    }

    /// The outcome, from how it stands now.
    async fn ended(&self, cx: &Cx, hands: &dyn Hands, manager: &dyn Manager) -> Result<Outcome, Error> {
        let look = self.look(hands, manager).await?;
        // What changed while the job went on is not known to have been read.
        let read = self.read.clone();
        let is_to_run = self.unit.as_ref().is_some_and(|unit| unit.state == Some(RunState::Running));
        let is_starting = is_to_run && look.state.active == "activating" && look.state.sub != "auto-restart";
        let early = if look.state.active == "active" { 0 } else { self.early() };
        let memory = observe::remembered(cx, self.unit.as_ref(), &look);
        Ok(match self.tracked(&Memory { read, is_starting, early, ..memory }) {
            // It may take as long as it is allowed to; others of the host do not wait for it.
            Some(tracked) if is_starting => {
                Outcome::Pending { tracked, recheck_after: STARTING, claims: Vec::new() }
            }
            Some(tracked) => Outcome::Done(tracked),
            None => Outcome::Gone,
        })
    }
}

/// Actions in the order in which they are begun: what starts others goes before these do, or a connection in between would start
/// what has no file any longer.
fn in_order(actions: &[Action]) -> Vec<&Action> {
    let mut ordered: Vec<&Action> = actions.iter().collect();
    let starts = |name: &str| matches!(kind(name), "socket" | "timer" | "path");
    ordered.sort_by_key(|action| !(matches!(action.op, Op::Delete { .. }) && starts(&action.op.id().0)));
    ordered
}

/// The type of a unit, from its name.
fn kind(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, kind)| kind)
}

/// Paths of the fields that a plan says differ.
pub(crate) fn planned_fields(op: &Op) -> BTreeSet<String> {
    match op {
        Op::Update { delta, .. } | Op::Replace { delta, .. } => {
            delta.fields.iter().map(|field| field.path.to_string()).collect()
        }
        // What was begun goes on without: the next plan names what is left.
        Op::Create { .. } | Op::Continue { .. } | Op::Delete { .. } => BTreeSet::new(),
    }
}
