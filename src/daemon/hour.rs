//! Long times in short tests: an instance at work under a clock that is moved by hand.

use super::{Instance, Options};
use crate::{config::Environment, session::Session, store, telemetry::metrics::Counts};
use async_trait::async_trait;
use reconciled_provider::Clock;
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::task::TaskTracker;

/// Stands still until somebody moves it; who sleeps wakes when their time has come, whatever the clock was set to
/// meanwhile.
pub(super) struct Hand {
    passed: watch::Sender<Duration>,
    /// By how much it was put back.
    back: Mutex<Duration>,
    /// How long its host has been up.
    up: Mutex<Duration>,
}

/// Some day.
const BEGAN: Duration = Duration::from_secs(1_700_000_000);

impl Hand {
    /// A clock that shows some day.
    pub(super) fn new() -> Arc<Hand> {
        let passed = watch::Sender::new(Duration::ZERO);
        Arc::new(Hand { passed, back: Mutex::default(), up: Mutex::default() })
    }

    pub(super) fn advance(&self, by: Duration) {
        self.passed.send_modify(|passed| *passed += by);
    }

    pub(super) fn put_back(&self, by: Duration) {
        *self.back.lock().unwrap() += by;
    }

    pub(super) fn stay_up(&self, for_so_long: Duration) {
        *self.up.lock().unwrap() = for_so_long;
    }
}

#[async_trait]
impl Clock for Hand {
    fn now(&self) -> Duration {
        BEGAN + *self.passed.borrow() - *self.back.lock().unwrap()
    }
    async fn sleep(&self, wait: Duration) {
        let mut moved = self.passed.subscribe();
        let until = moved.borrow().saturating_add(wait);
        // The sender lives as long as this clock.
        let _ = moved.wait_for(|passed| *passed >= until).await;
    }
    fn up(&self) -> Duration {
        *self.up.lock().unwrap()
    }
}

pub(super) fn git(dir: &Path, words: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main", "-C"])
        .arg(dir)
        .args(words)
        .output()
        .unwrap();
    assert!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A zone in a repository, and where it shall go.
pub(super) struct Place {
    dir: TempDir,
}

impl Place {
    pub(super) fn new() -> Place {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.at("zones")).unwrap();
        fs::create_dir(place.at("infra")).unwrap();
        git(&place.at("infra"), &["init", "-q"]);
        place.commit(&["www"]);
        let dir = place.dir.path().display();
        let config = format!(
            "instance: test\nstateDir: {dir}/state\nsources: [{{name: infra, url: {dir}/infra, interval: 60s}}]\n\
             providers: [{{name: zones, type: zonefile, directory: {dir}/zones, resync: 10m}}]\n"
        );
        fs::write(place.at("config.yaml"), config).unwrap();
        place
    }

    /// Another repository, which declares a record in `zone`.
    pub(super) fn other(&self, zone: &str) {
        fs::create_dir(self.at("other")).unwrap();
        git(&self.at("other"), &["init", "-q"]);
        let text = format!(
            "apiVersion: dns/v1\nkind: RecordSet\nmetadata: {{name: other}}\nspec:\n  zone: {zone}\n  records:\n    - {{name: other, type: A, values: [192.0.2.2]}}\n"
        );
        fs::write(self.at("other/other.yaml"), text).unwrap();
        git(&self.at("other"), &["add", "-A"]);
        git(&self.at("other"), &["commit", "-qm", "other"]);
    }

    /// Another source of the same repository, which asks at `address` first.
    fn away(&self, address: SocketAddr) {
        fs::create_dir(self.at("infra/away")).unwrap();
        let zone = fs::read_to_string(self.at("infra/zone.yaml")).unwrap();
        fs::write(self.at("infra/away/zone.yaml"), zone.replace("example.com", "other.example")).unwrap();
        self.commit(&["www"]);
        let infra = self.at("infra").display().to_string();
        let away =
            format!("name: away, url: ['https://{address}/away.git', {infra}], path: away, interval: 60s");
        self.configure("60s}]", &format!("60s, ignore: [away], allow: all}}, {{{away}, allow: all}}]"));
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Has another configuration than it began with: `from` written as `to`.
    pub(super) fn configure(&self, from: &str, to: &str) {
        let config = fs::read_to_string(self.at("config.yaml")).unwrap();
        assert!(config.contains(from), "{config}");
        fs::write(self.at("config.yaml"), config.replace(from, to)).unwrap();
    }

    pub(super) fn commit(&self, names: &[&str]) {
        let record = |name: &&str| format!("    - {{name: {name}, type: A, values: [192.0.2.1]}}\n");
        let records: String = names.iter().map(record).collect();
        let apex = "    - {name: '@', type: NS, values: [ns.example.net.]}\n";
        let text = format!(
            "apiVersion: dns/v1\nkind: Zone\nmetadata: {{name: example.com}}\nspec:\n  apex: true\n  records:\n{apex}{records}"
        );
        fs::write(self.at("infra/zone.yaml"), text).unwrap();
        git(&self.at("infra"), &["add", "-A"]);
        git(&self.at("infra"), &["commit", "-qm", "zone"]);
    }

    /// The zone as it is written, empty before the first time. Beside it come and go the drafts that take its place.
    pub(super) fn zone(&self) -> String {
        fs::read_to_string(self.zone_file()).unwrap_or_default()
    }

    fn zone_file(&self) -> PathBuf {
        self.at("zones/example.com.zone")
    }
}

/// Waits, in real time, for what other threads do.
pub(super) async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..24_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within 120 s: {what}");
}

fn count(instance: &Instance, series: &str) -> f64 {
    let nothing = (Counts::default(), BTreeMap::new(), BTreeMap::new());
    let text = instance.session.metrics.scrape(&nothing.0, &nothing.1, &nothing.2, Duration::ZERO);
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0.0, |value| value.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hour_without_git_loses_nothing_and_the_next_commit_is_found() {
    let place = Place::new();
    let clock = Hand::new();
    store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
    let config = place.at("config.yaml");
    let session = Session::open_at(Some(&config), Environment::default(), clock.clone()).await;
    let tasks = TaskTracker::new();
    let instance = Instance::start(session.unwrap(), None, &Options::default(), &tasks).await.unwrap();
    until("the first pass", || place.zone().contains("www")).await;
    until("ready", || instance.is_ready()).await;

    fs::rename(place.at("infra"), place.at("gone")).unwrap();
    let failed = || count(&instance, "reconciled_git_polls_total{outcome=\"failed\",source=\"infra\"}");
    let applied = place.zone();
    for minute in 0..60 {
        let before = failed();
        // The interval and its tenth.
        clock.advance(Duration::from_secs(66));
        // Who is on its way to its wait begins it after that.
        in_time(&clock, "a poll", || failed() > before).await;
        // A poll is counted before it is shown.
        let source = || instance.follower.sources()["infra"].clone();
        let is_behind = || source().behind.is_some_and(|(error, _)| error.contains("infra"));
        until("it is behind", is_behind).await;
        assert!(!source().commit.is_empty(), "minute {minute}");
        if minute == 30 {
            fs::write(place.zone_file(), applied.replace("192.0.2.1", "192.0.2.66")).unwrap();
        }
    }
    // What was changed by hand meanwhile was healed from the last good revision.
    until("it is healed", || place.zone().contains("192.0.2.1") && !place.zone().contains("192.0.2.66"))
        .await;
    assert!(failed() >= 60.0);

    fs::rename(place.at("gone"), place.at("infra")).unwrap();
    place.commit(&["www", "api"]);
    in_time(&clock, "the next commit", || place.zone().contains("api")).await;
    until("it is known", || instance.follower.sources()["infra"].behind.is_none()).await;
    instance.stop();
    instance.ended().await;
}

/// Lets time pass, by steps, until something that waits for it has come about.
pub(super) async fn in_time(clock: &Hand, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2_400 {
        if is_so() {
            return;
        }
        clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not within 120 s: {what}");
}

/// A server that never comes to the end of its first answer, as long as this is there; one that says nothing is given up in time.
async fn endless() -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, mut serving) = (listener.local_addr().unwrap(), JoinSet::new());
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                // A record of TLS of 16 KiB, byte by byte.
                let mut part: &[u8] = b"\x16\x03\x03\x40\x00\x02";
                while stream.write_all(part).await.is_ok() {
                    part = b"\x00";
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
    });
    (address, serving)
}

/// A daemon on `place`, under `clock`.
pub(super) async fn begun(place: &Place, clock: &Arc<Hand>) -> Arc<Instance> {
    store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
    let config = place.at("config.yaml");
    let session = Session::open_at(Some(&config), Environment::default(), clock.clone()).await;
    Instance::start(session.unwrap(), None, &Options::default(), &TaskTracker::new()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_moved_does_not_wait_for_ever_for_who_hangs_and_deletes_nothing_meanwhile() {
    let (place, clock) = (Place::new(), Hand::new());
    let (address, serving) = endless().await;
    place.away(address);
    place.commit(&["www", "api"]);
    let instance = begun(&place, &clock).await;
    in_time(&clock, "what was read is in force", || place.zone().contains("api")).await;

    place.commit(&["api", "ftp"]);
    instance.follower.wake(Some("infra".into()));
    in_time(&clock, "the next commit", || place.zone().contains("ftp")).await;
    assert!(place.zone().contains("www"), "the other one may declare it: {}", place.zone());
    drop(serving);
    until("all is known", || !place.zone().contains("www")).await;
    instance.stop();
    instance.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_another_source_does_not_come_into_force_with_what_does_not_wait() {
    let (place, clock) = (Place::new(), Hand::new());
    let (address, serving) = endless().await;
    place.away(address);
    // Of another repository.
    let third = |name: &str| {
        let zone = fs::read_to_string(place.at("infra/zone.yaml")).unwrap();
        let zone = zone.replace("example.com", "third.example").replace("www", name);
        fs::write(place.at("third/zone.yaml"), zone).unwrap();
        git(&place.at("third"), &["add", "-A"]);
        git(&place.at("third"), &["commit", "-qm", "zone"]);
    };
    fs::create_dir(place.at("third")).unwrap();
    git(&place.at("third"), &["init", "-q"]);
    third("one");
    let source = format!("name: third, url: {}, interval: 60s, allow: all", place.at("third").display());
    place.configure("allow: all}]", &format!("allow: all}}, {{{source}}}]"));
    let written = || fs::read_to_string(place.at("zones/third.example.zone")).unwrap_or_default();
    let instance = begun(&place, &clock).await;
    let is_begun = || place.zone().contains("www") && written().contains("one");
    in_time(&clock, "what was read is in force", is_begun).await;

    place.commit(&["www", "ftp"]);
    instance.follower.wake(Some("infra".into()));
    let infra = || instance.follower.sources()["infra"].clone();
    until("the next commit is known", || infra().offered != infra().commit).await;
    third("two");
    instance.follower.wake(Some("third".into()));
    until("what does not wait is in force", || written().contains("two")).await;
    assert_ne!(infra().offered, infra().commit, "it waits for the other one of its repository");
    in_time(&clock, "what waited", || place.zone().contains("ftp")).await;
    drop(serving);
    instance.stop();
    instance.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_are_polled_on_after_the_clock_was_put_back() {
    let place = Place::new();
    let clock = Hand::new();
    store::init(&place.at("state"), store::Init::New, clock.clone()).await.unwrap();
    let config = place.at("config.yaml");
    let session = Session::open_at(Some(&config), Environment::default(), clock.clone()).await;
    let tasks = TaskTracker::new();
    let instance = Instance::start(session.unwrap(), None, &Options::default(), &tasks).await.unwrap();
    until("the first pass", || place.zone().contains("www")).await;
    until("ready", || instance.is_ready()).await;

    clock.put_back(Duration::from_hours(24));
    place.commit(&["www", "api"]);
    // The wait that was begun before, and one interval with its tenth; the loop may still be on its way to either.
    // Less than an hour, where a day would be waited for without a remedy.
    for _ in 0..60 {
        clock.advance(Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(50)).await;
        if place.zone().contains("api") {
            break;
        }
    }
    until("the next commit", || place.zone().contains("api")).await;
    instance.stop();
    instance.ended().await;
}
