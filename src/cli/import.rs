//! `import`: manifests of what a provider holds already. Reads the remote; writes files only.

use super::{Args, Exit, Out, plan::tell_warnings};
use crate::{
    config::Environment,
    session::{Failure, Session},
};
use clap::Args as ClapArgs;
use reconciled_provider::{Found, Observer, Owner, Scope, address::glob, problem::did_you_mean};
use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Arguments of `import`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ImportArgs {
    /// A provider entry of the configuration
    #[arg(value_name = "PROVIDER")]
    pub(super) provider: String,
    /// What of it: a zone; `*` and `?` are wild
    #[arg(value_name = "SCOPE")]
    pub(super) scope: String,
    /// Write one file for each scope into this folder; existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Only what this means: a name (`www`, `*.dev`) or a name and type (`www/A`)
    #[arg(long, value_name = "GLOB")]
    pub(super) only: Vec<String>,
    /// All but what this means
    #[arg(long, value_name = "GLOB")]
    pub(super) ignore: Vec<String>,
}

/// Runs the verb.
pub(super) async fn run(
    args: &Args,
    import: &ImportArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let session = Session::open(args.config.as_deref(), environment).await?;
    tell_warnings(&session, out);
    let files = files(&session, import, out).await?;
    match &import.out {
        Some(dir) => {
            write(dir, &files)?;
            let dir = dir.display();
            let word = if files.len() == 1 { "file" } else { "files" };
            out.talk(&format!("{} {word} written to {dir}", files.len()));
            out.talk(&format!(
                "next: look at it with `reconciled plan --dir {dir}`, where all of it reads `= adopt`;"
            ));
            out.talk("      then commit the files to the source and run `reconciled apply`");
        }
        None => {
            out.data(&files.into_values().collect::<Vec<_>>().join("---\n"));
            out.talk(
                "next: put this into a file of the source; `reconciled plan` then shows it as `= adopt`",
            );
            out.talk("hint: to write files: add --out DIR");
        }
    }
    Ok(Exit::Good)
}

/// The manifests of what is meant, one file for each scope.
pub(super) async fn files(
    session: &Session,
    import: &ImportArgs,
    out: &mut Out,
) -> Result<BTreeMap<String, String>, Failure> {
    let observer = entry(session, &import.provider)?;
    // As it is written in addresses and plans: PROVIDER/NAME.
    let prefix = format!("{}/", import.provider);
    let query = import.scope.strip_prefix(&prefix).unwrap_or(&import.scope);
    let mut found = observer.discover(&session.surveyor.cx, query).await?;
    if found.is_empty() {
        return Err(Failure::hinted(
            format!("`{}` has nothing that `{query}` means", import.provider),
            format!("to see everything: reconciled import {} '*'", import.provider),
        ));
    }
    let mut files = BTreeMap::new();
    for found in &mut found {
        found.resources.retain(|resource| {
            observer.part(&found.scope, &resource.id).is_none_or(|part| is_meant(import, &part))
        });
        let documents = observer.export(found)?;
        let texts: Vec<String> =
            documents.iter().map(|document| String::from_utf8_lossy(document).into_owned()).collect();
        files.insert(file_name(&found.scope), texts.join("---\n"));
        tell_owners(found, out);
    }
    Ok(files)
}

fn entry<'a>(session: &'a Session, name: &str) -> Result<&'a dyn Observer, Failure> {
    session.observer(name).ok_or_else(|| {
        let known: Vec<&str> = session.surveyor.entries.keys().map(|known| &**known).collect();
        let hint = match did_you_mean(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("configured providers: {}", known.join(", ")),
        };
        Failure::hinted(format!("no provider is called `{name}`"), hint)
    })
}

/// True when `part` (`www/A`) is to be imported.
fn is_meant(import: &ImportArgs, part: &str) -> bool {
    let name = part.rsplit_once('/').map_or(part, |(name, _)| name);
    let hits = |globs: &[String]| globs.iter().any(|pattern| glob(pattern, part) || glob(pattern, name));
    (import.only.is_empty() || hits(&import.only)) && !hits(&import.ignore)
}

/// What carries somebody else's mark is declared too, but is not adopted without a word.
fn tell_owners(found: &Found, out: &mut Out) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for resource in &found.resources {
        if let Owner::Other(owner) = &resource.owner {
            *counts.entry(owner).or_default() += 1;
        }
    }
    for (owner, count) in counts {
        out.talk(&format!("warning: {}: {count} marked as {owner}'s", found.scope));
        out.talk(&format!("hint: to take them over, annotate the manifest: reconciled/adopt: {owner}"));
    }
}

/// Scopes may hold what a file name cannot.
fn file_name(scope: &Scope) -> String {
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = scope.name.chars().map(safe).collect();
    // A leading dot would hide the file from the loader.
    format!("{}.yaml", name.trim_start_matches('.'))
}

/// Writes all files, or none when one of them is there already.
fn write(dir: &Path, files: &BTreeMap<String, String>) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|e| Failure::plain(format!("create {}: {e}", dir.display())))?;
    if let Some(path) = files.keys().map(|name| dir.join(name)).find(|path| path.exists()) {
        return Err(Failure::hinted(
            format!("{} is there already; nothing was written", path.display()),
            "name another folder, or move the file away",
        ));
    }
    for (name, text) in files {
        let path = dir.join(name);
        // Another process may have made the file since.
        let file = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| Failure::plain(format!("write {}: {e}", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(only: &[&str], ignore: &[&str]) -> ImportArgs {
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        ImportArgs {
            provider: "pdns".into(),
            scope: "*".into(),
            out: None,
            only: texts(only),
            ignore: texts(ignore),
        }
    }

    #[test]
    fn globs_mean_names_or_names_with_types() {
        assert!(is_meant(&import(&[], &[]), "www/A"));
        assert!(is_meant(&import(&["www"], &[]), "www/A"));
        assert!(!is_meant(&import(&["www"], &[]), "mail/A"));
        assert!(!is_meant(&import(&[], &["*/TXT"]), "www/TXT"));
        assert!(!is_meant(&import(&["*"], &["*.dev"]), "a.dev/A"));
    }

    #[test]
    fn a_scope_gives_a_file_name_that_the_loader_reads() {
        assert_eq!(
            file_name(&Scope::new("pdns", "0/25.2.0.192.in-addr.arpa")),
            "0_25.2.0.192.in-addr.arpa.yaml"
        );
        assert_eq!(file_name(&Scope::new("pdns", "../../etc/passwd")), "_.._etc_passwd.yaml");
    }

    #[test]
    fn a_file_that_is_there_is_never_overwritten_and_then_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.yaml"), "mine").unwrap();
        let files =
            BTreeMap::from([("a.yaml".to_string(), "new".to_string()), ("b.yaml".into(), "new".into())]);
        let error = write(folder.path(), &files).unwrap_err();
        assert!(error.to_string().contains("b.yaml is there already"), "{error}");
        assert!(!folder.path().join("a.yaml").exists());
        assert_eq!(fs::read_to_string(folder.path().join("b.yaml")).unwrap(), "mine");
    }
}
