//! Carrying out a batch of units: files of all, links of all, one reload of the manager, then the jobs.
//!
//! In this order, and never "stop, write, start": whatever starts a unit meanwhile (a timer, a socket) would start the old
//! one. A death in between leaves files that the running unit does not have, which the next look sees as stale; that the files
//! are ours is remembered before the first of them is written.

use super::{
    observe::{self, Look, Memory},
    unit::{OnChange, RunState, Unit},
};
use crate::{
    apply::begin,
    hands::{Fault, Hands, Job, Link, Make, Manager, Put, Remove, Seen, What},
    path::FilePath,
    state::Access,
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use reconciled_provider::{
    Action, ActionId, Batch, Cx, Error, Journal, Observed, Op, Outcome, Resource, ResourceId, Secret, Tracked,
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
    for action in &batch.actions {
        let mut work = Work::of(action);
        if cx.stop.is_set() {
            work.end = Some(stopped(work.name).into());
        } else if let Err(fault) = work.prepare(cx, hands, manager, journal).await? {
            work.end = Some(fault);
        }
        works.push(work);
    }
    if works.iter().any(|work| work.is_changed)
        && let Err(fault) = manager.reload().await
    {
        // The files are there: what was done to them is found by the next look.
        let error = match fault {
            Fault::NoEffect(error) | Fault::Unknown(error) => error,
        };
        works
            .iter_mut()
            .filter(|work| work.end.is_none())
            .for_each(|work| work.end = Some(Fault::Unknown(error.clone())));
    }
    // A job may take minutes, so none waits for another that systemd does not have it wait for.
    let (mut left, mut jobs) = (works.into_iter(), FuturesUnordered::new());
    loop {
        while let Some(work) = (jobs.len() < JOBS).then(|| left.next()).flatten() {
            jobs.push(work.finish(hands, manager, cx));
        }
        let Some(outcome) = jobs.next().await else { return Ok(()) };
        journal.finished(vec![outcome]).await?;
    }
}

/// Jobs that are waited for at one time.
const JOBS: usize = 16;

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
    /// Nothing is remembered of it, or only that it was begun: what is written has to be remembered even where it fails.
    is_new: bool,
    /// What it was found as.
    before: Memory,
    /// Something was written that the manager has to read.
    is_changed: bool,
    /// It runs as other files say.
    is_stale: bool,
    is_running: bool,
    end: Option<Fault>,
}

impl<'a> Work<'a> {
    fn of(action: &'a Action) -> Work<'a> {
        let (desired, planned, tracked) = match &action.op {
            Op::Create { desired, .. } => (Some(desired), None, None),
            Op::Update { desired, observed, tracked, .. }
            | Op::Replace { desired, observed, tracked, .. } => {
                (Some(desired), Some(observed), tracked.as_ref())
            }
            Op::Delete { observed, tracked } => (None, Some(observed), tracked.as_ref()),
            Op::Continue { desired, tracked, .. } => (Some(desired), None, Some(tracked)),
        };
        Work {
            action,
            name: &action.op.id().0,
            desired,
            unit: desired.and_then(|desired| Unit::decode(desired.spec.bytes()?)),
            planned,
            memory: Memory::open(tracked),
            is_new: tracked.is_none() || matches!(action.op, Op::Continue { .. }),
            before: Memory::default(),
            is_changed: false,
            is_stale: false,
            is_running: false,
            end: None,
        }
    }

    fn id(&self) -> &ResourceId {
        self.action.op.id()
    }

    async fn look(&self, hands: &dyn Hands, manager: &dyn Manager) -> Result<Look, Error> {
        let state = manager.units(&[self.name.to_owned()]).await?.pop().unwrap_or_default();
        observe::look(hands, state, self.name, self.unit.as_ref(), self.memory.as_ref()).await
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
        if let (true, Some(begun)) = (self.is_new, self.tracked(&self.before)) {
            // From here on its files are ours, also for whoever finds them after a death.
            journal.progress(self.action.id, begun).await?;
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
        (self.is_running, self.is_changed) = (look.state.is_running(), look.state.needs_reload);
        let started_with = self.memory.as_ref().filter(|memory| memory.invocation == look.state.invocation);
        let effective = started_with.map_or_else(|| look.effective(), |memory| memory.effective.clone());
        self.before = Memory { effective, ..observe::remembered(self.unit.as_ref(), &look) };
        Ok(look)
    }

    async fn write(&mut self, hands: &dyn Hands, manager: &dyn Manager, look: &Look) -> Result<(), Fault> {
        match self.unit.clone() {
            Some(unit) => {
                self.write_files(hands, &unit, look).await?;
                let texts = unit.content.iter().chain(unit.drop_ins.values()).map(String::as_str);
                self.is_stale = self.before.effective != super::definition::effective(texts);
                self.set_links(manager, &unit, look).await
            }
            None => self.take_away(hands, manager, look).await,
        }
    }

    async fn write_files(&mut self, hands: &dyn Hands, unit: &Unit, look: &Look) -> Result<(), Fault> {
        if let Some(content) = &unit.content {
            self.is_changed |= write(hands, &look.fragment, content).await?;
        } else if self.memory.as_ref().is_some_and(|memory| memory.fragment)
            && matches!(look.fragment.what, What::File { .. })
        {
            // It is no longer declared, and would be in the way of a mask.
            self.is_changed |= remove(hands, &look.fragment).await?;
        }
        if unit.drop_ins.keys().any(|name| look.drop_ins.get(name).is_some_and(is_absent)) {
            make_directory(hands, observe::drop_in_directory(self.name)?).await?;
        }
        for (name, seen) in &look.drop_ins {
            match unit.drop_ins.get(name) {
                Some(content) => self.is_changed |= write(hands, seen, content).await?,
                None => self.is_changed |= remove(hands, seen).await?,
            }
        }
        for seen in &look.properties {
            self.is_changed |= remove(hands, seen).await?;
        }
        Ok(())
    }

    async fn set_links(&mut self, manager: &dyn Manager, unit: &Unit, look: &Look) -> Result<(), Fault> {
        let is_masked = look.state.file.starts_with("masked");
        let mask = unit.masked.filter(|wanted| *wanted != is_masked);
        let mask = mask.map(|mask| if mask { Link::Mask } else { Link::Unmask });
        let enable = unit.enabled.filter(|wanted| *wanted != observe::is_enabled(&look.state, *wanted));
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
                manager.job(self.name, Job::Stop).await?;
            }
            if observe::is_enabled(&look.state, false) {
                manager.link(self.name, Link::Disable).await?;
            }
            self.is_changed |= remove(hands, &look.fragment).await?;
        }
        for (_, seen) in look.drop_ins.iter().filter(|(name, _)| memory.drop_ins.contains(*name)) {
            self.is_changed |= remove(hands, seen).await?;
        }
        Ok(())
    }

    /// What runs is brought to what is declared.
    async fn run(&self, manager: &dyn Manager) -> Result<(), Fault> {
        let Some(unit) = &self.unit else {
            return match self.memory.as_ref().is_some_and(|memory| memory.fragment) {
                true => manager.reset_failed(self.name).await,
                false => Ok(()),
            };
        };
        match (unit.state, self.is_running) {
            (Some(RunState::Stopped), true) => manager.job(self.name, Job::Stop).await,
            (Some(RunState::Running), false) => {
                // What failed too often within its limit would not be started.
                manager.reset_failed(self.name).await?;
                manager.job(self.name, Job::Start).await
            }
            (_, true) if self.is_stale => match (unit.on_change, kind(self.name)) {
                // systemd takes these over from the files while they are active.
                (OnChange::None, _) | (_, "target" | "slice" | "path") => Ok(()),
                (OnChange::Reload, "service") => manager.job(self.name, Job::Reload).await,
                _ => manager.job(self.name, Job::Restart).await,
            },
            _ => Ok(()),
        }
    }

    /// The job, and how it all ended.
    async fn finish(mut self, hands: &dyn Hands, manager: &dyn Manager, cx: &Cx) -> (ActionId, Outcome) {
        if self.end.is_none() {
            self.end = match cx.stop.is_set() {
                true => Some(Fault::Unknown(stopped(self.name))),
                false => self.run(manager).await.err(),
            };
        }
        let outcome = match self.end.take() {
            Some(fault) => self.failed(fault),
            None => match self.ended(hands, manager).await {
                Ok(outcome) => outcome,
                Err(error) => self.failed(Fault::Unknown(error)),
            },
        };
        (self.action.id, outcome)
    }

    /// What is remembered of a failure: files that were written are ours, and run as they did before.
    fn failed(&self, fault: Fault) -> Outcome {
        let written = self.tracked(&self.before).filter(|_| self.is_new && self.is_changed);
        match (written, fault) {
            (Some(tracked), Fault::NoEffect(error) | Fault::Unknown(error)) => {
                Outcome::Partial(tracked, error)
            }
            (None, fault) => fault.into(),
        }
    }

    fn tracked(&self, memory: &Memory) -> Option<Tracked> {
        let desired = self.desired?;
        let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
        tracked.private = memory.seal();
        Some(tracked)
    }

    /// The outcome, from how it stands now.
    async fn ended(&self, hands: &dyn Hands, manager: &dyn Manager) -> Result<Outcome, Error> {
        let look = self.look(hands, manager).await?;
        let tracked = self.tracked(&observe::remembered(self.unit.as_ref(), &look));
        Ok(tracked.map_or(Outcome::Gone, Outcome::Done))
    }
}

/// The type of a unit, from its name.
fn kind(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, kind)| kind)
}

pub(crate) fn is_absent(seen: &Seen) -> bool {
    matches!(seen.what, What::Absent)
}

/// Writes a file; false where it is as wanted already.
pub(crate) async fn write(hands: &dyn Hands, seen: &Seen, content: &str) -> Result<bool, Fault> {
    if let What::File { content: is, .. } = &seen.what
        && is.reveal() == content.as_bytes()
    {
        return Ok(false);
    }
    let access = Access { owner: None, group: None, mode: 0o644 };
    let content = Secret::new(content.as_bytes().to_vec());
    let make = Make::File { access, content, validate: None, is_public: true };
    let keep = !is_absent(seen);
    hands.put(&Put { path: seen.path.clone(), expect: seen.stamp(), make, keep }).await?;
    Ok(true)
}

/// Removes a file; false where there is none.
pub(crate) async fn remove(hands: &dyn Hands, seen: &Seen) -> Result<bool, Fault> {
    if is_absent(seen) {
        return Ok(false);
    }
    hands.remove(&Remove { path: seen.path.clone(), expect: seen.stamp(), keep: true }).await?;
    Ok(true)
}

async fn make_directory(hands: &dyn Hands, path: FilePath) -> Result<(), Fault> {
    let seen = hands.look(std::slice::from_ref(&path)).await?.pop();
    let Some(seen) = seen.filter(is_absent) else { return Ok(()) };
    let make = Make::Directory { access: Access { owner: None, group: None, mode: 0o755 } };
    hands.put(&Put { path, expect: seen.stamp(), make, keep: false }).await
}
