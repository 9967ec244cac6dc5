//! A context for tests: a clock that is moved by hand, secrets from a table.

use async_trait::async_trait;
use reconciled_provider::{Clock, Cx, Error, Hash, Pace, Secret, SecretMark, SecretRef, Secrets, Stop};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that moves only when somebody sleeps on it: sleeping is instant.
#[derive(Debug, Default)]
pub struct HandClock {
    now: AtomicU64,
    up: AtomicU64,
}

impl HandClock {
    /// Moves the clock.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }
    /// The host has been up for so long, as it says from now on; before, that is not known.
    pub fn stay_up(&self, for_so_long: Duration) {
        self.up.store(for_so_long.as_millis() as u64, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.now.load(Ordering::SeqCst))
    }
    async fn sleep(&self, wait: Duration) {
        // The first poll lets the work that is raced against this sleep go first.
        std::future::poll_fn(|_| std::task::Poll::Ready(())).await;
        self.advance(wait);
    }
    fn up(&self) -> Duration {
        Duration::from_millis(self.up.load(Ordering::SeqCst))
    }
}

/// Secrets from a table.
#[derive(Debug, Default)]
pub struct TableSecrets(pub BTreeMap<SecretRef, Vec<u8>>);

impl Secrets for TableSecrets {
    fn reveal(&self, reference: &SecretRef) -> Result<Secret, Error> {
        let clear = self
            .0
            .get(reference)
            .ok_or_else(|| Error::permission_denied(format!("no secret {reference:?}")))?;
        Ok(Secret::new(clear.clone()))
    }
    fn mark(&self, clear: &[u8]) -> SecretMark {
        SecretMark(Hash::of(&[b"test key", clear].concat()))
    }
}

/// A context with no secrets and a clock of its own.
pub fn cx() -> Cx {
    cx_with(TableSecrets::default())
}

/// A context with these secrets.
pub fn cx_with(secrets: TableSecrets) -> Cx {
    Cx {
        clock: Arc::new(HandClock::default()),
        secrets: Arc::new(secrets),
        deadline: Duration::from_secs(60),
        stop: Stop::default(),
        pace: Pace::default(),
        answers: Default::default(),
        warnings: Default::default(),
    }
}
