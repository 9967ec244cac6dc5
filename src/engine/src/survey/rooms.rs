//! How much of one entry is under way at once: as many scopes are read, and as many written, as its provider says
//! (`ProviderInfo::concurrency`), whichever passes and plans ask for it.
//!
//! Guarantees: who waits for a seat has not begun, so that no limit of time runs for it; a seat is free again once its future
//! is dropped, however that comes. Reads and writes have rooms of their own: a batch reads what it wrote before it ends, and
//! would wait for itself; and nobody's plan waits for a database that is being made. Of one survey one waits at a time
//! ([`Line`]), so that a large one keeps a small one waiting for a read or two. Who came first goes first.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

/// What a room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Observing, and what follows from that.
    Reads,
    /// Applying.
    Writes,
}

/// The rooms of all entries; clones share them.
#[derive(Clone, Default)]
pub struct Rooms(Arc<Mutex<All>>);

/// Which room of which entry.
type Key = (Arc<str>, Room);
type All = BTreeMap<Key, Seats>;

/// Those of one survey who want a seat, entry by entry; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Line(Arc<Mutex<BTreeMap<Arc<str>, Arc<Turn>>>>);

type Turn = futures_util::lock::Mutex<()>;

#[derive(Default)]
struct Seats {
    most: usize,
    taken: usize,
    /// Who came first goes first.
    waiting: VecDeque<(u64, Waker)>,
    tickets: u64,
}

impl Seats {
    /// True when a seat is free for whoever has `before` others before it.
    fn is_free(&self, before: usize) -> bool {
        self.taken + before < self.most
    }
    /// Whom to wake.
    fn next(&self) -> Vec<Waker> {
        let free = self.most.saturating_sub(self.taken);
        self.waiting.iter().take(free).map(|(_, waker)| waker.clone()).collect()
    }
}

/// One is under way for as long as this lives.
pub(crate) struct Seat {
    rooms: Rooms,
    key: Key,
}

/// Waits for a seat.
struct Entering<'a> {
    rooms: &'a Rooms,
    key: Key,
    most: usize,
    ticket: Option<u64>,
}

impl Rooms {
    /// Waits for a seat, of which there are `most`.
    pub(crate) async fn enter(&self, entry: &Arc<str>, room: Room, most: usize) -> Seat {
        let key = (entry.clone(), room);
        Entering { rooms: self, key: key.clone(), most: most.max(1), ticket: None }.await;
        Seat { rooms: self.clone(), key }
    }

    /// Waits for a seat to read from, with others of the same survey behind it.
    pub(crate) async fn enter_from(&self, line: &Line, entry: &Arc<str>, most: usize) -> Seat {
        let turn = {
            let mut line = line.0.lock().unwrap_or_else(PoisonError::into_inner);
            line.entry(entry.clone()).or_default().clone()
        };
        let _first = turn.lock().await;
        self.enter(entry, Room::Reads, most).await
    }

    /// Changes the seats of a room, and wakes who can have one.
    fn with<T>(&self, key: &Key, act: impl FnOnce(&mut Seats) -> T) -> T {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seats = rooms.entry(key.clone()).or_default();
        let done = act(seats);
        let next = seats.next();
        drop(rooms);
        next.into_iter().for_each(Waker::wake);
        done
    }
}

impl Future for Entering<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut rooms = this.rooms.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seats = rooms.entry(this.key.clone()).or_default();
        seats.most = this.most;
        let ticket = *this.ticket.get_or_insert_with(|| {
            seats.tickets += 1;
            seats.waiting.push_back((seats.tickets, task.waker().clone()));
            seats.tickets
        });
        let Some(before) = seats.waiting.iter().position(|(waits, _)| *waits == ticket) else {
            return Poll::Ready(());
        };
        if !seats.is_free(before) {
            seats.waiting[before].1.clone_from(task.waker());
            return Poll::Pending;
        }
        seats.waiting.remove(before);
        seats.taken += 1;
        this.ticket = None;
        Poll::Ready(())
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        // It gave up: whoever is behind it comes closer.
        if let Some(ticket) = self.ticket {
            self.rooms.with(&self.key, |seats| seats.waiting.retain(|(waits, _)| *waits != ticket));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.rooms.with(&self.key, |seats| seats.taken -= 1);
    }
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_map().entries(rooms.iter().map(|(key, seats)| (key, seats.taken))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{
        FutureExt, StreamExt,
        stream::{self, FuturesUnordered},
    };
    use std::{cell::Cell, future::poll_fn};

    #[test]
    fn no_more_than_so_many_are_in_a_room_and_all_get_in() {
        let (rooms, entry) = (Rooms::default(), Arc::from("e"));
        let (inside, most, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let visits = (0..50).map(|_| async {
            let _seat = rooms.enter(&entry, Room::Reads, 3).await;
            inside.set(inside.get() + 1);
            most.set(most.get().max(inside.get()));
            // Others have their turn meanwhile.
            stream::iter(0..3).then(|_| turn()).collect::<Vec<()>>().await;
            inside.set(inside.get() - 1);
            done.set(done.get() + 1);
        });
        futures_executor::block_on(visits.collect::<FuturesUnordered<_>>().collect::<Vec<()>>());
        assert_eq!((most.get(), done.get()), (3, 50));
    }

    async fn turn() {
        let mut is_over = false;
        poll_fn(|task| match std::mem::replace(&mut is_over, true) {
            true => Poll::Ready(()),
            false => {
                task.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }

    #[test]
    fn a_large_survey_keeps_a_small_one_waiting_for_one_read() {
        let (rooms, entry) = (Rooms::default(), Arc::from("e"));
        let (large, small) = (Line::default(), Line::default());
        let inside = rooms.enter_from(&large, &entry, 1).now_or_never().expect("it is empty");
        let mut many: Vec<_> = (0..50).map(|_| rooms.enter_from(&large, &entry, 1).boxed()).collect();
        assert!(many.iter_mut().all(|one| one.now_or_never().is_none()));
        let mut one = rooms.enter_from(&small, &entry, 1).boxed();
        assert!((&mut one).now_or_never().is_none());
        drop(inside);
        // The one of the large survey that waited already, and then the small one, whoever asks first.
        let next = many.remove(0).now_or_never().expect("it came first");
        assert!(many.iter_mut().all(|one| one.now_or_never().is_none()));
        drop(next);
        assert!(many.iter_mut().all(|one| one.now_or_never().is_none()));
        assert!(one.now_or_never().is_some());
    }

    #[test]
    fn who_gives_up_waiting_keeps_nobody_out() {
        let (rooms, entry) = (Rooms::default(), Arc::from("e"));
        let enter = |room| rooms.enter(&entry, room, 1).boxed();
        let seat = enter(Room::Reads).now_or_never().expect("it is empty");
        let (mut gives_up, mut waits) = (enter(Room::Reads), enter(Room::Reads));
        assert!((&mut gives_up).now_or_never().is_none() && (&mut waits).now_or_never().is_none());
        assert!(enter(Room::Writes).now_or_never().is_some(), "a room of its own");
        assert!(rooms.enter(&"other".into(), Room::Reads, 1).now_or_never().is_some());
        drop(seat);
        drop(gives_up);
        assert!(waits.now_or_never().is_some());
    }
}
