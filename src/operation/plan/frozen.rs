//! What is frozen, and why.
//!
//! Guarantees: pure.

use super::{document::Frozen, options::Options};
use reconciled_engine::{Desired, SourceState, survey::Survey};
use reconciled_provider::ManifestKey;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Most files that a reason names.
const FILES: usize = 3;

/// What may not be touched, by source and reason.
pub(super) fn frozen(survey: &Survey, desired: &Desired, options: &Options<'_>) -> Vec<Frozen> {
    let mut groups: BTreeMap<(Arc<str>, String), (BTreeSet<String>, usize)> = BTreeMap::new();
    let views = survey.scopes.values().filter_map(|view| view.as_ref().ok());
    let all = views.flat_map(|view| &view.plan.frozen);
    for (key, count) in all.filter(|(key, _)| options.is_configured(key.source())) {
        let reason = why_frozen(key, desired);
        let group = groups.entry((key.source().into(), reason)).or_default();
        group.0.insert(called(key));
        group.1 += count;
    }
    let row = |((source, reason), (manifests, tracked)): (_, (BTreeSet<String>, _))| Frozen {
        source,
        reason,
        manifests: manifests.into_iter().collect(),
        tracked,
    };
    groups.into_iter().map(row).collect()
}

/// Why what a manifest declared is neither changed, restored nor deleted.
pub fn why_frozen(key: &ManifestKey, desired: &Desired) -> String {
    match desired.sources.get(key.source()) {
        None => "its source was not read".to_string(),
        Some(state) if state.unassigned.contains(key) => {
            "its provider is not configured on this host".to_string()
        }
        Some(state) if state.is_unassigned_somewhere(key) => {
            "what it contributes to is for a provider that is not configured on this host".to_string()
        }
        Some(state) if state.may_be_elsewhere(key) => format!(
            "{} is declared in another group now, of which no provider is configured on this host",
            called(key)
        ),
        Some(state) if !state.broken.is_empty() => {
            format!("files with errors may still declare it: {}", listed(&state.broken))
        }
        Some(SourceState { awaits: Some(other), .. }) => match desired.sources.get(other) {
            Some(state) if !state.broken.is_empty() => in_error(other, state),
            _ => format!(
                "source {other} of the same repository is not known to be as far, and may declare it by now"
            ),
        },
        Some(SourceState { newest: Some(newest), prunes: false, .. }) => {
            format!("its newest revision, {newest}, is not in force, has errors, and may still declare it")
        }
        Some(SourceState { newest: Some(newest), .. }) if is_shared_by_newest(key, desired) => {
            in_newest(newest)
        }
        Some(state) if state.revision.is_empty() => {
            "a folder deletes nothing unless it stands for a source (--source)".to_string()
        }
        Some(state) if state.is_whole() => why_kept(key.source(), desired),
        Some(_) => "its source has errors".to_string(),
    }
}

/// Why something of a source is kept of which it is known that what is in force declares it no longer: others declare it as well, or
/// may.
fn why_kept(source: &str, desired: &Desired) -> String {
    let declares = |name: &str| desired.set_aside.values().any(|by| by.contains(name));
    let newest = |name: &str| desired.sources.get(name)?.newest.as_ref().filter(|_| declares(name));
    if let Some(newest) = newest(source) {
        return in_newest(newest);
    }
    let is_unread =
        |other: &SourceState| !other.broken.is_empty() || other.revision.is_empty() && !other.prunes;
    let other = desired.sources.iter().find(|(_, other)| is_unread(other));
    match other.filter(|_| !desired.set_aside.is_empty()) {
        Some((name, other)) if other.broken.is_empty() => {
            format!("source {name} could not be read, and may declare it by now")
        }
        Some((name, other)) => in_error(name, other),
        None => match desired.sources.keys().find_map(|name| Some((name, newest(name)?))) {
            Some((name, newest)) => {
                format!("{newest}, the newest revision of source {name}, is not in force and may declare it")
            }
            None => "a person suspended it (reconciled status)".to_string(),
        },
    }
}

/// True where its values in what is shared are kept, since a revision that is not in force has them.
fn is_shared_by_newest(key: &ManifestKey, desired: &Desired) -> bool {
    desired.shared_by_newest.values().any(|keys| keys.contains(key))
}

fn in_error(source: &str, state: &SourceState) -> String {
    format!("files of source {source} with errors may declare it by now: {}", listed(&state.broken))
}

fn in_newest(newest: &str) -> String {
    format!("its newest revision, {newest}, declares it and is not in force")
}

/// What people call the manifest.
fn called(key: &ManifestKey) -> String {
    let name = format!("{}/{}", key.kind(), key.name());
    if key.namespace().is_empty() { name } else { format!("{}/{name}", key.namespace()) }
}

/// Names of the first of some files.
fn listed(files: &BTreeSet<Arc<str>>) -> String {
    let first: Vec<&str> =
        files.iter().take(FILES).map(|file| if file.is_empty() { "." } else { &**file }).collect();
    let more = files.len().saturating_sub(FILES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    first.join(", ") + &rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{ResourceId, Scope};

    #[test]
    fn what_a_revision_that_is_not_in_force_declares_is_kept_for_that_and_for_nobodys_word() {
        let check = |newest: [Option<&str>; 2], prunes: bool, aside: &[&str], expect: &str| {
            let state = |newest: Option<&str>, prunes: bool| SourceState {
                revision: "5e09e96".into(),
                newest: newest.map(Arc::from),
                prunes,
                ..SourceState::default()
            };
            let [own, others] = newest;
            let place = (Scope::new("zones", "example.com"), ResourceId::from("www/A"));
            let by: BTreeSet<Arc<str>> = aside.iter().map(|name| Arc::from(*name)).collect();
            let desired = Desired {
                sources: [("infra".into(), state(own, prunes)), ("team".into(), state(others, true))].into(),
                set_aside: [(place, by)].into(),
                ..Desired::default()
            };
            let key = ManifestKey::new("infra", "dns", "Zone", "", "example.com");
            assert_eq!(why_frozen(&key, &desired), expect, "{newest:?} {prunes} {aside:?}");
        };
        let own = "its newest revision, c0ffee1, declares it and is not in force";
        let others = "c0ffee2, the newest revision of source team, is not in force and may declare it";
        let short = "its newest revision, c0ffee1, is not in force, has errors, and may still declare it";
        let suspended = "a person suspended it (reconciled status)";
        check([Some("c0ffee1"), None], true, &["infra"], own);
        check([None, Some("c0ffee2")], true, &["team"], others);
        check([Some("c0ffee1"), Some("c0ffee2")], true, &["team"], others);
        check([Some("c0ffee1"), None], false, &[], short);
        check([Some("c0ffee1"), None], true, &[], suspended);
        check([None, None], true, &[], suspended);
    }

    #[test]
    fn what_may_have_gone_to_a_source_that_is_behind_is_kept_for_that() {
        let state =
            SourceState { revision: "5e09e96".into(), awaits: Some("apps".into()), ..SourceState::default() };
        let desired = Desired { sources: [("infra".into(), state)].into(), ..Desired::default() };
        let key = ManifestKey::new("infra", "dns", "Zone", "", "example.com");
        let kept = "source apps of the same repository is not known to be as far, and may declare it by now";
        assert_eq!(why_frozen(&key, &desired), kept);
        let broken = SourceState { broken: ["moved.yaml".into()].into(), ..SourceState::default() };
        let sources = desired.sources.into_iter().chain([("apps".into(), broken)]).collect();
        let kept = "files of source apps with errors may declare it by now: moved.yaml";
        assert_eq!(why_frozen(&key, &Desired { sources, ..Desired::default() }), kept);
    }

    #[test]
    fn who_shares_something_by_a_newer_revision_is_kept_for_that() {
        let key = ManifestKey::new("infra", "dns", "RecordSet", "", "more");
        let place = (Scope::new("zones", "example.com"), ResourceId::from("www/A"));
        let state = SourceState {
            revision: "5e09e96".into(),
            newest: Some("c0ffee1".into()),
            prunes: true,
            ..SourceState::default()
        };
        let desired = Desired {
            sources: [("infra".into(), state)].into(),
            shared_by_newest: [(place, [key.clone()].into())].into(),
            ..Desired::default()
        };
        let kept = "its newest revision, c0ffee1, declares it and is not in force";
        assert_eq!(why_frozen(&key, &desired), kept);
    }
}
