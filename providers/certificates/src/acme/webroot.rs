//! Answers over HTTP from files below the directory of a web server (RFC 8555 §8.3), which has the port.
//!
//! Guarantees: that a file is to be put there is on disk before it is, so that none stays behind; nothing is written through a
//! link, nor where others may write, nor outside of what the host allows.

use crate::{Config, directory, kept::Attempt};
use reconciled_provider::Error;
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Where a web server is asked for answers.
const BELOW: &str = ".well-known/acme-challenge";

/// The file with the answer for `token`.
///
/// Errors: `Invalid` where the host does not allow it, or a token is no name of a file.
pub(super) fn file(config: &Config, webroot: &str, token: &str) -> Result<PathBuf, Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if token.is_empty() || token.len() > 255 || !token.chars().all(is_plain) {
        return Err(Error::invalid("the authority gave a token that RFC 8555 does not allow"));
    }
    let path = format!("{webroot}/{BELOW}/{token}");
    if crate::config::check_path(&path).is_err() || !config.allows(&path) {
        let message = format!("`webroot: {webroot}` is in none of the directories for certificates");
        let hint = format!("the host allows {}: `paths` of the provider", config.paths.join(", "));
        return Err(Error::invalid(message).hint(hint));
    }
    Ok(path.into())
}

/// Puts an answer there.
pub(super) fn put(path: &Path, answer: &str) -> Result<(), Error> {
    let above = path.parent().unwrap_or(Path::new("/"));
    directory::make(above)?;
    let write = || -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(answer.as_bytes())
    };
    write().map_err(|error| crate::deliver::refused(above, error))
}

/// Takes the answers of an attempt away again.
pub(crate) fn remove(attempt: &Attempt) -> Result<(), Error> {
    for path in &attempt.answers {
        match fs::remove_file(path) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                let message = format!("remove {}", path.display());
                return Err(Error::unavailable(message).caused_by(error));
            }
            _ => {}
        }
        // Directories that were made for it go with it, unless there is more in them.
        let above: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
        above.into_iter().take_while(|path| fs::remove_dir(path).is_ok()).count();
    }
    Ok(())
}
