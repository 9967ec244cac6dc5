//! Rows that had the name of what is declared before: taking a rename back must find all as it was.
//!
//! Guarantees: what is declared for another host, or for a provider that may be another host's, is left over to nobody; what another
//! source of the repository may declare waits for that; what is to be left to others is not written over by who has a name that it had
//! and does not say that it was moved. A row counts once, however many calls to it lack an answer. Another source takes a row where it
//! may, as one of the same repository does that declares it again; where it may not, the name is its own. It deliberately leaves alone
//! who says `moved-from` of the name that a row has now.

use super::{
    asking::{Asking, Unwanted, refusal, rivals},
    names::{is_of_kind, means, names, was_called},
};
use crate::{
    desired::{Desired, SourceState},
    store::Row,
};
use reconciled_provider::{Address, Deletion, Scope};
use std::{collections::BTreeSet, sync::Arc};

/// What is `left` that had the name of `one` before, or the one that it says it was moved from, as far as no other of the `new`
/// has more of a claim to it: one that says so, or has a later of its names.
pub(super) fn once<'m>(
    desired: &Desired,
    new: &[Asking<'_>],
    left: impl Iterator<Item = Unwanted<'m>>,
    one: &Asking<'_>,
) -> Vec<Unwanted<'m>> {
    let may_be = |other: &Asking<'_>, row: &Row| {
        other.scope.provider == one.scope.provider && is_of_kind(&row.manifest, &other.manifest.key)
    };
    let says = |other: &Asking<'_>, row: &Row| {
        let from = other.manifest.moved_from.as_ref();
        may_be(other, row) && from.is_some_and(|from| was_called(from, row))
    };
    let has = |other: &Asking<'_>, name: &Address, s: &Scope, row: &Row| {
        may_be(other, row)
            && names(&name.without_part(), &other.manifest.address, &other.manifest.key)
            && concerns(desired, other, s, row)
    };
    let is_meant = |s: &Scope, row: &Row| match new.iter().filter(|other| says(other, row)).count() {
        0 => {
            let is_asked_for = |name: &&Address| new.iter().any(|other| has(other, name, s, row));
            row.formerly.iter().rfind(is_asked_for).is_some_and(|name| has(one, name, s, row))
        }
        1 => says(one, row),
        _ => false,
    };
    let were = left.filter(|(s, _, row)| !row.formerly.is_empty() && !is_for_others(desired, s, row));
    let is_one = |(s, _, row): &Unwanted<'m>| is_meant(s, row) && rivals(desired, new, s, row).is_empty();
    let mut found: Vec<Unwanted<'m>> = were.filter(is_one).collect();
    // What a call without an answer may have left is its row, which comes first.
    let mut known = BTreeSet::new();
    found.retain(|&(s, _, row)| known.insert((s, &row.tracked.id)));
    found
}

/// Why none of those that had its name before becomes `one`, where there are several.
pub(super) fn unsure(once: &[Unwanted<'_>], one: &Asking<'_>) -> Option<String> {
    let (address, [first, second, ..]) = (&one.manifest.address, once) else { return None };
    Some(format!(
        "{address} may be {} or {}, each of which had that name before: say which with `reconciled/moved-from`",
        first.2.address, second.2.address
    ))
}

/// True for what is declared, though not for this host, or for a provider that is not configured here.
fn is_for_others(desired: &Desired, scope: &Scope, row: &Row) -> bool {
    let has = |source: &SourceState| {
        source.is_unselected(&row.manifest, scope, &row.tracked.id)
            || source.is_elsewhere(&row.manifest, scope)
    };
    desired.sources.get(row.manifest.source()).is_some_and(has)
}

/// False where another source has the name for a thing of its own: that this row may not become it holds nothing of that source,
/// unless both may be of one repository, of which not all is known.
fn concerns(desired: &Desired, other: &Asking<'_>, scope: &Scope, row: &Row) -> bool {
    let key = &other.manifest.key;
    let awaits = |source: &SourceState| source.awaits.is_some();
    key.source() == row.manifest.source()
        || refusal(desired, scope, row, key).is_none()
        || desired.sources.get(key.source()).is_some_and(awaits)
}

/// True where only a name that the row had says that it is `one`.
fn is_by_name(one: &Asking<'_>, row: &Row) -> bool {
    let is_said =
        one.manifest.moved_from.as_ref().is_some_and(|from| means(from, row) || was_called(from, row));
    !one.is_kept && !is_said
}

/// The source that may declare by now what `one` would take back.
pub(super) fn awaited<'d>(desired: &'d Desired, one: &Asking<'_>, row: &Row) -> Option<&'d Arc<str>> {
    let source = desired.sources.get(row.manifest.source())?;
    source.awaits.as_ref().filter(|_| is_by_name(one, row))
}

/// Why what is to be left to others does not become `one`, which may be another thing and would be written over it.
pub(super) fn left_to_others(desired: &Desired, one: &Asking<'_>, row: &Row) -> Option<String> {
    let declared = desired.policies.get(one.resource.policy).deletion;
    let is_left = row.deletion == Deletion::Abandon && declared != Some(Deletion::Abandon);
    let (old, address) = (&row.address, &one.manifest.address);
    (is_left && is_by_name(one, row)).then(|| {
        format!(
            "{old} is not moved back to {address}: it is to be left as it is (`reconciled/deletion: abandon`); where both are \
             one, say `reconciled/moved-from: {old}`"
        )
    })
}
