//! How a law ends: it holds, it does not concern the provider, or it is broken.

use reconciled_provider::{Error, ProviderInfo};

/// Why a law ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// It does not concern this provider.
    Skip(String),
    /// It is broken.
    Fail(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Fail(format!("{}: {}", error.kind.word(), error.chain()))
    }
}

/// What a law says.
pub(super) type Check = Result<(), Stop>;

/// Fails the law unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => {
        if !$condition {
            return Err($crate::conformance::check::Stop::Fail(format!($($text)*)));
        }
    };
}
pub(super) use ensure;

/// Ends a law that does not concern this provider.
pub(super) fn skip<T>(why: &str) -> Result<T, Stop> {
    Err(Stop::Skip(why.into()))
}

/// Ends a law about what only the inventory can find.
pub(super) fn unless_lost(info: &ProviderInfo) -> Check {
    match info.finds_untracked() {
        true => Ok(()),
        false => skip("the remote assigns identities, and only the inventory leads to a resource"),
    }
}
