//! How units differ from what is declared, and why that cannot be had. Nothing is written.

use super::{
    refusals,
    unit::{Unit, compare},
};
use crate::{
    cron::CRON,
    hands::{Draft, Manager},
};
use reconciled_provider::{Deltas, Error, Observation, ResourceId, Want, diff_by_compare};
use std::collections::BTreeMap;

/// Differences, and what systemd has against what is declared.
pub(crate) async fn diff(
    manager: &dyn Manager,
    want: &Want<'_>,
    seen: &Observation,
) -> Result<Deltas, Error> {
    let mut deltas = diff_by_compare(compare, want, seen);
    let (mut ids, mut new) = (Vec::new(), Vec::new());
    for desired in want.desired {
        let unit = desired.spec.bytes().and_then(Unit::decode);
        let observed = seen.get(&desired.id);
        let was = observed.and_then(|observed| Unit::decode(&observed.bytes));
        if let Some(why) = was.as_ref().and_then(|was| was.refused.clone()) {
            deltas.insert(desired.id.clone(), Err(why.into()));
            continue;
        }
        let Some(Unit { content, drop_ins, .. }) = unit else { continue };
        let is_new = was.is_none_or(|was| {
            let has_new = |(name, text): (&String, &String)| was.drop_ins.get(name) != Some(text);
            content.is_some() && was.content != content || drop_ins.iter().any(has_new)
        });
        let has_files = content.is_some() || !drop_ins.is_empty();
        if has_files && is_new && seen.covered.covers(&desired.id) {
            ids.push(desired.id.clone());
            new.push(Draft { name: desired.id.0.to_string(), content, drop_ins });
        }
    }
    deltas = refusals::tell(manager, want, seen, deltas).await?;
    let said = if new.is_empty() { Vec::new() } else { manager.verify(&new).await };
    deltas.extend(ids.into_iter().zip(said).filter_map(|(id, said)| Some((id, Err(said.err()?)))));
    if &*want.scope.name == CRON {
        keep_whole(want, seen, &mut deltas);
    }
    Ok(deltas)
}

/// Has no unit of a job written where another one of it is refused: the units of one manifest are of no use apart.
fn keep_whole(want: &Want<'_>, seen: &Observation, deltas: &mut Deltas) {
    let refused: BTreeMap<u32, (&ResourceId, Error)> = want
        .desired
        .iter()
        .filter_map(|desired| {
            let error = deltas.get(&desired.id)?.as_ref().err()?;
            Some((desired.origin.manifest, (&desired.id, error.clone())))
        })
        .collect();
    for desired in want.desired {
        let Some((other, error)) = refused.get(&desired.origin.manifest) else { continue };
        let is_to_write = match deltas.get(&desired.id) {
            Some(delta) => delta.is_ok(),
            None => seen.covered.covers(&desired.id) && seen.get(&desired.id).is_none(),
        };
        if is_to_write {
            let text = format!("{} is not written: {other} of the same job is refused", desired.id);
            let mut kept = Error::new(error.kind, text);
            kept.hint = error.hint.clone();
            deltas.insert(desired.id.clone(), Err(kept));
        }
    }
}
