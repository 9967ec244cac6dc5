//! Reloads, as those meet them who ask at that moment: an instance that has ended, and the next one.

use super::{
    Daemon, Instance, Options,
    hour::{Hand, Place, git, until},
    pushed, sync,
};
use crate::{
    config::Environment,
    operation::{Form, Given, PushAsk, PushFollow, SyncAsk, SyncLine, SyncOutcome, Upload},
    session::Session,
    source::Reach,
    store::{self, EventFilter},
};
use reconciled_engine::{
    Store,
    scheduler::{Priority, Stance},
    store::Hold,
};
use reconciled_provider::{Clock, Focus, Hash, Scope};
use std::{fs, net::TcpListener, path::Path, process::Command, sync::Arc, time::Duration};
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
        let between = Between::at(Place::new()).await;
        assert!(between.place.zone().contains("www"));
        between
    }

    async fn at(place: Place) -> Between {
        let (clock, tasks) = (Hand::new(), TaskTracker::new());
        store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
        let session = session(&place, &clock).await;
        let old = Instance::start(session, None, &Options::default(), &tasks).await.unwrap();
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

/// A push of what `infra` is at, with consent to `approve`.
fn push(place: &Place, approve: &[&str]) -> (PushAsk, PushFollow) {
    let repository: String = place.at("infra/.git").canonicalize().unwrap().to_string_lossy().into();
    let (reference, commit) = ("refs/heads/main".to_owned(), head(&place.at("infra")));
    let approve: Vec<String> = approve.iter().map(ToString::to_string).collect();
    let follow = PushFollow {
        repository: repository.clone(),
        source: "infra".into(),
        reference: reference.clone(),
        commit: commit.clone(),
        wait: Some(60_000),
        accept_rewind: false,
        approve: approve.clone(),
        claimed: None,
        moves: Vec::new(),
    };
    let (upload, trailers, form, signed) = (Upload::default(), Vec::new(), Form::default(), None);
    (PushAsk { repository, reference, commit, upload, approve, trailers, form, signed }, follow)
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
async fn what_was_not_looked_at_since_a_reload_is_not_said_to_be_nothing() {
    let between = Between::new().await;
    let next = between.goes_on().await;
    // It may have got that far already.
    let said = next.summary();
    let waits = ["no source was read yet", "the first pass has not ended", "1 in sync"];
    assert!(waits.iter().any(|word| said.contains(word)), "{said}");
    until("ready", || next.is_ready()).await;
    assert!(next.summary().ends_with("; scopes: 1 in sync"), "{}", next.summary());
    next.stop();
    next.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sources_keep_the_store_from_nobody() {
    let place = Place::new();
    let mut sources = String::new();
    for number in 0..16 {
        let folder = place.at(&format!("infra/{number}"));
        fs::create_dir(&folder).unwrap();
        let text = format!(
            "apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: z{number}.example}}\nspec:\n  records:\n    - {{name: www, type: A, values: [192.0.2.1]}}\n"
        );
        fs::write(folder.join("zone.yaml"), text).unwrap();
        let url = place.at("infra").display().to_string();
        sources += &format!("{{name: s{number}, url: {url}, path: '{number}', interval: 60s, allow: all}}, ");
    }
    git(&place.at("infra"), &["add", "-A"]);
    git(&place.at("infra"), &["commit", "-qm", "many"]);
    let one = format!("{{name: infra, url: {}, interval: 60s}}", place.at("infra").display());
    place.configure(&one, sources.trim_end_matches(", "));
    let between = Between::at(place).await;
    for _ in 0..5 {
        let next = between.goes_on().await;
        // The clock stands still, so none is polled twice: what one poll comes to is in force, or never will be.
        let were_heard = || {
            let sources = next.follower.sources();
            sources.len() == 16 && sources.values().all(|source| source.was_heard)
        };
        until("each was polled and loaded", were_heard).await;
        until("ready", || next.is_ready()).await;
        next.stop();
        next.ended().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_ready_before_each_source_was_read_or_is_known_to_be_away() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/away.git", silent.local_addr().unwrap());
    let away = format!(", allow: all}}, {{name: away, url: '{url}', interval: 60s, allow: all}}]\nproviders");
    place.configure("}]\nproviders", &away);
    let (clock, tasks) = (Hand::new(), TaskTracker::new());
    store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
    let session = session(&place, &clock).await;
    let instance = Instance::start(session, None, &Options::default(), &tasks).await.unwrap();
    let zone = Scope::new("zones", "example.com");
    let was_seen = || instance.scheduler.standing().get(&zone).is_some_and(|zone| zone.ended_at.is_some());
    until("the other source is looked at", was_seen).await;
    assert_eq!(instance.waits_for().as_deref(), Some("1 of 2 sources were read"));
    drop(silent);
    until("ready", || instance.is_ready()).await;
    instance.stop();
    instance.ended().await;
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
    let ask = PushFollow { accept_rewind: true, ..push(place, &[]).1 };
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
async fn consent_of_a_push_counts_as_every_source_of_its_plan_is_configured_after_a_reload() {
    // Whether `other` was known to have to do with the plan when it was made, or declares something there since.
    for (was_known, approve) in
        [(true, "socket"), (false, "socket"), (true, "push-option"), (false, "push-option")]
    {
        let between = Between::new().await;
        let place = &between.place;
        let digest = Hash::of(b"plan");
        let hold = Hold {
            domain: "zones/example.com".into(),
            digest,
            reasons: Vec::new(),
            counts: [0; 4],
            revision: "".into(),
            since: Duration::ZERO,
            once: None,
        };
        let about: &[&str] = if was_known { &["infra", "other"] } else { &["infra"] };
        let about = about.iter().map(|name| Arc::from(*name)).collect();
        let (ask, follow) = push(place, &["aaaaaa"]);
        let given = vec![Given { text: "aaaaaa".into(), hold, about }];
        between.old.pending.put(&ask, "ann", given, Reach::Without);

        place.other(if was_known { "nothing.example" } else { "example.com" });
        let other = format!(
            ", allow: all}}, {{name: other, url: {}, interval: 60s, allow: all, approve: [{approve}]}}]",
            place.at("other").display()
        );
        place.configure("}]\nproviders", &format!("{other}\nproviders"));
        let next = between.goes_on().await;
        let other = || next.follower.desired().sources.get("other").cloned().unwrap_or_default();
        until("it is in force", || !other().revision.is_empty()).await;
        let (send, receive) = mpsc::channel(64);
        let following = async {
            pushed(&between.daemon, &follow, "ann", &send).await.unwrap();
            drop(send);
        };
        let ((), told) = tokio::join!(following, lines(receive));
        let is_barred = |line: &SyncLine| {
            let said = "zones/example.com is not approved: source other, which that plan is about, lets no push approve";
            matches!(line, SyncLine::Message { text } if text.contains(said))
        };
        let is_approved = next.writing.db.approval(digest).await.unwrap().is_some();
        let counts = approve == "push-option";
        assert_eq!((is_approved, told.iter().any(is_barred)), (counts, !counts), "{was_known} {told:#?}");
        next.stop();
        next.ended().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persons_word_past_a_closed_window_outlives_a_reload_for_what_was_desired_then() {
    for is_as_before in [true, false] {
        let place = Place::new();
        let closed = "windows: [{deny: \"* * * * *\", duration: 1h, manual: true}], drift: heal";
        place.configure("interval: 60s", &format!("interval: 60s, {closed}"));
        let between = Between::at(place).await;
        let (place, zone) = (&between.place, Scope::new("zones", "example.com"));
        assert_eq!(between.old.scheduler.standing()[&zone].stance, Stance::Suspended);
        // As one that comes while the last passes end.
        between.old.scheduler.sync(&[zone.clone()].into());
        if !is_as_before {
            place.configure("drift: heal", "drift: warn");
        }
        let next = between.goes_on().await;
        until("it was looked at", || next.is_ready()).await;
        match is_as_before {
            true => until("it is written", || place.zone().contains("www")).await,
            false => assert_eq!((place.zone(), next.scheduler.bids()), (String::new(), [].into())),
        }
        next.stop();
        next.ended().await;
    }
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
    let is_fed = |instance: &Instance| instance.goes_round(between.clock.now());
    between.clock.advance(Duration::from_secs(60));
    until("the loop goes round", || is_fed(&next)).await;
    // Nothing but the loop itself counts as its turn.
    between.old.scheduler.wake([], Priority::Operator, Focus::All);
    assert!(!is_fed(&between.old));
    next.stop();
    next.ended().await;
}
