//! Where an authority may write to, as it is declared.

use crate::{
    authority::{Authority, Fault},
    world::Desk,
};
use reconciled_certificates::wish::Issue;
use reconciled_provider::Outcome;
use serde_json::json;
use std::time::Duration;

fn declare(desk: &mut Desk, email: Option<&str>) {
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.email = email.map(String::from);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_address_is_told_once_and_costs_no_certificate() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    declare(&mut desk, Some("first@a.example"));
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(authority.contact(), json!(["mailto:first@a.example"]));
    for (email, contact) in [
        (Some("second@a.example"), json!(["mailto:second@a.example"])),
        (None, json!([])),
        (Some("x@a.example"), json!(["mailto:x@a.example"])),
    ] {
        declare(&mut desk, email);
        desk.restart();
        let seen = String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap();
        assert!(seen.contains("issuerRef.email") && seen.contains(email.unwrap_or("nobody")), "{seen}");
        assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
        assert_eq!(authority.contact(), contact);
    }
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((authority.calls("accounts"), authority.calls("account"), authority.counts()), (3, 1, (1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_say_different_addresses_do_not_fight() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    declare(&mut desk, Some("first@a.example"));
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    // As another certificate of the same account has it.
    let account =
        std::fs::read_dir(desk.dir.path().join("state/accounts")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&account).unwrap();
    std::fs::write(&account, text.replace("first@a.example", "other@a.example")).unwrap();
    desk.restart();
    assert!(desk.is_in_sync().await, "what is declared here has not changed");
    assert_eq!(authority.calls("accounts"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_authority_does_not_take_is_said() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    declare(&mut desk, Some("nobody@example.com"));
    authority.fail("accounts", Fault::Refused(400, "invalidContact", ""));
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap();
    assert!(!error.kind.stalls(), "it is renewed all the same");
    assert!(error.hint.as_ref().unwrap().contains("write another `email`"), "{error:?}");
    // Once, and then it is among what is told of it.
    assert!(desk.is_in_sync().await && matches!(desk.pass().await, Outcome::Done(_)));
    let facts = desk.facts().await;
    assert!(facts.iter().any(|fact| &*fact.name == "account email" && fact.value.contains("invalidContact")));
    assert_eq!(authority.calls("accounts"), 1);
    declare(&mut desk, Some("ops@a.example"));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((authority.calls("accounts"), authority.contact()), (2, json!(["mailto:ops@a.example"])));
    assert!(desk.facts().await.iter().all(|fact| &*fact.name != "account email"));
    // One that lost its memory is told with the account that it gets.
    declare(&mut desk, Some("other@a.example"));
    authority.forget_everything();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(authority.contact(), json!(["mailto:other@a.example"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_put_back_although_an_address_cannot_be_told() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    declare(&mut desk, Some("ops@a.example"));
    let file = desk.dir.path().join("out/web/tls.crt");
    std::fs::remove_file(std::fs::canonicalize(&file).unwrap()).unwrap();
    authority.fail("accounts", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    assert!(file.exists() && !desk.is_in_sync().await, "it is still to be told");
    desk.clock.advance(Duration::from_secs(60));
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(authority.contact(), json!(["mailto:ops@a.example"]));
}
