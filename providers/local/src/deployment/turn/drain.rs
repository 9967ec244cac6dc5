//! Instances of a step, taken from the balancers before they are started anew, and given back.

use super::{
    super::{
        instance,
        kind::Deployment,
        memory::{Stage, millis},
        parts,
    },
    End, IDLE, STUCK, Turn,
};
use crate::{
    balancer::{self, Drained, Front},
    hands::{Fault, Hands, Manager},
};
use reconciled_provider::Cx;
use std::{collections::BTreeSet, time::Duration};
use tracing::warn;

/// Has exactly `units` of the deployment called `name` marked at the balancers it is behind.
async fn mark(
    hands: &dyn Hands,
    manager: &dyn Manager,
    name: &str,
    declared: &Deployment,
    units: &BTreeSet<String>,
    is_patient: bool,
) -> Result<Drained, Fault> {
    let is_of = |unit: &str| parts(unit).is_some_and(|(of, _)| of == name);
    balancer::drain(hands, manager, &declared.fronts, is_of, units, is_patient).await
}

/// How far those of a step are.
pub(super) enum Drain {
    /// They may be started anew.
    Over,
    /// They get so long to answer what they had got.
    For(Duration),
    /// They would be the last ones, for this reason.
    Later(String),
}

/// How long others that are being drained are waited for, in milliseconds, besides the time that a step of its own may take: none
/// gets its answers out for longer. After that they are not being drained, but away.
const PATIENCE: u64 = balancer::LONGEST;

impl Turn<'_> {
    /// Takes those of the step from the balancers, and waits until they have answered what they had got.
    pub(super) async fn drain(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        cx: &Cx,
    ) -> Result<Drain, Fault> {
        let serving = self.serving();
        let Some(rollout) = &mut self.memory.rollout else { return Ok(Drain::Over) };
        if rollout.batch.values().any(|stage| *stage == Stage::Drain) {
            let now = millis(cx);
            let limit = PATIENCE + u64::from(self.declared.deadline) * 1_000;
            let is_patient = rollout.waits.is_none_or(|since| now.saturating_sub(since) < limit);
            // One that came besides rests, without a mark.
            let declared = self.declared.range();
            let (replaced, besides): (Vec<u32>, Vec<u32>) =
                rollout.batch.keys().copied().partition(|number| declared.contains(number));
            let units = replaced.into_iter().map(|number| instance(self.name, number));
            let units = units.chain(serving).collect();
            let drained = {
                let _alone = self.seat.balancers().await;
                mark(hands, manager, self.name, &self.declared, &units, is_patient).await?
            };
            let drain = match drained {
                Drained::Some => self.declared.drain_millis(),
                Drained::None if !besides.is_empty() => self.declared.drain_millis(),
                // They get requests to the end, and nothing is gained by waiting.
                Drained::None => 0,
                Drained::Later(why) => return Ok(Drain::Later(why)),
            };
            rollout.has_its_turn(now);
            // From now on they get no more.
            let until = millis(cx) + drain;
            for stage in rollout.batch.values_mut() {
                *stage = Stage::Drained(until);
            }
        }
        let now = millis(cx);
        let until = rollout.batch.values().filter_map(|stage| match stage {
            Stage::Drained(until) => Some(*until),
            _ => None,
        });
        match until.max() {
            Some(until) if until > now => Ok(Drain::For(Duration::from_millis(until - now))),
            Some(_) => {
                rollout.batch.values_mut().for_each(|stage| *stage = Stage::Restart);
                // The time in which they may be away begins now.
                if !rollout.is_put_off {
                    rollout.progressed = now;
                }
                Ok(Drain::Over)
            }
            None => Ok(Drain::Over),
        }
    }

    /// Waits for others that are being drained, which is no time of this revision's own; told where it takes longer than a step may.
    pub(super) fn give_way(&mut self, now: u64, why: String) -> End {
        let limit = u64::from(self.declared.deadline) * 1_000;
        let Some(rollout) = &mut self.memory.rollout else { return End::Wait(IDLE) };
        let since = *rollout.waits.get_or_insert(now);
        rollout.why = why;
        rollout.is_stuck = now.saturating_sub(since) > limit;
        End::Wait(if rollout.is_stuck { STUCK } else { IDLE })
    }

    /// Those that came besides and serve.
    fn serving(&self) -> BTreeSet<String> {
        let serving = self.memory.rollout.iter().flat_map(|rollout| &rollout.serving);
        let besides = serving.filter(|number| !self.declared.range().contains(number));
        besides.map(|number| instance(self.name, *number)).collect()
    }

    /// Takes those that came besides from the balancers, since they go; how long they still get their answers out.
    pub(super) async fn dismiss(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        cx: &Cx,
    ) -> Result<Option<Duration>, Fault> {
        let has_any = !self.serving().is_empty();
        if let Some(rollout) = &mut self.memory.rollout {
            rollout.serving.clear();
        }
        self.unmark(hands, manager).await?;
        let now = millis(cx);
        let Some(rollout) = &mut self.memory.rollout else { return Ok(None) };
        if has_any {
            rollout.leaving = Some(now + self.declared.drain_millis());
        }
        let left = rollout.leaving.map_or(0, |until| until.saturating_sub(now));
        Ok((left > 0).then(|| Duration::from_millis(left)))
    }

    /// Whoever was drained serves again, and whoever came besides does as long as it shall. A balancer that knows of nobody is
    /// not touched.
    pub(super) async fn unmark(&mut self, hands: &dyn Hands, manager: &dyn Manager) -> Result<(), Fault> {
        let serving = self.serving();
        let Some(rollout) = self.memory.rollout.as_mut().filter(|rollout| rollout.is_marked) else {
            return Ok(());
        };
        let _alone = self.seat.balancers().await;
        mark(hands, manager, self.name, &self.declared, &serving, true).await?;
        // What is no longer ours gets its lines back, and nothing waits for it.
        let is_left = |front: &Front| self.declared.fronts.iter().all(|ours| ours.path != front.path);
        for front in std::mem::take(&mut rollout.marked).into_iter().filter(is_left) {
            let is_of = |unit: &str| parts(unit).is_some_and(|(of, _)| of == self.name);
            if let Err(Fault::NoEffect(error) | Fault::Unknown(error)) =
                balancer::release(hands, manager, &front, is_of).await
            {
                warn!(
                    path = front.path,
                    error = error.chain(),
                    "marks stay at a balancer that was forgotten"
                );
            }
        }
        if !serving.is_empty() {
            rollout.marked.clone_from(&self.declared.fronts);
        }
        rollout.is_marked = !serving.is_empty();
        Ok(())
    }
}
