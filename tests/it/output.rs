//! What goes out: to files, which take the place of nothing else, and to standard output, which may be full or closed.

use crate::{env::zone, input::applied, running::Daemon};
use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, symlink},
        net::UnixListener,
    },
    process::{Command, Stdio},
};

const ZONE: &str = "example.com";

#[test]
fn a_plan_file_goes_to_a_file_that_can_be_written() {
    let env = applied();
    env.run(&["plan", "--out", "-"]).exits(1).says(&["standard output", "-o json"]);
    assert!(!env.path("-").exists());
    env.run(&["plan", "--out", "nosuch/x"])
        .exits(1)
        .says(&["write the plan file nosuch/x", "hint: make its folder"]);
    // A file that is called so does not stand for standard input.
    env.write("-", "");
    env.write("in", &zone(ZONE, "zones", &["{name: www, type: A, values: [192.0.2.9]}"]));
    let piped = |args: &[&str]| {
        let config = env.path("config.yaml");
        let mut command = env.command(&[&["--config", config.to_str().unwrap()], args].concat());
        command.stdin(fs::File::open(env.path("in")).unwrap());
        env.finish(command)
    };
    piped(&["plan", "--dir", "-", "--out", "p.plan"]).exits(0);
    // Nobody gives it the manifests again.
    env.run(&["apply", "p.plan"]).exits(1).says(&["no longer holds", "on standard input again"]);
    piped(&["apply", "p.plan"]).exits(0).says(&["1 updated"]);
}

#[test]
fn who_connects_to_nobody_reads_no_certificates() {
    let env = applied();
    // Who opens it waits for a writer that never comes.
    assert!(Command::new("mkfifo").arg(env.path("roots")).status().unwrap().success());
    let roots = env.path("roots");
    env.run_with(&["plan"], &[("SSL_CERT_FILE", roots.to_str().unwrap())]).exits(0);
}

#[test]
fn a_file_takes_the_place_of_nothing_that_is_no_file_or_that_the_program_stands_on() {
    let env = applied();
    assert!(Command::new("mkfifo").arg(env.path("pipe")).status().unwrap().success());
    symlink(env.path("elsewhere"), env.path("link")).unwrap();
    let _socket = UnixListener::bind(env.path("socket")).unwrap();
    let own = ["state/state.db", "state/seal.key", "config.yaml"];
    let stands_on = || {
        let kind = |name: &str| fs::symlink_metadata(env.path(name)).unwrap().file_type();
        assert!(kind("pipe").is_fifo() && kind("link").is_symlink() && kind("socket").is_socket());
        let inode = fs::metadata(env.path(own[0])).unwrap().ino();
        (
            inode,
            env.sql("SELECT count(*) FROM inventory"),
            [own[1], own[2]].map(|name| fs::read(env.path(name)).unwrap()),
        )
    };
    let before = stands_on();
    for has_daemon in [false, true] {
        let daemon = has_daemon.then(|| Daemon::ready(&env));
        for name in ["pipe", "link", "socket", "-", "state/new"].iter().chain(&own).copied() {
            env.run(&["backup", name]).exits(1).says(&["error: ", "hint: name a"]);
        }
        for name in ["pipe", "state/new"].iter().chain(&own).copied() {
            env.run(&["plan", "--out", name]).exits(1).says(&["error: ", "hint: name a"]);
        }
        assert_eq!(stands_on(), before);
        // A file of that name is what is replaced.
        for _ in 0..2 {
            env.run(&["backup", "b.db"]).exits(0);
        }
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
    for name in ["-", "elsewhere", "state/new"] {
        assert!(!env.path(name).exists(), "{name}");
    }
}

#[test]
fn data_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let env = applied();
    let config = env.path("config.yaml");
    let ends = |args: &[&str], stdout: Stdio| {
        let mut command = env.command(&[&["--config", config.to_str().unwrap()], args].concat());
        let output = command.stdout(stdout).stderr(Stdio::piped()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let verbs = [
        &["plan", "-o", "json"][..],
        &["status"],
        &["history", "-o", "json"],
        &["validate", "work", "-o", "sarif"],
        &["check"],
        &["completions", "bash"],
        &["--help"],
    ];
    for args in verbs {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let (code, told) = ends(args, full.into());
        assert_eq!(code, Some(1), "{args:?}: {told}");
        assert!(told.contains("error: standard output cannot be written"), "{args:?}: {told}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, told) = ends(args, writer.into());
        assert_eq!(code, Some(0), "{args:?}: {told}");
        assert!(!told.contains("error"), "{args:?}: {told}");
    }
}
