//! The helper while it has more to do than it can do at one time.

use crate::{desk::Desk, helper::Helper, units::wait_for};
use reconciled_local::{
    hands::{
        Afar, Fault, Hands, Make, Put, Stamp, What,
        wire::{Answer, Ask, Frames, Question, VERSION, send},
    },
    path::FilePath,
    state::Access,
};
use reconciled_provider::{ErrorKind, Secret};
use reconciled_testkit::PATIENCE;
use std::{fs, path::PathBuf};
use tokio::net::UnixStream;

fn path(text: &str) -> FilePath {
    FilePath::parse(text).unwrap()
}

/// A helper whose command `wait` leaves a name in the first directory, and ends once there is the second file.
fn that_waits(desk: &Desk) -> (Helper, PathBuf, PathBuf) {
    let (begun, go) = (desk.dir.path().join("begun"), desk.dir.path().join("go"));
    fs::create_dir(&begun).unwrap();
    let script = format!("touch {}/$$; until test -e {}; do sleep 0.05; done", begun.display(), go.display());
    let keys = format!("paths: [/etc]\ncommands: {{wait: [sh, -c, \"{script}\", \"{{file}}\"]}}\n");
    (Helper::of(desk, &keys), begun, go)
}

/// A file that is written once the command `wait` has ended.
fn waiting(name: &str, expect: Stamp) -> Put {
    let access = Access { owner: None, group: None, mode: 0o644 };
    let (content, validate) = (Secret::new(b"x".to_vec()), Some("wait".into()));
    let make = Make::File { access, content, validate, is_public: true };
    Put { path: path(&format!("/etc/{name}")), expect, make, keep: false }
}

#[tokio::test]
async fn whoever_looks_waits_for_no_flood_of_changes() {
    let desk = Desk::new();
    let (helper, begun, go) = that_waits(&desk);
    let afar = Afar::new(&helper.socket);
    let absent = afar.look(&[path("/etc/x")]).await.unwrap().remove(0).stamp();
    // Each asks by itself, as several daemons would.
    let mut asked = Vec::new();
    for number in 0..60 {
        let mut stream = UnixStream::connect(&helper.socket).await.unwrap();
        let ask = Ask::Put(waiting(&number.to_string(), absent));
        send(&mut stream, &Question { version: VERSION, ask }).await.unwrap();
        asked.push(Frames::of(stream));
    }
    // Where something is being written a look is answered once it was; this one is elsewhere.
    let elsewhere = [path("/etc/other")];
    let look = tokio::time::timeout(PATIENCE, afar.look(&elsewhere));
    assert!(matches!(look.await.expect("it found a seat").unwrap()[0].what, What::Absent));
    // One change more is told so, instead of waiting where others would wait for it.
    let Err(Fault::NoEffect(error)) = afar.put(&waiting("more", absent)).await else {
        panic!("it found a seat");
    };
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("changes and checks") && error.retry_after.is_some(), "{error:?}");
    wait_for("all that found a seat are at it", || fs::read_dir(&begun).unwrap().count() == 32);

    fs::write(&go, "").unwrap();
    let (mut done, mut refused) = (0, 0);
    for mut answers in asked {
        match answers.words().await.unwrap() {
            Some(Answer::Done) => done += 1,
            Some(Answer::Failed(_)) => refused += 1,
            answer => panic!("{answer:?}"),
        }
    }
    assert_eq!((done, refused), (32, 28));
    afar.put(&waiting("more", absent)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_share_a_helper_share_its_seats() {
    let desk = Desk::new();
    let (helper, begun, go) = that_waits(&desk);
    let entries: Vec<Afar> = (0..5).map(|_| Afar::new(&helper.socket)).collect();
    let absent = entries[0].look(&[path("/etc/x")]).await.unwrap().remove(0).stamp();
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..50 {
        let afar = entries[number % entries.len()].clone();
        asked.spawn(async move { afar.put(&waiting(&number.to_string(), absent)).await });
    }
    wait_for("as many as one entry asks for", || fs::read_dir(&begun).unwrap().count() == 8);
    fs::write(&go, "").unwrap();
    let done = asked.join_all().await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
}
