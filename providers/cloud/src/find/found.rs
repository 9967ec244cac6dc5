//! A program that was found, and whether it is still what was installed or pinned.

use super::{
    address::Address,
    sums::{Pin, Sums},
};
use reconciled_provider::Error;
use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    /// The folder it is in and what has to be in there, unless it was named by its path.
    pub(super) vouched: Option<(PathBuf, Vouched)>,
}

/// What has to be in its folder.
#[derive(Clone, Debug)]
pub(super) enum Vouched {
    /// As it was installed.
    Installed(Sums),
    /// As the host configuration says.
    Pinned(Address, Vec<Pin>),
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

/// That something cannot be read.
pub(super) fn unread(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!("read {}", path.display())).caused_by(error)
}

/// Reads of hundreds of megabytes are no work for a thread of the runtime.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let broken_off = |_| Error::unexpected("find the program of a provider: it was broken off");
    tokio::task::spawn_blocking(work).await.map_err(broken_off)?
}
