//! Writes without an answer to what is shared: which of the values that are there they may have made ours.
//!
//! Guarantees: pure; a value of ours is not taken for one of others because somebody wrote beside it before the answer was
//! looked for. It deliberately says nothing of what has one author.

use crate::store::OpenIntent;
use reconciled_provider::{Error, Observed, Observer, ResourceId, Tracked};
use std::{borrow::Cow, collections::BTreeMap};

/// What intents without an outcome may have written of shared resources, by id.
pub(crate) type Written<'a> = BTreeMap<&'a ResourceId, Vec<&'a Tracked>>;

/// What `open` may have written of shared resources.
pub(crate) fn written(open: &[OpenIntent]) -> Written<'_> {
    let mut written: Written<'_> = BTreeMap::new();
    for open in open.iter().filter(|open| is_shared_write(open)) {
        let tracked = &open.intent.row.tracked;
        written.entry(&tracked.id).or_default().push(tracked);
    }
    written
}

/// True for a write to what is shared, which leaves values of ours there.
pub(super) fn is_shared_write(open: &OpenIntent) -> bool {
    open.intent.row.merge && &*open.intent.op != "delete"
}

/// What was seen without what of it `written` made ours; none when nothing else is there.
///
/// Errors: the provider's, where it cannot tell them apart.
pub(crate) fn without<'o>(
    provider: &dyn Observer,
    written: &Written<'_>,
    seen: &'o Observed,
) -> Result<Option<Cow<'o, Observed>>, Error> {
    let mut left = Cow::Borrowed(seen);
    for tracked in written.get(&seen.id).into_iter().flatten() {
        let Some(merged) = provider.merge(&[], Some(&left), Some(tracked), &[])? else { return Ok(None) };
        let Some(bytes) = merged.resource.spec.bytes() else { continue };
        let Observed { bytes, hash, .. } = Observed::new(seen.id.clone(), bytes);
        left = Cow::Owned(Observed { bytes, hash, ..seen.clone() });
    }
    Ok(Some(left))
}
