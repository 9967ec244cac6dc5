//! Values that the real sops encrypted in the repository, through the real program.

use crate::{
    env::Env,
    running::{Daemon, wait_for},
};
use std::{fs, process::Command};

const CANARY: &str = "canary-of-sops";

struct Desk {
    env: Env,
    recipient: String,
}

pub(crate) fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Puts `text` into the working copy of a desk, encrypted for `recipient`.
pub(crate) fn encrypt(env: &Env, recipient: &str, file: &str, text: &str) {
    let clear = env.path(&format!("clear-{file}"));
    fs::write(&clear, text).unwrap();
    let arguments = ["--config", "/dev/null", "encrypt", "--age", recipient, clear.to_str().unwrap()];
    env.write(&format!("work/{file}"), &tool("sops", &arguments));
    fs::remove_file(&clear).unwrap();
}

impl Desk {
    fn new() -> Desk {
        let env = Env::host("sops: {age: {file: age.key}}\n");
        let key = tool("age-keygen", &[]);
        env.write("age.key", &key);
        let path = env.path("age.key").display().to_string();
        env.host_config(&format!("sops: {{age: {{file: {path}}}}}\n"));
        Desk { recipient: tool("age-keygen", &["-y", &path]).trim().to_owned(), env }
    }

    /// Puts `text`, encrypted for this desk, into the working copy.
    fn encrypt(&self, file: &str, text: &str) {
        encrypt(&self.env, &self.recipient, file, text);
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.env.path("machine/etc").join(name)).ok()
    }
}

fn file(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: local/v1\nkind: File\nmetadata: {{name: {name}}}\nspec: {{path: /etc/{name}, {spec}}}\n---\n"
    )
}

const FROM_SOPS: &str = "content: {sops: secrets.yaml, key: database.password}, mode: \"0600\"";

#[test]
fn a_value_reaches_its_file_and_nothing_else() {
    let desk = Desk::new();
    let env = &desk.env;
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}, user: u}}\n"));
    env.push("a.yaml", &file("db", FROM_SOPS));
    env.run(&["check"]).says(&["sops key 1", &desk.recipient]);
    let plan = env.run(&["plan", "-vvv", "-o", "json"]).exits(0);
    let applied = env.run(&["apply", "--yes", "-vvv"]).exits(0);
    assert_eq!(desk.file("db").as_deref(), Some(CANARY));
    env.in_sync();

    // Written anew, another value changed: nothing to do. The value itself changed: an update.
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}, user: v}}\n"));
    env.push_all();
    env.in_sync();
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}-2, user: v}}\n"));
    env.push_all();
    let rotated = env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["~ File/db"]);
    env.apply();
    assert_eq!(desk.file("db"), Some(format!("{CANARY}-2")));

    for output in [plan, applied, rotated] {
        assert!(!output.all().contains(CANARY), "{}", output.all());
    }
    let found = Command::new("grep").args(["-rl", CANARY]).arg(env.path("state")).output().unwrap();
    let originals = env.path("state/originals").display().to_string();
    let found = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.lines().filter(|path| !path.starts_with(&originals)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn of_a_commit_with_a_changed_file_nothing_comes_into_force() {
    let desk = Desk::new();
    let env = &desk.env;
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}}}\nplain_unencrypted: 1\n"));
    env.push("a.yaml", &file("db", FROM_SOPS));
    env.apply();
    let good = fs::read_to_string(env.path("work/secrets.yaml")).unwrap();
    env.write("work/secrets.yaml", &good.replace("plain_unencrypted: 1", "plain_unencrypted: 2"));
    env.push("b.yaml", &file("other", "content: x"));
    env.run(&["apply", "--yes"])
        .exits(1)
        .says(&["was changed after sops wrote it", "sops edit secrets.yaml"]);
    assert_eq!((desk.file("other"), desk.file("db").as_deref()), (None, Some(CANARY)));
    env.write("work/secrets.yaml", &good);
    env.push_all();
    env.apply();
    assert_eq!(desk.file("other").as_deref(), Some("x"));
}

#[test]
fn without_its_key_a_manifest_waits_and_the_rest_goes_on() {
    let desk = Desk::new();
    let env = &desk.env;
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}}}\n"));
    env.push("a.yaml", &file("db", FROM_SOPS));
    env.apply();
    let other = tool("age-keygen", &[]);
    let public = other.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap();
    encrypt(env, public, "secrets.yaml", &format!("database: {{password: {CANARY}-2}}\n"));
    env.push("b.yaml", &file("other", "content: x"));
    let told = env.run(&["apply", "--yes"]).exits(1);
    told.says(&["a.yaml:4", public, &desk.recipient, "sops updatekeys secrets.yaml"]);
    assert_eq!((desk.file("other").as_deref(), desk.file("db").as_deref()), (Some("x"), Some(CANARY)));
    // A key that is gone changes and deletes nothing either.
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}-3}}\n"));
    env.push_all();
    fs::rename(env.path("age.key"), env.path("age.gone")).unwrap();
    env.run(&["apply", "--yes"]).exits(1).says(&["read secret file", "age.key"]);
    assert_eq!(desk.file("db").as_deref(), Some(CANARY));
    fs::rename(env.path("age.gone"), env.path("age.key")).unwrap();
    env.apply();
    assert_eq!(desk.file("db"), Some(format!("{CANARY}-3")));
}

#[test]
fn a_key_that_is_put_right_is_found_without_another_commit() {
    let desk = Desk::new();
    let env = &desk.env;
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}}}\n"));
    env.push("a.yaml", &file("db", FROM_SOPS));
    let right = fs::read_to_string(env.path("age.key")).unwrap();
    env.write("age.key", &tool("age-keygen", &[]));
    let _daemon = Daemon::start(env);
    let is_told = || env.run(&["status"]).all().contains("and the key of this host is");
    wait_for("the wrong key is told", is_told);
    env.write("age.key", &right);
    env.run(&["sync", "--wait"]).exits(0);
    assert_eq!(desk.file("db").as_deref(), Some(CANARY));
    // So is one that was not there.
    fs::rename(env.path("age.key"), env.path("age.gone")).unwrap();
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}-2}}\n"));
    env.push_all();
    env.run(&["sync", "--wait"]).says(&["read secret file"]);
    fs::rename(env.path("age.gone"), env.path("age.key")).unwrap();
    env.run(&["sync", "--wait"]).exits(0);
    assert_eq!(desk.file("db"), Some(format!("{CANARY}-2")));
}

#[test]
fn what_a_manifest_names_is_checked_without_any_key() {
    let desk = Desk::new();
    let env = &desk.env;
    desk.encrypt("secrets.yaml", &format!("database: {{password: {CANARY}}}\nplain_unencrypted: 1\n"));
    env.write("work/a.yaml", &file("db", FROM_SOPS));
    env.run(&["validate", "work"]).exits(0);
    for (spec, told) in [
        ("content: {sops: secrets.yaml, key: database.pasword}", "did you mean `database.password`?"),
        ("content: {sops: secrets.yaml, key: plain_unencrypted}", "is not encrypted"),
        ("content: {sops: nope.yaml, key: a}", "there is no file `nope.yaml`"),
        ("content: {sops: a.yaml, key: a}", "it has no section `sops`"),
        ("content: {secret: \"sops:00\"}", "not one that a manifest may name"),
    ] {
        env.write("work/a.yaml", &file("db", spec));
        env.run(&["validate", "work"]).exits(1).says(&["a.yaml:4", told]).hides(&["needs one of"]);
    }
}

#[test]
fn a_secret_of_the_host_may_be_what_a_command_prints() {
    let env = Env::host("");
    env.write("store", "canary-of-exec\n");
    let store = env.path("store").display().to_string();
    env.host_config(&format!("secrets: {{db: {{exec: [cat, {store}]}}}}\n"));
    env.push("a.yaml", &file("db", "content: {secret: db}, mode: \"0600\""));
    let output = env.run(&["apply", "--yes", "-vvv"]).exits(0);
    assert!(!output.all().contains("canary-of-exec"));
    let path = env.path("machine/etc/db");
    assert_eq!(fs::read_to_string(&path).unwrap(), "canary-of-exec");
    env.in_sync();
    // The store has another one: nothing in Git changed.
    env.write("store", "canary-of-exec-2\n");
    let rotated = env.run(&["plan", "--detailed-exitcode"]).exits(2);
    rotated.says(&["~ File/db", "input"]).hides(&["canary-of-exec"]);
    env.apply();
    assert_eq!(fs::read_to_string(&path).unwrap(), "canary-of-exec-2");
    fs::remove_file(&store).unwrap();
    env.push("b.yaml", &file("other", "content: x"));
    env.run(&["apply", "--yes"]).exits(1).says(&["the secret that `cat` prints", "exit status"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "canary-of-exec-2", "an outage changes nothing");
    env.run(&["check"]).exits(1).says(&["secret db", "run the command by hand"]);
}

#[test]
fn a_plan_before_there_is_a_state_says_that_its_digests_do_not_last() {
    let env = Env::host("");
    let store = env.path("store.txt").display().to_string();
    env.write("store.txt", CANARY);
    env.host_config(&format!("secrets: {{db: {{file: {store}}}}}\n"));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("{name: infra,", "{name: infra, apply: approve,"));
    env.push("a.yaml", &file("db", "content: {secret: db}, mode: \"0600\""));
    let plan = env.run(&["plan"]).exits(3);
    plan.says(&["there is no state yet", "reconciled state init"]).hides(&["reconciled approve"]);
    env.run(&["state", "init"]).exits(0);
    let plan = env.run(&["plan"]).exits(3).hides(&["state init"]).stdout;
    let digest = plan.split("reconciled approve ").nth(1).unwrap().split(' ').next().unwrap();
    env.run(&["approve", digest, "--reason", "go"]).exits(0);
    env.apply();
    assert_eq!(fs::read_to_string(env.path("machine/etc/db")).unwrap(), CANARY);
}

#[test]
fn a_file_that_is_encrypted_anew_changes_nothing_and_words_are_as_sops_prints_them() {
    let desk = Desk::new();
    let env = &desk.env;
    let clear = format!("database: {{password: {CANARY}, on: true}}\n");
    desk.encrypt("secrets.yaml", &clear);
    env.push("a.yaml", &file("db", FROM_SOPS));
    env.run(&["apply", "--yes"]).exits(0);
    assert_eq!(desk.file("db").as_deref(), Some(CANARY));
    desk.encrypt("secrets.yaml", &clear);
    let on = "content: {sops: secrets.yaml, key: database.on}, mode: \"0600\"";
    env.push("a.yaml", &(file("db", FROM_SOPS) + &file("on", on)));
    env.run(&["apply", "--yes"]).exits(0).says(&["1 created", "0 updated"]);
    assert_eq!(desk.file("on").as_deref(), Some("true"));
}
