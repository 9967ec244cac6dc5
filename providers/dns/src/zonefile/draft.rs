//! The draft of a zone file: what becomes of its text with a batch, and the file that it is kept in until it is checked.

use super::{backend::Backend, observe::failed, write};
use crate::{
    master::Entry,
    ownership::MarkAfter,
    rdata::{self, soa_serial},
    record::{self, RrSet},
};
use reconciled_provider::{Action, ActionId, Error, Op};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

/// A new text of the file, and the actions that are not in it.
pub(super) struct Draft {
    /// None where nothing is to be written.
    pub(super) text: Option<String>,
    /// The serial that is in it.
    pub(super) serial: u32,
    /// The zone itself has an NS.
    pub(super) has_servers: bool,
    pub(super) refused: HashMap<ActionId, Error>,
}

impl Draft {
    pub(super) fn new(backend: &Backend, zone: &str, mut entries: Vec<Entry>, actions: &[&Action]) -> Draft {
        let mut refused = HashMap::new();
        let mut by_name: BTreeMap<&str, Vec<(&Action, &str)>> = BTreeMap::new();
        for action in actions {
            if let Some((name, kind)) = record::parts(action.op.id()) {
                by_name.entry(name).or_default().push((action, kind));
            }
        }
        let apex = format!("{zone}.");
        let serial = write::next_serial(serial_of(&entries).unwrap_or(0));
        let mut kinds_at: HashMap<Box<str>, HashSet<Box<str>>> = HashMap::new();
        for entry in entries.iter().filter(|entry| by_name.contains_key(&*entry.name)) {
            kinds_at.entry(entry.name.clone()).or_default().insert(entry.kind.clone());
        }
        let mut marked: HashMap<(&str, &str), Vec<&Entry>> = HashMap::new();
        let has_mark = |entry: &&Entry| entry.mark.is_some() && by_name.contains_key(&*entry.name);
        for entry in entries.iter().filter(has_mark) {
            marked.entry((&*entry.name, &*entry.kind)).or_default().push(entry);
        }
        let mut replaced: HashSet<(&str, &str)> = HashSet::new();
        let mut added = Vec::new();
        for (name, list) in &by_name {
            let mut kinds = kinds_at.remove(*name).unwrap_or_default();
            for (action, kind) in list {
                match action.op.desired() {
                    Some(_) => kinds.insert((*kind).into()),
                    None => kinds.remove(*kind),
                };
            }
            let has_clash = kinds.contains("CNAME") && kinds.len() > 1;
            let unknown =
                list.iter().any(|(action, _)| action.op.desired().is_some() && set(action).is_none());
            if has_clash || unknown {
                let why =
                    if has_clash { "a CNAME would stand beside other data" } else { "not all is known yet" };
                let error = Error::invalid(format!("{name} is left as it is: {why}"));
                refused.extend(list.iter().map(|(action, _)| (action.id, error.clone())));
                continue;
            }
            for (action, kind) in list {
                replaced.insert((name, kind));
                let Some(set) = set(action) else { continue };
                let after = MarkAfter::of(action);
                let seen = marked.get(&(*name, *kind)).map(Vec::as_slice).unwrap_or_default();
                added.extend(set.values.iter().map(|value| Entry {
                    name: (*name).into(),
                    ttl: set.ttl,
                    kind: (*kind).into(),
                    content: write::content(kind, value, serial).into(),
                    origin: None,
                    mark: mark(backend, after, seen, value),
                }));
            }
        }
        let is_new = actions.iter().any(|action| is_creation(action));
        if replaced.is_empty() && !is_new {
            return Draft { text: None, serial, has_servers: true, refused };
        }
        entries.retain(|entry| !replaced.contains(&(&*entry.name, &*entry.kind)));
        entries.extend(added);
        for entry in entries.iter_mut().filter(|entry| &*entry.kind == "SOA" && *entry.name == *apex) {
            let value = rdata::observed("SOA", &entry.content).into_owned();
            entry.content = write::content("SOA", &value, serial).into();
        }
        let has_servers = entries.iter().any(|entry| &*entry.kind == "NS" && *entry.name == *apex);
        Draft { text: Some(write::write(&apex, &mut entries)), serial, has_servers, refused }
    }
}

/// The mark of the line with `value`, of a set of which these lines were `marked`.
fn mark(backend: &Backend, after: MarkAfter, marked: &[&Entry], value: &str) -> Option<Box<str>> {
    if after == MarkAfter::Ours {
        return backend.config.marks.then(|| backend.instance.as_ref().into());
    }
    let value = record::without_ttl(value);
    let line = marked.iter().find(|entry| rdata::observed(&entry.kind, &entry.content) == value)?;
    line.mark.clone().filter(|mark| after == MarkAfter::AsSeen || **mark != *backend.instance)
}

fn set(action: &Action) -> Option<RrSet<'_>> {
    RrSet::decode(action.op.desired()?.spec.bytes()?)
}

/// The serial of a zone with these records.
pub(super) fn serial_of(entries: &[Entry]) -> Option<u32> {
    entries.iter().find(|entry| &*entry.kind == "SOA").and_then(|soa| soa_serial(&soa.content))
}

/// True for the action that makes the zone.
pub(super) fn is_creation(action: &Action) -> bool {
    is_zone(action) && matches!(action.op, Op::Create { .. })
}

pub(super) fn is_zone(action: &Action) -> bool {
    record::parts(action.op.id()).is_none()
}

/// Hidden, in the same directory, so that a rename is atomic and no server loads it.
pub(super) fn draft_path(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.new"))
}

/// Rights of a new file, from which the umask takes some.
pub(super) const FOR_ALL: u32 = 0o666;

/// Makes a new file. What is there before goes and is not written to: it may be a link that somebody else put there.
pub(super) fn fresh(path: &Path, mode: u32) -> Result<fs::File, Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => {
            let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
            file.map_err(|error| failed("write", path, error))
        }
    }
}

/// Writes a draft of what is at `place`, which is for nobody whom that is not for.
pub(super) fn store(draft: &Path, place: &Path, text: &str) -> Result<(), Error> {
    let error = |error| failed("write", draft, error);
    let old = match place.metadata() {
        Ok(old) => Some(old),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("look at", place, error)),
    };
    // Nobody else reads it before it has its owner and group.
    let mut file = fresh(draft, if old.is_some() { 0o600 } else { FOR_ALL })?;
    if let Some(old) = old {
        keep_owner(&file, &old, place)?;
        file.set_permissions(old.permissions()).map_err(error)?;
    }
    file.write_all(text.as_bytes()).map_err(error)?;
    file.sync_all().map_err(error)
}

/// Gives a new file the owner and group of the old one; what this process may not give stays out where nobody is kept
/// from reading by that.
fn keep_owner(file: &fs::File, old: &fs::Metadata, place: &Path) -> Result<(), Error> {
    let new = file.metadata().map_err(|error| failed("look at", place, error))?;
    let owner = (old.uid() != new.uid()).then(|| old.uid());
    let group = (old.gid() != new.gid()).then(|| old.gid());
    if fchown(file, owner, group).is_ok() {
        return Ok(());
    }
    // Only root gives files away; to a group of its own anybody may.
    let refused = fchown(file, None, group).err();
    let (is_for_all, is_for_group) = (old.mode() & 0o004 != 0, old.mode() & 0o040 != 0);
    let (who, why) = match refused {
        Some(error) if is_for_group && !is_for_all => (format!("group {}", old.gid()), Some(error)),
        _ if owner.is_some() && !is_for_group && !is_for_all => (format!("user {}", old.uid()), None),
        _ => return Ok(()),
    };
    let text = format!(
        "{} belongs to {who} and others may not read it: a new file could not keep that",
        place.display()
    );
    let error = Error::permission_denied(text)
        .hint("make this process a member of the group of the file, or let others read it");
    Err(why.into_iter().fold(error, Error::caused_by))
}
