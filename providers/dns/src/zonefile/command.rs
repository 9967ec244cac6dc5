//! Running `check` and `reload`: argument lists without a shell, bounded in time and output.

use reconciled_provider::Error;
use std::{path::Path, process::Stdio, time::Duration};

/// Characters of a command's output that are shown.
const EXCERPT: usize = 500;

/// Runs `argv` with `{zone}` and `{file}` put in; an empty list is a success.
///
/// Errors: `Invalid` when the command says no, `Unavailable` when it cannot be run or does not end in time.
pub(crate) async fn run(argv: &[String], zone: &str, file: &Path, limit: Duration) -> Result<(), Error> {
    let words: Vec<String> = argv
        .iter()
        .map(|word| word.replace("{zone}", zone).replace("{file}", &file.to_string_lossy()))
        .collect();
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let shown = words.join(" ");
    let child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(limit, child).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            return Err(Error::unavailable(format!("run `{shown}`"))
                .hint("is the command installed and in the PATH of this process?")
                .caused_by(error));
        }
        Err(_) => {
            return Err(Error::unavailable(format!("`{shown}` did not end within {} s", limit.as_secs())));
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let said = excerpt(&output.stdout, &output.stderr);
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    Err(Error::invalid(format!("`{shown}` failed ({}){said}", output.status)))
}

fn excerpt(stdout: &[u8], stderr: &[u8]) -> String {
    let text = [stdout, b" ", stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    words.join(" ").chars().take(EXCERPT).collect()
}
