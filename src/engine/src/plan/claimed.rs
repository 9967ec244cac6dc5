//! What is there only because something else claims it: no manifest declares it, so it has a key and an address of its own.

use reconciled_provider::{Address, ManifestKey, ResourceId, Scope, Whole};
use std::sync::Arc;

/// Source part of the key of a resource that exists only because of claims.
pub const CLAIMS: &str = "$claims";

/// The key under which it is tracked.
pub(super) fn key(scope: &Scope, id: &ResourceId) -> ManifestKey {
    ManifestKey::new(CLAIMS, "", "Claim", "", &format!("{scope}/{id}"))
}

/// What people call it.
pub(super) fn address(scope: &Scope, id: &ResourceId, part: Option<Arc<str>>) -> Address {
    let name: Arc<str> =
        if part.is_some() { scope.to_string().into() } else { format!("{scope}/{id}").into() };
    let whole = Whole { namespace: None, kind: "Claim".into(), group: None, name };
    Address { whole: whole.into(), part }
}
