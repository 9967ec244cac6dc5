//! A bus on which nobody is systemd, as while it executes itself anew; and one that lets nobody ask.

use reconciled_local::hands::{Bus, Job, Link, Manager};
use reconciled_provider::ErrorKind;
use std::{
    fs,
    os::unix::net::UnixStream,
    process::{Child, Command, Stdio},
};

/// A bus of its own, with `rules` besides those that allow everything.
struct Alone {
    daemon: Child,
    address: String,
    _dir: tempfile::TempDir,
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Alone {
    fn with(rules: &str) -> (Alone, Bus) {
        let dir = tempfile::tempdir().unwrap();
        let address = format!("unix:path={}", dir.path().join("bus").display());
        let config = format!(
            "<busconfig><type>custom</type><listen>{address}</listen><auth>EXTERNAL</auth><policy context=\"default\">\
             <allow user=\"*\"/><allow send_destination=\"*\"/><allow receive_sender=\"*\"/><allow own=\"*\"/>{rules}</policy></busconfig>"
        );
        let file = dir.path().join("bus.conf");
        fs::write(&file, config).unwrap();
        let mut daemon = Command::new("dbus-daemon");
        let daemon = daemon
            .arg("--nofork")
            .arg("--nosyslog")
            .arg("--config-file")
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Its socket has a name before anybody listens there.
        let is_there = || UnixStream::connect(dir.path().join("bus")).is_ok();
        crate::units::wait_for("the bus is there", is_there);
        let bus = Bus::new(&address, None);
        (Alone { daemon, address, _dir: dir }, bus)
    }
}

#[tokio::test]
async fn that_nobody_answers_is_no_word_about_a_unit() {
    let (_alone, bus) = Alone::with("");
    let error = bus.units(&["web@1.service".into()]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
    for fault in [
        bus.reset_failed("a.service").await,
        bus.link("a.service", Link::Enable).await,
        bus.job("a.service", Job::Start, "").await,
    ] {
        let Err(reconciled_local::hands::Fault::Unknown(error)) = fault else { panic!("{fault:?}") };
        assert_eq!(error.kind, ErrorKind::Unavailable);
    }
}

#[tokio::test]
async fn that_one_may_not_ask_is_said_so() {
    let (alone, bus) = Alone::with("<deny send_interface=\"org.freedesktop.systemd1.Manager\"/>");
    // The bus refuses nobody who asks one that is not there.
    let there = zbus::connection::Builder::address(&*alone.address).build().await.unwrap();
    there.request_name("org.freedesktop.systemd1").await.unwrap();
    let error = bus.units(&["a.service".into()]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::PermissionDenied, "{error:?}");
    assert!(error.hint.is_some());
}
