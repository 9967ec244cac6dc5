//! What the inventory remembers of a deployment, between the steps of a rolling update as well.

use super::{
    kind::Deployment,
    rollout::{Standing, Stands},
};
use crate::{balancer::Front, hands::Check};
use reconciled_provider::{Cx, Sealed, Tracked};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Now, in milliseconds since the epoch, as all times are that are remembered here.
pub(crate) fn millis(cx: &Cx) -> u64 {
    u64::try_from(cx.clock.now().as_millis()).unwrap_or(u64::MAX)
}

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    /// The runs that are known, and what the files meant that they were started with.
    #[serde(default)]
    pub(crate) known: BTreeMap<u32, Known>,
    /// The revision that every instance ran last.
    #[serde(default)]
    pub(crate) good: Option<Good>,
    /// A revision that was tried and taken back.
    #[serde(default)]
    pub(crate) bad: Option<Bad>,
    /// The rolling update that is on its way.
    #[serde(default)]
    pub(crate) rollout: Option<Rollout>,
    /// Seen: the balancers that are ours, by the paths of their files.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub(crate) ours: BTreeSet<String>,
    /// Seen: numbers of the instances that have a row of their own, declared or not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) rows: Option<BTreeSet<u32>>,
    /// Earlier ones, the newest last.
    #[serde(default)]
    pub(crate) past: Vec<Past>,
}

/// One run of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) invocation: String,
    pub(crate) means: String,
    /// What had to answer of it; none where an earlier version wrote this down.
    #[serde(default)]
    pub(crate) checks: Option<Vec<Check>>,
}

/// A revision that did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Good {
    pub(crate) content: String,
    pub(crate) checks: Vec<Check>,
}

/// A revision that does not come back until it is another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bad {
    pub(crate) revision: String,
    pub(crate) why: String,
}

/// A rolling update on its way. Times are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rollout {
    /// What the files mean that it brings.
    pub(crate) goal: String,
    /// When a step was last begun or completed.
    pub(crate) progressed: u64,
    /// When the last turn ended, or the present one began.
    #[serde(default)]
    pub(crate) turned: u64,
    /// The instances of this step. Invariant: written down before any of them is touched, and empty before the next step.
    pub(crate) batch: BTreeMap<u32, Stage>,
    /// Instances beyond the declared ones that were started for it.
    pub(crate) surge: BTreeSet<u32>,
    /// Those of them that were available: they serve at the balancers.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub(crate) serving: BTreeSet<u32>,
    /// Until when these get their answers out: they were taken from the balancers, and go.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) leaving: Option<u64>,
    /// How far the instances are that try it before the others.
    #[serde(default)]
    pub(crate) trial: Trial,
    /// Instances may be marked as drained at a balancer, which may have read that. Written down before it is so.
    #[serde(default)]
    pub(crate) is_marked: bool,
    /// The balancers at which that may be so, also those that are forgotten meanwhile.
    #[serde(default)]
    pub(crate) marked: Vec<Front>,
    /// Instances that it, or one that it overtook, may have started: written down before it does.
    #[serde(default)]
    pub(crate) touched: BTreeSet<u32>,
    /// Instances that it started anew. Of a run that was known before, nobody knows who ended it.
    #[serde(default)]
    pub(crate) started: BTreeSet<u32>,
    /// How many runs of an instance ended by themselves after its step was over.
    #[serde(default)]
    pub(crate) ended: BTreeMap<u32, u32>,
    /// Instances that run and were not known to be available when the next step was to be chosen.
    #[serde(default)]
    pub(crate) doubts: BTreeMap<u32, Doubt>,
    /// Since when it waits for instances of others that are being drained.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) waits: Option<u64>,
    /// Why the step is not over, as last seen.
    pub(crate) why: String,
    /// A step was put off since, because too few others were left: what is chosen anew is no progress.
    #[serde(default)]
    pub(crate) is_put_off: bool,
    /// As last seen, it took too long, and there is nothing to go back to.
    #[serde(default)]
    pub(crate) is_stuck: bool,
}

/// For how long an instance was not known to be available.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Doubt {
    /// It was asked; if not, nobody could ask it.
    pub(crate) is_asked: bool,
    /// In so many turns, one after the other.
    pub(crate) turns: u32,
}

/// How far the instances are that try a revision before the others. Times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Trial {
    /// Not all of them have it, or are available.
    #[default]
    Ahead,
    /// They have been available since then without a break.
    Since(u64),
    /// It is over: the others follow.
    Over,
}

/// How far an instance of the present step is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// It is to be drained at the balancers.
    Drain,
    /// It is, and gets what is left until then.
    Drained(u64),
    /// It is to be started anew.
    Restart,
    /// The same, once more: what was asked for came to nothing, which is no progress.
    Again,
    /// It was, and is watched; available since then without a break.
    Watch(Option<u64>),
}

/// A rolling update that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Past {
    pub(crate) revision: String,
    /// Seconds since the epoch.
    pub(crate) at: u64,
    pub(crate) result: String,
}

/// After so many turns what is said of an instance that runs is taken for true: a single answer may be late for any reason.
const CERTAIN: u32 = 3;

/// How long there may be no turn before that is a pause, in milliseconds.
const PAUSE: u64 = 10_000;
/// How much of a pause counts as time of the step: the longest wait between two turns. Were it nothing, what is done between
/// them, such as slow checks of health or turns of other deployments, would put off the end for ever.
const WAIT: u64 = 1_000;

impl Rollout {
    pub(crate) fn to(goal: &str, now: u64) -> Rollout {
        Rollout {
            goal: goal.into(),
            progressed: now,
            turned: now,
            batch: BTreeMap::new(),
            surge: BTreeSet::new(),
            serving: BTreeSet::new(),
            leaving: None,
            trial: Trial::Ahead,
            is_marked: false,
            marked: Vec::new(),
            touched: BTreeSet::new(),
            started: BTreeSet::new(),
            ended: BTreeMap::new(),
            doubts: BTreeMap::new(),
            waits: None,
            why: String::new(),
            is_put_off: false,
            is_stuck: false,
        }
    }

    /// The same, to another goal. Who was being replaced counts as what he is.
    pub(crate) fn overtaken(self, goal: &str, now: u64) -> Rollout {
        let Rollout { surge, serving, touched, is_marked, marked, .. } = self;
        Rollout { surge, serving, touched, is_marked, marked, ..Rollout::to(goal, now) }
    }

    /// Leaves out of it what is declared no longer: nobody waits for those to come up, and nobody starts them anew.
    pub(crate) fn keep(&mut self, declared: &Range<u32>) {
        let is_kept = |number: &u32| declared.contains(number) || self.surge.contains(number);
        self.batch.retain(|number, _| is_kept(number));
        self.started.retain(is_kept);
        self.ended.retain(|number, _| is_kept(number));
        self.doubts.retain(|number, _| is_kept(number));
        if self.batch.is_empty() {
            // The next step has its own time to wait for others.
            self.waits = None;
        }
    }

    /// Has an instance watched again whose run ended after its step was over; returns how often that was so.
    pub(crate) fn watch_again(&mut self, number: u32, now: u64) -> u32 {
        self.batch.insert(number, Stage::Watch(None));
        if self.trial != Trial::Over {
            self.trial = Trial::Ahead;
        }
        // It has the time of a step to come up, however long the trial took so far. Bounded, as the ends are counted.
        self.progressed = now;
        let ended = self.ended.entry(number).or_default();
        *ended += 1;
        *ended
    }

    /// What `standing` means for the choice of the next step, with what was seen in the turns before.
    pub(crate) fn stands(&mut self, number: u32, standing: &Standing) -> Stands {
        let (is_asked, certain) = match standing {
            Standing::Available => (None, Stands::Available),
            Standing::Down(_) => (None, Stands::Down),
            Standing::Unwell(_) => (Some(true), Stands::Unwell),
            Standing::NotAsked(_) => (Some(false), Stands::Unasked),
        };
        let Some(is_asked) = is_asked else {
            self.doubts.remove(&number);
            return certain;
        };
        let before = self.doubts.get(&number).filter(|doubt| doubt.is_asked == is_asked);
        let turns = before.map_or(0, |doubt| doubt.turns).saturating_add(1);
        self.doubts.insert(number, Doubt { is_asked, turns });
        if turns < CERTAIN { Stands::Doubtful } else { certain }
    }

    /// The others that it waited for are not being drained any longer: that was no time in which it did not come up.
    pub(crate) fn has_its_turn(&mut self, now: u64) {
        let waited = self.waits.take().map_or(0, |since| now.saturating_sub(since));
        self.progressed = self.progressed.saturating_add(waited);
    }

    /// Begins a turn. A time in which nobody took any, because the process was stopped or all was suspended, is no time in
    /// which the instances did not come up.
    pub(crate) fn turn(&mut self, now: u64) {
        self.set_back(self.turned.saturating_sub(now));
        let since = now.saturating_sub(self.turned);
        if self.turned > 0 && since > PAUSE {
            let unseen = since - WAIT;
            self.progressed = self.progressed.saturating_add(unseen);
            // Nobody saw whether they were available: of a trial that counts no more than of the time that it has.
            if let Trial::Since(since) = &mut self.trial {
                *since = since.saturating_add(unseen);
            }
            self.waits = self.waits.map(|since| since.saturating_add(unseen));
        }
        self.turned = now;
        self.is_stuck = false;
    }
}

impl Rollout {
    /// The clock was set back by so many milliseconds: what it said before is as long ago as it was.
    fn set_back(&mut self, by: u64) {
        let stages = self.batch.values_mut().filter_map(|stage| match stage {
            Stage::Drained(at) | Stage::Watch(Some(at)) => Some(at),
            Stage::Drain | Stage::Restart | Stage::Again | Stage::Watch(None) => None,
        });
        let trial = match &mut self.trial {
            Trial::Since(at) => Some(at),
            Trial::Ahead | Trial::Over => None,
        };
        for at in
            stages.chain(trial).chain(&mut self.waits).chain(&mut self.leaving).chain([&mut self.progressed])
        {
            *at = at.saturating_sub(by);
        }
    }
}

impl Trial {
    /// The next word on a trial of `seconds`, in which all are available now, or not.
    pub(crate) fn next(self, are_available: bool, seconds: u32, now: u64) -> Trial {
        match (self, are_available) {
            (Trial::Over, _) => Trial::Over,
            (_, false) => Trial::Ahead,
            (Trial::Ahead, true) if seconds > 0 => Trial::Since(now),
            (Trial::Since(since), true) if now.saturating_sub(since) < u64::from(seconds) * 1_000 => self,
            _ => Trial::Over,
        }
    }
}

impl Memory {
    pub(crate) fn open(tracked: Option<&Tracked>) -> Memory {
        tracked.map(|tracked| Memory::read(&tracked.private)).unwrap_or_default()
    }
    pub(crate) fn read(sealed: &Sealed) -> Memory {
        serde_json::from_slice(&sealed.0).unwrap_or_default()
    }
    pub(crate) fn seal(&self) -> Sealed {
        Sealed::new(serde_json::to_vec(self).unwrap_or_default())
    }
    /// Why the declared revision is not brought in, if it was tried before.
    pub(crate) fn refusal(&self, desired: &Deployment) -> Option<&str> {
        self.bad.as_ref().filter(|bad| bad.revision == desired.revision()).map(|bad| &*bad.why)
    }
    /// What must answer of an instance that runs what is being brought in: on the way back, what had to for the revision before.
    pub(crate) fn checks<'a>(&'a self, desired: &'a Deployment) -> &'a [Check] {
        match (self.refusal(desired), &self.good) {
            (Some(_), Some(good)) => &good.checks,
            _ => &desired.checks,
        }
    }
    /// What shall run: the declared revision, or the one before it where that was taken back.
    pub(crate) fn goal<'a>(&'a self, desired: &'a Deployment) -> &'a str {
        match (self.refusal(desired), &self.good) {
            (Some(_), Some(good)) => &good.content,
            _ => &desired.content,
        }
    }
    /// Puts down how a rolling update ended.
    pub(crate) fn note(&mut self, desired: &Deployment, now: u64, result: &str) {
        let revision = desired.revision().chars().take(8).collect();
        self.past.push(Past { revision, at: now / 1000, result: result.into() });
        let surplus = self.past.len().saturating_sub(desired.history as usize);
        self.past.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_over_once_all_were_available_without_a_break() {
        use Trial::{Ahead, Over, Since};
        let told =
            [(true, 1_000), (true, 10_999), (false, 11_500), (true, 12_000), (true, 21_999), (true, 22_000)];
        let mut trial = Ahead;
        let all = told.map(|(are_available, now)| {
            trial = trial.next(are_available, 10, now);
            trial
        });
        assert_eq!(all, [Since(1_000), Since(1_000), Ahead, Since(12_000), Since(12_000), Over]);
        assert_eq!(Over.next(false, 10, 30_000), Over);
        let mut rollout = Rollout { trial: Since(1_000), ..Rollout::to("goal", 1_000) };
        rollout.turn(3_600_000);
        assert_eq!(rollout.trial, Since(3_599_000), "nobody looked meanwhile, and a second counts");
    }

    #[test]
    fn an_instance_that_ended_has_the_time_of_a_step_to_come_up_again() {
        let mut rollout = Rollout { trial: Trial::Since(1_000), ..Rollout::to("goal", 1_000) };
        assert_eq!(rollout.watch_again(1, 1_801_000), 1);
        assert_eq!((rollout.progressed, rollout.trial), (1_801_000, Trial::Ahead));
        assert_eq!(rollout.batch, [(1, Stage::Watch(None))].into());
        assert_eq!(rollout.watch_again(1, 1_900_000), 2);
        assert_eq!(rollout.watch_again(2, 1_900_000), 1);
    }

    #[test]
    fn what_is_said_of_an_instance_that_runs_counts_once_it_was_said_several_times() {
        let mut rollout = Rollout::to("goal", 1_000);
        let (no, lost) = (Standing::Unwell("no".into()), Standing::NotAsked("lost".into()));
        let mut told = |standings: &[&Standing]| {
            standings.iter().map(|standing| rollout.stands(1, standing)).collect::<Vec<_>>()
        };
        use Stands::{Available, Doubtful, Down, Unasked, Unwell};
        assert_eq!(told(&[&no, &no, &no, &no]), [Doubtful, Doubtful, Unwell, Unwell]);
        assert_eq!(told(&[&Standing::Available, &no, &no, &lost]), [Available, Doubtful, Doubtful, Doubtful]);
        assert_eq!(told(&[&lost, &lost, &no]), [Doubtful, Unasked, Doubtful]);
        assert_eq!(told(&[&Standing::Down("failed".into()), &no]), [Down, Doubtful]);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nobody_wait_for_it() {
        let batch = [(1, Stage::Drained(9_000)), (2, Stage::Watch(Some(8_000))), (3, Stage::Restart)].into();
        let trial = Trial::Since(7_000);
        let mut rollout = Rollout { batch, trial, turned: 8_500, ..Rollout::to("goal", 6_000) };
        rollout.turn(5_500);
        let batch = [(1, Stage::Drained(6_000)), (2, Stage::Watch(Some(5_000))), (3, Stage::Restart)].into();
        assert_eq!(
            (rollout.batch, rollout.trial, rollout.progressed, rollout.turned),
            (batch, Trial::Since(4_000), 3_000, 5_500)
        );
    }

    #[test]
    fn a_pause_is_no_time_in_which_nothing_came_up() {
        let mut rollout = Rollout::to("goal", 1_000);
        rollout.turn(1_000);
        rollout.turn(3_000);
        assert_eq!(rollout.progressed, 1_000);
        rollout.turn(3_000 + 3_600_000);
        assert_eq!(rollout.progressed, 1_000 + 3_600_000 - 1_000, "a second counts");
    }
}
