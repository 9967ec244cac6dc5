//! A look at a certificate that is as declared costs next to nothing, and misses nothing.

use crate::{authority::Authority, steps::Lossy, world::Desk};
use reconciled_certificates::wish::Issue;
use reconciled_provider::{ErrorKind, Health, Outcome, Sealed};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Waits until the clock of the disk goes on: what is changed after that is known to be.
fn tick(directory: &Path) {
    let changed =
        |path: &Path| fs::symlink_metadata(path).map(|meta| (meta.ctime(), meta.ctime_nsec())).unwrap();
    let probe = |name: &str| {
        let path = directory.join(name);
        fs::write(&path, "").unwrap();
        let at = changed(&path);
        fs::remove_file(path).unwrap();
        at
    };
    let now = probe("probe");
    while probe("probe") <= now {}
}

/// A certificate that was as declared for a while, what its place is called by, and its outputs.
struct Calm {
    desk: Desk,
    place: Arc<Lossy>,
    outputs: Sealed,
}

impl Calm {
    fn of(authority: &Authority) -> Calm {
        let mut desk = Desk::new(authority);
        let place = Arc::new(Lossy::default());
        desk.place = place.clone();
        desk.wish.issuer = Issue::SelfSigned;
        desk.wish.duration = 90 * 86_400;
        desk.wish.reload = ["a.service".into()].into();
        desk.restart();
        Calm { desk, place, outputs: Sealed::default() }
    }

    /// Has it be as declared, and looked at until what is found is remembered.
    async fn settle(&mut self) {
        assert!(matches!(self.desk.passes(3).await, Outcome::Done(_)));
        self.rest().await;
        assert!(self.is_remembered().await);
        // Of what nothing is tracked nothing is remembered.
        self.rest().await;
    }

    /// Has it be looked at while nothing changes.
    async fn rest(&mut self) {
        for _ in 0..3 {
            self.desk.clock.advance(Duration::from_secs(4));
            self.outputs = self.desk.look_as_a_pass(&self.outputs).await.unwrap().unwrap().outputs;
        }
    }

    /// Has it be asked how it fares until that is remembered.
    async fn is_well(&self) {
        for _ in 0..4 {
            assert!(self.desk.is_healthy().await);
            self.desk.clock.advance(Duration::from_secs(4));
        }
    }

    async fn is_as_declared(&self) -> bool {
        self.desk.is_as_declared(&self.outputs).await
    }

    /// True when a look reads nothing, and says the same as one that does.
    async fn is_remembered(&self) -> bool {
        let looks = || self.place.looks.load(Ordering::SeqCst);
        let before = looks();
        let seen = self.desk.look_as_a_pass(&self.outputs).await.unwrap().unwrap();
        let (is_unread, read) = (looks() == before, self.desk.observe().await.unwrap());
        is_unread
            && (seen.hash, &seen.bytes, &seen.owner) == (read.hash, &read.bytes, &read.owner)
            && seen.outputs.0 == read.outputs.0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_a_certificate_that_is_remembered_is_seen_by_the_next_look() {
    let authority = Authority::start();
    let mut calm = Calm::of(&authority);
    calm.settle().await;
    let directory = calm.desk.dir.path().join("out/web");
    let at = |name: &str| directory.join(name);
    let version = || directory.join(fs::read_link(at("..data")).unwrap());
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let issued = calm.desk.dir.path().join("state/certificates/web/issued.json");
    // As long as what was there, and no older by its own word.
    let garble = |path: &Path| {
        let (before, length) = {
            let meta = fs::metadata(path).unwrap();
            (meta.modified().unwrap(), meta.len() as usize)
        };
        fs::write(path, "x".repeat(length)).unwrap();
        fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
    };
    let damages: [(&str, &dyn Fn()); 14] = [
        ("the key is removed", &|| fs::remove_file(version().join("tls.key")).unwrap()),
        ("its name is removed", &|| fs::remove_file(at("tls.key")).unwrap()),
        ("the chain is emptied", &|| fs::write(at("tls.crt"), "").unwrap()),
        ("the chain is another one, as long as it was", &|| garble(&version().join("tls.crt"))),
        ("the key is another one, as long as it was", &|| garble(&version().join("tls.key"))),
        ("the key is a file of somebody's", &|| {
            fs::remove_file(at("tls.key")).unwrap();
            fs::write(at("tls.key"), "x").unwrap();
        }),
        ("the key is open to all", &|| mode(&version().join("tls.key"), 0o644)),
        ("another version is in place", &|| {
            fs::create_dir(at("..0123456789abcdef.0")).unwrap();
            fs::remove_file(at("..data")).unwrap();
            symlink("..0123456789abcdef.0", at("..data")).unwrap();
        }),
        ("a version is left over", &|| fs::create_dir(at("..0123456789abcdef.1")).unwrap()),
        ("the mark is gone", &|| fs::remove_file(at("..certificate")).unwrap()),
        ("all of it is gone", &|| fs::remove_dir_all(&directory).unwrap()),
        ("a name that is not wanted leads to ours", &|| {
            symlink("..data/tls-combined.pem", at("tls-combined.pem")).unwrap();
        }),
        ("another one is begun", &|| {
            fs::write(issued.with_file_name("renew.json"), "").unwrap();
        }),
        ("what is kept is gone", &|| fs::remove_file(&issued).unwrap()),
    ];
    for (damage, make) in damages {
        tick(&directory);
        make();
        assert!(!calm.is_as_declared().await, "{damage}");
        if damage == "another one is begun" {
            fs::remove_file(issued.with_file_name("renew.json")).unwrap();
        }
        calm.settle().await;
    }
    // Where others may write, and where something leads elsewhere, nothing is believed.
    for (damage, make) in [
        ("others may write to it", &(|| mode(&directory, 0o777)) as &dyn Fn()),
        ("others may write above it", &|| mode(directory.parent().unwrap(), 0o777)),
    ] {
        make();
        assert!(calm.desk.look_as_a_pass(&calm.outputs).await.is_err(), "{damage}");
        mode(&directory, 0o755);
        mode(directory.parent().unwrap(), 0o755);
        calm.settle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_way_that_changed_is_seen_by_the_next_pass_and_at_once_by_who_writes() {
    let authority = Authority::start();
    let mut calm = Calm::of(&authority);
    calm.settle().await;
    let directory = calm.desk.dir.path().join("out/web");
    let open = |mode| {
        let above = directory.parent().unwrap();
        fs::set_permissions(above, fs::Permissions::from_mode(mode)).unwrap();
    };
    let sweep = calm.desk.sweep();
    assert!(sweep.is_some() && calm.is_as_declared().await);
    open(0o777);
    assert!(calm.is_as_declared().await, "the way was looked at in this pass");
    drop(sweep);
    let sweep = calm.desk.sweep();
    assert!(calm.desk.look_as_a_pass(&calm.outputs).await.is_err(), "and is looked at in the next one");
    drop(sweep);
    open(0o755);
    calm.settle().await;
    // What was seen of the way lets nobody write there.
    let _sweep = calm.desk.sweep();
    assert!(calm.is_as_declared().await);
    open(0o777);
    fs::remove_file(directory.join("tls.key")).unwrap();
    let outcome = calm.desk.pass_of("web").await;
    assert_eq!(outcome.error().unwrap().kind, ErrorKind::PermissionDenied);
    assert!(!directory.join("tls.key").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn health_believes_a_look_of_its_own_pass_alone() {
    let authority = Authority::start();
    let mut calm = Calm::of(&authority);
    calm.settle().await;
    calm.is_well().await;
    let issued = calm.desk.dir.path().join("state/certificates/web/issued.json");
    let aside = issued.with_file_name("aside");
    let move_away = || fs::rename(&issued, &aside).unwrap();
    let sweep = calm.desk.sweep();
    assert!(calm.is_as_declared().await);
    move_away();
    assert!(calm.desk.is_healthy().await, "it was looked at in this pass");
    assert!(!calm.desk.is_healthy().await, "which is told once");
    fs::rename(&aside, &issued).unwrap();
    drop(sweep);
    calm.settle().await;
    calm.is_well().await;
    let sweep = calm.desk.sweep();
    assert!(calm.is_as_declared().await);
    move_away();
    drop(sweep);
    let _sweep = calm.desk.sweep();
    assert!(!calm.desk.is_healthy().await, "it was looked at in the pass before");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_ends_when_it_is_due_and_where_the_inventory_says_otherwise() {
    let authority = Authority::start();
    let mut calm = Calm::of(&authority);
    calm.settle().await;
    let other = Sealed::new(b"{}");
    let seen = calm.desk.look_as_a_pass(&other).await.unwrap().unwrap();
    assert_eq!(seen.outputs.0, calm.outputs.0, "a database of before has others");
    calm.is_well().await;
    calm.desk.clock.advance(Duration::from_secs(60 * 86_400));
    assert!(!calm.is_as_declared().await, "it is due");
    calm.desk.clock.advance(Duration::from_secs(27 * 86_400));
    assert!(matches!(calm.desk.health().await, Health::Degraded { .. }), "it is late");
    // Another wish is another question.
    let mut calm = Calm::of(&authority);
    calm.settle().await;
    calm.desk.wish.names.insert("b.example".into());
    assert!(!calm.is_as_declared().await);
}
