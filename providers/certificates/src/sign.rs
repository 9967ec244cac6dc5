//! Issuing with a key of our own: self-signed, and signed by a certificate that we have. And requests (CSR) for others.

use crate::{
    key,
    wish::{Issue, Wish, secret_words},
    x509::{self, BACKDATED},
};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose as Extended, IsCa, KeyUsagePurpose as Usage, SanType, SerialNumber,
};
use reconciled_provider::{Error, Secret};
use ring::rand::{SecureRandom, SystemRandom};
use rsa::pkcs8::der::{Encode, Tag, TagNumber, asn1::Any};
use std::net::IpAddr;
use time::OffsetDateTime;

/// Words of cert-manager for what a key may do, and for what a certificate may be used for.
const USAGES: &[(&str, Usage)] = &[
    ("signing", Usage::DigitalSignature),
    ("digital signature", Usage::DigitalSignature),
    ("content commitment", Usage::ContentCommitment),
    ("key encipherment", Usage::KeyEncipherment),
    ("data encipherment", Usage::DataEncipherment),
    ("key agreement", Usage::KeyAgreement),
    ("cert sign", Usage::KeyCertSign),
    ("crl sign", Usage::CrlSign),
];
const EXTENDED: &[(&str, Extended)] = &[
    ("any", Extended::Any),
    ("server auth", Extended::ServerAuth),
    ("client auth", Extended::ClientAuth),
    ("code signing", Extended::CodeSigning),
    ("email protection", Extended::EmailProtection),
    ("s/mime", Extended::EmailProtection),
    ("timestamping", Extended::TimeStamping),
    ("ocsp signing", Extended::OcspSigning),
];

/// Every word for what a certificate may be used for.
pub fn usages() -> impl Iterator<Item = &'static str> {
    USAGES.iter().map(|(word, _)| *word).chain(EXTENDED.iter().map(|(word, _)| *word))
}

/// The one word for it, where two mean the same.
pub fn usage(word: &str) -> &str {
    match word {
        "signing" => "digital signature",
        "s/mime" => "email protection",
        other => other,
    }
}

/// A certificate that signs others.
pub struct Ca {
    /// Its certificate and those above it, in PEM.
    pub chain: String,
    /// Its key, in PEM.
    pub key: Secret,
}

/// A chain in PEM, and the certificate others may trust.
#[derive(Debug)]
pub struct Signed {
    /// The certificate, and those between it and the root.
    pub chain: String,
    /// The certificate of the issuer.
    pub ca: String,
}

/// Issues a certificate that signs itself. `now` is in seconds since 1970.
pub fn self_signed(wish: &Wish, key: &Secret, now: u64) -> Result<Signed, Error> {
    let pair = key::read("the key of the certificate", key)?;
    let issued = params(wish, now, None)?.self_signed(&pair).map_err(|error| failed(wish, &error))?;
    let chain = to_pem(issued.der());
    Ok(Signed { ca: chain.clone(), chain })
}

/// Issues a certificate signed by `ca`.
///
/// Errors: `Invalid` when `ca` may not sign, is over, or is not what its key belongs to.
pub fn signed(wish: &Wish, key: &Secret, ca: &Ca, now: u64) -> Result<Signed, Error> {
    let ders = x509::chain("the certificate of the issuer", &ca.chain)?;
    let facts = x509::facts("the certificate of the issuer", &ders[0])?;
    let pair = key::read("the key of the issuer", &ca.key)?;
    if pair.public_key_der() != facts.public {
        return Err(Error::invalid("the key of the issuer is not the one of its certificate"));
    }
    if !facts.is_ca {
        let hint = match &wish.issuer {
            Issue::Secret { cert, key, .. } => format!(
                "have {} be the certificate of a CA (basicConstraints with CA:TRUE), and {} its key",
                secret_words(cert),
                secret_words(key)
            ),
            _ => "write isCA: true for the certificate that signs".to_owned(),
        };
        return Err(Error::invalid("the certificate of the issuer may not sign others").hint(hint));
    }
    if facts.not_after <= now {
        return Err(Error::unavailable("the certificate of the issuer is over"));
    }
    if facts.is_early(now) {
        let message = format!("the certificate of the issuer is {}", facts.not_yet());
        return Err(Error::unavailable(message).hint("is the clock of this machine right?"));
    }
    let refused = |error: &dyn std::fmt::Display| {
        Error::invalid(format!("sign with the certificate of the issuer: {error}"))
    };
    let issuer = CertificateParams::from_ca_cert_der(&ders[0].as_slice().into())
        .and_then(|params| params.self_signed(&pair))
        .map_err(|error| refused(&error))?;
    let subject = key::read("the key of the certificate", key)?;
    let issued = params(wish, now, Some(facts.not_after))?
        .signed_by(&subject, &issuer, &pair)
        .map_err(|error| failed(wish, &error))?;
    // The library writes names anew. One with an attribute twice is another name then, which no chain leads through.
    if x509::issuer_of(issued.der()) != x509::subject_of(&ders[0]) || x509::subject_of(&ders[0]).is_none() {
        return Err(Error::invalid("the name of the issuer's certificate cannot be repeated exactly")
            .hint("have it made anew with each attribute of its subject at most once"));
    }
    // The root itself is for others to have, not for us to send.
    let is_root = |der: &[u8]| x509::issuer_of(der) == x509::subject_of(der);
    let between = ders.iter().filter(|der| !is_root(der)).map(|der| to_pem(der));
    let chain = std::iter::once(to_pem(issued.der())).chain(between).collect();
    let last = ders.last().map_or_else(String::new, |der| to_pem(der));
    Ok(Signed { chain, ca: last })
}

/// A request for an authority, in DER.
pub fn request(wish: &Wish, key: &Secret) -> Result<Vec<u8>, Error> {
    let pair = key::read("the key of the certificate", key)?;
    let mut params = names(wish)?;
    let (usual, extended) = purposes(wish);
    (params.key_usages, params.extended_key_usages) = (usual, extended);
    let request = params.serialize_request(&pair).map_err(|error| failed(wish, &error))?;
    Ok(request.der().to_vec())
}

fn params(wish: &Wish, now: u64, no_longer_than: Option<u64>) -> Result<CertificateParams, Error> {
    let mut params = names(wish)?;
    (params.key_usages, params.extended_key_usages) = purposes(wish);
    if wish.is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        for needed in [Usage::KeyCertSign, Usage::CrlSign, Usage::DigitalSignature] {
            if !params.key_usages.contains(&needed) {
                params.key_usages.push(needed);
            }
        }
    } else {
        params.is_ca = IsCa::ExplicitNoCa;
    }
    let end = (now + wish.duration).min(no_longer_than.unwrap_or(u64::MAX));
    let moment = |seconds: u64| {
        OffsetDateTime::from_unix_timestamp(seconds as i64).map_err(|_| {
            Error::invalid(format!("`{}` would be valid for longer than dates go", wish.subject()))
        })
    };
    params.not_before = moment(now.saturating_sub(BACKDATED))?;
    params.not_after = moment(end)?;
    params.serial_number = Some(serial()?);
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn names(wish: &Wish) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(name) = &wish.common_name {
        params.distinguished_name.push(DnType::CommonName, name.clone());
    }
    for name in &wish.names {
        let name = name.clone().try_into().map_err(|_| Error::invalid(format!("`{name}` is no name")))?;
        params.subject_alt_names.push(SanType::DnsName(name));
    }
    params.subject_alt_names.extend(wish.addresses.iter().copied().map(SanType::IpAddress));
    if wish.common_name.is_none() && !params.subject_alt_names.is_empty() {
        params.subject_alt_names.clear();
        params.custom_extensions.push(only_names(wish)?);
    }
    Ok(params)
}

/// The names of what has no subject. They are critical then (RFC 5280 §4.2.1.6), or Java and strict readers refuse the
/// certificate; the library never marks them so. In a request as well: there are authorities that copy what is asked for.
fn only_names(wish: &Wish) -> Result<CustomExtension, Error> {
    const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
    let octets = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let names = wish.names.iter().map(|name| (TagNumber::N2, name.clone().into_bytes()));
    let addresses = wish.addresses.iter().map(|address| (TagNumber::N7, octets(address)));
    let general = |(number, value)| Any::new(Tag::ContextSpecific { constructed: false, number }, value);
    let encoded = names.chain(addresses).map(general).collect::<Result<Vec<_>, _>>();
    let encoded = encoded.and_then(|names| names.to_der()).map_err(|error| {
        Error::invalid(format!("write the names of a certificate for {}: {error}", wish.subject()))
    })?;
    let mut extension = CustomExtension::from_oid_content(SUBJECT_ALT_NAME, encoded);
    extension.set_criticality(true);
    Ok(extension)
}

fn purposes(wish: &Wish) -> (Vec<Usage>, Vec<Extended>) {
    let has = |word: &&str| wish.usages.contains(*word);
    let usual = USAGES.iter().filter(|(word, _)| has(word)).map(|(_, usage)| *usage).collect();
    let extended = EXTENDED.iter().filter(|(word, _)| has(word)).map(|(_, usage)| usage.clone()).collect();
    (usual, extended)
}

/// A serial number with 126 random bits (CA/Browser Forum: at least 64), positive and without a leading zero.
fn serial() -> Result<SerialNumber, Error> {
    let mut bytes = [0; 16];
    let random = SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| Error::unavailable("this machine has no random numbers"))?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

/// A certificate in PEM.
pub(crate) fn to_pem(der: &[u8]) -> String {
    pem::encode_config(&pem::Pem::new("CERTIFICATE", der), key::unix())
}

fn failed(wish: &Wish, error: &rcgen::Error) -> Error {
    Error::invalid(format!("make a certificate for {}: {error}", wish.subject()))
}
