//! Data sources of Terraform providers, and what `explain` knows of their kinds.

use crate::{
    env::Env,
    running::wait_for,
    terraform::{desk, state, thing, things},
};
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

fn data(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: terraform/v1\nkind: Data\nmetadata: {{name: {name}}}\nspec: {{type: toy_thing, attributes: {{{spec}}}}}\n---\n"
    )
}

#[test]
fn what_a_data_source_tells_is_used_by_others() {
    for protocol in [5, 6] {
        let env = desk(&format!("env: {{TOY_PROTOCOL: \"{protocol}\"}}, "));
        let user = thing("b", "", "name: b, content: \"of ${Data.terraform/d:status.content}\"");
        let file =
            |name: &str| format!("{}{}{user}", data("d", name), thing("a", "", "name: first, content: one"));
        // What it asks for is not known before the other is made.
        env.push("a.yaml", &file("name: \"${Thing/a:status.name}\""));
        env.run(&["plan"])
            .exits(0)
            .says(&["waiting: for an output of Thing/a", "waiting: for an output of Data/d"]);
        env.apply();
        assert_eq!(state(&env, "thing-2.json")["content"], "of one");
        env.in_sync();
        // It is read at each pass.
        env.push("a.yaml", &file("name: \"${Thing/a:status.name}\"").replace("content: one", "content: two"));
        env.apply();
        env.apply();
        wait_for("the new value", || {
            env.run(&["apply", "--yes"]);
            state(&env, "thing-2.json")["content"] == "of two"
        });
        env.in_sync();
        // A secret of it is not put out.
        env.push("c.yaml", &thing("c", "", "name: c, content: \"${Data.terraform/d:status.secret}\""));
        env.run(&["plan"])
            .says(&["stalled: Data/d is in sync and puts out no `secret`", "it puts out content, id, name"]);
        env.push_without("c.yaml");
        // What is read goes without a trace.
        env.push("a.yaml", &thing("a", "", "name: first, content: two"));
        env.run(&["plan"]).exits(0).says(&["- Thing/b"]).hides(&["- Data/d"]);
        env.apply();
        assert_eq!(things(&env), ["thing-1.json"]);
        env.in_sync();
    }
}

#[test]
fn data_is_read_after_what_it_depends_on() {
    let env = desk("");
    let after = |name: &str| {
        data("d", name).replace("name: d", "name: d, annotations: {reconciled/depends-on: Thing/a}")
    };
    let user = thing("b", "", "name: b, content: \"of ${Data.terraform/d:status.content}\"");
    let file = |content: &str| {
        format!(
            "{}{}{user}",
            after("name: first"),
            thing("a", "", &format!("name: first, content: {content}"))
        )
    };
    // Nothing says by an attribute that the other has to be there first.
    env.push("a.yaml", &file("one"));
    env.run(&["plan"]).exits(0).says(&["until Thing/a is ready"]).hides(&["nothing is called first"]);
    env.apply().hides(&["nothing is called first"]);
    assert_eq!(state(&env, "thing-2.json")["content"], "of one");
    env.in_sync();
    // It is read anew within the run that changes the other, and the one after it follows.
    env.push("a.yaml", &file("two"));
    env.run(&["plan"]).exits(0).says(&["~ Thing/a"]).hides(&["+ Data/d", "~ Thing/b"]);
    env.apply();
    assert_eq!(state(&env, "thing-2.json")["content"], "of two");
    env.in_sync();
    // Also where that is put right, and whatever it was found to be before.
    let file = env.path("world/thing-1.json");
    let by_hand = fs::read_to_string(&file).unwrap().replace("\"two\"", "\"by hand\"");
    fs::write(&file, by_hand).unwrap();
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "two");
    assert_eq!(state(&env, "thing-2.json")["content"], "of two");
    env.in_sync();
}

#[test]
fn data_that_cannot_be_read_keeps_others_waiting_and_loses_nothing() {
    let env = desk("");
    let user =
        |name: &str| thing("b", "", &format!("name: b, content: \"${{Data.terraform/{name}:status.id}}\""));
    env.push("a.yaml", &format!("{}{}", thing("a", "", "name: first"), data("none", "name: nobody")));
    env.push("b.yaml", &user("none"));
    env.run(&["apply", "--yes", "--timeout", "2s"]).says(&["nothing is called nobody", "Data/none"]);
    assert_eq!(things(&env), ["thing-1.json"], "others go on");
    // One that was read before and no longer can be.
    env.push("a.yaml", &format!("{}{}", thing("a", "", "name: first"), data("none", "name: first")));
    env.apply();
    assert_eq!(state(&env, "thing-2.json")["content"], "thing-1");
    fs::rename(env.path("world/thing-1.json"), env.path("away")).unwrap();
    env.run(&["plan", "--target", "Data/none"]).says(&["nothing is called first"]);
    env.run(&["plan", "--target", "Thing/b"]).hides(&["- Thing/b", "~ Thing/b"]);
    fs::rename(env.path("away"), env.path("world/thing-1.json")).unwrap();
    env.in_sync();
}

#[test]
fn mistakes_in_a_data_source_have_their_place() {
    let env = desk("");
    env.push("a.yaml", &data("d", "nam: x"));
    env.run(&["plan"]).exits(1).says(&["unknown attribute `nam`", "`name` is required", "a.yaml:4:"]);
    env.push("a.yaml", &data("d", "name: x").replace("toy_thing", "toy_thign"));
    env.run(&["plan"]).exits(1).says(&["no data source `toy_thign`", "did you mean `toy_thing`?"]);
    env.push("a.yaml", &data("d", "name: x").replace("spec: {", "spec: {lifecycle: {}, "));
    env.run(&["plan"]).exits(1).says(&["unknown field `lifecycle`"]);
    env.push(
        "a.yaml",
        &data("d", "name: x").replace("name: d", "name: d, annotations: {reconciled/import: y}"),
    );
    env.run(&["plan"]).exits(1).says(&["data is read and cannot be imported"]);
}

#[test]
fn kinds_of_a_configured_entry_are_explained() {
    let env = desk("");
    env.run(&["explain", "Thing"]).exits(0).says(&["toy_thing of example/toy", "name", "lifecycle"]);
    env.run(&["explain", "Thing.toy.rule.port"]).exits(0).says(&["number"]);
    env.run(&["explain", "Trivial.toy.password"]).exits(0).says(&["A secret: never shown"]);
    env.run(&["explain", "Thing.lifecycle.createBeforeDestroy"]).exits(0).says(&["before the old one"]);
    env.run(&["explain", "Thnig"]).exits(1).says(&["did you mean `Thing`?"]);
    let dir = env.path("schemas");
    env.run(&["explain", "--schemas", dir.to_str().unwrap()]).exits(0);
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    assert!(
        read("all.json").contains("thing-toy-v1.json")
            && read("thing-toy-v1.json").contains("replaceTriggeredBy")
    );
    // Where nothing is configured, there is what this program itself knows.
    fs::remove_file(env.path("config.yaml")).unwrap();
    let config = env.path("config.yaml");
    let alone = env.command(&["--config", config.to_str().unwrap(), "explain", "Zone"]).output().unwrap();
    assert!(alone.status.success());
    // An entry that cannot be used keeps no other kind from being explained.
    let desk = desk("env: {TOY_START: die}, ");
    desk.run(&["explain", "Zone"]).exits(0);
    desk.run(&["explain", "Thing"]).exits(1).says(&["provider `toy` cannot be used"]);
}

/// Reads manifests in lines, and says of each what does not fit the schema of its kind in the folder that is the argument.
const FIT: &str = "
import json, os, sys
from jsonschema import Draft7Validator
for line in sys.stdin:
    manifest = json.loads(line)
    kind, version = manifest['kind'], manifest['apiVersion']
    path = os.path.join(sys.argv[1], f'{kind}-{version}.json'.replace('/', '-').lower())
    if not os.path.exists(path):
        print('unknown', kind, version)
        continue
    schema = json.load(open(path))
    Draft7Validator.check_schema(schema)
    found = [f'{list(error.absolute_path)} {error.message}' for error in Draft7Validator(schema).iter_errors(manifest)]
    print('; '.join([kind, manifest['metadata']['name']] + found).replace('\\n', ' ') if found else 'fits')
";

/// What is said of each manifest by the schemas of what is configured.
fn fit(env: &Env, manifests: &str) -> Vec<String> {
    let dir = env.path("schemas");
    env.run(&["explain", "--schemas", dir.to_str().unwrap()]).exits(0);
    let documents = manifests.split("---\n").filter(|text| text.contains("apiVersion:"));
    let lines: String = documents
        .map(|text| serde_saphyr::from_str::<serde_json::Value>(text).unwrap().to_string() + "\n")
        .collect();
    let mut python = Command::new("python3");
    python.args(["-c", FIT]).arg(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
}

#[test]
fn whatever_is_a_manifest_fits_its_schema() {
    let env = desk("");
    let specs = [
        "name: a, secret: {secret: db}, content: {secret: db}",
        "name: a, level: \"${Thing/b:status.size}\", content: \"of ${Thing/b:status.id}\"",
        "name: 5, content: true, tags: {a: 1, b: \"x\"}, level: \"012\", delay_ms: 1.5",
        "name: a, rule: [{port: \"80\"}, {port: 443, protocol: tcp}]",
        "name: a, limit: {most: 1}",
        "name: a, limit: [{most: \"${Thing/b:status.size}\"}], words: [a, 1]",
    ];
    let all: String = specs.iter().map(|spec| thing("a", "", spec)).collect();
    assert_eq!(fit(&env, &all), ["fits"; 6]);
    // They are what is read.
    let read: String =
        specs.iter().skip(2).enumerate().map(|(at, spec)| thing(&format!("t{at}"), "", spec)).collect();
    env.push("a.yaml", &(read + &thing("b", "", "name: b")));
    env.run(&["plan"]).exits(0);
    for wrong in [
        "nam: a",
        "name: [a]",
        "name: {secrets: db}",
        "name: a, level: high",
        "name: a, level: {a: b}",
        "name: a, limit: 1",
        "name: a, limit: [{most: 1}, {most: 2}]",
        "name: a, limit: {least: 1}",
        "name: a, rule: {port: 1}",
        "content: a",
    ] {
        let found = fit(&env, &thing("a", "", wrong));
        assert!(found.len() == 1 && found[0] != "fits", "{wrong}: {found:?}");
    }
}

#[test]
fn every_example_fits_the_schemas_of_its_kinds() {
    let env = desk("");
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")];
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "yaml") => {
                    all += &format!("---\n{}\n", fs::read_to_string(path).unwrap());
                }
                false => {}
            }
        }
    }
    let found = fit(&env, &all);
    // Those of a provider that is not configured here are for where it is.
    let wrong: Vec<&String> =
        found.iter().filter(|said| *said != "fits" && !said.starts_with("unknown ")).collect();
    assert!(wrong.is_empty() && found.len() > 20, "{wrong:#?}");
}
