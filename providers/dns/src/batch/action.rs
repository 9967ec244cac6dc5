//! One action of a batch: what it wants an RRset to be, and what that was when it was planned.

use crate::record::RrSet;
use reconciled_provider::{Action, Error, Hash, Observed, Op};

/// What an action wants an RRset to be; none to delete it.
///
/// Errors: that is not known yet, or is no RRset.
pub(crate) fn wanted(action: &Action) -> Result<Option<RrSet<'_>>, Error> {
    let Some(resource) = action.op.desired() else { return Ok(None) };
    let set = resource.spec.bytes().and_then(RrSet::decode);
    set.map(Some).ok_or_else(|| Error::invalid(format!("the content of {} is not known yet", resource.id)))
}

/// What it was when an action was planned.
pub(crate) fn observed(action: &Action) -> Option<&Observed> {
    match &action.op {
        Op::Update { observed, .. } | Op::Replace { observed, .. } | Op::Delete { observed, .. } => {
            Some(observed)
        }
        Op::Continue { observed, .. } => observed.as_deref(),
        Op::Create { .. } => None,
    }
}

/// True when what an action touches, of which `seen` is there now, is as planned, or already as wanted.
pub(crate) fn stands(action: &Action, seen: Option<Hash>) -> bool {
    let wanted = action.op.desired().and_then(|resource| resource.spec.hash());
    seen == observed(action).map(|observed| observed.hash) || seen == wanted
}

pub(super) fn is_delete(op: &Op) -> bool {
    matches!(op, Op::Delete { .. })
}
