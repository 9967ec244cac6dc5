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
mod engine;
mod fared;
mod flapping;
mod holds;
mod ledger;
mod observing;
mod report;
mod scope;

pub use converge::{Converge, Outcomes, Patience};
pub use engine::{Engine, watched};
pub use flapping::FLAPPING;
pub use report::{RoundReport, ScopeReport, ScopeState};

use crate::{
    desired::Desired,
    survey::{Survey, SurveyOptions, beside},
    telemetry,
};
use futures_util::FutureExt;
use reconciled_provider::{Claim, Error, ManifestKey, Scope};
use scope::{Fences, Next, ScopesOf};
use std::{panic::AssertUnwindSafe, sync::OnceLock};
use tracing::Instrument;

impl Engine {
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
}

/// Scopes of an entry that are carried out at once; how many of them are written is its provider's word.
const WIDTH: usize = 16;
