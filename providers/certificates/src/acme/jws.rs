//! Signed requests (RFC 7515), with keys on P-256, and what the key of an account proves.

use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use reconciled_provider::{Error, Secret};
use ring::{
    digest, hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};

/// The key of an account.
pub(super) struct AccountKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl std::fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccountKey(…)")
    }
}

/// Who signs: the URL of the account, or its key while it has none.
#[derive(Clone, Copy)]
pub(super) enum Signer<'a> {
    Account(&'a str),
    Key,
}

pub(super) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl AccountKey {
    /// A new key, as it is kept (PKCS #8, base64).
    pub(super) fn make() -> Result<Secret, Error> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| Error::unavailable("make a key for an account: no random numbers"))?;
        Ok(Secret::new(STANDARD.encode(made.as_ref()).into_bytes()))
    }

    /// Reads a key as it is kept; none where it is none.
    pub(super) fn read(kept: &Secret) -> Option<AccountKey> {
        let random = SystemRandom::new();
        let der = STANDARD.decode(kept.reveal()).map(zeroize::Zeroizing::new).ok()?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).ok()?;
        Some(AccountKey { pair, random })
    }

    /// The public half (RFC 7517). Its members are in the order that a thumbprint needs.
    fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        json!({"crv": "P-256", "kty": "EC", "x": base64url(x), "y": base64url(y)})
    }

    /// What an answer to a challenge is made of (RFC 8555 §8.1).
    pub(super) fn authorization(&self, token: &str) -> String {
        let print = digest::digest(&digest::SHA256, self.jwk().to_string().as_bytes());
        format!("{token}.{}", base64url(print.as_ref()))
    }

    /// What stands in a certificate for a challenge (RFC 8737 §3).
    pub(super) fn digest(&self, token: &str) -> Vec<u8> {
        digest::digest(&digest::SHA256, self.authorization(token).as_bytes()).as_ref().to_vec()
    }

    /// The value of a TXT record for a challenge (RFC 8555 §8.4).
    pub(super) fn txt(&self, token: &str) -> String {
        base64url(&self.digest(token))
    }

    /// A signed request to `url`; no payload is POST-as-GET.
    pub(super) fn sign(
        &self,
        signer: Signer<'_>,
        nonce: &str,
        url: &str,
        payload: Option<&Value>,
    ) -> Result<Vec<u8>, Error> {
        let protected = match signer {
            Signer::Account(kid) => json!({"alg": "ES256", "kid": kid, "nonce": nonce, "url": url}),
            Signer::Key => json!({"alg": "ES256", "jwk": self.jwk(), "nonce": nonce, "url": url}),
        };
        let payload = payload.map_or_else(String::new, Value::to_string);
        Ok(self.signed(&protected, &payload)?.to_string().into_bytes())
    }

    /// A text with a signature (RFC 7515, flattened).
    fn signed(&self, protected: &Value, payload: &str) -> Result<Value, Error> {
        let protected = base64url(protected.to_string().as_bytes());
        let payload = base64url(payload.as_bytes());
        let signature = self.pair.sign(&self.random, format!("{protected}.{payload}").as_bytes());
        let signature = signature.map_err(|_| Error::unexpected("sign a request to an authority"))?;
        Ok(json!({"protected": protected, "payload": payload, "signature": base64url(signature.as_ref())}))
    }

    /// What gives the account at `account` this key instead of `old` (§7.3.5): signed by the new key, with no nonce.
    pub(super) fn take_over(&self, old: &AccountKey, account: &str, url: &str) -> Result<Value, Error> {
        let protected = json!({"alg": "ES256", "jwk": self.jwk(), "url": url});
        self.signed(&protected, &json!({"account": account, "oldKey": old.jwk()}).to_string())
    }

    /// What binds the account to one that exists elsewhere (§7.3.4). `key` is in base64url.
    pub(super) fn bind(&self, id: &str, key: &Secret, url: &str) -> Result<Value, Error> {
        let bad = || Error::invalid("the key of the external account is not in base64url");
        let key = key.reveal_str()?.trim_end_matches('=');
        let key = URL_SAFE_NO_PAD.decode(key).map(zeroize::Zeroizing::new).map_err(|_| bad())?;
        let protected = base64url(json!({"alg": "HS256", "kid": id, "url": url}).to_string().as_bytes());
        let payload = base64url(self.jwk().to_string().as_bytes());
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let tag = hmac::sign(&key, format!("{protected}.{payload}").as_bytes());
        Ok(json!({"protected": protected, "payload": payload, "signature": base64url(tag.as_ref())}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_kept_and_proves_the_same() {
        let kept = AccountKey::make().unwrap();
        let (one, two) = (AccountKey::read(&kept).unwrap(), AccountKey::read(&kept).unwrap());
        assert_eq!(one.authorization("token"), two.authorization("token"));
        assert_eq!(one.txt("token").len(), 43);
        assert!(one.authorization("token").starts_with("token."));
        assert!(AccountKey::read(&Secret::new(b"canary".to_vec())).is_none());
        let error = one.bind("kid", &Secret::new(b"canary in clear".to_vec()), "https://a").unwrap_err();
        assert!(!error.chain().contains("canary"));
    }
}
