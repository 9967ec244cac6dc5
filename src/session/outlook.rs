//! The desired state as it was loaded, where it came from, and what is wrong with it.

use super::{outputs::KnownOutputs, pins::Pins, sources::Snapshot};
use crate::{
    failure::chain,
    manifest::{KnownSecrets, Reported},
};
use reconciled_engine::Desired;
use reconciled_provider::Problem;
use std::{collections::BTreeSet, sync::Arc};

/// The desired state, and where it came from.
pub struct Outlook {
    /// The sources.
    pub snapshots: Vec<Snapshot>,
    /// The desired state, without what is broken.
    pub desired: Desired,
    /// Problems of manifests and sources.
    pub reported: Vec<Reported>,
    /// Sources with an error and `onInvalid: hold`: their last good revision was loaded instead.
    pub withheld: Vec<Arc<str>>,
    /// Sources with an error in their manifests.
    pub broken: BTreeSet<Arc<str>>,
    /// Sources with something that was not checked here.
    pub unchecked: BTreeSet<Arc<str>>,
    /// The outputs that it was loaded with.
    pub outputs: KnownOutputs,
    /// The secrets that it was loaded with.
    pub secrets: KnownSecrets,
    /// What is kept at earlier revisions.
    pub pins: Pins,
    /// What keeps entries from being used.
    pub ailing: Vec<Problem>,
}

impl Outlook {
    /// What is wrong with sources and manifests, for people.
    pub fn messages(&self) -> Vec<String> {
        let ailing = self.ailing.iter().map(|problem| format!("{problem}\n"));
        ailing.chain(self.sources().iter().flat_map(|name| self.messages_of(name))).collect()
    }

    /// What is wrong with one source, for people.
    pub fn messages_of(&self, name: &str) -> Vec<String> {
        let mut all = Vec::new();
        for snapshot in self.snapshots.iter().filter(|snapshot| *snapshot.name == *name) {
            if let Some(error) = &snapshot.behind {
                all.push(format!("error: source {name}: {}", chain(&**error)));
                all.push(format!("hint: {}; {} stays in force", error.hint(), snapshot.label));
            }
        }
        if let Some(other) = self.desired.sources.get(name).and_then(|state| state.awaits.as_ref()) {
            let is_unasked =
                |one: &Snapshot| *one.name == *name && one.awaits.as_ref().is_some_and(|one| one == other);
            let why = match self.broken.contains(other) && !self.snapshots.iter().any(is_unasked) {
                true => "has errors",
                false => "is not known to be as far",
            };
            all.push(format!(
                "note: source {name} deletes nothing while source {other} of the same repository {why}"
            ));
        }
        all.extend(self.pins.messages_of(name));
        let problems = self.reported.iter().filter(|reported| *reported.source == *name);
        all.extend(problems.map(|reported| format!("{}\n", reported.problem)));
        if self.withheld.iter().any(|withheld| **withheld == *name) {
            let stays = match self.without_revision().any(|without| **without == *name) {
                true => "nothing of it is in force yet",
                false => "the last good one stays",
            };
            all.push(format!(
                "error: source {name}: the revision has errors that keep all of it from coming into force; {stays}"
            ));
        }
        all
    }

    /// The withheld sources of which nothing is in force yet.
    pub fn without_revision(&self) -> impl Iterator<Item = &Arc<str>> {
        let is_had = |name: &Arc<str>| self.snapshots.iter().any(|snapshot| snapshot.name == *name);
        self.withheld.iter().filter(move |name| !is_had(name))
    }

    /// Every source that is spoken of.
    pub fn sources(&self) -> BTreeSet<Arc<str>> {
        let snapshots = self.snapshots.iter().map(|snapshot| snapshot.name.clone());
        snapshots.chain(self.reported.iter().map(|reported| reported.source.clone())).collect()
    }

    /// The sources.
    pub fn snapshots(&self) -> Vec<&Snapshot> {
        self.snapshots.iter().collect()
    }

    /// True when something is wrong that is no mere warning, with manifests, sources or entries.
    pub fn has_errors(&self) -> bool {
        self.is_invalid() || !self.ailing.is_empty() || self.snapshots.iter().any(|s| s.behind.is_some())
    }

    /// True when nothing newer is known of any source than what is looked at.
    pub fn is_newest(&self) -> bool {
        self.snapshots.iter().all(|snapshot| snapshot.newest.is_none())
    }

    /// True when a manifest has an error.
    pub fn is_invalid(&self) -> bool {
        self.reported.iter().any(|reported| reported.problem.is_error())
    }

    /// The problems, whatever source they are in.
    pub fn problems(&self) -> Vec<Problem> {
        self.reported.iter().map(|reported| reported.problem.clone()).collect()
    }
}
