//! Every block of YAML in the documentation that is marked as configuration or manifest is read as such.

use super::{Ask, Session};
use crate::{
    config::{self, Environment},
    registry,
};
use reconciled_provider::{Problem, SourceFile};
use std::{fs, path::Path};

/// The blocks with this info string, each with where it stands.
fn blocks(info: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md")];
    files.extend(fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let (text, mut open) = (fs::read_to_string(&path).unwrap(), None);
        for (number, line) in text.lines().enumerate() {
            open = match (open, line.strip_prefix("```")) {
                (None, Some(word)) => Some((word.trim() == info, number + 1, String::new())),
                (Some((wanted, start, block)), Some(_)) => {
                    if wanted {
                        found.push((format!("{}:{start}", path.display()), block));
                    }
                    None
                }
                (Some((wanted, start, block)), None) => Some((wanted, start, format!("{block}{line}\n"))),
                (None, None) => None,
            };
        }
        assert!(open.is_none(), "{} ends inside a block", path.display());
    }
    assert!(!found.is_empty(), "no block is marked `{info}`");
    found
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn every_configuration_in_the_documentation_is_valid() {
    for (place, text) in blocks("yaml config") {
        let file = SourceFile::new(place.clone(), text);
        let (config, problems) = config::parse(file.into(), &Environment::of([]));
        assert!(problems.is_empty(), "{place}\n{}", shown(&problems));
        let config = config.unwrap();
        for entry in &config.providers {
            let built = registry::build(entry, &config);
            assert!(built.is_ok(), "{place}\n{}", shown(&built.err().unwrap_or_default()));
        }
    }
}

#[tokio::test]
async fn every_manifest_in_the_documentation_is_valid() {
    for (place, text) in blocks("yaml manifest") {
        let scratch = tempfile::tempdir().unwrap();
        let (file, folder) = (scratch.path().join("config.yaml"), scratch.path().join("manifests"));
        let root = scratch.path().display();
        let config = format!(
            "stateDir: {root}/state\nproviders:\n  - {{name: zones, type: zonefile, directory: {root}/zones}}\n  \
             - {{name: host, type: host, root: {root}, bus: system, paths: [/etc, /srv]}}\n  \
             - {{name: cert, type: certificates, paths: [/etc/ssl]}}\ncommands: {{nginx: [nginx, -t, -c, \"{{file}}\"]}}\n"
        );
        fs::write(&file, config).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("block.yaml"), text).unwrap();
        let session = Session::open(Some(&file), Environment::of([])).await.unwrap();
        let store = session.reader().await.unwrap();
        let outlook = session
            .outlook(&Ask { folder: Some(crate::session::Folder::At(folder)), ..Ask::default() }, &store)
            .await
            .unwrap();
        // A page of certificates leaves the zone, and who serves it, to those of zones.
        let is_elsewhere = |problem: &Problem| {
            let message = &problem.message;
            message.starts_with("no zone of provider") || message.starts_with("provider `pdns` of a solver")
        };
        let problems: Vec<Problem> =
            outlook.problems().into_iter().filter(|one| !is_elsewhere(one)).collect();
        assert!(problems.is_empty(), "{place}\n{}", shown(&problems));
        assert!(!outlook.desired.manifests.is_empty(), "{place} declares nothing");
    }
}
