//! Turns that are taken beside each other have systemd read its files once, as soon as each of them has written its own.
//!
//! Guarantees: whoever wishes for it goes on only after files were read that it had written before.

use super::super::jobs::Jobs;
use crate::hands::{Fault, Manager};
use reconciled_provider::Error;
use std::sync::{
    PoisonError,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::{Mutex, MutexGuard, oneshot};

/// The turns of a pass.
pub(in crate::deployment) struct Reloads<'a> {
    manager: &'a dyn Manager,
    /// What they have started and stopped.
    jobs: &'a Jobs<'a>,
    turns: std::sync::Mutex<Turns>,
    /// Who changes the files of balancers: two may be behind the same one.
    balancers: Mutex<()>,
}

/// One of them.
pub(in crate::deployment) struct Seat<'a> {
    reloads: &'a Reloads<'a>,
    is_busy: AtomicBool,
}

#[derive(Default)]
struct Turns {
    /// Those that may still write.
    busy: usize,
    waiting: Vec<oneshot::Sender<Result<(), Fault>>>,
}

impl<'a> Reloads<'a> {
    /// Of so many turns, each of which takes a [seat](Reloads::seat).
    pub(in crate::deployment) fn of(
        manager: &'a dyn Manager,
        jobs: &'a Jobs<'a>,
        turns: usize,
    ) -> Reloads<'a> {
        let turns = Turns { busy: turns, waiting: Vec::new() };
        Reloads { manager, jobs, turns: turns.into(), balancers: Mutex::new(()) }
    }

    /// The place of one turn.
    pub(in crate::deployment) fn seat(&'a self) -> Seat<'a> {
        Seat { reloads: self, is_busy: AtomicBool::new(true) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Turns) -> T) -> T {
        change(&mut self.turns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One turn writes nothing for now. The last one has the files read for all that wait.
    async fn rest(&self) {
        let waiting = self.with(|turns| {
            turns.busy -= 1;
            if turns.busy > 0 { Vec::new() } else { std::mem::take(&mut turns.waiting) }
        });
        if waiting.is_empty() {
            return;
        }
        let result = self.manager.reload().await;
        self.with(|turns| turns.busy += waiting.len());
        for one in waiting {
            let _ = one.send(result.clone());
        }
    }
}

impl Seat<'_> {
    /// Has the files read, with those of others that wait for it.
    pub(super) async fn reload(&self) -> Result<(), Fault> {
        let (told, answer) = oneshot::channel();
        self.reloads.with(|turns| turns.waiting.push(told));
        self.reloads.rest().await;
        // All turns of a pass are given up together.
        let gone = |_| Fault::Unknown(Error::unavailable("the pass was given up"));
        answer.await.unwrap_or_else(|error| Err(gone(error)))
    }

    /// Whoever starts and stops instances.
    pub(super) fn jobs(&self) -> &Jobs<'_> {
        self.reloads.jobs
    }

    /// The turn writes no more: nobody waits for the jobs that it waits for.
    pub(in crate::deployment) async fn rest(&self) {
        if self.is_busy.swap(false, Ordering::Relaxed) {
            self.reloads.rest().await;
        }
    }

    /// For as long as this is held no other turn changes the file of a balancer.
    pub(super) async fn balancers(&self) -> MutexGuard<'_, ()> {
        self.reloads.balancers.lock().await
    }
}
