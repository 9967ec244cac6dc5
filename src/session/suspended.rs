//! What suspends besides the store.
//!
//! The file that suspends everything while it exists: `suspended` beside the host configuration. It works with a
//! dead daemon, a lost state and an editor that is all one has. What keeps the file from being looked for counts as
//! the file. It deliberately has no end of its own: who removes it resumes, and what was changed by hand meanwhile
//! is healed.
//!
//! And the windows of each source that are closed: as a suspension of the source, from the clock alone.

use crate::{
    config::{Config, SourceConfig},
    window::Closed,
};
use reconciled_engine::{Extent, StoppedBy, Suspension, survey::Outside};
use reconciled_provider::Clock;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

/// Characters of the file that are taken as the reason.
const REASON: usize = 200;

/// Where the file counts whichever configuration is in use: what an operator types without looking.
const EVERYWHERE: &str = "/etc/reconciled/suspended";

/// Where the file would be: beside the configuration, and in the one place that everybody knows.
fn files(config: &Config) -> Vec<PathBuf> {
    let path = Path::new(&*config.file.path).with_file_name("suspended");
    let beside = std::path::absolute(&path).unwrap_or(path);
    let everywhere = PathBuf::from(EVERYWHERE);
    if beside == everywhere { vec![beside] } else { vec![beside, everywhere] }
}

/// The suspension that one of the files is.
pub fn by_files(config: &Config) -> Option<Suspension> {
    files(config).iter().find_map(|path| by_file(path))
}

/// The suspension that the file at `path` is, if it is there.
fn by_file(path: &Path) -> Option<Suspension> {
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
        stopped_by: StoppedBy::Person,
        scopes: Default::default(),
    })
}

/// The windows that are closed at `now`.
pub fn by_windows(config: &Config, now: Duration) -> Vec<Suspension> {
    let closed = config.sources.iter().filter_map(|source| Some((source, source.windows.closed(now)?)));
    closed.map(|(source, closed)| by_window(source, closed, now)).collect()
}

fn by_window(source: &SourceConfig, closed: Closed, now: Duration) -> Suspension {
    Suspension {
        id: format!("window:{}", source.name).into(),
        extent: Extent::Source(source.name.clone()),
        except: Vec::new(),
        reason: closed.why.into(),
        actor: format!("source {}", source.name).into(),
        since: now,
        until: closed.until,
        stopped_by: StoppedBy::Window(closed.passes),
        // Nobody works by hand because a window is closed: what differs when it opens is drift like any other.
        scopes: Default::default(),
    }
}

/// Everything that suspends at `now` besides the store.
pub fn outside(config: &Config, now: Duration) -> Vec<Suspension> {
    by_files(config).into_iter().chain(by_windows(config, now)).collect()
}

/// Asks for it at each survey. `met_file` says afterwards whether one of them met a file.
pub(super) fn at_each_survey(
    config: &Arc<Config>,
    clock: &Arc<dyn Clock>,
    met_file: &Arc<AtomicBool>,
) -> Outside {
    let (config, clock, met_file) = (config.clone(), clock.clone(), met_file.clone());
    Arc::new(move || {
        let found = by_files(&config);
        met_file.fetch_or(found.is_some(), Ordering::Relaxed);
        found.into_iter().chain(by_windows(&config, clock.now())).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_counts_beside_the_configuration_and_where_everybody_knows() {
        let of = |path: &str| {
            let file = reconciled_provider::SourceFile::new(path, "{}");
            files(&crate::config::parse(file.into(), &Default::default()).0.unwrap())
        };
        assert_eq!(of("/etc/reconciled/config.yaml"), [PathBuf::from("/etc/reconciled/suspended")]);
        assert_eq!(
            of("/srv/own/config.yaml"),
            ["/srv/own/suspended", "/etc/reconciled/suspended"].map(PathBuf::from)
        );
    }

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
