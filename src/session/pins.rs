//! What is pinned in a desired state and what no longer is, for people and for whoever ends it.

use reconciled_engine::{Pin, Write, pin::Ending, store::Event};
use std::{collections::BTreeMap, time::Duration};

/// What is pinned in a desired state, and what was until now.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// In effect.
    pub kept: Vec<Pin>,
    /// Of resources that may be declared by what does not count here and now: they go on with that.
    pub unseen: Vec<Pin>,
    /// Over, and why.
    pub over: Vec<(Pin, Ending)>,
}

impl Pins {
    /// True when nothing is pinned any more.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.unseen.is_empty()
    }

    /// When the next one is over by itself.
    pub fn next(&self) -> Option<Duration> {
        self.kept.iter().chain(&self.unseen).filter_map(|pin| pin.until).min()
    }

    /// What ends those that are over.
    pub fn endings(&self, now: Duration) -> Vec<Write> {
        let ending = |(pin, why): &(Pin, Ending)| {
            let event = Event {
                at: now,
                kind: "resume".into(),
                scope: Some(pin.scope.clone()),
                address: Some(pin.address.clone()),
                revision: pin.label.clone(),
                actor: "engine".into(),
                reason: "rollback".into(),
                message: format!("no longer kept at {}: {why}", pin.label).into(),
            };
            [Write::Unpin(pin.scope.clone(), pin.id.clone()), Write::Event(event)]
        };
        self.over.iter().flat_map(ending).collect()
    }

    /// What is pinned, and what no longer is, for people: a line for each rollback of a source.
    pub fn messages_of(&self, source: &str) -> Vec<String> {
        let over = self.over.iter().map(|(pin, why)| (pin, Some(why)));
        let pins = self.kept.iter().chain(&self.unseen).map(|pin| (pin, None)).chain(over);
        let mut groups: BTreeMap<Told<'_>, Vec<&Pin>> = BTreeMap::new();
        for (pin, why) in pins.filter(|(pin, _)| pin.manifest.source() == source) {
            let Pin { label, actor, reason, .. } = pin;
            groups.entry(Told { label, actor, reason, why }).or_default().push(pin);
        }
        groups.into_iter().map(|(told, pins)| told.line(source, &pins)).collect()
    }
}

/// What is told in one line.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Told<'a> {
    label: &'a str,
    actor: &'a str,
    reason: &'a str,
    /// Why that is over; none while it goes on.
    why: Option<&'a Ending>,
}

impl Told<'_> {
    fn line(&self, source: &str, pins: &[&Pin]) -> String {
        let Told { label, actor, reason, why } = self;
        let count = pins.len();
        let what = match (why, pins) {
            // Who pushes what ends it does not know of it: then it matters which one.
            (Some(_), [pin]) => format!("{} is", pin.address),
            (_, [_]) => "1 resource is".to_owned(),
            _ => format!("{count} resources are"),
        };
        match why {
            None => format!("note: source {source}: {what} kept at {label} by {actor}: {reason}"),
            Some(why) => format!(
                "note: source {source}: {what} no longer kept at {label}, as {actor} wished ({reason}): {why}"
            ),
        }
    }
}
