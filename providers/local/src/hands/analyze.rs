//! What `systemd-analyze verify` has against a unit file, where the tool is there.
//!
//! It runs with the sandbox of this process, which may see less of the host than the unit will: that a program is not to be
//! seen from here says nothing of the unit, and is not told. Nor is that the service of a socket is not there yet.

use super::command::PATH;
use reconciled_provider::Error;
use std::{process::Stdio, time::Duration};

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(25);
/// Characters that are shown of what it says.
const EXCERPT: usize = 500;

/// Drafts that are asked for at one time: each start of the tool takes longer than many units do.
const AT_ONCE: usize = 100;

/// Asks for drafts, each a name and its content: of the machine, or of the user whose home is named.
///
/// Errors: `Invalid` with what it says; `Unavailable` where there is no room for the draft.
pub(super) async fn verify(units: &[(String, String)], home: Option<&str>) -> Vec<Result<(), Error>> {
    let mut all = Vec::with_capacity(units.len());
    for some in units.chunks(AT_ONCE) {
        // Who is not named in what it says about all of them is well.
        let said = if some.len() > 1 {
            said(some, home).await.map(Option::unwrap_or_default)
        } else {
            Ok(String::new())
        };
        let is_alone = some.len() == 1;
        for (name, content) in some {
            all.push(match &said {
                Err(error) => Err(error.clone()),
                Ok(said) if !is_alone && !said.contains(&**name) => Ok(()),
                Ok(_) => one(name, content, home).await,
            });
        }
    }
    all
}

async fn one(name: &str, content: &str, home: Option<&str>) -> Result<(), Error> {
    let Some(said) = said(&[(name.to_owned(), content.to_owned())], home).await? else { return Ok(()) };
    against(name, &said).map_or(Ok(()), |said| {
        Err(Error::invalid(format!("`systemd-analyze verify` refuses {name}: {said}"))
            .hint("mend the unit in the repository"))
    })
}

/// What it says where it refuses any of them. It is asked for a unit by its name, so a draft has it, in a folder of its own.
async fn said(units: &[(String, String)], home: Option<&str>) -> Result<Option<String>, Error> {
    let folder = tempfile::tempdir();
    let folder =
        folder.map_err(|error| Error::unavailable("make a folder for systemd-analyze").caused_by(error))?;
    let folder = folder.path();
    for (name, content) in units {
        let written = std::fs::write(folder.join(name), content);
        written.map_err(|error| {
            Error::unavailable(format!("write {name} for systemd-analyze")).caused_by(error)
        })?;
    }
    let mut command = tokio::process::Command::new("systemd-analyze");
    // The environment of the daemon may hold secrets, and settings that are not those of systemd.
    command.env_clear().env("PATH", PATH);
    if let Some(home) = home {
        // It puts something into a runtime directory, which need not be that of the manager.
        command.arg("--user").env("HOME", home).env("XDG_RUNTIME_DIR", folder);
    }
    let child = command
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(units.iter().map(|(name, _)| folder.join(name)))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(LIMIT, child).await {
        Ok(Ok(output)) => output,
        // Not installed, or hung: systemd will say what it has against the unit.
        Ok(Err(_)) | Err(_) => return Ok(None),
    };
    let said = String::from_utf8_lossy(&output.stderr).replace(&*folder.to_string_lossy(), "");
    Ok((!output.status.success()).then_some(said))
}

/// What of that is against the unit, wherever it is looked at from; none where nothing is.
fn against(name: &str, said: &str) -> Option<String> {
    let elsewhere = [" is not executable: ", " not loaded, socket cannot be started"];
    let is_of_unit = |line: &&str| !elsewhere.iter().any(|words| line.contains(words));
    let lines: Vec<&str> = said.lines().filter(is_of_unit).collect();
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
        let alone = "a.socket: service a.service not loaded, socket cannot be started.\n";
        assert_eq!(against("a.socket", alone), None);
        let wrong = "/a.service:2: Unknown key name 'ExecStat' in section 'Service', ignoring.\n";
        let both = format!("{missing}{wrong}other.service: something\n");
        assert_eq!(against("a.service", &both).as_deref(), Some(wrong.trim()));
        assert_eq!(against("b.service", "all is wrong\n").as_deref(), Some("all is wrong"));
    }

    #[tokio::test]
    async fn what_is_no_unit_is_refused_and_a_missing_program_is_not() {
        let Ok(_) = std::process::Command::new("systemd-analyze").arg("--version").output() else { return };
        let unit = |name: &str, content: &str| (name.to_owned(), format!("[Service]\n{content}\n"));
        let error = verify(&[unit("a.service", "Type=nosuch")], None).await.remove(0).unwrap_err();
        assert!(error.message.contains("refuses a.service: "), "{error:?}");
        // Of many each gets its own word.
        let mut many: Vec<_> =
            (0..30).map(|n| unit(&format!("n{n}.service"), "ExecStart=/bin/true")).collect();
        many.push(unit("a.service", "Type=nosuch"));
        many.push(unit("b.service", "ExecStart=/no/such/program"));
        let all = verify(&many, None).await;
        assert_eq!(all.iter().filter(|one| one.is_err()).count(), 1);
        assert_eq!(all[30].as_ref().unwrap_err().message, error.message);
        // Those of a user know targets of a user.
        let of_user = verify(&many, Some("/nonexistent")).await;
        assert!(
            of_user[30].is_err() && of_user.iter().filter(|one| one.is_err()).count() == 1,
            "{of_user:?}"
        );
    }
}
