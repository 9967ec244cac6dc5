//! Copies of the state, the newest of them kept.

use super::{about, blocking};
use crate::{
    config::Backups,
    daemon::Instance,
    failure::Failure,
    store::{Reader, Stamp},
};
use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};
use tokio::runtime::Handle;

/// Makes a backup when the newest is old enough, and removes those that are too many.
pub(super) async fn back_up(instance: &Instance, backups: &Backups, now: Duration) -> Result<(), Failure> {
    let prefix = format!("{}-", instance.session.config.instance.replace('/', "_"));
    let (backups, reader, runtime) =
        (backups.clone(), instance.writing.db.reader().clone(), Handle::current());
    // All of it, since any call on a mount may hang.
    blocking(&instance.upkeep.backing_up, move || made(&backups, &reader, &prefix, now, &runtime)).await
}

fn made(
    backups: &Backups,
    reader: &Reader,
    prefix: &str,
    now: Duration,
    runtime: &Handle,
) -> Result<(), Failure> {
    let dir = &backups.dir;
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(about("make", dir))?;
    let mut names = named(dir, prefix, "Z.db")?;
    let newest = dir.join(names.last().map(String::as_str).unwrap_or_default());
    let age = match names.last() {
        // A clock that went back makes no backup due for ever.
        Some(_) => fs::metadata(&newest)
            .and_then(|found| found.modified())
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .filter(|at| *at <= now)
            .map(|at| now - at),
        None => None,
    };
    if age.is_some_and(|age| age < backups.every) {
        return Ok(());
    }
    let removed = |name: &String| {
        let file = dir.join(name);
        fs::remove_file(&file).map_err(about("remove", &file))
    };
    // What a process that died left unfinished is as large as the state.
    named(dir, prefix, "Z.db.part")?.iter().try_for_each(removed)?;
    let name = format!("{prefix}{}.db", Stamp(now).to_string().replace(':', ""));
    let file = dir.join(&name);
    runtime.block_on(reader.backup(&file))?;
    tracing::info!(file = %file.display(), "the state is backed up");
    names.retain(|known| *known != name);
    names.push(name);
    names[..names.len().saturating_sub(backups.keep)].iter().try_for_each(removed)
}

/// Backups of this instance in `dir` whose names end so, the oldest first: their names have the time in them.
fn named(dir: &Path, prefix: &str, end: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(about("read", dir))? {
        let name = entry.map_err(about("read", dir))?.file_name().to_string_lossy().into_owned();
        let time = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(end));
        if time.is_some_and(|time| {
            time.len() == 17 && time.chars().all(|c| c.is_ascii_digit() || "-T".contains(c))
        }) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
