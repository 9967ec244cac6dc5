//! Whether a list of checksums was signed by one of the keys that a registry names for a provider.
//!
//! A key that is over by now vouches for what it signed, as it does to OpenTofu: releases outlive the keys of their
//! makers. One that was revoked does not.

use pgp::{
    composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey},
    crypto::hash::HashAlgorithm,
    packet::SignatureType,
    types::KeyDetails,
};
use std::io::Cursor;

/// Returns the fingerprint of the key that made `signature` over `content`.
///
/// Errors: what is wrong with the signature or the keys.
pub(super) fn verify(keys: &[String], content: &[u8], signature: &[u8]) -> Result<String, String> {
    let malformed = |error: pgp::errors::Error| format!("the signature cannot be read: {error}");
    let signature = match signature.starts_with(b"-----BEGIN ") {
        true => DetachedSignature::from_armor_single(Cursor::new(signature)).map_err(malformed)?.0,
        false => DetachedSignature::from_bytes(Cursor::new(signature)).map_err(malformed)?,
    };
    if !matches!(signature.signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
        return Err("the signature is over no document".into());
    }
    // Others can be made for a content that somebody chose.
    use HashAlgorithm::{Sha3_256, Sha3_512, Sha224, Sha256, Sha384, Sha512};
    if !signature
        .signature
        .hash_alg()
        .is_some_and(|hash| [Sha224, Sha256, Sha384, Sha512, Sha3_256, Sha3_512].contains(&hash))
    {
        return Err("the signature is by an algorithm that is no longer safe".into());
    }
    let mut is_revoked = false;
    for armored in keys {
        let (all, _) = SignedPublicKey::from_armor_many(Cursor::new(armored.as_bytes()))
            .map_err(|error| format!("a key that the registry names cannot be read: {error}"))?;
        for key in all {
            let key =
                key.map_err(|error| format!("a key that the registry names cannot be read: {error}"))?;
            let primary = &key.primary_key;
            let by_key = signature.verify(primary, content).is_ok();
            let by_subkey = || {
                key.public_subkeys
                    .iter()
                    .any(|subkey| signature.verify(&subkey.key, content).is_ok() && may_sign(&key, subkey))
            };
            if !by_key && !by_subkey() {
                continue;
            }
            if key.details.revocation_signatures.iter().any(|one| one.verify_key(primary).is_ok()) {
                is_revoked = true;
                continue;
            }
            return Ok(format!("{:X}", key.fingerprint()));
        }
    }
    Err(match is_revoked {
        true => "the key that signed is revoked".into(),
        false => "none of the keys that the registry names for it signed this".into(),
    })
}

/// True for a subkey that both sides say belongs to the key, and that is for signing.
fn may_sign(key: &SignedPublicKey, subkey: &SignedPublicSubKey) -> bool {
    let primary = &key.primary_key;
    let sound: Vec<_> = subkey
        .signatures
        .iter()
        .filter(|one| one.verify_subkey_binding(primary, &subkey.key).is_ok())
        .collect();
    if sound.iter().any(|one| one.typ() == Some(SignatureType::SubkeyRevocation)) {
        return false;
    }
    let newest = sound.into_iter().max_by_key(|one| one.created().map_or(0, |at| at.as_secs()));
    newest.is_some_and(|binding| {
        let back = binding.embedded_signature();
        binding.key_flags().sign()
            && back.is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok())
    })
}
