//! The helper's own configuration: what it does, whatever it is asked for.
//!
//! It is believed only where nobody but its own user and root could have written it.

use crate::{
    Config,
    config::Commands,
    hands::{Accounts, Make, Put},
    path::FilePath,
    systemd::{CONTROL, DIRECTORY, LOADED_FROM, RUNTIME},
};
use reconciled_provider::{Error, Problem, problem::did_you_mean, yaml};
use rustix::process::geteuid;
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where copies of what somebody else wrote go.
const ORIGINALS: &str = "/var/lib/reconciled-hostd/originals";

/// What names begin with of units that decide what the helper and the daemon may do.
const OWN: &str = "reconciled";

/// The keys of `/etc/reconciled/hostd.yaml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    /// Who may ask: names or numbers of users. Root always may.
    #[serde(default)]
    users: Vec<String>,
    /// Groups whose members may ask, where it is the group their process runs with.
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default = "default_root")]
    root: PathBuf,
    #[serde(default)]
    paths: Vec<String>,
    /// Names of units that may be written, started and stopped; `*` and `?` stand for what they do in a shell.
    #[serde(default)]
    units: Vec<String>,
    bus: Option<String>,
    originals: Option<PathBuf>,
    #[serde(default)]
    commands: Commands,
}

fn default_root() -> PathBuf {
    "/".into()
}

/// What is allowed.
#[derive(Debug)]
pub struct Allowed {
    /// What the hands go by.
    pub(super) config: Arc<Config>,
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    units: Vec<String>,
}

impl Allowed {
    /// Reads the configuration.
    ///
    /// Errors: every problem of it; that others could have written it.
    pub fn read(path: &Path) -> Result<Allowed, Vec<Problem>> {
        let shown = path.to_string_lossy();
        let whole = |error: &Error| vec![Problem::from(error).in_file(&shown)];
        is_ours_alone(path).map_err(|error| whole(&error))?;
        let text = fs::read_to_string(path).map_err(|error| {
            whole(&Error::unavailable("read the configuration of the helper").caused_by(error))
        })?;
        let file = yaml::SourceFile::new(&*shown, text);
        let documents = yaml::parse(&file, yaml::Limits::default()).map_err(|problem| vec![*problem])?;
        let [node] = &documents[..] else {
            return Err(whole(&Error::invalid("the configuration of the helper is one document")));
        };
        let (written, problems) = node.decode_all::<Written>(&file);
        let Some(written) = written.filter(|_| problems.is_empty()) else { return Err(problems) };
        Allowed::of(written, path).map_err(|error| whole(&error))
    }

    fn of(written: Written, path: &Path) -> Result<Allowed, Error> {
        let accounts = Accounts::read(Path::new("/"));
        let user = |name: &String| accounts.user_id(Some(name));
        let group = |name: &String| accounts.group_id(Some(name));
        let users: BTreeSet<u32> =
            written.users.iter().map(user).filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let groups =
            written.groups.iter().map(group).filter_map(Result::transpose).collect::<Result<_, _>>()?;
        if written.bus.as_deref() == Some("user") {
            return Err(Error::invalid("the helper has the units of the machine, and none of a user").hint(
                "leave `bus` out; a daemon that has units of its own user needs no helper: bus: user at its entry",
            ));
        }
        let (mut paths, has_units) = (written.paths, !written.units.is_empty());
        let own = path.parent().unwrap_or(path).to_string_lossy().into_owned();
        let originals = written.originals.unwrap_or_else(|| ORIGINALS.into());
        let mut config = Config {
            originals: Some(originals.clone()),
            bus: has_units.then(|| written.bus.unwrap_or_else(|| "system".into())),
            commands: Some(written.commands),
            reserved: vec![own, originals.to_string_lossy().into_owned()],
            ..Config::new(written.root, &[])
        };
        if has_units {
            paths.push(DIRECTORY.into());
            paths.extend(CONTROL.map(String::from));
            paths.push(RUNTIME.into());
        }
        config.paths = paths;
        config.validate()?;
        Ok(Allowed { config: Arc::new(config), users, groups, units: written.units })
    }

    /// What is answered while the configuration cannot be used.
    pub fn unusable(problems: &[Problem]) -> Error {
        let one = |problem: &Problem| match &problem.place {
            Some(place) => format!("{place}: {}", problem.message),
            None => problem.message.clone(),
        };
        let all: Vec<String> = problems.iter().map(one).collect();
        let text = format!("the helper does nothing before its configuration is right: {}", all.join("; "));
        let hint = problems.iter().find_map(|problem| problem.hint.clone());
        Error::unavailable(text).hint(hint.unwrap_or_else(|| "mend /etc/reconciled/hostd.yaml".into()))
    }

    /// Whether a process of this user and group may ask at all.
    pub(super) fn caller(&self, uid: u32, gid: u32) -> Result<(), Error> {
        match uid == 0 || self.users.contains(&uid) || self.groups.contains(&gid) {
            true => Ok(()),
            false => Err(Error::permission_denied(format!("user {uid} may not ask the helper"))
                .hint("`users` in /etc/reconciled/hostd.yaml says who may")),
        }
    }

    /// Whether something at `path` may be looked at and changed. Unit files go by the names of units alone, also where
    /// `paths` has the directory they are in.
    pub(super) fn path(&self, path: &FilePath) -> Result<(), Error> {
        if CONTROL.contains(&path.as_str()) {
            return self.units();
        }
        if [DIRECTORY, RUNTIME].iter().chain(&CONTROL).any(|directory| path.below(directory).is_some()) {
            return match self.config.places.unit_at(path) {
                Some(unit) => self.unit(&unit.0),
                None => Err(Error::permission_denied(format!("{path} is no file of a unit"))),
            };
        }
        if LOADED_FROM.iter().any(|directory| path.below(directory).is_some()) {
            let text = format!("{path} is where systemd loads units from");
            return Err(Error::permission_denied(text).hint(format!("write it to {DIRECTORY}")));
        }
        if self.config.is_reserved(path) {
            return Err(Error::permission_denied(format!("{path} is the helper's own")));
        }
        match self.config.allows(path) {
            true => Ok(()),
            false => Err(Error::permission_denied(format!(
                "{path} is not below any of the directories that the helper may go to"
            ))
            .hint("extend `paths` in /etc/reconciled/hostd.yaml")),
        }
    }

    /// Whether what is in a directory may be listed; what is told of it is only what may be looked at.
    pub(super) fn list(&self, directory: &FilePath) -> Result<(), Error> {
        match directory.as_str() == DIRECTORY {
            true => self.units(),
            false => self.path(directory),
        }
    }

    /// Whether this may be made at a path that is allowed. A file that gives the rights of its owner to who runs it is
    /// not, nor a directory of somebody else's on the way to what decides about this host: the daemon could become root by
    /// either.
    pub(super) fn make(&self, put: &Put) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::permission_denied(text));
        if let Make::File { validate: Some(name), .. } = &put.make {
            self.command(name)?;
        }
        match &put.make {
            Make::File { access, .. } if access.mode & 0o6000 != 0 => refuse(format!(
                "the helper makes no file set-user-id or set-group-id (mode {:04o})",
                access.mode
            )),
            Make::Directory { access } => {
                let is_plain = access.owner.is_none() && access.group.is_none() && access.mode == 0o755;
                let decides =
                    CONTROL.contains(&put.path.as_str()) || self.config.is_above_reserved(&put.path);
                match decides && !is_plain {
                    true => refuse(format!(
                        "who {} belongs to decides about what is below it: units, or the helper's own",
                        put.path
                    )),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether there is a command of this name.
    pub(super) fn command(&self, name: &str) -> Result<(), Error> {
        let known = self.config.commands.iter().flatten().map(|(known, _)| &**known);
        if known.clone().any(|known| known == name) {
            return Ok(());
        }
        let error = Error::invalid(format!("the helper has no command `{}`", name.escape_debug()));
        Err(error.hint(match did_you_mean(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "declare it under `commands` in /etc/reconciled/hostd.yaml: {name}: [PROGRAM, \"{{file}}\"]"
            ),
        }))
    }

    /// Whether it may be told that something changed at `path`: also at the links that enable a unit that is allowed.
    pub(super) fn told_of(&self, path: &FilePath) -> bool {
        let unit = self.config.places.about(path);
        self.path(path).is_ok() || unit.is_some_and(|unit| self.unit(&unit.0).is_ok())
    }

    /// Whether a unit may be written, started and stopped.
    pub(super) fn unit(&self, name: &str) -> Result<(), Error> {
        if name.starts_with(OWN) {
            return Err(Error::permission_denied(format!("{} is reconciled's own", name.escape_debug())));
        }
        // Drop-ins of `web-.service` are those of every unit whose name begins so, and those of `service` of every service.
        if !name.rsplit_once('.').is_some_and(|(stem, _)| !stem.is_empty() && !stem.ends_with('-')) {
            let text = format!("{} is the name of no single unit", name.escape_debug());
            return Err(Error::permission_denied(text).hint("name the unit whole, such as web.service"));
        }
        // A name that leads elsewhere is no name of a unit.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
        let is_name = !name.starts_with('.') && name.chars().all(is_plain);
        match is_name && self.units.iter().any(|pattern| matches(pattern, name)) {
            true => Ok(()),
            false => Err(Error::permission_denied(format!(
                "{} is none of the helper's units",
                name.escape_debug()
            ))
            .hint("extend `units` in /etc/reconciled/hostd.yaml")),
        }
    }

    /// Whether any units may be managed.
    pub(super) fn units(&self) -> Result<(), Error> {
        match self.units.is_empty() {
            true => Err(Error::permission_denied("the helper manages no units")
                .hint("write `units` in /etc/reconciled/hostd.yaml")),
            false => Ok(()),
        }
    }
}

/// True when `name` is one of `pattern`.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            let rest = &pattern[1..];
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| matches(rest, &name[at..]))
        }
        (Some('?'), Some(c)) => matches(&pattern[1..], &name[c.len_utf8()..]),
        (Some(p), Some(c)) if p == c => matches(&pattern[p.len_utf8()..], &name[c.len_utf8()..]),
        _ => false,
    }
}

/// Refuses a file that somebody else could write, or put another one in its place.
fn is_ours_alone(path: &Path) -> Result<(), Error> {
    let refuse = |at: &Path, why: String| {
        Error::permission_denied(format!(
            "the configuration of the helper is not believed: {} {why}",
            at.display()
        ))
        .hint(format!("chown root:root {0}; chmod go-w {0}", at.display()))
    };
    if !path.is_absolute() {
        return Err(refuse(path, "is no absolute path".into()));
    }
    for at in path.ancestors() {
        let stat = fs::symlink_metadata(at)
            .map_err(|error| Error::unavailable(format!("look at {}", at.display())).caused_by(error))?;
        if stat.is_symlink() {
            return Err(refuse(at, "is a link".into()));
        }
        if stat.uid() != 0 && stat.uid() != geteuid().as_raw() {
            return Err(refuse(at, format!("belongs to user {}", stat.uid())));
        }
        // In a directory such as /tmp nobody may take away what belongs to somebody else.
        let is_sticky = stat.is_dir() && stat.mode() & 0o1000 != 0;
        if stat.mode() & 0o022 != 0 && !is_sticky {
            return Err(refuse(at, format!("may be written by others (mode {:04o})", stat.mode() & 0o7777)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    fn read(text: &str, mode: u32) -> Result<Allowed, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("hostd.yaml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Allowed::read(&path)
            .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n")).collect())
    }

    const WHOLE: &str = "users: [root, '4711']\npaths: [/etc, /srv/www]\nunits: ['web@*.service', 'job-?.timer', reconciled*]\n";

    #[test]
    fn it_allows_what_it_names_and_nothing_else() {
        let allowed = read(WHOLE, 0o600).unwrap();
        let path =
            |text: &str| allowed.path(&FilePath::parse(text).unwrap()).map_err(|error| error.message.clone());
        assert_eq!(path("/etc/nginx/nginx.conf"), Ok(()));
        assert_eq!(path("/etc/systemd/system/web@1.service"), Ok(()));
        assert_eq!(path("/etc/systemd/system/web@1.service.d"), Ok(()));
        assert_eq!(path("/etc/systemd/system/web@1.service.d/limits.conf"), Ok(()));
        assert_eq!(path("/run/systemd/system/web@1.service.d/limits.conf"), Ok(()));
        for text in [
            "/root/x",
            "/etc",
            "/etcetera",
            "/srv/x",
            "/etc/systemd/system/ssh.service",
            "/etc/systemd/system/ssh.service.d",
            "/etc/systemd/system/ssh.service.d/web@1.service",
            "/etc/systemd/system/multi-user.target.wants/web@1.service",
            "/etc/systemd/system/reconciled-hostd.service.d/x.conf",
            "/etc/systemd/system/reconciled-.service.d/x.conf",
            "/etc/systemd/system/reconciled-x.service",
            "/etc/systemd/system/service.d/x.conf",
            "/run/systemd/system/web@1.service",
            "/run/systemd/system/ssh.service.d/x.conf",
            "/etc/systemd/system.control/ssh.service.d/x.conf",
            "/etc/systemd/system/web@-.service.d/x.conf",
        ] {
            assert!(path(text).is_err(), "{text}");
        }
        let told = |text: &str| allowed.told_of(&FilePath::parse(text).unwrap());
        assert!(told("/etc/systemd/system/multi-user.target.wants/web@1.service"), "and no more than that");
        assert!(!told("/etc/systemd/system/multi-user.target.wants/ssh.service") && !told("/root/x"));
        let unit = |name: &str| allowed.unit(name).is_ok();
        assert!(unit("web@8001.service") && unit("job-a.timer"));
        for name in [
            "web@.socket",
            "job-ab.timer",
            "reconciled.service",
            "reconciled-.service",
            "reconciledx.timer",
            "web@-.service",
            "web@../x.service",
            "",
            "web@\n.service",
        ] {
            assert!(!unit(name), "{name:?}");
        }
        assert!(
            allowed.caller(0, 5).is_ok() && allowed.caller(4711, 5).is_ok() && allowed.caller(33, 0).is_err()
        );
    }

    #[test]
    fn what_others_could_write_is_not_believed() {
        assert!(read(WHOLE, 0o620).unwrap_err().contains("may be written by others"));
        assert!(read(WHOLE, 0o602).unwrap_err().contains("may be written by others"));
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::write(folder.join("a"), WHOLE).unwrap();
        std::os::unix::fs::symlink("a", folder.join("hostd.yaml")).unwrap();
        assert!(Allowed::read(&folder.join("hostd.yaml")).is_err());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Allowed::read(&folder.join("a")).is_err());
    }

    #[test]
    fn a_mistake_in_it_has_its_place() {
        let refused = |text: &str, part: &str| {
            let why = read(text, 0o600).unwrap_err();
            assert!(why.contains(part), "{why}");
        };
        refused("paths: [/etc]\nusres: [root]\n", "did you mean `users`");
        refused("paths: [/etc]\nunits: web\n", "hostd.yaml:2:");
        refused("units: [a]\npaths: [etc]\n", "slash");
        refused("users: [nobody-here]\npaths: [/etc]\n", "no user `nobody-here`");
        refused("users: [root]\n", "paths");
    }

    proptest! {
        #[test]
        fn a_pattern_without_stars_is_itself(name in "[a-z@.?-]{0,8}", other in "[a-z@.-]{0,8}") {
            prop_assert!(matches(&name.replace('?', "x"), &name.replace('?', "x")));
            prop_assert!(matches("*", &other));
            prop_assert_eq!(matches(&other, &name), other == name);
        }
    }
}
