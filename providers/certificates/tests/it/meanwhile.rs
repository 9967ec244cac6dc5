//! What others do to a directory while a certificate is put there: nothing of it is lost, and none of theirs is taken for ours.

use crate::{authority::Authority, world::Desk};
use reconciled_certificates::wish::{Issue, Solver};
use reconciled_provider::{ErrorKind, Outcome};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Puts a file there in place of what has its name.
fn put(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}

/// Where somebody puts a key of their own once this place is passed.
static KEY: Mutex<Option<(&str, PathBuf)>> = Mutex::new(None);

fn meddle(place: &str) {
    let mut key = KEY.lock().unwrap();
    if key.as_ref().is_some_and(|(at, _)| *at == place)
        && let Some((_, path)) = key.take()
    {
        put(&path, "put there meanwhile");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_puts_there_on_the_way_is_copied_before_it_is_replaced() {
    for (place, is_theirs) in
        [("certificate.draft", false), ("certificate.draft", true), ("certificate.link", true)]
    {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        let directory = desk.dir.path().join("out/web");
        match is_theirs {
            true => {
                fs::create_dir_all(&directory).unwrap();
                ["tls.crt", "tls.key"].iter().for_each(|name| put(&directory.join(name), "theirs"));
            }
            false => {
                assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
                desk.renew().await;
            }
        }
        desk.passed = meddle;
        desk.restart();
        *KEY.lock().unwrap() = Some((place, directory.join("tls.key")));
        desk.pass().await;
        assert!(KEY.lock().unwrap().is_none(), "{place} was not passed");
        assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_in_sync().await, "{place}");
        let copies = fs::read_dir(desk.dir.path().join("state/replaced/web")).unwrap();
        let copies: BTreeSet<String> =
            copies.map(|copy| fs::read_to_string(copy.unwrap().path()).unwrap()).collect();
        assert!(copies.contains("put there meanwhile"), "{place}: {copies:?}");
        assert_eq!(copies.contains("theirs"), is_theirs, "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_without_a_mark_is_another_ones_where_its_version_is() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let directory = desk.dir.path().join("out/web");
    // Of another instance, say, whose mark somebody took away.
    let version = directory.join("..0123456789abcdef.0");
    fs::create_dir(&version).unwrap();
    fs::write(version.join("tls.key"), "theirs").unwrap();
    fs::remove_file(directory.join("..data")).unwrap();
    symlink("..0123456789abcdef.0", directory.join("..data")).unwrap();
    fs::remove_file(directory.join("..certificate")).unwrap();
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert_eq!(fs::read_to_string(directory.join("tls.key")).unwrap(), "theirs");
    assert!(!directory.join("..certificate").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_may_not_be_put_there_is_not_looked_for_there_either() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let webroot = desk.dir.path().join("www");
    let below = webroot.join(".well-known/acme-challenge");
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Webroot(webroot.display().to_string()))];
    fs::create_dir_all(&below).unwrap();
    let open = |mode| fs::set_permissions(&below, fs::Permissions::from_mode(mode)).unwrap();
    open(0o777);
    let outcome = desk.pass().await;
    assert_eq!(outcome.error().unwrap().kind, ErrorKind::PermissionDenied, "{outcome:?}");
    let attempt = desk.keep().attempt("web").unwrap().unwrap();
    assert!(attempt.order.is_some() && attempt.answers.is_empty() && attempt.made.is_empty());
    // Nor is anything removed through a link that took the place of the directory since.
    open(0o755);
    authority.fail("challenge", crate::authority::Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    let elsewhere = desk.dir.path().join("elsewhere");
    fs::rename(&below, &elsewhere).unwrap();
    symlink(&elsewhere, &below).unwrap();
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
}
