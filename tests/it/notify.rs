//! Who is told of what: real messages to a server that keeps them, a real Alertmanager, a real mail server.

use crate::{
    env::{Env, zone},
    pebble::free_port,
    running::{Daemon, wait_for},
    sink::{Request, Sink},
};
use std::{
    fs,
    process::{Child, Command, Stdio},
};

const ZONE: &str = "example.com";
const OURS: &str = "{name: www, type: A, values: [192.0.2.1]}";
/// A zone that somebody else made, with another value for the same name.
const THEIRS: &str = "$ORIGIN example.com.\n$TTL 300\n@ IN SOA ns1.example.net. hostmaster.example.net. 1 3600 600 86400 300\n@ IN NS ns1.example.net.\nwww 300 IN A 203.0.113.9\n";

/// A desk with these receivers, and a record that is not ours: a person must act.
fn desk(receivers: &[String]) -> Env {
    let env = Env::zonefile();
    configure(&env, receivers);
    fs::write(env.path("zones/example.com.zone"), THEIRS).unwrap();
    env.push("zone.yaml", &zone(ZONE, "zones", &[OURS]));
    env
}

fn configure(env: &Env, receivers: &[String]) {
    let before = fs::read_to_string(env.path("config.yaml")).unwrap();
    let own = before.split("notify:").next().unwrap();
    let list: String = receivers.iter().map(|receiver| format!("  - {receiver}\n")).collect();
    env.write("config.yaml", &format!("{own}notify:\n{list}"));
}

fn webhook(sink: &Sink) -> String {
    format!("{{name: ops, type: webhook, url: \"{}/hook\", for: 1s}}", sink.url)
}

fn sync(env: &Env) {
    env.run(&["sync", "--wait", "--timeout", "60s"]);
}

fn topics(requests: &[Request]) -> Vec<String> {
    requests.iter().map(|request| request.json()["topic"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_change_is_told_once_to_everybody_and_so_is_its_end_also_over_a_restart() {
    let sink = Sink::start();
    let receivers = [
        format!("{{name: ops, type: webhook, url: \"{}/hook\", for: 1s, secret: {{file: hmac}}}}", sink.url),
        "{name: chat, type: slack, url: {file: slack}, for: 1s}".to_owned(),
        format!(
            "{{name: phone, type: ntfy, url: \"{}/alerts\", token: {{file: hmac}}, link: \"https://wiki.example/dns\", for: 1s}}",
            sink.url
        ),
        format!(
            "{{name: form, type: webhook, url: \"{}/form\", for: 1s, template: \"{{{{ instance }}}}: {{{{ count }}}}\", contentType: text/plain, on: [degraded]}}",
            sink.url
        ),
    ];
    let env = desk(&receivers);
    env.write("slack", &format!("{}/services/T0/B0/canary-slack-address\n", sink.url));
    env.write("hmac", "canary-hmac-key\n");
    let text = fs::read_to_string(env.path("config.yaml")).unwrap();
    let absolute = |name: &str| format!("{{file: {}}}", env.path(name).display());
    env.write(
        "config.yaml",
        &text.replace("{file: slack}", &absolute("slack")).replace("{file: hmac}", &absolute("hmac")),
    );

    let daemon = Daemon::start(&env);
    let slack = || sink.at("/services/T0/B0/canary-slack-address");
    wait_for("everybody is told", || {
        [sink.at("/hook"), slack(), sink.at("/alerts"), sink.at("/form")].iter().all(|told| told.len() == 1)
    });

    let told = &sink.at("/hook")[0];
    let message = told.json();
    assert_eq!(message["topic"], "degraded");
    assert_eq!(
        (&message["instance"], &message["provider"], &message["reason"]),
        (&"it".into(), &"zones".into(), &"Conflict".into())
    );
    assert_eq!(message["subjects"], serde_json::json!(["zones/example.com"]));
    assert!(message["hint"].as_str().unwrap().contains("reconciled adopt"), "{message}");
    assert!(
        message["since"].as_str().unwrap().ends_with('Z') && !message["cause"].as_str().unwrap().is_empty()
    );
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"canary-hmac-key");
    let signature = told.header("x-reconciled-signature").strip_prefix("sha256=").unwrap();
    let signature: Vec<u8> = (0..signature.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&signature[at..at + 2], 16).unwrap())
        .collect();
    ring::hmac::verify(&key, &told.body, &signature).unwrap();
    let text = slack()[0].json();
    assert!(text["text"].as_str().unwrap().contains("it: degraded: zones/example.com: Conflict"), "{text}");
    assert!(text["blocks"][0]["text"]["text"].as_str().unwrap().contains("to do: "), "{text}");
    let push = &sink.at("/alerts")[0];
    let headers = ["title", "priority", "tags", "click", "authorization"].map(|name| push.header(name));
    assert_eq!(
        headers,
        [
            "it: degraded: zones/example.com: Conflict",
            "high",
            "rotating_light",
            "https://wiki.example/dns",
            "Bearer canary-hmac-key"
        ]
    );
    let form = &sink.at("/form")[0];
    assert_eq!((form.body.as_slice(), form.header("content-type")), (&b"it: 1"[..], "text/plain"));

    // The same again is no news, nor is a restart.
    sync(&env);
    daemon.stop();
    let daemon = Daemon::start(&env);
    sync(&env);
    env.run(&["adopt", "Zone/example.com#www/A", "--yes"]).exits(0);
    wait_for("its end is told", || topics(&sink.at("/hook")) == ["degraded", "recovered"]);
    let end = sink.at("/hook")[1].json();
    assert_eq!((&end["of"], &end["remaining"]), (&"degraded".into(), &0.into()));
    wait_for("and to the phone", || sink.at("/alerts").len() == 2);
    assert_eq!(sink.at("/alerts")[1].header("tags"), "white_check_mark");
    wait_for("nothing is left to tell", || {
        env.sql("SELECT count(*) FROM outbox") == "0" && env.sql("SELECT count(*) FROM trouble") == "0"
    });
    assert_eq!(sink.at("/form").len(), 1, "it did not want to know of the end");
    let said = [daemon.log(), env.run(&["status", "-o", "json"]).all()].concat();
    daemon.stop();
    assert!(!said.contains("canary"), "{said}");
    let kept = fs::read(env.path("state/state.db")).unwrap();
    assert!(!kept.windows(6).any(|bytes| bytes == b"canary"), "a secret is in the database");
}

#[test]
fn what_could_not_be_told_is_told_after_a_restart_and_delays_nothing() {
    let sink = Sink::start();
    sink.answers(500);
    let env = desk(&[webhook(&sink)]);
    let daemon = Daemon::start(&env);
    wait_for("it was tried", || sink.at("/hook").len() >= 2);
    let log = daemon.log();
    assert_eq!(log.matches("a notification cannot be sent").count(), 1, "{log}");
    assert!(!log.contains("/hook"), "an address may be a secret: {log}");
    // A receiver that never answers.
    sink.answers(0);
    wait_for("it is being tried", || sink.at("/hook").len() >= 3);
    env.push("more.yaml", &zone("other.example", "zones", &[OURS]));
    env.run(&["sync", "--source", "infra", "--wait", "--timeout", "20s"]);
    wait_for("work goes on", || env.path("zones/other.example.zone").exists());
    daemon.stop();
    assert_eq!(env.sql("SELECT count(*) FROM outbox"), "1");

    sink.answers(200);
    let before = sink.at("/hook").len();
    let daemon = Daemon::start(&env);
    wait_for("it is delivered", || env.sql("SELECT count(*) FROM outbox") == "0");
    let told = sink.at("/hook");
    assert_eq!(told.len(), before + 1);
    assert!(told.iter().all(|request| request.header("x-reconciled-delivery") == "it-1"), "{told:?}");
    daemon.stop();
}

#[test]
fn what_no_try_can_deliver_is_given_up_and_not_said_to_be_tried_again() {
    let sink = Sink::start();
    let broken = "template: \"{{ nosuch }}\", contentType: text/plain";
    let env = desk(&[format!("{{name: ops, type: webhook, url: \"{}/hook\", for: 1s, {broken}}}", sink.url)]);
    let daemon = Daemon::start(&env);
    wait_for("it is given up", || daemon.log().contains("a notification is given up"));
    assert!(!daemon.log().contains("a notification cannot be sent"), "{}", daemon.log());
    daemon.stop();
}

#[test]
fn a_hold_is_told_with_its_counts_and_what_to_type() {
    let sink = Sink::start();
    let env = Env::zonefile();
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    env.write(
        "config.yaml",
        &config.replace("maxDeletes: 1000, maxDeletePercent: 100", "maxDeletes: 0, maxDeletePercent: 100"),
    );
    configure(&env, &[webhook(&sink)]);
    env.push("zone.yaml", &zone(ZONE, "zones", &[OURS, "{name: mail, type: A, values: [192.0.2.2]}"]));
    let daemon = Daemon::start(&env);
    sync(&env);
    env.push("zone.yaml", &zone(ZONE, "zones", &[OURS]));
    sync(&env);
    wait_for("it is told", || topics(&sink.at("/hook")) == ["held"]);
    let message = sink.at("/hook")[0].json();
    assert!(message["cause"].as_str().unwrap().contains("1 to delete"), "{message}");
    assert!(message["hint"].as_str().unwrap().contains("reconciled approve "), "{message}");
    daemon.stop();
}

#[test]
fn a_receiver_is_tried_by_hand_and_a_reload_brings_another() {
    let (sink, other) = (Sink::start(), Sink::start());
    let env = desk(&[webhook(&sink)]);
    env.run(&["notify", "test", "ops"]).exits(0).says(&["ops was told"]);
    assert_eq!(topics(&sink.at("/hook")), ["test"]);
    env.run(&["notify", "test", "opz"]).exits(1).says(&["there is no receiver `opz`", "did you mean `ops`?"]);
    let daemon = Daemon::start(&env);
    wait_for("it is told", || topics(&sink.at("/hook")) == ["test", "degraded"]);
    configure(&env, &[webhook(&other).replace("ops", "night")]);
    daemon.signal("HUP");
    wait_for("the other is told", || topics(&other.at("/hook")) == ["degraded"]);
    other.answers(403);
    env.run(&["notify", "test", "night"]).exits(1).says(&["tell night: 127.0.0.1 answered 403", "hint:"]);
    assert_eq!(sink.at("/hook").len(), 2);
    daemon.stop();
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn alertmanager_knows_what_stands_and_that_it_is_over() {
    let env = desk(&[]);
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    env.write("alertmanager.yml", "route: {receiver: none}\nreceivers: [{name: none}]\n");
    let server = Command::new("prometheus-alertmanager")
        .current_dir(env.path("."))
        .args(["--config.file=alertmanager.yml", "--storage.path=alerts", "--cluster.listen-address="])
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _server = Server(server);
    wait_for("Alertmanager listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    configure(&env, &[format!("{{name: am, type: alertmanager, url: \"{url}\", for: 1s}}")]);
    let active = || -> serde_json::Value {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        use std::io::{Read, Write};
        stream.write_all(b"GET /api/v2/alerts?active=true HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or_default()
    };
    let daemon = Daemon::start(&env);
    let count = || active().as_array().map_or(usize::MAX, Vec::len);
    wait_for("the alert stands", || count() == 1);
    let alert = active()[0].clone();
    let labels = serde_json::json!({
        "alertname": "ReconciledDegraded", "instance": "it", "provider": "zones", "reason": "Conflict", "severity": "critical"
    });
    assert_eq!(alert["labels"], labels);
    assert!(alert["annotations"]["hint"].as_str().unwrap().contains("reconciled adopt"), "{alert}");
    env.run(&["adopt", "Zone/example.com#www/A", "--yes"]).exits(0);
    wait_for("the alert is over", || count() == 0);
    daemon.stop();
}

/// Takes mail over STARTTLS from who logs in, and prints it.
const MAIL_SERVER: &str = r#"
import ssl, sys, time
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

class Keep:
    async def handle_DATA(self, server, session, envelope):
        print(session.ssl is not None, envelope.mail_from, envelope.rcpt_tos, envelope.content.decode(), flush=True)
        return "250 kept"

def login(server, session, envelope, mechanism, data):
    return AuthResult(success=(data.login, data.password) == (b"daemon", b"canary-mail-password"), handled=False)

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
Controller(Keep(), hostname="127.0.0.1", port=int(sys.argv[1]), tls_context=context, require_starttls=True,
           authenticator=login, auth_required=True).start()
while True:
    time.sleep(1)
"#;

#[test]
fn mail_goes_over_tls_to_a_server_that_wants_a_login() {
    let env = Env::zonefile();
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    env.write("cert.pem", &certificate.cert.pem());
    env.write("key.pem", &certificate.key_pair.serialize_pem());
    env.write("password", "canary-mail-password\n");
    env.write("mail.py", MAIL_SERVER);
    let port = free_port();
    let log = fs::File::create(env.path("mail.log")).unwrap();
    let server = Command::new("/usr/bin/python3")
        .current_dir(env.path("."))
        .args(["mail.py", &port.to_string()])
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let _server = Server(server);
    wait_for("the mail server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let password = env.path("password");
    let receiver = format!(
        "{{name: mail, type: email, server: \"localhost:{port}\", from: reconciled@dns1.example, to: [ops@example.com, \"Night <night@example.com>\"], username: daemon, password: {{file: {}}}}}",
        password.display()
    );
    configure(&env, &[receiver]);
    let trust = env.path("cert.pem");
    let trust = [("SSL_CERT_FILE", trust.to_str().unwrap())];
    env.run_with(&["notify", "test", "mail"], &trust).exits(0);
    let mail = fs::read_to_string(env.path("mail.log")).unwrap();
    for part in [
        "True reconciled@dns1.example ['ops@example.com', 'night@example.com']",
        "Subject: it: test: this way works",
        "Message-ID: <it-test-",
        "somebody typed `reconciled notify test` at",
    ] {
        assert!(mail.contains(part), "`{part}` is missing in {mail}");
    }
    // A certificate that nobody vouches for is not talked to.
    let refused = env
        .run(&["notify", "test", "mail"])
        .exits(1)
        .says(&["tell mail: mail server localhost", "ertificate"]);
    env.write("password", "canary-other\n");
    let denied = env.run_with(&["notify", "test", "mail"], &trust).exits(1).says(&["535"]);
    assert!(!format!("{refused:?}{denied:?}").contains("canary"), "{refused:?}{denied:?}");
}
