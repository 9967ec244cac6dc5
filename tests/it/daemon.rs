//! The daemon as an operator meets it: started, asked, damaged, killed, reloaded.

use crate::{
    env::{Env, Output, rrsets, zone},
    http::Place,
    pdns::Pdns,
    pebble::free_port,
    running::{Daemon, wait_for},
};
use reconciled::failpoint::{NAMES, VARIABLE};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::{net::UnixStream, process::ExitStatusExt},
    time::{Duration, Instant},
};

const ZONE: &str = "example.com";
const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

fn sync(env: &Env) -> Output {
    env.run(&["sync", "--wait", "--timeout", "60s"])
}

#[test]
fn what_is_pushed_is_brought_about_and_what_is_damaged_is_healed() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0).says(&["source infra at", "in sync"]);
    let both = rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]);
    assert_eq!(server.rrsets(ZONE), both);

    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["plan", "--refresh", "--detailed-exitcode"]).exits(2).says(&[
        "using daemon at DIR/state/api.sock",
        "www/A",
        "drift",
    ]);
    sync(&env).exits(0).says(&["1 updated"]);
    assert_eq!(server.rrsets(ZONE), both);

    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.run(&["apply", "--yes"]).exits(0).says(&["mail/A", "1 deleted"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    env.run(&["status"]).exits(0).says(&["well"]);
    env.run(&["history"]).exits(0).says(&["delete", "update"]);
    env.run(&["events", "--verify"]).exits(0);
    daemon.stop();
    assert!(!env.path("state/api.sock").exists(), "the socket outlived its daemon");
    env.in_sync();
}

#[test]
fn the_state_has_one_owner() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.run(&["sync"]).exits(5).says(&["no daemon has the state", "reconciled run"]);
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    env.run(&["run"]).exits(1).says(&["error:", "hint:"]);
    env.run(&["apply", "--standalone", "--yes"]).exits(1).says(&["a daemon has the state", "systemctl stop"]);
    env.run(&["status", "--standalone"]).exits(1).says(&["a daemon has the state"]);
    // What a killed daemon leaves is no daemon.
    daemon.signal("KILL");
    drop(daemon);
    assert!(env.path("state/api.sock").exists());
    env.run(&["status"]).exits(0).hides(&["using daemon"]);
    env.run(&["apply", "--yes"]).exits(0);
    let daemon = Daemon::start(&env);
    env.run(&["status"]).exits(0).says(&["using daemon at DIR/state/api.sock"]);
    daemon.stop();
}

#[test]
fn a_file_where_the_socket_is_to_be_stays_and_is_told() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let file = env.path("data.txt");
    fs::write(&file, "figures of a year").unwrap();
    env.write("config.yaml", &format!("{config}api: {{socket: {}}}\n", file.display()));
    let told = ["DIR/data.txt is there and is no socket", "hint: name another place as `api.socket`"];
    env.run(&["check"]).exits(1).says(&["FAIL  api.socket"]).says(&told);
    env.run(&["run"]).exits(1).says(&told);
    assert_eq!(fs::read_to_string(&file).unwrap(), "figures of a year");
    fs::remove_file(&file).unwrap();
    env.run(&["check"]).exits(0).says(&["api.socket: DIR/data.txt is free"]);
}

#[test]
fn it_heals_from_its_own_mirror_while_the_repository_is_away() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    daemon.stop();
    fs::rename(env.path("repo.git"), env.path("away.git")).unwrap();
    server.set(ZONE, "www", "A", "203.0.113.9");
    let daemon = Daemon::start(&env);
    let well = rrsets(&[("www A", "300 192.0.2.1")]);
    wait_for("the drift is healed", || server.rrsets(ZONE) == well);
    env.run(&["status"]).exits(0).says(&["source infra", "repo.git", "stays in force"]);
    env.run(&["status", "--exit-code"]).exits(3).says(&["NEEDS A PERSON (1)", "SourceBehind"]);
    let shown = env.run(&["status", "-o", "json"]).exits(0);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["sources"][0]["converged"], false, "{shown:#}");
    assert_eq!(shown["conditions"][0]["scope"], "source infra", "{shown:#}");
    fs::rename(env.path("away.git"), env.path("repo.git")).unwrap();
    sync(&env).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).hides(&["stays in force"]);
    // Manifests that cannot be read keep the deployment just as much.
    env.push("zone.yaml", &zone(ZONE, "pdns", &["{name: www, tpye: A}"]));
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(1);
    env.run(&["status", "--exit-code"]).exits(3).says(&["InvalidManifests"]);
    let sha = env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    // A sole source needs no name.
    env.run(&["sync", "--wait", "--rev", sha.trim(), "--timeout", "60s"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0);
    daemon.stop();
}

#[test]
fn who_only_looks_says_so_and_writes_nothing() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    env.apply();
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    let config = env.path("config.yaml");
    let command = env.command(&["--config", config.to_str().unwrap(), "run", "--observe"]);
    let daemon = Daemon::of(command, env.path("daemon.log"));
    wait_for("the daemon has looked", || {
        let status = env.run(&["status"]);
        status.code == Some(0) && status.all().contains("Observing")
    });
    env.run(&["status"])
        .exits(0)
        .says(&["only looks", "run --observe"])
        .hides(&["policy: observe", "NEEDS A PERSON"]);
    env.run(&["plan"]).exits(0).says(&["+ Zone/example.com#mail/A", "it will write nothing of this"]);
    env.run(&["apply", "--yes"]).exits(3);
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1")]));
    daemon.stop();
    env.apply();
    assert_eq!(server.rrsets(ZONE), rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]));
}

#[test]
fn a_source_that_asks_for_consent_is_held_while_its_drift_is_healed() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.config_with("it", &env.pdns_entry(&server.url, crate::env::WIDE_GUARD), ", apply: approve");
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    let digest = |held: &Output| {
        let words: Vec<&str> = held.stderr.split_whitespace().collect();
        words[words.iter().position(|word| *word == "approve").unwrap() + 1].to_owned()
    };
    let held = sync(&env).exits(3).says(&["the source says `apply: approve`"]);
    assert_eq!(server.rrsets(ZONE), rrsets(&[]), "it wrote without consent");
    env.run(&["approve", &digest(&held), "--reason", "the first"]).exits(0);
    let www = rrsets(&[("www A", "300 192.0.2.1")]);
    wait_for("it is applied", || server.rrsets(ZONE) == www);

    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW, MAIL]));
    let held = sync(&env).exits(3);
    server.set(ZONE, "www", "A", "203.0.113.9");
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3);
    wait_for("the drift is healed", || server.rrsets(ZONE) == www);
    env.run(&["approve", &digest(&held), "--reason", "the second"]).exits(0);
    wait_for("it is applied", || server.rrsets(ZONE).contains_key("mail A"));
    daemon.stop();
}

#[test]
fn a_mass_deletion_waits_for_consent_and_then_goes_on_by_itself() {
    let env = Env::zonefile();
    let directory = env.path("zones");
    env.config(&format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], guard: {{maxDeletes: 2}}}}",
        directory.display()
    ));
    let records: Vec<String> =
        (0..8).map(|n| format!("{{name: h{n}, type: A, values: [192.0.2.{n}]}}")).collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    env.push("zone.yaml", &zone(ZONE, "zones", &records));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    let less = env.push("zone.yaml", &zone(ZONE, "zones", &records[..2]));
    let held = sync(&env).exits(3).says(&["held: zones/example.com", "reconciled approve"]);
    assert_eq!(env.zone_rrsets(ZONE).len(), 8);
    env.run(&["status", "--exit-code"]).exits(3).says(&["NEEDS A PERSON"]);
    let words: Vec<&str> = held.stderr.split_whitespace().collect();
    let digest = words[words.iter().position(|word| *word == "approve").unwrap() + 1];
    env.run(&["approve", digest, "--reason", "meant so"]).exits(0).says(&["the daemon goes on"]);
    wait_for("the deletion is done", || env.zone_rrsets(ZONE).len() == 2);
    env.run(&["history"]).exits(0).says(&["meant so"]);
    // Of one resource too: who wrote the commit, who consented and why; also once it is gone.
    let shown = env.run(&["history", "Zone/example.com#h7/A", "-o", "json"]).exits(0);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let (last, first) = (&shown[0], shown.as_array().unwrap().last().unwrap());
    assert_eq!((&last["kind"], &last["approvalReason"]), (&"delete".into(), &"meant so".into()), "{shown:#}");
    assert!(last["author"].as_str().is_some_and(|author| author.contains('@')), "{shown:#}");
    assert!(last["approver"].as_str().is_some_and(|approver| !approver.is_empty()), "{shown:#}");
    assert_eq!(last["revision"], less[..7], "{shown:#}");
    assert_eq!(
        (&first["kind"], &first["approver"]),
        (&"create".into(), &serde_json::Value::Null),
        "{shown:#}"
    );
    env.run(&["history", "Zone/example.com#h7/A"]).exits(0).says(&["approved by", "meant so"]);
    // What needs no consent has none, however soon it follows.
    env.push("zone.yaml", &zone(ZONE, "zones", &[records[0], records[1], WWW]));
    sync(&env).exits(0);
    env.run(&["history", "Zone/example.com#www/A"])
        .exits(0)
        .says(&["create"])
        .hides(&["approved by", "meant so"]);
    daemon.stop();
}

#[test]
fn a_server_that_is_down_at_the_start_is_served_when_it_comes() {
    let server = Pdns::start();
    let env = Env::new();
    env.write("key", &server.key);
    // Nothing listens here yet.
    let free = format!("127.0.0.1:{}", free_port());
    env.config(&env.pdns_entry(&format!("http://{free}"), ""));
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait", "--timeout", "5s"]).exits(1).says(&["pdns/example.com", "refused"]);
    env.run(&["status"]).exits(0).says(&["WAITING", "pdns/example.com"]);
    let proxy = TcpListener::bind(&free).unwrap();
    let address = server.address();
    std::thread::spawn(move || {
        for client in proxy.incoming() {
            let (mut client, mut server) = (client.unwrap(), std::net::TcpStream::connect(&address).unwrap());
            let (mut back, mut forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut forth, &mut back));
            std::thread::spawn(move || std::io::copy(&mut client, &mut server));
        }
    });
    let well = rrsets(&[("www A", "300 192.0.2.1")]);
    wait_for("the record is there", || server.rrsets(ZONE) == well);
    daemon.stop();
}

#[test]
fn a_reload_takes_what_is_good_and_refuses_what_is_not() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    let good = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &good.replace("type: zonefile", "type: zonefiel"));
    daemon.signal("HUP");
    wait_for("the reload is refused", || daemon.log().contains("reload refused"));
    // The verb reads the same broken file, and says so; the daemon goes on with the old one.
    env.write("config.yaml", &good);
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    sync(&env).exits(0);
    fs::create_dir(env.path("more")).unwrap();
    let more = env.path("more");
    env.write(
        "config.yaml",
        &format!(
            "{good}  - {{name: more, type: zonefile, directory: {}, nameservers: [ns1.example.net.]}}\n",
            more.display()
        ),
    );
    daemon.signal("HUP");
    wait_for("the reload is done", || daemon.log().contains("configuration is reloaded"));
    env.push("more.yaml", &zone("example.org", "more", &[WWW]));
    sync(&env).exits(0);
    assert!(env.path("more/example.org.zone").exists());
    daemon.stop();
}

#[test]
fn a_revision_with_errors_is_told_and_what_was_good_stays_in_force() {
    for mode in ["partial", "hold"] {
        let env = Env::zonefile();
        let config = fs::read_to_string(env.path("config.yaml")).unwrap();
        env.write("config.yaml", &config.replace("repo.git}", &format!("repo.git, onInvalid: {mode}}}")));
        env.push("a.yaml", &zone(ZONE, "zones", &[WWW]));
        env.push("b.yaml", &zone("example.org", "zones", &[WWW, MAIL]));
        let daemon = Daemon::start(&env);
        sync(&env).exits(0);
        env.write("work/a.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
        let bad =
            env.push("b.yaml", &zone("example.org", "zones", &["{name: www, type: A, values: [1.2.3]}"]));
        let place =
            ["error: `1.2.3` is not an IPv4 address", "--> b.yaml:8:37", "an A record wants four numbers"];
        let way_on = ["hint: mend the manifests that are named above, and push", "manifests have errors"];
        for meant in [&["--source", "infra", "--rev", &bad][..], &[]] {
            let told = env.run(&[&["sync", "--wait"], meant].concat()).exits(1);
            told.says(&place).says(&way_on).hides(&["tried again by itself"]);
        }
        // The rest applies, or nothing does; what is broken is frozen either way.
        let applied = if mode == "partial" { 2 } else { 1 };
        assert_eq!(env.zone_rrsets(ZONE).len(), applied, "{mode}");
        assert_eq!(env.zone_rrsets("example.org").len(), 2, "{mode}");
        env.run(&["status"]).exits(0).says(&["b.yaml:"]);
        env.push("b.yaml", &zone("example.org", "zones", &[WWW]));
        sync(&env).exits(0).hides(&["error"]);
        assert_eq!(env.zone_rrsets(ZONE).len(), 2, "{mode}");
        assert_eq!(env.zone_rrsets("example.org").len(), 1, "{mode}");
        daemon.stop();
        env.in_sync();
    }
}

#[test]
fn errors_of_manifests_count_for_more_than_what_is_held() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write("config.yaml", &config.replace("repo.git}", "repo.git, apply: approve}"));
    env.push("a.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    let held = "held: zones/example.com";
    sync(&env).exits(3).says(&[held, "needs a person"]);
    env.push("b.yaml", &zone("example.org", "zones", &["{name: www, type: A, values: [1.2.3]}"]));
    sync(&env).exits(1).says(&["--> b.yaml:8:37", held, "manifests have errors"]);
    daemon.stop();
}

/// A desk with two sources on zone files: `a` at repo.git, `b` at other.git, which is a copy of `a`'s until it moves.
fn two_sources() -> Env {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let (repo, other) = (env.path("repo.git"), env.path("other.git"));
    let sources = format!(
        "  - {{name: a, url: {}, allow: all}}\n  - {{name: b, url: {}, allow: all}}",
        repo.display(),
        other.display()
    );
    let one = format!("  - {{name: infra, url: {}}}", repo.display());
    assert!(config.contains(&one), "{config}");
    let config = config.replace(&one, &sources).replace("nameservers", "policy: sync, nameservers");
    env.write("config.yaml", &config.replace("guard: {", "guard: {always: [], "));
    env
}

#[test]
fn a_source_that_was_never_had_declares_nobody_knows_what() {
    let env = two_sources();
    // Nothing but this zone's file may be there, but `b` may have something to say about that.
    let exclusive = zone(ZONE, "zones", &[WWW]).replace("  ttl: 300", "  exclusive: true\n  ttl: 300");
    env.push("zone.yaml", &exclusive);
    env.write(
        &format!("zones/{ZONE}.zone"),
        &format!(
            "$ORIGIN {ZONE}.\n$TTL 300\n@ IN SOA ns1.example.net. h 1 3600 600 86400 300\n@ IN NS ns1.example.net.\nx IN A 198.51.100.1\n"
        ),
    );
    let daemon = Daemon::start(&env);
    sync(&env).exits(3).says(&["source b", "other.git"]);
    let both = rrsets(&[("www A", "300 192.0.2.1"), ("x A", "300 198.51.100.1")]);
    assert_eq!(env.zone_rrsets(ZONE), both, "something was deleted that `b` may declare");
    // A source that is well is told apart from one that is not.
    env.run(&["sync", "--source", "a", "--wait"]).exits(0).hides(&["other.git"]);
    env.run(&["sync", "--source", "b", "--wait"]).exits(3).says(&["other.git"]);
    daemon.stop();
}

#[test]
fn a_commit_that_is_not_there_is_waited_for_and_never_called_superseded() {
    let env = Env::zonefile();
    let first = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let second = env.push("zone.yaml", &zone(ZONE, "zones", &[WWW, MAIL]));
    let daemon = Daemon::start(&env);
    let wait = |rev: &str| env.run(&["sync", "--source", "infra", "--wait", "--timeout", "3s", "--rev", rev]);
    wait(&second).exits(0).says(&["in sync"]);
    wait(&first).exits(0).says(&["superseded"]);
    wait("0123456789012345678901234567890123456789").exits(4).hides(&["superseded"]);
    wait(&second[..7]).exits(0).says(&["in sync"]);
    wait(&first[..9]).exits(0).says(&["superseded"]);
    wait("0123456")
        .exits(4)
        .says(&["no commit that source infra offers begins with `0123456`", &second[..7], "has not come"])
        .hides(&["superseded", "still going"]);
    wait("main").exits(1).says(&["`main` is no commit id", "seven or more"]);

    // Also while the one that is there has errors.
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [1.2.3]}"]));
    sync(&env).exits(1);
    env.write("work/zone.yaml", &zone(ZONE, "zones", &[WWW]));
    env.git(&["commit", "-qam", "mended"]);
    let mended = env.git(&["rev-parse", "HEAD"]);
    let began = Instant::now();
    wait(&mended).exits(4);
    assert!(began.elapsed() >= Duration::from_secs(3), "it did not wait: {:?}", began.elapsed());
    env.git(&["push", "-q", "origin", "HEAD:main"]);
    wait(&mended).exits(0).says(&["in sync"]);
    daemon.stop();
}

#[test]
fn digits_that_two_commits_begin_with_are_named_and_nothing_is_waited_for() {
    let env = Env::zonefile();
    // Of so many commits that differ in their time alone, two begin with the same seven digits.
    let mut history = String::new();
    for second in 1_700_000_000..1_700_007_157_u64 {
        history += &format!("commit refs/heads/main\ncommitter a <a@example.com> {second} +0000\ndata 0\n\n");
    }
    env.write("history", &history);
    let mut import = crate::push::git(&env, &["fast-import", "--quiet"]);
    import.current_dir(env.path("repo.git")).stdin(fs::File::open(env.path("history")).unwrap());
    assert!(import.status().unwrap().success());
    let daemon = Daemon::start(&env);
    let wait = |rev: &str| env.run(&["sync", "--wait", "--timeout", "60s", "--rev", rev]);
    let both = ["30b261e327742367c136ed289bf079f70b8d6f21", "30b261ee7ceda2b8d64f12ba118a6d445ccc43cc"];
    wait("30b261e").exits(1).says(&["`30b261e` means 2 commits of source infra"]).says(&both);
    wait("30b261e3").exits(0).says(&["superseded"]);
    wait(both[1]).exits(0).hides(&["superseded"]);
    daemon.stop();
}

#[test]
fn who_waits_for_a_remote_that_says_nothing_waits_no_longer_than_was_said() {
    let env = Env::zonefile();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let url = format!("https://127.0.0.1:{}/infra.git", silent.local_addr().unwrap().port());
    env.write("config.yaml", &config.replace(&env.path("repo.git").display().to_string(), &url));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait", "--timeout", "3s"]).exits(4);
    env.run(&["sync", "--wait", "--timeout", "0s"]).exits(4).hides(&["it is there and hangs"]);
    drop(silent);
    daemon.stop();
}

#[test]
fn a_daemon_without_sources_answers_and_one_silent_client_does_not_keep_it() {
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let start = config.find("sources:").unwrap();
    let end = config.find("providers:").unwrap();
    env.write("config.yaml", &format!("{}{}", &config[..start], &config[end..]));
    let daemon = Daemon::start(&env);
    sync(&env).exits(0);
    let mut silent = UnixStream::connect(env.path("state/api.sock")).unwrap();
    silent.write_all(b"GET /v1/status HT").unwrap();
    let start = Instant::now();
    daemon.stop();
    // Half a minute is how long a head may take, whoever stops.
    assert!(start.elapsed() < Duration::from_secs(30), "a silent client kept the daemon");
}

/// Says something to the socket that no client would say, and returns the answer.
fn raw(env: &Env, request: &str) -> String {
    let mut stream = UnixStream::connect(env.path("state/api.sock")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn nonsense_on_the_socket_is_refused_and_harms_nothing() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let paths = ["/v1/plan", "/v1/sync", "/v1/approve", "/v1/adopt", "/v1/forget"];
    for path in paths {
        for body in ["", "{", "[]]", "null", "\"x\"", "{\"a\":1}", "[{}]", "\u{0}", &"[".repeat(100_000)] {
            let answer = raw(&env, &post(path, body));
            let status = answer.get(9..12).unwrap_or_default();
            // A plan and a sync need no words at all; what is in the words decides.
            let is_wish = matches!(path, "/v1/plan" | "/v1/sync") && body == "{\"a\":1}";
            assert!(status.starts_with('4') || is_wish, "{path} {body:.20}: {answer:.200}");
        }
    }
    assert!(
        raw(&env, "GET /v1/history?since=yesterday HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .contains("400")
    );
    assert!(raw(&env, "GET /v1/nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").contains("404"));
    assert!(raw(&env, "\u{1}\u{2}\r\n\r\n").contains("400"));
    sync(&env).exits(0);
    daemon.stop();
}

#[test]
fn only_root_its_own_user_and_its_group_get_in() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &[WWW]));
    let daemon = Daemon::start(&env);
    let mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(env.path(path)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("state/api.sock"), 0o600);
    assert_eq!(mode("state"), 0o700);
    daemon.stop();
}

#[test]
fn a_daemon_killed_anywhere_loses_and_doubles_nothing() {
    let server = Pdns::start();
    let mut reached = 0;
    for name in NAMES.iter().filter(|name| !name.starts_with("store.migrate")) {
        let made = format!("{}.example.net", name.replace('.', "-"));
        let env = Env::pdns(&server);
        env.push("zone.yaml", &zone(&made, "pdns", &[WWW, MAIL]));
        let mut daemon = Daemon::start_with(&env, &[(VARIABLE, &format!("{name}:1"))]);
        let expect = rrsets(&[("www A", "300 192.0.2.1"), ("mail A", "300 192.0.2.2")]);
        wait_for("it is killed or done", || daemon.ended().is_some() || server.rrsets(&made) == expect);
        if let Some(status) = daemon.ended() {
            assert_eq!(status.signal(), Some(9), "{name}: {}", daemon.log());
            reached += 1;
        }
        drop(daemon);
        if env.path("state/state.db").exists() {
            assert_eq!(env.sql("PRAGMA integrity_check"), "ok", "{name}");
        }
        let daemon = Daemon::start(&env);
        sync(&env).exits(0);
        assert_eq!(server.rrsets(&made), expect, "{name}");
        env.in_sync();
        daemon.stop();
        assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0", "{name}: open intents");
    }
    assert!(reached >= 5, "only {reached} failpoints were reached");
}

#[test]
fn what_fails_is_logged_when_it_begins_to_and_not_at_each_try() {
    let server = Pdns::start();
    let env = Env::pdns(&server);
    env.push("zone.yaml", &zone(ZONE, "pdns", &[WWW]));
    drop(server);
    let daemon = Daemon::start(&env);
    let socket = Place::Socket(env.path("state/api.sock"));
    let failed = || -> f64 {
        let text = socket.ask("GET", "/metrics", &[], b"").text();
        let line = text
            .lines()
            .find(|line| line.starts_with("reconciled_passes_total{provider=\"pdns\",state=\"failed\"}"));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    wait_for("some tries", || failed() >= 3.0);
    let log = daemon.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("pass failed")).collect();
    let [told] = told[..] else { panic!("{log}") };
    for word in ["WARN", "pdns/example.com", "error=", "hint="] {
        assert!(told.contains(word), "`{word}` is missing in {told}");
    }
    // So is a source.
    let moved = env.path("away.git");
    fs::rename(env.path("repo.git"), &moved).unwrap();
    for _ in 0..3 {
        env.run(&["sync", "--source", "infra"]);
    }
    let told = daemon.log().lines().filter(|line| line.contains("source cannot be had")).count();
    assert_eq!(told, 1, "{}", daemon.log());
    assert_eq!(daemon.log().matches("repo.git is not a repository").count(), 1, "{}", daemon.log());
    fs::rename(moved, env.path("repo.git")).unwrap();
    env.run(&["sync", "--source", "infra"]);
    wait_for("it is had again", || daemon.log().contains("source can be had again"));
    daemon.stop();
}
