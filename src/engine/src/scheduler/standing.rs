//! How each scope stands, for `status` and metrics.
//!
//! Guarantees: one entry for each scope that was looked at and still is desired or remembered.
//! It deliberately is no memory: after a restart it is empty until the first pass; what must last is in the
//! store.

use super::BreakerState;
use crate::{
    pass::{ScopeReport, ScopeState},
    store::Condition,
};
use reconciled_provider::ErrorKind;
use std::{sync::Arc, time::Duration};

/// How a scope stands, in the words of `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stance {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// Everything is as desired.
    InSync,
    /// Something is on its way, or waits for time or for another resource.
    Waiting,
    /// A person must consent.
    Held,
    /// A person must act.
    Stalled,
    /// The last pass failed; it is tried again.
    Failed,
    /// A person stopped all that is left to do.
    Suspended,
}

impl Stance {
    /// All of them.
    pub const ALL: [Stance; 7] = [
        Stance::Unknown,
        Stance::InSync,
        Stance::Waiting,
        Stance::Held,
        Stance::Stalled,
        Stance::Failed,
        Stance::Suspended,
    ];

    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Stance::Unknown => "unknown",
            Stance::InSync => "in sync",
            Stance::Waiting => "waiting",
            Stance::Held => "held",
            Stance::Stalled => "stalled",
            Stance::Failed => "failed",
            Stance::Suspended => "suspended",
        }
    }

    pub(super) fn of(report: &ScopeReport) -> Stance {
        match (&report.state, &report.error) {
            (ScopeState::InSync, _) => Stance::InSync,
            (ScopeState::Held, _) => Stance::Held,
            (ScopeState::Stalled, _) => Stance::Stalled,
            (_, Some(_)) => Stance::Failed,
            (ScopeState::Suspended(_), _) => Stance::Suspended,
            _ => Stance::Waiting,
        }
    }
}

/// How one scope stands, and when it is looked at again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// In one word.
    pub stance: Stance,
    /// The error chain of the last pass, if it failed.
    pub error: Option<Arc<str>>,
    /// What a person can do about it, where that is known.
    pub hint: Option<Arc<str>>,
    /// What keeps the scope as a whole, where the last pass could not write that down.
    pub unwritten: Option<Condition>,
    /// Failures in a row.
    pub failures: u32,
    /// When it is tried again, since the epoch, where that is decided; a resync comes anyway.
    pub next_try: Option<Duration>,
    /// A pass is asked for and waits for its turn.
    pub is_queued: bool,
    /// When the pass that runs now began, since the epoch.
    pub running_since: Option<Duration>,
    /// When the last pass ended, since the epoch.
    pub ended_at: Option<Duration>,
    /// How long the last pass took.
    pub took: Option<Duration>,
    /// Breaker of its entry.
    pub breaker: BreakerState,
    /// Something of it came to be desired otherwise, and no pass that began since has ended.
    pub is_unseen: bool,
    /// Of which request in their order that is.
    pub(super) revised: u64,
    /// How the last pass failed, if it did.
    pub(super) failed: Option<ErrorKind>,
    /// The last pass got no answer from the remote.
    pub(super) unreachable: bool,
    /// The last pass failed, and not because its entry was away: it is tried alone.
    pub(super) is_suspect: bool,
    /// Something in it waits for another resource, and nothing of it is due by itself.
    pub waits: bool,
    /// Something in it could be claimed nowhere, as things are desired.
    pub(super) lacks_place: bool,
    /// All that is left to do is what a manifest says `suspend` of.
    pub is_as_wished: bool,
    /// Passes in a row that ended with "look again at once". Repairs are left out: what is undone again and again
    /// stops by itself, and one service after the other that a person breaks is no reason to keep them waiting.
    pub(super) restless: u32,
}

impl Standing {
    /// Takes over how a pass ended that has the number `serial` among requests.
    pub(super) fn update(
        &mut self,
        report: &ScopeReport,
        serial: u64,
        failures: u32,
        (now, took): (Duration, Duration),
    ) {
        let restless = match report.state {
            ScopeState::DueNow if report.is_repair => self.restless,
            ScopeState::DueNow => self.restless + 1,
            _ => 0,
        };
        let unwritten =
            report.unwritten.as_ref().and_then(|_| report.conditions.iter().find(|c| c.id.is_none()));
        let since = self.unwritten.as_ref().map_or(now, |known| known.since);
        let is_lost = report.error.is_some() && report.conditions.is_empty();
        *self = Standing {
            stance: Stance::of(report),
            error: report.error.as_ref().map(|error| error.chain().into()),
            hint: report.error.as_ref().and_then(|error| error.hint.as_deref()).map(Arc::from),
            unwritten: unwritten.map(|condition| Condition { since, ..condition.clone() }),
            failures,
            ended_at: Some(now),
            took: Some(took),
            // A pass that began earlier looked for what was desired then, and one that came to nothing at nothing.
            is_unseen: self.is_unseen && (serial < self.revised || is_lost),
            revised: self.revised,
            failed: report.error.as_ref().map(|error| error.kind),
            unreachable: report.unreachable,
            is_suspect: report.error.is_some(),
            waits: report.waits(),
            lacks_place: report.lacks_place,
            is_as_wished: report.is_suspended_by_manifests(),
            restless,
            ..Standing::default()
        };
    }
}
