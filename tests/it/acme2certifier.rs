//! Another authority, acme2certifier: it suggests moments (ARI), has profiles, and looks for records that stay.

use crate::{
    acme::engine,
    certificates::{certificate, fingerprint, is_pair, make_regular, manifest, openssl, read},
    env::{Env, WIDE_GUARD, path, zone},
    pdns::Pdns,
    pebble::{free_port, write_server},
    running::wait_for,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use reconciled::failpoint::{CERTIFICATES, VARIABLE};
use serde_json::Value;
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

const SIGKILL: i32 = 9;

/// A running one.
struct Authority {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that it is installed with; `tests/run` has it in `PATH`.
fn program(name: &str) -> PathBuf {
    let path = path();
    let mut found = std::env::split_paths(&path).filter(|folder| folder.join("a2c-db-update").exists());
    found.next().expect("acme2certifier is not installed: tests/run does it").join(name)
}

impl Authority {
    /// Starts one that looks names up at the DNS server at `dns`.
    fn start(dns: u16) -> Authority {
        let directory = tempfile::tempdir().unwrap();
        write_server(directory.path());
        fs::create_dir(directory.path().join("certs")).unwrap();
        let dir = directory.path().display();
        let config = format!(
            r#"[DEFAULT]
debug: False
[CAhandler]
handler_module: acme2certifier.cahandlers.openssl_ca_handler
issuing_ca_key: {dir}/ca.key
issuing_ca_cert: {dir}/ca.pem
issuing_ca_crl: {dir}/crl.pem
cert_save_path: {dir}/certs
cert_validity_days: 6
[DBhandler]
handler_module: acme2certifier.dbhandlers.wsgi_handler
dbfile: {dir}/acme.db
[Directory]
caaidentities: ["ca.example"]
[Challenge]
dns_server_list: ["127.0.0.1"]
dns_persist_01_support: True
dns_persist_allow_policy_wildcard: True
[Order]
profiles: {{"short": "https://ca.example/short", "long": "https://ca.example/long"}}
profiles_check_disable: False
[Renewalinfo]
renewalthreshold_pctg: 85
retry_after_timeout: 3600
"#
        );
        let file = directory.path().join("acme_srv.cfg");
        fs::write(&file, config).unwrap();
        let made = Command::new(program("a2c-db-update")).env("ACME_SRV_CONFIGFILE", &file).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let (port, log) = (free_port(), fs::File::create(directory.path().join("log")).unwrap());
        let child = Command::new(program("python3"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rig/acme2certifier"))
            .args([port.to_string(), dns.to_string()])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut authority = Authority { child, directory, port };
        wait_for("acme2certifier listens", || {
            let ended = authority.child.try_wait().unwrap();
            assert!(ended.is_none(), "{}", authority.log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        authority
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// An issuer that asks it.
    fn issuer(&self, more: &str) -> String {
        let bundle = STANDARD.encode(fs::read(self.directory.path().join("ca.pem")).unwrap());
        let server = format!("https://localhost:{}/directory", self.port);
        let spec =
            format!("acme: {{server: '{server}', email: ops@example.com, caBundle: {bundle}, {more}}}");
        manifest("Issuer", "a2c", &spec)
    }

    /// Asks its database.
    fn sql(&self, query: &str) -> String {
        let database = self.directory.path().join("acme.db");
        let output = Command::new("sqlite3").arg(database).arg(query).output().unwrap();
        assert!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// How many certificates it has issued.
    fn certificates(&self) -> usize {
        self.sql("SELECT count(*) FROM certificate WHERE cert IS NOT NULL").parse().unwrap()
    }

    /// How many orders were made.
    fn orders(&self) -> usize {
        self.sql("SELECT count(*) FROM orders").parse().unwrap()
    }

    /// True when the last call that it got is a new order.
    fn was_an_order_last(&self) -> bool {
        let log = self.log();
        let last = log.lines().rfind(|line| line.starts_with("calling POST "));
        last.is_some_and(|line| line.contains("/neworder"))
    }

    /// The certificate is of this authority, and the key its own.
    #[track_caller]
    fn has_issued(&self, env: &Env, name: &str) {
        let (ca, chain) = (self.directory.path().join("ca.pem"), format!("ssl/{name}/tls.crt"));
        openssl(env, &["verify", "-CAfile", ca.to_str().unwrap(), &chain]);
        is_pair(env, name);
    }
}

fn desk(pdns: &Pdns) -> Env {
    let env = Env::trusted();
    fs::create_dir(env.path("ssl")).unwrap();
    env.write("key", &pdns.key);
    let dir = env.dir.path().display();
    let cert = format!(
        "  - {{name: cert, type: certificates, paths: [{dir}/ssl], \
         reload: [sh, -c, 'cd {dir}; echo $1 >> reloaded', sh, '{{unit}}'], {WIDE_GUARD}}}"
    );
    env.config(&format!("{}\n{cert}", env.pdns_entry(&pdns.url, WIDE_GUARD)));
    env
}

/// The value of a fact of the certificate `web`.
fn fact(env: &Env, name: &str) -> Option<String> {
    let status = env.run(&["status", "Certificate/web", "-o", "json"]).exits(0);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let mut facts = status["facts"].as_array().unwrap().iter();
    facts.find(|fact| fact["name"] == name).map(|fact| fact["value"].as_str().unwrap().to_owned())
}

fn moment(env: &Env, name: &str) -> i64 {
    let text = fact(env, name).unwrap_or_else(|| panic!("no {name}"));
    OffsetDateTime::parse(&text, &Rfc3339).unwrap().unix_timestamp()
}

const WWW: &[&str] = &["{name: www, type: A, values: [127.0.0.1]}"];

#[test]
fn a_suggested_moment_is_followed_and_a_profile_asked_for() {
    let pdns = Pdns::start();
    let authority = Authority::start(pdns.port);
    let env = desk(&pdns);
    let web = certificate(&env, "web", "issuerRef: {name: a2c}, dnsNames: [example.com, '*.example.com']");
    let push = |profile: &str| {
        let issuer =
            authority.issuer(&format!("profile: {profile}, solvers: [{{dns01: {{provider: pdns}}}}]"));
        env.push("all.yaml", &format!("{issuer}{web}{}", zone("example.com", "pdns", WWW)));
    };
    push("shrot");
    env.run(&["apply", "--yes"]).says(&["has no profile `shrot`", "it has long, short"]);
    assert_eq!(authority.sql("SELECT count(*) FROM orders"), "0");
    push("short");
    env.apply();
    authority.has_issued(&env, "web");
    assert_eq!(authority.sql("SELECT profile FROM orders"), "short");
    // Six days: by itself it would be renewed after half of them; the authority would like the last 15 %.
    env.apply();
    let (end, renewed) = (moment(&env, "valid until"), moment(&env, "renewal at"));
    let life = 6 * 86_400;
    let share = (end - renewed) as f64 / f64::from(life);
    assert!((0.049..=0.151).contains(&share), "{share} of its time is left when it is renewed");
    assert_eq!(moment(&env, "renewal at"), renewed, "chosen once");

    let first = fingerprint(&env, "web");
    env.run(&["renew", "Certificate/web"]).exits(0);
    env.apply();
    assert_ne!(fingerprint(&env, "web"), first);
    authority.has_issued(&env, "web");
    // It takes no notice of what the order replaces, and does not repeat it: no reason to refuse the order.
    assert_eq!(authority.sql("SELECT count(*) FROM orders"), "2", "{}", authority.log());
    env.in_sync();
}

/// A desk at which the certificate `web` is declared, and the record that proves its names to the authority.
struct Place<'a> {
    env: Env,
    pdns: &'a Pdns,
    authority: &'a Authority,
    zone: String,
}

impl<'a> Place<'a> {
    /// The authority looks for the record a while after it was told of.
    fn new(pdns: &'a Pdns, authority: &'a Authority, label: &str) -> Place<'a> {
        let (env, name) = (desk(pdns), format!("{label}.example.com"));
        env.push("issuer.yaml", &authority.issuer("solvers: [{dnsPersist01: {}}]"));
        env.push("zone.yaml", &zone(&name, "pdns", WWW));
        let names = format!("dnsNames: [{name}, '*.{name}'], reload: [a.service]");
        env.push("web.yaml", &certificate(&env, "web", &format!("issuerRef: {{name: a2c}}, {names}")));
        // Nobody knows the account that the record has to name. How far one gets in its time depends on the machine.
        let mut told = None;
        wait_for("the record to be told", || {
            let applied = env.run(&["apply", "--yes", "--timeout", "1s"]);
            assert_ne!(applied.code, Some(0), "{}", applied.all());
            told = fact(&env, "record to declare");
            told.is_some()
        });
        let told = told.unwrap_or_default();
        let value = told.strip_prefix(&format!("_validation-persist.{name}. TXT ")).expect(&told);
        let value = value.trim_matches('"');
        assert!(value.starts_with("ca.example; accounturi=https://localhost:"), "{value}");
        let record = format!("{{name: _validation-persist, type: TXT, values: ['{value}']}}");
        env.push("zone.yaml", &zone(&name, "pdns", &[WWW, &[&record]].concat()));
        env.run(&["apply", "--yes", "--target", &format!("Zone/{name}#*")]).exits(0);
        Place { env, pdns, authority, zone: name }
    }

    /// The record is there.
    #[track_caller]
    fn is_declared(&self) {
        let stored = self.pdns.rrsets(&self.zone);
        assert!(stored.keys().any(|name| name.starts_with("_validation-persist")), "{stored:?}");
    }
}

/// The first certificate, which is ordered already, or a renewal, killed once at a point. True when that was reached.
fn life(place: &Place<'_>, name: &str, hit: u32) -> bool {
    let Place { env, authority, .. } = place;
    let point = format!("{name}:{hit}");
    let first = env.path("ssl/web/tls.crt").exists().then(|| fingerprint(env, "web"));
    let (certificates, mut orders) = (authority.certificates(), authority.orders());
    if first.is_some() {
        if name == "certificate.link" {
            // Only then is there another name to be switched.
            make_regular(env, "web");
        }
        env.run(&["renew", "Certificate/web"]).exits(0);
        env.write("reloaded", "");
        orders += 1;
    }
    let died = env.run_with(&["apply", "--yes"], &[(VARIABLE, &point)]);
    let was_reached = died.signal == Some(SIGKILL);
    assert!(was_reached || died.code == Some(0), "{point}: {died:?}");
    // The answer to the order is lost with the process: nobody knows where the order is.
    if was_reached && name == "authority.after" && authority.was_an_order_last() {
        orders += 1;
    }
    if first.is_some() || ["crt", "key"].iter().all(|end| env.path(&format!("ssl/web/tls.{end}")).exists()) {
        is_pair(env, "web");
    }
    let again = env.run(&["apply", "--yes"]);
    assert_eq!(again.code, Some(0), "{point}: {}", again.all());
    authority.has_issued(env, "web");
    assert_ne!(Some(fingerprint(env, "web")), first, "{point}");
    assert_eq!(authority.certificates() - certificates, 1, "{point}: certificates issued");
    assert!(authority.orders() <= orders, "{point}: orders");
    assert!(read(env, "reloaded").contains("a.service"), "{point}");
    place.is_declared();
    env.in_sync();
    assert_eq!(env.sql("SELECT count(*) FROM journal WHERE ended < total"), "0", "{point}: open intents");
    was_reached
}

#[test]
fn a_record_declared_once_proves_names_and_stays_and_a_process_killed_anywhere_burns_no_order() {
    let pdns = Pdns::start();
    let authority = Authority::start(pdns.port);
    // All of them wait at the same time.
    let renewed = Place::new(&pdns, &authority, "renewed");
    let places =
        CERTIFICATES.iter().map(|name| (name, Place::new(&pdns, &authority, &name.replace('.', "-"))));
    let places: Vec<_> = places.collect();
    for (name, place) in &places {
        assert!(life(place, name, 1), "{name} is never reached");
    }
    let certificates = authority.certificates();
    renewed.env.apply();
    authority.has_issued(&renewed.env, "web");
    renewed.env.in_sync();
    assert_eq!(authority.certificates() - certificates, 1);
    for name in CERTIFICATES {
        let hits = (1..).take_while(|hit| life(&renewed, name, *hit)).count();
        assert!(hits > 0, "{name} is never reached");
    }
    for name in engine() {
        assert!(life(&renewed, name, 1), "{name} is never reached");
    }
}
