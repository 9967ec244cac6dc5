//! Where a certificate is used: a directory whose files change all at once.
//!
//! The files are links into `..data`, which is a link to the directory of one version: one rename switches key and chain
//! together, as a kubelet does it. A version is written and flushed completely before. Readers that hold a file open keep
//! what they have. Files of others become such a version first, as they are.
//!
//! Guarantees: nothing is written through a link that somebody put into the way; a key has its owner and permissions before
//! it has content; of a directory that another certificate is put into nothing is touched.

use crate::{
    directory::{self, Content, Seen, Trust, see},
    kept::{Issued, Mark},
    key, keystore,
    wish::Output,
};
use reconciled_provider::{Error, ErrorKind};
use std::{
    cell::LazyCell,
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
/// All of it for Java and others (PKCS #12).
pub const KEYSTORE: &str = "keystore.p12";
/// Every name that is ever written.
pub const NAMES: [&str; 5] = [CHAIN, KEY, CA, COMBINED, KEYSTORE];

/// The link that is switched.
pub(crate) const DATA: &str = "..data";
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

/// What is there under one of our names.
pub enum There {
    /// A file, with its content.
    File(Zeroizing<Vec<u8>>),
    /// A link of somebody else, to there. It is not followed.
    Link(PathBuf),
    /// A file larger than any of ours.
    Huge,
    /// Something that is no file.
    Other,
}

impl There {
    /// What it is, in words for people; none for a file.
    pub(crate) fn word(&self) -> Option<String> {
        match self {
            There::File(_) => None,
            There::Link(to) => Some(format!("a link to {}", to.to_string_lossy().escape_debug())),
            There::Huge => Some("larger than any certificate".into()),
            There::Other => Some("no file".into()),
        }
    }
}

/// What is there: its name, and what it is.
pub type Found = (&'static str, There);

/// A copy of what is there: how it is called, and what is in it.
pub type Copy = (String, Zeroizing<Vec<u8>>);

/// The files of a certificate; a PKCS #12 file only once it is made.
pub fn files(output: &Output, issued: &Issued) -> Vec<File> {
    let file = |name, bytes: &[u8], mode| File { name, bytes: Zeroizing::new(bytes.to_vec()), mode };
    let secret = issued.key.secret();
    let older = if output.pkcs1 { key::older(&secret) } else { None };
    let (key, chain) = (older.as_deref().map_or(secret.reveal(), Vec::as_slice), issued.chain.as_bytes());
    let mut files = vec![file(CHAIN, chain, 0o644), file(KEY, key, output.mode)];
    if let Some(ca) = &issued.ca {
        files.push(file(CA, ca.as_bytes(), 0o644));
    }
    if output.combined {
        // A key that was adopted may end without the end of its line.
        let end: &[u8] = if key.ends_with(b"\n") { b"" } else { b"\n" };
        let both = Zeroizing::new([key, end, chain].concat());
        files.push(file(COMBINED, &both, output.mode));
    }
    if let Some(bytes) = keystore::file(issued, output.keystore.as_ref()) {
        files.push(File { name: KEYSTORE, bytes, mode: output.mode });
    }
    files
}

/// What is not as it should be, in words for people; nothing when all is.
pub fn troubles(output: &Output, files: &[File]) -> Result<Vec<String>, Error> {
    let directory = Path::new(&output.directory);
    if directory::trust(directory)? == Trust::Nothing {
        return Ok(files.iter().map(|file| format!("{} is missing", file.name)).collect());
    }
    let mut troubles = Vec::new();
    // Nobody may be there any more whom files could belong to, and what is there can be deleted all the same.
    let ids = match ids(output) {
        Ok(ids) => Some(ids),
        Err(error) if error.kind == ErrorKind::Invalid => {
            troubles.push(error.message);
            None
        }
        Err(error) => return Err(error),
    };
    let is_foreign = LazyCell::new(|| is_foreign_data(directory));
    let is_ours = |name| is_link(directory, name) && !*is_foreign;
    for file in files {
        let path = directory.join(file.name);
        let place = if is_ours(file.name) { directory.join(DATA).join(file.name) } else { path.clone() };
        let seen = see(&place).map_err(|error| failed("read", &path, error))?;
        let Content { bytes, meta: found } = match seen {
            Seen::File(content) => content,
            Seen::Nothing => {
                troubles.push(format!("{} is missing", file.name));
                continue;
            }
            Seen::Other | Seen::Huge => {
                troubles.push(format!("{} is no file of ours", file.name));
                continue;
            }
        };
        if *bytes != *file.bytes {
            troubles.push(format!("{} is not what was issued", file.name));
        }
        let mode = found.mode() & 0o7777;
        if mode != file.mode {
            troubles.push(format!("{} has mode {mode:04o}, not {:04o}", file.name, file.mode));
        }
        if let Some((user, group)) = ids.filter(|ids| *ids != (found.uid(), found.gid())) {
            let (uid, gid) = (found.uid(), found.gid());
            troubles.push(format!("{} belongs to {uid}:{gid}, not to {user}:{group}", file.name));
        }
    }
    for name in NAMES.iter().filter(|name| !files.iter().any(|file| file.name == **name)) {
        if *name == KEYSTORE && output.keystore.is_some() {
            troubles.push(format!("{name} is not of this certificate, or has another password"));
        // What somebody else put beside ours is theirs.
        } else if is_ours(name) {
            troubles.push(format!("{name} is not wanted any more"));
        }
    }
    Ok(troubles)
}

/// What is in the directory under our names, whoever put it there.
pub fn found(output: &Output) -> Result<Vec<Found>, Error> {
    let directory = Path::new(&output.directory);
    if directory::trust(directory)? == Trust::Nothing {
        return Ok(Vec::new());
    }
    let read = |name: &'static str| match there(&through(directory, name)) {
        Ok(there) => Some(Ok((name, there?))),
        Err(error) => Some(Err(failed("read", &directory.join(name), error))),
    };
    // What others keep there under the name of a file that is not wanted is no matter of ours.
    let is_asked = |name: &&str| *name != KEYSTORE || output.keystore.is_some();
    NAMES.into_iter().filter(is_asked).filter_map(read).collect()
}

fn there(path: &Path) -> io::Result<Option<There>> {
    Ok(Some(match see(path)? {
        Seen::Nothing => return Ok(None),
        Seen::File(content) => There::File(content.bytes),
        Seen::Huge => There::Huge,
        Seen::Other => fs::read_link(path).map_or(There::Other, There::Link),
    }))
}

/// Copies of what is replaced by `files`, and was not put there by us.
///
/// Errors: `Invalid` when there is something that cannot be copied.
pub fn foreign(output: &Output, files: &[File]) -> Result<Vec<Copy>, Error> {
    let directory = Path::new(&output.directory);
    let mut foreign = Vec::new();
    for file in files.iter().filter(|file| !is_ours(directory, file.name)) {
        let path = directory.join(file.name);
        let there = there(&path).map_err(|error| failed("read", &path, error))?;
        let is_same = matches!(&there, Some(There::File(bytes)) if **bytes == *file.bytes);
        if let Some(there) = there.filter(|_| !is_same) {
            foreign.push(copy(output, file.name, there)?);
        }
    }
    Ok(foreign)
}

/// What is to be kept of what is replaced: of a link, where it leads, since what is there stays.
///
/// Errors: `Invalid` when it cannot be copied.
pub(crate) fn copy(output: &Output, name: &str, there: There) -> Result<Copy, Error> {
    let word = there.word().unwrap_or_default();
    match there {
        There::File(bytes) => Ok((name.into(), bytes)),
        There::Link(to) => Ok((format!("{name}.link"), to.into_os_string().into_encoded_bytes().into())),
        There::Huge | There::Other => Err(Error::invalid(format!("{}/{name} is {word}", output.directory))
            .hint("it is not replaced: move it away")),
    }
}

/// True when a name is the link we put there.
fn is_ours(directory: &Path, name: &str) -> bool {
    is_link(directory, name) && !is_foreign_data(directory)
}

/// True when a name is a link like those we put there.
fn is_link(directory: &Path, name: &str) -> bool {
    fs::read_link(directory.join(name)).is_ok_and(|to| to == Path::new(DATA).join(name))
}

/// True when there is a `..data` that leads elsewhere than ours ever does: other programs call theirs so too.
fn is_foreign_data(directory: &Path) -> bool {
    let data = directory.join(DATA);
    match fs::read_link(&data) {
        Ok(to) => !to.to_str().is_some_and(is_version),
        Err(_) => fs::symlink_metadata(&data).is_ok(),
    }
}

/// True for the name of a directory that [`put`] makes: `..`, the beginning of a fingerprint, and a number.
fn is_version(name: &str) -> bool {
    let parts = name.strip_prefix("..").and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(version, number)| {
        version.len() == 16
            && version.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The beginning of the fingerprint that the version in place was put there with, where one of ours is.
pub(crate) fn version(output: &Output) -> Option<String> {
    let to = fs::read_link(Path::new(&output.directory).join(DATA)).ok()?;
    let name = to.to_str().filter(|name| is_version(name))?;
    Some(name.trim_start_matches('.').split('.').next()?.to_owned())
}

/// Where the content of a file is: a link of ours leads there, and no other one is followed.
fn through(directory: &Path, name: &str) -> PathBuf {
    if is_ours(directory, name) { directory.join(DATA).join(name) } else { directory.join(name) }
}

/// Puts the files of a certificate into their directory, which is marked with `mark`. `version` tells versions apart, in
/// 16 hexadecimal digits.
///
/// Errors: `Invalid` when another certificate is put there, or a link is in the way, or something of another program;
/// `PermissionDenied` where others may write.
pub fn put(
    mark: &Mark,
    version: &str,
    output: &Output,
    files: &[File],
    passed: fn(&str),
) -> Result<(), Error> {
    let directory = Path::new(&output.directory);
    let owner = ids(output)?;
    directory::make(directory)?;
    if is_foreign_data(directory) {
        let message = format!("{}/{DATA} was put there by another program", output.directory);
        return Err(
            Error::invalid(message).hint("take another directory for the certificate, or move it away")
        );
    }
    claim(output, mark)?;
    let put = || -> io::Result<()> {
        stage(directory, version, files, owner, passed)?;
        let target = free_name(directory, version);
        write_version(&directory.join(&target), files, owner)?;
        passed("certificate.draft");
        switch(directory, &target, files.iter().map(|file| file.name), passed)?;
        withdraw_unwanted(directory, files)?;
        sweep(directory, &target);
        Ok(())
    };
    put().map_err(|error| refused(directory, error))
}

/// Makes what others have there under our names a version of its own, so that one rename switches all of it later on. Whoever
/// reads key and chain while one name after the other leads elsewhere would have one of each pair; so each shows what it showed.
fn stage(
    directory: &Path,
    version: &str,
    files: &[File],
    owner: (u32, u32),
    passed: fn(&str),
) -> io::Result<()> {
    let is_foreign_pair = |name| {
        [CHAIN, KEY].contains(&name)
            && !is_ours(directory, name)
            && fs::symlink_metadata(directory.join(name)).is_ok()
    };
    if !files.iter().any(|file| is_foreign_pair(file.name)) {
        return Ok(());
    }
    let (mut theirs, mut links) = (Vec::new(), Vec::new());
    for File { name, mode, .. } in files {
        match there(&through(directory, name))? {
            Some(There::File(bytes)) => theirs.push(File { name, bytes, mode: *mode }),
            // It is not followed, but leads where it led.
            Some(There::Link(to)) => links.push((*name, directory.join(to))),
            Some(There::Huge | There::Other) | None => {}
        }
    }
    let target = free_name(directory, version);
    let there = directory.join(&target);
    write_version(&there, &theirs, owner)?;
    links.iter().try_for_each(|(name, to)| symlink(to, there.join(name)))?;
    fs::File::open(&there)?.sync_all()?;
    let names = theirs.iter().map(|file| file.name).chain(links.iter().map(|(name, _)| *name));
    switch(directory, &target, names, passed)
}

/// Takes the files of the certificate with this mark away again; those of others stay.
pub fn withdraw(mark: &Mark, output: &Output) -> Result<(), Error> {
    let directory = Path::new(&output.directory);
    let is_nothing = directory::trust(directory)? == Trust::Nothing;
    if is_nothing || owner(directory)?.is_none_or(|owner| !mark.is(&owner)) {
        return Ok(());
    }
    for name in NAMES {
        if is_ours(directory, name) {
            remove(&directory.join(name))?;
        }
    }
    if !is_foreign_data(directory) {
        remove(&directory.join(DATA))?;
    }
    sweep(directory, "");
    remove(&directory.join(MARK))?;
    // What is not empty belongs to others as well.
    let _ = fs::remove_dir(directory);
    Ok(())
}

/// Makes a directory that of the certificate with the mark `heir`, with all that is in it.
pub(crate) fn hand_over(mark: &Mark, heir: &Mark, output: &Output) -> Result<(), Error> {
    let directory = Path::new(&output.directory);
    let is_there = directory::trust(directory)? == Trust::There;
    match is_there && owner(directory)?.is_some_and(|owner| mark.is(&owner)) {
        true => sign(directory, &heir.today).map_err(|error| refused(directory, error)),
        false => Ok(()),
    }
}

/// The mark of a directory.
pub(crate) fn mark_of(output: &Output) -> Result<Option<String>, Error> {
    owner(Path::new(&output.directory))
}

/// The certificate that is put into a directory, in words for people, if its mark is another one than `mark`.
pub fn other_owner(mark: &Mark, output: &Output) -> Result<Option<String>, Error> {
    Ok(mark_of(output)?.and_then(|owner| other(mark, &owner)))
}

/// The same of a directory that is marked so.
pub(crate) fn other(mark: &Mark, owner: &str) -> Option<String> {
    // What is no mark of ours is not repeated: it may be anything.
    (!mark.is(owner)).then(|| match is_mark(owner) {
        true => format!("certificate {owner}"),
        false => "another certificate".into(),
    })
}

fn is_mark(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    text.len() <= 512 && text.contains('/') && text.chars().all(is_plain)
}

/// What the mark says; none where there is none, or an empty one, which a full disk leaves.
fn owner(directory: &Path) -> Result<Option<String>, Error> {
    let mark = directory.join(MARK);
    match see(&mark).map_err(|error| failed("read", &mark, error))? {
        Seen::Nothing => Ok(None),
        Seen::File(content) if content.bytes.is_empty() => Ok(None),
        Seen::File(content) => Ok(Some(String::from_utf8_lossy(&content.bytes).into_owned())),
        Seen::Other | Seen::Huge => Err(Error::invalid(format!("{} is no mark of ours", mark.display()))
            .hint("somebody else put it there: remove it, or take another directory")),
    }
}

/// Two certificates in one directory would overwrite each other for ever.
fn claim(output: &Output, mark: &Mark) -> Result<(), Error> {
    let directory = Path::new(&output.directory);
    if let Some(other) = other_owner(mark, output)? {
        return Err(taken(output, &other));
    }
    if owner(directory)?.is_some_and(|owner| owner == mark.today) {
        return Ok(());
    }
    sign(directory, &mark.today).map_err(|error| refused(directory, error))
}

fn sign(directory: &Path, mark: &str) -> io::Result<()> {
    let draft = directory.join(format!("{MARK}.new"));
    // That of a process that died may be there.
    let _ = fs::remove_file(&draft);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&draft)?;
    file.write_all(mark.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, directory.join(MARK))?;
    fs::File::open(directory)?.sync_all()
}

/// The directory is another certificate's.
pub(crate) fn taken(output: &Output, owner: &str) -> Error {
    let directory = &output.directory;
    Error::invalid(format!("{directory} is where {owner} is put")).hint(format!(
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

/// Has the names show what is in the version `target`.
fn switch(
    directory: &Path,
    target: &str,
    names: impl Iterator<Item = &'static str>,
    passed: fn(&str),
) -> io::Result<()> {
    replace_link(directory, DATA, Path::new(target))?;
    for name in names {
        let to = Path::new(DATA).join(name);
        if fs::read_link(directory.join(name)).ok().as_ref() != Some(&to) {
            replace_link(directory, name, &to)?;
            passed("certificate.link");
        }
    }
    fs::File::open(directory)?.sync_all()
}

/// Takes away our names of files that are not wanted any more.
fn withdraw_unwanted(directory: &Path, files: &[File]) -> io::Result<()> {
    for name in NAMES.iter().filter(|name| !files.iter().any(|file| file.name == **name)) {
        if is_ours(directory, name) {
            fs::remove_file(directory.join(name))?;
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

/// Removes versions of ours that nobody reads any more. What cannot be removed stays; the next time it is tried again.
fn sweep(directory: &Path, keep: &str) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && is_version(&name) && name != keep {
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

pub(crate) fn refused(path: &Path, error: io::Error) -> Error {
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
