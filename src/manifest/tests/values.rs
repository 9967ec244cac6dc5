//! Variables, facts of the host, and what manifests say of each other.

use super::*;

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
fn a_variable_that_is_no_single_value_is_told_apart_from_one_that_is_not_there() {
    let check = |name: &str, expect: &str| {
        let spec = format!("{{records: [{{name: x, value: \"${{vars.{name}}}\"}}]}}");
        let mut setup = Setup::new(&[("a.yaml", &thing("a", &spec))]);
        setup.rules().vars = inline("peers: [a, b]\nnet: {d: example.com, dns: [c]}\nnone:\n");
        let said = shown(&setup.once());
        assert!(said.contains(&format!("error: {expect}\n")), "{said}");
        assert_eq!(said.contains("only templates take lists"), !expect.contains("there is no"), "{said}");
    };
    check("peers", "the variable `peers` is a list, and no single value");
    check("net.dns", "the variable `net.dns` is a list, and no single value");
    check("net", "the variable `net` is a mapping, and no single value");
    check("none", "the variable `none` is empty, and no single value");
    check("peers.a", "there is no variable `peers.a`");
    check("no", "there is no variable `no`");
}

#[test]
fn an_address_without_a_path_is_an_error_where_it_is_ours_and_text_where_it_is_not() {
    let spec = |value: &str| format!("{{records: [{{name: x, value: \"{value}\"}}]}}");
    let setup = Setup::new(&[("a.yaml", &thing("a", &spec("${Foo/bar} ${HOME/a} ${file/a.txt/a.bak}")))]);
    assert_eq!(good(&setup), "one/a x = 3600 ${Foo/bar} ${HOME/a} ${file/a.txt/a.bak}");
    let values = ["${Thing/b#www/A:status.values[0]}", "${Thing/b}", "${Queue.aws/jobs}", "${Thing/b:a b}"];
    let files: Vec<(String, String)> = (values.iter().enumerate())
        .map(|(number, value)| (format!("{number}.yaml"), thing(&format!("a{number}"), &spec(value))))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let said = shown(&Setup::new(&files).once());
    for words in [
        "error: `${Thing/b#www/A:status.values[0]}` refers to a part of a manifest",
        "--> 0.yaml:4:",
        "hint: name the manifest and a path in it: ${Thing/b:spec.records",
        "error: `${Thing/b}` has no path that leads to a value",
        "hint: write ${Thing/b:spec.NAME} for what the manifest says, ${Thing/b:status.NAME} for what it puts out",
        "error: `${Queue.aws/jobs}` has no path that leads to a value",
        "error: `${Thing/b:a b}` has no path that leads to a value",
    ] {
        assert!(said.contains(words), "`{words}` is missing in:\n{said}");
    }
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
fn a_later_file_takes_the_place_of_mappings_and_of_values_alike() {
    let with = |name: &str, later: &str| {
        let text = thing("a", &format!("{{records: [{{name: x, value: \"${{vars.{name}}}\"}}]}}"));
        let base = "b: {c: d, e: f}\nv: w\n";
        let mut setup = Setup::new(&[("a.yaml", &text), ("vars/1.yaml", base), ("vars/2.yaml", later)]);
        setup.rules().vars = Vars::Files(vec!["vars/1.yaml".into(), "vars/2.yaml".into()]);
        setup
    };
    assert_eq!(good(&with("b.e", "b: {c: g}\n")), "one/a x = 3600 f", "mappings are united");
    let told = |name, later| shown(&with(name, later).once());
    assert!(told("b.c", "b: gone\n").contains("there is no variable `b.c`"));
    assert!(told("v", "v: [1, 2]\n").contains("the variable `v` is a list"));
    assert!(told("v", "v: ~\n").contains("the variable `v` is empty"));
    assert!(told("v", "v: {w: x}\n").contains("the variable `v` is a mapping"));
}

#[test]
fn what_a_file_that_cannot_be_read_may_have_set_is_not_taken_from_another() {
    let text = [
        thing("a", "{records: [{name: x, value: \"${vars.ip}\"}]}"),
        thing("b", "{records: [{name: y, value: \"${vars.since}\"}]}"),
        thing("c", "{records: [{name: z, value: plain}]}"),
    ];
    let files = [
        ("a.yaml", &*text[0]),
        ("b.yaml", &*text[1]),
        ("c.yaml", &*text[2]),
        ("vars/1.yaml", "ip: 192.0.2.1\nsince: base\n"),
        ("vars/3.yaml", "since: last\n"),
    ];
    for broken in [Some("ip: 192.0.2.9\nb: {c: x"), Some("- a list\n"), None] {
        let more = broken.map(|text| ("vars/2.yaml", text));
        let mut setup = Setup::new(&files.iter().copied().chain(more).collect::<Vec<_>>());
        let paths = ["vars/1.yaml", "vars/2.yaml", "vars/3.yaml"];
        setup.rules().vars = Vars::Files(paths.map(Arc::from).to_vec());
        let loaded = setup.once();
        assert_eq!(resources(&loaded), "one/b y = 3600 last\none/c z = 3600 plain", "{broken:?}");
        assert_eq!(loaded.problems.len(), 1, "one for the file, none for each use: {:?}", loaded.problems);
        assert!(loaded.desired.sources.values().all(|source| source.broken.contains("a.yaml")));
    }
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
        let list = loaded.desired.scopes.values().flat_map(|list| list.iter()).find(|r| &*r.id.0 == "x");
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
        let all = loaded.desired.scopes.values().flat_map(|list| list.iter());
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
fn a_mistake_in_an_annotation_hides_none_in_the_spec() {
    let text = "apiVersion: test/v1\nkind: Thing\nmetadata: {name: a, annotations: {reconciled/wave: x}}\nspec: {zoen: b}\n";
    let loaded = Setup::new(&[("a.yaml", text)]).once();
    let shown = shown(&loaded);
    assert!(shown.contains("reconciled/wave") && shown.contains("unknown field `zoen`"), "{shown}");
    assert_eq!(resources(&loaded), "");
}

#[test]
fn what_waits_for_something_that_is_in_it_is_a_circle() {
    let part = "apiVersion: test/v1\nkind: Part\nmetadata: {name: p}\nspec: {zone: a, records: [{name: y, value: v}]}\n";
    for waits in ["reconciled/depends-on: Part/p", "reconciled/wave: \"1\""] {
        let zone = format!(
            "apiVersion: test/v1\nkind: Thing\nmetadata: {{name: a, annotations: {{{waits}}}}}\nspec: {{}}\n"
        );
        let loaded = Setup::new(&[("a.yaml", &format!("{zone}---\n{}", part))]).once();
        let shown = shown(&loaded);
        assert!(
            shown.contains("manifests wait for each other: Thing/a → Part/p → Thing/a"),
            "{waits}: {shown}"
        );
        assert_eq!(resources(&loaded), "");
    }
    let text = thing("a", "{records: [{name: x, value: \"${Part/p:spec.records[0].value}\"}]}");
    let shown_of = |text: &str| shown(&Setup::new(&[("a.yaml", text)]).once());
    let shown = shown_of(&format!("{text}---\n{}", part));
    assert!(shown.contains("wait for each other"), "{shown}");
    // Waiting for what is in another one is none.
    let other = thing("b", "{records: [{name: x, value: \"${Part/p:spec.records[0].value}\"}]}");
    assert_eq!(shown_of(&format!("{other}---\n{}---\n{}", thing("a", "{}"), part)), "");
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
fn a_file_that_was_parsed_and_cannot_be_read_any_more_ends_no_load() {
    let mut setup = Setup::new(&[
        ("a.yaml", &thing("a", "{records: [{name: x, value: \"${vars.v}\"}]}")),
        (
            "b.yaml",
            &thing("b", "{records: [{name: y, value: \"${Thing/a:spec.records[0].name} ${vars.v}\"}]}"),
        ),
    ]);
    let mut cache = Cache::default();
    setup.rules().vars = inline("v: one\n");
    let before = resources(&setup.load(&mut cache));
    assert!(before.contains("x = 3600 one") && before.contains("y = 3600 x one"), "{before}");
    // What is put in makes both be read again.
    setup.rules().vars = inline("v: two\n");
    setup.sources[0].1.is_lost = true;
    let lost = setup.load(&mut cache);
    assert!(!resources(&lost).contains("two"));
}
