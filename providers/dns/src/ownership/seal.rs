//! Encrypted marks (`--txt-encrypt-enabled`): gzip, AES-256-GCM with a nonce of 12 octets, base64 of nonce and
//! ciphertext.
//!
//! The nonce of ours is made from key, place and text, so that writing the same mark again writes the same text.
//! A nonce stands twice only for the very same message, which is what GCM asks for.

use base64::{Engine, engine::general_purpose};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use reconciled_provider::{Cx, Error, SecretRef};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use std::io::{Read, Write};
use zeroize::Zeroizing;

/// Octets of a tag and of the least that gzip makes.
const LEAST: usize = NONCE_LEN + 16 + 18;
/// Longest text of a mark.
const LONGEST: u64 = 4_096;

/// A key of 32 octets, wiped when dropped.
pub(crate) struct SealKey(Zeroizing<[u8; 32]>);

impl SealKey {
    /// Reads the key behind `reference`: 32 octets, or their base64.
    pub(crate) fn reveal(cx: &Cx, reference: &SecretRef) -> Result<SealKey, Error> {
        let secret = cx.secrets.reveal(reference)?;
        let raw = secret.reveal();
        let text = raw.trim_ascii();
        let exact = |octets: &[u8]| <[u8; 32]>::try_from(octets).ok();
        let decoded = || {
            let standard = general_purpose::STANDARD.decode(text);
            standard.or_else(|_| general_purpose::URL_SAFE.decode(text)).ok().map(Zeroizing::new)
        };
        let key = exact(raw).or_else(|| exact(text)).or_else(|| exact(&decoded()?));
        key.map(|key| SealKey(Zeroizing::new(key))).ok_or_else(|| {
            Error::invalid("the key of encrypted marks has not 32 octets")
                .hint("it is the value of `--txt-encrypt-aes-key`: 32 octets, or their base64")
        })
    }

    #[cfg(test)]
    pub(crate) fn of(key: [u8; 32]) -> SealKey {
        SealKey(Zeroizing::new(key))
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.0[..]).ok()?))
    }

    /// The text inside; none when it was not sealed with this key.
    pub(crate) fn open(&self, sealed: &str) -> Option<String> {
        let mut octets = general_purpose::STANDARD.decode(sealed.trim_matches('"')).ok()?;
        let (nonce, text) = octets.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let packed = self.cipher()?.open_in_place(nonce, Aad::empty(), text).ok()?;
        let mut text = String::new();
        GzDecoder::new(&*packed).take(LONGEST).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// `text` sealed for the mark at `place`.
    pub(crate) fn seal(&self, place: &str, text: &str) -> Result<String, Error> {
        let failed = || Error::unexpected("encrypt a mark");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0[..]);
        let tag = hmac::sign(&key, format!("reconciled mark\0{place}\0{text}").as_bytes());
        let mut octets = tag.as_ref()[..NONCE_LEN].to_vec();
        let nonce = Nonce::try_assume_unique_for_key(&octets).map_err(|_| failed())?;
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(text.as_bytes()).map_err(|_| failed())?;
        let mut packed = packer.finish().map_err(|_| failed())?;
        let cipher = self.cipher().ok_or_else(failed)?;
        cipher.seal_in_place_append_tag(nonce, Aad::empty(), &mut packed).map_err(|_| failed())?;
        octets.append(&mut packed);
        Ok(general_purpose::STANDARD.encode(octets))
    }
}

/// True when a text may be a sealed mark: base64 of enough octets, and nothing else.
pub(crate) fn may_be_sealed(text: &str) -> bool {
    let text = text.trim_matches('"');
    text.len() >= LEAST * 4 / 3
        && text.len().is_multiple_of(4)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(octet: u8) -> SealKey {
        SealKey::of([octet; 32])
    }

    #[test]
    fn what_is_sealed_opens_with_its_key_alone_and_is_the_same_each_time() {
        let text = "heritage=external-dns,external-dns/owner=dns1";
        let sealed = key(7).seal("a-www.ex.com.", text).unwrap();
        assert!(may_be_sealed(&sealed) && !sealed.contains("heritage"));
        assert_eq!(key(7).open(&sealed).as_deref(), Some(text));
        assert_eq!(key(7).open(&format!("\"{sealed}\"")).as_deref(), Some(text));
        assert_eq!(key(8).open(&sealed), None);
        assert_eq!(key(7).seal("a-www.ex.com.", text).unwrap(), sealed);
        assert_ne!(key(7).seal("a-api.ex.com.", text).unwrap(), sealed);
    }

    /// Sealed by the Go code of ExternalDNS (endpoint/crypto.go, EncryptText).
    #[test]
    fn what_external_dns_sealed_opens() {
        let key = SealKey::of(*b"12345678901234567890123456789012");
        let sealed = "dg4vhtUvwaC2vZQtoKaUazwNO4LaXy2XX7esQr3W9kSQ9UkIiE2JFzHFmtUkKKT4vJuLiPnmATXmArPZL9+xcPuCblxMvfiRqTOS1JMwC\
                      kDfC991P6y+GCUGb05s3Q6rK9PQojohY9RG3CV6jCMmAblUCpLhwQYkCoxs98YluA+Tyiu75Q==";
        let text = "\"heritage=external-dns,external-dns/owner=k8s,external-dns/resource=ingress/default/web,\
                    external-dns/version=v1\"";
        assert!(may_be_sealed(sealed));
        assert_eq!(key.open(sealed).as_deref(), Some(text));
    }

    #[test]
    fn ordinary_texts_do_not_look_sealed() {
        for text in ["", "v=spf1 -all", "google-site-verification=abc", "aGVsbG8="] {
            assert!(!may_be_sealed(text) && key(1).open(text).is_none(), "{text}");
        }
    }
}
