//! Named places at which a debug build kills itself: the crash test drives the real binary through all of them.
//!
//! `RECONCILED_FAILPOINT=NAME` kills the process the first time it reaches NAME, `NAME:3` the third time. The
//! process dies by SIGKILL: no destructor, no flush, no signal handler. At one of [`HANGS`] something stands still instead. In
//! release builds nothing of this exists.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

/// The environment variable that arms a failpoint.
pub const VARIABLE: &str = "RECONCILED_FAILPOINT";

/// Every failpoint, in the order a pass meets them.
pub const NAMES: &[&str] = &[
    "store.migrate.after-backup",
    "observe.before",
    "observe.after",
    "apply.before",
    "store.start.before",
    "store.start.after",
    "call.before",
    "call.after",
    "store.group.middle",
    "store.end.before",
    "store.end.after",
    "store.rows.before",
    "store.rows.after",
    "apply.after",
];

/// Failpoints between a push that somebody consents to and the first pass over it, in the order it meets them.
pub const CONSENT: &[&str] = &[
    "store.approve.before",
    "store.approve.after",
    "push.approved",
    "store.force.before",
    "store.force.after",
    "store.event.before",
    "store.event.after",
];

/// Failpoints around what is written down in the middle of an action, as each step of a rolling update is.
pub const STEPS: &[&str] = &["progress.before", "progress.after"];

/// The failpoint at which rows of a call under way are in a transaction that is not committed.
pub const FORESEEN: &[&str] = &["store.foreseen"];

/// Failpoints around the renaming of an entry or a source.
pub const RENAME: &[&str] = &["store.rename.before", "store.rename.after"];

/// Failpoints on the way of a certificate, in the order it meets them.
pub const CERTIFICATES: &[&str] = &[
    "authority.before",
    "authority.after",
    "certificate.kept",
    "certificate.draft",
    "certificate.link",
    "certificate.put",
    "certificate.told",
];

/// Failpoints at which something stands still for ever while all else of the process goes on: what a watchdog has to find.
pub const HANGS: &[&str] = &["loop.hangs"];

/// All of them.
const ALL: [&[&str]; 7] = [NAMES, CONSENT, STEPS, FORESEEN, RENAME, CERTIFICATES, HANGS];

struct Armed {
    name: String,
    /// Hits still to pass before the one that kills.
    left: AtomicU64,
}

static ARMED: LazyLock<Option<Armed>> = LazyLock::new(read);

#[expect(
    clippy::disallowed_methods,
    reason = "a switch of the crash test, no configuration; debug builds only"
)]
fn read() -> Option<Armed> {
    parse(&std::env::var(VARIABLE).ok()?)
}

fn parse(text: &str) -> Option<Armed> {
    let (name, hit) = match text.split_once(':') {
        Some((name, hit)) => (name, hit.parse().ok()?),
        None => (text, 1_u64),
    };
    Some(Armed { name: name.to_string(), left: AtomicU64::new(hit.checked_sub(1)?) })
}

/// The armed failpoint, if there is one.
pub fn armed() -> Option<&'static str> {
    if !cfg!(debug_assertions) {
        return None;
    }
    ARMED.as_ref().map(|armed| armed.name.as_str())
}

/// Kills the process when the failpoint `name` is armed and this is the hit that was asked for.
pub fn hit(name: &str) {
    if is_due(name) {
        // The signal is fatal: if it could not be sent there is nothing better to do than to go on.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Does `work`, and goes on with it no longer once the failpoint `name` is armed and it was taken up as often as was asked for.
pub async fn hanging<T>(name: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| if is_due(name) { Poll::Pending } else { work.as_mut().poll(cx) }).await
}

/// True where the failpoint `name` is armed, and this is the hit that was asked for or one after it.
fn is_due(name: &str) -> bool {
    if !cfg!(debug_assertions) {
        return false;
    }
    let is_known = ALL.iter().any(|names| names.contains(&name));
    debug_assert!(is_known, "failpoint {name} is missing");
    let Some(armed) = ARMED.as_ref().filter(|armed| armed.name == name) else { return false };
    armed.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_a_name_and_perhaps_the_hit_that_kills() {
        let left = |text: &str| parse(text).map(|armed| (armed.name, armed.left.into_inner()));
        assert_eq!(left("store.end.after"), Some(("store.end.after".to_string(), 0)));
        assert_eq!(left("store.end.after:3"), Some(("store.end.after".to_string(), 2)));
        assert_eq!(left("store.end.after:0"), None);
        assert_eq!(left("store.end.after:x"), None);
    }

    #[test]
    fn every_name_occurs_once() {
        let mut names = ALL.concat();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
