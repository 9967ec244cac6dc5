//! The queue against what it promises, for any order of events; the lock against any order of threads.

use super::{
    Priority,
    queue::{Cause, Queue, Wish},
    shared::Shared,
};
use proptest::prelude::*;
use reconciled_provider::{Focus, ResourceId};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

const PRIORITIES: [Priority; 5] =
    [Priority::Operator, Priority::Revision, Priority::Hint, Priority::Retry, Priority::Resync];

fn wish(priority: Priority, lane: &str) -> Wish {
    Wish { priority, focus: Focus::All, full: false, lane: lane.into() }
}

fn take(queue: &mut Queue<u8>) -> Option<(u8, Wish)> {
    queue.take(|_, _| true)
}

#[derive(Clone, Debug)]
enum Event {
    Add { key: u8, priority: usize, only: u8, full: bool },
    AddAt { key: u8, backoff: bool, after: u64 },
    Reset { key: u8 },
    Pass { seconds: u64 },
    Take,
    Finish,
}

fn event() -> impl Strategy<Value = Event> {
    let key = 0..4u8;
    prop_oneof![
        4 => (key.clone(), 0..5usize, 0..3u8, any::<bool>())
            .prop_map(|(key, priority, only, full)| Event::Add { key, priority, only, full }),
        2 => (key.clone(), any::<bool>(), 1..20u64)
            .prop_map(|(key, backoff, after)| Event::AddAt { key, backoff, after }),
        1 => key.prop_map(|key| Event::Reset { key }),
        2 => (0..10u64).prop_map(|seconds| Event::Pass { seconds }),
        3 => Just(Event::Take),
        3 => Just(Event::Finish),
    ]
}

fn only(number: u8) -> Focus {
    match number {
        0 => Focus::All,
        id => Focus::Only([ResourceId::from(format!("r{id}").as_str())].into()),
    }
}

/// What a key wants, kept as plainly as possible.
#[derive(Default)]
struct Model {
    wants: BTreeMap<u8, Wish>,
    backoff: BTreeMap<u8, Duration>,
    recheck: BTreeMap<u8, Duration>,
    running: BTreeSet<u8>,
}

impl Model {
    fn want(&mut self, key: u8, wish: Wish) {
        let known = self.wants.entry(key).or_insert_with(|| wish.clone());
        known.priority = known.priority.min(wish.priority);
        known.focus = known.focus.union(&wish.focus);
        known.full |= wish.full;
    }
    fn may_run(&self, key: u8) -> bool {
        let held = self.backoff.contains_key(&key) && self.wants[&key].priority > Priority::Revision;
        !self.running.contains(&key) && !held
    }
    fn best(&self) -> Option<Priority> {
        self.wants.iter().filter(|(key, _)| self.may_run(**key)).map(|(_, wish)| wish.priority).min()
    }
    fn pass(&mut self, now: Duration) {
        for delays in [&mut self.backoff, &mut self.recheck] {
            let over: Vec<u8> = delays.iter().filter(|(_, at)| **at <= now).map(|(key, _)| *key).collect();
            delays.retain(|_, at| *at > now);
            for key in over {
                let known = self.wants.entry(key).or_insert_with(|| wish(Priority::Retry, ""));
                known.priority = known.priority.min(Priority::Retry);
                known.focus = Focus::All;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_queue_does_what_a_plain_model_does(events in proptest::collection::vec(event(), 1..60)) {
        let (mut queue, mut model, mut now) = (Queue::default(), Model::default(), Duration::ZERO);
        let lane: Arc<str> = "".into();
        for event in events {
            match event {
                Event::Add { key, priority, only: focus, full } => {
                    let wish = Wish { focus: only(focus), full, ..wish(PRIORITIES[priority], "") };
                    queue.add(key, wish.clone());
                    model.want(key, wish);
                }
                Event::AddAt { key, backoff, after } => {
                    let at = now + Duration::from_secs(after);
                    let (cause, delays) = match backoff {
                        true => (Cause::Backoff, &mut model.backoff),
                        false => (Cause::Recheck, &mut model.recheck),
                    };
                    queue.add_at(key, cause, at, &lane);
                    let known = delays.entry(key).or_insert(at);
                    *known = at.min(*known);
                }
                Event::Reset { key } => {
                    queue.reset(&key);
                    model.backoff.remove(&key);
                    model.recheck.remove(&key);
                }
                Event::Pass { seconds } => {
                    now += Duration::from_secs(seconds);
                    queue.advance(now);
                    model.pass(now);
                }
                Event::Take => match take(&mut queue) {
                    None => prop_assert_eq!(model.best(), None, "something could run"),
                    Some((key, wish)) => {
                        prop_assert!(model.may_run(key), "{} runs or waits", key);
                        prop_assert_eq!(Some(wish.priority), model.best(), "something else is more urgent");
                        let wanted = model.wants.remove(&key);
                        prop_assert_eq!(Some(wish), wanted);
                        model.running.insert(key);
                    }
                },
                Event::Finish => {
                    if let Some(key) = model.running.pop_first() {
                        queue.finish(&key);
                        model.backoff.remove(&key);
                        model.recheck.remove(&key);
                    }
                }
            }
            let next = model.backoff.values().chain(model.recheck.values()).min().copied();
            prop_assert_eq!(queue.next_alarm(), next);
            prop_assert_eq!(queue.is_idle(), model.running.is_empty() && model.wants.is_empty());
        }
    }

    #[test]
    fn a_clock_that_went_back_delays_nothing_longer(waits in proptest::collection::vec(1..1_000u64, 1..20)) {
        let (noon, morning) = (Duration::from_secs(50_000), Duration::from_secs(10_000));
        let mut queue = Queue::default();
        for (key, wait) in waits.iter().enumerate() {
            queue.add_at(key as u8, Cause::Recheck, noon + Duration::from_secs(*wait), &"".into());
        }
        queue.rewind(noon - morning);
        let first = waits.iter().min().unwrap();
        prop_assert_eq!(queue.next_alarm(), Some(morning + Duration::from_secs(*first)));
    }
}

#[test]
fn a_thousand_keys_of_one_source_do_not_delay_another_source() {
    let mut queue = Queue::default();
    (0..200).for_each(|key| queue.add(key, wish(Priority::Revision, "big")));
    for _ in 0..50 {
        take(&mut queue).unwrap();
    }
    (200..210).for_each(|key| queue.add(key, wish(Priority::Revision, "small")));
    let order: Vec<bool> = (0..20).map(|_| take(&mut queue).unwrap().0 >= 200).collect();
    let turns = order.chunks(2).all(|pair| pair.iter().filter(|small| **small).count() == 1);
    assert!(turns, "they take turns: {order:?}");
}

#[test]
fn many_events_during_one_run_make_one_more() {
    let mut queue = Queue::default();
    queue.add(1, wish(Priority::Hint, ""));
    take(&mut queue).unwrap();
    (0..100).for_each(|_| queue.add(1, wish(Priority::Hint, "")));
    assert_eq!(take(&mut queue), None, "it never runs twice at once");
    queue.finish(&1);
    take(&mut queue).unwrap();
    queue.finish(&1);
    assert_eq!(take(&mut queue), None);
}

#[test]
fn a_hint_waits_out_a_backoff_and_a_revision_does_not() {
    let mut queue = Queue::default();
    queue.add_at(1, Cause::Backoff, Duration::from_secs(60), &"".into());
    queue.add(1, wish(Priority::Hint, ""));
    assert_eq!(take(&mut queue), None);
    queue.add(1, wish(Priority::Revision, ""));
    assert_eq!(take(&mut queue).unwrap().1.priority, Priority::Revision);
}

/// Two threads that add to two keys, and two workers, in every order: each event is seen by a run that began after it, no
/// key runs twice at once, and nobody sleeps for ever.
#[test]
fn no_event_is_lost_in_any_order_of_threads() {
    struct Desk {
        queue: Queue<u8>,
        /// Events so far and events that a run has seen, by key.
        told: [u32; 2],
        seen: [u32; 2],
        running: [bool; 2],
        stop: bool,
    }
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    model.check(|| {
        let (told, seen, running) = ([0; 2], [0; 2], [false; 2]);
        let desk = Desk { queue: Queue::default(), told, seen, running, stop: false };
        let desk = loom::sync::Arc::new(Shared::new(desk));
        let worker = |desk: loom::sync::Arc<Shared<Desk>>| {
            loom::thread::spawn(move || {
                loom::future::block_on(async {
                    while let Some((key, told)) = desk
                        .until(|desk| {
                            let Some((key, _)) = take(&mut desk.queue) else {
                                return desk.stop.then_some(None);
                            };
                            let index = usize::from(key);
                            assert!(!std::mem::replace(&mut desk.running[index], true), "it runs twice");
                            Some(Some((key, desk.told[index])))
                        })
                        .await
                    {
                        desk.change(|desk| {
                            desk.running[usize::from(key)] = false;
                            desk.seen[usize::from(key)] = told;
                            desk.queue.finish(&key);
                        });
                    }
                })
            })
        };
        let workers = [worker(desk.clone()), worker(desk.clone())];
        let add = |desk: &Shared<Desk>, keys: [u8; 2]| {
            for key in keys {
                desk.change(|desk| {
                    desk.told[usize::from(key)] += 1;
                    desk.queue.add(key, wish(Priority::Hint, ""));
                });
            }
        };
        let other = desk.clone();
        let adder = loom::thread::spawn(move || add(&other, [1, 0]));
        add(&desk, [0, 1]);
        adder.join().unwrap();
        loom::future::block_on(desk.until(|desk| desk.queue.is_idle().then_some(())));
        desk.change(|desk| {
            assert_eq!(desk.told, desk.seen, "an event was lost");
            desk.stop = true;
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}
