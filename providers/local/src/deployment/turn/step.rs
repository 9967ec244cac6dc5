//! Taking a turn: a step is chosen or taken up, carried on as far as it goes, and the update settled once every instance has it.

use super::{
    super::{
        instance,
        kind::Canary,
        look::Group,
        memory::{Bad, Known, Rollout, Stage, Trial, millis},
        observe::{settled, taken_back},
        rollout::{self, Member, Standing, Stands},
    },
    End, IDLE, STEP, Turn,
    drain::Drain,
};
use crate::{
    hands::{Fault, Hands, Manager},
    systemd::{definition, files},
};
use futures_util::future::{join_all, try_join_all};
use reconciled_provider::{Cx, Error, Journal, Op, Outcome};
use std::{collections::BTreeSet, time::Duration};

impl Turn<'_> {
    /// Errors: those of the journal alone.
    pub(in crate::deployment) async fn take(
        mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        cx: &Cx,
        journal: &dyn Journal,
    ) -> Result<Outcome, Error> {
        let mut end = self.step(hands, manager, cx, journal).await;
        if let Some(rollout) = &mut self.memory.rollout {
            // However long it took, that was no pause.
            rollout.turned = millis(cx);
        }
        if let Ok(Ok(End::Back(why))) = end {
            let now = millis(cx);
            self.memory.bad = Some(Bad { revision: self.declared.revision(), why });
            self.memory.note(&self.declared, now, "taken back");
            if let Some(rollout) = &mut self.memory.rollout {
                rollout.batch.clear();
                rollout.goal.clear();
                rollout.why.clear();
            }
            end = Ok(Ok(End::Wait(Duration::ZERO)));
        }
        let end = match end? {
            Ok(end) => end,
            Err(fault) => return Ok(fault.into()),
        };
        Ok(match (end, self.memory.refusal(&self.declared)) {
            (End::Stuck(why), refusal) => {
                let id = &self.resource.id.0;
                let error = match refusal {
                    Some(refused) => {
                        let text = format!(
                            "the new revision of {id} was taken back ({refused}), and the one before it does not come up: {why}"
                        );
                        Error::invalid(text)
                    }
                    None => Error::invalid(format!("the new revision of {id} does not come up: {why}")),
                };
                let error = error.hint("mend `content` or `health` in the repository");
                Outcome::Partial(self.tracked(), error)
            }
            (End::Wait(recheck_after), _) => {
                Outcome::Pending { tracked: self.tracked(), recheck_after, claims: Vec::new() }
            }
            (_, Some(why)) => {
                let error = taken_back(&self.resource.id.0, why);
                Outcome::Partial(self.tracked(), error)
            }
            (_, None) => Outcome::Done(self.tracked()),
        })
    }

    /// The outer error is the journal's.
    async fn step(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        cx: &Cx,
        journal: &dyn Journal,
    ) -> Result<Result<End, Fault>, Error> {
        let mut group = match self.look(hands, manager).await {
            Ok(group) => group,
            Err(error) => return Ok(Err(error.into())),
        };
        if let Some(why) = group.any_closed() {
            return Ok(Err(Error::from(why).into()));
        }
        // What is beside a template that is to be made is in no plan yet, and while a step goes on nothing else is touched.
        let is_between = self.memory.rollout.as_ref().is_none_or(|rollout| rollout.batch.is_empty())
            && group.content().is_some();
        if is_between && let Err(fault) = self.take_away_beside(hands, manager, journal, &mut group).await? {
            return Ok(Err(fault));
        }
        if self.is_new {
            // From here on the template is ours, also for whoever finds it after a death.
            journal.progress(self.action.id, self.tracked()).await?;
        }
        let goal = self.goal(&group);
        let means = definition::effective([&*goal]);
        let now = millis(cx);
        let rollout = self.memory.rollout.get_or_insert_with(|| Rollout::to(&means, now));
        if rollout.goal != means {
            // Another revision overtakes this one.
            *rollout = rollout.clone().overtaken(&means, now);
        }
        rollout.turn(now);
        rollout.keep(&self.declared.range());
        // What its own row is about goes with that, or stays where a person had that forgotten.
        rollout.touched.retain(|number| self.rows.as_ref().is_none_or(|rows| !rows.contains(number)));
        // An instance that came besides may be declared by now.
        let members: BTreeSet<u32> = self.declared.range().chain(rollout.surge.iter().copied()).collect();
        let members: Vec<u32> = members.into_iter().collect();
        let mut left = members.clone();
        left.retain(|number| !rollout.batch.contains_key(number));
        let is_between = rollout.batch.is_empty();
        if is_between && self.declared.range().all(|number| group.is_current(number, &means, &self.memory)) {
            // Those that came besides go, and may have been stopped by somebody who died.
            left.retain(|number| self.declared.range().contains(number));
        }
        self.heal(&group, left, &means).await;
        if self.memory.rollout.as_ref().is_none_or(|rollout| rollout.batch.is_empty())
            && let Some(end) = self.look_back(&group, &members, &means, now)
        {
            return Ok(Ok(end));
        }
        let is_begun = self.memory.rollout.as_ref().is_some_and(|rollout| !rollout.batch.is_empty());
        if !is_begun {
            let is_current = |number: &u32| group.is_current(*number, &means, &self.memory);
            // Where there is no template, there is nothing that could be left in place meanwhile.
            if group.content().is_none() || self.declared.range().all(|number| is_current(&number)) {
                // Whoever was being drained serves, also where nothing came of it: the revision before is wanted again.
                match self.dismiss(hands, manager, cx).await {
                    Ok(None) => {}
                    Ok(Some(left)) => return Ok(Ok(End::Wait(left))),
                    Err(fault) => return Ok(Err(fault)),
                }
                return Ok(self.settle(hands, manager, &group, &goal, now).await.map(|()| End::Settled));
            }
            if let Some(end) = self.try_out(hands, &group, &members, &means, now).await {
                return Ok(Ok(end));
            }
            match self.choose(hands, &group, &members, &means).await {
                Ok(batch) => self.begin(&group, batch, &means, now),
                Err(why) => return Ok(Ok(self.wait(now, IDLE, why))),
            }
            // From here on a death leaves this step to be taken up, and no other.
            journal.progress(self.action.id, self.tracked()).await?;
        }
        match self.drain(hands, manager, cx).await {
            Ok(Drain::Over) => {}
            Ok(Drain::For(left)) => return Ok(Ok(End::Wait(left))),
            Ok(Drain::Later(why)) => return Ok(Ok(self.give_way(now, why))),
            Err(fault) => return Ok(Err(fault)),
        }
        let is_chosen_now = !is_begun && self.declared.fronts.is_empty();
        if !is_chosen_now && let Some(why) = self.too_few(hands, &group, &members, &means).await {
            // They serve again meanwhile, and who is next is chosen once enough others do.
            if let Err(fault) = self.unmark(hands, manager).await {
                return Ok(Err(fault));
            }
            if let Some(rollout) = &mut self.memory.rollout {
                rollout.batch.retain(|_, stage| matches!(stage, Stage::Watch(_)));
                rollout.is_put_off = true;
            }
            return Ok(Ok(self.wait(now, IDLE, why)));
        }
        let ended = match self.restart(hands, manager, &group, (&goal, &means), now).await {
            Ok(()) => self.watch(hands, manager, cx).await,
            Err(fault) => Err(fault),
        };
        if ended.is_err() {
            // Nobody is started once more for want of another, or of a balancer that takes a mark back.
            journal.progress(self.action.id, self.tracked()).await?;
        }
        Ok(ended)
    }

    /// Notes that a step with these instances begins: nothing is touched before that is written down.
    fn begin(&mut self, group: &Group, batch: BTreeSet<u32>, means: &str, now: u64) {
        let rollout = self.memory.rollout.get_or_insert_with(|| Rollout::to(means, now));
        let surge = self.declared.surge();
        rollout.surge.extend(batch.iter().filter(|number| surge.contains(number)));
        rollout.touched.extend(&batch);
        rollout.serving.retain(|number| !batch.contains(number));
        rollout.leaving = None;
        let begin = |number: &u32| {
            // One that comes besides rests at the balancers.
            let is_idle = rollout.surge.contains(number) && !group.is_running(*number);
            let is_behind = !self.declared.fronts.is_empty();
            if is_behind && !is_idle { Stage::Drain } else { Stage::Restart }
        };
        rollout.batch = batch.into_iter().map(|number| (number, begin(&number))).collect();
        if !self.declared.fronts.is_empty() {
            rollout.is_marked = true;
            rollout.marked.retain(|front| !self.declared.fronts.contains(front));
            rollout.marked.extend(self.declared.fronts.iter().cloned());
        }
        if !rollout.is_put_off {
            rollout.progressed = now;
        }
        // Once their files are others, nobody could tell any more what they run by.
        for number in self.memory.rollout.iter().flat_map(|rollout| rollout.batch.keys()) {
            let running = group.state(*number).filter(|state| state.is_running());
            let (Some(state), Some(means)) = (running, group.means(*number)) else { continue };
            let known = self.memory.known.get(number);
            if known.is_none_or(|known| known.invocation != state.invocation) {
                let invocation = state.invocation.clone();
                self.memory.known.insert(*number, Known { invocation, means, checks: None });
            }
        }
    }

    /// Takes away what somebody put beside the template and the instances. Whoever was started with it gets the revision
    /// step by step, as whoever runs another one does. The outer error is the journal's.
    async fn take_away_beside(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        journal: &dyn Journal,
        group: &mut Group,
    ) -> Result<Result<(), Fault>, Error> {
        if let Err(error) = group.look_beside(hands, manager.places()).await {
            return Ok(Err(error.into()));
        }
        group.only_beside(&self.named);
        if group.beside.is_empty() {
            return Ok(Ok(()));
        }
        let known = std::mem::take(&mut self.memory.known);
        self.memory.known = settled(&self.memory, &self.declared, group).known;
        for (number, known) in known {
            let of_now = self.memory.known.get(&number);
            if of_now.is_none_or(|now| now.invocation == known.invocation) {
                self.memory.known.insert(number, known);
            }
        }
        // Once it is gone nobody could tell what runs with it.
        journal.progress(self.action.id, self.tracked()).await?;
        let gone = async {
            for seen in group.beside.values().flatten() {
                files::remove(hands, seen).await?;
            }
            self.seat.reload().await
        };
        if let Err(fault) = gone.await {
            return Ok(Err(fault));
        }
        match self.look(hands, manager).await {
            Ok(now) => *group = now,
            Err(error) => return Ok(Err(error.into())),
        }
        Ok(Ok(()))
    }

    /// Starts those that run no longer although they have their revision; what comes of it is seen when they are asked.
    async fn heal(&self, group: &Group, numbers: Vec<u32>, means: &str) {
        let has_ended = |number: &u32| {
            let is_to_run = !group.is_running(*number) && group.passed_over(*number).is_none();
            is_to_run && group.is_current(*number, means, &self.memory)
        };
        join_all(numbers.into_iter().filter(has_ended).map(async |number| {
            let _ = self.seat.jobs().start(&instance(&group.name, number)).await;
        }))
        .await;
    }

    /// How many more instances may get the revision before it was tried out, and how many do that; none where nothing is to be
    /// tried: on the way back, or later.
    fn trial(&self, group: &Group, members: &[u32], means: &str) -> Option<(Vec<u32>, Canary)> {
        let canary = self.declared.canary.filter(|_| self.memory.refusal(&self.declared).is_none())?;
        let is_over = self.memory.rollout.as_ref().is_some_and(|rollout| rollout.trial == Trial::Over);
        let have = members.iter().copied().filter(|number| group.is_current(*number, means, &self.memory));
        (!is_over).then(|| (have.collect(), canary))
    }

    /// While a few instances try a revision: why the others wait.
    async fn try_out(
        &mut self,
        hands: &dyn Hands,
        group: &Group,
        members: &[u32],
        means: &str,
        now: u64,
    ) -> Option<End> {
        let (have, canary) = self.trial(group, members, means)?;
        if have.len() < canary.instances as usize {
            return None;
        }
        let stand =
            group.standings(hands, |_| self.memory.checks(&self.declared), have.iter().copied()).await;
        let wrong = stand.values().find_map(Standing::why).map(str::to_owned);
        let rollout = self.memory.rollout.as_mut()?;
        rollout.trial = rollout.trial.next(wrong.is_none(), canary.seconds, now);
        if rollout.trial == Trial::Over {
            rollout.progressed = now;
            return None;
        }
        let has_failed = |number: &u32| group.state(*number).is_some_and(|state| state.active == "failed");
        let is_hopeless = have.iter().any(has_failed);
        let why = wrong.unwrap_or_else(|| {
            let numbers: Vec<String> = have.iter().map(u32::to_string).collect();
            format!("it is tried at instance {} for {} s", numbers.join(", "), canary.seconds)
        });
        match self.wait_longer(now, STEP, why, canary.seconds) {
            End::Wait(_) if is_hopeless && self.may_go_back() => Some(End::Back(self.why())),
            end => Some(end),
        }
    }

    /// The instances of the next step, or why there are none now.
    async fn choose(
        &mut self,
        hands: &dyn Hands,
        group: &Group,
        members: &[u32],
        means: &str,
    ) -> Result<BTreeSet<u32>, String> {
        let range = self.declared.range();
        let checks = |number| group.checks(number, means, &self.memory, &self.declared);
        let standings = group.standings(hands, checks, members.iter().copied()).await;
        let to_come = self.declared.surge().filter(|number| !members.contains(number));
        let is_current =
            |number: &u32| members.contains(number) && group.is_current(*number, means, &self.memory);
        let current: BTreeSet<u32> = members.iter().copied().filter(is_current).collect();
        let mut rollout = self.memory.rollout.as_mut();
        let mut stands = |number: u32| match (rollout.as_mut(), standings.get(&number)) {
            (Some(rollout), Some(standing)) => rollout.stands(number, standing),
            _ => Stands::Down,
        };
        let all: Vec<Member> = members
            .iter()
            .copied()
            .chain(to_come)
            .map(|number| Member {
                number,
                is_surge: !range.contains(&number),
                is_current: current.contains(&number),
                stands: stands(number),
            })
            .collect();
        let floor = self.declared.floor();
        let mut batch = rollout::next(&all, floor);
        if let Some((have, canary)) = self.trial(group, members, means) {
            let room = (canary.instances as usize).saturating_sub(have.len());
            batch = batch.into_iter().take(room).collect();
        }
        let why = || standings.values().find_map(Standing::why).unwrap_or_default().to_owned();
        if batch.is_empty() { Err(why()) } else { Ok(batch) }
    }

    /// Every instance runs what shall run: the template takes it over, and what was there for the way goes.
    async fn settle(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        group: &Group,
        goal: &str,
        now: u64,
    ) -> Result<(), Fault> {
        let rollout = self.memory.rollout.take();
        let (surge, touched) = rollout.map(|rollout| (rollout.surge, rollout.touched)).unwrap_or_default();
        // Those with a row of their own go by themselves, once the guard and their balancers let them; without one nobody would
        // stop what was started before it had a row, and is declared no longer.
        let has_row = |number: &u32| self.rows.as_ref().is_some_and(|rows| rows.contains(number));
        let touched = touched.into_iter().filter(|_| self.rows.is_some());
        let over: BTreeSet<u32> = surge.into_iter().chain(touched).collect();
        let over = over.into_iter().filter(|number| !self.declared.range().contains(number));
        let over = over.filter(|number| !has_row(number));
        try_join_all(over.map(|number| group.stop(self.seat.jobs(), number))).await?;
        let had_other = self.memory.good.as_ref().is_some_and(|good| good.content != goal);
        let mut is_changed =
            files::write(hands, manager.places(), &group.template, goal, &self.declared.beside).await?;
        for looked in group.members.values() {
            is_changed |= files::remove(hands, &looked.file).await? || looked.state.needs_reload;
        }
        if is_changed {
            self.seat.reload().await?;
        }
        let mut now_seen = self.look(hands, manager).await?;
        now_seen.look_beside(hands, manager.places()).await?;
        if !matches!(self.action.op, Op::Create { .. }) {
            // With what is to be ignored they count as those that run without, or each look would find them stale. What was
            // there before the template is in the plan that follows.
            now_seen.only_beside(&self.named);
        }
        self.memory = settled(&self.memory, &self.declared, &now_seen);
        if self.memory.refusal(&self.declared).is_none() {
            self.memory.bad = None;
            if had_other {
                self.memory.note(&self.declared, now, "done");
            }
        }
        Ok(())
    }
}
