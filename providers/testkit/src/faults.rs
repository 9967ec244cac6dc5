//! Faults at external calls: the alphabet, and where a test says which one happens.

use async_trait::async_trait;
use reconciled_provider::ErrorKind;
use std::time::Duration;

/// What can go wrong at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The request never arrives; the caller times out.
    DropRequest,
    /// It takes effect; the answer is lost.
    LoseResponse,
    /// It takes effect twice.
    Duplicate,
    /// The remote refuses.
    Refuse(ErrorKind),
    /// Only the first half of a batch takes effect, then the answer is lost.
    Partial,
    /// A read shows an older state, within the remote's consistency window.
    Stale,
    /// A list comes back with a page missing, and says so.
    Torn,
    /// The process dies before the call.
    CrashBefore,
    /// The process dies after the call took effect, before it sees the answer.
    CrashAfter,
}

/// Kind of a point where a fault can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// A call that reads.
    Read,
    /// A call that writes.
    Write,
    /// A transaction of the store.
    Commit,
}

impl Point {
    /// The faults that make sense here.
    pub fn alphabet(self) -> &'static [Fault] {
        use Fault::*;
        match self {
            Point::Read => &[
                DropRequest,
                Refuse(ErrorKind::Unavailable),
                Refuse(ErrorKind::RateLimited),
                Stale,
                Torn,
                CrashBefore,
                CrashAfter,
            ],
            Point::Write => &[
                DropRequest,
                LoseResponse,
                Duplicate,
                Refuse(ErrorKind::Unavailable),
                Refuse(ErrorKind::RateLimited),
                Partial,
                CrashBefore,
                CrashAfter,
            ],
            Point::Commit => &[Refuse(ErrorKind::Unavailable), CrashBefore, CrashAfter],
        }
    }
}

/// Decides which fault happens where.
#[async_trait]
pub trait Faults: Send + Sync {
    /// Called at every point, in the order the points are reached.
    fn at(&self, point: Point) -> Option<Fault>;
    /// Lets other tasks run; a simulation chooses which.
    async fn pause(&self);
    /// Takes as long as a caller waits before it gives up.
    async fn time_out(&self);
    /// The process dies here: never returns.
    async fn crash(&self);
    /// Time since the epoch.
    fn now(&self) -> Duration;
}

/// No faults.
#[derive(Debug, Default)]
pub struct Calm;

#[async_trait]
impl Faults for Calm {
    fn at(&self, _: Point) -> Option<Fault> {
        None
    }
    async fn pause(&self) {}
    async fn time_out(&self) {}
    async fn crash(&self) {}
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}
