//! Webhooks of forges: what is signed wakes a poll, what is not does nothing, and nobody learns more than that.

use crate::{
    env::{Env, zone},
    http::{Answer, Place},
    reach::{address, listening},
    running::{Daemon, wait_for},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER;
use ring::hmac::{HMAC_SHA256, Key, sign};
use std::{
    fs,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

const ZONE: &str = "example.com";
const SECRET: &str = "a secret that nobody guesses";
const BODY: &[u8] = b"{\"ref\": \"refs/heads/main\"}";

/// Names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

fn records(count: usize) -> String {
    let records: Vec<String> =
        (0..count).map(|n| format!("{{name: h{n}, type: A, values: [192.0.2.{n}]}}")).collect();
    zone(ZONE, "zones", &records.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A desk whose source is polled once an hour, and which a forge may wake.
fn desk(forge: &str, secret: &str) -> Env {
    let env = Env::zonefile();
    env.write("hook", secret);
    listening(&env, "");
    wake_by(&env, forge);
    env
}

fn wake_by(env: &Env, forge: &str) {
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let line = config.lines().find(|line| line.contains("name: infra")).unwrap();
    let (repo, hook) = (env.path("repo.git"), env.path("hook"));
    let source = format!(
        "  - {{name: infra, url: {}, interval: 1h, webhook: {{type: {forge}, secret: {{file: {}}}}}}}",
        repo.display(),
        hook.display()
    );
    env.write("config.yaml", &config.replace(line, &source));
}

/// The path that `check` prints to paste.
fn path(env: &Env) -> String {
    let checked = env.run(&["check"]).exits(0).hides(&[SECRET]).stdout;
    let place = checked.find("/hooks/").unwrap_or_else(|| panic!("{checked}"));
    checked[place..].split_whitespace().next().unwrap().to_owned()
}

/// A daemon that says when it polls.
fn start(env: &Env) -> (Daemon, Place) {
    let log = "reconciled::daemon::follow=debug,reconciled=info";
    let daemon = Daemon::start_with(env, &[("RECONCILED_LOG", log)]);
    let place = address(&daemon);
    env.run(&["sync", "--wait"]).exits(0);
    (daemon, place)
}

fn polls(daemon: &Daemon) -> usize {
    daemon.log().matches("follow::polls: poll").count()
}

fn hex(secret: &[u8], body: &[u8]) -> String {
    let tag = sign(&Key::new(HMAC_SHA256, secret), body);
    HEXLOWER.encode(tag.as_ref())
}

fn signed(place: &Place, path: &str, body: &[u8]) -> Answer {
    let signature = format!("sha256={}", hex(SECRET.as_bytes(), body));
    place.ask("POST", path, &[("X-Hub-Signature-256", &signature)], body)
}

#[test]
fn what_each_forge_sends_has_a_push_come_into_force_at_once() {
    let key = [7_u8; 32];
    let signing = format!("whsec_{}", STANDARD.encode(key));
    #[expect(clippy::disallowed_methods, reason = "what is signed is signed for now")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().to_string();
    let tagged = format!("sha256={}", hex(SECRET.as_bytes(), BODY));
    let plain = hex(SECRET.as_bytes(), BODY);
    let text = [b"id.", now.as_bytes(), b".", BODY].concat();
    let standard = format!("v1,{}", STANDARD.encode(sign(&Key::new(HMAC_SHA256, &key), &text)));
    let standard = [("webhook-id", "id"), ("webhook-timestamp", &now), ("webhook-signature", &standard)];
    let all: [(&str, &str, Headers<'_>); 7] = [
        ("github", SECRET, &[("X-Hub-Signature-256", &tagged)]),
        ("gitlab", SECRET, &[("X-Gitlab-Token", SECRET)]),
        ("gitlab", &signing, &standard),
        ("gitea", SECRET, &[("X-Gitea-Signature", &plain)]),
        ("forgejo", SECRET, &[("X-Forgejo-Signature", &plain), ("X-Gitea-Signature", &plain)]),
        ("bitbucket", SECRET, &[("X-Hub-Signature", &tagged)]),
        ("generic", SECRET, &[("X-Signature-256", &tagged)]),
    ];
    let env = desk("github", SECRET);
    env.push("zone.yaml", &records(1));
    let (daemon, place) = start(&env);
    for (round, (forge, secret, headers)) in all.into_iter().enumerate() {
        // The next forge, as an operator changes it: in the file, with a reload.
        env.write("hook", secret);
        wake_by(&env, forge);
        daemon.signal("HUP");
        wait_for("it is reloaded", || daemon.log().matches("configuration is reloaded").count() > round);
        env.run(&["sync", "--wait"]).exits(0);
        let (path, before) = (path(&env), polls(&daemon));
        env.push("zone.yaml", &records(round + 2));
        let answer = place.ask("POST", &path, headers, BODY);
        assert_eq!(answer.status, 202, "{forge}: {}", answer.text());
        wait_for(&format!("{forge} has it come into force"), || env.zone_rrsets(ZONE).len() == round + 2);
        assert!(polls(&daemon) > before, "{forge}: it came into force without a poll");
    }
    assert!(!daemon.log().contains(SECRET) && !daemon.log().contains(&signing), "a secret is in the log");
    daemon.stop();
}

#[test]
fn what_is_forged_does_nothing_and_is_not_told_why() {
    let env = desk("github", SECRET);
    env.push("zone.yaml", &records(1));
    let (daemon, place) = start(&env);
    let (path, before) = (path(&env), polls(&daemon));
    let good = format!("sha256={}", hex(SECRET.as_bytes(), BODY));
    let header = [("X-Hub-Signature-256", good.as_str())];
    let other = format!("sha256={}", hex(b"another secret of some length", BODY));
    let (almost, elsewhere) = (format!("{}0", &path[..path.len() - 1]), path.replace("infra", "other"));
    let nobody = "/hooks/infra/00000000000000000000000000000000";
    let answers = [
        place.ask("POST", &path, &[], BODY),
        place.ask("POST", &path, &[("X-Hub-Signature-256", &other)], BODY),
        place.ask("POST", &path, &header, b"{\"ref\": \"refs/heads/mean\"}"),
        place.ask("POST", &path, &[("X-Gitlab-Token", SECRET)], BODY),
        place.ask("POST", nobody, &header, BODY),
        place.ask("POST", if almost == path { nobody } else { &almost }, &header, BODY),
        place.ask("POST", &elsewhere, &header, BODY),
        place.ask("POST", "/hooks/infra", &header, BODY),
        place.ask("POST", "/hooks/infra/", &header, BODY),
        place.ask("POST", &format!("{path}/"), &header, BODY),
        place.ask("POST", "/hooks/%ff%00/..%2f", &header, BODY),
    ];
    let first = answers[0].body.clone();
    for (number, answer) in answers.iter().enumerate() {
        answer.is_refused(404, "no such path");
        assert_eq!(answer.body, first, "answer {number} says something else");
    }
    assert_eq!(place.ask("GET", &path, &header, b"").status, 405);
    assert_eq!(place.ask("PUT", &path, &header, BODY).status, 405);
    place.ask("POST", &path, &header, &vec![b'x'; (1 << 20) + 1]).is_refused(413, "docs/api.md");
    // Who does not know the path has nothing read.
    place.ask("POST", nobody, &header, &vec![b'x'; (1 << 20) + 1]).is_refused(404, "no such path");
    let socket = Place::Socket(env.path("state/api.sock"));
    assert_eq!(socket.ask("POST", &path, &header, BODY).status, 404, "a forge does not reach the socket");
    assert_eq!(polls(&daemon), before, "something that is forged led to a poll");
    // What is signed is taken whatever it is: nothing reads it.
    for body in [b"".as_slice(), b"\xff\xfe\x00", b"{\"ref\":", &b"[".repeat(100_000)] {
        assert_eq!(signed(&place, &path, body).status, 202, "{body:.20?}");
    }
    let chunked = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nX-Hub-Signature-256: {good}\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
        String::from_utf8_lossy(&BODY[..5]),
        BODY.len() - 5,
        String::from_utf8_lossy(&BODY[5..]),
    );
    assert_eq!(place.raw(chunked.as_bytes()).status, 202);
    let endless = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nX-Hub-Signature-256: {good}\r\ntransfer-encoding: chunked\r\n\r\n{}",
        format!("10000\r\n{}\r\n", "x".repeat(1 << 16)).repeat(20)
    );
    assert_eq!(place.raw(endless.as_bytes()).status, 413);
    wait_for("what was signed leads to a poll", || polls(&daemon) > before);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_webhook_that_is_sent_again_and_again_makes_about_one_poll_a_second() {
    let env = desk("github", SECRET);
    env.push("zone.yaml", &records(1));
    let (daemon, place) = start(&env);
    let (path, before, began) = (path(&env), polls(&daemon), Instant::now());
    for _ in 0..100 {
        assert_eq!(signed(&place, &path, BODY).status, 202);
    }
    // What is pushed after the last but one is found by the poll after the last.
    env.push("zone.yaml", &records(2));
    assert_eq!(signed(&place, &path, BODY).status, 202);
    wait_for("the push is in force", || env.zone_rrsets(ZONE).len() == 2);
    let (made, seconds) = (polls(&daemon) - before, began.elapsed().as_secs() as usize);
    assert!(made >= 1, "no poll");
    assert!(made <= seconds + 2, "{made} polls in {seconds} s");
    daemon.stop();
}

#[test]
fn a_webhook_without_a_good_secret_hears_nothing_and_check_says_so() {
    let env = desk("github", "short");
    env.push("zone.yaml", &records(1));
    env.run(&["check"])
        .exits(1)
        .says(&["webhook infra", "16 bytes", "openssl rand -hex 32"])
        .hides(&["/hooks/"]);
    let (daemon, place) = start(&env);
    assert!(daemon.log().contains("webhook hears nothing"), "{}", daemon.log());
    let signature = format!("sha256={}", hex(b"short", BODY));
    let answer = place.ask("POST", "/hooks/infra/x", &[("X-Hub-Signature-256", &signature)], BODY);
    answer.is_refused(404, "no such path");
    daemon.stop();
    fs::remove_file(env.path("hook")).unwrap();
    env.run(&["check"]).exits(1).says(&["source infra webhook", "hook"]);
}
