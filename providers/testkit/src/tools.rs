//! Tests that need what not every machine has.

use std::{ffi::OsString, io::Write};

/// Says that a test is left out on this machine, and why: straight to standard error, as what a test that passes prints is hidden.
pub fn left_out(why: &str) {
    let thread = std::thread::current();
    let note = format!("note: {} is left out: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(note.as_bytes());
}

/// What `variable` says about a tool that `tests/run` always installs.
///
/// # Panics
/// Without it.
pub fn needed(variable: &str) -> OsString {
    told(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: tests/run installs that and says where it is"))
}

/// What `variable` says about a tool that `tests/run` installs where it can. Without it the test is left out.
///
/// # Panics
/// Without it where `RECONCILED_TEST_ALL=yes` says that all of that has to be there.
pub fn installed(variable: &str) -> Option<OsString> {
    if told("RECONCILED_TEST_ALL").is_some_and(|value| value == "yes") {
        return Some(needed(variable));
    }
    machines_own(variable)
}

/// What `variable` says about a tool that a machine has or has not: nobody installs it for tests. Without it the test is left out.
pub fn machines_own(variable: &str) -> Option<OsString> {
    let tool = told(variable);
    if tool.is_none() {
        left_out(&format!("{variable} is not set"));
    }
    tool
}

#[expect(clippy::disallowed_methods, reason = "where the tests' own tools are is said by who runs them")]
fn told(variable: &str) -> Option<OsString> {
    std::env::var_os(variable)
}
