//! A certificate is begun, with a key that is on disk before anybody hears of it; and what came of it is checked.

use super::Desk;
use crate::{
    acme::Counts,
    compare::Difference,
    kept::{Attempt, Issued, Private},
    key,
    wish::Wish,
    x509,
};
use reconciled_provider::{Error, Hash, Secret};
use std::collections::BTreeSet;

impl Desk<'_> {
    /// What was begun for this wish, or a new beginning; durable when this returns.
    pub(super) async fn begin(&self, name: &str, wish: &Wish, why: &[Difference]) -> Result<Attempt, Error> {
        let material = wish.material();
        let begun = self.keep.attempt(name)?;
        let issued = self.keep.issued(name)?;
        // One that was finished when the process died would give the same key again, which somebody may have seen.
        let is_finished = |attempt: &Attempt| {
            !wish.keep_key && issued.as_ref().is_some_and(|issued| issued.key.is(&attempt.key))
        };
        let refusals = self.keep.refusals(name)?;
        let bad_key = refusals.bad_key.filter(|_| refusals.material == material);
        let is_bad = |key: &Private| bad_key.is_some() && hash(&key.secret()).ok() == bad_key;
        let is_over = |issued: &Issued| issued.suggested.as_ref().is_some_and(|suggested| suggested.is_over);
        let is_taken_back =
            |key: &Private| issued.as_ref().is_some_and(|issued| is_over(issued) && issued.key.is(key));
        let is_of_use = |it: &Attempt| {
            it.material == material && !is_finished(it) && !is_bad(&it.key) && !is_taken_back(&it.key)
        };
        if let Some(attempt) = begun.filter(is_of_use) {
            return Ok(attempt);
        }
        self.end_attempt(name).await?;
        // One that another certificate stands beside is not kept, and none that the authority took back or will not have.
        let is_torn = why.iter().any(|difference| difference.path == "certificate");
        let is_fit = |issued: &Issued| !is_torn && !is_over(issued) && !is_bad(&issued.key);
        let key = match issued.filter(|issued| wish.keep_key && is_fit(issued)) {
            Some(issued) => issued.key.secret(),
            None => key::make(wish.key).await?,
        };
        let attempt = Attempt {
            material,
            key: Private::of(&key)?,
            request: None,
            begun_at: self.cx.clock.now().as_secs(),
            order: None,
            ordered_at: 0,
            account: None,
            asked_at: None,
            is_counted: false,
            counts: Counts::default(),
            lost: 0,
            challenges: Vec::new(),
            answers: Vec::new(),
            made: BTreeSet::new(),
        };
        self.keep.put_attempt(name, &attempt)?;
        Ok(attempt)
    }
}

/// Names the public half of a key.
pub(crate) fn hash(key: &Secret) -> Result<Hash, Error> {
    Ok(Hash::of(&key::public("the key of the certificate", key)?))
}

/// Says whether what came is what was asked for.
///
/// Errors: `Unavailable` when it is not: another one may be.
pub(super) fn verify(wish: &Wish, key: &Secret, chain: &str, now: u64) -> Result<x509::Facts, Error> {
    let wrong = |why: &str| Error::unavailable(format!("what the issuer gave for {} {why}", wish.subject()));
    let facts = x509::leaf("it", chain).map_err(|error| wrong("is of no use").caused_by(error))?;
    if facts.public != key::public("the key of the certificate", key)? {
        return Err(wrong("is for another key"));
    }
    if !wish.names.is_subset(&facts.names) || !wish.addresses.is_subset(&facts.addresses) {
        return Err(wrong("is not for all of its names"));
    }
    if facts.not_after <= now {
        return Err(wrong("is over already").hint("is the clock of this machine right?"));
    }
    // What a person gave to sign with is their own.
    if wish.issuer.authority().is_some() {
        x509::check_order(&x509::chain("it", chain)?).map_err(|why| wrong(&why))?;
    }
    Ok(facts)
}
