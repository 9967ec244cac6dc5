//! What is remembered of a resource between passes: the state its provider gave, sealed by the store.

use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::{Error, Sealed};
use serde::{Deserialize, Serialize};

/// State of one resource.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Version of the schema it was written with.
    pub(crate) version: i64,
    /// JSON, as text: every digit of a number counts.
    pub(crate) state: String,
    /// The provider's own, in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    private: String,
    /// It was made in part: it must go before there can be a whole one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_tainted: bool,
}

impl Kept {
    /// State with what the provider wants back.
    pub(crate) fn new(version: i64, json: Vec<u8>, private: &[u8], is_tainted: bool) -> Kept {
        // JSON is written from texts, which are UTF-8.
        let state = String::from_utf8_lossy(&json).into_owned();
        Kept { version, state, private: STANDARD.encode(private), is_tainted }
    }
    /// What the provider wants back.
    pub(crate) fn private(&self) -> Vec<u8> {
        STANDARD.decode(&self.private).unwrap_or_default()
    }
    /// Reads what was sealed; none where there is nothing.
    ///
    /// Errors: `Unexpected` when it is no state.
    pub(crate) fn open(sealed: &Sealed) -> Result<Option<Kept>, Error> {
        if sealed.is_empty() {
            return Ok(None);
        }
        // The text of the error would quote the state.
        serde_json::from_slice(&sealed.0)
            .map(Some)
            .map_err(|_| Error::unexpected("what is remembered of it is no state"))
    }
    /// Seals it.
    pub(crate) fn seal(&self) -> Sealed {
        Sealed(serde_json::to_vec(self).unwrap_or_default().into())
    }
}
