//! What every call gets besides its arguments: time, secrets, a deadline, a wish to stop.

use crate::secret::Secrets;
use async_trait::async_trait;
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// The only source of time in the engine and in providers.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Time since the Unix epoch.
    fn now(&self) -> Duration;
    /// Returns after `wait` has passed on this clock.
    async fn sleep(&self, wait: Duration);
    /// How long the host has been up, since a clock may be wrong until it is set after the start; nothing where that is not known.
    fn up(&self) -> Duration {
        Duration::ZERO
    }
}

/// A wish to stop: set once, seen by everyone. In-flight calls finish, no new ones begin.
///
/// ```
/// use reconciled_provider::Stop;
/// let all = Stop::default();
/// let (one, other) = (all.child(), all.child());
/// one.set();
/// assert!(one.is_set() && !other.is_set() && !all.is_set());
/// all.set();
/// assert!(other.is_set() && !other.is_ending());
/// // Not a pause any more: soon nobody will be there to hear an answer.
/// all.end();
/// assert!(other.is_ending());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    set: AtomicBool,
    ending: AtomicBool,
    told: Mutex<Told>,
    /// Kept alive, so that a wish reaches grandchildren.
    _parent: Option<Arc<StopState>>,
}

/// Who hears of the wish.
#[derive(Debug, Default)]
struct Told {
    waiting: Vec<Waker>,
    children: Vec<Weak<StopState>>,
}

impl StopState {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn set(&self, is_ending: bool) {
        // Before the other: who sees that one knows why.
        self.ending.fetch_or(is_ending, Ordering::Release);
        self.set.store(true, Ordering::Release);
        let (waiting, children) = {
            let mut told = self.told();
            (std::mem::take(&mut told.waiting), told.children.clone())
        };
        waiting.into_iter().for_each(Waker::wake);
        children.iter().filter_map(Weak::upgrade).for_each(|child| child.set(is_ending));
    }
}

impl Stop {
    /// Wishes to stop; every child hears it.
    pub fn set(&self) {
        self.0.set(false);
    }
    /// Wishes to stop because all of it ends: what is still at work a minute later is cut off, and its answer lost.
    pub fn end(&self) {
        self.0.set(true);
    }
    /// True once someone wished to stop.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }
    /// True once [`Stop::end`] was said.
    pub fn is_ending(&self) -> bool {
        self.0.ending.load(Ordering::Acquire)
    }
    /// A wish of its own for a part of the work: set when this one is, or alone.
    pub fn child(&self) -> Stop {
        let child = Stop(Arc::new(StopState { _parent: Some(self.0.clone()), ..StopState::default() }));
        let mut told = self.0.told();
        // Those that ended are let go of here, so that a parent that is never set does not grow.
        told.children.retain(|known| known.strong_count() > 0);
        told.children.push(Arc::downgrade(&child.0));
        drop(told);
        // `set` takes the lock after the flag: either it sees the child, or the child sees the flag.
        if self.is_set() {
            child.0.set(self.is_ending());
        }
        child
    }
    /// Returns once someone wished to stop.
    pub fn wished(&self) -> impl Future<Output = ()> + Send + use<> {
        self.once(Stop::is_set)
    }
    /// Returns once [`Stop::end`] was said.
    pub fn ending(&self) -> impl Future<Output = ()> + Send + use<> {
        self.once(Stop::is_ending)
    }
    fn once(&self, is_so: fn(&Stop) -> bool) -> impl Future<Output = ()> + Send + use<> {
        let stop = self.clone();
        std::future::poll_fn(move |cx| {
            let mut told = stop.0.told();
            // Under the lock: `set` takes it after the flag, so no wake is lost.
            if is_so(&stop) {
                return Poll::Ready(());
            }
            if !told.waiting.iter().any(|w| w.will_wake(cx.waker())) {
                told.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// When the next request may be sent, as the limits of an entry have it.
#[async_trait]
pub trait Turns: Send + Sync {
    /// Returns when it may.
    async fn turn(&self);
}

/// The pace of requests to a remote. A provider waits for its turn before each request it sends; one that never does
/// is held to the pace call by call.
#[derive(Clone, Default)]
pub struct Pace(Option<Arc<dyn Turns>>);

impl Pace {
    /// The pace that `turns` gives.
    pub fn of(turns: impl Turns + 'static) -> Pace {
        Pace(Some(Arc::new(turns)))
    }
    /// Returns when the next request may be sent; at once where nothing is limited.
    pub async fn turn(&self) {
        if let Some(turns) = &self.0 {
            turns.turn().await;
        }
    }
    /// Waits for so many turns at once: for requests between which nobody else should come, such as a look at what is there
    /// and the write that it is for. Whatever comes after these waits for turns as ever.
    pub async fn ahead(&self, count: u32) -> Pace {
        if self.0.is_none() {
            return self.clone();
        }
        for _ in 0..count {
            self.turn().await;
        }
        Pace::of(Ahead { left: AtomicU32::new(count), rest: self.clone() })
    }
}

/// Turns that were waited for already.
struct Ahead {
    left: AtomicU32,
    rest: Pace,
}

#[async_trait]
impl Turns for Ahead {
    async fn turn(&self) {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if taken.is_err() {
            self.rest.turn().await;
        }
    }
}

/// Who counts what a remote answers.
pub trait Listener: Send + Sync {
    /// A request of the protocol was answered with this HTTP status, or not at all.
    fn answered(&self, status: Option<u16>);
}

/// Where a provider with an HTTP API says how each request ended, for numbers alone: nothing follows from it.
#[derive(Clone, Default)]
pub struct Answers(Option<Arc<dyn Listener>>);

impl Answers {
    /// Told to `listener`.
    pub fn of(listener: impl Listener + 'static) -> Answers {
        Answers(Some(Arc::new(listener)))
    }
    /// Says that a request was answered with this HTTP status, or with none where no answer came.
    pub fn answered(&self, status: Option<u16>) {
        if let Some(listener) = &self.0 {
            listener.answered(status);
        }
    }
}

/// What remotes warn of while somebody looks, such as a field that will go: for whoever asked, who is shown each once.
///
/// ```
/// use reconciled_provider::Warnings;
/// assert!(!Warnings::default().tell("nobody listens: it is for the log"));
/// let heard = Warnings::heard();
/// assert!(heard.tell("`acl` will go") && heard.clone().tell("`acl` will go"));
/// assert_eq!(heard.take(), ["`acl` will go"]);
/// ```
#[derive(Clone, Default)]
pub struct Warnings(Option<Arc<Mutex<BTreeSet<String>>>>);

impl Warnings {
    /// As many are kept: nobody reads more.
    const MOST: usize = 100;

    /// Kept until they are taken.
    pub fn heard() -> Warnings {
        Warnings(Some(Arc::default()))
    }
    /// Tells a warning. False where nobody listens.
    pub fn tell(&self, warning: &str) -> bool {
        let Some(kept) = &self.0 else { return false };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < Warnings::MOST {
            kept.insert(warning.to_string());
        }
        true
    }
    /// Those that were told, sorted.
    pub fn take(&self) -> Vec<String> {
        let kept = self.0.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.map(|mut kept| std::mem::take(&mut *kept).into_iter().collect()).unwrap_or_default()
    }
}

/// The context of a call.
#[derive(Clone)]
pub struct Cx {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The secrets.
    pub secrets: Arc<dyn Secrets>,
    /// How long the call may take in all.
    pub deadline: Duration,
    /// Set when the call should come to an end at the next action boundary.
    pub stop: Stop,
    /// When each request may be sent.
    pub pace: Pace,
    /// How each request ended.
    pub answers: Answers,
    /// What remotes warn of.
    pub warnings: Warnings,
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("deadline", &self.deadline)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Context;

    struct Counted(Arc<AtomicU32>);

    #[async_trait]
    impl Turns for Counted {
        async fn turn(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn turns_that_were_waited_for_ahead_are_not_waited_for_again() {
        let taken = Arc::<AtomicU32>::default();
        let pace = Pace::of(Counted(taken.clone()));
        let mut work = std::pin::pin!(async {
            let ahead = pace.ahead(2).await;
            assert_eq!(taken.load(Ordering::Relaxed), 2);
            for after in [2, 2, 3, 4] {
                ahead.turn().await;
                assert_eq!(taken.load(Ordering::Relaxed), after);
            }
            Pace::default().ahead(2).await.turn().await;
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert!(work.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn a_child_of_a_set_parent_is_set_and_so_is_a_grandchild() {
        let parent = Stop::default();
        let grandchild = parent.child().child();
        let child = parent.child();
        parent.set();
        assert!(child.is_set() && parent.child().is_set() && grandchild.is_set());
    }

    #[test]
    fn a_parent_forgets_children_that_ended() {
        let parent = Stop::default();
        (0..1_000).for_each(|_| drop(parent.child()));
        assert_eq!(parent.0.told().children.len(), 1);
    }
}
