//! How the last run of a service ended, in words: the same wherever it is told.

/// What systemd ends a process with that it could not make into the one of the unit (systemd.exec(5), "Process Exit Codes"):
/// the status, its word, and what that means.
const BEFORE: &[(i32, &str, &str)] = &[
    (200, "CHDIR", "its WorkingDirectory= cannot be gone to"),
    (203, "EXEC", "what its ExecStart= names cannot be run: does the file exist, and may it be executed?"),
    (216, "GROUP", "its Group= is not known on this host"),
    (217, "USER", "its User= is not known on this host"),
    (226, "NAMESPACE", "its sandbox cannot be made: does every path that it names exist?"),
    (238, "STATE_DIRECTORY", "its StateDirectory= cannot be made"),
    (243, "CREDENTIALS", "its credentials cannot be had"),
];

/// How a run ended, from systemd's `Result` and `ExecMainStatus`: `exit-code, exit status 1`.
pub(crate) fn ended(result: &str, status: i32) -> String {
    match BEFORE.iter().find(|(known, ..)| result == "exit-code" && *known == status) {
        Some((_, word, meaning)) => format!("{result}, exit status {status}/{word} ({meaning})"),
        None if status == 0 => result.to_owned(),
        None if result == "exit-code" => format!("{result}, exit status {status}"),
        // That of a signal, as a rule.
        None => format!("{result}, status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_what_is_known_of_it() {
        assert_eq!(ended("exit-code", 1), "exit-code, exit status 1");
        assert_eq!(ended("timeout", 0), "timeout");
        assert_eq!(ended("signal", 9), "signal, status 9");
        assert!(ended("exit-code", 203).starts_with("exit-code, exit status 203/EXEC (what its ExecStart= "));
    }
}
