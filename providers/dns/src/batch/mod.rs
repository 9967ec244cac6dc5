//! A batch taken apart into units that are sent together; `delivery` sends them until each action has ended.
//!
//! Guarantees: what changes places at a name (CNAME ↔ A) is one unit, and a unit is never split over two requests; where
//! a part of it cannot be written, neither is the rest: half a swap would leave a hole.

mod action;
mod delivery;
mod unit;
mod work;

pub(crate) use action::{observed, stands, wanted};
pub(crate) use delivery::{Answer, Delivery, Sender, give_up};
pub(crate) use unit::{
    Chunk, Item, MANY, Unit, about, are_many, changed, done, ids, items, named, remove, take,
};
pub(crate) use work::{OfZone, Together, Work, settle, zone_done};

#[cfg(test)]
mod tests;
