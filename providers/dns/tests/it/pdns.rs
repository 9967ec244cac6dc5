//! Starts a real `pdns_server` with the SQLite backend in a scratch directory and ends it when dropped.

use crate::world;
use reconciled_dns::powerdns::{Config, connect};
use reconciled_provider::{Cx, Provider, SecretRef};
use reconciled_testkit::{PATIENCE, ports};
use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

const SCHEMAS: [&str; 3] = [
    "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql",
    "/usr/share/doc/pdns-backend-sqlite3/schema.sqlite3.sql",
    "/usr/share/doc/pdns/schema.sqlite3.sql",
];

/// The key of the server's API, long enough to be found where it must not be.
pub(crate) const KEY: &str = "key-of-the-test-server";

/// A running server.
pub(crate) struct Pdns {
    child: Child,
    pub(crate) url: String,
    /// Where it answers over DNS.
    pub(crate) port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Pdns {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pdns {
    /// Starts a server; a port that somebody else took meanwhile is tried again with another.
    pub(crate) async fn start() -> Pdns {
        Pdns::start_in("UTC").await
    }

    /// The same in a time zone, in the form of POSIX (`<+14>-14` is fourteen hours ahead).
    pub(crate) async fn start_in(time_zone: &str) -> Pdns {
        for _ in 0..5 {
            if let Some(server) = Pdns::try_start(time_zone).await {
                return server;
            }
        }
        panic!("pdns_server did not come up in five attempts");
    }

    async fn try_start(time_zone: &str) -> Option<Pdns> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        create_database(&path.join("pdns.db"));
        let (web, dns) = (free_port(), free_port());
        let config = format!(
            "launch=gsqlite3\ngsqlite3-database={0}/pdns.db\ngsqlite3-pragma-synchronous=0\n\
             local-address=127.0.0.1\nlocal-port={dns}\nwebserver=yes\nwebserver-address=127.0.0.1\n\
             webserver-port={web}\napi=yes\napi-key={KEY}\nsocket-dir={0}\ndaemon=no\nguardian=no\nloglevel=4\n",
            path.display()
        );
        std::fs::write(path.join("pdns.conf"), config).unwrap();
        let child = Command::new("pdns_server")
            .env("PATH", "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/bin")
            // Its serials are of the day that it is there.
            .env("TZ", time_zone)
            .arg(format!("--config-dir={}", path.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start pdns_server ({error}): install pdns-server and pdns-backend-sqlite3")
            });
        let url = format!("http://127.0.0.1:{web}");
        let mut server = Pdns { child, url, port: dns, _directory: directory };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if server.child.try_wait().unwrap().is_some() {
                return None;
            }
            if server.http("GET", "/zones", "").await.is_some_and(|(status, _)| status == 200) {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    /// A provider of this server with the marks of instance `dns1`.
    pub(crate) fn provider(&self) -> Arc<dyn Provider> {
        self.provider_with(|_| {})
    }

    /// A provider whose configuration `change` changes.
    pub(crate) fn provider_with(&self, change: impl FnOnce(&mut Config)) -> Arc<dyn Provider> {
        self.provider_of("dns1", change)
    }

    /// A provider with the marks of `instance`.
    pub(crate) fn provider_of(&self, instance: &str, change: impl FnOnce(&mut Config)) -> Arc<dyn Provider> {
        let mut config = Config::new(&self.url);
        change(&mut config);
        connect("test", instance, config, SecretRef::Named("key".into())).unwrap()
    }

    /// A context with the right key.
    pub(crate) fn cx(&self) -> Cx {
        world::cx(KEY)
    }

    /// A call past the provider: somebody else's change. None when the server does not answer.
    pub(crate) async fn http(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let url = format!("{}/api/v1/servers/localhost{path}", self.url);
        reconciled_dns::install_crypto();
        let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().build().unwrap();
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let response = client.request(method, url).header("X-API-Key", KEY).body(body.to_owned()).send();
        let response = response.await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.text().await.ok()?))
    }

    /// Somebody else's change that must work.
    pub(crate) async fn change(&self, method: &str, path: &str, body: &str) {
        let (status, text) = self.http(method, path, body).await.unwrap();
        assert!(status < 300, "{status} {text}");
    }

    /// What the server stores for a zone.
    pub(crate) async fn zone(&self, zone: &str) -> String {
        self.http("GET", &format!("/zones/{zone}."), "").await.unwrap().1
    }
}

pub(crate) fn create_database(path: &Path) {
    let schema = SCHEMAS.iter().find(|schema| Path::new(schema).exists());
    let schema = schema.expect("no SQLite schema of PowerDNS found: install pdns-backend-sqlite3");
    let output = Command::new("sqlite3").arg(path).arg(format!(".read {schema}")).output();
    let output = output.expect("cannot run sqlite3: install the package of that name");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A port that nobody has for TCP or UDP, and that nobody gets who leaves the choice to the kernel: it chooses from 32768 on
/// (ip(7)).
pub(crate) fn free_port() -> u16 {
    ports::free(ports::DNS, 1)
}
