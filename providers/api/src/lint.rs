//! What can be said of everything that is declared in one scope, apart from what is wrong in a single manifest.

use crate::{name::Scope, spec::Resource};
use std::sync::Arc;

/// A declared resource, to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Linted<'a> {
    /// What is declared.
    pub resource: &'a Resource,
    /// Rules that its manifest silences for it.
    pub quiet: &'a [Arc<str>],
}

/// What is declared around a scope.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    /// Nothing but what is declared shall be in the scope.
    pub is_exclusive: bool,
    /// Other scopes of the entry whose name ends with that of this one, such as zones below a zone.
    pub within: &'a [&'a Scope],
}

/// One rule that something declared breaks.
///
/// ```
/// use reconciled_provider::Finding;
/// let finding = Finding {
///     index: 0,
///     other: None,
///     rule: "ttl-zero",
///     is_error: false,
///     message: "www A has a ttl of 0".into(),
///     hint: None,
/// };
/// assert!(!finding.is_error);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which of what was looked at.
    pub index: usize,
    /// Another one that has to do with it.
    pub other: Option<usize>,
    /// How the rule is called.
    pub rule: &'static str,
    /// It can never work: nothing of the file is applied.
    pub is_error: bool,
    /// What is wrong, lower case, one line.
    pub message: String,
    /// What to do, and where that is written.
    pub hint: Option<String>,
}
