//! Where a verb writes a file that a person names: in place of nothing that is no file, and of nothing that this program
//! stands on.

use super::Args;
use crate::{
    config::{self, Environment, Whereabouts},
    failure::Failure,
};
use std::{
    fs,
    path::{Component, Path, PathBuf, absolute},
};

/// Refuses the configuration, and all that is or would be in the state directory.
pub(super) fn spares_own(file: &Path, args: &Args, environment: &Environment) -> Result<(), Failure> {
    // Without a configuration there is no state here either; `--server` needs none.
    let Ok(config) = config::locate(args.config.as_deref(), environment) else { return Ok(()) };
    let Whereabouts { state_dir, .. } = config::whereabouts(&config, environment);
    spares(file, &config, &state_dir)
}

fn spares(file: &Path, config: &Path, state: &Path) -> Result<(), Failure> {
    // What leads in a circle leads to nothing that could be written; who writes it says so.
    let Some(place) = place(file) else { return Ok(()) };
    let shown = file.display();
    if fs::canonicalize(config).is_ok_and(|config| config == place) {
        return Err(Failure::hinted(format!("{shown} is the configuration"), "name another file"));
    }
    if self::place(state).is_some_and(|state| place.starts_with(state)) {
        let why = format!("{shown} is in the state directory, where every file is one of the state");
        return Err(Failure::hinted(why, "name a file elsewhere"));
    }
    Ok(())
}

/// Links that are followed, as many as Linux follows.
const LINKS: usize = 40;

/// Where a file is or would be, without links: a folder may be made before it is written, and what a link leads to by writing it.
fn place(file: &Path) -> Option<PathBuf> {
    let mut file = absolute(file).ok()?;
    for _ in 0..LINKS {
        let (part, mut place) =
            file.ancestors().find_map(|part| Some((part, fs::canonicalize(part).ok()?)))?;
        let rest = file.strip_prefix(part).ok()?;
        let mut further = rest.components();
        let Some(next) = further.next() else { return Some(place) };
        if let Ok(aim) = fs::read_link(place.join(next)) {
            file = place.join(aim).join(further.as_path());
            continue;
        }
        for component in rest.components() {
            match component {
                Component::ParentDir => _ = place.pop(),
                other => place.push(other),
            }
        }
        return Some(place);
    }
    None
}

/// Refuses what is there and is no file: one that is renamed to its name takes its place, that of a device for the whole host.
pub(super) fn replaces_file(file: &Path) -> Result<(), Failure> {
    let Ok(found) = fs::symlink_metadata(file) else { return Ok(()) };
    let kind = found.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_symlink() { "a link" } else { "no file" };
    Err(Failure::hinted(
        format!("{} is {what}, and what is written would take its place", file.display()),
        "name a file, and copy it from there",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_the_program_stands_on_is_spared_whatever_leads_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("state/originals")).unwrap();
        fs::write(at("config.yaml"), "").unwrap();
        fs::write(at("state/state.db"), "").unwrap();
        symlink(at("state"), at("way")).unwrap();
        symlink(at("state/state.db"), at("database")).unwrap();
        symlink(at("config.yaml"), at("settings")).unwrap();
        symlink("way/new", at("astray")).unwrap();
        symlink("astray", at("further")).unwrap();
        symlink("circle", at("circle")).unwrap();
        let told = |name: &str| {
            let spared = spares(&at(name), &at("config.yaml"), &at("state"));
            spared.err().map(|failure| failure.to_string()).unwrap_or_default()
        };
        for name in [
            "state/state.db",
            "state/new",
            "state/originals/x",
            "state/nosuch/x",
            "way/new",
            "database",
            "state/../way/x",
            "astray",
            "further",
        ] {
            assert!(told(name).contains("in the state directory"), "{name}: {}", told(name));
        }
        for name in ["config.yaml", "settings", "state/../config.yaml"] {
            assert!(told(name).ends_with("is the configuration"), "{name}: {}", told(name));
        }
        // Also where there is no folder yet, and where the name is but alike.
        for name in ["new", "state.db", "nosuch/x", "nosuch/../new", "state2", "state/../new", "circle"] {
            assert_eq!(told(name), "");
        }
        // A plan makes the directory before it is written.
        fs::remove_dir_all(at("state")).unwrap();
        for name in ["state/seal.key", "state/git/x", "nosuch/../state/x", "way/new", "further"] {
            assert!(told(name).contains("in the state directory"), "{name}: {}", told(name));
        }
        for name in ["new", "state/../new", "state2"] {
            assert_eq!(told(name), "");
        }
    }

    #[test]
    fn a_file_takes_the_place_of_a_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nosuch"), at("astray")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (name, told) in [("link", "is a link"), ("astray", "is a link"), ("socket", "is no file")] {
            let failure = replaces_file(&at(name)).unwrap_err();
            assert!(failure.to_string().contains(told), "{failure}");
        }
        for name in ["file", "new", "nosuch/x"] {
            replaces_file(&at(name)).unwrap();
        }
    }
}
