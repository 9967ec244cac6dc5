//! Where the files of units are: those of the machine, and those of one user.

use super::{CONTROL, DIRECTORY, LOADED_FROM, RUNTIME};
use crate::path::FilePath;
use reconciled_provider::{Error, ResourceId};

/// The directories of one service manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    directory: String,
    control: [String; 2],
    runtime: String,
    loaded_from: Vec<String>,
    home: Option<String>,
}

impl Default for Places {
    fn default() -> Places {
        Places::system()
    }
}

impl Places {
    /// Those of the machine's own manager.
    pub fn system() -> Places {
        Places {
            directory: DIRECTORY.into(),
            control: CONTROL.map(String::from),
            runtime: RUNTIME.into(),
            loaded_from: LOADED_FROM.iter().map(|directory| (*directory).into()).collect(),
            home: None,
        }
    }

    /// Those of the manager of the user with this number, whose home is `home`.
    pub fn user(home: &str, uid: u32) -> Places {
        let (config, run) = (format!("{home}/.config/systemd"), format!("/run/user/{uid}/systemd"));
        let directory = format!("{config}/user");
        let control = [format!("{config}/user.control"), format!("{run}/user.control")];
        let runtime = format!("{run}/user");
        let others = [
            runtime.clone(),
            format!("{home}/.local/share/systemd/user"),
            "/etc/systemd/user".into(),
            "/run/systemd/user".into(),
            "/usr/local/lib/systemd/user".into(),
            "/usr/lib/systemd/user".into(),
            "/lib/systemd/user".into(),
        ];
        let loaded_from = [directory.clone()].into_iter().chain(control.clone()).chain(others).collect();
        Places { directory, control, runtime, loaded_from, home: Some(home.into()) }
    }

    /// True for those of a user.
    pub(crate) fn is_user(&self) -> bool {
        self.home.is_some()
    }
    /// The home of the user, if it is one: directories below it are made where they are missing.
    pub(crate) fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }
    /// Where unit files of ours are.
    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }
    /// Where `systemctl set-property` writes, which outranks all other files of a unit.
    pub(crate) fn control(&self) -> &[String; 2] {
        &self.control
    }
    /// Where `systemctl edit --runtime` writes.
    pub(crate) fn runtime(&self) -> &str {
        &self.runtime
    }
    /// Directories from which units are loaded: whoever writes there runs anything with the rights of the manager.
    pub(crate) fn loaded_from(&self) -> impl Iterator<Item = &str> {
        // What is of the machine is of no user's manifests either.
        let of_machine = LOADED_FROM.iter().copied().filter(|_| self.is_user());
        self.loaded_from.iter().map(String::as_str).chain(of_machine)
    }

    /// Path of a unit's file.
    pub(crate) fn fragment(&self, name: &str) -> Result<FilePath, Error> {
        path(format!("{}/{name}", self.directory))
    }
    /// The directory of a unit's drop-ins.
    pub(crate) fn drop_in_directory(&self, name: &str) -> Result<FilePath, Error> {
        path(format!("{}/{name}.d", self.directory))
    }
    /// The directories in which a person puts drop-ins of a unit, until the next boot or for longer.
    pub(crate) fn drop_in_directories(&self, name: &str) -> Result<[FilePath; 2], Error> {
        Ok([self.drop_in_directory(name)?, path(format!("{}/{name}.d", self.runtime))?])
    }
    /// Path of a drop-in.
    pub(crate) fn drop_in(&self, name: &str, drop_in: &str) -> Result<FilePath, Error> {
        path(format!("{}/{name}.d/{drop_in}.conf", self.directory))
    }

    /// Path of the link to a unit in a directory such as `multi-user.target.wants`.
    pub(crate) fn link(&self, directory: &str, name: &str) -> Result<FilePath, Error> {
        path(format!("{}/{directory}/{name}", self.directory))
    }

    /// The unit that a change at `path` is about: one of its files, or a link that enables it.
    pub(crate) fn about(&self, path: &FilePath) -> Option<ResourceId> {
        let link = || {
            let (directory, name) = path.below(&self.directory)?.split_once('/')?;
            let is_link = [".wants", ".requires"].iter().any(|end| directory.ends_with(end));
            is_link.then(|| name.into())
        };
        self.unit_at(path).or_else(link)
    }

    /// The unit that a file below one of the directories that are written to is about; of those that are gone with the next
    /// boot, drop-ins alone are.
    pub(crate) fn unit_at(&self, path: &FilePath) -> Option<ResourceId> {
        let mut directories = std::iter::once(&self.directory).chain(&self.control);
        let lasting = directories.find_map(|directory| path.below(directory));
        let rest = lasting.or_else(|| path.below(&self.runtime))?;
        let name = match rest.split_once('/') {
            // The directory of drop-ins itself is about their unit, too.
            None => rest.strip_suffix(".d").or(lasting)?,
            Some((directory, _)) => directory.strip_suffix(".d")?,
        };
        Some(name.into())
    }
}

/// Reads a path that was made up here.
pub(crate) fn path(text: String) -> Result<FilePath, Error> {
    FilePath::parse(&text).map_err(|why| Error::invalid(format!("`{text}` {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_directories_of_his_own_and_none_of_the_machine() {
        let places = Places::user("/home/web", 1500);
        assert_eq!(
            places.fragment("a.service").unwrap().as_str(),
            "/home/web/.config/systemd/user/a.service"
        );
        let at = |text: &str| places.unit_at(&FilePath::parse(text).unwrap()).map(|unit| unit.0.to_string());
        assert_eq!(at("/home/web/.config/systemd/user/a.service.d/x.conf").as_deref(), Some("a.service"));
        assert_eq!(at("/run/user/1500/systemd/user.control/a.service.d").as_deref(), Some("a.service"));
        assert_eq!(at("/run/user/1500/systemd/user/a.service.d/x.conf").as_deref(), Some("a.service"));
        assert_eq!(at("/run/user/1500/systemd/user/a.service"), None, "it is nobody's here");
        assert_eq!(at("/etc/systemd/system/a.service"), None);
        let link = FilePath::parse("/home/web/.config/systemd/user/default.target.wants/a.service").unwrap();
        assert_eq!(places.unit_at(&link), None, "it is no file of the unit");
        assert_eq!(places.about(&link), Some("a.service".into()));
        assert_eq!(places.link("default.target.wants", "a.service").unwrap(), link);
        let loaded: Vec<&str> = places.loaded_from().collect();
        assert!(loaded.contains(&"/etc/systemd/user") && loaded.contains(&DIRECTORY));
    }
}
