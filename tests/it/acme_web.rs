//! A real nginx: names are proven by files it shows, it is told of the certificate, and it is seen to serve it.

use crate::{
    acme::{desk, is_good},
    certificates::{certificate, fingerprint, manifest, openssl},
    env::{Env, zone},
    pdns::Pdns,
    pebble::{Pebble, free_port},
    running::wait_for,
};
use std::{
    fs,
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// An nginx of Debian in the folder of a desk.
pub(crate) struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-s", "QUIT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

impl Nginx {
    /// Starts one that shows the files of a folder, which is made, at `port`.
    pub(crate) fn of_files(env: &Env, folder: &Path, port: u16) -> Nginx {
        fs::create_dir(folder).unwrap();
        let server = format!("server {{ listen 127.0.0.1:{port}; root {}; }}", folder.display());
        Nginx::start(env.dir.path(), &server, port)
    }

    /// Starts one with these servers, and waits until `port` is open.
    fn start(dir: &Path, servers: &str, port: u16) -> Nginx {
        Nginx::start_with(dir, "", servers, port)
    }

    /// The same with these lines outside of `http`.
    fn start_with(dir: &Path, lines: &str, servers: &str, port: u16) -> Nginx {
        let text = format!(
            "{lines}daemon off; user root; pid {0}/nginx.pid; error_log {0}/nginx.log; events {{}}\n\
             http {{ access_log off; client_body_temp_path {0}/t; proxy_temp_path {0}/t; fastcgi_temp_path {0}/t; \
             uwsgi_temp_path {0}/t; scgi_temp_path {0}/t;\n{servers}\n}}\n",
            dir.display()
        );
        fs::write(dir.join("nginx.conf"), text).unwrap();
        let child = Command::new("/usr/sbin/nginx")
            .arg("-c")
            .arg(dir.join("nginx.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("nginx.err")).unwrap())
            .spawn()
            .unwrap();
        wait_for("nginx listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Nginx(child)
    }
}

/// What a page says of the configuration of nginx.
fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)).unwrap()
}

/// Makes `old.crt` and `old.key`, which a server shows before it has another certificate.
fn make_old(env: &Env) {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let rest = ["-subj", "/CN=old", "-keyout", "old.key", "-out", "old.crt"];
    openssl(env, &[&["req", "-x509"][..], &curve, &rest].concat());
}

fn adopt_reload(env: &Env) {
    // The command of the entry: what a unit of nginx does.
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let dir = env.dir.path().display().to_string();
    let changed = config.replace(
        "echo $1 >> reloaded",
        &format!("echo $1 >> reloaded; /usr/sbin/nginx -c {dir}/nginx.conf -s reload"),
    );
    assert_ne!(config, changed);
    fs::write(env.path("config.yaml"), changed).unwrap();
}

#[test]
fn names_are_proven_behind_nginx_which_is_then_seen_to_serve_the_certificate() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let (dir, tls) = (env.dir.path(), free_port());
    let webroot = env.path("ssl/webroot");
    fs::create_dir(&webroot).unwrap();
    fs::write(webroot.join("index.html"), "theirs").unwrap();
    make_old(&env);
    // As the page says.
    let page = page("certificates-http01.md");
    let location = page.lines().find(|line| line.contains("{ root ")).unwrap();
    let location = location.replace("/etc/ssl/webroot", &webroot.display().to_string());
    assert!(location.contains(env.dir.path().to_str().unwrap()), "{location}");
    let servers = |certificate: &str, key: &str| {
        format!(
            "server {{ listen 127.0.0.1:{}; {location} location / {{ return 301 https://$host$request_uri; }} }}\n\
             server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; }}",
            pebble.http
        )
    };
    let at = |name: &str| env.path(name).display().to_string();
    let nginx = Nginx::start(dir, &servers(&at("old.crt"), &at("old.key")), tls);
    adopt_reload(&env);
    let issuer = manifest(
        "Issuer",
        "le",
        &format!("{}, solvers: [{{http01: {{webroot: {}}}}}]}}", pebble.acme(), webroot.display()),
    );
    let web = certificate(
        &env,
        "web",
        &format!(
            "issuerRef: {{name: le}}, dnsNames: [www.example.com], reload: [nginx.service], serve: ['127.0.0.1:{tls}']"
        ),
    );
    let zone = zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]);
    env.push("zone.yaml", &zone);
    env.apply();
    env.push("all.yaml", &format!("{issuer}{web}"));
    env.run(&["apply", "--yes"]).exits(3).says(&["is Degraded", "serves another certificate"]);
    is_good(&env, &pebble, "web");
    assert!(webroot.join("index.html").exists() && !webroot.join(".well-known").exists());
    // It was told, and reads what it was told to read; that is still another certificate.
    env.run(&["apply", "--yes"]).exits(0);
    env.run(&["explain", "Certificate/web"]).says(&["serves another certificate"]);
    let text = fs::read_to_string(env.path("nginx.conf")).unwrap();
    let text =
        text.replace(&at("old.crt"), &at("ssl/web/tls.crt")).replace(&at("old.key"), &at("ssl/web/tls.key"));
    fs::write(env.path("nginx.conf"), text).unwrap();
    let first = fingerprint(&env, "web");
    env.run(&["renew", "Certificate/web"]).exits(0);
    env.apply();
    assert_ne!(fingerprint(&env, "web"), first);
    wait_for("nginx serves what was renewed", || {
        env.run(&["apply", "--yes"]).exits(0);
        env.run(&["status", "Certificate/web", "-o", "wide"]).stdout.contains("Healthy")
    });
    drop(nginx);
}

#[test]
fn names_are_proven_through_an_nginx_that_passes_the_question_on() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    // As the page says.
    let page = page("certificates-http01.md");
    let location = page.lines().find(|line| line.contains("proxy_pass")).unwrap();
    let (usual, port) = ("127.0.0.1:8402", free_port());
    assert!(page.contains(&format!("`listen: \"{usual}\"`")));
    let location = location.replace(usual, &format!("127.0.0.1:{port}"));
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let own = format!("listen: '127.0.0.1:{}'", pebble.http);
    assert!(config.contains(&own));
    env.write("config.yaml", &config.replace(&own, &format!("listen: '127.0.0.1:{port}'")));
    let redirect = "location / { return 301 https://$host$request_uri; }";
    let server = format!("server {{ listen 127.0.0.1:{}; {location} {redirect} }}", pebble.http);
    let _nginx = Nginx::start(env.dir.path(), &server, pebble.http);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]));
    env.apply();
    let issuer = manifest("Issuer", "le", &format!("{}, solvers: [{{http01: {{}}}}]}}", pebble.acme()));
    let web = certificate(&env, "web", "issuerRef: {name: le}, dnsNames: [www.example.com]");
    env.push("all.yaml", &format!("{issuer}{web}"));
    env.apply();
    is_good(&env, &pebble, "web");
    assert_eq!(pebble.issued(), (1, 1));
    env.in_sync();
}

#[test]
fn names_are_proven_in_tls_through_an_nginx_that_passes_that_protocol_on_and_serves_others_itself() {
    let pdns = Pdns::start();
    let pebble = Pebble::start(pdns.port, "", &[]);
    let env = desk(&pdns, &pebble, "");
    let (ours, theirs) = (free_port(), free_port());
    // As the page says.
    let page = page("certificates-tls-alpn01.md");
    let (_, block) = page.split_once("```nginx\n").unwrap();
    let mut stream = block.split_once("```").unwrap().0.to_owned();
    let (usual, here) = ("127.0.0.1:8403", format!("127.0.0.1:{ours}"));
    assert!(page.contains(&format!("`listenTls: \"{usual}\"`")));
    let ports = [
        (usual, here.clone()),
        ("127.0.0.1:8443", format!("127.0.0.1:{theirs}")),
        ("listen 443", format!("listen 127.0.0.1:{}", pebble.tls)),
    ];
    for (usual, here) in ports {
        assert_eq!(stream.matches(usual).count(), 1, "{usual} in {stream}");
        stream = stream.replace(usual, &here);
    }
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let own = format!("listenTls: '127.0.0.1:{}'", pebble.tls);
    assert!(config.contains(&own));
    env.write("config.yaml", &config.replace(&own, &format!("listenTls: '{here}'")));
    make_old(&env);
    let dir = env.dir.path().display();
    let server = format!(
        "server {{ listen 127.0.0.1:{theirs} ssl; ssl_certificate {dir}/old.crt; ssl_certificate_key {dir}/old.key; }}"
    );
    // Debian has it as a module of its own.
    let lines = format!("load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n{stream}");
    let _nginx = Nginx::start_with(env.dir.path(), &lines, &server, pebble.tls);
    env.push("zone.yaml", &zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]));
    env.apply();
    let issuer = manifest("Issuer", "le", &format!("{}, solvers: [{{tlsAlpn01: {{}}}}]}}", pebble.acme()));
    let spec =
        format!("issuerRef: {{name: le}}, dnsNames: [www.example.com], serve: ['127.0.0.1:{}']", pebble.tls);
    env.push("all.yaml", &format!("{issuer}{}", certificate(&env, "web", &spec)));
    // Who asks for anything else comes to the server, which has not been told of another certificate.
    env.run(&["apply", "--yes"]).exits(3).says(&["is Degraded", "serves another certificate"]);
    is_good(&env, &pebble, "web");
    assert_eq!(pebble.issued(), (1, 1));
}

#[test]
fn a_renewal_may_be_had_from_another_issuer_and_in_another_way() {
    let pdns = Pdns::start();
    let (first, second) = (Pebble::start(pdns.port, "", &[]), Pebble::start(pdns.port, "", &[]));
    let env = desk(&pdns, &first, "");
    let issuer = |name: &str, pebble: &Pebble| {
        let solvers = "[{dns01: {provider: pdns}}, {http01: {}}]";
        manifest("Issuer", name, &format!("{}, solvers: {solvers}}}", pebble.acme()))
    };
    let spec = "issuerRefs: [{name: first}, {name: second}], dnsNames: [www.example.com]";
    let web = certificate(&env, "web", spec);
    let zone = zone("example.com", "pdns", &["{name: www, type: A, values: [127.0.0.1]}"]);
    env.push("all.yaml", &format!("{}{}{web}{zone}", issuer("first", &first), issuer("second", &second)));
    env.apply();
    assert_eq!((first.issued(), second.issued()), ((1, 1), (0, 0)));
    is_good(&env, &first, "web");
    env.run(&["renew", "Certificate/web", "--issuer", "secnod"])
        .exits(1)
        .says(&["`secnod` is no issuer of Certificate/web", "it has first, second"]);
    env.run(&["renew", "Certificate/web", "--solver", "tlsAlpn01"]).exits(1).says(&["no solver `tlsAlpn01`"]);
    env.in_sync();
    env.run(&["renew", "Certificate/web", "--issuer", "second"]).exits(0);
    env.apply();
    assert_eq!((first.issued(), second.issued()), ((1, 1), (1, 1)));
    is_good(&env, &second, "web");
    env.in_sync();
    // No record can be written meanwhile, so what is proven is proven over HTTP.
    env.run(&["suspend", "--provider", "pdns", "--reason", "test"]).exits(0);
    env.run(&["renew", "Certificate/web", "--issuer", "first", "--solver", "http01"]).exits(0);
    env.run(&["apply", "--yes"]);
    assert_eq!(first.issued(), (2, 2));
    env.run(&["resume", "--provider", "pdns"]).exits(0);
    env.in_sync();
    // The first one is gone: nothing is waited for once it is known to be, and what is there stays in use.
    env.run(&["renew", "Certificate/web"]).exits(0);
    drop(first);
    let away = env.run(&["apply", "--yes", "--timeout", "2s"]);
    assert!(away.code != Some(0), "{}", away.all());
    assert_eq!(second.issued(), (1, 1), "an outage may be short");
}
