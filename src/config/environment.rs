//! What the process gets from outside its arguments: variables, host name, user.
//!
//! Read once at start and passed on, so that everything behind it is testable and nothing else asks the
//! operating system.

use std::{collections::BTreeMap, fmt, fs, os::unix::fs::MetadataExt, path::PathBuf};

/// The surroundings of the process. Values are never printed: some of them are secrets.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// Name of this host.
    pub hostname: String,
    /// User id of the process.
    pub uid: u32,
}

impl Environment {
    /// The surroundings of this process.
    pub fn of_process() -> Environment {
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname")
            .or_else(|_| fs::read_to_string("/etc/hostname"))
            .map(|name| name.trim().to_string())
            .unwrap_or_default();
        // Variables that are not UTF-8 cannot be named in a configuration and are left out.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let uid = fs::metadata("/proc/self").map(|meta| meta.uid()).unwrap_or(u32::MAX);
        Environment { variables, hostname, uid }
    }
    /// Surroundings made up of `variables`, for tests and tools.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        let variables = variables.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Environment { variables, hostname: "localhost".to_string(), uid: 1000 }
    }
    /// The value of a variable; an empty one counts as not set.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
    /// True where a variable is set, also to nothing; one that is not UTF-8 is not.
    pub fn is_set(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }
    /// `$VARIABLE`, or the folder `fallback` in the home directory (XDG base directories).
    pub(super) fn xdg(&self, variable: &str, fallback: &str) -> Option<PathBuf> {
        let home = || self.var("HOME").map(|home| PathBuf::from(home).join(fallback));
        self.var(variable).map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.len())
            .field("hostname", &self.hostname)
            .field("uid", &self.uid)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_never_printed() {
        let environment = Environment::of([("TOKEN", "canary")]);
        assert!(!format!("{environment:?}").contains("canary"));
        assert_eq!(environment.var("TOKEN"), Some("canary"));
    }

    #[test]
    fn the_process_knows_its_host_and_user() {
        let environment = Environment::of_process();
        assert!(!environment.hostname.is_empty());
        assert_ne!(environment.uid, u32::MAX);
    }
}
