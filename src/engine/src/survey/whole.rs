//! Scopes that are run each by itself and judged together: what one of them would change is held or not by the word on all.
//!
//! Guarantees: what the guard counts of a commit is looked at in all scopes of the entry before any of it is carried out. What
//! it only makes may not wait for consent by itself, but does with the rest: it has the others looked at once for each desired
//! state. Repairs and renewals cost no look at the others. It deliberately carries nothing out that was not asked for.

use super::{Ahead, Heard, Survey, SurveyOptions, Surveyor};
use crate::{
    desired::Desired,
    plan::{Change, guard},
    store::Store,
};
use reconciled_provider::{Error, GuardDomain, Hash, Scope};
use std::{collections::BTreeSet, future, sync::Arc};

impl Surveyor {
    /// The same survey with the word of the guard on whole domains.
    pub(super) async fn whole(
        &self,
        store: &dyn Store,
        desired: &Desired,
        mut survey: Survey,
        options: &SurveyOptions,
    ) -> Result<Survey, Error> {
        let apart = self.apart(&survey);
        if apart.is_empty() {
            return Ok(survey);
        }
        let state = state_of(desired);
        // What was not asked for was not judged.
        let judged = |entries: &BTreeSet<Arc<str>>| {
            let entries = entries.iter().filter(|_| options.selection.is_all());
            entries.map(|entry| (entry.clone(), state)).collect()
        };
        if options.only.is_none() {
            survey.judged = judged(&apart);
            return Ok(survey);
        }
        let mut entries = self.unjudged(store, &survey, apart, state).await?;
        if entries.is_empty() {
            return Ok(survey);
        }
        survey.judged = judged(&entries);
        let glance = self.glance(store, options, Ahead::Nothing, future::ready(Heard::new())).await?;
        let facts = self.facts(desired, &glance.memories);
        let remembered = glance.memories.iter().filter(|(_, memory)| memory.is_remembered());
        let all = desired.scopes.keys().chain(remembered.map(|(scope, _)| scope));
        let beside: BTreeSet<Scope> =
            all.filter(|scope| entries.contains(&scope.provider)).cloned().collect();
        // Of what was looked at whole the word is spoken.
        entries.retain(|entry| {
            beside.iter().any(|scope| scope.provider == *entry && !survey.scopes.contains_key(scope))
        });
        if entries.is_empty() {
            return Ok(survey);
        }
        let beside = beside.into_iter().filter(|scope| entries.contains(&scope.provider)).collect();
        let wider = SurveyOptions { only: Some(beside), health: false, ..options.clone() };
        let mut wider = self.survey_with(store, desired, glance, &facts, &wider).await?;
        survey.unread.extend(entries.iter().filter(|entry| wider.unread.contains(*entry)).cloned());
        survey.in_part.extend(entries.iter().filter(|entry| wider.in_part.contains(*entry)).cloned());
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

    /// Entries of which something was looked at, whose scopes are run apart.
    fn apart(&self, survey: &Survey) -> BTreeSet<Arc<str>> {
        let entries: BTreeSet<&Arc<str>> = survey.scopes.keys().map(|scope| &scope.provider).collect();
        let is_apart = |entry: &&Arc<str>| self.entries[*entry].observer.info().guard == GuardDomain::Apart;
        entries.into_iter().filter(is_apart).cloned().collect()
    }

    /// Those of them on whose scopes a word was spoken that needs all of them.
    async fn unjudged(
        &self,
        store: &dyn Store,
        survey: &Survey,
        mut entries: BTreeSet<Arc<str>>,
        state: Hash,
    ) -> Result<BTreeSet<Arc<str>>, Error> {
        // Before the holds are read: what was judged has its hold on record by then.
        let new: BTreeSet<Arc<str>> =
            entries.iter().filter(|entry| !self.judged.is(entry, state)).cloned().collect();
        // A hold stands for all of its domain: who sees a part of that must not end it.
        let holds = store.holds().await?;
        entries.retain(|entry| {
            let counts = survey.domains.get(entry).is_some_and(|domain| {
                let [creates, updates, replaces, deletes] = domain.counts();
                let counted = updates + replaces + deletes > 0 || creates > 0 && new.contains(entry);
                domain.hold().is_some() || domain.verdict.is_held() || counted
            });
            counts || lets_go(survey, entry) || holds.iter().any(|hold| hold.domain == *entry)
        });
        Ok(entries)
    }
}

/// What tells a desired state from those before it: what people commit to and roll back.
fn state_of(desired: &Desired) -> Hash {
    let sources = desired.sources.iter().flat_map(|(name, source)| [&**name, &*source.revision]);
    let pins = desired.pinned.iter().map(|((scope, id), pinned)| format!("{scope} {id} {}", pinned.label));
    let parts = sources.map(str::to_owned).chain(pins);
    Hash::of(parts.collect::<Vec<_>>().join("\n").as_bytes())
}

/// True when something of this entry is let go or taken over: no count, and it waits with what others of its entry are held for.
fn lets_go(survey: &Survey, entry: &str) -> bool {
    let mine = survey.scopes.iter().filter(|(scope, _)| &*scope.provider == entry);
    let mut plans = mine.filter_map(|(_, view)| view.as_ref().ok()).map(|view| &view.plan);
    plans.any(|plan| plan.steps.iter().any(|step| matches!(step.change, Change::Forget | Change::Adopt)))
}
