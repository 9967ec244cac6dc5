//! State behind one lock, and a way to wait until it is as one wants it.
//!
//! Guarantees: nobody sleeps through a change: whoever waits looks and leaves its waker under one lock, and
//! whoever changes anything wakes all who wait. The model checker tries every order of steps.
//! It deliberately hands out no guard, so that no lock can be held across an await.

#[cfg(test)]
use loom::sync::Mutex;
#[cfg(not(test))]
use std::sync::Mutex;
use std::{
    sync::PoisonError,
    task::{Context, Poll, Waker},
};

/// A value that many change and some wait for.
#[derive(Debug)]
pub(super) struct Shared<T>(Mutex<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    value: T,
    waiting: Vec<Waker>,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Shared<T> {
        Shared(Mutex::new(Inner { value, waiting: Vec::new() }))
    }

    /// Looks at the value.
    pub(super) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner).value)
    }

    /// Changes the value, and wakes all who wait.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut inner.value);
        let waiting = std::mem::take(&mut inner.waiting);
        // A waker may do anything, also look at this value.
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
        result
    }

    /// Returns what `find` finds; until then the task is woken by every change. `find` may take things, but what
    /// it changes wakes nobody.
    pub(super) fn poll<R>(&self, cx: &mut Context<'_>, mut find: impl FnMut(&mut T) -> Option<R>) -> Poll<R> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&mut inner.value) {
            return Poll::Ready(found);
        }
        if !inner.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            inner.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// As [`Shared::poll`], as a future.
    pub(super) async fn until<R>(&self, mut find: impl FnMut(&mut T) -> Option<R>) -> R {
        std::future::poll_fn(|cx| self.poll(cx, &mut find)).await
    }
}
