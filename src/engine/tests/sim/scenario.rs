//! The scenarios: what is declared when, what others do meanwhile, and what the world must look like in the end.

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

/// Builds a desired state. Items are `SCOPE|KEY|CONTENT|AFTER,…`; each key is a manifest of its own.
pub(crate) struct Build {
    revision: &'static str,
    items: Vec<String>,
    prunes: bool,
    merge: bool,
    deletion: Deletion,
    moved_from: Option<(&'static str, &'static str)>,
}

pub(crate) fn desired(revision: &'static str, items: &[&str]) -> Build {
    Build {
        revision,
        items: items.iter().map(|s| s.to_string()).collect(),
        prunes: true,
        merge: false,
        deletion: Deletion::Delete,
        moved_from: None,
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
    fn moved(self, to: &'static str, from: &'static str) -> Build {
        Build { moved_from: Some((to, from)), ..self }
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
        for (index, item) in self.items.iter().enumerate() {
            let mut parts = item.split('|');
            let (place, key, content) =
                (scope(parts.next().unwrap()), parts.next().unwrap(), parts.next().unwrap());
            let after: Vec<ManifestKey> =
                parts.next().into_iter().flat_map(|a| a.split(',')).map(manifest_key).collect();
            let policy = desired.policies.intern(Policy {
                merge: self.merge,
                deletion: Some(self.deletion),
                ..Policy::default()
            });
            let moved_from = self.moved_from.filter(|(to, _)| *to == key).map(|(_, from)| address(from));
            desired.manifests.push(ManifestMeta {
                key: manifest_key(key),
                address: Address { part: None, ..address(key) },
                file: "f.yaml".into(),
                line: index as u32 + 1,
                content: Hash::of(content.as_bytes()),
                labels: BTreeMap::new(),
                after: after.into(),
                moved_from,
            });
            Arc::make_mut(desired.scopes.entry(place.clone()).or_default()).push(Resource {
                id: key.into(),
                scope: Arc::new(place),
                spec: Spec::known(content.as_bytes().to_vec()),
                origin: Origin { manifest: index as u32, line: index as u32 + 1 },
                policy,
            });
        }
        desired.scopes.values_mut().for_each(|list| Arc::make_mut(list).sort_by(|a, b| a.id.cmp(&b.id)));
        Arc::new(desired)
    }
}

fn manifest_key(name: &str) -> ManifestKey {
    ManifestKey::new("s", "test", "Thing", "", name)
}

fn address(name: &str) -> Address {
    Address { namespace: None, kind: "Thing".into(), group: None, name: name.into(), part: Some(name.into()) }
}

fn contents(items: &[(&str, &str)]) -> Contents {
    items.iter().map(|(key, content)| (key.to_string(), vec![content.to_string()])).collect()
}

/// `old` becomes `new`, and says so.
fn renamed(place: &str) -> Vec<(When, Do)> {
    let items = |name: &str| [format!("{place}|a|a"), format!("{place}|{name}|x")];
    let build = |revision, items: &[String; 2]| desired(revision, &[&items[0], &items[1]]);
    vec![
        (When::AtRest, Do::Commit(build("r1", &items("old")).done())),
        (When::AtRest, Do::Commit(build("r2", &items("new")).moved("new", "old").done())),
    ]
}

const NAMES: &[&str] = &[
    "zone_create",
    "zone_update",
    "zone_delete",
    "zone_swap_in_one_slot",
    "zone_adopts_what_is_equal",
    "zone_commit_arrives_mid_apply",
    "zone_invalid_commit_then_fix",
    "zone_foreign_writer",
    "zone_two_daemons_one_frozen",
    "zone_mass_deletion_is_held",
    "host_threshold_of_deletions_is_never_passed",
    "host_consent_is_for_all_of_a_plan",
    "zone_consent_is_for_all_of_a_plan",
    "zone_merges_with_others",
    "zone_merges_with_others_who_write_meanwhile",
    "host_merges_with_others_who_write_meanwhile",
    "host_batch_with_partial_success",
    "host_update_and_delete",
    "host_commit_arrives_mid_apply",
    "cloud_create_with_tokens",
    "cloud_replace_with_tokens",
    "cloud_create_without_tokens_under_lag",
    "cloud_create_without_tokens_that_nothing_asks_for_meanwhile",
    "cloud_create_in_part",
    "cloud_held_commit_lets_nothing_go",
    "host_move_of_nothing_is_an_update",
    "host_rename_leaves_nothing_behind",
    "cloud_rename_that_finds_nothing_leaves_nothing_behind",
    "chain_across_zone_host_and_cloud",
    "issuer_with_claims",
    "claims_that_end_are_never_held",
    "claims_go_on_beside_a_deletion_that_is_held",
    "two_claims_at_one_name_beside_a_foreign_value",
];

impl Scenario {
    pub(crate) fn all() -> Vec<Scenario> {
        NAMES.iter().map(|name| Scenario::named(name)).collect()
    }

    pub(crate) fn named(name: &'static str) -> Scenario {
        use When::*;
        let zone = || vec![("zone", Role::Zone)];
        let host = || vec![("host", Role::Host)];
        let cloud = |tokens| vec![("cloud", Role::Cloud { tokens })];
        let commit = |build: Build| Do::Commit(build.done());
        let files = |revision, keys: &str| {
            let items: Vec<String> = keys.chars().map(|key| format!("host/files|{key}|{key}")).collect();
            desired(revision, &items.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let three = ["zone/z|a|a@g1", "zone/z|b|b@g1", "zone/z|c|c@g1"];
        let all_three = [("a", "a@g1"), ("b", "b@g1"), ("c", "c@g1")];
        let base = Scenario {
            name,
            roles: zone(),
            before: vec![],
            script: vec![],
            expect: BTreeMap::new(),
            excluded: vec![],
            operator: false,
            consents_once: false,
            guard: GuardLimits { max_delete_percent: 100, max_update_percent: 100, ..GuardLimits::default() },
            replaces: false,
            meddles: None,
            must_hit: &["crash with an open intent", "commit refused"],
            scheduled: false,
        };
        let another = |place: &str, id| Do::Add { scope: scope(place), id, line: "theirs too" };
        // Beside what others have, ours becomes another one and goes.
        let shared = |place: &str| {
            let [first, second, own] =
                ["txt|ours-a", "txt|ours-b", "own|mine"].map(|i| format!("{place}|{i}"));
            Scenario {
                before: vec![(scope(place), "txt", "theirs")],
                script: vec![
                    (AtRest, commit(desired("r1", &[&first, &own]).merged())),
                    (AtRest, commit(desired("r2", &[&second, &own]).merged())),
                    (AtRest, commit(desired("r3", &[&own]).merged())),
                    (AtRest, another(place, "txt")),
                ],
                meddles: Some(another(place, "txt")),
                expect: [(scope(place), contents(&[("txt", "theirs\ntheirs too"), ("own", "mine")]))].into(),
                ..base.clone()
            }
        };
        match name {
            "zone_create" => Scenario {
                script: vec![(AtRest, commit(desired("r1", &three)))],
                expect: [(scope("zone/z"), contents(&all_three))].into(),
                ..base
            },
            "zone_update" => Scenario {
                script: vec![
                    (AtRest, commit(desired("r1", &three))),
                    (AtRest, commit(desired("r2", &["zone/z|a|a@g2", "zone/z|b|b@g2", "zone/z|c|c@g1"]))),
                ],
                expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g2"), ("c", "c@g1")]))].into(),
                ..base
            },
            "zone_delete" => Scenario {
                before: vec![(scope("zone/z"), "foreign", "f")],
                script: vec![
                    (AtRest, commit(desired("r1", &three))),
                    (AtRest, commit(desired("r2", &["zone/z|a|a@g1"]))),
                ],
                expect: [(scope("zone/z"), contents(&[("a", "a@g1"), ("foreign", "f")]))].into(),
                ..base
            },
            "zone_swap_in_one_slot" => Scenario {
                script: vec![
                    (AtRest, commit(desired("r1", &["zone/z|www/CNAME|x@g1", "zone/z|b|b@g1"]))),
                    (AtRest, commit(desired("r2", &["zone/z|www/A|1@g2", "zone/z|b|b@g1"]))),
                ],
                expect: [(scope("zone/z"), contents(&[("www/A", "1@g2"), ("b", "b@g1")]))].into(),
                ..base
            },
            "zone_adopts_what_is_equal" => Scenario {
                before: vec![(scope("zone/z"), "a", "a@g1"), (scope("zone/z"), "d", "d")],
                script: vec![(AtRest, commit(desired("r1", &three)))],
                expect: [(
                    scope("zone/z"),
                    contents(&[("a", "a@g1"), ("b", "b@g1"), ("c", "c@g1"), ("d", "d")]),
                )]
                .into(),
                ..base
            },
            "zone_commit_arrives_mid_apply" => Scenario {
                script: vec![
                    (AtRest, commit(desired("r1", &three))),
                    (
                        AfterPoints(2),
                        commit(desired("r2", &["zone/z|a|a@g2", "zone/z|b|b@g1", "zone/z|d|d@g2"])),
                    ),
                ],
                expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g1"), ("d", "d@g2")]))].into(),
                ..base
            },
            "zone_invalid_commit_then_fix" => Scenario {
                script: vec![
                    (AtRest, commit(desired("r1", &three))),
                    // The file that declares b and c is broken: nothing of it may go.
                    (AtRest, commit(desired("r2", &["zone/z|a|a@g2"]).invalid())),
                    (AtRest, commit(desired("r3", &["zone/z|a|a@g2", "zone/z|b|b@g3"]))),
                ],
                expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g3")]))].into(),
                ..base
            },
            "zone_foreign_writer" => Scenario {
                script: vec![
                    (AtRest, commit(desired("r1", &three))),
                    (AfterPoints(3), Do::Hand { scope: scope("zone/z"), id: "x", content: Some("x") }),
                    (AtRest, Do::Hand { scope: scope("zone/z"), id: "a", content: Some("vandalized") }),
                    (AtRest, Do::Hand { scope: scope("zone/z"), id: "b", content: None }),
                ],
                expect: [(
                    scope("zone/z"),
                    contents(&[("a", "a@g1"), ("b", "b@g1"), ("c", "c@g1"), ("x", "x")]),
                )]
                .into(),
                ..base
            },
            "zone_two_daemons_one_frozen" => Scenario {
                script: vec![
                    (AtRest, commit(desired("r1", &three))),
                    (AfterPoints(4), Do::FreezeAndStartAnother),
                    (
                        AfterPoints(2),
                        commit(desired("r2", &["zone/z|a|a@g2", "zone/z|b|b@g2", "zone/z|c|c@g2"])),
                    ),
                ],
                expect: [(scope("zone/z"), contents(&[("a", "a@g2"), ("b", "b@g2"), ("c", "c@g2")]))].into(),
                ..base
            },
            "zone_mass_deletion_is_held" => Scenario {
                script: vec![(AtRest, commit(desired("r1", &three))), (AtRest, commit(desired("r2", &[])))],
                operator: true,
                expect: [(scope("zone/z"), contents(&[]))].into(),
                must_hit: &["crash with an open intent", "held"],
                ..base
            },
            "host_threshold_of_deletions_is_never_passed" => Scenario {
                roles: host(),
                script: vec![
                    (AtRest, commit(files("r1", "abcdef"))),
                    (AtRest, commit(files("r2", "cdef"))),
                    (AfterPoints(3), commit(files("r3", "f"))),
                ],
                operator: true,
                guard: GuardLimits { max_deletes: 2, max_delete_percent: 100, ..GuardLimits::default() },
                expect: [(scope("host/files"), contents(&[("f", "f")]))].into(),
                must_hit: &["crash with an open intent", "held"],
                ..base
            },
            "host_consent_is_for_all_of_a_plan" => Scenario {
                roles: host(),
                script: vec![(AtRest, commit(files("r1", "abcd"))), (AtRest, commit(files("r2", "d")))],
                operator: true,
                consents_once: true,
                guard: GuardLimits { max_deletes: 1, max_delete_percent: 100, ..GuardLimits::default() },
                expect: [(scope("host/files"), contents(&[("d", "d")]))].into(),
                must_hit: &["crash with an open intent", "held"],
                ..base
            },
            "zone_consent_is_for_all_of_a_plan" => Scenario {
                script: vec![(AtRest, commit(desired("r1", &three))), (AtRest, commit(desired("r2", &[])))],
                operator: true,
                consents_once: true,
                expect: [(scope("zone/z"), contents(&[]))].into(),
                must_hit: &["crash with an open intent", "held"],
                ..base
            },
            "zone_merges_with_others" => Scenario {
                before: vec![(scope("zone/z"), "txt", "theirs")],
                script: vec![
                    (AtRest, commit(desired("r1", &["zone/z|txt|ours", "zone/z|own|mine"]).merged())),
                    (AtRest, commit(desired("r2", &["zone/z|own|mine"]).merged())),
                ],
                expect: [(scope("zone/z"), contents(&[("txt", "theirs"), ("own", "mine")]))].into(),
                ..base
            },
            "zone_merges_with_others_who_write_meanwhile" => shared("zone/z"),
            // Nothing marks what is ours there: the first write is of what has no row.
            "host_merges_with_others_who_write_meanwhile" => {
                Scenario { roles: host(), ..shared("host/files") }
            }
            "host_batch_with_partial_success" => Scenario {
                roles: host(),
                script: vec![(
                    AtRest,
                    commit(desired("r1", &["host/files|a|a", "host/files|b|b", "host/files|c|c"])),
                )],
                expect: [(scope("host/files"), contents(&[("a", "a"), ("b", "b"), ("c", "c")]))].into(),
                ..base
            },
            "host_update_and_delete" => Scenario {
                roles: host(),
                before: vec![(scope("host/files"), "foreign", "f")],
                script: vec![
                    (AtRest, commit(desired("r1", &["host/files|a|a", "host/files|b|b"]))),
                    (AtRest, commit(desired("r2", &["host/files|a|!a2"]))),
                ],
                replaces: true,
                expect: [(scope("host/files"), contents(&[("a", "!a2"), ("foreign", "f")]))].into(),
                ..base
            },
            "host_commit_arrives_mid_apply" => Scenario {
                roles: host(),
                script: vec![
                    (AtRest, commit(desired("r1", &["host/files|a|a", "host/files|b|b", "host/files|c|c"]))),
                    (AfterPoints(5), commit(desired("r2", &["host/files|a|a2", "host/files|b|b2"]))),
                ],
                expect: [(scope("host/files"), contents(&[("a", "a2"), ("b", "b2")]))].into(),
                ..base
            },
            "cloud_create_with_tokens" => Scenario {
                roles: cloud(true),
                script: vec![(AtRest, commit(desired("r1", &["cloud/q|a|a", "cloud/q|b|b"])))],
                expect: [(scope("cloud/q"), contents(&[("a", "a"), ("b", "b")]))].into(),
                must_hit: &["crash with an open intent", "stale read", "lost answer"],
                ..base
            },
            // A commit that is held and taken back was never there: what it would have let go is made no second time.
            "cloud_held_commit_lets_nothing_go" => Scenario {
                roles: cloud(true),
                script: vec![
                    (
                        AtRest,
                        commit(desired("r1", &["cloud/q|other|o@g1", "cloud/q|queue|q@g1"]).abandoned()),
                    ),
                    (AtRest, commit(desired("r2", &["cloud/q|other|o@g2"]).abandoned())),
                    (
                        AtRest,
                        commit(desired("r3", &["cloud/q|other|o@g1", "cloud/q|queue|q@g1"]).abandoned()),
                    ),
                ],
                expect: [(scope("cloud/q"), contents(&[("other", "o@g1"), ("queue", "q@g1")]))].into(),
                guard: GuardLimits { max_deletes: 0, max_updates: 0, ..GuardLimits::default() },
                must_hit: &["crash with an open intent", "held"],
                ..base
            },
            "cloud_replace_with_tokens" => Scenario {
                roles: cloud(true),
                script: vec![
                    (AtRest, commit(desired("r1", &["cloud/q|a|!a1", "cloud/q|b|b"]))),
                    (AtRest, commit(desired("r2", &["cloud/q|a|!a2", "cloud/q|b|b"]))),
                ],
                replaces: true,
                expect: [(scope("cloud/q"), contents(&[("a", "!a2"), ("b", "b")]))].into(),
                ..base
            },
            "cloud_create_without_tokens_under_lag" => Scenario {
                roles: cloud(false),
                // A request delivered twice makes two objects where nothing can tell them apart.
                excluded: vec![Fault::Duplicate],
                script: vec![(AtRest, commit(desired("r1", &["cloud/q|a|a", "cloud/q|b|b"])))],
                expect: [(scope("cloud/q"), contents(&[("a", "a"), ("b", "b")]))].into(),
                must_hit: &["crash with an open intent", "stale read", "lost answer"],
                ..base
            },
            "cloud_create_without_tokens_that_nothing_asks_for_meanwhile" => Scenario {
                roles: cloud(false),
                excluded: vec![Fault::Duplicate],
                script: vec![
                    (AtRest, commit(desired("r1", &["cloud/q|a|a", "cloud/q|b|b"]))),
                    // The file that declares b is broken for a while.
                    (AfterPoints(3), commit(desired("r2", &["cloud/q|a|a"]).invalid())),
                    (AtRest, commit(desired("r3", &["cloud/q|a|a", "cloud/q|b|b"]))),
                ],
                expect: [(scope("cloud/q"), contents(&[("a", "a"), ("b", "b")]))].into(),
                must_hit: &["crash with an open intent", "lost answer"],
                ..base
            },
            "cloud_create_in_part" => Scenario {
                roles: cloud(true),
                script: vec![(AtRest, commit(desired("r1", &["cloud/q|a|?a"])))],
                expect: [(scope("cloud/q"), contents(&[("a", "?a")]))].into(),
                must_hit: &["made in part, then the rest"],
                ..base
            },
            "host_move_of_nothing_is_an_update" => Scenario {
                roles: host(),
                script: vec![
                    (AtRest, commit(desired("r1", &["host/files|a|a", "host/files|b|b"]))),
                    (AtRest, commit(desired("r2", &["host/files|a|a", "host/files|b|b2"]).moved("b", "old"))),
                ],
                expect: [(scope("host/files"), contents(&[("a", "a"), ("b", "b2")]))].into(),
                ..base
            },
            // Where the name is the identity, another name is another resource, and the old one has to go.
            "host_rename_leaves_nothing_behind" => Scenario {
                roles: host(),
                script: renamed("host/files"),
                expect: [(scope("host/files"), contents(&[("a", "a"), ("new", "x")]))].into(),
                ..base
            },
            // The move finds nothing under the new name, so that one is created; only then may the old row go.
            "cloud_rename_that_finds_nothing_leaves_nothing_behind" => Scenario {
                roles: cloud(true),
                script: renamed("cloud/q"),
                expect: [(scope("cloud/q"), contents(&[("a", "a"), ("new", "x")]))].into(),
                ..base
            },
            "chain_across_zone_host_and_cloud" => Scenario {
                roles: vec![
                    ("zone", Role::Zone),
                    ("host", Role::Host),
                    ("cloud", Role::Cloud { tokens: true }),
                ],
                script: vec![
                    (
                        AtRest,
                        commit(desired(
                            "r1",
                            &["cloud/q|queue|q", "host/files|file|f|queue", "zone/z|record|r@g1|file"],
                        )),
                    ),
                    (AtRest, commit(desired("r2", &["cloud/q|queue|q"]))),
                ],
                expect: [
                    (scope("cloud/q"), contents(&[("queue", "q")])),
                    (scope("host/files"), contents(&[])),
                    (scope("zone/z"), contents(&[])),
                ]
                .into(),
                operator: true,
                must_hit: &["crash with an open intent", "waited for a dependency"],
                ..base
            },
            "issuer_with_claims" => Scenario {
                roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
                script: vec![(AtRest, commit(desired("r1", &["issuer/ca|web|cert"])))],
                expect: [
                    (scope("issuer/ca"), contents(&[("web", "cert")])),
                    (scope("zone/claims"), contents(&[])),
                ]
                .into(),
                must_hit: &["crash with an open intent", "claim synced"],
                ..base
            },
            "two_claims_at_one_name_beside_a_foreign_value" => Scenario {
                roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
                before: vec![(scope("zone/claims"), "challenge.ca", "theirs")],
                script: vec![
                    (AtRest, commit(desired("r1", &["issuer/ca|web|cert"]))),
                    (AtRest, commit(desired("r2", &["issuer/ca|api|cert", "issuer/ca|web|again"]))),
                    (AtRest, another("zone/claims", "challenge.ca")),
                ],
                meddles: Some(another("zone/claims", "challenge.ca")),
                expect: [
                    (scope("issuer/ca"), contents(&[("api", "cert"), ("web", "again")])),
                    (scope("zone/claims"), contents(&[("challenge.ca", "theirs\ntheirs too")])),
                ]
                .into(),
                must_hit: &["crash with an open intent", "claim synced"],
                ..base
            },
            "claims_that_end_are_never_held" => Scenario {
                roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
                script: vec![(AtRest, commit(desired("r1", &["issuer/ca|web|cert", "issuer/cb|api|cert"])))],
                expect: [
                    (scope("issuer/ca"), contents(&[("web", "cert")])),
                    (scope("issuer/cb"), contents(&[("api", "cert")])),
                    (scope("zone/claims"), contents(&[])),
                ]
                .into(),
                guard: GuardLimits { max_deletes: 0, max_updates: 0, ..GuardLimits::default() },
                must_hit: &["crash with an open intent", "claim synced"],
                ..base
            },
            // The next commit comes once nothing moves any more: by then the claims came and went, and the deletion is held.
            "claims_go_on_beside_a_deletion_that_is_held" => {
                let zone = ["zone/claims|a|a@g1", "zone/claims|b|b@g1"];
                let cert = "issuer/ca|web|cert";
                Scenario {
                    roles: vec![("zone", Role::Zone), ("issuer", Role::Issuer)],
                    script: vec![
                        (AtRest, commit(desired("r1", &zone))),
                        (AtRest, commit(desired("r2", &[zone[0], cert]))),
                        (AtRest, commit(desired("r3", &[zone[0], zone[1], cert]))),
                    ],
                    expect: [
                        (scope("issuer/ca"), contents(&[("web", "cert")])),
                        (scope("zone/claims"), contents(&[("a", "a@g1"), ("b", "b@g1")])),
                    ]
                    .into(),
                    guard: GuardLimits { max_deletes: 0, ..base.guard.clone() },
                    must_hit: &["crash with an open intent", "held", "claim synced beside what is held"],
                    ..base
                }
            }
            _ => panic!("no scenario is called {name}"),
        }
    }

    /// Content by scope and key of the last commit.
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
