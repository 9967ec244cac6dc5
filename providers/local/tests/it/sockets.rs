//! Sockets with their services, and mounts, at a real systemd.

use crate::units::{Machine, wait_for};
use reconciled_testkit::{PATIENCE, ports};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

/// A port that nobody has, and that nobody gets who leaves the choice to the kernel: it chooses from 32768 on (ip(7)). The
/// 31 after it are not given out, either.
pub(crate) fn port() -> u16 {
    ports::free(ports::LOCAL, 32)
}

fn connects(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[tokio::test]
async fn a_socket_that_changes_takes_its_service_with_it_and_a_service_leaves_its_socket() {
    let Some(machine) = Machine::of("systemd", |_| {}) else { return };
    let desk = &machine.desk;
    let (first, second) = (port(), port());
    let socket = |port: u16| {
        format!(
            "Unit a.socket {{enabled: true, state: running, content: \"[Socket]\\nListenStream=127.0.0.1:{port}\\n[Install]\\nWantedBy=sockets.target\\n\"}}"
        )
    };
    let service =
        |days: u32| format!("Unit a.service {{content: \"[Service]\\nExecStart=/bin/sleep {days}d\\n\"}}");
    let (old, old_service) = (socket(first), service(1));
    assert_eq!(
        desk.pass(&[&old, &old_service]).await.done,
        ["create a.service: done", "create a.socket: done"]
    );
    assert_eq!(desk.pass(&[&old, &old_service]).await.done, [""; 0]);
    assert_eq!(machine.property("a.service", "ActiveState"), "inactive");
    assert!(connects(first));
    wait_for("a connection starts it", || machine.property("a.service", "ActiveState") == "active");

    let (new, pid) = (socket(second), machine.pid("a.service"));
    assert_eq!(desk.pass(&[&new, &old_service]).await.done, ["update a.socket: done"]);
    assert!(connects(second) && !connects(first));
    assert_eq!(machine.property("a.service", "ActiveState"), "active", "it serves as before");
    assert_ne!(machine.pid("a.service"), pid);
    assert_eq!(desk.pass(&[&new, &old_service]).await.done, [""; 0]);

    // The service alone: nobody is refused meanwhile.
    let (run, pid) = (machine.property("a.socket", "InvocationID"), machine.pid("a.service"));
    let new_service = service(2);
    assert_eq!(desk.pass(&[&new, &new_service]).await.done, ["update a.service: done"]);
    assert_ne!(machine.pid("a.service"), pid);
    assert_eq!(machine.property("a.socket", "InvocationID"), run);

    // Both at one time: the service is started once.
    let (last, last_service) = (socket(first), service(3));
    let before = machine.run(&["journalctl", "-o", "cat", "-u", "a.service"]).matches("Started ").count();
    let done = desk.pass(&[&last, &last_service]).await.done;
    assert_eq!(done, ["update a.service: done", "update a.socket: done"]);
    let after = machine.run(&["journalctl", "-o", "cat", "-u", "a.service"]).matches("Started ").count();
    assert_eq!(after, before + 1);
    let pid = machine.pid("a.service");
    assert_eq!(machine.run(&["ps", "-o", "args=", "-p", &pid]).trim(), "/bin/sleep 3d");

    // Stopped by hand while its service runs.
    machine.run(&["systemctl", "stop", "a.socket"]);
    machine.run(&["systemctl", "start", "a.service"]);
    assert_eq!(desk.pass(&[&last, &last_service]).await.done, ["update a.socket: done"]);
    assert!(connects(first));
    assert_eq!(machine.property("a.service", "ActiveState"), "active");

    assert_eq!(desk.pass(&[]).await.done, ["delete a.service: gone", "delete a.socket: gone"]);
    assert!(!connects(first));
    assert_eq!(machine.property("a.service", "LoadState"), "not-found");
}

#[tokio::test]
async fn a_socket_that_starts_one_service_for_each_connection_leaves_these_alone() {
    let Some(machine) = Machine::of("systemd", |_| {}) else { return };
    let desk = &machine.desk;
    let (first, second) = (port(), port());
    let socket = |port: u16| {
        format!(
            "Unit e.socket {{state: running, content: \"[Socket]\\nListenStream=127.0.0.1:{port}\\nAccept=yes\\n\"}}"
        )
    };
    let service = "Unit e@.service {content: \"[Service]\\nExecStart=/bin/cat\\nStandardInput=socket\\n\"}";
    let old = socket(first);
    desk.pass(&[&old, service]).await;
    let mut connection = TcpStream::connect(("127.0.0.1", first)).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = |text: &[u8; 2]| {
        connection.write_all(text).unwrap();
        let mut answer = [0; 2];
        connection.read_exact(&mut answer).is_ok() && answer == *text
    };
    assert!(answers(b"a\n"));
    machine.run(&["systemctl", "stop", "e.socket"]);
    assert_eq!(desk.pass(&[&old, service]).await.done, ["update e.socket: done"]);
    assert!(answers(b"b\n") && connects(first));
    let new = socket(second);
    assert_eq!(desk.pass(&[&new, service]).await.done, ["update e.socket: done"]);
    assert!(answers(b"c\n") && connects(second) && !connects(first));
}

#[tokio::test]
async fn a_mount_takes_over_its_options_and_is_mounted_anew_for_all_else() {
    let Some(machine) = Machine::of("systemd", |_| {}) else { return };
    let desk = &machine.desk;
    let mount = |what: &str, size: &str| {
        format!(
            "Unit mnt-x.mount {{state: running, content: \"[Mount]\\nWhat={what}\\nWhere=/mnt/x\\nType=tmpfs\\nOptions=size={size}\\n\"}}"
        )
    };
    let options = || machine.run(&["findmnt", "-n", "-o", "SOURCE,OPTIONS", "/mnt/x"]);
    let small = mount("one", "1m");
    assert_eq!(desk.pass(&[&small]).await.done, ["create mnt-x.mount: done"]);
    assert!(options().starts_with("one ") && options().contains("size=1024k"), "{}", options());
    let kept = machine.desk_path("/mnt/x/kept");
    fs::write(&kept, "x").unwrap();
    let large = mount("one", "2m");
    assert_eq!(desk.pass(&[&large]).await.done, ["update mnt-x.mount: done"]);
    assert!(options().contains("size=2048k") && kept.exists(), "{}", options());
    assert_eq!(desk.pass(&[&large]).await.done, [""; 0]);
    machine.run(&["umount", "/mnt/x"]);
    wait_for("it is seen", || machine.property("mnt-x.mount", "ActiveState") == "inactive");
    assert_eq!(desk.pass(&[&large]).await.done, ["update mnt-x.mount: done"]);
    assert!(options().contains("size=2048k"));

    fs::write(&kept, "x").unwrap();
    let other = mount("two", "2m");
    assert_eq!(desk.pass(&[&other]).await.done, ["update mnt-x.mount: done"]);
    assert!(options().starts_with("two ") && !kept.exists(), "{}", options());
    assert_eq!(desk.pass(&[]).await.done, ["delete mnt-x.mount: gone"]);
    assert_eq!(machine.property("mnt-x.mount", "LoadState"), "not-found");
}
