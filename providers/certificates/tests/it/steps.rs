//! Where certificates are put by somebody else: whichever step does not come about, no pair is torn, and the next pass goes on.

use crate::{authority::Authority, world::Desk};
use async_trait::async_trait;
use reconciled_certificates::{
    key,
    place::{Again, File, Files, Here, Place, Spot, Stamps, Trust},
    wish::Issue,
    x509,
};
use reconciled_provider::{Error, Outcome, Secret};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Takes each step, and loses the one that is counted down to: before it is taken, or with the answer.
#[derive(Debug, Default)]
pub(crate) struct Lossy {
    /// How often something was looked at.
    pub(crate) looks: AtomicUsize,
    left: AtomicUsize,
    is_taken: bool,
    called: Mutex<Vec<String>>,
    /// Which step was lost.
    lost: Mutex<&'static str>,
    /// What has this name cannot be read.
    blind: Mutex<&'static str>,
}

fn lost() -> Error {
    Error::unavailable("nobody answers")
}

impl Lossy {
    /// True for the step that is lost.
    fn loses(&self) -> bool {
        let one_less = |left: usize| Some(left.saturating_sub(1));
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) == Ok(1)
    }

    async fn take<T: Send>(
        &self,
        name: &'static str,
        step: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let is_lost = self.loses();
        if is_lost {
            *self.lost.lock().unwrap() = name;
        }
        match (is_lost, self.is_taken) {
            (false, _) => step.await,
            (true, true) => step.await.and(Err(lost())),
            (true, false) => Err(lost()),
        }
    }
}

#[async_trait]
impl Place for Lossy {
    fn own(&self) -> (u32, u32) {
        Here.own()
    }
    async fn look(&self, paths: &[PathBuf]) -> Result<Vec<Result<Spot, Error>>, Error> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let mut seen = self.take("look", Here.look(paths)).await?;
        let blind = *self.blind.lock().unwrap();
        for (_, spot) in
            paths.iter().zip(&mut seen).filter(|(path, _)| path.file_name() == Some(blind.as_ref()))
        {
            *spot = Err(lost());
        }
        Ok(seen)
    }
    fn stamps(&self, files: &Files, way: &dyn Fn(&Path) -> Option<Stamps>) -> Option<Stamps> {
        Here.stamps(files, way)
    }
    async fn trust(&self, directory: &Path) -> Result<Trust, Error> {
        self.take("trust", Here.trust(directory)).await
    }
    async fn make(&self, directory: &Path) -> Result<(), Error> {
        self.take("make", Here.make(directory)).await
    }
    async fn write_version(&self, version: &Path, files: &[File], owner: (u32, u32)) -> Result<(), Error> {
        self.take("write_version", Here.write_version(version, files, owner)).await
    }
    async fn write(&self, path: &Path, text: &str, over: &Spot) -> Result<(), Error> {
        self.take("write", Here.write(path, text, over)).await
    }
    async fn link(&self, path: &Path, to: &Path, over: &Spot) -> Result<(), Error> {
        self.take("link", Here.link(path, to, over)).await
    }
    async fn remove(&self, path: &Path, what: &Spot) -> Result<(), Error> {
        self.take("remove", Here.remove(path, what)).await
    }
    async fn settle(&self, directory: &Path) -> Result<(), Error> {
        self.take("settle", Here.settle(directory)).await
    }
    async fn directories(&self, directory: &Path) -> Result<Vec<String>, Error> {
        self.take("directories", Here.directories(directory)).await
    }
    async fn remove_version(&self, version: &Path) -> Result<(), Error> {
        self.take("remove_version", Here.remove_version(version)).await
    }
    async fn remove_empty(&self, directory: &Path) -> Result<(), Error> {
        self.take("remove_empty", Here.remove_empty(directory)).await
    }
    async fn call(&self, unit: &str, again: Again) -> Option<Result<(), Error>> {
        self.called.lock().unwrap().push(format!("{again:?} {unit}"));
        Some(self.take("call", async { Ok(()) }).await)
    }
}

/// Key and chain in place, where both are, belong together.
#[track_caller]
fn is_no_torn_pair(directory: &Path) {
    let read = |name: &str| fs::read(directory.join(name));
    if let (Ok(key), Ok(chain)) = (read("tls.key"), read("tls.crt")) {
        let facts = x509::leaf("it", &String::from_utf8(chain).unwrap()).unwrap();
        assert_eq!(facts.public, key::public("it", &Secret::new(key)).unwrap());
    }
}

/// How many versions are there.
fn versions(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().unwrap().is_dir()).count()
}

/// A life for each step of a first certificate, of its renewal, and of what is put where somebody wrote regular files.
async fn lives(is_taken: bool) {
    let authority = Authority::start();
    for work in ["first", "renewal", "regular"] {
        let mut step = 1;
        loop {
            let mut desk = Desk::new(&authority);
            let place = Arc::new(Lossy { is_taken, ..Lossy::default() });
            desk.wish.issuer = Issue::SelfSigned;
            desk.wish.duration = 86_400;
            desk.wish.reload = ["a.service".into()].into();
            desk.place = place.clone();
            desk.reload = Some(["systemctl", "try-reload-or-restart", "{unit}"].map(String::from).into());
            desk.restart();
            let directory = desk.dir.path().join("out/web");
            if work != "first" {
                assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
                desk.renew().await;
            }
            if work == "regular" {
                for name in ["tls.crt", "tls.key"] {
                    let (path, draft) = (directory.join(name), directory.join("draft"));
                    fs::copy(&path, &draft).unwrap();
                    fs::rename(&draft, &path).unwrap();
                }
            }
            place.left.store(step, Ordering::SeqCst);
            // Looking fails as well, which is no pass at all.
            let outcome = desk.try_pass().await;
            is_no_torn_pair(&directory);
            let is_lost = place.left.swap(0, Ordering::SeqCst) == 0;
            if *place.lost.lock().unwrap() == "write_version" {
                // What is in place; and what was, where that was made a version of its own.
                let most = ["first", "renewal", "regular"].iter().position(|one| *one == work).unwrap();
                assert!(
                    versions(&directory) <= most,
                    "{work}, step {step}: what could not be finished is there"
                );
            }
            assert!(matches!(desk.passes(3).await, Outcome::Done(_)), "{work}, step {step}: {outcome:?}");
            is_no_torn_pair(&directory);
            assert!(desk.is_in_sync().await, "{work}, step {step}");
            let called = place.called.lock().unwrap().clone();
            assert!(called.iter().all(|call| call == "Read a.service") && !called.is_empty(), "{called:?}");
            assert_eq!(versions(&directory), 1, "{work}, step {step}");
            if !is_lost {
                break;
            }
            step += 1;
        }
        assert!(step > 15, "{work}: {step} steps");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_not_taken_tears_no_pair() {
    lives(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_one_that_was_taken_and_nobody_heard_of() {
    lives(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_no_other_programs() {
    let authority = Authority::start();
    let mut desk = Desk::new(&authority);
    let place = Arc::new(Lossy { blind: Mutex::new("nothing"), ..Lossy::default() });
    desk.place = place.clone();
    desk.restart();
    assert!(matches!(desk.passes(2).await, Outcome::Done(_)));
    for name in ["..data", "..certificate", "tls.key"] {
        *place.blind.lock().unwrap() = name;
        assert!(desk.try_pass().await.is_none(), "{name}: that is no answer");
    }
    *place.blind.lock().unwrap() = "nothing";
    assert!(desk.is_in_sync().await);
}
