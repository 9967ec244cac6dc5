//! States of a state file on their way into the inventory: one sealed file each, below the state directory.
//!
//! They hold secrets, so they are sealed with a key derived from that of the installation, which lies beside the
//! database and not in it; the entry and the address are authenticated, so that no file can stand for another.

use crate::{file, store::Seal};
use reconciled_cloud::Handover;
use reconciled_provider::Error;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use std::{
    fs::{self, DirBuilder},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Folder below the state directory.
const FOLDER: &str = "handover";

/// The states of one entry.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) state_dir: PathBuf,
    pub(super) entry: Arc<str>,
    /// Its former name.
    pub(super) was: Option<Arc<str>>,
}

impl Folder {
    fn key(&self) -> Result<LessSafeKey, Error> {
        let seal = Seal::load(&self.state_dir).map_err(|error| {
            Error::permission_denied("read the key of the state")
                .caused_by(error)
                .hint("run this as the user of the daemon")
        })?;
        let seal = seal.ok_or_else(|| Error::unsupported("there is no state yet"))?;
        let key = blake3::derive_key("reconciled 2026 states handed over", &seal.mark_key());
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("AES-256 takes 32 bytes");
        Ok(LessSafeKey::new(key))
    }
    fn of(&self, address: &str) -> (PathBuf, String) {
        self.under(&self.entry, address)
    }
    fn under(&self, entry: &str, address: &str) -> (PathBuf, String) {
        let whole = format!("{entry}\0{address}");
        let name = blake3::hash(whole.as_bytes()).to_hex().to_string();
        (self.state_dir.join(FOLDER).join(name), whole)
    }
}

impl Handover for Folder {
    fn put(&self, address: &str, state: &[u8]) -> Result<(), Error> {
        let (path, whole) = self.of(address);
        let mut nonce = [0; NONCE_LEN];
        let failed = |_| Error::unexpected("this host has no random numbers");
        SystemRandom::new().fill(&mut nonce).map_err(failed)?;
        let mut sealed = state.to_vec();
        let aad = Aad::from(whole.as_bytes());
        let too_long = |_| Error::unexpected(format!("seal the state of {address}"));
        self.key()?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .map_err(too_long)?;
        let written = write(&self.state_dir, &path, &[&nonce[..], &sealed].concat());
        written.map_err(|error| Error::unavailable(format!("write {}", path.display())).caused_by(error))
    }

    fn get(&self, address: &str) -> Result<Option<Vec<u8>>, Error> {
        let (mut path, mut whole) = self.of(address);
        if let Some(was) = self.was.as_deref().filter(|_| !path.exists()) {
            (path, whole) = self.under(was, address);
        }
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Error::unavailable(format!("read {}", path.display())).caused_by(error));
            }
        };
        let wrong = || {
            Error::invalid(format!("{} was sealed with another key, or is damaged", path.display()))
                .hint("import the state file again on this host")
        };
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(wrong)?;
        let mut sealed = sealed.to_vec();
        let key = self.key()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.open_in_place(nonce, Aad::from(whole.as_bytes()), &mut sealed);
        Ok(Some(opened.map_err(|_| wrong())?.to_vec()))
    }
}

/// Writes a file whole, for the owner of the state: a person may import as root for a daemon that is not.
fn write(state_dir: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = state_dir.join(FOLDER);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let owner = fs::metadata(state_dir)?;
    let (user, group) = (owner.uid(), owner.gid());
    if fs::metadata(&folder)?.uid() != user {
        chown(&folder, Some(user), Some(group))?;
    }
    file::replace_prepared(path, bytes, |file| match file.metadata()?.uid() == user {
        true => Ok(()),
        false => fchown(file, Some(user), Some(group)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::SystemClock, store};

    #[tokio::test]
    async fn a_state_is_read_where_it_was_put_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |entry: &str| Folder { state_dir: dir.path().into(), entry: entry.into(), was: None };
        assert!(folder("aws").put("a", b"hunter2").unwrap_err().message.contains("no state yet"));
        store::init(dir.path(), store::Init::New, Arc::new(SystemClock)).await.unwrap();
        folder("aws").put("a", b"hunter2").unwrap();
        assert_eq!(folder("aws").get("a").unwrap().as_deref(), Some(&b"hunter2"[..]));
        assert_eq!((folder("aws").get("b").unwrap(), folder("other").get("a").unwrap()), (None, None));
        let renamed = Folder { was: Some("aws".into()), ..folder("cloud") };
        assert_eq!(renamed.get("a").unwrap().as_deref(), Some(&b"hunter2"[..]));
        let path = folder("aws").of("a").0;
        assert!(!fs::read(&path).unwrap().windows(7).any(|part| part == b"hunter2"));
        fs::copy(&path, folder("aws").of("b").0).unwrap();
        assert!(folder("aws").get("b").unwrap_err().message.contains("another key"));
    }
}
