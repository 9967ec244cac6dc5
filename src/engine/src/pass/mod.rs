//! Doing: a survey carried out. One scope at a time per batch, scopes beside each other, each failing alone.
//!
//! ```text
//! survey ─► bookkeeping (adopt, forget, move, answers to open intents) ─► batch ─► journal ─► provider
//! ```
//!
//! A pass that wrote is not believed: its scope is due again at once, and only the next survey, which sees the
//! remote, settles what was written.

mod bookkeeping;
mod converge;
mod ending;
mod fared;
mod flapping;
mod holds;
mod observing;
mod report;
mod scope;

pub use converge::{Converge, Outcomes, Patience};
pub use flapping::FLAPPING;
pub use report::{RoundReport, ScopeReport, ScopeState};

use crate::{
    desired::Desired,
    error_policy::Failures,
    plan::EntryPolicy,
    store::{Converged, Store, Write},
    survey::{Survey, SurveyOptions, Surveyor, Watched, beside},
    telemetry,
};
use futures_util::FutureExt;
use reconciled_provider::{Claim, Error, ManifestKey, Observer, Provider, Scope, Stop};
use scope::{Fences, ScopesOf};
use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicU64},
};
use tracing::Instrument;

/// Everything that doing needs. Clones share what was learnt of failures and of flapping.
#[derive(Clone)]
pub struct Engine {
    /// Looks.
    pub surveyor: Surveyor,
    /// Writes, by entry.
    writers: BTreeMap<Arc<str>, Arc<dyn Provider>>,
    /// Remembers.
    pub store: Arc<dyn Store>,
    /// Name of this instance, part of client tokens.
    pub instance: Arc<str>,
    actions: Arc<AtomicU64>,
    failures: Arc<Mutex<BTreeMap<Scope, Failures>>>,
    ledger: Arc<Mutex<flapping::Ledger>>,
}

/// What comes after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A report; when to look again is decided elsewhere.
    Report,
    /// A look at what was written.
    Look,
}

/// Upcasts a provider for looking.
pub fn watched(
    provider: &Arc<dyn Provider>,
    policy: EntryPolicy,
    guard: crate::plan::guard::GuardLimits,
) -> Watched {
    Watched { observer: provider.clone() as Arc<dyn Observer>, policy, guard }
}

impl Engine {
    /// An engine over `surveyor` that writes through `writers`, entry by entry.
    pub fn new(
        surveyor: Surveyor,
        writers: BTreeMap<Arc<str>, Arc<dyn Provider>>,
        store: Arc<dyn Store>,
        instance: Arc<str>,
    ) -> Engine {
        Engine {
            surveyor,
            writers,
            store,
            instance,
            actions: Arc::default(),
            failures: Arc::default(),
            ledger: Arc::default(),
        }
    }

    /// The same engine under a wish to stop of its own.
    pub fn under(&self, stop: Stop) -> Engine {
        let mut engine = self.clone();
        engine.surveyor.cx.stop = stop;
        engine
    }

    /// Surveys and carries out what is neither blocked nor held.
    ///
    /// Errors: only the store's. What goes wrong with a remote is in the report, scope by scope.
    pub async fn round(&self, desired: &Desired, options: &SurveyOptions) -> Result<RoundReport, Error> {
        let survey = self.surveyor.survey(&*self.store, desired, options).await?;
        self.carry_out(desired, survey).await
    }

    /// Carries out a survey: of each scope what was shown, or nothing where the world has moved.
    pub async fn carry_out(&self, desired: &Desired, survey: Survey) -> Result<RoundReport, Error> {
        self.carry_out_and(Next::Report, desired, survey).await
    }

    async fn carry_out_and(
        &self,
        next: Next,
        desired: &Desired,
        survey: Survey,
    ) -> Result<RoundReport, Error> {
        let mut report = RoundReport::default();
        let mut domains = self.holds(desired, &survey).await?;
        report.held = std::mem::take(&mut domains.held);
        let fences = Fences::of(desired, self.fences(desired, &survey).await?, |resource| {
            self.surveyor.only_reads(&resource.scope, &resource.id)
        });
        // Of many scopes that takes a while, and few passes ask.
        let scopes: OnceLock<ScopesOf> = OnceLock::new();
        let place = |claim: &Claim, owner: Option<&ManifestKey>, carried: Option<&Scope>| {
            let scopes = scopes.get_or_init(|| {
                let mut all = ScopesOf::new();
                for scope in desired.scopes.keys() {
                    all.entry(scope.provider.clone()).or_default().insert(scope.clone());
                }
                all
            });
            self.place(claim, owner, carried, desired, scopes)
        };
        let jobs = survey.scopes.into_iter().map(|job| (job.0.provider.clone(), job));
        let work = |(scope, view): (Scope, Result<_, Error>)| {
            let (fences, place, leave) = (&fences, &place, domains.leave(&scope));
            let span = tracing::info_span!(
                telemetry::SCOPE,
                provider = &*scope.provider,
                scope = &*scope.name,
                error = tracing::field::Empty
            );
            let outside = span.clone();
            let job = async move {
                let pass = async {
                    match view {
                        Ok(view) => self.pass(&scope, view, leave, fences, place, next).await,
                        Err(error) => self.unseen(&scope, &error).await,
                    }
                };
                let result = AssertUnwindSafe(pass).catch_unwind().await;
                let result = result
                    .unwrap_or_else(|_| Err(Error::unexpected(format!("the pass over {scope} panicked"))));
                let error = result.as_ref().map_or_else(Some, |report| report.error.as_ref());
                if let Some(error) = error {
                    span.record("error", error.kind.word());
                }
                (scope, result)
            };
            job.instrument(outside).boxed()
        };
        for (scope, result) in beside(jobs, |_| WIDTH, work).await {
            let result = match result {
                Ok(done) => done,
                // The store failed, or another process is the writer: this scope is tried again, others go on.
                Err(error) => {
                    let report = self.failed(&scope, &error, Vec::new());
                    ScopeReport { unreachable: false, unwritten: Some(error), ..report }
                }
            };
            report.scopes.insert(scope, result);
        }
        Ok(report)
    }

    /// Starts afresh: a new revision or an operator ends every backoff and every wish to stop.
    pub fn renew(&mut self) {
        self.surveyor.cx.stop = Stop::default();
        self.failures().clear();
    }

    /// Ends the backoff of these scopes: a new revision, an operator, or a remote that is back.
    pub fn forgive<'a>(&self, scopes: impl IntoIterator<Item = &'a Scope>) {
        let mut failures = self.failures();
        for scope in scopes {
            failures.remove(scope);
        }
    }

    /// Lets what flapped in these scopes be written again: a person said so.
    pub fn acquit<'a>(&self, scopes: impl IntoIterator<Item = &'a Scope>) {
        let mut ledger = self.ledger();
        scopes.into_iter().for_each(|scope| ledger.acquit(scope));
    }

    /// Failures in a row of one scope.
    pub fn failures_of(&self, scope: &Scope) -> u32 {
        self.failures().get(scope).map_or(0, |failures| failures.count)
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<Scope, Failures>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ledger(&self) -> MutexGuard<'_, flapping::Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that all of `source` was found in sync.
    pub async fn converged(&self, converged: Converged) -> Result<(), Error> {
        if self.store.converged(&converged.source).await?.as_ref() == Some(&converged) {
            return Ok(());
        }
        self.store.commit(vec![Write::Converged(Ok(converged))]).await
    }
}

/// Scopes of an entry that are carried out at once; how many of them are written is its provider's word.
const WIDTH: usize = 16;
