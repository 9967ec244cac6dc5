//! Rolling updates as those see them that ask the instances: what serves is counted all the time, by somebody else.

use crate::{
    deployments::{roll, unit},
    units::{Machine, wait_for},
};
use reconciled_provider::{Health, Op, Resource, Shown};
use reconciled_testkit::PATIENCE;
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

const REPLICAS: u16 = 3;

/// The first of so many ports in a row that nobody has.
fn ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let mut firsts = std::iter::repeat_with(crate::sockets::port).take(100);
    firsts.find(|first| (*first..first + REPLICAS).all(is_free)).unwrap()
}

/// Who listens at `port` has a page.
fn serves(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut answer = String::new();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.contains(" 200 ")
}

/// Asks all instances, over and over, until it is told to stop.
struct Watcher {
    stop: Arc<AtomicBool>,
    worst: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Watcher {
    fn of(first: u16) -> Watcher {
        let (stop, worst) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(usize::MAX)));
        let (until, least) = (stop.clone(), worst.clone());
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let serving = (first..first + REPLICAS).filter(|port| serves(*port)).count();
                least.fetch_min(serving, Ordering::Relaxed);
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        Watcher { stop, worst, thread }
    }
    /// How many served at worst.
    fn worst(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.worst.load(Ordering::Relaxed)
    }
}

/// Instances that serve what is in `/srv/DIRECTORY`.
fn app(first: u16, directory: &str, rest: &str) -> String {
    format!(
        "Deployment web app=web {{replicas: {REPLICAS}, firstInstance: {first}, minReadySeconds: 0, \
         content: \"[Service]\\nExecStart=/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory /srv/{directory} %i\\n\"{rest}}}"
    )
}

/// A machine on which `app` runs from `old`, where there is no page `/new`.
async fn serving(first: u16) -> Option<Machine> {
    let machine = Machine::of("deployments", |_| {})?;
    machine.run(&["mkdir", "-p", "/srv/old", "/srv/fresh/new"]);
    let old = app(first, "old", &health("/"));
    machine.desk.pass(&[&old]).await;
    wait_for("every instance serves", || (first..first + REPLICAS).all(serves));
    assert_eq!(machine.desk.pass(&[&old]).await.done, [""; 0]);
    Some(machine)
}

fn health(path: &str) -> String {
    format!(", progressDeadlineSeconds: 5, health: [{{http: 'http://127.0.0.1:%i{path}'}}]")
}

#[tokio::test]
async fn a_revision_that_brings_a_check_of_its_own_does_not_make_the_others_unwell() {
    let first = ports();
    let Some(machine) = serving(first).await else { return };
    let desk = &machine.desk;
    let range = u32::from(first)..=u32::from(first + REPLICAS - 1);
    let new = app(first, "fresh", &health("/new/"));
    let watcher = Watcher::of(first);
    let (done, _) = roll(&machine, &[&new], range.clone()).await;
    let worst = watcher.worst();
    assert_eq!(done.last().unwrap(), "continue web@.service: done", "{done:#?}");
    assert!(worst >= 2, "{worst} served");
    assert_eq!(desk.pass(&[&new]).await.done, [""; 0]);

    // Another check alone restarts nobody, and is what they are judged by from then on.
    let pids = || range.clone().map(|number| machine.pid(&unit(number))).collect::<Vec<_>>();
    let before = pids();
    let checked = app(first, "fresh", &health("/"));
    let pass = desk.pass(&[&checked]).await;
    assert_eq!(pass.done, ["update web@.service: done"]);
    assert!(pass.fields[0].starts_with("health "), "{pass:?}");
    assert_eq!((desk.pass(&[&checked]).await.done, pids()), (vec![], before));
    let watcher = Watcher::of(first);
    let (done, _) = roll(&machine, &[&app(first, "old", &health("/"))], range).await;
    assert_eq!(done.last().unwrap(), "continue web@.service: done", "{done:#?}");
    assert!(watcher.worst() >= 2, "{done:#?}");
}

#[tokio::test]
async fn a_check_that_nobody_can_answer_costs_one_instance_and_no_more() {
    let first = ports();
    let Some(machine) = serving(first).await else { return };
    let desk = &machine.desk;
    let range = u32::from(first)..=u32::from(first + REPLICAS - 1);
    let bad = app(first, "fresh", &health("/nosuch"));
    let watcher = Watcher::of(first);
    let (done, _) = roll(&machine, &[&bad], range).await;
    let worst = watcher.worst();
    assert!(done.last().unwrap().contains("no progress within 5 s"), "{done:#?}");
    assert!(worst >= 2, "{worst} served");
    wait_for("all serve again", || (first..first + REPLICAS).all(serves));
    // What runs is as well as it was, whatever the one that was taken back asked for.
    let health = desk.health_of_all(&desk.desired(&[&bad])).await;
    assert_eq!(health[..3], vec![Health::Healthy; 3], "{health:?}");
    assert!(matches!(&health[3], Health::Degraded { why } if why.contains("taken back")), "{health:?}");
}

/// A service that ends after `seconds` and that systemd starts again.
fn looping(seconds: &str, restart: &str, rest: &str) -> String {
    format!(
        "Deployment web {{replicas: 3, content: \"[Unit]\\nStartLimitIntervalSec=0\\n[Service]\\nRestart={restart}\\nRestartSec=0\\n\
         ExecStart=/bin/sh -c 'sleep {seconds}; exit 3'\\n\"{rest}}}"
    )
}

#[tokio::test]
async fn a_revision_that_systemd_has_to_start_again_and_again_is_taken_back() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    let good = looping("1d", "always", "");
    desk.pass(&[&good]).await;
    let untouched = || [2, 3].map(|number| machine.pid(&unit(number)));
    let before = untouched();
    for (ready, why) in [(1, "no progress within 4 s"), (3, "no progress within 4 s")] {
        let bad =
            looping("0.4", "always", &format!(", minReadySeconds: {ready}, progressDeadlineSeconds: 4"));
        let (done, worst) = roll(&machine, &[&bad], 1..=3).await;
        assert!(
            done.last().unwrap().contains("was taken back") && done.last().unwrap().contains(why),
            "{done:#?}"
        );
        assert!(worst >= 2, "{worst} were available: {done:#?}");
        assert_eq!(untouched(), before, "never touched");
    }
    // It is ready for a moment, each time.
    let bad = looping("2.6", "on-failure", "");
    let (done, worst) = roll(&machine, &[&bad], 1..=3).await;
    assert!(done.last().unwrap().contains("does not stay up"), "{done:#?}");
    assert!(worst >= 1, "{worst} were available: {done:#?}");
}

#[tokio::test]
async fn instances_that_do_not_stay_up_are_not_well() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    // There is nothing to go back to.
    let bad = looping("0.5", "always", "");
    roll(&machine, &[&bad], 1..=3).await;
    let start = Instant::now();
    loop {
        let health = desk.health_of_all(&desk.desired(&[&bad])).await;
        let is_ill = |health: &Health| matches!(health, Health::Degraded { why } if why.contains("does not stay up") && why.contains("journalctl -u web@"));
        if health[..3].iter().all(is_ill) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{health:?}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

#[tokio::test]
async fn a_unit_that_does_not_stay_up_is_not_well_and_says_how_it_ended() {
    let Some(machine) = Machine::boot() else { return };
    let desk = &machine.desk;
    let unit = |rest: &str| {
        format!(
            "Unit a.service {{state: running, content: \"[Unit]\\nStartLimitIntervalSec=0\\n[Service]\\n{rest}\\n\"}}"
        )
    };
    let bad = unit("Restart=always\\nRestartSec=0\\nExecStart=/bin/sh -c 'sleep 0.5; exit 3'");
    desk.pass(&[&bad]).await;
    let start = Instant::now();
    loop {
        match &desk.health_of_all(&desk.desired(&[&bad])).await[..] {
            [Health::Degraded { why }] if why.contains("does not stay up") => break,
            other => assert!(start.elapsed() < PATIENCE, "{other:?}"),
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    // Without `Restart=` it is started by us.
    let bad = unit("ExecStart=/bin/sh -c 'sleep 0.5; exit 3'");
    desk.pass(&[&bad]).await;
    wait_for("it ends", || machine.property("a.service", "ActiveState") == "failed");
    let delta = desk.deltas(&desk.desired(&[&bad])).await.remove(&"a.service".into()).unwrap().unwrap();
    assert_eq!(delta.look.as_deref(), Some("journalctl -u a.service"));
    assert_eq!(delta.fields[0].before, Shown::Text("stopped: exit-code, exit status 3".into()));
}

/// A balancer that writes down when it is told to read its file.
fn front(machine: &Machine) {
    let read =
        "/bin/sh -c 'echo x >>/run/reads; cat /etc/front.conf >>/run/all; cp /etc/front.conf /run/read'";
    let service = format!("[Service]\nExecStart=/bin/sleep 1d\nExecReload={read}\n");
    fs::write(machine.file("front.service"), service).unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "start", "front.service"]);
}

const FRONT: &str = "LoadBalancer front {type: nginx, path: /etc/front.conf, selector: {app: web}, listen: 8080, reload: front.service, drainSeconds: 3}";

/// Instances that write down when they are stopped.
fn stopping(replicas: u32, days: u32) -> String {
    format!(
        "Deployment web app=web {{replicas: {replicas}, minReadySeconds: 0, \
         content: \"[Service]\\nExecStart=/bin/sleep {days}d\\nExecStop=/bin/touch /run/stopped-%i\\n\"}}"
    )
}

#[tokio::test]
async fn a_balancer_that_is_not_ours_is_neither_marked_nor_reloaded() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    front(&machine);
    let file = machine.desk_path("/etc/front.conf");
    let theirs = "        server 127.0.0.1:1; # web@1.service\n";
    fs::write(&file, theirs).unwrap();
    // What is declared and never adopted is in no batch.
    let of = |days| {
        let all = desk.desired(&[&stopping(2, days), FRONT]);
        all.into_iter().filter(|one| &*one.id.0 != "/etc/front.conf").collect::<Vec<Resource>>()
    };
    for days in [1, 2] {
        let (desired, start) = (of(days), Instant::now());
        loop {
            let (batch, _, _) = desk.plan(&desired).await;
            let done = desk.apply(&batch).await;
            if done.is_empty() {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{done:?}");
        }
    }
    assert!(machine.run(&["systemctl", "show", "-p", "ExecStart", "web@2.service"]).contains("sleep 2d"));
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
    assert!(!machine.desk_path("/run/reads").exists(), "it was reloaded");
}

#[tokio::test]
async fn whoever_was_drained_serves_again_also_at_a_balancer_that_was_forgotten_meanwhile() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    front(&machine);
    while !desk.pass(&[&stopping(2, 1), FRONT]).await.done.is_empty() {}
    let is_drained = || machine.run(&["cat", "/etc/front.conf"]).contains(" down; # web@");
    let start = Instant::now();
    while !is_drained() {
        desk.pass(&[&stopping(2, 2), FRONT]).await;
        assert!(start.elapsed() < PATIENCE);
    }
    desk.forget("/etc/front.conf");
    // What is declared and never adopted is in no batch.
    let mut desired = desk.desired(&[&stopping(2, 2), FRONT]);
    desired.retain(|one| &*one.id.0 != "/etc/front.conf");
    loop {
        let (batch, ..) = desk.plan(&desired).await;
        let done = desk.apply(&batch).await;
        if done.is_empty() {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{done:?}");
    }
    assert!(machine.run(&["systemctl", "show", "-p", "ExecStart", "web@2.service"]).contains("sleep 2d"));
    assert!(!is_drained() && !machine.run(&["cat", "/run/read"]).contains(" down; # web@"));
}

#[tokio::test]
async fn the_only_instance_behind_a_balancer_is_not_taken_from_it() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    front(&machine);
    let front = FRONT.replace("drainSeconds: 3", "drainSeconds: 600");
    while !desk.pass(&[&stopping(1, 1), &front]).await.done.is_empty() {}
    let pass = desk.pass(&[&stopping(1, 2), &front]).await;
    let is_told = |field: &String| {
        field.contains("interruption") && field.contains("/etc/front.conf has no other member")
    };
    assert!(pass.fields.iter().any(is_told), "{pass:?}");
    // Nothing waits for requests that would find nobody else.
    let start = Instant::now();
    while desk.is_pending() {
        desk.pass(&[&stopping(1, 2), &front]).await;
        assert!(start.elapsed() < PATIENCE);
    }
    assert!(machine.run(&["systemctl", "show", "-p", "ExecStart", "web@1.service"]).contains("sleep 2d"));
    let read = machine.run(&["cat", "/run/all"]);
    assert!(read.contains("web@1.service") && !read.contains(" down; # web@"), "{read}");
}

#[tokio::test]
async fn a_rolling_update_tells_what_it_writes() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    front(&machine);
    while !desk.pass(&[&stopping(2, 1), FRONT]).await.done.is_empty() {}
    let also = async |spec: &str| {
        let desired = desk.desired(&[spec, FRONT]);
        let deltas = desk.deltas(&desired).await;
        let delta = deltas.get(&"web@.service".into()).cloned();
        delta.map(|delta| delta.unwrap().also.iter().map(|id| id.0.to_string()).collect::<Vec<_>>())
    };
    let written = ["/etc/front.conf", "web@1.service", "web@2.service"];
    assert_eq!(also(&stopping(2, 1)).await, None);
    // Nobody is restarted for that.
    let described = stopping(2, 1).replace("[Service]", "[Unit]\\nDescription=d\\n[Service]");
    assert_eq!(also(&described).await.unwrap(), [""; 0]);
    assert_eq!(also(&stopping(2, 2)).await.unwrap(), written);
    // On the way, and on the way back.
    desk.pass(&[&stopping(2, 2), FRONT]).await;
    assert_eq!(also(&stopping(2, 2)).await.unwrap(), written);
    assert_eq!(also(&stopping(2, 1)).await.unwrap(), written);
    let reads = || machine.run(&["cat", "/run/reads"]).lines().count();
    let before = reads();
    roll(&machine, &[&stopping(2, 2), FRONT], 1..=2).await;
    // The first was told already; then it serves again, the second is drained, and serves.
    assert_eq!(reads() - before, 3);
}

#[tokio::test]
async fn instances_that_go_answer_what_they_got() {
    let Some(machine) = Machine::of("deployments", |_| {}) else { return };
    let desk = &machine.desk;
    front(&machine);
    while !desk.pass(&[&stopping(4, 1), FRONT]).await.done.is_empty() {}
    let when = |path: &str| fs::metadata(machine.desk_path(path)).unwrap().modified().unwrap();
    let waited = |number: u32| {
        when(&format!("/run/stopped-{number}")).duration_since(when("/run/read")).unwrap_or_default()
    };
    let pass = desk.pass(&[&stopping(3, 1), FRONT]).await;
    assert!(!machine.run(&["cat", "/run/read"]).contains("web@4"));
    // What else there is to do on the host does not wait for it.
    let kept = "delete web@4.service: failed: unavailable: web@4.service is kept: requests to it are still under way";
    assert!(pass.done.iter().any(|line| line == kept), "{pass:?}");
    assert!(!machine.desk_path("/run/stopped-4").exists());
    while !desk.pass(&[&stopping(3, 1), FRONT]).await.done.is_empty() {}
    assert!(waited(4) >= Duration::from_secs(3), "{:?}", waited(4));
    assert_eq!(desk.pass(&[&stopping(3, 1), FRONT]).await.done, [""; 0]);

    // Whoever dies meanwhile, wherever, leaves the rest of the time to the next one.
    let fewer = [&*stopping(2, 1), FRONT];
    for lives in 0..3 {
        assert!(!desk.pass_dying(&fewer, lives).await, "{lives}");
        assert!(!machine.desk_path("/run/stopped-3").exists(), "{lives}");
        if !machine.run(&["cat", "/etc/front.conf"]).contains("web@3") {
            break;
        }
    }
    while !desk.pass(&fewer).await.done.is_empty() {}
    assert!(waited(3) >= Duration::from_secs(3), "{:?}", waited(3));

    // It has the balancer's word, and died before it did more.
    let (mut batch, ..) = desk.plan(&desk.desired(&[&stopping(1, 1), FRONT])).await;
    batch.actions.retain(|action| !matches!(action.op, Op::Delete { .. }));
    desk.apply(&batch).await;
    while !desk.pass(&[&stopping(1, 1), FRONT]).await.done.is_empty() {}
    assert!(waited(2) >= Duration::from_secs(3), "{:?}", waited(2));

    // The deployment goes, and its balancer stays.
    let other = "Deployment other app=web {replicas: 1, minReadySeconds: 0, content: \"[Service]\\nExecStart=/bin/sleep 1d\\n\"}";
    while !desk.pass(&[other, FRONT]).await.done.is_empty() {}
    assert!(waited(1) >= Duration::from_secs(3), "{:?}", waited(1));
}
