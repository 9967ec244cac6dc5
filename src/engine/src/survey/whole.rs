//! Scopes that are run each by itself and judged together: what one of them would change is held or not by the word on all.
//!
//! Guarantees: what the guard counts of a commit is looked at in all scopes of the entry before any of it is carried out; what
//! it does not count (repairs, first issues) costs no look at the others. It deliberately carries nothing out that was not
//! asked for.

use super::{Ahead, Survey, SurveyOptions, Surveyor};
use crate::{
    desired::Desired,
    plan::{Change, guard},
    store::Store,
};
use reconciled_provider::{Error, GuardDomain, Scope};
use std::{collections::BTreeSet, sync::Arc};

impl Surveyor {
    /// The same survey with the word of the guard on whole domains.
    pub(super) async fn whole(
        &self,
        store: &dyn Store,
        desired: &Desired,
        mut survey: Survey,
        options: &SurveyOptions,
    ) -> Result<Survey, Error> {
        if options.only.is_none() {
            return Ok(survey);
        }
        let entries = self.unjudged(store, &survey).await?;
        if entries.is_empty() {
            return Ok(survey);
        }
        let glance = self.glance(store, options, Ahead::Nothing).await?;
        let facts = self.facts(desired, &glance.memories);
        let remembered = glance.memories.iter().filter(|(_, memory)| memory.is_remembered());
        let all = desired.scopes.keys().chain(remembered.map(|(scope, _)| scope));
        let beside: BTreeSet<Scope> =
            all.filter(|scope| entries.contains(&scope.provider)).cloned().collect();
        let wider = SurveyOptions { only: Some(beside), health: false, ..options.clone() };
        let mut wider = self.survey_with(store, desired, glance, &facts, &wider).await?;
        survey.unread.extend(entries.iter().filter(|entry| wider.unread.contains(*entry)).cloned());
        for entry in entries {
            let go_on = wider.domains.get(&entry).is_some_and(|domain| domain.inputs_go_on);
            let mine = survey.scopes.iter_mut().filter(|(scope, _)| scope.provider == entry);
            mine.filter_map(|(_, view)| view.as_mut().ok())
                .for_each(|view| guard::let_inputs_go_on(&mut view.plan, go_on));
            match wider.domains.remove(&entry) {
                Some(domain) => drop(survey.domains.insert(entry, domain)),
                None => drop(survey.domains.remove(&entry)),
            }
        }
        Ok(survey)
    }

    /// Entries on whose scopes a word was spoken that needs all of them.
    async fn unjudged(&self, store: &dyn Store, survey: &Survey) -> Result<BTreeSet<Arc<str>>, Error> {
        let is_apart =
            |scope: &Scope| self.entries[&scope.provider].observer.info().guard == GuardDomain::Apart;
        let mut entries: BTreeSet<Arc<str>> = survey
            .scopes
            .keys()
            .filter(|scope| is_apart(scope))
            .map(|scope| scope.provider.clone())
            .collect();
        if entries.is_empty() {
            return Ok(entries);
        }
        // A hold stands for all of its domain: who sees a part of that must not end it.
        let holds = store.holds().await?;
        entries.retain(|entry| {
            let counts = survey.domains.get(entry).is_some_and(|domain| {
                let [_, updates, replaces, deletes] = domain.verdict.counts;
                domain.verdict.is_held() || updates + replaces + deletes > 0
            });
            counts || lets_go(survey, entry) || holds.iter().any(|hold| hold.domain == *entry)
        });
        Ok(entries)
    }
}

/// True when something of this entry is let go or taken over: no count, and it waits with what others of its entry are held for.
fn lets_go(survey: &Survey, entry: &str) -> bool {
    let mine = survey.scopes.iter().filter(|(scope, _)| &*scope.provider == entry);
    let mut plans = mine.filter_map(|(_, view)| view.as_ref().ok()).map(|view| &view.plan);
    plans.any(|plan| plan.steps.iter().any(|step| matches!(step.change, Change::Forget | Change::Adopt)))
}
