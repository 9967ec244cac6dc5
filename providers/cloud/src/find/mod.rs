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
mod found;
mod installed;
mod mirror;
mod registry;
mod signature;
mod sums;
#[cfg(test)]
mod tests;
mod version;
mod wanted;

pub use address::Address;
pub use entry::{Mistake, Written};
pub(crate) use found::Found;
pub use sums::Pin;
pub use version::Constraints;
pub use wanted::{From, Program, Wanted};

use found::{Vouched, blocking, unread};
use mirror::Artefact;
use reconciled_provider::{Answers, Error};
use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

/// How long an installation may take in all. It is not bound to the limit of a call: cut off each time, it would begin
/// anew for ever.
const INSTALL: Duration = Duration::from_secs(900);

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

    /// Why a mirror has none that will do. Terraform and OpenTofu take a provider without a host to be from a registry of their own
    /// each, and lay it out so.
    fn lacking(&self, mirror: &Path, is_elsewhere: bool) -> Error {
        if let Ok(false) = mirror.try_exists() {
            let error = Error::invalid(format!("there is no mirror {}", mirror.display()));
            return error.hint("correct `mirror` of the entry");
        }
        let error = self.none(&mirror.display().to_string(), is_elsewhere);
        match mirror::other_host(mirror, &self.address) {
            Some(host) => {
                let Address { namespace, name, .. } = &self.address;
                let source = format!("{host}/{namespace}/{name}");
                error.hint(format!("it has one that is from elsewhere: write source: {source}"))
            }
            None => error,
        }
    }

    fn in_mirror(&self, mirror: &Path) -> Result<Found, Error> {
        let offer = mirror::list(mirror, &self.address).map_err(|error| unread(mirror, error))?;
        let Some((version, artefact)) = self.version.newest(offer.ours) else {
            let elsewhere = offer.elsewhere.into_iter().map(|version| (version, ()));
            return Err(self.lacking(mirror, self.version.newest(elsewhere).is_some()));
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
}
