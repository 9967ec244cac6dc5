//! Names of entries and sources that were replaced by others, as data. What goes along is in [`super::rename`].

use std::{fmt, sync::Arc};

/// What has another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// An entry under `providers`.
    Provider,
    /// A source.
    Source,
}

/// A name that was replaced by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Of what.
    pub what: Named,
    /// The name before.
    pub from: Arc<str>,
    /// The name now.
    pub to: Arc<str>,
}

impl fmt::Display for Rename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Named::Provider => "provider",
            Named::Source => "source",
        };
        write!(f, "{what} `{}` was `{}`", self.to, self.from)
    }
}
