//! Which file is the configuration, and where state is kept. The repository is never asked.

use super::Environment;
use std::{
    fs, io,
    path::{self, Component, Path, PathBuf},
};

/// Why there is no configuration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// A file was named and is not there.
    #[error("there is no configuration at {}, which {by} names", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// Who names it.
        by: &'static str,
    },
    /// A directory was named.
    #[error("{}, which {by} names, is a directory and no configuration", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Who names it.
        by: &'static str,
    },
    /// No place has one.
    #[error("no configuration found\nlooked at:\n{}\n\na minimal one to paste:\n\n{MINIMAL}", places.join("\n"))]
    None {
        /// The four places, one line each.
        places: Vec<String>,
    },
}

impl LocateError {
    /// What to do, where the error itself does not say.
    pub fn hint(&self) -> Option<String> {
        match self {
            LocateError::Missing { .. } => Some("correct the path, or create the file".into()),
            LocateError::Directory { path, .. } => {
                Some(format!("name the file in it: --config {}", path.join("config.yaml").display()))
            }
            LocateError::None { .. } => None,
        }
    }
}

/// The smallest file that does something.
const MINIMAL: &str = "\
sources:
  - {name: infra, url: /srv/git/infra.git, branch: main}
providers:
  - {name: zones, type: zonefile, directory: /var/lib/zones}
";

const SYSTEM: &str = "/etc/reconciled/config.yaml";

/// Finds the configuration: `--config`, `$RECONCILED_CONFIG`, `$XDG_CONFIG_HOME/reconciled/config.yaml`,
/// `/etc/reconciled/config.yaml`.
///
/// Guarantees: the path is absolute, and so is every path that the file means beside itself. They are written into hooks and told
/// to helpers, whose working directories are others.
///
/// Errors: a file that was named explicitly must exist; otherwise the first of the others that exists counts,
/// and the error for "none" names all four and shows a file to paste.
pub fn locate(argument: Option<&Path>, environment: &Environment) -> Result<PathBuf, LocateError> {
    let named = |path: &Path, by| match from_root(path) {
        Ok(found) if found.is_file() => Ok(found),
        _ if path.is_dir() => Err(LocateError::Directory { path: path.to_path_buf(), by }),
        _ => Err(LocateError::Missing { path: path.to_path_buf(), by }),
    };
    if let Some(path) = argument {
        return named(path, "--config");
    }
    if let Some(path) = environment.var("RECONCILED_CONFIG") {
        return named(Path::new(path), "$RECONCILED_CONFIG");
    }
    let user = environment.xdg("XDG_CONFIG_HOME", ".config").map(|path| path.join("reconciled/config.yaml"));
    let system = PathBuf::from(SYSTEM);
    if let Some(path) = user.iter().chain([&system]).find(|path| path.is_file()) {
        return Ok(path.clone());
    }
    let user =
        user.map_or_else(|| "neither it nor $HOME is set".to_string(), |path| path.display().to_string());
    let places = vec![
        "  --config FILE            not given".to_string(),
        "  $RECONCILED_CONFIG       not set".to_string(),
        format!("  $XDG_CONFIG_HOME         {user}"),
        format!("  system                   {SYSTEM}"),
    ];
    Err(LocateError::None { places })
}

/// The path of a file from the root, without `..` where it was relative: verbs tell by its path whether a state is the daemon's.
fn from_root(path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        _ if path.is_absolute() => Ok(path.to_path_buf()),
        (Some(folder), Some(name)) => {
            let here = Path::new(".");
            let folder = if folder == Path::new("") { here } else { folder };
            Ok(fs::canonicalize(folder)?.join(name))
        }
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// A directory that the environment names, from the root.
pub(super) fn from_here(directory: &str) -> PathBuf {
    path::absolute(directory).unwrap_or_else(|_| PathBuf::from(directory))
}

/// A path as the configuration file at `config` means it: a relative one is beside that file, wherever somebody runs a verb. A state
/// that moved with the working directory would be another one in each, with nothing suspended and nothing remembered.
pub fn beside(config: Option<&Path>, path: &Path) -> PathBuf {
    match config.and_then(Path::parent) {
        Some(folder) if path.is_relative() => {
            // `./state` and `state` are one place, in what is said as well.
            let plain: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
            folder.join(plain)
        }
        _ => path.to_path_buf(),
    }
}

/// Where state is kept: as `configured`, else `$STATE_DIRECTORY`, else `/var/lib/reconciled` for root or a
/// configuration in /etc, else `$XDG_STATE_HOME/reconciled`.
pub fn state_dir(configured: Option<&Path>, config: Option<&Path>, environment: &Environment) -> PathBuf {
    if let Some(path) = configured {
        return beside(config, path);
    }
    // systemd joins several state directories by colons; the first is ours.
    if let Some(path) = environment.var("STATE_DIRECTORY").and_then(|list| list.split(':').next()) {
        return from_here(path);
    }
    if environment.uid == 0 || config.is_some_and(|path| path.starts_with("/etc")) {
        return PathBuf::from("/var/lib/reconciled");
    }
    match environment.xdg("XDG_STATE_HOME", ".local/state") {
        Some(path) => path.join("reconciled"),
        None => PathBuf::from("/var/lib/reconciled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_none_names_all_four_places_and_shows_a_file_that_parses() {
        let environment = Environment::of([("HOME", "/nowhere")]);
        let text = locate(None, &environment).unwrap_err().to_string();
        for word in ["--config", "$RECONCILED_CONFIG", "/nowhere/.config/reconciled/config.yaml", SYSTEM] {
            assert!(text.contains(word), "{text}");
        }
        let file = reconciled_provider::SourceFile::new("c.yaml", MINIMAL);
        let (config, problems) = crate::config::parse(file.into(), &environment);
        assert_eq!((config.is_some(), problems), (true, vec![]));
    }

    #[test]
    fn a_named_file_must_exist_and_others_are_not_tried() {
        let folder = tempfile::tempdir().unwrap();
        let user = folder.path().join("reconciled/config.yaml");
        fs::create_dir_all(user.parent().unwrap()).unwrap();
        fs::write(&user, "").unwrap();
        let home = folder.path().to_str().unwrap();
        assert_eq!(locate(None, &Environment::of([("XDG_CONFIG_HOME", home)])), Ok(user));
        let both = Environment::of([("XDG_CONFIG_HOME", home), ("RECONCILED_CONFIG", "/nowhere/c.yaml")]);
        assert!(locate(None, &both).unwrap_err().to_string().contains("$RECONCILED_CONFIG"));
        let told = locate(Some(folder.path()), &both).unwrap_err();
        assert!(told.to_string().contains("is a directory"), "{told}");
        assert_eq!(told.hint().unwrap(), format!("name the file in it: --config {home}/config.yaml"));
    }

    #[test]
    fn a_file_that_was_named_from_here_is_found_from_everywhere() {
        // What a test of this package has in its working directory.
        let manifest = fs::canonicalize("Cargo.toml").unwrap();
        let found = |text: &str| locate(Some(Path::new(text)), &Environment::default());
        for text in ["Cargo.toml", "./Cargo.toml", "src/../Cargo.toml"] {
            assert_eq!(found(text), Ok(manifest.clone()), "{text}");
        }
        let variable = Environment::of([("RECONCILED_CONFIG", "Cargo.toml")]);
        assert_eq!(locate(None, &variable), Ok(manifest.clone()));
        for missing in ["nowhere/c.yaml", ""] {
            assert_eq!(
                found(missing),
                Err(LocateError::Missing { path: missing.into(), by: "--config" }),
                "it is told as it was written"
            );
        }
        let variables = Environment::of([("STATE_DIRECTORY", "state")]);
        assert_eq!(state_dir(None, Some(&manifest), &variables), manifest.with_file_name("state"));
    }

    #[test]
    fn the_state_directory_follows_configuration_systemd_user_and_home() {
        let check = |variables: &[(&str, &str)], uid, config: &str, expect: &str| {
            let mut environment = Environment::of(variables.iter().copied());
            environment.uid = uid;
            assert_eq!(state_dir(None, Some(Path::new(config)), &environment), Path::new(expect));
        };
        check(&[("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")], 1, "c", "/var/lib/a");
        check(&[], 0, "c", "/var/lib/reconciled");
        check(&[("HOME", "/home/u")], 1, "/etc/reconciled/config.yaml", "/var/lib/reconciled");
        check(&[("HOME", "/home/u")], 1, "c", "/home/u/.local/state/reconciled");
        check(&[("XDG_STATE_HOME", "/s"), ("HOME", "/home/u")], 1, "c", "/s/reconciled");
        assert_eq!(state_dir(Some(Path::new("/x")), None, &Environment::default()), Path::new("/x"));
        for (config, configured, expect) in [
            ("/home/a/c.yaml", "./state", "/home/a/state"),
            ("/home/a/c.yaml", "../s", "/home/a/../s"),
            ("/home/a/c.yaml", "/s", "/s"),
            ("c.yaml", "state", "state"),
        ] {
            let found =
                state_dir(Some(Path::new(configured)), Some(Path::new(config)), &Environment::default());
            assert_eq!(found, Path::new(expect));
        }
    }
}
