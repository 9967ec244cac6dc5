//! Instances that are declared no longer: what they still do for others, as a look hands it on to the change that follows it. While
//! others are to come in their place, as where `firstInstance` changed, as many serve as a rolling update leaves, whichever they are.

use super::{
    kind::Deployment,
    look::{Group, group},
    memory::Memory,
    names::{instance, parts},
    rollout::Standing,
};
use crate::{
    hands::{Check, Hands, Manager, Run},
    systemd::definition,
};
use reconciled_provider::{Action, Cx, Error, Op, Sealed};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

/// What a deployment shall have, as a look hands it on with each instance that is declared no longer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Others {
    /// The instances that are declared.
    numbers: Range<u32>,
    /// So many serve at any time.
    floor: u32,
    /// How long one that is declared runs before it counts, in seconds.
    min_ready: u32,
    /// What must answer of one that is declared.
    checks: Vec<Check>,
    /// The same of the one that goes.
    own: Vec<Check>,
}

impl Others {
    pub(super) fn of(number: u32, declared: &Deployment, memory: &Memory, group: &Group) -> Others {
        let means = definition::effective([memory.goal(declared)]);
        Others {
            numbers: declared.range(),
            floor: declared.floor(),
            min_ready: declared.min_ready,
            checks: memory.checks(declared).to_vec(),
            own: group.checks(number, &means, memory, declared).to_vec(),
        }
    }
}

/// What an instance that is declared no longer does for others, as a look hands it on: what balancers of ours say of it, and whom it
/// makes room for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Served {
    /// Until when it gets its answers out, in milliseconds since the epoch.
    pub(super) until: Option<u64>,
    /// The files that name it, by their ids.
    pub(super) named: Vec<String>,
    /// Those that are declared; none where its deployment is not.
    #[serde(default)]
    pub(super) others: Option<Others>,
    /// Its deployment is declared, and nobody knows yet what that asks for: none comes in its place before.
    #[serde(default)]
    pub(super) is_waiting: bool,
}

impl Served {
    pub(super) fn seal(&self) -> Sealed {
        Sealed::new(serde_json::to_vec(self).unwrap_or_default())
    }
    /// The same, as it was handed on.
    pub(super) fn of(action: &Action) -> Served {
        let Op::Delete { observed, .. } = &action.op else { return Served::default() };
        serde_json::from_slice(&observed.private.0).unwrap_or_default()
    }
}

/// How long an instance stays before it is looked at again whether it may go.
const AGAIN: Duration = Duration::from_secs(1);

/// The instances that stay for now although they are to go, by their ids, and why: without them too few would serve.
pub(super) async fn staying<'a>(
    hands: &dyn Hands,
    manager: &dyn Manager,
    cx: &Cx,
    fewer: &[&'a Action],
) -> BTreeMap<&'a str, Error> {
    let mut all: BTreeMap<&str, BTreeMap<u32, (&'a str, Others)>> = BTreeMap::new();
    let mut staying = BTreeMap::new();
    for &action in fewer {
        let id: &'a str = &action.op.id().0;
        let Served { is_waiting, others, .. } = Served::of(action);
        if is_waiting {
            let error = Error::unavailable(format!("{id} is kept: not all is known yet of its deployment"));
            staying.insert(id, error.hint("nothing: it goes by itself once others serve in its place"));
        }
        // Where the deployment goes as a whole there are no others.
        let others = others.filter(|others| others.floor > 0);
        if let (Some((name, Some(number))), Some(others)) = (parts(id), others) {
            all.entry(name).or_default().insert(number, (id, others));
        }
    }
    for (name, leaving) in all {
        match staying_of_one(hands, manager, cx, name, &leaving).await {
            Ok(stay) => staying.extend(stay),
            Err(error) => staying.extend(leaving.values().map(|(id, _)| (*id, error.clone()))),
        }
    }
    staying
}

/// Those of one deployment.
async fn staying_of_one<'a>(
    hands: &dyn Hands,
    manager: &dyn Manager,
    cx: &Cx,
    name: &str,
    leaving: &BTreeMap<u32, (&'a str, Others)>,
) -> Result<Vec<(&'a str, Error)>, Error> {
    let Some((_, others)) = leaving.values().next() else { return Ok(Vec::new()) };
    let numbers: BTreeSet<u32> = others.numbers.clone().chain(leaving.keys().copied()).collect();
    let group = group(hands, manager, name, &numbers).await?;
    let checks = |number: u32| leaving.get(&number).map_or(&*others.checks, |(_, leaving)| &*leaving.own);
    let standings = group.standings(hands, checks, numbers.iter().copied()).await;
    // One that nobody can ask serves, as far as anybody knows.
    let serves =
        |number: &u32| matches!(standings.get(number), Some(Standing::Available | Standing::NotAsked(_)));
    let come: Vec<String> =
        others.numbers.clone().filter(serves).map(|number| instance(name, number)).collect();
    let come = have_lasted(manager, cx, &come, others.min_ready).await?;
    let serving: Vec<&'a str> =
        leaving.iter().filter(|(number, _)| serves(number)).map(|(_, (id, _))| *id).collect();
    let floor = others.floor;
    let may_go = (come + serving.len()).saturating_sub(usize::try_from(floor).unwrap_or(usize::MAX));
    let stay = serving.into_iter().skip(may_go).map(|id| {
        let text = format!("{id} is kept: {come} of those that come in its place serve, and {floor} have to");
        let error = Error::unavailable(text).hint("nothing: it goes by itself once they do");
        (id, error.retry_after(AGAIN))
    });
    Ok(stay.collect())
}

/// How many of these units, which run, have done so for `seconds`: what dies at once is not taken for well.
async fn have_lasted(manager: &dyn Manager, cx: &Cx, units: &[String], seconds: u32) -> Result<usize, Error> {
    if units.is_empty() || seconds == 0 {
        return Ok(units.len());
    }
    let (runs, now) = (manager.runs(units).await?, cx.clock.now());
    let has_lasted = |run: &&Run| {
        // Of one that is to begin yet, the clock was set back since.
        let age = now.checked_sub(Duration::from_micros(run.began));
        age.is_none_or(|age| age >= Duration::from_secs(seconds.into()))
    };
    Ok(runs.iter().filter(has_lasted).count())
}
