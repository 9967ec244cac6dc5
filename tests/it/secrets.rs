//! Canaries: a key and a token that must be found nowhere but where they were put.

use crate::{
    env::{Env, WIDE_GUARD, zone},
    http::Place,
    pdns::Pdns,
    running::{Daemon, wait_for},
    sink::Sink,
};
use std::{fs, path::Path};

/// A key and a token that occur nowhere else.
const KEY: &str = "canary?key/of=the+server";
const TOKEN: &str = "canary?token/of=the+forge";

/// A secret and its other spellings: base64 (without padding), hexadecimal, percent-encoded.
fn spellings(secret: &str) -> Vec<String> {
    const TABLE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // Whole groups of three bytes only, so that what follows does not change the text.
    let whole = secret.as_bytes().chunks_exact(3).flat_map(|group| {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        [18, 12, 6, 0].map(|shift| char::from(TABLE[(bits >> shift) as usize & 63]))
    });
    let hexadecimal = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let encoded = secret.bytes().map(|byte| match byte {
        b'a'..=b'z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    vec![secret.to_owned(), whole.collect(), hexadecimal, encoded.collect()]
}

#[track_caller]
fn search(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    for word in [KEY, TOKEN].iter().flat_map(|secret| spellings(secret)) {
        assert!(!text.contains(&word.to_lowercase()), "{place} holds a secret as {word}");
    }
}

fn search_folder(folder: &Path) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += search_folder(&path);
        } else {
            search(&path.display().to_string(), &fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

/// Runs verbs at the loudest and looks through all they leave behind.
fn run(env: &Env, variables: &[(&str, &str)]) {
    let file = env.path("plan.json");
    for args in [
        &["plan", "-vvv", "-o", "json"][..],
        &["plan", "-vvv", "--out", file.to_str().unwrap()],
        &["apply", "-vvv", "--yes", "--timeout", "2s"],
    ] {
        let output = env.run_with(args, variables);
        assert!(output.stderr.len() > 20, "nothing was said at -vvv: {}", output.all());
        search(&format!("{args:?} stdout"), output.stdout.as_bytes());
        search(&format!("{args:?} stderr"), output.stderr.as_bytes());
    }
    if file.exists() {
        search("the plan file", &fs::read(&file).unwrap());
        fs::remove_file(&file).unwrap();
    }
    if env.path("state").exists() {
        search_folder(&env.path("state"));
    }
}

#[test]
fn the_search_finds_a_secret_in_each_spelling() {
    for word in spellings(KEY) {
        let found = std::panic::catch_unwind(|| search("here", format!("x{word}x").as_bytes()));
        assert!(found.is_err(), "{word}");
    }
}

#[test]
fn a_key_stays_in_its_file_whatever_the_server_says() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.apply();
    assert!(search_folder(&env.path("state")) > 1);
    // Refused: the key is wrong. Not there at all: nobody listens on port 1.
    env.write("key", KEY);
    run(&env, &[]);
    env.config(&env.pdns_entry("http://127.0.0.1:1", WIDE_GUARD));
    run(&env, &[]);
    // A key that cannot be sent.
    env.write("key", &format!("{KEY}\u{7}"));
    run(&env, &[]);
}

#[test]
fn a_key_in_the_environment_stays_there() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.config(&format!(
        "  - {{name: pdns, type: powerdns, url: \"{}\", apiKey: {{env: PDNS_KEY}}}}",
        server.url
    ));
    run(&env, &[("PDNS_KEY", KEY)]);
}

#[test]
fn a_token_of_a_service_stays_where_it_is_whatever_the_service_says() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone("example.com", "cf", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let sink = Sink::start();
    for (url, status) in [(&*sink.url, 403), (&*sink.url, 200), (&*sink.url, 429), ("http://127.0.0.1:1", 0)]
    {
        sink.answers(status);
        env.config(&format!("  - {{name: cf, type: cloudflare, url: \"{url}\", token: {{env: CF_TOKEN}}}}"));
        run(&env, &[("CF_TOKEN", TOKEN)]);
    }
    let bearer = format!("Bearer {TOKEN}");
    assert!(sink.requests().iter().any(|request| request.header("authorization") == bearer), "it was sent");
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    let env = Env::zonefile();
    let encoded = &spellings(TOKEN)[3];
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let repository = env.path("repo.git");
    for url in
        [format!("https://user:{encoded}@127.0.0.1:1/repo.git"), format!("ftp://user:{encoded}@127.0.0.1/x")]
    {
        env.write("config.yaml", &config.replace(repository.to_str().unwrap(), &format!("\"{url}\"")));
        run(&env, &[]);
    }
    env.config(&format!(
        "  - {{name: pdns, type: powerdns, url: \"http://user:{encoded}@127.0.0.1:1\", apiKey: {{env: K}}}}"
    ));
    run(&env, &[("K", KEY)]);
}

#[test]
fn a_running_daemon_tells_no_secret_whomever_it_answers() {
    let (server, collector) = (Sink::start(), Sink::start());
    server.answers(403);
    let env = Env::new();
    env.write("key", KEY);
    env.write("hook", TOKEN);
    let more = format!("\napi: {{listen: \"127.0.0.1:0\"}}\ntelemetry: {{otlp: \"{}\"}}", collector.url);
    let hook = format!(", webhook: {{type: github, secret: {{file: {}}}}}", env.path("hook").display());
    env.config_with("it", &(env.pdns_entry(&server.url, WIDE_GUARD) + &more), &hook);
    fs::remove_dir_all(env.path("repo.git")).unwrap();
    env.run(&["init", "repo.git"]).exits(0);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let daemon = Daemon::start(&env);
    let synced = env.run(&["sync", "--wait", "--timeout", "20s", "--json"]);
    assert_ne!(synced.code, Some(0), "{}", synced.all());
    search("sync", synced.all().as_bytes());
    let socket = Place::Socket(env.path("state/api.sock"));
    let asked = [
        "/metrics",
        "/readyz",
        "/v1/instance",
        "/v1/sources",
        "/v1/status",
        "/v1/history",
        "/v1/events",
        "/v1/approvals",
        "/v1/drift",
        "/v1/explain?address=Zone/example.com",
    ];
    for path in asked {
        let answer = socket.ask("GET", path, &[], b"");
        assert!(matches!(answer.status, 200 | 503), "{path}: {answer:?}");
        search(path, &answer.body);
    }
    let forged =
        socket.ask("POST", "/v1/hooks/infra/guessed", &[("x-hub-signature-256", "sha256=00")], b"{}");
    search("a forged webhook", &forged.body);
    let config = env.path("config.yaml");
    for args in [&["status"][..], &["plan", "-vvv"], &["plan", "-o", "json"], &["check"]] {
        let output = env.run(&[&["--config", config.to_str().unwrap()], args].concat());
        // The address to give to a forge is made from its secret, and is none.
        search(&format!("{args:?}"), output.all().as_bytes());
    }
    env.write(
        "work/zone.yaml",
        &zone("example.com", "pdns", &["{name: mail, type: A, values: [192.0.2.2]}"]),
    );
    env.git(&["commit", "-qam", "mail"]);
    let mut push = std::process::Command::new("git");
    push.args(["push", "-o", "reconciled.wait=5s", "origin", "HEAD:main"])
        .current_dir(env.path("work"))
        .env("HOME", env.dir.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let pushed = env.finish(push).says(&["remote:"]);
    search("a push", pushed.all().as_bytes());
    wait_for("spans", || !collector.requests().is_empty());
    daemon.stop();
    collector.requests().iter().for_each(|request| search("a span", &request.body));
    search("the log", &fs::read(env.path("daemon.log")).unwrap());
    search_folder(&env.path("state"));
    assert!(server.requests().iter().any(|request| request.header("x-api-key") == KEY), "it was sent");
}
