//! Where a certificate is put, who is told of it, and what others may have put there.

use crate::{
    authority::{Authority, Fault, LIFE},
    strict,
    world::Desk,
};
use futures_util::FutureExt;
use reconciled_certificates::{
    key, sign,
    wish::{Issue, KeyKind, Solver},
    x509,
};
use reconciled_provider::{ErrorKind, Health, Outcome, Owner, Secret};
use reconciled_testkit::ports::NOBODY;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    panic::AssertUnwindSafe,
    path::PathBuf,
    process::Command,
    sync::Mutex,
    time::Duration,
};

#[track_caller]
fn error(outcome: &Outcome) -> &reconciled_provider::Error {
    outcome.error().unwrap_or_else(|| panic!("no error: {outcome:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_fails_has_no_other_one_told_again_and_nothing_of_our_environment_is_theirs() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.wish.reload = ["a.service", "bad.service", "c.service"].map(String::from).into();
    for _ in 0..2 {
        assert!(error(&desk.pass().await).message.contains("reload bad.service"));
        desk.restart();
    }
    let told = fs::read_to_string(desk.dir.path().join("reloaded")).unwrap();
    assert_eq!(told, "a.service\nbad.service\nc.service\nbad.service\n");
    let environment = fs::read_to_string(desk.dir.path().join("environment")).unwrap();
    assert!(environment.contains("PATH=") && !environment.contains("CARGO"), "{environment}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_put_back_although_its_renewal_fails_or_waits() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.wish.names.insert("b.a.example".into());
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers.push(("b.a.example".into(), Solver::Http));
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let key = desk.dir.path().join("out/web/tls.key");
    let before = fs::read(&key).unwrap();
    // One that is due, and one that is not as declared: it was asked for more names.
    desk.clock.advance(Duration::from_secs(LIFE * 3 / 4));
    desk.wish.names.remove("b.a.example");
    desk.wish.reload.insert("bad.service".into());
    authority.fail("order", Fault::Refused(429, "rateLimited", ""));
    fs::remove_file(&key).unwrap();
    let outcome = desk.pass().await;
    let text = error(&outcome).chain();
    assert!(text.contains("told to") && text.contains("reload bad.service"), "{text}");
    assert_eq!(fs::read(&key).unwrap(), before);
    let seen = String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap();
    assert!(seen.contains("dnsNames") && seen.contains("to be renewed since"), "{seen}");
    // While it waits for a record.
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.solvers = vec![("a.example".into(), Solver::Dns("dns".into(), None))];
    desk.wish.reload.clear();
    desk.clock.advance(Duration::from_secs(600));
    fs::remove_file(&key).unwrap();
    authority.offer("dns-01");
    let outcome = desk.pass().await;
    assert!(matches!(&outcome, Outcome::Pending { claims, .. } if !claims.is_empty()), "{outcome:?}");
    assert_eq!(fs::read(&key).unwrap(), before);
    // One that is over is of no use to anybody.
    fs::remove_file(&key).unwrap();
    desk.clock.advance(Duration::from_secs(LIFE / 4));
    assert!(matches!(desk.pass().await, Outcome::Pending { .. }));
    assert!(!key.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_put_there_later_is_copied_once() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let key = desk.dir.path().join("out/web/tls.key");
    for _ in 0..2 {
        fs::remove_file(&key).unwrap();
        fs::write(&key, "put there by hand").unwrap();
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    }
    assert!(matches!(desk.delete().await, Outcome::Gone));
    let copies = fs::read_dir(desk.dir.path().join("state/replaced/web")).unwrap();
    let copies: Vec<_> = copies.map(|copy| fs::read_to_string(copy.unwrap().path()).unwrap()).collect();
    assert_eq!(copies, ["put there by hand"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_others_are_there_are_not_followed_and_are_kept_before_they_are_replaced() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let (directory, live) = (desk.dir.path().join("out/web"), desk.dir.path().join("live"));
    fs::create_dir_all(&directory).unwrap();
    fs::create_dir(&live).unwrap();
    for name in ["tls.crt", "tls.key"] {
        fs::write(live.join(name), "theirs").unwrap();
        symlink(live.join(name), directory.join(name)).unwrap();
    }
    // So it is a conflict until a person adopts it.
    let seen = desk.observe().await.unwrap();
    let text = String::from_utf8(seen.bytes.to_vec()).unwrap();
    assert!(text.contains(&format!("tls.crt is a link to {}", live.join("tls.crt").display())), "{text}");
    assert_eq!(seen.owner, Owner::Unmarked);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(fs::read_to_string(live.join("tls.key")).unwrap(), "theirs");
    let copies = || {
        let copies = fs::read_dir(desk.dir.path().join("state/replaced/web")).unwrap();
        let mut copies: Vec<_> =
            copies.map(|copy| fs::read_to_string(copy.unwrap().path()).unwrap()).collect();
        copies.sort();
        copies
    };
    let expect = ["tls.crt", "tls.key"].map(|name| live.join(name).display().to_string());
    assert_eq!(copies(), expect);
    // One that is put there later.
    fs::remove_file(directory.join("tls.key")).unwrap();
    symlink("/nowhere", directory.join("tls.key")).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert!(copies().contains(&"/nowhere".to_owned()) && desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied_is_there_and_not_replaced() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let key = desk.dir.path().join("out/web/tls.key");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    fs::File::create(&key).unwrap().set_len(2 << 20).unwrap();
    let seen = desk.observe().await.unwrap();
    assert!(String::from_utf8_lossy(&seen.bytes).contains("tls.key is larger than any certificate"));
    assert!(error(&desk.pass().await).hint.as_ref().unwrap().contains("move it away"));
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    assert!(desk.observe().await.is_some());
    assert!(error(&desk.pass().await).message.contains("tls.key is no file"));
    assert_eq!(authority.counts(), (0, 0), "nothing is asked for that could not be put anywhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_program_calls_as_we_do_stays() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let directory = desk.dir.path().join("out/web");
    // As a kubelet has it.
    fs::create_dir_all(directory.join("..2026_01_02_03_04_05.123")).unwrap();
    fs::write(directory.join("..2026_01_02_03_04_05.123/tls.key"), "theirs").unwrap();
    symlink("..2026_01_02_03_04_05.123", directory.join("..data")).unwrap();
    symlink("..data/tls.key", directory.join("tls.key")).unwrap();
    let seen = desk.observe().await.unwrap();
    assert!(String::from_utf8_lossy(&seen.bytes).contains("tls.key is a link to ..data/tls.key"));
    let outcome = desk.pass().await;
    assert!(error(&outcome).message.contains("..data was put there by another program"), "{outcome:?}");
    assert_eq!(fs::read_to_string(directory.join("tls.key")).unwrap(), "theirs");
    // Beside it, directories whose names begin as ours do stay.
    fs::remove_file(directory.join("..data")).unwrap();
    fs::create_dir(directory.join("..0123456789abcdef.7")).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert!(directory.join("..2026_01_02_03_04_05.123/tls.key").exists());
    assert!(!directory.join("..0123456789abcdef.7").exists(), "one of ours that nobody reads");
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(directory.join("..2026_01_02_03_04_05.123/tls.key").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_says_whose_a_directory_is_and_anything_else_there_is_neither_followed_nor_repeated() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let directory = desk.dir.path().join("out/web");
    let mark = directory.join("..certificate");
    fs::create_dir_all(&directory).unwrap();
    let secret = desk.dir.path().join("secret");
    fs::write(&secret, "the canary").unwrap();
    symlink(&secret, &mark).unwrap();
    let outcome = desk.pass().await;
    assert!(error(&outcome).message.contains("no mark of ours"), "{outcome:?}");
    fs::remove_file(&mark).unwrap();
    fs::write(&mark, "the canary").unwrap();
    let outcome = desk.pass().await;
    let text = format!("{} {:?}", error(&outcome).chain(), error(&outcome).hint);
    assert!(text.contains("another certificate is put") && !text.contains("canary"), "{text}");
    fs::write(&mark, "cert/other").unwrap();
    assert!(error(&desk.pass().await).message.contains("certificate cert/other is put"));
    // A disk that was full left an empty one.
    fs::write(&mark, "").unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(fs::read_to_string(&mark).unwrap(), "cert/web instance=here");
    assert!(!directory.join("..certificate.new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_put_where_others_may_write() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let above = desk.dir.path().join("out");
    fs::create_dir(&above).unwrap();
    fs::set_permissions(&above, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(error(&desk.go_on().await).kind, ErrorKind::PermissionDenied);
    assert!(!above.join("web").exists());
    fs::set_permissions(&above, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_may_be_put_below_a_sticky_directory() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let above = desk.dir.path().join("out");
    fs::create_dir(&above).unwrap();
    fs::set_permissions(&above, fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    // It is put back from what is kept, and taken away.
    fs::remove_dir_all(above.join("web")).unwrap();
    assert!(!desk.is_in_sync().await);
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!above.join("web").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_adopted_is_kept_by_one_pass_more() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    fs::remove_dir_all(desk.dir.path().join("state")).unwrap();
    desk.restart();
    assert!(desk.is_in_sync().await, "so it can be adopted");
    let seen = desk.observe_tracked().await.unwrap();
    assert!(String::from_utf8_lossy(&seen.bytes).contains("adopted, and not kept yet"));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert!(desk.keep().issued("web").unwrap().is_some() && authority.counts() == (1, 1));
    assert!(Some(desk.observe_tracked().await.unwrap().hash) == desk.observe().await.map(|seen| seen.hash));
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_does_not_answer_may_be_waiting_for_its_certificate() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.wish.serve = [format!("127.0.0.1:{NOBODY}")].into();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(desk.health().await, Health::Unknown);
    desk.clock.advance(Duration::from_secs(LIFE));
    assert!(matches!(desk.health().await, Health::Degraded { .. }), "that it is over counts more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_whose_name_cannot_be_repeated_signs_nothing() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let ca = |subject: &str| {
        let output = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-keyout", "ca.key", "-out", "ca.crt", "-days", "3650", "-subj", subject])
            .current_dir(desk.dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let read = |name: &str| fs::read_to_string(desk.dir.path().join(name)).unwrap();
        sign::Ca { chain: read("ca.crt"), key: Secret::new(read("ca.key").into_bytes()) }
    };
    let key = key::make(KeyKind::Ecdsa(256)).await.unwrap();
    let wish = reconciled_certificates::wish::Wish { duration: 86_400, ..desk.wish.clone() };
    let signed = |ca: sign::Ca| sign::signed(&wish, &key, &ca, strict::now());
    assert!(signed(ca("/O=Lab/OU=one/CN=Lab")).is_ok());
    let error = signed(ca("/OU=one/OU=two/CN=Lab")).unwrap_err();
    assert!(error.message.contains("cannot be repeated exactly"), "{}", error.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_written_in_its_older_form_where_that_is_wanted_and_taken_over_from_it() {
    for stays_old in [true, false] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        (desk.wish.output.pkcs1, desk.wish.output.combined) = (true, true);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
        let directory = desk.dir.path().join("out/web");
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        let (chain, key) = (read("tls.crt"), read("tls.key"));
        assert!(key.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "its first line is another one");
        assert_eq!(read("tls-combined.pem"), format!("{key}{chain}"));
        assert!(
            desk.keep()
                .issued("web")
                .unwrap()
                .unwrap()
                .key
                .secret()
                .reveal_str()
                .unwrap()
                .contains("BEGIN PRIVATE")
        );
        // What another program put there.
        assert!(matches!(desk.delete().await, Outcome::Gone));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("tls.crt"), &chain).unwrap();
        fs::write(directory.join("tls.key"), &key).unwrap();
        for name in ["tls.crt", "tls.key"] {
            let mode = if name == "tls.key" { 0o600 } else { 0o644 };
            fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        (desk.wish.output.pkcs1, desk.wish.output.combined) = (stays_old, false);
        desk.restart();
        assert!(desk.is_in_sync().await, "it is the same key");
        assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
        assert_eq!(read("tls.key") == key, stays_old);
        assert_eq!((read("tls.crt"), authority.counts().1), (chain, 1), "it is the same certificate");
    }
}

/// Where a pair is looked at whenever a place is passed at which the process may die; it dies at the last of so many.
static PAIR: Mutex<Option<(PathBuf, usize)>> = Mutex::new(None);

fn look_at_pair(place: &str) {
    let mut pair = PAIR.lock().unwrap();
    let Some((directory, left)) = &mut *pair else { return };
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let public = key::public("it", &Secret::new(read("tls.key").into_bytes())).unwrap();
    assert_eq!(x509::leaf("it", &read("tls.crt")).unwrap().public, public, "{place}");
    *left -= 1;
    if *left == 0 {
        *pair = None;
        drop(pair);
        // As a panic, without a word about it.
        std::panic::resume_unwind(Box::new(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_of_others_is_replaced_at_one_moment_wherever_the_process_dies() {
    let theirs = rcgen::generate_simple_self_signed(["b.example".to_owned()]).unwrap();
    for are_links in [false, true] {
        let mut places = 1;
        loop {
            let authority = Authority::start();
            let mut desk = Desk::new(&authority);
            desk.wish.output.combined = true;
            let directory = desk.dir.path().join("out/web");
            let place = if are_links { desk.dir.path().join("live") } else { directory.clone() };
            fs::create_dir_all(&directory).unwrap();
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("tls.crt"), theirs.cert.pem()).unwrap();
            fs::write(place.join("tls.key"), theirs.key_pair.serialize_pem()).unwrap();
            if are_links {
                symlink("../../live/tls.crt", directory.join("tls.crt")).unwrap();
                symlink(place.join("tls.key"), directory.join("tls.key")).unwrap();
            }
            desk.passed = look_at_pair;
            desk.restart();
            *PAIR.lock().unwrap() = Some((directory.clone(), places));
            let died = AssertUnwindSafe(desk.passes(3)).catch_unwind().await.is_err();
            let is_over = PAIR.lock().unwrap().take().is_some();
            assert_eq!(died, !is_over, "place {places}: a pair is torn");
            desk.restart();
            assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_in_sync().await);
            let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
            assert_eq!(read("tls-combined.pem"), format!("{}{}", read("tls.key"), read("tls.crt")));
            let versions = fs::read_dir(&directory).unwrap().flatten();
            let versions = versions.filter(|entry| entry.file_type().unwrap().is_dir()).count();
            // One that was there before the last link was switched goes with the next certificate.
            assert!(versions <= 2 && place.join("tls.key").exists(), "place {places}: {versions} versions");
            if is_over {
                break;
            }
            places += 1;
        }
        // Between the two links, and before and after them.
        assert!(places > 8, "only {places} places");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_ends_in_the_middle_of_a_line_is_put_before_its_chain_all_the_same() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let directory = desk.dir.path().join("out/web");
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let (chain, key) = (read("tls.crt"), read("tls.key"));
    assert!(matches!(desk.delete().await, Outcome::Gone));
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("tls.crt"), &chain).unwrap();
    fs::write(directory.join("tls.key"), key.trim_end()).unwrap();
    for (name, mode) in [("tls.crt", 0o644), ("tls.key", 0o600)] {
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    desk.wish.output.combined = true;
    desk.restart();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!((read("tls-combined.pem"), authority.counts().1), (format!("{key}{chain}"), 1));
}
