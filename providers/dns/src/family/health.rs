//! How records fare at the servers that serve them.
//!
//! Nothing is asked: that a record is at the backend is all that is known of it.

use super::Backend;
use reconciled_provider::{Cx, Error, Health, ResourceId, Want};

/// True when [`health`] ever says anything.
pub(crate) fn is_told(_: &dyn Backend) -> bool {
    false
}

/// Health of the records that are wanted; nothing of those that are well.
pub(crate) async fn health(
    _: &dyn Backend,
    _: &Cx,
    _: &Want<'_>,
) -> Result<Vec<(ResourceId, Health)>, Error> {
    Ok(Vec::new())
}
