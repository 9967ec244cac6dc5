//! Encryption of what providers keep (`private`, `outputs`), and the key of secret marks.
//!
//! The key file lies beside the database, not in it: a copy of the database alone reveals nothing. It is made
//! once, never changed and not part of a backup. AES-256-GCM with a random nonce; the identity of the resource
//! and the field are authenticated, so a sealed value cannot be moved to another row.

use super::error::{Result, StoreError};
use reconciled_provider::{Hash, ResourceId, Scope, Sealed, SecretMark};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use std::{
    fmt,
    fs::{self, File},
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{Mutex, PoisonError},
};
use zeroize::Zeroizing;

/// Name of the key file in the state directory.
pub const KEY_FILE: &str = "seal.key";

/// First byte of every sealed value: which key and form it has.
const FORM: u8 = 1;

/// Which field of a row is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Private,
    Outputs,
}

/// The keys of one installation.
pub struct Seal {
    key: LessSafeKey,
    marks: Zeroizing<[u8; 32]>,
    fingerprint: Hash,
    nonces: Mutex<Nonces>,
}

/// Random octets drawn ahead: to ask the system for each nonce costs more than to seal with it.
struct Nonces {
    drawn: [u8; NONCE_LEN * 256],
    used: usize,
}

impl Nonces {
    fn next(&mut self) -> Result<[u8; NONCE_LEN]> {
        if self.used == self.drawn.len() {
            SystemRandom::new().fill(&mut self.drawn).map_err(|_| StoreError::NoRandom)?;
            self.used = 0;
        }
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&self.drawn[self.used..self.used + NONCE_LEN]);
        self.used += NONCE_LEN;
        Ok(nonce)
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({})", self.fingerprint)
    }
}

impl Seal {
    /// Reads the key file of `dir`; none when there is no such file.
    pub fn load(dir: &Path) -> Result<Option<Seal>> {
        let path = dir.join(KEY_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => Zeroizing::new(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::file("read", &path)(error)),
        };
        let bytes: &[u8; 32] =
            bytes.as_slice().try_into().map_err(|_| StoreError::SealKeyWrong(path.clone()))?;
        Ok(Some(Seal::from_bytes(bytes)))
    }

    /// Makes a new key file in `dir`, readable by its owner only.
    pub(super) fn create(dir: &Path) -> Result<Seal> {
        let random = SystemRandom::new();
        let mut bytes = Zeroizing::new([0; 32]);
        random.fill(bytes.as_mut_slice()).map_err(|_| StoreError::NoRandom)?;
        let path = dir.join(KEY_FILE);
        let temporary = dir.join("seal.key.new");
        let fail = StoreError::file("write", &path);
        let write = || -> std::io::Result<()> {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(bytes.as_slice())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(fail)?;
        Ok(Seal::from_bytes(&bytes))
    }

    fn from_bytes(bytes: &[u8; 32]) -> Seal {
        let derive = |purpose: &str| Zeroizing::new(blake3::derive_key(purpose, bytes));
        let key = derive("reconciled 2026 sealed provider state");
        let key = UnboundKey::new(&AES_256_GCM, key.as_slice()).expect("AES-256 takes 32 bytes");
        Seal {
            key: LessSafeKey::new(key),
            marks: derive("reconciled 2026 secret marks"),
            fingerprint: Hash::of(derive("reconciled 2026 key fingerprint").as_slice()),
            nonces: Mutex::new(Nonces { drawn: [0; _], used: NONCE_LEN * 256 }),
        }
    }

    /// Tells keys apart without saying anything about them.
    pub(super) fn fingerprint(&self) -> Hash {
        self.fingerprint
    }

    /// Marks a clear value: equal values have equal marks on this installation, and only here.
    pub fn mark(&self, clear: &[u8]) -> SecretMark {
        SecretMark::keyed(&self.marks, clear)
    }

    /// A key of marks where there is no state that they could be compared with: by chance, so that no secret can be found by
    /// its mark.
    ///
    /// Errors: the system gives no random numbers.
    pub fn any_mark_key() -> Result<[u8; 32]> {
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).map_err(|_| StoreError::NoRandom)?;
        Ok(key)
    }

    /// The key of the marks, for secrets that configuration and manifests name.
    pub fn mark_key(&self) -> [u8; 32] {
        *self.marks
    }

    /// Seals a field of a resource; what is empty stays away from the database altogether.
    pub(super) fn seal(
        &self,
        scope: &Scope,
        id: &ResourceId,
        part: Part,
        clear: &Sealed,
    ) -> Result<Option<Vec<u8>>> {
        if clear.is_empty() {
            return Ok(None);
        }
        // Nothing can panic under the lock, so that no nonce is ever drawn twice.
        let nonce = self.nonces.lock().unwrap_or_else(PoisonError::into_inner).next()?;
        let mut text = clear.0.to_vec();
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad(scope, id, part), &mut text)
            .map_err(|_| StoreError::Unsealable(format!("{scope} {id}")))?;
        Ok(Some([&[FORM], &nonce[..], &text, tag.as_ref()].concat()))
    }

    /// Opens what [`Seal::seal`] made for the same field of the same resource.
    pub(super) fn open(&self, scope: &Scope, id: &ResourceId, part: Part, sealed: &[u8]) -> Result<Sealed> {
        let fail = || StoreError::Unsealable(format!("{scope} {id}"));
        let (&form, rest) = sealed.split_first().ok_or_else(fail)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(fail)?;
        if form != FORM {
            return Err(fail());
        }
        let mut text = text.to_vec();
        let clear = self
            .key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), aad(scope, id, part), &mut text)
            .map_err(|_| fail())?;
        Ok(Sealed::new(clear))
    }
}

/// What is authenticated besides the value: lengths first, so that no two identities give the same bytes.
fn aad(scope: &Scope, id: &ResourceId, part: Part) -> Aad<Vec<u8>> {
    let mut bytes = vec![part as u8];
    for text in [&scope.provider, &scope.name, &id.0] {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    Aad::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, HostSecrets};
    use reconciled_provider::Secrets;
    use std::collections::BTreeMap;

    #[test]
    fn a_sealed_value_opens_only_in_its_own_place() {
        let seal = Seal::from_bytes(&[7; 32]);
        let (scope, id) = (Scope::new("tf", "a"), ResourceId::from("x"));
        let clear = Sealed::new(b"state");
        let sealed = seal.seal(&scope, &id, Part::Private, &clear).unwrap().unwrap();
        assert_eq!(seal.open(&scope, &id, Part::Private, &sealed).unwrap(), clear);
        assert!(seal.open(&scope, &id, Part::Outputs, &sealed).is_err());
        assert!(seal.open(&scope, &"y".into(), Part::Private, &sealed).is_err());
        assert!(seal.open(&Scope::new("t", "fa"), &id, Part::Private, &sealed).is_err());
        assert!(Seal::from_bytes(&[8; 32]).open(&scope, &id, Part::Private, &sealed).is_err());
        assert!(seal.open(&scope, &id, Part::Private, &sealed[..5]).is_err());
        assert_eq!(seal.seal(&scope, &id, Part::Private, &Sealed::default()).unwrap(), None);
    }

    #[test]
    fn a_mark_depends_on_the_installation() {
        let (one, other) = (Seal::from_bytes(&[7; 32]), Seal::from_bytes(&[8; 32]));
        assert_eq!(one.mark(b"x"), one.mark(b"x"));
        assert_ne!(one.mark(b"x"), one.mark(b"y"));
        assert_ne!(one.mark(b"x"), other.mark(b"x"));
    }

    #[test]
    fn the_secrets_of_the_host_and_the_state_mark_alike() {
        let seal = Seal::from_bytes(&[7; 32]);
        let host = HostSecrets::new(seal.mark_key(), Environment::default(), BTreeMap::new());
        for clear in [&b""[..], b"hunter2"] {
            assert_eq!(host.mark(clear), seal.mark(clear));
        }
    }
}
