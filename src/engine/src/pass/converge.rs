//! Round after round, until nothing is due.
//!
//! Guarantees: it ends when every scope is in sync and what it wrote does its work or does not in the end, waits for a
//! person, or is due only after the given time; a wish to stop is heard between rounds. What a round wrote is seen by the
//! next one, never believed. Where nothing can be written down, as on a full disk, it ends with that error. What is given up is not
//! looked at again, and keeps nothing else from being done and seen.
//! It deliberately keeps no queue: priorities and spreading are the scheduler's.

use super::{Engine, RoundReport, scope::Next};
use crate::{
    desired::Desired,
    survey::{Survey, SurveyOptions},
};
use futures_util::future::select;
use reconciled_provider::{Error, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

/// What happened over several rounds: (scope, change, outcome) → how many.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// All of it.
    pub all: BTreeMap<(Scope, &'static str, &'static str), usize>,
    /// What of it others claimed: change, outcome.
    claims: BTreeMap<(&'static str, &'static str), usize>,
}

impl Outcomes {
    fn add(&mut self, round: &RoundReport) {
        for (scope, report) in &round.scopes {
            for (what, count) in &report.claims {
                *self.claims.entry(*what).or_default() += count;
            }
            for ((change, outcome), count) in &report.outcomes {
                *self.all.entry((scope.clone(), change, outcome)).or_default() += count;
            }
            if report.adopted > 0 {
                *self.all.entry((scope.clone(), "adopt", "done")).or_default() += report.adopted;
            }
        }
    }
    /// How many of these changes that ended so were claims of others.
    pub fn claims(&self, change: &str, outcomes: &[&str]) -> usize {
        let meant = self.claims.iter().filter(|((c, o), _)| *c == change && outcomes.contains(o));
        meant.map(|(_, count)| count).sum()
    }
    /// How many came to their end that had been begun before.
    pub fn resumed(&self) -> usize {
        let mut scopes: BTreeMap<&Scope, [usize; 2]> = BTreeMap::new();
        for ((scope, change, outcome), count) in &self.all {
            let [ended, begun] = scopes.entry(scope).or_default();
            match (*change, *outcome) {
                ("continue", "done" | "gone") => *ended += count,
                ("continue", _) => {}
                (_, "pending") => *begun += count,
                _ => {}
            }
        }
        scopes.values().map(|[ended, begun]| ended.saturating_sub(*begun)).sum()
    }
    /// How many that were begun with `change` failed on the way, and came to no end since.
    pub fn broken_off(&self, change: &str) -> usize {
        let of = |scope: &Scope, is_meant: &dyn Fn(&str, &str) -> bool| -> usize {
            let all = self.all.iter().filter(|((s, c, o), _)| s == scope && is_meant(c, o));
            all.map(|(_, count)| count).sum()
        };
        let begun = self.all.iter().filter(|((_, c, o), _)| (*c, *o) == (change, "pending"));
        let broken_off = begun.map(|((scope, ..), count)| {
            let all = of(scope, &|c, o| c != "continue" && o == "pending");
            let ended = of(scope, &|c, o| c == "continue" && ["done", "gone"].contains(&o));
            let failed = of(scope, &|c, o| c == "continue" && ["failed", "partial", "unknown"].contains(&o));
            (*count).min(all.saturating_sub(ended)).min(failed)
        });
        broken_off.sum()
    }
    /// How many actions ended with `outcome`.
    pub fn count(&self, outcome: &str) -> usize {
        self.all.iter().filter(|((_, _, o), _)| *o == outcome).map(|(_, n)| n).sum()
    }
}

/// What is waited for, and until when.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    /// Until then, since the epoch.
    pub until: Duration,
    /// Not for these scopes, while they cannot be read or written: somebody is told of that, and waits for no progress.
    pub given_up: BTreeSet<Scope>,
}

impl Patience {
    /// For everything, until then.
    pub fn until(until: Duration) -> Patience {
        Patience { until, ..Patience::default() }
    }
}

/// Where converging ended.
#[derive(Debug)]
pub struct Converge {
    /// Each scope as it was last seen.
    pub round: RoundReport,
    /// What was done on the way.
    pub outcomes: Outcomes,
    /// Something is still on its way.
    pub timed_out: bool,
}

impl Converge {
    /// This, and then `next`, which looked at everything again.
    pub fn then(mut self, next: Converge) -> Converge {
        for (what, count) in next.outcomes.all {
            *self.outcomes.all.entry(what).or_default() += count;
        }
        for (what, count) in next.outcomes.claims {
            *self.outcomes.claims.entry(what).or_default() += count;
        }
        Converge { outcomes: self.outcomes, ..next }
    }
}

impl Engine {
    /// Rounds until nothing is due: every scope is in sync, is given up, or waits for a person, or for a time after `patience`.
    ///
    /// What a pass wrote is seen by the next one; who waited for it is looked at again.
    pub async fn converge(
        &self,
        desired: &Desired,
        options: &SurveyOptions,
        patience: &Patience,
    ) -> Result<Converge, Error> {
        let survey = self.surveyor.survey(&*self.store, desired, options).await?;
        self.converge_from(desired, survey, options, patience).await
    }

    /// As [`Engine::converge`], beginning with a survey that was already made (and shown).
    pub async fn converge_from(
        &self,
        desired: &Desired,
        survey: Survey,
        options: &SurveyOptions,
        patience: &Patience,
    ) -> Result<Converge, Error> {
        let Patience { until, mut given_up } = patience.clone();
        let written_since = Some(self.surveyor.cx.clock.now());
        let mut total = self.carry_out_and(Next::Look, desired, survey).await?;
        let mut outcomes = Outcomes::default();
        outcomes.add(&total);
        if let Some(error) = total.unwritten() {
            return Err(error.clone());
        }
        let mut progress = total.moved();
        let mut seen = total.take_seen();
        loop {
            let now = self.surveyor.cx.clock.now();
            // One that was looked at with others of its guard domain, and could be read by then, is as good as they are.
            given_up.retain(|scope| total.scopes.get(scope).is_some_and(|report| report.error.is_some()));
            let mut due = total.due(now);
            if progress {
                due.extend(total.waiting());
            }
            due.extend(total.take_wakes());
            due.extend(self.woken().filter(|scope| total.scopes.contains_key(scope)));
            due.retain(|scope| !given_up.contains(scope));
            if self.surveyor.cx.stop.is_set() {
                return Ok(Converge { round: total, outcomes, timed_out: !due.is_empty() });
            }
            if !due.is_empty() && now >= until {
                // Whoever writes against us could keep us busy for ever.
                return Ok(Converge { round: total, outcomes, timed_out: true });
            }
            if due.is_empty() {
                match total.next_due(now, &given_up) {
                    None => return Ok(Converge { round: total, outcomes, timed_out: false }),
                    Some(at) if at > until => {
                        return Ok(Converge { round: total, outcomes, timed_out: true });
                    }
                    Some(at) => {
                        let cx = &self.surveyor.cx;
                        select(cx.clock.sleep(at.saturating_sub(now)), pin!(cx.stop.wished())).await;
                        // Too long ago by now.
                        seen.clear();
                    }
                }
                continue;
            }
            let only = SurveyOptions { only: Some(due.clone()), written_since, ..options.clone() };
            let was_awaited = total.awaited();
            let seen_since = std::mem::take(&mut seen);
            let survey = self.surveyor.survey_again(&*self.store, desired, &only, seen_since).await?;
            let mut next = self.carry_out_and(Next::Look, desired, survey).await?;
            seen = next.take_seen();
            outcomes.add(&next);
            if let Some(error) = next.unwritten() {
                return Err(error.clone());
            }
            progress = next.moved();
            // A scope that nothing desires and nothing remembers has come to its end.
            total.scopes.retain(|scope, _| !due.contains(scope));
            total.replace(next);
            // Who depends on what does its work now may go on.
            progress |= was_awaited.iter().any(|scope| !total.awaited().contains(scope));
        }
    }

    /// Scopes that what was written gave a reason to look at again, in the words of their providers.
    fn woken(&self) -> impl Iterator<Item = Scope> {
        self.surveyor.entries.values().flat_map(|entry| entry.observer.woken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_before_counts_as_resumed_and_what_began_here_does_not() {
        let (cert, zone) = (Scope::new("cert", "web"), Scope::new("pdns", "a"));
        let check = |outcomes: &[(&Scope, &'static str, &'static str)], expect| {
            let mut all = BTreeMap::new();
            for (scope, change, outcome) in outcomes {
                *all.entry(((*scope).clone(), *change, *outcome)).or_default() += 1;
            }
            let outcomes = Outcomes { all, ..Outcomes::default() };
            assert_eq!(outcomes.resumed(), expect, "{outcomes:?}");
        };
        check(&[(&cert, "continue", "pending"), (&cert, "continue", "done")], 1);
        check(&[(&cert, "create", "pending"), (&cert, "continue", "done")], 0);
        check(&[(&zone, "create", "pending"), (&cert, "continue", "done"), (&zone, "create", "done")], 1);
    }

    #[test]
    fn what_was_begun_and_failed_on_the_way_is_broken_off_until_it_came_to_an_end() {
        let (cert, other) = (Scope::new("cert", "web"), Scope::new("cert", "other"));
        let check = |outcomes: &[(&Scope, &'static str, &'static str)], expect| {
            let all =
                outcomes.iter().map(|(scope, change, outcome)| (((*scope).clone(), *change, *outcome), 1));
            let outcomes = Outcomes { all: all.collect(), ..Outcomes::default() };
            assert_eq!(outcomes.broken_off("create"), expect, "{outcomes:?}");
        };
        let begun = (&cert, "create", "pending");
        check(&[begun, (&cert, "continue", "pending")], 0);
        check(&[begun, (&cert, "continue", "unknown")], 1);
        check(&[begun, (&cert, "continue", "unknown"), (&cert, "continue", "done")], 0);
        check(&[begun, (&other, "continue", "unknown")], 0);
        check(&[(&cert, "update", "pending"), (&cert, "continue", "failed")], 0);
    }
}
