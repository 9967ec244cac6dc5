//! The helper of a host without systemd, behind a socket at which it can be killed around each change that it is asked for.

use crate::env::Env;
use std::{
    fs,
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::PermissionsExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

/// When the helper dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Once it was asked, whatever it has done by then.
    Asked,
    /// Once it has done it, before anybody hears of that.
    Done,
}

struct Kept {
    program: Child,
    back: UnixListener,
    config: PathBuf,
    socket: PathBuf,
    /// Changes that were asked for.
    changes: usize,
    /// At which of them it dies.
    death: Option<(usize, Death)>,
    deaths: usize,
    /// Nobody answers.
    is_away: bool,
    /// What it said on standard error goes here.
    log: PathBuf,
}

/// The helper; ends with the test.
pub(crate) struct Helper(Arc<Mutex<Kept>>);

impl Drop for Helper {
    fn drop(&mut self) {
        let mut kept = self.0.lock().unwrap();
        let _ = kept.program.kill();
        let _ = kept.program.wait();
    }
}

fn start(back: &UnixListener, config: &Path, log: &Path) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    Command::new(env!("CARGO_BIN_EXE_reconciled"))
        .arg("--config")
        .arg(config)
        .args(["hostd", "-v"])
        .stdin(OwnedFd::from(back.try_clone().unwrap()))
        .stderr(log)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn frame(from: &mut UnixStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    from.read_exact(&mut head).ok()?;
    let mut frame = head.to_vec();
    frame.resize(4 + u32::from_be_bytes(head) as usize, 0);
    from.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

impl Kept {
    fn kill(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
        self.deaths += 1;
        self.program = start(&self.back, &self.config, &self.log);
    }
}

/// Passes one question on, and its answers back.
fn attend(kept: &Mutex<Kept>, mut front: UnixStream) {
    let Some(question) = frame(&mut front) else { return };
    let text = String::from_utf8_lossy(&question[4..]).into_owned();
    let is_change = text.contains("\"Put\"") || text.contains("\"Remove\"");
    let mut kept = kept.lock().unwrap();
    if kept.is_away {
        return;
    }
    kept.changes += usize::from(is_change);
    let death = kept.death.filter(|(at, _)| is_change && *at == kept.changes);
    let mut back = UnixStream::connect(&kept.socket).unwrap();
    back.write_all(&question).unwrap();
    if let Some((_, Death::Asked)) = death {
        return kept.kill();
    }
    let mut answers = Vec::new();
    let _ = back.read_to_end(&mut answers);
    match death {
        Some(_) => kept.kill(),
        None => drop(front.write_all(&answers)),
    }
}

impl Helper {
    /// A helper that may write below `ssl/` of the desk; the entries for certificates there ask it from now on.
    pub(crate) fn of(env: &Env) -> Helper {
        // The directory of its configuration is out of its reach.
        let (config, socket) = (env.path("hostd/hostd.yaml"), env.path("back.sock"));
        fs::create_dir(env.path("hostd")).unwrap();
        let allowed = format!(
            "paths: [{}]\noriginals: {}\n",
            env.path("ssl").display(),
            env.path("originals").display()
        );
        fs::write(&config, allowed).unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
        let back = UnixListener::bind(&socket).unwrap();
        let front = env.path("hostd.sock");
        let listener = UnixListener::bind(&front).unwrap();
        let log = env.path("hostd.log");
        let program = start(&back, &config, &log);
        let kept =
            Kept { program, back, config, socket, changes: 0, death: None, deaths: 0, is_away: false, log };
        let kept = Arc::new(Mutex::new(kept));
        let weak = Arc::downgrade(&kept);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(kept) = weak.upgrade() else { return };
                attend(&kept, stream);
            }
        });
        let text = fs::read_to_string(env.path("config.yaml")).unwrap();
        let entry = format!("type: certificates, helper: {},", front.display());
        env.write("config.yaml", &text.replace("type: certificates,", &entry));
        Helper(kept)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    /// It dies at the change with this number from now.
    pub(crate) fn dies_at(&self, number: usize, death: Death) {
        let mut kept = self.kept();
        kept.death = Some((kept.changes + number, death));
    }

    /// It dies no more; how often it did.
    pub(crate) fn lives(&self) -> usize {
        let mut kept = self.kept();
        kept.death = None;
        std::mem::take(&mut kept.deaths)
    }

    /// From now on nobody answers, or it does again.
    pub(crate) fn is_away(&self, is_away: bool) {
        self.kept().is_away = is_away;
    }

    /// Changes it was asked for.
    pub(crate) fn changes(&self) -> usize {
        self.kept().changes
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.kept().log).unwrap()
    }
}
