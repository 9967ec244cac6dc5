//! One pass: survey, carry out, and how to end either early.
//!
//! Guarantees: what only reads is dropped as soon as it is asked to stop, and a survey that was overtaken is not
//! carried out; one that goes on is given all the time it needs, one in which nothing is answered is not;
//! what writes is asked to stop and then waited for, longer than any limit the engine itself sets.
//! A panic, or a future that is dropped, ends the pass and frees its keys.

use super::{Priority, Scheduler, state::Key};
use crate::{
    Desired,
    pass::{Engine, RoundReport},
    survey::{ByPerson, Survey, SurveyOptions, Surveyor},
    telemetry,
};
use futures_util::{
    FutureExt,
    future::{Either, select},
};
use reconciled_provider::{Error, Scope, Stop};
use std::{collections::BTreeSet, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};
use tracing::Instrument;

/// How a pass ended.
#[derive(Debug)]
pub(super) enum Passed {
    /// It came to its end.
    Round(RoundReport),
    /// It did not: nothing is known of any of its scopes.
    Failed(Error),
    /// It made way for something else: it wants to run again as before.
    Stopped,
    /// An entry was asked what moved: scopes to look at, and whether in full.
    Probed(Result<Vec<(Scope, bool)>, Error>),
    /// The store was asked what it remembers.
    Recalled(Result<BTreeSet<Scope>, Error>),
}

/// Frees the keys of a pass, also when its future is dropped.
struct Ending {
    scheduler: Arc<Scheduler>,
    number: u64,
    passed: Option<Passed>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let passed = self.passed.take().unwrap_or(Passed::Stopped);
        self.scheduler.ended(self.number, passed);
    }
}

impl Scheduler {
    /// Runs the pass `number` to its end.
    pub(super) async fn pass(self: Arc<Self>, number: u64, stop: Stop) {
        let mut ending = Ending { scheduler: self.clone(), number, passed: None };
        let span = tracing::info_span!(telemetry::PASS, revision = %self.revision());
        let work = self.work(number, &stop).instrument(span);
        let passed = AssertUnwindSafe(work).catch_unwind().await;
        ending.passed = Some(passed.unwrap_or_else(|_| {
            Passed::Failed(Error::unexpected("the pass panicked").hint("this is a bug; other scopes go on"))
        }));
    }

    /// What is in force, as people call it: `infra@9f2c1ab`.
    fn revision(&self) -> String {
        let desired = self.state.look(|state| state.desired.clone()).unwrap_or_default();
        let named = desired.sources.iter().map(|(name, source)| format!("{name}@{}", source.label));
        named.collect::<Vec<_>>().join(" ")
    }

    async fn work(&self, number: u64, stop: &Stop) -> Passed {
        let (desired, key, options, priority) = self.state.look(|state| {
            let run = &state.runs[&number];
            let (key, wish) = &run.keys[0];
            let desired = state.desired.clone().expect("nothing is started before something is desired");
            let options = SurveyOptions {
                only: Some(run.scopes(state)),
                refresh: wish.full,
                health: true,
                asked: Some(run.asked.clone()),
                by_person: ByPerson::In(run.by_person.clone()),
                insisted: run.insisted.clone(),
                unhurried: run.priority == Priority::Resync,
                ..SurveyOptions::default()
            };
            (desired, key.clone(), options, run.priority)
        });
        let read = async {
            match key {
                Key::Probe(entry) => Passed::Probed(self.probe(&entry).await),
                Key::Recall => Passed::Recalled(self.recall().await),
                // The last scope of an entry went while it waited for its turn.
                Key::Scope(_) | Key::Entry(_) => Passed::Round(RoundReport::default()),
            }
        };
        if options.only.as_ref().is_none_or(BTreeSet::is_empty) {
            return match select(pin!(read), pin!(stop.wished())).await {
                Either::Left((passed, _)) => passed,
                Either::Right(_) => Passed::Stopped,
            };
        }
        let Surveyor { hurry, cx, .. } = &self.engine.surveyor;
        let _rush = (priority <= Priority::Hint).then(|| hurry.rush(&cx.clock));
        // A wish of its own: a pass that is late has ended, one that made way has not.
        let engine = self.engine.under(stop.child());
        self.round(number, &engine, &desired, options).boxed().await
    }

    async fn round(&self, number: u64, engine: &Engine, desired: &Desired, options: SurveyOptions) -> Passed {
        let cx = &engine.surveyor.cx;
        let only = options.only.clone().unwrap_or_default();
        let mut survey = engine.surveyor.survey(&*engine.store, desired, &options).boxed();
        let mut wished = pin!(cx.stop.wished());
        let mut answered = 0;
        let survey = loop {
            let limit = cx.clock.sleep(self.settings.pass_limit);
            match select(&mut survey, select(&mut wished, limit)).await {
                Either::Left((Ok(survey), _)) => break survey,
                Either::Left((Err(error), _)) => return Passed::Failed(error),
                // Nothing was written yet, so there is nothing to wait for.
                Either::Right((Either::Left(_), _)) => return Passed::Stopped,
                Either::Right((Either::Right(_), _)) => {
                    // Each look has a limit of its own; begun anew, the next survey would come no further.
                    let before = std::mem::replace(&mut answered, options.answered.count());
                    if answered == before {
                        return Passed::Failed(self.late(self.settings.pass_limit));
                    }
                }
            }
        };
        let limit = cx.clock.sleep(self.settings.pass_limit);
        // Under the lock: either a newer wish finds this pass still reading, or it finds it writing.
        let may_write = self.state.change(|state| {
            state.runs.get_mut(&number).is_some_and(|run| {
                run.reads = false;
                !run.stop.is_set()
            })
        });
        if !may_write {
            return Passed::Stopped;
        }
        let write = self.carry_out(engine, desired, survey).boxed();
        let result = match select(write, limit).await {
            Either::Left((result, _)) => result,
            Either::Right((_, write)) => {
                cx.stop.set();
                let grace = self.grace(&only);
                match select(write, cx.clock.sleep(grace)).await {
                    Either::Left((result, _)) => result,
                    Either::Right(_) => return Passed::Failed(self.late(self.settings.pass_limit + grace)),
                }
            }
        };
        result.map_or_else(Passed::Failed, Passed::Round)
    }

    async fn carry_out(
        &self,
        engine: &Engine,
        desired: &Desired,
        survey: Survey,
    ) -> Result<RoundReport, Error> {
        if self.settings.observe {
            engine.record(desired, survey).await
        } else {
            engine.carry_out(desired, survey).await
        }
    }

    /// How long a pass that was asked to stop is waited for: the engine gives an `apply` up after twice its
    /// limit, so it always comes first, and no running `apply` is dropped from here.
    fn grace(&self, scopes: &BTreeSet<Scope>) -> Duration {
        let entries = &self.engine.surveyor.entries;
        let limit = |scope: &Scope| entries.get(&scope.provider).map(|e| e.observer.info().apply_limit);
        let longest = scopes.iter().filter_map(limit).max().unwrap_or_default();
        longest * 2 + self.engine.surveyor.cx.deadline
    }

    fn late(&self, limit: Duration) -> Error {
        Error::unavailable(format!("the pass did not end within {} s", limit.as_secs()))
    }
}
