//! Remotes over SSH, with a real server.

use super::*;

/// Polls through sshd with the keys of the host that are known and a key of the client.
fn poll(sshd: &Sshd, url: &str, known: &[&str], key: Option<SshKey>) -> Result<Polled, SourceError> {
    let host = Host::new();
    let mut spec = host.spec(&[url]);
    spec.known_hosts = Some(sshd.known_hosts(known));
    spec.credentials.ssh = key;
    host.open(spec).poll(None, None)
}

#[test]
fn a_known_host_is_fetched_from_with_a_key_file() {
    let (upstream, sshd) = (Upstream::new(), Sshd::start());
    let commit = upstream.commit("main", &[("a", "x")]);
    let url = sshd.url(&upstream.path());
    // Each type alone: libssh2 would ask for ecdsa first, whatever is known.
    for known in [&["host_ed25519.pub"][..], &["host_ecdsa.pub"], &["host_ecdsa.pub", "host_ed25519.pub"]] {
        match poll(&sshd, &url, known, sshd.key("client")) {
            Ok(Polled::Changed { to, .. }) => assert_eq!(to.oid, commit),
            other => panic!("{known:?}: {other:?}"),
        }
    }
    let locked = |passphrase: &'static str| SshKey::File {
        path: sshd.path("locked"),
        passphrase: Some(SecretSource::new(move || Ok(passphrase.to_owned().into()))),
    };
    let polled = poll(&sshd, &url, &["host_ed25519.pub"], Some(locked("open sesame")));
    assert!(polled.is_ok(), "{polled:?}");
    let error = poll(&sshd, &url, &["host_ed25519.pub"], Some(locked("hunter2"))).unwrap_err();
    assert!(matches!(error, SourceError::Authentication { .. }), "{error:?}");
    assert!(!everything_said(&error).contains("hunter2"));
}

#[test]
fn an_unknown_host_is_refused_with_the_line_to_type() {
    let (upstream, sshd) = (Upstream::new(), Sshd::start());
    upstream.commit("main", &[("a", "x")]);
    let error = poll(&sshd, &sshd.url(&upstream.path()), &[], sshd.key("client")).unwrap_err();
    let port = sshd.address.port();
    assert!(matches!(error, SourceError::UnknownHostKey { .. }), "{error:?}");
    assert!(error.to_string().contains(&format!("[127.0.0.1]:{port} is not known")), "{error}");
    assert!(
        error.hint().starts_with(&format!("run `ssh-keyscan -p {port} 127.0.0.1 >>")),
        "{}",
        error.hint()
    );
}

#[test]
fn a_host_with_another_key_is_refused() {
    let (upstream, sshd) = (Upstream::new(), Sshd::start());
    upstream.commit("main", &[("a", "x")]);
    let error = poll(&sshd, &sshd.url(&upstream.path()), &["stranger.pub"], sshd.key("client")).unwrap_err();
    assert!(matches!(error, SourceError::HostKeyMismatch { .. }), "{error:?}");
}

#[test]
fn a_key_the_host_does_not_know_is_an_authentication_failure() {
    let (upstream, sshd) = (Upstream::new(), Sshd::start());
    let url = sshd.url(&upstream.path());
    let error = poll(&sshd, &url, &["host_ed25519.pub"], sshd.key("stranger")).unwrap_err();
    assert!(matches!(error, SourceError::Authentication { .. }), "{error:?}");
    let error = poll(&sshd, &url, &["host_ed25519.pub"], sshd.key("missing")).unwrap_err();
    assert!(matches!(error, SourceError::Credential { .. }), "{error:?}");
}

#[test]
fn a_missing_repository_is_not_found() {
    let sshd = Sshd::start();
    let url = sshd.url(Path::new("/nowhere/infra.git"));
    let error = poll(&sshd, &url, &["host_ed25519.pub"], sshd.key("client")).unwrap_err();
    assert!(matches!(error, SourceError::RepositoryNotFound { .. }), "{}", everything_said(&error));
}
