//! Single instances: kept running, and taken away.

use super::{
    instance,
    kind::{Declared, Instance},
    look::{Group, group},
    parts,
};
use crate::{
    hands::{Asked, Fault, Hands, Job, Link, Manager, UnitState, What},
    systemd::{RunState, apply as units},
};
use futures_util::future::join_all;
use reconciled_provider::{Action, Error, Health, Observed, Op, Outcome, Resource, Tracked};
use std::time::Duration;

fn is_enabled(state: &UnitState) -> bool {
    matches!(&*state.file, "enabled" | "enabled-runtime")
}

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
    let has_file = !matches!(looked.file.what, What::Absent);
    let is_there = looked.state.is_running() || is_enabled(&looked.state) || has_file;
    let state = if looked.state.is_running() { RunState::Running } else { RunState::Stopped };
    let seen = match declared(desired) {
        Some(_) if !is_there && !is_tracked => return None,
        // While a rolling update has a file there, it is in charge; and links would lead to that file.
        Some(declared) if has_file => declared,
        Some(declared) => Instance {
            state,
            enabled: declared.enabled.map(|_| is_enabled(&looked.state)),
            checks: declared.checks,
        },
        None if !is_there => return None,
        None => Instance { state, enabled: Some(is_enabled(&looked.state)), checks: Vec::new() },
    };
    let id = instance(&group.name, number);
    Some(Observed::new(id.into(), Declared::Instance(seen).encode()))
}

/// How an instance fares.
pub(super) async fn fares(hands: &dyn Hands, number: u32, desired: &Resource, group: &Group) -> Health {
    let state = group.state(number).cloned().unwrap_or_default();
    let unit = crate::systemd::Unit { state: Some(RunState::Running), ..Default::default() };
    match crate::systemd::observe::fares(&unit, &state) {
        Health::Healthy => {}
        other => return other,
    }
    let name = instance(&group.name, number);
    let asked = Asked { unit: &name, instance: number };
    let checks = declared(Some(desired)).map(|declared| declared.checks).unwrap_or_default();
    let answers = join_all(checks.iter().map(|check| hands.check(check, asked))).await;
    match answers.into_iter().find_map(Result::err) {
        Some(error) => Health::Degraded { why: error.chain() },
        None => Health::Healthy,
    }
}

/// How long a unit that is not there yet is waited for.
pub(super) const SOON: Duration = Duration::from_millis(500);

/// Carries out what is to be done to instances: links of all, one reload of the manager, then the jobs, at once.
pub(super) async fn apply(
    hands: &dyn Hands,
    manager: &dyn Manager,
    actions: &[&Action],
) -> Vec<(reconciled_provider::ActionId, Outcome)> {
    let mut works = Vec::new();
    let mut is_changed = false;
    for action in actions {
        let mut work = Work { action, end: None, is_running: false };
        match work.prepare(hands, manager).await {
            Ok(changed) => is_changed |= changed,
            Err(fault) => work.end = Some(fault),
        }
        works.push(work);
    }
    if is_changed && let Err(fault) = manager.reload().await {
        let (Fault::NoEffect(error) | Fault::Unknown(error)) = fault;
        let left = works.iter_mut().filter(|work| work.end.is_none());
        left.for_each(|work| work.end = Some(Fault::Unknown(error.clone())));
    }
    join_all(works.into_iter().map(async |mut work| {
        if work.end.is_none() {
            work.end = work.run(manager).await.err();
        }
        let outcome = match (work.end, work.action.op.desired()) {
            (Some(fault), _) => fault.into(),
            (None, Some(desired)) => {
                Outcome::Done(Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default()))
            }
            (None, None) => Outcome::Gone,
        };
        (work.action.id, outcome)
    }))
    .await
}

struct Work<'a> {
    action: &'a Action,
    end: Option<Fault>,
    is_running: bool,
}

impl Work<'_> {
    fn unit(&self) -> &str {
        &self.action.op.id().0
    }

    /// Links and files; true where the manager has to read them.
    async fn prepare(&mut self, hands: &dyn Hands, manager: &dyn Manager) -> Result<bool, Fault> {
        let Some((name, Some(number))) = parts(self.unit()) else {
            return Err(Error::unexpected(format!("{} is no instance", self.unit())).into());
        };
        let group = group(hands, manager, name, &[number].into()).await?;
        let Some(looked) = group.members.get(&number) else { return Ok(false) };
        self.is_running = looked.state.is_running();
        match declared(self.action.op.desired()) {
            Some(declared) => {
                let has_file = !matches!(looked.file.what, What::Absent);
                if group.content().is_none() && !has_file {
                    let text = format!("start {}: its template is not there yet", self.unit());
                    return Err(Error::unavailable(text).retry_after(SOON).into());
                }
                let wanted = declared.enabled.filter(|is| !has_file && *is != is_enabled(&looked.state));
                let Some(wanted) = wanted else { return Ok(false) };
                manager.link(self.unit(), if wanted { Link::Enable } else { Link::Disable }).await?;
                Ok(true)
            }
            None => {
                if self.is_running {
                    manager.job(self.unit(), Job::Stop).await?;
                }
                let is_linked = is_enabled(&looked.state);
                if is_linked {
                    manager.link(self.unit(), Link::Disable).await?;
                }
                Ok(units::remove(hands, &looked.file).await? || is_linked)
            }
        }
    }

    async fn run(&self, manager: &dyn Manager) -> Result<(), Fault> {
        match (self.action.op.desired(), self.is_running) {
            (None, _) => manager.reset_failed(self.unit()).await,
            (Some(_), true) => Ok(()),
            (Some(_), false) => {
                // What failed too often within its limit would not be started.
                manager.reset_failed(self.unit()).await?;
                manager.job(self.unit(), Job::Start).await
            }
        }
    }
}

/// True when an action is about an instance.
pub(super) fn is_about_one(op: &Op) -> bool {
    matches!(parts(&op.id().0), Some((_, Some(_))))
}
