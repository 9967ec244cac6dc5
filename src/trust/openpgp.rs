//! Signatures by OpenPGP keys (RFC 9580), as far as a commit needs them.
//!
//! `pgp` does the packets and the arithmetic and leaves the judgement to its caller: which key may sign, since when,
//! until when, and whether it was revoked. As in `git verify-commit`, a key that is over by now vouches for nothing,
//! whenever it signed.

use super::{
    object::Signed,
    verdict::{Doubt, Signer},
};
use pgp::{
    composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey},
    packet::{Signature, SignatureType},
    types::{KeyDetails, Tag},
};
use std::{collections::HashSet, io::Cursor, time::Duration};

/// The public keys of a file.
#[derive(Debug, Default)]
pub struct Certificates {
    keys: Vec<SignedPublicKey>,
}

const ARMOR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

impl Certificates {
    /// Reads a file of public keys, armored blocks or binary. Errors: what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Certificates, String> {
        let mut keys = Vec::new();
        let mut take = |found: pgp::errors::Result<SignedPublicKey>| match found {
            Ok(key) => {
                keys.push(key);
                Ok(())
            }
            Err(error) => Err(format!("a key cannot be read: {error}")),
        };
        match std::str::from_utf8(bytes) {
            // A private key, a signature: nothing that could be skipped in good faith.
            Ok(text) if text.contains("-----BEGIN ") => {
                if text.matches("-----BEGIN ").count() != text.matches(ARMOR).count() {
                    return Err("there is something else than public keys in it".into());
                }
                for (begin, _) in text.match_indices(ARMOR) {
                    let (found, _) = SignedPublicKey::from_armor_many(Cursor::new(&text.as_bytes()[begin..]))
                        .map_err(|error| format!("a key cannot be read: {error}"))?;
                    found.into_iter().try_for_each(&mut take)?;
                }
            }
            _ => {
                let found = SignedPublicKey::from_bytes_many(Cursor::new(bytes))
                    .map_err(|error| format!("a key cannot be read: {error}"))?;
                found.into_iter().try_for_each(&mut take)?;
            }
        }
        if keys.is_empty() {
            return Err("there is no public key in it".into());
        }
        // Two copies may differ in a revocation, and only one of them would be looked at.
        let mut seen = HashSet::new();
        if let Some(twice) = keys.iter().find(|key| !seen.insert(key.fingerprint().to_string())) {
            let key = twice.fingerprint();
            return Err(format!("key {key} is in it twice: write the file anew from one export of each key"));
        }
        Ok(Certificates { keys })
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Says who signed.
    pub(super) fn judge(&self, signed: &Signed, armored: &str, now: Duration) -> Result<Signer, Doubt> {
        let malformed = |error: pgp::errors::Error| Doubt::Malformed(error.to_string());
        let (signature, _) =
            DetachedSignature::from_armor_single(Cursor::new(armored.as_bytes())).map_err(malformed)?;
        let issuer = issuer(&signature.signature);
        if !matches!(signature.signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
            return Err(Doubt::Malformed("it is over no document".into()));
        }
        for key in &self.keys {
            if is_of(&signature.signature, key) {
                let verified = signature.verify(&key.primary_key, &signed.payload).is_ok();
                return conclude(key, None, &signature.signature, verified, now);
            }
            let mut subkeys = key.public_subkeys.iter();
            if let Some(subkey) = subkeys.find(|subkey| is_of(&signature.signature, &subkey.key)) {
                let verified = signature.verify(&subkey.key, &signed.payload).is_ok();
                return conclude(key, Some(subkey), &signature.signature, verified, now);
            }
        }
        Err(Doubt::NotAllowed { key: issuer })
    }
}

/// True when the signature says that this key made it.
fn is_of(signature: &Signature, key: &impl KeyDetails) -> bool {
    let fingerprints = signature.issuer_fingerprint();
    if !fingerprints.is_empty() {
        return fingerprints.iter().any(|fingerprint| **fingerprint == key.fingerprint());
    }
    signature.issuer_key_id().iter().any(|id| **id == key.legacy_key_id())
}

/// Which key the signature says made it.
fn issuer(signature: &Signature) -> String {
    let fingerprint = signature.issuer_fingerprint().first().map(|fingerprint| format!("{fingerprint:X}"));
    let id = || signature.issuer_key_id().first().map(|id| id.to_string().to_uppercase());
    format!("OpenPGP {}", fingerprint.or_else(id).unwrap_or_else(|| "key without a name".into()))
}

fn conclude(
    key: &SignedPublicKey,
    subkey: Option<&SignedPublicSubKey>,
    signature: &Signature,
    verified: bool,
    now: Duration,
) -> Result<Signer, Doubt> {
    let shown = issuer(signature);
    if !verified {
        return Err(Doubt::Altered { key: shown });
    }
    let problem = problem(key, subkey, signature, now.as_secs());
    match problem {
        Some(problem) => Err(Doubt::NotValid { key: shown, problem }),
        None => {
            let user =
                key.details.users.first().map(|user| String::from_utf8_lossy(user.id.id()).into_owned());
            Ok(Signer { name: user.unwrap_or_else(|| shown.clone()), key: shown })
        }
    }
}

/// What keeps a signature from counting that is right in itself.
fn problem(
    key: &SignedPublicKey,
    subkey: Option<&SignedPublicSubKey>,
    signature: &Signature,
    now: u64,
) -> Option<String> {
    let primary = &key.primary_key;
    if key.details.revocation_signatures.iter().any(|revocation| revocation.verify_key(primary).is_ok()) {
        return Some("the key is revoked".into());
    }
    // What the owner said last about the key counts.
    let users = key.details.users.iter().flat_map(|user| {
        let own = |one: &&Signature| {
            // Who withdraws a name says nothing about the key.
            one.is_certification()
                && one.typ() != Some(SignatureType::CertRevocation)
                && one.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        };
        user.signatures.iter().filter(own)
    });
    let direct = key.details.direct_signatures.iter();
    let direct =
        direct.filter(|one| one.typ() == Some(SignatureType::Key) && one.verify_key(primary).is_ok());
    let newest = |one: &&Signature| one.created().map_or(0, |at| at.as_secs());
    let direct = direct.max_by_key(newest);
    // Of a name and of the key itself the last word counts each: neither takes back an end that the other sets.
    let named = users.max_by_key(newest);
    let Some(own) = named.or(direct) else {
        return Some("the key has no signature of its own".into());
    };
    if named.into_iter().chain(direct).any(|one| is_over(primary, one, now)) {
        return Some("the key has expired".into());
    }
    // Without a time nothing below could be judged.
    let Some(made) = signature.created() else {
        return Some("its signature does not say when it was made".into());
    };
    let made = u64::from(made.as_secs());
    if signature.signature_expiration_time().is_some_and(|lasts| ends(made, lasts.as_secs(), now)) {
        return Some("the signature has expired".into());
    }
    let Some(subkey) = subkey else {
        // A key of old times says nothing about what it is for.
        let flags = own.key_flags();
        let says_nothing = flags == Default::default();
        return (!flags.sign() && !says_nothing).then(|| "the key is not for signing".into());
    };
    let sound = |one: &&Signature| one.verify_subkey_binding(primary, &subkey.key).is_ok();
    let sound: Vec<&Signature> = subkey.signatures.iter().filter(sound).collect();
    if sound.iter().any(|one| one.typ() == Some(SignatureType::SubkeyRevocation)) {
        return Some("the subkey is revoked".into());
    }
    let Some(binding) = sound.into_iter().max_by_key(|one| one.created().map_or(0, |at| at.as_secs())) else {
        return Some("the subkey is not bound to its key".into());
    };
    // The subkey has to say itself that it belongs to the key, or anybody's could be claimed (RFC 9580, 5.2.1.9).
    let back = binding.embedded_signature();
    let is_mutual = back.is_some_and(|back| back.verify_primary_key_binding(&subkey.key, primary).is_ok());
    if !binding.key_flags().sign() || !is_mutual {
        return Some("the subkey is not for signing".into());
    }
    is_over(&subkey.key, binding, now).then(|| "the subkey has expired".into())
}

fn is_over(key: &impl KeyDetails, own: &Signature, now: u64) -> bool {
    let begins = u64::from(key.created_at().as_secs());
    own.key_expiration_time().is_some_and(|lasts| ends(begins, lasts.as_secs(), now))
}

/// A length of zero means for ever.
fn ends(begins: u64, lasts: u32, now: u64) -> bool {
    lasts > 0 && begins + u64::from(lasts) <= now
}
