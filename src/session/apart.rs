//! Sources of one repository that are not at one commit: the other may declare by now what this one declares no longer.
//!
//! Guarantees: what leaves one source while another one of the same repository is not known to be as far is not deleted, whichever way
//! that came about: it cannot be read, refuses the commit, was not asked yet, or is at the commit with errors: what left may be in what
//! cannot be read of it. It is told by the commits of sources that follow the same ref, and their errors, so that it holds for `plan`,
//! `apply` and the daemon alike and after a restart. Of other refs it is enough that they answered since: the daemon says whether
//! ([`Snapshot::awaits`]), to whoever plans for it as well. One that begins knows of none that has, and who has no daemon asks them, and asks
//! those once more that were asked before another one was found to have moved. It deliberately keeps no declaration from counting.

use super::{
    open::Session,
    outlook::Outlook,
    siblings::{Siblings, siblings},
    sources::{Snapshot, blocking},
};
use crate::{
    config::{Config, GitRef, SourceConfig},
    failure::Failure,
};
use reconciled_engine::{Desired, SourceState};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Session {
    /// The other sources of the repository of each. Looked for once: a place may hang, and what waits for it must wait no second time.
    pub async fn siblings(&self) -> Result<Arc<Siblings>, Failure> {
        let found = self.siblings.get_or_try_init(|| {
            let config = self.config.clone();
            blocking(move || Ok(Arc::new(siblings(&config))))
        });
        found.await.cloned()
    }

    /// Has sources wait with what they delete for those that are behind, or of which not all can be read.
    pub(super) fn await_who_is_behind(&self, siblings: &Siblings, outlook: &mut Outlook) {
        let Outlook { withheld, desired, .. } = &*outlook;
        let is_whole = |name: &Arc<str>| {
            !withheld.contains(name) && desired.sources.get(name).is_some_and(SourceState::is_whole)
        };
        let mut awaited = apart(&self.config, siblings, &outlook.snapshots, is_whole);
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

/// Has `snapshots` wait for sources of other refs that could not be asked beside them.
pub(super) fn await_unasked(config: &Config, siblings: &Siblings, snapshots: &mut [Snapshot]) {
    let mut awaited = BTreeMap::new();
    for (name, others) in siblings {
        let is_unasked = |other: &&Arc<str>| {
            let may_pass = |there: &Snapshot| there.behind.as_ref().is_some_and(|error| error.may_pass());
            follows(config, other) != follows(config, name) && at(snapshots, other).is_none_or(may_pass)
        };
        if let Some(other) = others.iter().find(is_unasked) {
            awaited.insert(name, other.clone());
        }
    }
    for snapshot in snapshots.iter_mut().filter(|snapshot| !is_chosen(snapshot)) {
        snapshot.awaits = awaited.remove(&snapshot.name).or(snapshot.awaits.take());
    }
}

/// Of the sources `moved` one of the repository of `source`, with another ref, that was not told of both at once: what left it may be in
/// this one since that was asked.
pub(super) fn left_by<'m>(
    config: &Config,
    siblings: &Siblings,
    source: &SourceConfig,
    moved: &'m BTreeSet<Arc<str>>,
) -> Option<&'m Arc<str>> {
    let others = siblings.get(&source.name)?;
    let is_told_apart = |other: &&Arc<str>| {
        let other = config.sources.iter().find(|one| one.name == **other);
        other.is_some_and(|other| other.reference != source.reference && !other.shares_remote(source))
    };
    moved.iter().filter(|other| others.contains(*other)).find(is_told_apart)
}

/// Has `snapshots` wait for sources of other refs as a daemon has them wait, by what it has `in_force`; not for those that it will have
/// `heard` by the time that it does what is planned. Where one moved since, it asks the others as they were asked for this.
pub fn await_alike(
    config: &Config,
    in_force: &Desired,
    heard: &BTreeSet<Arc<str>>,
    snapshots: &mut [Snapshot],
) {
    for snapshot in snapshots.iter_mut().filter(|snapshot| !is_chosen(snapshot)) {
        let state = in_force.sources.get(&snapshot.name);
        let has_moved = state.is_none_or(|state| state.revision != snapshot.revision);
        let is_other = |other: &Arc<str>| follows(config, other) != follows(config, &snapshot.name);
        let known = state.and_then(|state| state.awaits.clone());
        let known = known.filter(|other| !heard.contains(other) && is_other(other));
        snapshot.awaits = known.or(snapshot.awaits.take().filter(|_| has_moved));
    }
}

/// The sources that follow the same ref of the same repository as another one, the first of which is named, and have no revision in
/// common with it, or of which that one is not whole. What a person named, as a folder, is where it shall be; what cannot be read of it
/// may be anything all the same.
fn apart(
    config: &Config,
    siblings: &Siblings,
    snapshots: &[Snapshot],
    is_whole: impl Fn(&Arc<str>) -> bool,
) -> BTreeMap<Arc<str>, Arc<str>> {
    let mut apart = BTreeMap::new();
    for (name, others) in siblings {
        let Some(snapshot) = at(snapshots, name) else { continue };
        let is_elsewhere =
            |there: &Snapshot| !is_chosen(snapshot) && !is_chosen(there) && !meet(snapshot, there);
        let is_behind = |other: &&Arc<str>| {
            let is_alike = follows(config, other) == follows(config, name);
            is_alike && (!is_whole(other) || at(snapshots, other).is_none_or(is_elsewhere))
        };
        if let Some(other) = others.iter().find(is_behind) {
            apart.insert(name.clone(), other.clone());
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
        config::Environment,
        session::{siblings::tests::config, sources::files},
        source::{FolderTree, Limits, SourceError},
    };
    use std::path::Path;

    fn snapshot(config: &Config, name: &str, revision: &str) -> Snapshot {
        let source = config.sources.iter().find(|source| *source.name == *name);
        let tree = FolderTree::from_stream(&b""[..], Limits::default()).unwrap();
        Snapshot { revision: revision.into(), ..files(Box::new(tree), source) }
    }

    #[tokio::test]
    async fn sources_of_one_repository_are_looked_for_once() {
        let dir = tempfile::tempdir().unwrap();
        let [file, repo, link] = ["config.yaml", "repo.git", "link.git"].map(|name| dir.path().join(name));
        std::fs::create_dir(&repo).unwrap();
        let source = |name: &str, place: &Path| {
            format!("  - {{name: {name}, url: {}, allow: all}}\n", place.display())
        };
        let sources = source("a", &repo) + &source("b", &link);
        let state = dir.path().join("state");
        std::fs::write(&file, format!("stateDir: {}\nsources:\n{sources}", state.display())).unwrap();
        let session = Session::open(Some(&file), Environment::of([])).await.unwrap();
        let found = session.siblings().await.unwrap();
        std::os::unix::fs::symlink(&repo, &link).unwrap();
        // Whoever asked the file system again would be told otherwise, or nothing while the place hangs.
        assert_ne!(siblings(&session.config), *found);
        assert_eq!(session.siblings().await.unwrap(), found);
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
        let check_with = |broken: &str, snapshots: Vec<Snapshot>, expect: &[(&str, &str)]| {
            let found = apart(&config, &siblings(&config), &snapshots, |name| **name != *broken);
            let found: Vec<(&str, &str)> = found.iter().map(|(name, other)| (&**name, &**other)).collect();
            assert_eq!(found, expect);
        };
        let check = |snapshots: Vec<Snapshot>, expect: &[(&str, &str)]| check_with("", snapshots, expect);
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
        // At the same commit, and not all of it can be read.
        let all = || vec![at("a", "2"), at("b", "2"), at("tags", "2"), at("other", "2")];
        check_with("b", all(), &[("a", "b")]);
        check_with("tags", all(), &[]);
        check_with("b", vec![at("a", "2"), known("b", "1", "2")], &[("a", "b")]);
        check_with("b", vec![named("a", "2"), named("b", "2")], &[("a", "b")]);
    }

    #[test]
    fn who_has_no_daemon_awaits_sources_of_other_refs_that_do_not_answer() {
        let config = config(&[
            "name: a, url: /srv/infra.git, path: a",
            "name: b, url: /srv/infra.git, path: b",
            "name: tags, url: /srv/infra.git, ref: {tag: v1}",
        ]);
        let at = |name: &str, revision: &str| snapshot(&config, name, revision);
        let url = || "/srv/infra.git".to_owned();
        let behind = |error: SourceError| Snapshot { behind: Some(error.into()), ..at("tags", "1") };
        let check = |tags: Option<Snapshot>, expect: [Option<&str>; 2]| {
            let mut snapshots = vec![at("a", "2"), at("b", "")];
            snapshots.extend(tags);
            await_unasked(&config, &siblings(&config), &mut snapshots);
            let awaits = |index: usize| snapshots[index].awaits.as_deref();
            assert_eq!([awaits(0), awaits(1)], expect);
        };
        check(Some(at("tags", "1")), [None, None]);
        // It has not answered, or was never had; a folder stands where it shall.
        check(Some(behind(SourceError::TransferTooSlow { url: url(), seconds: 9 })), [Some("tags"), None]);
        check(None, [Some("tags"), None]);
        // It has, with what nobody has to believe.
        check(Some(behind(SourceError::Empty { url: url() })), [None, None]);
    }

    #[test]
    fn who_plans_for_a_daemon_awaits_sources_of_other_refs_as_that_does() {
        let config = config(&[
            "name: a, url: /srv/infra.git, path: a",
            "name: b, url: /srv/infra.git, path: b",
            "name: tags, url: /srv/infra.git, ref: {tag: v1}",
        ]);
        let check_with = |own: Option<&str>,
                          awaits: Option<&str>,
                          heard: &[&str],
                          revision: &str,
                          expect: Option<&str>| {
            let awaits = awaits.map(Arc::from);
            let state = SourceState { revision: "1".into(), awaits, ..SourceState::default() };
            let in_force = Desired { sources: [("a".into(), state)].into(), ..Desired::default() };
            let heard = heard.iter().map(|name| Arc::from(*name)).collect();
            let mut snapshots = [snapshot(&config, "a", revision), snapshot(&config, "b", revision)];
            snapshots[0].awaits = own.map(Arc::from);
            await_alike(&config, &in_force, &heard, &mut snapshots);
            assert_eq!(snapshots.each_ref().map(|one| one.awaits.as_deref()), [expect, None]);
        };
        let check = |awaits: &str, heard: &[&str], revision: &str, expect: Option<&str>| {
            check_with(None, Some(awaits), heard, revision, expect)
        };
        check("tags", &[], "2", Some("tags"));
        check("tags", &["a", "b"], "2", Some("tags"));
        // It has answered by then.
        check("tags", &["tags"], "2", None);
        // Of the same ref commits tell, and a folder stands where it shall.
        check("b", &[], "2", None);
        check("tags", &[], "", None);
        // Where it moved it asks anew, and who did not answer for the plan may not then; else it has asked.
        check_with(Some("tags"), None, &["a", "b"], "2", Some("tags"));
        check_with(Some("tags"), None, &["a", "b"], "1", None);
    }
}
