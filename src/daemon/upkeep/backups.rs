//! Copies of the state, the newest of them kept.

use super::turn::{about, blocking};
use crate::{
    config::Backups,
    daemon::instance::Instance,
    failure::Failure,
    store::{Reader, Stamp},
};
use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::Path,
    time::Duration,
};
use tokio::runtime::Handle;

/// Octets of the time in the name of a backup.
const TIME: usize = 17;

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
    let name_at = |at: Duration| format!("{prefix}{}.db", Stamp(at).to_string().replace(':', ""));
    let name = name_at(now);
    let mut names = named(dir, prefix, |end| end == "Z.db")?;
    // Made while the clock was ahead: nobody knows how old they are, so none of them is the newest, and they go first.
    let mut all = names.split_off(names.partition_point(|known| *known <= name));
    // Names sort by time, and whoever copies a file may give it another time.
    let latest = name_at(now.saturating_sub(backups.every));
    if names.last().is_some_and(|newest| *newest > latest) {
        return Ok(());
    }
    let removed = |name: &String| {
        let file = dir.join(name);
        fs::remove_file(&file).map_err(about("remove", &file))
    };
    // What a process that died left unfinished is as large as the state.
    let is_part =
        |end: &str| end.starts_with("Z.db.") && (end.ends_with(".part") || end.ends_with(".part-journal"));
    named(dir, prefix, is_part)?.iter().try_for_each(removed)?;
    let file = dir.join(&name);
    runtime.block_on(reader.backup(&file))?;
    tracing::info!(file = %file.display(), "the state is backed up");
    names.retain(|known| *known != name);
    // Where all others seem to be of later than now it is this clock that is wrong: it is behind, and drives none of them out.
    if names.is_empty() && !all.is_empty() {
        return Ok(());
    }
    all.extend(names);
    all.push(name);
    all[..all.len().saturating_sub(backups.keep)].iter().try_for_each(removed)
}

/// Backups of this instance in `dir` with such an end after the time in their names, the oldest first.
fn named(dir: &Path, prefix: &str, is_end: impl Fn(&str) -> bool) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(about("read", dir))? {
        let name = entry.map_err(about("read", dir))?.file_name().to_string_lossy().into_owned();
        let parts = name.strip_prefix(prefix).and_then(|rest| rest.split_at_checked(TIME));
        if parts.is_some_and(|(time, end)| {
            time.chars().all(|c| c.is_ascii_digit() || "-T".contains(c)) && is_end(end)
        }) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
