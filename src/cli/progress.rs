//! What goes on while a verb works: one line on standard error, for a person who waits.
//!
//! Only on a terminal, never with `NO_COLOR` or a dumb one, and not before a moment has passed: what is quick shows
//! nothing. The line is gone before anything else is said.

use crate::{layer::Tally, text::counted};
use reconciled_provider::Clock;
use std::{
    io::{IsTerminal, Write},
    pin::pin,
    time::Duration,
};

/// How often the line is drawn, and how long it is waited before the first time.
const TICK: Duration = Duration::from_millis(200);

/// Clears the line that is there.
pub(super) const CLEAR: &str = "\r\u{1b}[K";

/// Does `work` while showing `phase` and the numbers of `tally`.
pub(super) async fn during<T>(
    is_shown: bool,
    phase: &str,
    tally: &Tally,
    clock: &dyn Clock,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    if !is_shown || !std::io::stderr().is_terminal() {
        return work.await;
    }
    let mut is_drawn = false;
    loop {
        tokio::select! {
            biased;
            result = &mut work => {
                if is_drawn {
                    draw("");
                }
                return result;
            }
            () = clock.sleep(TICK) => {
                draw(&line(phase, tally));
                is_drawn = true;
            }
        }
    }
}

/// The phase and what is known of it, short enough for any terminal.
fn line(phase: &str, tally: &Tally) -> String {
    let ((reading, read), (answered, sent)) = (tally.scopes(), tally.changes());
    let mut text = format!("{phase} …");
    if reading + read > 0 {
        text += &format!("  {} read", counted(read, "scope"));
    }
    if reading > 0 {
        text += &format!(", {reading} under way");
    }
    if sent > 0 {
        text += &format!("  {answered} of {} done", counted(sent, "change"));
    }
    text
}

/// Puts `text` in place of the line that is there.
fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{CLEAR}{text}").and_then(|()| stderr.flush());
}
