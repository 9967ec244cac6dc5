//! Where backups and the audit trail go.

use super::report::{Report, Verdict};
use crate::{config::Config, daemon::look_at_export};

/// Whether the daemon could write backups and the audit trail.
pub(super) fn upkeep(config: &Config, report: &mut Report<'_>) {
    let backup = config.backup.as_ref().map(|backup| ("backup", Some(&*backup.dir)));
    let mut export = None;
    if let Some(file) = &config.audit.export {
        let what = "audit.export";
        match look_at_export(file) {
            Ok(true) => report.ok(what, &format!("{} can be written", file.display())),
            Ok(false) => export = Some((what, file.parent())),
            Err(failure) => {
                let hint = "let the service's user write it, or name another file";
                let hint = failure.hint().unwrap_or_else(|| hint.into());
                report.say(Verdict::Fail, what, &failure.to_string(), Some(&hint));
            }
        }
    }
    for (what, dir) in backup.into_iter().chain(export) {
        let Some(dir) = dir.filter(|dir| !dir.as_os_str().is_empty()) else { continue };
        let shown = dir.display();
        // That of backups is made when it is needed.
        let there = match what {
            "backup" => dir.ancestors().find(|dir| dir.exists()).unwrap_or(dir),
            _ => dir,
        };
        match tempfile::tempfile_in(there) {
            Ok(_) if there == dir => report.ok(what, &format!("{shown} can be written")),
            Ok(_) => report.ok(what, &format!("{shown} is made with the first backup")),
            Err(error) => {
                let hint = format!("make it for the service's user: install -d -o USER -m 700 {shown}");
                report.say(Verdict::Fail, what, &format!("write to {shown}: {error}"), Some(&hint));
            }
        }
    }
}
