//! How a balancer stands.

use super::{
    kind::Balancer,
    memory::{Memory, mark},
    render::{marked, named, with_marked},
};
use crate::{
    hands::{Seen, What},
    systemd::{
        Why,
        files::{access, text},
        unit::closed,
    },
};
use reconciled_provider::{Cx, Observed, Resource, ResourceId, Tracked};
use std::collections::{BTreeMap, BTreeSet};

const BY_HAND: &str = "remove it by hand, or declare another `path`";

/// The file of a balancer as a resource; none where there is no file. `may_drain` says for which units a rolling update is
/// on its way: their marks are not looked at.
pub(crate) fn observed(
    cx: &Cx,
    id: &ResourceId,
    desired: Option<&Resource>,
    tracked: Option<&Tracked>,
    seen: &Seen,
    may_drain: impl Fn(&str) -> bool,
) -> Option<Observed> {
    if matches!(seen.what, What::Absent) {
        return None;
    }
    let declared = desired.and_then(|desired| Balancer::decode(desired.spec.bytes()?));
    let content = text(seen).unwrap_or_default();
    let refused = match &seen.what {
        What::Refused(refusal) => Some(Why::of(refusal, BY_HAND)),
        What::File { .. } => None,
        _ => Some(Why::new(format!("{} is no file", seen.path), BY_HAND)),
    };
    let plain = with_marked(&content, may_drain, &BTreeSet::new());
    let is_mark = mark(cx, &content);
    let remembered = tracked.and_then(|tracked| Memory::open(&tracked.private));
    let is_unread = remembered.as_ref().is_some_and(|memory| memory.read.as_deref() != Some(&*is_mark));
    let memory = Memory {
        read: if is_unread { remembered.and_then(|memory| memory.read) } else { Some(is_mark.clone()) },
        seen: Some(is_mark),
        left: BTreeMap::new(),
        strays: marked(&plain),
    };
    // `path` may be that of any file: a repository must not be a way to read it.
    let is_shown = seen.is_public || declared.as_ref().is_some_and(|declared| declared.balancer == plain);
    let balancer = if is_shown { plain } else { closed(cx, plain.as_bytes()) };
    let access = declared.as_ref().and_then(|_| access(seen));
    let (reload, validate, drain) = declared
        .map_or((String::new(), None, 0), |declared| (declared.reload, declared.validate, declared.drain));
    let bytes = Balancer { balancer, reload, validate, drain, is_unread, access, refused }.encode();
    let mut observed = Observed::new(id.clone(), bytes);
    observed.private = memory.seal();
    Some(observed)
}

/// The units that the file of a balancer names; none where nobody can tell: what reads it may go on with what it read before.
pub(crate) fn names(seen: &Seen) -> Option<BTreeSet<String>> {
    match seen.what {
        What::Absent => Some(BTreeSet::new()),
        _ => text(seen).map(|text| named(&text)),
    }
}

/// The units that a balancer which was observed names.
pub(crate) fn members(bytes: &[u8]) -> BTreeSet<String> {
    Balancer::decode(bytes).map(|balancer| named(&balancer.balancer)).unwrap_or_default()
}

/// What is marked in a file that was seen.
pub(super) fn marked_in(seen: &Seen) -> BTreeSet<String> {
    text(seen).map(|text| marked(&text)).unwrap_or_default()
}
