//! Why record data are refused, in words for whoever wrote them.

use crate::name::NameError;

/// Why a value is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub message: String,
    /// What to write.
    pub hint: Option<String>,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), hint: Some(hint.into()) }
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Refusal {
        Refusal { message: error.to_string(), hint: error.hint() }
    }
}
