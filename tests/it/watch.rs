//! What goes on until it is told to end, and what only a terminal sees.

use crate::{
    env::{Env, WIDE_GUARD, zone},
    pdns::Pdns,
    proxy::{Damage, Proxy},
};
use reconciled_testkit::PATIENCE;
use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const WWW: &str = "{name: www, type: A, values: [192.0.2.1]}";
const MAIL: &str = "{name: mail, type: A, values: [192.0.2.2]}";

/// Waits until `is_so`, or fails the test.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came about: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn interrupt(mut child: Child) -> Option<i32> {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    child.wait().unwrap().code()
}

#[test]
fn a_watch_shows_events_as_they_come_one_object_a_line_and_ends_on_ctrl_c() {
    let env = Env::zonefile();
    env.push("zone.yaml", &zone("example.com", "zones", &[MAIL]));
    env.apply();
    let config = env.path("config.yaml");
    let watch = |file: &str, form: &[&str]| {
        let mut command = env.command(&["--config", config.to_str().unwrap(), "events", "-w"]);
        let (out, err) = (env.path(file), env.path(&format!("{file}.err")));
        command.args(form).stdin(Stdio::null());
        command.stdout(fs::File::create(out).unwrap()).stderr(fs::File::create(err).unwrap());
        command.spawn().unwrap()
    };
    let text = |file: &str| fs::read_to_string(env.path(file)).unwrap();
    let (json, lines) = (watch("json", &["-o", "json"]), watch("lines", &[]));
    until("both watch", || ["json.err", "lines.err"].iter().all(|file| text(file).contains("Ctrl-C")));
    env.push("zone.yaml", &zone("example.com", "zones", &[MAIL, WWW]));
    env.apply();
    until("an event", || text("json").ends_with('\n') && text("lines").ends_with('\n'));
    assert_eq!((interrupt(json), interrupt(lines)), (Some(0), Some(0)));
    let events: Vec<serde_json::Value> =
        text("json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Only what came after it began.
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(
        (&events[0]["kind"], &events[0]["address"]),
        (&"create".into(), &"Zone/example.com#www/A".into())
    );
    assert!(
        text("lines").contains("  create  Zone/example.com#www/A · engine · commit "),
        "{}",
        text("lines")
    );
}

#[test]
fn a_terminal_sees_what_goes_on_and_nobody_else_does() {
    let server = Pdns::start();
    let proxy = Proxy::start(server.address());
    let env = Env::pdns(&server);
    env.config(&env.pdns_entry(&proxy.url, &format!("timeout: 1s, {WIDE_GUARD}")));
    env.push("zone.yaml", &zone("example.com", "pdns", &[WWW]));
    env.apply();
    proxy.spoil("GET", "/zones", Damage::Silence);
    let program = format!("{} --config config.yaml plan --refresh", env!("CARGO_BIN_EXE_reconciled"));
    let on_terminal = |plain: Option<&str>| {
        // script(1) gives the program a terminal of its own.
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &program, "/dev/null"]).current_dir(env.path("."));
        command.env("TERM", "xterm").envs(plain.map(|value| ("NO_COLOR", value))).stdin(Stdio::null());
        env.finish(command).exits(1)
    };
    let seen = on_terminal(None).says(&["\r\u{1b}[Kplanning …  0 scopes read, 1 under way", "no answer"]);
    let last = seen.stdout.rfind("under way").unwrap();
    assert!(seen.stdout[last..].contains("\r\u{1b}[K"), "the line was left there: {}", seen.stdout);
    on_terminal(Some("1")).hides(&["under way", "\u{1b}"]);
    env.run(&["plan", "--refresh"]).exits(1).hides(&["under way", "\u{1b}"]);
}
