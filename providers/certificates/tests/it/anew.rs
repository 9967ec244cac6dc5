//! What is declared otherwise and needs no other certificate: it is taken over all the same, and costs as little as can be.

use crate::{
    authority::{Authority, BEGIN, LIFE},
    world::Desk,
};
use futures_util::StreamExt;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa};
use reconciled_certificates::{
    wish::{Issue, Renew, Solver, Wish},
    x509::Facts,
};
use reconciled_provider::{ErrorKind, Outcome, Renewal};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

async fn seen(desk: &Desk) -> String {
    String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap()
}

fn reloaded(desk: &Desk) -> String {
    fs::read_to_string(desk.dir.path().join("reloaded")).unwrap_or_default()
}

fn kept(desk: &Desk) -> Wish {
    desk.keep().issued("web").unwrap().unwrap().wish
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_declared_anew_is_taken_over_and_only_units_that_are_new_are_told() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.wish.reload = ["a.service".to_owned()].into();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    type Change = fn(&mut Wish);
    let changes: [(&str, Change); 7] = [
        ("reload", |wish| wish.reload = ["a.service", "b.service"].map(String::from).into()),
        ("serve", |wish| wish.serve = ["127.0.0.1:1".to_owned()].into()),
        ("renewBefore", |wish| wish.renew = Renew::Before(86_400)),
        ("escalate", |wish| wish.escalate = true),
        ("issuerRefs", |wish| wish.issuer_names.push("third".into())),
        ("state", |wish| wish.keep_key = true),
        ("reload", |wish| wish.reload = ["b.service".to_owned()].into()),
    ];
    for (path, change) in changes {
        change(&mut desk.wish);
        desk.restart();
        let seen = seen(&desk).await;
        assert!(seen.contains(&format!("\"path\":\"{path}\"")), "{path}: {seen}");
        assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await, "{path}");
        assert_eq!(kept(&desk), desk.wish, "{path}");
    }
    assert_eq!((reloaded(&desk).as_str(), authority.counts()), ("a.service\nb.service\n", (1, 1)));
    // One that fails is told until it is, and no other one.
    desk.wish.reload.insert("bad.service".into());
    for _ in 0..2 {
        assert!(desk.pass().await.error().is_some());
        desk.restart();
    }
    assert_eq!(reloaded(&desk), "a.service\nb.service\nbad.service\nbad.service\n");
}

/// What an authority decides by itself, and an issuer of our own does not.
type Own = fn(&mut Wish);
const OWN: [(&str, Own); 3] = [
    ("usages", |wish| wish.usages = ["client auth".to_owned()].into()),
    ("duration", |wish| wish.duration = 2 * 86_400),
    ("commonName", |wish| wish.common_name = Some("a.example".into())),
];

fn facts(desk: &Desk) -> Facts {
    desk.keep().issued("web").unwrap().unwrap().facts().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_issuers_of_our_own_decide_is_issued_anew_once_it_is_declared_otherwise() {
    let may_sign: (&str, Own) = ("isCA", |wish| wish.is_ca = true);
    for is_signed in [false, true] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        (desk.wish.issuer, desk.wish.duration) = (Issue::SelfSigned, 86_400);
        if is_signed {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, "Lab");
            desk.be_signed_by(params);
        }
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
        for (path, change) in OWN.into_iter().chain([may_sign]) {
            let what = format!("{path}, signed by another one: {is_signed}");
            let before = facts(&desk).fingerprint;
            change(&mut desk.wish);
            let seen = seen(&desk).await;
            assert!(seen.contains(&format!("\"path\":\"{path}\"")), "{what}: {seen}");
            assert!(!desk.is_due().await, "{what}: somebody changed it");
            assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await, "{what}");
            let (facts, wish) = (facts(&desk), &desk.wish);
            assert_ne!(facts.fingerprint, before, "{what}");
            let end = desk.cx.clock.now().as_secs() + wish.duration;
            assert_eq!(
                (&facts.common_name, facts.is_ca, facts.not_after),
                (&wish.common_name, wish.is_ca, end),
                "{what}"
            );
            // Who signs may sign, whatever else is said.
            let mut usages = wish.usages.clone();
            if wish.is_ca {
                usages.extend(["cert sign", "crl sign", "digital signature"].map(String::from));
            }
            assert_eq!(facts.usages, usages, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_authority_decides_by_itself_is_not_ordered_anew() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    for (path, change) in OWN {
        change(&mut desk.wish);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await, "{path}");
        assert_eq!((kept(&desk), authority.counts()), (desk.wish.clone(), (1, 1)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_issuer_and_another_way_can_be_asked_for_once_they_are_declared() {
    let (first, second) = (Authority::start(), Authority::start());
    let mut desk = Desk::new(&first);
    desk.wish.issuer_names = vec!["first".into()];
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let by = |issuer: &str| Renewal { issuer: Some(issuer.into()), solver: None };
    let mut other = desk.wish.issuer.clone();
    let Issue::Acme(authority) = &mut other else { panic!() };
    authority.server = format!("{}/dir", second.url);
    desk.wish.others.push(other);
    desk.wish.issuer_names.push("second".into());
    assert!(desk.renew_by(&by("second")).await.is_err());
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    // What issuers say of themselves is no difference: nothing is done about it, for however many certificates.
    for issuer in std::iter::once(&mut desk.wish.issuer).chain(&mut desk.wish.others) {
        let Issue::Acme(authority) = issuer else { panic!() };
        authority.others = vec![("a.example".into(), Solver::Tls)];
    }
    assert!(desk.is_in_sync().await);
    desk.health().await;
    assert_eq!(kept(&desk), desk.wish);
    let tls = Renewal { solver: Some("tlsAlpn01".into()), ..by("second") };
    desk.renew_by(&tls).await.unwrap();
    desk.renew_by(&by("second")).await.unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((first.counts(), second.counts()), ((1, 1), (1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_with_time_is_due_and_what_is_changed_is_not() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.renew().await;
    assert!(desk.is_due().await);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    fs::remove_file(desk.dir.path().join("out/web/tls.key")).unwrap();
    assert!(!desk.is_due().await, "somebody did that");
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    assert!(desk.is_due().await, "it has to be renewed, whatever somebody did");
    authority.begin(BEGIN + LIFE * 2 / 3);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
}

/// Makes a change for which `desk` is to be looked at.
async fn is_told(desk: &Desk, change: impl FnOnce()) {
    let mut hints = desk.hints();
    change();
    assert_eq!(&*hints.next().await.unwrap().scope.name, "web");
}

/// Makes one for which it is not.
async fn is_not_told(desk: &Desk, change: impl FnOnce()) {
    let mut hints = desk.hints();
    change();
    // The kernel has told of it before the call returned.
    let told = tokio::time::timeout(Duration::from_millis(300), hints.next()).await;
    assert!(told.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_never_in_force_watches_nothing_else() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let (directory, other) = (desk.dir.path().join("out/web"), desk.dir.path().join("other"));
    fs::create_dir(&other).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    // A folder: what tells of a file that was closed may come late, where another test has it open for a moment, as whoever
    // starts a program has all files.
    let touch = |at: &Path| {
        let at = at.join("touched");
        move || if at.exists() { fs::remove_dir(at).unwrap() } else { fs::create_dir(at).unwrap() }
    };
    is_told(&desk, touch(&directory)).await;
    // One that leaves it out, and one that has it elsewhere.
    assert!(desk.look_undeclared().await.is_some());
    desk.wish.output.directory = other.display().to_string();
    assert!(!desk.is_in_sync().await);
    is_told(&desk, touch(&directory)).await;
    is_not_told(&desk, touch(&other)).await;
    // One that comes into force.
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    is_told(&desk, touch(&other)).await;
    assert!(matches!(desk.delete().await, Outcome::Gone));
    fs::create_dir_all(&other).unwrap();
    is_not_told(&desk, touch(&other)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_moves_is_in_use_although_what_it_left_cannot_be_taken_away() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.wish.reload = ["a.service".to_owned()].into();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let (before, after) = (desk.dir.path().join("out/web"), desk.dir.path().join("out/new"));
    let open = |path: &PathBuf, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(&before, 0o777);
    desk.wish.output.directory = after.display().to_string();
    for _ in 0..2 {
        let outcome = desk.pass().await;
        let error = outcome.error().unwrap();
        assert_eq!(error.kind, ErrorKind::PermissionDenied);
        assert!(error.message.contains("in use there; take away what it left in"), "{error:?}");
        assert_eq!(reloaded(&desk), "a.service\na.service\n");
        assert!(after.join("tls.key").exists() && kept(&desk) == desk.wish);
        assert!(seen(&desk).await.contains("it is still in"));
        desk.restart();
    }
    // It is renewed all the same, and told.
    desk.renew().await;
    assert!(desk.pass().await.error().is_some());
    assert_eq!((reloaded(&desk).lines().count(), authority.counts().1), (3, 2));
    open(&before, 0o755);
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(!before.exists() && reloaded(&desk).lines().count() == 3);
    // One that moves back has nothing to take away.
    open(&after, 0o777);
    desk.wish.output.directory = before.display().to_string();
    assert!(desk.pass().await.error().is_some());
    desk.wish.output.directory = after.display().to_string();
    open(&after, 0o755);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(!before.exists() && after.join("tls.key").exists());
}
