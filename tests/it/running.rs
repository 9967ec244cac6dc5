//! A daemon that runs beside a test.

use crate::env::Env;
use reconciled_testkit::PATIENCE;
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Waits for something that comes about by itself.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came about: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// True once the daemon behind `socket` has ended its first pass.
pub(crate) fn is_ready(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: daemon\r\n\r\n");
    asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.ends_with("\r\n\r\nready\n")
}

/// A running daemon; killed, not asked, when it is dropped.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// Starts a daemon and waits until it answers.
    pub(crate) fn start(env: &Env) -> Daemon {
        let mut daemon = Daemon::start_with(env, &[]);
        wait_for("the daemon answers", || {
            assert!(daemon.ended().is_none(), "{}", daemon.log());
            UnixStream::connect(env.path("state/api.sock")).is_ok()
        });
        daemon
    }
    /// Starts a daemon and waits until its first pass has ended.
    pub(crate) fn ready(env: &Env) -> Daemon {
        let daemon = Daemon::start(env);
        wait_for("a ready daemon", || is_ready(&env.path("state/api.sock")));
        daemon
    }
    /// Starts a daemon with variables, and waits for nothing.
    pub(crate) fn start_with(env: &Env, variables: &[(&str, &str)]) -> Daemon {
        let config = env.path("config.yaml");
        let mut command = env.command(&["--config", config.to_str().unwrap(), "run", "-v"]);
        command.envs(variables.iter().copied());
        Daemon::of(command, env.path("daemon.log"))
    }
    /// The daemon that `command` starts.
    pub(crate) fn of(mut command: Command, log: PathBuf) -> Daemon {
        let file = fs::File::create(&log).unwrap();
        Daemon { child: command.stdout(Stdio::null()).stderr(file).spawn().unwrap(), log }
    }
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
    pub(crate) fn id(&self) -> String {
        self.child.id().to_string()
    }
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
    /// Asks it to stop and waits for its end.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        wait_for("the daemon ends", || self.ended().is_some());
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{}", self.log());
    }
}
