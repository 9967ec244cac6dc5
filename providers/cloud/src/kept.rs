//! What is remembered of a resource between passes: the state its provider gave, sealed by the store.

use crate::{
    cty::{Value, write_json},
    hidden::Hidden,
    plugin::ResourceType,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled_provider::{Error, Hash, Sealed};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// Secrets of the manifest that are in it, in clear as in the state: they are never shown, wherever they stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<Arc<str>>,
    /// What the entry said when it was written: with another account, what is not there may be elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<String>,
}

impl Kept {
    /// State with what the provider wants back.
    pub(crate) fn new(of: &ResourceType, state: &Value, private: &[u8], account: Hash) -> Kept {
        // JSON is written from texts, which are UTF-8.
        let json = String::from_utf8_lossy(&write_json(state, &of.schema.value_type)).into_owned();
        Kept {
            version: of.schema.version,
            state: json,
            private: STANDARD.encode(private),
            is_tainted: false,
            secrets: Vec::new(),
            account: Some(account.to_string()),
        }
    }
    /// What the provider wants back.
    pub(crate) fn private(&self) -> Vec<u8> {
        STANDARD.decode(&self.private).unwrap_or_default()
    }
    /// Its secrets.
    pub(crate) fn hidden(&self) -> Hidden {
        self.secrets.iter().cloned().collect()
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
