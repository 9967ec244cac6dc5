//! What is served of a certificate, and that persons are told when one ends: real TLS servers, a real daemon.

use crate::{
    certificates::{SELF, certificate, desk, fingerprint, manifest, openssl, read},
    env::Env,
    pebble::free_port,
    running::{Daemon, wait_for},
    sink::Sink,
    telemetry::scrape,
};
use serde_json::Value;
use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// A TLS server that shows a certificate.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    fn start(env: &Env, port: u16, certificate: &str, key: &str) -> Server {
        let accept = format!("127.0.0.1:{port}");
        let server = Command::new("openssl")
            .args(["s_server", "-quiet", "-accept", &accept, "-cert", certificate, "-key", key])
            .current_dir(env.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Server(server)
    }
}

/// The fingerprint as we write it.
fn bare(openssl: &str) -> String {
    openssl.trim().rsplit('=').next().unwrap().replace(':', "").to_ascii_lowercase()
}

/// The value of a fact in `status -o json`.
fn fact(env: &Env, name: &str) -> Option<String> {
    let status = env.run(&["status", "Certificate/web", "-o", "json"]).exits(0);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let mut facts = status["facts"].as_array().unwrap().iter();
    facts.find(|fact| fact["name"] == name).map(|fact| fact["value"].as_str().unwrap().to_owned())
}

#[test]
fn a_certificate_is_well_once_it_is_served() {
    let (env, sink) = (desk(), Sink::start());
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let notify = format!("notify: [{{name: ops, type: webhook, url: \"{}/hook\", for: 1s}}]", sink.url);
    env.write("config.yaml", &format!("{config}\n{notify}\n"));
    let told = || -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let told = sink.at("/hook");
        told.iter().map(|told| (text(&told.json()["topic"]), text(&told.json()["cause"]))).collect()
    };
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let spec = format!("issuerRef: {{name: own}}, dnsNames: [example.com], serve: ['{address}']");
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &certificate(&env, "web", &spec)));
    env.apply();
    let status = || env.run(&["status", "Certificate/web", "-o", "wide"]).exits(0);
    // Whoever serves it may be waiting for it.
    status()
        .says(&["in sync", "valid until", "renewal at", "issued by", "self-signed", "no answer"])
        .hides(&["Degraded"]);
    let own = bare(&fingerprint(&env, "web"));
    assert_eq!(fact(&env, "fingerprint"), Some(own.clone()));
    assert_eq!(fact(&env, "chain").as_deref(), Some("example.com"));
    let curve = "ec_paramgen_curve:prime256v1";
    let subject = ["-subj", "/CN=other", "-keyout", "other.key", "-out", "other.crt"];
    openssl(&env, &[&["req", "-x509", "-newkey", "ec", "-pkeyopt", curve, "-nodes"], &subject[..]].concat());
    let theirs = bare(&openssl(&env, &["x509", "-in", "other.crt", "-noout", "-fingerprint", "-sha256"]));

    let daemon = Daemon::ready(&env);
    let sync = || env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    let metric = |name: &str| {
        let series = format!("{name}{{certificate=\"web\",endpoint=\"{address}\",provider=\"cert\"}} ");
        let text = scrape(&env);
        let found = text.lines().find_map(|line| line.strip_prefix(series.as_str()));
        found.map(|value| value.parse::<f64>().unwrap())
    };
    assert_eq!(metric("reconciled_certificate_served"), None, "nobody answers");
    let other = Server::start(&env, port, "other.crt", "other.key");
    sync();
    env.run(&["explain", "Certificate/web"]).says(&[&format!("{address} serves another certificate")]);
    let served = fact(&env, &format!("served at {address}")).unwrap();
    assert!(served.starts_with(&format!("{theirs}, another one, until 20")), "{served}");
    assert_eq!(fact(&env, &format!("chain at {address}")).as_deref(), Some("other"));
    wait_for("it is counted", || metric("reconciled_certificate_served") == Some(0.0));
    wait_for("it is told", || !told().is_empty());
    let [(topic, cause)] = &told()[..] else { panic!("{:?}", told()) };
    assert_eq!(topic, "degraded");
    assert!(cause.contains("Certificate/web") && cause.contains("serves another certificate"), "{cause}");
    drop(other);
    let ours = Server::start(&env, port, "ssl/web/tls.crt", "ssl/web/tls.key");
    sync();
    let served = fact(&env, &format!("served at {address}")).unwrap();
    assert!(served.starts_with(&format!("{own}, this one, until 20")), "{served}");
    wait_for("it is counted", || metric("reconciled_certificate_served") == Some(1.0));
    let text = scrape(&env);
    let end = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
        line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
    };
    let until = end("reconciled_certificate_served_expiry_timestamp_seconds");
    assert!(until.is_some() && until == end("reconciled_certificate_expiry_timestamp_seconds"), "{text}");
    let renewed_at = OffsetDateTime::parse(&fact(&env, "renewal at").unwrap(), &Rfc3339).unwrap();
    let renewed_at = renewed_at.unix_timestamp().to_string();
    assert_eq!(end("reconciled_certificate_renewal_timestamp_seconds"), Some(renewed_at), "{text}");
    status().says(&["Healthy", "this one"]).hides(&["Degraded"]);
    wait_for("its end is told", || told().iter().any(|(topic, _)| topic == "recovered"));
    assert_eq!(told().len(), 2, "{:?}", told());
    drop(ours);
    daemon.stop();
}

/// Puts a certificate of the same key into the state of `web`, which began 80 days ago and ends at `end`, as `date` knows it, and is
/// of `issuer`.
fn age(env: &Env, issuer: &str, end: &str) {
    let script = "set -e
        printf '[a]\\ndatabase=index\\nnew_certs_dir=.\\nserial=serial\\ndefault_md=sha256\\npolicy=p\\n[p]\\n' > ca.cnf
        : > index; echo 1000 > serial; echo subjectAltName=DNS:example.com > ext
        openssl req -new -key ssl/web/tls.key -subj / -out old.csr
        openssl ca -config ca.cnf -name a -batch -selfsign -keyfile ssl/web/tls.key -in old.csr -out old.crt -notext \\
            -extfile ext -startdate $(date -u -d '80 days ago' +%Y%m%d%H%M%SZ) -enddate $(date -u -d \"$1\" +%Y%m%d%H%M%SZ)";
    let made =
        Command::new("sh").args(["-c", script, "sh", end]).current_dir(env.dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let path = env.path("state/certificates/cert/certificates/web/issued.json");
    let mut issued: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    issued["chain"] = read(env, "old.crt").into();
    issued["ca"] = Value::Null;
    issued["issuer"] = issuer.into();
    fs::write(&path, issued.to_string()).unwrap();
}

/// The same of one that ends in five days and is not in place: what is there is newer, and would be taken over.
fn grow_old(env: &Env, issuer: &str) {
    age(env, issuer, "5 days");
    fs::remove_dir_all(env.path("ssl/web")).unwrap();
}

#[test]
fn one_that_is_late_or_over_is_degraded_also_where_no_daemon_looks() {
    let env = desk();
    let all = ["web", "other"]
        .map(|name| certificate(&env, name, "issuerRef: {name: own}, dnsNames: [example.com]"))
        .concat();
    env.push("all.yaml", &(manifest("Issuer", "own", SELF) + &all));
    env.apply();
    env.run(&["status", "--exit-code"]).exits(0).says(&[", Healthy)", "\n2 well"]);
    for (end, said) in [("5 days", "should have been renewed at"), ("10 days ago", "it is over since")] {
        age(&env, "self-signed", end);
        let first = "NEEDS A PERSON (1)\n  Certificate/web  Degraded";
        env.run(&["status", "--exit-code"]).exits(3).says(&[", Degraded)", first, said, "\n1 well"]);
        env.run(&["status", "Certificate/web", "--exit-code"]).exits(3).says(&["Degraded", said]);
        env.run(&["status", "Certificate/other", "--exit-code"]).exits(0).says(&["Healthy"]).hides(&[said]);
    }
    // What is in place is newer, and would be taken over.
    fs::remove_dir_all(env.path("ssl/web")).unwrap();
    env.apply();
    env.run(&["status", "--exit-code"]).exits(0).says(&[", Healthy)", "\n2 well"]);
}

#[test]
fn one_that_is_late_while_its_file_cannot_be_read_is_degraded_and_stays_as_it_is() {
    let env = desk();
    let all = manifest("Issuer", "own", SELF)
        + &certificate(&env, "web", "issuerRef: {name: own}, dnsNames: [example.com]");
    env.push("all.yaml", &all);
    env.apply();
    env.push("all.yaml", &all.replace("dnsNames", "dnsNamez"));
    // In force before it is old, or a daemon that begins with what was in force would renew it.
    env.run(&["apply", "--yes"]).exits(1).says(&["FROZEN"]);
    grow_old(&env, "self-signed");
    let daemon = Daemon::ready(&env);
    let status = || env.run(&["status", "Certificate/web"]).all();
    wait_for("it is said how it fares", || status().contains("Degraded"));
    env.run(&["status", "--exit-code"]).exits(3).says(&[
        "should have been renewed at",
        "so nothing renews it",
        "FROZEN (1)\n  Certificate/web",
        "\n0 well",
    ]);
    assert!(!env.path("ssl/web").exists(), "it is not restored");
    env.push("all.yaml", &all);
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    wait_for("it is well again", || !status().contains("Degraded") && env.path("ssl/web/tls.crt").exists());
    assert_ne!(read(&env, "ssl/web/tls.crt"), read(&env, "old.crt"));
    daemon.stop();
}

#[test]
fn one_that_is_not_renewed_in_time_is_told_of_and_so_is_that_it_was_in_the_end() {
    let env = desk();
    let sink = Sink::start();
    let own = manifest("Issuer", "own", SELF);
    let web = |issuer: &str| {
        certificate(&env, "web", &format!("issuerRef: {{name: {issuer}}}, dnsNames: [example.com]"))
    };
    env.push("all.yaml", &(own.clone() + &web("own")));
    env.apply();
    let server = format!("https://127.0.0.1:{}/dir", free_port());
    let away =
        manifest("Issuer", "away", &format!("acme: {{server: '{server}', solvers: [{{http01: {{}}}}]}}"));
    env.push("all.yaml", &(away + &web("away")));
    // The revision is in force, and nobody gives another certificate.
    env.run(&["apply", "--yes", "--timeout", "1s"]).says(&[&server, "0 updated"]);
    grow_old(&env, &server);
    let config = read(&env, "config.yaml");
    let notify = format!(
        "notify:\n  - {{name: ops, type: webhook, url: \"{}/hook\", for: 1s, on: [expiring, recovered]}}\n",
        sink.url
    );
    env.write("config.yaml", &(config + &notify));

    let daemon = Daemon::start(&env);
    let told = || sink.requests().iter().map(|request| request.json()).collect::<Vec<_>>();
    wait_for("somebody is told", || !told().is_empty());
    let first = &told()[0];
    assert_eq!((&first["topic"], &first["provider"]), (&"expiring".into(), &"cert".into()), "{first}");
    let text = first.to_string();
    assert!(text.contains("is over at") && text.contains("should have been renewed at"), "{text}");
    assert!(text.contains("reconciled status '*/web' -o wide"), "{text}");
    env.run(&["status", "*/web", "-o", "wide"]).says(&["no answer", "renewal at"]);
    // It was put back where it is used: it is better than none.
    assert_eq!(read(&env, "ssl/web/tls.crt"), read(&env, "old.crt"));

    // A reload is no news, whatever is known after it, and when.
    daemon.signal("HUP");
    wait_for("it is reloaded", || daemon.log().contains("configuration is reloaded"));
    env.run(&["sync", "--wait", "--timeout", "60s"]);
    let reloaded = Instant::now();
    wait_for("whatever would be told was told", || reloaded.elapsed() > Duration::from_secs(5));
    assert_eq!(told().len(), 1, "{:?}", told());

    env.push("all.yaml", &(own + &web("own")));
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    wait_for("that it is over is told", || told().iter().any(|message| message["topic"] == "recovered"));
    assert_eq!(told().len(), 2, "each once: {:?}", told());
    daemon.stop();
}
