//! Running a command of the host configuration on a file: an argument list without a shell, bounded in time.

use super::Unwell;
use crate::path::FilePath;
use futures_util::future::{Either, join, select};
use reconciled_provider::Error;
use rustix::process::{Pid, Signal};
use std::{
    fs::File,
    io,
    path::PathBuf,
    pin::pin,
    process::{Output, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Child,
};

/// Characters of a command's output that are shown.
const EXCERPT: usize = 500;

/// Octets of each stream of a command that are kept.
const KEPT: usize = 4 * 1024;
/// How long the rest of what a command said is waited for once it has ended.
const GRACE: Duration = Duration::from_millis(200);

/// What a command ends with that may know more later: `EX_TEMPFAIL` of `sysexits(3)`.
const NOT_NOW: i32 = 75;

/// Where commands are looked for: the environment of the daemon, which may hold secrets, is not theirs.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What is run.
pub(super) struct Command<'a> {
    pub(super) name: &'a str,
    pub(super) argv: &'a [String],
    pub(super) limit: Duration,
    /// Its output may be told: it often repeats a line of the file.
    pub(super) is_public: bool,
}

/// How a command gets at what it is asked about.
pub(super) enum Shown {
    /// By this name.
    At(PathBuf),
    /// As its standard input, under the name that this has for it.
    Open(File),
}

/// Runs the command on the draft that is `shown`, the new content of `path`.
///
/// Errors: `Invalid` when the command says no; `Unavailable` when it cannot be run, does not end in time or by itself, or
/// says that it cannot tell now.
pub(super) async fn accepts(command: &Command<'_>, shown: Shown, path: &FilePath) -> Result<(), Error> {
    let (draft, input) = match shown {
        Shown::At(path) => (path.to_string_lossy().into_owned(), Stdio::null()),
        Shown::Open(file) => ("/proc/self/fd/0".to_owned(), file.into()),
    };
    let words: Vec<String> = command.argv.iter().map(|word| word.replace("{file}", &draft)).collect();
    let name = command.name;
    let output = run(name, &words, input, command.limit, &format!("the new {path}")).await?;
    if output.status.success() {
        return Ok(());
    }
    let said = excerpt(&output.stdout, &output.stderr);
    let said = match command.is_public {
        _ if said.is_empty() => String::new(),
        true => format!(": {said}"),
        false => ": what it said may repeat what not everyone may read, and is not shown".into(),
    };
    if matches!(output.status.code(), None | Some(NOT_NOW)) {
        let text = format!("`{name}` cannot tell now of the new {path} ({}){said}", output.status);
        return Err(Error::unavailable(text).hint("the old file is untouched; it is asked again"));
    }
    Err(Error::invalid(format!("`{name}` refuses the new {path} ({}){said}", output.status))
        .hint("the old file is untouched; mend the content in the repository"))
}

/// Runs a command that says whether `unit` is well.
///
/// Errors: it says no or does not end in time; nobody was asked when it cannot be run, does not end by itself, or says that it
/// cannot tell now.
pub(super) async fn accepts_unit(
    name: &str,
    words: &[String],
    limit: Duration,
    unit: &str,
) -> Result<(), Unwell> {
    let output = match run(name, words, Stdio::null(), limit, unit).await {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => output,
        Err(NotRun::Late(error)) => return Err(Unwell::No(error)),
        Err(NotRun::NotBegun(error)) => return Err(Unwell::NotAsked(error)),
    };
    let said = excerpt(&output.stdout, &output.stderr);
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(match output.status.code() {
        None | Some(NOT_NOW) => Unwell::NotAsked(Error::unavailable(format!(
            "`{name}` cannot tell now of {unit} ({}){said}",
            output.status
        ))),
        Some(_) => Unwell::No(Error::unavailable(format!(
            "`{name}` says that {unit} is not well ({}){said}",
            output.status
        ))),
    })
}

/// Why nothing is known of how a command ended.
enum NotRun {
    NotBegun(Error),
    /// It did not end in time.
    Late(Error),
}

impl From<NotRun> for Error {
    fn from(not_run: NotRun) -> Error {
        match not_run {
            NotRun::NotBegun(error) | NotRun::Late(error) => error,
        }
    }
}

/// Runs `words`, whatever they end with.
async fn run(
    name: &str,
    words: &[String],
    input: Stdio,
    limit: Duration,
    on: &str,
) -> Result<Output, NotRun> {
    let Some((program, arguments)) = words.split_first() else {
        let error = Error::invalid(format!("command `{name}` of the host configuration is empty"));
        return Err(NotRun::NotBegun(error));
    };
    let child = tokio::process::Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what it starts can be ended with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let group = child.as_ref().ok().and_then(|child| Pid::from_raw(i32::try_from(child.id()?).ok()?));
    let ended = async { ended(child?).await };
    match tokio::time::timeout(limit, ended).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(NotRun::NotBegun(
            Error::unavailable(format!("run `{name}` ({program}) on {on}"))
                .hint(format!("is {program} installed? it is looked for in {PATH}"))
                .caused_by(error),
        )),
        Err(_) => {
            if let Some(group) = group {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            let limit = limit.as_secs();
            Err(NotRun::Late(Error::unavailable(format!("`{name}` did not end within {limit} s on {on}"))))
        }
    }
}

/// Waits for the end of `child`, and keeps the beginning of what it says. What it leaves behind may hold its output open for as
/// long as it likes: how it ended is all that counts.
async fn ended(mut child: Child) -> io::Result<Output> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let status = {
        let reading = pin!(join(keep(out, &mut stdout), keep(err, &mut stderr)));
        match select(pin!(child.wait()), reading).await {
            Either::Left((status, reading)) => {
                let _ = tokio::time::timeout(GRACE, reading).await;
                status?
            }
            Either::Right((_, waiting)) => waiting.await?,
        }
    };
    Ok(Output { status, stdout, stderr })
}

/// Reads all of a stream, so that nobody waits for it to be read, and keeps the first [`KEPT`] octets.
async fn keep(stream: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut part = [0; KEPT];
    while let Ok(length @ 1..) = stream.read(&mut part).await {
        let room = KEPT - kept.len();
        kept.extend_from_slice(&part[..length.min(room)]);
    }
}

fn excerpt(stdout: &[u8], stderr: &[u8]) -> String {
    let text = [stdout, b" ", stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(EXCERPT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sh(script: &str) -> Result<Output, String> {
        let words = ["sh", "-c", script].map(str::to_owned);
        let ran = run("x", &words, Stdio::null(), Duration::from_secs(20), "a.service").await;
        ran.map_err(|not_run| Error::from(not_run).message)
    }

    #[tokio::test]
    async fn as_much_of_what_a_command_says_is_kept_as_is_shown_and_the_rest_is_read() {
        let output = sh("echo first; head -c 64M /dev/zero; echo why >&2; exit 3").await.unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), KEPT));
        assert_eq!(excerpt(&output.stdout, &output.stderr), "first why");
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_does_not_keep_it_from_ending() {
        let output = sh("sleep 1d & echo $!; exit 0").await.unwrap();
        let left = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
        assert!(output.status.success());
    }
}
