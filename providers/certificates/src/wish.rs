//! What a certificate shall be, in canonical form: the bytes of its resource.

use reconciled_provider::{Hash, SecretRef};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, net::IpAddr};

/// Everything that is declared of one certificate, its issuer included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wish {
    /// Who issues it.
    pub issuer: Issue,
    /// Who issues it where that one does not, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Issue>,
    /// How all of them are called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuer_names: Vec<String>,
    /// Names, lower case, in A-labels.
    pub names: BTreeSet<String>,
    /// Addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Name of the subject.
    pub common_name: Option<String>,
    /// What kind of key.
    pub key: KeyKind,
    /// The key stays when the certificate is renewed.
    pub keep_key: bool,
    /// What it may be used for, in cert-manager's words.
    pub usages: BTreeSet<String>,
    /// It may sign others.
    pub is_ca: bool,
    /// How long it is valid, in seconds, where we may say.
    pub duration: u64,
    /// When it is renewed.
    pub renew: Renew,
    /// Where it is put.
    pub output: Output,
    /// Units that read its files again.
    pub reload: BTreeSet<String>,
    /// Units that go on showing another certificate although they were told are restarted.
    #[serde(default, skip_serializing_if = "is_not")]
    pub escalate: bool,
    /// Where it shall be served.
    pub serve: BTreeSet<String>,
}

fn is_not(flag: &bool) -> bool {
    !flag
}

/// Who issues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Issue {
    /// Nobody else.
    SelfSigned,
    /// A certificate that is declared as well, named as its scope is.
    Certificate(String),
    /// A certificate the host has: names of the secrets, and the mark of the certificate.
    Secret {
        /// The certificate.
        cert: String,
        /// The key.
        key: String,
        /// Marks of both: another value is another issuer.
        mark: Hash,
    },
    /// An authority.
    Acme(Box<Authority>),
}

/// An authority that speaks ACME.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authority {
    /// URL of the directory.
    pub server: String,
    /// Where it may write to.
    pub email: Option<String>,
    /// Certificates to check its own with, in PEM.
    pub bundle: Option<String>,
    /// Id of the account elsewhere, and the name of the secret that is its key.
    pub binding: Option<(String, String)>,
    /// Mark of that key: another value is worth another try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_mark: Option<Hash>,
    /// That secret cannot be had now: an account that is there is used, and none is made.
    #[serde(default, skip_serializing_if = "is_not")]
    pub lacks_binding_key: bool,
    /// After how many seconds the account gets another key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate: Option<u64>,
    /// What kind of certificates.
    pub profile: Option<String>,
    /// Another kind is had at once, not with the next renewal.
    #[serde(default, skip_serializing_if = "is_not")]
    pub profile_at_once: bool,
    /// Which chain.
    pub preferred_chain: Option<String>,
    /// How each name is proven; those that nobody proves are not here.
    pub solvers: Vec<(String, Solver)>,
    /// How it could be proven otherwise, where a person wants that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<(String, Solver)>,
}

/// How a name is proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Solver {
    /// By a TXT record at a provider entry, at that name where it is not the usual one.
    Dns(String, Option<String>),
    /// By an answer over HTTP.
    Http,
    /// By an answer over HTTP, from a file below this directory of a web server.
    Webroot(String),
    /// By an answer in a TLS handshake.
    Tls,
    /// By a TXT record that others declare, and that stays.
    Persist,
}

impl Solver {
    /// The word of the protocol.
    pub fn word(&self) -> &'static str {
        match self {
            Solver::Dns(..) => "dns-01",
            Solver::Http | Solver::Webroot(_) => "http-01",
            Solver::Tls => "tls-alpn-01",
            Solver::Persist => "dns-persist-01",
        }
    }

    /// The word in a manifest.
    pub fn key(&self) -> &'static str {
        match self {
            Solver::Dns(..) => "dns01",
            Solver::Http | Solver::Webroot(_) => "http01",
            Solver::Tls => "tlsAlpn01",
            Solver::Persist => "dnsPersist01",
        }
    }
}

/// What kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyKind {
    /// ECDSA on P-256 or P-384.
    Ecdsa(u32),
    /// RSA with so many bits.
    Rsa(u32),
    /// Ed25519.
    Ed25519,
}

impl std::fmt::Display for KeyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyKind::Ecdsa(bits) => write!(f, "ECDSA {bits}"),
            KeyKind::Rsa(bits) => write!(f, "RSA {bits}"),
            KeyKind::Ed25519 => f.write_str("Ed25519"),
        }
    }
}

/// When a certificate is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Renew {
    /// After two thirds of its time, or half of it at ten days or less.
    Usual,
    /// So many seconds before its end.
    Before(u64),
    /// When so many percent of its time are left.
    Percent(u32),
}

impl std::fmt::Display for Renew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Renew::Usual => f.write_str("the usual time"),
            Renew::Before(seconds) => f.write_str(&crate::duration::show(*seconds)),
            Renew::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

/// Where a certificate is put.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The directory.
    pub directory: String,
    /// The user the files belong to.
    pub owner: Option<String>,
    /// The group they belong to.
    pub group: Option<String>,
    /// Permissions of the key.
    pub mode: u32,
    /// The key is written in the form of its algorithm: PKCS #1, SEC 1.
    #[serde(default, skip_serializing_if = "is_not")]
    pub pkcs1: bool,
    /// Key and chain in one file as well.
    pub combined: bool,
    /// And in a PKCS #12 file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystore: Option<Keystore>,
}

/// A PKCS #12 file beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keystore {
    /// Name of the secret that is its password.
    pub secret: String,
    /// Mark of the password: another value is another file.
    pub mark: Hash,
}

impl Issue {
    /// What tells issuers apart, with the kind of certificates. How names are proven, or where the authority writes to, is no
    /// part of it.
    pub fn identity(&self) -> String {
        match self {
            Issue::SelfSigned => "self-signed".into(),
            Issue::Certificate(name) => format!("Certificate/{name}"),
            Issue::Secret { cert, mark, .. } => format!("secret {cert} {mark}"),
            Issue::Acme(authority) => match &authority.profile {
                Some(profile) => format!("{} {profile}", authority.server),
                None => authority.server.clone(),
            },
        }
    }
    /// What [`Issue::identity`] named, in words for people, without marks.
    pub(crate) fn words_of(identity: &str) -> String {
        match identity.strip_prefix("secret ").and_then(|rest| rest.rsplit_once(' ')) {
            Some((cert, _)) => secret_words(cert),
            None => identity.to_owned(),
        }
    }
    /// The issuer in words for people, without marks.
    pub(crate) fn words(&self) -> String {
        match self {
            Issue::Secret { cert, .. } => secret_words(cert),
            other => other.identity(),
        }
    }
    /// The authority, where it is one.
    pub(crate) fn authority(&self) -> Option<&Authority> {
        match self {
            Issue::Acme(authority) => Some(authority),
            _ => None,
        }
    }
    /// True when it is this issuer that `identity` names, whatever kind of certificates it gave then: a certificate of
    /// another one is not what was asked for.
    pub(crate) fn is(&self, identity: &str) -> bool {
        match self {
            Issue::Acme(authority) => identity.split(' ').next() == Some(authority.server.as_str()),
            _ => self.identity() == identity,
        }
    }
    /// True when a certificate of the issuer that `identity` names is not replaced for who issued it.
    pub(crate) fn is_as_good(&self, identity: &str) -> bool {
        let is_at_once = self.authority().is_some_and(|authority| authority.profile_at_once);
        self.is(identity) && (!is_at_once || self.identity() == identity)
    }
    /// The secrets that issuing needs.
    pub fn secret(name: &str) -> SecretRef {
        SecretRef::Named(name.into())
    }
}

/// How the scope of a certificate is called.
pub(crate) fn scope_name(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}") }
}

/// A secret in words for people. One that the repository has encrypted goes by a name that says nothing to anybody.
pub(crate) fn secret_words(name: &str) -> String {
    match name.starts_with("sops:") {
        true => "a sops file".into(),
        false => format!("secret {name}"),
    }
}

impl Wish {
    /// Canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
    /// Reads what [`Wish::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Option<Wish> {
        serde_json::from_slice(bytes).ok()
    }
    /// Names and addresses in one line.
    pub fn subject(&self) -> String {
        let addresses = self.addresses.iter().map(IpAddr::to_string);
        let all: Vec<String> = self.names.iter().cloned().chain(addresses).collect();
        match (&self.common_name, all.is_empty()) {
            (Some(name), true) => name.clone(),
            _ => all.join(", "),
        }
    }
    /// The same without what tells values of secrets apart, or whether they are there: what a person wrote.
    pub(crate) fn without_marks(&self) -> Wish {
        let mut bare = self.clone();
        for issuer in std::iter::once(&mut bare.issuer).chain(&mut bare.others) {
            match issuer {
                Issue::Secret { mark, .. } => *mark = Hash::default(),
                Issue::Acme(authority) => {
                    authority.binding_mark = None;
                    authority.lacks_binding_key = false;
                }
                Issue::SelfSigned | Issue::Certificate(_) => {}
            }
        }
        if let Some(keystore) = &mut bare.output.keystore {
            keystore.mark = Hash::default();
        }
        bare
    }
    /// All who may issue it, in the order they are asked.
    pub fn issuers(&self) -> impl Iterator<Item = &Issue> {
        std::iter::once(&self.issuer).chain(&self.others)
    }
    /// The one of them with this identity, else one that only gives another kind of certificates, else the first.
    pub(crate) fn issuer_of(&self, identity: Option<&str>) -> &Issue {
        let Some(identity) = identity else { return &self.issuer };
        let mut same = self.issuers().filter(|issuer| issuer.is(identity));
        let exactly = self.issuers().find(|issuer| issuer.identity() == identity);
        exactly.or_else(|| same.next()).unwrap_or(&self.issuer)
    }
    /// The same of one issuer alone.
    pub(crate) fn by(&self, issuer: &Issue) -> Wish {
        Wish { issuer: issuer.clone(), others: Vec::new(), issuer_names: Vec::new(), ..self.clone() }
    }
    /// What decides about the certificate itself: while it stands, failures in a row count, and what was ordered goes on.
    pub fn material(&self) -> Hash {
        let mut bare = self.by(&self.issuer);
        if let Issue::Acme(authority) = &mut bare.issuer {
            // It is ordered all the same, whomever the authority writes to, and whatever its own certificate is checked with;
            // a chain is chosen when it is fetched.
            authority.email = None;
            authority.bundle = None;
            authority.binding_mark = None;
            authority.lacks_binding_key = false;
            authority.preferred_chain = None;
            authority.others.clear();
            authority.rotate = None;
            authority.profile_at_once = false;
        }
        bare.reload.clear();
        bare.escalate = false;
        bare.serve.clear();
        bare.renew = Renew::Usual;
        bare.output = Output::default();
        Hash::of(&bare.encode())
    }
}
