//! Who may put a commit into force: keys that are allowed, and what a signature proves.
//!
//! # Guarantees
//! - Pure, but for reading the two files of keys: no repository, no network, no clock of its own, no program is run.
//! - What is not understood proves nothing: an unknown kind of signature, a malformed line, an unusable key.
//! - The files are read anew for each verification, so a key taken out of them counts no more from then on.
//!
//! # Not here
//! Which commits have to be signed: `source` walks the history. Who may write the files of keys: the host does.

mod certificate;
mod object;
mod openpgp;
mod presented;
mod signers;
mod ssh;
mod verdict;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use object::{Signed, commit, tag};
pub use openpgp::Certificates;
pub use signers::AllowedSigners;
pub use verdict::{Doubt, Signer};

/// Where the keys are that may sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFiles {
    /// OpenSSH's ALLOWED SIGNERS (ssh-keygen(1)).
    pub allowed_signers: Option<PathBuf>,
    /// OpenPGP public keys, armored or not.
    pub gpg_keys: Option<PathBuf>,
}

/// The keys that may sign, as the files have them now.
#[derive(Debug, Default)]
pub struct Keys {
    ssh: Option<AllowedSigners>,
    openpgp: Option<Certificates>,
}

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("cannot read the allowed keys {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{}:{line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: String },
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
}

impl KeysError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { path, .. } => {
                format!("let the service's user read it; it lies on the host: ls -l {}", path.display())
            }
            Self::Line { .. } => {
                "write `PRINCIPALS [OPTIONS] KEYTYPE KEY`, as `ssh-keygen -Y` reads it: ssh-keygen(1), ALLOWED SIGNERS"
                    .into()
            }
            Self::File { path, .. } => {
                format!("write it with: gpg --export --armor ada@example.com > {}", path.display())
            }
        }
    }
}

impl Keys {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read, or something in it is not understood; what can be understood does not count alone.
    pub fn read(files: &KeyFiles) -> Result<Keys, KeysError> {
        let read = |path: &Path| {
            fs::read(path).map_err(|cause| KeysError::Unreadable { path: path.to_owned(), cause })
        };
        let ssh = match &files.allowed_signers {
            Some(path) => {
                let text = String::from_utf8(read(path)?).map_err(|_| KeysError::Line {
                    path: path.clone(),
                    line: 1,
                    problem: "the file is no text".into(),
                })?;
                let line = |(line, problem)| KeysError::Line { path: path.clone(), line, problem };
                Some(AllowedSigners::parse(&text).map_err(line)?)
            }
            None => None,
        };
        let openpgp = match &files.gpg_keys {
            Some(path) => {
                let found = Certificates::parse(&read(path)?);
                Some(found.map_err(|problem| KeysError::File { path: path.clone(), problem })?)
            }
            None => None,
        };
        Ok(Keys { ssh, openpgp })
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.ssh.as_ref().map_or(0, AllowedSigners::len) + self.openpgp.as_ref().map_or(0, Certificates::len)
    }

    /// Says who signed. `now` is since the epoch.
    ///
    /// # Errors
    /// Why that is not proven.
    pub fn judge(&self, signed: &Signed, now: Duration) -> Result<Signer, Doubt> {
        let signature = signed.signature.as_deref().ok_or(Doubt::Unsigned)?;
        let first = signature.lines().next().unwrap_or_default();
        match first {
            ssh::BEGIN => match &self.ssh {
                Some(allowed) => ssh::judge(signed, signature, allowed),
                None => Err(Doubt::NoKeys { kind: "an ssh key", missing: "`verify.allowedSigners`" }),
            },
            "-----BEGIN PGP SIGNATURE-----" | "-----BEGIN PGP MESSAGE-----" => match &self.openpgp {
                Some(certificates) => certificates.judge(signed, signature, now),
                None => Err(Doubt::NoKeys { kind: "an OpenPGP key", missing: "`verify.gpgKeys`" }),
            },
            other => {
                let shown: String = other.chars().take(60).collect();
                Err(Doubt::Malformed(format!("{shown:?} begins no signature of ssh or OpenPGP")))
            }
        }
    }
}
