//! The provider of the machine the daemon runs on, and the helper that has the rights for it.

use super::entry::{at_entry, decode};
use crate::{
    config::{Config, ProviderEntry},
    failure::Failure,
};
use reconciled_local::hostd::{Allowed, refuse, serve};
use reconciled_provider::{Problem, Provider};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{net::UnixListener, time::timeout};

/// How long the helper stays when nobody asks: it is started in no time.
const IDLE: Duration = Duration::from_secs(60);

/// Builds the provider of one entry.
pub(super) fn build(entry: &ProviderEntry, config: &Config) -> Result<Arc<dyn Provider>, Vec<Problem>> {
    let (decoded, problems) = decode::<reconciled_local::Config>(entry, &entry.rest, &[]);
    let Some(decoded) = decoded.filter(|_| problems.is_empty()) else { return Err(problems) };
    // Beside the configuration are the keys and secrets that it names. Where files of that directory, or below it, are to be
    // managed, it is the file alone; a helper says itself what is out of reach.
    let file = Path::new(&*entry.file.path);
    let is_managed = |folder: &Path| decoded.paths.iter().any(|path| Path::new(path).starts_with(folder));
    let folder = file.parent().filter(|folder| decoded.helper.is_none() && !is_managed(folder));
    let reserved = [config.state_dir.as_path(), folder.unwrap_or(file)]
        .into_iter()
        .filter(|path| path.is_absolute())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    // The entry that comes later is told of both.
    let earlier = config.providers.iter().take_while(|other| other.name != entry.name);
    for other in earlier.filter(|other| other.type_name == entry.type_name) {
        let Some(theirs) = decode::<reconciled_local::Config>(other, &other.rest, &[]).0 else { continue };
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
    let lost = |error| Failure::plain(format!("listen for the daemon: {error}"));
    let mut first = None;
    loop {
        let problems = match Allowed::read(config) {
            Ok(allowed) => return serve(socket, first, allowed, IDLE).await.map_err(lost),
            Err(problems) => problems,
        };
        // Who asks is told why nothing is done.
        if let Some(stream) = first.take() {
            refuse(stream, &Allowed::unusable(&problems)).await;
        }
        // It is read again after somebody came and not before: it may be mended while nobody asks.
        let Ok(accepted) = timeout(IDLE, socket.accept()).await else {
            return Err(Failure::Problems(problems));
        };
        first = Some(accepted.map_err(lost)?.0);
    }
}
