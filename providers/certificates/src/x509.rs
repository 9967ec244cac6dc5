//! Reading certificates: what one says that a pass needs to know.

use crate::{moment::moment, wish::KeyKind};
use data_encoding::HEXLOWER;
use reconciled_provider::{Error, problem::one_line};
use ring::digest;
use std::{collections::BTreeSet, net::IpAddr};
use x509_parser::{
    certificate::X509Certificate,
    der_parser::asn1_rs::{FromDer, Oid, oid},
    error::X509Error,
    extensions::{GeneralName, ParsedExtension},
    public_key::PublicKey,
};

/// How long ago a certificate of ours begins to be valid when it is issued: clocks differ.
pub(crate) const BACKDATED: u64 = 60;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Names, lower case.
    pub names: BTreeSet<String>,
    /// Addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Name of the subject.
    pub common_name: Option<String>,
    /// Name of who issued it.
    pub issuer: String,
    /// What kind of key, if it is one we know.
    pub key: Option<KeyKind>,
    /// It may sign others.
    pub is_ca: bool,
    /// What it may be used for, in cert-manager's words.
    pub usages: BTreeSet<String>,
    /// From when it is valid, in seconds since 1970.
    pub not_before: u64,
    /// Until when it is valid.
    pub not_after: u64,
    /// The public key, as it stands there (SubjectPublicKeyInfo).
    pub public: Vec<u8>,
    /// SHA-256 of the whole, in hexadecimal digits.
    pub fingerprint: String,
    /// Which key of the issuer signed it (AuthorityKeyIdentifier).
    pub authority: Option<Vec<u8>>,
    /// The identifier of its own key.
    pub subject_key: Option<Vec<u8>>,
    /// Serial number, as in the certificate, leading zero included.
    pub serial: Vec<u8>,
}

impl Facts {
    /// True for a certificate that nobody takes yet: it was issued while a clock was ahead.
    pub(crate) fn is_early(&self, now: u64) -> bool {
        // One of ours is dated back as far as clocks may differ.
        now.saturating_add(BACKDATED) < self.not_before
    }

    /// That a certificate is not valid yet.
    pub(crate) fn not_yet(&self) -> String {
        format!("not valid before {}", moment(self.not_before))
    }
}

/// The certificates of a chain in PEM, as DER.
///
/// Errors: there is none in it, or it is no PEM.
pub fn chain(what: &str, text: &str) -> Result<Vec<Vec<u8>>, Error> {
    let bad = || Error::invalid(format!("{what} is no certificate in PEM"));
    let blocks = pem::parse_many(text).map_err(|_| bad())?;
    let blocks = blocks.into_iter().filter(|block| block.tag() == "CERTIFICATE");
    let chain: Vec<Vec<u8>> = blocks.map(pem::Pem::into_contents).collect();
    if chain.is_empty() { Err(bad()) } else { Ok(chain) }
}

/// Says whether each certificate of a chain in DER was issued by the one after it: by its name, to the byte (Baseline
/// Requirements §7.1.4.1), and by its signature, as far as that is made in a way we know.
pub(crate) fn check_order(ders: &[Vec<u8>]) -> Result<(), String> {
    for pair in ders.windows(2) {
        let (Some(below), Some(above)) = (read_one(&pair[0]), read_one(&pair[1])) else {
            return Err("has something else than certificates in its chain".into());
        };
        let is_named = below.issuer().as_raw() == above.subject().as_raw();
        let is_signed = match below.verify_signature(Some(above.public_key())) {
            Ok(()) | Err(X509Error::SignatureUnsupportedAlgorithm) => true,
            Err(_) => false,
        };
        if !is_named || !is_signed {
            return Err(format!(
                "has a chain in which `{}` is not issued by the next one, `{}`",
                shown(below.subject()),
                shown(above.subject())
            ));
        }
    }
    Ok(())
}

/// The first certificate of a chain in PEM, and the others, which may be none.
pub fn split(chain: &str) -> (&str, &str) {
    const END: &str = "-----END CERTIFICATE-----";
    let end = chain.find(END).map_or(chain.len(), |at| at + END.len());
    let (first, others) = chain.split_at(end);
    (first.trim_start(), others.trim_start())
}

/// What the first certificate of a chain in PEM says.
pub fn leaf(what: &str, text: &str) -> Result<Facts, Error> {
    let chain = chain(what, text)?;
    facts(what, &chain[0])
}

/// What a certificate in DER says.
pub fn facts(what: &str, der: &[u8]) -> Result<Facts, Error> {
    let Some(found) = read_one(der) else {
        return Err(Error::invalid(format!("{what} is no certificate")));
    };
    let mut facts = Facts {
        names: BTreeSet::new(),
        addresses: BTreeSet::new(),
        common_name: common_name(found.subject()),
        issuer: common_name(found.issuer()).unwrap_or_else(|| found.issuer().to_string()),
        key: key_kind(&found),
        is_ca: found.is_ca(),
        usages: BTreeSet::new(),
        not_before: found.validity().not_before.timestamp().max(0) as u64,
        not_after: found.validity().not_after.timestamp().max(0) as u64,
        public: found.public_key().raw.to_vec(),
        fingerprint: fingerprint(der),
        authority: None,
        subject_key: None,
        serial: found.raw_serial().to_vec(),
    };
    for extension in found.extensions() {
        read_extension(extension.parsed_extension(), &mut facts);
    }
    Ok(facts)
}

/// A chain in words: who it is for, and after each `←` who issued what stands before it.
pub(crate) fn path<'a>(ders: impl Iterator<Item = &'a [u8]>) -> String {
    let (mut words, mut last) = (Vec::new(), None);
    for der in ders {
        let Ok(facts) = facts("it", der) else { break };
        let first = facts.names.first().cloned();
        let address = || facts.addresses.first().map(IpAddr::to_string);
        words.push(facts.common_name.or(first).or_else(address).unwrap_or_else(|| "no name".into()));
        last = Some((facts.issuer, issuer_of(der) == subject_of(der)));
    }
    // The root is hardly ever sent.
    words.extend(last.and_then(|(issuer, is_root)| (!is_root && !issuer.is_empty()).then_some(issuer)));
    one_line(&words.join(" ← "), 400)
}

fn read_one(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).map(|(_, found)| found).ok()
}

/// A name that anybody may have chosen, for people.
fn shown(name: &x509_parser::x509::X509Name<'_>) -> String {
    one_line(&common_name(name).unwrap_or_else(|| name.to_string()), 100)
}

/// The name of who issued a certificate, as it stands there.
pub(crate) fn issuer_of(der: &[u8]) -> Option<Vec<u8>> {
    let found = read_one(der)?;
    Some(found.issuer().as_raw().to_vec())
}

/// The name of what a certificate is for, as it stands there.
pub(crate) fn subject_of(der: &[u8]) -> Option<Vec<u8>> {
    let found = read_one(der)?;
    Some(found.subject().as_raw().to_vec())
}

/// SHA-256 of a certificate in hexadecimal digits.
pub fn fingerprint(der: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, der).as_ref())
}

fn common_name(name: &x509_parser::x509::X509Name<'_>) -> Option<String> {
    name.iter_common_name().next().and_then(|part| part.as_str().ok()).map(String::from)
}

fn read_extension(extension: &ParsedExtension<'_>, facts: &mut Facts) {
    let mut usage = |is_there: bool, word: &str| {
        if is_there {
            facts.usages.insert(word.into());
        }
    };
    match extension {
        ParsedExtension::SubjectAlternativeName(alternatives) => {
            for name in &alternatives.general_names {
                match name {
                    GeneralName::DNSName(name) => {
                        facts.names.insert(name.to_ascii_lowercase());
                    }
                    GeneralName::IPAddress(octets) => facts.addresses.extend(address(octets)),
                    _ => {}
                }
            }
        }
        ParsedExtension::KeyUsage(found) => {
            usage(found.digital_signature(), "digital signature");
            usage(found.non_repudiation(), "content commitment");
            usage(found.key_encipherment(), "key encipherment");
            usage(found.data_encipherment(), "data encipherment");
            usage(found.key_agreement(), "key agreement");
            usage(found.key_cert_sign(), "cert sign");
            usage(found.crl_sign(), "crl sign");
        }
        ParsedExtension::ExtendedKeyUsage(found) => {
            usage(found.any, "any");
            usage(found.server_auth, "server auth");
            usage(found.client_auth, "client auth");
            usage(found.code_signing, "code signing");
            usage(found.email_protection, "email protection");
            usage(found.time_stamping, "timestamping");
            usage(found.ocsp_signing, "ocsp signing");
        }
        ParsedExtension::AuthorityKeyIdentifier(found) => {
            facts.authority = found.key_identifier.as_ref().map(|id| id.0.to_vec());
        }
        ParsedExtension::SubjectKeyIdentifier(found) => facts.subject_key = Some(found.0.to_vec()),
        _ => {}
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

const ED25519: Oid<'static> = oid!(1.3.101.112);

fn key_kind(found: &X509Certificate<'_>) -> Option<KeyKind> {
    let public = found.public_key();
    if public.algorithm.algorithm == ED25519 {
        return Some(KeyKind::Ed25519);
    }
    match public.parsed().ok()? {
        // The length of the modulus may have a leading zero, which `key_size` leaves out.
        PublicKey::RSA(key) => Some(KeyKind::Rsa(key.key_size() as u32)),
        PublicKey::EC(point) => Some(KeyKind::Ecdsa(point.key_size() as u32)),
        _ => None,
    }
}
