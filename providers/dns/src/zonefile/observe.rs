//! Reading zone files. The token of a zone is a hash of its file, so it is sound whoever changes the file.

use super::backend::Backend;
use crate::{
    master::{self, Entry},
    rdata::{self, is_signer_type},
    record::{self, Collector},
};
use reconciled_provider::{
    Error, Focus, Found, Hash, Observation, Observed, Owner, Scope, Version, address::glob,
    problem::did_you_mean,
};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Bytes of a zone whose file was written but not loaded by the server yet.
pub(crate) const RELOAD_PENDING: &[u8] = b"zone\nreload";

/// What follows the name of a zone in the name of its file.
const SUFFIX: &str = ".zone";

/// A zone file as it was read.
#[derive(Debug)]
pub(crate) struct File {
    /// The whole text.
    pub(crate) text: String,
    /// The command that loads it has not succeeded since it was written.
    pub(crate) is_reload_pending: bool,
    /// Who reads it: whose the marks in it are depends on that.
    instance: Arc<str>,
}

impl File {
    /// The token of this state: an instance with another name reads what it knew once more.
    pub(crate) fn version(&self) -> Version {
        let pending = if self.is_reload_pending { ":reload" } else { "" };
        let (hash, instance) = (Hash::of(self.text.as_bytes()), &self.instance);
        Version::At(format!("h:{hash}{pending}:{instance}").into())
    }
}

/// Where the file of a zone is. Letters, digits, dots, hyphens and underscores stand, all else is `=XX`.
pub(crate) fn path(backend: &Backend, zone: &str) -> PathBuf {
    let mut name = String::new();
    for byte in zone.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name += &format!("={byte:02X}"),
        }
    }
    backend.config.directory.join(name + SUFFIX)
}

/// The file that stands beside a zone file until the server has loaded it.
pub(crate) fn reload_marker(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".reload");
    name.into()
}

/// Where the file of a zone lies: `path`, or what it links to.
///
/// Errors: the link leads out of the directory, or nowhere.
pub(super) fn place_of(backend: &Backend, path: &Path) -> Result<PathBuf, Error> {
    if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        return Ok(path.to_owned());
    }
    let directory = &backend.config.directory;
    let directory = directory.canonicalize().map_err(|error| failed("look into", directory, error))?;
    let place = path.canonicalize().map_err(|error| failed("follow the link", path, error))?;
    if place.starts_with(&directory) {
        return Ok(place);
    }
    let text = format!("{} links to {}, out of the directory", path.display(), place.display());
    Err(Error::permission_denied(text)
        .hint("put the file itself there, or name the directory it lies in as `directory` of the entry"))
}

/// Reads a zone's file; none when there is none in a directory that exists.
pub(crate) fn read(backend: &Backend, zone: &str) -> Result<Option<File>, Error> {
    let path = path(backend, zone);
    // Whose file a link out of the directory is nobody said: nothing of it is read, or told in an error.
    let bytes = match std::fs::read(place_of(backend, &path)?) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A directory that is gone (a mount that failed) must not look like zones that were deleted.
            require_directory(backend)?;
            return Ok(None);
        }
        Err(error) => return Err(failed("read", &path, error)),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::invalid(format!("{}:{line}: the file is not UTF-8 text", path.display()))
            .hint("write other octets as \\DDD")
    })?;
    let is_reload_pending = reload_marker(&path).symlink_metadata().is_ok();
    Ok(Some(File { text, is_reload_pending, instance: backend.instance.clone() }))
}

/// The records of a file.
pub(crate) fn entries(backend: &Backend, zone: &str, file: &File) -> Result<Vec<Entry>, Error> {
    master::parse(&format!("{zone}."), &file.text).map_err(|error| {
        let path = path(backend, zone);
        Error::invalid(format!("{}:{}: {}", path.display(), error.line, error.what))
            .hint("mend the file by hand; nothing is read from or written to it before")
    })
}

fn require_directory(backend: &Backend) -> Result<(), Error> {
    let directory = &backend.config.directory;
    match std::fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Error::invalid(format!("{} is not a directory", directory.display()))
            .hint("`directory` of the entry names the directory of the zone files")),
        Err(error) => Err(failed("look into", directory, error)),
    }
}

/// An error of the file system, with what a person can do.
pub(crate) fn failed(doing: &str, path: &Path, error: std::io::Error) -> Error {
    let text = format!("{doing} {}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => {
            Error::permission_denied(text).hint("give this process the right to it").caused_by(error)
        }
        ErrorKind::NotFound => Error::unavailable(text)
            .hint("create the directory, or mend `directory` of the entry")
            .caused_by(error),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Error::unavailable(text).hint("free some space; the old file is untouched").caused_by(error)
        }
        ErrorKind::ReadOnlyFilesystem => {
            Error::permission_denied(text).hint("mount the file system writable").caused_by(error)
        }
        _ => Error::unavailable(text).caused_by(error),
    }
}

/// Tokens of many zones.
pub(crate) fn versions(backend: &Backend, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
    require_directory(backend)?;
    let version = |scope: &Scope| {
        let version = match read(backend, &scope.name) {
            Ok(file) => file.map_or(Version::Absent, |file| file.version()),
            // Who looks at the zone is told why; the others are not kept back.
            Err(_) => Version::Unknown,
        };
        (scope.clone(), version)
    };
    Ok(scopes.iter().map(version).collect())
}

/// Reads a zone, always all of it.
pub(crate) fn observe(backend: &Backend, scope: &Scope) -> Result<Observation, Error> {
    let Some(file) = read(backend, &scope.name)? else {
        let (version, resources) = (Version::Absent, Vec::new());
        return Ok(Observation { covered: Focus::All, complete: true, version, resources });
    };
    let entries = entries(backend, &scope.name, &file)?;
    let mut resources = resources(scope, &backend.instance, &entries);
    let zone = if file.is_reload_pending { RELOAD_PENDING } else { record::ZONE };
    resources.push(Observed::new(record::zone_id(scope), zone));
    resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    Ok(Observation { covered: Focus::All, complete: true, version: file.version(), resources })
}

/// The RRsets of a file, unsorted.
fn resources(scope: &Scope, instance: &str, entries: &[Entry]) -> Vec<Observed> {
    let mut sets: BTreeMap<(&str, &str), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        sets.entry((&entry.name, &entry.kind)).or_default().push(entry);
    }
    let zone = record::zone_name(scope);
    let mut collector = Collector::default();
    let mut out = Vec::with_capacity(sets.len() + 1);
    for ((name, kind), entries) in sets {
        let ttl = entries[0].ttl;
        for entry in &entries {
            let content = Cow::Borrowed(&*entry.content);
            // One RRset has one TTL (RFC 2181 §5.2); a set that has several equals no desired one.
            match entry.ttl == ttl {
                true => collector.add(kind, content, false),
                false => {
                    let value = rdata::observed(kind, &content);
                    collector.add("", record::with_ttl(entry.ttl, &value).into(), false);
                }
            }
        }
        let mut observed = Observed::new(record::id(name, kind), collector.finish(ttl));
        let mut marks = entries.iter().filter_map(|entry| entry.mark.as_deref()).peekable();
        let is_marked = marks.peek().is_some();
        observed.owner = match marks.find(|mark| *mark != instance) {
            Some(other) => Owner::Other(other.into()),
            None if is_marked => Owner::Ours,
            None if is_signer_type(kind) || (name == zone && matches!(kind, "SOA" | "NS")) => Owner::System,
            None => Owner::Unmarked,
        };
        out.push(observed);
    }
    out
}

/// Zones whose name matches `query`, with everything in them.
pub(crate) fn discover(backend: &Backend, query: &str) -> Result<Vec<Found>, Error> {
    require_directory(backend)?;
    let directory = &backend.config.directory;
    let listing = std::fs::read_dir(directory).map_err(|error| failed("list", directory, error))?;
    let mut names = Vec::new();
    for item in listing {
        let item = item.map_err(|error| failed("list", directory, error))?;
        let name = item.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).and_then(unescape));
    }
    names.sort();
    let wanted = query.trim_end_matches('.').to_ascii_lowercase();
    let matching = names.iter().filter(|name| glob(&wanted, name));
    let found: Vec<Found> = matching
        .map(|name| {
            let scope = Scope::new(backend.entry.clone(), name.as_str());
            Ok(Found::new(scope.clone(), observe(backend, &scope)?.resources))
        })
        .collect::<Result<_, Error>>()?;
    if found.is_empty() && !wanted.contains(['*', '?']) {
        let near = did_you_mean(&wanted, names.iter().map(String::as_str));
        let hint = near.map_or("`*` lists every zone".into(), |near| format!("did you mean `{near}`?"));
        return Err(Error::invalid(format!("{} has no zone `{wanted}`", directory.display())).hint(hint));
    }
    Ok(found)
}

/// The name of the zone behind the name of a file; none for hidden files and foreign names.
fn unescape(name: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'=' => {
                let digits = [bytes.next()?, bytes.next()?];
                out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            byte => out.push(byte),
        }
    }
    let name = String::from_utf8(out).ok().filter(|name| !name.starts_with('.'))?;
    crate::name::Name::zone(&name).ok().map(|zone| zone.without_dot().to_owned())
}
