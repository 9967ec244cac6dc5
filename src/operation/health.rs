//! How each resource stands, as two conditions and a word: `Synced`, is it as declared, and `Healthy`, does it fare
//! well. Worked out when somebody asks: of what is well nothing is stored but since when.
//!
//! Guarantees: pure but for what [`Known::read`] reads; the words and their order are those of Argo CD; a manifest or a
//! source is as healthy as the worst of its resources.

use super::aside::{Aside, UNASSIGNED, UNSEEN_SCOPE};
use crate::{
    failure::Failure,
    session::FROZEN,
    store::{
        ConditionEntry, DegradedEntry, DriftEntry, HoldEntry, Part, Parts, PartsByName, Reader, Stamp,
        Status, TrackedEntry, UnassignedManifest,
    },
};
use reconciled_engine::{
    HealthState,
    plan::{DRIFTED, POLICY_FORBIDS},
    store::Ailment,
};
use reconciled_provider::{Address, ManifestKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One side of how a resource stands, in the form Kubernetes gives conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceCondition {
    /// `Synced` or `Healthy`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False`, or `Unknown`.
    pub status: String,
    /// One word for machines.
    pub reason: String,
    /// One line for people; empty where all is well.
    pub message: String,
    /// Since when, where that is known.
    pub since: Option<Stamp>,
    /// The generation of the manifest that the last complete pass looked at; none before the first.
    pub observed_generation: Option<u64>,
}

/// One resource and how it stands. What was never brought about is listed as well: its state is `untracked`, and what
/// only tracking knows is empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceEntry {
    /// What is tracked.
    #[serde(flatten)]
    pub tracked: TrackedEntry,
    /// `Healthy`, `Suspended`, `Progressing`, `Missing`, `Degraded` or `Unknown`.
    pub health: String,
    /// The generation of its manifest in force: the number of the revision that last changed it.
    pub generation: Option<u64>,
    /// `Synced` and `Healthy`.
    pub conditions: Vec<ResourceCondition>,
}

/// A manifest and how its resources stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestEntry {
    /// Its identity, `SOURCE/GROUP/KIND/NAMESPACE/NAME`.
    pub manifest: String,
    /// The worst of its resources.
    pub health: String,
    /// How many resources there are of each health.
    pub resources: BTreeMap<String, u64>,
}

/// How the resources of a source fare.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceHealth {
    /// The worst of its resources.
    pub health: String,
    /// How many resources there are of each health.
    pub resources: BTreeMap<String, u64>,
}

/// Reasons of conditions that wait because something failed; others wait for time or for each other.
const FAILING: [&str; 4] = ["conflict", "rate-limited", "unavailable", "unexpected"];
/// Reasons of conditions that only say that nothing is done about a difference.
const LEFT_SO: [&str; 2] = [DRIFTED, POLICY_FORBIDS];
/// What is said of a resource that is on its way, by who does not know more.
const ON_ITS_WAY: &str = "the remote is on its way";
/// Reason of a scope that was not looked at since something of it came to be desired otherwise.
pub const UNSEEN: &str = "OutOfDate";
/// Reason of what is gone from the remote, where that is ignored.
pub const MISSING: &str = "Missing";
/// State of a resource that is not tracked.
pub const UNTRACKED: &str = "untracked";

/// What is known of how things stand.
#[derive(Debug, Default)]
pub(super) struct Known {
    conditions: BTreeMap<(String, String), ConditionEntry>,
    /// What is said of manifests that are frozen, by their identity.
    frozen: BTreeMap<String, ConditionEntry>,
    /// Declared and never brought about.
    untracked: Vec<(String, String)>,
    holds: Vec<HoldEntry>,
    pinned: Vec<(String, String)>,
    drifts: BTreeMap<(String, String), DriftEntry>,
    ailments: BTreeMap<String, Vec<Ailment>>,
    parts: PartsByName,
    /// Manifests in force by address, where something is declared that is not tracked.
    manifests: BTreeMap<String, Vec<(String, u64, Option<u64>)>>,
    looked_at: BTreeMap<String, u64>,
    /// Manifests that are for entries which are not configured here.
    elsewhere: Vec<UnassignedManifest>,
    aside: Aside,
}

impl Known {
    /// Reads what is known of all resources, or of those that may not be healthy.
    pub(super) async fn read(
        reader: &Reader,
        status: &Status,
        which: Parts,
        aside: Aside,
    ) -> Result<Known, Failure> {
        let key = |scope: &str, id: &str| (scope.to_owned(), id.to_owned());
        let (mut conditions, mut frozen) = (BTreeMap::new(), BTreeMap::new());
        for condition in &status.conditions {
            if let Some(id) = &condition.id {
                if condition.reason == FROZEN {
                    frozen.insert(id.clone(), condition.clone());
                    continue;
                }
                // The first of several is told; the others follow from what keeps it.
                conditions.entry(key(&condition.scope, id)).or_insert_with(|| condition.clone());
            }
        }
        let which = match which {
            Parts::Ailing if !status.elsewhere.is_empty() => Parts::AilingOrUndeclared,
            which => which,
        };
        let parts = reader.parts(which).await?;
        let untracked: Vec<_> = conditions.keys().filter(|key| !parts.contains_key(*key)).cloned().collect();
        let mut manifests: BTreeMap<String, Vec<_>> = BTreeMap::new();
        if !untracked.is_empty() {
            for manifest in reader.manifests().await? {
                let address = Address::of(&ManifestKey(manifest.0.as_str().into()), None);
                manifests.entry(name_of(&address)).or_default().push(manifest);
            }
        }
        Ok(Known {
            untracked,
            holds: status.holds.clone(),
            pinned: status.pins.iter().map(|pin| key(&pin.scope, &pin.id)).collect(),
            drifts: status.drifts.iter().map(|d| (key(&d.scope, &d.id), d.clone())).collect(),
            ailments: reader.ailments().await?,
            looked_at: reader.looked_at().await?,
            elsewhere: status.elsewhere.clone(),
            aside,
            conditions,
            frozen,
            parts,
            manifests,
        })
    }

    /// The tracked resources, and those that are declared at `is_meant` and not tracked, as they stand.
    pub(super) fn resources(
        &self,
        tracked: Vec<TrackedEntry>,
        is_meant: impl Fn(&str) -> bool,
    ) -> Vec<ResourceEntry> {
        let mut all: Vec<ResourceEntry> = tracked.into_iter().map(|row| self.resource(row)).collect();
        for key in &self.untracked {
            let condition = &self.conditions[key];
            let Some(address) = condition.address.as_ref().filter(|address| is_meant(address)) else {
                continue;
            };
            all.push(self.resource(self.untracked(key, address)));
        }
        all
    }

    fn untracked(&self, (scope, id): &(String, String), address: &str) -> TrackedEntry {
        let manifest = self.declaring(address).map(|(manifest, ..)| manifest.clone());
        TrackedEntry {
            address: address.to_owned(),
            scope: scope.clone(),
            id: id.clone(),
            remote: None,
            manifest: manifest.unwrap_or_default(),
            file: String::new(),
            state: UNTRACKED.into(),
            recheck_at: None,
            rests_until: None,
            written_at: None,
            revision: String::new(),
            deletion: String::new(),
            drift: String::new(),
            merge: false,
            applied: String::new(),
            depends_on: Vec::new(),
        }
    }

    /// The manifest in force behind the address of what is not tracked, if only one can be meant.
    fn declaring(&self, address: &str) -> Option<&(String, u64, Option<u64>)> {
        let address = Address { part: None, ..address.parse::<Address>().ok()? };
        match &self.manifests.get(&name_of(&address))?[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    fn resource(&self, row: TrackedEntry) -> ResourceEntry {
        let key = (row.scope.clone(), row.id.clone());
        let part = self.parts.get(&key).cloned().unwrap_or_else(|| self.undone(&key, &row));
        let observed = observed(&part);
        let (health, healthy) = self.healthy(&key, &part);
        let standing = |kind: &str, (status, reason, message, since): Side| ResourceCondition {
            kind: kind.into(),
            status: status.into(),
            reason,
            message,
            since,
            observed_generation: observed,
        };
        let synced = self.synced(&key, &row.address, &part);
        ResourceEntry {
            health: health.word().into(),
            generation: part.generation,
            conditions: vec![standing("Synced", synced), standing("Healthy", healthy)],
            tracked: row,
        }
    }

    /// What is known of what was never brought about.
    fn undone(&self, (scope, _): &(String, String), row: &TrackedEntry) -> Part {
        let declaring = self.declaring(&row.address);
        Part {
            manifest: row.manifest.clone(),
            state: row.state.clone(),
            generation: declaring.map(|(_, generation, _)| *generation),
            previous: declaring.and_then(|(.., previous)| *previous),
            looked_at: self.looked_at.get(scope).copied(),
            ..Part::default()
        }
    }

    /// Is it as declared?
    fn synced(&self, key: &(String, String), address: &str, part: &Part) -> Side {
        if let Some(why) = self.aside.why(&key.0, &source_of(&part.manifest)) {
            return ("Unknown", why.reason.into(), why.message, why.since);
        }
        if let Some(condition) = self.conditions.get(key) {
            let message = self.waits_for(key, &condition.message).to_owned();
            return ("False", condition.reason.clone(), message, Some(condition.since));
        }
        if let Some(frozen) = self.frozen.get(&part.manifest) {
            return ("Unknown", FROZEN.into(), frozen.message.clone(), Some(frozen.since));
        }
        if let Some(message) = self.for_others(key, part) {
            return ("Unknown", UNASSIGNED.into(), message, None);
        }
        if let Some(whole) = self.whole(&key.0) {
            return ("Unknown", UNSEEN_SCOPE.into(), whole.message.to_string(), Some(Stamp(whole.since)));
        }
        if let Some(drift) = self.drifts.get(key) {
            return ("False", DRIFTED.into(), said(drift), Some(drift.first_seen));
        }
        let text = |reason: &str, message: &str, since| ("False", reason.into(), message.into(), since);
        if let Some(gone) = self.left_out(key) {
            return text(MISSING, &gone.message, Some(Stamp(gone.since)));
        }
        match part.state.as_str() {
            "pending" => text("Progressing", self.waits_for(key, ON_ITS_WAY), part.written_at),
            "applied" => text("NotYetSeen", "written, and not yet seen to be as written", part.written_at),
            _ if self.pinned.contains(key) || part.manifest.starts_with('$') => self.in_sync(part),
            _ if part.generation.is_none() && part.has_source => {
                text("Undeclared", "no manifest in force declares it, or its file cannot be read", None)
            }
            // What the configuration of the host adds is no part of what the commit says: that it was looked at since counts.
            _ if part.generation.is_some() && observed(part) != part.generation => {
                text("OutOfDate", "its manifest changed and was not applied yet", part.changed_at)
            }
            _ => match self.hold(key) {
                // Which of its resources differ is not remembered.
                Some(hold) => {
                    let message = format!(
                        "something in {} is held: {}; `reconciled explain {}` looks whether this is",
                        hold.domain,
                        hold.reasons.join("; "),
                        address
                    );
                    ("Unknown", "Held".into(), message, Some(hold.since))
                }
                None => self.in_sync(part),
            },
        }
    }

    /// Why it is left alone, where its manifest is for an entry that is not configured here by now.
    fn for_others(&self, key: &(String, String), part: &Part) -> Option<String> {
        if part.generation.is_some() || self.elsewhere.is_empty() || self.pinned.contains(key) {
            return None;
        }
        let manifest = ManifestKey(part.manifest.as_str().into());
        let address = Address::of(&manifest, None).to_string();
        let mut all = self.elsewhere.iter();
        let one = all.find(|one| *one.source == *manifest.source() && *one.address == *address)?;
        Some(match &one.provider {
            Some(provider) => {
                format!(
                    "its manifest is for provider `{provider}`, which is not configured on this host: it is left alone"
                )
            }
            None => {
                "no provider that is configured on this host knows the kind of its manifest: it is left alone"
                    .into()
            }
        })
    }

    /// How many resources would be well, by scope, were their manifests not for others by now.
    pub(super) fn left_to_others(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (key, part) in &self.parts {
            if self.counts(key) && self.for_others(key, part).is_some() {
                *all.entry(key.0.clone()).or_default() += 1;
            }
        }
        all
    }

    /// True where nothing is said of a tracked resource that keeps it from counting as well.
    pub(super) fn counts(&self, key: &(String, String)) -> bool {
        let Some(part) = self.parts.get(key) else { return false };
        let is_ill = |ailment: &Ailment| match &ailment.id {
            // Of one that is switched off, or cannot tell, nothing is known to be wrong.
            Some(id) => *id.0 == *key.1 && !ailment.state.is_ready(),
            None => true,
        };
        part.state == "settled"
            && !self.conditions.contains_key(key)
            && !self.frozen.contains_key(&part.manifest)
            && !self.drifts.contains_key(key)
            && !self.ailments.get(&key.0).is_some_and(|all| all.iter().any(is_ill))
            && self.aside.why(&key.0, &source_of(&part.manifest)).is_none()
    }

    /// True where a tracked resource is looked after, and no look said that it is Degraded.
    pub(super) fn may_degrade(&self, key: &(String, String)) -> bool {
        let Some(part) = self.parts.get(key) else { return false };
        let mut mine = self.ailments.get(&key.0).into_iter().flatten();
        let is_it = |ailment: &Ailment| ailment.id.as_ref().is_some_and(|id| *id.0 == *key.1);
        self.aside.why(&key.0, &source_of(&part.manifest)).is_none()
            && self.for_others(key, part).is_none()
            && !mine.any(|ailment| ailment.state == HealthState::Degraded && is_it(ailment))
    }

    /// Has one be Degraded that no look said so of.
    pub(super) fn degrade(&mut self, one: &DegradedEntry) {
        let ailment = Ailment {
            id: Some(one.id.as_str().into()),
            state: HealthState::Degraded,
            message: one.message.as_str().into(),
            since: one.since.0,
        };
        self.ailments.entry(one.scope.clone()).or_default().push(ailment);
    }

    /// That it is gone, where that is ignored.
    fn left_out(&self, (scope, id): &(String, String)) -> Option<&Ailment> {
        let mut mine = self.ailments.get(scope)?.iter();
        mine.find(|ailment| ailment.is_left_out() && ailment.id.as_ref().is_some_and(|own| *own.0 == **id))
    }

    /// The hold of the guard domain that it is in.
    fn hold(&self, (scope, _): &(String, String)) -> Option<&HoldEntry> {
        let is_over = |hold: &&HoldEntry| {
            hold.domain == *scope || scope.split('/').next() == Some(hold.domain.as_str())
        };
        let is_over = |hold: &&HoldEntry| hold.once.is_none() && is_over(hold);
        self.holds.iter().find(is_over)
    }

    fn in_sync(&self, part: &Part) -> Side {
        ("True", "InSync".into(), String::new(), part.synced_at.or(part.written_at))
    }

    /// How does it fare? The worst of all that is known.
    fn healthy(&self, key: &(String, String), part: &Part) -> (HealthState, Side) {
        if let Some(why) = self.aside.why(&key.0, &source_of(&part.manifest)) {
            let state = HealthState::Unknown;
            return (state, ("Unknown", state.word().into(), why.message, why.since));
        }
        let mut worst: (HealthState, String, Option<Stamp>) =
            (HealthState::Healthy, String::new(), part.healthy_at.or(part.synced_at).or(part.written_at));
        let mut say = |state, message: &str, since| {
            if state > worst.0 {
                worst = (state, message.to_owned(), since);
            }
        };
        match part.state.as_str() {
            "pending" => say(HealthState::Progressing, self.waits_for(key, ON_ITS_WAY), part.written_at),
            "applied" => {
                say(HealthState::Progressing, "written, and not yet seen to be as written", part.written_at)
            }
            _ => {}
        }
        if let Some(drift) = self.drifts.get(key).filter(|drift| drift.missing) {
            say(HealthState::Missing, "it is gone from the remote", Some(drift.first_seen));
        }
        let mine = self.ailments.get(&key.0).into_iter().flatten();
        let mine: Vec<&Ailment> = mine.filter(|a| a.id.as_ref().is_none_or(|id| *id.0 == *key.1)).collect();
        // Of what is frozen nobody knows how it fares, unless its remote says so: a certificate that is about to end.
        let is_ill = mine.iter().any(|a| a.id.is_some() && a.state == HealthState::Degraded);
        if let Some(frozen) = self.frozen.get(&part.manifest).filter(|_| !is_ill) {
            say(HealthState::Unknown, &frozen.message, Some(frozen.since));
        }
        if let Some(message) = self.for_others(key, part) {
            say(HealthState::Unknown, &message, None);
        }
        if let Some(condition) = self.conditions.get(key) {
            let state = of_condition(condition, part.state == UNTRACKED);
            say(state, &condition.message, Some(condition.since));
            if condition.kind == "suspended" {
                // Switched off on purpose: whatever it is, nobody is to do anything about it.
                worst = (HealthState::Suspended, condition.message.clone(), Some(condition.since));
            }
        }
        for ailment in mine {
            if ailment.state > worst.0 {
                worst = (ailment.state, ailment.message.to_string(), Some(Stamp(ailment.since)));
            }
        }
        let (state, message, since) = worst;
        let status = match state {
            HealthState::Healthy => "True",
            HealthState::Unknown => "Unknown",
            _ => "False",
        };
        (state, (status, state.word().into(), message, since))
    }

    /// What a resource that is on its way waits for, where its provider told that; else `said`.
    fn waits_for<'a>(&'a self, (scope, id): &(String, String), said: &'a str) -> &'a str {
        let mut mine = self.ailments.get(scope).into_iter().flatten();
        let told = mine
            .find(|a| a.state == HealthState::Progressing && a.id.as_ref().is_some_and(|own| *own.0 == **id));
        told.filter(|_| said == ON_ITS_WAY).map_or(said, |ailment| &*ailment.message)
    }

    /// Has conditions of what is on its way say what it waits for.
    pub(super) fn complete(&self, conditions: &mut [ConditionEntry]) {
        for condition in conditions {
            let Some(id) = &condition.id else { continue };
            let key = (condition.scope.clone(), id.clone());
            condition.message = self.waits_for(&key, &condition.message).to_owned();
        }
    }

    /// What is the matter with a scope as a whole.
    fn whole(&self, scope: &str) -> Option<&Ailment> {
        self.ailments.get(scope)?.iter().find(|ailment| ailment.id.is_none())
    }

    /// Health by source: `tracked` says how many resources each has in which scope, of which only those that are known here
    /// may not be healthy.
    pub(super) fn by_source(
        &self,
        tracked: &BTreeMap<(String, String), u64>,
    ) -> BTreeMap<String, SourceHealth> {
        let mut all: BTreeMap<String, BTreeMap<HealthState, u64>> = BTreeMap::new();
        for ((source, scope), count) in tracked {
            let state = match self.aside.why(scope, source) {
                Some(_) => HealthState::Unknown,
                None => HealthState::Healthy,
            };
            *all.entry(source.clone()).or_default().entry(state).or_default() += count;
        }
        for (key, part) in &self.parts {
            let source = source_of(&part.manifest);
            if self.aside.why(&key.0, &source).is_some() {
                continue;
            }
            let (health, _) = self.healthy(key, part);
            let counts = all.entry(source).or_default();
            let well = counts.entry(HealthState::Healthy).or_default();
            *well = well.saturating_sub(1);
            *counts.entry(health).or_default() += 1;
        }
        for key in &self.untracked {
            let Some(address) = &self.conditions[key].address else { continue };
            let row = self.untracked(key, address);
            let (health, _) = self.healthy(key, &self.undone(key, &row));
            *all.entry(source_of(&row.manifest)).or_default().entry(health).or_default() += 1;
        }
        let counted = |(source, counts)| {
            let (health, resources) = worst(counts);
            (source, SourceHealth { health, resources })
        };
        all.into_iter().map(counted).collect()
    }
}

/// Status, reason, message, and since when.
type Side = (&'static str, String, String, Option<Stamp>);

/// Manifests of `resources`, each with the worst of its health.
pub(super) fn manifests(resources: &[ResourceEntry]) -> Vec<ManifestEntry> {
    let mut all: BTreeMap<&str, BTreeMap<HealthState, u64>> = BTreeMap::new();
    for resource in resources.iter().filter(|resource| !resource.tracked.manifest.is_empty()) {
        let health = HealthState::of_word(&resource.health).unwrap_or(HealthState::Unknown);
        *all.entry(&resource.tracked.manifest).or_default().entry(health).or_default() += 1;
    }
    let counted = |(manifest, counts): (&str, _)| {
        let (health, resources) = worst(counts);
        ManifestEntry { manifest: manifest.to_owned(), health, resources }
    };
    all.into_iter().map(counted).collect()
}

/// The worst of several, and how many there are of each.
fn worst(mut counts: BTreeMap<HealthState, u64>) -> (String, BTreeMap<String, u64>) {
    counts.retain(|_, count| *count > 0);
    let worst = counts.keys().max().copied().unwrap_or_default();
    let words = counts.into_iter().map(|(state, count)| (state.word().to_owned(), count));
    (worst.word().to_owned(), words.collect())
}

fn of_condition(condition: &ConditionEntry, is_untracked: bool) -> HealthState {
    let reason = condition.reason.as_str();
    match condition.kind.as_str() {
        "suspended" => HealthState::Suspended,
        _ if LEFT_SO.contains(&reason) => match is_untracked {
            true => HealthState::Missing,
            false => HealthState::Healthy,
        },
        "stalled" => HealthState::Degraded,
        _ if FAILING.contains(&reason) => HealthState::Degraded,
        _ if is_untracked && reason.starts_with("WaitingFor") => HealthState::Missing,
        _ => HealthState::Progressing,
    }
}

/// The newest generation that a complete pass looked at.
fn observed(part: &Part) -> Option<u64> {
    let seen = |generation: &u64| part.looked_at.is_some_and(|newest| *generation <= newest);
    part.generation.filter(|generation| part.is_current || seen(generation)).or(part.previous.filter(seen))
}

/// What makes an address without its part comparable: its group is not always said.
fn name_of(address: &Address) -> String {
    let namespace = address.namespace.as_deref().unwrap_or("");
    format!("{namespace}/{}/{}", address.kind, address.name)
}

fn source_of(manifest: &str) -> String {
    manifest.split('/').next().unwrap_or_default().to_owned()
}

/// A drift as one line: what is where, and what is declared.
pub fn said(drift: &DriftEntry) -> String {
    if drift.missing {
        return "it is gone from the remote".into();
    }
    let side = |value: &Option<String>| match value {
        Some(value) => format!("`{value}`"),
        None => "nothing".into(),
    };
    let field = |field: &crate::store::FieldEntry| {
        format!("{} is {}, declared {}", field.path, side(&field.remote), side(&field.declared))
    };
    match &drift.fields[..] {
        [] => "changed by somebody else".into(),
        fields => fields.iter().map(field).collect::<Vec<_>>().join("; "),
    }
}
