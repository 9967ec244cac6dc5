//! How a balancer stands.

use super::{
    kind::Balancer,
    render::{drained, with_drained},
};
use crate::{
    hands::{Seen, What},
    systemd::observe::text,
};
use reconciled_provider::{Observed, Resource, ResourceId};
use std::collections::BTreeSet;

/// The file of a balancer as a resource; none where there is no file. `may_drain` says for which units a rolling update is
/// on its way: their marks are not looked at.
pub(crate) fn observed(
    id: &ResourceId,
    desired: Option<&Resource>,
    seen: &Seen,
    may_drain: impl Fn(&str) -> bool,
) -> Option<Observed> {
    if matches!(seen.what, What::Absent) {
        return None;
    }
    let declared = desired.and_then(|desired| Balancer::decode(desired.spec.bytes()?));
    let content = text(seen);
    let refused = match &seen.what {
        What::Refused(refusal) => Some(refusal.message.clone()),
        What::File { .. } => None,
        _ => Some(format!("{} is no file", seen.path)),
    };
    let plain = with_drained(&content.unwrap_or_default(), may_drain, &BTreeSet::new());
    let (reload, validate) =
        declared.map_or((String::new(), None), |declared| (declared.reload, declared.validate));
    let bytes = Balancer { balancer: plain, reload, validate, refused }.encode();
    Some(Observed::new(id.clone(), bytes))
}

/// What is drained in a file that was seen.
pub(super) fn drained_in(seen: &Seen) -> BTreeSet<String> {
    text(seen).map(|text| drained(&text)).unwrap_or_default()
}
