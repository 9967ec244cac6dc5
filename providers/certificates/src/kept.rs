//! What is remembered on disk: of each certificate the one in use and the one being made, and the accounts.
//!
//! Each is one file, written beside its place, flushed and renamed over it: key and chain cannot be torn apart, and what
//! was said to be kept is there after a crash. Directories are closed to others (0700), and so are files (0600).
//! They are not in the database, which has only what is put out of a certificate in use, sealed with a key from outside of it.

mod disk;
mod keep;
mod mark;

use crate::{
    key,
    renewal::Suggested,
    wish::{Output, Wish},
    x509,
};
use reconciled_provider::{Error, Hash, Secret};
use serde::{Deserialize, Serialize, Serializer};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use zeroize::Zeroizing;

pub(crate) use disk::Unread;
pub use keep::Keep;
pub use mark::Mark;

/// A text that is wiped when dropped and never printed: a key in PEM. Where it goes to the disk is said field by field, so
/// that nobody writes one into an answer or a log without meaning to:
///
/// ```compile_fail
/// fn written(key: &reconciled_certificates::kept::Private) -> String {
///     serde_json::to_string(key).unwrap()
/// }
/// ```
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Private(Zeroizing<String>);

impl Private {
    /// Takes a copy of a secret, which is text.
    pub fn of(secret: &Secret) -> Result<Private, Error> {
        Ok(Private(Zeroizing::new(secret.reveal_str()?.to_owned())))
    }
    /// True when both are the same.
    pub(crate) fn is(&self, other: &Private) -> bool {
        self.0.as_bytes() == other.0.as_bytes()
    }
    /// The secret, for the one call that needs it.
    pub fn secret(&self) -> Secret {
        Secret::new(self.0.as_bytes().to_vec())
    }
}

/// Writes a secret to the disk.
fn to_disk<S: Serializer>(secret: &Private, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&secret.0)
}

/// The same of one that may be missing.
fn to_disk_if_any<S: Serializer>(secret: &Option<Private>, to: S) -> Result<S::Ok, S::Error> {
    match secret {
        Some(secret) => to_disk(secret, to),
        None => to.serialize_none(),
    }
}

impl std::fmt::Debug for Private {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Private(…)")
    }
}

/// A certificate in use.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    /// Its key, in PEM.
    #[serde(serialize_with = "to_disk")]
    pub key: Private,
    /// It and what leads to its root, in PEM.
    pub chain: String,
    /// The certificate of the issuer that others may trust, in PEM, where we know one.
    pub ca: Option<String>,
    /// Who issued it ([`Issue::identity`](crate::wish::Issue::identity)); none of one that was adopted.
    pub issuer: Option<String>,
    /// URL of the account at the authority that it was ordered with, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What was declared when it was put in place the last time.
    pub wish: Wish,
    /// It was not put in place since it was issued: what is there instead is what we left there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unplaced: bool,
    /// Where its files were before, as long as they are still to be taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<Output>,
    /// Files of somebody else that are in use as they were found, and are ours to take away since they were taken over: hashes
    /// of what is in them, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub adopted: BTreeMap<PathBuf, Hash>,
    /// Fingerprint of the certificate that services were last told to read.
    pub told: Option<String>,
    /// Units that were told of a certificate that others are still to be told of.
    #[serde(default)]
    pub told_units: BTreeSet<String>,
    /// Services that were restarted since, where they show another certificate all the same.
    #[serde(default)]
    pub restarted_units: BTreeSet<String>,
    /// When the last of them was told, in seconds since 1970.
    #[serde(default)]
    pub told_at: u64,
    /// How often they were told again, because an address went on showing another certificate.
    #[serde(default)]
    pub told_again: u32,
    /// When the authority would like it renewed.
    pub suggested: Option<Suggested>,
    /// Until when it is not asked for that, in seconds since 1970, where it has not said.
    #[serde(default, skip_serializing_if = "is_never")]
    pub unasked_until: u64,
    /// Versions of files that were in place when it was issued: it is newer than they, whatever both say.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub over: BTreeSet<String>,
    /// Its PKCS #12 file, where one was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<Packed>,
    /// What was read out of key and chain already. Whoever changes one of them begins with an empty one.
    #[serde(skip)]
    pub parsed: Arc<Parsed>,
}

impl Issued {
    /// One of which nobody was told yet, and no more is known than this.
    pub(crate) fn new(key: Private, chain: String, wish: Wish) -> Issued {
        Issued {
            key,
            chain,
            ca: None,
            issuer: None,
            account: None,
            wish,
            is_unplaced: false,
            leaving: Vec::new(),
            adopted: BTreeMap::new(),
            told: None,
            told_units: BTreeSet::new(),
            restarted_units: BTreeSet::new(),
            told_at: 0,
            told_again: 0,
            suggested: None,
            unasked_until: 0,
            over: BTreeSet::new(),
            packed: None,
            parsed: Arc::default(),
        }
    }
}

/// What was read out of a certificate and its key: that takes longer than reading the file they are in.
#[derive(Debug, Default)]
pub struct Parsed {
    facts: OnceLock<x509::Facts>,
    is_of_key: OnceLock<bool>,
}

fn is_never(seconds: &u64) -> bool {
    *seconds == 0
}

/// A PKCS #12 file. What is made of the same differs each time, so it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Packed {
    /// What it was made of.
    pub of: Hash,
    /// The file, in base64.
    #[serde(serialize_with = "to_disk")]
    pub file: Private,
}

impl Issued {
    /// What the certificate says.
    pub fn facts(&self) -> Result<x509::Facts, Error> {
        if let Some(facts) = self.parsed.facts.get() {
            return Ok(facts.clone());
        }
        let facts = x509::leaf("the certificate that is kept", &self.chain)?;
        Ok(self.parsed.facts.get_or_init(|| facts).clone())
    }

    /// True for the beginning of a fingerprint that is its own, or that of one that it came after.
    pub(crate) fn has_version(&self, version: &str) -> bool {
        self.over.contains(version) || self.facts().is_ok_and(|facts| facts.fingerprint.starts_with(version))
    }

    /// True for what is in a file that was taken over as it was found.
    pub(crate) fn has_adopted(&self, path: &Path, bytes: &[u8]) -> bool {
        self.adopted.get(path).is_some_and(|adopted| *adopted == Hash::of(bytes))
    }

    /// Forgets what was taken over in a directory under one of these names; true when there was anything.
    pub(crate) fn forget_adopted(&mut self, directory: &Path, names: &[&str]) -> bool {
        let before = self.adopted.len();
        self.adopted.retain(|path, _| !names.iter().any(|name| *path == directory.join(name)));
        self.adopted.len() < before
    }

    /// True when it is one of its key.
    pub(crate) fn is_of_key(&self) -> bool {
        let is_of_key = || {
            let public = key::public("the key", &self.key.secret());
            public.is_ok_and(|public| self.facts().is_ok_and(|facts| facts.public == public))
        };
        *self.parsed.is_of_key.get_or_init(is_of_key)
    }
}

/// A certificate that is being made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// What it is for: of another wish nothing is of use but the key.
    pub material: Hash,
    /// The key, in PEM.
    #[serde(serialize_with = "to_disk")]
    pub key: Private,
    /// The request for an authority (CSR, base64url), from before it is handed in for this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// When it was begun, in seconds since 1970.
    #[serde(default)]
    pub begun_at: u64,
    /// The order at the authority.
    pub order: Option<String>,
    /// When the order was made, in seconds since 1970.
    pub ordered_at: u64,
    /// URL of the account that made the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The wish of a person for another certificate that it was made for, by its time.
    #[serde(default)]
    pub asked_at: Option<u64>,
    /// The order counts for a certificate, as far as that is counted here.
    #[serde(default)]
    pub is_counted: bool,
    /// What it counts as.
    #[serde(default)]
    pub counts: Counts,
    /// What came instead of the certificate, once there is one to fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub garbled: Option<Garbled>,
    /// Orders before it that the authority did not know any more, in a row.
    #[serde(default)]
    pub lost: u32,
    /// TXT values that have to be there, with the provider entries.
    #[serde(default)]
    pub challenges: Vec<Challenge>,
    /// Files that were put below the directory of a web server, or were about to be.
    #[serde(default)]
    pub answers: Vec<PathBuf>,
    /// Directories that were missing for them, the uppermost first.
    #[serde(default)]
    pub made: BTreeSet<PathBuf>,
}

/// An authority gave no certificate for an order that is done: what came cannot be read, and the next answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Garbled {
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// How often.
    pub times: u32,
}

/// What an order counts as, where what an authority gives is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Counts {
    /// As a first one.
    #[default]
    First,
    /// As one for exactly the names that a certificate is there for already.
    Again,
    /// As one that says which certificate it replaces.
    Replacing,
}

/// A TXT value that has to be there for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Challenge {
    /// The provider entry.
    pub provider: String,
    /// Absolute name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A TXT record that others declare, and that stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lasting {
    /// Absolute name, without a dot at its end.
    pub name: String,
    /// The value.
    pub value: String,
}

impl std::fmt::Display for Lasting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}. TXT \"{}\"", self.name, self.value)
    }
}

/// Longest wait after a refusal.
pub(crate) const LONGEST_REFUSAL: u64 = 115_200;

/// How often an authority refused in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusals {
    /// What it refused: of another wish it refused nothing yet.
    pub material: Hash,
    /// How often.
    pub count: u32,
    /// Until when it is not asked, in seconds since 1970.
    pub until: u64,
    /// What it said.
    pub message: String,
    /// The order it refused last, so that it counts once.
    #[serde(default)]
    pub order: Option<String>,
    /// The public key that it will not have, hashed.
    #[serde(default)]
    pub bad_key: Option<Hash>,
}

impl Refusals {
    /// True while it is not asked. A clock that went back is no reason to wait longer than ever.
    pub(crate) fn is_on(&self, now: u64) -> bool {
        self.until > now && self.until <= now + LONGEST_REFUSAL
    }
}

/// Longest time an authority may ask to be left alone, in seconds.
pub(crate) const LONGEST_WAIT: u64 = 24 * 3_600;

/// An authority asked to be left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Busy {
    /// Which one: another one is asked.
    pub server: String,
    /// Until when it is not asked, in seconds since 1970.
    pub until: u64,
    /// What it said.
    pub message: String,
}

impl Busy {
    /// True while it is not asked. A clock that went back is no reason to wait longer than it may ask for.
    pub(crate) fn is_on(&self, now: u64) -> bool {
        self.until > now && self.until <= now + LONGEST_WAIT
    }
}

/// An authority asked to be left alone by all of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// When it said so, in seconds since 1970.
    pub since: u64,
    /// Until when it is not asked, in seconds since 1970.
    pub until: u64,
    /// It meant new orders; what was ordered before goes on.
    pub is_of_orders: bool,
    /// What it said.
    pub message: String,
}

/// An authority has not answered, or not with anything of use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outage {
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// When it was asked last.
    pub asked_at: u64,
    /// What went wrong.
    pub message: String,
}

/// A person wants another certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// Than the one with this fingerprint; empty: there is none yet.
    pub fingerprint: String,
    /// From this issuer.
    #[serde(default)]
    pub issuer: Option<String>,
    /// Proven in this way.
    #[serde(default)]
    pub solver: Option<String>,
    /// When that was said, in seconds since 1970.
    #[serde(default)]
    pub at: u64,
}

/// An account at an authority.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// Its key (PKCS #8, base64).
    #[serde(serialize_with = "to_disk")]
    pub key: Private,
    /// Its URL, once the authority gave one.
    pub url: Option<String>,
    /// Where the authority was told last that it may write to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// An address that it will not write to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_email: Option<RefusedEmail>,
    /// When its key was made, in seconds since 1970.
    #[serde(default)]
    pub made_at: u64,
    /// The key that takes its place, from before the authority hears of it until it has answered.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "to_disk_if_any")]
    pub next: Option<Private>,
    /// What came of giving it to the authority so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<KeyChange>,
}

/// An address that an authority will not write to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedEmail {
    /// The address; none: it wants one.
    pub email: Option<String>,
    /// What it said.
    pub message: String,
}

/// An account has another key that its authority has not taken yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyChange {
    /// How often it was tried.
    pub tries: u32,
    /// When it is tried again, in seconds since 1970.
    pub again_at: u64,
    /// The authority is known to go by the old key: it said so since the last try.
    pub is_settled: bool,
    /// What went wrong.
    pub message: String,
}
