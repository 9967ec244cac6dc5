//! Private keys: made, and read again from PEM (PKCS #8).
//!
//! Guarantees: the clear form is in a [`Secret`] from the first moment, so nothing prints it, and it is wiped. What is made
//! is PKCS #8 in its first version: OpenSSL 3.0, and with it nginx and Python, read no other one.

use crate::wish::KeyKind;
use openssl::pkey::PKey;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};
use reconciled_provider::{Error, Hash, Secret};
use rsa::pkcs8::{EncodePrivateKey, PrivateKeyInfo};
use zeroize::Zeroizing;

/// Makes a key, in PEM. RSA takes its time, so that is done apart from what else runs.
pub async fn make(kind: KeyKind) -> Result<Secret, Error> {
    let failed =
        |error: &dyn std::fmt::Display| Error::unexpected(format!("make a key of kind {kind}: {error}"));
    let pem = match kind {
        KeyKind::Rsa(bits) => {
            let made = tokio::task::spawn_blocking(move || make_rsa(bits)).await;
            return made.map_err(|error| failed(&error))?;
        }
        KeyKind::Ecdsa(384) => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        KeyKind::Ecdsa(_) => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        KeyKind::Ed25519 => {
            let made = PKey::generate_ed25519().and_then(|key| key.private_key_to_pem_pkcs8());
            return made.map(Secret::new).map_err(|error| failed(&error));
        }
    };
    Ok(to_secret(pem.map_err(|error| failed(&error))?.serialize_pem()))
}

fn make_rsa(bits: u32) -> Result<Secret, Error> {
    let failed =
        |error: &dyn std::fmt::Display| Error::unexpected(format!("make a key of kind RSA: {error}"));
    let key =
        rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, bits as usize).map_err(|error| failed(&error))?;
    let der = key.to_pkcs8_der().map_err(|error| failed(&error))?;
    Ok(to_secret(pem::encode_config(&pem::Pem::new("PRIVATE KEY", der.as_bytes()), unix())))
}

fn to_secret(pem: String) -> Secret {
    let pem = Zeroizing::new(pem.replace('\r', ""));
    Secret::new(pem.as_bytes().to_vec())
}

/// PEM with the line ends of this system.
pub(crate) fn unix() -> pem::EncodeConfig {
    pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF)
}

/// The same key in the form of its algorithm (PKCS #1 of RSA, SEC 1 of ECDSA), in PEM; none of one that has no other form.
pub(crate) fn older(key: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let key = openssl_key(key)?;
    let pem = key.rsa().and_then(|key| key.private_key_to_pem());
    pem.or_else(|_| key.ec_key().and_then(|key| key.private_key_to_pem())).ok().map(Zeroizing::new)
}

/// A key in the form of its algorithm in PKCS #8, in PEM; none of one in any other form.
pub(crate) fn newer(key: &Secret) -> Option<Secret> {
    let text = key.reveal_str().ok()?;
    if !["RSA", "EC"].iter().any(|kind| text.contains(&format!("-----BEGIN {kind} PRIVATE KEY-----"))) {
        return None;
    }
    openssl_key(key)?.private_key_to_pem_pkcs8().ok().map(Secret::new)
}

/// The same key in the first version of PKCS #8, in PEM; none of one that is in another form. The second one (RFC 5958) has
/// the public half beside the private one, and is read by few.
pub(crate) fn first_version(key: &Secret) -> Option<Zeroizing<Vec<u8>>> {
    let der = Zeroizing::new(pem::parse(key.reveal()).ok()?.into_contents());
    PrivateKeyInfo::try_from(der.as_slice()).ok()?.public_key?;
    openssl_key(key)?.private_key_to_pem_pkcs8().ok().map(Zeroizing::new)
}

fn openssl_key(key: &Secret) -> Option<PKey<openssl::pkey::Private>> {
    // With a password that nobody has: of an encrypted one, OpenSSL would ask whoever sits at the terminal.
    PKey::private_key_from_pem_passphrase(key.reveal(), b"").ok()
}

/// Reads a key for signing. The error holds nothing of it.
pub fn read(what: &str, key: &Secret) -> Result<KeyPair, Error> {
    let text = key.reveal_str()?;
    KeyPair::from_pem(text).map_err(|_| {
        Error::invalid(format!("{what} is no key in PEM (PKCS #8)"))
            .hint("openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW brings a key into that form")
    })
}

/// The public half, as it stands in a certificate (SubjectPublicKeyInfo).
pub fn public(what: &str, key: &Secret) -> Result<Vec<u8>, Error> {
    Ok(read(what, key)?.public_key_der())
}

/// Names the public half of a key.
pub(crate) fn hash(key: &Secret) -> Result<Hash, Error> {
    Ok(Hash::of(&public("the key of the certificate", key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_kind_of_key_is_made_in_pem_and_read_again() {
        for kind in [KeyKind::Ecdsa(256), KeyKind::Ecdsa(384), KeyKind::Ed25519] {
            let key = make(kind).await.unwrap();
            assert!(key.reveal_str().unwrap().starts_with("-----BEGIN PRIVATE KEY-----\n"), "{kind}");
            assert_eq!(public("it", &key).unwrap(), public("it", &key).unwrap());
            assert_eq!(format!("{key:?}"), "Secret(…)");
        }
    }

    #[tokio::test]
    async fn older_forms_are_those_of_openssl_and_lead_back() {
        for (kind, word) in [(KeyKind::Ecdsa(256), "EC"), (KeyKind::Ecdsa(384), "EC")] {
            let key = make(kind).await.unwrap();
            let old = older(&key).unwrap();
            let text = String::from_utf8(old.to_vec()).unwrap();
            assert!(text.starts_with(&format!("-----BEGIN {word} PRIVATE KEY-----\n")), "{kind}");
            let back = newer(&Secret::new(old.to_vec())).unwrap();
            assert_eq!(public("it", &back).unwrap(), public("it", &key).unwrap(), "{kind}");
            assert!(newer(&key).is_none(), "it is that already");
        }
        let rsa = openssl::rsa::Rsa::generate(2_048).unwrap();
        let old = Secret::new(rsa.private_key_to_pem().unwrap());
        let new = newer(&old).unwrap();
        assert!(new.reveal_str().unwrap().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert_eq!(**older(&new).unwrap(), *old.reveal());
        assert!(older(&make(KeyKind::Ed25519).await.unwrap()).is_none(), "there is no other one");
        assert!(newer(&Secret::new(b"canary".to_vec())).is_none());
    }

    #[tokio::test]
    async fn a_key_with_its_public_half_is_brought_into_the_first_version_and_stays_the_key() {
        let second = Secret::new(KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem().into());
        let first = Secret::new(first_version(&second).unwrap().to_vec());
        assert!(first.reveal_str().unwrap().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert_eq!(public("it", &first).unwrap(), public("it", &second).unwrap());
        assert!(first_version(&first).is_none());
        for kind in [KeyKind::Ecdsa(256), KeyKind::Ecdsa(384), KeyKind::Ed25519] {
            let key = make(kind).await.unwrap();
            assert!(first_version(&key).is_none(), "{kind} is made so");
            assert!(older(&key).is_none_or(|old| first_version(&Secret::new(old.to_vec())).is_none()));
        }
        assert!(first_version(&Secret::new(b"canary".to_vec())).is_none());
    }

    #[test]
    fn what_is_no_key_is_not_repeated() {
        let error = read("the key of `ca`", &Secret::new(b"canary".to_vec())).unwrap_err();
        assert!(error.chain().contains("the key of `ca`") && !error.chain().contains("canary"));
    }
}
