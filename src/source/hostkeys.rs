//! `known_hosts` of OpenSSH (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): which keys a host may offer.
//!
//! There is no trust on first use: an unknown host is an error that says what to run. Plain, bracketed, wildcard,
//! negated and hashed names and `@revoked` are understood; `@cert-authority` lines are skipped, since libssh2
//! does not check host certificates.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use reconciled_provider::address::pattern_list;
use ring::hmac;

use super::error::HostPort;

/// What a file says about one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownKeys {
    /// Blobs of the keys the host may offer.
    accepted: Vec<Vec<u8>>,
    revoked: Vec<Vec<u8>>,
}

/// What follows from the key a host offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Known,
    Unknown,
    Mismatch,
}

impl KnownKeys {
    /// Finds the keys of `host` in the text of a `known_hosts` file. Lines that cannot be read know nothing.
    pub(super) fn find(text: &str, host: &HostPort) -> Self {
        let mut keys = Self::default();
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = line.split_ascii_whitespace().peekable();
            let marker = fields.next_if(|field| field.starts_with('@'));
            let (Some(names), Some(_), Some(key)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let Ok(key) = BASE64_STANDARD.decode(key) else {
                continue;
            };
            if !matches_host(names, host) {
                continue;
            }
            match marker {
                None => keys.accepted.push(key),
                Some("@revoked") => keys.revoked.push(key),
                Some(_) => {}
            }
        }
        keys
    }

    pub(super) fn judge(&self, key: &[u8]) -> Verdict {
        let is_in = |keys: &[Vec<u8>]| keys.iter().any(|known| known == key);
        if is_in(&self.revoked) {
            Verdict::Mismatch
        } else if is_in(&self.accepted) {
            Verdict::Known
        } else if self.accepted.is_empty() {
            Verdict::Unknown
        } else {
            Verdict::Mismatch
        }
    }

    /// Returns the accepted keys as `TYPE BASE64`.
    pub(super) fn lines(&self) -> BTreeSet<String> {
        let line = |key: &Vec<u8>| Some(format!("{} {}", key_type(key)?, BASE64_STANDARD.encode(key)));
        self.accepted.iter().filter_map(line).collect()
    }
}

/// Returns the type a key's blob begins with (RFC 4253, 6.6).
fn key_type(key: &[u8]) -> Option<&str> {
    let length = u32::from_be_bytes(*key.first_chunk()?) as usize;
    let name = std::str::from_utf8(key.get(4..4 + length)?).ok()?;
    name.bytes().all(|byte| byte.is_ascii_graphic()).then_some(name)
}

/// Returns a key's fingerprint as OpenSSH prints it.
pub(super) fn fingerprint(key: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, key);
    format!("SHA256:{}", BASE64_STANDARD_NO_PAD.encode(digest))
}

fn matches_host(names: &str, host: &HostPort) -> bool {
    let name = HostPort { host: host.host.to_ascii_lowercase(), port: host.port }.to_string();
    if let Some(hashed) = names.strip_prefix("|1|") {
        return matches_hash(hashed, &name);
    }
    pattern_list(&names.to_ascii_lowercase(), &name)
}

/// `SALT|HASH`: the HMAC-SHA-1 of the name, keyed by the salt.
fn matches_hash(hashed: &str, name: &str) -> bool {
    let Some((salt, hash)) = hashed.split_once('|') else {
        return false;
    };
    let (Ok(salt), Ok(hash)) = (BASE64_STANDARD.decode(salt), BASE64_STANDARD.decode(hash)) else {
        return false;
    };
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    hmac::verify(&key, name.as_bytes(), &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    const OTHER: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn check(text: &str, host: &str, port: u16, verdict: Verdict) {
        let host = HostPort { host: host.to_owned(), port };
        let key = BASE64_STANDARD.decode(KEY).unwrap();
        let keys = KnownKeys::find(text, &host);
        assert_eq!(keys.judge(&key), verdict, "{host} in {text:?}");
    }

    #[test]
    fn names_are_plain_bracketed_wildcard_or_negated() {
        let plain = &format!("# comment\n\ngit.example,192.0.2.1 ssh-ed25519 {KEY} me@here\n");
        check(plain, "git.example", 22, Verdict::Known);
        check(plain, "GIT.example", 22, Verdict::Known);
        check(plain, "192.0.2.1", 22, Verdict::Known);
        check(plain, "git.example", 2222, Verdict::Unknown);
        check(plain, "git.example.org", 22, Verdict::Unknown);
        check(&format!("[git.example]:2222 ssh-ed25519 {KEY}"), "git.example", 2222, Verdict::Known);
        let wild = &format!("*.example,!bad.example ssh-ed25519 {KEY}");
        check(wild, "git.example", 22, Verdict::Known);
        check(wild, "bad.example", 22, Verdict::Unknown);
        check(&format!("g?t.* ssh-ed25519 {KEY}"), "git.example", 22, Verdict::Known);
    }

    #[test]
    fn hashed_names_are_found() {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"01234567890123456789");
        let hash = BASE64_STANDARD.encode(hmac::sign(&key, b"git.example"));
        let salt = BASE64_STANDARD.encode(b"01234567890123456789");
        let text = &format!("|1|{salt}|{hash} ssh-ed25519 {KEY}");
        check(text, "git.example", 22, Verdict::Known);
        check(text, "other.example", 22, Verdict::Unknown);
    }

    #[test]
    fn another_key_or_a_revoked_one_is_a_mismatch() {
        check(&format!("h ssh-ed25519 {OTHER}"), "h", 22, Verdict::Mismatch);
        check(&format!("h ssh-ed25519 {OTHER}\nh ssh-ed25519 {KEY}"), "h", 22, Verdict::Known);
        check(&format!("h ssh-ed25519 {KEY}\n@revoked * ssh-ed25519 {KEY}"), "h", 22, Verdict::Mismatch);
    }

    #[test]
    fn authorities_and_broken_lines_know_nothing() {
        check(&format!("@cert-authority * ssh-ed25519 {KEY}"), "h", 22, Verdict::Unknown);
        for line in ["h", "h ssh-ed25519", "h ssh-ed25519 %%%", "|1|x ssh-ed25519 AAAA", "\u{0} x y"] {
            check(line, "h", 22, Verdict::Unknown);
        }
    }

    #[test]
    fn keys_are_printed_as_openssh_does() {
        let key = BASE64_STANDARD.decode(KEY).unwrap();
        // `ssh-keygen -lf` of GitHub's published key.
        assert_eq!(fingerprint(&key), "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
        let keys = KnownKeys { accepted: vec![key], revoked: vec![] };
        assert_eq!(keys.lines(), BTreeSet::from([format!("ssh-ed25519 {KEY}")]));
    }
}
