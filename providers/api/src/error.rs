//! What can go wrong with a remote, by what the engine does about it.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

/// The kind of an [`Error`]; it alone decides what happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The remote refuses this content. Stalled until the manifest changes.
    Invalid,
    /// The provider cannot do this. Stalled until the manifest or the provider changes.
    Unsupported,
    /// The credentials do not allow it. Stalled until they change; probed now and then.
    PermissionDenied,
    /// The remote moved since it was observed. Observed again at once, at most three times.
    Conflict,
    /// Too many calls. Waits as told; not counted as a failure.
    RateLimited,
    /// Unreachable, timed out, 5xx. Backs off with jitter.
    Unavailable,
    /// An answer nobody foresaw. Backs off and warns.
    Unexpected,
}

impl ErrorKind {
    /// The word used in logs, tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            ErrorKind::Invalid => "invalid",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::PermissionDenied => "permission-denied",
            ErrorKind::Conflict => "conflict",
            ErrorKind::RateLimited => "rate-limited",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Unexpected => "unexpected",
        }
    }
    /// True when only a person (or a new revision) can help.
    pub fn stalls(self) -> bool {
        matches!(self, ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::PermissionDenied)
    }
}

/// An error of a remote or a provider.
///
/// `Display` is lower case, without full stop, and never repeats the source; print the chain.
///
/// ```
/// use reconciled_provider::{Error, ErrorKind};
/// let error = Error::unavailable("list zones of http://127.0.0.1:8081").hint("is the server running?");
/// assert_eq!(error.kind, ErrorKind::Unavailable);
/// assert_eq!(error.to_string(), "list zones of http://127.0.0.1:8081");
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Told>);

/// What an [`Error`] tells: boxed, so that what may fail is not larger for it.
#[derive(Clone, Debug)]
pub struct Told {
    /// Decides what the engine does.
    pub kind: ErrorKind,
    /// What was being done, to what, and what came back.
    pub message: String,
    /// What a person can do about it.
    pub hint: Option<String>,
    /// How long the remote asked to be left alone.
    pub retry_after: Option<Duration>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

macro_rules! constructors {
    ($($name:ident $kind:ident),*) => { $(
        #[doc = concat!("An error of kind `", stringify!($kind), "`.")]
        pub fn $name(message: impl Into<String>) -> Error {
            Error::new(ErrorKind::$kind, message)
        }
    )* };
}

impl Error {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Told { kind, message: message.into(), hint: None, retry_after: None, source: None }))
    }
    constructors!(invalid Invalid, unsupported Unsupported, permission_denied PermissionDenied, conflict Conflict,
        rate_limited RateLimited, unavailable Unavailable, unexpected Unexpected);

    /// Adds what a person can do.
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }
    /// Adds what a person can do, where that is known.
    ///
    /// ```
    /// use reconciled_provider::Error;
    /// assert_eq!(Error::invalid("no").hint("yes").hint_if(None::<&str>).hint.as_deref(), Some("yes"));
    /// ```
    pub fn hint_if(self, hint: Option<impl Into<String>>) -> Error {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
    /// Adds how long the remote asked to be left alone.
    pub fn retry_after(mut self, wait: Duration) -> Error {
        self.retry_after = Some(wait);
        self
    }
    /// Adds the cause. It must not hold a secret: its text is logged. What a person can do about a cause of this type is
    /// the same here, unless this says something of its own.
    ///
    /// ```
    /// use reconciled_provider::Error;
    /// let cause = Error::invalid("no").hint("yes");
    /// assert_eq!(Error::invalid("none of it").caused_by(cause).hint.as_deref(), Some("yes"));
    /// ```
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        let source: Arc<dyn std::error::Error + Send + Sync> = Arc::new(source);
        if self.hint.is_none() {
            self.hint = source.downcast_ref::<Error>().and_then(|cause| cause.hint.clone());
        }
        self.source = Some(source);
        self
    }
    /// What it tells, to be taken apart.
    pub fn into_told(self) -> Told {
        *self.0
    }
    /// The message and every cause behind it, joined by `: `.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            text += &format!(": {error}");
            next = error.source();
        }
        text
    }
}

impl Deref for Error {
    type Target = Told;
    fn deref(&self) -> &Told {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut Told {
        &mut self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause_once() {
        let cause = std::io::Error::other("connection refused");
        let error = Error::unavailable("list zones").caused_by(cause);
        assert_eq!(error.chain(), "list zones: connection refused");
        assert_eq!(error.to_string(), "list zones");
    }

    #[test]
    fn the_hint_of_a_cause_goes_along_where_there_is_no_other() {
        let cause = || Error::permission_denied("refused").hint("is the key allowed?");
        let hint = |error: Error| error.into_told().hint.unwrap_or_default();
        let of = |error: Error| hint(error.caused_by(cause()));
        assert_eq!(of(Error::unavailable("write the mark")), "is the key allowed?");
        assert_eq!(of(Error::unavailable("write the mark").hint("try again")), "try again");
        let later = Error::unavailable("write the mark").caused_by(cause()).hint("try again");
        assert_eq!(hint(later), "try again");
        assert_eq!(Error::unavailable("read").caused_by(std::io::Error::other("no")).hint, None);
    }
}
