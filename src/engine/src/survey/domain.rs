//! The guard's word on one domain: on what can be done now, and on what will be once nothing stops it.
//!
//! It deliberately finds no consent: that is [`super::judge`].

use crate::{
    plan::guard::{Counts, Verdict},
    store::{Approval, Hold},
};
use reconciled_provider::{Hash, ManifestKey, Scope};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The guard's word on one domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its name.
    pub name: Arc<str>,
    /// The scopes counted in it.
    pub scopes: Vec<Scope>,
    /// The word.
    pub verdict: Verdict,
    /// Inputs that moved go on, though the rest is held.
    pub inputs_go_on: bool,
    /// A person's consent to its digest.
    pub approval: Option<Approval>,
    /// What that is for: the guarded steps of each scope, and the manifests they are of. Nothing where it need not be given.
    pub guarded: BTreeMap<Scope, Vec<Hash>>,
    /// See [`Begun::manifests`](crate::store::Begun::manifests).
    pub manifests: BTreeMap<ManifestKey, Option<Hash>>,
    /// What people call the revisions that the plan is of: one of each source that has a part in it, joined by `+`.
    pub revision: Arc<str>,
    /// The word there will be on what is stopped now.
    pub foreseen: Option<Foreseen>,
}

/// The guard's word on what a closed window or a person stops, as it will be once nothing does.
#[derive(Clone, Debug)]
pub struct Foreseen {
    /// The word.
    pub verdict: Verdict,
    /// A person's consent to its digest: it counts by then, and lets nothing be written before.
    pub approval: Option<Approval>,
    /// As [`Domain::revision`].
    pub revision: Arc<str>,
    /// When that is, in words.
    pub once: &'static str,
}

/// What a person may consent to.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// What it is, as held from no time on.
    pub hold: Hold,
    /// The consent.
    pub approval: &'a mut Option<Approval>,
}

impl Domain {
    /// True when its guarded steps must wait for a person.
    pub fn is_held(&self) -> bool {
        self.verdict.is_held() && self.approval.is_none()
    }

    /// What will be held once it is stopped no more, consented to or not. None while something is held now: what becomes of that
    /// is a part of it. None either for the rest of what was begun with a person's consent: it goes on by that.
    pub fn later(&self) -> Option<&Foreseen> {
        let is_begun = |approval: &Approval| approval.used_at.is_some();
        let is_news = |foreseen: &&Foreseen| {
            foreseen.verdict.is_held() && !foreseen.approval.as_ref().is_some_and(is_begun)
        };
        self.foreseen.as_ref().filter(|_| !self.is_held()).filter(is_news)
    }

    /// What is held now, or else will be.
    pub fn hold(&self) -> Option<Hold> {
        match self.later() {
            _ if self.is_held() => Some(self.hold_of(&self.verdict, &self.revision, None)),
            Some(later) => Some(self.hold_of(&later.verdict, &later.revision, Some(later.once))),
            None => None,
        }
    }

    /// Each plan that a person may consent to, with their consent so far: what is shown of the domain, and nothing else of it.
    pub fn wanted(&mut self) -> Vec<Wanted<'_>> {
        let has_digest = |verdict: &Verdict| verdict.is_held() && verdict.digest.is_some();
        let now = has_digest(&self.verdict).then(|| self.hold_of(&self.verdict, &self.revision, None));
        let later = self.later().filter(|foreseen| has_digest(&foreseen.verdict));
        let later = later.map(|later| self.hold_of(&later.verdict, &later.revision, Some(later.once)));
        let now = now.map(|hold| Wanted { hold, approval: &mut self.approval });
        let later = later.zip(self.foreseen.as_mut());
        let later = later.map(|(hold, foreseen)| Wanted { hold, approval: &mut foreseen.approval });
        now.into_iter().chain(later).collect()
    }

    /// What the guard counted, with what is stopped.
    pub(super) fn counts(&self) -> Counts {
        let later = self.foreseen.as_ref().map(|foreseen| foreseen.verdict.counts).unwrap_or_default();
        std::array::from_fn(|kind| self.verdict.counts[kind] + later[kind])
    }

    fn hold_of(&self, verdict: &Verdict, revision: &Arc<str>, once: Option<&str>) -> Hold {
        Hold {
            domain: self.name.clone(),
            digest: verdict.digest.unwrap_or_default(),
            reasons: verdict.reasons.clone(),
            counts: verdict.counts,
            revision: revision.clone(),
            since: Duration::ZERO,
            once: once.map(Arc::from),
        }
    }
}
