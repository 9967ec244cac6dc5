//! How a survey is made: what of, for whom, and who waits for it.

use super::Line;
use crate::plan::Selection;
use reconciled_provider::Scope;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// How a survey is made.
#[derive(Clone, Debug, Default)]
pub struct SurveyOptions {
    /// What the user selected.
    pub selection: Selection,
    /// Lists every scope, also those whose version stands.
    pub refresh: bool,
    /// Only these scopes; none means all that are desired or remembered.
    pub only: Option<BTreeSet<Scope>>,
    /// Asks remotes how things fare, which takes calls of its own: for a pass, not for a plan.
    pub health: bool,
    /// Somebody waits until what was written since then does its work.
    pub written_since: Option<Duration>,
    /// Scopes that somebody asks about; none means all of them. The others are left alone while they need not be looked at
    /// ([`Version::until`](reconciled_provider::Version::until)).
    pub asked: Option<BTreeSet<Scope>>,
    /// Where a person asks for what it leads to, now.
    pub by_person: ByPerson,
    /// Where a person means just that scope: what came to nothing there is tried once more.
    pub insisted: BTreeSet<Scope>,
    /// Nobody waits for it: fewer reads at once, and none while somebody is in a [`Hurry`](super::Hurry).
    pub unhurried: bool,
    /// How many scopes were answered so far: a survey that goes on is not late, however many there are.
    pub answered: Answered,
    /// Those of it who wait for a seat.
    pub line: Line,
}

impl SurveyOptions {
    /// True where a person asks for just this to be done, and not for whatever there is to do: by its address. Consent to
    /// something else is no such word, and a plan that was consented to must not grow by it.
    pub(super) fn tries_again(&self, scope: &Scope) -> bool {
        let is_target = self.by_person == ByPerson::Everything && !self.selection.targets.is_empty();
        is_target || self.insisted.contains(scope)
    }
}

/// How many scopes of a survey were answered; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Answered(pub(super) Arc<AtomicUsize>);

impl Answered {
    /// How many there are now.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a person asks for something to be done now: a closed window may let that through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ByPerson {
    /// Nowhere.
    #[default]
    Nothing,
    /// In these scopes.
    In(BTreeSet<Scope>),
    /// Wherever it looks.
    Everything,
}

impl ByPerson {
    /// True where they ask for what there is to do in this scope.
    pub(super) fn is_for(&self, scope: &Scope) -> bool {
        match self {
            ByPerson::Nothing => false,
            ByPerson::In(scopes) => scopes.contains(scope),
            ByPerson::Everything => true,
        }
    }
}
