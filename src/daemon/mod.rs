//! The daemon at work: an instance of one configuration, what it is asked and what it tells.
//!
//! Guarantees: there is one instance at a time on the open state; a reload makes the next one when the one before has ended, and
//! what was asked of that one is asked of the next. It deliberately hears no signal and no connection: `run` and `api` do.

mod arrival;
#[cfg(test)]
mod claims;
mod control;
mod current;
mod fate;
mod follow;
mod follower;
mod gathered;
mod given;
mod hints;
#[cfg(test)]
mod hour;
mod ill;
mod instance;
mod meant;
#[cfg(test)]
mod reloaded;
mod requests;
mod start;
mod sync;
mod unseen;
mod unwritten;
mod upkeep;
mod wishes;

pub(crate) use control::{halt, resumed};
pub use current::Daemon;
pub use fate::{Fared, Fate, Fates, Verdict};
pub use follower::{Follower, Following, News, NotInForce};
pub(crate) use ill::{add_sources, since_when, source_states, without_revision};
pub use instance::Instance;
pub use start::Options;
pub(crate) use start::tracked;
pub(crate) use sync::{adopt, approved, asked_for, forget, pushed, sync};
pub(crate) use unseen::add_unseen;
pub(crate) use unwritten::unwritten;
pub(crate) use upkeep::{
    UPKEEP, add_upkeep, failing as failing_upkeep, look_at_export, tried as tried_upkeep,
};
