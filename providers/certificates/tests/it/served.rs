//! Services that show another certificate although they were told: they are told again, and restarted where that is wanted.

use crate::{
    authority::{Authority, BEGIN, LIFE},
    world::Desk,
};
use futures_util::StreamExt;
use rcgen::generate_simple_self_signed;
use reconciled_certificates::wish::{Issue, Solver, Wish};
use reconciled_provider::{Health, Outcome};
use rustls::{
    ServerConfig, SignatureScheme,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// A service that reads its certificate once a line of a file says that it was told.
struct Service {
    address: String,
    /// It answers nobody.
    is_closed: Arc<AtomicBool>,
}

impl Service {
    /// `told` is the file, and `times` how many lines it takes.
    fn start(told: PathBuf, times: usize, directory: PathBuf) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let other = generate_simple_self_signed(["other".to_owned()]).unwrap();
        let other = (other.cert.pem(), other.key_pair.serialize_pem());
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if closed.load(Ordering::SeqCst) {
                    continue;
                }
                let has_read = lines(&told) >= times;
                let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
                let (chain, key) = if has_read { (read("tls.crt"), read("tls.key")) } else { other.clone() };
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .unwrap()
                    .with_no_client_auth()
                    .with_single_cert(chain, key)
                    .unwrap();
                let mut connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
                // Whoever only wants to see the certificate closes it at some point.
                while connection.is_handshaking() && connection.complete_io(&mut stream).is_ok() {}
            }
        });
        Service { address, is_closed }
    }
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// A desk at which `web` is in place, and was told of when it was; and the service that shows it once `file` has so many lines.
async fn desk(
    authority: &Authority,
    file: &str,
    times: usize,
    change: impl Fn(&mut Wish),
) -> (Desk, Service) {
    let mut desk = Desk::new(authority);
    let path = desk.dir.path().to_owned();
    let service = Service::start(path.join(file), times, path.join("out/web"));
    desk.wish.reload = ["app.service".to_owned()].into();
    desk.wish.serve = [service.address.clone()].into();
    change(&mut desk.wish);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(count(&desk, "reloaded"), 1);
    (desk, service)
}

fn count(desk: &Desk, file: &str) -> usize {
    lines(&desk.dir.path().join(file))
}

async fn seen(desk: &Desk) -> String {
    String::from_utf8_lossy(&desk.observe().await.unwrap().bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_shows_another_certificate_is_told_again_and_the_plan_says_so() {
    let authority = Authority::start();
    let (mut desk, service) = desk(&authority, "reloaded", 2, |_| {}).await;
    // It may need a moment.
    assert!(desk.is_in_sync().await, "{}", seen(&desk).await);
    assert!(matches!(desk.health().await, Health::Progressing { .. }));
    desk.clock.advance(Duration::from_secs(5));
    assert!(matches!(desk.health().await, Health::Degraded { .. }));
    desk.clock.advance(Duration::from_secs(10));
    // Also one that was started since then, and knows nothing of what was seen.
    desk.restart();
    let text = seen(&desk).await;
    assert!(text.contains("\"served\"") && text.contains(&service.address), "{text}");
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((count(&desk, "reloaded"), count(&desk, "restarted")), (2, 0));
    assert!(desk.is_in_sync().await, "{}", seen(&desk).await);
    assert_eq!(desk.health().await, Health::Healthy);
    desk.clock.advance(Duration::from_secs(30 * 86_400));
    assert!(desk.is_in_sync().await, "{}", seen(&desk).await);
    assert_eq!(authority.counts(), (1, 1), "no other certificate is needed for that");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_somebody_else_serves_is_no_endless_reload() {
    let authority = Authority::start();
    let (mut desk, _service) = desk(&authority, "reloaded", usize::MAX, |_| {}).await;
    let mut told_at = Vec::new();
    for minute in 0..10 * 24 * 60 {
        if minute % 5 == 0 && !desk.is_in_sync().await {
            assert!(matches!(desk.pass().await, Outcome::Done(_)));
            told_at.push(minute);
        }
        if minute % 1_000 == 0 {
            desk.restart();
        }
        desk.clock.advance(Duration::from_secs(60));
    }
    assert_eq!(told_at, [5, 125, 485, 1_925]);
    assert_eq!(count(&desk, "reloaded"), 5);
    let health = desk.health().await;
    assert!(matches!(&health, Health::Degraded { why } if why.contains("told again 4 times")), "{health:?}");
    // The next certificate begins anew.
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    authority.begin(BEGIN + LIFE * 2 / 3);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(15));
    assert!(!desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_nobody_is_told_for_or_that_does_not_answer_is_left_alone() {
    let authority = Authority::start();
    let (mut desk, service) = desk(&authority, "reloaded", usize::MAX, |_| {}).await;
    service.is_closed.store(true, Ordering::SeqCst);
    desk.clock.advance(Duration::from_secs(3_600));
    assert!(desk.is_in_sync().await, "it may be waiting for something");
    service.is_closed.store(false, Ordering::SeqCst);
    desk.clock.advance(Duration::from_secs(60));
    assert!(!desk.is_in_sync().await);
    // What it was when a plan was made of it may be over.
    service.is_closed.store(true, Ordering::SeqCst);
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!(count(&desk, "reloaded"), 1);
    service.is_closed.store(false, Ordering::SeqCst);
    desk.clock.advance(Duration::from_secs(60));
    desk.wish.reload.clear();
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(5));
    assert!(desk.is_in_sync().await && matches!(desk.health().await, Health::Degraded { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_goes_on_is_restarted_where_that_is_wanted() {
    for (wanted, restarts) in [(false, 0), (true, 1)] {
        let authority = Authority::start();
        let (desk, _service) = desk(&authority, "restarted", 1, |wish| wish.escalate = wanted).await;
        assert_eq!(count(&desk, "restarted"), 0, "not at the first time");
        desk.clock.advance(Duration::from_secs(15));
        assert!(matches!(desk.pass().await, Outcome::Done(_)));
        assert_eq!((count(&desk, "reloaded"), count(&desk, "restarted")), (2, restarts));
        let is_healthy = desk.health().await == Health::Healthy;
        assert_eq!(is_healthy, wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_fails_is_done_again_and_nothing_is_reloaded_for_it() {
    let authority = Authority::start();
    let change = |wish: &mut Wish| {
        wish.escalate = true;
        wish.reload = ["stiff.service".to_owned()].into();
    };
    let (mut desk, _service) = desk(&authority, "restarted", 3, change).await;
    desk.clock.advance(Duration::from_secs(15));
    for times in 1..=3 {
        let outcome = desk.pass().await;
        let error = outcome.error().unwrap_or_else(|| panic!("no error: {outcome:?}"));
        assert!(error.message.contains("restart stiff.service"), "{}", error.message);
        assert!(!desk.is_in_sync().await, "it was not told to the end");
        assert_eq!((count(&desk, "reloaded"), count(&desk, "restarted")), (2, times));
        desk.restart();
    }
    // It shows the right one all the same now.
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((count(&desk, "reloaded"), count(&desk, "restarted")), (2, 3));
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_looked_at_again_by_itself_once_services_had_their_time() {
    let authority = Authority::start();
    let (desk, _service) = desk(&authority, "reloaded", 2, |_| {}).await;
    let mut hints = desk.hints();
    desk.clock.advance(Duration::from_millis(14_500));
    desk.health().await;
    let hint = hints.next().await.unwrap();
    assert_eq!(&*hint.scope.name, "web");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_before_services_had_their_time_is_no_difference() {
    let authority = Authority::start();
    let (desk, _service) = desk(&authority, "reloaded", 1, |_| {}).await;
    desk.renew().await;
    assert_eq!(desk.health().await, Health::Healthy, "it shows the one of before");
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(15));
    assert!(desk.is_in_sync().await, "{}", seen(&desk).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_never_answers_hides_no_other_one() {
    let authority = Authority::start();
    // Connections are taken by the kernel, and nobody says anything.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let change = |wish: &mut Wish| wish.serve.extend([address.clone()]);
    let (desk, service) = desk(&authority, "reloaded", usize::MAX, change).await;
    desk.clock.advance(Duration::from_secs(15));
    let text = seen(&desk).await;
    assert!(text.contains(&format!("another certificate at {}\"", service.address)), "{text}");
}

/// Who has two certificates of one name, of which others than ours are shown to whoever takes them.
#[derive(Debug)]
struct Kinds {
    theirs: Arc<CertifiedKey>,
    /// Where ours is, if it is shown at all.
    ours: Option<PathBuf>,
}

impl ResolvesServerCert for Kinds {
    fn resolve(&self, asked: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if asked.signature_schemes().contains(&SignatureScheme::ED25519) {
            return Some(self.theirs.clone());
        }
        let read = |name: &str| fs::read_to_string(self.ours.as_ref()?.join(name)).ok();
        Some(Arc::new(certified(&read("tls.crt")?, &read("tls.key")?)))
    }
}

fn certified(chain: &str, key: &str) -> CertifiedKey {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    CertifiedKey::new(chain, ring::sign::any_supported_type(&key).unwrap())
}

/// The address of a service that shows what this one chooses.
fn shows(chooses: impl ResolvesServerCert + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(chooses));
    let config = Arc::new(config);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
            while connection.is_handshaking() && connection.complete_io(&mut stream).is_ok() {}
        }
    });
    address
}

/// Who shows ours to whoever asks for this name, and nothing to others.
#[derive(Debug)]
struct Named(&'static str, PathBuf);

impl ResolvesServerCert for Named {
    fn resolve(&self, asked: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let read = |name: &str| fs::read_to_string(self.1.join(name)).ok();
        (asked.server_name()? == self.0).then_some(())?;
        Some(Arc::new(certified(&read("tls.crt")?, &read("tls.key")?)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_its_own_is_asked_for_and_else_one_that_a_wildcard_stands_for() {
    for (names, asked) in
        [(&["*.a.example", "a.example"][..], "a.example"), (&["*.a.example"], "www.a.example")]
    {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        desk.wish.names = names.iter().map(|name| (*name).to_owned()).collect();
        let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
        issuer.solvers = ["a.example", "*.a.example"].map(|name| (name.to_owned(), Solver::Http)).into();
        desk.wish.serve = [shows(Named(asked, desk.dir.path().join("out/web")))].into();
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!(desk.health().await, Health::Healthy, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_two_kinds_of_certificates_shows_the_one_of_our_kind() {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
    let theirs = Arc::new(certified(&params.self_signed(&pair).unwrap().pem(), &pair.serialize_pem()));
    for has_ours in [true, false] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        let ours = has_ours.then(|| desk.dir.path().join("out/web"));
        desk.wish.serve = [shows(Kinds { theirs: theirs.clone(), ours })].into();
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        desk.clock.advance(Duration::from_secs(15));
        match (has_ours, desk.health().await) {
            (true, Health::Healthy) => {}
            (false, Health::Degraded { why }) if why.contains("serves another certificate") => {}
            (_, other) => panic!("shown: {has_ours}: {other:?}"),
        }
    }
}
