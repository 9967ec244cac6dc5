//! Host configuration of a `type: host` entry.

use crate::{path::FilePath, systemd};
use reconciled_provider::Error;
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

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
    /// The bus of the service manager: `system`, or an address such as `unix:path=/run/dbus/system_bus_socket`. Without it
    /// no units are managed.
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
        }
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
        if self.bus.as_deref().is_some_and(|bus| bus != "system" && !bus.starts_with("unix:")) {
            return problem(
                "bus of a host entry is neither `system` nor the address of a socket".into(),
                "write bus: system, or bus: \"unix:path=/run/dbus/system_bus_socket\"",
            );
        }
        if self.originals.as_ref().is_some_and(|path| !path.is_absolute()) {
            return problem("originals of a host entry is no absolute path".into(), "write it from /");
        }
        Ok(())
    }

    /// The address of the bus, if there is one.
    pub(crate) fn bus_address(&self) -> Option<String> {
        match self.bus.as_deref()? {
            "system" => Some("unix:path=/run/dbus/system_bus_socket".into()),
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
        if self.root != other.root {
            return None;
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
        let has_units = |config: &Config| config.bus.is_some() || config.helper.is_some();
        let units = || (has_units(self) && has_units(other)).then(|| "units".to_owned());
        let is_one = self.bus == other.bus && self.helper == other.helper;
        path.or_else(|| units().filter(|_| is_one))
    }

    /// True for what systemd loads as a unit of the very machine. In another root nothing runs, and files are all there is.
    pub(crate) fn is_of_units(&self, path: &FilePath) -> bool {
        let is_machine = self.root.as_os_str() == "/" || self.bus.is_some();
        is_machine && systemd::LOADED_FROM.iter().any(|directory| path.below(directory).is_some())
    }

    /// True for a directory on the way to what decides about this host: its owner could put another one in its place.
    pub(crate) fn is_above_reserved(&self, path: &FilePath) -> bool {
        let is_on_way = |to: &str| to == path.as_str() || to.starts_with(&format!("{path}/"));
        self.reserved.iter().any(|own| is_on_way(own)) || systemd::LOADED_FROM.iter().any(|to| is_on_way(to))
    }

    /// True for what is this program's own: whoever writes there decides what it may do.
    pub(crate) fn is_reserved(&self, path: &FilePath) -> bool {
        self.reserved.iter().any(|own| path.as_str() == own || path.below(own).is_some())
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
            config.validate().map(|()| config).map_err(|error| error.message)
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
    fn two_entries_of_one_machine_have_nothing_in_common() {
        let both = |root: &str, a: &[&str], b: &[&str]| Config::new(root, a).overlap(&Config::new("/", b));
        assert_eq!(both("/", &["/etc/a", "/srv"], &["/etc/b", "/srv2"]), None);
        assert_eq!(both("/", &["/etc/a"], &["/etc"]).as_deref(), Some("/etc/a"));
        assert_eq!(both("/", &["/etc"], &["/srv", "/etc/a/b"]).as_deref(), Some("/etc/a/b"));
        assert_eq!(both("/chroot", &["/etc"], &["/etc"]), None);
        let mut units = [Config::new("/", &["/a"]), Config::new("/", &["/b"])];
        units.iter_mut().for_each(|config| config.bus = Some("system".into()));
        assert_eq!(units[0].overlap(&units[1]).as_deref(), Some("units"));
        units.iter_mut().for_each(|config| (config.bus, config.paths) = (None, Vec::new()));
        units.iter_mut().for_each(|config| config.helper = Some("/run/h.sock".into()));
        assert_eq!(units[0].overlap(&units[1]).as_deref(), Some("/"));
        assert_eq!(units[0].overlap(&Config::new("/", &["/etc"])).as_deref(), Some("/etc"));
    }

    #[test]
    fn an_entry_says_where_it_may_write_and_means_it() {
        let check = |paths: &[&str]| Config::new("/", paths).validate().map_err(|error| error.message);
        assert_eq!(check(&["/etc", "/srv/www"]), Ok(()));
        assert!(check(&[]).unwrap_err().contains("empty"));
        assert!(check(&["etc"]).unwrap_err().contains("slash"));
        assert!(check(&["/"]).unwrap_err().contains("root of everything"));
        assert!(check(&["/etc/"]).unwrap_err().contains("slash too many"));
        assert!(Config::new("chroot", &["/etc"]).validate().is_err());
        let config = Config::new("/", &["/etc", "/srv/www"]);
        let allows = |path: &str| config.allows(&FilePath::parse(path).unwrap());
        assert!(allows("/etc/a/b") && allows("/srv/www/x"));
        assert!(!allows("/etc") && !allows("/srv/x") && !allows("/etcetera/x") && !allows("/root/x"));
    }
}
