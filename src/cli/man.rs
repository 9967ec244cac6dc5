//! `man`: one manual page for each verb. Needs no configuration.

use super::{Exit, Out};
use crate::failure::Failure;
use clap::{Args as ClapArgs, Command};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Arguments of `man`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ManArgs {
    /// Where the pages go; made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs the verb: the pages are those of `program`.
pub(super) fn run(man: &ManArgs, program: Command, out: &mut Out) -> Result<Exit, Failure> {
    let shown = man.dir.display();
    write(program, &man.dir).map_err(|error| {
        let hint = "name a directory that you may write to, or that is not there: reconciled man DIR";
        Failure::hinted(format!("write manual pages to {shown}: {error}"), hint)
    })?;
    out.talk(&format!("manual pages written to {shown}; to read one: man {shown}/reconciled.1"));
    Ok(Exit::Good)
}

fn write(program: Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(program, dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::CommandLine;
    use clap::CommandFactory as _;

    #[test]
    fn there_is_one_page_for_each_verb() {
        let folder = tempfile::tempdir().unwrap();
        write(CommandLine::command(), folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("reconciled.1")).unwrap();
        let command = CommandLine::command();
        let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        for verb in shown.map(Command::get_name) {
            let file = format!("reconciled-{verb}.1");
            assert!(folder.path().join(&file).exists(), "{file}");
            assert!(page.contains(verb), "{verb}");
        }
    }
}
