//! The guard's word made durable: holds put and released, approvals used up.
//!
//! Invariant: an approval is used before the first write that it allows, so that it is never used twice.
//! It deliberately does not judge: that is [`crate::plan::guard`].

use super::{Engine, bookkeeping::event};
use crate::{
    desired::Desired,
    store::{Event, Hold, Write},
    survey::{Domain, Survey},
};
use reconciled_provider::{Error, Scope};
use std::collections::BTreeSet;

/// Domains that wait for consent, and their scopes.
#[derive(Default)]
pub(super) struct Held {
    pub(super) held: Vec<Domain>,
    pub(super) scopes: BTreeSet<Scope>,
}

impl Engine {
    /// Records the holds of this survey and uses up the approvals.
    pub(super) async fn holds(&self, desired: &Desired, survey: &Survey) -> Result<Held, Error> {
        let mut out = Held::default();
        let before = self.store.holds().await?;
        let mut writes = Vec::new();
        let now = self.surveyor.cx.clock.now();
        let label = desired.sources.values().next().map(|s| s.label.clone()).unwrap_or_default();
        for domain in survey.domains.values() {
            let known = before.iter().find(|h| h.domain == domain.name);
            if domain.is_held() {
                out.scopes.extend(domain.scopes.iter().cloned());
                let digest = domain.verdict.digest.unwrap_or_default();
                if known.is_none_or(|h| h.digest != digest) {
                    let hold = Hold {
                        domain: domain.name.clone(),
                        digest,
                        reasons: domain.verdict.reasons.clone(),
                        counts: domain.verdict.counts,
                        revision: label.clone(),
                        since: now,
                    };
                    writes.push(Write::Event(event(
                        now,
                        "hold",
                        &label,
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
                    // Used before the first write: an approval lost in a crash is asked for again, one used
                    // twice could delete twice.
                    writes.push(Write::UseApproval(approval.digest, now));
                    let said = format!("{} goes on with plan {}", domain.name, approval.digest);
                    let used = event(now, "consented", &label, &said);
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
