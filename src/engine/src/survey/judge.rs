//! The guard's word on each domain of a survey: on what can be done now, and on what a closed window or a person stops, as it will
//! be once nothing does.
//!
//! Guarantees: a consent is found where it is for just this plan, or for one of which this is left. It deliberately uses none up:
//! that is a pass's, before its first write.

use super::{Domain, Foreseen, Survey, Surveyor, commits::Commits, moves};
use crate::{
    desired::Desired,
    plan::{
        ScopePlan, Step, digest, foreseen,
        guard::{self, Verdict},
    },
    store::{Approval, Begun, Hold, Row, Store},
};
use reconciled_provider::{Error, Hash, ManifestKey, Scope};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is known of consents and holds, asked for once something is held.
struct Consents<'a> {
    store: &'a dyn Store,
    desired: &'a Desired,
    holds: Option<Vec<Hold>>,
    begun: Option<Vec<Begun>>,
    contents: OnceCell<BTreeMap<&'a ManifestKey, Hash>>,
}

impl Consents<'_> {
    /// The consent to the plan of this digest in the domain `name`, or to one of which it is left.
    async fn to(
        &mut self,
        name: &str,
        plans: &[&ScopePlan],
        digest: Hash,
    ) -> Result<Option<Approval>, Error> {
        let approval = self.store.approval(digest).await?;
        if approval.is_some() {
            return Ok(approval);
        }
        let known = match self.begun.take() {
            Some(known) => known,
            None => self.store.begun().await?,
        };
        let goes_on = |one: &&Begun| {
            let covers = |plan: &&ScopePlan| one.covers(&plan.scope, &digest::guarded(plan));
            let stands = || one.manifests.iter().all(|(key, was)| self.content(key) == *was);
            *one.domain == *name && stands() && plans.iter().all(covers)
        };
        let approval = known.iter().find(goes_on).map(|one| one.approval.clone());
        self.begun = Some(known);
        Ok(approval)
    }

    /// The hold of the domain `name` with this digest.
    async fn hold(&mut self, name: &str, digest: Hash) -> Result<Option<&Hold>, Error> {
        let is_same = |hold: &&Hold| *hold.domain == *name && hold.digest == digest;
        Ok(self.holds().await?.iter().find(is_same))
    }

    /// True where anything of the domain `name` was held when it was last looked at.
    async fn has_hold(&mut self, name: &str) -> Result<bool, Error> {
        Ok(self.holds().await?.iter().any(|hold| *hold.domain == *name))
    }

    async fn holds(&mut self) -> Result<&[Hold], Error> {
        let known = match self.holds.take() {
            Some(known) => known,
            None => self.store.holds().await?,
        };
        Ok(self.holds.insert(known))
    }

    /// The word on what is stopped in `plans`, if anything is.
    async fn foreseen(
        &mut self,
        name: &str,
        plans: &[&ScopePlan],
        judge: impl Fn(&[&ScopePlan]) -> Verdict,
    ) -> Result<Option<Foreseen>, Error> {
        let Some(later) = foreseen::plans(plans) else { return Ok(None) };
        let later: Vec<&ScopePlan> = later.iter().collect();
        let (verdict, _) = guard::word(&later, judge);
        let (desired, mut approval, mut hold) = (self.desired, None, None);
        if let Some(digest) = verdict.digest.filter(|_| verdict.is_held()) {
            approval = self.to(name, &later, digest).await?;
            hold = self.hold(name, digest).await?;
        }
        let revision = match verdict.is_held() {
            true => Commits::of(desired, &later, hold).label(),
            false => Arc::from(""),
        };
        Ok(Some(Foreseen { verdict, approval, revision, once: foreseen::once(plans) }))
    }
}

impl Surveyor {
    /// Groups the plans into guard domains and judges each.
    pub(super) async fn judge(
        &self,
        store: &dyn Store,
        desired: &Desired,
        moves: &moves::Moves,
        rows: &BTreeMap<Scope, Arc<Vec<Row>>>,
        recovering: bool,
        survey: &mut Survey,
    ) -> Result<(), Error> {
        moves.put_off(survey, self.cx.clock.now());
        moves.leave_in_doubt(survey);
        let lost = moves.lost(survey);
        let mut groups: BTreeMap<Arc<str>, Vec<Scope>> = BTreeMap::new();
        for scope in survey.scopes.keys() {
            let info = self.entries[&scope.provider].observer.info();
            groups.entry(guard::domain(info, scope)).or_default().push(scope.clone());
        }
        let contents = OnceCell::new();
        let mut consents = Consents { store, desired, holds: None, begun: None, contents };
        for (name, scopes) in groups {
            let entry = &self.entries[&scopes[0].provider];
            let info = entry.observer.info();
            let mut unread = guard::Unread::default();
            for scope in scopes.iter().filter(|scope| survey.scopes[*scope].is_err()) {
                unread.add(desired, scope, rows.get(scope).map_or(&[], |rows| rows));
                survey.unread.insert(name.clone());
            }
            let frozen = guard::frozen(desired, &plans_of(survey, &scopes));
            if frozen > 0 {
                survey.unread.insert(name.clone());
                unread.frozen = if consents.has_hold(&name).await? { frozen } else { 0 };
            }
            // A person means just this folder: what is held of others stays so, and stops none of it.
            if guard::is_unasked(desired, &plans_of(survey, &scopes)) {
                survey.unread.insert(name.clone());
            }
            if plans_of(survey, &scopes).iter().any(|plan| !plan.unselected.is_empty()) {
                survey.in_part.insert(name.clone());
            }
            each(survey, &scopes, |plan| guard::doubt(plan, desired, info, recovering));
            let lost = lost.get(&scopes[0].provider);
            let slot = |step: &Step| entry.observer.slot(&step.id);
            let judge = |plans: &[&ScopePlan]| {
                let mut verdict = guard::judge(&entry.guard, desired, plans, unread, info.atomic_batch, slot);
                if recovering {
                    verdict.reasons.extend(guard::recovering(&verdict.counts, info));
                }
                // What it was may go in any domain of its entry.
                if verdict.digest.is_some()
                    && let Some(lost) = lost
                {
                    verdict.reasons.extend(lost.iter().cloned());
                }
                verdict
            };
            if plans_of(survey, &scopes).iter().all(|p| p.steps.is_empty()) {
                continue;
            }
            let domain = consents.domain(survey, (name.clone(), scopes), judge).await?;
            survey.domains.insert(name, domain);
        }
        Ok(())
    }
}

impl Consents<'_> {
    /// The word on one domain, which its plans are told.
    async fn domain(
        &mut self,
        survey: &mut Survey,
        (name, scopes): (Arc<str>, Vec<Scope>),
        judge: impl Fn(&[&ScopePlan]) -> Verdict,
    ) -> Result<Domain, Error> {
        let desired = self.desired;
        let plans = plans_of(survey, &scopes);
        let (verdict, inputs_go_on) = guard::word(&plans, &judge);
        let foreseen = self.foreseen(&name, &plans, &judge).await?;
        if inputs_go_on {
            each(survey, &scopes, |plan| guard::let_inputs_go_on(plan, true));
        }
        let plans = plans_of(survey, &scopes);
        let (mut approval, mut hold) = (None, None);
        if let Some(digest) = verdict.digest.filter(|_| verdict.is_held()) {
            approval = self.to(&name, &plans, digest).await?;
            hold = self.hold(&name, digest).await?;
        }
        let commits = Commits::of(desired, &plans, hold);
        if hold.is_some() {
            each(survey, &scopes, |plan| commits.put(desired, plan));
        }
        let revision = commits.label();
        // What nobody has to consent to is not consented to.
        let (guarded, manifests) = match verdict.is_held() {
            true => self.guarded(&plans_of(survey, &scopes)),
            false => Guarded::default(),
        };
        Ok(Domain { name, scopes, verdict, inputs_go_on, approval, guarded, manifests, revision, foreseen })
    }

    /// The guarded steps of these plans, and the manifests they are of.
    fn guarded(&self, plans: &[&ScopePlan]) -> Guarded {
        let steps = plans.iter().map(|plan| (plan.scope.clone(), digest::guarded(plan)));
        let guarded = plans.iter().flat_map(|plan| plan.steps.iter().filter(|step| step.is_guarded()));
        let rows = guarded.filter_map(|step| step.work.row.as_ref().or(step.work.was.as_ref()));
        let keys: BTreeSet<&ManifestKey> = rows.map(|row| &row.manifest).collect();
        let manifests = keys.into_iter().map(|key| (key.clone(), self.content(key)));
        (steps.filter(|(_, steps)| !steps.is_empty()).collect(), manifests.collect())
    }

    /// The content of a manifest as it is declared now.
    fn content(&self, key: &ManifestKey) -> Option<Hash> {
        let all =
            || self.desired.manifests.iter().map(|manifest| (&manifest.key, manifest.content)).collect();
        self.contents.get_or_init(all).get(key).copied()
    }
}

type Guarded = (BTreeMap<Scope, Vec<Hash>>, BTreeMap<ManifestKey, Option<Hash>>);

fn plans_of<'a>(survey: &'a Survey, scopes: &[Scope]) -> Vec<&'a ScopePlan> {
    let views = scopes.iter().filter_map(|scope| survey.scopes[scope].as_ref().ok());
    views.map(|view| &view.plan).collect()
}

fn each(survey: &mut Survey, scopes: &[Scope], mut tell: impl FnMut(&mut ScopePlan)) {
    for scope in scopes {
        if let Some(Ok(view)) = survey.scopes.get_mut(scope) {
            tell(&mut view.plan);
        }
    }
}
