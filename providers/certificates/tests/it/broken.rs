//! Files of the state directory that are cut off: what does not need them goes on.

use crate::{
    authority::{Authority, BEGIN, Fault, LIFE},
    faults::error,
    renewals::move_account_away,
    unplaced::make_theirs,
    world::Desk,
};
use reconciled_provider::{Health, Outcome, Owner, Sealed};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

const UNANSWERED: Fault = Fault::Refused(500, "serverInternal", "");

fn state(desk: &Desk, file: &str) -> PathBuf {
    desk.dir.path().join("state").join(file)
}

fn key(desk: &Desk) -> PathBuf {
    desk.dir.path().join("out/web/tls.key")
}

fn cut(path: &Path) {
    let content = fs::read(path).unwrap();
    fs::write(path, &content[..content.len() / 2]).unwrap();
}

/// What is seen, in words.
async fn seen(desk: &Desk) -> String {
    String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap()
}

async fn degraded(desk: &Desk) -> String {
    match desk.health().await {
        Health::Degraded { why } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_a_certificate_and_broken_is_set_aside_and_the_pair_in_place_kept() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let (file, before) = (state(&desk, "certificates/web/issued.json"), fs::read(key(&desk)).unwrap());
    cut(&file);
    let broken = fs::read(&file).unwrap();
    // It is told with its end before anything is done about it, and nobody changed what is declared.
    let text = seen(&desk).await;
    assert!(text.contains("issued.json is broken"), "{text}");
    assert!(desk.observe().await.unwrap().owner == Owner::Ours && desk.is_due().await);
    let why = degraded(&desk).await;
    assert!(why.contains("issued.json is broken"), "{why}");
    assert_eq!(desk.end().await, Some(Duration::from_secs(BEGIN + LIFE)));
    assert!(desk.facts().await.iter().any(|fact| &*fact.name == "broken"));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert!(desk.is_in_sync().await && desk.is_healthy().await);
    assert_eq!(fs::read(file.with_extension("json.broken")).unwrap(), broken);
    // What is kept from then on heals.
    fs::remove_file(key(&desk)).unwrap();
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!((fs::read(key(&desk)).unwrap(), authority.counts()), (before, (1, 1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_and_due_is_healed_and_told_with_its_end_until_another_one_is_there() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let before = fs::read(key(&desk)).unwrap();
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    cut(&state(&desk, "certificates/web/issued.json"));
    (0..2).for_each(|_| authority.fail("order", UNANSWERED));
    assert!(desk.pass().await.error().is_some());
    fs::remove_file(key(&desk)).unwrap();
    assert!(desk.pass().await.error().is_some());
    assert_eq!(fs::read(key(&desk)).unwrap(), before);
    assert_eq!(desk.end().await, Some(Duration::from_secs(BEGIN + LIFE)));
    authority.begin(BEGIN + LIFE * 2 / 3);
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)));
    assert_eq!(desk.end().await, Some(Duration::from_secs(BEGIN + LIFE * 2 / 3 + LIFE)));
    assert_eq!(authority.counts(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_nowhere_else_is_made_anew_but_where_it_has_to_stay() {
    for has_to_stay in [false, true] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        desk.wish.keep_key = has_to_stay;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        let file = state(&desk, "certificates/web/issued.json");
        cut(&file);
        fs::remove_file(fs::canonicalize(key(&desk)).unwrap()).unwrap();
        if has_to_stay {
            let error = desk.look_as_a_pass(&Sealed::default()).await.unwrap_err();
            let (text, path) = (error.chain(), file.display().to_string());
            assert!(text.contains(&path) && text.contains("which has to stay"), "{text}");
            assert!(error.hint.as_ref().unwrap().contains("from a backup") && !error.kind.stalls());
            assert_eq!(authority.counts(), (1, 1));
            // A person has said that it is lost.
            fs::rename(&file, file.with_extension("json.broken")).unwrap();
        }
        assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_in_sync().await);
        assert!(file.with_extension("json.broken").exists() && key(&desk).exists());
        assert_eq!(authority.counts(), (2, 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_has_to_stay_stays_where_its_pair_is_in_place_and_another_certificate_is_due() {
    for (is_adopted, has_died) in [(false, true), (true, false), (true, true)] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        desk.wish.keep_key = true;
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        if is_adopted {
            make_theirs(&desk.dir.path().join("out/web"));
            assert!(matches!(desk.pass().await, Outcome::Done(_)));
        }
        let (file, before) = (state(&desk, "certificates/web/issued.json"), fs::read(key(&desk)).unwrap());
        desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
        authority.begin(BEGIN + LIFE * 2 / 3);
        match has_died {
            // Once it was set aside, and before what takes its place was kept.
            true => fs::rename(&file, file.with_extension("json.broken")).unwrap(),
            false => cut(&file),
        }
        assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_in_sync().await);
        let label = format!("adopted: {is_adopted}, died: {has_died}");
        assert_eq!((fs::read(key(&desk)).unwrap(), authority.counts()), (before, (2, 2)), "{label}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_an_earlier_version_marked_is_ours_also_once_what_was_kept_is_set_aside() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    desk.clock.advance(Duration::from_secs(LIFE * 2 / 3));
    authority.begin(BEGIN + LIFE * 2 / 3);
    cut(&state(&desk, "certificates/web/issued.json"));
    let mark = desk.dir.path().join("out/web/..certificate");
    fs::write(&mark, "cert/web").unwrap();
    // Another one is due, and takes more than one pass.
    authority.fail("order", UNANSWERED);
    assert!(desk.pass().await.error().is_some());
    assert!(desk.keep().issued("web").unwrap().is_some(), "the pair in place is kept");
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(fs::read_to_string(&mark).unwrap(), "cert/web instance=here");
    assert_eq!(authority.counts(), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_renamed_manifest_has_takes_the_place_of_what_is_broken_under_its_new_name() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    let (file, before) = (state(&desk, "certificates/site/issued.json"), fs::read(key(&desk)).unwrap());
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{").unwrap();
    assert!(desk.look("web", false).await.is_some() && desk.look("site", true).await.is_none());
    assert!(matches!(desk.pass_of("site").await, Outcome::Pending { .. }));
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(matches!(desk.pass_of("site").await, Outcome::Done(_)));
    assert_eq!((fs::read(key(&desk)).unwrap(), authority.counts()), (before, (1, 1)));
    assert!(desk.keep().issued("site").unwrap().is_some() && file.with_extension("json.broken").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_and_is_broken_is_not_let_go_of_by_a_step_that_comes_to_nothing() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("authz", UNANSWERED);
    assert!(desk.pass().await.error().is_some());
    let file = state(&desk, "certificates/web/attempt.json");
    cut(&file);
    let broken = fs::read(&file).unwrap();
    let directory = desk.dir.path().join("out/web");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("..certificate"), "cert/db").unwrap();
    let outcome = desk.pass().await;
    assert!(matches!(outcome, Outcome::Unknown(_)), "an order may be left: {outcome:?}");
    assert_eq!(fs::read(&file).unwrap(), broken);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_or_asked_for_and_is_broken_costs_an_order_and_no_more() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    authority.fail("authz", UNANSWERED);
    assert!(desk.pass().await.error().is_some());
    let file = state(&desk, "certificates/web/attempt.json");
    cut(&file);
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(file.with_extension("json.broken").exists());
    assert_eq!(authority.counts(), (2, 1));
    let file = state(&desk, "certificates/web/renew.json");
    fs::write(&file, "{\"f").unwrap();
    let text = seen(&desk).await;
    assert!(text.contains("renew.json is broken") && desk.is_healthy().await, "{text}");
    fs::remove_file(key(&desk)).unwrap();
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(file.with_extension("json.broken").exists() && key(&desk).exists());
    // What says until when to wait is as good as not there.
    for file in ["refusals.json", "busy.json", "outage.json", "lasting.json"] {
        fs::write(state(&desk, "certificates/web").join(file), "{").unwrap();
    }
    assert!(desk.is_in_sync().await && !desk.facts().await.is_empty());
    desk.renew().await;
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)));
    assert_eq!(authority.counts(), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_is_broken_is_named_and_keeps_nothing_back_but_orders() {
    for is_key_alone in [false, true] {
        let authority = Authority::start();
        let mut desk = Desk::new(&authority);
        assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
        let file = fs::read_dir(state(&desk, "accounts")).unwrap().next().unwrap().unwrap().path();
        match is_key_alone {
            true => {
                let mut account: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
                account["key"] = "AAAA".into();
                fs::write(&file, account.to_string()).unwrap();
            }
            false => cut(&file),
        }
        desk.restart();
        assert!(desk.is_in_sync().await);
        fs::remove_file(key(&desk)).unwrap();
        assert!(matches!(desk.pass().await, Outcome::Done(_)) && key(&desk).exists());
        let (why, path) = (degraded(&desk).await, file.display().to_string());
        assert!(why.contains(&path) && why.contains("move it away"), "{why}");
        assert_eq!(desk.end().await, Some(Duration::from_secs(BEGIN + LIFE)));
        let told = desk.facts().await.into_iter().find(|fact| &*fact.name == "account").unwrap();
        assert!(told.value.contains(&path), "{}", told.value);
        desk.renew().await;
        let outcome = desk.pass().await;
        let error = error(&outcome);
        assert!(error.chain().contains(&path) && !error.kind.stalls(), "{}", error.chain());
        assert!(error.hint.as_ref().unwrap().contains("move it away"));
        assert_eq!(authority.counts(), (1, 1));
        move_account_away(&desk);
        assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_healthy().await);
        assert_eq!(authority.counts(), (2, 2));
    }
}
