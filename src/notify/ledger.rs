//! Who knows what: pure, so that what is told follows from what was seen and from the time alone.
//!
//! A trouble is told once it lasted for the receiver's `for`; then everything alike of the same entry goes with it.
//! That it is over is told once it was over for as long, and once all alike is over or enough time has passed.

use super::{
    gather::Found,
    message::{Body, Group, Message},
};
use crate::{
    config::Topic,
    store::{Notice, Stamp, TroubleKey, TroubleRow},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Least time between two messages to one receiver about what is alike.
const APART: Duration = Duration::from_secs(300);
/// By so much no clock moves from one turn to the next unless it is set, or stood still.
const SET: Duration = Duration::from_hours(24);

/// What a receiver wants.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) name: Arc<str>,
    pub(super) on: BTreeSet<Topic>,
    pub(super) settle: Duration,
}

/// A trouble, and who knows of it.
#[derive(Clone, Debug)]
struct Known {
    body: Body,
    seen_at: Duration,
    gone_at: Option<Duration>,
    told: BTreeMap<Arc<str>, Duration>,
}

/// Every trouble that is there, or that somebody was told of.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    known: BTreeMap<TroubleKey, Known>,
    /// When a receiver was last told about what is alike; after a restart, from what it was told.
    last: BTreeMap<(Arc<str>, Alike), Duration>,
    /// When the last turn was; none before the first.
    turned: Option<Duration>,
}

/// What goes into one message: topic, reason, and the entry or the one subject.
type Alike = (Arc<str>, Arc<str>, Arc<str>);

impl Ledger {
    pub(super) fn of(rows: Vec<TroubleRow>) -> Ledger {
        let mut ledger = Ledger::default();
        for row in rows {
            // What cannot be read is seen again, if it is still there.
            let Ok(body) = serde_json::from_str::<Body>(&row.body) else { continue };
            let known = Known {
                body,
                seen_at: row.seen_at,
                gone_at: row.gone_at,
                told: row.told.into_iter().collect(),
            };
            for (receiver, at) in &known.told {
                let last = ledger.last.entry((receiver.clone(), alike(&row.key, &known.body))).or_default();
                *last = (*last).max(*at);
            }
            ledger.known.insert(row.key, known);
        }
        ledger
    }

    /// Takes in what was found, and says what is to be remembered and told.
    ///
    /// `is_unknown` names what nothing is known of yet: it is neither there nor over.
    pub(super) fn turn(
        &mut self,
        instance: &str,
        found: Found,
        is_unknown: impl Fn(&TroubleKey) -> bool,
        wishes: &[Wish],
        now: Duration,
    ) -> Vec<Notice> {
        let mut notices = self.take_in(found, is_unknown, now);
        for wish in wishes {
            self.tell(instance, wish, now, &mut notices);
        }
        let is_spent = |known: &Known| known.gone_at.is_some() && known.told.is_empty();
        let spent: Vec<TroubleKey> =
            self.known.iter().filter(|(_, known)| is_spent(known)).map(|(key, _)| key.clone()).collect();
        for key in spent {
            self.known.remove(&key);
            notices.push(Notice::Over(key));
        }
        self.last.retain(|_, at| now < *at + APART);
        notices
    }

    fn take_in(
        &mut self,
        found: Found,
        is_unknown: impl Fn(&TroubleKey) -> bool,
        now: Duration,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        let by = self.turned.replace(now).map_or(Duration::ZERO, |last| now.saturating_sub(last));
        let by = if by < SET { Duration::ZERO } else { by };
        // What was noted by a clock that was behind until now has not lasted longer for that. By one that was ahead: it would be told
        // once that time has come, which may be years.
        let of_now = |at: Duration| (at + by).min(now);
        for (key, known) in &mut self.known {
            let noted = (known.seen_at, known.gone_at);
            (known.seen_at, known.gone_at) = (of_now(known.seen_at), known.gone_at.map(of_now));
            let is_moved = (known.seen_at, known.gone_at) != noted;
            let is_gone = known.gone_at.is_none() && !found.contains_key(key) && !is_unknown(key);
            if is_gone {
                known.gone_at = Some(now);
            }
            if is_gone || is_moved {
                notices.push(row(key, known));
            }
        }
        for (key, body) in found {
            match self.known.get_mut(&key) {
                Some(known) => {
                    let was_gone = known.gone_at.take().is_some();
                    // Also where that is later than now: a clock that is behind for a moment does not know better.
                    let since = known.body.since.min(body.since);
                    known.body = Body { since, ..body };
                    if was_gone {
                        notices.push(row(&key, known));
                    }
                }
                None => {
                    let known = Known { body, seen_at: now, gone_at: None, told: BTreeMap::new() };
                    notices.push(row(&key, &known));
                    self.known.insert(key, known);
                }
            }
        }
        notices
    }

    fn tell(&mut self, instance: &str, wish: &Wish, now: Duration, notices: &mut Vec<Notice>) {
        let mut groups: BTreeMap<Alike, Vec<TroubleKey>> = BTreeMap::new();
        for (key, known) in &self.known {
            if Topic::of(&key.topic).is_some_and(|topic| wish.on.contains(&topic))
                || known.told.contains_key(&wish.name)
            {
                groups.entry(alike(key, &known.body)).or_default().push(key.clone());
            }
        }
        for (alike, keys) in groups {
            let last = self.last.get(&(wish.name.clone(), alike.clone()));
            // A clock that went back is no reason to be silent.
            let is_quiet = last.is_none_or(|at| now < *at || *at + APART <= now);
            let lasted = |at: Duration| at + wish.settle <= now;
            let of = |key: &TroubleKey| &self.known[key];
            let is_told = |key: &&TroubleKey| of(key).told.contains_key(&wish.name);
            let new: Vec<&TroubleKey> =
                keys.iter().filter(|key| !is_told(key) && of(key).gone_at.is_none()).collect();
            let (over, there): (Vec<&TroubleKey>, Vec<&TroubleKey>) =
                keys.iter().filter(is_told).partition(|key| of(key).gone_at.is_some());
            let ended: Vec<&TroubleKey> =
                over.iter().copied().filter(|key| of(key).gone_at.is_some_and(lasted)).collect();
            let is_all_over = there.is_empty() && new.is_empty() && ended.len() == over.len();
            let opens = is_quiet && new.iter().any(|key| lasted(of(key).seen_at));
            let closes = !ended.is_empty() && (is_all_over || is_quiet);
            let message = |keys: &[&TroubleKey], is_over, remaining| {
                let topic = Topic::of(&alike.0).unwrap_or(Topic::Degraded);
                let members = keys.iter().map(|key| (&*key.subject, &of(key).body)).collect();
                let at = Stamp(now);
                Group { instance, is_over, topic, reason: &alike.1, members, remaining, at }.message()
            };
            let opening = opens.then(|| message(&new, false, 0));
            let remaining = there.len() + new.len() + over.len() - ended.len();
            let is_wanted = wish.on.contains(&Topic::Recovered);
            let closing = (closes && is_wanted).then(|| message(&ended, true, remaining));
            let told: Vec<TroubleKey> = if opens { new.into_iter().cloned().collect() } else { Vec::new() };
            let untold: Vec<TroubleKey> =
                if closes { ended.into_iter().cloned().collect() } else { Vec::new() };
            for message in [closing, opening].into_iter().flatten() {
                notices.push(post(wish, &message, now));
                self.last.insert((wish.name.clone(), alike.clone()), now);
            }
            for key in told {
                notices.push(Notice::Told(wish.name.clone(), key.clone(), now));
                if let Some(known) = self.known.get_mut(&key) {
                    known.told.insert(wish.name.clone(), now);
                }
            }
            for key in untold {
                notices.push(Notice::Untold(wish.name.clone(), key.clone()));
                if let Some(known) = self.known.get_mut(&key) {
                    known.told.remove(&wish.name);
                }
            }
        }
    }

    /// One message for each group of what a receiver was told of and is not over: for who wants to be told again.
    pub(super) fn active(&self, instance: &str, receiver: &str, now: Duration) -> Vec<Message> {
        let mut groups: BTreeMap<Alike, Vec<(&str, &Body)>> = BTreeMap::new();
        for (key, known) in self.known.iter().filter(|(_, known)| known.told.contains_key(receiver)) {
            groups.entry(alike(key, &known.body)).or_default().push((&key.subject, &known.body));
        }
        let message = |(alike, members): (Alike, Vec<(&str, &Body)>)| {
            let topic = Topic::of(&alike.0).unwrap_or(Topic::Degraded);
            let (at, reason) = (Stamp(now), &*alike.1);
            Group { instance, is_over: false, topic, reason, members, remaining: 0, at }.message()
        };
        groups.into_iter().map(message).collect()
    }

    /// True while something may follow from time alone.
    pub(super) fn is_waiting(&self, wishes: &[Wish]) -> bool {
        self.known.values().any(|known| {
            known.gone_at.is_some() || wishes.iter().any(|wish| !known.told.contains_key(&wish.name))
        })
    }
}

fn alike(key: &TroubleKey, body: &Body) -> Alike {
    let subject = body.provider.as_deref().map_or_else(|| key.subject.clone(), Arc::from);
    (key.topic.clone(), key.reason.clone(), subject)
}

fn row(key: &TroubleKey, known: &Known) -> Notice {
    let body = serde_json::to_string(&known.body).expect("plain data has a JSON form");
    let (seen_at, gone_at) = (known.seen_at, known.gone_at);
    Notice::Trouble(TroubleRow { key: key.clone(), body, seen_at, gone_at, told: Vec::new() })
}

fn post(wish: &Wish, message: &Message, now: Duration) -> Notice {
    let json = serde_json::to_string(message).expect("plain data has a JSON form");
    Notice::Post(wish.name.clone(), json, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(subject: &str) -> TroubleKey {
        TroubleKey { subject: subject.into(), topic: "degraded".into(), reason: "unavailable".into() }
    }

    fn found(subjects: &[&str]) -> Found {
        let body = |n: &usize| Body {
            provider: Some("pdns".into()),
            cause: format!("try {n}"),
            ..Body::new(Stamp(Duration::from_secs(1)))
        };
        subjects.iter().enumerate().map(|(n, subject)| (key(subject), body(&n))).collect()
    }

    fn wish(on: &[Topic]) -> Wish {
        Wish { name: "ops".into(), on: on.iter().copied().collect(), settle: Duration::from_secs(30) }
    }

    fn both() -> Wish {
        wish(&[Topic::Degraded, Topic::Recovered])
    }

    /// The messages of one turn.
    fn said(ledger: &mut Ledger, subjects: &[&str], wish: &Wish, seconds: u64) -> Vec<Message> {
        let now = Duration::from_secs(seconds);
        let notices = ledger.turn("dns1", found(subjects), |_| false, std::slice::from_ref(wish), now);
        let post = |notice| match notice {
            Notice::Post(_, message, _) => Some(serde_json::from_str(&message).unwrap()),
            _ => None,
        };
        notices.into_iter().filter_map(post).collect()
    }

    #[test]
    fn a_blip_is_silent_and_what_lasts_is_told_once_and_so_is_its_end() {
        let (mut ledger, wish) = (Ledger::default(), both());
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 100), []);
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 129), []);
        assert_eq!(said(&mut ledger, &[], &wish, 129), []);
        assert!(ledger.known.is_empty(), "nobody was told, so nothing is remembered");

        said(&mut ledger, &["pdns/a"], &wish, 200);
        let told = said(&mut ledger, &["pdns/a"], &wish, 230);
        assert_eq!(
            told.iter().map(|m| m.title.as_str()).collect::<Vec<_>>(),
            ["dns1: degraded: pdns/a: unavailable"]
        );
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 9_000), []);
        // Well for a moment: not over.
        assert_eq!(said(&mut ledger, &[], &wish, 9_010), []);
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 9_020), []);
        assert_eq!(said(&mut ledger, &[], &wish, 9_100), []);
        let told = said(&mut ledger, &[], &wish, 9_130);
        assert_eq!(
            (told.len(), told[0].topic.as_str(), told[0].of.as_deref()),
            (1, "recovered", Some("degraded"))
        );
        assert!(ledger.known.is_empty());
    }

    #[test]
    fn what_is_alike_is_one_message_with_counts_and_so_is_its_end() {
        let (mut ledger, wish) = (Ledger::default(), both());
        let zones: Vec<String> = (0..100).map(|n| format!("pdns/z{n:03}")).collect();
        let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
        said(&mut ledger, &zones[..1], &wish, 100);
        // The others follow within the time: they go with the first.
        said(&mut ledger, &zones, &wish, 125);
        let told = said(&mut ledger, &zones, &wish, 130);
        assert_eq!((told.len(), told[0].count, told[0].subjects.len()), (1, 100, 10));
        assert!(told[0].text.contains("and 90 more"), "{}", told[0].text);
        assert_eq!(said(&mut ledger, &zones, &wish, 1_000), []);
        // They come back one by one.
        assert_eq!(said(&mut ledger, &zones[..50], &wish, 1_001), []);
        let told = said(&mut ledger, &zones[..50], &wish, 1_031);
        assert_eq!((told.len(), told[0].count, told[0].remaining), (1, 50, 50));
        assert_eq!(said(&mut ledger, &[], &wish, 1_032), []);
        let told = said(&mut ledger, &[], &wish, 1_062);
        assert_eq!((told.len(), told[0].count, told[0].remaining), (1, 50, 0));
    }

    #[test]
    fn more_of_the_same_is_told_after_a_while() {
        let (mut ledger, wish) = (Ledger::default(), both());
        said(&mut ledger, &["pdns/a"], &wish, 100);
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 130).len(), 1);
        for second in [131, 200, 429] {
            assert_eq!(said(&mut ledger, &["pdns/a", "pdns/b"], &wish, second), []);
        }
        let told = said(&mut ledger, &["pdns/a", "pdns/b"], &wish, 430);
        assert_eq!((told.len(), told[0].subjects.clone()), (1, vec!["pdns/b".to_owned()]));
    }

    #[test]
    fn a_restart_tells_nothing_again_and_an_unknown_source_is_neither_there_nor_over() {
        let (mut ledger, wish) = (Ledger::default(), both());
        said(&mut ledger, &["source infra"], &wish, 100);
        assert_eq!(said(&mut ledger, &["source infra"], &wish, 130).len(), 1);
        let known = ledger.known[&key("source infra")].clone();
        let row = TroubleRow {
            key: key("source infra"),
            body: serde_json::to_string(&known.body).unwrap(),
            seen_at: known.seen_at,
            gone_at: None,
            told: known.told.into_iter().collect(),
        };
        let mut ledger = Ledger::of(vec![row]);
        for second in [500, 1_000] {
            let now = Duration::from_secs(second);
            let notices = ledger.turn("dns1", Found::new(), |_| true, std::slice::from_ref(&wish), now);
            assert_eq!(notices, []);
        }
        assert_eq!(said(&mut ledger, &["source infra"], &wish, 1_010), []);
    }

    #[test]
    fn what_was_noted_by_a_clock_that_was_ahead_is_told_by_one_that_is_right() {
        let (mut ledger, wish) = (Ledger::default(), both());
        said(&mut ledger, &["pdns/a"], &wish, 1_000_000);
        let now = Duration::from_secs(100);
        let one = std::slice::from_ref(&wish);
        let notices = ledger.turn("dns1", found(&["pdns/a"]), |_| false, one, now);
        // It is durable: a restart must not bring the other time back.
        let is_of_now = |notice: &Notice| matches!(notice, Notice::Trouble(row) if row.seen_at == now);
        assert!(notices.len() == 1 && is_of_now(&notices[0]), "{notices:?}");
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 129), []);
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 130).len(), 1);
        // So is its end.
        assert_eq!(said(&mut ledger, &[], &wish, 1_000_000), []);
        assert_eq!(said(&mut ledger, &[], &wish, 500), []);
        let told = said(&mut ledger, &[], &wish, 530);
        assert_eq!(told.iter().map(|message| message.topic.as_str()).collect::<Vec<_>>(), ["recovered"]);
    }

    #[test]
    fn a_clock_that_is_behind_for_a_moment_does_not_know_when_a_trouble_began() {
        let (mut ledger, wish) = (Ledger::default(), both());
        let began = Stamp(Duration::from_secs(900_000));
        let mut turn = |seconds: u64| {
            let mut found = found(&["pdns/a"]);
            found.values_mut().for_each(|body| body.since = began);
            let now = Duration::from_secs(seconds);
            ledger.turn("dns1", found, |_| false, std::slice::from_ref(&wish), now);
            let since = ledger.active("dns1", "ops", now).into_iter().map(|message| message.since);
            since.collect::<Vec<_>>()
        };
        assert_eq!(turn(1_000_000), []);
        assert_eq!(turn(1_000_030), [began]);
        assert_eq!(turn(100), [Stamp(Duration::from_secs(100))], "nothing began later than now");
        assert_eq!(turn(1_000_100), [began]);
    }

    #[test]
    fn what_was_noted_by_a_clock_that_was_behind_has_to_last_as_any_other() {
        let (mut ledger, wish) = (Ledger::default(), both());
        for second in [100, 110, 1_000_000, 1_000_019] {
            assert_eq!(said(&mut ledger, &["pdns/a"], &wish, second), [], "{second}");
        }
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 1_000_020).len(), 1);
        // So has its end.
        for second in [1_000_030, 2_000_000, 2_000_029] {
            assert_eq!(said(&mut ledger, &[], &wish, second), [], "{second}");
        }
        assert_eq!(said(&mut ledger, &[], &wish, 2_000_030).len(), 1);
    }

    #[test]
    fn who_does_not_want_to_know_of_the_end_is_not_told() {
        let (mut ledger, wish) = (Ledger::default(), wish(&[Topic::Degraded]));
        said(&mut ledger, &["pdns/a"], &wish, 100);
        assert_eq!(said(&mut ledger, &["pdns/a"], &wish, 130).len(), 1);
        said(&mut ledger, &[], &wish, 200);
        assert_eq!(said(&mut ledger, &[], &wish, 230), []);
        assert!(ledger.known.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn beginnings_and_ends_alternate_whatever_happens(steps in proptest::collection::vec((0u64..90, proptest::bool::ANY), 1..60)) {
            let (mut ledger, wish) = (Ledger::default(), both());
            let (mut now, mut last) = (1_000, "recovered".to_owned());
            for (wait, is_there) in steps {
                now += wait;
                for message in said(&mut ledger, if is_there { &["pdns/a"] } else { &[] }, &wish, now) {
                    proptest::prop_assert_ne!(&message.topic, &last);
                    last = message.topic;
                }
            }
        }
    }
}
