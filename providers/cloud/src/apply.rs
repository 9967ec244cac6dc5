//! Carrying out what was planned.
//!
//! A deletion and a creation of one replacement are one action; what is there after the first half is told if the second
//! fails. A wish to stop is passed on to the provider once, and its answer is waited for: what it did must be known.

use crate::{
    change,
    config::Named,
    cty::Value,
    host::Host,
    kept::Kept,
    kind,
    normalize::Declared,
    observe::{outputs, remote},
    plan::{self, Plans},
    plugin::{Applied, Planned, Plugin, Refusal, ResourceType},
    schema::canonical::Clear,
};
use futures_core::future::BoxFuture;
use reconciled_provider::{
    Action, Batch, Cx, Delta, Error, Hash, Journal, Observed, Op, Outcome, Resource, Sealed, Tracked,
};

/// Carries out a batch, one action after the other.
pub(crate) async fn apply(host: &Host, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
    for action in &batch.actions {
        if cx.stop.is_set() {
            return Ok(());
        }
        // What keeps a provider from starting had no effect, and is about all of them.
        let plugin = host.running(cx).await?;
        let of = plugin.catalog.resource(kind::type_in(action.op.id()))?;
        let account = host.config.account(&plugin.catalog.provider.block)?;
        let prepared = match named(cx, action) {
            Ok(clear) => {
                let doing = Doing { cx, plugin: &plugin, of: &of, action, clear, account };
                doing.prepare().await.map(|work| (doing, work))
            }
            Err(error) => Err(error),
        };
        let (doing, work) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                journal.started(&[action.id]).await?;
                journal.finished(vec![(action.id, Outcome::Failed(error))]).await?;
                continue;
            }
        };
        journal.started(&[action.id]).await?;
        let outcome = doing.carry_out(work).await;
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
}

/// The secrets of what is declared, and of what is there.
fn named<'a>(cx: &'a Cx, action: &Action) -> Result<Named<'a>, Error> {
    let declared = action.op.desired().and_then(|desired| Declared::read(desired.spec.bytes()?));
    let kept = match &action.op {
        Op::Update { observed, .. } | Op::Replace { observed, .. } | Op::Delete { observed, .. } => {
            Kept::open(&observed.private)?
        }
        Op::Create { .. } | Op::Continue { .. } => None,
    };
    let before = kept.into_iter().flat_map(|kept| kept.secrets);
    Named::of(cx, declared.as_ref().map(|declared| &declared.config), before)
}

/// What is to be sent.
enum Work {
    Change { prior: Value, planned: Planned, config: Value },
    Replace { prior: Value, goes: Planned, planned: Planned, config: Value },
    Delete { prior: Value, planned: Planned },
}

struct Doing<'a> {
    cx: &'a Cx,
    plugin: &'a Plugin,
    of: &'a ResourceType,
    action: &'a Action,
    clear: Named<'a>,
    account: Hash,
}

impl Doing<'_> {
    fn label(&self) -> String {
        format!("{} {}", self.action.op.word(), self.action.op.id())
    }

    async fn prepare(&self) -> Result<Work, Error> {
        let lost = || Error::conflict(format!("{}: there is no plan for it", self.label()));
        let plans = |delta: &Delta| Plans::open(&delta.planned).ok_or_else(lost);
        match &self.action.op {
            Op::Create { delta, .. } | Op::Update { delta, .. } => {
                let plans = plans(delta)?;
                let prior = plans.prior(self.of).ok_or_else(lost)?;
                let (planned, config) = plans.step.planned(self.of).ok_or_else(lost)?;
                Ok(Work::Change { prior, planned, config })
            }
            Op::Replace { delta, observed, .. } => {
                let plans = plans(delta)?;
                let (planned, config) =
                    plans.anew.as_ref().and_then(|step| step.planned(self.of)).ok_or_else(lost)?;
                let (prior, goes) = self.deletion(observed).await?;
                Ok(Work::Replace { prior, goes, planned, config })
            }
            Op::Delete { observed, .. } => {
                let (prior, planned) = self.deletion(observed).await?;
                Ok(Work::Delete { prior, planned })
            }
            Op::Continue { .. } => {
                Err(Error::unexpected(format!("{}: nothing of it is pending", self.label())))
            }
        }
    }

    async fn deletion(&self, observed: &Observed) -> Result<(Value, Planned), Error> {
        let kept = Kept::open(&observed.private)?;
        let kept =
            kept.ok_or_else(|| Error::unexpected(format!("{}: nothing is remembered of it", self.label())))?;
        plan::deletion(self.plugin, self.of, &kept).await
    }

    async fn carry_out(&self, work: Work) -> Outcome {
        match work {
            Work::Change { prior, planned, config } => self.change(&prior, &planned, &config).await,
            Work::Delete { prior, planned } => match self.delete(&prior, &planned).await {
                Ok(()) => Outcome::Gone,
                Err(outcome) => *outcome,
            },
            Work::Replace { prior, goes, planned, config } => {
                if let Err(outcome) = self.delete(&prior, &goes).await {
                    return *outcome;
                }
                match self.change(&Value::Null, &planned, &config).await {
                    // The old one is gone: the next pass makes the new one.
                    Outcome::Failed(_) => Outcome::Gone,
                    other => other,
                }
            }
        }
    }

    async fn delete(&self, prior: &Value, planned: &Planned) -> Result<(), Box<Outcome>> {
        let applied = match self.send(prior, planned, &Value::Null).await {
            Ok(applied) => applied,
            Err(refusal) => return Err(Box::new(ended(refusal))),
        };
        match (applied.error.clone(), applied.state.is_null()) {
            (None, true) => Ok(()),
            (Some(error), true) => Err(Box::new(Outcome::Unknown(error))),
            (Some(error), false) if applied.state == *prior => Err(Box::new(Outcome::Failed(error))),
            (Some(error), false) => Err(Box::new(Outcome::Partial(self.tracked(&applied, false), error))),
            (None, false) => {
                let text = format!("{}: the provider says it is still there", self.label());
                Err(Box::new(Outcome::Unknown(Error::unexpected(text))))
            }
        }
    }

    async fn change(&self, prior: &Value, planned: &Planned, config: &Value) -> Outcome {
        let applied = match self.send(prior, planned, config).await {
            Ok(applied) => applied,
            Err(refusal) => return ended(refusal),
        };
        let is_new = prior.is_null();
        match applied.error.clone() {
            Some(error) if applied.state == *prior => Outcome::Failed(error),
            // A creation that failed half way has made something that is not whole.
            Some(error) => Outcome::Partial(self.tracked(&applied, is_new), error),
            None if applied.state.is_null() => {
                let text = format!("{}: the provider says nothing came of it", self.label());
                Outcome::Unknown(Error::unexpected(text))
            }
            None => match change::check_applied(&planned.state, &applied.state) {
                Err(path) if !(planned.is_legacy || applied.is_legacy) => {
                    let text =
                        format!("{}: {path} did not come about as the provider planned it", self.label());
                    let hint = "this is a mistake of the provider; its maintainers want to know";
                    Outcome::Partial(self.tracked(&applied, false), Error::unexpected(text).hint(hint))
                }
                _ => Outcome::Done(self.tracked(&applied, false)),
            },
        }
    }

    /// Sends it, and asks the provider to come to an end once somebody wishes to stop.
    async fn send(&self, prior: &Value, planned: &Planned, config: &Value) -> Result<Applied, Refusal> {
        let label = self.label();
        let mut call: BoxFuture<'_, _> =
            Box::pin(self.plugin.apply(self.of, &label, prior, planned, config, self.clear.hidden()));
        tokio::select! {
            answer = &mut call => return answer,
            () = self.cx.stop.wished() => {}
        }
        self.plugin.cancel().await;
        call.await
    }

    fn tracked(&self, applied: &Applied, is_tainted: bool) -> Tracked {
        let op = &self.action.op;
        let applied_hash =
            op.desired().and_then(|desired: &Resource| desired.spec.hash()).unwrap_or_default();
        let mut tracked = Tracked::new(op.id().clone(), applied_hash);
        let mut kept = Kept::new(self.of, &applied.state, &applied.private, self.account);
        kept.is_tainted = is_tainted;
        kept.secrets = self.clear.hidden().within(&applied.state);
        tracked.private = kept.seal();
        tracked.remote = remote(&applied.state);
        tracked.outputs = if applied.state.is_null() {
            Sealed::default()
        } else {
            outputs(&self.clear, self.of, &applied.state)
        };
        tracked
    }
}

fn ended(refusal: Refusal) -> Outcome {
    match refusal {
        Refusal::Said(error) => Outcome::Failed(error),
        Refusal::Severed(error) => Outcome::Unknown(error),
    }
}
