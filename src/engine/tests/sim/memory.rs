//! The store, in memory: atomic commits that survive a crash, generations, epochs.

use crate::witness::domain;
use async_trait::async_trait;
use reconciled_engine::{Desired, DriftEnd, Drifted, pin::Pin, store::*, suspension::Suspension};
use reconciled_provider::{ActionId, Error, Hash, ManifestKey, ResourceId, Scope};
use reconciled_testkit::{Fault, Faults, Point};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// What is on the disk.
#[derive(Default, Clone)]
pub(crate) struct Disk {
    pub(crate) epoch: u64,
    pub(crate) scopes: BTreeMap<Scope, ScopeMemory>,
    pub(crate) manifests: BTreeMap<ManifestKey, (Hash, u64)>,
    /// Revisions that came into force so far: what changes with one has its number as generation.
    revisions: u64,
    pub(crate) in_force: BTreeMap<Arc<str>, Revision>,
    pub(crate) converged: BTreeMap<Arc<str>, Converged>,
    pub(crate) holds: BTreeMap<Arc<str>, Hold>,
    pub(crate) suspensions: BTreeMap<Arc<str>, Suspension>,
    pub(crate) pins: BTreeMap<(Scope, ResourceId), Pin>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) begun: BTreeMap<Arc<str>, Begun>,
    /// Entries of the drift ledger that are over.
    pub(crate) ledger: Vec<(Drifted, DriftEnd)>,
    pub(crate) commits: u64,
    /// A claim was seen to be carried out.
    pub(crate) claim_synced: bool,
    /// The same while something was held.
    pub(crate) claim_synced_beside_a_hold: bool,
    /// A pass found that something waits for another resource.
    pub(crate) waited: bool,
    /// A row got another name.
    pub(crate) moved: bool,
    /// A row was to get another name, and a call to it had no answer.
    pub(crate) move_waited: bool,
    pub(crate) started: BTreeMap<ActionId, (Scope, ResourceId)>,
    /// Everything an intent was ever recorded for.
    pub(crate) announced: BTreeSet<(Scope, ResourceId)>,
    /// What plans that a person consented to would change or delete, by digest, and did not yet.
    pub(crate) named: BTreeMap<Hash, BTreeSet<(Scope, ResourceId)>>,
    /// How it misleads who reads it.
    pub(crate) broken: Option<Broken>,
}

/// How a store makes a broken engine of one that is well: what the checks of the simulation are checked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A create that is tried again is another request to the remote.
    ForgetsTokens,
    /// What was consented to once covers whatever comes.
    TakesAnyConsent,
}

/// One process's handle on the disk.
pub(crate) struct Memory {
    pub(crate) disk: Arc<Mutex<Disk>>,
    pub(crate) epoch: u64,
    pub(crate) faults: Arc<dyn Faults>,
    /// How often the memory of a scope was read.
    pub(crate) recalls: AtomicUsize,
}

impl Memory {
    pub(crate) fn open(disk: &Arc<Mutex<Disk>>, faults: Arc<dyn Faults>) -> Memory {
        let mut state = disk.lock().unwrap();
        state.epoch += 1;
        Memory { disk: disk.clone(), epoch: state.epoch, faults, recalls: AtomicUsize::new(0) }
    }
}

impl Disk {
    fn memory(&mut self, scope: &Scope) -> &mut ScopeMemory {
        self.scopes.entry(scope.clone()).or_default()
    }

    /// True when a person consented that this goes, and it did not since.
    pub(crate) fn takes_consent(&mut self, key: &(Scope, ResourceId)) -> bool {
        let used = self.approvals.iter().filter(|approval| approval.used_at.is_some());
        let used: Vec<Hash> = used.map(|approval| approval.digest).collect();
        let mut named = self.named.iter_mut().filter(|(digest, _)| used.contains(digest));
        named.any(|(_, list)| list.remove(key))
    }

    /// What a scope is remembered to be.
    fn recalled(&self, memory: &ScopeMemory) -> ScopeMemory {
        let mut memory = memory.clone();
        if self.broken == Some(Broken::ForgetsTokens) {
            memory.open.iter_mut().for_each(|open| open.intent.token = "".into());
        }
        memory
    }

    /// Refuses what is planned from another generation, or consented to no longer.
    fn check(&self, write: &Write) -> Result<(), Error> {
        match write {
            Write::Start { fence, .. } => {
                for (key, generation) in fence {
                    let of_source = |source: &str| {
                        let mine = self.manifests.iter().filter(|(key, _)| key.source() == source);
                        newest(mine.map(|(_, (_, generation))| *generation))
                    };
                    let now = match source_of_newest(key) {
                        Some(source) => of_source(source),
                        None => self.manifests.get(key).map_or(0, |(_, g)| *g),
                    };
                    if now != *generation {
                        return Err(Error::conflict(format!(
                            "{key} has generation {now}, planned from {generation}"
                        )));
                    }
                }
                Ok(())
            }
            Write::UseApproval(digest, _) => {
                let unused = self.approvals.iter().any(|a| a.digest == *digest && a.used_at.is_none());
                if unused { Ok(()) } else { Err(Error::conflict("the approval was used already")) }
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Start { scope, intents, at, .. } => {
                for intent in intents {
                    self.announced.insert((scope.clone(), intent.row.tracked.id.clone()));
                    self.started.insert(intent.action, (scope.clone(), intent.row.tracked.id.clone()));
                    self.memory(&scope).open.push(OpenIntent { intent, started_at: at });
                }
            }
            Write::End(endings) => {
                for ending in endings.iter().filter(|e| &*e.outcome != "unknown") {
                    self.started.remove(&ending.action);
                    for memory in self.scopes.values_mut() {
                        memory.open.retain(|o| o.intent.action != ending.action);
                    }
                }
            }
            Write::Rows(rows) => {
                for row in Arc::unwrap_or_clone(rows) {
                    let list = Arc::make_mut(&mut self.memory(&row.scope.clone()).rows);
                    match list.binary_search_by(|r| r.tracked.id.cmp(&row.tracked.id)) {
                        Ok(index) => list[index] = row,
                        Err(index) => list.insert(index, row),
                    }
                }
            }
            Write::Gone(scope, ids) => {
                Arc::make_mut(&mut self.memory(&scope).rows).retain(|r| !ids.contains(&r.tracked.id));
                for memory in self.scopes.values_mut() {
                    memory.claims_made.retain(|c| c.owner_scope != scope || !ids.contains(&c.owner));
                    memory.claims_here.retain(|c| c.owner_scope != scope || !ids.contains(&c.owner));
                }
            }
            Write::Settled(scope, ids) => {
                let rows = Arc::make_mut(&mut self.memory(&scope).rows)
                    .iter_mut()
                    .filter(|r| ids.contains(&r.tracked.id));
                rows.for_each(|r| r.state = RowState::Settled);
            }
            Write::Documents(scope, documents) => {
                let known = &mut self.memory(&scope).documents;
                for (key, document) in documents {
                    match document {
                        Some(document) => drop(known.insert(key, document)),
                        None => drop(known.remove(&key)),
                    }
                }
            }
            Write::Conditions(scope, conditions) => {
                let waits = ["WaitingForDependency", "WaitingForOutput"];
                self.waited |= conditions.iter().any(|condition| waits.contains(&&*condition.reason));
                self.move_waited |= conditions.iter().any(|condition| &*condition.reason == "MoveWaits");
                self.memory(&scope).conditions = conditions;
            }
            Write::InForce { revision, manifests, .. } => {
                let source = revision.source.clone();
                self.in_force.insert(source.clone(), revision);
                let keys: Vec<ManifestKey> = manifests.iter().map(|(k, _)| k.clone()).collect();
                self.manifests.retain(|key, _| key.source() != &*source || keys.contains(key));
                self.revisions += 1;
                for (key, content) in manifests {
                    let entry = self.manifests.entry(key).or_insert((content, 0));
                    if entry.1 == 0 || entry.0 != content {
                        *entry = (content, self.revisions);
                    }
                }
            }
            Write::Hold(hold) => {
                self.holds.insert(hold.domain.clone(), hold);
            }
            Write::Release(domain) => {
                self.holds.remove(&domain);
            }
            Write::Approve(approval) => self.approvals.push(approval),
            Write::Begun(begun) => drop(self.begun.insert(begun.domain.clone(), begun)),
            Write::StepsOver(digest, scope, over) => self.begun.retain(|_, begun| {
                if begun.approval.digest == digest
                    && let Some(steps) = begun.left.get_mut(&scope)
                {
                    steps.retain(|step| !over.contains(step));
                }
                begun.left.retain(|_, steps| !steps.is_empty());
                !begun.left.is_empty()
            }),
            Write::UseApproval(digest, at) => {
                // The first one is used, and with it go the others.
                let unused = self.approvals.iter_mut().find(|a| a.digest == digest && a.used_at.is_none());
                unused.into_iter().for_each(|approval| approval.used_at = Some(at));
                self.approvals.retain(|a| a.digest != digest || a.used_at.is_some());
            }
            Write::Consent(scope, id, consent) => {
                let consents = &mut self.memory(&scope).consents;
                consents.retain(|(i, _)| *i != id);
                consents.push((id, consent));
            }
            Write::ConsentSpent(scope, id) => self.memory(&scope).consents.retain(|(i, _)| *i != id),
            Write::Claims(owner_scope, owner, rows) => {
                for memory in self.scopes.values_mut() {
                    memory.claims_made.retain(|c| (&c.owner_scope, &c.owner) != (&owner_scope, &owner));
                    memory.claims_here.retain(|c| (&c.owner_scope, &c.owner) != (&owner_scope, &owner));
                }
                for row in rows {
                    self.memory(&owner_scope).claims_made.push(row.clone());
                    self.memory(&row.scope.clone()).claims_here.push(row);
                }
            }
            Write::ClaimSynced(owner_scope, owner, key, synced) => {
                self.claim_synced |= synced;
                self.claim_synced_beside_a_hold |= synced && !self.holds.is_empty();
                for memory in self.scopes.values_mut() {
                    let all = memory.claims_made.iter_mut().chain(memory.claims_here.iter_mut());
                    let mine = all
                        .filter(|c| c.owner_scope == owner_scope && c.owner == owner && c.claim.key == key);
                    mine.for_each(|c| c.synced = synced);
                }
            }
            Write::Version(scope, version) => {
                if version.is_none() {
                    self.converged.clear();
                }
                self.memory(&scope).version = version;
            }
            Write::Converged(Ok(converged)) => {
                self.converged.insert(converged.source.clone(), converged);
            }
            Write::Converged(Err(source)) => {
                self.converged.remove(&source);
            }
            Write::Suspend(suspension) => {
                self.suspensions.insert(suspension.id.clone(), suspension);
            }
            Write::Resume(id) => {
                self.suspensions.remove(&id);
            }
            Write::Pin(pin) => {
                self.pins.insert((pin.scope.clone(), pin.id.clone()), pin);
            }
            Write::Unpin(scope, id) => {
                self.pins.remove(&(scope, id));
            }
            Write::Looked(id, since, scope) => {
                let is_meant = |suspension: &Suspension| suspension.id == id && suspension.since == since;
                if let Some(suspension) = self.suspensions.values_mut().find(|one| is_meant(one)) {
                    suspension.scopes.remove(&scope);
                }
                self.suspensions.retain(|_, one| !is_meant(one) || !one.scopes.is_empty());
            }
            Write::Moved(from, to) => {
                let is_empty = self.memory(&from).rows.is_empty();
                for one in self.suspensions.values_mut().filter(|one| one.scopes.contains(&from)) {
                    one.scopes.insert(to.clone());
                    if is_empty {
                        one.scopes.remove(&from);
                    }
                }
            }
            Write::Drifted(list) => {
                for drift in list {
                    let open = &mut self.memory(&drift.scope.clone()).drifts;
                    match open.binary_search_by(|known| known.id.cmp(&drift.id)) {
                        Ok(index) => {
                            let known = &mut open[index];
                            let (first_seen, action) = (known.first_seen, drift.action.or(known.action));
                            *known = Drifted { first_seen, action, ..drift };
                        }
                        Err(index) => open.insert(index, drift),
                    }
                }
            }
            Write::NotHealed(scope, ids) => {
                let open = self.memory(&scope).drifts.iter_mut().filter(|drift| ids.contains(&drift.id));
                open.for_each(|drift| drift.action = None);
            }
            Write::DriftOver(scope, ends, _) => {
                for (id, end) in ends {
                    let open = &mut self.memory(&scope).drifts;
                    let Ok(index) = open.binary_search_by(|known| known.id.cmp(&id)) else { continue };
                    let drift = open.remove(index);
                    self.ledger.push((drift, end));
                }
            }
            Write::Ailments(scope, ailments) => self.memory(&scope).ailments = ailments,
            Write::LookedAt(scope, generation) => self.memory(&scope).looked_at = generation,
            Write::Place(scope, place) => self.memory(&scope).place = Some(place),
            Write::Event(event) => self.moved |= &*event.kind == "move",
        }
    }
}

#[async_trait]
impl Store for Memory {
    fn epoch(&self) -> u64 {
        self.epoch
    }
    async fn commit(&self, writes: Vec<Write>) -> Result<(), Error> {
        self.faults.pause().await;
        let fault = self.faults.at(Point::Commit);
        match fault {
            Some(Fault::CrashBefore) => self.faults.crash().await,
            Some(Fault::Refuse(kind)) => return Err(Error::new(kind, "the disk is full")),
            _ => {}
        }
        {
            let mut disk = self.disk.lock().unwrap();
            if disk.epoch != self.epoch {
                return Err(Error::conflict(format!(
                    "epoch {} began, this process has {}",
                    disk.epoch, self.epoch
                )));
            }
            // All or nothing: what can be refused is asked before anything is written.
            writes.iter().try_for_each(|write| disk.check(write))?;
            writes.into_iter().for_each(|write| disk.write(write));
            disk.commits += 1;
        }
        if fault == Some(Fault::CrashAfter) {
            self.faults.crash().await;
        }
        Ok(())
    }
    async fn scope(&self, scope: &Scope) -> Result<ScopeMemory, Error> {
        self.recalls.fetch_add(1, Ordering::Relaxed);
        let disk = self.disk.lock().unwrap();
        Ok(disk.scopes.get(scope).map(|memory| disk.recalled(memory)).unwrap_or_default())
    }
    async fn all(&self) -> Result<BTreeMap<Scope, ScopeMemory>, Error> {
        let disk = self.disk.lock().unwrap();
        Ok(disk.scopes.iter().map(|(scope, memory)| (scope.clone(), disk.recalled(memory))).collect())
    }
    async fn versions(&self) -> Result<BTreeMap<Scope, KnownVersion>, Error> {
        let disk = self.disk.lock().unwrap();
        Ok(disk.scopes.iter().filter_map(|(s, m)| Some((s.clone(), m.version.clone()?))).collect())
    }
    async fn converged(&self, source: &str) -> Result<Option<Converged>, Error> {
        Ok(self.disk.lock().unwrap().converged.get(source).cloned())
    }
    async fn rows_with_outputs(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        let disk = self.disk.lock().unwrap();
        Ok(disk
            .scopes
            .values()
            .flat_map(|m| m.rows.iter())
            .filter(|r| r.manifest == *manifest && !r.tracked.outputs.0.is_empty())
            .cloned()
            .collect())
    }
    async fn is_settled(&self, manifest: &ManifestKey) -> Result<bool, Error> {
        let disk = self.disk.lock().unwrap();
        let rows = disk.scopes.values().flat_map(|m| m.rows.iter()).filter(|r| r.manifest == *manifest);
        let states: Vec<_> = rows.map(|row| row.state == RowState::Settled).collect();
        Ok(!states.is_empty() && !states.contains(&false))
    }
    async fn dependants(&self, manifest: &ManifestKey) -> Result<Vec<Row>, Error> {
        let disk = self.disk.lock().unwrap();
        Ok(disk
            .scopes
            .values()
            .flat_map(|m| m.rows.iter())
            .filter(|r| r.tracked.after.contains(manifest))
            .cloned()
            .collect())
    }
    async fn generations(&self, source: &str) -> Result<Vec<(ManifestKey, u64)>, Error> {
        let disk = self.disk.lock().unwrap();
        Ok(disk
            .manifests
            .iter()
            .filter(|(k, _)| k.source() == source)
            .map(|(k, (_, g))| (k.clone(), *g))
            .collect())
    }
    async fn contents(&self, source: &str) -> Result<Vec<(ManifestKey, Hash)>, Error> {
        let disk = self.disk.lock().unwrap();
        let of_source = disk.manifests.iter().filter(|(key, _)| key.source() == source);
        Ok(of_source.map(|(key, (content, _))| (key.clone(), *content)).collect())
    }
    async fn in_force(&self, source: &str) -> Result<Option<Revision>, Error> {
        Ok(self.disk.lock().unwrap().in_force.get(source).cloned())
    }
    async fn holds(&self) -> Result<Vec<Hold>, Error> {
        Ok(self.disk.lock().unwrap().holds.values().cloned().collect())
    }
    async fn suspensions(&self) -> Result<Vec<Suspension>, Error> {
        Ok(self.disk.lock().unwrap().suspensions.values().cloned().collect())
    }
    async fn pins(&self) -> Result<Vec<Pin>, Error> {
        Ok(self.disk.lock().unwrap().pins.values().cloned().collect())
    }
    async fn is_recovering(&self) -> Result<bool, Error> {
        Ok(false)
    }
    async fn approval(&self, digest: Hash) -> Result<Option<Approval>, Error> {
        let disk = self.disk.lock().unwrap();
        let any = disk.broken == Some(Broken::TakesAnyConsent);
        Ok(disk.approvals.iter().find(|a| any || a.digest == digest && a.used_at.is_none()).cloned())
    }
    async fn begun(&self) -> Result<Vec<Begun>, Error> {
        Ok(self.disk.lock().unwrap().begun.values().cloned().collect())
    }
}

/// An approval as a person gives it, past every fault, to the plans for what is desired.
pub(crate) fn approve(disk: &Mutex<Disk>, desired: &Desired, at: Duration, only_once: bool) -> bool {
    let mut disk = disk.lock().unwrap();
    if only_once && !disk.approvals.is_empty() {
        return false;
    }
    let holds: Vec<(Arc<str>, Hash)> = disk.holds.values().map(|h| (h.domain.clone(), h.digest)).collect();
    for (domain, digest) in &holds {
        if !disk.approvals.iter().any(|a| a.digest == *digest && a.used_at.is_none()) {
            disk.approvals.push(Approval {
                digest: *digest,
                reason: "test".into(),
                actor: "test".into(),
                at,
                used_at: None,
            });
            let named = named(&disk, desired, domain);
            disk.named.insert(*digest, named);
        }
    }
    !holds.is_empty()
}

/// What of a guard domain is tracked and is not, or not so, declared: what a plan for it names to a person.
fn named(disk: &Disk, desired: &Desired, of: &str) -> BTreeSet<(Scope, ResourceId)> {
    let scopes = disk.scopes.iter().filter(|(scope, _)| domain(scope) == of);
    let rows = scopes.flat_map(|(_, memory)| memory.rows.iter());
    let is_as_declared = |row: &&Row| {
        let mut declared = desired.in_scope(&row.scope).iter();
        declared.any(|r| r.id == row.tracked.id && r.spec.template() == row.template)
    };
    let named = rows.filter(|row| !is_as_declared(row));
    named.map(|row| (Scope::clone(&row.scope), row.tracked.id.clone())).collect()
}
