//! Starting a provider: its process in a folder of its own, and the line that says where it listens.
//!
//! *Guarantees*: the process sees nothing of our environment but what is passed on; the folder of its socket can be
//! entered by nobody else; with the handle the process ends, with all that it started in its group, and with this
//! process too where there is a program to see to that (`plugin-exec`). What it started then ends when the next provider
//! is started. *Caveats*: what a provider prints to standard
//! error is kept in part, for errors of its start alone; it is not logged, since it may hold values.

use super::{
    folder::{FOR_SOCKET, Folder, sweep},
    handshake::{COOKIE_NAME, COOKIE_VALUE, Network, Offer},
};
use reconciled_provider::Error;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};
use std::{
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader},
    net::{TcpStream, UnixStream},
    sync::{oneshot, watch},
    task::JoinSet,
};

/// How long a provider may take until its first line.
pub(super) const START: Duration = Duration::from_secs(60);
/// How long it may take to end after it was asked to.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// As much of its standard error is kept.
const KEPT: usize = 2 << 10;
/// A first line is shorter.
const LONGEST_LINE: u64 = 4 << 10;

/// How a provider is started.
#[derive(Clone)]
pub struct Launch {
    /// The program.
    pub path: PathBuf,
    /// A program and its first arguments that end what they start when this process ends.
    pub keeper: Vec<PathBuf>,
    /// Variables it sees besides those of the handshake.
    pub environment: Vec<(String, String)>,
    /// It may listen at an address of this machine, where every user can reach it.
    pub allow_tcp: bool,
    /// The socket of whoever starts it in its place, with fewer rights.
    pub sandbox: Option<PathBuf>,
    /// The program, where it is open already: it is run and not looked for again.
    pub opened: Option<Arc<OwnedFd>>,
}

/// The values of variables may be secrets.
impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.environment.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Launch")
            .field("path", &self.path)
            .field("environment", &names)
            .finish_non_exhaustive()
    }
}

/// A process that said where it listens.
pub(super) struct Begun {
    pub(super) offer: Offer,
    pub(super) process: Running,
    _listeners: JoinSet<()>,
    /// Last: the socket is in it.
    _folder: Folder,
}

impl Begun {
    /// Starts a provider and reads its first line.
    ///
    /// Errors: `Unsupported` where it is no provider that can be hosted; `Unavailable` where it may be one another
    /// time.
    pub(super) async fn start(launch: &Launch) -> Result<Begun, Error> {
        let name = launch.path.display().to_string();
        sweep(&std::env::temp_dir());
        let folder = Folder::new().map_err(|error| {
            Error::unavailable(format!("make a folder for the socket of {name}")).caused_by(error)
        })?;
        let started = spawn(launch, &folder.dir).await?;
        let mut listeners = JoinSet::new();
        let (tail, kept) = watch::channel(Vec::new());
        listeners.spawn(keep_tail(started.stderr, tail));
        let Started { ending, pidfd, group, .. } = started;
        let mut process = Running { ending, pidfd, group, kept };
        let line = tokio::time::timeout(START, first_line(started.stdout)).await;
        let (line, rest) = match line {
            Ok(Ok((line, rest))) if !line.is_empty() => (line, rest),
            Ok(_) => return Err(process.died(&name).await),
            Err(_) => {
                let text = format!("start {name}: it said nothing for {} s", START.as_secs());
                return Err(Error::unavailable(text));
            }
        };
        listeners.spawn(drain(rest));
        let offer = match Offer::parse(&line, launch.allow_tcp) {
            Ok(offer) => offer,
            Err(why) => {
                let hint = match why.contains("not at a unix socket") {
                    true => "where nobody else uses this machine: `allowTcp: true` of the entry",
                    false => {
                        "a provider is a program named terraform-provider-NAME, of Terraform 0.12 or later"
                    }
                };
                return Err(Error::unsupported(format!("start {name}: {why}")).hint(hint));
            }
        };
        Ok(Begun { offer, process, _listeners: listeners, _folder: folder })
    }
}

/// A process, from its first moment on: it ends with this.
pub(super) struct Running {
    pub(super) ending: watch::Receiver<Option<ExitStatus>>,
    pidfd: OwnedFd,
    group: Group,
    kept: watch::Receiver<Vec<u8>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Of one that has ended there is nobody to hear it.
        self.kill();
    }
}

impl Running {
    fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        self.group.kill();
    }

    async fn died(&mut self, name: &str) -> Error {
        self.kill();
        let ended = tokio::time::timeout(GRACE, self.ending.wait_for(Option::is_some)).await;
        let how = ended.ok().and_then(Result::ok).and_then(|status| status.map(described));
        // What it said last may still be on its way; who reads it ends with its last word.
        let last_word = async { while self.kept.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(GRACE, last_word).await;
        let said = String::from_utf8_lossy(&self.kept.borrow()).trim().to_string();
        let mut text = format!("start {name}: it ended before its first line");
        if let Some(how) = how {
            text += &format!(", {how}");
        }
        if let Some(last) = said.lines().last() {
            text += &format!("; it said: {last}");
        }
        Error::unavailable(text)
            .hint("is it a provider for this machine? start it by hand to see what it says")
    }
}

pub(super) fn described(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "somehow".into(),
    }
}

/// The group that a provider leads: some start programs of their own, which would stay.
///
/// Invariant: none once the leader was waited for, since its number may be another's from then on.
#[derive(Clone)]
struct Group(Arc<Mutex<Option<Pid>>>);

impl Group {
    fn of(leader: Pid) -> Group {
        Group(Arc::new(Mutex::new(Some(leader))))
    }
    fn kill(&self) {
        if let Some(leader) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
    /// Waits for the leader, and ends what it left.
    fn wait(&self, child: &mut std::process::Child) -> std::io::Result<ExitStatus> {
        let leader = Pid::from_child(child);
        // It stays a zombie, so that nobody else has its number.
        while waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            .is_err_and(|error| error == rustix::io::Errno::INTR)
        {}
        let mut group = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = kill_process_group(leader, Signal::KILL);
        *group = None;
        child.wait()
    }
}

struct Started {
    group: Group,
    stdout: tokio::process::ChildStdout,
    stderr: tokio::process::ChildStderr,
    pidfd: OwnedFd,
    ending: watch::Receiver<Option<ExitStatus>>,
}

/// Starts the process from a thread that lives as long as it does: a wish to be told of the parent's death is about the
/// thread that forked, and threads of a runtime come and go.
async fn spawn(launch: &Launch, folder: &TempDir) -> Result<Started, Error> {
    // What is open goes to the new process as what it reads from, which no provider does: so it is inherited by that one alone.
    let (path, stdin) = match &launch.opened {
        Some(file) => {
            let file = file.try_clone();
            let file = file.map_err(|error| {
                Error::unavailable(format!("start {}", launch.path.display())).caused_by(error)
            })?;
            (PathBuf::from("/proc/self/fd/0"), Stdio::from(file))
        }
        None => (launch.path.clone(), Stdio::null()),
    };
    let (program, first) = match launch.keeper.split_first() {
        Some((keeper, first)) => (keeper.clone(), first.to_vec()),
        None => (path.clone(), Vec::new()),
    };
    let mut command = std::process::Command::new(program);
    command.args(first);
    if !launch.keeper.is_empty() {
        command.arg(&path);
    }
    // So that people know it by its name.
    match (launch.opened.is_some(), launch.keeper.is_empty()) {
        (true, true) => {
            command.arg0(&launch.path);
        }
        (true, false) => {
            command.arg(&launch.path);
        }
        (false, _) => {}
    }
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder.path())
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", folder.path())
        .env(FOR_SOCKET, folder.path())
        .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
        .env("PLUGIN_MIN_PORT", "10000")
        .env("PLUGIN_MAX_PORT", "25000")
        .env(COOKIE_NAME, COOKIE_VALUE)
        .current_dir(folder.path())
        // A person who stops this program from a terminal stops this program: the provider is told by us.
        .process_group(0)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (tell, told) = oneshot::channel();
    let (ended, ending) = watch::channel(None);
    let name = launch.path.display().to_string();
    let thread = std::thread::Builder::new().name("plugin".into()).stack_size(128 << 10);
    let spawned = thread.spawn(move || {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        // Before anybody waits for it: until then its number is its own, also if it has ended already.
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(std::io::Error::from);
        let group = Group::of(pid);
        let pipes = (child.stdout.take(), child.stderr.take(), pidfd, group.clone());
        if tell.send(Ok(pipes)).is_err() {
            let _ = child.kill();
        }
        if let Ok(status) = group.wait(&mut child) {
            ended.send_replace(Some(status));
        }
    });
    let failed = |error: std::io::Error| Error::unavailable(format!("start {name}")).caused_by(error);
    spawned.map_err(failed)?;
    let gone = || std::io::Error::other("its thread ended");
    let (stdout, stderr, pidfd, group) = told.await.map_err(|_| failed(gone()))?.map_err(failed)?;
    let piped = || {
        let (stdout, stderr) = (stdout.ok_or_else(gone)?, stderr.ok_or_else(gone)?);
        let stdout = tokio::process::ChildStdout::from_std(stdout)?;
        Ok((stdout, tokio::process::ChildStderr::from_std(stderr)?, pidfd?))
    };
    match piped() {
        Ok((stdout, stderr, pidfd)) => Ok(Started { group, stdout, stderr, pidfd, ending }),
        Err(error) => {
            // It runs, and nobody would know of it.
            group.kill();
            Err(failed(error))
        }
    }
}

async fn first_line<R: AsyncRead + Unpin>(from: R) -> std::io::Result<(String, BufReader<R>)> {
    let mut reader = BufReader::new(from);
    let mut line = String::new();
    (&mut reader).take(LONGEST_LINE).read_line(&mut line).await?;
    Ok((line, reader))
}

/// Reads on, so that the provider never waits for somebody to read.
async fn drain(mut from: impl AsyncRead + Unpin) {
    let mut buffer = vec![0; 1 << 10];
    while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

async fn keep_tail(mut from: impl AsyncRead + Unpin, tail: watch::Sender<Vec<u8>>) {
    let mut buffer = vec![0; 1 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        tail.send_modify(|kept| {
            kept.extend_from_slice(&buffer[..read]);
            let over = kept.len().saturating_sub(KEPT);
            kept.drain(..over);
        });
    }
}

/// A way to a provider.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Goes to where a provider listens.
pub(super) async fn reach(network: &Network) -> std::io::Result<Box<dyn Stream>> {
    Ok(match network {
        Network::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Network::Tcp(address) => Box::new(TcpStream::connect(address).await?),
    })
}
