//! What was asked for with `sync`, and whether it is done: for those who did not wait for it.
//!
//! Guarantees: a request is `handled` once every scope that it means ended a pass which began after it was asked, also
//! when others asked for the same; the newest [`KEPT`] are known. Not remembered over a restart or a reload,
//! after which every scope is looked at anyway.

use crate::{failure::Failure, operation::RequestEntry, store::Stamp};
use reconciled_engine::scheduler::{Scheduler, Ticket};
use reconciled_provider::Hash;
use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How many are known.
const KEPT: usize = 100;
/// Longest name of a request, in bytes.
const LONGEST: usize = 64;

/// The newest requests, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Mutex<VecDeque<Request>>,
    made: AtomicU64,
}

#[derive(Debug)]
struct Request {
    name: String,
    actor: String,
    asked_at: Duration,
    /// None where nothing had to be looked at.
    ticket: Option<Ticket>,
}

impl Requests {
    /// The name of a request: the one that was chosen, or one that no other has.
    ///
    /// Errors: a name that is too long, or not made of printable ASCII.
    pub(super) fn name(&self, chosen: Option<&str>, now: Duration) -> Result<String, Failure> {
        let Some(name) = chosen else {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            let digest = Hash::of(format!("{}\n{number}", now.as_nanos()).as_bytes()).to_string();
            return Ok(digest.chars().take(12).collect());
        };
        let is_name = (1..=LONGEST).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        match is_name {
            true => Ok(name.to_owned()),
            false => Err(Failure::hinted(
                "this is no name for a request",
                format!("write 1 to {LONGEST} printable ASCII characters without spaces"),
            )),
        }
    }

    pub(super) fn asked(&self, name: String, actor: &str, asked_at: Duration, ticket: Option<Ticket>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(Request { name, actor: actor.to_owned(), asked_at, ticket });
    }

    /// How they stand, the newest first.
    pub(crate) fn entries(&self, scheduler: &Scheduler) -> Vec<RequestEntry> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = |request: &Request| RequestEntry {
            request: request.name.clone(),
            actor: request.actor.clone(),
            asked_at: Stamp(request.asked_at),
            handled: request.ticket.as_ref().is_none_or(|ticket| scheduler.is_handled(ticket)),
        };
        all.iter().rev().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_was_chosen_or_one_that_no_other_has() {
        let requests = Requests::default();
        let at = Duration::from_secs(1);
        assert_eq!(requests.name(Some("ci-42/a"), at).unwrap(), "ci-42/a");
        let (one, two) = (requests.name(None, at).unwrap(), requests.name(None, at).unwrap());
        assert!(one != two && one.len() == 12, "{one} {two}");
        for wrong in ["", "a b", "a\n", "ü", &"x".repeat(65)] {
            assert!(requests.name(Some(wrong), at).is_err(), "{wrong:?}");
        }
    }
}
