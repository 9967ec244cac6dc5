//! How files and directories are called where a certificate is used.

/// The chain.
pub const CHAIN: &str = "tls.crt";
/// The key.
pub const KEY: &str = "tls.key";
/// The certificate of the issuer.
pub const CA: &str = "ca.crt";
/// Key and chain.
pub const COMBINED: &str = "tls-combined.pem";
/// All of it for Java and others (PKCS #12).
pub const KEYSTORE: &str = "keystore.p12";
/// Every name that is ever written.
pub const NAMES: [&str; 5] = [CHAIN, KEY, CA, COMBINED, KEYSTORE];

/// The link that is switched.
pub(crate) const DATA: &str = "..data";
/// Which certificate is put into the directory.
pub(super) const MARK: &str = "..certificate";

/// The beginning of the fingerprint that a version was put there with.
pub(super) fn fingerprint(version: &str) -> &str {
    version.trim_start_matches('.').split('.').next().unwrap_or_default()
}

/// True for the name of a directory that [`put`](super::put) makes: `..`, the beginning of a fingerprint, and a number.
pub(super) fn is_version(name: &str) -> bool {
    let parts = name.strip_prefix("..").and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(version, number)| {
        version.len() == 16
            && version.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
