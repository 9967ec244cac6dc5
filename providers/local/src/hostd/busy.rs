//! Paths at which something is being written, and who waits for that.
//!
//! Guarantees: whoever looks at a path sees it before a request or after it, also after the caller of that request died; what
//! is written elsewhere is waited for by nobody, however long a command takes to say whether it does.

use crate::path::FilePath;
use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Mutex, PoisonError},
};
use tokio::sync::Notify;

/// The paths.
#[derive(Debug, Default)]
pub(super) struct Busy {
    paths: Mutex<BTreeSet<FilePath>>,
    freed: Notify,
}

/// A path of somebody who writes there.
pub(super) struct Claim<'a>(&'a Busy, FilePath);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.paths.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
        self.0.freed.notify_waiters();
    }
}

impl Busy {
    /// Waits until nobody else writes at `path`, and does so from then on.
    pub(super) async fn claim(&self, path: &FilePath) -> Claim<'_> {
        self.until(|paths| paths.insert(path.clone())).await;
        Claim(self, path.clone())
    }

    /// Waits until nobody writes where `is_meant` says.
    pub(super) async fn quiet(&self, is_meant: impl Fn(&FilePath) -> bool) {
        self.until(|paths| !paths.iter().any(&is_meant)).await;
    }

    async fn until(&self, mut is_so: impl FnMut(&mut BTreeSet<FilePath>) -> bool) {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Race: what is freed between the question and the wait would not be heard of.
            freed.as_mut().enable();
            if is_so(&mut self.paths.lock().unwrap_or_else(PoisonError::into_inner)) {
                return;
            }
            freed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_path_is_waited_for_and_no_other_is() {
        let path = |text: &str| FilePath::parse(text).unwrap();
        let (busy, one) = (Busy::default(), path("/etc/a"));
        let claim = busy.claim(&one).await;
        let mut same = pin!(busy.quiet(|busy| *busy == one));
        let mut next = pin!(busy.claim(&one));
        assert!(same.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
        busy.quiet(|busy| *busy == path("/etc/b")).await;
        drop(busy.claim(&path("/etc/b")).await);
        drop(claim);
        same.await;
        let claim = next.await;
        assert!(pin!(busy.quiet(|_| true)).now_or_never().is_none());
        drop(claim);
        busy.quiet(|_| true).await;
    }
}
