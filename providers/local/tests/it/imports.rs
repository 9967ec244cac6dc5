//! Units that are on a host already.

use crate::units::Machine;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

#[tokio::test]
async fn units_that_somebody_made_by_hand_are_manifests_that_change_nothing() {
    let Some(machine) = Machine::of("systemd", |_| {}) else { return };
    let write = |name: &str, text: &str| {
        let file = machine.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let service = "[Service]\nExecStart=/bin/sleep 1d\n[Install]\nWantedBy=basic.target\n";
    write("web.service", service);
    write("web.service.d/override.conf", "[Service]\nTasksMax=9\n");
    write("systemd-journald.service.d/limits.conf", "[Service]\nTasksMax=99\n");
    write("many@.service", service);
    write("once.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n");
    symlink("/dev/null", machine.file("apt-daily.timer")).unwrap();
    // What is left out: what not everyone may read or is no text, with its unit; links; what is no unit; what is our own.
    fs::write(machine.file("octets.service"), [service.as_bytes(), b"# \xff\n"].concat()).unwrap();
    write("closed.service", service);
    write("closed.service.d/key.conf", "[Service]\nEnvironment=KEY=canary\n");
    let closed = machine.file("closed.service.d/key.conf");
    fs::set_permissions(closed, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("/usr/lib/systemd/system/dbus.service", machine.file("alias.service")).unwrap();
    write("web.service.bak", service);
    write("reconciled.service", service);
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "enable", "--now", "web.service"]);
    machine.run(&["systemctl", "start", "once.service"]);

    let desk = &machine.desk;
    let found = desk.provider.discover(&desk.cx, "systemd").await.unwrap();
    let ids: Vec<&str> = found[0].resources.iter().map(|one| &*one.id.0).collect();
    // Units of the rig itself are masked there.
    let ours: Vec<&str> = ids.iter().copied().filter(|id| !id.starts_with("systemd-tmpfiles")).collect();
    assert_eq!(
        ours,
        ["apt-daily.timer", "many@.service", "once.service", "systemd-journald.service", "web.service"]
    );
    let manifests = desk.provider.export(&found[0]).unwrap();
    let text = |name: &str| {
        let texts = manifests.iter().map(|one| String::from_utf8(one.to_vec()).unwrap());
        texts.into_iter().find(|text| text.contains(&format!("\"name\":\"{name}\""))).unwrap()
    };
    let web = text("web.service");
    for part in [
        "\"enabled\":true",
        "\"state\":\"running\"",
        "\"override\":\"[Service]\\nTasksMax=9\\n\"",
        "sleep 1d",
    ] {
        assert!(web.contains(part), "{part}: {web}");
    }
    assert!(text("apt-daily.timer").contains("\"masked\":true"));
    assert!(!text("once.service").contains("state") && !text("many@.service").contains("enabled"));
    let journal = text("systemd-journald.service");
    assert!(journal.contains("limits") && !journal.contains("content"), "{journal}");
    assert!(!manifests.iter().any(|one| String::from_utf8_lossy(one).contains("canary")));

    // What was imported is adopted as it is.
    let (_, spec) = web.split_once("spec: ").unwrap();
    let pid = machine.pid("web.service");
    assert_eq!(desk.pass(&[&format!("Unit web.service {}", spec.trim())]).await.done, [""; 0]);
    assert_eq!(machine.pid("web.service"), pid);
}
