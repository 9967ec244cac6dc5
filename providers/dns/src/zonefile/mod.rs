//! RFC 1035 master files in a directory, for any server that loads them (BIND, NSD, Knot, CoreDNS).
//!
//! Guarantees: a file is replaced as a whole or not at all, after `check` accepted it; records nobody declared
//! are kept; a zone that cannot be read is an error with file and line.
//! Caveats: comments and the order of lines are not kept (the first lines of each file say so); a file that
//! another program rewrites at the same instant is protected by the lock only if that program takes it.

mod apply;
mod backend;
mod command;
mod config;
mod culprit;
mod draft;
mod observe;
mod write;

pub use config::Config;

use crate::{anywhere, dialect::Served, family};
use async_trait::async_trait;
use backend::Backend;
use reconciled_provider::{
    Batch, Cx, Error, Found, Journal, Marking, Observation, Observer, Provider, ProviderInfo, Scope, Version,
    Want,
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// Static facts.
pub const INFO: ProviderInfo =
    ProviderInfo { type_name: "zonefile", marking: Marking::Native, lists_scopes: false, ..family::INFO };

/// Prepares an entry called `entry` that marks what it writes with `instance`. Touches no file.
///
/// Errors: `Invalid` when the configuration cannot work.
pub fn open(entry: &str, instance: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    config.validate()?;
    apply::validate_instance(instance)?;
    serve(entry, instance, config, &Served::ALL)
}

/// An entry that normalizes whatever some provider of DNS could serve, for checking manifests where nothing is configured.
///
/// Errors: as [`open`].
pub fn sample(entry: &str) -> Result<Arc<dyn Observer>, Error> {
    Ok(serve(entry, "validate", Config::new("/nonexistent"), &anywhere::SERVED)?)
}

fn serve(
    entry: &str,
    instance: &str,
    config: Config,
    served: &'static Served,
) -> Result<Arc<dyn Provider>, Error> {
    let options = config.options.of(instance);
    let (name, instance, writing) = (entry.into(), instance.into(), Default::default());
    let backend = Backend { entry: name, instance, config, writing };
    family::serve(entry, &INFO, served, Files(Arc::new(backend)), options)
}

/// The provider; what it holds is shared with the threads that read files.
#[derive(Debug)]
struct Files(Arc<Backend>);

impl Files {
    /// Runs `read`, which waits for the disk, where waiting hurts nobody.
    async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Backend) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let backend = self.0.clone();
        let task = tokio::task::spawn_blocking(move || read(&backend));
        task.await.map_err(|error| Error::unexpected("read zone files").caused_by(error))?
    }
}

#[async_trait]
impl family::Backend for Files {
    fn points_at(&self, _: &Scope) -> Option<String> {
        // However it is written: with a slash at its end, and without.
        let directory: PathBuf = self.0.config.directory.components().collect();
        Some(directory.display().to_string())
    }

    fn makes_bare_zones(&self) -> bool {
        self.0.config.nameservers.is_empty()
    }

    async fn versions(&self, _: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        let scopes = scopes.to_vec();
        self.blocking(move |backend| observe::versions(backend, &scopes)).await
    }

    async fn observe(&self, _: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let scope = want.scope.clone();
        self.blocking(move |backend| observe::observe(backend, &scope)).await
    }

    async fn discover(&self, _: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let query = query.to_owned();
        self.blocking(move |backend| observe::discover(backend, &query)).await
    }

    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(&self.0, cx, batch, journal).await
    }
}
