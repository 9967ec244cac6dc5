//! Providers of Terraform behind the real program: a small one made for tests, which can be told to misbehave, and the
//! one for AWS before a server that plays AWS.

use crate::{
    env::Env,
    pebble::free_port,
    running::{Daemon, wait_for},
};
use reconciled_testkit::tools::{machines_own, needed};
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const SIGKILL: i32 = 9;
const SECRET: &str = "canary-token-of-the-provider";

/// The small provider: `cargo` builds it beside the program.
pub(crate) fn toy() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_reconciled")).with_file_name("terraform-provider-toy");
    assert!(path.exists(), "{} is missing: cargo build --workspace --bins", path.display());
    path
}

/// A desk whose entry `toy` keeps its things in `world/`; `keys` are further keys of the entry.
pub(crate) fn desk(keys: &str) -> Env {
    let env = Env::new();
    fs::create_dir(env.path("world")).unwrap();
    env.write("token", SECRET);
    configure(&env, keys);
    env
}

pub(crate) fn configure(env: &Env, keys: &str) {
    env.config(&entry(env, keys));
}

/// The entry `toy`; `keys` are further keys of it.
pub(crate) fn entry(env: &Env, keys: &str) -> String {
    let (toy, world, token) = (toy(), env.path("world"), env.path("token"));
    format!(
        "  - {{name: toy, type: terraform, source: example/toy, settle: 0s, path: {}, config: {{directory: {}, token: {{file: {}}}}}, {keys}guard: {{maxDeletes: 100, maxDeletePercent: 100, maxUpdates: 100, maxUpdatePercent: 100}}}}",
        toy.display(),
        world.display(),
        token.display()
    )
}

pub(crate) fn thing(name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: toy/v1\nkind: Thing\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\nspec: {{{spec}}}\n---\n"
    )
}

/// The things there are, by their file.
pub(crate) fn things(env: &Env) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(env.path("world"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn state(env: &Env, thing: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(env.path("world").join(thing)).unwrap()).unwrap()
}

/// True for a child of a process that was started with the configuration of this desk.
fn is_child_of_ours(pid: u32, env: &Env) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).map(str::trim).unwrap_or("0");
    let cmdline = fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&cmdline).contains(&*env.path("config.yaml").to_string_lossy())
}

#[test]
fn a_resource_is_made_changed_by_hand_healed_replaced_and_pruned() {
    let env = desk("");
    env.write("work/keep.yaml", "apiVersion: terraform/v1\nkind: Resource\nmetadata: {name: keep}\nspec: {type: toy_trivial, attributes: {input: x}}\n");
    env.push("a.yaml", &thing("a", "", "name: one, content: hello, rule: [{port: 80}], label: [{key: k}]"));
    env.run(&["plan"]).exits(0).says(&[
        "+ Thing/a",
        "id: (none) → (known after apply)",
        "rule[0].protocol: (none) → tcp",
    ]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
    env.in_sync();

    let file = env.path("world/thing-1.json");
    let by_hand = fs::read_to_string(&file).unwrap().replace("\"hello\"", "\"by hand\"");
    fs::write(&file, by_hand).unwrap();
    wait_for("the change by hand in the plan", || {
        env.run(&["plan"]).all().contains("content: by hand → hello")
    });
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "hello");

    env.push("a.yaml", &thing("a", "", "name: two, content: hello"));
    env.run(&["plan"]).exits(0).says(&["-/+ Thing/a", "name: one → two  # forces replacement"]);
    let plan: serde_json::Value = serde_json::from_str(&env.run(&["plan", "-o", "json"]).stdout).unwrap();
    assert_eq!(plan["resource_changes"][0]["change"]["replace_paths"], serde_json::json!([["name"]]));
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["name"], "two");

    fs::remove_file(&file).unwrap();
    wait_for("the loss in the plan", || env.run(&["plan"]).all().contains("+ Thing/a"));
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);

    env.push_without("a.yaml");
    env.run(&["plan"]).exits(0).says(&["- Thing/a"]);
    env.apply();
    assert_eq!(things(&env), [""; 0]);
    env.in_sync();
}

#[test]
fn a_provider_is_found_in_a_mirror_by_its_version() {
    let env = desk("");
    let platform = if cfg!(target_arch = "aarch64") { "linux_arm64" } else { "linux_amd64" };
    let folder = env.path("mirror/registry.opentofu.org/example/toy/1.4.0").join(platform);
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(toy(), folder.join("terraform-provider-toy")).unwrap();
    let entry = |keys: &str| {
        let (mirror, world) = (env.path("mirror"), env.path("world"));
        env.config(&format!(
            "  - {{name: toy, type: terraform, source: example/toy, settle: 0s, mirror: {}, {keys}, config: {{directory: {}}}}}\n",
            mirror.display(),
            world.display()
        ));
    };
    entry("version: ~> 2.0");
    env.push("a.yaml", &thing("a", "", "name: one"));
    env.run(&["plan"]).says(&["has no provider registry.opentofu.org/example/toy (~> 2.0)"]);
    entry("version: ~> 1.2");
    env.run(&["plan"]).exits(0).says(&["+ Thing/a"]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
    // With a checksum the file that was compared is run.
    let pinned = |sum: &str| entry(&format!("version: ~> 1.2, hashes: [\"{sum}\"]"));
    pinned(&format!("h1:{}=", "A".repeat(43)));
    let refused = env.run(&["plan", "--refresh"]).says(&["has none of the checksums in `hashes`"]).all();
    let sum = refused.split("it is h1:").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    pinned(&format!("h1:{sum}"));
    env.push("a.yaml", &thing("a", "", "name: one, content: \"what it is called\""));
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "what it is called");
    env.in_sync();
    entry("version: latest");
    env.run(&["plan"]).exits(1).says(&["`latest` is no constraint of a version", "config.yaml:"]);
}

#[test]
fn outputs_flow_from_one_resource_to_the_next() {
    let env = desk("");
    let second =
        thing("b", "", "name: b, content: \"of ${Thing/a:status.id}\", level: \"${Thing/a:status.size}\"");
    env.push("a.yaml", &format!("{}{second}", thing("a", "", "name: a, content: four")));
    env.run(&["plan"]).exits(0).says(&[
        "waiting: for an output of Thing/a",
        // What is declared is planned, and what is not known yet says so.
        "name: (none) → b",
        "content: (none) → (known after apply)",
    ]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json", "thing-2.json"]);
    let b = state(&env, "thing-2.json");
    assert_eq!((b["content"].as_str(), b["level"].as_i64()), (Some("of thing-1"), Some(4)));
    env.in_sync();
}

#[test]
fn what_waits_for_an_output_is_validated_before_that() {
    let env = desk("");
    let second = thing("b", "", "name: \"\", content: \"of ${Thing/a:status.id}\"");
    env.push("a.yaml", &format!("{}{second}", thing("a", "", "name: a")));
    env.run(&["plan"]).says(&["a name has letters", "+ Thing/a"]);
    assert_eq!(things(&env), [""; 0]);
}

#[test]
fn who_follows_what_is_made_anew_is_told_in_its_plan() {
    let env = desk("");
    let all = |name: &str| {
        let second = thing("b", "", "name: \"of ${Thing/a:status.id}\"");
        format!("{}{second}{}", thing("a", "", &format!("name: {name}")), thing("c", "", "name: c"))
    };
    env.push("a.yaml", &all("one"));
    env.apply();
    env.run(&["plan"]).hides(&["may be changed"]);
    env.push("a.yaml", &all("two"));
    let told = "Thing/a is made anew: 1 that follows it may be changed or made anew too, once its outputs are \
                known: Thing/b";
    env.run(&["plan"]).says(&[told, "they are in no count of this plan"]);
    env.run(&["plan", "-o", "json"]).says(&["MayFollow", told]);
    env.run(&["plan", "-o", "markdown"]).says(&["Thing/a is made anew"]);
}

#[test]
fn mistakes_in_a_manifest_have_their_place_and_a_hint() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "nam: x, level: high, size: 3, rule: [{prt: 1}]"));
    env.run(&["plan"]).exits(1).says(&[
        "unknown attribute `nam`",
        "did you mean `name`?",
        "`name` is required and missing",
        "expected a number for `level`, found text",
        "`size` is decided by the provider",
        "did you mean `port`?",
        "a.yaml:4:",
    ]);
    env.push("a.yaml", &thing("a", "reconciled/ignore: 'tgas,tags[\"a.b\"]'", "name: a"));
    env.run(&["plan"])
        .exits(1)
        .says(&["`reconciled/ignore: tgas`: there is no attribute `tgas`", "did you mean `tags`?"]);
    env.push("a.yaml", "apiVersion: toy/v1\nkind: Thnig\nmetadata: {name: a}\nspec: {}\n");
    env.run(&["plan"]).exits(1).says(&["unknown kind Thnig", "did you mean `Thing`"]);
    // Without a configuration nobody knows what kinds there are.
    env.push("a.yaml", &thing("a", "", "name: a"));
    env.run(&["validate", "work"]).exits(0).says(&["kind Thing of toy/v1 is not checked here"]);
    env.push("a.yaml", &thing("a", "", "name: ''"));
    env.run(&["plan"]).says(&["a name has letters"]);
}

#[test]
fn mistakes_in_an_entry_are_told_before_anything_is_done() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a"));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let check = |from: &str, to: &str, words: &[&str]| {
        env.write("config.yaml", &config.replace(from, to));
        env.run(&["plan"]).exits(1).says(words).hides(&[SECRET]);
    };
    check(
        "terraform-provider-toy",
        "terraform-provider-none",
        &["cannot be run", "correct `path`", "config.yaml:"],
    );
    check(
        "directory: ",
        "directry: ",
        &["unknown attribute `directry`", "did you mean `directory`?", "config.yaml:"],
    );
    check("source: example/toy", "sorce: example/toy", &["did you mean `source`?"]);
    for (start, words) in [
        ("die", &["ended before its first line", "exit code 3", "the toy is broken"][..]),
        ("garbage", &["no handshake of a Terraform provider"]),
        ("old", &["version 4 of the plugin protocol"]),
    ] {
        configure(&env, &format!("env: {{TOY_START: {start}}}, "));
        let said = env.run(&["plan"]).says(words);
        assert_ne!(said.code, Some(0), "{}", said.all());
    }
    configure(&env, "");
    env.write("token", "wrong");
    env.run(&["plan"]).says(&["permission-denied", "AccessDenied"]).hides(&["`wrong`"]);
}

#[test]
fn both_protocols_are_spoken() {
    for protocol in [5, 6] {
        let env = desk(&format!("env: {{TOY_PROTOCOL: \"{protocol}\"}}, "));
        env.push(
            "a.yaml",
            &thing("a", "", "name: a, tags: {k: v}, words: [b, a], label: [{key: x}, {key: w, value: v}]"),
        );
        env.apply();
        assert_eq!(state(&env, "thing-1.json")["words"], serde_json::json!(["a", "b"]));
        env.in_sync();
    }
}

#[test]
fn what_goes_wrong_in_a_change_is_told_and_harms_nothing() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, fault: refuse"));
    env.run(&["apply", "--yes"]).says(&["no such thing can be"]);
    assert_eq!(things(&env), [""; 0]);

    env.push("a.yaml", &thing("a", "", "name: a, content: whole, fault: half"));
    env.run(&["apply", "--yes", "--timeout", "2s"]).says(&["only half of it was made"]);
    assert_eq!(things(&env), ["thing-1.json"], "what was made in part is known, and not made twice");
    env.run(&["plan"]).says(&["-/+ Thing/a"]);
    env.push("a.yaml", &thing("a", "", "name: a, content: whole"));
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["content"], "whole");
    env.in_sync();

    env.push("a.yaml", &thing("a", "", "name: a, content: new, fault: inconsistent"));
    env.run(&["apply", "--yes", "--timeout", "2s"])
        .says(&["content did not come about as the provider planned it"]);
    for (fault, words) in [
        ("plan-lie", "plans name otherwise than declared"),
        ("plan-garbage", "what is no message"),
        ("plan-death", "died, with exit code 9"),
    ] {
        env.push("a.yaml", &thing("a", "", &format!("name: a, fault: {fault}")));
        env.run(&["plan"]).says(&[words]);
    }
    assert_eq!(things(&env), ["thing-1.json"]);
}

#[test]
fn a_secret_is_neither_shown_nor_kept_in_clear() {
    let env = desk("");
    let value = "canary-in-an-attribute";
    env.push("a.yaml", &thing("a", "", &format!("name: a, secret: {value}, fault: plan-error")));
    env.run(&["plan"]).says(&["a plan with (secret) fails"]).hides(&[value]);
    env.push("a.yaml", &thing("a", "", &format!("name: a, secret: {value}")));
    env.run(&["plan"]).exits(0).says(&["secret: (none) → (sensitive)"]).hides(&[value]);
    env.apply();
    assert_eq!(state(&env, "thing-1.json")["secret"], value);
    // One whose id tells it: what is made is found by it again, and it is shown by nobody.
    env.push("b.yaml", &thing("b", "", &format!("name: b, secret: {value}, fault: telltale")));
    env.run(&["apply", "--yes"]).exits(0).hides(&[value]);
    assert!(things(&env).contains(&format!("thing-{value}.json")));
    env.run(&["plan"]).exits(0).says(&["No changes"]).hides(&[value]);
    for verb in [&["explain", "Thing/b"][..], &["status", "-o", "json"], &["history", "-o", "json"]] {
        env.run(verb).exits(0).hides(&[value]);
    }
    env.in_sync();
    for entry in fs::read_dir(env.path("state")).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let bytes = fs::read(entry.path()).unwrap();
        for canary in [value, SECRET] {
            let holds = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!holds, "{} holds a secret", entry.path().display());
        }
    }
}

#[test]
fn what_a_provider_warns_of_is_told_once_and_without_secrets() {
    let env = desk("");
    let value = "canary-in-a-warning";
    let all: String = (0..3)
        .map(|number| {
            thing(&format!("t{number}"), "", &format!("name: old-{number}, secret: {value}, fault: none"))
        })
        .collect();
    env.push("a.yaml", &all);
    let planned = env.run(&["plan"]).exits(0).hides(&[value]);
    assert_eq!(planned.all().matches("things with (secret) are deprecated").count(), 1, "{planned:?}");
    // Whoever asks a daemon hears it as well, also where it was told before.
    let _daemon = Daemon::start(&env);
    wait_for("the things", || things(&env).len() == 3);
    for _ in 0..2 {
        let planned = env.run(&["plan", "--refresh"]).hides(&[value]);
        let said = "warning: provider `toy`: toy_thing: things with (secret) are deprecated";
        assert_eq!(planned.all().matches(said).count(), 1, "{planned:?}");
    }
}

#[test]
fn a_process_killed_in_mid_creation_makes_no_second_one_and_leaves_no_orphan() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, delay_ms: 4000"));
    let config = env.path("config.yaml");
    let mut apply = env.command(&["--config", config.to_str().unwrap(), "apply", "--yes"]);
    let mut child = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Half of the delay is before it takes effect, half after.
    wait_for("the thing", || things(&env) == ["thing-1.json"]);
    let provider = children_of(child.id());
    assert_eq!(provider.len(), 1);
    child.kill().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(SIGKILL));
    wait_for("the end of the provider", || provider.iter().all(|pid| is_gone(*pid)));

    env.run(&["apply", "--yes"])
        .exits(3)
        .says(&["an earlier create may have succeeded", "reconciled/import"]);
    assert_eq!(things(&env), ["thing-1.json"], "nothing was made twice");
    // A person looks, and says which it is.
    env.push("a.yaml", &thing("a", "reconciled/import: thing-1", "name: a"));
    env.apply();
    env.in_sync();
    assert_eq!(things(&env), ["thing-1.json"]);
}

#[test]
fn a_creation_that_never_was_is_forgotten_and_made() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: a, fault: die"));
    env.run(&["apply", "--yes"]).exits(3).says(&["an earlier create may have succeeded"]);
    env.push("a.yaml", &thing("a", "", "name: a"));
    env.run(&["apply", "--yes"]).exits(3).says(&["reconciled forget Thing/a"]);
    let said = env.run(&["forget", "--all", "--yes"]).exits(0).says(&["1 forgotten", "it is made anew"]);
    said.hides(&["reconciled adopt"]);
    env.apply();
    assert_eq!(things(&env), ["thing-1.json"]);
    env.in_sync();
}

#[test]
fn a_replacement_whose_creation_never_was_is_forgotten_and_made() {
    let env = desk("");
    env.push("a.yaml", &thing("a", "", "name: one"));
    env.apply();
    env.push("a.yaml", &thing("a", "", "name: two, fault: die"));
    env.run(&["apply", "--yes"]).exits(3).says(&["an earlier create may have succeeded"]);
    assert!(things(&env).is_empty(), "the old one went");
    env.run(&["explain", "Thing/a"]).says(&["at remote  not known"]).hides(&["not there"]);
    env.push("a.yaml", &thing("a", "", "name: two"));
    env.run(&["apply", "--yes"]).exits(3).says(&["reconciled forget Thing/a"]);
    let said = env.run(&["forget", "Thing/a", "--yes"]).exits(0).says(&["it is made anew"]);
    said.hides(&["reconciled adopt"]);
    env.apply();
    assert_eq!(things(&env).len(), 1);
    env.in_sync();
}

#[test]
fn what_a_daemon_is_making_is_told_as_under_way_and_not_as_lost() {
    let env = desk("");
    let calls = env.path("calls");
    configure(&env, &format!("env: {{TOY_CALLS: {}}}, ", calls.display()));
    env.push("a.yaml", &thing("a", "", "name: a, fault: hang"));
    let _daemon = Daemon::start(&env);
    wait_for("the call", || fs::read_to_string(&calls).unwrap_or_default().contains("ApplyResourceChange"));
    let says = ["the call to create it is under way"];
    let hides = ["may have succeeded", "reconciled forget"];
    env.run(&["plan"]).exits(0).says(&says).says(&["+ Thing/a"]).hides(&hides).hides(&["NEEDS A PERSON"]);
    env.run(&["explain", "Thing/a"]).exits(0).says(&says).says(&["at remote  not known"]).hides(&hides);
}

#[test]
fn a_daemon_heals_and_ends_its_provider_with_itself() {
    let env = desk("resync: 1s, ");
    env.push("a.yaml", &thing("a", "", "name: a, content: x"));
    let daemon = Daemon::start(&env);
    wait_for("the thing", || things(&env) == ["thing-1.json"]);
    let file = env.path("world/thing-1.json");
    let by_hand = fs::read_to_string(&file).unwrap().replace("\"x\"", "\"by hand\"");
    fs::write(&file, by_hand).unwrap();
    wait_for("the healed thing", || state(&env, "thing-1.json")["content"] == "x");
    // A provider that dies is started again.
    let before = children_of_named(&env);
    assert_eq!(before.len(), 1, "{before:?}");
    assert!(Command::new("kill").args(["-KILL", &before[0].to_string()]).status().unwrap().success());
    let by_hand = fs::read_to_string(&file).unwrap().replace("\"x\"", "\"again\"");
    fs::write(&file, by_hand).unwrap();
    wait_for("the thing healed once more", || state(&env, "thing-1.json")["content"] == "x");
    let after = children_of_named(&env);
    daemon.stop();
    wait_for("the end of the provider", || after.iter().all(|pid| is_gone(*pid)));
}

fn children_of_named(env: &Env) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_child_of_ours(*pid, env) && !is_gone(*pid)).collect()
}

pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|p| p.trim() == parent.to_string()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

/// True for what has ended, waited for or not.
pub(crate) fn is_gone(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

/// moto, a server that plays AWS.
pub(crate) struct Moto {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    pub(crate) fn start() -> Moto {
        let port = free_port();
        let child = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start moto_server ({error}): tests/run installs it"));
        wait_for("moto", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Moto { child, port }
    }
}

/// A provider for AWS.
pub(crate) struct Aws {
    pub(crate) path: PathBuf,
    /// What it is told beside what all are told.
    keys: &'static str,
}

impl Aws {
    /// The same on a desk: a machine of `tests/rig` sees of the place where programs for tests are no more than that.
    pub(crate) fn on_desk(self, env: &Env) -> Aws {
        let path = env.path("terraform-provider-aws");
        fs::hard_link(&self.path, &path).or_else(|_| fs::copy(&self.path, &path).map(drop)).unwrap();
        Aws { path, keys: self.keys }
    }
}

/// The one that `tests/run` unpacks, made with the old SDK alone.
pub(crate) fn aws() -> Aws {
    let path = needed("RECONCILED_TEST_AWS_PROVIDER").into();
    Aws { path, keys: "      skip_get_ec2_platforms: true\n      s3_force_path_style: true\n" }
}

/// One of version 5 or newer, where the machine has one: parts of it are made with the framework that came after.
pub(crate) fn newer_aws() -> Option<Aws> {
    let path = machines_own("RECONCILED_TEST_NEWER_AWS_PROVIDER")?.into();
    Some(Aws { path, keys: "      s3_use_path_style: true\n" })
}

/// Configures the entry `aws` against moto; `keys` are further keys of it.
pub(crate) fn aws_entry(env: &Env, moto: &Moto, keys: &str) {
    aws_entry_of(&aws(), env, moto, keys);
}

pub(crate) fn aws_entry_of(aws: &Aws, env: &Env, moto: &Moto, keys: &str) {
    env.write("key", "canary-of-aws");
    let url = format!("http://127.0.0.1:{}", moto.port);
    let services = ["sqs", "ssm", "s3", "iam", "sts", "secretsmanager", "dynamodb", "route53", "ec2"];
    let endpoints: Vec<String> = services.iter().map(|service| format!("{service}: '{url}'")).collect();
    env.config(&format!(
        "  - name: aws\n    type: terraform\n    source: hashicorp/aws\n    path: {}\n{keys}    guard: {{maxDeletes: 10, maxDeletePercent: 100}}\n    config:\n      region: us-east-1\n      access_key: AKIAEXAMPLE\n      secret_key: {{file: {}}}\n      skip_credentials_validation: true\n      skip_requesting_account_id: true\n      skip_metadata_api_check: true\n{}      endpoints: [{{{}}}]\n",
        aws.path.display(),
        env.path("key").display(),
        aws.keys,
        endpoints.join(", ")
    ));
}
