//! Answers over HTTP from files below the directory of a web server (RFC 8555 §8.3), which has the port.
//!
//! Guarantees: that a file is to be put there, and which directories are missing for it, is on disk before they are, so that
//! none stays behind; nothing is written through a link, nor where others may write, nor outside of what the host allows; no
//! file or directory of somebody else is replaced or removed.

use crate::{
    Config,
    directory::{self, Content, see},
    kept::Attempt,
    place::Spot,
};
use reconciled_provider::Error;
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Where a web server is asked for answers.
const BELOW: &str = ".well-known/acme-challenge";
/// How often a file is put there that others keep from being put.
const TRIES: usize = 5;

/// The file with the answer for `token`.
///
/// Errors: `Invalid` where the host does not allow it, or a token is no name of a file.
pub(super) fn file(config: &Config, webroot: &str, token: &str) -> Result<PathBuf, Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if token.is_empty() || token.len() > 255 || !token.chars().all(is_plain) {
        return Err(Error::invalid("the authority gave a token that RFC 8555 does not allow"));
    }
    let path = format!("{webroot}/{BELOW}/{token}");
    if crate::config::check_path(&path).is_err() || !config.allows_answer(&path) {
        let message = format!("`webroot: {webroot}` is in none of the directories for certificates");
        let hint = format!("the host allows {}: `paths` of the provider", config.allowed());
        return Err(Error::invalid(message).hint(hint));
    }
    Ok(path.into())
}

/// Directories below the one of the web server that are missing for a file.
pub(super) fn missing(file: &Path) -> Vec<PathBuf> {
    let ours: Vec<&Path> = file.ancestors().skip(1).take(2).collect();
    let missing = directory::missing(file.parent().unwrap_or(Path::new("/")));
    missing.into_iter().filter(|path| ours.contains(path)).map(Path::to_owned).collect()
}

/// Puts an answer there.
///
/// Errors: `Invalid` where somebody else's file has the name.
pub(super) fn put(path: &Path, answer: &str) -> Result<(), Error> {
    let above = path.parent().unwrap_or(Path::new("/"));
    for _ in 0..TRIES {
        directory::make(above)?;
        match write(path, answer) {
            // Another certificate took the directory away just now, with its own answer.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Of a process that died, or of this one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match is_ours(path)? {
                true => remove_file(path)?,
                false => {
                    let message = format!("{} is there already, and is not of ours", path.display());
                    return Err(Error::invalid(message).hint("somebody else put it there: move it away"));
                }
            },
            written => return written.map_err(|error| crate::deliver::refused(above, error)),
        }
    }
    Err(Error::unavailable(format!("put {}: it is taken away again and again", path.display())))
}

fn write(path: &Path, answer: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(answer.as_bytes())
}

/// True when what is there is an answer, or the beginning of one: it begins with its own name and a dot (RFC 8555 §8.1).
fn is_ours(path: &Path) -> Result<bool, Error> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let begin = [name, b"."].concat();
    let seen = match see(path) {
        // Where a directory of the way is none any more there is nothing of ours.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
        Err(error) => {
            return Err(Error::unavailable(format!("read {}", path.display())).caused_by(error));
        }
        Ok(seen) => seen,
    };
    Ok(match seen {
        Spot::File(Content { bytes, .. }) => bytes.starts_with(&begin) || begin.starts_with(&bytes),
        Spot::Nothing => true,
        Spot::Link(_) | Spot::Other | Spot::Huge => false,
    })
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::unavailable(format!("remove {}", path.display())).caused_by(error))
        }
        _ => Ok(()),
    }
}

/// Takes the answers of an attempt away again, and the directories that were made for them, unless there is more in them.
pub(crate) fn remove(attempt: &Attempt) -> Result<(), Error> {
    for path in &attempt.answers {
        if is_ours(path)? {
            remove_file(path)?;
        }
    }
    for path in attempt.made.iter().rev() {
        let _ = fs::remove_dir(path);
    }
    Ok(())
}
