//! Two instances on one host that are told to put a certificate into one directory, and marks of versions that named no instance.

use crate::{authority::Authority, unplaced::make_theirs, world::Desk};
use reconciled_provider::{Observed, Outcome, Owner};
use std::{fs, path::PathBuf};

/// A certificate that is in place, and its directory.
async fn in_place(authority: &Authority) -> (Desk, PathBuf) {
    let desk = Desk::new(authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let directory = desk.dir.path().join("out/web");
    (desk, directory)
}

fn words(seen: &Observed) -> String {
    String::from_utf8(seen.bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_instance_has_is_that_ones_until_a_person_says_that_it_is_taken_from_there() {
    for is_adopted in [false, true] {
        let authority = Authority::start();
        let (mut desk, directory) = in_place(&authority).await;
        if is_adopted {
            make_theirs(&directory);
            assert!(matches!(desk.pass().await, Outcome::Done(_)), "it marks what it has");
        }
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        let (key, mark) = (read("tls.key"), read("..certificate"));
        assert_eq!(mark, "cert/web instance=here");
        desk.become_another("there", "state-here");
        let seen = desk.observe().await.unwrap();
        assert_eq!(seen.owner, Owner::Other("here".into()), "adopted: {is_adopted}");
        assert!(
            words(&seen).contains("certificate cert/web of instance here is put there"),
            "{}",
            words(&seen)
        );
        assert!(desk.refusal().await.is_none(), "a person may take it from there");
        let outcome = desk.pass().await;
        let message = &outcome.error().unwrap().message;
        assert!(message.contains("is where certificate cert/web of instance here is put"), "{message}");
        assert!(desk.look("web", false).await.is_none(), "nothing is kept of it");
        assert_eq!((read("tls.key"), read("..certificate")), (key.clone(), mark));

        assert!(matches!(desk.pass_with_consent().await, Outcome::Done(_)) && desk.is_in_sync().await);
        assert_eq!(desk.observe().await.unwrap().owner, Owner::Ours);
        let mark = read("..certificate");
        assert_eq!((read("tls.key"), mark.as_str()), (key.clone(), "cert/web instance=there"));
        assert_eq!(authority.counts(), (1, 1), "it is the same certificate");

        // Now it is the first one that has nothing to take away there.
        desk.become_another("here", "state-there");
        fs::rename(desk.dir.path().join("state-here"), desk.dir.path().join("state")).unwrap();
        desk.restart();
        assert_eq!(desk.observe().await.unwrap().owner, Owner::Other("there".into()));
        assert!(matches!(desk.delete().await, Outcome::Gone));
        assert_eq!((read("tls.key"), read("..certificate")), (key, mark), "adopted: {is_adopted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_another_instance_has_a_directory_without_files_a_person_decides_too() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let directory = desk.dir.path().join("out/web");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("..certificate"), "other/db instance=there").unwrap();
    let seen = desk.observe().await.unwrap();
    assert_eq!(seen.owner, Owner::Other("there".into()));
    assert!(desk.refusal().await.is_none());
    assert!(desk.pass().await.error().is_some());
    assert_eq!(authority.counts(), (0, 0));
    // The mark is ours before the order is done, or the next step would not be taken.
    desk.pass_with_consent().await;
    assert_eq!(fs::read_to_string(directory.join("..certificate")).unwrap(), "cert/web instance=here");
    assert!(matches!(desk.passes(3).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_names_no_instance_is_ours_where_the_certificate_is_kept_and_is_written_with_the_next_one()
 {
    let authority = Authority::start();
    let (mut desk, directory) = in_place(&authority).await;
    let mark = directory.join("..certificate");
    fs::write(&mark, "cert/web").unwrap();
    let seen = desk.observe().await.unwrap();
    assert!(desk.is_in_sync().await && seen.owner == Owner::Ours, "{}", words(&seen));
    assert!(matches!(desk.pass().await, Outcome::Done(_)));
    assert_eq!(fs::read_to_string(&mark).unwrap(), "cert/web", "nothing is written for it");
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert_eq!(fs::read_to_string(&mark).unwrap(), "cert/web instance=here");
    assert_eq!(authority.counts(), (2, 2));

    // Of whom it is where nothing is kept, nobody knows.
    fs::write(&mark, "cert/web").unwrap();
    let key = fs::read(directory.join("tls.key")).unwrap();
    desk.become_another("there", "state-here");
    let error = desk.refusal().await.unwrap();
    assert!(error.message.contains("certificate cert/web of an instance that is not known"), "{error:?}");
    assert!(desk.pass().await.error().is_some());
    assert_eq!(fs::read(directory.join("tls.key")).unwrap(), key);
    assert_eq!(fs::read_to_string(&mark).unwrap(), "cert/web");
}
