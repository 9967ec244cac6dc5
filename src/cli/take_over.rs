//! `import FILE.tfstate`: manifests of all that a state file of Terraform holds, so that the first plan is empty.

use super::{Args, Exit, Out, destination::write_new, host::tell_warnings};
use crate::{config::Environment, failure::Failure, registry, session::Session, text::counted};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Values in clear, by the names that manifests give them.
type Secrets = BTreeMap<String, Arc<str>>;

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

/// Writes secrets, and tells the entries that declare them.
fn write_secrets(dir: &Path, secrets: &Secrets, out: &mut Out) -> Result<(), Failure> {
    let dir = put_secrets(dir, secrets)?;
    if !secrets.is_empty() {
        out.talk("the manifests name secrets; put this into the host configuration:");
        out.talk("secrets:");
        for name in secrets.keys() {
            out.talk(&format!("  {name}: {{file: {}}}", dir.join(name).display()));
        }
    }
    Ok(())
}

/// Writes each into a file of its own that only its owner reads; none where one of them would take the place of something else.
/// Returns the folder.
fn put_secrets(dir: &Path, secrets: &Secrets) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, e: io::Error| Failure::plain(format!("write {}: {e}", path.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| failed(dir, e))?;
    let dir = fs::canonicalize(dir).map_err(|e| failed(dir, e))?;
    let mut new = Vec::new();
    for (name, clear) in secrets {
        let path = dir.join(name);
        match fs::read(&path) {
            // Of a run before this one.
            Ok(content) if content == clear.as_bytes() => {}
            Ok(_) => {
                let failure = format!("{} is there already, with another content", path.display());
                return Err(Failure::hinted(failure, "name another folder, or move the file away"));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => new.push((path, clear)),
            Err(e) => return Err(failed(&path, e)),
        }
    }
    for (path, clear) in new {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(clear.as_bytes())).map_err(|e| failed(&path, e))?;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_take_the_place_of_nothing_and_may_be_written_once_more() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("secrets");
        let secrets = Secrets::from([("a".into(), "one".into()), ("b".into(), "two".into())]);
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("b"), "of something else").unwrap();
        let refused = put_secrets(&dir, &secrets).unwrap_err();
        assert!(refused.to_string().contains("b is there already, with another content"), "{refused}");
        assert_eq!((read("a"), read("b")), (String::new(), "of something else".into()));
        fs::remove_file(dir.join("b")).unwrap();
        for _ in 0..2 {
            put_secrets(&dir, &secrets).unwrap();
            assert_eq!((read("a"), read("b")), ("one".into(), "two".into()));
        }
        assert_eq!(fs::metadata(dir.join("a")).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
