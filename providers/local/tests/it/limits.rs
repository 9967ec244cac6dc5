//! Limits of cgroups, and what runs out of memory: on a kernel of its own with nothing but cgroup v2 (`tests/rig/uml`).
//!
//! That needs root and Debian's `user-mode-linux`, which runs on no processor with AMX; where one of these cannot be had, this is left
//! out.

use crate::desk::Desk;
use reconciled_provider::Health;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// How the rig ends on a processor that the other kernel does not know.
const CANNOT_RUN: i32 = 69;
/// Set inside.
const GUEST: &str = "RECONCILED_TEST_GUEST";

#[expect(
    clippy::disallowed_methods,
    reason = "a person says so to the tests, and so does the first of the two"
)]
fn says(name: &str, word: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == word)
}

/// Runs the other test of this file on another kernel.
#[test]
fn limits_are_the_kernels_and_who_runs_out_of_memory_says_so() {
    let is_there = Command::new("linux.uml").arg("--version").output().is_ok();
    if says("RECONCILED_TEST_SYSTEMD", "no") || !is_there {
        eprintln!("note: there is no kernel of its own (Debian: user-mode-linux), limits are not tested");
        return;
    }
    let rig = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rig/uml");
    let program = std::env::current_exe().unwrap();
    let output = Command::new(rig)
        .args(["env", &format!("{GUEST}=yes")])
        .arg(program)
        .args(["--exact", "limits::inside", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let because = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(CANNOT_RUN) {
        eprintln!("note: limits are not tested: {because}");
        return;
    }
    assert!(output.status.success() && said.contains("1 passed"), "{said}{because}");
    assert!(said.contains("inside: all of it"), "{said}");
}

fn property(unit: &str, name: &str) -> String {
    let output = Command::new("systemctl").args(["show", unit, "--value", "-p", name]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What the kernel has for a limit; `max` where it was never told of that kind.
fn limit(unit: &str, file: &str) -> String {
    let group = property(unit, "ControlGroup");
    let group = PathBuf::from(format!("/sys/fs/cgroup{group}"));
    assert!(group.is_dir(), "{unit} has a cgroup");
    let text = fs::read_to_string(group.join(file));
    text.map_or("max".into(), |text| text.trim().to_owned())
}

/// A desk for this very machine.
fn desk(scope: &str) -> Desk {
    let desk = Desk::with(|config| {
        config.root = "/".into();
        config.bus = Some("system".into());
    });
    desk.of(scope)
}

/// What the test above runs inside; does nothing anywhere else.
#[tokio::test]
async fn inside() {
    if !says(GUEST, "yes") {
        return;
    }
    limits_of_a_unit().await;
    memory_of_a_unit().await;
    a_revision_that_needs_too_much().await;
    println!("inside: all of it");
}

async fn limits_of_a_unit() {
    let desk = desk("systemd");
    let spec = |limits: &str| {
        format!(
            "Unit a.service {{state: running, content: \"[Service]\\nExecStart=/bin/sleep 1d\\n{limits}\"}}"
        )
    };
    let small = spec("MemoryMax=64M\\n");
    assert_eq!(desk.pass(&[&small]).await.done, ["create a.service: done"]);
    assert_eq!(limit("a.service", "memory.max"), "67108864");
    let pid = property("a.service", "MainPID");
    let other = spec("MemoryMax=96M\\nMemoryHigh=80M\\nCPUQuota=20%\\nTasksMax=9\\nIOWeight=50\\n");
    assert_eq!(desk.pass(&[&other]).await.done, ["update a.service: done"]);
    let limits = ["memory.max", "memory.high", "cpu.max", "pids.max"].map(|file| limit("a.service", file));
    assert_eq!(limits, ["100663296", "83886080", "20000 100000", "9"]);
    assert_eq!(property("a.service", "MainPID"), pid, "nothing was restarted for that");
    // A limit that is taken out is none.
    assert_eq!(desk.pass(&[&small]).await.done, ["update a.service: done"]);
    assert_eq!(
        [limit("a.service", "memory.max"), limit("a.service", "cpu.max").replace(" 100000", "")],
        ["67108864", "max"]
    );
    assert_eq!(property("a.service", "MainPID"), pid);
    assert_eq!(desk.pass(&[&small]).await.done, [""; 0]);
    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone"]);
}

/// A line without an end, which `tail` keeps whole.
const GREEDY: &str = "/bin/sh -c 'exec tail /dev/zero'";

async fn memory_of_a_unit() {
    let desk = desk("systemd");
    let spec = format!(
        "Unit b.service {{state: running, content: \"[Service]\\nMemoryMax=24M\\nMemorySwapMax=0\\nExecStart={GREEDY}\\n\"}}"
    );
    desk.pass(&[&spec]).await;
    crate::units::wait_for("it failed", || property("b.service", "ActiveState") == "failed");
    let health = desk.health(&desk.desired(&[&spec])).await;
    let [Health::Degraded { why }] = &health[..] else { panic!("{health:?}") };
    assert!(why.starts_with("it failed: oom-kill"), "{why}");
    desk.pass(&[]).await;
}

async fn a_revision_that_needs_too_much() {
    let desk = desk("deployments");
    let spec = |command: &str, memory: &str| {
        format!(
            "Deployment web {{replicas: 2, minReadySeconds: 3, content: \"[Service]\\nMemoryMax={memory}\\nMemorySwapMax=0\\nExecStart={command}\\n\"}}"
        )
    };
    let until_done = async |spec: &str| {
        let mut done = desk.pass(&[spec]).await.done;
        while desk.is_pending() {
            std::thread::park_timeout(std::time::Duration::from_millis(50));
            done.extend(desk.pass(&[spec]).await.done);
        }
        done
    };
    let good = spec("/bin/sleep 1d", "32M");
    until_done(&good).await;
    let pids = || [1, 2].map(|number| property(&format!("web@{number}.service"), "MainPID"));
    let before = pids();
    // A limit alone is no revision.
    until_done(&spec("/bin/sleep 1d", "24M")).await;
    assert_eq!((limit("web@1.service", "memory.max"), pids()), ("25165824".into(), before));
    let done = until_done(&spec(GREEDY, "24M")).await;
    let last = done.last().unwrap();
    assert!(last.contains("was taken back: ") && last.contains("oom-kill"), "{done:?}");
    let active = [1, 2].map(|number| property(&format!("web@{number}.service"), "ActiveState"));
    assert_eq!(active, ["active", "active"]);
}
