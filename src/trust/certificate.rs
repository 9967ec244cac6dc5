//! Certificates of ssh users (PROTOCOL.certkeys), as far as a signature needs them.
//!
//! Read here because `ssh-key` 0.6 refuses one without an end, which is what `ssh-keygen` makes unless told otherwise;
//! the keys in it and the arithmetic are that crate's.

use signature::Verifier;
use ssh_key::{PublicKey, Signature, public::KeyData};

/// What a certificate says, not yet believed.
#[derive(Debug)]
pub(super) struct Certificate {
    /// The key it is about.
    pub(super) key: KeyData,
    /// It is for a user, not for a host.
    pub(super) is_user: bool,
    /// Whom the key stands for.
    pub(super) principals: Vec<String>,
    /// From when, in seconds since 1970.
    pub(super) valid_after: u64,
    /// Until when, exclusive; the largest number for ever.
    pub(super) valid_before: u64,
    /// What it must not be used for otherwise.
    pub(super) critical_options: Vec<String>,
    /// Who vouches for it.
    pub(super) authority: KeyData,
    signature: Signature,
    signed: Vec<u8>,
}

const SUFFIX: &[u8] = b"-cert-v01@openssh.com";

/// True for the kind of key that a certificate calls itself.
pub(super) fn is_certificate(algorithm: &[u8]) -> bool {
    algorithm.ends_with(SUFFIX)
}

impl Certificate {
    /// Reads one. None for what is none, or is of a kind that nobody knows.
    pub(super) fn read(bytes: &[u8]) -> Option<Certificate> {
        let mut rest = bytes;
        let algorithm = take(&mut rest)?.strip_suffix(SUFFIX)?;
        let _nonce = take(&mut rest)?;
        // The fields of the plain key, in its order, and how that kind is called without a certificate.
        let (fields, suffix): (usize, &[u8]) = match algorithm {
            b"ssh-ed25519" => (1, b""),
            b"ssh-rsa" | b"ecdsa-sha2-nistp256" | b"ecdsa-sha2-nistp384" | b"ecdsa-sha2-nistp521" => (2, b""),
            b"sk-ssh-ed25519" => (2, b"@openssh.com"),
            b"sk-ecdsa-sha2-nistp256" => (3, b"@openssh.com"),
            _ => return None,
        };
        let mut key = string(&[algorithm, suffix].concat())?;
        for _ in 0..fields {
            key.extend(string(take(&mut rest)?)?);
        }
        let _serial = number::<8>(&mut rest)?;
        let is_user = u32::from_be_bytes(number(&mut rest)?) == 1;
        let _key_id = take(&mut rest)?;
        let principals = list(take(&mut rest)?, 1)?;
        let valid_after = u64::from_be_bytes(number(&mut rest)?);
        let valid_before = u64::from_be_bytes(number(&mut rest)?);
        let critical_options = list(take(&mut rest)?, 2)?;
        let _extensions = take(&mut rest)?;
        let _reserved = take(&mut rest)?;
        let authority = PublicKey::from_bytes(take(&mut rest)?).ok()?.key_data().clone();
        let signed = bytes[..bytes.len() - rest.len()].to_vec();
        let signature = Signature::try_from(take(&mut rest)?).ok()?;
        let key = PublicKey::from_bytes(&key).ok()?.key_data().clone();
        rest.is_empty().then_some(Certificate {
            key,
            is_user,
            principals,
            valid_after,
            valid_before,
            critical_options,
            authority,
            signature,
            signed,
        })
    }

    /// True where its authority signed it.
    pub(super) fn is_signed(&self) -> bool {
        self.authority.verify(&self.signed, &self.signature).is_ok()
    }

    /// True at `time`, in seconds since 1970.
    pub(super) fn is_valid_at(&self, time: i64) -> bool {
        u64::try_from(time).is_ok_and(|time| self.valid_after <= time && time < self.valid_before)
    }
}

/// Takes a string: four bytes of length, and that many (RFC 4251 section 5).
pub(super) fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(number(rest)?);
    let (text, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(text)
}

fn number<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_at_checked(N)?;
    *rest = after;
    bytes.try_into().ok()
}

/// Every first of `width` strings.
fn list(mut rest: &[u8], width: usize) -> Option<Vec<String>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        all.push(String::from_utf8(take(&mut rest)?.to_vec()).ok()?);
        for _ in 1..width {
            take(&mut rest)?;
        }
    }
    Some(all)
}

fn string(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok()?;
    Some([&length.to_be_bytes(), bytes].concat())
}
