//! What is in place is newer than what is kept: the state directory was restored from a backup that is older than it.
//!
//! What is in place then is the only copy of its key, and would be replaced by an older certificate. So it is taken over
//! where it is one that would do, and else copied, before anything is put there.

use crate::{
    compare,
    deliver::View,
    desk::Desk,
    found::{Theirs, found},
    kept::Issued,
    observe,
    wish::Wish,
};
use reconciled_provider::Error;
use std::collections::BTreeSet;

impl Desk<'_> {
    /// Looks whether the version in place is newer than what is kept, and loses nothing of it.
    pub(super) fn keep_newer(&self, name: &str, wish: &Wish, view: &View) -> Result<(), Error> {
        let Some(kept) = self.keep.issued(name)? else { return Ok(()) };
        let is_ours = view.is_of(&self.keep.mark(name))?;
        let Some(version) = view.version().filter(|_| is_ours) else { return Ok(()) };
        let Theirs::Files(found) = found(wish, view)? else { return Ok(()) };
        let Ok(facts) = found.facts() else { return Ok(()) };
        let before = kept.facts().ok();
        let is_later = before.as_ref().is_none_or(|before| before.not_before < facts.not_before);
        // Issuers date back, and one more than another: a certificate that is newer than what it is to replace may say that
        // it is older.
        if kept.over.contains(version) {
            return Ok(());
        }
        // What somebody wrote into a version of ours is no version of ours.
        if !is_later || !facts.fingerprint.starts_with(version) {
            return Ok(());
        }
        // Who issued it is not written down there.
        let is_alike = before.as_ref().is_some_and(|before| {
            (&before.issuer, &before.authority) == (&facts.issuer, &facts.authority)
                && (&before.names, &before.addresses) == (&facts.names, &facts.addresses)
        });
        let newer = Issued {
            issuer: kept.issuer.clone().filter(|_| is_alike),
            account: kept.account.clone().filter(|_| is_alike),
            wish: kept.wish.clone(),
            leaving: kept.leaving.clone(),
            adopted: kept.adopted.clone(),
            told: None,
            told_units: BTreeSet::new(),
            restarted_units: BTreeSet::new(),
            ..*found
        };
        let signer = observe::signer(self.cx, self.keep, wish.issuer_of(newer.issuer.as_deref()));
        let now = self.cx.clock.now().as_secs();
        let unlike = compare::unlike(wish, &facts, Some(&newer), signer.as_ref(), now);
        let lasts = before.is_none_or(|before| before.not_after < facts.not_after);
        match lasts && newer.is_of_key() && unlike.iter().all(|difference| difference.renews) {
            true => self.put_issued(name, &newer),
            false => self.keep_theirs(name, wish, view),
        }
    }
}
