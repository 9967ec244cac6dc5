//! Running a command of the host: an argument list without a shell.
//!
//! Guarantees: it ends within its time, and with it all that it started and that is in its process group still, also where nobody
//! waits any more; no more of what it says is kept than was asked for, and the rest is read, so that it never waits to be read; of
//! the environment it sees what its caller gives it and no more, since that of the daemon may hold secrets. It deliberately says
//! nothing of what an end means: that is for the caller, in words of what the command is for.

use futures_util::future::{Either, join, select};
use reconciled_provider::problem::is_unseen;
use rustix::process::{Pid, Signal};
use std::{
    io,
    pin::pin,
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Child,
};

/// Where programs are looked for, and all of the environment that every command gets.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Octets of each stream of a command that are kept where nothing else is said.
const KEPT: usize = 4 * 1024;

/// Octets that are read at a time.
const PART: usize = 4 * 1024;

/// How long the rest of what a command said is waited for once it has ended.
const GRACE: Duration = Duration::from_millis(200);

/// What is run, and with what.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// A path, or a name that is looked for in [`PATH`].
    pub program: &'a str,
    /// What it is told.
    pub arguments: &'a [String],
    /// Its environment besides [`PATH`].
    pub environment: &'a [(&'a str, &'a str)],
    /// What it reads.
    pub input: Stdio,
    /// How long it may take.
    pub limit: Duration,
    /// Octets that are kept of each of its streams.
    pub kept: usize,
}

impl<'a> Invocation<'a> {
    /// One that reads nothing, knows nothing but [`PATH`], and of which as much is kept as an error shows.
    pub fn new(program: &'a str, arguments: &'a [String], limit: Duration) -> Invocation<'a> {
        Invocation { program, arguments, environment: &[], input: Stdio::null(), limit, kept: KEPT }
    }
}

/// Why nothing is known of how a command ended.
#[derive(Debug)]
pub enum NotRun {
    /// It could not be started or waited for.
    NotBegun(io::Error),
    /// It did not end in time.
    Late,
}

/// Runs a command, whatever it ends with, and returns how it ended and the beginning of what it said.
pub async fn run(invocation: Invocation<'_>) -> Result<Output, NotRun> {
    let child = tokio::process::Command::new(invocation.program)
        .args(invocation.arguments)
        .env_clear()
        .env("PATH", PATH)
        .envs(invocation.environment.iter().copied())
        .stdin(invocation.input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts can be ended with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(NotRun::NotBegun)?;
    match tokio::time::timeout(invocation.limit, ended(Group::of(child), invocation.kept)).await {
        Ok(output) => output.map_err(NotRun::NotBegun),
        Err(_) => Err(NotRun::Late),
    }
}

/// A command and all that it started, which end with this value unless the command ended before.
struct Group {
    child: Child,
    /// The command, while it has not ended: until then no other process has its number.
    leader: Option<Pid>,
}

impl Group {
    fn of(child: Child) -> Group {
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Group { child, leader }
    }

    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.leader = None;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Waits for the end of a command, and keeps the beginning of what it says. What it leaves behind may hold its output open for as
/// long as it likes: how it ended is all that counts.
async fn ended(mut group: Group, most: usize) -> io::Result<Output> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, err) = (group.child.stdout.take(), group.child.stderr.take());
    let status = {
        let reading = pin!(join(keep(out, &mut stdout, most), keep(err, &mut stderr, most)));
        match select(pin!(group.wait()), reading).await {
            Either::Left((status, reading)) => {
                let _ = tokio::time::timeout(GRACE, reading).await;
                status?
            }
            Either::Right((_, waiting)) => waiting.await?,
        }
    };
    Ok(Output { status, stdout, stderr })
}

/// Reads all of a stream and keeps its first `most` octets.
async fn keep(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>, most: usize) {
    let Some(mut stream) = stream else { return };
    let mut part = [0; PART];
    while let Ok(length @ 1..) = stream.read(&mut part).await {
        let room = most - kept.len();
        kept.extend_from_slice(&part[..length.min(room)]);
    }
}

/// The words of what a command said, in one line of at most `most` characters.
pub fn excerpt(said: &[&[u8]], most: usize) -> String {
    let text = said.join(&b' ');
    let text = String::from_utf8_lossy(&text);
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || is_unseen(c)).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Read,
        os::{fd::OwnedFd, unix::net::UnixStream},
    };

    /// Longer than any machine needs, however busy.
    const PATIENCE: Duration = Duration::from_secs(400);

    async fn sh(script: &str) -> Output {
        let arguments = ["-c", script].map(String::from);
        run(Invocation::new("sh", &arguments, PATIENCE)).await.unwrap()
    }

    #[tokio::test]
    async fn the_beginning_of_what_a_command_says_is_kept_and_the_rest_is_read() {
        let output = sh("echo first; head -c 100M /dev/zero; echo why >&2; exit 3").await;
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), KEPT));
        assert_eq!(excerpt(&[&output.stdout, &output.stderr], 500), "first why");
        let output = sh("echo said; head -c 100M /dev/zero >&2").await;
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), KEPT));
        assert_eq!(excerpt(&[&output.stdout, &output.stderr], 3), "sai");
        let arguments = ["-c", "100M", "/dev/zero"].map(String::from);
        let more = Invocation { kept: 3 * PART + 1, ..Invocation::new("head", &arguments, PATIENCE) };
        assert_eq!(run(more).await.unwrap().stdout.len(), 3 * PART + 1);
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_does_not_keep_it_from_ending_and_stays() {
        let output = sh("sleep 1d & echo $!; exit 0").await;
        let left = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
        assert!(output.status.success());
    }

    /// Runs a command with a child of its own. It returns once both are gone.
    async fn with_child(limit: Duration, patience: Duration) -> Option<Result<Output, NotRun>> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let arguments = ["-c", "exec 3<&0; sleep 1d & wait"].map(String::from);
        let input = OwnedFd::from(theirs).into();
        let command = Invocation { input, ..Invocation::new("sh", &arguments, limit) };
        let ran = tokio::time::timeout(patience, run(command)).await.ok();
        // Nothing comes, and the end only once nobody holds the other side.
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = Vec::new();
        ours.read_to_end(&mut said).unwrap();
        assert!(said.is_empty());
        ran
    }

    #[tokio::test]
    async fn all_that_a_command_started_ends_with_its_time_or_once_nobody_waits() {
        let soon = Duration::from_millis(500);
        assert!(matches!(with_child(soon, PATIENCE).await, Some(Err(NotRun::Late))));
        assert!(with_child(PATIENCE, soon).await.is_none());
    }

    #[tokio::test]
    async fn a_command_sees_nothing_of_the_environment_but_what_it_is_given() {
        let environment = [("ZONE", "example.com")];
        let command = Invocation { environment: &environment, ..Invocation::new("env", &[], PATIENCE) };
        let output = run(command).await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        // Cargo gives a test dozens of variables.
        let mut variables: Vec<&str> = said.lines().collect();
        variables.sort_unstable();
        assert_eq!(variables, [&*format!("PATH={PATH}"), "ZONE=example.com"]);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_told_from_one_that_fails() {
        let ran = run(Invocation::new("/nonexistent/program", &[], PATIENCE)).await;
        assert!(matches!(ran, Err(NotRun::NotBegun(error)) if error.kind() == io::ErrorKind::NotFound));
        assert_eq!(sh("exit 7").await.status.code(), Some(7));
    }
}
