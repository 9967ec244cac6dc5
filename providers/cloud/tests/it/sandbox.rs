//! A provider that somebody else starts: what a unit of systemd does for each connection is done here by a task.

use crate::{
    is_running, launch,
    provider::{Desk, SECRET},
    writes::{carry_out, create, word},
};
use reconciled_cloud::{
    Config, Given,
    find::Program,
    open,
    wire::{Launch, Process, serve},
};
use reconciled_provider::{Error, ErrorKind};
use reconciled_testkit::PATIENCE;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{net::UnixListener, task::JoinSet};

/// A socket, and what became of those who connected.
struct Unit {
    world: tempfile::TempDir,
    ended: Arc<Mutex<Vec<Result<(), Error>>>>,
    _serving: JoinSet<()>,
}

impl Unit {
    fn start() -> Unit {
        let world = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(world.path().join("plugin.sock")).expect("a socket");
        let ended = Arc::<Mutex<Vec<Result<(), Error>>>>::default();
        let mut serving = JoinSet::new();
        let told = ended.clone();
        serving.spawn(async move {
            let mut all = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let told = told.clone();
                all.spawn(async move {
                    let connection = stream.into_std().expect("a connection");
                    let result = serve(connection).await;
                    told.lock().expect("nobody panics with it").push(result);
                });
            }
        });
        Unit { world, ended, _serving: serving }
    }

    fn socket(&self) -> PathBuf {
        self.world.path().join("plugin.sock")
    }

    fn ended(&self) -> usize {
        self.ended.lock().expect("nobody panics with it").len()
    }

    fn launch(&self, environment: &[(&str, &str)]) -> Launch {
        Launch { sandbox: Some(self.socket()), ..launch(environment) }
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn started(starts: &Path) -> String {
    fs::read_to_string(starts).unwrap_or_default().trim().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_elsewhere_plans_and_makes_as_one_here() {
    let unit = Unit::start();
    let desk = Desk::new("");
    let starts = desk.world.path().join("starts");
    let mut config = Config { sandbox: Some(unit.socket()), ..desk.config.clone() };
    config.environment.push(("TOY_STARTS".into(), Given::Text(starts.display().to_string())));
    let desk = Desk { provider: open("toy", config).expect("a program"), ..desk };
    let declared = json!({ "config": { "name": "a", "secret": "x" } });
    let made = carry_out(&desk, &desk.cx, create(&desk, &declared).await, None).await;
    assert_eq!(word(&made), "done");
    assert!(desk.world.path().join("thing-1.json").exists());
    let pid = started(&starts);
    assert!(is_running(&pid) && unit.ended() == 0);
    // It ends with who asked for it.
    drop(desk);
    until("the provider is still there", || !is_running(&pid)).await;
    until("its unit is still there", || unit.ended() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_elsewhere_that_ends_or_dies_is_noticed() {
    let unit = Unit::start();
    let ends = unit.world.path().join("ends");
    let process = Process::start(&unit.launch(&[("TOY_ENDS", ends.to_str().unwrap())])).await.unwrap();
    assert!(process.calls.schemas().await.is_ok() && !process.has_ended());
    process.stop().await;
    assert!(fs::read_to_string(ends).unwrap().starts_with("asked"));
    until("its unit is still there", || unit.ended() == 1).await;

    let desk = Desk::new("");
    let config = Config { sandbox: Some(unit.socket()), ..desk.config.clone() };
    let desk = Desk { provider: open("toy", config).expect("a program"), ..desk };
    for _ in 0..2 {
        let dies = json!({ "config": { "name": "a", "fault": "plan-death" } });
        let error = desk.look(&dies, &[]).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert_eq!(desk.look(&json!({ "config": { "name": "a" } }), &[]).await.unwrap().1.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_hosted_says_why_from_there_too() {
    let unit = Unit::start();
    let refuse = async |start: &str, kind: ErrorKind, part: &str| {
        let error = Process::start(&unit.launch(&[("TOY_START", start)])).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(part), "{error}");
        // By its name, and not by the number of an open file.
        assert!(error.message.contains("terraform-provider-toy"), "{error}");
    };
    refuse("die", ErrorKind::Unavailable, "with exit code 3; it said: the toy is broken").await;
    refuse("garbage", ErrorKind::Unsupported, "no handshake").await;
    refuse("old", ErrorKind::Unsupported, "version 4").await;
    refuse("open", ErrorKind::Unsupported, "every user of this machine").await;
    refuse("deaf", ErrorKind::Unavailable, "No such file").await;
    until("each is told to who asked, and is over", || unit.ended() == 5).await;
    let allowed = Launch { allow_tcp: true, ..unit.launch(&[("TOY_START", "open")]) };
    assert!(Process::start(&allowed).await.unwrap().calls.schemas().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_a_provider_prints_there_is_not_told() {
    let unit = Unit::start();
    let desk = Desk::new("");
    let program = unit.world.path().join("terraform-provider-toy");
    fs::write(&program, "#!/bin/sh\necho \"it is $KEY\" >&2\nexit 1\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let secret = reconciled_provider::SecretRef::Named("key".into());
    let config = Config {
        program: Program::At(program),
        sandbox: Some(unit.socket()),
        environment: vec![("KEY".into(), Given::Secret(secret))],
        ..desk.config.clone()
    };
    let error = open("toy", config).unwrap().kinds(&desk.cx).await.unwrap_err();
    assert!(error.message.ends_with("it said: it is (secret)"), "{error}");
    assert!(!format!("{error:?}").contains(SECRET));
}

/// What was installed is in a folder that the unit's user cannot enter: the program comes to it open.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_run_that_cannot_be_found_there() {
    let unit = Unit::start();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("terraform-provider-toy");
    fs::copy(env!("CARGO_BIN_EXE_terraform-provider-toy"), &program).unwrap();
    let file = fs::File::open(&program).unwrap();
    let listening = Launch { path: program.clone(), ..unit.launch(&[]) };
    let process = Process::start(&listening).await.unwrap();
    // The next one is started from what is open, though its name is gone.
    fs::remove_file(&program).unwrap();
    let gone = Process::start(&Launch { path: program, ..unit.launch(&[]) }).await.unwrap_err();
    assert!(gone.message.starts_with("open "), "{gone}");
    // As it comes there: whoever is started has it too.
    let opened = Launch {
        path: "/nowhere/terraform-provider-toy".into(),
        opened: Some(Arc::new(rustix::io::dup(&file).unwrap())),
        ..launch(&[])
    };
    assert!(Process::start(&opened).await.unwrap().calls.schemas().await.is_ok());
    assert!(process.calls.schemas().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_there_or_talks_nonsense_is_told_with_what_to_do() {
    let world = tempfile::tempdir().unwrap();
    let at = world.path().join("plugin.sock");
    let start =
        async || Process::start(&Launch { sandbox: Some(at.clone()), ..launch(&[]) }).await.unwrap_err();
    let error = start().await;
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(error.message, format!("connect to {}", at.display()));
    assert!(error.hint.as_ref().unwrap().contains("systemctl enable --now reconciled-plugin.socket"));
    let listener = std::os::unix::net::UnixListener::bind(&at).unwrap();
    std::thread::spawn(move || {
        use std::io::Write;
        for answer in ["hello\n", "", "{\"protocol\":4}\n"] {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for _ in 0..3 {
        let error = start().await;
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(error.message.contains(" plugin.sock") || error.message.contains("/plugin.sock"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_nothing_is_let_go() {
    let unit = Unit::start();
    {
        use std::io::Write;
        // A length, and no program with it.
        let mut stream = std::os::unix::net::UnixStream::connect(unit.socket()).unwrap();
        stream.write_all(&[0, 0, 0, 2, b'{', b'}']).unwrap();
        until("it waits", || unit.ended() == 1).await;
    }
    drop(std::os::unix::net::UnixStream::connect(unit.socket()).unwrap());
    until("it waits", || unit.ended() == 2).await;
    assert!(unit.ended.lock().unwrap().iter().all(Result::is_err));
}
