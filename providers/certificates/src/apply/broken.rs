//! What is kept can be read by nobody any more: a disk broke it, or a person. It is set aside, so that nothing has to wait for it,
//! and nothing of it is deleted. The pair in place takes the place of the certificate in use; what was begun is begun anew.
//!
//! Deliberately not of accounts: another one may not be had without a person, and no certificate that is there needs one.

use crate::{
    deliver::View,
    desk::{Desk, address},
    found::{found, left_of, pair_of},
    kept::{Issued, Unread},
    wish::Wish,
};
use reconciled_provider::Error;
use std::path::Path;

impl Desk<'_> {
    /// Sets aside what is broken of what is kept of the certificate `name`.
    ///
    /// Errors: `Unavailable` where a key would be lost by that which has to stay.
    pub(super) fn set_broken_aside(&self, name: &str, wish: &Wish, view: &View) -> Result<(), Error> {
        for path in self.keep.broken_besides(name)? {
            let hint =
                "what was begun is begun anew; a renewal that a person asked for has to be asked for again";
            self.set_aside(name, &path, hint)?;
        }
        let pair = match self.keep.in_use(name) {
            Err(Unread::Broken(path)) => {
                let pair = left_of(&path, wish, found(wish, view)?)?;
                let hint = match pair {
                    Some(_) => "the certificate and key in place are taken over",
                    None => "it may hold the only copy of its key; another certificate is issued",
                };
                self.set_aside(name, &path, hint)?;
                pair
            }
            // A process that died came no further.
            Ok(None) if self.keep.is_set_aside(name) => pair_of(found(wish, view)?),
            // What cannot be looked at is told by who needs it next.
            Ok(_) | Err(Unread::Failed(_)) => return Ok(()),
        };
        let Some(pair) = pair.filter(|_| view.is_of(&self.keep.mark(name)).unwrap_or_default()) else {
            return Ok(());
        };
        let fingerprint = pair.facts()?.fingerprint;
        // It is as we put it there, so it is kept however soon it is due: until then its end is told.
        let is_as_put = view.version().is_some_and(|version| fingerprint.starts_with(version));
        // And so is what was taken over and has the key that has to stay.
        match is_as_put || wish.is_ca || wish.keep_key {
            true => self.put_issued(name, &Issued { told: Some(fingerprint), ..*pair }),
            false => Ok(()),
        }
    }

    pub(super) fn set_aside(&self, name: &str, path: &Path, hint: &str) -> Result<(), Error> {
        self.effects.note();
        let kept_as = self.keep.set_aside(path)?;
        let (certificate, kept_as) = (address(name), kept_as.display());
        tracing::warn!(%certificate, %kept_as, hint, "a broken file of a certificate was set aside");
        Ok(())
    }
}
