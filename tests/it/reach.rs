//! A daemon asked from elsewhere: with a token over TCP, by hand and with `--server`.

use crate::{
    env::{Env, Output, zone},
    http::Place,
    running::{Daemon, wait_for},
};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

/// Has the daemon of this desk listen on a free port, with further `lines` in its configuration.
pub(crate) fn listening(env: &Env, lines: &str) {
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("api: {{listen: \"127.0.0.1:0\"}}\n{lines}{config}"));
}

/// Where a daemon listens, once it says so.
pub(crate) fn address(daemon: &Daemon) -> Place {
    let mut found = None;
    wait_for("it listens", || {
        let log = daemon.log();
        let line = log.lines().find(|line| line.contains("API listens")).map(String::from);
        found = line.and_then(|line| Some(line.split("address=").nth(1)?.trim().to_owned()));
        found.is_some()
    });
    Place::Address(found.unwrap())
}

/// Makes a token as an operator does, and returns it with its line of the configuration.
pub(crate) fn token(env: &Env, name: &str, role: &str) -> (String, String) {
    let made = env.run(&["token", "new", name, "--role", role]).exits(0);
    let token = made.stdout.trim().to_owned();
    assert!(token.starts_with("rcd_") && !made.stderr.contains(&token), "{made:?}");
    let hash = made.stderr.split_whitespace().find(|word| word.starts_with("sha256:")).unwrap();
    env.write(&format!("{name}.hash"), hash);
    env.write(&format!("{name}.token"), &format!("{token}\n"));
    let line = made.stderr.lines().find_map(|line| line.trim().strip_prefix("tokens: [")).unwrap();
    let file = env.path(&format!("{name}.hash")).display().to_string();
    let line = line.strip_suffix(']').unwrap().replace(&format!("/etc/reconciled/{name}.hash"), &file);
    (token, line)
}

/// A desk with a daemon's configuration and two tokens: `ci` reads, `ops` operates.
pub(crate) fn desk() -> (Env, String, String) {
    let env = Env::zonefile();
    let (read, ci) = token(&env, "ci", "read");
    let (operator, ops) = token(&env, "ops", "operator");
    listening(&env, &format!("tokens: [{ci}, {ops}]\n"));
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    (env, read, operator)
}

fn url(place: &Place) -> String {
    let Place::Address(address) = place else { panic!("{place:?}") };
    format!("http://{address}")
}

/// Runs a verb that knows of no configuration.
fn away(env: &Env, place: &Place, token: &str, args: &[&str]) -> Output {
    let file = env.path(token);
    let mut command = env.command(&[&["--server", &url(place)], args].concat());
    command.env("RECONCILED_TOKEN_FILE", file);
    env.finish(command)
}

#[test]
fn what_is_no_daemon_is_told_as_that_with_what_to_look_at() {
    let (env, ..) = desk();
    let daemon = Daemon::start(&env);
    let Place::Address(at) = address(&daemon) else { unreachable!("it listens at an address") };
    let mut command = env.command(&["--server", &format!("https://{at}"), "status"]);
    command.env("RECONCILED_TOKEN_FILE", env.path("ci.token"));
    env.finish(command).exits(5).says(&["speaks no TLS", "--server http://127.0.0.1:PORT"]);
    daemon.stop();

    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::Address(other.local_addr().unwrap().to_string());
    std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .unwrap();
    });
    away(&env, &place, "ci.token", &["status"])
        .exits(1)
        .says(&["answers 404 Not Found", "hint: no reconciled is there: check host, port and path"]);
}

#[test]
fn a_role_is_what_it_says_on_every_route() {
    let (env, read, operator) = desk();
    let daemon = Daemon::start(&env);
    let place = address(&daemon);
    let described = place.get("/v1/openapi.json", &read).json();
    let mut seen = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Some(role) = operation["x-role"].as_str() else { continue };
            seen += 1;
            let ask = |token: &str| match method.as_str() {
                "get" => place.get(path, token),
                _ => place.post(path, token, "null"),
            };
            for nobody in ["", "x", &read[1..], &format!("{read}x"), "rcd_"] {
                ask(nobody).is_refused(401, "RECONCILED_TOKEN_FILE");
            }
            let may = |token: &str| !matches!(ask(token).status, 401 | 403 | 0);
            assert_eq!((may(&read), may(&operator)), (role == "read", role != "socket"), "{method} {path}");
            if role != "read" {
                let word = if role == "socket" { "own host" } else { "role: operator" };
                ask(&read).is_refused(403, word);
            }
        }
    }
    assert!(seen > 20, "only {seen} operations are described");
    // No other way to show a token counts, and no other path is there.
    for path in ["/v1/status?token=", "/v1/status?access_token="] {
        place.ask("GET", &format!("{path}{read}"), &[], b"").is_refused(401, "token");
    }
    place
        .ask("GET", "/v1/status", &[("authorization", &format!("Basic {read}"))], b"")
        .is_refused(401, "token");
    place.ask("GET", "/nothing", &[], b"").is_refused(401, "token");
    place.get("/nothing", &read).is_refused(404, "no such path");
    place
        .ask("DELETE", "/v1/status", &[("authorization", &format!("Bearer {read}"))], b"")
        .is_refused(405, "method");
    assert_eq!(place.ask("GET", "/healthz", &[], b"").text(), "ok\n");
    for open in ["/healthz", "/readyz"] {
        place.ask("POST", open, &[], b"").is_refused(405, "another method");
    }
    place.ask("GET", "/hooks/infra/x", &[], b"").is_refused(405, "another method");
    wait_for("it is ready", || place.ask("GET", "/readyz", &[], b"").status == 200);
    assert!(place.ask("GET", "/v1/status", &[], b"").head.contains("www-authenticate: bearer"));
    assert!(!daemon.log().contains(&read) && !daemon.log().contains(&operator), "a token is in the log");
    daemon.stop();
}

#[test]
fn nobody_is_ready_before_the_first_pass_and_the_reason_names_nothing() {
    let env = Env::zonefile();
    listening(&env, "");
    // Every line of it is good, but no answer comes: the remote is this listener.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    env.write("key", "x");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let providers = config.find("providers:").unwrap();
    let entry = env.pdns_entry(&format!("http://{}", silent.local_addr().unwrap()), "");
    env.write("config.yaml", &format!("{}providers:\n{entry}\n", &config[..providers]));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    let place = address(&daemon);
    let answer = || place.ask("GET", "/readyz", &[], b"");
    wait_for("it waits for the zone", || answer().text().contains("0 of 1 scopes"));
    assert_eq!(answer().status, 503);
    assert!(!answer().text().contains(ZONE));
    assert_eq!(place.ask("GET", "/healthz", &[], b"").status, 200);
    assert_eq!(Place::Socket(env.path("state/api.sock")).ask("GET", "/readyz", &[], b"").status, 503);
}

#[test]
fn a_reload_takes_new_tokens_and_a_token_that_is_taken_away_opens_nothing() {
    let (env, read, operator) = desk();
    let daemon = Daemon::start(&env);
    let place = address(&daemon);
    assert_eq!(place.get("/v1/status", &read).status, 200);
    let (other, line) = token(&env, "other", "read");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let ops = config.find(", {name: ops").unwrap();
    let rest = config[ops..].find('\n').unwrap() + ops;
    env.write(
        "config.yaml",
        &format!("{}, {line}]{}", &config[..ops], &config[rest..]).replace("name: ci", "name: build"),
    );
    fs::remove_file(env.path("ci.hash")).unwrap();
    daemon.signal("HUP");
    wait_for("it is reloaded", || daemon.log().contains("configuration is reloaded"));
    assert_eq!(place.get("/v1/status", &other).status, 200);
    place.get("/v1/status", &operator).is_refused(401, "not known");
    // A hash that cannot be read opens nothing, and does not stop the others.
    place.get("/v1/status", &read).is_refused(401, "not known");
    assert!(daemon.log().contains("token opens nothing"), "{}", daemon.log());
    env.run(&["check"]).exits(1).says(&["hash of token build"]);
    daemon.stop();
}

#[test]
fn verbs_go_to_a_daemon_elsewhere() {
    let (env, ..) = desk();
    let daemon = Daemon::start(&env);
    let place = address(&daemon);
    env.run(&["sync", "--wait"]).exits(0);
    let using = format!("using daemon at {} · state DIR/state · source infra at", url(&place));
    let read = |args: &[&str]| away(&env, &place, "ci.token", args);
    let operate = |args: &[&str]| away(&env, &place, "ops.token", args);
    for args in [
        &["status"][..],
        &["plan"],
        &["history"],
        &["events"],
        &["events", "--verify"],
        &["approvals"],
        &["explain", "Zone/example.com#www/A"],
    ] {
        read(args).exits(0).says(&[&using]);
    }
    let told = read(&["explain", "Zone/example.com#www/A", "-o", "json"]).exits(0);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["now"][0]["wanted"]["file"], "zone.yaml", "{told}");
    assert_eq!(told["tracked"][0]["address"], "Zone/example.com#www/A", "{told}");
    read(&["explain", "Zone", "-o", "json"]).exits(1).says(&["--schemas"]);
    // A folder of the caller's own host is sent, not named.
    env.write("mine/zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    read(&["plan", "--dir", "mine", "--detailed-exitcode"]).exits(2).says(&["mail/A"]);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    for args in [&["sync"][..], &["apply", "--yes"], &["suspend", "--all", "--reason", "x"], &["backup", "b"]]
    {
        read(args).exits(1).says(&["this token may look only", "role: operator"]);
    }
    assert_eq!(env.zone_rrsets(ZONE).len(), 1);
    operate(&["apply", "--yes"]).exits(0).says(&["mail/A", "1 created"]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 2);
    operate(&["suspend", "--all", "--reason", "from afar"]).exits(0);
    operate(&["resume", "--all"]).exits(0);
    operate(&["sync", "--wait"]).exits(0);
    operate(&["backup", "b"]).exits(0).says(&["written to b", "seal.key"]);
    assert!(fs::read(env.path("b")).unwrap().starts_with(b"SQLite format 3"));
    env.run(&["history"]).exits(0).says(&["token:ops", "from afar"]).hides(&["token:ci"]);
    daemon.stop();
    read(&["status"]).exits(5).says(&["does not answer", "check --server"]);
}

#[test]
fn what_no_daemon_elsewhere_can_do_says_so_and_touches_nothing() {
    let env = Env::zonefile();
    let place = Place::Address("127.0.0.1:9".into());
    let all: [&[&str]; 12] = [
        &["check"],
        &["import", "terraform.tfstate"],
        &["run"],
        &["restore", "b", "--yes"],
        &["state", "init"],
        &["init", "r.git"],
        &["hook", "pre-receive", "--socket", "s"],
        &["token", "new", "--role", "read"],
        &["validate", "."],
        &["demo"],
        &["man", "m"],
        &["status", "--standalone"],
    ];
    for args in all {
        away(&env, &place, "none", args).exits(1).says(&["does not go with --server", "leave it out"]);
    }
    assert!(!env.path("state").exists() && !env.path("r.git").exists() && !env.path("m").exists());
    env.finish(env.command(&["--server", "https://x", "status"])).exits(1).says(&["RECONCILED_TOKEN_FILE"]);
}

/// Answers every request with `answer` and keeps what was asked.
fn answering(answer: &'static str) -> (Place, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::Address(listener.local_addr().unwrap().to_string());
    let (send, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let read = Read::read(&mut stream, &mut bytes).unwrap_or(0);
            let _ = stream.write_all(answer.as_bytes());
            if send.send(String::from_utf8_lossy(&bytes[..read]).into_owned()).is_err() {
                break;
            }
        }
    });
    (place, asked)
}

#[test]
fn a_token_is_sent_where_it_belongs_and_nowhere_else() {
    let env = Env::new();
    env.write("token", "rcd_canary\n");
    let status = |server: &str| {
        let mut command = env.command(&["--server", server, "status"]);
        command.env("RECONCILED_TOKEN_FILE", env.path("token"));
        env.finish(command).hides(&["canary"])
    };
    for plain in ["http://192.0.2.1:9440", "http://dns1.example.com", "http://localhost.example.com"] {
        status(plain).exits(1).says(&["plain http", "https", "ssh -L"]);
    }
    status("https://user:pw@127.0.0.1").exits(1).says(&["RECONCILED_TOKEN_FILE"]);
    status("nonsense").exits(1).says(&["no address"]);

    let (elsewhere, asked_elsewhere) =
        answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
    let moved = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/v1/instance\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        url(&elsewhere)
    );
    let (redirecting, asked) = answering(moved.leak());
    status(&url(&redirecting)).exits(1).says(&["307", "elsewhere"]);
    assert!(asked.recv().unwrap().to_lowercase().contains("authorization: bearer rcd_canary"));
    assert!(asked_elsewhere.try_recv().is_err(), "a redirect was followed");

    let (refusing, _asked) =
        answering("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    status(&url(&refusing)).exits(1).says(&["401", "hint:"]);
    let (other, _asked) = answering("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
    status(&url(&other)).exits(1).says(&["does not understand"]);
}

#[test]
fn what_others_can_reach_is_warned_of_and_a_port_in_use_is_an_error() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &format!("api: {{listen: \"0.0.0.0:0\"}}\n{config}"));
    env.run(&["check"]).exits(0).says(&["plain HTTP", "reverse proxy"]);
    let daemon = Daemon::start(&env);
    wait_for("it listens", || daemon.log().contains("API listens"));
    let log = daemon.log();
    let told = log.lines().find(|line| line.contains("plain HTTP")).unwrap_or_default();
    assert!(["config.yaml", "line=1", "reverse proxy"].iter().all(|word| told.contains(word)), "{log}");
    daemon.stop();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    env.write("config.yaml", &format!("api: {{listen: \"{address}\"}}\n{config}"));
    env.run(&["run"]).exits(1).says(&["listen at", "in use", "api.listen"]);
    assert!(!env.path("state/api.sock").exists(), "a socket is left of a daemon that never ran");
    env.write("config.yaml", &format!("tokens: []\n{config}"));
    env.run(&["check"]).exits(0).says(&["no effect without `api.listen`"]);
}
