//! Carrying out a batch: templates, instances, balancers, and what goes.

use super::{
    instance::{self, is_about_one},
    jobs::Jobs,
    leaving::{Served, staying},
    look::{group, numbers},
    memory::{Memory, millis},
    parts,
    turn::{Reloads, Turn},
};
use crate::{
    apply::begin,
    balancer::{self, LONGEST},
    hands::{Fault, Hands, Manager},
    systemd::files,
};
use futures_util::future::{select, try_join_all};
use reconciled_provider::{Action, ActionId, Batch, Cx, Error, Journal, Op, Outcome, ResourceId};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

/// Carries out a batch: templates, then instances, then balancers, then what goes.
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
    let site = Site { hands, manager, jobs: Jobs::of(manager), cx, journal };
    let is_gone = |action: &&Action| matches!(action.op, Op::Delete { .. });
    let (instances, others): (Vec<&Action>, Vec<&Action>) =
        batch.actions.iter().partition(|action| is_about_one(&action.op));
    let (balancers, templates): (Vec<&Action>, Vec<&Action>) =
        others.into_iter().partition(|action| balancer::is_balancer(&action.op.id().0));
    let (gone, templates): (Vec<&Action>, Vec<&Action>) = templates.into_iter().partition(is_gone);
    let (fewer, instances): (Vec<&Action>, Vec<&Action>) = instances.into_iter().partition(is_gone);
    let unwritten = site.turns(&templates).await?;
    instance::apply(hands, manager, &site.jobs, journal, &instances, &unwritten).await?;
    // Those that serve until the ones in their place do, at their balancers as well.
    let staying = staying(hands, manager, cx, &fewer).await;
    let (stay, fewer): (Vec<&Action>, Vec<&Action>) =
        fewer.into_iter().partition(|action| staying.contains_key(&*action.op.id().0));
    let served: BTreeSet<String> = stay.iter().flat_map(|action| Served::of(action).named).collect();
    let (waiting, balancers): (Vec<&Action>, Vec<&Action>) =
        balancers.into_iter().partition(|action| !is_gone(action) && served.contains(&*action.op.id().0));
    let stay = stay.iter().map(|action| (action.id, staying[&*action.op.id().0].clone()));
    let waiting = waiting.iter().map(|action| (action.id, not_yet(action)));
    site.hold_back(stay.chain(waiting).map(|(id, error)| (id, Outcome::Failed(error))).collect()).await?;
    let balancers = Balancers::apply(&site, &balancers).await?;
    site.leave(fewer, gone, &balancers, &unwritten).await
}

/// Where a batch is carried out, and who is told what came of it.
struct Site<'a> {
    hands: &'a dyn Hands,
    manager: &'a dyn Manager,
    jobs: Jobs<'a>,
    cx: &'a Cx,
    journal: &'a dyn Journal,
}

impl Site<'_> {
    /// Takes a turn with each template that is declared; returns those that were not even written, by name, and why.
    async fn turns<'b>(&self, templates: &[&'b Action]) -> Result<BTreeMap<&'b str, Error>, Error> {
        let reloads = Reloads::of(self.manager, &self.jobs, templates.len());
        let turns = templates.iter().copied().map(|action| self.turn(&reloads, action));
        let refused = try_join_all(turns).await?;
        Ok(refused.into_iter().flatten().collect())
    }

    async fn turn<'b>(
        &self,
        reloads: &Reloads<'_>,
        action: &'b Action,
    ) -> Result<Option<(&'b str, Error)>, Error> {
        let seat = reloads.seat();
        let taken = match Turn::of(action, &seat) {
            Some(turn) => turn.take(self.hands, self.manager, self.cx, self.journal).await,
            None => {
                let text = format!("{} is no deployment", action.op.id());
                Ok(Outcome::Failed(Error::unexpected(text)))
            }
        };
        seat.rest().await;
        let outcome = taken?;
        let refused = match (&outcome, parts(&action.op.id().0)) {
            (Outcome::Failed(error), Some((name, _))) => Some((name, error.clone())),
            _ => None,
        };
        self.journal.finished(vec![(action.id, outcome)]).await?;
        Ok(refused)
    }

    /// Says of some, if any, why nothing is done to them.
    async fn hold_back(&self, kept: Vec<(ActionId, Outcome)>) -> Result<(), Error> {
        if kept.is_empty() {
            return Ok(());
        }
        self.journal.finished(kept).await
    }

    /// Has instances go, and then templates, but for those that a balancer may name or that requests are under way to.
    async fn leave<'b>(
        &self,
        fewer: Vec<&'b Action>,
        gone: Vec<&'b Action>,
        balancers: &Balancers<'b>,
        unwritten: &BTreeMap<&str, Error>,
    ) -> Result<(), Error> {
        if fewer.is_empty() && gone.is_empty() {
            return Ok(());
        }
        if let Some(balancer) = &balancers.unread {
            // It may still send requests to those that would go.
            let why = format!("{balancer} may still name its instances");
            let last: Vec<&Action> = fewer.iter().chain(&gone).copied().collect();
            let kept = kept_all(&last, &why, "it goes once that balancer is as declared");
            return self.journal.finished(kept).await;
        }
        let (fewer, gone) = self.keep_named(fewer, gone, balancers).await?;
        // Requests that are on their way to those that go now.
        let now = millis(self.cx);
        let (fewer, gone) = self.keep_busy(fewer, gone, balancers, now).await?;
        let longest = fewer.iter().map(|action| balancers.wait(action, now)).max();
        if let Some(wait) = longest.filter(|wait| *wait > 0) {
            let sleep = self.cx.clock.sleep(Duration::from_millis(wait));
            select(sleep, pin!(self.cx.stop.wished())).await;
        }
        if self.cx.stop.is_set() {
            let last: Vec<&Action> = fewer.iter().chain(&gone).copied().collect();
            return self.journal.finished(kept_all(&last, "this process ends", "the next one goes on")).await;
        }
        instance::apply(self.hands, self.manager, &self.jobs, self.journal, &fewer, unwritten).await?;
        for action in gone {
            let outcome = match take_away(self.hands, self.manager, &self.jobs, action).await {
                Ok(()) => Outcome::Gone,
                Err(fault) => fault.into(),
            };
            self.journal.finished(vec![(action.id, outcome)]).await?;
        }
        Ok(())
    }

    /// Holds back the instances that a balancer may still name, and their templates; returns the others. A balancer that is
    /// suspended, or whose change waits for a person, is in no batch.
    async fn keep_named<'b>(
        &self,
        fewer: Vec<&'b Action>,
        gone: Vec<&'b Action>,
        balancers: &Balancers<'b>,
    ) -> Result<(Vec<&'b Action>, Vec<&'b Action>), Error> {
        let (named, fewer): (Vec<&Action>, Vec<&Action>) =
            fewer.into_iter().partition(|action| balancers.still_naming(action).is_some());
        for action in &named {
            let balancer = balancers.still_naming(action).unwrap_or_default();
            let why = format!("{balancer} may still name it");
            let hint = "it goes once that balancer is as declared: reconciled status";
            self.journal.finished(kept_all(&[action], &why, hint)).await?;
        }
        let is_named = |action: &&Action| named.iter().any(|one| name_of(one) == name_of(action));
        let (held, gone): (Vec<&Action>, Vec<&Action>) = gone.into_iter().partition(is_named);
        self.hold_back(kept_all(&held, "instances of it are", "it goes once they are gone")).await?;
        Ok((fewer, gone))
    }

    /// Holds back the instances that get their answers out for longer than can be waited for, and their templates; returns the
    /// others. Nothing else of the host waits for them: until when they stay is remembered, and they come back by themselves.
    async fn keep_busy<'b>(
        &self,
        fewer: Vec<&'b Action>,
        gone: Vec<&'b Action>,
        balancers: &Balancers<'b>,
        now: u64,
    ) -> Result<(Vec<&'b Action>, Vec<&'b Action>), Error> {
        let wait = |action: &Action| balancers.wait(action, now);
        let (busy, fewer): (Vec<&Action>, Vec<&Action>) =
            fewer.into_iter().partition(|action| wait(action) > SHORT);
        let mut later: BTreeMap<&str, u64> = BTreeMap::new();
        for action in &busy {
            let longest = later.entry(name_of(action)).or_default();
            *longest = wait(action).max(*longest);
        }
        let (held, gone): (Vec<&Action>, Vec<&Action>) =
            gone.into_iter().partition(|action| later.contains_key(name_of(action)));
        let of_busy = busy.iter().map(|action| (action.id, under_way(action, wait(action))));
        let of_held = held.iter().map(|action| (action.id, under_way(action, later[name_of(action)])));
        self.hold_back(of_busy.chain(of_held).collect()).await?;
        Ok((fewer, gone))
    }
}

/// What the balancers of a batch came to.
#[derive(Default)]
struct Balancers<'a> {
    /// Until when those that left them get their answers out, by id.
    left: BTreeMap<String, u64>,
    /// Those that are as declared, or gone.
    read: BTreeSet<&'a str>,
    /// One that is not.
    unread: Option<ResourceId>,
}

impl<'a> Balancers<'a> {
    async fn apply(site: &Site<'_>, actions: &[&'a Action]) -> Result<Balancers<'a>, Error> {
        let mut all = Balancers::default();
        for action in actions {
            let outcome = balancer::apply(site.cx, site.hands, site.manager, action, site.journal).await?;
            match &outcome {
                Outcome::Done(tracked) => {
                    all.left.extend(balancer::left(tracked));
                    all.read.insert(&action.op.id().0);
                }
                Outcome::Gone => drop(all.read.insert(&action.op.id().0)),
                _ if outcome.error().is_some() => all.unread = Some(action.op.id().clone()),
                _ => {}
            }
            site.journal.finished(vec![(action.id, outcome)]).await?;
        }
        Ok(all)
    }

    /// A balancer that may name this instance still.
    fn still_naming(&self, action: &Action) -> Option<String> {
        Served::of(action).named.into_iter().find(|path| !self.read.contains(&**path))
    }

    /// For how many milliseconds from `now` on an instance, or its template, gets its answers out.
    fn wait(&self, action: &Action, now: u64) -> u64 {
        let until = self.left.get(&*action.op.id().0).copied().max(Served::of(action).until);
        // Where it is longer than anybody may say, the clock was set back since.
        until.and_then(|until| until.checked_sub(now)).filter(|wait| *wait <= LONGEST).unwrap_or_default()
    }
}

/// How long those that go are waited for, in milliseconds: nothing else of the host is done meanwhile.
const SHORT: u64 = 1_000;

/// The name of the deployment that an action is about.
fn name_of(action: &Action) -> &str {
    parts(&action.op.id().0).map_or("", |(name, _)| name)
}

/// A balancer names those that are declared once enough of them serve.
fn not_yet(action: &Action) -> Error {
    let text = format!("{} is kept: too few of those that come into it serve", action.op.id());
    let error = Error::unavailable(text).hint("nothing: it is written once they do");
    error.retry_after(Duration::from_millis(SHORT))
}

/// An instance that goes, or its template, is left for so many milliseconds.
fn under_way(action: &Action, wait: u64) -> Outcome {
    let text = format!("{} is kept: requests to it are still under way", action.op.id());
    let error = Error::unavailable(text).hint("nothing: it goes by itself once they had `drainSeconds`");
    Outcome::Failed(error.retry_after(Duration::from_millis(wait)))
}

/// Nothing was done to these, and why.
fn kept_all(actions: &[&Action], why: &str, hint: &str) -> Vec<(ActionId, Outcome)> {
    let kept = |action: &&Action| {
        let text = format!("{} is kept: {why}", action.op.id());
        (action.id, Outcome::Failed(Error::unavailable(text).hint(hint)))
    };
    actions.iter().map(kept).collect()
}

/// Takes away a template, and what a rolling update left.
async fn take_away(
    hands: &dyn Hands,
    manager: &dyn Manager,
    jobs: &Jobs<'_>,
    action: &Action,
) -> Result<(), Fault> {
    let Op::Delete { tracked, observed } = &action.op else { return Ok(()) };
    let Some((name, None)) = parts(&action.op.id().0) else { return Ok(()) };
    let memory = Memory::open(tracked.as_deref());
    let rows = Memory::read(&observed.private).rows;
    let mut all = numbers(None, &memory);
    all.extend(rows.iter().flatten());
    let group = group(hands, manager, name, &all).await?;
    if let Some(why) = group.any_closed() {
        return Err(Error::from(why).into());
    }
    // Nobody else knows of those that it started and that had no row yet: one that has goes with that, or stays.
    let has_row = |number: &u32| rows.as_ref().is_none_or(|rows| rows.contains(number));
    if let Some(rollout) = &memory.rollout {
        let touched = rollout.touched.iter().filter(|number| !has_row(number));
        let begun: BTreeSet<u32> = rollout.surge.iter().chain(touched).copied().collect();
        for number in begun {
            group.stop(jobs, number).await?;
        }
    }
    // One whose deletion failed, or is suspended, runs from it; without it nobody could start that again.
    let mut kept = rows.iter().flatten().filter(|number| group.is_running(**number));
    if let Some(number) = kept.next() {
        let text = format!("{} is kept: {} still runs", action.op.id(), super::instance(name, *number));
        return Err(Error::unavailable(text).hint("it goes once no instance runs: reconciled status").into());
    }
    let mut is_changed = false;
    for looked in group.members.values() {
        is_changed |= files::remove(hands, &looked.file).await?;
    }
    is_changed |= files::remove(hands, &group.template).await?;
    if is_changed { manager.reload().await } else { Ok(()) }
}
