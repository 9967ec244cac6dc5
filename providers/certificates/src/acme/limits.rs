//! How much an authority gives in a while, counted here as well: who runs into its limits waits for days.
//!
//! Guarantees: an order counts for the certificate that it may lead to, on disk before the authority is asked, until it is
//! refused, so that many orders at a time are not more than one after the other; and no other wish, other name of a manifest or
//! `renew` makes it less. The limits are those of Let's Encrypt: 300 orders of an account in 3 hours, 50 certificates for a
//! registered domain and 5 for exactly the same names in 7 days, 5 failures for a name in an hour; a renewal that says which
//! certificate it replaces counts for none of them but the last. Each is a bucket that fills up again all the time.
//!
//! It deliberately knows no list of public suffixes: below a short second-level name of a country (`co.uk`) a domain has three
//! labels, else two. Where that is wrong, domains are counted together, and it is too careful.

use crate::{kept::Keep, wish::Wish};
use reconciled_provider::{Error, Hash};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

const HOUR: u64 = 3_600;
const WEEK: u64 = 7 * 24 * HOUR;

/// So many in so many seconds.
#[derive(Clone, Copy)]
struct Limit(u64, u64);

const ORDERS: Limit = Limit(300, 3 * HOUR);
const DOMAIN: Limit = Limit(50, WEEK);
const SAME_NAMES: Limit = Limit(5, WEEK);
const FAILURES: Limit = Limit(5, HOUR);

impl Limit {
    /// What one costs, in seconds until it is there again.
    fn cost(self) -> u64 {
        self.1 / self.0
    }
    /// How long to wait for one where `full_at` is when all are there again.
    fn wait(self, full_at: u64, now: u64) -> u64 {
        // A clock that went back is no reason to wait longer than an empty bucket does.
        full_at.min(now + self.1).saturating_sub(now + self.1 - self.cost())
    }
}

/// The buckets of one authority; one at a time changes them.
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<()>);

/// What a bucket is of, in words for people, and its limit.
type Bucket = (String, Limit);

impl Limits {
    /// Counts an order and the certificate that it may lead to, unless one of the limits has been reached. One that replaces
    /// a certificate is only checked.
    ///
    /// Errors: `RateLimited`, with how long to wait.
    pub(super) fn order(
        &self,
        keep: &Keep,
        server: &str,
        wish: &Wish,
        now: u64,
        replaces: bool,
    ) -> Result<(), Error> {
        let mut needed: Vec<Bucket> = wish.names.iter().map(|name| (failures(name), FAILURES)).collect();
        if !replaces {
            needed.extend(certificates(wish));
            needed.push(("orders".into(), ORDERS));
        }
        self.change(keep, server, now, |full| {
            let wait = |(name, limit): &Bucket| limit.wait(full.get(name).copied().unwrap_or(now), now);
            if let Some(longest) = needed.iter().max_by_key(|bucket| wait(bucket)).filter(|bucket| wait(bucket) > 0) {
                let (name, Limit(most, span)) = longest;
                let span = crate::duration::show(*span);
                let message = format!("{server} gives {most} {name} in {span}, and they are used up");
                return Err(Error::rate_limited(message).retry_after(Duration::from_secs(wait(longest))).hint(
                    "counted here, so that the authority does not refuse for longer; if its limits are others, write \
                     `limits: none` for the provider entry",
                ));
            }
            if !replaces {
                take(full, &("orders".into(), ORDERS), now);
                certificates(wish).iter().for_each(|bucket| take(full, bucket, now));
            }
            Ok(())
        })
    }

    /// An order that was counted came to no certificate.
    pub(super) fn give_back(&self, keep: &Keep, server: &str, wish: &Wish, now: u64) -> Result<(), Error> {
        self.change(keep, server, now, |full| {
            for (name, limit) in certificates(wish) {
                full.entry(name).and_modify(|at| *at = at.saturating_sub(limit.cost()));
            }
            Ok(())
        })
    }

    /// Counts a name that could not be proven.
    pub(super) fn failure(&self, keep: &Keep, server: &str, name: &str, now: u64) -> Result<(), Error> {
        self.change(keep, server, now, |full| {
            take(full, &(failures(name), FAILURES), now);
            Ok(())
        })
    }

    fn change(
        &self,
        keep: &Keep,
        server: &str,
        now: u64,
        change: impl FnOnce(&mut BTreeMap<String, u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _one = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut full = keep.limits(server)?;
        full.retain(|_, at| *at > now);
        let before = full.clone();
        let result = change(&mut full);
        if full != before {
            keep.put_limits(server, &full)?;
        }
        result
    }
}

fn take(full: &mut BTreeMap<String, u64>, (name, limit): &Bucket, now: u64) {
    let at = full.entry(name.clone()).or_insert(now);
    *at = (*at).max(now) + limit.cost();
}

fn failures(name: &str) -> String {
    format!("failures for {}", name.trim_start_matches("*."))
}

/// The buckets of certificates.
fn certificates(wish: &Wish) -> Vec<Bucket> {
    let domains: BTreeSet<String> = wish.names.iter().map(|name| registered(name)).collect();
    let mut all: Vec<Bucket> =
        domains.into_iter().map(|domain| (format!("certificates for {domain}"), DOMAIN)).collect();
    let hash = Hash::of(wish.subject().as_bytes()).to_string();
    all.push((format!("certificates for exactly these names ({})", &hash[..8]), SAME_NAMES));
    all
}

/// The domain somebody registered, as well as that can be told.
fn registered(name: &str) -> String {
    let labels: Vec<&str> = name.trim_start_matches("*.").rsplit('.').collect();
    let is_public = labels.len() > 2 && labels[0].len() == 2 && labels[1].len() <= 3;
    let mut kept: Vec<&str> = labels.into_iter().take(if is_public { 3 } else { 2 }).collect();
    kept.reverse();
    kept.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_full_at_first_and_fills_up_again() {
        let mut full = BTreeMap::new();
        let bucket = ("x".to_owned(), SAME_NAMES);
        let wait =
            |full: &BTreeMap<String, u64>, now| SAME_NAMES.wait(full.get("x").copied().unwrap_or(now), now);
        for number in 0..5 {
            assert_eq!(wait(&full, 1_000 + number), 0, "{number}");
            take(&mut full, &bucket, 1_000 + number);
        }
        let left = wait(&full, 1_005);
        assert!((WEEK / 5 - 10..=WEEK / 5).contains(&left), "{left}");
        assert_eq!(wait(&full, 1_005 + left), 0);
        assert!(wait(&full, 0) <= WEEK / 5, "a clock that went back");
    }

    #[test]
    fn a_domain_is_what_somebody_registered() {
        let all =
            ["a.b.example.com", "*.example.com", "example.com", "www.example.co.uk", "www.example.de", "com"];
        let expect = ["example.com", "example.com", "example.com", "example.co.uk", "example.de", "com"];
        assert_eq!(all.map(registered), expect);
    }
}
