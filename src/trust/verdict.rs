//! What a signature proves: whose it is, or why nothing.

use std::fmt;

/// Whose signature it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// As the file of keys calls them: principals, or a user id.
    pub name: String,
    /// Kind and fingerprint of the key.
    pub key: String,
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.key)
    }
}

/// Why a commit or tag proves nothing. `key` is kind and fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error("it is not signed")]
    Unsigned,
    #[error("its signature cannot be read: {0}")]
    Malformed(String),
    #[error("it is signed with {kind}, and the source names no {missing}")]
    NoKeys { kind: &'static str, missing: &'static str },
    #[error("it is signed for the namespace `{0}`, not `git`")]
    Namespace(String),
    #[error("it is signed by {key}, which is not among the allowed keys")]
    NotAllowed { key: String },
    #[error("the signature by {key} does not match what it says: it was changed after it was signed")]
    Altered { key: String },
    #[error("it is signed by {key}, which does not count: {problem}")]
    NotValid { key: String, problem: String },
}
