//! A disk that is full while the daemon runs: the state on a file system of a few megabytes, in a namespace of its own.

use crate::{
    env::{Env, WIDE_GUARD, zone},
    pdns::Pdns,
    running::{Daemon, wait_for},
};
use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::Command,
};

const ZONE: &str = "example.com";

/// Mounts a small file system at the first argument and becomes the rest.
const SCRIPT: &str = "mount -t tmpfs -o size=24m tmpfs \"$1\" || exit 100; shift; exec \"$@\"";

/// Records that need megabytes to be written down, and little as a commit.
fn records(number: usize) -> String {
    let record = |n: usize| format!("{{name: h{n}, type: A, values: [192.0.{}.{}]}}", n / 250, n % 250 + 1);
    let all: Vec<String> = (0..number).map(record).collect();
    zone(ZONE, "pdns", &all.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Takes all space but so many bytes.
fn fill(file: &Path, but: u64) {
    let mut open = fs::File::create(file).unwrap();
    let chunk = vec![1; 64 << 10];
    let full = loop {
        if let Err(error) = open.write_all(&chunk) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    let taken = open.metadata().unwrap().len();
    open.set_len(taken - but).unwrap();
}

#[test]
fn nothing_is_written_that_cannot_be_put_down_and_it_goes_on_once_there_is_room() {
    let server = Pdns::start();
    let env = Env::new();
    env.write("key", &server.key);
    let entry = env.pdns_entry(&server.url, WIDE_GUARD);
    // What is mounted is seen by the daemon alone; its socket is outside.
    let socket = env.path("api.sock");
    let api = format!("{entry}\napi: {{socket: {}}}", socket.display());
    env.config_with("it", &api, ", interval: 1s");
    fs::create_dir(env.path("state")).unwrap();
    env.push("zone.yaml", &records(1));
    let config = env.path("config.yaml");
    let run = env.command(&["--config", config.to_str().unwrap(), "run"]);
    let values = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new("unshare");
    command.env_clear().envs(values).args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(env.path("state"));
    command.arg(run.get_program()).args(run.get_args());
    let mut daemon = Daemon::of(command, env.path("daemon.log"));
    let mut has_none = false;
    wait_for("the daemon answers", || {
        has_none = daemon.ended().is_some_and(|status| {
            assert!(
                status.code() == Some(100) || daemon.log().contains("unshare failed"),
                "{}",
                daemon.log()
            );
            true
        });
        has_none || UnixStream::connect(&socket).is_ok()
    });
    // As in a container that may make no namespaces.
    if has_none {
        return;
    }
    wait_for("the first record", || server.rrsets(ZONE).len() == 1);
    env.run(&["sync", "--wait"]).exits(0);

    let state = env.path("state");
    let inside = Path::new("/proc").join(daemon.id()).join("root").join(state.strip_prefix("/").unwrap());
    fill(&inside.join("fill"), 256 << 10);
    let before = server.writes();
    env.push("zone.yaml", &records(10_000));
    wait_for("somebody says so", || {
        let status = env.run(&["status"]).all();
        status.contains("no space left") || status.contains("No space left")
    });
    env.run(&["sync", "--wait", "--timeout", "10s"]).says(&["no space left"]);
    env.run(&["status"]).says(&["free space"]);
    let log = daemon.log();
    let told = log.lines().filter(|line| line.contains("o space left")).count();
    assert!((1..=4).contains(&told), "each try is told: {log}");
    assert_eq!(
        (server.writes(), server.rrsets(ZONE).len()),
        (before, 1),
        "it wrote and could not put it down"
    );

    fs::remove_file(inside.join("fill")).unwrap();
    wait_for("it goes on by itself", || server.rrsets(ZONE).len() == 10_000);
    env.run(&["sync", "--wait"]).exits(0).says(&["in sync"]);
    daemon.stop();
}
