//! Signed commits as an operator meets them: polled, pushed, refused, and consented to by a commit itself.

use crate::{
    env::{Env, Output, WIDE_GUARD, rrsets, zone},
    http::{Answer, Place},
    running::{Daemon, wait_for},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{fs, process::Command};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";
const API: &str = "{name: api, type: A, values: [192.0.2.3]}";

/// A desk whose source has these further keys; the key `ada` may sign.
fn desk(source: &str) -> Env {
    desk_with(source, WIDE_GUARD)
}

fn desk_with(source: &str, guard: &str) -> Env {
    let env = Env::zonefile();
    key(&env, "ada");
    key(&env, "eve");
    let public = fs::read_to_string(env.path("ada.pub")).unwrap();
    env.write("allowed", &format!("ada@example.com {public}"));
    let zones = env.path("zones");
    let entry = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {guard}}}",
        zones.display()
    );
    env.config_with("it", &entry, source);
    env
}

const VERIFY: &str = ", verify: {allowedSigners: allowed}";

fn key(env: &Env, name: &str) {
    let path = env.path(name);
    let args = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path.to_str().unwrap()];
    let made = Command::new("ssh-keygen").args(args).status();
    assert!(made.expect("the tests need ssh-keygen (Debian: openssh-client)").success());
}

/// Commits the records of the zone, signed with this key; unsigned without one.
fn commit(env: &Env, key: Option<&str>, message: &str, records: &[&str]) -> String {
    env.write("work/zone.yaml", &zone(ZONE, "zones", records));
    env.git(&["add", "-A"]);
    let signing = key.map(|key| format!("user.signingkey={}", env.path(key).display()));
    let mut args = vec!["-c", "gpg.format=ssh"];
    args.extend(signing.iter().flat_map(|signing| ["-c", signing.as_str()]));
    args.extend(["commit", "-q", "--allow-empty", "-m", message]);
    args.extend(key.map(|_| "-S"));
    env.git(&args);
    env.git(&["rev-parse", "HEAD"])
}

fn push(env: &Env) -> String {
    env.git(&["push", "-q", "origin", "HEAD:main"])
}

/// Pushes, whatever comes of it.
fn try_push(env: &Env, options: &[&str]) -> Output {
    let mut command = Command::new("git");
    command
        .args([&["push"], options, &["origin", "HEAD:main"]].concat())
        .current_dir(env.path("work"))
        .env("HOME", env.dir.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    env.finish(command)
}

/// Makes the repository a push target.
fn push_target(env: &Env) {
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
}

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

#[test]
fn what_is_not_signed_stays_out_of_force_and_status_says_why() {
    let env = desk(VERIFY);
    let good = commit(&env, Some("ada"), "first", &[WWW]);
    push(&env);
    env.apply();
    env.run(&["check"]).exits(0).says(&["source infra signatures", "1 key may sign"]);

    let bad = commit(&env, None, "more", &[WWW, MAIL]);
    push(&env);
    let said = format!("commit {} of source infra does not come into force: it is not signed", &bad[..7]);
    let stays = format!("{} stays in force", &good[..7]);
    env.run(&["plan"]).exits(1).says(&[&said, "hint: sign it anew and push", &stays]);
    env.run(&["apply", "--yes"]).exits(1).says(&[&said, &stays]);
    env.run(&["plan", "--rev", &bad]).exits(1).says(&[&said]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));

    // The daemon: the same, and it says so whenever it is asked.
    let daemon = Daemon::start(&env);
    sync(&env).exits(3).says(&[&said]);
    env.run(&["status"]).says(&[&said, &stays]);
    env.run(&["status", "--exit-code"]).exits(3).says(&["NEEDS A PERSON", "SourceBehind"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    // A signed commit on top does not make up for it; signing both anew does.
    commit(&env, Some("ada"), "again", &[WWW, MAIL]);
    push(&env);
    sync(&env).exits(3).says(&[&said]);
    env.git(&["reset", "-q", "--soft", &good]);
    commit(&env, Some("ada"), "both", &[WWW, MAIL]);
    env.git(&["push", "-q", "--force", "origin", "HEAD:main"]);
    sync(&env).exits(0);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));

    // A key that is taken out of the file counts no more from the next poll on; what is in force stays.
    env.write("allowed", "# nobody\n");
    commit(&env, Some("ada"), "late", &[WWW]);
    push(&env);
    sync(&env).exits(3).says(&["it is signed by ssh-ed25519 SHA256:", "which is not among the allowed keys"]);
    assert!(env.zone_rrsets(ZONE).contains_key("mail A"));
    daemon.stop();
}

#[test]
fn a_push_that_is_not_signed_is_refused_by_the_hook_or_by_the_daemon_later() {
    let env = desk(VERIFY);
    push_target(&env);
    let daemon = Daemon::start(&env);
    let unsigned = commit(&env, None, "first", &[WWW]);
    let said =
        format!("commit {} of source infra does not come into force: it is not signed", &unsigned[..7]);
    try_push(&env, &[]).exits(1).says(&[
        &format!("error: {said}"),
        "hint: sign it anew",
        "pre-receive hook declined",
    ]);
    env.git(&["commit", "-q", "--amend", "-m", "first"]);
    let signing = format!("user.signingkey={}", env.path("eve").display());
    env.git(&["-c", "gpg.format=ssh", "-c", &signing, "commit", "-q", "--amend", "--no-edit", "-S"]);
    try_push(&env, &[])
        .exits(1)
        .says(&["which is not among the allowed keys", "if the key may sign, add it to"]);
    let signing = format!("user.signingkey={}", env.path("ada").display());
    env.git(&["-c", "gpg.format=ssh", "-c", &signing, "commit", "-q", "--amend", "--no-edit", "-S"]);
    try_push(&env, &[]).exits(0).says(&["infra is in sync at"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));

    // Nobody answers: the push is taken, and comes to nothing once the daemon looks.
    daemon.stop();
    commit(&env, None, "behind its back", &[WWW, MAIL]);
    try_push(&env, &[])
        .exits(0)
        .says(&["note: no plan", "the daemon looks, if it is signed by an allowed key"]);
    let daemon = Daemon::start(&env);
    sync(&env).exits(3).says(&["it is not signed"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    daemon.stop();
}

/// gpg with a home of its own; its agent ends with it.
struct Gpg<'a>(&'a Env);

impl Drop for Gpg<'_> {
    fn drop(&mut self) {
        let _ = self.command("gpgconf").args(["--kill", "all"]).output();
    }
}

impl Gpg<'_> {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("HOME", self.0.dir.path()).env_remove("GNUPGHOME");
        command
    }
    fn run(&self, args: &[&str]) -> String {
        let quiet = ["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""];
        let output = self.command("gpg").args(quiet).args(args).output();
        let output = output.expect("the tests need gpg (Debian: gnupg)");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    /// Makes a key.
    fn key(&self, name: &str) {
        self.run(&["--quick-gen-key", name, "ed25519", "sign", "never"]);
    }
    /// Signs what is committed anew.
    fn sign(&self, name: &str) {
        let key = format!("user.signingkey={name}");
        self.0.git(&["-c", "gpg.format=openpgp", "-c", &key, "commit", "-q", "--amend", "--no-edit", "-S"]);
    }
}

#[test]
fn a_push_that_an_allowed_openpgp_key_signed_is_deployed_and_no_other() {
    let env = desk(", verify: {gpgKeys: keys.asc}");
    push_target(&env);
    fs::create_dir(env.path(".gnupg")).unwrap();
    fs::set_permissions(env.path(".gnupg"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let gpg = Gpg(&env);
    ["ada@example.com", "eve@example.com"].iter().for_each(|name| gpg.key(name));
    env.write("keys.asc", &gpg.run(&["--armor", "--export", "ada@example.com"]));
    let daemon = Daemon::start(&env);
    commit(&env, None, "first", &[WWW]);
    try_push(&env, &[]).exits(1).says(&["it is not signed", "pre-receive hook declined"]);
    gpg.sign("eve@example.com");
    try_push(&env, &[]).exits(1).says(&["not among the allowed keys"]);
    gpg.sign("ada@example.com");
    try_push(&env, &[]).exits(0).says(&["infra is in sync at"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    daemon.stop();
}

#[test]
fn keys_that_cannot_be_read_are_found_by_check_and_let_nobody_in() {
    let env = desk(VERIFY);
    commit(&env, Some("ada"), "first", &[WWW]);
    push(&env);
    env.write("allowed", "ada@example.com\n");
    env.run(&["check"]).exits(1).says(&[
        "source infra signatures",
        "allowed:1: it has no key",
        "ALLOWED SIGNERS",
    ]);
    env.run(&["apply", "--yes"]).exits(1).says(&["nothing new of source infra can be verified"]);
    fs::remove_file(env.path("allowed")).unwrap();
    env.run(&["apply", "--yes"])
        .exits(1)
        .says(&["cannot read the allowed keys", "hint: let the service's user read it"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[]));
}

/// A guard that holds every deletion.
const STRICT: &str = "guard: {maxDeletes: 0, maxDeletePercent: 100}";

/// The digest in a line `Reconciled-Approve: DIGEST`.
fn digest(said: &str) -> String {
    let (_, rest) = said.split_once("Reconciled-Approve: ").unwrap_or_else(|| panic!("{said}"));
    rest.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[test]
fn a_trailer_of_a_signed_commit_approves_what_a_push_would_have_held() {
    let env = desk_with(", approve: [trailer], verify: {allowedSigners: allowed}", STRICT);
    push_target(&env);
    let daemon = Daemon::start(&env);
    commit(&env, Some("ada"), "first", &[WWW, MAIL, API]);
    try_push(&env, &[]).exits(0);
    commit(&env, Some("ada"), "less", &[WWW]);
    let refused = try_push(&env, &[]).exits(1);
    refused.says(&[
        "error: refused: what is HELD above needs consent",
        "hint: let the commit say so, then push again: git commit --amend --no-edit --allow-empty --trailer 'Reconciled-Approve: ",
    ]);
    let refused = try_push(&env, &[]).exits(1);
    let digest = digest(&refused.all());
    assert_eq!(digest.len(), 32, "{}", refused.all());

    // A digest of something else is no consent.
    let signing = format!("user.signingkey={}", env.path("ada").display());
    let amend = |trailer: &str| {
        let sign = ["-c", "gpg.format=ssh", "-c", &signing, "commit", "-q", "--amend", "-S", "-m", "less"];
        env.git(&[&sign[..], &["--trailer", trailer]].concat());
    };
    amend(&format!("Reconciled-Approve: {}", "0".repeat(32)));
    try_push(&env, &[]).exits(1).says(&["needs consent"]);
    assert!(env.zone_rrsets(ZONE).contains_key("mail A"));

    // Another message is the same plan.
    amend(&format!("Reconciled-Approve: {digest}"));
    try_push(&env, &[]).exits(0).says(&[
        &format!("{} is consented to by a trailer of the commit", &digest[..8]),
        "infra is in sync at",
    ]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.run(&["approvals", "-o", "json"]).exits(0).says(&[&digest, "signed by ada@example.com", "less"]);
    env.run(&["history"]).exits(0).says(&["approved by a trailer of source infra"]);

    // Used once: the same again is held again.
    commit(&env, Some("ada"), "more", &[WWW, MAIL, API]);
    try_push(&env, &[]).exits(0);
    commit(&env, Some("ada"), "less", &[WWW]);
    try_push(&env, &[]).exits(1).says(&[&digest]);
    daemon.stop();
}

#[test]
fn a_trailer_approves_what_a_polled_source_holds_where_the_source_lets_it() {
    let env = desk_with(", approve: [trailer]", STRICT);
    commit(&env, None, "first", &[WWW, MAIL, API]);
    push(&env);
    env.run(&["apply", "--yes"]).exits(0).says(&["whoever may push can write a trailer that approves"]);
    env.run(&["check"]).exits(0).says(&["commits are not verified", "add verify:"]);
    let daemon = Daemon::start(&env);
    commit(&env, None, "less", &[WWW]);
    push(&env);
    sync(&env).exits(3);
    let plan = env
        .run(&["plan"])
        .exits(3)
        .says(&["with a line at the end of a commit's message: Reconciled-Approve: "]);
    let digest = digest(&plan.stdout);
    commit(&env, None, &format!("it is meant\n\nReconciled-Approve: {}", &digest[..8]), &[WWW]);
    push(&env);
    sync(&env).exits(3);
    assert!(env.zone_rrsets(ZONE).contains_key("mail A"), "a few digits approved");
    commit(&env, None, &format!("it is meant\n\nReviewed-by: Bob\nreconciled-approve: {digest}"), &[WWW]);
    push(&env);
    sync(&env).exits(0);
    wait_for("it is deleted", || env.zone_rrsets(ZONE) == rrsets(&[("www A", "300 192.0.2.1")]));
    env.run(&["approvals", "-o", "json"]).exits(0).says(&["A <a@example.com>", "it is meant"]);
    daemon.stop();

    // Elsewhere a trailer is a word among others, also without a daemon.
    let env = desk_with("", STRICT);
    commit(&env, None, "first", &[WWW, MAIL, API]);
    push(&env);
    env.apply();
    commit(&env, None, &format!("less\n\nReconciled-Approve: {digest}"), &[WWW]);
    push(&env);
    env.run(&["apply", "--yes"]).exits(3).hides(&["commit's message"]);
    assert!(env.zone_rrsets(ZONE).contains_key("mail A"));
}

#[test]
fn a_trailer_approves_also_without_a_daemon() {
    let env = desk_with(", approve: [socket, trailer], verify: {allowedSigners: allowed}", STRICT);
    commit(&env, Some("ada"), "first", &[WWW, MAIL, API]);
    push(&env);
    env.apply();
    commit(&env, Some("ada"), "less", &[WWW]);
    push(&env);
    let held = env.run(&["apply", "--yes"]).exits(3);
    let digest = digest(&held.all());
    commit(&env, Some("ada"), &format!("less\n\nReconciled-Approve: {digest}"), &[WWW]);
    push(&env);
    env.apply();
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
}

/// A desk that takes what it holds, with three records of which a push took two away: they are held.
fn desk_with_held(source: &str, key: Option<&str>) -> (Env, Daemon, String) {
    let env = desk_with(source, STRICT);
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("{config}hook: {{onHold: accept}}\n"));
    push_target(&env);
    let daemon = Daemon::ready(&env);
    commit(&env, key, "first", &[WWW, MAIL, API]);
    try_push(&env, &[]).exits(0);
    commit(&env, key, "less", &[WWW]);
    try_push(&env, &[]).exits(0).says(&["infra is held at"]);
    let status = env.run(&["status", "-o", "json"]).exits(0);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let digest = status["holds"][0]["digest"].as_str().unwrap().to_owned();
    (env, daemon, digest)
}

/// What a hook of the user of this process would say of a push to `main` that consents to `digest`.
fn ask(env: &Env, path: &str, commit: &str, digest: &str, more: Value) -> Answer {
    let repository = env.path("repo.git").canonicalize().unwrap();
    let mut body = json!({
        "repository": repository,
        "reference": "refs/heads/main",
        "commit": commit,
        "approve": [digest],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let socket = Place::Socket(env.path("state/api.sock"));
    let answer =
        socket.ask("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Has what the work tree holds planned as such a push.
fn planned(env: &Env, commit: &str, digest: &str, signed: Value) -> Value {
    let content = STANDARD.encode(fs::read(env.path("work/zone.yaml")).unwrap());
    let upload = json!({"files": [{"path": "zone.yaml", "content": content}]});
    ask(env, "/v1/push/plan", commit, digest, json!({"upload": upload, "signed": signed})).json()
}

/// Says that such a push was taken.
fn followed(env: &Env, commit: &str, digest: &str) -> String {
    ask(env, "/v1/push/follow", commit, digest, json!({"source": "infra", "wait": 2_000})).text()
}

#[test]
fn nobody_consents_by_a_push_that_was_not_made() {
    let (env, daemon, digest) = desk_with_held(", approve: [push-option]", None);
    let three = env.zone_rrsets(ZONE);
    let nowhere = "1".repeat(40);
    let there = env.git(&["rev-parse", "HEAD"]);
    let before = env.git(&["rev-parse", "HEAD~1"]);
    for commit in [&nowhere, &there, &before] {
        assert_eq!(planned(&env, commit, &digest, Value::Null)["approved"], json!([digest]));
        let told = followed(&env, commit, &digest);
        assert!(told.contains("note: nothing is approved: refs/heads/main of "), "{told}");
        assert!(told.contains("since that was planned"), "{told}");
    }
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    env.run(&["approvals"]).exits(0).hides(&["push option"]);
    assert_eq!(env.zone_rrsets(ZONE), three);
    // Whoever may move the ref needs no hook for it, and none says that it moved: once it has, that is a push.
    let meant = commit(&env, None, "meant", &[WWW]);
    env.git(&["push", "-q", "origin", "HEAD:side"]);
    planned(&env, &meant, &digest, Value::Null);
    env.git_in("repo.git", &["update-ref", "refs/heads/main", &meant]);
    let told = followed(&env, &meant, &digest);
    assert!(!told.contains("nothing is approved"), "{told}");
    wait_for("it is deleted", || env.zone_rrsets(ZONE) == rrsets(&[("www A", "300 192.0.2.1")]));
    daemon.stop();
}

#[test]
fn nobody_consents_by_a_push_of_what_is_not_signed() {
    let source = ", approve: [push-option], verify: {allowedSigners: allowed}";
    let (env, daemon, digest) = desk_with_held(source, Some("ada"));
    let three = env.zone_rrsets(ZONE);
    let less = env.git(&["rev-parse", "HEAD"]);
    let raw = format!("{}\n", env.git(&["cat-file", "commit", "HEAD"]));
    let signed = json!({"commits": [[less, STANDARD.encode(raw)]]});

    // Who shows nothing that is signed, and who shows something else.
    let unsigned = commit(&env, None, "not signed", &[WWW]);
    env.git(&["push", "-q", "origin", "HEAD:side"]);
    let refused = planned(&env, &unsigned, &digest, Value::Null);
    assert!(refused["unverified"][0][0].as_str().unwrap().contains("source infra wants signatures"));
    env.git_in("repo.git", &["update-ref", "refs/heads/main", &unsigned]);
    followed(&env, &unsigned, &digest);
    env.git_in("repo.git", &["update-ref", "refs/heads/main", &less]);
    assert_eq!(planned(&env, &unsigned, &digest, signed)["unverified"], json!([]));
    env.git_in("repo.git", &["update-ref", "refs/heads/main", &unsigned]);
    let told = followed(&env, &unsigned, &digest);
    assert!(told.contains("note: nothing is approved: commit "), "{told}");
    assert!(told.contains("does not come into force: it is not signed"), "{told}");
    env.git_in("repo.git", &["update-ref", "refs/heads/main", &less]);
    sync(&env).exits(3);
    env.run(&["approvals"]).exits(0).hides(&["push option"]);
    assert_eq!(env.zone_rrsets(ZONE), three);

    env.git(&["reset", "-q", "--hard", &less]);
    commit(&env, Some("ada"), "meant", &[WWW]);
    try_push(&env, &["-o", &format!("reconciled.approve={}", &digest[..8])])
        .exits(0)
        .says(&["APPROVED", "infra is in sync at"])
        .hides(&["nothing is approved"]);
    assert_eq!(env.zone_rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    daemon.stop();
}

#[test]
fn what_a_refused_push_says_to_type_works_for_commits_that_change_nothing() {
    let env = desk_with(", approve: [trailer], verify: {allowedSigners: allowed}", STRICT);
    push_target(&env);
    let daemon = Daemon::ready(&env);
    commit(&env, Some("ada"), "first", &[WWW, MAIL, API]);
    try_push(&env, &[]).exits(0);
    env.git(&["config", "gpg.format", "ssh"]);
    env.git(&["config", "user.signingkey", env.path("ada").to_str().unwrap()]);
    let type_it = |said: &str, from: &str, to: &str| {
        let line = said.lines().find_map(|line| line.split_once(from)).unwrap_or_else(|| panic!("{said}")).1;
        let line = format!("{from}{}", line.split(to).next().unwrap());
        let typed = Command::new("sh")
            .args(["-c", &line])
            .current_dir(env.path("work"))
            .env("HOME", env.dir.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([("GIT_COMMITTER_NAME", "A"), ("GIT_COMMITTER_EMAIL", "a@example.com")])
            .output()
            .unwrap();
        assert!(typed.status.success(), "{line}: {}", String::from_utf8_lossy(&typed.stderr));
    };
    commit(&env, None, "nothing changes", &[WWW, MAIL, API]);
    let refused = try_push(&env, &[]).exits(1).says(&["it is not signed"]);
    type_it(&refused.stderr, "git rebase ", " with a key");
    try_push(&env, &[]).exits(0).says(&["infra is in sync at"]);

    commit(&env, Some("ada"), "less", &[WWW]);
    commit(&env, Some("ada"), "nothing changes", &[WWW]);
    let refused = try_push(&env, &[]).exits(1).says(&["needs consent"]);
    type_it(&refused.stderr, "git commit --amend ", "\n");
    // It is made anew by that, and not signed any more.
    env.git(&["commit", "-q", "--amend", "--no-edit", "--allow-empty", "-S"]);
    try_push(&env, &[]).exits(0).says(&["is consented to by a trailer", "infra is in sync at"]);
    daemon.stop();
}
