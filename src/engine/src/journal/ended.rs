//! How actions ended, without what is remembered of them: that is written down by then, and may be of many thousand.

use reconciled_provider::{Claim, Error, Outcome};

/// How an action ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// It took effect.
    Done,
    /// There is nothing left of it.
    Gone,
    /// It is on its way, and others must do this meanwhile.
    Pending(Box<[Claim]>),
    /// It took effect in part.
    Partial(Error),
    /// It had no effect, and what was put down meanwhile is taken back.
    Back(Error),
    /// It had no effect.
    Failed(Error),
    /// It may have taken effect.
    Unknown(Error),
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Ended {
        match outcome {
            Outcome::Done(_) => Ended::Done,
            Outcome::Gone => Ended::Gone,
            Outcome::Pending { claims, .. } => Ended::Pending(claims.into()),
            Outcome::Partial(_, error) => Ended::Partial(error),
            Outcome::Back(_, error) => Ended::Back(error),
            Outcome::Failed(error) => Ended::Failed(error),
            Outcome::Unknown(error) => Ended::Unknown(error),
        }
    }
}

impl Ended {
    /// The word of [`Outcome::word`].
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Ended::Done => "done",
            Ended::Gone => "gone",
            Ended::Pending(_) => "pending",
            Ended::Partial(_) => "partial",
            Ended::Back(_) | Ended::Failed(_) => "failed",
            Ended::Unknown(_) => "unknown",
        }
    }
    /// Why it is not as wanted, if it is not.
    pub(crate) fn error(&self) -> Option<&Error> {
        match self {
            Ended::Partial(error) | Ended::Back(error) | Ended::Failed(error) | Ended::Unknown(error) => {
                Some(error)
            }
            Ended::Done | Ended::Gone | Ended::Pending(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Hash, Tracked};
    use std::time::Duration;

    #[test]
    fn it_has_the_word_and_the_error_of_its_outcome() {
        let tracked = || Tracked::new("a".into(), Hash::default());
        let error = || Error::invalid("no");
        let pending =
            Outcome::Pending { tracked: tracked(), recheck_after: Duration::ZERO, claims: Vec::new() };
        let outcomes = [
            Outcome::Done(tracked()),
            Outcome::Gone,
            pending,
            Outcome::Partial(tracked(), error()),
            Outcome::Back(tracked(), error()),
            Outcome::Failed(error()),
            Outcome::Unknown(error()),
        ];
        for outcome in outcomes {
            let ended = Ended::from(outcome.clone());
            let told = |error: Option<&Error>| error.map(Error::chain);
            assert_eq!((ended.word(), told(ended.error())), (outcome.word(), told(outcome.error())));
        }
    }
}
