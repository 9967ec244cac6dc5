//! What the provider makes of desired records, before they are compared and before they are sent.
//!
//! A provider may round a TTL, add properties, or drop what it cannot serve. Comparing what it would keep makes
//! the second plan empty; what it drops, or turns into another type, is an error of that record.

use super::{
    Backend,
    endpoint::{self, Endpoint, Key, Set},
};
use crate::record::{self, RrSet};
use reconciled_provider::{Cx, Deltas, Error, Observation, Resource, Want};
use std::collections::BTreeMap;

/// The endpoints that the provider would keep, by what they were asked for; an error for each it would not.
pub(crate) async fn adjusted(
    backend: &Backend,
    cx: &Cx,
    wanted: &[&Resource],
) -> Result<BTreeMap<Key, Result<Endpoint, Error>>, Error> {
    let mut asked = Vec::with_capacity(wanted.len());
    for resource in wanted {
        let Some((name, kind)) = record::parts(&resource.id) else { continue };
        let Some(set) = resource.spec.bytes().and_then(RrSet::decode) else { continue };
        asked.push(endpoint::endpoint(name, kind, &set, backend.config.txt));
    }
    if asked.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut kept = endpoint::group(backend.remote.adjust(cx, &asked).await?);
    let at = backend.remote.address();
    let answer = |asked: Endpoint| {
        let key = asked.key();
        let (name, kind) = (key.0.trim_end_matches('.'), &key.1);
        let result = match kept.remove(&key).map(|set| set.0) {
            Some(mut one) if one.len() == 1 => Ok(one.swap_remove(0)),
            Some(_) => Err(format!("the provider at {at} makes several records of {name} {kind}")),
            None => match kept.keys().find(|other| other.0 == key.0) {
                Some((_, other)) => {
                    Err(format!("the provider at {at} makes {name} {kind} a record of type {other}"))
                }
                None => Err(format!("the provider at {at} cannot serve {name} {kind}")),
            },
        };
        let result = result.map_err(|text| {
            Error::unsupported(text)
                .hint("remove the record, or see what the documentation of the provider says")
        });
        (key.clone(), result)
    };
    Ok(asked.into_iter().map(answer).collect())
}

/// Differences between what the provider would keep and what it has.
pub(crate) async fn diff(
    backend: &Backend,
    cx: &Cx,
    want: &Want<'_>,
    seen: &Observation,
) -> Result<Deltas, Error> {
    // Where everything is as declared there is nothing to ask.
    let differs = |resource: &&Resource| {
        want.focus.covers(&resource.id)
            && resource.spec.bytes().is_some()
            && seen.get(&resource.id).map(|observed| observed.hash) != resource.spec.hash()
    };
    let wanted: Vec<&Resource> = want.desired.iter().filter(differs).collect();
    let kept = adjusted(backend, cx, &wanted).await?;
    let mut deltas = Deltas::new();
    for resource in wanted {
        let Some((name, kind)) = record::parts(&resource.id) else { continue };
        match (kept.get(&(name.to_owned(), kind.to_owned())), seen.get(&resource.id)) {
            (Some(Err(error)), _) => {
                deltas.insert(resource.id.clone(), Err(error.clone()));
            }
            (Some(Ok(kept)), Some(observed)) => {
                // A TTL that the provider leaves open is the one it has.
                let ttl = RrSet::decode(&observed.bytes).map(|set| set.ttl);
                let after = Set(vec![kept.clone()]).bytes(ttl);
                if let Some(delta) = record::compare(&after, &observed.bytes) {
                    deltas.insert(resource.id.clone(), Ok(delta));
                }
            }
            _ => {}
        }
    }
    Ok(deltas)
}
