//! What is in the directory of a certificate besides its files: whose it is, what was begun there and not finished, and what of it
//! stays once the certificate goes.

use crate::{
    authority::Authority,
    keeping::die_once_it_is_kept,
    unplaced::{dies, make_theirs},
    world::Desk,
};
use reconciled_certificates::kept::Issued;
use reconciled_provider::{ErrorKind, Outcome};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// A certificate that is in place, and its directory.
async fn in_place(authority: &Authority) -> (Desk, PathBuf) {
    let desk = Desk::new(authority);
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let directory = desk.dir.path().join("out/web");
    (desk, directory)
}

/// What is said to differ.
async fn differences(desk: &Desk) -> String {
    String::from_utf8(desk.observe().await.unwrap().bytes.to_vec()).unwrap()
}

fn begun(directory: &Path, name: &str) -> PathBuf {
    let version = directory.join(name);
    fs::create_dir(&version).unwrap();
    fs::write(version.join("tls.key"), "part of a key").unwrap();
    version
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_is_gone_is_put_back_and_nothing_else_is_written() {
    let authority = Authority::start();
    let (desk, directory) = in_place(&authority).await;
    let mark = directory.join("..certificate");
    let version = fs::read_link(directory.join("..data")).unwrap();
    let damages: [&dyn Fn(); 2] = [&|| fs::remove_file(&mark).unwrap(), &|| fs::write(&mark, "").unwrap()];
    for damage in damages {
        damage();
        let seen = differences(&desk).await;
        assert!(seen.contains("..certificate, which says whose it is, is missing"), "{seen}");
        assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
        assert_eq!(fs::read_to_string(&mark).unwrap(), "cert/web instance=here");
    }
    assert_eq!(fs::read_link(directory.join("..data")).unwrap(), version);
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_goes_leaves_no_key_where_somebody_took_the_mark_away() {
    let authority = Authority::start();
    let (desk, directory) = in_place(&authority).await;
    fs::remove_file(directory.join("..certificate")).unwrap();
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!directory.exists());
    // Where another one came meanwhile, all of it is that one's.
    let (desk, directory) = in_place(&authority).await;
    fs::write(directory.join("..certificate"), "cert/other").unwrap();
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(directory.join("tls.key").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_in_place_is_told_of_and_removed_and_none_of_others_is() {
    let authority = Authority::start();
    let (mut desk, directory) = in_place(&authority).await;
    let ours = ["..0123456789abcdef.0", "..0123456789abcdef.1"].map(|name| begun(&directory, name));
    let theirs = begun(&directory, "..2026_01_02_03_04_05.123");
    let seen = differences(&desk).await;
    assert!(seen.contains("..0123456789abcdef.1 is left over") && !seen.contains("2026_01"), "{seen}");
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(ours.iter().all(|version| !version.exists()) && theirs.exists());
    // Somebody else's, which is adopted, is as it is with them.
    begun(&directory, "..0123456789abcdef.0");
    fs::remove_dir_all(desk.dir.path().join("state")).unwrap();
    desk.restart();
    assert!(desk.is_in_sync().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_another_entrys_is_told_before_anything_is_begun() {
    let authority = Authority::start();
    let desk = Desk::new(&authority);
    let directory = desk.dir.path().join("out/web");
    let mark = directory.join("..certificate");
    fs::create_dir_all(&directory).unwrap();
    fs::write(&mark, "elsewhere/web").unwrap();
    for has_files in [false, true] {
        if has_files {
            fs::write(directory.join("tls.crt"), "theirs").unwrap();
        }
        let error = desk.refusal().await.unwrap();
        let told = format!("{} is where certificate elsewhere/web is put", directory.display());
        assert_eq!((error.kind, error.message.clone()), (ErrorKind::Invalid, told), "files: {has_files}");
        let outcome = desk.pass().await;
        assert_eq!(outcome.error().unwrap().kind, ErrorKind::Invalid, "files: {has_files}");
    }
    fs::remove_file(&mark).unwrap();
    assert!(desk.refusal().await.is_none());
    assert_eq!(authority.counts(), (0, 0));
}

/// A certificate of somebody else that was taken over, and its directory.
async fn taken_over(authority: &Authority) -> (Desk, PathBuf) {
    let (mut desk, directory) = in_place(authority).await;
    make_theirs(&directory);
    fs::remove_dir_all(desk.dir.path().join("state")).unwrap();
    desk.restart();
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(fs::symlink_metadata(directory.join("tls.key")).unwrap().is_file(), "as it was found");
    (desk, directory)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_over_is_marked_and_goes_with_its_key() {
    let authority = Authority::start();
    let (desk, directory) = taken_over(&authority).await;
    assert_eq!(fs::read_to_string(directory.join("..certificate")).unwrap(), "cert/web instance=here");
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!directory.exists() && desk.keep().issued("web").unwrap().is_none());
    // What others have there stays, under a name of ours as well.
    let (desk, directory) = taken_over(&authority).await;
    for name in ["README", "tls.key"] {
        fs::write(directory.join(name), "put there by hand").unwrap();
    }
    assert!(matches!(desk.delete().await, Outcome::Gone));
    let mut names: Vec<_> = fs::read_dir(&directory).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["README", "tls.key"]);
    assert_eq!(authority.counts(), (2, 2), "nothing was issued for what was taken over");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_version_took_over_that_marked_nothing_is_marked_by_one_pass_and_goes_with_its_key_before_it_too()
 {
    let authority = Authority::start();
    for is_marked_first in [true, false] {
        let (desk, directory) = taken_over(&authority).await;
        let issued = desk.keep().issued("web").unwrap().unwrap();
        desk.keep().put_issued("web", &Issued { adopted: [].into(), ..issued }).unwrap();
        let mark = directory.join("..certificate");
        fs::remove_file(&mark).unwrap();
        if is_marked_first {
            let seen = differences(&desk).await;
            assert!(seen.contains("taken over, and not marked as ours") && desk.is_due().await, "{seen}");
            assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
            assert!(mark.exists() && !directory.join("..data").exists(), "nothing else is written");
        }
        assert!(matches!(desk.delete().await, Outcome::Gone));
        assert!(!directory.exists(), "marked first: {is_marked_first}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_over_leaves_the_directory_that_it_moves_from() {
    let authority = Authority::start();
    let (mut desk, directory) = taken_over(&authority).await;
    let moved = desk.dir.path().join("out/moved");
    desk.wish.output.directory = moved.display().to_string();
    assert!(differences(&desk).await.contains(&format!("it is still in {}", directory.display())));
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    assert!(moved.join("tls.key").exists() && !directory.exists());
    assert_eq!(authority.counts(), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_over_and_is_not_wanted_any_more_goes_with_its_key_too() {
    let authority = Authority::start();
    let (mut desk, directory) = taken_over(&authority).await;
    let both = ["tls.key", "tls.crt"].map(|name| fs::read(directory.join(name)).unwrap()).concat();
    let combined = directory.join("tls-combined.pem");
    fs::write(&combined, both).unwrap();
    fs::set_permissions(&combined, fs::Permissions::from_mode(0o600)).unwrap();
    desk.wish.output.combined = true;
    assert!(matches!(desk.pass().await, Outcome::Done(_)) && desk.is_in_sync().await);
    desk.wish.output.combined = false;
    desk.renew().await;
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)) && desk.is_in_sync().await);
    let is_file = |name: &str| fs::symlink_metadata(directory.join(name)).unwrap().is_file();
    assert!(is_file("tls-combined.pem") && !is_file("tls.key"), "nothing took its place");
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!directory.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_that_was_taken_over_stays_where_the_next_one_was_issued_and_not_put_there_yet() {
    let authority = Authority::start();
    let (mut desk, directory) = taken_over(&authority).await;
    desk.renew().await;
    dies(&mut desk, die_once_it_is_kept).await;
    assert!(fs::symlink_metadata(directory.join("tls.key")).unwrap().is_file());
    assert!(matches!(desk.delete().await, Outcome::Gone));
    assert!(!directory.exists());
}
