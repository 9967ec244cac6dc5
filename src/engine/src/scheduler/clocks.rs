//! The two clocks of an entry: a probe that asks what moved, and a full read of each scope now and then.
//!
//! Guarantees: while nothing moved, a tick is one `versions` call and one read of the store, however many scopes
//! there are, and writes nothing. Every scope is read in full at every [`FULL`]th tick, each at its own, so that
//! a version that lies is found out. Scopes without a version are read at every tick, and those of an entry that tells
//! health are looked at. What need not be looked at yet is in no tick.
//! It deliberately concludes nothing from a probe but where to look.

use super::Scheduler;
use reconciled_provider::{Error, Hash, Scope, Version};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Ticks between two full reads of a scope.
const FULL: u64 = 6;

impl Scheduler {
    /// Asks `entry` what moved. Returns scopes to look at, and whether in full.
    pub(super) async fn probe(&self, entry: &Arc<str>) -> Result<Vec<(Scope, bool)>, Error> {
        let known = self.engine.store.versions().await;
        // Whose fault it is matters: only what the remote does may open its breaker.
        let known =
            known.map_err(|error| Error::unexpected("asking the store for versions").caused_by(error))?;
        let known: BTreeMap<Scope, Version> = known
            .into_iter()
            .filter(|(scope, _)| scope.provider == *entry)
            .map(|(scope, known)| (scope, known.version))
            .collect();
        let (tick, mut scopes) =
            self.state.look(|state| (state.entries[entry].ticks, state.scopes_of(entry)));
        scopes.extend(known.keys().cloned());
        let time = self.now();
        let rests = |scope: &Scope| known.get(scope).is_some_and(|version| version.stands_at(time));
        scopes.retain(|scope| !rests(scope));
        // What is read in full anyway need not be asked for.
        let (full, others): (BTreeSet<Scope>, BTreeSet<Scope>) =
            scopes.into_iter().partition(|scope| is_full(scope, tick));
        let asked: Vec<Scope> = others.iter().filter(|scope| known.contains_key(*scope)).cloned().collect();
        let mut now = BTreeMap::new();
        if !asked.is_empty() {
            now = self.engine.surveyor.versions_of(entry, &asked).await?;
        }
        let stands = |scope: &Scope| {
            let version = now.get(scope).filter(|version| matches!(version, Version::At(_)));
            version.is_some() && version == known.get(scope)
        };
        // Health has no version: where there is any, it is asked for at every tick.
        let tells = self.engine.surveyor.entries[entry].observer.tells_health();
        let moved = others.into_iter().filter(|scope| tells || !stands(scope)).map(|scope| (scope, false));
        Ok(moved.chain(full.into_iter().map(|scope| (scope, true))).collect())
    }

    /// Scopes that the store remembers: what was dropped from the desired state while nobody ran.
    pub(super) async fn recall(&self) -> Result<BTreeSet<Scope>, Error> {
        let all = self.engine.store.all().await?;
        Ok(all.into_iter().filter(|(_, memory)| memory.is_remembered()).map(|(scope, _)| scope).collect())
    }
}

/// True at every [`FULL`]th tick, each scope at its own.
fn is_full(scope: &Scope, tick: u64) -> bool {
    u64::from(Hash::of(scope.to_string().as_bytes()).0[0]) % FULL == tick % FULL
}
