//! The wire against a real process: the small provider of this package.

mod aws;
mod calls;
mod example;
mod faults;
mod identity;
mod listed;
mod provider;
mod sandbox;
mod shown;
mod takeover;
mod writes;

use reconciled_cloud::{
    catalog::Catalog,
    wire::{Launch, Process, Protocol},
};
use reconciled_provider::ErrorKind;
use reconciled_testkit::PATIENCE;
use std::{collections::BTreeMap, os::unix::fs::PermissionsExt, time::Instant};

fn launch(environment: &[(&str, &str)]) -> Launch {
    let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Launch {
        path: env!("CARGO_BIN_EXE_terraform-provider-toy").into(),
        keeper: Vec::new(),
        environment,
        allow_tcp: false,
        sandbox: None,
        opened: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_starts_tells_its_schemas_and_ends() {
    let world = tempfile::tempdir().unwrap();
    for (number, protocol) in [("5", Protocol::V5), ("6", Protocol::V6)] {
        let ends = world.path().join(number);
        let environment = [("TOY_PROTOCOL", number), ("TOY_ENDS", ends.to_str().unwrap())];
        let process = Process::start(&launch(&environment)).await.unwrap();
        assert_eq!(process.calls.protocol(), protocol);
        let catalog = Catalog::read(process.calls.schemas().await.unwrap(), protocol).unwrap();
        let types: Vec<&str> = catalog.types().map(|name| &**name).collect();
        assert_eq!(types, ["toy_thing", "toy_trivial"]);
        let thing = catalog.resource("toy_thing").unwrap();
        assert!(thing.schema.block.attributes["secret"].sensitive && catalog.plans_deletions());
        assert!(catalog.data_source("toy_thing").unwrap().schema.block.attributes["secret"].computed);
        let error = catalog.resource("toy_thign").unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `toy_thing`?"));
        process.stop().await;
        assert_eq!(std::fs::read_to_string(ends).unwrap(), "asked\nended\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_hosted_says_why() {
    let refuse = async |start: &str, kind: ErrorKind, part: &str| {
        let error = Process::start(&launch(&[("TOY_START", start)])).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(part), "{error}");
    };
    refuse("die", ErrorKind::Unavailable, "with exit code 3; it said: the toy is broken").await;
    refuse("garbage", ErrorKind::Unsupported, "no handshake").await;
    refuse("old", ErrorKind::Unsupported, "version 4").await;
    refuse("open", ErrorKind::Unsupported, "every user of this machine").await;
    refuse("deaf", ErrorKind::Unavailable, "No such file").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_listens_at_an_address_where_the_entry_allows_it() {
    let launch = Launch { allow_tcp: true, ..launch(&[("TOY_START", "open")]) };
    let process = Process::start(&launch).await.unwrap();
    assert!(process.calls.schemas().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_ends_with_its_handle() {
    let process = Process::start(&launch(&[])).await.unwrap();
    let calls = process.calls.clone();
    assert!(!process.has_ended());
    drop(process);
    let deadline = Instant::now() + PATIENCE;
    while calls.schemas().await.is_ok() {
        assert!(Instant::now() < deadline, "it still answers");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_sees_what_it_is_told_alone_and_listens_where_nobody_else_may_enter() {
    let world = tempfile::tempdir().unwrap();
    let told = world.path().join("pid");
    let process = Process::start(&launch(&[("TOY_STARTS", told.to_str().unwrap())])).await.unwrap();
    let pid = std::fs::read_to_string(&told).unwrap();
    let surroundings = std::fs::read_to_string(format!("/proc/{}/environ", pid.trim())).unwrap();
    let variables: BTreeMap<&str, &str> =
        surroundings.split_terminator('\0').filter_map(|variable| variable.split_once('=')).collect();
    // None of those that cargo sets for a test, nor of those of who runs it.
    let names: Vec<&str> = variables.keys().copied().collect();
    let expect = [
        "HOME",
        "PATH",
        "PLUGIN_MAX_PORT",
        "PLUGIN_MIN_PORT",
        "PLUGIN_PROTOCOL_VERSIONS",
        "PLUGIN_UNIX_SOCKET_DIR",
        "TF_PLUGIN_MAGIC_COOKIE",
        "TMPDIR",
        "TOY_STARTS",
    ];
    assert_eq!(names, expect);
    let folder = variables["PLUGIN_UNIX_SOCKET_DIR"];
    assert_eq!((variables["HOME"], variables["TMPDIR"]), (folder, folder));
    assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    process.stop().await;
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_started_ends_with_it() {
    let world = tempfile::tempdir().unwrap();
    let told = world.path().join("pid");
    let environment = [("TOY_CHILD", told.to_str().unwrap())];
    // Killed, and of its own accord.
    for is_asked in [false, true] {
        let process = Process::start(&launch(&environment)).await.unwrap();
        let pid = std::fs::read_to_string(&told).unwrap();
        assert!(is_running(&pid));
        match is_asked {
            true => process.stop().await,
            false => drop(process),
        }
        let deadline = Instant::now() + PATIENCE;
        while is_running(&pid) {
            assert!(Instant::now() < deadline, "{pid} is still there");
            tokio::task::yield_now().await;
        }
    }
}

fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_may_be_larger_than_any_other_answer() {
    let largest = async |mebibytes: &str| {
        let process = Process::start(&launch(&[("TOY_HUGE", mebibytes)])).await.unwrap();
        process.calls.schemas().await.map(|schemas| Catalog::read(schemas, Protocol::V6).unwrap())
    };
    let catalog = largest("65").await.expect("no other answer is that large, and schemas may be");
    assert_eq!(catalog.resource("toy_thing").unwrap().schema.block.description.len(), 65 << 20);
    let refused = largest("513").await.expect_err("this is no schema any more");
    assert!(refused.to_string().contains("an answer of more than 512 MiB"), "{refused}");
}
