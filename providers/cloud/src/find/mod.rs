//! Finding the program of a provider by its address and version: in a folder laid out as a filesystem mirror, or
//! installed from a server that speaks the registry protocol of Terraform and OpenTofu.
//!
//! *Guarantees*: nothing is run that was not signed by a key that the registry names for it, or has a checksum that the
//! host configuration names; what was installed is the same each time it is started; an installation is there as a
//! whole or not at all; where one is there that will do, nobody is asked for another. *Deliberately not done*: upgrades. A
//! newer version may plan otherwise, so it takes a changed configuration to get one.

mod address;
mod archive;
mod entry;
mod installed;
mod mirror;
mod registry;
mod signature;
mod sums;
#[cfg(test)]
mod tests;
mod version;

pub use address::Address;
pub use entry::{Mistake, Written};
pub use sums::Pin;
pub use version::Constraints;

use mirror::Artefact;
use reconciled_provider::{Answers, Error};
use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};
use sums::Sums;
use url::Url;

/// How long an installation may take in all. It is not bound to the limit of a call: cut off each time, it would begin
/// anew for ever.
const INSTALL: Duration = Duration::from_secs(900);

/// The program of an entry.
#[derive(Clone, Debug)]
pub enum Program {
    /// Where it is.
    At(PathBuf),
    /// What it is.
    Wanted(Box<Wanted>),
}

/// A provider that is to be found.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it is called.
    pub address: Address,
    /// Which versions will do.
    pub version: Constraints,
    /// Nothing but an artefact with one of these; any, where there are none.
    pub hashes: Vec<Pin>,
    /// Where it is from.
    pub from: From,
    /// Where it is installed.
    pub folder: PathBuf,
}

/// Where providers are from.
#[derive(Clone, Debug)]
pub enum From {
    /// A folder of this machine.
    Mirror(PathBuf),
    /// A server, by the address that its services are found below.
    Registry(Url),
}

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    /// The folder it is in and what has to be in there, unless it was named by its path.
    vouched: Option<(PathBuf, Vouched)>,
}

#[derive(Clone, Debug)]
enum Vouched {
    /// As it was installed.
    Installed(Sums),
    /// As the host configuration says.
    Pinned(Address, Vec<Pin>),
}

impl Program {
    /// Finds it, and installs it where that has to be done.
    ///
    /// Errors: `Invalid` where there is none that will do; `Unavailable` where there may be one another time.
    pub(crate) async fn find(&self, answers: &Answers) -> Result<Found, Error> {
        match self {
            Program::At(path) => Ok(Found { program: path.clone(), vouched: None }),
            Program::Wanted(wanted) => wanted.find(answers).await,
        }
    }
}

impl Found {
    /// Reads all of it: what was changed since it was installed or pinned is not started. Returns the program, open: that one
    /// was read, whatever is put in its place until it is run. None where nothing has to be in there.
    ///
    /// Errors: `Invalid` for what was changed.
    pub(crate) async fn check(&self) -> Result<Option<OwnedFd>, Error> {
        let Some((folder, vouched)) = self.vouched.clone() else { return Ok(None) };
        let program = self.program.clone();
        blocking(move || {
            let file = fs::File::open(&program).map_err(|error| unread(&program, error))?;
            let now = Sums::of_folder_with(&folder, (&program, &file));
            let now = now.map_err(|error| unread(&folder, error))?;
            match vouched {
                Vouched::Pinned(of, pins) => now.check(&pins, &of).map(|()| Some(file.into())),
                Vouched::Installed(was) if was.h1 == now.h1 => Ok(Some(file.into())),
                Vouched::Installed(_) => {
                    let text = format!("{} was changed after the provider was installed", folder.display());
                    Err(Error::invalid(text).hint("remove that folder: the provider is installed again"))
                }
            }
        })
        .await
    }
}

impl Wanted {
    async fn find(&self, answers: &Answers) -> Result<Found, Error> {
        match &self.from {
            From::Mirror(mirror) => {
                let (wanted, mirror) = (self.clone(), mirror.clone());
                blocking(move || wanted.in_mirror(&mirror)).await
            }
            From::Registry(url) => {
                let wanted = self.clone();
                if let Some(found) = blocking(move || installed::newest(&wanted)).await? {
                    return Ok(found);
                }
                let installing = registry::install(self, url, answers);
                tokio::time::timeout(INSTALL, installing).await.unwrap_or_else(|_| {
                    let minutes = INSTALL.as_secs() / 60;
                    Err(self.failed(&format!("it took longer than {minutes} minutes")))
                })
            }
        }
    }

    fn in_mirror(&self, mirror: &Path) -> Result<Found, Error> {
        let offer = mirror::list(mirror, &self.address).map_err(|error| unread(mirror, error))?;
        let Some((version, artefact)) = self.version.newest(offer.ours) else {
            let elsewhere = offer.elsewhere.into_iter().map(|version| (version, ()));
            return Err(self.none(&mirror.display().to_string(), self.version.newest(elsewhere).is_some()));
        };
        let archive = match artefact {
            Artefact::Unpacked(folder) => {
                let pinned = Vouched::Pinned(self.address.clone(), self.hashes.clone());
                let vouched = (!self.hashes.is_empty()).then(|| (folder.clone(), pinned));
                return Ok(Found { program: self.program_in(&folder)?, vouched });
            }
            Artefact::Packed(archive) => archive,
        };
        let meta = fs::metadata(&archive).map_err(|error| unread(&archive, error))?;
        let stamp = format!("{} {}.{} {}", archive.display(), meta.mtime(), meta.mtime_nsec(), meta.len());
        if let Some(found) = installed::of_stamp(self, &version, &stamp)? {
            return Ok(found);
        }
        let file = fs::File::open(&archive).map_err(|error| unread(&archive, error))?;
        let sum = sums::sha256(file).map_err(|error| unread(&archive, error))?;
        installed::unpack(self, &version, &archive, &sum, stamp)
    }

    /// Errors: `Invalid` where there is no program in the folder.
    fn program_in(&self, folder: &Path) -> Result<PathBuf, Error> {
        let found = mirror::program(folder, &self.address).map_err(|error| unread(folder, error))?;
        found.ok_or_else(|| {
            let text = format!("there is no program {}* in {}", self.address.prefix(), folder.display());
            Error::invalid(text)
        })
    }

    fn none(&self, place: &str, is_elsewhere: bool) -> Error {
        let (os, arch) = address::platform();
        let (address, version) = (&self.address, &self.version);
        match is_elsewhere {
            true => {
                let text =
                    format!("{place} has {address} ({version}) for other machines than {os}_{arch} alone");
                Error::invalid(text).hint("an older or a newer version may be there for this one")
            }
            false => Error::invalid(format!("{place} has no provider {address} ({version})"))
                .hint("correct `source` or `version` of the entry"),
        }
    }

    fn failed(&self, why: &str) -> Error {
        Error::unavailable(format!("install provider {}: {why}", self.address))
    }

    fn refused(&self, why: &str) -> Error {
        Error::invalid(format!("install provider {}: {why}", self.address))
    }
}

fn unread(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!("read {}", path.display())).caused_by(error)
}

/// Reads of hundreds of megabytes are no work for a thread of the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let broken_off = |_| Error::unexpected("find the program of a provider: it was broken off");
    tokio::task::spawn_blocking(work).await.map_err(broken_off)?
}
