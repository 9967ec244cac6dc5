//! The program that is to be found: by its path, or as a provider by its address and version.

use super::{
    address::{self, Address},
    found::unread,
    mirror,
    sums::Pin,
    version::Constraints,
};
use reconciled_provider::Error;
use std::path::{Path, PathBuf};
use url::Url;

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

impl Wanted {
    /// Errors: `Invalid` where there is no program in the folder.
    pub(super) fn program_in(&self, folder: &Path) -> Result<PathBuf, Error> {
        let found = mirror::program(folder, &self.address).map_err(|error| unread(folder, error))?;
        found.ok_or_else(|| {
            let text = format!("there is no program {}* in {}", self.address.prefix(), folder.display());
            Error::invalid(text)
        })
    }

    pub(super) fn none(&self, place: &str, is_elsewhere: bool) -> Error {
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

    pub(super) fn failed(&self, why: &str) -> Error {
        Error::unavailable(format!("install provider {}: {why}", self.address))
    }

    pub(super) fn refused(&self, why: &str) -> Error {
        Error::invalid(format!("install provider {}: {why}", self.address))
    }
}
