//! A look at a scope as soon as all of a batch was written: the next survey begins with what it saw.
//!
//! Guarantees: it holds nothing up for long, and what was seen too long ago is not taken for what is there.

use super::Surveyor;
use futures_util::future::{Either, select};
use reconciled_provider::{Observation, Scope};
use std::{
    pin::pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Longest time that a look may hold up the end of a batch; the next survey looks as long as it takes.
const LOOK: Duration = Duration::from_secs(5);
/// What was seen longer ago is not what is there, unless its remote says so.
const FRESH: Duration = Duration::from_secs(5);

/// A look at the scope after all of a batch was written.
pub(crate) struct Reread<'a> {
    surveyor: &'a Surveyor,
    seen: Mutex<Option<Seen>>,
}

/// What a scope looked like, and when.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    observation: Box<Observation>,
    at: Duration,
}

impl Seen {
    /// What is there at `now`, as far as that can be known from it; as an error what was there too long ago.
    pub(crate) fn fresh(self, now: Duration) -> Result<Observation, Observation> {
        if now.saturating_sub(self.at) <= FRESH { Ok(*self.observation) } else { Err(*self.observation) }
    }
}

impl<'a> Reread<'a> {
    pub(crate) fn new(surveyor: &'a Surveyor) -> Reread<'a> {
        Reread { surveyor, seen: Mutex::default() }
    }
    /// Looks, unless that takes long or somebody wishes to stop. What goes wrong goes wrong again, or not, at the next look.
    pub(crate) async fn look(&self, scope: &Scope) {
        let cx = &self.surveyor.cx;
        let at = cx.clock.now();
        let (late, stop) = (cx.clock.sleep(LOOK), pin!(cx.stop.wished()));
        let look = pin!(self.surveyor.list(scope));
        if let Either::Left((Ok(observation), _)) = select(look, select(late, stop)).await {
            let seen = Seen { observation: observation.into(), at };
            *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        }
    }
    pub(crate) fn into_seen(self) -> Option<Seen> {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
