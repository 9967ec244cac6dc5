//! Reloads, as those meet them who ask at that moment: an instance that has ended, and the next one.

use super::{
    Daemon, Instance, Options,
    hour::{Hand, Place, git, until},
    pushed, service, sync,
};
use crate::{
    config::Environment,
    operation::{PushFollow, SyncAsk, SyncLine, SyncOutcome},
    session::Session,
    store::{self, EventFilter},
};
use reconciled_engine::scheduler::Priority;
use reconciled_provider::{Clock, Focus};
use std::{path::Path, process::Command, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

/// A place with a daemon whose instance has ended.
struct Between {
    place: Place,
    clock: Arc<Hand>,
    tasks: TaskTracker,
    old: Arc<Instance>,
    daemon: Daemon,
}

async fn session(place: &Place, clock: &Arc<Hand>) -> Session {
    let config = place.at("config.yaml");
    Session::open_at(Some(&config), Environment::default(), clock.clone()).await.unwrap()
}

impl Between {
    async fn new() -> Between {
        let (place, clock, tasks) = (Place::new(), Hand::new(), TaskTracker::new());
        store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
        let session = session(&place, &clock).await;
        let old = Instance::start(session, None, &Options::default(), &tasks).await.unwrap();
        until("the first pass", || place.zone().contains("www")).await;
        until("ready", || old.is_ready()).await;
        old.stop();
        old.ended().await;
        let daemon = Daemon::new(old.clone());
        Between { place, clock, tasks, old, daemon }
    }

    /// The reload goes on: the next instance is at work.
    async fn goes_on(&self) -> Arc<Instance> {
        let session = session(&self.place, &self.clock).await;
        let next = Instance::start(session, Some(&self.old), &Options::default(), &self.tasks).await.unwrap();
        self.daemon.replace(next.clone());
        next
    }
}

fn head(dir: &Path) -> String {
    let told = Command::new("git").arg("-C").arg(dir).args(["rev-parse", "HEAD"]).output().unwrap();
    String::from_utf8(told.stdout).unwrap().trim().to_owned()
}

async fn lines(mut lines: mpsc::Receiver<SyncLine>) -> Vec<SyncLine> {
    let mut all = Vec::new();
    while let Some(line) = lines.recv().await {
        all.push(line);
    }
    all
}

fn outcome(lines: &[SyncLine]) -> Option<SyncOutcome> {
    lines.iter().find_map(|line| match line {
        SyncLine::End { outcome, .. } => Some(*outcome),
        _ => None,
    })
}

async fn events(instance: &Instance, kind: &str) -> Vec<String> {
    let reader = instance.writing.db.reader();
    let all = reader.events(&EventFilter::default(), 0, 1_000).await.unwrap();
    all.into_iter().filter(|event| event.kind == kind).map(|event| event.message).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewind_that_a_push_consents_to_while_a_reload_goes_on_is_done_after_it() {
    let between = Between::new().await;
    let place = &between.place;
    place.commit(&["api"]);
    // No descendant of what is in force.
    git(&place.at("infra"), &["update-ref", "-d", "HEAD"]);
    git(&place.at("infra"), &["commit", "-qm", "another beginning"]);
    let commit = head(&place.at("infra"));
    let ask = PushFollow {
        repository: place.at("infra/.git").canonicalize().unwrap().to_string_lossy().into_owned(),
        source: "infra".into(),
        reference: "refs/heads/main".into(),
        commit: commit.clone(),
        wait: Some(60_000),
        accept_rewind: true,
        approve: Vec::new(),
        claimed: None,
    };
    let (send, receive) = mpsc::channel(64);
    let following = async {
        pushed(&between.daemon, &ask, "ann", &send).await.unwrap();
        drop(send);
    };
    let ((), told, next) = tokio::join!(following, lines(receive), between.goes_on());
    assert_eq!(outcome(&told), Some(SyncOutcome::Converged), "{told:#?}");
    assert!(place.zone().contains("api") && !place.zone().contains("www"));
    assert_eq!(*next.follower.sources()["infra"].commit, commit);
    let (rewinds, pushes) = (events(&next, "rewind").await, events(&next, "push").await);
    assert_eq!((rewinds.len(), pushes.len()), (1, 1), "{rewinds:?} {pushes:?}");
    assert!(next.wishes.open().is_empty(), "{:?}", next.wishes);
    next.stop();
    next.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_to_an_instance_that_ended_counts_though_nobody_waits_for_it() {
    let between = Between::new().await;
    let place = &between.place;
    git(&place.at("infra"), &["update-ref", "-d", "HEAD"]);
    place.commit(&["api"]);
    let source = Some("infra".to_owned());
    let ask = SyncAsk { source, accept_rewind: Some(head(&place.at("infra"))), ..SyncAsk::default() };
    let (send, receive) = mpsc::channel(64);
    // Whoever asked goes away before anybody answers.
    tokio::select! {
        done = sync(&between.daemon, ask, "ann", &send) => panic!("{done:?}"),
        () = until("it was said", || !between.old.wishes.open().is_empty()) => {}
    }
    drop(receive);
    let next = between.goes_on().await;
    until("it is rewound", || place.zone().contains("api")).await;
    until("nothing is left of it", || next.wishes.open().is_empty()).await;
    assert_eq!(events(&next, "rewind").await.len(), 1);
    next.stop();
    next.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_while_the_daemon_stops_is_told_so() {
    let between = Between::new().await;
    between.daemon.stop.set();
    let (send, _receive) = mpsc::channel(64);
    let ask = SyncAsk { wait: Some(60_000), ..SyncAsk::default() };
    let failure = sync(&between.daemon, ask, "ann", &send).await.unwrap_err();
    assert!(failure.to_string().contains("the daemon is stopping"), "{failure}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_does_not_go_round_is_not_vouched_for_and_one_without_work_is() {
    let between = Between::new().await;
    let next = between.goes_on().await;
    let is_fed = |instance: &Instance| service::goes_round(instance.scheduler.tick(), between.clock.now());
    between.clock.advance(Duration::from_secs(60));
    until("the loop goes round", || is_fed(&next)).await;
    // Nothing but the loop itself counts as its turn.
    between.old.scheduler.wake([], Priority::Operator, Focus::All);
    assert!(!is_fed(&between.old));
    next.stop();
    next.ended().await;
}
