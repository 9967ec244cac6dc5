//! What lasts: counts of what an authority gives, keys of accounts, files while a manifest is renamed, and moments.

use crate::{
    authority::{Authority, BEGIN, Fault, LIFE},
    world::Desk,
};
use futures_util::{FutureExt, StreamExt};
use reconciled_certificates::{
    config::Limits,
    wish::{Issue, KeyKind, Solver},
};
use reconciled_provider::{ErrorKind, Hash, Outcome};
use serde_json::Value;
use std::{fs, os::unix::fs::symlink, panic::AssertUnwindSafe, path::Path, process::Command, time::Duration};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_of_a_file_counts_until_it_is_another_one() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let path = desk.dir.path().join("state/certificates/web/issued.json");
    let first = fs::read_to_string(&path).unwrap();
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let second = fs::read_to_string(&path).unwrap();
    let [of_first, mut mixed] = [&first, &second].map(|text| serde_json::from_str::<Value>(text).unwrap());
    mixed["key"] = of_first["key"].clone();
    for (kept, trouble) in [(mixed.to_string(), "is not one of its key"), (first, "is not what was issued")] {
        fs::write(&path, kept).unwrap();
        let seen = String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap();
        assert!(seen.contains(trouble), "{seen}");
    }
    fs::write(&path, second).unwrap();
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_file_instead_is_told_apart_and_not_told() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let path = desk.dir.path().join("out/web/tls.key");
    let (name, issued) = (fs::read_link(&path).unwrap(), fs::read(&path).unwrap());
    let mut seen = Vec::new();
    for text in ["one", "another", "one"] {
        fs::write(&path, text).unwrap();
        let observed = desk.observe().await.unwrap();
        let bytes = String::from_utf8(observed.bytes.to_vec()).unwrap();
        assert!(bytes.contains("tls.key is not what was issued") && !bytes.contains(text), "{bytes}");
        assert!(!bytes.contains(&Hash::of(text.as_bytes()).to_string()), "{bytes}");
        seen.push(observed.hash);
    }
    fs::write(&path, issued).unwrap();
    for to in ["/one", "/another"] {
        fs::remove_file(&path).unwrap();
        symlink(to, &path).unwrap();
        seen.push(desk.observe().await.unwrap().hash);
    }
    assert!(seen[0] == seen[2] && seen[0] != seen[1] && seen[3] != seen[4]);
    fs::remove_file(&path).unwrap();
    symlink(name, &path).unwrap();
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_authority_gives_is_counted_whatever_else_is_wished_for() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.limits = Some(Limits::LetsEncrypt);
    desk.restart();
    // Not one of them replaces another: each is of another key, and the one before is gone.
    for number in 0..5 {
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{number}");
        assert!(matches!(desk.delete().await, Outcome::Gone));
        desk.wish.key = if number % 2 == 0 { KeyKind::Ed25519 } else { KeyKind::Ecdsa(256) };
        desk.restart();
    }
    let outcome = desk.pass().await;
    let error = outcome.error().unwrap();
    assert_eq!((error.kind, authority.counts()), (ErrorKind::RateLimited, (5, 5)));
    assert!(error.message.contains("gives 5 certificates for exactly these names"), "{}", error.message);
    let wait = error.retry_after.unwrap();
    assert!(wait > Duration::from_secs(33 * 3_600) && wait <= Duration::from_secs(34 * 3_600), "{wait:?}");
    assert_eq!(desk.keep().busy("web").unwrap(), None, "nobody asked to be left alone");
    // Other names are another matter, and so is a renewal that says what it replaces.
    desk.clock.advance(wait);
    authority.begin(BEGIN + wait.as_secs());
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    for _ in 0..3 {
        desk.renew().await;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    }
    assert_eq!(authority.counts(), (9, 9));
}

/// A pass over a certificate in a directory of its own.
async fn pass_in(desk: &mut Desk, name: &str) -> Outcome {
    desk.wish.output.directory = desk.dir.path().join("out").join(name).display().to_string();
    let outcome = desk.pass_of(name).await;
    desk.wish.output.directory = desk.dir.path().join("out/web").display().to_string();
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_are_under_way_count_until_they_are_refused() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.limits = Some(Limits::LetsEncrypt);
    desk.restart();
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        authority.fail("authz", Fault::Refused(500, "serverInternal", ""));
        assert_eq!(pass_in(&mut desk, name).await.error().unwrap().kind, ErrorKind::Unavailable);
    }
    let refused = pass_in(&mut desk, "f").await;
    assert!(
        refused.error().unwrap().message.contains("gives 5 certificates for exactly these"),
        "{refused:?}"
    );
    // One of an order that the authority refuses at once, or that comes to nothing, is given back.
    authority.refuse(true);
    assert!(matches!(pass_in(&mut desk, "a").await, Outcome::Pending { .. }));
    authority.refuse(false);
    authority.fail("order", Fault::Refused(400, "rejectedIdentifier", ""));
    assert!(matches!(pass_in(&mut desk, "f").await, Outcome::Pending { .. }));
    assert!(matches!(pass_in(&mut desk, "g").await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (6, 1));
    assert!(pass_in(&mut desk, "h").await.error().unwrap().message.contains("exactly these"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_does_not_replace_after_all_is_counted_as_any_other() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.limits = Some(Limits::LetsEncrypt);
    desk.restart();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    for name in ["b", "c", "d", "e"] {
        authority.fail("authz", Fault::Refused(500, "serverInternal", ""));
        assert!(pass_in(&mut desk, name).await.error().is_some());
    }
    authority.replaced();
    desk.renew().await;
    let outcome = desk.pass().await;
    assert!(outcome.error().unwrap().message.contains("exactly these"), "{outcome:?}");
    assert_eq!(authority.counts().0, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_for_a_name_are_counted_over_every_wish_for_it() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    desk.limits = Some(Limits::LetsEncrypt);
    desk.restart();
    authority.refuse(true);
    for number in 0..5 {
        desk.wish.key = if number % 2 == 0 { KeyKind::Ed25519 } else { KeyKind::Ecdsa(256) };
        assert!(matches!(desk.pass().await, Outcome::Pending { .. }), "{number}");
    }
    desk.wish.key = KeyKind::Ecdsa(384);
    desk.restart();
    let outcome = desk.pass().await;
    assert!(outcome.error().unwrap().message.contains("5 failures for a.example"), "{outcome:?}");
    assert_eq!(authority.counts().0, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_gets_another_key_in_time_and_none_is_lost_with_an_answer() {
    for fault in
        [None, Some(Fault::Lost), Some(Fault::Dropped), Some(Fault::Refused(500, "serverInternal", ""))]
    {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
        issuer.rotate = Some(86_400);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        assert_eq!(authority.rollovers(), 0);
        desk.clock.advance(Duration::from_secs(86_401));
        authority.begin(BEGIN + 86_400);
        desk.renew().await;
        if let Some(fault) = &fault {
            // Whatever connection is used once more after an answer that was lost is told the same.
            (0..2).for_each(|_| authority.fail("rollover", fault.clone()));
            assert!(desk.pass().await.error().is_some(), "{fault:?}");
            desk.restart();
        }
        assert!(matches!(desk.passes(4).await, Outcome::Done(_)), "{fault:?}");
        assert!(authority.rollovers() >= 1, "{fault:?}");
        let after = authority.rollovers();
        desk.renew().await;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{fault:?}: the new key is known");
        assert_eq!((authority.rollovers(), authority.counts()), (after, (3, 3)), "{fault:?}");
    }
}

/// A desk with a certificate whose account should have another key, and whose certificate another one.
async fn with_an_old_key(authority: &Authority) -> Desk {
    let mut desk = Desk::new(authority);
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    issuer.rotate = Some(86_400);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(86_401));
    authority.begin(BEGIN + 86_400);
    desk.renew().await;
    desk
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_forgot_everything_while_a_key_is_old_gives_certificates() {
    let authority = Authority::start();
    let mut desk = with_an_old_key(&authority).await;
    authority.forget_everything();
    desk.restart();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.rollovers()), ((2, 2), 0));
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.rollovers()), ((3, 3), 1), "and then it is changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_an_authority_and_declared_of_an_account_is_that_of_today() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.calls("dir"), authority.contact()), (1, Value::Null));
    // The process goes on, and the manifest says more.
    let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
    (issuer.rotate, issuer.email) = (Some(86_400), Some("ops@a.example".into()));
    desk.clock.advance(Duration::from_secs(86_401));
    authority.begin(BEGIN + 86_400);
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!((authority.calls("dir"), authority.rollovers()), (2, 1));
    authority.forget_everything();
    authority.fail("order", Fault::Refused(400, "accountDoesNotExist", ""));
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    assert_eq!(authority.contact()[0], "mailto:ops@a.example");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_the_authority_does_not_take_is_no_reason_to_issue_nothing() {
    // It refuses, and: nothing ever comes of it, in which case it is asked which key it knows.
    for (fault, status, most) in [("conflict", 409, 1), ("serverInternal", 500, 3)] {
        let authority = Authority::start();
        let mut desk = with_an_old_key(&authority).await;
        (0..20).for_each(|_| authority.fail("rollover", Fault::Refused(status, fault, "")));
        desk.restart();
        assert!(matches!(desk.passes(5).await, Outcome::Done(_)), "{fault}");
        desk.renew().await;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)), "{fault}");
        assert_eq!((authority.counts(), authority.calls("rollover")), ((3, 3), most), "{fault}");
        let told = desk.facts().await.into_iter().find(|fact| &*fact.name == "account key");
        assert!(told.is_some_and(|fact| fact.value.contains("told to")), "{fault}");
        desk.clock.advance(Duration::from_secs(86_400));
        desk.renew().await;
        assert!(matches!(desk.passes(5).await, Outcome::Done(_)), "{fault}: once a day");
        assert_eq!(authority.calls("rollover"), most + 1, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_forgot_everything_is_told_anew_also_in_the_middle_of_an_order() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("finalize", Fault::Refused(500, "serverInternal", ""));
    assert!(desk.pass().await.error().is_some());
    authority.forget_everything();
    authority.fail("orders", Fault::Refused(400, "accountDoesNotExist", ""));
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)));
    assert_eq!((authority.counts(), authority.calls("account")), ((2, 1), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_renamed_leaves_no_moment_without_files() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let file = desk.dir.path().join("out/web/tls.crt");
    let before = fs::read(&file).unwrap();
    // As a plan looks at it: the old one is not declared any more, and the new one waits.
    assert!(desk.look("web", false).await.is_some());
    assert!(desk.look("site", true).await.is_none());
    assert!(matches!(desk.pass_of("site").await, Outcome::Pending { .. }));
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(matches!(desk.pass_of("site").await, Outcome::Done(_)));
    let seen = desk.look("site", true).await.unwrap();
    assert_eq!((seen.owner, authority.counts()), (reconciled_provider::Owner::Ours, (1, 1)));
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(
        fs::read_to_string(desk.dir.path().join("out/web/..certificate")).unwrap(),
        "cert/site instance=here"
    );
    assert!(desk.keep().issued("web").unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_plan_has_seen_inherits_nothing() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    // A plan of manifests that never come into force.
    desk.look("web", false).await;
    assert!(desk.look("site", true).await.is_none());
    let outcome = desk.delete().await;
    let error = outcome.error().unwrap();
    assert_eq!((error.kind, error.retry_after), (ErrorKind::RateLimited, Some(Duration::from_secs(2))));
    assert!(
        error.message.contains("Certificate/web goes once Certificate/site has begun"),
        "{}",
        error.message
    );
    assert!(desk.dir.path().join("out/web/tls.crt").exists());
    desk.clock.advance(Duration::from_secs(60));
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!desk.dir.path().join("out/web").exists());
    assert!(desk.keep().issued("site").unwrap().is_none(), "no key is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_is_looked_at_again_when_it_was_looked_at_too_early() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.look("web", true).await;
    let seen = desk.look("site", true).await.unwrap();
    assert_eq!(
        seen.owner,
        reconciled_provider::Owner::Unmarked,
        "the other one is declared, as far as is known"
    );
    let mut hints = desk.hints();
    let (outcome, hint) = tokio::join!(desk.delete(), hints.next());
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(&*hint.unwrap().scope.name, "site");
    assert!(matches!(desk.pass_of("site").await, Outcome::Pending { .. }));
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(matches!(desk.pass_of("site").await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_heir_was_deleted_before_it_goes_alone() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.look("web", false).await;
    assert!(matches!(desk.pass_of("site").await, Outcome::Pending { .. }));
    desk.look("site", false).await;
    assert!(matches!(desk.delete_of("site").await, Outcome::Gone));
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!desk.dir.path().join("out/web").exists());
    assert!(desk.keep().issued("site").unwrap().is_none(), "no key is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_looks_at_is_not_waited_for_for_ever() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.restart();
    // A process that has just begun may look at it still; it does not, as nothing is tracked of it any more.
    assert!(desk.look("site", true).await.is_none());
    assert!(matches!(desk.pass_of("site").await, Outcome::Pending { .. }));
    desk.clock.advance(Duration::from_secs(60));
    let outcome = desk.pass_of("site").await;
    let error = outcome.error().unwrap();
    assert!(error.message.contains("is where certificate cert/web is put"), "{}", error.message);
    let hint = error.hint.as_ref().unwrap();
    assert!(hint.contains("of two that exchange theirs first one a third"), "{hint}");
    assert!(hint.contains("if that certificate is gone for good"), "{hint}");
    assert!(desk.look("site", true).await.is_some(), "so a plan says it too");
    // One that is about to go is waited for, the less often the longer it takes.
    desk.look("web", false).await;
    desk.clock.advance(Duration::from_secs(3_000));
    let outcome = desk.pass_of("site").await;
    assert!(
        matches!(outcome, Outcome::Pending { recheck_after, .. } if recheck_after.as_secs() == 300),
        "{outcome:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_renamed_has_what_it_had() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let mark = desk.dir.path().join("out/web/..certificate");
    // `state` is the directory of the former name, `new` that of today.
    desk.rename("new", "state");
    fs::write(&mark, "state/web").unwrap();
    let seen = desk.observe().await.unwrap();
    assert_eq!(seen.owner, reconciled_provider::Owner::Ours);
    assert!(String::from_utf8_lossy(&seen.bytes).contains("marked as state/web"));
    assert!(desk.dir.path().join("state").exists(), "who only looks moves nothing");
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert!(!desk.dir.path().join("state").exists());
    assert!(desk.keep().issued("web").unwrap().is_some() && desk.is_in_sync().await);
    assert_eq!(
        (fs::read_to_string(&mark).unwrap().as_str(), authority.counts()),
        ("new/web instance=here", (1, 1))
    );
    fs::write(&mark, "state/web").unwrap();
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!desk.dir.path().join("out/web").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_gone_keeps_nothing_from_being_deleted() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.wish.output.group = Some("no-such-group-here".into());
    let seen = desk.observe().await.unwrap();
    assert!(String::from_utf8_lossy(&seen.bytes).contains("there is no group"));
    assert_eq!(desk.pass().await.error().unwrap().kind, ErrorKind::Invalid);
    let kept = desk.keep().issued("web").unwrap().unwrap();
    let wish = desk.wish.clone();
    desk.keep().put_issued("web", &reconciled_certificates::kept::Issued { wish, ..kept }).unwrap();
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!desk.dir.path().join("out/web").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ordered_for_files_that_can_belong_to_nobody() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    for (owner, group) in [(Some("no-such-user-here"), None), (None, Some("no-such-group-here"))] {
        desk.wish.output.owner = owner.map(String::from);
        desk.wish.output.group = group.map(String::from);
        let error = desk.refusal().await.unwrap();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("here` on this host"), "{}", error.message);
    }
    desk.wish.output.group = None;
    assert!(desk.refusal().await.is_none());
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    // What is there is renewed all the same: it is kept until it can be put in place.
    desk.wish.output.owner = Some("no-such-user-here".into());
    assert!(desk.refusal().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_a_few_minutes_is_told_of_when_it_is_due_and_when_its_files_change() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    // It ends in two seconds more than half of its time.
    authority.live(600);
    desk.clock.advance(Duration::from_secs(237));
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let mut hints = desk.hints();
    assert!(desk.is_in_sync().await);
    let due = hints.next().await.unwrap();
    assert_eq!(&*due.scope.name, "web");
    fs::remove_file(desk.dir.path().join("out/web/tls.key")).unwrap();
    assert_eq!(&*hints.next().await.unwrap().scope.name, "web");
    // Through the link, where nothing happens to the directory itself.
    let crt = desk.dir.path().join("out/web/tls.crt");
    fs::write(&crt, "").unwrap();
    assert_eq!(&*hints.next().await.unwrap().scope.name, "web");
    assert!(!desk.is_in_sync().await);
}

/// Copies a directory, with what is in it.
fn copy_directory(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

/// A desk whose certificate was renewed since its state was copied, and that copy in place of the state.
async fn restored(authority: &Authority) -> (Desk, String) {
    let mut desk = Desk::new(authority);
    desk.wish.reload = ["app.service".to_owned()].into();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let (state, backup) = (desk.dir.path().join("state"), desk.dir.path().join("backup"));
    copy_directory(&state, &backup);
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    authority.begin(BEGIN + LIFE * 2 / 3);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let key = fs::read_to_string(desk.dir.path().join("out/web/tls.key")).unwrap();
    copy_directory(&backup, &state);
    desk.restart();
    assert!(!desk.is_in_sync().await);
    (desk, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_place_and_newer_than_a_state_that_was_restored_is_taken_over() {
    let authority = Authority::start();
    let (desk, key) = restored(&authority).await;
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert!(desk.is_in_sync().await && authority.counts() == (2, 2), "{:?}", authority.counts());
    assert_eq!(fs::read_to_string(desk.dir.path().join("out/web/tls.key")).unwrap(), key);
    let kept = desk.keep().issued("web").unwrap().unwrap();
    assert_eq!(kept.key.secret().reveal_str().unwrap(), key);
    assert!(kept.issuer.is_some() && !desk.dir.path().join("state/replaced").exists());
    let told = fs::read_to_string(desk.dir.path().join("reloaded")).unwrap();
    assert_eq!(told.lines().count(), 3, "nobody knows who was told of it");
}

pub(crate) fn die_once_it_is_kept(place: &str) {
    if place == "certificate.kept" {
        // As a panic, without a word about it.
        std::panic::resume_unwind(Box::new(()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_authority_dates_back_takes_the_place_of_what_was_signed_here_shortly_before() {
    for dies in [false, true] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        let acme = std::mem::replace(&mut desk.wish.issuer, Issue::SelfSigned);
        desk.wish.duration = LIFE;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        // It begins an hour before, and ends before what is in place.
        authority.begin(BEGIN - 3_600);
        (desk.wish.issuer, desk.wish.duration) = (acme, 0);
        if dies {
            desk.passed = die_once_it_is_kept;
            desk.restart();
            assert!(AssertUnwindSafe(desk.pass()).catch_unwind().await.is_err());
            desk.passed = |_| {};
            desk.restart();
        } else {
            // The records go before the files are put in place: that takes one pass more.
            authority.offer("dns-01");
            let Issue::Acme(issuer) = &mut desk.wish.issuer else { panic!() };
            issuer.solvers = vec![("a.example".into(), Solver::Dns("zones".into(), None))];
        }
        assert!(matches!(desk.carried(4).await, Outcome::Done(_)) && desk.is_in_sync().await);
        let kept = desk.keep().issued("web").unwrap().unwrap();
        let there = fs::read_to_string(desk.dir.path().join("out/web/tls.key")).unwrap();
        assert!(kept.issuer.as_ref() == Some(&desk.wish.issuer.identity()) && authority.counts() == (1, 1));
        assert_eq!(kept.key.secret().reveal_str().unwrap(), there);
        assert!(!desk.dir.path().join("state/replaced").exists(), "nothing of others was there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_place_and_newer_and_of_no_use_is_copied_before_it_is_replaced() {
    let authority = Authority::start();
    let (mut desk, key) = restored(&authority).await;
    desk.wish.key = KeyKind::Ed25519;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(authority.counts(), (3, 3));
    let copies = fs::read_dir(desk.dir.path().join("state/replaced/web")).unwrap();
    let copies: Vec<_> = copies.map(|copy| fs::read_to_string(copy.unwrap().path()).unwrap()).collect();
    assert!(copies.contains(&key), "{} copies", copies.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_wrote_into_a_version_of_ours_is_put_right_however_new_it_is() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let directory = desk.dir.path().join("out/web");
    let before = fs::read(directory.join("tls.key")).unwrap();
    let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
    let moment = |at: u64| time::OffsetDateTime::from_unix_timestamp(at as i64).unwrap();
    (params.not_before, params.not_after) = (moment(BEGIN + 50), moment(BEGIN + 2 * LIFE));
    let theirs = rcgen::KeyPair::generate().unwrap();
    fs::write(directory.join("tls.crt"), params.self_signed(&theirs).unwrap().pem()).unwrap();
    fs::write(directory.join("tls.key"), theirs.serialize_pem()).unwrap();
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(fs::read(directory.join("tls.key")).unwrap(), before);
}
