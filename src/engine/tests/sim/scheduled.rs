//! The daemon as it will be: the scheduler over the engine, its passes beside each other in one process.

use crate::{
    executor::Sim,
    memory::Memory,
    run::{Branch, bring_into_force, fenced},
};
use futures_util::{FutureExt, StreamExt, future::select, stream::FuturesUnordered};
use reconciled_engine::{
    pass::Engine,
    scheduler::{Scheduler, Settings, Spawner, Stance},
};
use std::{
    pin::{Pin, pin},
    sync::{Arc, Mutex, atomic::Ordering},
    task::{Poll, Waker},
    time::Duration,
};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs what is spawned within the process that spawned it, so that a crash ends all of it.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<(Vec<Task>, Option<Waker>)>);

impl Spawner for Tasks {
    fn spawn(&self, future: Task) {
        let mut state = self.0.lock().unwrap();
        state.0.push(future);
        state.1.take().into_iter().for_each(Waker::wake);
    }
}

impl Tasks {
    /// Runs whatever is spawned, for ever.
    pub(crate) async fn run(&self) {
        let mut all = FuturesUnordered::new();
        std::future::poll_fn(|cx| {
            loop {
                let mut state = self.0.lock().unwrap();
                all.extend(state.0.drain(..));
                state.1 = Some(cx.waker().clone());
                drop(state);
                if !matches!(all.poll_next_unpin(cx), Poll::Ready(Some(()))) {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

/// One process: brings the tip into force, says what is desired, and waits until nothing is left to do.
pub(crate) async fn daemon(engine: Engine, store: Arc<Memory>, branch: Arc<Branch>, sim: Arc<Sim>) {
    let tasks = Arc::new(Tasks::default());
    let clock = engine.surveyor.cx.clock.clone();
    let settings = Settings { pass_limit: Duration::from_secs(3600), ..Settings::default() };
    let scheduler = Scheduler::new(Arc::new(engine), tasks.clone(), settings);
    let follow = async {
        loop {
            let (number, desired) = branch.tip();
            if number == 0 {
                branch.moved(0).await;
                continue;
            }
            if bring_into_force(&*store, &desired, clock.now()).await.is_err() {
                if fenced(&store) {
                    return;
                }
                clock.sleep(Duration::from_secs(1)).await;
                continue;
            }
            let mut scopes: std::collections::BTreeSet<_> = desired.scopes.keys().cloned().collect();
            scopes.extend(store.disk.lock().unwrap().scopes.keys().cloned());
            scheduler.desire(desired, scopes.clone());
            let ticket = scheduler.sync(&scopes);
            let mut moved = pin!(branch.moved(number).fuse());
            let handled = scheduler.handled(&ticket);
            select(pin!(handled), &mut moved).await;
            while branch.tip().0 == number && !fenced(&store) {
                let standing = scheduler.standing();
                let held = standing.values().any(|s| s.stance == Stance::Held);
                let at_rest = standing.values().all(|s| {
                    let still = !s.is_queued && s.running_since.is_none() && s.next_try.is_none();
                    let well = matches!(s.stance, Stance::InSync | Stance::Held);
                    still && (well || held && s.stance == Stance::Waiting)
                });
                if at_rest {
                    sim.log(|| "at rest".into());
                    branch.rested.store(number, Ordering::SeqCst);
                    (&mut moved).await;
                } else {
                    select(&mut moved, clock.sleep(Duration::from_secs(5))).await;
                }
            }
            if fenced(&store) {
                return;
            }
        }
    };
    let both = async {
        let (run, work) = (pin!(scheduler.run()), pin!(tasks.run()));
        select(run, work).await;
    };
    select(pin!(both), pin!(follow)).await;
}
