//! Real primary servers that take dynamic updates: BIND, Knot and PowerDNS, each in a scratch directory.

use crate::{
    pdns::{create_database, free_port},
    world,
};
use reconciled_dns::rfc2136::{Algorithm, Config, FUDGE, Key, Keys, connect};
use reconciled_provider::{Cx, Provider, Scope, SecretRef, Version};
use reconciled_testkit::PATIENCE;
use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

/// The secret of every key here, in base64 as key files have it.
pub(crate) const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0LXNlcnZlcnMtMzItb2N0";

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bind,
    Knot,
    PowerDns,
    /// BIND that signs what it serves, which has a serial of its own then.
    BindSigned,
    /// Knot that signs what it stores.
    KnotSigned,
}

/// Every server, of zones that are served as they are stored.
pub(crate) const KINDS: [Kind; 3] = [Kind::Bind, Kind::Knot, Kind::PowerDns];

/// A running server.
pub(crate) struct Dnsd {
    child: Child,
    pub(crate) port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Dnsd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Dnsd {
    /// Starts a server with these zones: a SOA with serial 1, an NS and nothing else.
    pub(crate) async fn start(kind: Kind, zones: &[String]) -> Dnsd {
        for _ in 0..5 {
            if let Some(server) = Dnsd::try_start(kind, zones).await {
                return server;
            }
        }
        panic!("{kind:?} did not come up in five attempts");
    }

    /// Starts a server with the zone `example.com`.
    pub(crate) async fn with_example(kind: Kind) -> Dnsd {
        Dnsd::start(kind, &["example.com".into()]).await
    }

    async fn try_start(kind: Kind, zones: &[String]) -> Option<Dnsd> {
        let directory = tempfile::tempdir().unwrap();
        let (path, port) = (directory.path(), free_port());
        let mut command = match kind {
            Kind::Bind => bind(path, port, zones, ""),
            Kind::BindSigned => bind(path, port, zones, "dnssec-policy default; inline-signing yes;"),
            Kind::Knot => knot(path, port, zones, ""),
            Kind::KnotSigned => knot(path, port, zones, "    dnssec-signing: on\n"),
            Kind::PowerDns => powerdns(path, port, zones),
        };
        let log = fs::File::create(path.join("log")).unwrap();
        let child = command
            .env("PATH", "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start {kind:?} ({error}): install bind9, knot and pdns-server")
            });
        let mut server = Dnsd { child, port, _directory: directory };
        let scope = Scope::new("test", zones.last().unwrap().as_str());
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if server.child.try_wait().unwrap().is_some() {
                return None;
            }
            let versions = server.provider().versions(&server.cx(), std::slice::from_ref(&scope)).await;
            if versions.is_ok_and(|versions| matches!(versions.get(&scope), Some(Version::At(_)))) {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let said = fs::read_to_string(server._directory.path().join("log")).unwrap_or_default();
        panic!("{kind:?} did not answer:\n{said}");
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where its zone files are, but for PowerDNS, which has none.
    pub(crate) fn zones(&self) -> PathBuf {
        self._directory.path().join("zones")
    }

    /// A command that has it load its zone files again.
    pub(crate) fn reload(&self) -> Vec<String> {
        vec!["kill".into(), "-HUP".into(), self.child.id().to_string()]
    }

    /// What `sqlite3` answers to this statement about the database of PowerDNS.
    pub(crate) fn sql(&self, statement: &str) -> String {
        let database = self._directory.path().join("pdns.db");
        let output = Command::new("sqlite3").arg(database).arg(statement).output();
        let output = output.expect("cannot run sqlite3: install the package of that name");
        assert!(output.status.success(), "{statement}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A provider of this server.
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        provider(&self.address())
    }

    /// A context with the right secret and the time of day.
    pub(crate) fn cx(&self) -> Cx {
        world::cx_now(SECRET, 0)
    }

    /// Somebody else's change, which must work: lines for `nsupdate`.
    pub(crate) fn change(&self, zone: &str, lines: &str) {
        let output = self.update("hand", zone, lines);
        assert!(output.status.success(), "{lines}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Takes the key `reconciled` away from Knot, and returns once it is not known any more.
    pub(crate) fn forget_key(&self) {
        let config = self._directory.path().join("knot.conf");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("reconciled.", "gone.")).unwrap();
        let reload = self.reload();
        assert!(Command::new(&reload[0]).args(&reload[1..]).status().unwrap().success());
        let deadline = Instant::now() + PATIENCE;
        let asks = "prereq nxrrset none.example.com. TXT";
        while self.update("reconciled", "example.com", asks).status.success() {
            assert!(Instant::now() < deadline, "Knot knows the key still");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn update(&self, key: &str, zone: &str, lines: &str) -> Output {
        let mut child = Command::new("nsupdate")
            .args(["-v", "-y", &format!("hmac-sha256:{key}:{SECRET}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cannot run nsupdate: install bind9-dnsutils");
        let text = format!("server 127.0.0.1 {}\nzone {zone}.\n{lines}\nsend\n", self.port);
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

/// A provider of the server at `address` with a key called `reconciled`.
pub(crate) fn provider(address: &str) -> Arc<dyn Provider> {
    provider_with(address, |_, _| {})
}

/// A provider whose configuration and keys `change` changes.
pub(crate) fn provider_with(address: &str, change: impl FnOnce(&mut Config, &mut Keys)) -> Arc<dyn Provider> {
    let key = Key {
        name: "reconciled.".into(),
        algorithm: Algorithm::HmacSha256,
        secret: SecretRef::Named("tsig".into()),
        fudge: FUDGE,
    };
    let mut config = Config::new(address);
    config.options.timeout = Duration::from_secs(10);
    let mut keys = Keys { update: key.clone(), transfer: key };
    change(&mut config, &mut keys);
    connect("test", config, keys).unwrap()
}

/// The text of a zone file with nothing in it.
fn empty_zone(zone: &str) -> String {
    format!(
        "$ORIGIN {zone}.\n@ 3600 IN SOA ns1.example.net. hostmaster.example.net. 1 10800 3600 604800 300\n\
         @ 3600 IN NS ns1.example.net.\n"
    )
}

fn write_zones(directory: &Path, zones: &[String]) {
    fs::create_dir(directory).unwrap();
    for zone in zones {
        fs::write(directory.join(format!("{}.zone", zone.replace('/', "_"))), empty_zone(zone)).unwrap();
    }
}

fn bind(path: &Path, port: u16, zones: &[String], more: &str) -> Command {
    let zones_path = path.join("zones");
    write_zones(&zones_path, zones);
    let mut config = format!(
        "options {{ directory \"{0}\"; pid-file none; session-keyfile \"{0}/session.key\"; recursion no;\n\
         listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; notify no; dnssec-validation no;\n\
         managed-keys-directory \"{0}\"; }};\ncontrols {{ }};\n",
        path.display()
    );
    for name in ["reconciled", "hand", "reader"] {
        let _ = writeln!(config, "key {name}. {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};");
    }
    for zone in zones {
        let _ = writeln!(
            config,
            "zone \"{zone}\" {{ type primary; {more} file \"{}/{}.zone\"; allow-transfer {{ key reconciled.; key reader.; }};\n\
             update-policy {{ deny reconciled. name forbidden.{zone} ANY; grant reconciled. zonesub ANY; grant hand. zonesub ANY; }}; }};",
            zones_path.display(),
            zone.replace('/', "_")
        );
    }
    fs::write(path.join("named.conf"), config).unwrap();
    let mut command = Command::new("named");
    command.arg("-g").arg("-c").arg(path.join("named.conf"));
    command
}

fn knot(path: &Path, port: u16, zones: &[String], more: &str) -> Command {
    let zones_path = path.join("zones");
    write_zones(&zones_path, zones);
    // Where it keeps its journals; it makes no folder above them.
    fs::create_dir(path.join("db")).unwrap();
    let mut config = format!(
        "server:\n  rundir: {0}\n  listen: 127.0.0.1@{port}\n  udp-workers: 1\n  tcp-workers: 2\n  background-workers: 1\n\
         database:\n  storage: {0}/db\n  journal-db-max-size: 64M\n  kasp-db-max-size: 5M\n  timer-db-max-size: 5M\nkey:\n",
        path.display()
    );
    for name in ["reconciled", "hand", "reader", "typed"] {
        let _ = writeln!(config, "  - id: {name}.\n    algorithm: hmac-sha256\n    secret: {SECRET}");
    }
    let _ = write!(
        config,
        "acl:\n  - id: write\n    key: [reconciled., hand.]\n    action: [transfer, update]\n\
         \x20 - id: read\n    key: reader.\n    action: transfer\n\
         \x20 - id: typed\n    key: typed.\n    action: update\n    update-type: [A, CNAME, TXT]\n\
         template:\n  - id: default\n    storage: {}\n    file: \"%s.zone\"\n    acl: [write, read, typed]\n\
         \x20   zonefile-sync: -1\n    journal-content: changes\n{more}zone:\n",
        zones_path.display()
    );
    for zone in zones {
        let _ = writeln!(config, "  - domain: {zone}");
    }
    fs::write(path.join("knot.conf"), config).unwrap();
    let mut command = Command::new("knotd");
    command.arg("-c").arg(path.join("knot.conf"));
    command
}

fn powerdns(path: &Path, port: u16, zones: &[String]) -> Command {
    let database = path.join("pdns.db");
    create_database(&database);
    let mut sql = String::from("BEGIN;\n");
    for name in ["reconciled", "hand", "reader"] {
        let _ = writeln!(
            sql,
            "INSERT INTO tsigkeys (name, algorithm, secret) VALUES ('{name}', 'hmac-sha256', '{SECRET}');"
        );
    }
    for (index, zone) in zones.iter().enumerate() {
        let id = index + 1;
        let _ = writeln!(sql, "INSERT INTO domains (id, name, type) VALUES ({id}, '{zone}', 'MASTER');");
        let data = [
            ("SOA", "ns1.example.net. hostmaster.example.net. 1 10800 3600 604800 300"),
            ("NS", "ns1.example.net."),
        ];
        for (kind, content) in data {
            let content = content.trim_end_matches('.').replace(". ", " ");
            let _ = writeln!(
                sql,
                "INSERT INTO records (domain_id, name, type, content, ttl, auth) VALUES ({id}, '{zone}', '{kind}', '{content}', 3600, 1);"
            );
        }
        for (kind, key) in [
            ("TSIG-ALLOW-AXFR", "reconciled"),
            ("TSIG-ALLOW-AXFR", "reader"),
            ("TSIG-ALLOW-DNSUPDATE", "reconciled"),
            ("TSIG-ALLOW-DNSUPDATE", "hand"),
        ] {
            let _ = writeln!(
                sql,
                "INSERT INTO domainmetadata (domain_id, kind, content) VALUES ({id}, '{kind}', '{key}');"
            );
        }
    }
    sql.push_str("COMMIT;\n");
    fs::write(path.join("zones.sql"), sql).unwrap();
    let read = format!(".read {}", path.join("zones.sql").display());
    let output = Command::new("sqlite3").arg(&database).arg(read).output().expect("cannot run sqlite3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let config = format!(
        "launch=gsqlite3\ngsqlite3-database={0}/pdns.db\ngsqlite3-pragma-synchronous=0\nlocal-address=127.0.0.1\n\
         local-port={port}\nsocket-dir={0}\ndaemon=no\nguardian=no\nloglevel=4\ndnsupdate=yes\n\
         allow-dnsupdate-from=127.0.0.0/8\nallow-axfr-ips=\nsecurity-poll-suffix=\nzone-cache-refresh-interval=0\n\
         cache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\n",
        path.display()
    );
    fs::write(path.join("pdns.conf"), config).unwrap();
    let mut command = Command::new("pdns_server");
    command.arg(format!("--config-dir={}", path.display()));
    command
}
