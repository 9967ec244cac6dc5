//! Where a verb's words go: data to standard output, talk to standard error.

use super::progress;
use crate::{config::Environment, session::Session, text::clean_lines};
use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    process::Termination,
};

/// How a verb ended; INTERFACE §4 gives the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Converged, in sync, valid.
    Good,
    /// Something failed.
    Error,
    /// Changes are pending (`--detailed-exitcode`).
    Changes,
    /// Held or stalled: a person must act.
    Person,
    /// Timed out, still going.
    Late,
    /// The daemon cannot be reached.
    Unreachable,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Error => 1,
            Exit::Changes => 2,
            Exit::Person => 3,
            Exit::Late => 4,
            Exit::Unreachable => 5,
        }
    }
    /// The worse of two, in the order 1, 3, 4, 2, 0.
    pub fn worst(self, other: Exit) -> Exit {
        let rank = |exit: Exit| match exit {
            Exit::Error | Exit::Unreachable => 4,
            Exit::Person => 3,
            Exit::Late => 2,
            Exit::Changes => 1,
            Exit::Good => 0,
        };
        if rank(self) >= rank(other) { self } else { other }
    }
}

impl Termination for Exit {
    fn report(self) -> std::process::ExitCode {
        self.code().into()
    }
}

/// The two streams. A closed pipe ends quietly: `reconciled plan | head` is no error. What else keeps data from being written is
/// one: whoever reads an empty plan takes it for "in sync".
pub struct Out {
    /// Standard output may be coloured.
    pub colour: bool,
    /// Standard output is a terminal.
    pub terminal: bool,
    /// Progress may be shown on standard error.
    pub progress: bool,
    /// A person can be asked.
    pub interactive: bool,
    /// Nobody types: a script, a timer or a pipe.
    pub unattended: bool,
    /// Nobody reads standard output any more.
    pub closed: bool,
    /// What kept data from being written, where it was no closed pipe.
    failed: Option<io::Error>,
    /// What was said since recording began; while recording, talk goes to standard output too, in order.
    recorded: Option<String>,
}

impl Out {
    /// Looks at the process's streams.
    pub fn new(environment: &Environment) -> Out {
        let terminal = io::stdout().is_terminal();
        let plain = environment.var("NO_COLOR").is_some() || environment.var("TERM") == Some("dumb");
        let attended = io::stdin().is_terminal();
        let interactive = attended && io::stderr().is_terminal();
        let (colour, progress, unattended) = (terminal && !plain, !plain, !attended);
        let (closed, failed, recorded) = (false, None, None);
        Out { colour, terminal, progress, interactive, unattended, closed, failed, recorded }
    }
    /// Does `work` of a session while a terminal shows what goes on.
    pub(super) async fn during<T>(&self, phase: &str, session: &Session, work: impl Future<Output = T>) -> T {
        let is_shown = self.progress && self.recorded.is_none();
        progress::during(is_shown, phase, &session.tally, &*session.clock, work).await
    }
    /// Writes talk while a verb works, in place of the line that shows what goes on.
    pub(super) fn aside(&self, text: &str) {
        let line = if self.progress && io::stderr().is_terminal() { progress::CLEAR } else { "" };
        let _ = writeln!(io::stderr().lock(), "{line}{}", clean_lines(text));
    }
    /// Begins to record.
    pub(super) fn record(&mut self) {
        self.recorded = Some(String::new());
    }
    /// Takes what was said since the last call.
    pub(super) fn take_recorded(&mut self) -> String {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }
    /// Writes data.
    pub fn data(&mut self, text: &str) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push_str(text);
            recorded.push('\n');
        }
        let mut stdout = io::stdout().lock();
        let end: &[u8] = if text.ends_with('\n') || text.is_empty() { b"" } else { b"\n" };
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(end));
        self.note(written.and_then(|()| stdout.flush()));
    }
    /// Writes data; false when nobody reads it any more, or it cannot be written.
    pub fn offer(&mut self, text: &str) -> bool {
        let mut stdout = io::stdout().lock();
        self.note(writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush()))
    }
    /// Takes down how writing data ended; false when it did not succeed.
    pub(super) fn note(&mut self, written: io::Result<()>) -> bool {
        let Err(error) = written else { return true };
        self.closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            self.failed.get_or_insert(error);
        }
        false
    }
    /// The code for the process: as the verb ended, unless its data could not be written, which is an error and told as one.
    pub(super) fn end(&mut self, code: u8) -> u8 {
        let Some(error) = self.failed.take() else { return code };
        // What is recorded goes where nothing can be written.
        self.recorded = None;
        self.talk(&format!("error: standard output cannot be written, so what it has is not all: {error}"));
        Exit::Error.code()
    }
    /// Writes data for people, with words of others in it: nothing of them steers a terminal.
    pub fn say(&mut self, text: &str) {
        self.data(&clean_lines(text));
    }
    /// Writes talk, cleaned as data for people is.
    pub fn talk(&mut self, text: &str) {
        self.talk_clean(&clean_lines(text));
    }
    /// Writes talk in which the words of others are clean already, as in a plan that was rendered: its colours stay.
    pub fn talk_clean(&mut self, text: &str) {
        if self.recorded.is_some() {
            return self.data(text);
        }
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
    /// Asks a yes-or-no question.
    pub fn ask(&mut self, question: &str) -> bool {
        let _ = write!(io::stderr().lock(), "{} [y/N] ", clean_lines(question));
        let _ = io::stderr().flush();
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_data_from_being_written_is_an_error_and_a_closed_pipe_is_none() {
        let ends = |errors: &[ErrorKind]| {
            let mut out = Out::new(&Environment::default());
            assert!(out.note(Ok(())));
            for kind in errors {
                assert!(!out.note(Err((*kind).into())), "{kind}");
            }
            assert_eq!(out.closed, !errors.is_empty());
            out.end(Exit::Changes.code())
        };
        assert_eq!(ends(&[]), 2);
        assert_eq!(ends(&[ErrorKind::BrokenPipe]), 2);
        assert_eq!(ends(&[ErrorKind::StorageFull]), 1);
        assert_eq!(ends(&[ErrorKind::StorageFull, ErrorKind::BrokenPipe]), 1);
    }

    #[test]
    fn the_worst_exit_wins_in_the_published_order() {
        let order = [Exit::Error, Exit::Person, Exit::Late, Exit::Changes, Exit::Good];
        for (i, worse) in order.iter().enumerate() {
            for better in &order[i..] {
                assert_eq!(worse.worst(*better), *worse);
                assert_eq!(better.worst(*worse), *worse);
            }
        }
    }
}
