//! Instances of a step, started anew: each once, and none while too few others are left.

use super::{
    super::{
        instance,
        jobs::Jobs,
        look::Group,
        memory::{Known, Stage},
        rollout::Standing,
    },
    Turn,
};
use crate::{
    hands::{Fault, Hands, Job, Manager, UnitState},
    systemd::files,
};
use futures_util::future::join_all;
use reconciled_provider::ErrorKind;
use std::collections::BTreeMap;

impl Turn<'_> {
    /// Why those of the step are not started anew now: since they were chosen, so many others ended or answer no more that too
    /// few would be left.
    pub(super) async fn too_few(
        &self,
        hands: &dyn Hands,
        group: &Group,
        members: &[u32],
        means: &str,
    ) -> Option<String> {
        let rollout = self.memory.rollout.as_ref()?;
        let due = |number: &u32| matches!(rollout.batch.get(number), Some(Stage::Restart | Stage::Again));
        if !members.iter().any(due) {
            return None;
        }
        let asked =
            members.iter().copied().filter(|number| due(number) || !rollout.batch.contains_key(number));
        let checks = |number| group.checks(number, means, &self.memory, &self.declared);
        let standings = group.standings(hands, checks, asked).await;
        let (mut left, mut taken, mut why) = (0, 0, None);
        for (number, standing) in &standings {
            match (due(number), standing) {
                (true, Standing::Available) => taken += 1,
                (false, Standing::Available) => left += 1,
                (false, other) => why = why.or(other.why().map(str::to_owned)),
                (true, _) => {}
            }
        }
        let floor = self.declared.floor();
        (taken > 0 && left < floor).then(|| why.unwrap_or_default())
    }

    /// Starts anew those of the step that were not yet. Each has its revision on the disk before.
    pub(super) async fn restart(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        group: &Group,
        (goal, means): (&str, &str),
        now: u64,
    ) -> Result<(), Fault> {
        let checks = self.memory.checks(&self.declared).to_vec();
        let Some(rollout) = &mut self.memory.rollout else { return Ok(()) };
        let due = rollout.batch.iter().filter(|(_, stage)| matches!(stage, Stage::Restart | Stage::Again));
        let due: Vec<u32> = due.map(|(number, _)| *number).collect();
        if due.is_empty() {
            self.seat.rest().await;
            return Ok(());
        }
        // Who takes a step up gives it the time that it has.
        if rollout.batch.values().any(|stage| *stage == Stage::Restart) {
            (rollout.progressed, rollout.is_put_off) = (now, false);
        }
        let is_of_template = group.content().as_deref() == Some(goal);
        let mut is_changed = false;
        for number in &due {
            let Some(looked) = group.members.get(number) else { continue };
            is_changed |= match is_of_template {
                true => files::remove(hands, &looked.file).await?,
                false => {
                    files::write(hands, manager.places(), &looked.file, goal, &self.declared.beside).await?
                }
            };
            is_changed |= looked.state.needs_reload;
        }
        if is_changed {
            self.seat.reload().await?;
        }
        self.seat.rest().await;
        // A run that began before the manager had read the files is of the revision before, whoever began it.
        let units: Vec<String> = due.iter().map(|number| instance(&group.name, *number)).collect();
        let before = manager.units(&units).await?;
        let ends = join_all(due.iter().zip(&before).map(async |(number, state)| {
            let unit = instance(&group.name, *number);
            self.seat.jobs().forget_failures(&unit).await?;
            begin(manager, self.seat.jobs(), &unit, state.clone()).await
        }))
        .await;
        let due_before: BTreeMap<u32, UnitState> = due.iter().copied().zip(before).collect();
        let (mut started, mut watched, mut failed) = (Vec::new(), Vec::new(), Ok(()));
        for (number, end) in due.into_iter().zip(ends) {
            match end {
                Ok(()) => started.push(number),
                // What it came to is seen when it is watched.
                Err(Fault::Unknown(error)) => {
                    rollout.why = error.chain();
                    started.push(number);
                }
                // systemd will not have the revision: it is no run of it that goes on, if one does.
                Err(Fault::NoEffect(error)) if error.kind == ErrorKind::Invalid => {
                    rollout.why = error.chain();
                    if let (Some(known), Some(was)) =
                        (self.memory.known.get_mut(&number), due_before.get(&number))
                    {
                        known.invocation = was.invocation.clone();
                    }
                }
                // It is asked for once more; the others are not.
                Err(fault) => {
                    failed = Err(fault);
                    continue;
                }
            }
            watched.push(number);
        }
        let units: Vec<String> = started.iter().map(|number| instance(&group.name, *number)).collect();
        let states = manager.units(&units).await?;
        rollout.batch.extend(watched.into_iter().map(|number| (number, Stage::Watch(None))));
        for (number, state) in started.into_iter().zip(states) {
            let was = due_before.get(&number).filter(|was| was.is_running());
            let is_same = was.is_some_and(|was| was.invocation == state.invocation);
            if is_same && state.is_running() {
                // The job came to nothing: it runs as it did.
                rollout.batch.insert(number, Stage::Again);
                continue;
            }
            // One that is still being ended is no run of the revision; the next one is.
            let invocation = if is_same { String::new() } else { state.invocation };
            let checks = Some(checks.clone());
            let known = Known { invocation, means: means.to_owned(), checks };
            self.memory.known.insert(number, known);
            rollout.started.insert(number);
        }
        failed
    }
}

/// Has an instance run anew, and waits for that.
async fn begin(
    manager: &dyn Manager,
    jobs: &Jobs<'_>,
    unit: &str,
    mut state: UnitState,
) -> Result<(), Fault> {
    let mut tries = 0;
    loop {
        let job = if state.is_running() { Job::Restart } else { Job::Start };
        tries += 1;
        match jobs.job(unit, job, &state.invocation).await {
            // systemd began a run by itself, and it may have been before the files were written.
            Err(Fault::NoEffect(error)) if error.kind == ErrorKind::Conflict && tries < BEGINS => {
                state = manager.units(&[unit.to_owned()]).await?.pop().unwrap_or_default();
            }
            end => return end,
        }
    }
}

/// How often an instance is started anew that does not stay in the run that it was looked at in.
const BEGINS: u32 = 5;
