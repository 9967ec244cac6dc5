//! The work queue: which keys want a run, which have one, and which must wait.
//!
//! Guarantees:
//! - a key never runs twice at once;
//! - no event is lost: what comes while a key runs makes it run once more, however much comes;
//! - merging keeps the strongest wish: best priority, widest focus, a full read if anybody asked for one;
//! - of two delays for one cause the earlier counts; a new revision ends both;
//! - among equal priorities, sources take turns, and within a source it is first come, first served.
//!
//! Assumptions: every key taken is finished, whatever became of its run.
//! It deliberately knows no clock, no lock and no scope: time comes in, keys are opaque.

use reconciled_provider::Focus;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How urgent a pass is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A person asked.
    Operator = 0,
    /// A revision came into force.
    Revision = 10,
    /// The remote told that something changed, or a dependency moved.
    Hint = 20,
    /// An earlier pass failed, or something was on its way.
    Retry = 30,
    /// Time to look again.
    Resync = 40,
}

/// What a key wants of its next run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wish {
    /// How urgent it is.
    pub(super) priority: Priority,
    /// How much of it is meant.
    pub(super) focus: Focus,
    /// Read all of it, also where the version stands.
    pub(super) full: bool,
    /// Whose turn it is: a source.
    pub(super) lane: Arc<str>,
}

impl Wish {
    /// Both together: the strongest of each.
    fn merge(&mut self, other: &Wish) {
        self.priority = self.priority.min(other.priority);
        self.focus = self.focus.union(&other.focus);
        self.full |= other.full;
    }
}

/// Why a key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// It failed, or was told to wait: only an operator or a new revision goes past this.
    Backoff,
    /// Something is on its way; whoever wants to look earlier may.
    Recheck,
}

/// One key's part of the queue. A key of which nothing is known has none.
#[derive(Debug)]
struct Slot {
    wish: Option<Wish>,
    backoff: Option<Duration>,
    recheck: Option<Duration>,
    running: bool,
    /// Where it stands in `ready`, if it does.
    place: Option<(Priority, u64, u64)>,
    /// What a delay turns into a wish for.
    lane: Arc<str>,
}

/// The queue. Order of `ready`: priority, then the turn of the lane, then order of arrival.
#[derive(Debug)]
pub(super) struct Queue<K> {
    slots: BTreeMap<K, Slot>,
    ready: BTreeMap<(Priority, u64, u64), K>,
    alarms: BTreeSet<(Duration, K)>,
    arrivals: u64,
    /// The turn that each priority has come to, and the last one each lane got: start-time fair queueing, so a
    /// lane with a thousand keys and a lane with one alternate.
    turns: BTreeMap<Priority, u64>,
    lanes: BTreeMap<(Priority, Arc<str>), u64>,
}

impl<K> Default for Queue<K> {
    fn default() -> Queue<K> {
        Queue {
            slots: BTreeMap::new(),
            ready: BTreeMap::new(),
            alarms: BTreeSet::new(),
            arrivals: 0,
            turns: BTreeMap::new(),
            lanes: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Asks for a run of `key`.
    pub(super) fn add(&mut self, key: K, wish: Wish) {
        let slot = self.slots.entry(key.clone()).or_insert_with(|| Slot::new(&wish.lane));
        slot.lane = wish.lane.clone();
        match &mut slot.wish {
            Some(known) => known.merge(&wish),
            None => slot.wish = Some(wish),
        }
        self.index(&key);
    }

    /// Asks for a run of `key` at `at`, unless one was asked for earlier for the same cause.
    pub(super) fn add_at(&mut self, key: K, cause: Cause, at: Duration, lane: &Arc<str>) {
        self.change(&key, lane, |slot| {
            let known = match cause {
                Cause::Backoff => &mut slot.backoff,
                Cause::Recheck => &mut slot.recheck,
            };
            *known = Some(known.map_or(at, |before| before.min(at)));
        });
    }

    /// Ends every delay of `key`: a new revision, or an operator.
    pub(super) fn reset(&mut self, key: &K) {
        if let Some(lane) = self.slots.get(key).map(|slot| slot.lane.clone()) {
            self.change(key, &lane, |slot| (slot.backoff, slot.recheck) = (None, None));
        }
    }

    /// Turns delays that are over into wishes.
    pub(super) fn advance(&mut self, now: Duration) {
        while let Some((at, key)) = self.alarms.first().cloned().filter(|(at, _)| *at <= now) {
            self.alarms.remove(&(at, key.clone()));
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            slot.backoff = slot.backoff.filter(|at| *at > now);
            slot.recheck = slot.recheck.filter(|at| *at > now);
            self.alarms.extend(slot.alarm().map(|at| (at, key.clone())));
            let lane = slot.lane.clone();
            self.add(key, Wish { priority: Priority::Retry, focus: Focus::All, full: false, lane });
        }
    }

    /// Moves every delay earlier: the clock went back by `by`.
    pub(super) fn rewind(&mut self, by: Duration) {
        for slot in self.slots.values_mut() {
            for at in [&mut slot.backoff, &mut slot.recheck].into_iter().flatten() {
                *at = at.saturating_sub(by);
            }
        }
        let slots = self.slots.iter();
        self.alarms = slots.filter_map(|(key, slot)| Some((slot.alarm()?, key.clone()))).collect();
    }

    /// Takes the first key that may run. It runs until [`Queue::finish`].
    pub(super) fn take(&mut self, may: impl FnMut(&K, &Wish) -> bool) -> Option<(K, Wish)> {
        self.take_some(1, may).pop()
    }

    /// Takes up to `most` keys that may run, best first.
    pub(super) fn take_some(
        &mut self,
        most: usize,
        mut may: impl FnMut(&K, &Wish) -> bool,
    ) -> Vec<(K, Wish)> {
        let mut places = Vec::new();
        for (place, key) in &self.ready {
            if places.len() == most {
                break;
            }
            let wish = self.slots[key].wish.as_ref().expect("a key that is ready has a wish");
            if may(key, wish) {
                places.push(*place);
            }
        }
        let mut taken = Vec::with_capacity(places.len());
        for place in places {
            let key = self.ready.remove(&place).expect("it was seen in `ready` above");
            let turn = self.turns.entry(place.0).or_default();
            *turn = place.1.max(*turn);
            let slot = self.slots.get_mut(&key).expect("every key in `ready` has a slot");
            slot.place = None;
            slot.running = true;
            taken.push((key, slot.wish.take().expect("a key that is ready has a wish")));
        }
        taken
    }

    /// A run ended. Delays from before it are over, since it has looked; what came meanwhile makes the key
    /// ready again.
    pub(super) fn finish(&mut self, key: &K) {
        self.reset(key);
        if let Some(slot) = self.slots.get_mut(key) {
            slot.running = false;
        }
        self.index(key);
    }

    /// When the next delay is over.
    pub(super) fn next_alarm(&self) -> Option<Duration> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// When the delays of `key` are over.
    pub(super) fn delayed_until(&self, key: &K) -> Option<Duration> {
        self.slots.get(key).and_then(Slot::alarm)
    }

    /// True while a run of `key` is asked for or under way; a delay is neither.
    pub(super) fn is_pending(&self, key: &K) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.running || slot.wish.is_some())
    }

    /// True when nothing runs and nothing wants to, but for delays.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.values().all(|slot| !slot.running && slot.wish.is_none())
    }

    /// Keys that are ready, best first.
    pub(super) fn ready(&self) -> impl Iterator<Item = &K> {
        self.ready.values()
    }

    fn change(&mut self, key: &K, lane: &Arc<str>, change: impl FnOnce(&mut Slot)) {
        let slot = self.slots.entry(key.clone()).or_insert_with(|| Slot::new(lane));
        let before = slot.alarm();
        change(slot);
        let after = slot.alarm();
        if before != after {
            before.map(|at| self.alarms.remove(&(at, key.clone())));
            self.alarms.extend(after.map(|at| (at, key.clone())));
        }
        self.index(key);
    }

    /// Puts `key` where it belongs: in `ready` if it wants to run, does not, and nothing holds it back.
    fn index(&mut self, key: &K) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.is_empty() {
            self.slots.remove(key);
            return;
        }
        let wanted = slot
            .wish
            .as_ref()
            .filter(|wish| !slot.running && (slot.backoff.is_none() || wish.priority <= Priority::Revision));
        let (priority, lane) = match wanted {
            Some(wish) if slot.place.is_none_or(|place| wish.priority < place.0) => {
                (wish.priority, wish.lane.clone())
            }
            Some(_) => return,
            None => {
                slot.place.take().map(|place| self.ready.remove(&place));
                return;
            }
        };
        slot.place.take().map(|place| self.ready.remove(&place));
        let now = self.turns.get(&priority).copied().unwrap_or(0);
        let last = self.lanes.entry((priority, lane)).or_default();
        *last = now.max(*last) + 1;
        self.arrivals += 1;
        let place = (priority, *last, self.arrivals);
        slot.place = Some(place);
        self.ready.insert(place, key.clone());
    }
}

impl Slot {
    fn new(lane: &Arc<str>) -> Slot {
        Slot { wish: None, backoff: None, recheck: None, running: false, place: None, lane: lane.clone() }
    }
    fn alarm(&self) -> Option<Duration> {
        [self.backoff, self.recheck].into_iter().flatten().min()
    }
    fn is_empty(&self) -> bool {
        self.wish.is_none() && !self.running && self.alarm().is_none()
    }
}
