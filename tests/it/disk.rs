//! A disk that is full while the daemon runs: the state on a file system of a few megabytes, in a namespace of its own.

use crate::{
    env::{Env, WIDE_GUARD, left_out, zone},
    pdns::Pdns,
    running::{Daemon, wait_for},
};
use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
};

const ZONE: &str = "example.com";

/// Mounts a file system of the size of the first argument at the second and becomes the rest.
const SCRIPT: &str = "mount -t tmpfs -o size=$1 tmpfs \"$2\" || exit 100; shift 2; exec \"$@\"";

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

/// A daemon of `env` for which `at` is a file system of that size, and the way there from outside; none where nothing can be
/// mounted, as in a container that may make no namespaces.
fn beside_a_small_disk(env: &Env, at: &Path, size: &str, socket: &Path) -> Option<(Daemon, PathBuf)> {
    fs::create_dir(at).unwrap();
    let config = env.path("config.yaml");
    let run = env.command(&["--config", config.to_str().unwrap(), "run"]);
    let values = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new("unshare");
    command.env_clear().envs(values).args(["--mount", "sh", "-c", SCRIPT, "sh", size]).arg(at);
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
        has_none || UnixStream::connect(socket).is_ok()
    });
    if has_none {
        left_out("nothing can be mounted here");
        return None;
    }
    let inside = Path::new("/proc").join(daemon.id()).join("root").join(at.strip_prefix("/").unwrap());
    Some((daemon, inside))
}

#[test]
fn an_export_to_a_disk_that_was_full_repeats_nothing_and_leaves_nothing_out() {
    let env = Env::zonefile();
    let disk = env.path("small");
    let export = disk.join("audit.jsonl");
    let config = fs::read_to_string(env.path("config.yaml")).unwrap();
    let audit = format!("audit: {{keep: 400d, export: {}}}", export.display());
    env.write("config.yaml", &format!("{config}\n{audit}\n"));
    let push = |number: u8| {
        env.push(
            "zone.yaml",
            &zone(ZONE, "zones", &[&format!("{{name: www, type: A, values: [192.0.2.{number}]}}")]),
        );
        env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    };
    env.push("zone.yaml", &zone(ZONE, "zones", &[]));
    let socket = env.path("state/api.sock");
    let Some((daemon, inside)) = beside_a_small_disk(&env, &disk, "256k", &socket) else { return };
    push(0);
    let file = inside.join("audit.jsonl");
    wait_for("what happened is exported", || file.exists());
    fill(&inside.join("fill"), 0);
    let mut number = 0;
    // What there is room for is the rest of a page, which ends within an event.
    wait_for("somebody says so", || {
        number += 1;
        push(number);
        daemon.log().contains("cannot be exported")
    });
    let torn = fs::read_to_string(&file).unwrap();
    assert!(!torn.ends_with('\n'), "{torn}");
    fs::remove_file(inside.join("fill")).unwrap();
    wait_for("it goes on by itself", || {
        let text = fs::read_to_string(&file).unwrap();
        text.len() > torn.len() && text.ends_with('\n')
    });
    let text = fs::read_to_string(&file).unwrap();
    let copy = env.path("copy.jsonl");
    fs::write(&copy, &text).unwrap();
    let event = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let numbers: Vec<i64> = text.lines().map(|line| event(line)["number"].as_i64().unwrap()).collect();
    assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{numbers:?}");
    env.run(&["events", "--verify", "--file", copy.to_str().unwrap()]).exits(0);
    daemon.stop();
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
    env.push("zone.yaml", &records(1));
    let Some((daemon, inside)) = beside_a_small_disk(&env, &env.path("state"), "24m", &socket) else {
        return;
    };
    wait_for("the first record", || server.rrsets(ZONE).len() == 1);
    env.run(&["sync", "--wait"]).exits(0);

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

#[test]
fn what_a_pass_came_to_is_in_status_also_where_it_cannot_be_put_down() {
    let server = Pdns::start();
    let env = Env::new();
    env.write("key", &server.key);
    let entry = env.pdns_entry(&server.url, WIDE_GUARD);
    let socket = env.path("api.sock");
    let api = format!("{entry}\napi: {{socket: {}}}", socket.display());
    env.config_with("it", &api, ", interval: 1h");
    env.push("zone.yaml", &records(9));
    let Some((daemon, inside)) = beside_a_small_disk(&env, &env.path("state"), "24m", &socket) else {
        return;
    };
    env.run(&["sync", "--wait"]).exits(0);
    env.run(&["status"]).exits(0).says(&["10 well", "Healthy"]);

    // What was written before takes room that is used again.
    let database = inside.join("state.db");
    let folded = Command::new("sqlite3").arg(&database).arg("PRAGMA wal_checkpoint(TRUNCATE)").output();
    assert!(folded.unwrap().status.success());
    fill(&inside.join("fill"), 0);
    server.set(ZONE, "h1", "A", "203.0.113.9");
    let before = server.writes();
    env.run(&["sync", "--timeout", "10s"]);
    wait_for("somebody says so", || env.run(&["status"]).all().contains("pdns/example.com  unavailable"));
    let status = env.run(&["status", "--exit-code"]).exits(4);
    status
        .says(&["WAITING (1)", "no space left", "hint: free space", "next try", "\n0 well", "Unknown"])
        .hides(&["Healthy"]);
    env.run(&["status", "Zone/example.com#h1/A"]).exits(0).says(&["Unseen", "Unknown"]).hides(&["in sync"]);
    assert_eq!(server.writes(), before, "it wrote and could not put it down");

    fs::remove_file(inside.join("fill")).unwrap();
    env.run(&["sync", "--wait", "--timeout", "60s"]).exits(0);
    env.run(&["status", "--exit-code"]).exits(0).says(&["10 well", "Healthy"]).hides(&["space"]);
    daemon.stop();
}

#[test]
fn a_full_disk_is_told_as_such_where_nobody_has_the_state_and_its_last_writes_are_not_in_the_database() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.1]}"]));
    let disk = env.path("state");
    fs::create_dir(&disk).unwrap();
    let script = "mount -t tmpfs -o size=4m tmpfs \"$1\" || exit 100; disk=$1; shift; \"$@\" apply --yes || exit 101; \
                  printf left > \"$disk/state.db-wal\"; dd if=/dev/zero of=\"$disk/fill\" bs=1k status=none; exec \"$@\" status";
    let config = env.path("config.yaml");
    let run = env.command(&["--config", config.to_str().unwrap()]);
    let values = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new("unshare");
    command.env_clear().envs(values).args(["--mount", "sh", "-c", script, "sh"]).arg(&disk);
    command.arg(run.get_program()).args(run.get_args());
    let told = env.finish(command);
    // In a container that may make no namespaces nothing can be mounted.
    if told.code == Some(100) || told.stderr.contains("unshare failed") {
        left_out("nothing can be mounted here");
        return;
    }
    told.exits(1).says(&["DIR/state/state.db: no space left", "hint: free space"]).hides(&["dmesg"]);
}
