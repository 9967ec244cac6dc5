//! A process that dies at every place at which it may, whatever proves names: nothing is burned, left over or torn. The
//! authority looks at each proof as a real one does.

use crate::{
    authority::{Authority, PERSIST, Proof},
    world::Desk,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::FutureExt;
use reconciled_certificates::{
    key,
    wish::{Issue, Solver},
    x509,
};
use reconciled_provider::{Outcome, Secret};
use reconciled_testkit::ports;
use ring::digest;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring::default_provider as ring_provider},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use x509_parser::{certificate::X509Certificate, der_parser::asn1_rs::FromDer, extensions::X509Extension};

/// How many places are passed until the process dies, for each test; none for zero.
static LEFT: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// What the process of the test with this number calls at each place.
fn die<const TEST: usize>(_: &str) {
    let left = LEFT[TEST].load(Ordering::SeqCst);
    LEFT[TEST].store(left.saturating_sub(1), Ordering::SeqCst);
    if left == 1 {
        // As a panic, without a word about it.
        std::panic::resume_unwind(Box::new(()));
    }
}

/// An address that nobody has, and that nobody gets who leaves the choice to the kernel: it chooses from 32768 on (ip(7)).
fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports::free(ports::CERTIFICATES, 1)))
}

fn sha256(text: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

/// RFC 8555 §8.3.
fn is_answered(at: SocketAddr, proof: &Proof) -> bool {
    let Ok(mut stream) = TcpStream::connect(at) else { return false };
    let Proof { name, token, authorization } = proof;
    let ask = format!(
        "GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200 ")
        && answer.split_once("\r\n\r\n").is_some_and(|(_, body)| body == authorization)
}

/// RFC 8737 §3: the protocol, the name, and the digest in a critical extension.
fn is_shown(at: SocketAddr, proof: &Proof) -> bool {
    let Ok(mut stream) = TcpStream::connect(at) else { return false };
    let provider = Arc::new(ring_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let name = proof.name.clone().try_into().unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    while connection.is_handshaking() {
        if connection.complete_io(&mut stream).is_err() {
            return false;
        }
    }
    let shown = connection.peer_certificates().unwrap()[0].to_vec();
    let (_, found) = X509Certificate::from_der(&shown).unwrap();
    let wanted = [&[4, 32][..], &sha256(&proof.authorization)].concat();
    let is_proof = |extension: &X509Extension<'_>| {
        extension.oid.to_id_string() == "1.3.6.1.5.5.7.1.31"
            && extension.critical
            && extension.value == wanted
    };
    let names = x509::facts("it", &shown).unwrap().names;
    connection.alpn_protocol() == Some(b"acme-tls/1")
        && found.extensions().iter().any(is_proof)
        && names == [proof.name.clone()].into()
}

/// Who answers is what is asked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    // What cannot be read as a certificate of today's web, as one with this extension, cannot be checked here either.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Key and certificate belong together, if they are there.
#[track_caller]
fn is_no_torn_pair(desk: &Desk, place: &str) {
    let read = |name: &str| fs::read_to_string(desk.dir.path().join("out/web").join(name)).ok();
    let (Some(chain), Some(secret)) = (read("tls.crt"), read("tls.key")) else { return };
    let public = key::public("it", &Secret::new(secret.into_bytes())).unwrap();
    assert_eq!(x509::leaf("it", &chain).unwrap().public, public, "{place}");
}

/// One life that ends at this place, of a first certificate or a renewal. True when it was reached.
async fn life<const TEST: usize>(kind: &'static str, is_renewal: bool, place: usize) -> bool {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let webroot = desk.dir.path().join("www");
    let solver = match kind {
        "http-01" => Solver::Http,
        "a web server" => Solver::Webroot(webroot.display().to_string()),
        "tls-alpn-01" => Solver::Tls,
        "dns-01" => Solver::Dns("zones".into(), None),
        _ => Solver::Persist,
    };
    authority.offer(solver.word());
    if kind == PERSIST {
        let value = format!("ca.example; accounturi={}/accounts/1", authority.url);
        authority.see("_validation-persist.a.example", &value);
    }
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), solver)];
    (desk.listen, desk.listen_tls) = (free(), free());
    let (http, tls, records, files) = (desk.listen, desk.listen_tls, desk.records.clone(), webroot.clone());
    match kind {
        "http-01" => authority.look(move |proof| is_answered(http, proof)),
        "a web server" => authority.look(move |proof| {
            let file = files.join(".well-known/acme-challenge").join(&proof.token);
            fs::read_to_string(file).is_ok_and(|text| text == proof.authorization)
        }),
        "tls-alpn-01" => authority.look(move |proof| is_shown(tls, proof)),
        "dns-01" => authority.look(move |proof| {
            let value = URL_SAFE_NO_PAD.encode(sha256(&proof.authorization));
            let wanted =
                json!({"name": format!("_acme-challenge.{}.", proof.name), "value": value, "ttl": 60});
            let records = records.lock().unwrap();
            records.values().any(|spec| serde_json::from_str::<Value>(spec).unwrap() == wanted)
        }),
        // It looks at what is declared by itself.
        _ => {}
    }
    desk.wish.reload = ["a.service".to_owned()].into();
    desk.passed = die::<TEST>;
    desk.restart();
    let name = format!("{kind}, renewal {is_renewal}, place {place}");
    let before = usize::from(is_renewal);
    if is_renewal {
        assert!(matches!(desk.carried(8).await, Outcome::Done(_)), "{name}");
        fs::write(desk.dir.path().join("reloaded"), "").unwrap();
        desk.renew().await;
    }
    LEFT[TEST].store(place, Ordering::SeqCst);
    let died = AssertUnwindSafe(desk.carried(6)).catch_unwind().await.is_err();
    LEFT[TEST].store(0, Ordering::SeqCst);
    assert!(!is_renewal || desk.dir.path().join("out/web/tls.crt").exists(), "{name}");
    is_no_torn_pair(&desk, &name);
    desk.restart();
    let outcome = desk.carried(8).await;
    assert!(matches!(outcome, Outcome::Done(_)), "{name}: {outcome:?}");
    is_no_torn_pair(&desk, &name);
    let (orders, issued) = authority.counts();
    // The answer to an order may be lost with the process; then nobody knows where the order is.
    let is_one = issued == before + 1;
    assert!(orders <= before + 2 && is_one, "{name}: {orders} orders, {issued} certificates");
    assert!(desk.is_in_sync().await, "{name}");
    assert!(!webroot.join(".well-known").exists(), "{name}");
    assert!(desk.records.lock().unwrap().is_empty(), "{name}: a record is left over");
    for listen in [desk.listen, desk.listen_tls] {
        assert!(TcpStream::connect(listen).is_err(), "{name}: {listen} is still open");
    }
    assert!(!desk.keep().is_begun("web").unwrap(), "{name}");
    let told = fs::read_to_string(desk.dir.path().join("reloaded")).unwrap();
    assert!((1..=2).contains(&told.lines().count()), "{name}: told {told}");
    died
}

/// A life for each place on the way to a certificate, or to the one that takes its place. What is not renewed here is where the real
/// program is killed.
async fn lives<const TEST: usize>(kind: &'static str, is_renewal: bool) {
    let mut place = 1;
    while life::<TEST>(kind, is_renewal, place).await {
        place += 1;
    }
    assert!(place > 12, "{kind}, renewal {is_renewal}: only {place} places");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_http_proves_names() {
    lives::<0>("http-01", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_a_web_server_proves_names() {
    lives::<1>("a web server", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_a_web_server_proves_names_again() {
    lives::<2>("a web server", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_tls_proves_names() {
    lives::<3>("tls-alpn-01", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_tls_proves_names_again() {
    lives::<4>("tls-alpn-01", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_dns_proves_names() {
    lives::<5>("dns-01", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_dns_proves_names_again() {
    lives::<6>("dns-01", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_burned_left_over_or_torn_where_a_lasting_record_proves_names() {
    lives::<7>(PERSIST, false).await;
}
