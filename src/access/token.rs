//! Tokens: made here, kept by their bearers, known to a daemon by their hash alone.
//!
//! A token is 256 random bits, so its hash needs no salt and no slow function: nobody can try them all. What is
//! written down is SHA-256, so that `printf %s "$TOKEN" | sha256sum` says the same.

use crate::{
    config::{Role, Token, describe_secret},
    failure::Failure,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use reconciled_provider::Secrets;
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use std::{fmt, sync::Arc};
use zeroize::Zeroizing;

/// What every token begins with, so that scanners for secrets know one.
const PREFIX: &str = "rcd_";
/// What a hash begins with.
const FORM: &str = "sha256:";

/// The hash of a token.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of `token`.
    pub fn of(token: &str) -> TokenHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        TokenHash(hash)
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn read(text: &str) -> Option<TokenHash> {
        let digits = text.trim().strip_prefix(FORM)?;
        blake3::Hash::from_hex(digits).ok().map(|hash| TokenHash(*hash.as_bytes()))
    }

    /// Compares in constant time.
    fn is(&self, other: &TokenHash) -> bool {
        blake3::Hash::from(self.0) == blake3::Hash::from(other.0)
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORM}{}", blake3::Hash::from(self.0).to_hex())
    }
}

/// A new token.
///
/// Errors: the system gives no random bytes.
pub fn new_token() -> Result<Zeroizing<String>, Failure> {
    let mut bytes = Zeroizing::new([0; 32]);
    SystemRandom::new()
        .fill(bytes.as_mut_slice())
        .map_err(|_| Failure::plain("the system's random number generator failed"))?;
    Ok(Zeroizing::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(*bytes))))
}

/// The hash that the configuration names for a token.
///
/// Errors: it cannot be read, or is none.
pub fn hash_of(token: &Token, secrets: &dyn Secrets) -> Result<TokenHash, Failure> {
    let written = secrets.reveal(&token.hash)?;
    std::str::from_utf8(written.reveal()).ok().and_then(TokenHash::read).ok_or_else(|| {
        Failure::hinted(
            format!("{} holds no hash of a token", describe_secret(&token.hash)),
            "write `sha256:` and 64 digits, as `reconciled token new` prints; never the token itself",
        )
    })
}

/// The tokens of one configuration.
#[derive(Default)]
pub struct Tokens(Vec<(Arc<str>, Role, TokenHash)>);

impl Tokens {
    /// Reads the hashes of `tokens`. A token whose hash cannot be read opens nothing, which is logged.
    pub fn of(tokens: &[Token], secrets: &dyn Secrets) -> Tokens {
        let read = |token: &Token| match hash_of(token, secrets) {
            Ok(hash) => Some((token.name.clone(), token.role, hash)),
            Err(failure) => {
                let hint = failure.hint().unwrap_or_default();
                tracing::error!(token = &*token.name, error = %failure, hint, "token opens nothing");
                None
            }
        };
        Tokens(tokens.iter().filter_map(read).collect())
    }

    /// Whose token this is, and what it may be used for. Takes as long for one that is known as for any other.
    pub fn find(&self, token: &str) -> Option<(Arc<str>, Role)> {
        let shown = TokenHash::of(token);
        let mut found = None;
        for (name, role, hash) in &self.0 {
            if hash.is(&shown) {
                found = Some((name.clone(), *role));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, HostSecrets};
    use reconciled_provider::SecretRef;

    #[test]
    fn a_hash_is_the_one_of_sha256sum() {
        let hash = TokenHash::of("abc");
        let written = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), written);
        assert!(TokenHash::read(&format!(" {written}\n")).unwrap().is(&hash));
        for wrong in ["", "sha256:", &written[7..], "sha256:xyz", "abc"] {
            assert!(TokenHash::read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (one, two) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(*one, *two);
        assert_eq!((one.len(), one.starts_with(PREFIX)), (PREFIX.len() + 43, true));
    }

    #[test]
    fn a_token_is_known_by_its_hash_and_a_broken_hash_opens_nothing() {
        let token = new_token().unwrap();
        let environment = Environment::of([("GOOD", &*TokenHash::of(&token).to_string()), ("BAD", &token)]);
        let secrets = HostSecrets::new([0; 32], environment, Default::default());
        let entry = |name: &str, place: &str| Token {
            name: name.into(),
            role: Role::Read,
            hash: SecretRef::Env(place.into()),
        };
        let tokens = Tokens::of(&[entry("bad", "BAD"), entry("none", "NONE"), entry("ci", "GOOD")], &secrets);
        assert_eq!(tokens.find(&token), Some(("ci".into(), Role::Read)));
        assert_eq!(tokens.find(&token[1..]), None);
        assert_eq!(tokens.find(""), None);
        let failure = hash_of(&entry("bad", "BAD"), &secrets).err().unwrap();
        assert!(!failure.to_string().contains(&**token), "{failure}");
    }
}
