//! What the directories of unit files say of units, so that systemd need not be asked.
//!
//! Guarantees: what is said here is what systemd would say; where that is not certain nothing is said, but of a file at which it
//! might wait for ever that it is bad. systemd reads all its directories to tell of one unit whether it is enabled, so a thousand
//! of them take seconds; here they are read once.
//! *Assumptions*: the rules of `unit_file_get_state` and of `NeedDaemonReload` in systemd, and a clock that was not set back
//! since systemd last read its files.

use crate::{
    hands::{TICK, beneath},
    systemd::definition,
};
use rustix::fs::CWD;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, FileType, Metadata},
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt, MetadataExt},
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
    /// All directories could be read. Otherwise nothing is known but where pipes are.
    is_whole: bool,
    /// The file of each name that is asked for, or of its template, where it counts.
    fragments: BTreeMap<String, Fragment>,
    /// Names that others are links to.
    targets: BTreeSet<String>,
    /// Names that something wants: true where an administrator's link says so.
    wanted: BTreeMap<String, bool>,
    /// Names of directories of drop-ins, without `.d`: true where something in it is newer than what systemd read.
    drop_ins: BTreeMap<String, bool>,
    /// Those of them with a pipe among the drop-ins.
    piped: BTreeSet<String>,
    /// One at which systemd would wait for ever, and the machine for it, to load some unit.
    pub(super) pipe: Option<PathBuf>,
    /// There is one at which it might wait to say whether a unit is enabled of which it is not certain what its files are.
    is_anywhere: bool,
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
    /// It is a pipe, or leads to one.
    is_pipe: bool,
    /// It is a link to somewhere.
    is_link: bool,
    path: PathBuf,
}

/// What is said of one unit; what is certain alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// Whether it is enabled, in systemd's word.
    pub(super) file: Option<&'static str>,
    /// Its present run.
    pub(super) invocation: Option<String>,
    /// systemd has read all of its files as they are now.
    pub(super) is_loaded: bool,
}

/// Reads the directories.
pub(super) fn look(root: &Path, loaded: &Loaded, names: &BTreeSet<String>) -> Disk {
    let mut disk = seen(root, loaded, names).unwrap_or_default();
    let is_unsure = !disk.is_whole || disk.fragments.values().any(|fragment| fragment.is_link);
    disk.pipe = pipe(root, loaded, Opens::ToLoad);
    disk.is_anywhere = is_unsure && pipe(root, loaded, Opens::ToEnable).is_some();
    disk
}

/// What is in the directories; none where one of them cannot be read.
fn seen(root: &Path, loaded: &Loaded, names: &BTreeSet<String>) -> Option<Disk> {
    let mut disk = Disk { is_whole: true, ..Disk::default() };
    let wanted: BTreeSet<String> =
        names.iter().flat_map(|name| [Some(name.clone()), template_of(name)]).flatten().collect();
    let mut known = BTreeSet::new();
    for directory in &loaded.directories {
        let path = below(root, directory);
        if let Some(run) = directory.strip_suffix("/transient") {
            disk.runs = Some(below(root, &format!("{run}/units")));
            continue;
        }
        // systemd makes these anew whenever it reads the others.
        if directory.contains("/generator") {
            continue;
        }
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(_) => return None,
        };
        if !known.insert((meta.dev(), meta.ino())) {
            continue;
        }
        disk.is_changed |= is_new(&meta, loaded);
        disk.add(root, &path, *directory == loaded.own, loaded, &wanted)?;
    }
    Some(disk)
}

/// What systemd opens files for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opens {
    /// To load units: what stands in the place of a unit file and is none is passed over.
    ToLoad,
    /// To say how units are enabled: nothing is passed over.
    ToEnable,
}

/// A pipe that systemd would open, by its path on its machine: it would wait there for somebody who writes, and the machine for it.
/// That of any unit counts, since a unit brings those that it wants with it, and these bring theirs.
pub(super) fn pipe(root: &Path, loaded: &Loaded, opens: Opens) -> Option<PathBuf> {
    let found = loaded.directories.iter().enumerate().find_map(|(at, directory)| {
        // A file is the one of its name, whatever the directories after its own have.
        let is_hidden = |name: &str| {
            let file = |earlier: &String| fs::symlink_metadata(below(root, earlier).join(name));
            loaded.directories.iter().take(at).any(|earlier| file(earlier).is_ok_and(|meta| meta.is_file()))
        };
        fs::read_dir(below(root, directory)).ok()?.flatten().find_map(|entry| {
            let (path, kind, name) = (entry.path(), entry.file_type().ok()?, entry.file_name());
            let name = name.to_str()?;
            match name.strip_suffix(".d") {
                Some(of) if is_of_units(of) => pipe_in(root, &path),
                None if opens == Opens::ToLoad && !kind.is_symlink() => None,
                None if is_of_units(name) => (is_pipe(root, &path, kind) && !is_hidden(name)).then_some(path),
                _ => None,
            }
        })
    })?;
    Some(Path::new("/").join(found.strip_prefix(root).unwrap_or(&found)))
}

/// What the names of units end with.
const TYPES: [&str; 11] = [
    "automount",
    "device",
    "mount",
    "path",
    "scope",
    "service",
    "slice",
    "socket",
    "swap",
    "target",
    "timer",
];

/// True for the name of a unit, and for what all units of a type are called in the directory of their drop-ins.
fn is_of_units(name: &str) -> bool {
    TYPES.contains(&name.rsplit_once('.').map_or(name, |(_, kind)| kind))
}

/// A pipe among the drop-ins in a directory.
fn pipe_in(root: &Path, directory: &Path) -> Option<PathBuf> {
    fs::read_dir(directory).ok()?.flatten().find_map(|entry| {
        let (path, kind) = (entry.path(), entry.file_type().ok()?);
        let is_drop_in = path.extension().is_some_and(|end| end == "conf");
        (is_drop_in && is_pipe(root, &path, kind)).then_some(path)
    })
}

/// True for a pipe, and for a link that leads to one on its machine.
fn is_pipe(root: &Path, path: &Path, kind: FileType) -> bool {
    kind.is_fifo() || kind.is_symlink() && beneath::leads_to(root, path) == Some(rustix::fs::FileType::Fifo)
}

/// Whether a unit may have a file, of its own or of its template.
pub(super) fn is_there(root: &Path, loaded: &Loaded, name: &str) -> bool {
    let names = [Some(name.to_owned()), template_of(name)];
    let is_in = |directory: &String, name: &String| {
        let found = fs::symlink_metadata(below(root, directory).join(name));
        let is_none =
            |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        !found.as_ref().is_err_and(is_none)
    };
    names.iter().flatten().any(|name| loaded.directories.iter().any(|directory| is_in(directory, name)))
}

fn below(root: &Path, directory: &str) -> PathBuf {
    root.join(directory.trim_start_matches('/'))
}

/// True for what may have changed since systemd read it.
fn is_new(meta: &Metadata, loaded: &Loaded) -> bool {
    let seconds = Duration::from_secs(u64::try_from(meta.ctime()).unwrap_or_default());
    let changed = seconds + Duration::from_nanos(u64::try_from(meta.ctime_nsec()).unwrap_or_default());
    changed + TICK > loaded.at
}

/// True for the name of a template, which is no unit.
pub(super) fn is_template(name: &str) -> bool {
    name.contains("@.")
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
        root: &Path,
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
                Some((of, "d")) => self.drop_ins(root, of, &path, loaded),
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
                        let leads_nowhere = target.as_deref() == Some(Path::new("/dev/null"));
                        let (is_mask, is_link) =
                            (is_own && leads_nowhere, target.is_some() && !leads_nowhere);
                        let is_own = is_own && target.is_none();
                        let is_pipe = is_pipe(root, &path, kind);
                        let fragment = Fragment { is_own, is_mask, is_new, is_pipe, is_link, path };
                        self.fragments.insert(name.into(), fragment);
                    }
                }
            }
        }
        Some(())
    }

    fn drop_ins(&mut self, root: &Path, of: &str, path: &Path, loaded: &Loaded) {
        let is_changed = || -> io::Result<bool> {
            let mut is_changed = is_new(&fs::metadata(path)?, loaded);
            for entry in fs::read_dir(path)? {
                let path = entry?.path();
                is_changed |= is_new(&fs::symlink_metadata(&path)?, loaded);
                is_changed |= is_new(&fs::metadata(&path)?, loaded);
            }
            Ok(is_changed)
        };
        *self.drop_ins.entry(of.to_owned()).or_default() |= is_changed().unwrap_or(true);
        self.piped.extend(pipe_in(root, path).map(|_| of.to_owned()));
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

    /// What is said of a unit. Its file and its run are read now.
    pub(super) fn said(&self, name: &str) -> Said {
        Said { file: self.file(name), invocation: self.invocation(name), is_loaded: self.is_loaded(name) }
    }

    /// True when systemd has read all files of a unit as they are now.
    fn is_loaded(&self, name: &str) -> bool {
        let is_fragment_known = self.fragment(name).is_some_and(|fragment| !fragment.is_new);
        let changed = self.drop_ins.iter().filter(|(_, is_new)| **is_new).map(|(of, _)| &**of);
        let is_known = !self.is_changed && is_fragment_known && !self.targets.contains(name);
        is_known && !changed.into_iter().any(|of| applies(of, name))
    }

    /// True where systemd would wait at a pipe to say of a unit whether it is enabled, which takes its own files alone, and might
    /// where it is not certain which these are: it goes from link to link by their names, and from an instance to that of the next
    /// template.
    pub(super) fn is_piped(&self, name: &str) -> bool {
        let fragment = self.fragment(name);
        let is_certain = self.is_whole && fragment.is_none_or(|fragment| !fragment.is_link);
        let is_pipe = fragment.is_some_and(|fragment| fragment.is_pipe);
        is_pipe || self.piped.iter().any(|of| applies(of, name)) || !is_certain && self.is_anywhere
    }

    /// Whether it is enabled, in systemd's word; none where that is not certain.
    fn file(&self, name: &str) -> Option<&'static str> {
        if self.fragments.get(name).is_some_and(|fragment| fragment.is_mask) {
            return Some("masked");
        }
        // systemd is not asked: it would open the pipe to tell.
        if self.is_piped(name) {
            return Some("bad");
        }
        let fragment = self.fragment(name)?;
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
        let (content, _) = beneath::content(CWD, &fragment.path).ok()?;
        let install = definition::install(std::str::from_utf8(&content).ok()?);
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
    fn invocation(&self, name: &str) -> Option<String> {
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
    use reconciled_testkit::PATIENCE;
    use rustix::fs::{Mode, mkfifoat};
    use std::{os::unix::fs::symlink, sync::mpsc, thread};

    /// Says something within the time that anybody is waited for.
    #[track_caller]
    fn in_time<T: Send + 'static>(say: impl FnOnce() -> T + Send + 'static) -> T {
        let (told, tell) = mpsc::channel();
        thread::spawn(move || told.send(say()));
        tell.recv_timeout(PATIENCE).expect("nobody writes into the pipe")
    }

    const OWN: &str = "/etc/systemd/system";

    /// Where systemd has units from: the administrator's, and `more`.
    fn loaded(more: &[&str]) -> Loaded {
        let directories = std::iter::once(OWN).chain(more.iter().copied()).map(str::to_owned).collect();
        Loaded { at: Duration::ZERO, directories, own: OWN.into() }
    }

    fn make_pipe(path: &Path) {
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    }

    #[test]
    fn a_pipe_is_no_file_of_a_unit_and_nobody_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        let at = |name: &str| below(&root, OWN).join(name);
        let make = |name: &str| make_pipe(&at(name));
        fs::create_dir_all(at("dropped.service.d")).unwrap();
        for name in ["plain.service", "dropped.service"] {
            fs::write(at(name), "[Service]\nExecStart=/bin/a\n").unwrap();
        }
        ["pipe.service", "many@.service", "pipe"].iter().copied().for_each(make);
        let loaded = loaded(&[]);
        let found = |opens: Opens| {
            let (root, loaded) = (root.clone(), loaded.clone());
            in_time(move || pipe(&root, &loaded, opens))
        };
        let there = |name: &str| Some(Path::new(OWN).join(name));
        assert_eq!(found(Opens::ToLoad), None, "systemd loads none of these");
        assert!(found(Opens::ToEnable).is_some());
        symlink("pipe", at("led.service")).unwrap();
        assert_eq!(found(Opens::ToLoad), there("led.service"));
        fs::remove_file(at("led.service")).unwrap();
        make("dropped.service.d/x.conf");
        assert_eq!(found(Opens::ToLoad), there("dropped.service.d/x.conf"));
        symlink("pipe", at("led.service")).unwrap();
        symlink("dropped.service", at("other.service")).unwrap();

        let names = [
            "plain.service",
            "dropped.service",
            "other.service",
            "pipe.service",
            "many@1.service",
            "led.service",
        ];
        let (root, asked) = (root.clone(), BTreeSet::from(names.map(String::from)));
        let (said, is_any) = in_time(move || {
            let disk = look(&root, &loaded, &asked);
            (names.map(|name| disk.said(name).file), disk.pipe.is_some())
        });
        let bad = Some("bad");
        assert_eq!(said, [Some("static"), bad, bad, bad, bad, bad]);
        assert!(is_any, "whatever `plain.service` wants is not known here");
        // What takes its place after it was looked at is not waited for either.
        let path = at("pipe.service");
        let opened = in_time(move || beneath::content(CWD, &path).err());
        assert_eq!(opened, Some(rustix::io::Errno::AGAIN));
    }

    #[test]
    fn what_a_unit_leads_to_by_several_links_may_be_where_a_pipe_is() {
        let (dir, loaded) = (tempfile::tempdir().unwrap(), loaded(&[]));
        let at = |name: &str| below(dir.path(), OWN).join(name);
        fs::create_dir_all(below(dir.path(), OWN)).unwrap();
        for name in ["plain.service", "dropped.service", "dropped@.service"] {
            fs::write(at(name), "[Service]\nExecStart=/bin/a\n").unwrap();
        }
        for (name, target) in [
            ("one.service", "dropped.service"),
            ("two.service", "one.service"),
            ("led@.service", "dropped@.service"),
            ("masked.service", "/dev/null"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        let names = ["plain.service", "two.service", "led@1.service", "masked.service"];
        let said = || {
            let disk = look(dir.path(), &loaded, &BTreeSet::from(names.map(String::from)));
            names.map(|name| (disk.said(name).file, disk.is_piped(name)))
        };
        let (plain, masked) = ((Some("static"), false), (Some("masked"), false));
        assert_eq!(said(), [plain, (None, false), (None, false), masked]);
        // systemd goes to `dropped.service` by way of `one.service`, and for `led@1.service` to `dropped@1.service`.
        let bad = (Some("bad"), true);
        for pipe in ["dropped.service.d/x.conf", "dropped@1.service.d/x.conf", "dropped@1.service"] {
            let pipe = at(pipe);
            fs::create_dir_all(pipe.parent().unwrap()).unwrap();
            make_pipe(&pipe);
            assert_eq!(said(), [plain, bad, bad, masked], "{pipe:?}");
            fs::remove_file(pipe).unwrap();
        }
    }

    #[test]
    fn a_pipe_counts_where_another_directory_cannot_be_read() {
        let (dir, loaded) = (tempfile::tempdir().unwrap(), loaded(&["/opt/note/system"]));
        let drop_in = below(dir.path(), OWN).join("other.service.d/x.conf");
        fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
        fs::create_dir_all(dir.path().join("opt")).unwrap();
        fs::write(dir.path().join("opt/note"), "").unwrap();
        fs::write(below(dir.path(), OWN).join("plain.service"), "[Service]\nExecStart=/bin/a\n").unwrap();
        let looked = || look(dir.path(), &loaded, &BTreeSet::from(["plain.service".to_owned()]));
        let disk = looked();
        assert_eq!((disk.said("plain.service").file, disk.pipe.is_none()), (None, true));
        make_pipe(&drop_in);
        let disk = looked();
        assert_eq!((disk.said("plain.service").file, disk.pipe.is_some()), (Some("bad"), true));
    }

    #[test]
    fn a_pipe_that_systemd_opens_for_no_unit_does_not_count() {
        const VENDOR: &str = "/usr/lib/systemd/system";
        let (dir, loaded) = (tempfile::tempdir().unwrap(), loaded(&[VENDOR]));
        let at = |directory: &str, name: &str| below(dir.path(), directory).join(name);
        for folder in [at(OWN, "README.d"), at(VENDOR, ""), dir.path().join("opt")] {
            fs::create_dir_all(folder).unwrap();
        }
        for path in [at(OWN, "x.fifo"), at(OWN, "README.d/x.conf"), dir.path().join("opt/pipe")] {
            make_pipe(&path);
        }
        symlink("x.fifo", at(OWN, "README")).unwrap();
        symlink("../../../../opt/pipe", at(VENDOR, "led.service")).unwrap();
        fs::write(at(OWN, "led.service"), "").unwrap();
        let found = |opens: Opens| pipe(dir.path(), &loaded, opens);
        let both = || [Opens::ToLoad, Opens::ToEnable].map(found);
        assert_eq!(both(), [None, None]);
        fs::remove_file(at(OWN, "led.service")).unwrap();
        let led = || Some(Path::new(VENDOR).join("led.service"));
        assert_eq!(both(), [led(), led()]);
        // From the root of its machine.
        fs::remove_file(at(VENDOR, "led.service")).unwrap();
        symlink("/opt/pipe", at(VENDOR, "led.service")).unwrap();
        assert_eq!(both(), [led(), led()]);
        for (name, is_any) in [("led.service", true), ("led@1.service", false), ("other.service", false)] {
            assert_eq!(is_there(dir.path(), &loaded, name), is_any, "{name}");
        }
        fs::write(at(OWN, "led@.service"), "").unwrap();
        assert!(is_there(dir.path(), &loaded, "led@1.service"));
        // Nothing is below what is no directory.
        let below_file = self::loaded(&["/etc/systemd/system/led@.service"]);
        assert!(!is_there(dir.path(), &below_file, "other.service"));
    }

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
