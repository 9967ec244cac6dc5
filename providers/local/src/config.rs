//! Host configuration of a `type: host` entry.

use crate::{hands, path::FilePath, systemd::Places};
use reconciled_provider::Error;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Commands that manifests may name, as argument lists; `{file}` in an argument is the path of a file.
pub type Commands = BTreeMap<Arc<str>, Vec<String>>;

/// Keys of the entry besides those every entry has.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Directory that stands for `/`: that of a chroot or a container. Default: `/`.
    #[serde(default = "default_root")]
    pub root: PathBuf,
    /// Directories below which files may be managed, and nowhere else. Needed, unless there is a `helper`.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Socket of the helper, which does all that touches the machine, where its own configuration allows it.
    pub helper: Option<PathBuf>,
    /// The bus of the service manager: `system`; `user` for that of the user that reconciled runs as; or the address of the
    /// bus of a system, such as `unix:path=/run/dbus/system_bus_socket`. Without it no units are managed.
    pub bus: Option<String>,
    /// Where a file is copied to before what somebody else wrote in it is replaced or deleted.
    /// Default: `originals/ENTRY` in the state directory.
    pub originals: Option<PathBuf>,
    /// What no manifest may touch: the state and the configuration of this program; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub reserved: Vec<String>,
    /// How long a command may take; handed over apart.
    #[serde(skip, default = "default_timeout")]
    #[schemars(skip)]
    pub timeout: Duration,
    /// What manifests may name in `validate`; handed over apart. None: not known here, and every name may be right.
    #[serde(skip)]
    #[schemars(skip)]
    pub commands: Option<Commands>,
    /// Where unit files are; found out by [`Config::settled`].
    #[serde(skip)]
    #[schemars(skip)]
    pub places: Places,
}

/// The bus of the machine's own manager.
const SYSTEM: &str = "system";
/// The bus of the manager of the user that this process runs as.
const USER: &str = "user";

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn default_root() -> PathBuf {
    "/".into()
}

fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

impl Config {
    /// A configuration that says only where files may be managed.
    pub fn new(root: impl Into<PathBuf>, paths: &[&str]) -> Config {
        Config {
            root: root.into(),
            paths: paths.iter().map(|path| (*path).into()).collect(),
            helper: None,
            bus: None,
            originals: None,
            reserved: Vec::new(),
            timeout: default_timeout(),
            commands: None,
            places: Places::system(),
        }
    }

    /// The same, with what is to be known of the user where the units are a user's.
    ///
    /// Errors: `Unavailable` where that user has no home.
    pub(crate) fn settled(mut self) -> Result<Config, Error> {
        if self.is_of_user() {
            let uid = uid();
            let home = hands::home(&self.root, uid).filter(|home| FilePath::parse(home).is_ok());
            let home = home.ok_or_else(|| {
                Error::unavailable(format!("bus: user, and user {uid} has no home in /etc/passwd"))
                    .hint("units of a user are in his home: run reconciled as a user that has one")
            })?;
            self.places = Places::user(&home, uid);
        }
        Ok(self)
    }

    fn is_of_user(&self) -> bool {
        self.bus.as_deref() == Some(USER)
    }

    /// A configuration of no host in particular: every path may be right, and every command.
    pub(crate) fn anywhere() -> Config {
        Config::new("/nonexistent", &[""])
    }

    /// Refuses what cannot work.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let problem = |text: String, hint: &str| Err(Error::invalid(text).hint(hint));
        if !self.root.is_absolute() {
            return problem(
                format!("root of a host entry is `{}`, which is no absolute path", self.root.display()),
                "leave it out for the machine itself",
            );
        }
        if let Some(helper) = &self.helper {
            if !helper.is_absolute() {
                return problem("helper of a host entry is no absolute path".into(), "write it from /");
            }
            let own = [
                ("root", self.root.as_os_str() != "/"),
                ("bus", self.bus.is_some()),
                ("originals", self.originals.is_some()),
            ];
            if let Some((key, _)) = own.into_iter().find(|(_, is_set)| *is_set) {
                let text = format!("a host entry with a `helper` has `{key}`, which the helper decides");
                return problem(
                    text,
                    "write it in the configuration of the helper: /etc/reconciled/hostd.yaml",
                );
            }
        } else if self.paths.is_empty() {
            return problem(
                "paths of a host entry is empty or missing, so nothing could be managed".into(),
                "write the directories below which files may be managed: paths: [/etc, /srv]",
            );
        }
        for path in &self.paths {
            if let Err(why) = FilePath::parse(path) {
                return problem(
                    format!("`{path}` in paths of a host entry {why}"),
                    "write absolute paths of directories: paths: [/etc, /srv]",
                );
            }
        }
        match self.bus.as_deref() {
            None | Some(SYSTEM | USER) => {}
            // Which user's files belong to it cannot be told from an address.
            Some(bus) if bus.starts_with("unix:") && bus.contains("/run/user/") => {
                return problem(
                    "bus of a host entry is the address of a user's manager".into(),
                    "write bus: user, and run reconciled as that user",
                );
            }
            Some(bus) if bus.starts_with("unix:") => {}
            Some(_) => {
                return problem(
                    "bus of a host entry is neither `system` nor `user` nor the address of a socket".into(),
                    "write bus: system, or bus: \"unix:path=/run/dbus/system_bus_socket\"",
                );
            }
        }
        if self.originals.as_ref().is_some_and(|path| !path.is_absolute()) {
            return problem("originals of a host entry is no absolute path".into(), "write it from /");
        }
        Ok(())
    }

    /// The address of the bus, if there is one.
    pub(crate) fn bus_address(&self) -> Option<String> {
        match self.bus.as_deref()? {
            SYSTEM => Some("unix:path=/run/dbus/system_bus_socket".into()),
            USER => {
                let socket = self.root.join(format!("run/user/{}/bus", uid()));
                Some(format!("unix:path={}", socket.display()))
            }
            address => Some(address.into()),
        }
    }

    /// True when files may be managed at `path`: strictly below one of the directories.
    pub(crate) fn allows(&self, path: &FilePath) -> bool {
        let is_left_to_helper = self.helper.is_some() && self.paths.is_empty();
        let is_below = self.paths.iter().any(|allowed| path.below(allowed).is_some());
        (is_left_to_helper || is_below) && !self.is_reserved(path)
    }

    /// True where no units can be managed. Whether a helper may is for it to say.
    pub(crate) fn has_no_units(&self) -> bool {
        self.commands.is_some() && self.bus.is_none() && self.helper.is_none()
    }

    /// What both would manage: a path, or the units of one bus. What a helper allows is not known here: all of its machine
    /// where no `paths` are written.
    pub fn overlap(&self, other: &Config) -> Option<String> {
        let is_one = self.manager_socket().is_some_and(|ours| other.manager_socket() == Some(ours));
        let units = || is_one.then(|| "units".to_owned());
        if self.root != other.root {
            return units();
        }
        let all = [String::new()];
        let paths = |config: &'_ Config| match &config.paths[..] {
            [] => all.to_vec(),
            paths => paths.to_vec(),
        };
        let is_in = |a: &str, b: &str| a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        let (ours, theirs) = (paths(self), paths(other));
        let pairs = ours.iter().flat_map(|a| theirs.iter().map(move |b| (a, b)));
        let shared = pairs.filter_map(|(a, b)| match (is_in(a, b), is_in(b, a)) {
            (true, _) => Some(a),
            (_, true) => Some(b),
            _ => None,
        });
        let path = shared.map(|path| if path.is_empty() { "/".to_owned() } else { path.clone() }).next();
        path.or_else(units)
    }

    /// Where the service manager is reached whose units this entry may have, as far as it can be told from here: a helper
    /// may have those of the machine.
    fn manager_socket(&self) -> Option<String> {
        let of_system = || "unix:path=/run/dbus/system_bus_socket".to_owned();
        let address = self.bus_address().or_else(|| self.helper.is_some().then(of_system))?;
        // One socket has several names: with keys behind the path, and below what /run was called before.
        let path = address.strip_prefix("unix:path=").and_then(|rest| rest.split([',', ';']).next());
        let path = path
            .map(|path| path.strip_prefix("/var").filter(|rest| rest.starts_with("/run/")).unwrap_or(path));
        Some(path.map(str::to_owned).unwrap_or(address))
    }

    /// True for what systemd loads as a unit of the very machine. In another root nothing runs, and files are all there is.
    pub(crate) fn is_of_units(&self, path: &FilePath) -> bool {
        let is_machine = self.root.as_os_str() == "/" || self.bus.is_some();
        is_machine && self.places.loaded_from().any(|directory| path.below(directory).is_some())
    }

    /// True for a directory on the way to what decides about this host: its owner could put another one in its place.
    pub(crate) fn is_above_reserved(&self, path: &FilePath) -> bool {
        self.has_own_below(path) || self.has_units_below(path)
    }

    /// True for a directory that something of this program's own is in, or below.
    pub(crate) fn has_own_below(&self, path: &FilePath) -> bool {
        self.own().any(|own| own.starts_with(path.as_str()))
    }

    /// True for a directory that unit files are in, or below.
    pub(crate) fn has_units_below(&self, path: &FilePath) -> bool {
        let is_on_way = |to: &str| to == path.as_str() || to.starts_with(&format!("{path}/"));
        self.places.loaded_from().any(is_on_way)
    }

    /// True for what is this program's own: whoever writes there decides what it may do.
    pub(crate) fn is_reserved(&self, path: &FilePath) -> bool {
        self.own().any(|own| Path::new(path.as_str()).starts_with(own))
    }

    /// What is this program's own, copies of what others wrote included: by its path, and as it is seen from `root`.
    fn own(&self) -> impl Iterator<Item = PathBuf> {
        let all = self.reserved.iter().map(Path::new).chain(self.originals.as_deref());
        all.flat_map(|own| {
            let inside = own.strip_prefix(&self.root).ok().filter(|inside| !inside.as_os_str().is_empty());
            let inside = inside.map(|inside| Path::new("/").join(inside)).filter(|inside| inside != own);
            [Some(own.to_owned()), inside].into_iter().flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_a_helper_leaves_the_machine_to_it() {
        let with = |change: fn(&mut Config)| {
            let mut config = Config::new("/", &[]);
            config.helper = Some("/run/reconciled-hostd.sock".into());
            change(&mut config);
            config.validate().map(|()| config).map_err(|error| error.message.clone())
        };
        let config = with(|_| {}).unwrap();
        assert!(config.allows(&FilePath::parse("/etc/x").unwrap()));
        let narrow = with(|config| config.paths = vec!["/srv".into()]).unwrap();
        assert!(!narrow.allows(&FilePath::parse("/etc/x").unwrap()));
        assert!(with(|config| config.bus = Some("system".into())).unwrap_err().contains("`bus`"));
        assert!(with(|config| config.root = "/chroot".into()).unwrap_err().contains("`root`"));
        assert!(with(|config| config.originals = Some("/x".into())).unwrap_err().contains("`originals`"));
        assert!(with(|config| config.helper = Some("hostd.sock".into())).is_err());
    }

    #[test]
    fn units_of_a_user_are_in_his_home() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let with = |bus: &str, root: &Path| {
            let config = Config { bus: Some(bus.into()), ..Config::new(root, &["/srv"]) };
            config.validate().and_then(|()| config.settled()).map_err(|error| error.message.clone())
        };
        assert!(with("user", root.path()).unwrap_err().contains("has no home"));
        let line = format!("me:x:{}:0::/home/me:/bin/sh\n", uid());
        std::fs::write(root.path().join("etc/passwd"), line).unwrap();
        let config = with("user", root.path()).unwrap();
        let path = |text: &str| FilePath::parse(text).unwrap();
        assert!(config.is_of_units(&path("/home/me/.config/systemd/user/a.service")));
        assert!(config.has_units_below(&path("/home/me")) && !config.has_units_below(&path("/home/you")));
        let address = format!("unix:path={}/run/user/{}/bus", root.path().display(), uid());
        assert_eq!(config.bus_address(), Some(address));
        assert!(with("unix:path=/run/user/1000/bus", root.path()).unwrap_err().contains("a user's manager"));
        assert!(with("users", root.path()).unwrap_err().contains("neither `system` nor `user`"));
    }

    #[test]
    fn two_entries_of_one_machine_have_nothing_in_common() {
        let both = |root: &str, a: &[&str], b: &[&str]| Config::new(root, a).overlap(&Config::new("/", b));
        assert_eq!(both("/", &["/etc/a", "/srv"], &["/etc/b", "/srv2"]), None);
        assert_eq!(both("/", &["/etc/a"], &["/etc"]).as_deref(), Some("/etc/a"));
        assert_eq!(both("/", &["/etc"], &["/srv", "/etc/a/b"]).as_deref(), Some("/etc/a/b"));
        assert_eq!(both("/chroot", &["/etc"], &["/etc"]), None);
        let mut units = [Config::new("/", &["/a"]), Config::new("/", &["/b"])];
        units.iter_mut().for_each(|config| config.bus = Some("system".into()));
        assert_eq!(units[0].overlap(&units[1]).as_deref(), Some("units"));
        for bus in
            ["unix:path=/run/dbus/system_bus_socket", "unix:path=/var/run/dbus/system_bus_socket,guid=1"]
        {
            units[1].bus = Some(bus.into());
            assert_eq!(units[0].overlap(&units[1]).as_deref(), Some("units"), "{bus}");
        }
        for bus in ["user", "unix:path=/srv/container/bus"] {
            units[1].bus = Some(bus.into());
            assert_eq!(units[0].overlap(&units[1]), None, "{bus}");
        }
        (units[1].bus, units[1].helper) = (None, Some("/run/h.sock".into()));
        assert_eq!(units[0].overlap(&units[1]).as_deref(), Some("units"));
        units[0].bus = Some("user".into());
        assert_eq!(units[0].overlap(&units[1]), None);
        units.iter_mut().for_each(|config| (config.bus, config.paths) = (None, Vec::new()));
        units.iter_mut().for_each(|config| config.helper = Some("/run/h.sock".into()));
        assert_eq!(units[0].overlap(&units[1]).as_deref(), Some("/"));
        assert_eq!(units[0].overlap(&Config::new("/", &["/etc"])).as_deref(), Some("/etc"));
    }

    #[test]
    fn an_entry_says_where_it_may_write_and_means_it() {
        let check =
            |paths: &[&str]| Config::new("/", paths).validate().map_err(|error| error.message.clone());
        assert_eq!(check(&["/etc", "/srv/www"]), Ok(()));
        assert!(check(&[]).unwrap_err().contains("empty"));
        assert!(check(&["etc"]).unwrap_err().contains("slash"));
        assert!(check(&["/"]).unwrap_err().contains("root of everything"));
        assert!(check(&["/etc/"]).unwrap_err().contains("slash too many"));
        assert!(Config::new("chroot", &["/etc"]).validate().is_err());
        let config = Config::new("/", &["/etc", "/srv/www"]);
        let allows = |path: &str| config.allows(&FilePath::parse(path).unwrap());
        assert!(allows("/etc/a/b") && allows("/srv/www/x"));
        let config = Config {
            reserved: vec!["/chroot/srv/www/state/".into()],
            originals: Some("/srv/www/originals".into()),
            ..Config::new("/chroot", &["/srv/www"])
        };
        let path = |text: &str| FilePath::parse(text).unwrap();
        for own in ["/srv/www/state", "/srv/www/state/x", "/srv/www/originals/x"] {
            assert!(config.is_reserved(&path(own)), "{own}");
        }
        assert!(config.has_own_below(&path("/srv/www")) && !config.has_own_below(&path("/srv/ww")));
        assert!(!config.is_reserved(&path("/srv/www/states")));
        assert!(!allows("/etc") && !allows("/srv/x") && !allows("/etcetera/x") && !allows("/root/x"));
    }
}
