//! Waiting until a change has reached every name server of Route 53 (`INSYNC`), where the entry wants that.
//!
//! A change that the API has taken ends as `Pending`, and is asked for when its resource is due. Which change a resource
//! waits for is kept in memory: after a restart nobody knows it, and what the zone has counts as done.

use super::{
    client::{Api, Refusal},
    xml::Changed,
};
use reconciled_provider::{Batch, Cx, Error, Op, Outcome, ResourceId, Scope};
use reqwest::Method;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// When a change is asked for again; most take less than a minute.
const RECHECK: Duration = Duration::from_secs(15);

/// The changes that resources wait for.
#[derive(Debug, Default)]
pub(super) struct Open(Mutex<HashMap<(Scope, ResourceId), String>>);

impl Open {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<(Scope, ResourceId), String>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// A resource waits for `change` from now on.
    pub(super) fn begin(&self, scope: &Scope, id: &ResourceId, change: &str) {
        self.with(|open| open.insert((scope.clone(), id.clone()), change.to_owned()));
    }
    /// True while a resource waits.
    pub(super) fn has(&self, scope: &Scope, id: &ResourceId) -> bool {
        self.with(|open| open.contains_key(&(scope.clone(), id.clone())))
    }
}

/// Asks for the changes that resources of `batch` wait for, each once, and forgets those that are everywhere.
pub(super) async fn ask(api: &Api, open: &Open, cx: &Cx, batch: &Batch) -> Result<(), Error> {
    let continued = batch.actions.iter().filter(|action| matches!(action.op, Op::Continue { .. }));
    let keys = continued.map(|action| (batch.scope.clone(), action.op.id().clone()));
    let mut waiting: BTreeMap<String, Vec<(Scope, ResourceId)>> = BTreeMap::new();
    for key in keys {
        if let Some(change) = open.with(|open| open.get(&key).cloned()) {
            waiting.entry(change).or_default().push(key);
        }
    }
    for (change, keys) in waiting {
        let doing = format!("ask whether a change of zone {} is everywhere", batch.scope.name);
        let call = api.call::<Changed>(cx, Method::GET, &change, &[], None, &doing);
        let is_over = match call.await {
            Ok(changed) => changed.change_info.status == "INSYNC",
            // It is so old that nobody knows it any more.
            Err(Refusal::Refused(_, said)) if said.code == "NoSuchChange" => true,
            Err(refusal) => return Err(refusal.into_error()),
        };
        if is_over {
            open.with(|open| keys.iter().for_each(|key| drop(open.remove(key))));
        }
    }
    Ok(())
}

/// `outcome` of a resource that still waits.
pub(super) fn pending(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Done(tracked) => Outcome::Pending { tracked, recheck_after: RECHECK, claims: Vec::new() },
        other => other,
    }
}
