//! A certificate that is kept and not in place: where that is our own doing it is put there, whatever is said of drift.

use crate::{
    authority::{Authority, BEGIN, LIFE},
    keeping::die_once_it_is_kept,
    world::Desk,
};
use futures_util::FutureExt;
use reconciled_provider::{Health, Outcome};
use std::{fs, os::unix::fs::PermissionsExt, panic::AssertUnwindSafe, path::Path, time::Duration};

fn die_once_it_is_put(place: &str) {
    if place == "certificate.put" {
        // As a panic, without a word about it.
        std::panic::resume_unwind(Box::new(()));
    }
}

/// Has the process die at `at` on its way, and another one begin.
pub(crate) async fn dies(desk: &mut Desk, at: fn(&str)) {
    desk.passed = at;
    desk.restart();
    assert!(AssertUnwindSafe(desk.passes(3)).catch_unwind().await.is_err(), "it was not passed");
    desk.passed = |_| {};
    desk.restart();
}

/// Has the files of a certificate be regular ones, and nothing else be there.
pub(crate) fn make_theirs(directory: &Path) {
    let files = ["tls.crt", "tls.key"].map(|name| (name, fs::read(directory.join(name)).unwrap()));
    fs::remove_dir_all(directory).unwrap();
    fs::create_dir(directory).unwrap();
    for ((name, bytes), mode) in files.iter().zip([0o644, 0o600]) {
        fs::write(directory.join(name), bytes).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_renewed_and_not_put_in_place_is_due_and_what_somebody_does_later_is_not() {
    let places: [fn(&str); 2] = [die_once_it_is_kept, die_once_it_is_put];
    for is_adopted in [false, true] {
        for at in places {
            let authority = Authority::start();
            let mut desk = Desk::new(&authority);
            assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
            let directory = desk.dir.path().join("out/web");
            if is_adopted {
                make_theirs(&directory);
                fs::remove_dir_all(desk.dir.path().join("state/certificates")).unwrap();
                desk.restart();
                assert!(matches!(desk.pass().await, Outcome::Done(_)));
            }
            assert!(desk.is_in_sync().await);
            desk.renew().await;
            dies(&mut desk, at).await;
            let label = format!("adopted {is_adopted}");
            assert!(!desk.is_in_sync().await && desk.is_due().await, "{label}");
            assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await, "{label}");
            assert_eq!(authority.counts(), (2, 2), "{label}");
            let kept = desk.keep().issued("web").unwrap().unwrap();
            assert_eq!(fs::read_to_string(directory.join("tls.crt")).unwrap(), kept.chain, "{label}");
            fs::write(directory.join("tls.crt"), "").unwrap();
            assert!(!desk.is_due().await, "{label}: somebody did that");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_over_of_ours_is_due() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    fs::create_dir(desk.dir.path().join("out/web/..0123456789abcdef.0")).unwrap();
    assert!(desk.is_due().await);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn that_what_is_in_place_of_it_ends_is_told() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let before = desk.keep().issued("web").unwrap().unwrap().facts().unwrap().fingerprint;
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    authority.begin(BEGIN + LIFE * 2 / 3);
    dies(&mut desk, die_once_it_is_kept).await;
    desk.observe().await.unwrap();
    assert_eq!(desk.health().await, Health::Healthy, "it lasts for a while");
    let facts = desk.facts().await;
    let told = facts.iter().find(|fact| &*fact.name == "in its place").unwrap();
    assert!(told.value.starts_with(&before), "{told:?}");
    desk.clock.advance(Duration::from_secs(LIFE / 3));
    let health = desk.health().await;
    let why = "in its place is another one, and it is over since";
    assert!(matches!(&health, Health::Degraded { why: told } if told.contains(why)), "{health:?}");
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(desk.health().await, Health::Healthy);
}
