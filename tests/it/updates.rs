//! The whole way over dynamic updates: a commit, a real BIND, and the signatures between them.

use crate::{
    env::{Env, WIDE_GUARD, rrsets, zone},
    pebble::free_port,
    running::{Daemon, wait_for},
};
use reconciled_testkit::PATIENCE;
use std::{
    fs,
    net::UdpSocket,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0LXNlcnZlcnMtMzItb2N0";
const PATH: &str = "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/bin";

/// A BIND with the zone `example.com`, which ends with the test.
pub(crate) struct Bind {
    child: Child,
    pub(crate) port: u16,
    directory: tempfile::TempDir,
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bind {
    pub(crate) fn start() -> Bind {
        for _ in 0..5 {
            let (directory, port) = (tempfile::tempdir().unwrap(), free_port());
            let path = directory.path();
            let zone = "$TTL 1h\n@ SOA ns1.example.net. hostmaster.example.net. 1 3h 1h 1w 5m\n@ NS ns1.example.net.\n";
            fs::write(path.join("example.com.zone"), zone).unwrap();
            let config = format!(
                "options {{ directory \"{0}\"; pid-file none; session-keyfile \"{0}/session.key\"; recursion no;\n\
                 managed-keys-directory \"{0}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
                 notify no; dnssec-validation no; querylog yes; }};\ncontrols {{ }};\n\
                 key reconciled. {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
                 zone \"example.com\" {{ type primary; file \"example.com.zone\"; allow-transfer {{ key reconciled.; }};\n\
                 update-policy {{ grant reconciled. zonesub ANY; }}; }};\n",
                path.display()
            );
            fs::write(path.join("named.conf"), config).unwrap();
            let child = Command::new("named")
                .env("PATH", PATH)
                .arg("-g")
                .arg("-c")
                .arg(path.join("named.conf"))
                .stdout(Stdio::null())
                .stderr(fs::File::create(path.join("log")).unwrap())
                .spawn()
                .expect("cannot start named: install bind9");
            let mut server = Bind { child, port, directory };
            let deadline = Instant::now() + PATIENCE;
            while server.child.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if server.ask("example.com", "SOA").contains("ns1.example.net.") {
                    return server;
                }
                thread::park_timeout(Duration::from_millis(20));
            }
        }
        panic!("named did not come up in five attempts");
    }

    /// What the server answers, one record a line.
    pub(crate) fn ask(&self, name: &str, kind: &str) -> String {
        let output = Command::new("dig")
            .env("PATH", PATH)
            .args(["@127.0.0.1", "-p", &self.port.to_string(), "+short", "+tries=1", "+time=5", name, kind])
            .output()
            .expect("cannot run dig: install bind9-dnsutils");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Questions and updates of a zone that the server has logged so far: `SOA`, `AXFR`, `UPDATE` for each record of one.
    fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
        let request = |line: &str| {
            let question =
                line.split_once("query: example.com IN ").and_then(|(_, rest)| rest.split(' ').next());
            let is_update = line.contains("updating zone") && line.contains("adding an RR");
            question.map(str::to_owned).or_else(|| is_update.then(|| "UPDATE".to_owned()))
        };
        log.lines().filter_map(request).collect()
    }

    /// Somebody else's change.
    pub(crate) fn change(&self, lines: &str) {
        let script = self.directory.path().join("script");
        fs::write(&script, format!("server 127.0.0.1 {}\nzone example.com.\n{lines}\nsend\n", self.port))
            .unwrap();
        let key = format!("hmac-sha256:reconciled:{SECRET}");
        let status = Command::new("nsupdate").env("PATH", PATH).args(["-y", &key]).arg(script).status();
        assert!(status.expect("cannot run nsupdate: install bind9-dnsutils").success());
    }
}

fn desk(server: &Bind) -> Env {
    desk_with(server, WIDE_GUARD)
}

/// A desk that manages `server` under the entry `bind`, with these further `keys`, such as its guard.
pub(crate) fn desk_with(server: &Bind, keys: &str) -> Env {
    let env = Env::new();
    env.config(&entry(&env, server, keys));
    env
}

/// The entry `bind` for `server`.
pub(crate) fn entry(env: &Env, server: &Bind, keys: &str) -> String {
    env.write("tsig", &format!("{SECRET}\n"));
    let key = env.path("tsig");
    format!(
        "  - {{name: bind, type: rfc2136, server: \"127.0.0.1:{}\", tsig: {{name: reconciled., secret: {{file: {}}}}}, {keys}}}",
        server.port,
        key.display()
    )
}

#[test]
fn a_commit_reaches_bind_and_what_is_changed_by_hand_is_healed() {
    let server = Bind::start();
    let env = desk(&server);
    let records = [
        "{name: www, type: A, values: [192.0.2.1]}",
        "{name: bücher, type: CNAME, values: [www.example.com.]}",
        r#"{name: "@", type: MX, values: [{priority: 10, target: mail}]}"#,
        "{name: mail, type: A, values: [192.0.2.25]}",
    ];
    env.push("zone.yaml", &zone("example.com", "bind", &records));
    env.run(&["check"]).says(&["ok    provider bind: answers"]).hides(&["FAIL"]);
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["Zone/example.com#www/A", "192.0.2.1"]);
    env.apply();
    assert_eq!(server.ask("www.example.com", "A"), "192.0.2.1\n");
    assert_eq!(server.ask("xn--bcher-kva.example.com", "CNAME"), "www.example.com.\n");
    assert_eq!(server.ask("example.com", "MX"), "10 mail.example.com.\n");
    env.run(&["plan", "--detailed-exitcode"]).exits(0);
    server.change("update delete www.example.com. A\nupdate add www.example.com. 60 A 203.0.113.9");
    env.run(&["plan", "--detailed-exitcode"]).exits(2).says(&["drift"]);
    env.apply();
    assert_eq!(server.ask("www.example.com", "A"), "192.0.2.1\n");
    env.push("zone.yaml", &zone("example.com", "bind", &records[..1]));
    env.apply();
    assert_eq!(server.ask("example.com", "MX"), "");
}

#[test]
fn a_change_and_a_pass_without_one_take_the_messages_that_the_docs_say() {
    let server = Bind::start();
    let env = desk(&server);
    env.push("zone.yaml", &zone("example.com", "bind", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.apply();
    env.push("zone.yaml", &zone("example.com", "bind", &["{name: www, type: A, values: [192.0.2.2]}"]));
    let before = server.requests().len();
    env.apply();
    let asked = server.requests().split_off(before);
    assert_eq!(asked, ["SOA", "AXFR", "UPDATE", "SOA", "IXFR"]);
    let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/dns.md")).unwrap();
    assert!(docs.contains("at BIND 4 + 1"), "{asked:?}");
    env.apply();
    let before = server.requests().len();
    env.apply();
    assert_eq!(server.requests().split_off(before), ["SOA"]);
}

#[test]
fn what_the_protocol_cannot_do_is_said_with_what_to_do_instead() {
    let server = Bind::start();
    let env = desk(&server);
    env.push("zone.yaml", &zone("example.org", "bind", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.run(&["plan"]).exits(1).says(&[
        "zone example.org is not served by",
        "hint:",
        "never created over DNS",
    ]);
    env.push(
        "zone.yaml",
        &zone("example.com", "bind", &["{name: lb, type: ALIAS, values: [a.example.net.]}"]),
    );
    env.run(&["plan"]).exits(1).says(&["ALIAS records cannot be served by `bind`", "hint:"]);
}

#[test]
fn a_wrong_secret_is_told_from_a_missing_key_and_never_shown() {
    let server = Bind::start();
    let env = desk(&server);
    env.write("tsig", "d3Jvbmctc2VjcmV0LWNhbmFyeS13cm9uZy1zZWNyZXQ=\n");
    env.run(&["check"]).exits(1).says(&["BADSIG", "hint:"]).hides(&["d3Jvbmct"]);
    env.write("tsig", "not base64 canary\n");
    env.run(&["check"]).exits(1).says(&["is not base64"]).hides(&["canary"]);
}

#[test]
fn a_mistake_in_the_entry_has_its_place_and_says_what_to_write() {
    let env = Env::new();
    for (keys, words) in [
        ("server: a", &["needs `tsig`", "write tsig:"][..]),
        (
            "server: a, tsig: {name: k., secret: {file: /k}, algoritm: x}",
            &["config.yaml:6:", "did you mean `algorithm`"],
        ),
        ("server: a, tsig: {name: k., secret: {file: /k}, algorithm: hmac-md5}", &["hmac-sha256"]),
        ("server: 'http://a', tsig: {name: k., secret: {file: /k}}", &["is no address", "127.0.0.1:53"]),
        ("server: a, tsig: {name: 'a b', secret: {file: /k}}", &["is no name of a TSIG key"]),
    ] {
        env.config(&format!("  - {{name: bind, type: rfc2136, {keys}}}"));
        env.run(&["plan"]).exits(1).says(words);
    }
}

/// Health of `www/A` and why, as `status` says.
fn fares(env: &Env) -> (String, String) {
    let found = env.run(&["status", "Zone/example.com#www/A", "-o", "json"]).exits(0).stdout;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let resource = &found["resources"][0];
    let conditions = resource["conditions"].as_array().cloned().unwrap_or_default();
    let healthy = conditions.iter().find(|side| side["type"] == "Healthy").cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    (text(&resource["health"]), text(&healthy["message"]))
}

#[test]
fn with_verify_a_record_is_healthy_once_every_name_server_serves_it() {
    let (server, other) = (Bind::start(), Bind::start());
    let places = [server.port, other.port].map(|port| format!("\"127.0.0.1:{port}\"")).join(", ");
    let verify = format!(", verify: {{authoritative: true, timeout: 2s, servers: [{places}]}}");
    let env = desk_with(&server, &format!("{WIDE_GUARD}{verify}"));
    env.push("zone.yaml", &zone("example.com", "bind", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let _daemon = Daemon::start(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    assert_eq!(server.ask("www.example.com", "A"), "192.0.2.1\n");

    let lag = format!("127.0.0.1:{} does not know the name", other.port);
    let (health, why) = fares(&env);
    assert!(["Progressing", "Degraded"].contains(&&*health) && why.starts_with(&lag), "{health}: {why}");
    wait_for("the timeout of the servers", || fares(&env).0 == "Degraded");
    assert!(fares(&env).1.ends_with("s after it was due"), "{}", fares(&env).1);
    // It is as declared and does not do its work: a person has to look at that server.
    env.run(&["status", "--exit-code"]).exits(3).says(&[
        "NEEDS A PERSON (1)",
        "Zone/example.com#www/A  Degraded",
        &lag,
        "1 well",
    ]);
    env.run(&["status", "Zone/example.com#www/A", "--exit-code"]).exits(3).says(&["NEEDS A PERSON (1)"]);
    let synced = env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    synced.says(&["in sync", "Zone/example.com#www/A is Degraded: ", &lag]);
    let wide = env.run(&["status", "Zone/example.com", "-o", "wide"]).exits(0);
    wide.says(&["SCOPE", "bind/example.com", &format!("127.0.0.1:{}", other.port), "serial 1"])
        .says(&["serial 2"]);

    other.change("update add www.example.com. 300 A 192.0.2.1");
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    wait_for("the record to be healthy", || fares(&env).0 == "Healthy");
    env.run(&["status", "--exit-code"]).exits(0).hides(&["NEEDS A PERSON"]);
    env.run(&["plan", "--detailed-exitcode"]).exits(0);
}

#[test]
fn what_waits_for_another_to_be_well_is_waited_for_while_a_remote_is_away() {
    const OTHER: &str = "other.example";
    let (server, other) = (Bind::start(), Bind::start());
    let places = [server.port, other.port].map(|port| format!("\"127.0.0.1:{port}\"")).join(", ");
    let verify = format!("verify: {{authoritative: true, timeout: 2s, servers: [{places}]}}");
    let env = Env::new();
    fs::create_dir(env.path("zones")).unwrap();
    let zones = format!(
        "  - {{name: zones, type: zonefile, directory: {}, nameservers: [ns1.example.net.], {WIDE_GUARD}}}",
        env.path("zones").display()
    );
    env.config(&format!("{}\n{zones}", entry(&env, &server, &format!("{WIDE_GUARD}, {verify}"))));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let away = format!("  - {{name: away, url: {}, allow: all}}", env.path("away.git").display());
    env.write("config.yaml", &config.replace("repo.git}", &format!("repo.git, allow: all}}\n{away}")));
    let records = ["{name: www, type: A, values: [192.0.2.1]}"];
    let after =
        format!("metadata: {{name: {OTHER}, annotations: {{reconciled/depends-on: Zone/example.com}}}}");
    let waiting = zone(OTHER, "zones", &records).replace(&format!("metadata: {{name: {OTHER}}}"), &after);
    env.write("work/other.yaml", &waiting);
    env.push("zone.yaml", &zone("example.com", "bind", &records));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait", "--timeout", "4s"]);
    wait_for("the timeout of the servers", || fares(&env).0 == "Degraded");
    // From now on the other server is looked at ever more seldom, and whoever asks waits for what comes of that.
    let (began, timeout) = (Instant::now(), Duration::from_secs(12));
    env.run(&["sync", "--wait", "--timeout", "12s"]).exits(3).says(&["zones/other.example is waiting"]);
    assert!(began.elapsed() >= timeout, "it did not wait: {:?}", began.elapsed());
    other.change("update add www.example.com. 300 A 192.0.2.1");
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(3).says(&["source away"]);
    assert_eq!(env.zone_rrsets(OTHER), rrsets(&[("www A", "300 192.0.2.1")]));
    daemon.stop();
}

/// A desk at `server`, whose records are to be served by a second one, which never answers, within `timeout`.
fn desk_with_a_silent_server(server: &Bind, timeout: &str) -> (Env, UdpSocket) {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ports = [server.port, silent.local_addr().unwrap().port()];
    let places = ports.map(|port| format!("\"127.0.0.1:{port}\"")).join(", ");
    let verify = format!(", verify: {{authoritative: true, timeout: {timeout}, servers: [{places}]}}");
    (desk_with(server, &format!("{WIDE_GUARD}{verify}")), silent)
}

#[test]
fn what_no_server_was_seen_to_serve_keeps_what_depends_on_it_waiting_through_a_restart() {
    let server = Bind::start();
    let (env, _silent) = desk_with_a_silent_server(&server, "2s");
    env.push("zone.yaml", &zone("example.com", "bind", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let daemon = Daemon::start(&env);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    let set = |name: &str, annotations: &str| {
        format!(
            "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: {name}{annotations}}}\nspec:\n  zone: example.com\n  \
             records: [{{name: {name}, type: A, values: [192.0.2.2]}}]\n"
        )
    };
    let after = ", annotations: {reconciled/depends-on: RecordSet/first}";
    env.push("sets.yaml", &format!("{}---\n{}", set("first", ""), set("second", after)));
    env.run(&["sync", "--timeout", "60s"]).exits(0);
    let fares = || {
        let found = env.run(&["status", "RecordSet/first", "-o", "json"]).stdout;
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        found["resources"][0]["health"].as_str().unwrap_or_default().to_owned()
    };
    wait_for("the timeout of the servers", || fares() == "Degraded");
    assert_eq!(server.ask("second.example.com", "A"), "");
    drop(daemon);
    let _daemon = Daemon::ready(&env);
    env.run(&["sync", "--wait", "--timeout", "4s"]).says(&["RecordSet/first#first/A is Degraded"]);
    assert_eq!(fares(), "Degraded");
    assert_eq!(server.ask("second.example.com", "A"), "", "it does not wait any longer");
    env.run(&["status", "--exit-code"])
        .exits(3)
        .says(&["RecordSet/first#first/A  Degraded", "hint: to have it"]);
}

#[test]
fn apply_waits_until_what_it_wrote_is_served_or_late() {
    let server = Bind::start();
    let (env, _silent) = desk_with_a_silent_server(&server, "2s");
    env.push("zone.yaml", &zone("example.com", "bind", &["{name: www, type: A, values: [192.0.2.1]}"]));
    env.run(&["apply", "--yes"]).exits(3).says(&["Zone/example.com#www/A is Degraded: ", "1 created"]);
    env.run(&["status", "--exit-code"]).exits(3);

    let (env, _silent) = desk_with_a_silent_server(&server, "5m");
    env.push("zone.yaml", &zone("example.com", "bind", &["{name: mail, type: A, values: [192.0.2.1]}"]));
    let late = env.run(&["apply", "--yes", "--timeout", "1s"]).exits(4);
    late.says(&["Zone/example.com#mail/A is Progressing: "]);
    let waits = env.run(&["status", "--exit-code"]).exits(4);
    waits.says(&["WAITING (", "Zone/example.com#mail/A  Progressing"]);
}
