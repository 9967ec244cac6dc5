//! What a remote can see of a write that should not have been sent: asked at each write, also while things go wrong.
//!
//! That nothing is there twice (S1) and that nothing foreign is deleted (S2) the world checks by itself.

use crate::{
    executor::Sim,
    memory::Disk,
    run::Branch,
    scenario::{Scenario, wants},
};
use reconciled_engine::Desired;
use reconciled_provider::{ResourceId, Scope};
use reconciled_testkit::{World, world::Change};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

/// Has every write to `world` checked.
pub(crate) fn watch(
    scenario: &Scenario,
    sim: &Arc<Sim>,
    world: &World,
    disk: &Arc<Mutex<Disk>>,
    branch: &Arc<Branch>,
) {
    let (sim, disk, branch) = (sim.clone(), disk.clone(), branch.clone());
    let (replaces, keeps) = (scenario.replaces, scenario.keeps);
    let unasked = Unasked { most: scenario.guard.max_deletes as usize, deleted: Mutex::default() };
    let newest: Mutex<BTreeMap<(Scope, ResourceId), u64>> = Mutex::default();
    let before = scenario.before.iter().map(|(scope, id, _)| (scope.clone(), ResourceId::from(*id)));
    let there: Mutex<BTreeSet<(Scope, ResourceId)>> = Mutex::new(before.collect());
    world.watch(move |scope, id, change| {
        sim.log(|| format!("{scope}/{id} {change:?}"));
        let key = (scope.clone(), id.clone());
        if !disk.lock().unwrap().announced.contains(&key) {
            return Some(format!("S8: {scope}/{id} was written without a durable intent"));
        }
        let mut there = there.lock().unwrap();
        let lacking = wanted_elsewhere(&branch.tip().1, scope, id).filter(|other| !there.contains(other));
        match &change {
            Change::Put(_) => _ = there.insert(key.clone()),
            Change::Delete { .. } => _ = there.remove(&key),
            Change::Unmark => {}
        }
        drop(there);
        match change {
            Change::Delete { is_there: true } if lacking.is_some() && still_wanted(&disk, &branch) => {
                Some(format!("{scope}/{id} was deleted, and is declared where it is not yet"))
            }
            Change::Delete { is_there: true } if keeps => {
                Some(format!("{scope}/{id} was deleted, though all of it goes on under another name"))
            }
            Change::Delete { .. }
                if !replaces && wants(&branch.tip().1, scope, id) && still_wanted(&disk, &branch) =>
            {
                Some(format!("S3: {scope}/{id} was deleted while it is desired"))
            }
            Change::Delete { is_there: true } => unasked.goes(key, &disk, branch.tip()),
            Change::Delete { is_there: false } => None,
            Change::Unmark
                if !replaces && wants(&branch.tip().1, scope, id) && still_wanted(&disk, &branch) =>
            {
                Some(format!("S3: {scope}/{id} lost our mark while it is desired"))
            }
            Change::Unmark => None,
            Change::Put(content) => {
                let (_, generation) = content.rsplit_once("@g")?;
                let generation: u64 = generation.parse().ok()?;
                let mut newest = newest.lock().unwrap();
                let seen = newest.entry(key).or_default();
                let stale = generation < *seen;
                *seen = generation.max(*seen);
                stale.then(|| format!("S4: {scope}/{id} got generation {generation} after {seen}"))
            }
        }
    });
}

/// What was deleted, by guard domain.
type Deleted = BTreeMap<String, BTreeSet<(Scope, ResourceId)>>;

/// S5: of what no person consented to, no more goes than the guard lets go unasked.
///
/// Consent is for what was named to the person, each of it once: whatever else goes counts, also beside a plan that was
/// consented to and after it.
struct Unasked {
    most: usize,
    /// What went of each guard domain since the tip has this number.
    deleted: Mutex<(u64, Deleted)>,
}

impl Unasked {
    fn goes(
        &self,
        key: (Scope, ResourceId),
        disk: &Mutex<Disk>,
        (tip, desired): (u64, Arc<Desired>),
    ) -> Option<String> {
        // Records of claims end by themselves.
        if key.1.0.starts_with("challenge.") || disk.lock().unwrap().takes_consent(&key) {
            return None;
        }
        let domain = domain(&key.0);
        let is_empty =
            desired.scopes.iter().all(|(scope, list)| self::domain(scope) != domain || list.is_empty());
        let most = if is_empty { 0 } else { self.most };
        let mut deleted = self.deleted.lock().unwrap();
        if deleted.0 != tip {
            *deleted = (tip, BTreeMap::new());
        }
        let gone = deleted.1.entry(domain).or_default();
        gone.insert(key);
        let count = gone.len();
        (count > most).then(|| format!("S5: {count} were deleted unasked, at most {most} may be: {gone:?}"))
    }
}

/// What the guard counts over: files of a host together, all else scope by scope.
pub(crate) fn domain(scope: &Scope) -> String {
    if &*scope.provider == "host" { scope.provider.to_string() } else { scope.to_string() }
}

/// The same name in another zone that wants it.
fn wanted_elsewhere(desired: &Desired, scope: &Scope, id: &ResourceId) -> Option<(Scope, ResourceId)> {
    let is_other = |other: &&Scope| **other != *scope && other.provider == scope.provider;
    let mut others = desired.scopes.keys().filter(is_other).filter(|_| &*scope.provider == "zone");
    let other = others.find(|other| wants(desired, other, id))?;
    Some((other.clone(), id.clone()))
}

/// The revision in force may lag behind the tip: until then the older declaration rules.
fn still_wanted(disk: &Mutex<Disk>, branch: &Branch) -> bool {
    let tip = branch.tip().1;
    let state = tip.sources.get("s");
    disk.lock().unwrap().in_force.get("s").map(|r| r.commit.clone()) == state.map(|s| s.revision.clone())
}
