//! Where a certificate is used: a directory whose files change all at once.
//!
//! The files are links into `..data`, which is a link to the directory of one version: one rename switches key and chain
//! together, as a kubelet does it. A version is written and flushed completely before. Readers that hold a file open keep
//! what they have.
//!
//! Guarantees: nothing is written through a link that somebody put into the way; a key has its owner and permissions before
//! it has content; of a directory that another certificate is put into nothing is touched.

use crate::wish::Output;
use reconciled_provider::Error;
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink},
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// The chain.
pub const CHAIN: &str = "tls.crt";
/// The key.
pub const KEY: &str = "tls.key";
/// The certificate of the issuer.
pub const CA: &str = "ca.crt";
/// Key and chain.
pub const COMBINED: &str = "tls-combined.pem";
/// Every name that is ever written.
pub const NAMES: [&str; 4] = [CHAIN, KEY, CA, COMBINED];

/// The link that is switched.
const DATA: &str = "..data";
/// Which certificate is put into the directory.
const MARK: &str = "..certificate";

/// One file.
pub struct File {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Its permissions.
    pub mode: u32,
}

/// The files of a certificate.
pub fn files(output: &Output, key: &[u8], chain: &str, ca: Option<&str>) -> Vec<File> {
    let file = |name, bytes: &[u8], mode| File { name, bytes: Zeroizing::new(bytes.to_vec()), mode };
    let mut files = vec![file(CHAIN, chain.as_bytes(), 0o644), file(KEY, key, output.mode)];
    if let Some(ca) = ca {
        files.push(file(CA, ca.as_bytes(), 0o644));
    }
    if output.combined {
        files.push(file(COMBINED, &[key, chain.as_bytes()].concat(), output.mode));
    }
    files
}

/// What is not as it should be, in words for people; nothing when all is.
pub fn troubles(output: &Output, files: &[File]) -> Result<Vec<String>, Error> {
    let directory = Path::new(&output.directory);
    let (user, group) = ids(output)?;
    let mut troubles = Vec::new();
    for file in files {
        let path = directory.join(file.name);
        let found = match fs::metadata(&path) {
            Ok(found) if found.is_file() => found,
            Ok(_) => {
                troubles.push(format!("{} is no file", file.name));
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                troubles.push(format!("{} is missing", file.name));
                continue;
            }
            Err(error) => return Err(failed("look at", &path, error)),
        };
        let same = found.len() == file.bytes.len() as u64 && {
            let bytes = fs::read(&path).map(Zeroizing::new).map_err(|error| failed("read", &path, error))?;
            *bytes == *file.bytes
        };
        if !same {
            troubles.push(format!("{} is not what was issued", file.name));
        }
        let mode = found.mode() & 0o7777;
        if mode != file.mode {
            troubles.push(format!("{} has mode {mode:04o}, not {:04o}", file.name, file.mode));
        }
        if (found.uid(), found.gid()) != (user, group) {
            let (uid, gid) = (found.uid(), found.gid());
            troubles.push(format!("{} belongs to {uid}:{gid}, not to {user}:{group}", file.name));
        }
    }
    for name in NAMES.iter().filter(|name| !files.iter().any(|file| file.name == **name)) {
        // What somebody else put beside ours is theirs.
        if fs::read_link(directory.join(name)).is_ok_and(|to| to == Path::new(DATA).join(name)) {
            troubles.push(format!("{name} is not wanted any more"));
        }
    }
    Ok(troubles)
}

/// What is in the directory under our names, whoever put it there.
pub fn found(directory: &str) -> Vec<(&'static str, Zeroizing<Vec<u8>>)> {
    let read =
        |name: &'static str| Some((name, Zeroizing::new(fs::read(Path::new(directory).join(name)).ok()?)));
    NAMES.into_iter().filter_map(read).collect()
}

/// Puts the files of certificate `name` into their directory. `version` tells versions apart, in letters and digits.
///
/// Errors: `Invalid` when another certificate is put there, or a link is in the way.
pub fn put(
    name: &str,
    version: &str,
    output: &Output,
    files: &[File],
    passed: fn(&str),
) -> Result<(), Error> {
    let directory = Path::new(&output.directory);
    let owner = ids(output)?;
    make(directory)?;
    claim(output, name)?;
    let target = free_name(directory, version);
    let there = directory.join(&target);
    let written = write_version(&there, files, owner);
    written.map_err(|error| refused(directory, error))?;
    passed("certificate.draft");
    switch(directory, &target, files).map_err(|error| refused(directory, error))?;
    sweep(directory, &target);
    Ok(())
}

/// Takes the files of certificate `name` away again; those of others stay.
pub fn withdraw(name: &str, output: &Output) -> Result<(), Error> {
    let directory = Path::new(&output.directory);
    match fs::read_to_string(directory.join(MARK)) {
        Ok(owner) if owner == name => {}
        _ => return Ok(()),
    }
    for name in NAMES {
        let path = directory.join(name);
        if fs::read_link(&path).is_ok_and(|to| to == Path::new(DATA).join(name)) {
            remove(&path)?;
        }
    }
    remove(&directory.join(DATA))?;
    sweep(directory, "");
    remove(&directory.join(MARK))?;
    // What is not empty belongs to others as well.
    let _ = fs::remove_dir(directory);
    Ok(())
}

/// The certificate that is put into a directory, if it is another one than `name`.
pub fn other_owner(name: &str, output: &Output) -> Option<String> {
    let owner = fs::read_to_string(Path::new(&output.directory).join(MARK)).ok()?;
    (owner != name).then_some(owner)
}

/// Makes the directory where it is missing, and refuses a way to it that leads through a link.
fn make(directory: &Path) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(directory);
    made.map_err(|error| refused(directory, error))?;
    let real = fs::canonicalize(directory).map_err(|error| failed("look at", directory, error))?;
    if real != directory {
        let message = format!("{} leads through a link to {}", directory.display(), real.display());
        return Err(Error::invalid(message).hint("write the path it leads to"));
    }
    Ok(())
}

/// Two certificates in one directory would overwrite each other for ever.
fn claim(output: &Output, name: &str) -> Result<(), Error> {
    let directory = Path::new(&output.directory);
    let mark = directory.join(MARK);
    match fs::read_to_string(&mark) {
        Ok(owner) if owner == name => Ok(()),
        Ok(owner) => Err(taken(output, &owner)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::write(&mark, name).map_err(|error| refused(directory, error))
        }
        Err(error) => Err(failed("read", &mark, error)),
    }
}

/// The directory is another certificate's.
pub(crate) fn taken(output: &Output, owner: &str) -> Error {
    let directory = &output.directory;
    Error::invalid(format!("{directory} is where Certificate/{owner} is put")).hint(format!(
        "give each its own directory; if that certificate is gone for good: rm {directory}/{MARK}"
    ))
}

fn free_name(directory: &Path, version: &str) -> String {
    let names = (0_u32..).map(|number| format!("..{version}.{number}"));
    let mut free = names.filter(|name| fs::symlink_metadata(directory.join(name)).is_err());
    free.next().unwrap_or_else(|| format!("..{version}"))
}

fn write_version(there: &Path, files: &[File], (user, group): (u32, u32)) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(there)?;
    for file in files {
        let mut open = fs::OpenOptions::new();
        let mut draft = open.write(true).create_new(true).mode(0o600).open(there.join(file.name))?;
        fchown(&draft, Some(user), Some(group))?;
        draft.set_permissions(fs::Permissions::from_mode(file.mode))?;
        draft.write_all(&file.bytes)?;
        draft.sync_all()?;
    }
    fs::set_permissions(there, fs::Permissions::from_mode(0o755))?;
    fs::File::open(there)?.sync_all()
}

fn switch(directory: &Path, target: &str, files: &[File]) -> io::Result<()> {
    replace_link(directory, DATA, Path::new(target))?;
    for file in files {
        let to = Path::new(DATA).join(file.name);
        if fs::read_link(directory.join(file.name)).ok().as_ref() != Some(&to) {
            replace_link(directory, file.name, &to)?;
        }
    }
    for name in NAMES.iter().filter(|name| !files.iter().any(|file| file.name == **name)) {
        let path = directory.join(name);
        if fs::read_link(&path).is_ok_and(|to| to == Path::new(DATA).join(name)) {
            fs::remove_file(&path)?;
        }
    }
    fs::File::open(directory)?.sync_all()
}

fn replace_link(directory: &Path, name: &str, to: &Path) -> io::Result<()> {
    let draft = directory.join(format!("..{}.new", name.trim_start_matches('.')));
    // That of a process that died may be there.
    let _ = fs::remove_file(&draft);
    symlink(to, &draft)?;
    fs::rename(&draft, directory.join(name))
}

/// Removes versions nobody reads any more. What cannot be removed stays; the next time it is tried again.
fn sweep(directory: &Path, keep: &str) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && name.starts_with("..") && name != keep {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused(path, error)),
        _ => Ok(()),
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("{what} {}", path.display())).caused_by(error)
}

fn refused(path: &Path, error: io::Error) -> Error {
    let message = format!("put a certificate into {}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::permission_denied(message)
            .caused_by(error)
            .hint("let the service's user write there; only root gives files to other users"),
        _ => Error::unavailable(message).caused_by(error),
    }
}

/// Numbers of the user and the group the files belong to.
fn ids(output: &Output) -> Result<(u32, u32), Error> {
    let user = match &output.owner {
        Some(name) => number("user", "/etc/passwd", name)?,
        None => rustix::process::geteuid().as_raw(),
    };
    let group = match &output.group {
        Some(name) => number("group", "/etc/group", name)?,
        None => rustix::process::getegid().as_raw(),
    };
    Ok((user, group))
}

/// Read as text: the C library might ask the network.
fn number(what: &str, list: &str, name: &str) -> Result<u32, Error> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let path = PathBuf::from(list);
    let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, error))?;
    let found = text.lines().find_map(|line| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok()).flatten()
    });
    found.ok_or_else(|| {
        Error::invalid(format!("there is no {what} `{name}` on this host"))
            .hint(format!("{list} has the names"))
    })
}
