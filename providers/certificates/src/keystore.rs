//! A key, its certificate and what leads to its root in one file with a password (PKCS #12, RFC 7292), as Java, .NET and
//! Windows read it.
//!
//! Each file that is made has salts of its own, so what was made is kept beside the certificate: a pass compares bytes, and
//! makes another file only of another certificate or for another password. Encryption is AES-256 (PBES2 with PBKDF2), the
//! check of integrity HMAC-SHA-256: what OpenSSL 3 and Java write themselves.

use crate::{
    kept::{Issued, Packed, Private},
    wish::{Issue, Keystore, Output, secret_words},
    x509,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use openssl::{
    error::ErrorStack, hash::MessageDigest, nid::Nid, pkcs12::Pkcs12, pkey::PKey, stack::Stack, x509::X509,
};
use reconciled_provider::{Cx, Error, Hash, Secret};
use zeroize::Zeroizing;

/// How often a password is hashed, as keytool does it.
const ROUNDS: u32 = 10_000;
/// What the entry is called in the file, which keytool shows as its alias.
const ALIAS: &str = "certificate";

/// What tells files apart: the certificates in it, and the password.
fn made_of(issued: &Issued, keystore: &Keystore) -> Hash {
    Hash::of(format!("{}\n{}", keystore.mark, issued.chain).as_bytes())
}

/// True when what is kept was made of this certificate and for this password, or none is wanted.
pub(crate) fn is_packed(issued: &Issued, keystore: Option<&Keystore>) -> bool {
    match (keystore, &issued.packed) {
        (None, None) => true,
        (Some(keystore), Some(packed)) => packed.of == made_of(issued, keystore),
        _ => false,
    }
}

/// The file that is kept, if it is the one that is wanted.
pub(crate) fn file(issued: &Issued, keystore: Option<&Keystore>) -> Option<Zeroizing<Vec<u8>>> {
    let packed = issued.packed.as_ref().filter(|_| keystore.is_some() && is_packed(issued, keystore))?;
    let secret = packed.file.secret();
    STANDARD.decode(secret.reveal()).ok().map(Zeroizing::new)
}

/// Says whether the file that is wanted can be made, as far as that is known before there is a certificate. A password that cannot
/// be had now is no matter of this.
///
/// Errors: `Invalid` when its password is none that such a file can have.
pub(crate) fn check(cx: &Cx, output: &Output) -> Result<(), Error> {
    let Some(keystore) = &output.keystore else { return Ok(()) };
    match cx.secrets.reveal(&Issue::secret(&keystore.secret)) {
        Ok(password) => text_of(keystore, &password).map(|_| ()),
        Err(_) => Ok(()),
    }
}

/// The password as text.
fn text_of<'p>(keystore: &Keystore, password: &'p Secret) -> Result<&'p str, Error> {
    let refused = |why: &str| {
        let secret = secret_words(&keystore.secret);
        Error::invalid(format!("the password of the PKCS #12 file, {secret}, {why}"))
            .hint("store another one under that name")
    };
    let text = password.reveal_str().map_err(|_| refused("is not UTF-8 text"))?;
    // What OpenSSL takes for the end of a text would be a password nobody meant.
    let is_cut = text.is_empty() || text.contains('\0');
    if is_cut { Err(refused("is empty, or has a zero in it")) } else { Ok(text) }
}

/// Makes the file.
///
/// Errors: `Invalid` when the password is none that such a file can have. No error holds anything of it, or of the key.
pub(crate) fn pack(issued: &Issued, keystore: &Keystore, password: &Secret) -> Result<Packed, Error> {
    let text = text_of(keystore, password)?;
    let ders = x509::chain("the certificate that is kept", &issued.chain)?;
    let key = issued.key.secret();
    // As DER: of an encrypted PEM, OpenSSL would ask whoever sits at the terminal.
    let key = pem::parse(key.reveal()).map(|pem| Zeroizing::new(pem.into_contents()));
    let key = key.map_err(|_| Error::invalid("the key that is kept is no PEM"))?;
    let made = write(&ders, &key, text).map_err(|error| {
        let why = error.errors().first().and_then(|error| error.reason()).unwrap_or("for no reason given");
        Error::unexpected(format!("make a PKCS #12 file: OpenSSL refuses: {why}"))
    })?;
    let file = Zeroizing::new(STANDARD.encode(&*made));
    Ok(Packed { of: made_of(issued, keystore), file: Private::of(&Secret::new(file.as_bytes().to_vec()))? })
}

fn write(ders: &[Vec<u8>], key: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, ErrorStack> {
    let mut above = Stack::new()?;
    for der in ders.iter().skip(1) {
        above.push(X509::from_der(der)?)?;
    }
    let leaf = X509::from_der(ders.first().map_or(&[], Vec::as_slice))?;
    let key = PKey::private_key_from_der(key)?;
    let mut builder = Pkcs12::builder();
    builder.name(ALIAS).pkey(&key).cert(&leaf).ca(above);
    builder.key_algorithm(Nid::AES_256_CBC).cert_algorithm(Nid::AES_256_CBC);
    builder.key_iter(ROUNDS).mac_iter(ROUNDS).mac_md(MessageDigest::sha256());
    Ok(Zeroizing::new(builder.build2(password)?.to_der()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key, sign, wish::*};
    use openssl::rsa::Rsa;

    async fn issued(kind: KeyKind) -> Issued {
        let wish = Wish {
            issuer: Issue::SelfSigned,
            others: Vec::new(),
            issuer_names: Vec::new(),
            names: ["a.example".to_owned()].into(),
            addresses: [].into(),
            common_name: None,
            key: kind,
            keep_key: false,
            usages: [].into(),
            is_ca: false,
            duration: 86_400,
            renew: Renew::Usual,
            output: Output::default(),
            reload: [].into(),
            escalate: false,
            serve: [].into(),
        };
        let key = match kind {
            // The way a daemon makes it takes half a minute without optimization.
            KeyKind::Rsa(bits) => {
                let key = PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap();
                Secret::new(key.private_key_to_pem_pkcs8().unwrap())
            }
            kind => key::make(kind).await.unwrap(),
        };
        let signed = sign::self_signed(&wish, &key, 1_800_000_000).unwrap();
        Issued {
            key: Private::of(&key).unwrap(),
            chain: signed.chain,
            ca: None,
            issuer: None,
            account: None,
            wish,
            told: None,
            told_units: [].into(),
            restarted_units: [].into(),
            told_at: 0,
            told_again: 0,
            suggested: None,
            unasked_until: 0,
            over: [].into(),
            packed: None,
            is_unplaced: false,
            leaving: Vec::new(),
            adopted: [].into(),
            parsed: Default::default(),
        }
    }

    fn keystore(mark: &[u8]) -> Keystore {
        Keystore { secret: "p12".into(), mark: Hash::of(mark) }
    }

    #[tokio::test]
    async fn a_file_is_made_once_for_a_certificate_and_a_password() {
        for kind in [KeyKind::Ecdsa(256), KeyKind::Ecdsa(384), KeyKind::Rsa(2_048), KeyKind::Ed25519] {
            let mut issued = issued(kind).await;
            let today = keystore(b"one");
            assert!(is_packed(&issued, None) && !is_packed(&issued, Some(&today)), "{kind}");
            let password = Secret::new("pässword".into());
            issued.packed = Some(pack(&issued, &today, &password).unwrap());
            let made = file(&issued, Some(&today)).unwrap();
            let read = Pkcs12::from_der(&made).unwrap().parse2("pässword").unwrap();
            assert_eq!(read.cert.unwrap().to_pem().unwrap(), issued.chain.as_bytes(), "{kind}");
            let key = PKey::private_key_from_pem(issued.key.secret().reveal()).unwrap();
            assert!(read.pkey.unwrap().public_eq(&key), "{kind}");
            assert!(Pkcs12::from_der(&made).unwrap().parse2("another").is_err());
            assert!(!is_packed(&issued, Some(&keystore(b"two"))) && !is_packed(&issued, None));
            assert!(file(&issued, Some(&keystore(b"two"))).is_none() && file(&issued, None).is_none());
        }
    }

    #[tokio::test]
    async fn a_password_that_would_be_another_one_is_refused_and_not_repeated() {
        let issued = issued(KeyKind::Ecdsa(256)).await;
        for password in [&b""[..], b"canary\0more", b"canary\xff"] {
            let error = pack(&issued, &keystore(b"one"), &Secret::new(password.to_vec())).unwrap_err();
            assert!(error.chain().contains("secret p12") && !error.chain().contains("canary"));
        }
        let packed = pack(&issued, &keystore(b"one"), &Secret::new(b"canary".to_vec())).unwrap();
        assert!(format!("{packed:?}").contains("Private(…)"));
    }
}
