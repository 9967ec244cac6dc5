//! What `systemd-analyze verify` has against a unit file, where the tool is there.
//!
//! It runs with the sandbox of this process, which may see less of the host than the unit will: that a program is not to be
//! seen from here says nothing of the unit, and is not told.

use super::command::PATH;
use reconciled_provider::Error;
use std::{process::Stdio, time::Duration};

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(25);
/// Characters that are shown of what it says.
const EXCERPT: usize = 500;

/// Asks for a draft. It is asked for the unit by its name, so the draft has it, in a folder of its own.
///
/// Errors: `Invalid` with what it says; `Unavailable` where there is no room for the draft.
pub(super) async fn verify(name: &str, content: &str) -> Result<(), Error> {
    let folder = tempfile::tempdir();
    let folder =
        folder.map_err(|error| Error::unavailable("make a folder for systemd-analyze").caused_by(error))?;
    let folder = folder.path();
    let file = folder.join(name);
    let written = std::fs::write(&file, content);
    written
        .map_err(|error| Error::unavailable(format!("write {name} for systemd-analyze")).caused_by(error))?;
    let child = tokio::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&file)
        // The environment of the daemon may hold secrets, and settings that are not those of systemd.
        .env_clear()
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(LIMIT, child).await {
        Ok(Ok(output)) => output,
        // Not installed, or hung: systemd will say what it has against the unit.
        Ok(Err(_)) | Err(_) => return Ok(()),
    };
    let said = String::from_utf8_lossy(&output.stderr).replace(&*folder.to_string_lossy(), "");
    match (output.status.success(), against(name, &said)) {
        (false, Some(said)) => {
            Err(Error::invalid(format!("`systemd-analyze verify` refuses {name}: {said}"))
                .hint("mend the unit in the repository"))
        }
        _ => Ok(()),
    }
}

/// What of that is against the unit, wherever it is looked at from; none where nothing is.
fn against(name: &str, said: &str) -> Option<String> {
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains(" is not executable: ")).collect();
    let ours: Vec<&str> = lines.iter().copied().filter(|line| line.contains(name)).collect();
    let said = if ours.is_empty() { lines.join(" ") } else { ours.join("; ") };
    let is_shown = |c: &char| !c.is_control();
    (!said.trim().is_empty()).then(|| said.trim().chars().filter(is_shown).take(EXCERPT).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_cannot_be_seen_from_here_is_no_fault_of_the_unit() {
        let missing = "a.service: Command /home/me/run is not executable: No such file or directory\n";
        assert_eq!(against("a.service", missing), None);
        let wrong = "/a.service:2: Unknown key name 'ExecStat' in section 'Service', ignoring.\n";
        let both = format!("{missing}{wrong}other.service: something\n");
        assert_eq!(against("a.service", &both).as_deref(), Some(wrong.trim()));
        assert_eq!(against("b.service", "all is wrong\n").as_deref(), Some("all is wrong"));
    }

    #[tokio::test]
    async fn what_is_no_unit_is_refused_and_a_missing_program_is_not() {
        let Ok(_) = std::process::Command::new("systemd-analyze").arg("--version").output() else { return };
        let error = verify("a.service", "[Service]\nType=nosuch\n").await.unwrap_err();
        assert!(error.message.contains("refuses a.service: "), "{error:?}");
        assert!(verify("a.service", "[Service]\nExecStart=/no/such/program\n").await.is_ok());
    }
}
