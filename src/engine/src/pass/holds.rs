//! The guard's word made durable: holds put and released, approvals used up.
//!
//! Invariant: an approval is used before the first write that it allows, so that it is never used twice.
//! It deliberately does not judge: that is [`crate::plan::guard`].

use super::{Engine, bookkeeping::event};
use crate::{
    store::{Event, Hold, Write},
    survey::{Domain, Survey},
};
use reconciled_provider::{Error, Hash, Scope};
use std::collections::BTreeMap;

/// What the guard lets a scope do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leave {
    /// All of its plan.
    #[default]
    All,
    /// All of it, since a person consented to the plan of this digest.
    Consented(Hash),
    /// What the guard does not count: the rest waits for consent.
    Unguarded,
}

impl Leave {
    pub(super) fn is_held(self) -> bool {
        self == Leave::Unguarded
    }
    pub(super) fn consented(self) -> Option<Hash> {
        match self {
            Leave::Consented(digest) => Some(digest),
            Leave::All | Leave::Unguarded => None,
        }
    }
}

/// Domains that wait for consent, and the scopes of which the guard has something to say.
#[derive(Default)]
pub(super) struct Held {
    pub(super) held: Vec<Domain>,
    scopes: BTreeMap<Scope, Leave>,
}

impl Held {
    pub(super) fn leave(&self, scope: &Scope) -> Leave {
        self.scopes.get(scope).copied().unwrap_or_default()
    }
}

impl Engine {
    /// Records the holds of this survey and uses up the approvals.
    pub(super) async fn holds(&self, survey: &Survey) -> Result<Held, Error> {
        let mut out = Held::default();
        let before = self.store.holds().await?;
        let mut writes = Vec::new();
        let now = self.surveyor.cx.clock.now();
        for domain in survey.domains.values() {
            let known = before.iter().find(|h| h.domain == domain.name);
            if domain.is_held() {
                out.scopes.extend(domain.scopes.iter().map(|scope| (scope.clone(), Leave::Unguarded)));
                let digest = domain.verdict.digest.unwrap_or_default();
                if known.is_none_or(|h| h.digest != digest) {
                    let hold = Hold {
                        domain: domain.name.clone(),
                        digest,
                        reasons: domain.verdict.reasons.clone(),
                        counts: domain.verdict.counts,
                        revision: domain.revision.clone(),
                        since: now,
                    };
                    writes.push(Write::Event(event(
                        now,
                        "hold",
                        &domain.revision,
                        &format!("{} is held: {}", domain.name, domain.verdict.reasons.join("; ")),
                    )));
                    writes.push(Write::Hold(hold));
                }
                out.held.push(domain.clone());
            } else {
                if known.is_some() {
                    writes.push(Write::Release(domain.name.clone()));
                }
                if let Some(approval) = &domain.approval {
                    let leave = Leave::Consented(approval.digest);
                    out.scopes.extend(domain.scopes.iter().map(|scope| (scope.clone(), leave)));
                    // Used before the first write: an approval lost in a crash is asked for again, one used
                    // twice could delete twice.
                    writes.push(Write::UseApproval(approval.digest, now));
                    let said = format!("{} goes on with plan {}", domain.name, approval.digest);
                    let used = event(now, "consented", &domain.revision, &said);
                    let (actor, reason) = (approval.actor.clone(), approval.reason.clone());
                    writes.push(Write::Event(Event { actor, reason, ..used }));
                }
            }
        }
        for hold in &before {
            let surveyed = survey.scopes.iter().any(|(s, view)| {
                view.is_ok() && (*hold.domain == *s.to_string() || *hold.domain == *s.provider)
            });
            if surveyed && !survey.domains.contains_key(&hold.domain) {
                writes.push(Write::Release(hold.domain.clone()));
            }
        }
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        Ok(out)
    }
}
