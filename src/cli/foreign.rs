//! `import --from`: manifests of what other programs declare. Reads files and needs no configuration.

use super::Out;
use crate::{
    failure::Failure,
    operation::{Chosen, ImportAsk, free_name, split, tell_owners},
    registry::{self, Foreign, Taken},
};
use reconciled_provider::{
    Found, Node, Observed, Problem, Scope, SourceFile,
    problem::one_line,
    yaml::{Limits, Parsed, parse_all},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What to do where a file cannot be read.
const PATH: &str = "check the path: it names a file that you may read, or a directory with such";

/// The manifests of what the file or folder that `ask` names holds, of one zone where it is `named`: by file name, and how
/// much of it is left out.
pub(super) fn files(
    ask: &ImportAsk,
    named: Option<&str>,
    from: Foreign,
    out: &mut Out,
) -> Result<(BTreeMap<String, String>, usize), Failure> {
    let path = Path::new(&ask.provider);
    let zones = zones(path, from, named)?;
    let samples = registry::samples();
    let observer = samples.first().map(|(_, observer)| observer.as_ref());
    let observer = observer.ok_or_else(|| Failure::plain("this build has no provider of DNS"))?;
    let (mut files, mut lost, mut chosen) = (BTreeMap::new(), 0, Chosen::default());
    for (zone, paths) in zones {
        let mut found = Found::new(Scope::new("", ""), Vec::new());
        let (mut left_out, mut has_outside) = (Vec::new(), false);
        for path in paths {
            let taken = read(&zone, &path, from)?;
            let part = taken.found;
            let is_new = |one: &Observed| found.resources.iter().all(|known: &Observed| known.id != one.id);
            let (new, again): (Vec<_>, Vec<_>) = part.resources.into_iter().partition(is_new);
            // The zone itself is in each of its files.
            if let Some(twice) = again.iter().find(|one| observer.part(&part.scope, &one.id).is_some()) {
                let text =
                    format!("{} declares {} as another file of the zone does", path.display(), twice.id);
                return Err(Failure::plain(text));
            }
            found.scope = part.scope;
            found.resources.extend(new);
            left_out.extend(taken.left_out);
            has_outside |= taken.has_outside;
        }
        let is_empty = found.resources.iter().all(|one| observer.part(&found.scope, &one.id).is_none());
        // A name of a file is a guess.
        if is_empty && has_outside && path.is_file() && named.is_none() {
            let text = format!("{} has nothing of zone `{zone}`, as which it is named", path.display());
            let hint =
                format!("name the zone: reconciled import --from {} {} ZONE", word(from), path.display());
            return Err(Failure::hinted(text, hint));
        }
        ask.choose(observer, &mut found, &mut chosen);
        let mut owners = Vec::new();
        tell_owners(&found, &mut owners);
        owners.iter().for_each(|told| out.talk(told));
        let undeclarable = observer.undeclarable(&found);
        undeclarable.iter().for_each(|what| out.talk(&format!("left out: {what}")));
        lost += left_out.len() + undeclarable.len();
        for problem in &left_out {
            out.talk(&problem.to_string());
        }
        let comments = comments(&left_out);
        for (index, (name, part)) in split(&found, ask.by_name, observer).into_iter().enumerate() {
            let documents = registry::foreign_manifests(&part);
            let texts: Vec<String> =
                documents.iter().map(|document| String::from_utf8_lossy(document).into_owned()).collect();
            let mut text = texts.join("---\n");
            if index == 0 {
                text += &comments;
            }
            files.insert(free_name(&files, name), text);
        }
    }
    chosen.warning().iter().for_each(|warning| out.talk(warning));
    Ok((files, lost))
}

/// What one file holds of `zone`, and what of it is left out.
fn read(zone: &str, path: &Path, from: Foreign) -> Result<Taken, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::hinted(format!("read {}: {error}", path.display()), PATH))?;
    let file = SourceFile::new(path.display().to_string(), text);
    let taken = registry::foreign(from, zone, &file).map_err(|error| {
        let hint = format!("name the zone: reconciled import --from {} {} ZONE", word(from), path.display());
        Failure::hinted(format!("{}: {error}", path.display()), hint)
    })?;
    if taken.left_out.iter().any(Problem::is_error) {
        let text: Vec<String> = taken.left_out.iter().map(Problem::to_string).collect();
        return Err(Failure::plain(format!("{} cannot be read\n{}", path.display(), text.join("\n"))));
    }
    Ok(taken)
}

fn word(from: Foreign) -> &'static str {
    match from {
        Foreign::Octodns => "octodns",
        Foreign::Zonefile => "zonefile",
    }
}

/// What is left out, so that it stands where the zone is looked after from now on.
fn comments(left_out: &[Problem]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    let mut text = String::from("# Not taken over:\n");
    for problem in left_out {
        let place = problem.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let line = one_line(&problem.message, usize::MAX);
        text += &format!("#   {place}{line}\n");
    }
    text
}

/// The zones and their files.
fn zones(path: &Path, from: Foreign, zone: Option<&str>) -> Result<Vec<(String, Vec<PathBuf>)>, Failure> {
    let fail = |error: std::io::Error| Failure::hinted(format!("read {}: {error}", path.display()), PATH);
    if !fs::metadata(path).map_err(fail)?.is_dir() {
        let zone = zone.map(str::to_owned).or_else(|| zone_of(path, from));
        return match zone {
            Some(zone) => Ok(vec![(zone, vec![path.to_owned()])]),
            None => Err(Failure::hinted(
                format!("{} does not say by its name which zone it holds", path.display()),
                format!("reconciled import --from {} {} ZONE", word(from), path.display()),
            )),
        };
    }
    let zone = zone.map(|zone| zone.trim_end_matches('.'));
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in entries(path)? {
        let name = match path.is_dir() {
            true => split_zone(&path, from, zone),
            false => zone_of(&path, from).filter(|_| !is_configuration(&path, from)),
        };
        let Some(name) = name.filter(|name| zone.is_none_or(|zone| zone == name)) else { continue };
        let files = found.entry(name).or_default();
        match path.is_dir() {
            true => files.extend(entries(&path)?.into_iter().filter(|path| zone_of(path, from).is_some())),
            false => files.push(path),
        }
    }
    found.retain(|_, files| !files.is_empty());
    if found.is_empty() {
        let names = match from {
            Foreign::Octodns => "ZONE.yaml",
            Foreign::Zonefile => "ZONE.zone, ZONE.db or db.ZONE",
        };
        let hint = format!("files are called {names}");
        return Err(Failure::hinted(format!("{} has no zones in it", path.display()), hint));
    }
    Ok(found.into_iter().collect())
}

/// What is in a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: std::io::Error| Failure::plain(format!("read {}: {error}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        found.push(entry.map_err(fail)?.path());
    }
    found.sort();
    Ok(found)
}

/// The zone of which a folder has a file for each name: octoDNS's `split_extension`, which is behind the zone in the name
/// of the folder. One that is more than a dot cannot be told from the zone, unless that is named.
fn split_zone(folder: &Path, from: Foreign, zone: Option<&str>) -> Option<String> {
    let name = folder.file_name()?.to_str().filter(|_| from == Foreign::Octodns)?;
    let is_of = |zone: &&str| name.strip_prefix(*zone).is_some_and(|rest| rest.starts_with('.'));
    let zone = zone.filter(is_of).or_else(|| name.strip_suffix('.'))?;
    (!zone.is_empty()).then(|| zone.to_owned())
}

/// True for the file that tells octoDNS itself what to do, which often is in the folder of the zones. No zone has names with such
/// values: a record is a mapping that says its `type`, or a list of them.
fn is_configuration(path: &Path, from: Foreign) -> bool {
    let Some(text) = fs::read_to_string(path).ok().filter(|_| from == Foreign::Octodns) else { return false };
    let file = SourceFile::new(path.display().to_string(), text);
    // It may have tags, such as `!include`.
    let (documents, _) = parse_all(&file, Limits::default());
    let is_section = |key| {
        move |root: &Node| {
            root.get(key).is_some_and(|value| !value.entries().is_empty() && value.get("type").is_none())
        }
    };
    documents.iter().any(|Parsed { node, .. }| is_section("providers")(node) && is_section("zones")(node))
}

/// The zone that a file is named after.
fn zone_of(path: &Path, from: Foreign) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let zone = match from {
        Foreign::Octodns => name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml")),
        Foreign::Zonefile => {
            let suffixed = name.strip_suffix(".zone").or_else(|| name.strip_suffix(".db"));
            suffixed.or_else(|| name.strip_prefix("db."))
        }
    };
    let zone = zone?.trim_end_matches('.');
    (!zone.is_empty()).then(|| zone.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_octodns_has_a_file_for_each_name_of_a_zone() {
        let folder = tempfile::tempdir().unwrap();
        let write_text = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let write = |name: &str| write_text(name, "");
        write_text(
            "production.yaml",
            "manager: !include manager.yaml\nproviders: {config: {class: x}}\nzones: {example.com.: {sources: [config]}}\n",
        );
        for name in [
            "example.com./www.yaml",
            "example.com./$example.com.yaml",
            "example.net.yaml",
            "example.org.tst/a.yaml",
        ] {
            write(name);
        }
        let found = |zone| {
            let found = zones(folder.path(), Foreign::Octodns, zone);
            let found = found.map_err(|failure| failure.to_string()).unwrap();
            found.into_iter().map(|(zone, files)| (zone, files.len())).collect::<Vec<_>>()
        };
        assert_eq!(found(None), [("example.com".to_owned(), 2), ("example.net".to_owned(), 1)]);
        assert_eq!(found(Some("example.org.")), [("example.org".to_owned(), 1)]);
        assert!(zones(folder.path(), Foreign::Zonefile, None).is_err());
    }

    #[test]
    fn files_are_named_after_their_zones() {
        let check = |name: &str, from, expect: Option<&str>| {
            assert_eq!(zone_of(Path::new(name), from).as_deref(), expect, "{name}");
        };
        check("zones/example.com.yaml", Foreign::Octodns, Some("example.com"));
        check("example.com..yaml", Foreign::Octodns, Some("example.com"));
        check("readme.md", Foreign::Octodns, None);
        check("example.com.zone", Foreign::Zonefile, Some("example.com"));
        check("db.example.com", Foreign::Zonefile, Some("example.com"));
        check("2.0.192.in-addr.arpa.db", Foreign::Zonefile, Some("2.0.192.in-addr.arpa"));
        check("named.conf", Foreign::Zonefile, None);
    }
}
