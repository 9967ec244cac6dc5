//! The scenarios: what is declared when, what others do meanwhile, and what the world must look like in the end.

pub(crate) mod claims;
pub(crate) mod cloud;
pub(crate) mod host;
pub(crate) mod moves;
pub(crate) mod shared;
pub(crate) mod zone;

use crate::memory::Broken;
use reconciled_engine::{Desired, ManifestMeta, SourceState, plan::guard::GuardLimits};
use reconciled_provider::{
    Address, Deletion, Hash, ManifestKey, Origin, Owner, Policy, Resource, ResourceId, Scope, Spec,
};
use reconciled_testkit::{Fault, Role};
use std::{collections::BTreeMap, sync::Arc};

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// Once everything before has come to rest.
    AtRest,
    /// After this many points have been passed since the last event: in the middle of things.
    AfterPoints(usize),
}

/// What happens.
#[derive(Clone)]
pub(crate) enum Do {
    /// A commit.
    Commit(Arc<Desired>),
    /// Somebody changes a remote by hand.
    Hand { scope: Scope, id: &'static str, content: Option<&'static str> },
    /// Somebody adds a line to what is there, unless it has that.
    Add { scope: Scope, id: &'static str, line: &'static str },
    /// A person consents to what is held.
    Approve,
    /// The first process freezes, and another one starts.
    FreezeAndStartAnother,
}

pub(crate) type Contents = BTreeMap<String, Vec<String>>;

#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) roles: Vec<(&'static str, Role)>,
    pub(crate) before: Vec<(Scope, &'static str, &'static str)>,
    pub(crate) script: Vec<(When, Do)>,
    pub(crate) expect: BTreeMap<Scope, Contents>,
    pub(crate) excluded: Vec<Fault>,
    /// A person approves what is held, after a while.
    pub(crate) operator: bool,
    /// Only the first time: one word has to do for all of a plan, whatever goes wrong.
    pub(crate) consents_once: bool,
    pub(crate) guard: GuardLimits,
    /// Replacements delete what is desired, for a moment.
    pub(crate) replaces: bool,
    /// Nothing is deleted: what is declared otherwise is the same thing.
    pub(crate) keeps: bool,
    /// What is there in the end, as it was but for our mark, and of which nothing is remembered.
    pub(crate) abandoned: &'static [&'static str],
    /// What misleads the engine, so that the checks have something to find.
    pub(crate) broken: Option<Broken>,
    /// What somebody does whenever something went wrong, before anybody looks again.
    pub(crate) meddles: Option<Do>,
    /// Names of rare paths that must be hit at least once over all runs.
    pub(crate) must_hit: &'static [&'static str],
    /// The scheduler decides when, not one loop over everything.
    pub(crate) scheduled: bool,
}

fn scope(text: &str) -> Scope {
    text.parse().unwrap()
}

/// Builds a desired state. Items are `SCOPE|KEY|CONTENT|AFTER,…|MANIFEST`; each key is a manifest of its own unless it names one.
pub(crate) struct Build {
    revision: &'static str,
    items: Vec<String>,
    prunes: bool,
    merge: bool,
    deletion: Deletion,
    moved_from: Vec<(&'static str, &'static str)>,
}

pub(crate) fn desired(revision: &'static str, items: &[&str]) -> Build {
    Build {
        revision,
        items: items.iter().map(|s| s.to_string()).collect(),
        prunes: true,
        merge: false,
        deletion: Deletion::Delete,
        moved_from: Vec::new(),
    }
}

impl Build {
    fn invalid(self) -> Build {
        Build { prunes: false, ..self }
    }
    fn merged(self) -> Build {
        Build { merge: true, ..self }
    }
    pub(crate) fn abandoned(self) -> Build {
        Build { deletion: Deletion::Abandon, ..self }
    }
    pub(crate) fn moved(mut self, to: &'static str, from: &'static str) -> Build {
        self.moved_from.push((to, from));
        self
    }
    pub(crate) fn done(self) -> Arc<Desired> {
        let mut desired = Desired::default();
        let state = SourceState {
            revision: self.revision.into(),
            label: self.revision.into(),
            prunes: self.prunes,
            ..SourceState::default()
        };
        desired.sources.insert("s".into(), state);
        for (line, item) in self.items.iter().enumerate() {
            let mut parts = item.split('|');
            let (place, key, content) =
                (scope(parts.next().unwrap()), parts.next().unwrap(), parts.next().unwrap());
            let after = parts.next().filter(|after| !after.is_empty());
            let after: Vec<ManifestKey> =
                after.into_iter().flat_map(|a| a.split(',')).map(manifest_key).collect();
            let name = parts.next().unwrap_or(key);
            let policy = desired.policies.intern(Policy {
                merge: self.merge,
                deletion: Some(self.deletion),
                ..Policy::default()
            });
            let known = desired.manifests.iter().position(|manifest| manifest.key == manifest_key(name));
            let index = known.unwrap_or(desired.manifests.len());
            match desired.manifests.get_mut(index) {
                Some(manifest) => {
                    let both = [manifest.content.to_string(), content.to_string()].concat();
                    manifest.content = Hash::of(both.as_bytes());
                }
                None => desired.manifests.push(ManifestMeta {
                    key: manifest_key(name),
                    address: Address { part: None, ..address(name) },
                    file: "f.yaml".into(),
                    line: line as u32 + 1,
                    content: Hash::of(content.as_bytes()),
                    labels: BTreeMap::new(),
                    after: after.into(),
                    moved_from: self
                        .moved_from
                        .iter()
                        .find(|(to, _)| *to == key)
                        .map(|(_, from)| address(from)),
                }),
            }
            Arc::make_mut(desired.scopes.entry(place.clone()).or_default()).push(Resource::new(
                key.into(),
                Arc::new(place),
                Spec::known(content.as_bytes().to_vec()),
                Origin { manifest: index as u32, line: line as u32 + 1 },
                policy,
            ));
        }
        desired.scopes.values_mut().for_each(|list| Arc::make_mut(list).sort_by(|a, b| a.id.cmp(&b.id)));
        Arc::new(desired)
    }
}

fn manifest_key(name: &str) -> ManifestKey {
    ManifestKey::new("s", "test", "Thing", "", name)
}

fn address(name: &str) -> Address {
    Address { part: Some(name.into()), ..format!("Thing/{name}").parse().unwrap() }
}

fn contents(items: &[(&str, &str)]) -> Contents {
    items.iter().map(|(key, content)| (key.to_string(), vec![content.to_string()])).collect()
}

const THREE: [&str; 3] = ["zone/z|a|a@g1", "zone/z|b|b@g1", "zone/z|c|c@g1"];
const ALL_THREE: [(&str, &str); 3] = [("a", "a@g1"), ("b", "b@g1"), ("c", "c@g1")];

/// One zone, limits that only count, and nothing declared.
fn base() -> Scenario {
    Scenario {
        name: "",
        roles: vec![("zone", Role::Zone)],
        before: vec![],
        script: vec![],
        expect: BTreeMap::new(),
        excluded: vec![],
        operator: false,
        consents_once: false,
        guard: GuardLimits { max_delete_percent: 100, max_update_percent: 100, ..GuardLimits::default() },
        replaces: false,
        keeps: false,
        abandoned: &[],
        broken: None,
        meddles: None,
        must_hit: &["crash with an open intent", "commit refused"],
        scheduled: false,
    }
}

fn host() -> Vec<(&'static str, Role)> {
    vec![("host", Role::Host)]
}

fn cloud(tokens: bool) -> Vec<(&'static str, Role)> {
    vec![("cloud", Role::Cloud { tokens })]
}

fn commit(build: Build) -> Do {
    Do::Commit(build.done())
}

/// Files by the letters of `keys`, each with its letter in it.
fn files(revision: &'static str, keys: &str) -> Build {
    let items: Vec<String> = keys.chars().map(|key| format!("host/files|{key}|{key}")).collect();
    desired(revision, &items.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Somebody adds a line of theirs.
fn another(place: &str, id: &'static str) -> Do {
    Do::Add { scope: scope(place), id, line: "theirs too" }
}

impl Scenario {
    /// Whose mark is on what was there before, and on what somebody writes by hand.
    pub(crate) fn owner_of_before() -> Owner {
        Owner::Unmarked
    }

    pub(crate) fn scopes(&self) -> Vec<Scope> {
        self.expect.keys().cloned().collect()
    }
}

/// True when `desired` wants `id` in `scope`.
pub(crate) fn wants(desired: &Desired, scope: &Scope, id: &ResourceId) -> bool {
    desired.in_scope(scope).iter().any(|r| r.id == *id)
}
