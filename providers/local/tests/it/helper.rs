//! The helper behind a socket: what it is asked by a daemon, and by somebody who forges requests.

use crate::{desk::Desk, units::Machine};
use futures_util::StreamExt;
use reconciled_local::{
    hands::{
        Afar, Asked, Change, Check, Fault, Hands, Job, Link, Make, Manager, Put, Remove, Unwell, Watched,
        What,
        wire::{Answer, Ask, Frames, LONGEST, OneCheck, Question, VERSION, send},
    },
    hostd::{Allowed, refuse, serve},
    path::FilePath,
    state::Access,
};
use reconciled_provider::{Error, ErrorKind, Secret};
use reconciled_testkit::PATIENCE;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    sync::oneshot,
};

/// A helper in a thread of its own, at work until it is ended or dropped with its test.
pub(crate) struct Helper {
    pub(crate) socket: PathBuf,
    end: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Helper {
    /// Starts one for the machine at `root`, with further `keys` in its configuration in `dir`.
    pub(crate) fn start(dir: &Path, root: &Path, keys: &str) -> Helper {
        let config = dir.canonicalize().unwrap().join("hostd.yaml");
        let text =
            format!("root: {}\noriginals: {}\n{keys}", root.display(), dir.join("originals").display());
        fs::write(&config, text).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
        let allowed = Allowed::read(&config).unwrap();
        let socket = dir.join("hostd.sock");
        let _ = fs::remove_file(&socket);
        let (end, ended) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let at = socket.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = UnixListener::bind(at).unwrap();
                ready.send(()).unwrap();
                tokio::select! {
                    served = serve(listener, None, allowed, Duration::from_secs(600)) => served.unwrap(),
                    _ = ended => {}
                }
            });
        });
        is_ready.recv().unwrap();
        Helper { socket, end: Some((end, thread)) }
    }
    pub(crate) fn of(desk: &Desk, keys: &str) -> Helper {
        Helper::start(desk.dir.path(), &desk.path("/"), keys)
    }
    /// As if it was killed: nothing that it was at is ended.
    fn kill(mut self) {
        let (end, thread) = self.end.take().unwrap();
        drop(end);
        thread.join().unwrap();
        // A process that another test starts just now has what listens too, until it has become its program.
        while std::os::unix::net::UnixStream::connect(&self.socket).is_ok() {}
    }
    /// What comes back for these octets, until the helper has said enough.
    async fn raw(&self, octets: &[u8]) -> Vec<Answer> {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        // It may have said no before all of it was sent.
        let _ = stream.write_all(octets).await;
        let _ = stream.shutdown().await;
        let (mut frames, mut all) = (Frames::of(stream), Vec::new());
        while let Ok(Some(answer)) = frames.words().await {
            all.push(answer);
        }
        all
    }
    async fn asked(&self, question: &Value) -> Vec<Answer> {
        let mut octets = Vec::new();
        send(&mut octets, question).await.unwrap();
        self.raw(&octets).await
    }
    /// The reason why a question is refused.
    async fn refuses(&self, question: &Value) -> String {
        match &self.asked(question).await[..] {
            [Answer::Failed(why)] => Error::from(why.clone()).message.clone(),
            answers => panic!("{question} is answered: {answers:?}"),
        }
    }
}

fn path(text: &str) -> FilePath {
    FilePath::parse(text).unwrap()
}

fn file(content: &str) -> Make {
    let access = Access { owner: None, group: None, mode: 0o644 };
    Make::File { access, content: Secret::new(content.into()), validate: None, is_public: true }
}

const WEB: &str = "paths: [/etc, /srv]\nunits: ['web@*.service']\nbus: unix:path=/nonexistent\n";

#[tokio::test]
async fn a_forged_request_is_refused_with_a_reason_and_changes_nothing() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, WEB);
    desk.write("/etc/shadow", "root:*\n");
    desk.write("/root/key", "canary\n");
    let afar = Afar::new(&helper.socket);
    let mut stamps = afar.look(&[path("/etc/absent"), path("/etc/shadow")]).await.unwrap().into_iter();
    let (absent, shadow) = (stamps.next().unwrap().stamp(), stamps.next().unwrap().stamp());

    let put = |path: Value, make: Value| json!({"version": VERSION, "ask": {"Put": {"path": path, "expect": absent, "make": make, "keep": false}}});
    let made = serde_json::to_value(file("x")).unwrap();
    for (at, part) in [
        ("/root/x", "not below any of the directories"),
        ("/etc", "not below any of the directories"),
        ("/etc/../root/x", "has `.` or `..` in it"),
        ("etc/x", "does not begin with a slash"),
        ("/etc/x\0", "control character"),
        ("/etc/systemd/system/ssh.service", "none of the helper's units"),
        ("/etc/systemd/system/ssh.service.d/x.conf", "none of the helper's units"),
        ("/etc/systemd/system/reconciled-hostd.service.d/x.conf", "reconciled's own"),
    ] {
        let why = helper.refuses(&put(json!(at), made.clone())).await;
        assert!(why.contains(part), "{at}: {why}");
    }
    let mode = |mode: u32| json!({"File": {"access": {"owner": null, "group": null, "mode": mode}, "content": "eA==", "validate": null, "is_public": true}});
    for bits in [0o4755, 0o2755] {
        let why = helper.refuses(&put(json!("/etc/absent"), mode(bits))).await;
        assert!(why.contains("no file set-user-id"), "{why}");
    }
    fs::create_dir_all(desk.path("/etc/systemd")).unwrap();
    let owned = json!({"Directory": {"access": {"owner": "nobody", "group": null, "mode": 493}}});
    let open = json!({"Directory": {"access": {"owner": null, "group": null, "mode": 511}}});
    for (at, make) in
        [("/etc/systemd", &owned), ("/etc/systemd", &open), ("/etc/systemd/system.control", &owned)]
    {
        let why = helper.refuses(&put(json!(at), make.clone())).await;
        assert!(why.contains("decides about what is below it"), "{at}: {why}");
    }
    fs::remove_dir(desk.path("/etc/systemd")).unwrap();
    let with_command = json!({"File": {"access": {"owner": null, "group": null, "mode": 420}, "content": "eA==", "validate": "sh", "is_public": true}});
    let why = helper.refuses(&put(json!("/etc/absent"), with_command)).await;
    assert!(why.contains("the helper has no command `sh`"), "{why}");
    let ask = |ask: Value| json!({"version": VERSION, "ask": ask});
    for (question, part) in [
        (ask(json!({"Job": ["ssh.service", "Stop", ""]})), "none of the helper's units"),
        (ask(json!({"Link": ["../../x@.service", "Enable"]})), "none of the helper's units"),
        (
            ask(json!({"Check": {"check": {"command": "sh"}, "unit": "web@1.service", "instance": 1}})),
            "the helper has no command `sh`",
        ),
        (
            ask(
                json!({"Check": {"check": {"http": "http://169.254.169.254:80/"}, "unit": "web@1.service", "instance": 1}}),
            ),
            "no network",
        ),
        (ask(json!({"List": "/root"})), "not below any of the directories"),
        (ask(json!({"Triggers": "ssh.socket"})), "none of the helper's units"),
        (ask(json!({"Shell": "id"})), "unknown variant `Shell`"),
        (json!({"version": VERSION, "ask": "Reload", "uid": 0}), "unknown field `uid`"),
        (json!({"version": 99, "ask": "Reload"}), "version 99"),
        (json!({"ask": "Reload"}), "missing field `version`"),
    ] {
        let why = helper.refuses(&question).await;
        assert!(why.contains(part), "{question}: {why}");
    }
    // What was looked at was swapped for a link to what nobody may touch.
    fs::remove_file(desk.path("/etc/shadow")).unwrap();
    symlink("/root/key", desk.path("/etc/shadow")).unwrap();
    let swapped = Put { path: path("/etc/shadow"), expect: shadow, make: file("root::\n"), keep: false };
    let Err(Fault::NoEffect(error)) = afar.put(&swapped).await else { panic!("it was written") };
    assert_eq!(error.kind, ErrorKind::Conflict);
    symlink("/root", desk.path("/etc/out")).unwrap();
    let out = afar.look(&[path("/etc/out/key"), path("/root/key")]).await.unwrap();
    assert!(out.iter().all(|seen| matches!(seen.what, What::Refused(_))), "{out:?}");
    assert!(
        !format!("{:?}", helper.asked(&ask(json!({"Look": ["/etc/out/key", "/etc/shadow"]}))).await)
            .contains("canary")
    );

    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4], &[0, 0, 0, 3, b'{', b'}', b' '], &[0xff; 64]] {
        let answers = helper.raw(garbage).await;
        assert!(matches!(&answers[..], [Answer::Failed(_)]), "{garbage:?}: {answers:?}");
    }
    let mut oversize = u32::try_from(LONGEST + 1).unwrap().to_be_bytes().to_vec();
    oversize.resize(LONGEST + 5, b' ');
    let answers = helper.raw(&oversize).await;
    assert!(format!("{answers:?}").contains("longer than"), "{answers:?}");

    assert_eq!(fs::read_to_string(desk.path("/root/key")).unwrap(), "canary\n");
    assert_eq!(desk.names("/root"), ["key"]);
    assert_eq!(desk.names("/etc"), ["out", "shadow"]);
}

#[tokio::test]
async fn a_file_is_written_and_removed_through_it_and_a_second_time_nothing_happens() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, "paths: [/etc]\n");
    let afar = Afar::new(&helper.socket);
    let seen = afar.look(&[path("/etc/a")]).await.unwrap().remove(0);
    let put = Put { path: seen.path.clone(), expect: seen.stamp(), make: file("one\n"), keep: false };
    afar.put(&put).await.unwrap();
    assert_eq!(desk.read("/etc/a"), "one\n");
    assert!(matches!(afar.put(&put).await, Err(Fault::NoEffect(error)) if error.kind == ErrorKind::Conflict));
    let seen = afar.look(&[path("/etc/a")]).await.unwrap().remove(0);
    let large = Put { expect: seen.stamp(), make: file(&"x".repeat(16 << 20)), keep: true, ..put };
    afar.put(&large).await.unwrap();
    let seen = afar.look(&[path("/etc/a")]).await.unwrap().remove(0);
    assert!(matches!(&seen.what, What::File { content, .. } if content.reveal().len() == 16 << 20));
    assert_eq!(desk.originals(), ["one\n"]);
    afar.remove(&Remove { path: seen.path.clone(), expect: seen.stamp(), keep: false }).await.unwrap();
    assert_eq!(desk.names("/etc"), [""; 0]);
    let listed = afar.list_all().await.unwrap();
    assert!(listed.is_empty());
    // It has no units, and says so.
    let Err(Fault::NoEffect(error)) = afar.job("web@1.service", Job::Start, "").await else { panic!() };
    assert_eq!(error.kind, ErrorKind::PermissionDenied);
    assert!(Manager::link(&afar, "a.service", Link::Enable).await.is_err() && afar.units(&[]).await.is_err());
}

#[tokio::test]
async fn changes_are_told_through_it_also_after_it_was_killed() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, "paths: [/etc]\n");
    let afar = Afar::new(&helper.socket);
    let watch = |name: &str| Watched { paths: [path(name)].into(), directories: [].into() };
    Hands::watch(&afar, "files", watch("/etc/a")).await.unwrap();
    let mut changes = Hands::changes(&afar);
    assert_eq!(changes.next().await.unwrap(), [Change::Anywhere], "what was before is not known");
    desk.write("/etc/a", "1");
    told(&mut changes, Change::At(path("/etc/a"))).await;
    // The wish is fulfilled when `watch` returns; somebody has to take what is told meanwhile.
    let mut watching = Hands::watch(&afar, "files", watch("/etc/b"));
    desk.write("/etc/a", "2");
    loop {
        tokio::select! {
            done = &mut watching => break done.unwrap(),
            _ = changes.next() => {}
        }
    }
    desk.write("/etc/b", "1");
    let at_b = async { while !changes.next().await.unwrap().contains(&Change::At(path("/etc/b"))) {} };
    tokio::time::timeout(PATIENCE, at_b).await.unwrap();

    while tokio::time::timeout(Duration::from_millis(200), changes.next()).await.is_ok() {}
    helper.kill();
    assert_eq!(
        changes.next().await.unwrap(),
        [Change::Anywhere],
        "somebody has to look, and say what is wrong"
    );
    let dead = Put { path: path("/etc/c"), expect: absent_stamp(), make: file("c"), keep: false };
    assert!(
        matches!(afar.put(&dead).await, Err(Fault::NoEffect(error)) if error.kind == ErrorKind::Unavailable)
    );
    let _again = Helper::of(&desk, "paths: [/etc]\n");
    let anywhere = async { while changes.next().await.unwrap() != [Change::Anywhere] {} };
    tokio::time::timeout(PATIENCE, anywhere).await.unwrap();
    desk.write("/etc/b", "2");
    told(&mut changes, Change::At(path("/etc/b"))).await;
}

#[tokio::test]
async fn nobody_waits_for_changes_to_be_watched_that_nobody_reads_any_longer() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, "paths: [/etc]\n");
    let afar = Afar::new(&helper.socket);
    let watch = |name: &str| Watched { paths: [path(name)].into(), directories: [].into() };
    let mut changes = Hands::changes(&afar);
    changes.next().await.unwrap();
    drop(changes);
    // The limit is 5 s.
    let watching = Hands::watch(&afar, "files", watch("/etc/a"));
    tokio::time::timeout(Duration::from_secs(4), watching).await.unwrap().unwrap();
    // Who listens again is told that anything may have happened.
    assert_eq!(Hands::changes(&afar).next().await.unwrap(), [Change::Anywhere]);
}

/// Does what is to be watched again while somebody takes what is told, and takes that too.
async fn watch_again(
    afar: &Afar,
    changes: &mut (impl futures_util::Stream<Item = Vec<Change>> + Unpin),
    name: &str,
) {
    let watched = Watched { paths: [path(name)].into(), directories: [].into() };
    let mut watching = Hands::watch(afar, "files", watched);
    loop {
        tokio::select! {
            done = &mut watching => break done.unwrap(),
            _ = changes.next() => {}
        }
    }
    while tokio::time::timeout(Duration::from_millis(200), changes.next()).await.is_ok() {}
}

/// Waits until a change is told; what is still told of earlier ones is taken too.
async fn told(changes: &mut (impl futures_util::Stream<Item = Vec<Change>> + Unpin), change: Change) {
    while !changes.next().await.unwrap().contains(&change) {}
}

#[tokio::test]
async fn a_directory_in_the_place_of_another_and_what_is_in_the_way_to_one_are_watched() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, "paths: [/etc/web]\n");
    let afar = Afar::new(&helper.socket);
    let mut changes = Hands::changes(&afar);
    let (directory, at_a) = (desk.path("/etc/web"), "/etc/web/sub/a");
    fs::create_dir_all(directory.join("sub")).unwrap();
    watch_again(&afar, &mut changes, at_a).await;
    for _ in 0..2 {
        fs::remove_dir_all(&directory).unwrap();
        fs::create_dir_all(directory.join("sub")).unwrap();
        told(&mut changes, Change::Anywhere).await;
        watch_again(&afar, &mut changes, at_a).await;
        desk.write(at_a, "1");
        told(&mut changes, Change::At(path(at_a))).await;
    }
    for (in_the_way, aside) in [("/etc/web", "/etc/x"), ("/etc/web/sub", "/etc/web/x")] {
        let (in_the_way, aside) = (desk.path(in_the_way), desk.path(aside));
        fs::rename(&in_the_way, &aside).unwrap();
        symlink(desk.path("/srv"), &in_the_way).unwrap();
        watch_again(&afar, &mut changes, at_a).await;
        fs::remove_file(&in_the_way).unwrap();
        // The link is gone.
        told(&mut changes, Change::Anywhere).await;
        watch_again(&afar, &mut changes, at_a).await;
        fs::rename(&aside, &in_the_way).unwrap();
        // The directory is there.
        told(&mut changes, Change::Anywhere).await;
        watch_again(&afar, &mut changes, at_a).await;
        desk.write(at_a, "2");
        told(&mut changes, Change::At(path(at_a))).await;
    }
}

#[tokio::test]
async fn a_check_that_cannot_be_asked_is_told_from_one_that_says_no() {
    let desk = Desk::new();
    let commands = "commands: {well: [\"true\"], ill: [sh, -c, echo it is ill; exit 1], later: [sh, -c, exit 75], \
                    killed: [sh, -c, 'kill -9 $$'], nowhere: [/nonexistent]}\n";
    let helper = Helper::of(&desk, &format!("{WEB}{commands}"));
    let afar = Afar::new(&helper.socket);
    let asked = Asked { unit: "web@1.service", instance: 1 };
    let ask = async |name: &str| afar.check(&Check::Command(name.into()), asked).await;
    assert!(ask("well").await.is_ok());
    let ill = ask("ill").await;
    assert!(matches!(&ill, Err(Unwell::No(error)) if error.message.contains("it is ill")), "{ill:?}");
    for name in ["later", "killed", "nowhere", "unknown"] {
        let answer = ask(name).await;
        assert!(matches!(answer, Err(Unwell::NotAsked(_))), "{name}: {answer:?}");
    }
    let free = crate::sockets::port();
    let refused = afar.check(&Check::Tcp(format!("127.0.0.1:{free}")), asked).await;
    assert!(matches!(refused, Err(Unwell::No(_))), "{refused:?}");
    let nobody = afar.check(&Check::Tcp("nobody.invalid:80".into()), asked).await;
    assert!(matches!(nobody, Err(Unwell::NotAsked(_))), "{nobody:?}");
    helper.kill();
    let answer = afar.check(&Check::Command("well".into()), asked).await;
    assert!(matches!(answer, Err(Unwell::NotAsked(_))), "{answer:?}");
}

#[tokio::test]
async fn a_helper_that_will_not_tell_of_changes_is_not_asked_again_at_once() {
    let desk = Desk::new();
    let socket = desk.dir.path().join("deaf.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // It says no, at first or once it had said that it listens.
    let asked = Arc::new(Mutex::new(Vec::new()));
    let times = asked.clone();
    let deaf = async move {
        loop {
            let (read, mut to) = listener.accept().await.unwrap().0.into_split();
            let question: Question = Frames::of(read).words().await.unwrap().unwrap();
            let Ask::ListenFiles(number, _) = question.ask else { panic!("{question:?}") };
            times.lock().unwrap().push(Instant::now());
            if times.lock().unwrap().len() == 1 {
                send(&mut to, &Answer::Listening(number)).await.unwrap();
            }
            let why = Error::unavailable("the kernel tells of no changes");
            send(&mut to, &Answer::Failed((&why).into())).await.unwrap();
        }
    };
    let afar = Afar::new(&socket);
    let mut changes = Hands::changes(&afar);
    let told = async {
        let mut told = 0;
        while asked.lock().unwrap().len() < 3 {
            tokio::select! {
                change = changes.next() => {
                    assert_eq!(change.unwrap(), [Change::Anywhere]);
                    told += 1;
                }
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
        }
        told
    };
    let told = tokio::select! {
        () = deaf => panic!("it ended"),
        told = told => told,
    };
    assert_eq!(told, 2, "when it began, and when it was no more");
    let asked = asked.lock().unwrap();
    assert!(asked.windows(2).all(|two| two[1] - two[0] >= Duration::from_secs(2)), "{asked:?}");
}

#[tokio::test]
async fn a_helper_without_units_has_nothing_to_tell_of_them_and_that_is_no_error() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, "paths: [/etc]\n");
    let (read, mut to) = UnixStream::connect(&helper.socket).await.unwrap().into_split();
    let mut answers = Frames::of(read);
    for number in [1, 2] {
        let ask = Ask::ListenUnits(number, ["a.service".to_owned()].into());
        send(&mut to, &Question { version: VERSION, ask }).await.unwrap();
        let answer: Option<Answer> = answers.words().await.unwrap();
        assert!(matches!(answer, Some(Answer::Listening(told)) if told == number), "{answer:?}");
    }
    drop(to);
    let answer: Option<Answer> = answers.words().await.unwrap();
    assert!(matches!(answer, Some(Answer::Done)), "{answer:?}");
}

#[tokio::test]
async fn neither_a_job_nor_a_check_of_somebody_who_is_gone_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let checked = dir.path().join("checked");
    let keys = format!("units: ['*.service']\ncommands: {{touch: [touch, {}]}}\n", checked.display());
    let Some((machine, helper)) = Machine::helped("systemd", &keys) else { return };
    for name in ["stale.service", "later.service"] {
        fs::write(machine.file(name), "[Service]\nExecStart=/bin/sleep 1d\n").unwrap();
    }
    machine.run(&["systemctl", "daemon-reload"]);
    // So many that one more waits to be taken.
    let mut idle = Vec::new();
    for _ in 0..48 {
        idle.push(UnixStream::connect(&helper.socket).await.unwrap());
    }
    let check = OneCheck { check: Check::Command("touch".into()), unit: "stale.service".into(), instance: 1 };
    for ask in [
        Ask::Job("stale.service".into(), Job::Start, String::new()),
        Ask::Link("stale.service".into(), Link::Mask),
        Ask::Check(check),
    ] {
        let mut stream = UnixStream::connect(&helper.socket).await.unwrap();
        send(&mut stream, &Question { version: VERSION, ask }).await.unwrap();
    }
    idle.clear();
    // They are taken in their order, and systemd does as it is told one after the other.
    Afar::new(&helper.socket).job("later.service", Job::Start, "").await.unwrap();
    assert_eq!(machine.property("stale.service", "ActiveState"), "inactive");
    assert_ne!(machine.property("stale.service", "UnitFileState"), "masked");
    assert!(!checked.exists());
}

#[tokio::test]
async fn a_job_is_done_to_no_other_run_than_the_one_that_was_looked_at() {
    let Some((machine, helper)) = Machine::helped("systemd", "units: ['*.service']\n") else { return };
    fs::write(machine.file("a.service"), "[Service]\nExecStart=/bin/sleep 1d\n").unwrap();
    machine.run(&["systemctl", "daemon-reload"]);
    let afar = Afar::new(&helper.socket);
    let run = async || afar.units(&["a.service".to_owned()]).await.unwrap().remove(0).invocation;
    afar.job("a.service", Job::Start, "").await.unwrap();
    let first = run().await;
    machine.run(&["systemctl", "restart", "a.service"]);
    let second = run().await;
    assert_ne!(first, second);
    for job in [Job::Restart, Job::Reload, Job::Stop] {
        let Err(Fault::NoEffect(error)) = afar.job("a.service", job, &first).await else {
            panic!("{job:?} was done to a run that nobody looked at");
        };
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert_eq!(run().await, second);
    }
    afar.job("a.service", Job::Restart, &second).await.unwrap();
    let third = run().await;
    assert!(!third.is_empty() && third != second);
    afar.job("a.service", Job::Stop, &third).await.unwrap();
    // It ended already, and would be started.
    assert!(afar.job("a.service", Job::Restart, &third).await.is_err());
    assert_eq!(machine.property("a.service", "ActiveState"), "inactive");
    afar.job("a.service", Job::Stop, &third).await.unwrap();
}

fn absent_stamp() -> reconciled_local::hands::Stamp {
    reconciled_local::hands::Seen::only(path("/x"), What::Absent).stamp()
}

#[tokio::test]
async fn a_helper_that_dies_over_a_request_leaves_it_unknown() {
    let desk = Desk::new();
    let socket = desk.dir.path().join("dying.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    // Takes a request and is gone.
    let dying = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut frames = Frames::of(stream);
        let question: Question = frames.words().await.unwrap().unwrap();
        assert!(matches!(question.ask, Ask::Put(_)));
    };
    let put = Put { path: path("/etc/c"), expect: absent_stamp(), make: file("c"), keep: false };
    let afar = Afar::new(&socket);
    let (answer, ()) = tokio::join!(afar.put(&put), dying);
    assert!(matches!(answer, Err(Fault::Unknown(error)) if error.kind == ErrorKind::Unavailable));
}

#[tokio::test]
async fn what_nobody_waits_for_any_longer_is_not_begun() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, "paths: [/etc]\n");
    let afar = Afar::new(&helper.socket);
    let put = Put { path: path("/etc/c"), expect: absent_stamp(), make: file("c"), keep: false };
    let mut question = Vec::new();
    send(&mut question, &Question { version: VERSION, ask: Ask::Put(put) }).await.unwrap();
    for _ in 0..50 {
        let mut stream = UnixStream::connect(&helper.socket).await.unwrap();
        stream.write_all(&question).await.unwrap();
        drop(stream);
        // Whoever looks after that sees what stays.
        let seen = afar.look(&[path("/etc/c")]).await.unwrap().remove(0);
        let is_there = !matches!(seen.what, What::Absent);
        // What was begun before the caller went is done; what was not is not done later.
        for _ in 0..5 {
            let again = afar.look(&[path("/etc/c")]).await.unwrap().remove(0);
            assert_eq!(again.stamp(), seen.stamp(), "it was done after somebody had looked");
        }
        if is_there {
            fs::remove_file(desk.path("/etc/c")).unwrap();
        }
    }
}

#[tokio::test]
async fn no_more_connections_are_served_than_it_has_room_for() {
    let desk = Desk::new();
    let helper = Helper::of(&desk, "paths: [/etc]\n");
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(UnixStream::connect(&helper.socket).await.unwrap());
    }
    let afar = Afar::new(&helper.socket);
    let asked = async { afar.look(&[path("/etc/a")]).await };
    let early = tokio::time::timeout(Duration::from_millis(200), asked).await;
    assert!(early.is_err(), "it took them all");
    idle.clear();
    assert!(afar.look(&[path("/etc/a")]).await.is_ok());
}

#[tokio::test]
async fn a_helper_whose_configuration_is_wrong_says_so_to_whoever_asks() {
    let desk = Desk::new();
    let config = desk.dir.path().canonicalize().unwrap().join("hostd.yaml");
    fs::write(&config, "paths: [etc]\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let why = Allowed::unusable(&Allowed::read(&config).unwrap_err());
    let socket = desk.dir.path().join("wrong.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let afar = Afar::new(&socket);
    let paths = [path("/etc/a")];
    for _ in 0..3 {
        let (answer, ()) = tokio::join!(afar.look(&paths), refuse_next(&listener, &why));
        let error = answer.unwrap_err();
        assert!(error.message.contains("hostd.yaml"), "{error:?}");
        assert!(error.hint.is_some());
    }
    // So does whoever only wants to know whether it answers.
    let asking = Desk::with(|config| {
        (config.root, config.originals, config.helper) = ("/".into(), None, Some(socket.clone()));
    });
    let asked = asking.provider.versions(&asking.cx, &[]);
    let (answer, _) = tokio::join!(asked, refuse_next(&listener, &why));
    assert!(answer.unwrap_err().message.contains("hostd.yaml"));
    let helper = Helper::of(&desk, "paths: [/etc]\n");
    let asking = Desk::with(|config| {
        (config.root, config.originals, config.helper) = ("/".into(), None, Some(helper.socket.clone()));
    });
    assert!(asking.provider.versions(&asking.cx, &[]).await.is_ok());
}

/// Answers whoever comes next with `why`.
async fn refuse_next(listener: &UnixListener, why: &Error) {
    let (stream, _) = listener.accept().await.unwrap();
    refuse(stream, why).await;
}
