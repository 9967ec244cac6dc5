//! Who presents itself with a signature of ssh: a key, or a certificate for one.

use super::certificate::Certificate;
use ssh_key::{HashAlg, public::KeyData};

/// Who presents itself with a signature.
pub(super) enum Presented {
    /// A key.
    Key(KeyData),
    /// A key that an authority vouches for.
    Certificate(Box<Certificate>),
}

impl Presented {
    /// The key that signed.
    pub(super) fn key(&self) -> &KeyData {
        match self {
            Presented::Key(key) => key,
            Presented::Certificate(certificate) => &certificate.key,
        }
    }
    /// Kind and fingerprint.
    pub(super) fn shown(&self) -> String {
        let kind = if matches!(self, Presented::Certificate(_)) { "certificate of " } else { "" };
        format!("{kind}{}", shown(self.key()))
    }
}

/// Kind and fingerprint of a key, as `ssh-keygen -l` writes them.
pub(super) fn shown(key: &KeyData) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}
