//! `export`: what is tracked of Terraform providers as a state file, for whoever goes back to Terraform. Reads the state;
//! writes one file.

use super::{Args, Exit, Out, destination::spares_own, host::tell_warnings};
use crate::{config::Environment, failure::Failure, registry, session::Session, text::counted};
use clap::Args as ClapArgs;
use reconciled_engine::Store as _;
use reconciled_provider::{Scope, Tracked};
use std::{
    collections::BTreeSet, fs::OpenOptions, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::PathBuf,
};

/// Arguments of `export`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ExportArgs {
    /// The state file to write; one that is there is never overwritten
    #[arg(long, value_name = "FILE")]
    tfstate: PathBuf,
    /// With the values of secrets, in clear, as Terraform keeps them
    #[arg(long)]
    with_secrets: bool,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    export: &ExportArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    spares_own(&export.tfstate, args, &environment)?;
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let reader = session.reader().await?;
    let scopes: BTreeSet<String> = reader.rows(None).await?.into_iter().map(|row| row.scope).collect();
    let mut rows = Vec::new();
    for scope in scopes {
        let scope: Scope = scope.parse().map_err(|error: &str| Failure::plain(error.to_string()))?;
        for row in reader.scope(&scope).await?.rows.iter() {
            let (scope, manifest) = (scope.clone(), row.manifest.clone());
            let Tracked { id, private, after, .. } = row.tracked.clone();
            rows.push(registry::Row { scope, id, private, manifest, after });
        }
    }
    let given =
        registry::give_back(&session.config, &session.surveyor.cx, &rows, export.with_secrets).await?;
    let path = &export.tfstate;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(&given.text)).map_err(|error| {
        let failure = format!("write {}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => Failure::hinted(failure, "name another file"),
            _ => Failure::plain(failure),
        }
    })?;
    out.talk(&format!("{} written to {}", counted(given.count, "resource"), path.display()));
    match (given.has_secrets, export.with_secrets) {
        (false, _) => {}
        (true, true) => out.talk("the file holds secrets in clear: keep it where only you can read it"),
        (true, false) => {
            out.talk("hint: secrets were left out, and Terraform would set them anew: add --with-secrets")
        }
    }
    out.talk("next: `reconciled forget` what Terraform shall have, before it changes anything there");
    let left = registry::without_entry(&session.config, &rows);
    for row in &left {
        out.talk(&format!(
            "left out: {} {}: no entry `{}` is configured",
            row.scope, row.id, row.scope.provider
        ));
    }
    Ok(if left.is_empty() { Exit::Good } else { Exit::Person })
}
