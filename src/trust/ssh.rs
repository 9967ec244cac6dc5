//! Signatures by ssh keys: the container `SSHSIG` (PROTOCOL.sshsig), and what it proves.
//!
//! The container is read here because the one of `ssh-key` knows no certificates; keys and the arithmetic are that
//! crate's.

use super::{
    certificate::{Certificate, is_certificate, take},
    object::Signed,
    presented::Presented,
    signers::{AllowedSigners, NAMESPACE},
    verdict::{Doubt, Signer},
};
use base64::Engine;
use ssh_key::{HashAlg, PublicKey, Signature, SshSig, public::KeyData};

pub(super) const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// Says who signed.
pub(super) fn judge(signed: &Signed, armored: &str, allowed: &AllowedSigners) -> Result<Signer, Doubt> {
    let container = Container::read(armored)?;
    let presented = container.presented()?;
    let key = presented.shown();
    // Who asks for another namespace signed another thing: a file, a mail.
    if container.namespace != NAMESPACE {
        return Err(Doubt::Namespace(clean(&container.namespace)));
    }
    let name = allowed.find(&presented, signed.time)?;
    if !container.is_over(&signed.payload, presented.key())? {
        return Err(Doubt::Altered { key });
    }
    Ok(Signer { name, key })
}

/// What a stranger wrote, fit for a message.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// The fields of PROTOCOL.sshsig.
struct Container {
    public_key: Vec<u8>,
    namespace: String,
    hash: HashAlg,
    signature: Vec<u8>,
}

impl Container {
    fn read(armored: &str) -> Result<Container, Doubt> {
        let malformed = |problem: &str| Doubt::Malformed(problem.into());
        let mut lines = armored.lines().skip_while(|line| *line != BEGIN).skip(1);
        let body: String = lines.by_ref().take_while(|line| *line != END).map(str::trim).collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(body);
        let bytes = bytes.map_err(|_| malformed("it is no base64"))?;
        let short = || malformed("it is too short");
        let rest = bytes.strip_prefix(b"SSHSIG").ok_or_else(|| malformed("it is no SSHSIG"))?;
        let (version, mut rest) = rest.split_at_checked(4).ok_or_else(short)?;
        if version != [0, 0, 0, 1] {
            return Err(malformed("its version is not 1"));
        }
        let public_key = take(&mut rest).ok_or_else(short)?.to_vec();
        let namespace = take(&mut rest).ok_or_else(short)?;
        let namespace =
            String::from_utf8(namespace.to_vec()).map_err(|_| malformed("its namespace is no text"))?;
        let _reserved = take(&mut rest).ok_or_else(short)?;
        let hash = match take(&mut rest).ok_or_else(short)? {
            b"sha256" => HashAlg::Sha256,
            b"sha512" => HashAlg::Sha512,
            _ => return Err(malformed("its hash is neither sha256 nor sha512")),
        };
        let signature = take(&mut rest).ok_or_else(short)?.to_vec();
        if !rest.is_empty() {
            return Err(malformed("something follows it"));
        }
        Ok(Container { public_key, namespace, hash, signature })
    }

    fn presented(&self) -> Result<Presented, Doubt> {
        let unknown = |error: ssh_key::Error| Doubt::Malformed(format!("its key: {error}"));
        let mut rest = &self.public_key[..];
        let algorithm = take(&mut rest).unwrap_or_default();
        if is_certificate(algorithm) {
            let certificate = Certificate::read(&self.public_key)
                .ok_or_else(|| Doubt::Malformed("its certificate is of no kind that is known".into()))?;
            return Ok(Presented::Certificate(Box::new(certificate)));
        }
        let key = PublicKey::from_bytes(&self.public_key).map_err(unknown)?;
        Ok(Presented::Key(key.key_data().clone()))
    }

    /// True where `key` signed `payload`.
    fn is_over(&self, payload: &[u8], key: &KeyData) -> Result<bool, Doubt> {
        let unknown = |error: ssh_key::Error| Doubt::Malformed(error.to_string());
        let signature = Signature::try_from(&self.signature[..]).map_err(unknown)?;
        let signature = SshSig::new(key.clone(), NAMESPACE, self.hash, signature).map_err(unknown)?;
        Ok(PublicKey::from(key.clone()).verify(NAMESPACE, payload, &signature).is_ok())
    }
}
