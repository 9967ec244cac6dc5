//! `verify:` of a source: whose signature puts a commit into force.

use super::locate::beside;
use crate::{source::History, trust::KeyFiles};
use reconciled_provider::SourceFile;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What has to be signed, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// Where the allowed keys are.
    pub keys: KeyFiles,
    /// Which commits.
    pub history: History,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawVerify {
    allowed_signers: Option<PathBuf>,
    gpg_keys: Option<PathBuf>,
    #[serde(default)]
    history: History,
}

impl RawVerify {
    /// None where it names no keys. A relative path is relative to the configuration file.
    pub(super) fn read(self, file: &SourceFile) -> Option<Verify> {
        let beside = |path: PathBuf| beside(Some(Path::new(&*file.path)), &path);
        let keys = KeyFiles {
            allowed_signers: self.allowed_signers.map(beside),
            gpg_keys: self.gpg_keys.map(beside),
        };
        (keys != KeyFiles::default()).then_some(Verify { keys, history: self.history })
    }
}
