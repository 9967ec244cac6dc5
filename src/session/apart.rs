//! Sources of one repository that are not at one commit: the other may declare by now what this one declares no longer.
//!
//! Guarantees: what leaves one source while another one of the same repository is not known to be as far is not deleted, whichever way
//! that came about: it cannot be read, refuses the commit, or was not asked yet. It is told by the commits of sources that follow
//! the same ref, so that it holds for `plan`, `apply` and the daemon alike and after a restart; of other refs the daemon says it
//! ([`Snapshot::awaits`]), to whoever plans for it as well, as long as it knows. It deliberately keeps no declaration from counting.

use super::{Outlook, Session, Snapshot, sources};
use crate::config::{Config, GitRef, SourceConfig};
use reconciled_engine::Desired;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Session {
    /// Has sources wait with what they delete for those that are behind.
    pub(super) fn await_who_is_behind(&self, outlook: &mut Outlook) {
        let mut awaited = apart(&self.config, &outlook.snapshots);
        for snapshot in &outlook.snapshots {
            if let Some(other) = &snapshot.awaits {
                awaited.entry(snapshot.name.clone()).or_insert_with(|| other.clone());
            }
        }
        for (name, other) in awaited {
            if let Some(state) = outlook.desired.sources.get_mut(&name) {
                state.awaits = Some(other);
            }
        }
    }
}

/// Has `snapshots` wait for sources of other refs as a daemon has them wait, by what it has `in_force`; not for those that it will have
/// `heard` by the time that it does what is planned.
pub fn await_alike(
    config: &Config,
    in_force: &Desired,
    heard: &BTreeSet<Arc<str>>,
    snapshots: &mut [Snapshot],
) {
    for snapshot in snapshots.iter_mut().filter(|snapshot| !is_chosen(snapshot)) {
        let awaits = in_force.sources.get(&snapshot.name).and_then(|state| state.awaits.clone());
        let is_other = |other: &Arc<str>| follows(config, other) != follows(config, &snapshot.name);
        snapshot.awaits = awaits.filter(|other| !heard.contains(other) && is_other(other));
    }
}

/// The other sources of its repository, by source; they have a url in common.
pub fn siblings(config: &Config) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
    let places = |source: &SourceConfig| -> BTreeSet<String> {
        source.urls.iter().map(|url| sources::repository(config, url)).collect()
    };
    let all: Vec<(&Arc<str>, BTreeSet<String>)> =
        config.sources.iter().map(|source| (&source.name, places(source))).collect();
    let mut siblings: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for (name, places) in &all {
        let others = all.iter().filter(|(other, theirs)| other != name && !theirs.is_disjoint(places));
        let others = others.map(|(other, _)| Arc::clone(other)).collect();
        siblings.insert(Arc::clone(name), others);
    }
    siblings
}

/// The sources that follow the same ref of the same repository as another one, the first of which is named, and have no revision in
/// common with it. What a person named, as a folder, is where it shall be.
fn apart(config: &Config, snapshots: &[Snapshot]) -> BTreeMap<Arc<str>, Arc<str>> {
    let mut apart = BTreeMap::new();
    for (name, others) in siblings(config) {
        let Some(snapshot) = at(snapshots, &name).filter(|snapshot| !is_chosen(snapshot)) else { continue };
        let is_behind = |other: &&Arc<str>| {
            let is_alike = follows(config, other) == follows(config, &name);
            is_alike && at(snapshots, other).is_none_or(|other| !is_chosen(other) && !meet(snapshot, other))
        };
        if let Some(other) = others.iter().find(is_behind) {
            apart.insert(name, other.clone());
        }
    }
    apart
}

fn at<'a>(snapshots: &'a [Snapshot], name: &str) -> Option<&'a Snapshot> {
    snapshots.iter().find(|snapshot| *snapshot.name == *name)
}

fn follows<'a>(config: &'a Config, name: &str) -> Option<&'a GitRef> {
    config.sources.iter().find(|source| *source.name == *name).map(|source| &source.reference)
}

fn is_chosen(snapshot: &Snapshot) -> bool {
    snapshot.is_named || snapshot.revision.is_empty()
}

/// Whether one is known to be, or to have been offered, what the other is.
fn meet(one: &Snapshot, other: &Snapshot) -> bool {
    one.revisions().any(|mine| other.revisions().any(|theirs| mine == theirs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::parse,
        source::{FolderTree, Limits},
    };
    use reconciled_engine::SourceState;
    use reconciled_provider::SourceFile;

    fn config(sources: &[&str]) -> Config {
        let sources: String = sources.iter().map(|keys| format!("  - {{{keys}, allow: all}}\n")).collect();
        let file = SourceFile::new("/etc/reconciled/config.yaml", format!("sources:\n{sources}"));
        let (config, problems) = parse(file.into(), &Default::default());
        config.unwrap_or_else(|| panic!("{problems:?}"))
    }

    fn snapshot(config: &Config, name: &str, revision: &str) -> Snapshot {
        let source = config.sources.iter().find(|source| *source.name == *name);
        let tree = FolderTree::from_stream(&b""[..], Limits::default()).unwrap();
        Snapshot { revision: revision.into(), ..sources::files(Box::new(tree), source) }
    }

    #[test]
    fn sources_with_a_url_in_common_are_of_one_repository_however_it_is_written() {
        let config = config(&[
            "name: a, url: /srv/infra.git",
            "name: b, url: file:///srv/infra/",
            "name: c, url: infra.git",
            "name: d, url: [https://example.com/dns.git, /srv/infra/.git], branch: other",
            "name: e, url: https://example.com/dns",
            "name: f, url: https://example.com/else",
        ]);
        let siblings = siblings(&config);
        let of = |name: &str| siblings[name].iter().map(|other| &**other).collect::<Vec<_>>();
        assert_eq!(of("a"), ["b", "d"]);
        assert_eq!(of("d"), ["a", "b", "e"]);
        assert_eq!(of("e"), ["d"]);
        assert!(of("c").is_empty() && of("f").is_empty());
    }

    #[test]
    fn who_is_ahead_of_a_source_of_the_same_ref_awaits_it() {
        let config = config(&[
            "name: a, url: /srv/infra.git, path: a",
            "name: b, url: /srv/infra.git, path: b",
            "name: tags, url: /srv/infra.git, ref: {tag: v1}",
            "name: other, url: /srv/other.git",
        ]);
        let at = |name: &str, revision: &str| snapshot(&config, name, revision);
        let known = |name: &str, revision: &str, newest: &str| Snapshot {
            newest: Some(Box::new(at(name, newest))),
            ..at(name, revision)
        };
        let named = |name: &str, revision: &str| Snapshot { is_named: true, ..at(name, revision) };
        let check = |snapshots: Vec<Snapshot>, expect: &[(&str, &str)]| {
            let found = apart(&config, &snapshots);
            let found: Vec<(&str, &str)> = found.iter().map(|(name, other)| (&**name, &**other)).collect();
            assert_eq!(found, expect);
        };
        // Neither other refs nor other repositories count.
        check(vec![at("a", "2"), at("b", "2"), at("tags", "1"), at("other", "3")], &[]);
        check(vec![at("a", "2"), at("b", "1")], &[("a", "b"), ("b", "a")]);
        // Nothing was ever had of it.
        check(vec![at("a", "2"), at("tags", "1")], &[("a", "b")]);
        // What it declares in the newest revision is known, and kept for that.
        check(vec![at("a", "2"), known("b", "1", "2")], &[]);
        check(vec![at("a", "3"), known("b", "1", "2")], &[("a", "b"), ("b", "a")]);
        // A person's choice, and a folder in place of a source.
        check(vec![named("a", "1"), at("b", "2")], &[]);
        check(vec![at("a", ""), at("b", "2")], &[]);
    }

    #[test]
    fn who_plans_for_a_daemon_awaits_sources_of_other_refs_as_that_does() {
        let config = config(&[
            "name: a, url: /srv/infra.git, path: a",
            "name: b, url: /srv/infra.git, path: b",
            "name: tags, url: /srv/infra.git, ref: {tag: v1}",
        ]);
        let check = |awaits: &str, heard: &[&str], revision: &str, expect: Option<&str>| {
            let state = SourceState { awaits: Some(awaits.into()), ..SourceState::default() };
            let in_force = Desired { sources: [("a".into(), state)].into(), ..Desired::default() };
            let heard = heard.iter().map(|name| Arc::from(*name)).collect();
            let mut snapshots = [snapshot(&config, "a", revision), snapshot(&config, "b", revision)];
            await_alike(&config, &in_force, &heard, &mut snapshots);
            assert_eq!(snapshots.each_ref().map(|one| one.awaits.as_deref()), [expect, None]);
        };
        check("tags", &[], "2", Some("tags"));
        check("tags", &["a", "b"], "2", Some("tags"));
        // It has answered by then.
        check("tags", &["tags"], "2", None);
        // Of the same ref commits tell, and a folder stands where it shall.
        check("b", &[], "2", None);
        check("tags", &[], "", None);
    }
}
