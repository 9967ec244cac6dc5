//! Answers over HTTP from files below the directory of a web server (RFC 8555 §8.3), which has the port.
//!
//! Guarantees: that a file is to be put there, and which directories are missing for it, is on disk before they are, so that
//! none stays behind; nothing is written through a link, nor where others may write, nor outside of what the host allows; no
//! file or directory of somebody else is replaced or removed.

use crate::{
    Config,
    kept::Attempt,
    place::{Content, Place, Spot},
};
use reconciled_provider::{Error, ErrorKind};
use std::path::{Path, PathBuf};

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
    if crate::config::check_path(&path).is_err() || !config.allows(&path) {
        let message = format!("`webroot: {webroot}` is in none of the directories for certificates");
        let hint = format!("the host allows {}: `paths` of the provider", config.allowed());
        return Err(Error::invalid(message).hint(hint));
    }
    Ok(path.into())
}

/// Directories below the one of the web server that are missing for a file.
///
/// Errors: those of a directory to which nothing is written, so that nobody looks for it there later on.
pub(super) async fn missing(place: &dyn Place, file: &Path) -> Result<Vec<PathBuf>, Error> {
    place.trust(above(file)).await?;
    let ours: Vec<PathBuf> = file.ancestors().skip(1).take(2).map(Path::to_owned).collect();
    let seen = place.look(&ours).await?;
    let missing = ours.into_iter().zip(seen).filter(|(_, spot)| matches!(spot, Ok(Spot::Nothing)));
    Ok(missing.map(|(path, _)| path).collect())
}

fn above(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// Puts an answer there.
///
/// Errors: `Invalid` where somebody else's file has the name.
pub(super) async fn put(place: &dyn Place, path: &Path, answer: &str) -> Result<(), Error> {
    let mut last = None;
    for _ in 0..TRIES {
        place.make(above(path)).await?;
        let mut seen = place.look(&[path.to_owned()]).await?;
        let spot = seen.pop().unwrap_or(Ok(Spot::Nothing))?;
        // Of a process that died, or of this one.
        if !matches!(spot, Spot::Nothing) && !is_ours(path, &spot) {
            let message = format!("{} is there already, and is not of ours", path.display());
            return Err(Error::invalid(message).hint("somebody else put it there: move it away"));
        }
        match place.write(path, answer, &spot).await {
            // Another certificate may have taken the directory away just now, with its own answer.
            Err(error) if matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Conflict) => {
                last = Some(error);
            }
            written => return written,
        }
    }
    Err(last.unwrap_or_else(|| Error::unavailable(format!("put {}", path.display()))))
}

/// True when what is there is an answer, or the beginning of one: it begins with its own name and a dot (RFC 8555 §8.1).
fn is_ours(path: &Path, spot: &Spot) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let begin = [name, b"."].concat();
    matches!(spot, Spot::File(Content { bytes, .. }) if bytes.starts_with(&begin) || begin.starts_with(bytes))
}

fn is_out_of_reach(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::PermissionDenied | ErrorKind::Conflict)
}

/// Takes an answer away again, and what was begun beside it.
async fn take(place: &dyn Place, path: &Path) -> Result<(), Error> {
    place.trust(above(path)).await?;
    let spot = place.look(&[path.to_owned()]).await?.pop().unwrap_or(Ok(Spot::Nothing))?;
    match spot == Spot::Nothing || is_ours(path, &spot) {
        true => place.remove(path, &spot).await,
        false => Ok(()),
    }
}

/// Takes the answers of an attempt away again, and the directories that were made for them, unless there is more in them.
pub(crate) async fn remove(place: &dyn Place, attempt: &Attempt) -> Result<(), Error> {
    if attempt.answers.is_empty() {
        return Ok(());
    }
    for path in &attempt.answers {
        match take(place, path).await {
            // Where a directory of the way is none any more there is nothing of ours, nor where something else is now. What may
            // not be looked at may not be removed either, and through a link of somebody's nothing is: an answer proves nothing
            // without its key, and keeps no certificate from being put in place.
            Err(error) if is_out_of_reach(error.kind) => {}
            taken => taken?,
        }
    }
    let mut made: Vec<_> = attempt.made.iter().collect();
    made.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    for path in made {
        let _ = place.remove_empty(path).await;
    }
    Ok(())
}
