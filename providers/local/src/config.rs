//! Host configuration of a `type: host` entry.

use crate::path::FilePath;
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
    /// Directories below which files may be managed, and nowhere else.
    pub paths: Vec<String>,
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
        if self.paths.is_empty() {
            return problem(
                "paths of a host entry is empty, so nothing could be managed".into(),
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
        self.paths.iter().any(|allowed| path.below(allowed).is_some()) && !self.is_reserved(path)
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
