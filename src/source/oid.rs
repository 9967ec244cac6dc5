//! Object names of Git. How one is read that somebody wrote is in [`super::reference`].

use std::fmt;

use data_encoding::HEXLOWER;

use crate::text::short_commit;

/// The name of a commit or a blob: SHA-1, 20 bytes.
///
/// A file outside Git gets the name Git would give its content, so a cache keyed by it serves both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid([u8; 20]);

impl Oid {
    /// Returns the name Git gives a blob of these bytes.
    pub(super) fn of_blob(content: &[u8]) -> Result<Self, git2::Error> {
        reconciled_libgit2::begin();
        git2::Oid::hash_object(git2::ObjectType::Blob, content).map(Self::from)
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Returns the first seven digits, for people.
    pub fn short(&self) -> String {
        short_commit(&self.to_string()).to_owned()
    }
}

impl From<[u8; 20]> for Oid {
    fn from(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }
}

impl From<git2::Oid> for Oid {
    fn from(oid: git2::Oid) -> Self {
        let mut bytes = [0; 20];
        bytes.copy_from_slice(&oid.as_bytes()[..20]);
        Self(bytes)
    }
}

impl From<Oid> for git2::Oid {
    fn from(oid: Oid) -> Self {
        reconciled_libgit2::begin();
        Self::from_bytes(&oid.0).expect("a name has 20 bytes")
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEXLOWER.encode_mut_str(&self.0, &mut [0; 40]))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_outside_git_gets_the_name_git_gives_it() {
        let oid = Oid::of_blob(b"hello\n").unwrap();
        assert_eq!(oid.to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(oid.short(), "ce01362");
        assert_eq!(oid, oid.to_string().parse().unwrap());
        assert_eq!(oid, oid.to_string().to_uppercase().parse().unwrap());
        assert_eq!(Oid::from(git2::Oid::from(oid)), oid);
    }
}
