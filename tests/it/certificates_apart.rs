//! Certificates of one entry beside each other, in a daemon: what one of them waits for, and what the guard counts.

use crate::{
    certificates::{certificate, fingerprint, manifest},
    env::{Env, WIDE_GUARD},
    running::{Daemon, wait_for},
};
use std::{fs, net::TcpListener};

const OWN: &str = "issuerRef: {name: own}, dnsNames: [example.com]";

fn desk(keys: &str) -> Env {
    let env = Env::trusted();
    fs::create_dir(env.path("ssl")).unwrap();
    let dir = env.dir.path().display();
    env.config(&format!("  - {{name: cert, type: certificates, paths: [{dir}/ssl], {keys}}}"));
    env
}

fn is_there(env: &Env, name: &str) -> bool {
    env.path(&format!("ssl/{name}/tls.crt")).exists()
}

#[test]
fn an_authority_that_never_answers_keeps_no_other_certificate_back() {
    // It takes connections and says nothing, for much longer than anybody here waits.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let env = desk(&format!("timeout: 10m, {WIDE_GUARD}"));
    let server = format!("https://127.0.0.1:{}/dir", silent.local_addr().unwrap().port());
    let acme = format!("acme: {{server: '{server}', solvers: [{{http01: {{}}}}]}}");
    let mut text = manifest("Issuer", "own", "selfSigned: {}") + &manifest("Issuer", "silent", &acme);
    for name in ["a", "b", "c", "d", "e", "f"] {
        let spec = format!("issuerRef: {{name: silent}}, dnsNames: [{name}.example.com]");
        text += &certificate(&env, name, &spec);
    }
    env.push("all.yaml", &(text + &certificate(&env, "web", OWN)));
    let _daemon = Daemon::start(&env);
    wait_for("a certificate", || is_there(&env, "web"));
    let first = fingerprint(&env, "web");
    wait_for("it is tracked", || env.run(&["renew", "Certificate/web"]).code == Some(0));
    wait_for("another certificate", || fingerprint(&env, "web") != first);
    fs::remove_file(env.path("ssl/web/tls.key")).unwrap();
    env.run(&["sync", "Certificate/web"]);
    wait_for("what is put back", || env.path("ssl/web/tls.key").exists());
    assert!(!is_there(&env, "a"));
}

#[test]
fn the_guard_counts_over_all_certificates_of_an_entry_although_each_is_run_by_itself() {
    let env = desk("guard: {maxDeletes: 2, maxDeletePercent: 100}");
    let names = ["a", "b", "c", "d", "e"];
    let left = || names.iter().filter(|name| is_there(&env, name)).count();
    let text = |names: &[&str]| {
        let all = names.iter().map(|name| certificate(&env, name, OWN));
        manifest("Issuer", "own", "selfSigned: {}") + &all.collect::<String>()
    };
    env.push("all.yaml", &text(&names));
    let daemon = Daemon::ready(&env);
    wait_for("certificates", || left() == 5);
    env.push("all.yaml", &text(&names[..2]));
    env.run(&["sync", "--wait"]).exits(3);
    let held = env.run(&["apply", "--yes"]).exits(3).says(&["3 deletes, limit 2", "reconciled approve"]);
    assert_eq!(left(), 5, "one at a time would be within the limit");
    let words: Vec<&str> = held.stdout.split_whitespace().collect();
    let digest = words[words.iter().position(|word| *word == "approve").unwrap() + 1];
    env.run(&["approve", digest, "--reason", "meant so"]).exits(0);
    wait_for("all that was consented to", || left() == 2);
    // As many as are allowed go without a word.
    env.push("all.yaml", &text(&names[..1]));
    env.run(&["sync", "--wait"]).exits(0);
    wait_for("one that may go", || left() == 1);
    env.run(&["sync", "--wait"]).exits(0);
    daemon.stop();
}

#[test]
fn nothing_is_made_for_a_commit_of_which_another_part_is_held() {
    let env = desk("guard: {maxDeletes: 2, maxDeletePercent: 100}");
    let text = |names: &[&str]| {
        let all = names.iter().map(|name| certificate(&env, name, OWN));
        manifest("Issuer", "own", "selfSigned: {}") + &all.collect::<String>()
    };
    env.push("all.yaml", &text(&["c", "d", "e", "f"]));
    let daemon = Daemon::ready(&env);
    wait_for("certificates", || ["c", "d", "e", "f"].iter().all(|name| is_there(&env, name)));
    // Of these scopes the first and the last only make something.
    env.push("all.yaml", &text(&["a", "f", "z"]));
    env.run(&["sync", "--wait"]).exits(3);
    assert_eq!([is_there(&env, "a"), is_there(&env, "z"), is_there(&env, "c")], [false, false, true]);
    let held = env.run(&["approvals"]).exits(0);
    let words: Vec<&str> = held.stdout.split_whitespace().collect();
    let digest = words[words.iter().position(|word| *word == "approve").unwrap() + 1];
    env.run(&["approve", digest, "--reason", "meant so"]).exits(0);
    wait_for("all of it", || is_there(&env, "a") && is_there(&env, "z") && !is_there(&env, "c"));
    // What comes next has nothing to wait for.
    env.push("all.yaml", &text(&["a", "b", "f", "z"]));
    env.run(&["sync", "--wait"]).exits(0);
    assert!(is_there(&env, "b"));
    daemon.stop();
}
