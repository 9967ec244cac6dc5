//! What the directories of unit files say of units, so that systemd need not be asked.
//!
//! Guarantees: what is said here is what systemd would say; where that is not certain nothing is said. systemd reads all its
//! directories to tell of one unit whether it is enabled, so a thousand of them take seconds; here they are read once.
//! *Assumptions*: the rules of `unit_file_get_state` and of `NeedDaemonReload` in systemd, and a clock that was not set back
//! since systemd last read its files.

use super::{TICK, states::is_template};
use crate::systemd::definition;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// When systemd last read its files, and the directories, first come first served.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    /// Since the epoch.
    pub(super) at: Duration,
    pub(super) directories: Vec<String>,
    /// The one of them that is the administrator's own.
    pub(super) own: String,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// The file of each name that is asked for, or of its template, where it counts.
    fragments: BTreeMap<String, Fragment>,
    /// Names that others are links to.
    targets: BTreeSet<String>,
    /// Names that something wants: true where an administrator's link says so.
    wanted: BTreeMap<String, bool>,
    /// Names of directories of drop-ins, without `.d`: true where something in it is newer than what systemd read.
    drop_ins: BTreeMap<String, bool>,
    /// Something came or went beside the fragments since systemd read them.
    is_changed: bool,
    /// Where systemd keeps which run of a unit is its present one.
    runs: Option<PathBuf>,
}

#[derive(Debug)]
struct Fragment {
    /// It is an administrator's own file, and no link.
    is_own: bool,
    /// It is an administrator's link to nowhere.
    is_mask: bool,
    is_new: bool,
    path: PathBuf,
}

/// Reads the directories; none where one of them cannot be read.
pub(super) fn look(root: &Path, loaded: &Loaded, names: &BTreeSet<String>) -> Option<Disk> {
    let mut disk = Disk::default();
    let wanted: BTreeSet<String> =
        names.iter().flat_map(|name| [Some(name.clone()), template_of(name)]).flatten().collect();
    let mut seen = BTreeSet::new();
    for directory in &loaded.directories {
        let below = |directory: &str| root.join(directory.trim_start_matches('/'));
        let path = below(directory);
        if let Some(run) = directory.strip_suffix("/transient") {
            disk.runs = Some(below(&format!("{run}/units")));
            continue;
        }
        // systemd makes these anew whenever it reads the others.
        if directory.contains("/generator") {
            continue;
        }
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(_) => return None,
        };
        if !seen.insert((meta.dev(), meta.ino())) {
            continue;
        }
        disk.is_changed |= is_new(&meta, loaded);
        disk.add(&path, *directory == loaded.own, loaded, &wanted)?;
    }
    Some(disk)
}

/// True for what may have changed since systemd read it.
fn is_new(meta: &Metadata, loaded: &Loaded) -> bool {
    let seconds = Duration::from_secs(u64::try_from(meta.ctime()).unwrap_or_default());
    let changed = seconds + Duration::from_nanos(u64::try_from(meta.ctime_nsec()).unwrap_or_default());
    changed + TICK > loaded.at
}

/// `web@.service` of `web@1.service`.
fn template_of(name: &str) -> Option<String> {
    let (before, rest) = name.split_once('@')?;
    let (_, kind) = rest.rsplit_once('.')?;
    Some(format!("{before}@.{kind}"))
}

impl Disk {
    /// Takes in one directory: `is_own` for that of the administrator.
    fn add(
        &mut self,
        directory: &Path,
        is_own: bool,
        loaded: &Loaded,
        wanted: &BTreeSet<String>,
    ) -> Option<()> {
        for entry in fs::read_dir(directory).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            let folder = name.rsplit_once('.').filter(|_| kind.is_dir() || kind.is_symlink());
            match folder {
                Some((of, "d")) => self.drop_ins(of, &path, loaded),
                Some((_, "wants" | "requires" | "upholds")) => self.links(&path, is_own, wanted),
                _ if kind.is_dir() => {}
                _ => {
                    let target = fs::read_link(&path).ok();
                    let led = target.as_ref().and_then(|target| target.file_name()?.to_str());
                    self.targets.extend(led.map(str::to_owned));
                    // The first directory that has it counts.
                    if wanted.contains(name) && !self.fragments.contains_key(name) {
                        let meta = [fs::symlink_metadata(&path), fs::metadata(&path)];
                        let is_new = meta.iter().any(|m| m.as_ref().map_or(true, |m| is_new(m, loaded)));
                        let is_mask = is_own && target.as_deref() == Some(Path::new("/dev/null"));
                        let is_own = is_own && target.is_none();
                        self.fragments.insert(name.into(), Fragment { is_own, is_mask, is_new, path });
                    }
                }
            }
        }
        Some(())
    }

    fn drop_ins(&mut self, of: &str, path: &Path, loaded: &Loaded) {
        let is_changed = || -> std::io::Result<bool> {
            let mut is_changed = is_new(&fs::metadata(path)?, loaded);
            for entry in fs::read_dir(path)? {
                let path = entry?.path();
                is_changed |= is_new(&fs::symlink_metadata(&path)?, loaded);
                is_changed |= is_new(&fs::metadata(&path)?, loaded);
            }
            Ok(is_changed)
        };
        *self.drop_ins.entry(of.to_owned()).or_default() |= is_changed().unwrap_or(true);
    }

    fn links(&mut self, path: &Path, is_own: bool, wanted: &BTreeSet<String>) {
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| wanted.contains(*name)) else { continue };
            let target = fs::read_link(entry.path());
            let leads = target.is_ok_and(|target| target.as_path() != Path::new("/dev/null"));
            *self.wanted.entry(name.to_owned()).or_default() |= is_own && leads;
        }
    }

    fn fragment(&self, name: &str) -> Option<&Fragment> {
        self.fragments.get(name).or_else(|| self.fragments.get(&template_of(name)?))
    }

    /// True when systemd has read all files of a unit as they are now.
    pub(super) fn is_loaded(&self, name: &str) -> bool {
        let is_fragment_known = self.fragment(name).is_some_and(|fragment| !fragment.is_new);
        let changed = self.drop_ins.iter().filter(|(_, is_new)| **is_new).map(|(of, _)| &**of);
        let is_known = !self.is_changed && is_fragment_known && !self.targets.contains(name);
        is_known && !changed.into_iter().any(|of| applies(of, name))
    }

    /// Whether it is enabled, in systemd's word; none where that is not certain.
    pub(super) fn file(&self, name: &str) -> Option<&'static str> {
        let fragment = self.fragment(name)?;
        if self.fragments.contains_key(name) && fragment.is_mask {
            return Some("masked");
        }
        if !fragment.is_own || is_template(name) || self.targets.contains(name) {
            return None;
        }
        match self.wanted.get(name) {
            Some(true) => return Some("enabled"),
            Some(false) => return None,
            None => {}
        }
        // How it would be enabled may stand in drop-ins as well.
        let has_drop_ins = self.drop_ins.keys().any(|of| applies(of, name));
        let install = definition::install(&fs::read_to_string(&fragment.path).ok()?);
        match (has_drop_ins, &*install) {
            (true, _) => None,
            (false, []) => Some("static"),
            (false, keys) => {
                let enables = |key: &String| matches!(&**key, "WantedBy" | "RequiredBy");
                // By another name, and by way of other units: those are looked for by systemd.
                let is_plain = keys.iter().all(enables) && template_of(name).is_none();
                is_plain.then_some("disabled")
            }
        }
    }

    /// The present run of a unit; none where that is not kept there.
    pub(super) fn invocation(&self, name: &str) -> Option<String> {
        let link = fs::read_link(self.runs.as_ref()?.join(format!("invocation:{name}"))).ok()?;
        let is_hex = |text: &&str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        link.to_str().filter(is_hex).map(str::to_owned)
    }
}

/// True when drop-ins in `of.d` are about `name`: its own, those of its template, its type, and what its name begins with.
fn applies(of: &str, name: &str) -> bool {
    let kind = name.rsplit_once('.').map_or("", |(_, kind)| kind);
    let begins = of.strip_suffix(kind).and_then(|of| of.strip_suffix('.')).filter(|of| of.ends_with('-'));
    of == name
        || of == kind
        || template_of(name).is_some_and(|template| template == of)
        || begins.is_some_and(|begins| name.starts_with(begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_ins_are_about_names_types_templates_and_beginnings() {
        for of in ["web-a@1.service", "web-a@.service", "service", "web-.service"] {
            assert!(applies(of, "web-a@1.service"), "{of}");
        }
        for of in ["web-a.service", "socket", "we-.service", "web-a@1.socket", ""] {
            assert!(!applies(of, "web-a@1.service"), "{of}");
        }
    }
}
