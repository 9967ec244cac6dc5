//! What the provider makes of desired records, before they are compared and before they are sent.
//!
//! A provider may round a TTL, add properties, or drop what it cannot serve. Comparing what it would keep makes
//! the second plan empty; what it drops, or turns into another type, is an error of that record.

use super::{
    backend::Backend,
    endpoint::{self, Endpoint, Key, Set},
};
use crate::{
    record::{self, RrSet},
    strings,
};
use reconciled_provider::{Cx, Deltas, Error, Observation, Observed, Resource, Want};
use std::{borrow::Cow, collections::BTreeMap};

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

/// What was seen, with `ttl` where the provider tells none: a TTL that nobody knows is no difference.
pub(crate) fn seen_with(observed: &Observed, ttl: Option<u32>) -> Cow<'_, [u8]> {
    match (RrSet::decode(&observed.bytes), ttl) {
        (Some(mut set), Some(ttl)) if set.ttl == 0 => record::encode(ttl, &mut set.values).into(),
        _ => (&observed.bytes[..]).into(),
    }
}

/// The declared TTL.
pub(crate) fn ttl(desired: &Resource) -> Option<u32> {
    desired.spec.bytes().and_then(RrSet::decode).map(|set| set.ttl)
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
            && seen.get(&resource.id).map(|observed| seen_with(observed, ttl(resource))).as_deref()
                != resource.spec.bytes()
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
                // A TTL that the provider leaves open is the one it has, and one that it does not tell the kept one.
                let kept = Set(vec![kept.clone()]);
                let before = seen_with(observed, kept.ttl());
                let after = kept.bytes(RrSet::decode(&before).map_or(0, |set| set.ttl));
                let after = strings::as_seen(&resource.id, &after, &before);
                if let Some(delta) = record::compare(&after, &before) {
                    deltas.insert(resource.id.clone(), Ok(delta));
                }
            }
            _ => {}
        }
    }
    Ok(deltas)
}
