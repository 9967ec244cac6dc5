//! What is the same for every DNS backend, once: kinds, manifests, names, claims, marks, lint, health.
//!
//! A backend is a [`Backend`]: it reads and writes. [`serve`] is told what else it is, and makes a provider of it.

pub(crate) mod backend;
pub(crate) mod bare;
mod cut;
mod gap;
mod inner;
mod options;
mod provider;

pub(crate) use backend::{Backend, INFO};
pub use options::Options;

use crate::{dialect::Served, kind, ownership::Marker, served::Watch};
use provider::Family;
use reconciled_provider::{Error, Marking, Provider, ProviderInfo};
use std::sync::Arc;

/// A provider of `backend`, which is called `entry` in the configuration, as `options` say. `served` is what cannot be declared
/// there, and what it alone knows.
///
/// Errors: `Invalid` when the instance has no form in a mark.
pub(crate) fn serve(
    entry: &str,
    info: &ProviderInfo,
    served: &'static Served,
    backend: impl Backend + 'static,
    options: Options,
) -> Result<Arc<dyn Provider>, Error> {
    let (entry, mut info) = (entry.into(), info.clone());
    if options.ownership.marks.is_some() {
        info.marking = Marking::Companion;
    }
    let (marker, kinds) = (Marker::new(options.ownership)?, Arc::new(kind::kinds()));
    let verifies = options.verify.is_some();
    let watch = Watch::new(options.verify.unwrap_or_default());
    let backend = Box::new(backend);
    Ok(Arc::new(Family { entry, info, served, backend, kinds, marker, watch, verifies }))
}
