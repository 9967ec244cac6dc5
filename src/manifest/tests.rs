use super::{
    testing::{Setup, entry, folder, kinds, resources, shown},
    *,
};
use crate::config::AllowRule;
use insta::assert_snapshot;
use reconciled_provider::{Node, yaml};

fn thing(name: &str, spec: &str) -> String {
    format!("apiVersion: test/v1\nkind: Thing\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

fn problems(text: &str) -> String {
    shown(&Setup::new(&[("a.yaml", text)]).once())
}

fn good(setup: &Setup) -> String {
    let loaded = setup.once();
    assert_eq!(shown(&loaded), "");
    resources(&loaded)
}

fn inline(text: &str) -> Vars {
    let file = reconciled_provider::SourceFile::new("vars", text);
    let node: Node = yaml::parse(&file, yaml::Limits::default()).unwrap().remove(0);
    Vars::Inline(node)
}

#[test]
fn documents_lists_and_json_are_manifests_and_the_rest_is_skipped_and_counted() {
    let setup = Setup::new(&[
        (
            "a.yaml",
            "values: 1\n---\napiVersion: test/v1\nkind: Thing\nmetadata: {name: a, creationTimestamp: null}\nspec: {records: [{name: x, ttl: 1}]}\nstatus: {x: 1}\n",
        ),
        ("b.yml", "{\"apiVersion\": \"test/v1\", \"kind\": \"Thing\", \"metadata\": {\"name\": \"b\"}}"),
        (
            "c.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: test/v1, kind: Part, metadata: {name: p}, spec: {zone: a, records: [{name: y, ttl: 2}]}}\n",
        ),
        (".hidden/d.yaml", "kind: ["),
    ]);
    assert_eq!(good(&setup), "one/a x = 1 \none/a y = 2 ");
    let counts = setup.once().counts;
    assert_eq!(
        (counts.files, counts.manifests, counts.skipped_documents, counts.excluded_files),
        (3, 3, 1, 1)
    );
}

#[test]
fn all_problems_of_an_envelope_are_found() {
    assert_snapshot!(problems(
        "kind: Thing\n---\napiVersion: test/v1\nkind: Thnig\nmetadata: {name: a}\n---\napiVersion: test/v2\nkind: Thing\nmetadata: {name: b}\n---\n\
         apiVersion: test/v1\nkind: Thing\nmetadata:\n  name: \"a#b\"\n  lables: {}\n  annotations:\n    reconciled/delletion: x\n    reconciled/drift: maybe\n    reconciled/hosts: \"a=\"\n    other/x: y\nspce: {}\n"
    ), @r#"
    error: a manifest needs `apiVersion`
      --> a.yaml:1:7
    1 | kind: Thing
      |       ^
    hint: if this is no manifest, name the file in .reconciledignore
    error: unknown kind Thnig of test/v1
      --> a.yaml:4:7
    4 | kind: Thnig
      |       ^
    hint: did you mean `Thing` of test/v1?
    error: unknown kind Thing of test/v2
      --> a.yaml:8:7
    8 | kind: Thing
      |       ^
    hint: Thing is known as `apiVersion: test/v1`
    error: `metadata.name` is not a name
      --> a.yaml:14:9
    14 |   name: "a#b"
       |         ^
    hint: a name has at most 253 bytes, no `#` and no control characters
    error: unknown field of metadata `lables`
      --> a.yaml:15:3
    15 |   lables: {}
       |   ^
    hint: did you mean `labels`?
    error: unknown annotation `reconciled/delletion`
      --> a.yaml:17:5
    17 |     reconciled/delletion: x
       |     ^
    hint: did you mean `reconciled/deletion`?
    error: reconciled/drift: unknown value `maybe`
      --> a.yaml:18:23
    18 |     reconciled/drift: maybe
       |                       ^
    hint: write one of: heal, warn, ignore
    error: reconciled/hosts: `a=` is not a term of a host selector
      --> a.yaml:19:23
    19 |     reconciled/hosts: "a="
       |                       ^
    hint: write terms as in role=web,env!=staging,!gpu,name in (a,b)
    error: unknown field `spce`
      --> a.yaml:21:1
    21 | spce: {}
       | ^
    hint: did you mean `spec`?
    "#);
}

#[test]
fn a_bad_record_is_one_problem_and_its_file_contributes_nothing() {
    let loaded = Setup::new(&[
        ("bad.yaml", &thing("bad", "{records: [{name: x}, {nmae: y}, {name: z, ttl: soon}]}")),
        ("good.yaml", &thing("good", "{records: [{name: x, ttl: 1}]}")),
    ])
    .once();
    assert_snapshot!(shown(&loaded), @r#"
    error: field `name` is missing
      --> bad.yaml:4:29
    4 | spec: {records: [{name: x}, {nmae: y}, {name: z, ttl: soon}]}
      |                             ^
    error: unknown field `nmae`
      --> bad.yaml:4:30
    4 | spec: {records: [{name: x}, {nmae: y}, {name: z, ttl: soon}]}
      |                              ^
    hint: did you mean `name`?
    error: expected a number, found `soon`
      --> bad.yaml:4:55
    4 | spec: {records: [{name: x}, {nmae: y}, {name: z, ttl: soon}]}
      |                                                       ^
    "#);
    assert_eq!(resources(&loaded), "one/good x = 1 ");
    let state = &loaded.desired.sources["infra"];
    assert_eq!((state.prunes, state.broken.len()), (false, 1));
    assert!(loaded.withheld.is_empty());
}

#[test]
fn with_hold_one_error_withholds_the_whole_source() {
    let mut setup =
        Setup::new(&[("bad.yaml", "kind: ["), ("good.yaml", &thing("good", "{records: [{name: x}]}"))]);
    setup.rules().on_invalid = OnInvalid::Hold;
    let loaded = setup.once();
    assert_eq!(resources(&loaded), "");
    assert!(loaded.withheld.contains("infra"));
    assert_eq!(loaded.desired.sources["infra"].broken.len(), 2);
}

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
    hint: write `provider:` in its spec, one of: one, two
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
fn variables_and_host_facts_are_substituted_with_their_kind() {
    let spec = "{content: \"${vars.d} ${host.name}\", records: [{name: x, ttl: \"${vars.ttl}\", value: \"${host.name}.${vars.net.d} $${vars.d} ${HOME}\"}]}";
    let mut setup = Setup::new(&[("a.yaml", &thing("a", spec))]);
    setup.rules().vars = inline("ttl: 60\nnet: {d: example.com}\n");
    assert_eq!(
        good(&setup),
        "one/a content = ${vars.d} ${host.name}\none/a x = 60 h1.example.com ${vars.d} ${HOME}"
    );
}

#[test]
fn an_unknown_variable_is_one_problem_with_the_nearest_name() {
    let spec = "{records: [{name: x, ttl: \"${vars.tll}\"}, {name: y, ttl: \"${vars.tll}\", value: \"${host.labels.rloe}\"}]}";
    let mut setup = Setup::new(&[("a.yaml", &thing("a", spec))]);
    setup.rules().vars = inline("ttl: 60\n");
    assert_snapshot!(shown(&setup.once()), @r#"
    error: there is no variable `tll`
      --> a.yaml:4:33
    4 | spec: {records: [{name: x, ttl: "${vars.tll}"}, {name: y, ttl: "${vars.tll}", value: "${host.labels.
      |                                 ^
    hint: did you mean `ttl`?
    error: this host has no label `rloe`
      --> a.yaml:4:86
    4 | cords: [{name: x, ttl: "${vars.tll}"}, {name: y, ttl: "${vars.tll}", value: "${host.labels.rloe}"}]}
      |                                                                             ^
    hint: did you mean `role`?
    "#);
}

#[test]
fn variables_come_from_files_of_the_repository_and_later_files_win() {
    let mut setup = Setup::new(&[
        ("a.yaml", &thing("a", "{records: [{name: x, ttl: \"${vars.ttl}\", value: \"${vars.d}\"}]}")),
        ("vars/base.yaml", "ttl: 1\nd: base\n"),
        ("vars/prod.yaml", "ttl: 2\n"),
    ]);
    setup.rules().vars = Vars::Files(vec!["vars/base.yaml".into(), "vars/prod.yaml".into()]);
    assert_eq!(good(&setup), "one/a x = 2 base");
}

#[test]
fn a_reference_waits_until_its_value_is_known_and_keeps_its_template() {
    let text =
        thing("a", "{}") + "---\n" + &thing("b", "{records: [{name: x, value: \"at ${Thing/a:arn}\"}]}");
    let mut setup = Setup::new(&[("a.yaml", &text)]);
    let waiting = setup.once();
    assert_eq!(resources(&waiting), "one/b x = waits for infra/test/Thing//a arn");
    setup.outputs.insert("a:arn".to_string(), "42");
    let known = setup.once();
    assert_eq!(resources(&known), "one/b x = 3600 at 42");
    let template = |loaded: &Loaded| {
        let list = loaded.desired.scopes.values().flatten().find(|r| &*r.id.0 == "x");
        list.unwrap().spec.template()
    };
    assert_eq!(template(&waiting), template(&known));
    let after = &known.desired.manifests[1].after;
    assert_eq!(after.iter().map(|key| key.name()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn what_another_manifest_says_is_known_from_git_alone() {
    let text = [
        "apiVersion: test/v1\nkind: Thing\nmetadata: {name: a, labels: {team: web}}\nspec: {records: [{name: x, ttl: 60, value: \"${vars.ip}\"}]}\n",
        &thing(
            "b",
            "{records: [{name: y, ttl: \"${Thing/a:spec.records[0].ttl}\", value: \"${Thing/a:spec.records[name=x].value} ${Thing/a:metadata.name} ${Thing/a:metadata.labels.team}\"}]}",
        ),
    ];
    let with = |ip: &str| {
        let mut setup =
            Setup::new(&[("a.yaml", &text.join("---\n")), ("vars/base.yaml", &format!("ip: {ip}\n"))]);
        setup.rules().vars = Vars::Files(vec!["vars/base.yaml".into()]);
        setup
    };
    let setup = with("192.0.2.1");
    let mut cache = Cache::default();
    let loaded = setup.load(&mut cache);
    assert_eq!(resources(&loaded), "one/a x = 60 192.0.2.1\none/b y = 60 192.0.2.1 a web");
    assert!(loaded.outputs.is_empty(), "nothing is asked of the inventory");
    assert_eq!(resources(&setup.load(&mut cache)), resources(&loaded), "from the cache too");
    // What it says is written by a person: another value is another content, and comes with a commit.
    let content = |loaded: &Loaded| loaded.desired.manifests[1].content;
    let before = content(&loaded);
    let loaded = with("192.0.2.2").load(&mut cache);
    assert_eq!(resources(&loaded), "one/a x = 60 192.0.2.2\none/b y = 60 192.0.2.2 a web");
    assert_ne!(content(&loaded), before);
}

#[test]
fn an_output_reaches_through_what_another_manifest_says() {
    let text = [
        thing("a", "{}"),
        thing("b", "{records: [{name: x, value: \"${Thing/a:status.arn}\"}]}"),
        thing("c", "{records: [{name: y, value: \"<${Thing/b:spec.records[0].value}>\"}]}"),
    ];
    let mut setup = Setup::new(&[("a.yaml", &text.join("---\n"))]);
    let waiting = setup.once();
    let waits = "waits for infra/test/Thing//a arn";
    assert_eq!(resources(&waiting), format!("one/b x = {waits}\none/c y = {waits}"));
    setup.outputs.insert("a:arn".to_string(), "42");
    let known = setup.once();
    assert_eq!(resources(&known), "one/b x = 3600 42\none/c y = 3600 <42>");
    let templates = |loaded: &Loaded| {
        let all = loaded.desired.scopes.values().flatten();
        all.map(|resource| resource.spec.template()).collect::<Vec<_>>()
    };
    assert_eq!(templates(&waiting), templates(&known), "an output is nothing that a person wrote");
}

#[test]
fn references_to_what_is_not_there_say_what_is() {
    let text = [
        thing("a", "{zone: z, records: [{name: x}]}"),
        thing("b", "{records: [{name: y, value: \"${Thing/a:spec.zon}\"}]}"),
        thing("c", "{records: [{name: y, value: \"${Thing/a:spec.records}\"}]}"),
        thing("d", "{records: [{name: y, value: \"${Thing/a:metadata.label}\"}]}"),
        thing("e", "{records: [{name: y, value: \"${Thing/a:status.arm}\"}]}"),
    ];
    let mut setup = Setup::new(&[("a.yaml", &text.join("---\n"))]);
    setup.outputs.insert("a:arn".to_string(), "42");
    let shown = shown(&setup.once());
    for words in [
        "error: Thing/a has no `zon` in `spec`",
        "did you mean `zone`?",
        "error: `spec.records` of Thing/a is not one value",
        "error: Thing/a has no `metadata.label`",
        "warning: Thing/a puts out no `arm`",
        "did you mean `arn`?",
    ] {
        assert!(shown.contains(words), "{words} is missing in\n{shown}");
    }
}

#[test]
fn manifests_that_say_what_the_other_says_are_a_circle() {
    let text = [
        thing("a", "{records: [{name: x, value: \"${Thing/b:spec.records[0].value}\"}]}"),
        thing("b", "{records: [{name: y, value: \"${Thing/a:spec.records[0].value}\"}]}"),
    ];
    let loaded = Setup::new(&[("a.yaml", &text.join("---\n"))]).once();
    assert!(shown(&loaded).contains("manifests wait for each other: Thing/a → Thing/b → Thing/a"));
    assert_eq!(resources(&loaded), "");
}

#[test]
fn a_row_of_references_ends_in_an_error_and_not_in_memory_or_stack() {
    let row = |length: usize, value: &dyn Fn(usize) -> String| {
        let one = |index: usize| {
            thing(
                &format!("t{index:04}"),
                &format!("{{records: [{{name: x{index}, value: \"{}\"}}]}}", value(index)),
            )
        };
        let last = thing(&format!("t{length:04}"), "{records: [{name: last, value: v}]}");
        let all: Vec<String> = (0..length).map(one).chain([last]).collect();
        shown(&Setup::new(&[("a.yaml", &all.join("---\n"))]).once())
    };
    let next = |index: usize| format!("${{Thing/t{:04}:spec.records[0].value}}", index + 1);
    assert_eq!(row(20, &next), "");
    assert!(row(3_000, &next).contains("refers to a manifest that refers to another, 32 deep"));
    let twice = |index: usize| format!("{0}{0}", next(index));
    assert!(row(25, &twice).contains("comes to more than 64 KiB of text"));
}

#[test]
fn a_name_made_of_an_output_is_refused() {
    let text = thing("a", "{}") + "---\n" + &thing("b", "{records: [{name: \"${Thing/a:arn}\"}]}");
    let mut setup = Setup::new(&[("a.yaml", &text)]);
    setup.outputs.insert("a:arn".to_string(), "42");
    assert!(shown(&setup.once()).contains("the name of a resource depends on an output"));
}

#[test]
fn references_to_nothing_and_circles_are_reported_with_their_path() {
    let depends = |name: &str, on: &str| {
        format!(
            "apiVersion: test/v1\nkind: Thing\nmetadata: {{name: {name}, annotations: {{reconciled/depends-on: \"{on}\"}}}}\n"
        )
    };
    let text = [
        depends("aa", "Thing/bb"),
        depends("bb", "Thing/cc"),
        depends("cc", "Thing/aa"),
        depends("dd", "Thing/ee"),
    ];
    assert_snapshot!(problems(&text.join("---\n")), @r#"
    error: manifests wait for each other: Thing/aa → Thing/bb → Thing/cc → Thing/aa
      --> a.yaml:1:1
    1 | apiVersion: test/v1
      | ^
    hint: remove one of the references, `depends-on` or waves that close the circle
    error: there is no manifest `Thing/ee` in source `infra`
      --> a.yaml:15:59
    15 | metadata: {name: dd, annotations: {reconciled/depends-on: "Thing/ee"}}
       |                                                           ^
    "#);
}

#[test]
fn each_wave_waits_for_the_next_lower_one() {
    let wave = |name: &str, wave: &str| {
        format!(
            "apiVersion: test/v1\nkind: Thing\nmetadata: {{name: {name}, annotations: {{reconciled/wave: \"{wave}\"}}}}\n"
        )
    };
    let text = [wave("a", "-1"), wave("b", "0"), wave("c", "5"), wave("d", "5")].join("---\n");
    let loaded = Setup::new(&[("a.yaml", &text)]).once();
    let after: Vec<Vec<&str>> =
        loaded.desired.manifests.iter().map(|m| m.after.iter().map(|key| key.name()).collect()).collect();
    assert_eq!(after, [vec![], vec!["a"], vec!["b"], vec!["b"]]);
    assert!(Arc::ptr_eq(&loaded.desired.manifests[2].after, &loaded.desired.manifests[3].after));
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
    assert!(loaded.desired.scopes.values().flatten().all(|r| !loaded.desired.policies.get(r.policy).merge));
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
        ("c.yaml", &thing("c.test", "{records: [{name: x}]}")),
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
fn links_and_files_that_are_no_text_are_refused_where_they_may_hold_manifests() {
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "{}"))]);
    setup.sources[0].1.refused = vec![
        Problem::error("symlinks are not followed").in_file("b.yaml"),
        Problem::error("symlinks are not followed").in_file("logo.png"),
    ];
    let loaded = setup.once();
    assert_eq!(loaded.problems.len(), 1);
    assert!(loaded.desired.sources["infra"].broken.contains("b.yaml"));
}

fn asked(setup: &Setup, cache: &mut Cache) -> (Counts, String) {
    let loaded = setup.load(cache);
    (loaded.counts, shown(&loaded) + &resources(&loaded))
}

#[test]
fn nothing_is_parsed_or_normalized_again_while_its_inputs_stand() {
    let part =
        "apiVersion: test/v1\nkind: Part\nmetadata: {name: p}\nspec: {zone: a, records: [{name: y}]}\n";
    let files = [
        ("a.yaml", thing("a", "{secret: db, file: data.txt, records: [{name: x, ttl: \"${vars.ttl}\"}]}")),
        ("b.yaml", part.to_string()),
        ("c.yaml", thing("c", "{records: [{name: x}]}")),
        ("data.txt", "1".to_string()),
    ];
    let texts = |files: &[(&str, String)]| {
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        folder(&files)
    };
    let mut setup = Setup::new(&[]);
    setup.sources[0].1 = texts(&files);
    setup.rules().vars = inline("ttl: 1");
    let mut cache = Cache::default();
    let (_, first) = asked(&setup, &mut cache);
    let mut check = |setup: &Setup, parsed: usize, normalized: usize| {
        let (counts, text) = asked(setup, &mut cache);
        assert_eq!((counts.parsed, counts.normalized), (parsed, normalized), "{text}");
        assert_eq!(text, asked(setup, &mut Cache::default()).1, "a cache must not change the result");
        text
    };
    assert_eq!(check(&setup, 0, 0), first);
    setup.secret = 2;
    check(&setup, 0, 1);
    setup.rules().vars = inline("ttl: 2\nother: 1");
    assert!(check(&setup, 0, 1).contains("x = 2"));
    let mut changed = files.clone();
    changed[3].1 = "2".to_string();
    setup.sources[0].1 = texts(&changed);
    assert!(check(&setup, 0, 1).contains("file = 2"));
    // A new scope wakes what asked for scopes, and a changed file what is in it.
    changed[2].1 = thing("d", "{records: [{name: x}]}");
    setup.sources[0].1 = texts(&changed);
    check(&setup, 1, 2);
    setup.entries = vec![entry("one")];
    check(&setup, 0, 3);
}

#[test]
fn an_entry_is_not_asked_for_what_names_another() {
    let observer = Arc::new(entry("two"));
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "{provider: one, records: [{name: x, ttl: 1}]}"))]);
    setup.entries.push((*observer).clone());
    assert_eq!(good(&setup), "one/a x = 1 ");
}

#[test]
fn a_folder_is_validated_without_a_configuration() {
    let files = folder(&[
        (
            "a.yaml",
            &(thing(
                "a",
                "{provider: anything, records: [{name: x, ttl: \"${vars.ttl}\", value: \"${vars.v}\"}]}",
            ) + "---\n"
                + &thing("b", "{records: [{name: x, value: \"${vars.v}\"}, {nmae: y}]}")),
        ),
        (
            "b.yaml",
            "apiVersion: test/v1\nkind: Part\nmetadata: {name: p}\nspec: {zone: a, secret: whatever, records: [{name: y}]}\n",
        ),
        (
            "h1.yaml",
            "apiVersion: test/v1\nkind: Thing\nmetadata: {name: h1, annotations: {reconciled/hosts: name=h1}}\nspec: {zone: m, records: [{name: y}]}\n",
        ),
        (
            "h2.yaml",
            "apiVersion: test/v1\nkind: Thing\nmetadata: {name: h2, annotations: {reconciled/hosts: name=h2}}\nspec: {zone: m, records: [{name: y}]}\n",
        ),
    ]);
    let loaded = validate(&files, &[entry("fake"), entry("fake2")], SourceRules::default());
    assert_snapshot!(shown(&loaded), @r#"
    error: field `name` is missing
      --> a.yaml:9:49
    9 | spec: {records: [{name: x, value: "${vars.v}"}, {nmae: y}]}
      |                                                 ^
    error: unknown field `nmae`
      --> a.yaml:9:50
    9 | spec: {records: [{name: x, value: "${vars.v}"}, {nmae: y}]}
      |                                                  ^
    hint: did you mean `name`?
    "#);
}

#[test]
fn a_kind_is_explained_from_the_type_that_parses_it() {
    assert_snapshot!(explain::explain(&kinds(), "Thing").unwrap(), @r#"
    Thing: A scope with records
    apiVersion: test/v1

    spec:
      provider <text>  Entry that manages it.
      zone <text>  Name of the scope.
      exclusive <boolean, default false>  Also delete what nobody declared.
      records <list of mapping>  What is in it.
        name <text, required>  Name within the zone.
        ttl <integer, default 3600>  Seconds.
        value <text>  Text.
        merge <boolean, default false>
      content <text>  Text that is never substituted.
      secret <text>
      file <text>
    "#);
    assert_snapshot!(explain::explain(&kinds(), "Thing.test.spec.records.ttl").unwrap(), @"
    ttl of Thing.records (test/v1)

    ttl <integer, default 3600>  Seconds.
    ");
    let wrong = |path: &str| explain::explain(&kinds(), path).unwrap_err();
    assert_eq!(wrong("Thing.recrods"), "Thing has no field `recrods`\nhint: did you mean `Thing.records`?");
    assert!(wrong("Thing.records.zzzzz").contains("hint: fields of Thing.records: "));
    assert!(wrong("Thing.zone.x").contains("Thing.zone has no field `x`"));
    assert!(explain::explain(&kinds(), "Thnig").unwrap_err().contains("did you mean `Thing`?"));
}

#[test]
fn schemas_are_closed_and_named_as_kubeconform_does() {
    let files = explain::schemas(&kinds());
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["all.json", "part-test-v1.json", "part-test-v1alpha1.json", "thing-test-v1.json"]);
    let schema: serde_json::Value = serde_json::from_str(&files["thing-test-v1.json"]).unwrap();
    assert_eq!(schema["properties"]["spec"]["additionalProperties"], false);
    assert_eq!(schema["definitions"]["Record"]["additionalProperties"], false);
    assert_eq!(schema["properties"]["apiVersion"]["const"], "test/v1");
}

#[test]
fn many_records_come_out_sorted_and_are_asked_for_once() {
    let records: String = (0..20_000).map(|i| format!("  - {{name: h{}, ttl: 1}}\n", 19_999 - i)).collect();
    let text = thing("a", &format!("\n  records:\n{records}"));
    let fake: Arc<dyn Observer> = entry("one").observer;
    let mut setup = Setup::new(&[("a.yaml", &text)]);
    setup.entries[0].observer = fake;
    let loaded = setup.once();
    assert_eq!(shown(&loaded), "");
    let list = loaded.desired.scopes.values().next().unwrap();
    assert_eq!(list.len(), 20_001);
    assert!(list.is_sorted_by(|a, b| a.id < b.id));
}

#[test]
fn what_a_manifest_is_made_from_is_part_of_its_content() {
    let files = |data| [("a.yaml", thing("a", "{file: data.txt}")), ("data.txt", String::from(data))];
    let content = |data| {
        let files = files(data);
        let texts: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        Setup::new(&texts).once().desired.manifests[0].content
    };
    assert_eq!(content("1"), content("1"));
    assert_ne!(content("1"), content("2"), "a change of the file alone has to be a commit's");
}

#[test]
fn a_file_that_was_refused_is_told_with_the_reason() {
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "{file: data.txt}"))]);
    setup.sources[0].1.refused = vec![Problem::error("a symbolic link").in_file("data.txt")];
    assert!(shown(&setup.once()).contains("`data.txt`: a symbolic link"), "{}", shown(&setup.once()));
}
