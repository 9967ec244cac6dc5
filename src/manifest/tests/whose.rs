//! Which entry, host and source a manifest and its resources belong to.

use super::*;
use crate::config::Allow;

#[test]
fn a_part_goes_to_the_scope_declared_in_any_file_and_to_every_entry_that_has_it() {
    let mut setup = Setup::new(&[
        (
            "a.yaml",
            "apiVersion: test/v1\nkind: Part\nmetadata: {name: p}\nspec: {zone: z, records: [{name: y, ttl: 2}]}\n",
        ),
        ("z.yaml", &thing("z", "{providers: [one, two]}")),
    ]);
    setup.entries = vec![entry("one"), entry("two"), entry("three")];
    assert_eq!(good(&setup), "one/z y = 2 \ntwo/z y = 2 ");
}

#[test]
fn a_manifest_nobody_takes_is_a_problem() {
    let part =
        "apiVersion: test/v1\nkind: Part\nmetadata: {name: p}\nspec: {zone: nowhere, records: [{name: y}]}\n";
    assert_snapshot!(problems(part), @r#"
    error: no provider takes Part/p
      --> a.yaml:1:1
    1 | apiVersion: test/v1
      | ^
    hint: what it contributes to is declared nowhere in the sources of this host
    "#);
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "{}"))]);
    setup.entries.push(entry("two"));
    assert_snapshot!(shown(&setup.once()), @r#"
    error: no provider takes Thing/a
      --> a.yaml:1:1
    1 | apiVersion: test/v1
      | ^
    hint: say which with the annotation `reconciled/provider`, one of: one, two
    "#);
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "\n  providr: one"))]);
    setup.entries.push(entry("two"));
    assert_snapshot!(shown(&setup.once()), @r#"
    error: unknown field `providr`
      --> a.yaml:5:3
    5 |   providr: one
      |   ^
    hint: did you mean `provider`?
    "#);
}

#[test]
fn resources_declared_twice_name_both_places_and_neither_is_applied() {
    let part =
        "apiVersion: test/v1\nkind: Part\nmetadata: {name: p}\nspec:\n  zone: a\n  records:\n  - {name: x}\n";
    let loaded = Setup::new(&[("a.yaml", &thing("a", "{records: [{name: x}]}")), ("b.yaml", part)]).once();
    assert_snapshot!(shown(&loaded), @r#"
    error: Part/p#x in one/a is declared twice
      --> b.yaml:7
    7 |   - {name: x}
      --> a.yaml:4 first declared here
    hint: remove one, or write `merge: true` on all to unite their values
    "#);
    assert_eq!(resources(&loaded), "");
    let twice = Setup::new(&[("a.yaml", &thing("a", "{}")), ("b.yaml", &thing("a", "{}"))]).once();
    assert_snapshot!(shown(&twice), @r#"
    error: Thing/a is declared twice
      --> b.yaml:1:1
    1 | apiVersion: test/v1
      | ^
      --> a.yaml:1:1 first declared here
    hint: rename one, or let one in a later path say `reconciled/merge: "true"`
    "#);
}

#[test]
fn what_two_scopes_would_both_write_names_both_places_also_from_two_sources() {
    let text = |name: &str| thing(name, "{records: [{name: x, remote: the unit web}]}");
    let one = Setup::new(&[("a.yaml", &text("a")), ("b.yaml", &text("b"))]).once();
    assert_snapshot!(shown(&one), @r#"
    error: Thing/b and Thing/a are one resource, the unit web
      --> b.yaml:1
    1 | apiVersion: test/v1
      --> a.yaml:1 Thing/a is here
    hint: give each its own, or remove one of the manifests
    "#);
    assert_eq!(resources(&one), "");
    let mut two = Setup::new(&[("a.yaml", &text("a"))]);
    let other = text("b");
    two.sources.push(("apps", folder(&[("b.yaml", &other)]), SourceRules::default()));
    let loaded = two.once();
    assert!(shown(&loaded).contains("Thing/b and Thing/a are one resource, the unit web"));
    assert_eq!(resources(&loaded), "one/a x = 3600 ");
}

#[test]
fn what_two_sources_would_both_write_stays_with_the_one_that_tracks_it_in_either_order() {
    let kept = thing("a", "{records: [{name: x, remote: the unit web}]}");
    let late = thing("b", "{records: [{name: x, remote: the unit web}, {name: y}]}");
    for names in [["infra", "apps"], ["apps", "infra"]] {
        let mut setup = Setup::new(&[]);
        let text = |name: &str| if name == "infra" { &kept } else { &late };
        setup.sources = names
            .map(|name| (name, folder(&[("a.yaml", text(name).as_str())]), SourceRules::default()))
            .into();
        let contested = setup.once().contested;
        let of = |scope: &str, source: &'static str| {
            let keys: Vec<_> = contested.iter().filter(|(one, _)| &*one.name == scope).collect();
            assert_eq!(keys.len(), 1, "{contested:?}");
            (keys[0].clone(), Arc::<str>::from(source))
        };
        setup.owners = [of("a", "infra")].into();
        let loaded = setup.once();
        let told: Vec<&str> = loaded.problems.iter().map(|reported| &*reported.source).collect();
        assert_eq!(told, ["apps"], "{names:?}");
        assert!(shown(&loaded).contains("Thing/a of source `infra` keeps it"), "{names:?}");
        // Nor does it say anything against the rest of the file.
        assert_eq!(resources(&loaded), "one/a x = 3600 \none/b y = 3600 ", "{names:?}");
        // Each may have had another one until now, and nobody knows here which of them moved.
        setup.owners = [of("a", "infra"), of("b", "apps")].into();
        assert_eq!(good(&setup), "one/a x = 3600 \none/b x = 3600 \none/b y = 3600 ", "{names:?}");
    }
}

#[test]
fn a_file_copied_whole_shows_a_few_duplicates_and_counts_the_rest() {
    let records: String = (0..50).map(|i| format!("{{name: h{i}}},")).collect();
    let text = |name: &str| thing(name, &format!("{{zone: z, records: [{records}]}}"));
    let loaded = Setup::new(&[("a.yaml", &text("a")), ("b.yaml", &text("b"))]).once();
    assert_eq!(loaded.problems.len(), 11);
    assert!(shown(&loaded).contains("41 more resources of Thing/b are declared by Thing/a too"));
}

#[test]
fn what_follows_from_a_file_that_cannot_be_read_is_not_reported_again() {
    let part = "apiVersion: test/v1\nkind: Part\nmetadata: {name: p, annotations: {reconciled/depends-on: Thing/gone}}\nspec: {zone: gone}\n";
    let loaded = Setup::new(&[("a.yaml", "kind: ["), ("b.yaml", part)]).once();
    assert_eq!(loaded.problems.len(), 1);
    assert_eq!(loaded.desired.sources["infra"].broken.len(), 2);
}

#[test]
fn resources_that_all_say_merge_are_united() {
    let text = thing("a", "{records: [{name: x, ttl: 1, merge: true}, {name: x, ttl: 2, merge: true}]}");
    assert_eq!(good(&Setup::new(&[("a.yaml", &text)])), "one/a x = 1 \none/a x = 2 ");
}

#[test]
fn what_has_one_author_cannot_be_merged_and_no_hint_says_so() {
    let alone = thing("a", "{records: [{name: sole, merge: true}]}");
    assert_snapshot!(shown(&Setup::new(&[("a.yaml", &alone)]).once()), @r"
    error: `merge` means nothing for a Thing: what it declares has one author
      --> a.yaml:1:1
    1 | apiVersion: test/v1
      | ^
    hint: leave reconciled/merge out, and declare it in one manifest alone
    ");
    let twice = thing("a", "{records: [{name: sole}, {name: sole}]}");
    let said = shown(&Setup::new(&[("a.yaml", &twice)]).once());
    assert!(said.contains("declared twice") && said.contains("hint: remove one of them"), "{said}");
}

#[test]
fn of_two_sources_the_first_keeps_a_resource_and_the_other_is_told() {
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "{records: [{name: x, ttl: 1}]}"))]);
    let other = [("z.yaml", thing("b", "{zone: a, records: [{name: x, ttl: 2}]}"))];
    let other: Vec<_> = other.iter().map(|(path, text)| (*path, text.as_str())).collect();
    setup.sources.push(("apps", folder(&other), SourceRules::default()));
    let loaded = setup.once();
    assert_eq!(resources(&loaded), "one/a x = 1 ");
    assert_eq!(loaded.problems.len(), 2);
    assert!(loaded.problems.iter().all(|reported| &*reported.source == "apps"));
    assert!(loaded.desired.sources["infra"].prunes && !loaded.desired.sources["apps"].prunes);
}

#[test]
fn what_two_sources_declare_belongs_to_the_one_it_is_tracked_for() {
    let spec = "{records: [{name: x, value: \"1\"}]}";
    let mut setup = Setup::new(&[("a.yaml", &thing("a", spec))]);
    setup.sources.push(("apps", folder(&[("b.yaml", &thing("a", spec))]), SourceRules::default()));
    let contested: Vec<_> = setup.once().contested.into_iter().collect();
    let zone = contested.iter().find(|(_, id)| &*id.0 == "x").unwrap().clone();
    setup.owners = contested.iter().map(|key| (key.clone(), "apps".into())).collect();
    let loaded = setup.once();
    assert!(loaded.problems.iter().all(|reported| &*reported.source == "infra"));
    let owner = &loaded.desired.in_scope(&zone.0)[0];
    assert_eq!(loaded.desired.manifest(owner.origin).key.source(), "apps");
    assert_snapshot!(shown(&loaded), @r#"
    error: Thing/a#scope in one/a belongs to source `apps`, which declares it too
      --> a.yaml:1
    1 | apiVersion: test/v1
      --> b.yaml:1 of source `apps` keeps it
    hint: remove one; `apps` tracks it, and owns it as long as it declares it
    error: Thing/a#x in one/a belongs to source `apps`, which declares it too
      --> a.yaml:4
    4 | spec: {records: [{name: x, value: "1"}]}
      --> b.yaml:4 of source `apps` keeps it
    hint: remove one; `apps` tracks it, and owns it as long as it declares it
    "#);
    // A source that tracks it and no longer declares it has let go.
    setup.owners = contested.into_iter().map(|key| (key, "gone".into())).collect();
    assert!(setup.once().problems.iter().all(|reported| &*reported.source == "apps"));
}

#[test]
fn what_another_source_has_of_a_file_says_nothing_against_the_rest_of_it() {
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "{records: [{name: x}]}"))]);
    let theirs = thing("a", "{records: [{name: x}, {name: y}]}");
    setup.sources.push(("apps", folder(&[("b.yaml", &theirs)]), SourceRules::default()));
    let loaded = setup.once();
    assert_eq!(loaded.problems.len(), 2);
    let declared: Vec<_> = loaded.desired.scopes.values().flat_map(|list| list.iter()).collect();
    let source = |id: &str| {
        let of = declared.iter().filter(|resource| &*resource.id.0 == id);
        of.map(|resource| loaded.desired.manifest(resource.origin).key.source()).collect::<Vec<_>>()
    };
    // What `infra` lets go of is declared all the same, so that nothing deletes it in between.
    assert_eq!((source("x"), source("y")), (vec!["infra"], vec!["apps"]));
    assert!(!loaded.desired.sources["apps"].prunes);
}

#[test]
fn what_a_file_declares_that_is_in_error_is_set_aside() {
    let text = format!(
        "{}---\nkind: Thing\napiVersion: test/v1\nmetadata: {{nam: b}}\n",
        thing("a", "{records: [{name: x}]}")
    );
    let loaded = Setup::new(&[("a.yaml", &text)]).once();
    assert!(loaded.desired.scopes.is_empty());
    let aside: Vec<&str> = loaded.desired.set_aside.keys().map(|(_, id)| &*id.0).collect();
    assert!(aside.contains(&"x"), "{aside:?}");
}

#[test]
fn a_host_that_is_not_selected_wants_nothing_of_the_manifest() {
    let text = "apiVersion: test/v1\nkind: Thing\nmetadata: {name: a, annotations: {reconciled/hosts: \"role=db\"}}\nspec: {nonsense: 1}\n";
    let loaded = Setup::new(&[("a.yaml", text)]).once();
    assert_eq!((shown(&loaded), loaded.desired.manifests.len()), (String::new(), 0));
    let state = &loaded.desired.sources["infra"];
    assert_eq!((state.unselected.len(), state.prunes), (1, true));
}

#[test]
fn a_part_for_other_hosts_is_not_desired_and_known_as_such() {
    let records =
        "{records: [{name: x, hosts: \"role=web,name=h1\"}, {name: y, hosts: \"role=db\"}, {name: z}]}";
    let mut setup = Setup::new(&[("a.yaml", &thing("a", records))]);
    let mut cache = Cache::default();
    let mut check = |setup: &Setup, expect: &str, unselected: &[&str]| {
        let loaded = setup.load(&mut cache);
        assert_eq!((shown(&loaded), resources(&loaded).as_str()), (String::new(), expect));
        let parts = loaded.desired.sources["infra"].unselected_parts.iter();
        assert_eq!(parts.map(|(scope, id)| format!("{scope} {id}")).collect::<Vec<_>>(), unselected);
        loaded.counts.kept
    };
    check(&setup, "one/a x = 3600 \none/a z = 3600 ", &["one/a y"]);
    assert_eq!(check(&setup, "one/a x = 3600 \none/a z = 3600 ", &["one/a y"]), 1);
    setup.host.labels.insert("role".into(), "db".into());
    check(&setup, "one/a y = 3600 \none/a z = 3600 ", &["one/a x"]);
    let wrong = thing("a", "{records: [{name: x, hosts: \"a=b=c\"}]}");
    assert!(problems(&wrong).contains("`a=b=c` is not a term of a selector"), "{}", problems(&wrong));
}

#[test]
fn a_manifest_all_of_whose_parts_are_for_other_hosts_is_taken_all_the_same() {
    let part = "apiVersion: test/v1\nkind: Part\nmetadata: {name: p}\nspec: {zone: a, records: [{name: y, hosts: role=db}]}\n";
    let loaded = Setup::new(&[("a.yaml", &thing("a", "{}")), ("b.yaml", part)]).once();
    assert_eq!((shown(&loaded), resources(&loaded)), (String::new(), String::new()));
    let state = &loaded.desired.sources["infra"];
    assert_eq!((state.unselected_parts.len(), state.prunes), (1, true));
}

#[test]
fn a_provider_of_another_host_is_unassigned_and_a_misspelt_one_is_an_error() {
    let check = |text: &str, labels: bool, expect: &str| {
        let mut setup = Setup::new(&[("a.yaml", text)]);
        setup.entries = vec![entry("pdns")];
        if !labels {
            setup.host.labels.clear();
        }
        let loaded = setup.once();
        let state = &loaded.desired.sources["infra"];
        match expect {
            "unassigned" => {
                assert_eq!((shown(&loaded), state.unassigned.len(), state.prunes), (String::new(), 1, true))
            }
            _ => assert!(shown(&loaded).contains(expect), "{}", shown(&loaded)),
        }
    };
    check(&thing("a", "{provider: route53}"), true, "unassigned");
    check(&thing("a", "{provider: route53}"), false, "configured: pdns");
    check(&thing("a", "{provider: pdsn}"), true, "did you mean `pdns`?");
    let other = "apiVersion: other/v1\nkind: Other\nmetadata: {name: a}\n";
    check(other, true, "unassigned");
    check(other, false, "no configured provider knows kind Other");
    check(
        "apiVersion: other/v1\nkind: Other\nmetadata: {name: a, annotations: {reconciled/provider: pdns}}\n",
        true,
        "does not know kind Other",
    );
}

/// A manifest of a kind that a Terraform provider has, and a configured entry that has one such kind.
fn queue(api_version: &str, spec: &str) -> String {
    format!("apiVersion: {api_version}\nkind: Queue\nmetadata: {{name: jobs}}\nspec: {spec}\n")
}

fn remote(name: &str, group: &str) -> EntryView {
    let kind = Kind { api_versions: [format!("{group}/v1").into()].into(), ..other_kind() };
    EntryView { kinds: Arc::new(Kinds(vec![kind])), ..entry(name) }
}

fn ailing(name: &str, groups: &[&str]) -> Ailing {
    let groups = groups.iter().map(|group| Arc::from(*group)).collect();
    Ailing { name: name.into(), groups, why: "it is not there".into(), hint: None }
}

#[test]
fn a_kind_of_a_remote_that_is_configured_elsewhere_is_unassigned_and_a_misspelt_group_is_an_error() {
    let check = |text: &str, labels: bool, expect: &str| {
        let mut setup = Setup::new(&[("a.yaml", text)]);
        setup.entries = vec![entry("pdns"), remote("cloud", "hcloud")];
        if !labels {
            setup.host.labels.clear();
        }
        let loaded = setup.once();
        let state = &loaded.desired.sources["infra"];
        match expect {
            "unassigned" => {
                let found = (shown(&loaded), state.unassigned.len(), state.prunes);
                assert_eq!(found, (String::new(), 1, true), "{text}");
            }
            _ => {
                assert!(shown(&loaded).contains(expect), "{text}{}", shown(&loaded));
                assert_eq!((state.unassigned.len(), state.broken.len()), (0, 1), "{text}");
            }
        }
    };
    check(&queue("aws/v1", "{}"), true, "unassigned");
    // Far from everything: it may be another host's, and whoever was of another group stays (`may_be_elsewhere`).
    check(&queue("tst-of-old/v1", "{}"), true, "unassigned");
    check(&queue("google-beta/v1", "{provider: europe}"), true, "unassigned");
    check(&queue("aws/v1", "{}"), false, "unknown kind Queue of aws/v1");
    check(&queue("aws/v1", "{provider: europe}"), false, "unknown kind Queue of aws/v1");
    // Near what is configured here, or what this program has.
    check(&queue("aws/v1", "{provider: pdsn}"), true, "did you mean `pdns`?");
    check(&queue("aws/v1", "{provider: pdns}"), true, "unknown kind Queue of aws/v1");
    check(&queue("pdnz/v1", "{}"), true, "did you mean the group of provider `pdns`?");
    check(&queue("hclod/v1", "{}"), true, "did you mean a kind of group `hcloud`?");
    check(&queue("tset/v1", "{}"), true, "did you mean a kind of group `test`?");
    check(&queue("reconcild/v1", "{}"), true, "did you mean a kind of group `reconciled`?");
    // A kind that its group does not have is no other provider's.
    check(&queue("test/v1", "{}"), true, "unknown kind Queue of test/v1");
    check(&queue("reconciled/v1", "{}"), true, "unknown kind Queue of reconciled/v1");
    check(&queue("hcloud/v1", "{}"), true, "unknown kind Queue of hcloud/v1");
    check(&queue("pdns/v1", "{}"), true, "unknown kind Queue of pdns/v1");
    check(&queue("aws/v2", "{}"), true, "unknown kind Queue of aws/v2");
    check(&queue("apps.example/v1", "{}"), true, "unknown kind Queue of apps.example/v1");
}

#[test]
fn a_remote_that_cannot_be_used_has_what_may_be_its_wait_and_nothing_else() {
    let other = |group: &str| format!("apiVersion: {group}/v1\nkind: Other\nmetadata: {{name: a}}\n");
    let check = |text: &str, entries: Vec<EntryView>, waits: bool| {
        let mut setup = Setup::new(&[("a.yaml", text)]);
        setup.host.labels.clear();
        setup.entries = entries;
        setup.entries.push(EntryView { kinds: Arc::default(), ..entry("beta") });
        setup.ailing = [("beta".into(), ailing("beta", &["google-beta", "google"]))].into();
        let loaded = setup.once();
        let said = shown(&loaded);
        assert_eq!(said.contains("provider `beta` cannot be used: it is not there"), waits, "{said}");
        assert_eq!(loaded.desired.sources["infra"].unassigned.len(), usize::from(waits), "{text}{said}");
        assert!(!loaded.has_errors(), "{said}");
    };
    check(&other("google"), vec![], true);
    check(&other("google-beta"), vec![], true);
    check(&other("google"), vec![remote("g", "google")], true);
    // This one would be the other's in any case.
    check(&other("google"), vec![remote("google", "google")], false);
    check(&thing("a", "{}"), vec![entry("one")], false);
}

#[test]
fn a_later_path_extends_a_manifest_if_it_says_so() {
    let base = "apiVersion: test/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n  records:\n  - {name: x, ttl: 1}\n  - {name: y, ttl: 2}\n";
    let over = "# prod\napiVersion: test/v1\nkind: Thing\nmetadata: {name: a, annotations: {reconciled/merge: \"true\"}}\nspec:\n  records:\n  - {name: y, ttl: 3}\n  - {name: z, ttl: 4}\n";
    let mut setup = Setup::new(&[("common/a.yaml", base), ("env/prod/a.yaml", over)]);
    setup.rules().paths = vec!["common".into(), "env/${host.labels.env}".into()];
    assert_eq!(good(&setup), "one/a x = 1 \none/a y = 3 \none/a z = 4 ");
    let loaded = setup.once();
    let meta = &loaded.desired.manifests[0];
    assert_eq!((&*meta.file, meta.line), ("env/prod/a.yaml", 2));
    let place = |id: &str| {
        let mut all = loaded.desired.scopes.values().flat_map(|list| list.iter());
        let place = loaded.desired.place(all.find(|resource| &*resource.id.0 == id).unwrap());
        (place.file.to_string(), place.line)
    };
    assert_eq!(place("x"), ("common/a.yaml".into(), 6));
    assert_eq!(place("z"), ("env/prod/a.yaml".into(), 8));
    assert!(
        loaded.desired.scopes.values().flat_map(|list| list.iter()).all(|r| !loaded
            .desired
            .policies
            .get(r.policy)
            .merge)
    );
    let mut bad = Setup::new(&[
        ("common/a.yaml", &base.replace("ttl: 1", "tll: 1")),
        ("env/prod/a.yaml", &over.replace("ttl: 4", "tll: 4")),
    ]);
    bad.rules().paths = setup.rules().paths.clone();
    assert_snapshot!(shown(&bad.once()), @r#"
    error: unknown field `tll`
      --> common/a.yaml:6:15
    6 |   - {name: x, tll: 1}
      |               ^
    hint: did you mean `ttl`?
    error: unknown field `tll`
      --> env/prod/a.yaml:8:15
    8 |   - {name: z, tll: 4}
      |               ^
    hint: did you mean `ttl`?
    "#);
    let mut plain = Setup::new(&[("common/a.yaml", base), ("env/prod/a.yaml", base)]);
    plain.rules().paths = bad.rules().paths.clone();
    assert!(shown(&plain.once()).contains("Thing/a is declared twice"));
}

#[test]
fn what_extends_a_manifest_that_cannot_be_read_is_not_used_alone() {
    let good = thing("b", "{records: [{name: x, ttl: 1}]}");
    let over = "apiVersion: test/v1\nkind: Thing\nmetadata: {name: a, annotations: {reconciled/merge: \"true\"}}\nspec:\n  records:\n  - {name: z, ttl: 4}\n";
    let base = thing("a", "{records: [{name: x, ttl: 1}], records: []}");
    for lost in [&*base, "a: [\n", "kind: Thing\nmetadata: {name: a}\n"] {
        let file = format!("{good}---\n{lost}");
        let mut setup = Setup::new(&[("common/a.yaml", &file), ("env/prod/a.yaml", over)]);
        setup.rules().paths = vec!["common".into(), "env/${host.labels.env}".into()];
        // Of a file with an error nothing new is made, so that nothing is left.
        assert_eq!(resources(&setup.once()), "", "{lost}");
    }
}

#[test]
fn what_lay_in_a_path_that_is_not_there_stays_frozen_and_nothing_lies_over_what_is_gone() {
    let base = thing("a", "{records: [{name: x, ttl: 1}]}");
    let over = base.replace("name: a}", "name: a, annotations: {reconciled/merge: \"true\"}}");
    let check = |files: &[(&str, &str)], paths: [&str; 2], found: &str, broken: &[&str]| {
        let mut setup = Setup::new(files);
        setup.rules().paths = paths.map(Arc::from).to_vec();
        let loaded = setup.once();
        let frozen: Vec<&str> = loaded.desired.sources["infra"].broken.iter().map(|file| &**file).collect();
        assert_eq!((&*resources(&loaded), &*frozen), (found, broken), "{paths:?}");
    };
    let (low, high) = (("common/a.yaml", &*base), ("env/prod/a.yaml", &*over));
    check(&[low], ["common", "env/prod/"], "one/a x = 1 ", &["env/prod"]);
    check(&[low], ["common", "env/x-${host.labels.none}"], "one/a x = 1 ", &["env"]);
    check(&[low], ["common", "${host.labels.none}"], "one/a x = 1 ", &[""]);
    // What lays itself over something is more than it says.
    check(&[high], ["common", "env/prod"], "", &["common", "env/prod/a.yaml"]);
    check(&[high], ["common/${host.labels.none}", "env/prod"], "", &["common", "env/prod/a.yaml"]);
}

#[test]
fn of_layers_that_cannot_be_read_only_what_lacks_one_stays_out() {
    let base = thing("a", "{records: [{name: x, ttl: 1}]}");
    let over = base.replace("name: a}", "name: a, annotations: {reconciled/merge: \"true\"}}");
    let check = |more: &[(&str, &str)], paths: [&str; 3], expect: &str| {
        let files = [&[("1/a.yaml", &*base), ("3/a.yaml", &*over)], more].concat();
        let mut setup = Setup::new(&files);
        setup.rules().paths = paths.map(Arc::from).to_vec();
        assert_eq!(resources(&setup.once()), expect, "{more:?} {paths:?}");
    };
    let (all, both) = (["1", "2", "3"], "one/a x = 1 ");
    check(&[("2/b.yaml", "x: y\n")], all, both);
    // It has its own of the layers in which something is missing.
    check(&[("2/b.yaml", "x: y\n"), ("1/b.yaml", "x: [")], all, both);
    check(&[("2/b.yaml", "x: y\n"), ("3/b.yaml", "x: [")], all, both);
    // It may be in these.
    for lost in ["x: [", "apiVersion: test/v1\nkind: Thign\nmetadata: {name: a}\n"] {
        check(&[("2/b.yaml", lost)], all, "");
    }
    check(&[], all, "");
    check(&[], ["1", "${host.labels.none}", "3"], "");
}

#[test]
fn what_may_lie_over_a_file_is_told_by_what_cannot_be_read() {
    let good = ["a", "b", "c"].map(|name| thing(name, "{}"));
    let check = |broken: &str, paths: [&str; 3], expect: &[&str]| {
        let files = ["1/a.yaml", "2/b.yaml", "3/c.yaml"].into_iter().zip(&good);
        let files = files.map(|(path, text)| (path, if path == broken { "x: [" } else { &**text }));
        let mut setup = Setup::new(&files.collect::<Vec<_>>());
        setup.rules().paths = paths.map(Arc::from).to_vec();
        let loaded = setup.once();
        let overlaid = loaded.desired.sources["infra"].overlaid.iter();
        assert_eq!(overlaid.map(|file| &**file).collect::<Vec<_>>(), expect, "{broken} {paths:?}");
    };
    let all = ["1", "2", "3"];
    check("", all, &[]);
    check("1/a.yaml", all, &[]);
    check("2/b.yaml", all, &["1/a.yaml"]);
    check("3/c.yaml", all, &["1/a.yaml", "2/b.yaml"]);
    check("", ["1", "2", "4"], &["1/a.yaml", "2/b.yaml"]);
    check("", ["1", "2", "${host.labels.none}"], &["1/a.yaml", "2/b.yaml"]);
}

#[test]
fn the_ways_to_name_an_entry_say_the_same_and_those_of_a_later_path_replace_each_other() {
    let check = |annotation: &str, spec: &str, expect: &str| {
        let text = thing("a", spec);
        let text = match annotation {
            "" => text,
            name => {
                text.replace("name: a}", &format!("name: a, annotations: {{reconciled/provider: {name}}}}}"))
            }
        };
        let mut setup = Setup::new(&[("a.yaml", &text)]);
        setup.entries.push(entry("two"));
        let said = shown(&setup.once());
        assert!(said.contains(expect) && said.is_empty() == expect.is_empty(), "{annotation} {spec}: {said}");
    };
    check("one", "{provider: one}", "");
    check("", "{provider: one, providers: [one]}", "");
    check(
        "one",
        "{provider: two}",
        "`reconciled/provider` and `provider` name different entries: one and two",
    );
    check(
        "",
        "{provider: one, providers: [two, one]}",
        "`provider` and `providers` name different entries: one and one, two",
    );
    check("two", "{providers: [two, one]}", "`reconciled/provider` and `providers` name different entries");

    let over = thing("a", "{providers: [two]}")
        .replace("name: a}", "name: a, annotations: {reconciled/merge: \"true\"}}");
    let base = thing("a", "{provider: one, records: [{name: x, ttl: 1}]}");
    let mut setup = Setup::new(&[("1/a.yaml", &base), ("2/a.yaml", &over)]);
    setup.entries.push(entry("two"));
    setup.rules().paths = vec!["1".into(), "2".into()];
    assert_eq!(good(&setup), "two/a x = 1 ");
}

#[test]
fn a_source_touches_only_what_its_rules_let_through() {
    let rule = AllowRule {
        provider: "one".into(),
        scopes: Some(vec!["*.example".into()]),
        kinds: Some(vec!["test/*".into()]),
        deny: vec!["*/*#ns".parse().unwrap()],
    };
    let mut setup = Setup::new(&[
        ("a.yaml", &thing("a.example", "{records: [{name: x, ttl: 1}]}")),
        ("b.yaml", &thing("b.example", "{records: [{name: ns}]}")),
        // What comes first by its id is not where the scope is declared.
        ("c.yaml", &thing("c.test", "{records: [{name: a}]}")),
    ]);
    setup.rules().allow = Allow::Rules(vec![rule]);
    let loaded = setup.once();
    assert_snapshot!(shown(&loaded), @r#"
    error: source `infra` may not manage Thing/b.example#ns
      --> b.yaml:4
    4 | spec: {records: [{name: ns}]}
    hint: the host denies it under `allow` of the source; ask its operator
    error: source `infra` may not manage test/Thing in one/c.test
      --> c.yaml:1
    1 | apiVersion: test/v1
    hint: the host allows this under `allow` of the source; ask its operator
    "#);
    assert_eq!(resources(&loaded), "one/a.example x = 1 ");
}

#[test]
fn what_is_laid_over_nothing_is_told() {
    let over = thing("a", "{records: [{name: x, ttl: 1}]}")
        .replace("{name: a}", "{name: a, annotations: {reconciled/merge: \"true\"}}");
    let laid = |files: &[(&str, &str)]| {
        let mut files = files.to_vec();
        files.extend([("common/README.md", ""), ("prod/README.md", "")]);
        let mut setup = Setup::new(&files);
        setup.rules().paths = vec!["common".into(), "prod".into()];
        setup.once()
    };
    let lone = laid(&[("prod/a.yaml", &over)]);
    assert_snapshot!(shown(&lone), @r"
    warning: `reconciled/merge` lays nothing over: no earlier path declares Thing/a, so its records are shared with others
      --> prod/a.yaml:1:1
    1 | apiVersion: test/v1
      | ^
    hint: declare Thing/a in an earlier path, or leave the annotation out; records that are to be shared can say `merge: true` themselves
    ");
    // It counts as it stands: values that are shared on purpose are not refused.
    assert_eq!((lone.has_errors(), resources(&lone).as_str()), (false, "one/a x = 1 "));
    let base = thing("a", "{}");
    for files in [&[("common/a.yaml", &*base), ("prod/a.yaml", &over)][..], &[("common/a.yaml", &over)]] {
        assert_eq!(shown(&laid(files)), "", "{files:?}");
    }
}
