//! A registry over TLS: who is believed is said by the trust store of this machine, which is read once by each process. So the
//! test is a process of its own, with a store that has the authority of the tests.

use super::{From, PROGRAM, Registry, find, programs, wanted};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

const INSIDE: &str = "RECONCILED_TEST_TRUSTS";
const NAME: &str = "find::tests::https::a_registry_is_believed_by_its_certificate_and_leads_nowhere_else";

/// Makes an authority, its certificate in a file, and a server that it vouches for.
fn authority(folder: &Path) -> TlsAcceptor {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(Vec::new()).unwrap());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    let own = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let server = server.signed_by(&own, &authority, &key).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], private)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[expect(clippy::disallowed_methods, reason = "what the outer process tells the inner one")]
fn inside() -> Option<PathBuf> {
    std::env::var_os(INSIDE).map(PathBuf::from)
}

#[test]
fn a_registry_is_believed_by_its_certificate_and_leads_nowhere_else() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Some(world) = inside() {
        return runtime.block_on(trusting(&world));
    }
    let (world, another) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tls = authority(world.path());
    let start = |tls: Option<TlsAcceptor>| runtime.block_on(Registry::start_with(tls));
    let (trusted, lying) = (start(Some(tls.clone())), start(Some(tls)));
    let (unknown, plain) = (start(Some(authority(another.path()))), start(None));
    lying.put("/files/toy.zip", format!("-> {}", plain.url.join("/files/toy.zip").unwrap()).as_bytes());
    let urls = [&trusted, &unknown, &lying].map(|registry| registry.url.to_string());
    fs::write(world.path().join("urls"), urls.join("\n")).unwrap();
    // It trusts what was written before it began.
    let inner = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(INSIDE, world.path())
        .env("SSL_CERT_FILE", world.path().join("ca.pem"))
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&inner.stdout), String::from_utf8_lossy(&inner.stderr));
    assert!(inner.status.success() && said.contains("1 passed"), "{said}");
    let asked = |registry: &Registry| registry.asked.lock().unwrap().len();
    assert!(asked(&trusted) > 3 && asked(&lying) > 3, "{said}");
    assert_eq!(
        (asked(&unknown), asked(&plain)),
        (0, 0),
        "an answer over TLS led to plain HTTP, or to nobody's server"
    );
}

async fn trusting(world: &Path) {
    let urls = fs::read_to_string(world.join("urls")).unwrap();
    let mut found = Vec::new();
    for url in urls.lines() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = wanted(From::Registry(url.parse().unwrap()), folder.path(), "~> 1.0");
        let program = find(&wanted).await;
        assert_eq!(program.is_ok(), programs(folder.path()) > 0, "{url}");
        found.push(program.map(|program| program.ends_with(PROGRAM)).map_err(|error| error.to_string()));
    }
    assert_eq!(found[0], Ok(true));
    let why = |number: usize| found[number].clone().unwrap_err();
    assert!(why(1).contains("cannot be reached: invalid peer certificate"), "{}", why(1));
    assert!(why(2).contains("/files/toy.zip"), "{}", why(2));
}
