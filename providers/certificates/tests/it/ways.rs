//! Ways to a certificate that are taken less often: by an address, a delegated record, an issuer of the host, an order of before.

use crate::{
    authority::{Authority, BEGIN, Fault},
    world::Desk,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use reconciled_certificates::{
    wish::{Issue, Renew, Solver},
    x509,
};
use reconciled_provider::{Cx, ErrorKind, Hash, Health, Outcome, SecretRef};
use reconciled_testkit::context::TableSecrets;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    sync::Arc,
};

fn prove_by(desk: &mut Desk, name: &str, solver: Solver) {
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![(name.into(), solver)];
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_ordered_and_proven_as_one() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.wish.names.clear();
    desk.wish.addresses = ["2001:db8::1".parse().unwrap()].into();
    prove_by(&mut desk, "2001:db8::1", Solver::Http);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(authority.last_identifiers(), json!([{"type": "ip", "value": "2001:db8::1"}]));
    let facts = desk.keep().issued("web").unwrap().unwrap().facts().unwrap();
    assert_eq!((facts.addresses, facts.names.len()), (desk.wish.addresses.clone(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_put_where_it_is_delegated_to() {
    for (delegated, place) in
        [(None, "_acme-challenge.a.example."), (Some("a.dyn.example"), "a.dyn.example.")]
    {
        let authority = Authority::start();
        authority.offer("dns-01");
        let mut desk = Desk::new(&authority);
        prove_by(&mut desk, "a.example", Solver::Dns("zones".into(), delegated.map(String::from)));
        let outcome = desk.pass().await;
        let Outcome::Pending { claims, .. } = outcome else { panic!("{outcome:?}") };
        let spec: Value = serde_json::from_slice(claims[0].spec.as_ref()).unwrap();
        assert_eq!((claims.len(), &*claims[0].provider, &spec["name"]), (1, "zones", &json!(place)));
        assert_eq!(authority.calls("challenge"), 0, "it is not there yet");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ordered_while_no_zone_takes_the_record_that_proves_a_name() {
    for (name, delegated, place) in [
        ("a.example", None, "_acme-challenge.a.example."),
        ("*.a.example", None, "_acme-challenge.a.example."),
        ("a.example", Some("a.dyn.example"), "a.dyn.example."),
    ] {
        let authority = Authority::start();
        authority.offer("dns-01");
        let mut desk = Desk::new(&authority);
        desk.wish.names = [name.to_owned()].into();
        prove_by(&mut desk, name, Solver::Dns("zones".into(), delegated.map(String::from)));
        desk.lacks_place = true;
        let outcome = desk.pass().await;
        let error = outcome.error().unwrap();
        assert!(
            error.message.starts_with("nothing is ordered: ") && error.message.contains(place),
            "{error}"
        );
        assert_eq!((error.kind, error.hint.as_deref()), (ErrorKind::Invalid, Some("declare one")));
        assert_eq!(authority.counts(), (0, 0));
        desk.lacks_place = false;
        assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
        assert_eq!(authority.counts(), (1, 0));
        // What was ordered is not ordered anew for that.
        desk.lacks_place = true;
        assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
        assert_eq!(authority.counts(), (1, 0));
    }
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.lacks_place = true;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "over HTTP nothing is claimed");
}

/// True where a text has a hash that stands for a secret.
fn has_mark(text: &str) -> bool {
    let parts = text.split(|c: char| !c.is_ascii_hexdigit());
    parts.into_iter().any(|part| part.len() == Hash::default().to_string().len())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_of_the_host_signs_and_another_one_signs_anew() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let mut last = String::new();
    for name in ["First", "Second"] {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = desk.be_signed_by(params);
        assert!(!desk.is_in_sync().await);
        if name == "Second" {
            let seen = String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap();
            assert!(seen.contains("\"secret ca, with another value\"") && !has_mark(&seen), "{seen}");
        }
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await, "{name}");
        let told = format!("{:?}", desk.facts().await);
        assert!(told.contains(name) && !has_mark(&told), "{told}");
        let read = |name: &str| fs::read_to_string(desk.dir.path().join("out/web").join(name)).unwrap();
        assert_eq!(x509::leaf("it", &read("tls.crt")).unwrap().issuer, name);
        assert!(read("ca.crt") == cert && read("ca.crt") != last);
        last = read("ca.crt");
    }
    assert_eq!(authority.counts(), (0, 0));
    // What is due at once waits, and that is said without marks as well.
    desk.wish.renew = Renew::Before(86_400);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let outcome = desk.pass().await;
    let text = outcome.error().unwrap().chain();
    assert!(text.contains("secret ca: refused once: ") && !has_mark(&text), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_host_has_to_sign_with_and_may_not_sign_is_told_as_the_secrets_it_is() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.be_signed_by(CertificateParams::default());
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap();
    assert_eq!(error.message, "the certificate of the issuer may not sign others");
    let hint = error.hint.as_deref().unwrap();
    assert!(
        hint.starts_with("have secret ca be the certificate of a CA") && !hint.contains("isCA"),
        "{hint}"
    );
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn that_an_issuer_of_the_host_comes_to_its_end_is_told_before_what_it_signed_does() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let at = |day: u64| time::OffsetDateTime::from_unix_timestamp((BEGIN + day * 86_400) as i64).unwrap();
    for (days, is_told) in [(400, false), (30, true)] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (at(0), at(days));
        let cert = params.self_signed(&key).unwrap().pem();
        let secret = |name: &str| SecretRef::Named(name.into());
        let table =
            [(secret("ca"), cert.clone().into_bytes()), (secret("key"), key.serialize_pem().into_bytes())];
        desk.cx = Cx { secrets: Arc::new(TableSecrets(table.into())), ..desk.cx.clone() };
        desk.wish.duration = 90 * 86_400;
        desk.wish.issuer =
            Issue::Secret { cert: "ca".into(), key: "key".into(), mark: Hash::of(cert.as_bytes()) };
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{days}");
        let health = desk.health().await;
        let is_said = matches!(&health, Health::Degraded { why } if why.contains("its issuer is over at "));
        assert_eq!(is_said, is_told, "{days}: {health:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_belong_to_whom_they_are_declared_for() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let own = fs::metadata(desk.dir.path()).unwrap();
    // Only root gives files away; anybody else keeps them, by number.
    let is_root = own.uid() == 0;
    let (owner, group) =
        if is_root { ("daemon".into(), "1".into()) } else { (own.uid().to_string(), own.gid().to_string()) };
    let expect = if is_root { (1, 1) } else { (own.uid(), own.gid()) };
    (desk.wish.output.owner, desk.wish.output.group, desk.wish.output.mode) =
        (Some(owner), Some(group), 0o640);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    for (name, mode) in [("tls.crt", 0o644), ("tls.key", 0o640)] {
        let path = desk.dir.path().join("out/web").join(name);
        let meta = fs::metadata(&path).unwrap();
        assert_eq!(((meta.uid(), meta.gid()), meta.permissions().mode() & 0o7777), (expect, mode), "{name}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if is_root {
            std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
        }
        assert!(!desk.is_in_sync().await, "{name}");
        assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
        let meta = fs::metadata(&path).unwrap();
        assert_eq!(((meta.uid(), meta.gid()), meta.permissions().mode() & 0o7777), (expect, mode), "{name}");
    }
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_the_authority_gives_again_is_gone_on_with_and_what_was_proven_is_not_proven_again() {
    let authority = Authority::start();
    authority.reuse();
    let mut desk = Desk::new(&authority);
    authority.fail("order", Fault::Lost);
    desk.pass().await;
    desk.restart();
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.calls("challenge")), ((1, 1), 1));
    // Nothing has to be put anywhere for it, whatever would prove the name.
    authority.offer("dns-01");
    prove_by(&mut desk, "a.example", Solver::Dns("zones".into(), None));
    desk.renew().await;
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.calls("challenge")), ((2, 2), 1));
}
