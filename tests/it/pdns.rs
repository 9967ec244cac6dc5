//! A real PowerDNS, started by the rig, and what it stores.

use reconciled_testkit::PATIENCE;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// RRsets by `name type`: `ttl value…`, sorted.
pub(crate) type Rrsets = BTreeMap<String, String>;

/// A running server. It ends when its standard input does, so at the latest with the test.
pub(crate) struct Pdns {
    child: Child,
    pub(crate) url: String,
    pub(crate) key: String,
    /// Where it answers over DNS.
    pub(crate) port: u16,
    log: String,
    directory: tempfile::TempDir,
}

impl Drop for Pdns {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Pdns {
    /// Starts a server that logs its requests.
    pub(crate) fn start() -> Pdns {
        let directory = tempfile::tempdir().unwrap();
        let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rig/powerdns");
        let mut child = Command::new(rig)
            .arg(directory.path())
            .args(["--log-requests", "--set", "gsqlite3-pragma-synchronous=0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).expect("the rig did not start a server");
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        let port = text("dns").rsplit(':').next().unwrap().parse().unwrap();
        Pdns { child, url: text("url"), key: text("key"), port, log: text("log"), directory }
    }

    /// `HOST:PORT` of the API.
    pub(crate) fn address(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }

    /// A call past the program: somebody else's.
    pub(crate) fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} /api/v1/servers/localhost{path} HTTP/1.0\r\nHost: {}\r\nX-API-Key: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address(),
            self.key,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    /// Somebody else's change, which must work.
    pub(crate) fn change(&self, method: &str, path: &str, body: &Value) {
        let (status, text) = self.http(method, path, &body.to_string());
        assert!(status < 300, "{method} {path}: {status} {text}");
    }

    /// Sets an RRset by hand.
    pub(crate) fn set(&self, zone: &str, name: &str, kind: &str, value: &str) {
        self.change(
            "PATCH",
            &format!("/zones/{zone}."),
            &serde_json::json!({"rrsets": [{"name": format!("{name}.{zone}."), "type": kind, "ttl": 300,
                "changetype": "REPLACE", "records": [{"content": value, "disabled": false}]}]}),
        );
    }

    /// Removes an RRset by hand.
    pub(crate) fn unset(&self, zone: &str, name: &str, kind: &str) {
        self.change(
            "PATCH",
            &format!("/zones/{zone}."),
            &serde_json::json!({"rrsets": [{"name": format!("{name}.{zone}."), "type": kind, "changetype": "DELETE"}]}),
        );
    }

    /// Adds an RRset in the database, past the API: no serial tells of it.
    pub(crate) fn sneak(&self, zone: &str, name: &str, kind: &str, value: &str) {
        let database = self.directory.path().join("pdns.sqlite3");
        let sql = format!(
            "INSERT INTO records (domain_id, name, type, content, ttl, disabled, ordername, auth) \
             SELECT id, '{name}.{zone}', '{kind}', '{value}', 300, 0, '{name}', 1 FROM domains WHERE name = '{zone}'"
        );
        let program = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1], timeout=30); \
                       assert d.execute(sys.argv[2]).rowcount == 1; d.commit()";
        let status = Command::new("python3").args(["-c", program]).arg(database).arg(sql).status().unwrap();
        assert!(status.success());
    }

    /// Makes a zone by hand.
    pub(crate) fn create(&self, zone: &str) {
        let body = serde_json::json!({"name": format!("{zone}."), "kind": "Native", "nameservers": [format!("ns1.{zone}.")]});
        self.change("POST", "/zones", &body);
    }

    /// The RRsets of a zone but its SOA and apex NS; none where there is no zone.
    pub(crate) fn rrsets(&self, zone: &str) -> Rrsets {
        let (status, text) = self.http("GET", &format!("/zones/{zone}."), "");
        if status == 404 {
            return Rrsets::new();
        }
        assert_eq!(status, 200, "{text}");
        let zone_data: Value = serde_json::from_str(&text).unwrap();
        let mut found = Rrsets::new();
        for set in zone_data["rrsets"].as_array().unwrap() {
            let (name, kind) = (set["name"].as_str().unwrap(), set["type"].as_str().unwrap());
            if kind == "SOA" || (kind == "NS" && name == format!("{zone}.")) {
                continue;
            }
            let mut values: Vec<_> =
                set["records"].as_array().unwrap().iter().map(|r| r["content"].as_str().unwrap()).collect();
            values.sort_unstable();
            let host = name.trim_end_matches(&format!("{zone}.")).trim_end_matches('.');
            let before =
                found.insert(format!("{host} {kind}"), format!("{} {}", set["ttl"], values.join(" ")));
            assert_eq!(before, None, "{name} {kind} is there twice");
        }
        found
    }

    /// Writing requests the server has logged so far.
    pub(crate) fn writes(&self) -> usize {
        self.requests().iter().filter(|line| !line.starts_with("GET")).count()
    }

    /// Requests the server has logged so far: `GET /zones`, without the query.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap();
        let request = |line: &str| {
            let of = |method: &&str| line.contains(&format!("\"{method} "));
            let method = ["GET", "PATCH", "POST", "PUT", "DELETE"].into_iter().find(of)?;
            let (_, rest) = line.split_once(&format!("\"{method} "))?;
            let path = rest.split([' ', '?', '"']).next()?;
            Some(format!("{method} {}", path.trim_start_matches("/api/v1/servers/localhost")))
        };
        log.lines().filter_map(request).collect()
    }
}
