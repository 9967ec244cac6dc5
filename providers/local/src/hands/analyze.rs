//! What `systemd-analyze verify` has against a unit file and its drop-ins, where the tool is there.
//!
//! It runs with the sandbox of this process, which may see less of the host than the unit will: that a program is not to be
//! seen from here says nothing of the unit, and is not told. Nor is that the service of a socket is not there yet.

use reconciled_command::Invocation;
use reconciled_provider::{Error, problem::one_line};
use std::{collections::BTreeMap, fs, io, os::unix::fs::PermissionsExt, path::Path, time::Duration};

/// A unit as it is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// Its name.
    pub name: String,
    /// Its file; none where that is a package's.
    pub content: Option<String>,
    /// Its drop-ins, by name.
    pub drop_ins: BTreeMap<String, String>,
}

impl Draft {
    fn write(&self, folder: &Path) -> io::Result<()> {
        if let Some(content) = &self.content {
            fs::write(folder.join(&self.name), content)?;
        }
        let beside = folder.join(format!("{}.d", self.name));
        if !self.drop_ins.is_empty() {
            fs::create_dir(&beside)?;
        }
        self.drop_ins.iter().try_for_each(|(name, text)| fs::write(beside.join(name), text))
    }
}

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(25);
/// Characters that are shown of what it says.
const EXCERPT: usize = 500;

/// Octets that are kept of what it says: of the drafts that are asked for at one time, far more than it has against each.
const KEPT: usize = 1024 * 1024;

/// Drafts that are asked for at one time: each start of the tool takes longer than many units do.
const AT_ONCE: usize = 100;

/// What it says where it refuses any of them.
#[derive(Default)]
struct Said {
    text: String,
    /// It said more than is kept.
    is_cut: bool,
}

impl Said {
    fn may_name(&self, draft: &Draft) -> bool {
        self.is_cut || self.text.contains(&*draft.name)
    }
}

/// Asks for drafts: of the machine, or of the user whose home is named.
///
/// Errors: `Invalid` with what it says; `Unavailable` where there is no room for the draft.
pub(super) async fn verify(units: &[Draft], home: Option<&str>) -> Vec<Result<(), Error>> {
    let mut all = Vec::with_capacity(units.len());
    for some in units.chunks(AT_ONCE) {
        // Who is not named in what it says about all of them is well.
        let said = if some.len() > 1 {
            said(some, home).await.map(Option::unwrap_or_default)
        } else {
            Ok(Said::default())
        };
        let is_alone = some.len() == 1;
        for draft in some {
            all.push(match &said {
                Err(error) => Err(error.clone()),
                Ok(said) if !is_alone && !said.may_name(draft) => Ok(()),
                Ok(_) => one(draft, home).await,
            });
        }
    }
    all
}

async fn one(draft: &Draft, home: Option<&str>) -> Result<(), Error> {
    let Some(said) = said(std::slice::from_ref(draft), home).await? else { return Ok(()) };
    let name = &draft.name;
    against(draft, &said.text).map_or(Ok(()), |said| {
        Err(Error::invalid(format!("`systemd-analyze verify` refuses {name}: {said}"))
            .hint("mend the unit in the repository"))
    })
}

/// What it says of them, if it refuses any. It is asked for a unit by its name, so a draft has it, in a folder of its own.
async fn said(units: &[Draft], home: Option<&str>) -> Result<Option<Said>, Error> {
    // A unit may say what others must not read.
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir();
    let folder =
        folder.map_err(|error| Error::unavailable("make a folder for systemd-analyze").caused_by(error))?;
    said_in(folder.path(), units, home).await
}

async fn said_in(folder: &Path, units: &[Draft], home: Option<&str>) -> Result<Option<Said>, Error> {
    // By another name it would find none of them.
    let Some(shown) = folder.to_str() else { return Ok(None) };
    for draft in units {
        draft.write(folder).map_err(|error| {
            Error::unavailable(format!("write {} for systemd-analyze", draft.name)).caused_by(error)
        })?;
    }
    // A package's unit is where it is, with drop-ins of ours before those that are there (systemd-analyze(1)).
    let unit_path = format!("{shown}:");
    let (mut arguments, mut environment) = (Vec::new(), vec![("SYSTEMD_UNIT_PATH", &*unit_path)]);
    if let Some(home) = home {
        // It puts something into a runtime directory, which need not be that of the manager.
        arguments.push("--user".to_owned());
        environment.extend([("HOME", home), ("XDG_RUNTIME_DIR", shown)]);
    }
    arguments.extend(["verify", "--man=no", "--recursive-errors=no"].map(str::to_owned));
    arguments.extend(units.iter().map(|draft| match draft.content {
        Some(_) => format!("{shown}/{}", draft.name),
        None => draft.name.clone(),
    }));
    let invocation = Invocation {
        environment: &environment,
        kept: KEPT,
        ..Invocation::new("systemd-analyze", &arguments, LIMIT)
    };
    // Not installed, or hung: systemd will say what it has against the unit.
    let Ok(output) = reconciled_command::run(invocation).await else { return Ok(None) };
    let text = String::from_utf8_lossy(&output.stderr).replace(shown, "");
    let said = Said { text, is_cut: output.stderr.len() == KEPT };
    Ok((!output.status.success()).then_some(said))
}

/// What of that is against the unit, wherever it is looked at from; none where nothing is. What is wrong with a package's file is
/// no matter of ours.
fn against(draft: &Draft, said: &str) -> Option<String> {
    let elsewhere = [" is not executable: ", " not loaded, socket cannot be started"];
    let is_of_unit = |line: &&str| !elsewhere.iter().any(|words| line.contains(words));
    let lines: Vec<&str> = said.lines().filter(is_of_unit).collect();
    let drop_in = format!("{}.d/", draft.name);
    let is_packaged = draft.content.is_none();
    let name = if is_packaged { &drop_in } else { &draft.name };
    let ours: Vec<&str> = lines.iter().copied().filter(|line| line.contains(&**name)).collect();
    let said = if ours.is_empty() && !is_packaged { lines.join(" ") } else { ours.join("; ") };
    (!said.trim().is_empty()).then(|| one_line(&said, EXCERPT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    #[test]
    fn a_program_that_cannot_be_seen_from_here_is_no_fault_of_the_unit() {
        let of = |name: &str| Draft { name: name.into(), content: Some(String::new()), ..Draft::default() };
        let missing = "a.service: Command /home/me/run is not executable: No such file or directory\n";
        assert_eq!(against(&of("a.service"), missing), None);
        let alone = "a.socket: service a.service not loaded, socket cannot be started.\n";
        assert_eq!(against(&of("a.socket"), alone), None);
        let wrong = "/a.service:2: Unknown key name 'ExecStat' in section 'Service', ignoring.\n";
        let both = format!("{missing}{wrong}other.service: something\n");
        assert_eq!(against(&of("a.service"), &both).as_deref(), Some(wrong.trim()));
        assert_eq!(against(&of("b.service"), "all is wrong\n").as_deref(), Some("all is wrong"));
        let packaged = Draft { content: None, ..of("a.service") };
        assert_eq!(against(&packaged, wrong), None);
        let drop_in = "/etc/a.service.d/x.conf:2: Unknown key";
        assert_eq!(against(&packaged, &format!("{wrong}{drop_in}\n")).as_deref(), Some(drop_in));
    }

    #[tokio::test]
    async fn no_unit_is_refused_for_the_name_of_a_folder_that_is_no_text() {
        let unit = Draft {
            name: "a.service".into(),
            content: Some("[Service]\nExecStart=/bin/true\n".into()),
            ..Draft::default()
        };
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join(OsStr::from_bytes(b"\xff"));
        fs::create_dir(&folder).unwrap();
        assert!(said_in(&folder, &[unit], None).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_unit_is_refused_and_a_missing_program_is_not() {
        let Ok(_) = std::process::Command::new("systemd-analyze").arg("--version").output() else { return };
        let unit = |name: &str, content: &str| Draft {
            name: name.into(),
            content: Some(format!("[Service]\n{content}\n")),
            ..Draft::default()
        };
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
        // A drop-in, of a unit of ours and of a package's.
        let with = |draft: Draft, text: &str| Draft {
            drop_ins: [("x.conf".into(), format!("[Service]\n{text}\n"))].into(),
            ..draft
        };
        let journal = Draft { name: "systemd-journald.service".into(), ..Draft::default() };
        for draft in [unit("c.service", "ExecStart=/bin/true"), journal] {
            assert!(verify(&[with(draft.clone(), "Nice=2")], None).await[0].is_ok(), "{draft:?}");
            let error = verify(&[with(draft.clone(), "Nise=2")], None).await.remove(0).unwrap_err();
            assert!(error.message.contains("x.conf:2: Unknown key"), "{error}");
        }
        // Those of a user know targets of a user.
        let of_user = verify(&many, Some("/nonexistent")).await;
        assert!(
            of_user[30].is_err() && of_user.iter().filter(|one| one.is_err()).count() == 1,
            "{of_user:?}"
        );
    }
}
