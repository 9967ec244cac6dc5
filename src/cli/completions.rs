//! `completions`: what a shell needs to complete commands. Needs no configuration.

use super::{Exit, Out};
use crate::failure::Failure;
use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Clone, Debug, ClapArgs)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the verb: the commands are those of `program`.
pub(super) fn run(completions: &CompletionsArgs, program: Command, out: &mut Out) -> Result<Exit, Failure> {
    out.data(&script(completions.shell, program));
    Ok(Exit::Good)
}

fn script(shell: Shell, mut program: Command) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut program, "reconciled", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CommandLine;
    use clap::{CommandFactory as _, ValueEnum as _};

    #[test]
    fn every_shell_learns_every_verb() {
        for shell in Shell::value_variants() {
            let text = script(*shell, CommandLine::command());
            for verb in CommandLine::command().get_subcommands() {
                assert!(text.contains(verb.get_name()), "{shell}: {}", verb.get_name());
            }
        }
    }
}
