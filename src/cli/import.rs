//! `import`: manifests of what a provider holds already. Reads the remote; writes files only.

use super::{
    Args, Exit, Out,
    plan::{tell_problems, tell_warnings},
};
use crate::{
    config::Environment,
    registry::Foreign,
    render::counted,
    session::{Ask, Failure, Session},
};
use clap::{Args as ClapArgs, ValueEnum};
use reconciled_provider::{
    Address, Found, Observed, Observer, Owner, Resource, ResourceId, address::glob, problem::did_you_mean,
};
use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Arguments of `import`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ImportArgs {
    /// A provider entry of the configuration; or a state file of Terraform; with --from a file or folder
    #[arg(value_name = "PROVIDER|FILE")]
    pub(super) provider: String,
    /// What of it: a zone; `*` and `?` are wild. With --from it may be left out where files are named after their zones
    #[arg(value_name = "SCOPE")]
    pub(super) scope: Option<String>,
    /// The id of one resource of a Terraform provider, where SCOPE is its type or kind
    #[arg(value_name = "ID", requires = "scope", conflicts_with_all = ["from", "drifted"])]
    pub(super) id: Option<String>,
    /// Write secrets of a state file that have to be declared into files of this folder, each of its own
    #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "drifted", "scope"])]
    pub(super) secrets: Option<PathBuf>,
    /// Read files of another program instead of a provider
    #[arg(long, value_enum, value_name = "PROGRAM", conflicts_with = "drifted")]
    pub(super) from: Option<Foreign>,
    /// Write files into this folder; existing files are never overwritten
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Only what this means: a name (`www`, `*.dev`) or a name and type (`www/A`)
    #[arg(long, value_name = "GLOB")]
    pub(super) only: Vec<String>,
    /// All but what this means
    #[arg(long, value_name = "GLOB")]
    pub(super) ignore: Vec<String>,
    /// How much goes into one file
    #[arg(long, value_enum, default_value_t)]
    pub(super) split: Split,
    /// Only what is declared and differs from it: to be committed instead of healed
    #[arg(long, conflicts_with = "split")]
    pub(super) drifted: bool,
}

/// How much goes into one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Split {
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
    if super::take_over::is_meant(import) {
        return super::take_over::run(args, import, environment, out).await;
    }
    if import.scope.is_none() && import.from.is_none() {
        return Err(Failure::hinted(
            format!("what of `{}` is meant is not said", import.provider),
            "write a zone, `*`, or the type and the id of a resource: reconciled import PROVIDER SCOPE [ID]",
        ));
    }
    let files = match import.from {
        Some(from) => super::foreign::files(import, from, out)?,
        None => {
            let session = Session::open(args.config.as_deref(), environment).await?;
            tell_warnings(&session, out);
            files(&session, import, out).await?
        }
    };
    if import.drifted && files.is_empty() {
        return Ok(Exit::Good);
    }
    match &import.out {
        Some(dir) => {
            write(dir, &files)?;
            let dir = dir.display();
            out.talk(&format!("{} written to {dir}", counted(files.len(), "file")));
            if !import.drifted {
                out.talk(&format!(
                    "next: look at it with `reconciled plan --dir {dir}`, where all of it reads `= adopt`;"
                ));
                out.talk("      then commit the files to the source and run `reconciled apply`");
            }
        }
        None if import.drifted => out.data(&files.into_values().collect::<Vec<_>>().join("---\n")),
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
    let scope = import.scope.as_deref().unwrap_or("*");
    let query = scope.strip_prefix(&prefix).unwrap_or(scope);
    let query = match &import.id {
        Some(id) => format!("{query} {id}"),
        None => query.to_string(),
    };
    let mut found = observer.discover(&session.surveyor.cx, &query).await?;
    if found.is_empty() {
        return Err(Failure::hinted(
            format!("`{}` has nothing that `{query}` means", import.provider),
            format!("to see everything: reconciled import {} '*'", import.provider),
        ));
    }
    for found in &mut found {
        found.resources.retain(|resource| {
            observer.part(&found.scope, &resource.id).is_none_or(|part| is_meant(import, &part))
        });
    }
    if import.drifted {
        let missing = keep_drifted(session, import, observer, &mut found, out).await?;
        if found.is_empty() && missing == 0 {
            out.talk("nothing that is declared differs there");
        }
    }
    let mut files = BTreeMap::new();
    for found in &found {
        tell_owners(found, out);
        for (name, part) in split(found, import.split, observer) {
            let documents = observer.export(&part)?;
            let texts: Vec<String> =
                documents.iter().map(|document| String::from_utf8_lossy(document).into_owned()).collect();
            files.insert(free_name(&files, name), texts.join("---\n"));
        }
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

/// Keeps what is declared and differs, and says where each is declared. Returns how much is declared and not there.
async fn keep_drifted(
    session: &Session,
    import: &ImportArgs,
    observer: &dyn Observer,
    found: &mut Vec<Found>,
    out: &mut Out,
) -> Result<usize, Failure> {
    let reader = session.reader().await?;
    let outlook = session.outlook(&Ask::default(), &reader).await?;
    tell_problems(&outlook, out);
    let desired = &outlook.desired;
    let (mut differ, mut missing) = (0, 0);
    for found in found.iter_mut() {
        let (scope, declared) = (&found.scope, desired.in_scope(&found.scope));
        let place = |resource: &Resource| {
            let manifest = desired.manifest(resource.origin);
            let address = Address { part: observer.part(scope, &resource.id), ..manifest.address.clone() };
            format!("{address}, declared in {},", desired.place(resource))
        };
        let is_known = |id: &ResourceId| found.resources.iter().any(|observed| observed.id == *id);
        let is_asked = |id: &ResourceId| observer.part(scope, id).is_some_and(|part| is_meant(import, &part));
        for gone in declared.iter().filter(|resource| is_asked(&resource.id) && !is_known(&resource.id)) {
            missing += 1;
            out.talk(&format!("{} is not there: to accept that, remove its declaration", place(gone)));
        }
        let before = differ;
        found.resources.retain(|observed| {
            if observer.part(scope, &observed.id).is_none() {
                return true;
            }
            let at = declared.binary_search_by(|resource| resource.id.cmp(&observed.id));
            let Some(resource) = at.ok().map(|at| &declared[at]) else { return false };
            // Of shared values, those of others are no difference.
            let is_shared = desired.policies.get(resource.policy).merge;
            let Some(delta) = observer.compare(resource, observed).filter(|_| !is_shared) else {
                return false;
            };
            let fields: Vec<&str> = delta.fields.iter().map(|field| &*field.path).collect();
            out.talk(&format!("{} differs in {}", place(resource), fields.join(", ")));
            differ += 1;
            true
        });
        if before == differ {
            found.resources.clear();
        }
    }
    found.retain(|found| !found.resources.is_empty());
    if differ > 0 {
        out.talk("next: put these records in place of the declared ones and commit, instead of `reconciled apply`;");
        out.talk("      one without a ttl has that of its manifest");
    }
    Ok(missing)
}

/// What goes into each file.
pub(super) fn split(found: &Found, split: Split, observer: &dyn Observer) -> Vec<(String, Found)> {
    let whole = file_name(&found.scope.name);
    if split == Split::ByScope {
        return vec![(format!("{whole}.yaml"), found.clone())];
    }
    // What belongs to the scope itself comes first: the others contribute to it.
    let mut names: BTreeMap<Option<String>, Vec<Observed>> = BTreeMap::new();
    for resource in &found.resources {
        let part = observer.part(&found.scope, &resource.id);
        let name = part.map(|part| part.rsplit_once('/').map_or(&*part, |(name, _)| name).to_string());
        names.entry(name.filter(|name| name != "@")).or_default().push(resource.clone());
    }
    let file = |(name, resources): (Option<String>, _)| {
        let file = name.as_deref().map_or_else(|| whole.clone(), file_name);
        (format!("{whole}/{file}.yaml"), Found { scope: found.scope.clone(), resources })
    };
    names.into_iter().map(file).collect()
}

/// `name`, or the next that no file has: what a file name cannot hold may make two names one.
pub(super) fn free_name(files: &BTreeMap<String, String>, name: String) -> String {
    let stem = name.trim_end_matches(".yaml");
    let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{stem}-{number}.yaml")));
    names.find(|name| !files.contains_key(name)).unwrap_or(name)
}

/// True when `part` (`www/A`) is to be imported.
pub(super) fn is_meant(import: &ImportArgs, part: &str) -> bool {
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

/// Names may hold what a file name cannot.
pub(super) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let name: String = name.chars().map(safe).collect();
    // A leading dot would hide the file from the loader.
    name.trim_start_matches('.').to_string()
}

/// Writes all files, or none when one of them is there already.
pub(super) fn write(dir: &Path, files: &BTreeMap<String, String>) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|e| Failure::plain(format!("create {}: {e}", dir.display())))?;
    if let Some(path) = files.keys().map(|name| dir.join(name)).find(|path| path.exists()) {
        return Err(Failure::hinted(
            format!("{} is there already; nothing was written", path.display()),
            "name another folder, or move the file away",
        ));
    }
    for (name, text) in files {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .map_err(|e| Failure::plain(format!("create {}: {e}", parent.display())))?;
        }
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
            scope: Some("*".into()),
            id: None,
            secrets: None,
            from: None,
            out: None,
            only: texts(only),
            ignore: texts(ignore),
            split: Split::ByScope,
            drifted: false,
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
        assert_eq!(file_name("0/25.2.0.192.in-addr.arpa"), "0_25.2.0.192.in-addr.arpa");
        assert_eq!(file_name("../../etc/passwd"), "_.._etc_passwd");
        let taken = ["a/_.yaml", "a/_-2.yaml"].map(|name| (name.to_string(), String::new())).into();
        assert_eq!(free_name(&taken, "a/_.yaml".into()), "a/_-3.yaml");
        assert_eq!(free_name(&taken, "a/b.yaml".into()), "a/b.yaml");
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
