//! Names of things: scopes, resources, manifests, hashes.
//!
//! Identity of a resource is provider + scope + remote key. File, manifest name, namespace and source are
//! deliberately no part of it, so that moving a declaration between files is an empty plan.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

/// The unit that is read and written together: a DNS zone, a host's files, one cloud resource.
///
/// Written `PROVIDER/NAME`, for example `pdns/example.com`.
///
/// ```
/// use reconciled_provider::Scope;
/// let scope = Scope::new("pdns", "example.com");
/// assert_eq!(scope.to_string(), "pdns/example.com");
/// assert_eq!("pdns/example.com".parse(), Ok(scope));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// Name of the provider entry in the host configuration.
    pub provider: Arc<str>,
    /// Name of the scope within the provider.
    pub name: Arc<str>,
}

impl Scope {
    /// Names the scope `name` of the entry `provider`.
    pub fn new(provider: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Scope {
        Scope { provider: provider.into(), name: name.into() }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

impl FromStr for Scope {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Scope, Self::Err> {
        let (provider, name) = text.split_once('/').ok_or("a scope is written PROVIDER/NAME")?;
        Ok(Scope::new(provider, name))
    }
}

/// The remote key of a resource within its scope: `www.example.com./A`, `/etc/motd`, `nginx.service`.
///
/// Never contains references or secrets, and never depends on where the resource was declared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub Arc<str>);

impl From<&str> for ResourceId {
    fn from(text: &str) -> ResourceId {
        ResourceId(text.into())
    }
}

impl From<String> for ResourceId {
    fn from(text: String) -> ResourceId {
        ResourceId(text.into())
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identity of a manifest: `SOURCE/GROUP/KIND/NAMESPACE/NAME`, empty parts kept.
///
/// ```
/// use reconciled_provider::ManifestKey;
/// let key = ManifestKey::new("infra", "dns", "Zone", "", "example.com");
/// assert_eq!(&*key.0, "infra/dns/Zone//example.com");
/// assert_eq!(key.name(), "example.com");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestKey(pub Arc<str>);

impl ManifestKey {
    /// Joins the five parts; none but the last may contain a slash.
    pub fn new(source: &str, group: &str, kind: &str, namespace: &str, name: &str) -> ManifestKey {
        ManifestKey(format!("{source}/{group}/{kind}/{namespace}/{name}").into())
    }
    fn part(&self, index: usize) -> &str {
        self.0.splitn(5, '/').nth(index).unwrap_or("")
    }
    /// The source that declares the manifest.
    pub fn source(&self) -> &str {
        self.part(0)
    }
    /// The API group without its version, such as `dns`.
    pub fn group(&self) -> &str {
        self.part(1)
    }
    /// Kind, namespace and name, joined by slashes: all but source and group.
    pub fn within_group(&self) -> &str {
        self.0.splitn(3, '/').nth(2).unwrap_or("")
    }
    /// The kind, such as `Zone`.
    pub fn kind(&self) -> &str {
        self.part(2)
    }
    /// The namespace, empty for none.
    pub fn namespace(&self) -> &str {
        self.part(3)
    }
    /// The name within kind and namespace.
    pub fn name(&self) -> &str {
        self.part(4)
    }
}

impl fmt::Display for ManifestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a resource was declared, in 8 bytes: policy, file and commit hang on the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Index of the manifest in the desired set.
    pub manifest: u32,
    /// Line of the declaration in the manifest's file, from 1.
    pub line: u32,
}

/// A 128-bit content hash.
///
/// ```
/// use reconciled_provider::Hash;
/// assert_eq!(Hash::of(b"a"), Hash::of(b"a"));
/// assert_ne!(Hash::of(b"a"), Hash::of(b"b"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash(pub [u8; 16]);

impl Hash {
    /// Hashes `bytes` with BLAKE3, cut to 128 bits.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash::cut(blake3::hash(bytes))
    }
    /// Cuts a hash of BLAKE3 to 128 bits, for who feeds it part by part or with a key.
    ///
    /// ```
    /// use reconciled_provider::Hash;
    /// assert_eq!(Hash::cut(blake3::hash(b"a")), Hash::of(b"a"));
    /// ```
    pub fn cut(full: blake3::Hash) -> Hash {
        let mut cut = [0; 16];
        cut.copy_from_slice(&full.as_bytes()[..16]);
        Hash(cut)
    }
    /// Reads the hexadecimal form that [`fmt::Display`] writes.
    pub fn from_hex(text: &str) -> Option<Hash> {
        if text.len() != 32 {
            return None;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Hash(bytes))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Hash::from_hex(&text).ok_or_else(|| de::Error::custom(format!("`{text}` is no hash")))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_its_hexadecimal_form() {
        let hash = Hash::of(b"x");
        assert_eq!(Hash::from_hex(&hash.to_string()), Some(hash));
        assert_eq!(hash.to_string().len(), 32);
        for no_hash in ["", "zz", &"z".repeat(32), &"é".repeat(16)] {
            assert_eq!(Hash::from_hex(no_hash), None, "{no_hash}");
        }
    }

    #[test]
    fn a_scope_name_may_contain_slashes() {
        let scope: Scope = "aws/SqsQueue/jobs".parse().unwrap();
        assert_eq!((&*scope.provider, &*scope.name), ("aws", "SqsQueue/jobs"));
    }
}
