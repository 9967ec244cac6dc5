//! A certificate is begun, with a key that is on disk before anybody hears of it; and what was begun is let go of.

use crate::{
    acme,
    compare::Difference,
    desk::Desk,
    kept::{Attempt, Counts, Issued, Private},
    key,
    wish::Wish,
};
use reconciled_provider::Error;
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
        let is_bad = |key: &Private| bad_key.is_some() && key::hash(&key.secret()).ok() == bad_key;
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
            garbled: None,
            lost: 0,
            challenges: Vec::new(),
            answers: Vec::new(),
            made: BTreeSet::new(),
        };
        self.keep.put_attempt(name, &attempt)?;
        Ok(attempt)
    }

    /// True when an order is under way at any issuer.
    pub(super) fn is_ordered(&self, name: &str) -> Result<bool, Error> {
        let mut begun = self.keep.issuers(name)?.into_iter().map(|keep| keep.attempt(name));
        begun.try_fold(false, |is_ordered, attempt| {
            Ok(is_ordered || attempt?.is_some_and(|attempt| attempt.order.is_some()))
        })
    }

    /// Forgets what was begun at any issuer.
    pub(crate) async fn end_attempts(&self, name: &str) -> Result<(), Error> {
        for keep in &self.keep.issuers(name)? {
            Desk { keep, ..*self }.end_attempt(name).await?;
        }
        Ok(())
    }

    /// Forgets what was begun, and takes away what proved its names.
    pub(crate) async fn end_attempt(&self, name: &str) -> Result<(), Error> {
        if let Some(attempt) = self.keep.attempt(name)? {
            if attempt.order.is_some() {
                self.effects.note();
            }
            acme::remove_answers(&*self.config.place, &attempt).await?;
        }
        self.keep.end_attempt(name)
    }
}
