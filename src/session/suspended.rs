//! The file that suspends everything while it exists: `suspended` beside the host configuration. It works with a
//! dead daemon, a lost state and an editor that is all one has.
//!
//! Guarantees: what keeps the file from being looked for counts as the file. It deliberately has no end of its own:
//! who removes it resumes, and what was changed by hand meanwhile is healed.

use crate::config::Config;
use reconciled_engine::{Extent, Suspension, survey::Outside};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Characters of the file that are taken as the reason.
const REASON: usize = 200;

/// Where the file would be.
pub fn file(config: &Config) -> PathBuf {
    let path = Path::new(&*config.file.path).with_file_name("suspended");
    std::path::absolute(&path).unwrap_or(path)
}

/// The suspension that the file at `path` is, if it is there.
pub fn by_file(path: &Path) -> Option<Suspension> {
    let found = fs::symlink_metadata(path);
    if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return None;
    }
    let changed = found.ok().and_then(|found| found.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    let text = fs::read_to_string(path).unwrap_or_default();
    let reason: String = text.lines().next().unwrap_or_default().trim().chars().take(REASON).collect();
    Some(Suspension {
        id: path.to_string_lossy().into(),
        extent: Extent::All,
        except: Vec::new(),
        reason: if reason.is_empty() { "the file exists".into() } else { reason.into() },
        actor: format!("file {}", path.display()).into(),
        since: changed.unwrap_or(Duration::ZERO),
        until: None,
        scopes: Default::default(),
    })
}

/// Asks for the file at each survey.
pub(super) fn outside(config: &Config) -> Outside {
    let path = file(config);
    Arc::new(move || by_file(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_the_file_is_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suspended");
        assert_eq!(by_file(&path), None);
        fs::write(&path, "").unwrap();
        assert_eq!(&*by_file(&path).unwrap().reason, "the file exists");
        fs::write(&path, " moving the database \nmore\n").unwrap();
        let found = by_file(&path).unwrap();
        assert_eq!(&*found.reason, "moving the database");
        assert_eq!(found.remedy(), format!("to resume: rm {}", path.display()));
        // A folder that is none keeps the file from being looked for.
        assert!(by_file(&path.join("suspended")).is_some());
    }
}
