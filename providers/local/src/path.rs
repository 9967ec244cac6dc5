//! Paths that a manifest may name: absolute, in their one spelling, below what the host allows.
//!
//! What a path leads to is found out in [`crate::hands`], where links are refused; here it is only text.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Longest name of a file (`NAME_MAX`), and longest path (`PATH_MAX` with its NUL).
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 4_095;

/// An absolute path without `.`, `..`, doubled or final slashes, control characters and `#`.
///
/// `#` separates a block from its file in ids: `/etc/hosts#lab`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct FilePath(Arc<str>);

impl TryFrom<String> for FilePath {
    type Error = String;
    fn try_from(text: String) -> Result<FilePath, String> {
        FilePath::parse(&text).map_err(|why| format!("`{}` {why}", text.escape_debug()))
    }
}

impl FilePath {
    /// Reads a path.
    ///
    /// Errors: what is wrong with it, in words that follow the path.
    ///
    /// ```
    /// use reconciled_local::path::FilePath;
    /// assert_eq!(FilePath::parse("/etc/motd").unwrap().name(), "motd");
    /// assert!(FilePath::parse("/etc/../root/x").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<FilePath, &'static str> {
        let Some(rest) = text.strip_prefix('/') else { return Err("does not begin with a slash") };
        if rest.is_empty() {
            return Err("is the root of everything");
        }
        if text.len() > LONGEST_PATH {
            return Err("is longer than any path may be");
        }
        if text.contains(|c: char| c.is_control()) {
            return Err("has a control character in it");
        }
        if text.contains('#') {
            return Err("has a `#` in it, which separates blocks from files here");
        }
        for part in rest.split('/') {
            match part {
                "" => return Err("has an empty part: a slash too many"),
                "." | ".." => return Err("has `.` or `..` in it"),
                part if part.len() > LONGEST_NAME => return Err("has a name longer than 255 bytes"),
                _ => {}
            }
        }
        Ok(FilePath(text.into()))
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }
    /// Everything before the last part; empty for what stands in the root.
    pub fn parent(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(parent, _)| parent)
    }
    /// The directory it stands in, where that is not the root.
    pub fn directory(&self) -> Option<FilePath> {
        (!self.parent().is_empty()).then(|| FilePath(self.parent().into()))
    }
    /// What is named `name` in this directory, if a manifest could name it.
    pub fn join(&self, name: &str) -> Option<FilePath> {
        let is_one = !name.contains('/');
        is_one.then(|| FilePath::parse(&format!("{}/{name}", self.0)).ok()).flatten()
    }
    /// What of the path stands behind `directory`, which is an absolute path or empty for the root.
    pub fn below<'a>(&'a self, directory: &str) -> Option<&'a str> {
        self.0.strip_prefix(directory)?.strip_prefix('/')
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_has_one_spelling() {
        for text in ["/etc/motd", "/a", "/srv/a b/ä", "/etc/..data"] {
            assert_eq!(FilePath::parse(text).unwrap().as_str(), text);
        }
        for text in
            ["", "etc/motd", "/", "//etc", "/etc/", "/etc//a", "/etc/./a", "/etc/..", "/a\nb", "/a\0", "/a#b"]
        {
            assert!(FilePath::parse(text).is_err(), "{text:?}");
        }
        assert!(FilePath::parse(&format!("/{}", "x".repeat(256))).is_err());
    }

    #[test]
    fn below_means_whole_parts() {
        let path = FilePath::parse("/etc/nginx/a.conf").unwrap();
        assert_eq!(path.below("/etc"), Some("nginx/a.conf"));
        assert_eq!(path.below(""), Some("etc/nginx/a.conf"));
        assert_eq!(path.below("/et"), None);
        assert_eq!(path.below("/etc/nginx/a.conf"), None);
        assert_eq!((path.parent(), path.name()), ("/etc/nginx", "a.conf"));
    }

    proptest! {
        #[test]
        fn no_text_leads_out_of_a_directory(text in "[/.a#\\n]{0,12}") {
            if let Ok(path) = FilePath::parse(&format!("/etc/{text}")) {
                let rest = path.below("/etc").unwrap();
                prop_assert!(rest.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path}");
            }
        }
    }
}
