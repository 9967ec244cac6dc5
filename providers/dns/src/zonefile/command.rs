//! Running `check` and `reload`.

use reconciled_command::{Invocation, NotRun, PATH, excerpt};
use reconciled_provider::Error;
use std::{path::Path, time::Duration};

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
    let output = match reconciled_command::run(Invocation::new(program, arguments, limit)).await {
        Ok(output) => output,
        Err(NotRun::NotBegun(error)) => {
            return Err(Error::unavailable(format!("run `{shown}`"))
                .hint(format!("is {program} installed? it is looked for in {PATH}"))
                .caused_by(error));
        }
        Err(NotRun::Late) => {
            return Err(Error::unavailable(format!("`{shown}` did not end within {} s", limit.as_secs())));
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let said = excerpt(&[&output.stdout, &output.stderr], EXCERPT);
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    Err(Error::invalid(format!("`{shown}` failed ({}){said}", output.status)))
}
