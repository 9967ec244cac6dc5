//! By which name a row is meant, or was.

use crate::store::Row;
use reconciled_provider::{Address, ManifestKey};

pub(super) fn is_of_kind(one: &ManifestKey, other: &ManifestKey) -> bool {
    (one.group(), one.kind()) == (other.group(), other.kind())
}

/// True when `from` is the address of this row; its group may be left out, as everywhere.
pub(super) fn means(from: &Address, row: &Row) -> bool {
    names(from, &row.address, &row.manifest)
}

/// True when this row had the address `from` before.
pub(super) fn was_called(from: &Address, row: &Row) -> bool {
    row.formerly.iter().any(|name| names(from, name, &row.manifest))
}

pub(super) fn names(from: &Address, address: &Address, manifest: &ManifestKey) -> bool {
    let of_group = from.group.as_deref().is_none_or(|group| group == manifest.group());
    of_group && groupless(from) == groupless(address)
}

pub(super) fn groupless(address: &Address) -> Address {
    address.in_group(None)
}

/// The address of a manifest, with the group that is meant where none is named.
pub(super) fn whole(address: &Address, group: &str) -> Address {
    let group = address.group.clone().unwrap_or_else(|| group.into());
    address.in_group(Some(group)).without_part()
}
