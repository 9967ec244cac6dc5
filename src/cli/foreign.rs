//! `import --from`: manifests of what other programs declare. Reads files and needs no configuration.

use super::{
    Out,
    import::{self, ImportArgs},
};
use crate::{
    registry::{self, Foreign},
    session::Failure,
};
use reconciled_provider::{Problem, SourceFile};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The manifests of what the named files hold, by file name.
pub(super) fn files(
    import: &ImportArgs,
    from: Foreign,
    out: &mut Out,
) -> Result<BTreeMap<String, String>, Failure> {
    let path = Path::new(&import.provider);
    let zones = zones(path, from, import.scope.as_deref())?;
    let samples = registry::samples();
    let observer = samples.first().map(|(_, observer)| observer.as_ref());
    let observer = observer.ok_or_else(|| Failure::plain("this build has no provider of DNS"))?;
    let mut files = BTreeMap::new();
    for (zone, path) in zones {
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::plain(format!("read {}: {error}", path.display())))?;
        let file = SourceFile::new(path.display().to_string(), text);
        let (mut found, left_out) = registry::foreign(from, &zone, &file).map_err(|error| {
            let hint =
                format!("name the zone: reconciled import --from {} {} ZONE", word(from), path.display());
            Failure::hinted(format!("{}: {error}", path.display()), hint)
        })?;
        if left_out.iter().any(Problem::is_error) {
            let text: Vec<String> = left_out.iter().map(Problem::to_string).collect();
            return Err(Failure::plain(format!("{} cannot be read\n{}", path.display(), text.join("\n"))));
        }
        found.resources.retain(|resource| {
            observer.part(&found.scope, &resource.id).is_none_or(|part| import::is_meant(import, &part))
        });
        for problem in &left_out {
            out.talk(&problem.to_string());
        }
        let comments = comments(&left_out);
        for (index, (name, part)) in import::split(&found, import.split, observer).into_iter().enumerate() {
            let documents = registry::foreign_manifests(&part);
            let texts: Vec<String> =
                documents.iter().map(|document| String::from_utf8_lossy(document).into_owned()).collect();
            let mut text = texts.join("---\n");
            if index == 0 {
                text += &comments;
            }
            files.insert(import::free_name(&files, name), text);
        }
    }
    Ok(files)
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
        let line: String = problem.message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text += &format!("#   {place}{line}\n");
    }
    text
}

/// The zones and their files.
fn zones(path: &Path, from: Foreign, zone: Option<&str>) -> Result<Vec<(String, PathBuf)>, Failure> {
    let fail = |error: std::io::Error| Failure::plain(format!("read {}: {error}", path.display()));
    if !fs::metadata(path).map_err(fail)?.is_dir() {
        let zone = zone.map(str::to_owned).or_else(|| zone_of(path, from));
        return match zone {
            Some(zone) => Ok(vec![(zone, path.to_owned())]),
            None => Err(Failure::hinted(
                format!("{} does not say by its name which zone it holds", path.display()),
                format!("reconciled import --from {} {} ZONE", word(from), path.display()),
            )),
        };
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let Some(name) = zone_of(&path, from).filter(|_| path.is_file()) else { continue };
        if zone.is_none_or(|zone| zone.trim_end_matches('.') == name) {
            found.push((name, path));
        }
    }
    found.sort();
    if found.is_empty() {
        let names = match from {
            Foreign::Octodns => "ZONE.yaml",
            Foreign::Zonefile => "ZONE.zone, ZONE.db or db.ZONE",
        };
        let hint = format!("files are called {names}");
        return Err(Failure::hinted(format!("{} has no zones in it", path.display()), hint));
    }
    Ok(found)
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
