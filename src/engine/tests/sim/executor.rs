//! A seeded executor: virtual time, fault points, crashes, frozen processes.

use async_trait::async_trait;
use reconciled_provider::Clock;
use reconciled_testkit::{Fault, Faults, Point};
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Small and fast; quality is enough for choosing faults.
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Which faults happen: at named points, or by chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    At(Vec<(usize, Fault)>),
    Random { most: u32 },
}

struct State {
    /// Never goes back; what people set back is what is shown of it.
    now: Duration,
    back: Duration,
    timers: BTreeMap<(Duration, u64), Waker>,
    serial: u64,
    rng: Rng,
    plan: Plan,
    faults_left: u32,
    points: Vec<Point>,
    happened: Vec<(usize, Fault)>,
    pauses: bool,
    trace: Option<Vec<String>>,
}

/// The world's clock and chance, shared by all processes.
pub(crate) struct Sim {
    state: Mutex<State>,
}

impl Sim {
    pub(crate) fn new(seed: Option<u64>, plan: Plan, trace: bool) -> Arc<Sim> {
        let faults_left = match plan {
            Plan::Random { most } => most,
            Plan::At(_) => 0,
        };
        let state = State {
            now: Duration::from_secs(1_000_000),
            back: Duration::ZERO,
            timers: BTreeMap::new(),
            serial: 0,
            rng: Rng::new(seed.unwrap_or(0)),
            plan,
            faults_left,
            points: Vec::new(),
            happened: Vec::new(),
            pauses: seed.is_some(),
            trace: trace.then(Vec::new),
        };
        Arc::new(Sim { state: Mutex::new(state) })
    }
    pub(crate) fn now(&self) -> Duration {
        let state = self.state.lock().unwrap();
        state.now - state.back
    }
    /// The clock jumps, with every sleep on it.
    pub(crate) fn jump(&self, to: Duration) {
        let mut state = self.state.lock().unwrap();
        state.now = state.now.max(to + state.back);
    }
    /// The clock is set back; who sleeps wakes once their time has passed all the same.
    pub(crate) fn put_back(&self, by: Duration) {
        self.state.lock().unwrap().back += by;
    }
    pub(crate) fn points(&self) -> Vec<Point> {
        self.state.lock().unwrap().points.clone()
    }
    /// How many points were passed, and how many faults happened.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.points.len(), state.happened.len())
    }
    pub(crate) fn happened(&self) -> Vec<(usize, Fault)> {
        self.state.lock().unwrap().happened.clone()
    }
    pub(crate) fn log(&self, line: impl FnOnce() -> String) {
        let mut state = self.state.lock().unwrap();
        let now = state.now - state.back;
        if let Some(trace) = &mut state.trace {
            trace.push(format!("{:>9.3} {}", now.as_secs_f64() - 1_000_000.0, line()));
        }
    }
    pub(crate) fn trace(&self) -> Vec<String> {
        self.state.lock().unwrap().trace.clone().unwrap_or_default()
    }
    /// Faults end here: what is observed from now on must be stable.
    pub(crate) fn calm(&self) {
        let mut state = self.state.lock().unwrap();
        state.plan = Plan::At(Vec::new());
        state.faults_left = 0;
    }
    pub(crate) fn choose(&self, bound: usize) -> usize {
        self.state.lock().unwrap().rng.below(bound as u64) as usize
    }
    /// Moves to the next timer; false when there is none.
    fn advance(&self, limit: Duration) -> bool {
        let mut state = self.state.lock().unwrap();
        let Some((&(at, serial), _)) = state.timers.first_key_value() else { return false };
        if at > limit + state.back {
            return false;
        }
        state.now = state.now.max(at);
        let waker = state.timers.remove(&(at, serial));
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }
    fn at(&self, point: Point) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        let index = state.points.len();
        state.points.push(point);
        let fault = match &state.plan {
            Plan::At(list) => list.iter().find(|(at, _)| *at == index).map(|(_, fault)| *fault),
            Plan::Random { .. } if state.faults_left > 0 => {
                // About one point in six, so that four faults spread over a run.
                (state.rng.below(6) == 0).then(|| {
                    state.faults_left -= 1;
                    let alphabet = point.alphabet();
                    alphabet[state.rng.below(alphabet.len() as u64) as usize]
                })
            }
            Plan::Random { .. } => None,
        };
        if let Some(fault) = fault {
            state.happened.push((index, fault));
        }
        drop(state);
        self.log(|| {
            format!("point {index} {point:?} {}", fault.map_or_else(String::new, |f| format!("{f:?}")))
        });
        fault
    }
}

/// The clock of all processes.
pub(crate) struct SimClock(pub(crate) Arc<Sim>);

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.0.now()
    }
    async fn sleep(&self, wait: Duration) {
        let at = self.0.state.lock().unwrap().now + wait;
        Timer { sim: self.0.clone(), at, key: None }.await;
    }
}

struct Timer {
    sim: Arc<Sim>,
    at: Duration,
    key: Option<(Duration, u64)>,
}

impl Future for Timer {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sim = self.sim.clone();
        let mut state = sim.state.lock().unwrap();
        if let Some(key) = self.key.take() {
            state.timers.remove(&key);
        }
        if state.now >= self.at {
            return Poll::Ready(());
        }
        state.serial += 1;
        let key = (self.at, state.serial);
        state.timers.insert(key, cx.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.sim.state.lock().unwrap().timers.remove(&key);
        }
    }
}

/// The faults as one process meets them: its crash is its own.
pub(crate) struct ProcessFaults {
    pub(crate) sim: Arc<Sim>,
    pub(crate) crashed: Arc<AtomicBool>,
}

#[async_trait]
impl Faults for ProcessFaults {
    fn at(&self, point: Point) -> Option<Fault> {
        self.sim.at(point)
    }
    async fn pause(&self) {
        let pauses = self.sim.state.lock().unwrap().pauses;
        if pauses && self.sim.choose(2) == 0 {
            let mut waited = false;
            std::future::poll_fn(|cx| {
                if std::mem::replace(&mut waited, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }
    async fn time_out(&self) {
        SimClock(self.sim.clone()).sleep(Duration::from_secs(30)).await;
    }
    async fn crash(&self) {
        self.crashed.store(true, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }
    fn now(&self) -> Duration {
        self.sim.now()
    }
}

struct Flag(AtomicBool, AtomicU64);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One process: a future that is polled until it crashes or ends.
pub(crate) struct Process {
    pub(crate) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(crate) crashed: Arc<AtomicBool>,
    /// Not scheduled before this time: a frozen virtual machine.
    pub(crate) frozen_until: Duration,
    woken: Arc<Flag>,
}

impl Process {
    pub(crate) fn new(future: Pin<Box<dyn Future<Output = ()>>>, crashed: Arc<AtomicBool>) -> Process {
        Process {
            future,
            crashed,
            frozen_until: Duration::ZERO,
            woken: Arc::new(Flag(AtomicBool::new(true), AtomicU64::new(0))),
        }
    }
}

/// What one turn of the executor came to.
pub(crate) enum Turn {
    /// Something ran.
    Ran,
    /// Process `.0` crashed or ended.
    Ended(usize),
    /// Nothing can run before the limit.
    Quiet,
}

/// Polls one runnable process, chosen by chance, or moves the clock.
pub(crate) fn turn(sim: &Sim, processes: &mut [Process], limit: Duration) -> Turn {
    let now = sim.now();
    let runnable: Vec<usize> = (0..processes.len())
        .filter(|i| processes[*i].woken.0.load(Ordering::SeqCst) && processes[*i].frozen_until <= now)
        .collect();
    if runnable.is_empty() {
        let thaw = processes.iter().map(|p| p.frozen_until).filter(|at| *at > now).min();
        if !sim.advance(thaw.unwrap_or(limit).min(limit)) {
            match thaw.filter(|at| *at <= limit) {
                Some(at) => sim.jump(at),
                None => return Turn::Quiet,
            }
        }
        return Turn::Ran;
    }
    let index = if runnable.len() == 1 { runnable[0] } else { runnable[sim.choose(runnable.len())] };
    let process = &mut processes[index];
    process.woken.0.store(false, Ordering::SeqCst);
    process.woken.1.fetch_add(1, Ordering::SeqCst);
    let waker = Waker::from(process.woken.clone());
    let ended = process.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
    if ended || process.crashed.load(Ordering::SeqCst) { Turn::Ended(index) } else { Turn::Ran }
}
