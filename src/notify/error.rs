//! Why a message was not delivered, and whether it ever will be.

use crate::http::CallError;
use reconciled_provider::Error;

/// Why a message was not delivered.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct SendError {
    /// The cause chain.
    pub text: String,
    /// What to do, if that is known.
    pub hint: Option<String>,
    /// The same message will not be taken later either.
    pub is_final: bool,
}

impl SendError {
    pub(super) fn new(text: impl Into<String>, is_final: bool) -> SendError {
        SendError { text: text.into(), hint: None, is_final }
    }
}

impl From<CallError> for SendError {
    fn from(error: CallError) -> SendError {
        SendError::new(error.to_string(), error.is_final())
    }
}

impl From<Error> for SendError {
    fn from(error: Error) -> SendError {
        SendError { text: error.chain(), hint: error.hint.as_deref().map(str::to_owned), is_final: false }
    }
}
