//! The smallest engine that will do: observe, plan, apply, until nothing is left.

use super::{
    check::{Stop, ensure},
    memory::{Memory, Notes, Seen, recheck, synced},
    subject::Subject,
};
use reconciled_provider::{
    Batch, Cx, Error, ErrorKind, Focus, Hash, Observation, Op, Outcome, Provider, Resource, ResourceId,
    Scope, Tracked, Want,
};
use std::{
    collections::BTreeSet,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

/// Passes after which a state that is still not reached never will be.
const PASSES: usize = 16;

/// Reads that may end in a conflict before one must not.
const CONFLICTS: usize = 3;

/// A running process: a provider, and what it remembers.
pub(super) struct Process<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) cx: Cx,
    pub(super) scope: Scope,
    pub(super) memory: Memory,
}

/// How an `apply` ended.
pub(super) struct Applied {
    /// What it returned; none when the process died.
    pub(super) result: Option<Result<(), Error>>,
    /// What the journal was told.
    pub(super) seen: Seen,
}

impl Applied {
    /// Fails unless `apply` went well and every action ended as one of `words`.
    pub(super) fn expect(&self, batch: &Batch, words: &[&str]) -> Result<(), Stop> {
        if let Some(Err(error)) = &self.result {
            return Err(Stop::Fail(format!("apply: {}: {}", error.kind.word(), error.chain())));
        }
        for action in &batch.actions {
            let (word, id) = (action.op.word(), action.op.id());
            let Some(outcome) = self.seen.outcomes.get(&action.id) else {
                return Err(Stop::Fail(format!("apply returned Ok, but {word} {id} has no outcome")));
            };
            ensure!(words.contains(&outcome.word()), "{word} {id} ended as {outcome:?}");
        }
        Ok(())
    }
}

impl<'a> Process<'a> {
    /// A new process in the same scope that remembers what this one made durable.
    pub(super) async fn restart(self, instance: &str) -> Process<'a> {
        let provider = self.subject.connect(&self.scope, instance).await;
        Process { provider, cx: self.subject.cx(), memory: self.memory.reborn(), ..self }
    }

    /// Reads what `focus` means and checks the form of the answer.
    pub(super) async fn look(
        &self,
        focus: &Focus,
        desired: &[Resource],
        tracked: &[Tracked],
    ) -> Result<Observation, Stop> {
        let claims = self.memory.claims();
        let want = Want { scope: &self.scope, focus, desired, tracked, claims: &claims };
        let mut tries = 0;
        let seen = loop {
            match self.provider.observe(&self.cx, &want).await {
                // A request of a process that died may arrive while its successor reads.
                Err(error) if error.kind == ErrorKind::Conflict && tries < CONFLICTS => tries += 1,
                seen => break seen?,
            }
        };
        ensure!(seen.complete, "the observation of {} is not complete, though nothing is broken", self.scope);
        for pair in seen.resources.windows(2) {
            let (a, b) = (&pair[0].id, &pair[1].id);
            ensure!(a < b, "the observation is not sorted by id without repetition: {a} comes before {b}");
        }
        for observed in &seen.resources {
            let is_right = observed.hash == Hash::of(&observed.bytes);
            ensure!(is_right, "the hash of {} is not the hash of its bytes", observed.id);
        }
        let covers = match focus {
            Focus::All => seen.covered == Focus::All,
            Focus::Only(ids) => ids.iter().all(|id| seen.covered.covers(id)),
        };
        ensure!(covers, "{focus:?} was asked for and {:?} was covered", seen.covered);
        Ok(seen)
    }

    /// Reads everything, with what is remembered.
    pub(super) async fn observe(&self, desired: &[Resource]) -> Result<Observation, Stop> {
        let tracked: Vec<Tracked> = self.memory.rows().into_values().map(|row| row.tracked).collect();
        self.look(&Focus::All, desired, &tracked).await
    }

    /// What must be done, in order. Remembers what needs nothing.
    pub(super) async fn plan(&self, desired: &[Resource], seen: &Observation) -> Result<Batch, Stop> {
        let rows = self.memory.rows();
        let tracked: Vec<Tracked> = rows.values().map(|row| row.tracked.clone()).collect();
        let claims = self.memory.claims();
        let want =
            Want { scope: &self.scope, focus: &Focus::All, desired, tracked: &tracked, claims: &claims };
        let deltas = self.provider.diff(&self.cx, &want, seen).await?;
        let mut ops = Vec::new();
        for resource in desired {
            let (desired, id) = (resource.clone(), &resource.id);
            let row = rows.get(id);
            let hash = resource.spec.hash();
            if let Some(row) = row.filter(|row| Some(row.tracked.applied) == hash)
                && let Some(claims) = &row.pending
            {
                let claims = claims.iter().map(|claim| synced(id, claim)).collect();
                let (tracked, observed) = (row.tracked.clone().into(), seen.get(id).cloned());
                ops.push(Op::Continue { desired, tracked, observed: observed.map(Into::into), claims });
                continue;
            }
            let tracked = row.map(|row| row.tracked.clone().into());
            match (seen.get(id).cloned(), deltas.get(id)) {
                (_, Some(Err(error))) => return Err(error.clone().into()),
                (None, Some(Ok(delta))) => ops.push(Op::Create { desired, delta: delta.clone().into() }),
                (None, None) => ops.push(Op::Create { desired, delta: Default::default() }),
                (Some(_), None) => self.memory.settle(id, hash.unwrap_or_default()),
                (Some(observed), Some(Ok(delta))) => ops.push(match delta.replace {
                    true => Op::Replace {
                        desired,
                        delta: delta.clone().into(),
                        observed: observed.into(),
                        tracked,
                    },
                    false => Op::Update {
                        desired,
                        delta: delta.clone().into(),
                        observed: observed.into(),
                        tracked,
                    },
                }),
            }
        }
        let wanted: BTreeSet<&ResourceId> = desired.iter().map(|r| &r.id).collect();
        let slots: BTreeSet<_> = ops.iter().filter_map(|op| self.provider.slot(op.id())).collect();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for (id, row) in rows.iter().rev().filter(|(id, _)| !wanted.contains(id)) {
            let Some(observed) = seen.get(id).cloned() else {
                self.memory.forget(id);
                continue;
            };
            let makes_room = self
                .provider
                .slot(id)
                .is_some_and(|slot| slot.clashing().any(|other| slots.contains(&other)));
            let list = if makes_room { &mut first } else { &mut last };
            list.push(Op::Delete { observed: observed.into(), tracked: Some(row.tracked.clone().into()) });
        }
        let actions = first.into_iter().chain(ops).chain(last).map(|op| self.memory.action(op));
        Ok(Batch { scope: self.scope.clone(), base: seen.version.clone(), actions: actions.collect() })
    }

    /// Observes and plans.
    pub(super) async fn survey(&self, desired: &[Resource]) -> Result<(Observation, Batch), Stop> {
        let seen = self.observe(desired).await?;
        let batch = self.plan(desired, &seen).await?;
        Ok((seen, batch))
    }

    /// Applies a batch; the journal's rules hold.
    pub(super) async fn apply(&self, batch: &Batch) -> Result<Applied, Stop> {
        self.apply_with(batch, Notes::new(&self.memory, batch)).await
    }

    /// Applies a batch with a journal of the law's own.
    pub(super) async fn apply_with(&self, batch: &Batch, notes: Notes<'_>) -> Result<Applied, Stop> {
        let result = {
            let mut apply = pin!(self.provider.apply(&self.cx, batch, &notes));
            poll_fn(|task| match Pin::new(&mut apply).poll(task) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                // Dropping the future is the death of the process.
                Poll::Pending if self.memory.awaits(task.waker()) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await
        };
        let seen = notes.into_seen();
        ensure!(seen.wrong.is_empty(), "the journal was told: {}", seen.wrong.join("; "));
        Ok(Applied { result, seen })
    }

    /// Passes until nothing is left to do; returns what is then seen. None when the process died.
    pub(super) async fn run_to_end(&self, desired: &[Resource]) -> Result<Option<Observation>, Stop> {
        let mut last = String::new();
        for _ in 0..PASSES {
            let (seen, batch) = self.survey(desired).await?;
            if batch.actions.is_empty() {
                return Ok(Some(seen));
            }
            let applied = self.apply(&batch).await?;
            match &applied.result {
                None => return Ok(None),
                Some(Err(error)) if error.kind == ErrorKind::Conflict => {}
                Some(Err(error)) => return Err(error.clone().into()),
                Some(Ok(())) => applied.expect(&batch, &["done", "gone", "pending"])?,
            }
            for outcome in applied.seen.outcomes.values() {
                if let Outcome::Pending { claims, .. } = outcome {
                    for claim in claims {
                        self.subject.carry(claim).await;
                    }
                }
            }
            if let Some(wait) = recheck(&applied.seen) {
                self.cx.clock.sleep(wait).await;
            }
            last = batch.actions.iter().map(|a| format!("{} {}; ", a.op.word(), a.op.id())).collect();
        }
        Err(Stop::Fail(format!("after {PASSES} passes there is still something to do: {last}")))
    }

    /// Passes until nothing is left to do; returns what is then seen.
    pub(super) async fn converge(&self, desired: &[Resource]) -> Result<Observation, Stop> {
        let end = self.run_to_end(desired).await?;
        end.ok_or_else(|| Stop::Fail("a process died that nobody killed".into()))
    }
}
