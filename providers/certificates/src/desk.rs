//! What a pass works with, and how far it gets with a certificate.

use crate::{
    Config,
    acme::Acme,
    heirs::Heirs,
    kept::{Issued, Keep},
    served::Sights,
    sign,
    watch::Watches,
};
use reconciled_provider::{ActionId, Claim, Cx, Error, Journal};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Whether a step did anything that stays, or may have: without that what it failed with had no effect.
#[derive(Debug, Default)]
pub(crate) struct Effects(AtomicBool);

impl Effects {
    /// Something is about to be done that stays.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// True when something was.
    pub(crate) fn are_any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a pass works with.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) config: &'a Config,
    pub(crate) keep: &'a Keep,
    pub(crate) acme: &'a Acme,
    pub(crate) watches: &'a Watches,
    pub(crate) heirs: &'a Heirs,
    pub(crate) sights: &'a Sights,
    pub(crate) effects: &'a Effects,
    /// Whose outcome would make claims, and who knows where these go; none outside of an action.
    pub(crate) claimant: Option<(&'a dyn Journal, ActionId)>,
}

impl Desk<'_> {
    /// Keeps a certificate as it is from now on.
    pub(crate) fn put_issued(&self, name: &str, issued: &Issued) -> Result<(), Error> {
        self.effects.note();
        self.keep.put_issued(name, issued)
    }

    /// Whether there is a place for what proves names, whatever it says.
    ///
    /// Errors: what would become of an order without it.
    pub(crate) fn has_place(&self, claims: &[Claim]) -> Result<(), Error> {
        match self.claimant {
            Some((journal, action)) if !claims.is_empty() => journal.has_place(action, claims),
            _ => Ok(()),
        }
    }
}

/// How far a certificate is.
pub(crate) enum Step {
    /// It was issued.
    Issued(sign::Signed),
    /// It is on its way.
    Waiting(Duration, Vec<Claim>),
    /// The issuer wants nothing to do with our account there, which asking again does not change.
    Barred(Error),
}

/// How the records fare that prove names.
#[derive(Default)]
pub(crate) struct Records {
    /// Keys of claims, carried out or not: they stand until an outcome says that they are not needed.
    pub(crate) claimed: BTreeSet<String>,
    /// Keys of those that are carried out.
    pub(crate) carried: BTreeSet<String>,
}

impl Records {
    /// True when there are claims.
    pub(crate) fn are_claimed(&self) -> bool {
        !self.claimed.is_empty()
    }
    /// True when these are the claims that stand.
    pub(crate) fn are(&self, claims: &[Claim]) -> bool {
        let keys: BTreeSet<&str> = claims.iter().map(|claim| &*claim.key).collect();
        self.claimed.iter().map(String::as_str).eq(keys)
    }
}

/// What a person types for the certificate whose scope is called `name`.
pub(crate) fn address(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((namespace, name)) => format!("{namespace}/Certificate/{name}"),
        None => format!("Certificate/{name}"),
    }
}

/// How long to wait at first for another certificate of ours: one that signs, or one that makes room.
pub(crate) const SIBLING: Duration = Duration::from_secs(2);
/// Longest wait for what is on its way.
const LONGEST: u64 = 300;

/// When to look again at what is waited for since `since`: after `first`, and later the longer it takes.
pub(crate) fn patience(first: Duration, since: u64, now: u64) -> Duration {
    first.max(Duration::from_secs((now.saturating_sub(since) / 4).min(LONGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_begins_with_the_namespace() {
        assert_eq!([address("web"), address("shop/web")], ["Certificate/web", "shop/Certificate/web"]);
    }

    #[test]
    fn what_takes_long_is_looked_at_less_often_and_never_forgotten() {
        let wait = |since: u64| patience(SIBLING, 1_000, 1_000 + since).as_secs();
        assert_eq!([0, 8, 40, 400, 1_000_000].map(wait), [2, 2, 10, 100, 300]);
        assert_eq!(patience(SIBLING, 1_000, 0), SIBLING, "a clock that went back");
    }
}
