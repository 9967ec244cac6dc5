//! Entries of `type: certificates`.

use super::{at_entry, authority, decode};
use crate::config::{Config, ProviderEntry};
use reconciled_provider::{Problem, Provider};
use std::{path::Path, sync::Arc};

/// Builds the provider of one entry.
///
/// Errors: every problem of the entry at its place.
pub(super) fn build(entry: &ProviderEntry, config: &Config) -> Result<Arc<dyn Provider>, Vec<Problem>> {
    let (decoded, problems) = decode::<authority::Config>(entry, &entry.rest);
    let Some(decoded) = decoded.filter(|_| problems.is_empty()) else { return Err(problems) };
    let own = [config.state_dir.as_path(), Path::new(&*entry.file.path)];
    let config = authority::Config {
        state: config.state_dir.join("certificates").join(&*entry.name),
        reserved: own
            .into_iter()
            .filter(|path| path.is_absolute())
            .map(|path| path.to_string_lossy().into_owned())
            .collect(),
        timeout: entry.timeout,
        passed: crate::failpoint::hit,
        ..decoded
    };
    authority::open(&entry.name, config).map_err(|error| at_entry(entry, &error))
}
