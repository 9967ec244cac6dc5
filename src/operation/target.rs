//! What a repository that is pushed to has of us: the hooks, and what they go by while no daemon answers.
//!
//! Guarantees: looking changes nothing. What a configuration would have written is known here alone, to `init`, which writes
//! it, and to those who find that it was written for another one.

use super::PushTarget;
use crate::{
    config::{Config, SYSTEM_SOCKET},
    failure::Failure,
    session,
    source::Target,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The file in the repository in which `init` leaves what the daemon would say.
pub(crate) const KEPT: &str = "reconciled.json";

/// Hooks that call this program.
const HOOKS: [&str; 2] = ["pre-receive", "post-receive"];

/// A file of a push target.
pub(crate) struct TargetFile {
    /// Its path below the repository.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) mode: u32,
}

/// The files that `config` means for the push target at `directory`, which has no link in it. `program` is this one.
pub(crate) fn files(config: Option<&Config>, directory: &Path, program: &Path) -> Vec<TargetFile> {
    let socket = config.map_or_else(|| Path::new(SYSTEM_SOCKET), |config| &config.api.socket);
    let hook = |hook: &str| TargetFile {
        name: format!("hooks/{hook}"),
        text: script(program, hook, socket),
        mode: 0o755,
    };
    let mut files: Vec<TargetFile> = HOOKS.into_iter().map(hook).collect();
    let kept = config.map(|config| PushTarget::of(config, directory));
    if let Some(kept) = kept.filter(|kept| !kept.sources.is_empty()) {
        let text = serde_json::to_string_pretty(&kept).unwrap_or_default() + "\n";
        files.push(TargetFile { name: KEPT.into(), text, mode: 0o644 });
    }
    files
}

/// The path of this program.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::plain(format!("find the path of this program: {error}")))
}

/// A push target whose files were written for another configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    pub(crate) directory: PathBuf,
    /// The files, by their paths below it.
    pub(crate) files: Vec<String>,
}

impl Stale {
    /// What that means, for people.
    pub(crate) fn text(&self) -> String {
        format!(
            "{} of {} are not as this configuration has them: pushes may be taken without a plan, and without being refused",
            self.files.join(", "),
            self.directory.display()
        )
    }

    /// What to type.
    pub(crate) fn hint(&self) -> String {
        format!("reconciled init {}", self.directory.display())
    }
}

/// Push targets at local urls of `config` whose files are not what `init` would write.
///
/// Assumptions: what libgit2 may open was said before (`Session::open`).
pub(crate) fn stale(config: &Config) -> Result<Vec<Stale>, Failure> {
    let program = program()?;
    let places: BTreeSet<PathBuf> =
        config.sources.iter().flat_map(|source| session::local_places(config, source)).collect();
    let mut stale = Vec::new();
    for target in places.iter().filter_map(|place| Target::at(place)) {
        let differs = |file: &TargetFile| {
            // Another program that is there will do: a link to this one, or where it was installed before.
            let differs = |text: &str| target.differs(&file.name, text, file.mode);
            let known =
                target.read(&file.name).and_then(|text| program_in(&text)).filter(|path| path.exists());
            differs(&file.text)
                && known.is_none_or(|known| {
                    let named = |other: &TargetFile| other.name == file.name;
                    files(Some(config), target.directory(), &known)
                        .iter()
                        .filter(|f| named(f))
                        .any(|f| differs(&f.text))
                })
        };
        let files: Vec<String> = files(Some(config), target.directory(), &program)
            .iter()
            .filter(|file| differs(file))
            .map(|file| file.name.clone())
            .collect();
        if !files.is_empty() {
            stale.push(Stale { directory: target.directory().to_owned(), files });
        }
    }
    Ok(stale)
}

fn script(program: &Path, hook: &str, socket: &Path) -> String {
    let (program, socket) = (quoted(program), quoted(socket));
    format!(
        "#!/bin/sh\n# Written by `reconciled init`; say it again to repair it.\nexec {program} hook {hook} --socket {socket}\n"
    )
}

/// The program that a hook calls, if it is one of ours.
fn program_in(script: &str) -> Option<PathBuf> {
    let call = script.lines().find_map(|line| line.strip_prefix("exec '"))?;
    let (program, _) = call.split_once("' hook ")?;
    Some(program.replace(r"'\''", "'").into())
}

/// One word for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
        let script = script(Path::new("/a b/it's"), "pre-receive", Path::new("/run/api.sock"));
        assert!(
            script.ends_with("\nexec '/a b/it'\\''s' hook pre-receive --socket '/run/api.sock'\n"),
            "{script}"
        );
        assert_eq!(program_in(&script).as_deref(), Some(Path::new("/a b/it's")));
        assert_eq!(program_in("#!/bin/sh\nexit 0\n"), None);
    }
}
