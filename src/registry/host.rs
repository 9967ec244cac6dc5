//! The provider of the machine the daemon runs on, and the helper that has the rights for it.

use super::{at_entry, decode};
use crate::{
    config::{Config, ProviderEntry},
    session::Failure,
};
use reconciled_local::hostd::{Allowed, serve};
use reconciled_provider::{Problem, Provider};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::net::UnixListener;

/// How long the helper stays when nobody asks: it is started in no time.
const IDLE: Duration = Duration::from_secs(60);

/// Builds the provider of one entry.
pub(super) fn build(entry: &ProviderEntry, config: &Config) -> Result<Arc<dyn Provider>, Vec<Problem>> {
    let (decoded, problems) = decode::<reconciled_local::Config>(entry, &entry.rest);
    let Some(decoded) = decoded.filter(|_| problems.is_empty()) else { return Err(problems) };
    let reserved = [config.state_dir.as_path(), Path::new(&*entry.file.path)]
        .into_iter()
        .filter(|path| path.is_absolute())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    // The entry that comes later is told of both.
    let earlier = config.providers.iter().take_while(|other| other.name != entry.name);
    for other in earlier.filter(|other| other.type_name == entry.type_name) {
        let Some(theirs) = decode::<reconciled_local::Config>(other, &other.rest).0 else { continue };
        if let Some(both) = decoded.overlap(&theirs) {
            let message = format!("`{}` and `{}` would both manage {both}", other.name, entry.name);
            let problem = Problem::error(message).at(&entry.file, entry.span);
            return Err(vec![problem.hint("have each path, and the units, in one entry of the machine")]);
        }
    }
    let mut decoded = reconciled_local::Config { timeout: entry.timeout, reserved, ..decoded };
    // A helper has commands and copies of its own.
    if decoded.helper.is_none() {
        decoded.commands = Some(config.commands.clone());
        decoded.originals.get_or_insert_with(|| config.state_dir.join("originals").join(&*entry.name));
    }
    reconciled_local::open(&entry.name, decoded).map_err(|error| at_entry(entry, &error))
}

/// Answers the daemon on `socket` as the helper that `config` describes, until nobody has asked for a while.
pub async fn serve_host(socket: UnixListener, config: &Path) -> Result<(), Failure> {
    let allowed = Allowed::read(config).map_err(Failure::Problems)?;
    serve(socket, allowed, IDLE)
        .await
        .map_err(|error| Failure::plain(format!("listen for the daemon: {error}")))
}
