//! Writing the file of a balancer, and having it read.

use super::{
    kind::{Balancer, Front, drain_millis},
    memory::{Memory, mark},
    normalize::path_of,
    observe::marked_in,
    render::{drained, named, with_marked},
};
use crate::{
    deployment::{millis, parts},
    hands::{Fault, Hands, Job, Make, Manager, Put, Seen, What},
    systemd::files::{self, ACCESS, access, text},
};
use reconciled_provider::{Action, Cx, Error, Journal, Op, Outcome, Secret, Tracked};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Carries out one action.
///
/// Errors: those of the journal.
pub(crate) async fn apply(
    cx: &Cx,
    hands: &dyn Hands,
    manager: &dyn Manager,
    action: &Action,
    journal: &dyn Journal,
) -> Result<Outcome, Error> {
    let change = match Change::of(cx, hands, action).await {
        Ok(change) => change,
        Err(error) => return Ok(Outcome::Failed(error)),
    };
    let is_due = change.is_new() || !change.left.is_empty();
    if let (true, Some(begun)) = (is_due, change.tracked()) {
        // A file that is as declared is taken for one that was read, unless something says that it was not; and whom it named
        // before, nobody could tell afterwards.
        journal.progress(action.id, begun).await?;
    }
    Ok(match change.carry_out(cx, hands, manager).await {
        Ok(outcome) => outcome,
        Err(Fault::Unknown(error)) => match change.tracked().filter(|_| is_due) {
            Some(tracked) => Outcome::Partial(tracked, error),
            None => Outcome::Unknown(error),
        },
        Err(Fault::NoEffect(error)) => match change.before().filter(|_| is_due) {
            Some(tracked) => Outcome::Back(tracked, error),
            None => Outcome::Failed(error),
        },
    })
}

/// One action, and what was found right before it.
struct Change<'a> {
    action: &'a Action,
    seen: Seen,
    /// What is remembered of it.
    memory: Option<Memory>,
    /// Marks that nobody accounts for, as the plan saw them.
    strays: BTreeSet<String>,
    /// Units that are left out from now on, and until when they get their answers out.
    left: BTreeMap<String, u64>,
}

impl<'a> Change<'a> {
    /// Errors: what is there is not what the plan was made from.
    async fn of(cx: &Cx, hands: &dyn Hands, action: &'a Action) -> Result<Change<'a>, Error> {
        let seen = look(hands, &action.op.id().0).await?;
        let (planned, tracked) = match &action.op {
            Op::Create { .. } => (None, None),
            Op::Update { observed, tracked, .. } | Op::Replace { observed, tracked, .. } => {
                (Memory::open(&observed.private), tracked.as_deref())
            }
            Op::Delete { observed, tracked } => (Memory::open(&observed.private), tracked.as_deref()),
            Op::Continue { tracked, .. } => (None, Some(&**tracked)),
        };
        let is_mark = text(&seen).map(|text| mark(cx, &text));
        let declared = action.op.desired().and_then(|desired| Balancer::decode(desired.spec.bytes()?));
        let wanted = declared.as_ref().map(|declared| mark(cx, &declared.balancer));
        // Who is drained moves by itself; all else of the file must be as it was, or as it shall be.
        let is_planned = match &action.op {
            Op::Continue { .. } => true,
            _ => is_mark == planned.as_ref().and_then(|planned| planned.seen.clone()),
        };
        if !is_planned && is_mark.is_some() && is_mark != wanted {
            return Err(Error::conflict(format!("{} changed since it was looked at", seen.path)));
        }
        let memory = tracked.and_then(|tracked| Memory::open(&tracked.private));
        let strays = planned.map(|planned| planned.strays).unwrap_or_default();
        let left =
            declared.map(|declared| leaving(cx, &declared, &seen, memory.as_ref())).unwrap_or_default();
        Ok(Change { action, seen, memory, strays, left })
    }

    /// Nothing is remembered of it, or only that it was begun.
    fn is_new(&self) -> bool {
        match &self.action.op {
            Op::Continue { .. } => true,
            Op::Delete { .. } => false,
            _ => self.memory.is_none(),
        }
    }

    /// What is remembered before the unit has read it: what it read last.
    fn tracked(&self) -> Option<Tracked> {
        let read = self.memory.as_ref().and_then(|memory| memory.read.clone());
        self.remembered(Memory { read, left: self.left.clone(), ..Memory::default() })
    }

    /// What was remembered of it, where that is more than that it was begun.
    fn before(&self) -> Option<Tracked> {
        self.memory.clone().filter(|_| !self.is_new()).and_then(|memory| self.remembered(memory))
    }

    fn remembered(&self, memory: Memory) -> Option<Tracked> {
        let desired = self.action.op.desired()?;
        let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
        tracked.private = memory.seal();
        Some(tracked)
    }

    async fn carry_out(&self, cx: &Cx, hands: &dyn Hands, manager: &dyn Manager) -> Result<Outcome, Fault> {
        let Some(desired) = self.action.op.desired() else {
            files::remove(hands, &self.seen).await?;
            return Ok(Outcome::Gone);
        };
        let declared = desired.spec.bytes().and_then(Balancer::decode);
        let declared = declared.ok_or_else(|| Error::unexpected(format!("{} is no balancer", desired.id)))?;
        // Whoever is being drained stays so; marks that nobody could account for go.
        let marked: BTreeSet<String> =
            marked_in(&self.seen).into_iter().filter(|unit| !self.strays.contains(unit)).collect();
        let content = with_marked(&declared.balancer, |_| true, &marked);
        let content = match named(&content).is_subset(&drained(&content)) {
            // Those that were to serve meanwhile are members no longer, so whoever is left does.
            true => declared.balancer.clone(),
            false => content,
        };
        let is = text(&self.seen);
        if is.as_deref() != Some(&*content) || access(&self.seen).is_some() {
            let written = self.memory.as_ref().and_then(|memory| memory.read.as_ref());
            // Also what was edited by hand in a file of ours is somebody's work.
            let is_ours = is.is_some_and(|text| written == Some(&mark(cx, &text)));
            put(hands, &self.seen, &content, declared.validate.clone(), !is_ours).await?;
        }
        if let Err(Fault::NoEffect(error) | Fault::Unknown(error)) = reload(manager, &declared.reload).await {
            return Err(Fault::Unknown(error));
        }
        // From now on they get no more.
        let left = leaving(cx, &declared, &self.seen, self.memory.as_ref());
        let memory = Memory { read: Some(mark(cx, &declared.balancer)), left, ..Memory::default() };
        Ok(self.remembered(memory).map_or(Outcome::Gone, Outcome::Done))
    }
}

/// Units that the balancer named in what it read last, or is to have left out already, and that are no members any longer: until
/// when they get their answers out, from now on.
fn leaving(cx: &Cx, declared: &Balancer, seen: &Seen, memory: Option<&Memory>) -> BTreeMap<String, u64> {
    let now = millis(cx);
    let until = now + drain_millis(declared.drain);
    let before = memory.map(|memory| memory.left.clone()).unwrap_or_default();
    let is_read = memory.and_then(|memory| memory.read.as_ref()) == Some(&mark(cx, &declared.balancer));
    let mut left: BTreeMap<String, u64> =
        before.into_iter().map(|(unit, was)| (unit, if is_read { was } else { until })).collect();
    left.extend(
        text(seen).map(|text| named(&text)).unwrap_or_default().into_iter().map(|unit| (unit, until)),
    );
    let members = named(&declared.balancer);
    left.retain(|unit, until| !members.contains(unit) && *until > now);
    left
}

async fn look(hands: &dyn Hands, id: &str) -> Result<Seen, Error> {
    let path = path_of(id).ok_or_else(|| Error::unexpected(format!("{id} is no path")))?;
    let seen = hands.look(std::slice::from_ref(&path)).await?.pop();
    seen.ok_or_else(|| Error::unexpected(format!("nothing was said of {path}")))
}

async fn put(
    hands: &dyn Hands,
    seen: &Seen,
    content: &str,
    validate: Option<Arc<str>>,
    keep: bool,
) -> Result<(), Fault> {
    let content = Secret::new(content.as_bytes().to_vec());
    let make = Make::File { access: ACCESS, content, validate, is_public: true };
    let keep = keep && !matches!(seen.what, What::Absent);
    hands.put(&Put { path: seen.path.clone(), expect: seen.stamp(), make, keep }).await
}

/// Has the unit read its configuration, if it runs: one that does not reads it when it starts.
async fn reload(manager: &dyn Manager, unit: &str) -> Result<(), Fault> {
    let state = manager.units(&[unit.to_owned()]).await?.pop().unwrap_or_default();
    if state.load.is_empty() {
        let error = Error::unavailable(format!("have {unit} read its configuration: nothing is known of it"));
        return Err(error
            .hint("`units` of the helper's configuration must allow it, so that it can be reloaded")
            .into());
    }
    if state.is_running() { manager.job(unit, Job::Reload, &state.invocation).await } else { Ok(()) }
}

/// What became of instances that were to be drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Somewhere they get no more requests.
    Some,
    /// They are the only ones wherever they are: until they are started anew, they serve.
    None,
    /// Nothing was done: all others are being drained for somebody else, in these words.
    Later(String),
}

/// Has exactly `units` of a deployment marked at these balancers, which are ours, and each of which reads that before this
/// returns: they are drained, and those of them that came besides serve. A balancer that is not there yet needs no mark.
///
/// Errors: something else is in the place of its file; besides those of writing and of jobs.
///
/// Guarantee: no balancer that has another member is left without one whose unit runs, as systemd says. Those that are being
/// drained for somebody else count as away for a time, so they are waited for; without patience they count as gone.
pub(crate) async fn drain(
    hands: &dyn Hands,
    manager: &dyn Manager,
    fronts: &[Front],
    of: impl Fn(&str) -> bool + Copy,
    units: &BTreeSet<String>,
    is_patient: bool,
) -> Result<Drained, Fault> {
    let (mut changes, mut end) = (Vec::new(), Drained::None);
    for front in fronts {
        let seen = look(hands, &front.path).await?;
        let Some(text) = there(&seen)? else { continue };
        let with = |units| with_marked(&text, of, units);
        let mut content = with(units);
        let (named, away) = (named(&content), drained(&content));
        let left: BTreeSet<&String> = named.difference(&away).collect();
        if !away.is_disjoint(units) && !any_serves(manager, &left).await? {
            // Those that came besides go on as they are.
            let besides = units.difference(&away).cloned().collect();
            let away: Vec<&str> = away.difference(units).map(String::as_str).collect();
            if is_patient && !away.is_empty() {
                let away = away.join(", ");
                let why = format!("no other one at {} would serve while {away} is being drained", front.path);
                return Ok(Drained::Later(why));
            }
            content = with(&besides);
        }
        if !drained(&content).is_disjoint(units) {
            end = Drained::Some;
        }
        changes.push((front, (content != text).then_some(content), seen));
    }
    for (front, content, seen) in changes {
        if let Some(content) = content {
            put(hands, &seen, &content, None, false).await?;
        }
        // Also where it was as wanted: a process may have died between the two.
        reload(manager, &front.reload).await?;
    }
    Ok(end)
}

/// What is in the file of a balancer; none where there is none yet.
///
/// Errors: what is there is no file. Whoever reads it goes on with what it read before, with the marks in that.
fn there(seen: &Seen) -> Result<Option<String>, Error> {
    match &seen.what {
        What::Absent => Ok(None),
        What::File { .. } => Ok(text(seen)),
        What::Refused(refusal) => Err(refusal.clone().into()),
        What::Link { .. } | What::Directory { .. } | What::Other(_) => {
            let text = format!("tell who is drained in {}: that is no file", seen.path);
            Err(Error::unavailable(text)
                .hint("remove it by hand: the balancer is written anew, and this goes on"))
        }
    }
}

/// Whether any of these members runs. One of which nothing may be known counts as one that does.
async fn any_serves(manager: &dyn Manager, units: &BTreeSet<&String>) -> Result<bool, Error> {
    // What somebody wrote into the file by hand is no instance of anything.
    let is_instance = |unit: &&&String| matches!(parts(unit), Some((_, Some(_))));
    let names: Vec<String> = units.iter().filter(is_instance).map(|unit| (*unit).clone()).collect();
    if names.is_empty() {
        return Ok(false);
    }
    let states = manager.units(&names).await?;
    Ok(states.iter().any(|state| state.load.is_empty() || matches!(&*state.active, "active" | "reloading")))
}

/// Has nobody of a deployment drained at a balancer that was ours when they were marked. Where there is no mark, it is neither
/// written nor told.
pub(crate) async fn release(
    hands: &dyn Hands,
    manager: &dyn Manager,
    front: &Front,
    of: impl Fn(&str) -> bool,
) -> Result<(), Fault> {
    let seen = look(hands, &front.path).await?;
    let Some(text) = there(&seen)? else { return Ok(()) };
    let content = with_marked(&text, of, &BTreeSet::new());
    if content == text {
        return Ok(());
    }
    put(hands, &seen, &content, None, false).await?;
    reload(manager, &front.reload).await
}
