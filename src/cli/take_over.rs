//! `import FILE.tfstate`: manifests of all that a state file of Terraform holds, so that the first plan is empty.

use super::{Args, Exit, Out, destination::write_new, host::tell_warnings};
use crate::{config::Environment, failure::Failure, registry, session::Session, text::counted};
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

/// Takes over what the state file `path` holds: manifests go into the folder `to`, if there is one, and secrets that have to be
/// declared into `secrets`.
pub(super) async fn run(
    args: &Args,
    path: &Path,
    to: Option<&Path>,
    secrets: Option<&Path>,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let bytes = fs::read(path).map_err(|e| Failure::plain(format!("read {}: {e}", path.display())))?;
    // What an id does not lead to is kept in the state until its manifest is in force.
    let session = Session::open_to_write(args.config.as_deref(), environment).await?;
    session.leave_state().await;
    tell_warnings(&session, out);
    let reading = registry::take_over(&session.config, &session.surveyor.cx, &bytes, secrets.is_some());
    let taken = out.during("reading", &session, reading).await?;
    for left in &taken.left {
        out.talk(&format!("left out: {}: {}", left.address, left.error.chain()));
        if let Some(hint) = &left.error.hint {
            out.talk(&format!("  hint: {hint}"));
        }
    }
    for (address, names, why) in &taken.elsewhere {
        out.talk(&format!("not declared with {address}: {names}, {why}"));
    }
    let exit = if taken.left.iter().any(|left| left.is_managed) { Exit::Person } else { Exit::Good };
    if taken.count == 0 {
        out.talk("nothing was taken over");
        return Ok(exit);
    }
    if let Some(dir) = secrets {
        write_secrets(dir, &taken.secrets, out)?;
    }
    let is_barred = is_barred(&session).await?;
    let count = counted(taken.count, "resource");
    match to {
        Some(dir) => {
            write_new(dir, &taken.files)?;
            out.talk(&format!(
                "{count} in {} written to {}",
                counted(taken.files.len(), "file"),
                dir.display()
            ));
            let dir = dir.display();
            let what = match is_barred {
                true => "all of it reads `= adopt`, but for what was forgotten here",
                false => "all of it reads `= adopt`",
            };
            out.talk(&format!("next: look at it with `reconciled plan --dir {dir}`, where {what};"));
            out.talk("      then commit the files to the source, and run `terraform` for them no more");
            if is_barred {
                out.talk(
                    "      and for what was forgotten, say so once it is in force: reconciled adopt ADDRESS",
                );
            }
        }
        None => {
            out.data(&taken.files.into_values().collect::<Vec<_>>().join("---\n"));
            out.talk(&format!("{count}; to write files: add --out DIR"));
        }
    }
    if taken.handed > 0 {
        out.talk(&format!(
            "{} cannot be found by an id: their states wait, sealed, in the state of this host",
            counted(taken.handed, "resource")
        ));
    }
    Ok(exit)
}

/// True where something of a provider of Terraform was forgotten, and waits for a word before it is taken over again.
async fn is_barred(session: &Session) -> Result<bool, Failure> {
    let bars = session.reader().await?.bars().await?;
    let entries = &session.config.providers;
    let is_theirs = |name: &str| entries.iter().any(|one| *one.name == *name && registry::is_terraform(one));
    Ok(bars.iter().any(|(scope, _)| is_theirs(&scope.provider)))
}

/// Each in a file of its own that only its owner reads; the entries to declare them are told.
fn write_secrets(
    dir: &Path,
    secrets: &std::collections::BTreeMap<String, std::sync::Arc<str>>,
    out: &mut Out,
) -> Result<(), Failure> {
    let failed = |path: &Path, e: std::io::Error| Failure::plain(format!("write {}: {e}", path.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| failed(dir, e))?;
    let dir = fs::canonicalize(dir).map_err(|e| failed(dir, e))?;
    for (name, clear) in secrets {
        let path = dir.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(clear.as_bytes())).map_err(|e| failed(&path, e))?;
    }
    if !secrets.is_empty() {
        out.talk("the manifests name secrets; put this into the host configuration:");
        out.talk("secrets:");
        for name in secrets.keys() {
            out.talk(&format!("  {name}: {{file: {}}}", dir.join(name).display()));
        }
    }
    Ok(())
}
