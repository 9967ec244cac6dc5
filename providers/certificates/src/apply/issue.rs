//! One step at one issuer: what it gives is checked, and kept before it is put anywhere.

use crate::{
    compare::{self, Difference},
    deliver,
    desk::{Desk, Records, SIBLING, Step, patience},
    kept::{Issued, Private},
    key, observe,
    refuse::Refusal,
    renewal, sign,
    wish::{Issue, Solver, Wish},
    x509::{self, Facts},
};
use reconciled_provider::{Error, Secret};
use std::{collections::BTreeSet, time::Duration};

impl Desk<'_> {
    /// One step at one issuer.
    pub(crate) async fn issue_by(
        &self,
        name: &str,
        wish: &Wish,
        records: &Records,
        why: &[Difference],
    ) -> Result<Step, Error> {
        if let Some(step) = self.left_alone(name, wish, records)? {
            return Ok(step);
        }
        let attempt = self.begin(name, wish, why).await?;
        let now = self.cx.clock.now().as_secs();
        let ca = match &wish.issuer {
            Issue::Certificate(_) | Issue::Secret { .. } => {
                match observe::signing(self.cx, self.keep, &wish.issuer)? {
                    Some(ca) => Some(ca),
                    None => {
                        return Ok(Step::Waiting(patience(SIBLING, attempt.begun_at, now), Vec::new()));
                    }
                }
            }
            Issue::SelfSigned | Issue::Acme(_) => None,
        };
        let key = attempt.key.secret();
        let order = attempt.order.clone();
        let signed = match (&wish.issuer, ca) {
            (Issue::Acme(authority), _) => {
                match self.acme.advance(self, name, wish, authority, attempt, &records.carried).await {
                    Ok(Step::Issued(signed)) => {
                        self.effects.note();
                        signed
                    }
                    // Without an order no record proves anything: they go before it is said why there is none.
                    Ok(Step::Barred(_)) | Err(_) if records.are_claimed() && !self.has_order(name)? => {
                        return Ok(Step::Waiting(Duration::ZERO, Vec::new()));
                    }
                    other => return other,
                }
            }
            (_, Some(ca)) => sign::signed(wish, &key, &ca, now)?,
            (_, None) => sign::self_signed(wish, &key, now)?,
        };
        let facts = match verify(wish, &key, &signed.chain, now) {
            Ok(facts) => facts,
            Err(error) => return self.unfit(name, wish, records, order, error).await,
        };
        let before = self.keep.issued(name)?;
        let is_hurried = before.as_ref().is_some_and(|before| is_hurried(wish, before, why, now));
        let account = self.keep.attempt(name)?.and_then(|attempt| attempt.account);
        let mut over = BTreeSet::new();
        for output in before.iter().map(|issued| &issued.wish.output).chain([&wish.output]) {
            over.extend(deliver::version(&*self.config.place, output).await?);
        }
        // Where the files of today are is known until they moved.
        let output = before.as_ref().map_or_else(|| wish.output.clone(), |issued| issued.wish.output.clone());
        let asked = Wish { output, ..wish.clone() };
        let issued = Issued {
            ca: Some(signed.ca.clone()).filter(|ca| !ca.is_empty()),
            issuer: Some(wish.issuer.identity()),
            account,
            is_unplaced: true,
            leaving: before.as_ref().map(|issued| issued.leaving.clone()).unwrap_or_default(),
            adopted: before.as_ref().map(|issued| issued.adopted.clone()).unwrap_or_default(),
            told: before.and_then(|issued| issued.told).filter(|told| *told == facts.fingerprint),
            over,
            ..Issued::new(Private::of(&key)?, signed.chain.clone(), asked)
        };
        let signer = observe::signer(self.cx, self.keep, &wish.issuer);
        let unlike = compare::unlike(wish, &facts, Some(&issued), signer.as_ref(), now);
        let refusal = |message: String| Refusal { name, wish, order, message, bad_key: None };
        match unlike.first() {
            // It may want this one replaced at once as well, and each that follows.
            None if is_hurried => {
                let message = "the one it gave before was new, and it suggested to replace it".into();
                self.refused_while(Some((facts.not_before, facts.not_after)), refusal(message))?;
            }
            None => self.keep.end_refusals(name)?,
            // It is used, as it is better than none; another one at once would be no better, however soon this one ends.
            Some(first) => {
                let message = format!("the new certificate is not as declared ({first})");
                self.refused_while(None, refusal(message))?;
            }
        }
        self.put_issued(name, &issued)?;
        // With another key of its own it has signed nothing yet.
        self.watches.wake_signed_by(name);
        (self.config.passed)("certificate.kept");
        self.end_attempt(name).await?;
        self.keep.end_busy(name)?;
        if wish.issuer.authority().is_none_or(|by| by.solvers.iter().all(|(_, how)| *how != Solver::Persist))
        {
            self.keep.end_lasting(name)?;
        }
        // One that was asked for since then is for this certificate, and stands.
        if self.keep.renewal(name)?.is_some_and(|asked| asked.fingerprint != facts.fingerprint) {
            self.keep.end_renewal(name)?;
        }
        Ok(Step::Issued(signed))
    }

    fn has_order(&self, name: &str) -> Result<bool, Error> {
        Ok(self.keep.attempt(name)?.is_some_and(|attempt| attempt.order.is_some()))
    }

    /// Lets go of what came and cannot be used: the next one is asked for as after a refusal.
    async fn unfit(
        &self,
        name: &str,
        wish: &Wish,
        records: &Records,
        order: Option<String>,
        error: Error,
    ) -> Result<Step, Error> {
        self.refused(Refusal { name, wish, order, message: error.chain(), bad_key: None })?;
        // An order that is done gives the same certificate for ever.
        self.end_attempt(name).await?;
        if records.are_claimed() {
            return Ok(Step::Waiting(Duration::ZERO, Vec::new()));
        }
        let until = self.keep.refusals(name)?.until;
        let left = until.saturating_sub(self.cx.clock.now().as_secs());
        Err(error.retry_after(Duration::from_secs(left)))
    }
}

/// Says whether what came is what was asked for.
///
/// Errors: `Unavailable` when it is not: another one may be.
fn verify(wish: &Wish, key: &Secret, chain: &str, now: u64) -> Result<Facts, Error> {
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

/// True when nothing but a moment that the authority suggested is a reason to replace a certificate, which is new.
fn is_hurried(wish: &Wish, today: &Issued, why: &[Difference], now: u64) -> bool {
    let is_suggested = |facts: Facts| {
        let usual = renewal::due_at(facts.not_before, facts.not_after, wish.renew, None);
        now < usual && renewal::is_new(facts.not_before, facts.not_after, now)
    };
    !why.is_empty() && why.iter().all(|why| why.path == "notAfter") && today.facts().is_ok_and(is_suggested)
}
