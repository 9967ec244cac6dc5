//! Single instances: kept running, and taken away.

use super::{
    jobs::Jobs,
    kind::{Declared, Instance},
    look::{Group, Looked, group},
    names::{instance, parts},
};
use crate::{
    hands::{Asked, Check, Fault, Hands, Job, Link, Manager, Start, Unwell},
    systemd::{RunState, files, observe::is_enabled},
};
use futures_util::future::join_all;
use reconciled_provider::{Action, Error, Health, Journal, Observed, Op, Outcome, Resource, Tracked};
use std::{collections::BTreeMap, time::Duration};

fn declared(resource: Option<&Resource>) -> Option<Instance> {
    match Declared::decode(resource?.spec.bytes()?)? {
        Declared::Instance(instance) => Some(instance),
        Declared::Deployment(_) => None,
    }
}

/// An instance as it is asked for; none where there is none.
pub(super) fn observed(
    number: u32,
    desired: Option<&Resource>,
    is_tracked: bool,
    group: &Group,
) -> Option<Observed> {
    let looked = group.members.get(&number)?;
    let has_file = !files::is_absent(&looked.file);
    let is_there = looked.state.is_running() || is_enabled(&looked.state, false) || has_file;
    // One that systemd passes over would be so again: it is not well, and there is nothing to put right.
    let is_as_wished = looked.state.is_running() || !looked.start.unmet.is_empty();
    let state = if is_as_wished { RunState::Running } else { RunState::Stopped };
    let declared = declared(desired);
    let enabled = declared.as_ref().map_or(Some(false), |declared| declared.enabled);
    let enabled = enabled.map(|wanted| is_enabled(&looked.state, wanted));
    let checks = declared.as_ref().map(|declared| declared.checks.clone()).unwrap_or_default();
    let closed = group.closed(Some(number));
    let seen = match declared {
        // Whether it is there, and whose it is, nobody can tell.
        _ if closed.is_some() => Instance { state, enabled, checks, closed },
        Some(_) if !is_there && !is_tracked => return None,
        // While a rolling update has a file there, it is in charge; and links would lead to that file.
        Some(declared) if has_file => declared,
        None if !is_there => return None,
        _ => Instance { state, enabled, checks, closed: None },
    };
    let id = instance(&group.name, number);
    Some(Observed::new(id.into(), Declared::Instance(seen).encode()))
}

/// How an instance fares, going by its unit and by what must answer of it.
pub(super) async fn fares(hands: &dyn Hands, number: u32, checks: &[Check], group: &Group) -> Health {
    let state = group.state(number).cloned().unwrap_or_default();
    if let Some(why) = group.passed_over(number) {
        return Health::Degraded { why };
    }
    let unit = crate::systemd::Unit { state: Some(RunState::Running), ..Default::default() };
    match crate::systemd::health::fares(&unit, &state, &Start::default()) {
        Health::Healthy => {}
        other => return other,
    }
    let name = instance(&group.name, number);
    let asked = Asked { unit: &name, instance: number };
    let answers = join_all(checks.iter().map(|check| hands.check(check, asked))).await;
    // One that says no counts for more than one that nobody can ask.
    let wrong = answers.into_iter().filter_map(Result::err);
    match wrong.min_by_key(|wrong| matches!(wrong, Unwell::NotAsked(_))) {
        Some(wrong) => Health::Degraded { why: wrong.error().chain() },
        None => Health::Healthy,
    }
}

/// An instance has nothing to be started from, since its template came to `error`.
pub(super) fn not_started(unit: &str, error: &Error) -> Error {
    let text = format!("{unit} is not started, for want of its template: {}", error.chain());
    let mut not_started = Error::new(error.kind, text);
    not_started.hint = error.hint.clone();
    not_started
}

/// How long a unit that is not there yet is waited for.
pub(super) const SOON: Duration = Duration::from_millis(500);

/// Carries out what is to be done to instances: links of all, one reload of the manager, then the jobs. Why templates
/// could not be written just now is in `unwritten`, by the name of the deployment.
///
/// Errors: those of the journal.
pub(super) async fn apply(
    hands: &dyn Hands,
    manager: &dyn Manager,
    jobs: &Jobs<'_>,
    journal: &dyn Journal,
    actions: &[&Action],
    unwritten: &BTreeMap<&str, Error>,
) -> Result<(), Error> {
    if actions.is_empty() {
        return Ok(());
    }
    let mut works = Vec::new();
    for action in actions {
        let mut work = Work::of(action);
        let looked = match work.look(hands, manager, unwritten).await {
            Ok(looked) => {
                if let (true, Some(begun)) = (work.is_new, work.tracked()) {
                    // From here on it is ours, also for whoever finds its link or its run after a death.
                    journal.progress(action.id, begun).await?;
                }
                Some(looked)
            }
            Err(fault) => {
                work.end = Some(fault);
                None
            }
        };
        works.push((work, looked));
    }
    // A stop may take minutes, so none waits for another.
    let stops = join_all(works.iter().map(async |(work, looked)| match looked {
        Some(looked) => work.stop(jobs, looked).await,
        None => Ok(()),
    }))
    .await;
    let mut is_changed = false;
    // systemd reads all its files for each link, so the last of hundreds asked for at once would have no answer in time.
    for ((work, looked), stopped) in works.iter_mut().zip(stops) {
        let Some(looked) = looked else { continue };
        let prepared = match stopped {
            Ok(()) => work.prepare(hands, manager, looked).await,
            Err(fault) => Err(fault),
        };
        match prepared {
            Ok(changed) => is_changed |= changed,
            Err(fault) => work.end = Some(fault),
        }
    }
    let mut works: Vec<Work<'_>> = works.into_iter().map(|(work, _)| work).collect();
    if is_changed && let Err(fault) = manager.reload().await {
        let (Fault::NoEffect(error) | Fault::Unknown(error)) = fault;
        let left = works.iter_mut().filter(|work| work.end.is_none());
        left.for_each(|work| work.end = Some(Fault::Unknown(error.clone())));
    }
    let outcomes = join_all(works.into_iter().map(async |mut work| {
        if work.end.is_none() {
            work.end = work.run(jobs).await.err();
        }
        let outcome = match (work.end.take(), work.tracked()) {
            // It may be linked, and it may run: it is remembered as ours.
            (Some(Fault::Unknown(error)), Some(tracked)) if work.is_new => Outcome::Partial(tracked, error),
            (Some(fault), _) => fault.into(),
            (None, Some(tracked)) => Outcome::Done(tracked),
            (None, None) => Outcome::Gone,
        };
        (work.action.id, outcome)
    }))
    .await;
    journal.finished(outcomes).await
}

struct Work<'a> {
    action: &'a Action,
    end: Option<Fault>,
    is_running: bool,
    /// Nothing is remembered of it, or only that it was begun.
    is_new: bool,
}

impl<'a> Work<'a> {
    fn of(action: &'a Action) -> Work<'a> {
        let is_new = match &action.op {
            Op::Create { .. } | Op::Continue { .. } => true,
            Op::Update { tracked, .. } | Op::Replace { tracked, .. } => tracked.is_none(),
            Op::Delete { .. } => false,
        };
        Work { action, end: None, is_running: false, is_new }
    }

    fn unit(&self) -> &str {
        &self.action.op.id().0
    }

    fn tracked(&self) -> Option<Tracked> {
        let desired = self.action.op.desired()?;
        Some(Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default()))
    }

    /// How it stands; an error where nothing can be done about it now.
    async fn look(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        unwritten: &BTreeMap<&str, Error>,
    ) -> Result<Looked, Fault> {
        let unexpected = || Error::unexpected(format!("{} is no instance", self.unit()));
        let Some((name, Some(number))) = parts(self.unit()) else { return Err(unexpected().into()) };
        let desired = self.action.op.desired();
        if desired.is_some() && declared(desired).is_none() {
            return Err(Error::invalid(format!("not all is known yet of {}", self.unit())).into());
        }
        let unwritten = unwritten.get(name);
        let mut group = group(hands, manager, name, &[number].into()).await?;
        if let Some(why) = group.closed(Some(number)) {
            return Err(Error::from(why).into());
        }
        let has_template = group.content().is_some();
        let looked = group.members.remove(&number).ok_or_else(unexpected)?;
        self.is_running = looked.state.is_running();
        if self.action.op.desired().is_some() && !has_template && files::is_absent(&looked.file) {
            if let Some(error) = unwritten {
                return Err(not_started(self.unit(), error).into());
            }
            let text = format!("start {}: its template is not there yet", self.unit());
            return Err(Error::unavailable(text).retry_after(SOON).into());
        }
        Ok(looked)
    }

    /// Ends the run of one that is declared no longer.
    async fn stop(&self, jobs: &Jobs<'_>, looked: &Looked) -> Result<(), Fault> {
        match self.is_running && self.action.op.desired().is_none() {
            true => jobs.job(self.unit(), Job::Stop, &looked.state.invocation).await,
            false => Ok(()),
        }
    }

    /// Links and files; true where the manager has to read them.
    async fn prepare(
        &self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        looked: &Looked,
    ) -> Result<bool, Fault> {
        match declared(self.action.op.desired()) {
            Some(declared) => {
                let has_file = !files::is_absent(&looked.file);
                let is_other = |wanted: &bool| !has_file && *wanted != is_enabled(&looked.state, *wanted);
                let Some(wanted) = declared.enabled.filter(is_other) else { return Ok(false) };
                manager.link(self.unit(), if wanted { Link::Enable } else { Link::Disable }).await?;
                Ok(true)
            }
            None => {
                let is_linked = is_enabled(&looked.state, false);
                if is_linked {
                    manager.link(self.unit(), Link::Disable).await?;
                }
                Ok(files::remove(hands, &looked.file).await? || is_linked)
            }
        }
    }

    async fn run(&self, jobs: &Jobs<'_>) -> Result<(), Fault> {
        match (self.action.op.desired(), self.is_running) {
            (None, _) => jobs.forget_failures(self.unit()).await,
            (Some(_), true) => Ok(()),
            (Some(_), false) => jobs.start(self.unit()).await,
        }
    }
}

/// True when an action is about an instance.
pub(super) fn is_about_one(op: &Op) -> bool {
    matches!(parts(&op.id().0), Some((_, Some(_))))
}
