//! The PKCS #12 file, as the real `openssl pkcs12` reads it.

use crate::{authority::Authority, world::Desk};
use reconciled_certificates::wish::Keystore;
use reconciled_provider::{Cx, ErrorKind, Outcome, SecretRef};
use reconciled_testkit::context::TableSecrets;
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command, sync::Arc};

/// The host has this password from now on, and the certificate is declared with it.
fn set_password(desk: &mut Desk, password: impl AsRef<[u8]>) {
    let password = password.as_ref();
    let table = TableSecrets([(SecretRef::Named("p12".into()), password.to_vec())].into());
    desk.cx = Cx { secrets: Arc::new(table), ..desk.cx.clone() };
    let mark = desk.cx.secrets.mark(password).0;
    desk.wish.output.keystore = Some(Keystore { secret: "p12".into(), mark });
}

fn file(desk: &Desk) -> PathBuf {
    desk.dir.path().join("out/web/keystore.p12")
}

/// What OpenSSL says of the file, and whether it can be read with this password.
fn openssl(desk: &Desk, password: &str, args: &[&str]) -> (bool, String) {
    let mut command = Command::new("openssl");
    command.arg("pkcs12").arg("-in").arg(file(desk)).args(["-passin", "env:PASSWORD"]).args(args);
    let output = command.env("PASSWORD", password).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_holds_what_the_others_hold_and_is_made_once() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    set_password(&mut desk, "first");
    desk.wish.reload = ["app.service".to_owned()].into();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let read = |name: &str| fs::read_to_string(desk.dir.path().join("out/web").join(name)).unwrap();
    let (is_read, text) = openssl(&desk, "first", &["-info", "-noout"]);
    assert!(is_read, "{text}");
    for part in ["MAC: sha256, Iteration 10000", "AES-256-CBC, Iteration 10000, PRF hmacWithSHA256"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!openssl(&desk, "second", &["-noout"]).0);
    let (_, leaf) = openssl(&desk, "first", &["-nokeys", "-clcerts"]);
    assert!(leaf.contains(&read("tls.crt")) && leaf.contains("friendlyName: certificate"), "{leaf}");
    let (_, key) = openssl(&desk, "first", &["-nocerts", "-noenc"]);
    assert!(key.contains(&read("tls.key")), "another key");
    assert_eq!(fs::metadata(file(&desk)).unwrap().permissions().mode() & 0o7777, 0o600);
    // Nothing is left to do, and what is done again leaves it as it is.
    let (before, link) = (fs::read(file(&desk)).unwrap(), desk.dir.path().join("out/web/..data"));
    let version = fs::read_link(&link).unwrap();
    desk.restart();
    assert!(desk.is_in_sync().await);
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((fs::read(file(&desk)).unwrap(), fs::read_link(&link).unwrap()), (before.clone(), version));
    // What happens to the file is mended with the same file: nobody has to be given another one.
    for content in [None, Some("cut off")] {
        let real = fs::canonicalize(file(&desk)).unwrap();
        match content {
            Some(content) => fs::write(real, content).unwrap(),
            None => fs::remove_file(real).unwrap(),
        }
        assert!(!desk.is_in_sync().await);
        assert!(matches!(desk.pass().await, Outcome::Done(_)));
        assert_eq!(fs::read(file(&desk)).unwrap(), before);
    }
    assert_eq!(authority.counts().1, 1, "one certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_password_makes_another_file_and_no_certificate() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    fs::write(file(&desk), "theirs").unwrap();
    assert!(desk.is_in_sync().await, "what nobody asked for is no matter of ours");
    desk.wish.reload = ["app.service".to_owned()].into();
    for (password, told) in [("first", "app.service\n"), ("second", "app.service\napp.service\n")] {
        set_password(&mut desk, password);
        let seen = String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap();
        assert!(seen.contains("keystore.p12 is not of this certificate, or has another password"), "{seen}");
        assert!(matches!(desk.pass().await, Outcome::Done(_)));
        assert!(openssl(&desk, password, &["-noout"]).0 && desk.is_in_sync().await);
        assert_eq!(fs::read_to_string(desk.dir.path().join("reloaded")).unwrap(), told);
    }
    let copy = fs::read_dir(desk.dir.path().join("state/replaced/web")).unwrap().next().unwrap().unwrap();
    assert_eq!(fs::read_to_string(copy.path()).unwrap(), "theirs");
    desk.renew().await;
    let before = fs::read_to_string(desk.dir.path().join("out/web/tls.crt")).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let (_, leaf) = openssl(&desk, "second", &["-nokeys", "-clcerts"]);
    assert!(!leaf.contains(&before), "it is that of the renewed certificate");
    desk.wish.output.keystore = None;
    assert!(!desk.is_in_sync().await);
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert!(fs::symlink_metadata(file(&desk)).is_err() && desk.is_in_sync().await);
    assert_eq!(authority.counts().1, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_cannot_be_used_leaves_all_files_as_they_are() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    set_password(&mut desk, "first");
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let before = fs::read(file(&desk)).unwrap();
    set_password(&mut desk, "canary\0more");
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap_or_else(|| panic!("no error: {outcome:?}"));
    assert!(error.message.contains("secret p12") && !error.chain().contains("canary"), "{}", error.chain());
    assert_eq!(fs::read(file(&desk)).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ordered_for_a_password_that_cannot_be_used() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let bad = [&b"canary\xff"[..], b"canary\0more", b""];
    for password in bad {
        set_password(&mut desk, password);
        let error = desk.refusal().await.unwrap();
        assert!(error.message.contains("secret p12") && !error.chain().contains("canary"), "{error}");
        assert!(error.kind == ErrorKind::Invalid && error.hint.is_some());
    }
    set_password(&mut desk, "first");
    assert!(desk.refusal().await.is_none());
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    // Nor where another one is due: it could be put nowhere.
    set_password(&mut desk, bad[0]);
    desk.renew().await;
    assert!(desk.refusal().await.is_some());
    assert_eq!(authority.counts(), (1, 1));
}
