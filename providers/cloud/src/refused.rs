//! A start that came to nothing, remembered for a while: whoever comes next would be told the same.
//!
//! *Guarantees*: however many resources an entry has, a program that dies at its start, or credentials that are refused,
//! cost one process in [`FOR`], and one sign-in: a cloud that locks accounts counts those. Another secret, or another
//! program, is tried at once. It deliberately does not outlive the host: another configuration of the entry is another one.

use reconciled_provider::{Error, Hash};
use std::time::Duration;

/// How long it is remembered.
pub(crate) const FOR: Duration = Duration::from_secs(30);

/// What a process is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Which program: its path, length and time.
    pub(crate) program: Option<String>,
    /// Of the secrets among its variables.
    pub(crate) variables: Hash,
    /// Of the secrets in `config`. None where the schemas that would tell them are not known.
    pub(crate) config: Option<Hash>,
}

/// A start that came to nothing.
#[derive(Debug)]
pub(crate) struct Refused {
    given: Given,
    error: Error,
    at: Duration,
}

impl Refused {
    pub(crate) fn new(given: Given, error: &Error, at: Duration) -> Refused {
        Refused { given, error: error.clone(), at }
    }

    /// What a start with this would be told, as far as that is known at `now`.
    pub(crate) fn again(&self, given: &Given, now: Duration) -> Option<Error> {
        // Where one of them knew no schemas, the process was not asked by them yet.
        let (ours, theirs) = (&self.given.config, &given.config);
        let is_same = self.given.program == given.program
            && self.given.variables == given.variables
            && (ours == theirs || ours.is_none());
        // A clock that was set back tells nothing.
        let is_recent = now.checked_sub(self.at).is_some_and(|since| since < FOR);
        (is_same && is_recent).then(|| self.error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_tried_again_with_something_else_or_later() {
        let hash = |text: &str| Hash::of(text.as_bytes());
        let given = Given { program: Some("p".into()), variables: hash("v"), config: Some(hash("c")) };
        let at = Duration::from_secs(100);
        let refused = Refused::new(given.clone(), &Error::permission_denied("no"), at);
        let is_known = |given: &Given, seconds| refused.again(given, Duration::from_secs(seconds)).is_some();
        assert!(is_known(&given, 100) && is_known(&given, 129));
        assert!(!is_known(&given, 130) && !is_known(&given, 99));
        assert!(!is_known(&Given { program: Some("q".into()), ..given.clone() }, 100));
        assert!(!is_known(&Given { variables: hash("w"), ..given.clone() }, 100));
        assert!(!is_known(&Given { config: Some(hash("d")), ..given.clone() }, 100));

        let unread = Given { config: None, ..given.clone() };
        let died = Refused::new(unread.clone(), &Error::unavailable("it died"), at);
        assert!(died.again(&unread, at).is_some() && died.again(&given, at).is_some());
    }
}
