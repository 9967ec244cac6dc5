//! A real ACME authority: Pebble, as Debian has it.

use crate::running::wait_for;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use reconciled_testkit::ports;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// What it logs of each call.
const CALL: &str = "-> calling handler()";

/// A running Pebble.
pub(crate) struct Pebble {
    child: Option<Child>,
    directory: tempfile::TempDir,
    port: u16,
    management: u16,
    /// Where it asks for challenges over HTTP.
    pub(crate) http: u16,
    /// Where it asks for challenges in TLS.
    pub(crate) tls: u16,
    dns: u16,
    variables: Vec<(&'static str, &'static str)>,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A port that nobody has for TCP or UDP, and that nobody gets who leaves the choice to the kernel: it chooses from 32768 on
/// (ip(7)).
pub(crate) fn free_port() -> u16 {
    ports::free(ports::PROGRAM, 1)
}

/// Writes what a server at localhost shows: `srv.pem` and `srv.key`, signed by `ca.pem`, whose key is `ca.key`.
pub(crate) fn write_server(directory: &Path) {
    let at = |name: &str| directory.join(name);
    let run = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(directory).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let ca = ["req", "-x509", "-days", "30", "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.pem"];
    run(&[&ca[..], &curve, &["-addext", "basicConstraints=critical,CA:TRUE"]].concat());
    run(&[&["req", "-subj", "/CN=localhost", "-keyout", "srv.key", "-out", "srv.csr"][..], &curve].concat());
    fs::write(at("ext"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n").unwrap();
    run(&[
        "x509",
        "-req",
        "-in",
        "srv.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "30",
        "-extfile",
        "ext",
        "-out",
        "srv.pem",
    ]);
}

impl Pebble {
    /// Starts one that looks names up at the DNS server at `dns`; `keys` are further keys of its configuration, and
    /// `variables` of its environment.
    pub(crate) fn start(dns: u16, keys: &str, variables: &[(&'static str, &'static str)]) -> Pebble {
        let directory = tempfile::tempdir().unwrap();
        write_server(directory.path());
        let at = |name: &str| directory.path().join(name);
        let [port, management, http, tls] = [free_port(), free_port(), free_port(), free_port()];
        let (certificate, key) = (at("srv.pem"), at("srv.key"));
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
                "certificate": "{}", "privateKey": "{}", "httpPort": {http}, "tlsPort": {tls}, "ocspResponderURL": "",
                "certificateValidityPeriod": 7776000, "externalAccountBindingRequired": false{keys}}}}}"#,
            certificate.display(),
            key.display()
        );
        fs::write(at("pebble.json"), config).unwrap();
        let mut usual =
            vec![("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")];
        usual.retain(|(name, _)| !variables.iter().any(|(other, _)| other == name));
        usual.extend(variables);
        let mut pebble =
            Pebble { child: None, directory, port, management, http, tls, dns, variables: usual };
        pebble.restart();
        pebble
    }

    /// Starts again, without memory of anything.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let child = Command::new("pebble")
            .args(["-config", "pebble.json", "-dnsserver", &format!("127.0.0.1:{}", self.dns)])
            .current_dir(self.directory.path())
            .envs(self.variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        wait_for("pebble listens", || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{}", self.log());
            [self.port, self.management].iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
        });
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap()
    }
    /// How many certificates it has issued, and how many orders were made.
    pub(crate) fn issued(&self) -> (usize, usize) {
        let log = self.log();
        let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
        (count("Issued certificate serial"), count("Added order"))
    }
    /// How many calls it got, of whatever kind.
    pub(crate) fn calls(&self) -> usize {
        self.log().lines().filter(|line| line.contains(CALL)).count()
    }
    /// True when the last call that it got is a new order.
    pub(crate) fn was_an_order_last(&self) -> bool {
        let log = self.log();
        log.lines().rfind(|line| line.contains(CALL)).is_some_and(|line| line.contains("/order-plz"))
    }
    /// Where it is asked.
    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }
    /// Whose word it is that it is itself, in PEM.
    pub(crate) fn bundle(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }
    /// `acme: {…}` without its last brace, for an issuer that asks it.
    pub(crate) fn acme(&self) -> String {
        let bundle = STANDARD.encode(fs::read(self.bundle()).unwrap());
        format!("acme: {{server: '{}', email: ops@example.com, caBundle: {bundle}", self.url())
    }
    /// Writes the root of its certificates to `file`.
    pub(crate) fn root(&self, file: &Path) {
        self.other_root(0, file);
    }
    /// Writes the root with this number to `file`; from 1 on they are those of other chains.
    pub(crate) fn other_root(&self, number: usize, file: &Path) {
        let url = format!("https://localhost:{}/roots/{number}", self.management);
        fs::write(file, self.curl(&[&url])).unwrap();
    }
    /// What curl says of it.
    #[track_caller]
    fn curl(&self, args: &[&str]) -> String {
        let output =
            Command::new("curl").args(["-sf", "--cacert"]).arg(self.bundle()).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    /// Deactivates an account, as another client that has its key does (RFC 8555 §7.3.6).
    pub(crate) fn deactivate(&self, url: &str, pkcs8: &[u8]) {
        let head = self.curl(&["--head", &format!("https://localhost:{}/nonce-plz", self.port)]);
        let nonce = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("replay-nonce").then(|| value.trim().to_owned())
        });
        let protected = json!({"alg": "ES256", "kid": url, "nonce": nonce.unwrap(), "url": url});
        let [protected, payload] = [protected, json!({"status": "deactivated"})]
            .map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).unwrap();
        let signature = key.sign(&random, format!("{protected}.{payload}").as_bytes()).unwrap();
        let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
        let body = json!({"protected": protected, "payload": payload, "signature": signature}).to_string();
        let answer = self.curl(&["--header", "Content-Type: application/jose+json", "--data", &body, url]);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "deactivated", "{answer}");
    }
}
