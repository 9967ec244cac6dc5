//! Remotes over HTTP, and what goes wrong with them.

use super::*;
use reconciled_testkit::ports::NOBODY;

/// Polls a remote that cannot be read, without and with a revision in force.
fn fails(url: &str) -> SourceError {
    let host = Host::new();
    host.mirror(url).poll(None, None).unwrap_err()
}

fn response(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n")
}

fn token() -> Credentials {
    let token = SecretSource::new(|| Ok("hunter2-token".to_owned().into()));
    Credentials { token: Some(token), ..Credentials::default() }
}

#[test]
fn a_closed_port_is_unreachable_over_every_transport() {
    for scheme in ["http", "https", "ssh"] {
        let error = fails(&format!("{scheme}://127.0.0.1:{NOBODY}/infra.git"));
        assert!(matches!(error, SourceError::Unreachable { .. }), "{scheme}: {error:?}");
    }
}

#[test]
fn a_path_without_a_repository_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("missing.git")] {
        let error = fails(path.to_str().unwrap());
        assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{error:?}");
    }
}

#[test]
fn the_second_url_is_tried_when_the_first_fails() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a", "x")]);
    let closed = format!("http://127.0.0.1:{NOBODY}/infra.git");
    let mirror = host.open(host.spec(&[&closed, "/nowhere/infra.git", &upstream.url()]));
    assert_eq!(first(&mirror), commit);

    let host = Host::new();
    let error = host.open(host.spec(&[&closed, "/nowhere/infra.git"])).poll(None, None).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("none of 2 urls can be read: http://127.0.0.1:"), "{said}");
    assert!(said.contains("cannot be reached: ") && said.contains("/nowhere/infra.git is not a"), "{said}");
}

#[test]
fn a_rejected_token_is_shown_once_and_never_printed() {
    let server = Server::http(|_| response("401 Unauthorized", "WWW-Authenticate: Basic realm=\"git\"\r\n"));
    let host = Host::new();
    let url = format!("http://ci:hunter2-url@{}/infra.git", server.address);
    for credentials in [token(), Credentials::default()] {
        let mut spec = host.spec(&[&url]);
        spec.credentials = credentials;
        assert!(!format!("{spec:?}").contains("hunter2"));
        let mirror = host.open(spec);
        let error = mirror.poll(None, None).unwrap_err();
        assert!(matches!(error, SourceError::Authentication { .. }), "{error:?}");
        assert!(!everything_said(&error).contains("hunter2"), "{}", everything_said(&error));
    }
    let requests = server.requests.lock().unwrap();
    let shown = |secret: &str| {
        use base64::Engine;
        let line = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(secret));
        requests.iter().filter(|request| request.contains(&line)).count()
    };
    assert!(shown("ci:hunter2-token") <= 1, "{requests:?}");
    assert!(shown("ci:hunter2-url") <= 2, "{requests:?}");
}

#[test]
fn a_token_is_sent_to_the_host_that_asks_for_it() {
    let server = Server::http(|request| match request.contains("Authorization: Basic ") {
        true => response("404 Not Found", ""),
        false => response("401 Unauthorized", "WWW-Authenticate: Basic realm=\"git\"\r\n"),
    });
    let host = Host::new();
    let mut spec = host.spec(&[&format!("http://{}/infra.git", server.address)]);
    spec.credentials = token();
    let error = host.open(spec).poll(None, None).unwrap_err();
    assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{error:?}");
    assert_eq!(server.requests.lock().unwrap().len(), 2);
}

#[test]
fn a_token_that_cannot_be_read_is_an_error_of_its_own() {
    let server = Server::http(|_| response("401 Unauthorized", "WWW-Authenticate: Basic realm=\"git\"\r\n"));
    let host = Host::new();
    let mut spec = host.spec(&[&format!("http://{}/infra.git", server.address)]);
    spec.credentials.token = Some(SecretSource::new(|| Err("no such file: gh".into())));
    let error = host.open(spec).poll(None, None).unwrap_err();
    assert!(matches!(error, SourceError::Credential { .. }), "{error:?}");
    assert!(everything_said(&error).contains("no such file: gh"));
}

#[test]
fn statuses_of_a_server_are_told_apart() {
    for (status, expect) in [
        ("403 Forbidden", "Authentication"),
        ("404 Not Found", "RepositoryNotFound"),
        ("429 Too Many Requests", "Unreachable"),
        ("503 Service Unavailable", "Unreachable"),
        ("200 OK", "Protocol"),
    ] {
        let server = Server::http(move |_| response(status, ""));
        let error = fails(&format!("http://{}/infra.git", server.address));
        assert!(format!("{error:?}").starts_with(expect), "{status}: {error:?}");
    }
}

#[test]
fn a_redirect_to_another_host_is_not_followed() {
    let other = Server::http(|_| response("404 Not Found", ""));
    let location =
        format!("http://localhost:{}/infra.git/info/refs?service=git-upload-pack", other.address.port());
    let server = Server::http(move |_| response("302 Found", &format!("Location: {location}\r\n")));
    let host = Host::new();
    let mut spec = host.spec(&[&format!("http://{}/infra.git", server.address)]);
    spec.credentials = token();
    let error = host.open(spec).poll(None, None).unwrap_err();
    assert!(matches!(error, SourceError::Protocol { .. }), "{error:?}");
    assert_eq!(server.requests.lock().unwrap().len(), 1);
    assert!(other.requests.lock().unwrap().is_empty(), "nothing reached the other host");
}

#[test]
fn a_certificate_nobody_vouches_for_is_refused() {
    let (server, _) = Server::https("localhost");
    let host = Host::new();
    let mut spec = host.spec(&[&format!("https://localhost:{}/infra.git", server.address.port())]);
    spec.credentials = token();
    let error = host.open(spec).poll(None, None).unwrap_err();
    assert!(matches!(error, SourceError::Tls { .. }), "{error:?}");
    assert!(server.requests.lock().unwrap().is_empty(), "no request was sent");
}

/// The trust store is a matter of the process, so the test runs itself again with another one.
#[test]
fn a_trusted_certificate_is_accepted_for_its_own_name_only() {
    const PORTS: &str = "RECONCILED_TEST_HTTPS_PORTS";
    #[expect(clippy::disallowed_methods, reason = "the child of this test is told by the environment")]
    let ports = std::env::var(PORTS);
    if let Ok(ports) = ports {
        let (right, wrong) = ports.split_once(' ').unwrap();
        let error = fails(&format!("https://localhost:{right}/infra.git"));
        assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{error:?}");
        let error = fails(&format!("https://localhost:{wrong}/infra.git"));
        assert!(matches!(error, SourceError::Tls { .. }), "{error:?}");
        return;
    }
    let (right, certificate) = Server::https("localhost");
    let (wrong, other_certificate) = Server::https("git.example");
    let store = tempfile::NamedTempFile::new().unwrap();
    fs::write(store.path(), certificate + &other_certificate).unwrap();
    let module = module_path!().split_once("::").unwrap().1;
    let name = format!("{module}::a_trusted_certificate_is_accepted_for_its_own_name_only");
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name])
        .env(PORTS, format!("{} {}", right.address.port(), wrong.address.port()))
        .env("SSL_CERT_FILE", store.path())
        .output()
        .unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
    assert_eq!(right.requests.lock().unwrap().len(), 1, "the child ran and its request arrived");
    assert!(wrong.requests.lock().unwrap().is_empty(), "no request was sent");
}

#[test]
fn a_commit_and_the_next_one_are_fetched_over_https_by_who_has_a_token() {
    const TOLD: &str = "RECONCILED_TEST_GIT_OVER_HTTPS";
    #[expect(clippy::disallowed_methods, reason = "the child of this test is told by the environment")]
    let told = std::env::var(TOLD);
    if let Ok(told) = told {
        return is_fetched_over_https(&told);
    }
    let upstream = Upstream::new();
    let one = upstream.commit("main", &[("zones/a.yaml", "1"), ("b.yaml", "x")]);
    let tree = upstream.tree(&[("zones/a.yaml", "2"), ("b.yaml", "x")]);
    let two = upstream.commit_on("next", tree, Some(one.into()));
    let path = upstream.path();
    let (server, certificate) = Server::git("localhost", path.parent().unwrap(), "git:hunter2-token");
    let store = tempfile::NamedTempFile::new().unwrap();
    fs::write(store.path(), certificate).unwrap();
    let module = module_path!().split_once("::").unwrap().1;
    let name = format!("{module}::a_commit_and_the_next_one_are_fetched_over_https_by_who_has_a_token");
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name])
        .env(TOLD, format!("{} {} {one} {two}", server.address.port(), path.display()))
        .env("SSL_CERT_FILE", store.path())
        .output()
        .unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
    let requests = server.requests.lock().unwrap();
    let fetches = requests.iter().filter(|request| request.starts_with("POST /infra.git/git-upload-pack "));
    assert!(fetches.count() >= 2, "the child ran and fetched twice: {requests:?}");
}

/// What the child of that test does; it is told the port, the repository, what its branch is at and what it is moved to.
fn is_fetched_over_https(told: &str) {
    let told: Vec<&str> = told.split(' ').collect();
    let (port, path) = (told[0], told[1]);
    let [one, two] = [told[2], told[3]].map(|digits| digits.parse::<Oid>().unwrap());
    let url = format!("https://localhost:{port}/infra.git");
    let host = Host::new();
    let closed = format!("https://localhost:{NOBODY}/infra.git");
    let mut spec = host.spec(&[&closed, &url]);
    spec.credentials = token();
    let mirror = host.open(spec);
    let content = |commit: Oid| read(&mirror.tree_at(commit, &Paths::all()).unwrap(), "zones/a.yaml");
    assert_eq!(first(&mirror), one);
    assert_eq!(content(one), "1");

    let upstream = git2::Repository::open(path).unwrap();
    upstream.reference("refs/heads/main", two.into(), true, "a push").unwrap();
    match mirror.poll(Some(one), None).unwrap() {
        Polled::Changed { from, to, .. } => assert_eq!((from, to.oid), (Some(one), two)),
        other => panic!("{other:?}"),
    }
    assert_eq!(content(two), "2");
    assert!(matches!(mirror.poll(Some(two), None).unwrap(), Polled::Unchanged(_)));

    let error = fails(&url);
    assert!(matches!(error, SourceError::Authentication { .. }), "{error:?}");
}

#[test]
fn only_configured_local_urls_are_exempt_from_the_ownership_check() {
    let (upstream, host) = (Upstream::new(), Host::new());
    let commit = upstream.commit("main", &[("a", "x")]);
    // Only root can give a repository away; another user proves the file's content at least.
    let is_given_away = std::os::unix::fs::chown(upstream.path(), Some(54_321), None).is_ok();
    if is_given_away {
        assert!(git2::Repository::open(upstream.path()).is_err(), "libgit2 checks the owner");
    }
    let mirror = host.mirror(&upstream.url());
    assert_eq!(first(&mirror), commit);
    assert!(process::is_allowed(&upstream.path().canonicalize().unwrap()));
    assert!(!process::is_allowed(Path::new("/")) && !process::is_allowed(mirror.directory()));
}
