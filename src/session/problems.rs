//! What is wrong with the manifests in force, and what of them is for other hosts, put down so that `status` tells it without
//! reading any.
//!
//! Guarantees: written only where it changed; it ends with the load that finds all well again, and with its source. It
//! deliberately keeps one entry for all errors of a source: all of them is what `plan` shows. Each manifest that something
//! is tracked of and that is frozen by them, or kept for nothing but a revision that is refused for them, has one of its own, with
//! its key as the id: what it declared is not looked after, so it is not well. Of one that is in force too `plan` says what is kept.

use super::{outlook::Outlook, writer::Writing};
use crate::{
    failure::Failure,
    registry::entry_for,
    store::{ConditionEntry, Notice, TrackedEntry, UnassignedManifest},
};
use reconciled_engine::{Store, Write, store::Condition};
use reconciled_provider::{Address, ManifestKey, Problem, Resource, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Takes the place of an entry in the scopes of these conditions; no entry is called so.
const SOURCES: &str = "$sources";

/// The reason of what is said of a manifest that is frozen.
pub const FROZEN: &str = "Frozen";

/// The source that a condition is about, where it is about the manifests of one.
pub fn source_of(scope: &str) -> Option<&str> {
    scope.strip_prefix(SOURCES)?.strip_prefix('/')
}

impl Outlook {
    /// The trouble with the manifests of one source.
    fn trouble_of(&self, name: &str) -> Option<Condition> {
        let mine = self.reported.iter().filter(|reported| *reported.source == *name);
        let errors: Vec<&Problem> =
            mine.map(|reported| &reported.problem).filter(|problem| problem.is_error()).collect();
        let first = errors.first()?;
        let snapshot = self.snapshots.iter().find(|snapshot| *snapshot.name == *name);
        let labels = snapshot.map(|one| (&one.label, one.newest.as_ref().map(|newest| &newest.label)));
        let follows = match (self.withheld.iter().any(|withheld| **withheld == *name), labels) {
            (true, Some((label, Some(newest)))) => {
                format!("{label} stays in force, and what only {newest} declares stays as it is")
            }
            (true, Some((label, None))) => format!("{label} stays in force"),
            (true, None) => "nothing is in force yet".into(),
            (false, _) => "the rest is applied, nothing of it is deleted".into(),
        };
        let states = self.desired.sources.iter();
        let awaiting = states.filter(|(_, state)| state.awaits.as_deref() == Some(name));
        let awaiting: String =
            awaiting.map(|(other, _)| format!(", and source {other} deletes nothing meanwhile")).collect();
        let place = first.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let more = match errors.len() {
            1 => String::new(),
            all => format!("; and {} more", all - 1),
        };
        let all = || "to see them all: reconciled plan".to_owned();
        let hint = first.hint.clone().filter(|_| errors.len() == 1).unwrap_or_else(all);
        let message =
            format!("its manifests have errors: {follows}{awaiting}; {place}{}{more}", first.message);
        Some(Condition::stalled("InvalidManifests", message).hint(hint))
    }
}

/// The manifests of a source that `tracked` is of, and of which nothing is looked after: they cannot be read now, or are kept for
/// nothing but the newest revision, which is refused.
fn frozen(outlook: &Outlook, name: &str, tracked: &[TrackedEntry]) -> Vec<Condition> {
    let desired = &outlook.desired;
    let Some(state) = desired.sources.get(name) else { return Vec::new() };
    let refused = outlook.withheld.iter().any(|withheld| **withheld == *name);
    let refused = state.newest.as_ref().filter(|_| refused && state.broken.is_empty());
    if state.broken.is_empty() && refused.is_none() {
        return Vec::new();
    }
    // What another file says of it than the one that cannot be read does not count, but of what they share.
    let counts = |row: &TrackedEntry, resource: &Resource| {
        let is_shared = desired.policies.get(resource.policy).merge;
        is_shared || *desired.manifest(resource.origin).file == *row.file || !state.is_frozen(&row.file)
    };
    // It is declared, or known to be for others.
    let is_known = |row: &TrackedEntry, key: &ManifestKey| {
        let Ok(scope) = row.scope.parse::<Scope>() else { return false };
        let id = row.id.as_str().into();
        desired.declaring(&scope, &id).iter().any(|resource| counts(row, resource))
            || state.is_elsewhere(key, &scope)
            || state.is_unselected(key, &scope, &id)
    };
    let is_kept = |row: &TrackedEntry| {
        let Ok(scope) = row.scope.parse::<Scope>() else { return false };
        let by = desired.set_aside.get(&(scope, ResourceId::from(row.id.as_str())));
        by.is_some_and(|by| by.contains(name))
    };
    let (mut known, mut left) = (BTreeSet::new(), BTreeSet::new());
    for row in tracked {
        let key = ManifestKey(row.manifest.as_str().into());
        if key.source() != name {
            continue;
        }
        if is_known(row, &key) {
            known.insert(key);
        } else if refused.is_none() || is_kept(row) {
            left.insert(key);
        }
    }
    let why = match refused {
        Some(newest) => {
            // The rest of what is in force is looked after.
            left.retain(|key| !known.contains(key));
            format!("its newest revision, {newest}, declares it and is refused")
        }
        None => "files with errors may still declare it".into(),
    };
    let frozen = |key: &ManifestKey| {
        Condition::stalled(FROZEN, format!("{why}: it is not changed, restored or deleted"))
            .about((&*key.0).into(), Address::of(key, None))
            .hint("to see the errors: reconciled plan")
    };
    left.iter().map(frozen).collect()
}

impl Writing {
    /// Puts down what is wrong with the manifests of the sources that were read, and that nothing is any more.
    pub async fn note_problems(&self, outlook: &Outlook) -> Result<(), Failure> {
        let status = self.db.reader().not_well().await?;
        let mut known: BTreeMap<&str, Vec<&ConditionEntry>> = BTreeMap::new();
        for condition in &status.conditions {
            if let Some(name) = source_of(&condition.scope) {
                known.entry(name).or_default().push(condition);
            }
        }
        // Also for what another source has, and nobody's file is wrong.
        let is_frozen = outlook.desired.sources.values().any(|state| !state.broken.is_empty());
        let tracked = match outlook.broken.is_empty() && !is_frozen {
            true => Vec::new(),
            false => self.db.reader().rows(None).await?,
        };
        // What a folder says is nobody's once it was applied.
        let is_folder =
            |name: &Arc<str>| outlook.snapshots.iter().any(|s| s.name == *name && s.commit.is_none());
        let troubles = |name: Arc<str>| {
            let mut all: Vec<Condition> = outlook.trouble_of(&name).into_iter().collect();
            all.extend(frozen(outlook, &name, &tracked));
            (name, all)
        };
        let of_sources = outlook.sources().into_iter().filter(|name| !is_folder(name));
        let mut now: BTreeMap<Arc<str>, Vec<Condition>> = of_sources.map(troubles).collect();
        for name in known.keys() {
            if self.config.sources.iter().all(|source| *source.name != **name) {
                now.entry(Arc::from(*name)).or_default();
            }
        }
        let moved = now.into_iter().filter(|(name, troubles)| {
            let before = known.get(&**name).into_iter().flatten();
            let before = before.map(|known| (known.id.as_deref(), &*known.message, known.hint.as_deref()));
            let new = troubles
                .iter()
                .map(|one| (one.id.as_ref().map(|id| &*id.0), &*one.message, one.hint.as_deref()));
            !before.eq(new)
        });
        let writes: Vec<Write> =
            moved.map(|(name, troubles)| Write::Conditions(Scope::new(SOURCES, name), troubles)).collect();
        if !writes.is_empty() {
            self.db.commit(writes).await?;
        }
        let read = outlook.sources();
        let stays = |one: &&UnassignedManifest| {
            self.config.sources.iter().any(|source| source.name == one.source) && !read.contains(&one.source)
        };
        let mut elsewhere: Vec<UnassignedManifest> = status.elsewhere.iter().filter(stays).cloned().collect();
        let unassigned = UnassignedManifest::of(&outlook.desired, |key| entry_for(&self.config, key));
        elsewhere.extend(unassigned.into_iter().filter(|one| !is_folder(&one.source)));
        elsewhere.sort();
        if elsewhere != status.elsewhere {
            self.db.note(vec![Notice::UnassignedManifests(elsewhere)]).await?;
        }
        Ok(())
    }
}
