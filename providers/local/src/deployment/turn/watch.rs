//! Whether those that were started anew stay up: available for long enough, in one run.
//!
//! Between two runs of a service that `Restart=` starts again it is active as well, so it is the run that counts.

use super::{
    super::{
        look::Group,
        memory::{Known, Memory, Stage, millis},
        rollout::Standing,
    },
    End, STEP, Turn,
};
use crate::hands::{Fault, Hands, Manager};
use reconciled_provider::Cx;
use std::time::Duration;

/// After so many ends of one instance that had been available with it, a revision does not do.
const TOO_OFTEN: u32 = 2;

impl Turn<'_> {
    /// Watches those again that were started with the revision and whose run ended since their step was over: whoever started
    /// them since, it is not known to stay up. Where that goes on, the revision does not do.
    pub(super) fn look_back(&mut self, group: &Group, members: &[u32], means: &str, now: u64) -> Option<End> {
        // On the way back there is no better one.
        if !self.may_go_back() {
            return None;
        }
        let Memory { known, rollout, .. } = &mut self.memory;
        let rollout = rollout.as_mut()?;
        let mut hopeless = None;
        let started = rollout.started.clone();
        for number in members.iter().filter(|number| started.contains(number)) {
            let Some(state) = group.state(*number).filter(|state| state.is_running()) else { continue };
            let had = known.get_mut(number).filter(|known| known.means == means);
            let Some(known) = had.filter(|known| known.invocation != state.invocation) else { continue };
            known.invocation = state.invocation.clone();
            let ended = rollout.watch_again(*number, now);
            if ended >= TOO_OFTEN {
                let unit = crate::deployment::instance(&group.name, *number);
                hopeless = Some(format!(
                    "{unit} does not stay up: it ended {ended} times after it had been available"
                ));
            }
        }
        hopeless.map(End::Back)
    }

    /// Whether the instances of the step are available, and have been long enough.
    pub(super) async fn watch(
        &mut self,
        hands: &dyn Hands,
        manager: &dyn Manager,
        cx: &Cx,
    ) -> Result<End, Fault> {
        // What is seen is true from after this look on, and until before it.
        let now = millis(cx);
        let group = self.look(hands, manager).await?;
        let checks = self.memory.checks(&self.declared).to_vec();
        let Memory { known, rollout, .. } = &mut self.memory;
        let Some(rollout) = rollout else { return Ok(End::Wait(STEP)) };
        let standings = group.standings(hands, |_| &checks, rollout.batch.keys().copied()).await;
        let seen = millis(cx);
        let (mut is_over, mut is_hopeless, mut why) = (true, false, String::new());
        for (number, stage) in &mut rollout.batch {
            let since = match stage {
                Stage::Watch(Some(since)) => *since,
                _ => seen,
            };
            if let Some(text) = group.unloadable(*number) {
                // What runs of it is of the revision before.
                *stage = Stage::Watch(None);
                (is_over, is_hopeless, why) = (false, true, text);
                continue;
            }
            let run = group.state(*number).map(|state| &*state.invocation);
            let is_before = known
                .get(number)
                .is_some_and(|known| known.means != rollout.goal && Some(&*known.invocation) == run);
            if *stage == Stage::Again || is_before && standings.get(number) == Some(&Standing::Available) {
                // It may answer, and is of the revision before.
                let unit = crate::deployment::instance(&group.name, *number);
                let refused = (!rollout.why.is_empty()).then(|| rollout.why.clone());
                (is_over, why) = (false, refused.unwrap_or_else(|| format!("{unit} is not started anew")));
                continue;
            }
            match standings.get(number) {
                Some(Standing::Available) => {
                    // A run that systemd began by itself says that the one before it ended.
                    let run = group.state(*number).map(|state| &state.invocation);
                    let other =
                        known.get_mut(number).zip(run).filter(|(known, run)| known.invocation != **run);
                    if let Some((known, run)) = other {
                        // It began after the files were read.
                        *known = Known {
                            invocation: run.clone(),
                            means: rollout.goal.clone(),
                            checks: Some(checks.clone()),
                        };
                        *stage = Stage::Watch(Some(seen));
                        is_over = false;
                        why = format!(
                            "{} ended, and was started again",
                            crate::deployment::instance(&group.name, *number)
                        );
                        continue;
                    }
                    *stage = Stage::Watch(Some(since));
                    is_over &= now.saturating_sub(since) >= u64::from(self.declared.min_ready) * 1_000;
                }
                other => {
                    *stage = Stage::Watch(None);
                    is_over = false;
                    why = other.and_then(Standing::why).unwrap_or_default().to_owned();
                }
            }
        }
        if is_over {
            let besides = rollout.batch.keys().filter(|number| rollout.surge.contains(number));
            rollout.serving.extend(besides);
            self.unmark(hands, manager).await?;
            let Some(rollout) = &mut self.memory.rollout else { return Ok(End::Wait(STEP)) };
            rollout.batch.clear();
            (rollout.progressed, rollout.why, rollout.is_put_off) = (now, String::new(), false);
            return Ok(End::Wait(Duration::ZERO));
        }
        let has_failed = |number: &u32| {
            let is_failed = group.state(*number).is_some_and(|state| state.active == "failed");
            is_failed || group.passed_over(*number).is_some()
        };
        is_hopeless |= rollout.batch.keys().any(has_failed);
        match self.wait(now, STEP, why) {
            End::Wait(_) if is_hopeless && self.may_go_back() => Ok(End::Back(self.why())),
            End::Wait(_) if is_hopeless => {
                // Whoever takes it up again, since something changed, starts them anew.
                if let Some(rollout) = &mut self.memory.rollout {
                    rollout.batch.values_mut().for_each(|stage| *stage = Stage::Restart);
                    rollout.is_stuck = true;
                }
                Ok(End::Stuck(self.why()))
            }
            end => Ok(end),
        }
    }
}
