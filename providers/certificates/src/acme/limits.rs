//! How much an authority gives in a while, counted here as well: who runs into its limits waits for days.
//!
//! Guarantees: an order counts for the certificate that it may lead to, on disk before the authority is asked, until it is
//! refused, so that many orders at a time are not more than one after the other; and no other wish, other name of a manifest or
//! `renew` makes it less. The limits are those of Let's Encrypt: 300 orders of an account in 3 hours, 50 certificates for a
//! registered domain and 5 for exactly the same names in 7 days, 5 failures for a name in an hour; a renewal that says which
//! certificate it replaces counts for none of them but the last, and one that is only for exactly the same names as before
//! neither as an order nor for a domain. An address is a name among these, and a domain of its own; of IPv6 all of a /64 are one
//! (letsencrypt.org/docs/rate-limits). Each is a bucket that fills up again all the time.
//!
//! It deliberately knows no whole list of public suffixes: below the second level of a country that has one (`co.uk`, a list of
//! the larger ones) a domain has three labels, else two. Where one is missing, domains are counted together, and it is too careful.

use crate::{
    kept::{Counts, Keep},
    wish::Wish,
};
use reconciled_provider::{Error, Hash};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
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
    /// a certificate is only checked for failures.
    ///
    /// Errors: `RateLimited`, with how long to wait.
    pub(super) fn order(
        &self,
        keep: &Keep,
        server: &str,
        wish: &Wish,
        now: u64,
        counts: Counts,
    ) -> Result<(), Error> {
        let mut taken = certificates(wish, counts);
        if counts == Counts::First {
            taken.push(("orders".into(), ORDERS));
        }
        let addresses = wish.addresses.iter().map(IpAddr::to_string);
        let all = wish.names.iter().cloned().chain(addresses);
        let mut needed: Vec<Bucket> = all.map(|name| (failures(&name), FAILURES)).collect();
        needed.extend(taken.iter().cloned());
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
            taken.iter().for_each(|bucket| take(full, bucket, now));
            Ok(())
        })
    }

    /// An order that was counted came to no certificate.
    pub(super) fn give_back(
        &self,
        keep: &Keep,
        server: &str,
        wish: &Wish,
        now: u64,
        counts: Counts,
    ) -> Result<(), Error> {
        self.change(keep, server, now, |full| {
            for (name, limit) in certificates(wish, counts) {
                full.entry(name).and_modify(|at| *at = at.saturating_sub(limit.cost()));
            }
            Ok(())
        })
    }

    /// Counts a name or an address that could not be proven, as the authority spells it.
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
    match name.parse::<IpAddr>() {
        // There are many ways to write one of IPv6.
        Ok(address) => format!("failures for {address}"),
        Err(_) => format!("failures for {}", name.trim_start_matches("*.")),
    }
}

/// The buckets of certificates that an order counts for.
fn certificates(wish: &Wish, counts: Counts) -> Vec<Bucket> {
    let domains: BTreeSet<String> = match counts {
        Counts::First => {
            let networks = wish.addresses.iter().map(|address| network(*address));
            wish.names.iter().map(|name| registered(name)).chain(networks).collect()
        }
        Counts::Again => BTreeSet::new(),
        Counts::Replacing => return Vec::new(),
    };
    let mut all: Vec<Bucket> =
        domains.into_iter().map(|domain| (format!("certificates for {domain}"), DOMAIN)).collect();
    let hash = Hash::of(wish.subject().as_bytes()).to_string();
    all.push((format!("certificates for exactly these names ({})", &hash[..8]), SAME_NAMES));
    all
}

/// Below which names of a country others register theirs (publicsuffix.org, the larger countries).
const SECOND_LEVELS: &[(&str, &str)] = &[
    ("ae", "ac co gov mil net org sch"),
    ("ar", "com edu gob gov int mil net org tur"),
    ("at", "ac co gv or"),
    ("au", "asn com edu gov id net org"),
    ("bo", "com edu gob net org"),
    ("br", "adv art blog com edu eng gov ind mil net org"),
    ("cl", "co gob gov mil"),
    ("cn", "ac com edu gov mil net org"),
    ("co", "com edu gov mil net nom org"),
    ("cr", "ac co ed fi go or sa"),
    ("cy", "ac com gov net org"),
    ("do", "com edu gob gov net org"),
    ("ec", "com edu fin gob gov net org"),
    ("eg", "com edu gov net org"),
    ("es", "com edu gob nom org"),
    ("fr", "asso com gouv nom prd tm"),
    ("gh", "com edu gov org"),
    ("gr", "com edu gov net org"),
    ("gt", "com edu gob net org"),
    ("hk", "com edu gov idv net org"),
    ("hu", "co info org"),
    ("id", "ac biz co go mil my net or sch web"),
    ("il", "ac co gov idf k12 muni net org"),
    ("in", "ac co edu firm gen gov ind net nic org res"),
    ("it", "edu gov"),
    ("jp", "ac ad co ed go gr lg ne or"),
    ("ke", "ac co go info me mobi ne or sc"),
    ("kr", "ac co go mil ne or pe re sc"),
    ("kz", "com edu gov mil net org"),
    ("lk", "ac com edu gov net org sch"),
    ("ma", "ac co gov net org press"),
    ("mx", "com edu gob net org"),
    ("my", "com edu gov mil name net org"),
    ("ng", "com edu gov mil net org sch"),
    ("nz", "ac co geek gen govt iwi maori mil net org school"),
    ("pe", "com edu gob mil net nom org"),
    ("ph", "com edu gov mil net ngo org"),
    ("pk", "com edu gov net org"),
    ("pl", "com edu gov info net org"),
    ("pt", "com edu gov int net nome org publ"),
    ("py", "com edu gov net org"),
    ("rs", "ac co edu gov in org"),
    ("sa", "com edu gov net org"),
    ("sg", "com edu gov net org per"),
    ("sv", "com edu gob org"),
    ("th", "ac co go in mi net or"),
    ("tr", "av bel biz com edu gen gov info k12 mil name net org pol tel tv web"),
    ("tw", "com edu gov idv mil net org"),
    ("tz", "ac co go me ne or sc"),
    ("ua", "com edu gov in net org"),
    ("ug", "ac co com go ne or org sc"),
    ("uk", "ac co gov ltd me net nhs org plc police sch"),
    ("uy", "com edu gub mil net org"),
    ("ve", "co com edu gob gov net org web"),
    ("vn", "ac com edu gov net org"),
    ("za", "ac co edu gov law mil net nom org school web"),
];

/// The domain somebody registered, as well as that can be told.
fn registered(name: &str) -> String {
    let labels: Vec<&str> = name.trim_start_matches("*.").rsplit('.').collect();
    let is_second_level = |country: &str, label: &str| {
        let known = SECOND_LEVELS.iter().find(|(known, _)| *known == country);
        known.is_some_and(|(_, all)| all.split(' ').any(|second| second == label))
    };
    let is_public = labels.len() > 2 && is_second_level(labels[0], labels[1]);
    let mut kept: Vec<&str> = labels.into_iter().take(if is_public { 3 } else { 2 }).collect();
    kept.reverse();
    kept.join(".")
}

/// The addresses that count as one registered domain.
fn network(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let first = u128::from(address) & !u128::from(u64::MAX);
            format!("{}/64", Ipv6Addr::from(first))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wish::{Issue, KeyKind, Output, Renew};
    use reconciled_provider::ErrorKind;

    const SERVER: &str = "https://ca.example/dir";
    const NOW: u64 = 1_800_000_000;

    fn wish(names: &[&str], addresses: &[&str]) -> Wish {
        Wish {
            issuer: Issue::SelfSigned,
            others: Vec::new(),
            issuer_names: Vec::new(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            common_name: None,
            key: KeyKind::Ecdsa(256),
            keep_key: false,
            usages: [].into(),
            is_ca: false,
            duration: 0,
            renew: Renew::Usual,
            output: Output::default(),
            reload: [].into(),
            escalate: false,
            serve: [].into(),
        }
    }

    /// What is kept where all but one of a bucket are used up.
    fn all_but_one(dir: &tempfile::TempDir, bucket: &str, limit: Limit) -> Keep {
        let (keep, mut full) = (Keep::new("cert", dir.path()), BTreeMap::new());
        (1..limit.0).for_each(|_| take(&mut full, &(bucket.to_owned(), limit), NOW));
        keep.put_limits(SERVER, &full).unwrap();
        keep
    }

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
    fn the_last_order_and_the_last_certificate_for_a_domain_are_given_and_the_next_one_waits() {
        for (bucket, limit, said) in [
            ("orders", ORDERS, "gives 300 orders in 3h,"),
            ("certificates for a.example", DOMAIN, "gives 50 certificates for a.example in 7d,"),
            ("certificates for 192.0.2.1", DOMAIN, "gives 50 certificates for 192.0.2.1 in 7d,"),
            ("certificates for 2001:db8::/64", DOMAIN, "gives 50 certificates for 2001:db8::/64 in 7d,"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let (keep, limits) = (all_but_one(&dir, bucket, limit), Limits::default());
            let order = |number: u64, now, counts| {
                let name = format!("{number}.a.example");
                let wish = wish(&[&name], &["192.0.2.1", &format!("2001:db8::{number}")]);
                limits.order(&keep, SERVER, &wish, now, counts)
            };
            order(1, NOW, Counts::First).unwrap();
            let error = order(2, NOW, Counts::First).unwrap_err();
            assert!(error.message.contains(said), "{}", error.message);
            let wait = Some(Duration::from_secs(limit.cost()));
            assert_eq!((error.kind, error.retry_after), (ErrorKind::RateLimited, wait), "{bucket}");
            // What renews one counts for neither.
            order(3, NOW, Counts::Again).unwrap();
            order(4, NOW, Counts::Replacing).unwrap();
            assert!(order(2, NOW + limit.cost() - 1, Counts::First).is_err(), "{bucket}");
            order(2, NOW + limit.cost(), Counts::First).unwrap();
            assert!(order(5, NOW + limit.cost(), Counts::First).is_err(), "{bucket}");
        }
    }

    #[test]
    fn an_address_counts_as_a_domain_of_its_own_and_one_of_ipv6_with_its_network() {
        let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::ffff:0:0:2", "2001:db8:0:1::1"];
        let expect = ["192.0.2.1", "192.0.2.2", "2001:db8::/64", "2001:db8::/64", "2001:db8:0:1::/64"];
        assert_eq!(all.map(|text| network(text.parse().unwrap())), expect);
        let count = |counts| certificates(&wish(&["www.a.example", "a.example"], &all), counts).len();
        // For the domain, two addresses, two networks, and all of them together.
        assert_eq!([Counts::First, Counts::Again, Counts::Replacing].map(count), [6, 1, 0]);
        let together = |addresses: &[&str]| certificates(&wish(&["a.example"], addresses), Counts::Again);
        assert_ne!(together(&["192.0.2.1"]).remove(0).0, together(&["192.0.2.2"]).remove(0).0);
    }

    #[test]
    fn failures_for_an_address_are_counted_however_it_is_spelled_and_for_no_other_one() {
        let all =
            [("192.0.2.1", "192.0.2.1", "192.0.2.2"), ("2001:DB8:0:0:0:0:0:1", "2001:db8::1", "2001:db8::2")];
        for (spelled, address, next) in all {
            let dir = tempfile::tempdir().unwrap();
            let (keep, limits) = (Keep::new("cert", dir.path()), Limits::default());
            let order = |address: &str| {
                let wish = wish(&["a.example"], &[address]);
                limits.order(&keep, SERVER, &wish, NOW, Counts::Replacing)
            };
            for _ in 0..FAILURES.0 {
                order(address).unwrap();
                limits.failure(&keep, SERVER, spelled, NOW).unwrap();
            }
            let error = order(address).unwrap_err();
            let said = format!("gives 5 failures for {address} in 1h,");
            assert!(error.message.contains(&said), "{}", error.message);
            order(next).unwrap();
        }
    }

    #[test]
    fn a_domain_is_what_somebody_registered() {
        let all =
            ["a.b.example.com", "*.example.com", "example.com", "www.example.co.uk", "www.example.de", "com"];
        let expect = ["example.com", "example.com", "example.com", "example.co.uk", "example.de", "com"];
        assert_eq!(all.map(registered), expect);
        // A short name is no second level, and one of another country is none here.
        let all = ["a.ibm.de", "b.ibm.de", "a.ab.cd.fr", "a.co.de", "a.b.gob.mx"];
        assert_eq!(all.map(registered), ["ibm.de", "ibm.de", "cd.fr", "co.de", "b.gob.mx"]);
    }
}
