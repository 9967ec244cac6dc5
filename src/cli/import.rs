//! `import`: manifests of what a provider holds already. Reads the remote; writes files only.

use super::{
    Args, Exit, Out,
    destination::write_new,
    foreign,
    host::{Host, tell_warnings},
    take_over,
};
use crate::{
    config::Environment,
    failure::Failure,
    operation::{self, ImportAsk, Imported, free_name},
    registry::Foreign,
    session::Session,
    text::counted,
};
use clap::{Args as ClapArgs, ValueEnum};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Arguments of `import`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ImportArgs {
    /// A provider entry of the configuration; or a state file of Terraform; with --from a file or folder
    #[arg(value_name = "PROVIDER|FILE")]
    provider: String,
    /// What of it: a zone, or a type or kind that a Terraform provider can list; `*` and `?` are wild. With --from it may be
    /// left out where files are named after their zones
    #[arg(value_name = "SCOPE")]
    scope: Option<String>,
    /// The id of one resource of a Terraform provider, where SCOPE is its type or kind
    #[arg(value_name = "ID", requires = "scope", conflicts_with_all = ["from", "drifted"])]
    id: Option<String>,
    /// What a Terraform provider is asked for where it lists SCOPE: an argument of its `list` block
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, conflicts_with_all = ["from", "id"])]
    filter: Vec<(String, String)>,
    /// Write secrets of a state file that have to be declared into files of this folder, each of its own
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "drifted", "scope"])]
    secrets: Option<PathBuf>,
    /// Read files of another program instead of a provider
    #[arg(long, value_enum, value_name = "PROGRAM", conflicts_with = "drifted")]
    pub(super) from: Option<Foreign>,
    /// Write files into this folder; existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only what this means: a name (`www`, `*.dev`) or a name and type (`www/A`)
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// All but what this means
    #[arg(long, value_name = "GLOB")]
    ignore: Vec<String>,
    /// How much goes into one file
    #[arg(long, value_enum, default_value_t)]
    split: Split,
    /// Only what is declared and differs from it: to be committed instead of healed
    #[arg(long, conflicts_with = "split")]
    drifted: bool,
}

/// How much goes into one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Split {
    /// A scope, such as a zone
    #[default]
    ByScope,
    /// A name, with all its types; what is declared of the scope itself has a file of its own
    ByName,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    import: &ImportArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    if import.is_state_file() {
        import.takes_all()?;
        let (path, to, secrets) =
            (Path::new(&import.provider), import.out.as_deref(), import.secrets.as_deref());
        return take_over::run(args, path, to, secrets, environment, out).await;
    }
    if import.scope.is_none() && import.from.is_none() {
        return Err(Failure::hinted(
            format!("what of `{}` is meant is not said", import.provider),
            "write a zone, `*`, or the type and the id of a resource: reconciled import PROVIDER SCOPE [ID]",
        ));
    }
    let (files, left_out) = match import.from {
        Some(from) => foreign::files(&import.ask(), import.scope.as_deref(), from, out)?,
        None => files(args, &[import.ask()], environment, out).await?,
    };
    let exit = if left_out > 0 { Exit::Person } else { Exit::Good };
    if files.is_empty() {
        // Why is told; there is nothing to put anywhere.
        return Ok(exit);
    }
    match &import.out {
        Some(dir) => {
            write_new(dir, &files)?;
            let dir = dir.display();
            out.talk(&format!("{} written to {dir}", counted(files.len(), "file")));
            if !import.drifted {
                out.talk(&format!(
                    "next: look at it with `reconciled plan --dir {dir}`, where it reads `= adopt`, but for what another marked;"
                ));
                out.talk("      then commit the files to the source and run `reconciled apply`");
            }
        }
        None if import.drifted => out.data(&files.into_values().collect::<Vec<_>>().join("---\n")),
        None => {
            out.data(&files.into_values().collect::<Vec<_>>().join("---\n"));
            out.talk(
                "next: put this into a file of the source; `reconciled plan` then shows it as `= adopt`, but for what another marked",
            );
            out.talk("hint: to write files: add --out DIR");
        }
    }
    Ok(exit)
}

impl ImportArgs {
    /// True where what is to be imported is a state file, and no entry.
    pub(super) fn is_state_file(&self) -> bool {
        let is_file = self.provider.ends_with(".tfstate") || Path::new(&self.provider).is_file();
        self.from.is_none() && self.scope.is_none() && is_file
    }

    /// Refuses what chooses among what there is: a state file is taken over as a whole.
    fn takes_all(&self) -> Result<(), Failure> {
        let flags = [
            ("--only", !self.only.is_empty()),
            ("--ignore", !self.ignore.is_empty()),
            ("--filter", !self.filter.is_empty()),
            ("--split", self.split == Split::ByName),
            ("--drifted", self.drifted),
        ];
        match flags.into_iter().find(|(_, is_there)| *is_there) {
            Some((flag, _)) => Err(Failure::hinted(
                format!("{flag} means nothing here: a state file is taken over as a whole"),
                "leave it out, and remove what is not meant from the files that are written",
            )),
            None => Ok(()),
        }
    }

    /// What is meant of a provider.
    fn ask(&self) -> ImportAsk {
        ImportAsk {
            provider: self.provider.clone(),
            scope: self.scope.clone().unwrap_or_else(|| "*".into()),
            id: self.id.clone(),
            filter: self.filter.iter().cloned().collect(),
            only: self.only.clone(),
            ignore: self.ignore.clone(),
            by_name: self.split == Split::ByName,
            drifted: self.drifted,
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("write KEY=VALUE".into()),
    }
}

/// The manifests of what each of `asks` means, as the daemon sees it where one has the state; and how much was found and
/// could not be written.
pub(super) async fn files(
    args: &Args,
    asks: &[ImportAsk],
    environment: Environment,
    out: &mut Out,
) -> Result<(BTreeMap<String, String>, usize), Failure> {
    let (mut files, mut left_out) = (BTreeMap::new(), 0);
    let mut take = |imported: Imported, out: &mut Out| {
        imported.messages.iter().for_each(|message| out.talk(message));
        left_out += imported.left_out;
        for (name, text) in imported.files {
            files.insert(free_name(&files, name), text);
        }
    };
    if let Host::Daemon(client) = Host::find(args, &environment, out).await? {
        for ask in asks {
            take(client.post("/v1/import", ask).await?, out);
        }
        return Ok((files, left_out));
    }
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let reader = session.reader().await?;
    for ask in asks {
        take(operation::import(&session, &reader, ask).await?, out);
    }
    Ok((files, left_out))
}
