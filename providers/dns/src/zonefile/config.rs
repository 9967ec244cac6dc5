//! Host configuration of a `type: zonefile` entry.

use crate::family::Options;
use reconciled_provider::Error;
use serde::Deserialize;
use std::path::PathBuf;

/// Keys of the entry besides those every entry has.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Directory of the zone files; the zone `example.com` is `example.com.zone`.
    pub directory: PathBuf,
    /// Command that must accept a new file before it takes the place of the old one, such as
    /// `[named-checkzone, "{zone}", "{file}"]`. Words are arguments; there is no shell.
    #[serde(default)]
    pub check: Vec<String>,
    /// Command that makes the server load the new file, such as `[rndc, reload, "{zone}"]`.
    #[serde(default)]
    pub reload: Vec<String>,
    /// Write who owns a record into a comment at the end of its line.
    #[serde(default = "default_marks")]
    pub marks: bool,
    /// Name servers of zones created here whose manifest does not manage the apex.
    #[serde(default)]
    pub nameservers: Vec<String>,
    /// What every DNS entry may say; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub options: Options,
}

fn default_marks() -> bool {
    true
}

impl Config {
    /// A configuration that says only where the files are.
    pub fn new(directory: impl Into<PathBuf>) -> Config {
        Config {
            directory: directory.into(),
            check: Vec::new(),
            reload: Vec::new(),
            marks: default_marks(),
            nameservers: Vec::new(),
            options: Options::default(),
        }
    }

    /// Refuses what cannot work.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let problem = |text: String, hint: &str| Err(Error::invalid(text).hint(hint));
        if self.directory.as_os_str().is_empty() {
            return problem(
                "directory of a zonefile entry is empty".into(),
                "write the directory of the zone files",
            );
        }
        for (key, argv) in [("check", &self.check), ("reload", &self.reload)] {
            for word in argv {
                let rest = word.replace("{zone}", "").replace("{file}", "");
                if rest.contains(['{', '}']) {
                    return problem(
                        format!("`{word}` in {key} of a zonefile entry has an unknown placeholder"),
                        "known placeholders: {zone}, {file}",
                    );
                }
            }
            if argv.first().is_some_and(|word| word.is_empty() || word.contains('{')) {
                return problem(
                    format!("{key} of a zonefile entry does not begin with a command"),
                    "write a list such as [rndc, reload, \"{zone}\"]",
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_known_placeholders_and_begin_with_a_program() {
        let with = |check: &[&str]| {
            let check = check.iter().map(|word| word.to_string()).collect();
            Config { check, ..Config::new("/zones") }.validate()
        };
        assert!(with(&["named-checkzone", "{zone}", "{file}"]).is_ok());
        assert!(with(&["named-checkzone", "{zones}"]).unwrap_err().hint.as_ref().unwrap().contains("{zone}"));
        assert!(with(&["{file}"]).is_err());
        assert!(Config::new("").validate().is_err());
    }
}
