//! Opens what age (age-encryption.org/v1) encrypted for an X25519 key, which is how sops wraps the key of a file.
//!
//! Only that: no passphrases, no plugins, no SSH keys, and content of one chunk (64 KiB), since a key has 32 bytes.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bech32::{Bech32, Hrp, primitives::decode::CheckedHrpstring};
use ring::{aead, hkdf, hmac};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

const VERSION: &str = "age-encryption.org/v1";
const WRAP: &[u8] = b"age-encryption.org/v1/X25519";
/// The last chunk of the payload, which is also the first: eleven bytes of a counter, and a flag.
const LAST_CHUNK: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// A key that opens: `AGE-SECRET-KEY-1…`. Wiped when dropped, never printed.
pub(super) struct Identity(StaticSecret);

impl Identity {
    /// The keys in the text of a key file: one in each line, `#` begins a comment. None when a line is no such key.
    pub(super) fn read(text: &str) -> Option<Vec<Identity>> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(Identity::parse).collect()
    }

    fn parse(line: &str) -> Option<Identity> {
        let checked = CheckedHrpstring::new::<Bech32>(line).ok()?;
        if !checked.hrp().as_str().eq_ignore_ascii_case("age-secret-key-") {
            return None;
        }
        let mut key = Zeroizing::new([0; 32]);
        let mut bytes = checked.byte_iter();
        for place in key.iter_mut() {
            *place = bytes.next()?;
        }
        bytes.next().is_none().then(|| Identity(StaticSecret::from(*key)))
    }

    /// What others encrypt for: `age1…`.
    pub(super) fn recipient(&self) -> String {
        let public = PublicKey::from(&self.0);
        bech32::encode::<Bech32>(Hrp::parse_unchecked("age"), public.as_bytes()).unwrap_or_default()
    }

    fn unwrap(&self, ephemeral: &str, body: &str) -> Option<Zeroizing<Vec<u8>>> {
        let share: [u8; 32] = STANDARD_NO_PAD.decode(ephemeral).ok()?.try_into().ok()?;
        let shared = self.0.diffie_hellman(&PublicKey::from(share));
        // All zero for a share that is no point of the curve's large group.
        if !shared.was_contributory() {
            return None;
        }
        let mut salt = share.to_vec();
        salt.extend_from_slice(PublicKey::from(&self.0).as_bytes());
        let key = derive(&salt, shared.as_bytes(), WRAP)?;
        open(&key, [0; 12], STANDARD_NO_PAD.decode(body).ok()?)
    }
}

/// What is in an armored file, if one of the keys opens it and nothing in it was changed.
pub(super) fn decrypt(armored: &str, identities: &[Identity]) -> Option<Zeroizing<Vec<u8>>> {
    let file = armor(armored)?;
    let header = Header::read(&file)?;
    let file_key = identities
        .iter()
        .find_map(|identity| header.stanzas.iter().find_map(|(share, body)| identity.unwrap(share, body)))?;
    let mac_key = derive(&[], &file_key, b"header")?;
    let mac = STANDARD_NO_PAD.decode(header.mac).ok()?;
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &*mac_key), header.signed, &mac).ok()?;
    let (nonce, payload) = header.payload.split_at_checked(16)?;
    let key = derive(nonce, &file_key, b"payload")?;
    open(&key, LAST_CHUNK, payload.to_vec())
}

fn armor(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().strip_prefix("-----BEGIN AGE ENCRYPTED FILE-----")?;
    let text = text.strip_suffix("-----END AGE ENCRYPTED FILE-----")?;
    let joined: String = text.split_whitespace().collect();
    base64::engine::general_purpose::STANDARD.decode(joined).ok()
}

struct Header<'a> {
    /// Share and wrapped key of each recipient of the type X25519.
    stanzas: Vec<(&'a str, String)>,
    /// What the MAC is over.
    signed: &'a [u8],
    mac: &'a str,
    payload: &'a [u8],
}

impl Header<'_> {
    fn read(file: &[u8]) -> Option<Header<'_>> {
        let mut at = 0;
        let mut line = || {
            let end = file[at..].iter().position(|byte| *byte == b'\n')?;
            let text = std::str::from_utf8(&file[at..at + end]).ok()?;
            let begin = at;
            at += end + 1;
            Some((begin, text, at))
        };
        if line()?.1 != VERSION {
            return None;
        }
        let mut stanzas = Vec::new();
        loop {
            let (begin, text, end) = line()?;
            if let Some(mac) = text.strip_prefix("--- ") {
                let signed = &file[..begin + 3];
                return Some(Header { stanzas, signed, mac, payload: &file[end..] });
            }
            let mut words = text.strip_prefix("-> ")?.split(' ');
            let (kind, share) = (words.next()?, words.next());
            let mut body = String::new();
            // The last line of a body is shorter than the others.
            loop {
                let (_, text, _) = line()?;
                body.push_str(text);
                if text.len() < 64 {
                    break;
                }
            }
            if let (true, Some(share), None) = (kind == "X25519", share, words.next()) {
                stanzas.push((share, body));
            }
        }
    }
}

struct Bytes32;

impl hkdf::KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

fn derive(salt: &[u8], secret: &[u8], info: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    extracted.expand(&[info], Bytes32).ok()?.fill(&mut *key).ok()?;
    Some(key)
}

fn open(key: &[u8; 32], nonce: [u8; 12], sealed: Vec<u8>) -> Option<Zeroizing<Vec<u8>>> {
    let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key).ok()?);
    let mut bytes = Zeroizing::new(sealed);
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    let length = key.open_in_place(nonce, aead::Aad::empty(), &mut bytes).ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}
