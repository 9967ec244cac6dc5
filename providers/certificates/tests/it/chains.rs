//! Chains that an authority gives: which one is taken, and what others may trust.

use crate::{authority::Authority, world::Desk};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use reconciled_certificates::{wish::Issue, x509};
use reconciled_provider::Outcome;
use std::{fs, time::Duration};

#[tokio::test(flavor = "multi_thread")]
async fn the_topmost_certificate_of_a_chain_is_there_for_others_to_trust() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let read = |name: &str| fs::read_to_string(desk.dir.path().join("out/web").join(name));
    assert!(read("ca.crt").is_err(), "nothing but the certificate was given");
    authority.give_chains();
    assert!(desk.is_in_sync().await);
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let ca = read("ca.crt").unwrap();
    let facts = x509::leaf("it", &ca).unwrap();
    assert_eq!((facts.common_name.as_deref(), facts.is_ca), (Some("Fake Root"), true));
    let chain = x509::chain("it", &read("tls.crt").unwrap()).unwrap();
    assert_eq!((chain.len(), &chain[1]), (2, &x509::chain("it", &ca).unwrap()[0]));
    fs::remove_file(fs::canonicalize(desk.dir.path().join("out/web/ca.crt")).unwrap()).unwrap();
    assert!(!desk.is_in_sync().await);
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!(read("ca.crt").unwrap(), ca);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_that_is_preferred_is_taken_where_there_is_one() {
    for (preferred, asked, top) in [
        (None, 0, "Fake Root"),
        (Some("Fake Root"), 0, "Fake Root"),
        (Some("Old Root"), 1, "Old Root"),
        (Some("None"), 1, "Fake Root"),
    ] {
        let authority = Authority::start();
        authority.give_chains();
        let mut desk = Desk::new(&authority);
        let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
        issuer.preferred_chain = preferred.map(String::from);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!(authority.calls("other"), asked, "{preferred:?}");
        let chain = fs::read_to_string(desk.dir.path().join("out/web/tls.crt")).unwrap();
        let ders = x509::chain("it", &chain).unwrap();
        assert_eq!(x509::facts("it", &ders[1]).unwrap().issuer, top, "{preferred:?}");
        assert!(desk.is_in_sync().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_certificates_gets_into_the_files() {
    let authority = Authority::start();
    authority.append("text\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\nssl_engine on;\n");
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let chain = fs::read_to_string(desk.dir.path().join("out/web/tls.crt")).unwrap();
    let ders = x509::chain("it", &chain).unwrap();
    let written = pem::encode_config(
        &pem::Pem::new("CERTIFICATE", ders[0].as_slice()),
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    );
    assert_eq!((ders.len(), chain), (1, written));
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_leads_nowhere_is_of_no_use() {
    let signer = |name: &str| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    };
    // The second one is called as the one that signed is, and has another key.
    for name in ["Somebody", "Fake Root"] {
        let authority = Authority::start();
        authority.append(&signer(name));
        let desk = Desk::new(&authority);
        let outcome = desk.pass().await;
        let error = outcome.error().unwrap_or_else(|| panic!("no error: {outcome:?}"));
        assert!(
            error.message.contains(&format!("not issued by the next one, `{name}`")),
            "{}",
            error.message
        );
        assert_eq!(error.retry_after, Some(Duration::from_secs(60)));
        assert!(desk.keep().issued("web").unwrap().is_none());
        assert!(!desk.dir.path().join("out/web/tls.crt").exists());
        authority.append("");
        desk.clock.advance(Duration::from_secs(60));
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && authority.counts().1 == 2);
    }
}
