//! Which files of a source hold manifests.
//!
//! Every `*.yaml` and `*.yml` under one of the paths, except: what has a name below it that begins with a dot, the YAML
//! files that Flux excludes by default, what `.reconciledignore` files say (gitignore's syntax), and the `ignore` globs
//! of the configuration (the same syntax). A path itself may begin with a dot: whoever configures it means it.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use reconciled_provider::Problem;
use std::sync::Arc;

/// Name of the files that exclude files, in any folder.
const IGNORE_FILE: &str = ".reconciledignore";

/// Files of CI systems without a leading dot; Flux excludes them by default.
const CI_FILES: [&str; 4] =
    ["appveyor.yml", "cloudbuild.yaml", "codeship-services.yml", "codeship-steps.yml"];

/// A file chosen, and under which of the paths it lies: the last one that holds it and below which it is not hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) path: Arc<str>,
    pub(super) oid: [u8; 20],
    pub(super) layer: usize,
}

/// What choosing came to.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) files: Vec<Chosen>,
    pub(super) excluded: usize,
    pub(super) problems: Vec<Problem>,
    /// Refused entries that may have held manifests.
    pub(super) broken: Vec<Problem>,
}

/// Chooses among the files of a source. `paths` are relative to its root; `.` is all of it.
pub(super) fn choose(files: &dyn super::Files, paths: &[String], ignore: &[Arc<str>]) -> Choice {
    let mut choice = Choice::default();
    let mut entries = files.entries();
    entries.sort();
    let paths: Vec<&str> = paths.iter().map(|path| clean(path)).collect();
    let matchers = matchers(files, &entries, ignore, &mut choice.problems);
    let excluded = |path: &str| is_ci(path) || is_ignored(path, &matchers);
    let is_seen = |path: &str, folder: &str| is_under(path, folder) && !is_hidden(&path[folder.len()..]);
    let layer = |path: &str| paths.iter().rposition(|folder| is_seen(path, folder));
    for (index, folder) in paths.iter().enumerate() {
        let is_empty = !entries.iter().any(|(path, _)| is_under(path, folder));
        if is_empty && !folder.is_empty() && !paths[..index].contains(folder) {
            let problem = Problem::error(format!("there is no folder `{folder}` in the repository"));
            choice.problems.push(problem.hint("correct `path` of the source in the host configuration"));
        }
    }
    for (path, oid) in &entries {
        if !is_yaml(path) || !paths.iter().any(|folder| is_under(path, folder)) {
            continue;
        }
        match layer(path).filter(|_| !excluded(path)) {
            Some(layer) => choice.files.push(Chosen { path: path.clone(), oid: *oid, layer }),
            None => choice.excluded += 1,
        }
    }
    for problem in files.refused() {
        let Some(place) = &problem.place else { continue };
        let path = place.file.clone();
        // A link or submodule without an extension may stand for a folder of manifests.
        let name = path.rsplit('/').next().unwrap_or("");
        if layer(&path).is_some() && (is_yaml(&path) || !name.contains('.')) && !excluded(&path) {
            choice.broken.push(problem);
        }
    }
    choice
}

fn clean(path: &str) -> &str {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    if path == "." { "" } else { path }
}

fn is_under(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/') || rest.is_empty())
}

fn is_yaml(path: &str) -> bool {
    path.ends_with(".yaml") || path.ends_with(".yml") || path == crate::source::STDIN
}

/// True where `below`, the part of a path below a folder, has a name that begins with a dot.
fn is_hidden(below: &str) -> bool {
    below.split('/').any(|part| part.starts_with('.'))
}

fn is_ci(path: &str) -> bool {
    CI_FILES.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// Matchers with the folder they count for, the deepest last.
fn matchers(
    files: &dyn super::Files,
    entries: &[(Arc<str>, [u8; 20])],
    ignore: &[Arc<str>],
    problems: &mut Vec<Problem>,
) -> Vec<(String, Gitignore)> {
    let mut all = Vec::new();
    let mut configured = GitignoreBuilder::new("");
    for pattern in ignore {
        // The configuration has none that is wrong.
        let _ = configured.add_line(None, pattern);
    }
    all.extend(configured.build().ok().map(|matcher| (String::new(), matcher)));
    for (path, _) in entries {
        let Some(folder) = path.strip_suffix(IGNORE_FILE) else { continue };
        let folder = folder.trim_end_matches('/');
        let text = match files.read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(problem) => {
                problems.push(*problem);
                continue;
            }
        };
        let mut builder = GitignoreBuilder::new(folder);
        for (number, line) in text.lines().enumerate() {
            if let Err(error) = builder.add_line(None, line) {
                let message = format!("line {} is not a pattern: {error}", number + 1);
                problems.push(Problem::error(message).in_file(path));
            }
        }
        all.extend(builder.build().ok().map(|matcher| (folder.to_string(), matcher)));
    }
    all.sort_by_key(|(folder, _)| folder.len());
    all
}

/// The last matcher that has an opinion decides, as in gitignore.
fn is_ignored(path: &str, matchers: &[(String, Gitignore)]) -> bool {
    let verdict = matchers
        .iter()
        .filter(|(folder, matcher)| !matcher.is_empty() && is_under(path, folder))
        .map(|(_, matcher)| matcher.matched_path_or_any_parents(path, false))
        .rfind(|verdict| !verdict.is_none());
    verdict.is_some_and(|verdict| verdict.is_ignore())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::testing::folder;

    fn check(files: &[(&str, &str)], paths: &[&str], ignore: &[&str], expect: &[&str]) -> Choice {
        let paths: Vec<String> = paths.iter().map(|p| p.to_string()).collect();
        let ignore: Vec<Arc<str>> = ignore.iter().map(|i| Arc::from(*i)).collect();
        let choice = choose(&folder(files), &paths, &ignore);
        let chosen: Vec<String> =
            choice.files.iter().map(|file| format!("{}:{}", file.layer, file.path)).collect();
        assert_eq!(chosen, expect);
        choice
    }

    #[test]
    fn dot_names_ci_files_and_ignored_files_are_skipped_and_counted() {
        let files = [
            (".git/a.yaml", ""),
            (".sops.yaml", ""),
            ("a.yaml", ""),
            ("appveyor.yml", ""),
            ("compose.dev.yaml", ""),
            ("deep/.reconciledignore", "*.tmp.yaml\n!keep.tmp.yaml\n/top.yaml\n"),
            ("deep/b.yml", ""),
            ("deep/keep.tmp.yaml", ""),
            ("deep/x.tmp.yaml", ""),
            ("deep/top.yaml", ""),
            ("deep/er/top.yaml", ""),
            ("readme.md", ""),
        ];
        let expect = ["0:a.yaml", "0:deep/b.yml", "0:deep/er/top.yaml", "0:deep/keep.tmp.yaml"];
        assert_eq!(check(&files, &["."], &["compose*.yaml"], &expect).excluded, 6);
    }

    #[test]
    fn a_file_belongs_to_the_last_path_that_holds_it() {
        let files = [("common/a.yaml", ""), ("env/prod/a.yaml", ""), ("envy/a.yaml", "")];
        check(&files, &["common", "./env/prod/"], &[], &["0:common/a.yaml", "1:env/prod/a.yaml"]);
    }

    #[test]
    fn a_path_may_begin_with_a_dot_and_nothing_below_it() {
        let files = [
            (".deploy/.cache/x.yaml", ""),
            (".deploy/.x.yaml", ""),
            (".deploy/a.yaml", ""),
            (".deploy/env/b.yaml", ""),
            ("c.yaml", ""),
        ];
        let expect = ["0:.deploy/a.yaml", "0:.deploy/env/b.yaml"];
        assert_eq!(check(&files, &[".deploy"], &[], &expect).excluded, 2);
        check(&files, &["./.deploy/env/"], &[], &["0:.deploy/env/b.yaml"]);
        assert_eq!(check(&files, &["."], &[], &["0:c.yaml"]).excluded, 4);
        let both = ["0:.deploy/a.yaml", "0:.deploy/env/b.yaml", "1:c.yaml"];
        assert_eq!(check(&files, &[".deploy", "."], &[], &both).excluded, 2);
        let mut linked = folder(&files);
        linked.refused = vec![Problem::error("it is a link").in_file(".deploy/linked.yaml")];
        assert_eq!(choose(&linked, &[".deploy".into()], &[]).broken.len(), 1);
        assert_eq!(choose(&linked, &[".".into()], &[]).broken.len(), 0);
    }

    #[test]
    fn a_path_that_is_not_there_is_a_problem() {
        let choice = check(&[("a.yaml", "")], &[".", "env/prd"], &[], &["0:a.yaml"]);
        assert!(choice.problems[0].message.contains("no folder `env/prd`"));
    }
}
