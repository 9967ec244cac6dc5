//! What comes of a case.

use super::*;

impl Case {
    /// Plans every scope and judges every domain.
    pub(crate) fn answer(&self) -> Answer {
        let mut answer =
            Answer { plans: Vec::new(), known: Vec::new(), verdicts: Vec::new(), foreseen: Vec::new() };
        for (scope, place) in &self.places {
            let tracked: Vec<_> = place.memory.rows.iter().map(|r| r.tracked.clone()).collect();
            let focus = &place.seen.covered;
            let kept = kept(&self.observer, &self.desired, &place.desired, &place.seen);
            let written = written(&place.desired, &kept);
            let shared = Shared {
                claimed: place.claimed.clone(),
                goes: place.goes.clone(),
                only_goes: place.goes.clone(),
                ..Shared::default()
            };
            let want = Want { scope, focus, desired: &written, tracked: &tracked, claims: &[] };
            let deltas = block_on(self.observer.diff(&context::cx(), &want, &place.seen)).unwrap();
            let plan = plan(&ScopeInput {
                scope,
                provider: &self.observer,
                policy: self.policy,
                desired: &self.desired,
                effective: &place.desired,
                shared: &shared,
                memory: &place.memory,
                moved: &place.moved,
                seen: &place.seen,
                kept: &kept,
                deltas: &deltas,
                ready: &self.ready,
                there: &self.there,
                stood_on: &self.stood_on,
                needed: &self.needed,
                elsewhere: &place.elsewhere,
                selection: &self.selection,
                suspensions: &self.suspensions,
                tries_again: self.tries_again,
                now: self.now,
            });
            answer.known.push(plan.known_version(&place.seen).is_some());
            answer.plans.push(plan);
        }
        for plan in &mut answer.plans {
            guard::doubt(plan, &self.desired, &self.observer.info, self.recovering);
        }
        let mut domains: BTreeMap<Arc<str>, Vec<&ScopePlan>> = BTreeMap::new();
        for plan in &answer.plans {
            domains.entry(guard::domain(&self.observer.info, &plan.scope)).or_default().push(plan);
        }
        for (name, plans) in domains {
            let slot = |step: &reconciled_engine::plan::Step| self.observer.slot(&step.id);
            let atomic = self.observer.info.atomic_batch;
            let judge = |plans: &[&ScopePlan]| {
                let frozen = if self.has_hold { guard::frozen(&self.desired, plans) } else { 0 };
                let unread = Unread { frozen, declared: self.unread, ..Unread::default() };
                let mut verdict = guard::judge(&self.limits, &self.desired, plans, unread, atomic, slot);
                if self.recovering {
                    verdict.reasons.extend(guard::recovering(&verdict.counts, &self.observer.info));
                }
                verdict
            };
            if let Some(later) = foreseen::plans(&plans) {
                let (verdict, _) = guard::word(&later.iter().collect::<Vec<_>>(), judge);
                answer.foreseen.push((name.clone(), foreseen::once(&plans), verdict));
            }
            let verdict = judge(&plans);
            answer.verdicts.push((name, verdict));
        }
        answer
    }
}
