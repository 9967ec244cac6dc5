//! `completions`: what a shell needs to complete commands. Needs no configuration.

use super::{Args, Exit, Out};
use crate::failure::Failure;
use clap::{Args as ClapArgs, CommandFactory as _};
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Clone, Debug, ClapArgs)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the verb.
pub(super) fn run(completions: &CompletionsArgs, out: &mut Out) -> Result<Exit, Failure> {
    out.data(&script(completions.shell));
    Ok(Exit::Good)
}

fn script(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "reconciled", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn every_shell_learns_every_verb() {
        for shell in Shell::value_variants() {
            let text = script(*shell);
            for verb in Args::command().get_subcommands() {
                assert!(text.contains(verb.get_name()), "{shell}: {}", verb.get_name());
            }
        }
    }
}
