mod beside;
mod values;
mod whose;

use super::{
    testing::{OneSecret, Setup, entry, folder, kinds, other_kind, resources, shown},
    *,
};
use crate::config::{AllowRule, OnInvalid, Vars};
use insta::assert_snapshot;
use reconciled_engine::Desired;
use reconciled_provider::{Kind, Node, Observer, yaml};
use serde_json::json;
use std::sync::Arc;

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
fn an_id_where_no_remote_gives_one_is_an_error_that_says_what_to_do() {
    let text = thing("a", "{}").replace("{name: a}", "{name: a, annotations: {reconciled/import: id-1}}");
    let mut setup = Setup::new(&[("a.yaml", &text)]);
    setup.entries.push(entry("two"));
    assert_eq!(shown(&setup.once()).matches("reconciled/import").count(), 1);
    setup.entries.pop();
    assert_snapshot!(shown(&setup.once()), @r#"
    error: reconciled/import means nothing for a Thing: no remote gives it an identity
      --> a.yaml:1:1
    1 | apiVersion: test/v1
      | ^
    hint: leave it out: what is declared is found by its key; to take over what exists and differs: reconciled adopt Thing/a
    "#);
}

#[test]
fn all_problems_of_an_envelope_are_found() {
    assert_snapshot!(problems(
        "kind: Thing\n---\napiVersion: test/v1\nkind: Thnig\nmetadata: {name: a}\n---\napiVersion: test/v2\nkind: Thing\nmetadata: {name: b}\n---\n\
         apiVersion: test/v1\nkind: Thing\nmetadata:\n  name: \"a#b\"\n  lables: {}\n  annotations:\n    reconciled/delletion: x\n    reconciled/drift: maybe\n    reconciled/hosts: \"a=b=c\"\n    other/x: y\nspce: {}\n"
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
    error: reconciled/hosts: `a=b=c` is not a term of a selector
      --> a.yaml:19:23
    19 |     reconciled/hosts: "a=b=c"
       |                       ^
    hint: write terms as in role=web,env!=staging,!gpu,name in (a,b)
    error: unknown field `spce`
      --> a.yaml:21:1
    21 | spce: {}
       | ^
    hint: did you mean `spec`?
    "#);
}

/// The errors of one file, and whether it is left as it was.
fn check_broken(text: &str, expect: &[&str]) {
    let loaded = Setup::new(&[("a.yaml", text)]).once();
    let told = shown(&loaded);
    for message in expect {
        assert!(told.contains(message), "{text}\n{told}");
    }
    let source = &loaded.desired.sources["infra"];
    assert!(!source.prunes && source.broken.contains("a.yaml"), "{text}");
    assert_eq!(resources(&loaded), "");
}

#[test]
fn who_has_the_head_of_a_manifest_and_no_metadata_is_told_how_to_be_left_out() {
    let ignore = "if this is no manifest, name the file in .reconciledignore";
    let kustomization =
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n";
    check_broken(kustomization, &["`metadata.name` is missing", ignore]);
    let nameless = "apiVersion: test/v1\nkind: Thing\nmetadata: {labels: {a: b}}\n";
    check_broken(nameless, &["hint: give the manifest a name"]);
}

#[test]
fn annotations_that_say_nothing_where_they_stand_are_errors() {
    let check = |metadata: &str, expect: &str| {
        let name = "metadata:\n  name: a\n";
        let text = thing("a", "{records: [{name: x}]}").replace("metadata: {name: a}\n", name);
        check_broken(&text.replace(name, &format!("{name}  {metadata}\n")), &[expect, "--> a.yaml:"]);
    };
    check("annotations: [{reconciled/deletion: protect}]", "under `metadata.annotations`, found a list");
    check("annotations: reconciled/suspend:\"true\"", "under `metadata.annotations`, found text");
    check("annotations: 1", "under `metadata.annotations`, found a number");
    check("labels: {reconciled/deletion: protect}", "`reconciled/deletion` is an annotation and no label");
    let empty = thing("a", "{records: [{name: x}]}").replace("{name: a}", "{name: a, annotations: }");
    assert_eq!(good(&Setup::new(&[("a.yaml", &empty)])), "one/a x = 3600 ");
}

#[test]
fn what_a_list_declared_stays_where_it_is_no_list_any_more() {
    let item = "{apiVersion: test/v1, kind: Thing, metadata: {name: a}, spec: {records: [{name: x}]}}";
    let list = |rest: &str| format!("apiVersion: v1\nkind: List\n{rest}\n");
    check_broken(&list(&format!("item: [{item}]")), &["field of a List `item`", "did you mean `items`?"]);
    check_broken(&list(""), &["a List needs `items`"]);
    check_broken(&list("items:"), &["under `items`, found nothing"]);
    check_broken(&list(&format!("items: {item}")), &["under `items`, found a mapping"]);
    check_broken(&list(&format!("items: [{item}, text]")), &["in a List, found text"]);
    check_broken(&list(&format!("items: [{item}, {{spec: 1}}]")), &["in a List, found a mapping"]);
    check_broken(&list("items: [{apiVersion: v1, kind: List}]"), &["a List needs `items`"]);
    assert_eq!(good(&Setup::new(&[("a.yaml", &list("metadata: {resourceVersion: \"\"}\nitems: []"))])), "");
    // A kind of another group that is called so is no list of manifests.
    check_broken(&list("metadata: {name: a}").replace(" v1", " test/v1"), &["unknown kind List of test/v1"]);
}

#[test]
fn what_git_lfs_keeps_elsewhere_is_no_file_without_manifests() {
    let rest = "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12\n";
    let pointer = format!("version https://git-lfs.github.com/spec/v1\n{rest}");
    check_broken(&pointer, &["error: this is a pointer of Git LFS", "--> a.yaml", "git lfs untrack"]);
    // A file of another tool may say where that is described.
    assert_eq!(good(&Setup::new(&[("a.yaml", "version: https://git-lfs.github.com/spec/v1\n")])), "");
}

#[test]
fn what_is_wrong_as_yaml_hides_nothing_else_that_is_wrong_with_its_envelope() {
    let told = problems(
        "apiVersion: test/v1\nkind: Thing\nmetadata: {name: a, lables: {}}\nspec:\n  records: [{name: y, ttl: .inf}]\n\
         \x20 records: []\n",
    );
    let told: Vec<&str> =
        told.lines().filter(|line| line.starts_with("error") || line.contains("-->")).collect();
    assert_eq!(
        told,
        [
            "error: unknown field of metadata `lables`",
            "  --> a.yaml:3:21",
            "error: `.inf` is no finite number",
            "  --> a.yaml:5:28",
            "error: duplicate mapping key `records`",
            "  --> a.yaml:6:3",
        ]
    );
}

#[test]
fn a_tag_of_another_program_is_wrong_in_a_manifest_and_not_in_what_is_none() {
    let other = "Resources: {a: !Ref b}\n---\n";
    let plain = thing("a", "{records: [{name: x}]}");
    assert_eq!(good(&Setup::new(&[("a.yaml", &format!("{other}{plain}"))])), "one/a x = 3600 ");
    let tagged = plain.replace("name: x", "name: !vault x");
    let expect = ["error: this tag means nothing here", "--> a.yaml:6:", "hint: write the value itself"];
    check_broken(&format!("{other}{tagged}"), &expect);
}

#[test]
fn nobody_takes_a_value_from_a_document_that_is_wrong_as_yaml() {
    let twice = thing("a", "{records: [{name: x, ttl: 1}], records: [{name: y, ttl: 1}]}");
    let refers = thing("b", "{records: [{name: \"${Thing/a:spec.records[0].name}\", ttl: 1}]}");
    let apart = thing("c", "{records: [{name: z, ttl: 1}]}");
    let loaded = Setup::new(&[("a.yaml", &twice), ("b.yaml", &refers), ("c.yaml", &apart)]).once();
    assert_eq!(resources(&loaded), "one/c z = 1 ");
    let source = loaded.desired.sources.values().next().unwrap();
    assert!(!source.prunes && source.broken.contains("a.yaml") && source.broken.contains("b.yaml"));
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
fn what_lacks_a_secret_keeps_what_stands_beside_it_from_nothing() {
    let file = [thing("a", "{secret: gone, records: [{name: x}]}"), thing("b", "{records: [{name: y}]}")]
        .join("---\n");
    let loaded = Setup::new(&[("one.yaml", &file)]).once();
    assert_eq!(resources(&loaded), "one/b y = 3600 ");
    let state = &loaded.desired.sources["infra"];
    assert_eq!((state.prunes, state.broken.len()), (false, 1));
    assert!(loaded.has_errors());
}

#[test]
fn an_encrypted_value_that_cannot_be_opened_freezes_the_manifest_alone_that_names_it() {
    let with = |first: &str| {
        let file = [thing("a", first), thing("b", "{records: [{name: y}]}")].join("---\n");
        Setup::new(&[("one.yaml", &file), ("s.yaml", "")]).once()
    };
    let sops = |key: &str, more: &str| {
        with(&format!("{{content: {{sops: s.yaml, key: {key}}}, records: [{{name: x}}{more}]}}"))
    };
    let loaded = sops("gone", "");
    assert_eq!(resources(&loaded), "one/b y = 3600 ");
    let state = &loaded.desired.sources["infra"];
    assert_eq!((state.prunes, state.broken.len(), loaded.withheld.is_empty()), (false, 1, true));
    assert_eq!((loaded.problems.len(), loaded.has_errors()), (1, true));
    // What is wrong with the manifest besides speaks against its file, as it does without.
    assert_eq!(resources(&sops("gone", ", {name: z, ttl: \"${vars.none}\"}")), "");
    let loaded = sops("changed", "");
    assert_eq!((resources(&loaded).as_str(), loaded.withheld.len()), ("", 1));
}

#[test]
fn a_key_that_opens_nothing_has_changed_once_another_one_is_in_its_place() {
    let sops = thing("a", "{content: {sops: s.yaml, key: gone}, records: [{name: x}]}");
    let loaded = Setup::new(&[("one.yaml", &sops), ("s.yaml", "")]).once();
    assert!(loaded.has_errors());
    for secrets in [loaded.secrets.of("infra"), loaded.secrets.clone()] {
        assert!(!secrets.have_changed(&OneSecret(1)));
        assert!(secrets.have_changed(&OneSecret(2)));
    }
    assert!(!loaded.secrets.of("other").have_changed(&OneSecret(2)));
    let plain = Setup::new(&[("one.yaml", &thing("a", "{records: [{name: x}]}"))]).once();
    assert!(!plain.secrets.have_changed(&OneSecret(2)), "nothing was to be opened");
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
    let loaded = validate(&files, "dir", &[entry("fake"), entry("fake2")], SourceRules::default());
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
fn without_a_configuration_a_stand_in_for_an_entry_is_not_named() {
    let record = "{zone: m, records: [{name: x}]}";
    let files = folder(&[("a.yaml", &thing("a", record)), ("b.yaml", &thing("b", record))]);
    let loaded = validate(&files, "dir", &[entry("fake")], SourceRules::default());
    let told = shown(&loaded);
    assert!(told.contains("Thing/b#x in m is declared twice") && !told.contains("any"), "{told}");
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
        remote <text>  What the remote calls it.
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
fn what_is_nested_many_times_is_explained_once() {
    // Each holds the next twice: written out, they are more than 2^40 fields.
    let level = |at: usize| {
        let next = json!({ "$ref": format!("#/definitions/{}", at + 1) });
        let twice = json!({ "anyOf": [{ "type": "array", "items": next }, { "$ref": next["$ref"], "x-otherwise": true }] });
        (at.to_string(), json!({ "type": "object", "properties": { "left": next, "right": twice } }))
    };
    let mut definitions: serde_json::Map<String, serde_json::Value> = (1..40).map(level).collect();
    definitions
        .insert("40".into(), json!({ "type": "object", "properties": { "last": { "type": "string" } } }));
    let mut schema = level(0).1;
    schema["definitions"] = definitions.into();
    let kind = Kind {
        api_versions: [Arc::from("test/v1")].into(),
        name: "Deep".into(),
        summary: "What holds itself".into(),
        schema: reconciled_provider::kind::Schema::of(schema),
    };
    let kinds = Kinds(vec![kind]);
    let text = explain::explain(&kinds, "Deep").unwrap();
    assert!(text.lines().count() < 300, "{text}");
    assert!(text.ends_with("  right <list of mapping>\n    … as left\n"), "{text}");
    let field = format!("Deep{}.last", ".right".repeat(40));
    assert!(explain::explain(&kinds, &field).unwrap().ends_with("\n\nlast <text>\n"));
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
    let metadata = &schema["properties"]["metadata"];
    assert_eq!(metadata["additionalProperties"], false);
    assert!(metadata["properties"]["creationTimestamp"].is_object());
    let names = &metadata["properties"]["annotations"]["propertyNames"]["anyOf"];
    assert!(names[1]["enum"].as_array().unwrap().contains(&json!("reconciled/deletion")), "{names}");
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
fn revisions_share_the_lists_of_scopes_in_which_nothing_changed() {
    let files = |b: &str, more: &[(&str, &str)]| {
        let (a, b) = (thing("a", "{records: [{name: x, ttl: 1}]}"), thing("b", b));
        let all = [("a.yaml", a.as_str()), ("b.yaml", b.as_str())].into_iter().chain(more.to_vec());
        folder(&all.collect::<Vec<_>>())
    };
    let mut setup = Setup::new(&[]);
    let mut cache = Cache::default();
    let mut load = |files| {
        setup.sources[0].1 = files;
        let loaded = setup.load(&mut cache);
        assert_eq!(resources(&loaded), resources(&setup.once()), "a cache must not change the result");
        loaded.desired
    };
    let shares = |one: &Desired, other: &Desired| {
        one.scopes.iter().map(|(scope, list)| Arc::ptr_eq(list, &other.scopes[scope])).collect::<Vec<_>>()
    };
    let first = load(files("{records: [{name: y}]}", &[]));
    let second = load(files("{records: [{name: z}]}", &[]));
    assert_eq!(shares(&first, &second), [true, false]);

    // The same manifests at other indices are other lists, and name the right ones.
    let before = [("0.yaml", &*thing("0", "{records: [{name: q}]}"))];
    let third = load(files("{records: [{name: z}]}", &before));
    assert_eq!(shares(&second, &third), [false, false]);
    for list in third.scopes.values() {
        let address = third.manifest(list[0].origin).address.to_string();
        assert_eq!(address, format!("Thing/{}", list[0].scope.name));
    }

    // What two declare is told anew each time.
    let twice = [("c.yaml", &*thing("a", "{records: [{name: x, ttl: 2}]}"))];
    for _ in 0..2 {
        setup.sources[0].1 = files("{}", &twice);
        assert!(shown(&setup.load(&mut cache)).contains("twice"), "{}", shown(&setup.once()));
    }
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
    let refused = Problem::error("a symbolic link").in_file("data.txt").hint("commit the file itself");
    setup.sources[0].1.refused = vec![refused];
    let told = shown(&setup.once());
    assert!(
        told.contains("`data.txt`: a symbolic link") && told.contains("commit the file itself"),
        "{told}"
    );
}

#[test]
fn what_names_an_entry_as_it_was_called_before_is_for_it() {
    let mut setup = Setup::new(&[("a.yaml", &thing("a", "{provider: before, content: x}"))]);
    setup.entries.push(entry("two"));
    assert_eq!(good(&setup), "", "it is for another host");
    setup.renamed = [("before".into(), "one".into())].into();
    assert_eq!(good(&setup), "one/a content = x");
}
