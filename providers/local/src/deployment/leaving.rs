//! Instances that are declared no longer while others are to come in their place, as where `firstInstance` changed: as many
//! serve meanwhile as a rolling update leaves, whichever they are.

use super::{
    instance::Served,
    kind::Deployment,
    look::{Group, Standing, group},
    memory::Memory,
    parts,
};
use crate::{
    hands::{Check, Hands, Manager},
    systemd::definition,
};
use reconciled_provider::{Action, Error};
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
            checks: memory.checks(declared).to_vec(),
            own: group.checks(number, &means, memory, declared).to_vec(),
        }
    }
}

/// How long an instance stays before it is looked at again whether it may go.
const AGAIN: Duration = Duration::from_secs(1);

/// The instances that stay for now although they are to go, by their ids, and why: without them too few would serve.
pub(super) async fn staying<'a>(
    hands: &dyn Hands,
    manager: &dyn Manager,
    fewer: &[&'a Action],
) -> BTreeMap<&'a str, Error> {
    let mut all: BTreeMap<&str, BTreeMap<u32, (&'a str, Others)>> = BTreeMap::new();
    for &action in fewer {
        let id: &'a str = &action.op.id().0;
        // Where the deployment goes as a whole there are no others.
        let others = Served::of(action).others.filter(|others| others.floor > 0);
        if let (Some((name, Some(number))), Some(others)) = (parts(id), others) {
            all.entry(name).or_default().insert(number, (id, others));
        }
    }
    let mut staying = BTreeMap::new();
    for (name, leaving) in all {
        let Some((_, others)) = leaving.values().next() else { continue };
        let numbers: BTreeSet<u32> = others.numbers.clone().chain(leaving.keys().copied()).collect();
        let group = match group(hands, manager, name, &numbers).await {
            Ok(group) => group,
            Err(error) => {
                staying.extend(leaving.values().map(|(id, _)| (*id, error.clone())));
                continue;
            }
        };
        let checks = |number: u32| leaving.get(&number).map_or(&*others.checks, |(_, leaving)| &*leaving.own);
        let standings = group.standings(hands, checks, numbers.iter().copied()).await;
        // One that nobody can ask serves, as far as anybody knows.
        let serves =
            |number: &u32| matches!(standings.get(number), Some(Standing::Available | Standing::NotAsked(_)));
        let come = others.numbers.clone().filter(|number| serves(number)).count();
        let serving: Vec<&'a str> =
            leaving.iter().filter(|(number, _)| serves(number)).map(|(_, (id, _))| *id).collect();
        let floor = others.floor;
        let may_go = (come + serving.len()).saturating_sub(usize::try_from(floor).unwrap_or(usize::MAX));
        staying.extend(serving.into_iter().skip(may_go).map(|id| {
            let text =
                format!("{id} is kept: {come} of those that come in its place serve, and {floor} have to");
            let error = Error::unavailable(text).hint("nothing: it goes by itself once they do");
            (id, error.retry_after(AGAIN))
        }));
    }
    staying
}
