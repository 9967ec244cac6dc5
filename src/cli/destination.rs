//! Where a verb writes a file that a person names: in place of nothing that this program stands on, and of no pipe or disk. A
//! file is written whole or stays as it was where its folder lets it, and it has one name; a backup takes the place of a file alone,
//! and of no link; files that are made together take the place of none.

use super::Args;
use crate::{
    config::{self, Environment, Whereabouts},
    failure::Failure,
    file::replace_open,
};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
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

/// Refuses what is there and takes no content of a file: a pipe, which waits for whoever reads it, and a disk. A pipe that a shell has
/// opened (`/dev/stdout`, `/dev/fd/63`) has a reader, whether it has a place or not.
pub(super) fn takes_content(file: &Path) -> Result<(), Failure> {
    let Some(found) = fs::canonicalize(file).and_then(fs::metadata).ok() else { return Ok(()) };
    let kind = found.file_type();
    let what = if kind.is_fifo() && is_open(file) {
        return Ok(());
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_block_device() {
        "a block device"
    } else {
        return Ok(());
    };
    Err(Failure::hinted(format!("{} is {what}", file.display()), "name a file"))
}

/// True for the name of what a process has open, and for a link to one. The name leads further, to the place of what is open.
fn is_open(file: &Path) -> bool {
    let is_of_process = |file: &Path| {
        let folder = file.parent().and_then(|folder| fs::canonicalize(folder).ok());
        folder.is_some_and(|folder| folder.starts_with("/proc"))
    };
    is_of_process(file) || fs::read_link(file).is_ok_and(|aim| is_of_process(&aim))
}

/// Writes a file, whole and at the place that links lead to. What is there and is no file gets the content as it comes, and so does
/// one that has other names, which are to show it too.
pub(super) fn write(file: &Path, content: &[u8]) -> io::Result<()> {
    let place = match fs::metadata(file) {
        Ok(found) if found.is_file() && found.nlink() == 1 => fs::canonicalize(file).ok(),
        Err(error) if error.kind() == ErrorKind::NotFound => place(file),
        _ => None,
    };
    let Some(place) = place else { return fs::write(file, content) };
    match replace_open(&place, content) {
        // It may be written to though its folder may not, and though a new one cannot be given to its owner; and one that is mounted by
        // itself cannot be replaced.
        Err(error) if is_fixed(&error) && place.exists() => fs::write(place, content),
        written => written,
    }
}

/// True where a file cannot be replaced, and can be written to perhaps.
fn is_fixed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            // Of an owner whom the user namespace of this process does not know.
            | ErrorKind::InvalidInput
    )
}

/// Writes all files into a folder, or none when one of them is there already.
pub(super) fn write_new(dir: &Path, files: &BTreeMap<String, String>) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|e| Failure::plain(format!("create {}: {e}", dir.display())))?;
    if let Some(path) = files.keys().map(|name| dir.join(name)).find(|path| path.exists()) {
        return Err(Failure::hinted(
            format!("{} is there already; nothing was written", path.display()),
            "name another folder, or move the file away",
        ));
    }
    for (name, text) in files {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .map_err(|e| Failure::plain(format!("create {}: {e}", parent.display())))?;
        }
        // Another process may have made the file since.
        let file = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| Failure::plain(format!("write {}: {e}", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read as _,
        os::{fd::AsRawFd as _, unix::fs::symlink},
        process::Command,
    };

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

    #[test]
    fn a_pipe_is_refused_and_what_has_no_end_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        symlink(at("pipe"), at("link")).unwrap();
        for name in ["pipe", "link"] {
            let failure = takes_content(&at(name)).unwrap_err();
            assert!(failure.to_string().ends_with("is a pipe"), "{failure}");
        }
        // A shell that has one open has a reader for it.
        let open = fs::File::options().read(true).write(true).open(at("pipe")).unwrap();
        let opened = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        symlink(&opened, at("out")).unwrap();
        fs::write(at("file"), "").unwrap();
        for path in [at("file"), at("new"), at("nosuch/x"), "/dev/null".into(), opened, at("out")] {
            takes_content(&path).unwrap();
        }
        write(Path::new("/dev/null"), b"gone").unwrap();
    }

    #[test]
    fn a_file_is_written_whole_wherever_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("file", at("link")).unwrap();
        write(&at("link"), b"old").unwrap();
        let mut open = fs::File::open(at("file")).unwrap();
        write(&at("link"), b"newer").unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "newer");
        let mut before = String::new();
        open.read_to_string(&mut before).unwrap();
        assert_eq!(before, "old", "what was there is not written over");
        fs::hard_link(at("file"), at("other")).unwrap();
        write(&at("link"), b"newest").unwrap();
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "newest", "another name of it");
        fs::remove_file(at("other")).unwrap();
        for (name, kind) in [("nosuch/x", ErrorKind::NotFound), ("", ErrorKind::IsADirectory)] {
            assert_eq!(write(&at(name), b"no").unwrap_err().kind(), kind);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_is_there_is_never_overwritten_and_then_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.yaml"), "mine").unwrap();
        let files =
            BTreeMap::from([("a.yaml".to_string(), "new".to_string()), ("b.yaml".into(), "new".into())]);
        let error = write_new(folder.path(), &files).unwrap_err();
        assert!(error.to_string().contains("b.yaml is there already"), "{error}");
        assert!(!folder.path().join("a.yaml").exists());
        assert_eq!(fs::read_to_string(folder.path().join("b.yaml")).unwrap(), "mine");
    }
}
