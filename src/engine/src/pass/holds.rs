//! The guard's word made durable: holds put and released, approvals used, and what is left of the plans they were for.
//!
//! Invariant: an approval is used before the first write that it allows, and with it is written down what it allows. What a
//! failure or a crash leaves undone of that goes on without another word; what is done leaves it and never comes back.
//! What will be held once a window opens or a person resumes it is noted ahead, so that it can be consented to. It deliberately does
//! not judge: that is [`crate::plan::guard`].

use super::{Engine, bookkeeping::event};
use crate::{
    desired::Desired,
    plan::{Blocked, Step, digest},
    store::{Approval, Begun, Event, Hold, Write},
    survey::{Domain, Survey, View},
};
use reconciled_provider::{Error, Focus, Hash, Scope};
use std::{collections::BTreeMap, time::Duration};

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
    pub(super) async fn holds(&self, desired: &Desired, survey: &Survey) -> Result<Held, Error> {
        let mut out = Held::default();
        let before = self.store.holds().await?;
        let mut begun = self.store.begun().await?;
        let mut writes = Vec::new();
        let now = self.surveyor.cx.clock.now();
        for domain in survey.domains.values() {
            let known = before.iter().find(|h| h.domain == domain.name);
            match domain.hold() {
                // A part that alone was asked for is held for less than all of it was.
                Some(_) if known.is_some() && survey.in_part.contains(&domain.name) => {}
                Some(hold) => writes.extend(noted(hold, known, waits_for_person(domain, survey), now)),
                None if known.is_some_and(|known| is_over(known, domain, survey)) => {
                    writes.push(Write::Release(domain.name.clone()));
                }
                None => {}
            }
            if domain.is_held() {
                out.scopes.extend(domain.scopes.iter().map(|scope| (scope.clone(), Leave::Unguarded)));
                out.held.push(domain.clone());
            } else if let Some(approval) = &domain.approval {
                let leave = Leave::Consented(approval.digest);
                out.scopes.extend(domain.scopes.iter().map(|scope| (scope.clone(), leave)));
                if approval.used_at.is_some() {
                    continue;
                }
                // Used before the first write, or what somebody makes again could be deleted again. What it was given
                // for is written down with that, or one failure would use it up.
                writes.push(Write::UseApproval(approval.digest, now));
                begun.retain(|one| one.domain != domain.name);
                let approval = Approval { used_at: Some(now), ..approval.clone() };
                writes.push(Write::Begun(Begun {
                    domain: domain.name.clone(),
                    approval: approval.clone(),
                    left: domain.guarded.clone(),
                    manifests: domain.manifests.clone(),
                }));
                let said = format!("{} goes on with plan {}", domain.name, approval.digest);
                let used = event(now, "consented", &domain.revision, &said);
                let (actor, reason) = (approval.actor.clone(), approval.reason.clone());
                writes.push(Write::Event(Event { actor, reason, ..used }));
            }
        }
        for hold in &before {
            let is_of = |s: &Scope| *hold.domain == *s.to_string() || *hold.domain == *s.provider;
            let surveyed = survey.scopes.iter().any(|(s, view)| view.is_ok() && is_of(s));
            let is_over =
                surveyed && survey.is_whole(&hold.domain) || self.is_nothing(desired, &hold.domain).await?;
            if is_over && !survey.domains.contains_key(&hold.domain) {
                writes.push(Write::Release(hold.domain.clone()));
            }
        }
        writes.extend(begun.iter().flat_map(|one| over(one, survey)));
        writes.extend(survey.over.iter().map(|scope| Write::Conditions(scope.clone(), Vec::new())));
        if !writes.is_empty() {
            self.store.commit(writes).await?;
        }
        self.surveyor.judged.note(survey);
        Ok(out)
    }

    /// True where nothing of a guard domain is desired any more and nothing was tracked: nobody looks at it, and what was held
    /// of it is over.
    async fn is_nothing(&self, desired: &Desired, domain: &str) -> Result<bool, Error> {
        let is_of = |scope: &Scope| domain == scope.to_string() || domain == &*scope.provider;
        // What was not read may be what it is held for.
        let entry = domain.split_once('/').map_or(domain, |(entry, _)| entry);
        if !desired.is_known(entry) || desired.scopes.keys().any(is_of) {
            return Ok(false);
        }
        let all = self.store.all().await?;
        Ok(!all.iter().any(|(scope, memory)| is_of(scope) && memory.is_remembered()))
    }
}

/// What is written down of a hold where another is `known`; nothing where that says it all.
///
/// `waits`: what is held now is so for whoever may write past a window that is closed.
fn noted(hold: Hold, known: Option<&Hold>, waits: bool, now: Duration) -> Vec<Write> {
    let known = known.filter(|known| known.digest == hold.digest);
    let is_news = known.is_none_or(|known| known.once.is_some() && hold.once.is_none());
    if is_news {
        let once = hold.once.as_deref().map(|once| format!(" {once}")).unwrap_or_default();
        let said = format!("{} is held{once}: {}", hold.domain, hold.reasons.join("; "));
        let event = event(now, "hold", &hold.revision, &said);
        return vec![Write::Event(event), Write::Hold(Hold { since: now, ..hold })];
    }
    match known {
        // A person may have it go on now, and so it is held now.
        Some(known) if known.once != hold.once && !(known.once.is_none() && waits) => {
            vec![Write::Hold(Hold { since: known.since, ..hold })]
        }
        _ => Vec::new(),
    }
}

/// True where what is `known` to be held of a domain is so no more, now that nothing of it is by the guard's word. What was consented to
/// is not, whatever else is frozen; consent to a part of it that alone was asked for says nothing of the rest.
fn is_over(known: &Hold, domain: &Domain, survey: &Survey) -> bool {
    let is_consented =
        |approval: &Approval| !survey.in_part.contains(&domain.name) || approval.digest == known.digest;
    survey.is_whole(&domain.name) || domain.approval.as_ref().is_some_and(is_consented)
}

/// True where a closed window stops what the guard would count and lets a person through: what is held is so still, for whoever
/// consents to it.
fn waits_for_person(domain: &Domain, survey: &Survey) -> bool {
    let is_let =
        |step: &Step| matches!(&step.blocked, Some(Blocked::Suspended(Some(by))) if by.lets_person());
    let views = domain.scopes.iter().filter_map(|scope| survey.scopes.get(scope)?.as_ref().ok());
    views.flat_map(|view| &view.plan.steps).any(|step| step.is_put_off() && is_let(step))
}

/// What of a plan that was begun is found done, or another, by this survey.
fn over(begun: &Begun, survey: &Survey) -> Vec<Write> {
    let gone = |(scope, steps): (&Scope, &Vec<Hash>)| {
        // Of what was not looked at nothing is known.
        let view = survey.scopes.get(scope)?.as_ref().ok().filter(|view| is_whole(view))?;
        let left = digest::left(&view.plan);
        let gone: Vec<Hash> =
            steps.iter().filter(|step| left.binary_search(step).is_err()).copied().collect();
        (!gone.is_empty()).then(|| Write::StepsOver(begun.approval.digest, scope.clone(), gone))
    };
    begun.left.iter().filter_map(gone).collect()
}

fn is_whole(view: &View) -> bool {
    view.skipped || view.seen.complete && view.seen.covered == Focus::All
}
