//! The variables that say how it is to misbehave, and what is put down where they say so.

use std::io::Write;

/// Of no interest to a test what others see to.
#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own, whose surroundings say how it is to misbehave"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Adds a line to the file that a variable names, if it names one.
pub(crate) fn is_put_down(name: &str, line: &str) -> bool {
    let Some(told) = variable(name) else { return true };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(told);
    file.and_then(|mut file| writeln!(file, "{line}")).is_ok()
}
