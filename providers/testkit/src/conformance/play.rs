//! One run of the suite: scopes that nobody used, processes in them, samples as resources.

use super::{
    check::{Check, Stop, ensure, skip},
    driver::Process,
    manifests,
    memory::Memory,
    subject::{INSTANCE, Sample, Subject},
};
use reconciled_provider::{Found, Observation, Observed, Owner, Resource, ResourceId, Scope};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    sync::Arc,
};

/// A run of the suite.
pub(super) struct Play<'a> {
    pub(super) subject: &'a dyn Subject,
    next: Cell<usize>,
    /// Scopes that were used since they were last inspected.
    used: RefCell<Vec<Scope>>,
}

impl<'a> Play<'a> {
    pub(super) fn new(subject: &'a dyn Subject) -> Play<'a> {
        Play { subject, next: Cell::new(0), used: RefCell::default() }
    }

    /// A scope that no law has touched.
    pub(super) fn fresh(&self) -> Scope {
        let number = self.next.get();
        self.next.set(number + 1);
        let scope = self.subject.scope(number);
        self.used.borrow_mut().push(scope.clone());
        scope
    }

    /// A process with nothing remembered in an untouched scope.
    pub(super) async fn start(&self) -> Process<'a> {
        let scope = self.fresh();
        self.enter(scope, Memory::default(), INSTANCE).await
    }

    /// A process that starts in `scope` with what `memory` holds.
    pub(super) async fn enter(&self, scope: Scope, memory: Memory, instance: &str) -> Process<'a> {
        let provider = self.subject.connect(&scope, instance).await;
        Process { subject: self.subject, provider, cx: self.subject.cx(), scope, memory }
    }

    /// A process that has brought `sample` into being.
    pub(super) async fn start_with(&self, sample: Sample) -> Result<(Process<'a>, Vec<Resource>), Stop> {
        let process = self.start().await;
        let desired = self.desired(&process, sample).await?;
        process.converge(&desired).await?;
        Ok((process, desired))
    }

    /// The resources of a sample; a law that needs one the subject does not have is skipped.
    pub(super) async fn desired(&self, process: &Process<'_>, sample: Sample) -> Result<Vec<Resource>, Stop> {
        self.declared(process, &self.text(&process.scope, sample)?).await
    }

    /// The resources of manifests.
    pub(super) async fn declared(&self, process: &Process<'_>, text: &str) -> Result<Vec<Resource>, Stop> {
        manifests::normalize(&*process.provider, &process.cx, &process.scope, text).await
    }

    /// The manifests of a sample.
    pub(super) fn text(&self, scope: &Scope, sample: Sample) -> Result<String, Stop> {
        match (self.subject.manifests(scope, sample), sample) {
            (Some(text), _) => Ok(text),
            (None, Sample::Swapped | Sample::Shared) => {
                skip(&format!("the subject has no {sample:?} sample"))
            }
            (None, _) => {
                Err(Stop::Fail(format!("the subject has no {sample:?} sample, which every one has")))
            }
        }
    }

    /// The resource that `Changed` changes and the one that `Shrunk` lacks.
    pub(super) async fn victims(&self, process: &Process<'_>) -> Result<(ResourceId, ResourceId), Stop> {
        let initial = self.desired(process, Sample::Initial).await?;
        let changed = self.desired(process, Sample::Changed).await?;
        let shrunk = self.desired(process, Sample::Shrunk).await?;
        let changed = initial.iter().find(|r| content(&changed, &r.id).is_some_and(|h| h != r.spec.hash()));
        let gone = initial.iter().rev().find(|r| content(&shrunk, &r.id).is_none());
        match (changed, gone) {
            (Some(changed), Some(gone)) => Ok((changed.id.clone(), gone.id.clone())),
            _ => Err(Stop::Fail("Changed changes nothing, or Shrunk lacks nothing".into())),
        }
    }

    /// Fails on anything wrong that only the subject can see. Nobody comes back to a scope that was inspected.
    pub(super) async fn inspect_all(&self) -> Check {
        let used = self.used.take();
        for scope in used {
            let wrong = self.subject.inspect(&scope).await;
            ensure!(wrong.is_empty(), "at the remote of {scope}: {}", wrong.join("; "));
            self.subject.leave(&scope).await;
        }
        Ok(())
    }
}

/// Content of `id` among resources: none when it is not there.
pub(super) fn content(resources: &[Resource], id: &ResourceId) -> Option<Option<reconciled_provider::Hash>> {
    resources.iter().find(|r| r.id == *id).map(|r| r.spec.hash())
}

/// Fails unless exactly what is desired was seen, apart from what belongs to the remote itself and `others`.
pub(super) fn exactly(seen: &Observation, desired: &[Resource], others: &[ResourceId]) -> Check {
    for resource in desired {
        let Some(observed) = seen.get(&resource.id) else {
            return Err(Stop::Fail(format!("{} is desired and was not observed", resource.id)));
        };
        ensure!(
            Some(observed.hash) == resource.spec.hash(),
            "{} is observed as {:?}, desired as {:?}",
            resource.id,
            String::from_utf8_lossy(&observed.bytes),
            String::from_utf8_lossy(resource.spec.bytes().unwrap_or_default())
        );
    }
    let wanted: BTreeSet<&ResourceId> = desired.iter().map(|r| &r.id).chain(others).collect();
    for observed in seen.resources.iter().filter(|o| o.owner != Owner::System) {
        ensure!(wanted.contains(&observed.id), "{} was observed and nobody made it", observed.id);
    }
    Ok(())
}

/// Resources as if the remote had reported them.
pub(super) fn found(scope: &Scope, resources: &[Resource]) -> Found {
    let observed = |r: &Resource| Observed::new(r.id.clone(), r.spec.bytes().unwrap_or_default());
    let mut resources: Vec<Observed> = resources.iter().map(observed).collect();
    resources.sort_by(|a, b| a.id.cmp(&b.id));
    Found::new(scope.clone(), resources)
}

/// The name of an entry that is not the one under test.
pub(super) fn another_entry() -> Arc<[Arc<str>]> {
    [Arc::from("nobody-has-this-name")].into()
}
