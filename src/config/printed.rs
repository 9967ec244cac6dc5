//! Secrets that a command of the host prints: `{exec: [pass, show, dns/token]}`.

use reconciled_provider::{Error, Secret};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    collections::HashMap,
    io::{self, Read},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};
use zeroize::Zeroizing;

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long what it printed counts, or that it failed: one pass asks for the same secret many times.
const FRESH: Duration = Duration::from_secs(30);
/// No secret is longer.
const LONGEST: u64 = 1 << 20;

/// A program and its arguments.
type Argv = Arc<[Arc<str>]>;

/// What a command printed or how it failed, and when.
type Last = Arc<Mutex<Option<(Instant, Result<Secret, Error>)>>>;

/// What commands printed lately.
#[derive(Default)]
pub(super) struct Printed(Mutex<HashMap<Argv, Last>>);

impl Printed {
    /// What the command prints, without its last newline.
    ///
    /// Errors: it cannot be started, fails, is too slow, or prints nothing or too much. What it wrote is not part of the error.
    pub(super) fn of(&self, argv: &Argv) -> Result<Secret, Error> {
        let last =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(argv.clone()).or_default().clone();
        let fresh = |last: &Option<(Instant, Result<Secret, Error>)>| {
            last.as_ref().filter(|(since, _)| since.elapsed() < FRESH).map(|(_, result)| result.clone())
        };
        if let Some(result) = last.try_lock().ok().and_then(|last| fresh(&last)) {
            return result;
        }
        blocking(|| {
            // Held while it runs: several that ask at once start one command, and none waits for another one.
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(result) = fresh(&last) {
                return result;
            }
            let result = run(argv, PATIENCE);
            *last = Some((Instant::now(), result.clone()));
            result
        })
    }
}

/// Waits without stopping others that share the thread.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// What the command prints within its time.
fn run(argv: &[Arc<str>], patience: Duration) -> Result<Secret, Error> {
    let program = argv.first().map_or("", |program| &**program);
    let failed = |what: String| {
        Error::unavailable(format!("read the secret that `{program}` prints: {what}"))
            .hint("run the command by hand as the user of the service")
    };
    let mut child = Command::new(program)
        .args(argv[1..].iter().map(|argument| &**argument))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(format!("it cannot be started: {error}")))?;
    let begin = Instant::now();
    let stdout = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    // A thread of its own reads, and is left alone when what left the process group keeps the pipe open.
    std::thread::spawn(move || {
        let mut bytes = Zeroizing::new(Vec::new());
        let read = stdout.map(|stdout| stdout.take(LONGEST + 1).read_to_end(&mut bytes));
        // Nobody waits any more where the command was too slow.
        let _ = sender.send(read.is_some_and(|read| read.is_ok()).then_some(bytes));
    });
    // First all that it prints, and only then its end: until that was asked for, its number is nobody else's.
    let read = receiver.recv_timeout(patience);
    let is_too_long = matches!(&read, Ok(Some(bytes)) if bytes.len() as u64 > LONGEST);
    let ended = match read.is_ok() && !is_too_long {
        true => wait(&mut child, begin, patience),
        false => Ok(None),
    };
    let Some(status) = ended.map_err(|error| failed(format!("how it ended is not known: {error}")))? else {
        let ended = kill(&mut child).filter(|status| status.code().is_some_and(|code| code != 0));
        return Err(failed(match ended {
            _ if is_too_long => "it printed more than 1 MiB".into(),
            Some(status) => format!("it ended with {status}, and left its output open"),
            None => format!("it took longer than {} s", patience.as_secs()),
        }));
    };
    if !status.success() {
        return Err(failed(format!("it ended with {status}")));
    }
    let mut bytes = read.ok().flatten().ok_or_else(|| failed("its output cannot be read".into()))?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Err(failed("it printed nothing".into()));
    }
    Ok(Secret::new(std::mem::take(&mut *bytes)))
}

/// How it ended; none when it did not.
fn wait(child: &mut Child, begin: Instant, patience: Duration) -> io::Result<Option<ExitStatus>> {
    loop {
        match child.try_wait() {
            Ok(None) if begin.elapsed() < patience => std::thread::sleep(Duration::from_millis(2)),
            ended => return ended,
        }
    }
}

/// Ends it, with all that it started; returns how it ended, by itself or so. Not for one that was found ended: its number may be
/// another's by now.
fn kill(child: &mut Child) -> Option<ExitStatus> {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Argv {
        words.iter().map(|word| Arc::from(*word)).collect()
    }

    #[test]
    fn what_a_command_prints_is_read_once_and_failures_hold_no_output() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count").display().to_string();
        let printed = Printed::default();
        let command = argv(&["sh", "-c", "echo x >> \"$0\"; echo hunter2", &count]);
        assert_eq!(printed.of(&command).unwrap().reveal(), b"hunter2");
        assert_eq!(printed.of(&command).unwrap().reveal(), b"hunter2");
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
        let fails = argv(&["sh", "-c", "echo x >> \"$0\"; exit 3", &count]);
        assert!(printed.of(&fails).is_err() && printed.of(&fails).is_err());
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\n", "a failure counts as long");
        for (words, told) in [
            (&["sh", "-c", "echo hunter2; echo hunter2 >&2; exit 3"][..], "exit status: 3"),
            (&["true"], "printed nothing"),
            (&["/nonexistent/program"], "cannot be started"),
        ] {
            let error = printed.of(&argv(words)).unwrap_err();
            let text = format!("{} {:?}", error.chain(), error.hint);
            assert!(text.contains(told) && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_command_that_takes_too_long_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        // One that waits for its child, and one that leaves it behind with its output open.
        for rest in ["wait", "exit 0"] {
            let told = folder.path().join(rest);
            let script = format!("sleep 1d & echo $! > \"$0\"; {rest}");
            let command = argv(&["sh", "-c", &script, told.to_str().unwrap()]);
            let mut patience = Duration::from_millis(200);
            let child = loop {
                let error = run(&command, patience).unwrap_err();
                assert!(error.to_string().contains("it took longer than"), "{error}");
                // A busy machine may not have got as far as that.
                match std::fs::read_to_string(&told).unwrap_or_default().trim().parse::<u32>() {
                    Ok(child) => break child,
                    Err(_) => patience *= 2,
                }
            };
            let begin = Instant::now();
            while is_running(child) {
                assert!(begin.elapsed() < reconciled_testkit::PATIENCE, "{rest}: {child} is still there");
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    #[test]
    fn one_that_fails_and_leaves_its_output_open_is_told_as_that() {
        let command = argv(&["sh", "-c", "sleep 1d & exit 3"]);
        // A busy machine may not have got as far as that in the first of them.
        let mut times = [1, 8, 64].into_iter().map(Duration::from_secs);
        let fails = |time| run(&command, time).unwrap_err().to_string().contains("exit status: 3, and left");
        assert!(times.any(fails));
    }

    fn is_running(process: u32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    }

    #[test]
    fn a_command_may_print_a_mebibyte_and_is_ended_when_it_prints_more() {
        let run = |words: &[&str]| run(&argv(words), reconciled_testkit::PATIENCE);
        let most = run(&["head", "-c", "1M", "/dev/zero"]).unwrap();
        assert_eq!(most.reveal().len() as u64, LONGEST);
        // One that ends by itself, one that never does, and one that does not mind that nobody reads any more.
        for words in [
            &["head", "-c", "1048577", "/dev/zero"][..],
            &["cat", "/dev/zero"],
            &["sh", "-c", "head -c 2M /dev/zero; sleep 1d"],
        ] {
            let error = run(words).unwrap_err();
            assert!(error.to_string().contains("it printed more than 1 MiB"), "{words:?}: {error}");
        }
    }
}
