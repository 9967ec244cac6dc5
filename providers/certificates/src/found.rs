//! What is in the directory of a certificate, as if somebody else had put it there: so is what is adopted, and what is left of a
//! certificate where what was kept of it is lost.

use crate::{
    deliver::{self, There, View},
    kept::{Issued, Keep, Private},
    key,
    wish::Wish,
};
use reconciled_provider::{Error, Secret};
use std::path::Path;

/// What somebody else put where a certificate goes.
pub(crate) enum Theirs {
    Nothing,
    /// Something that is not read, in words for people.
    NoFiles(String),
    Files(Box<Issued>),
}

/// What is in the directory of a certificate, as if somebody else had put it there.
pub(crate) fn found(wish: &Wish, view: &View) -> Result<Theirs, Error> {
    let found = deliver::found(view, &wish.output)?;
    if found.is_empty() {
        return Ok(Theirs::Nothing);
    }
    let needed = found.iter().filter(|(name, _)| [deliver::CHAIN, deliver::KEY].contains(name));
    let mut words = needed.filter_map(|(name, there)| Some(format!("{name} is {}", there.word()?)));
    if let Some(what) = words.next() {
        return Ok(Theirs::NoFiles(what));
    }
    let bytes = |name: &str| match found.iter().find(|(found, _)| *found == name) {
        Some((_, There::File(bytes))) => &bytes[..],
        _ => &[],
    };
    let text = |name: &str| String::from_utf8_lossy(bytes(name)).into_owned();
    let key = Secret::new(bytes(deliver::KEY).to_vec());
    // Most of cert-manager's are PKCS #1.
    let key = Private::of(&key::newer(&key).unwrap_or(key));
    let ca = text(deliver::CA);
    let key = key.or_else(|_| Private::of(&Secret::new(Vec::new())))?;
    let ca = (!ca.is_empty()).then_some(ca);
    Ok(Theirs::Files(Box::new(Issued { ca, ..Issued::new(key, text(deliver::CHAIN), wish.clone()) })))
}

/// Takes a certificate that somebody else put there into what is kept, if it is good.
pub(crate) fn take_over(keep: &Keep, name: &str, wish: &Wish, view: &View) -> Result<(), Error> {
    let Theirs::Files(issued) = found(wish, view)? else { return Ok(()) };
    let told = issued.facts()?.fingerprint;
    keep.put_issued(name, &Issued { told: Some(told), ..*issued })
}

/// Certificate and key, where one is of the other.
pub(crate) fn pair_of(theirs: Theirs) -> Option<Box<Issued>> {
    match theirs {
        Theirs::Files(issued) => Some(issued).filter(|issued| issued.is_of_key()),
        Theirs::Nothing | Theirs::NoFiles(_) => None,
    }
}

/// The pair that is in place of a certificate of which what is kept, at `path`, is broken; none where what is there is no pair.
///
/// Errors: `Unavailable` where that may be the only copy of a key that no other one can take the place of.
pub(crate) fn left_of(path: &Path, wish: &Wish, theirs: Theirs) -> Result<Option<Box<Issued>>, Error> {
    let pair = pair_of(theirs);
    if pair.is_none() && (wish.is_ca || wish.keep_key) {
        let (path, directory) = (path.display(), &wish.output.directory);
        let message = format!("{path} is broken, and no pair in {directory} has its key, which has to stay");
        return Err(Error::unavailable(message).hint(
            "restore one of the two from a backup; if the key is lost, move that file away: then one is issued with another key",
        ));
    }
    Ok(pair)
}
