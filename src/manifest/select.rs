//! Which files of a source hold manifests.
//!
//! Every `*.yaml` and `*.yml` under one of the paths, except: what has a name below it that begins with a dot, the YAML
//! files that Flux excludes by default, what `.reconciledignore` files say (gitignore's syntax), and the `ignore` globs
//! of the configuration (the same syntax). A path itself may begin with a dot: whoever configures it means it.

use super::files::Files;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use reconciled_provider::{Problem, SourceFile, Span};
use std::sync::Arc;

/// What an error in such a file means.
const LEFT_ALONE: &str =
    "mend it: no manifest in its folder or below is read until then, and what they declared stays as it is";

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
    /// Files of which it cannot be told whether they are to be read, since what excludes files beside or above them is wrong.
    /// They are not: a file that was meant to be kept out could make or delete anything.
    pub(super) unsure: Vec<Arc<str>>,
    /// Paths that are not there.
    pub(super) missing: Vec<Arc<str>>,
}

/// Chooses among the files of a source. `paths` are relative to its root; `.` is all of it.
pub(super) fn choose(files: &dyn Files, paths: &[String], ignore: &[Arc<str>]) -> Choice {
    let mut choice = Choice::default();
    let mut entries = files.entries();
    entries.sort();
    let paths: Vec<&str> = paths.iter().map(|path| clean(path)).collect();
    let Matchers { all: matchers, wrong } = matchers(files, &entries, &paths, ignore, &mut choice.problems);
    let is_unsure = |path: &str| wrong.iter().any(|folder| is_under(path, folder));
    let excluded = |path: &str| is_ci(path) || is_ignored(path, &matchers);
    let is_seen = |path: &str, folder: &str| is_under(path, folder) && !is_hidden(&path[folder.len()..]);
    let layer = |path: &str| paths.iter().rposition(|folder| is_seen(path, folder));
    for (index, folder) in paths.iter().enumerate() {
        let is_empty = !entries.iter().any(|(path, _)| is_under(path, folder));
        if is_empty && !folder.is_empty() && !paths[..index].contains(folder) {
            let problem = Problem::error(format!("there is no folder `{folder}` in the repository"));
            choice.problems.push(problem.hint("correct `path` of the source in the host configuration"));
            choice.missing.push(Arc::from(*folder));
        }
    }
    for (path, oid) in &entries {
        if !is_yaml(path) || !paths.iter().any(|folder| is_under(path, folder)) {
            continue;
        }
        match layer(path).filter(|_| !excluded(path)) {
            Some(_) if is_unsure(path) => choice.unsure.push(path.clone()),
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

/// A path as Git writes it; empty for the root.
pub(super) fn clean(path: &str) -> &str {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    if path == "." { "" } else { path }
}

fn is_under(path: &str, folder: &str) -> bool {
    folder.is_empty() || crate::source::is_below(path, folder)
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

/// What excludes files.
struct Matchers {
    /// Each with the folder it counts for, the deepest last.
    all: Vec<(String, Gitignore)>,
    /// Folders of which not all of that is known.
    wrong: Vec<String>,
}

/// Reads what excludes files, as far as it counts for one of `paths`.
fn matchers(
    files: &dyn Files,
    entries: &[(Arc<str>, [u8; 20])],
    paths: &[&str],
    ignore: &[Arc<str>],
    problems: &mut Vec<Problem>,
) -> Matchers {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    let folder_of = |path: &str| {
        let folder = path.strip_suffix(IGNORE_FILE)?;
        let folder = (folder.is_empty() || folder.ends_with('/')).then(|| folder.trim_end_matches('/'))?;
        let counts = paths.iter().any(|path| is_under(path, folder) || is_under(folder, path));
        counts.then(|| folder.to_owned())
    };
    let mut configured = GitignoreBuilder::new("");
    for pattern in ignore {
        // The configuration has none that is wrong.
        let _ = configured.add_line(None, pattern);
    }
    all.extend(configured.build().ok().map(|matcher| (String::new(), matcher)));
    for (path, _) in entries {
        let Some(folder) = folder_of(path) else { continue };
        let text = match files.read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(problem) => {
                problems.push(*problem);
                wrong.push(folder);
                continue;
            }
        };
        let file = SourceFile::new(&**path, text);
        let mut builder = GitignoreBuilder::new(&folder);
        builder.allow_unclosed_class(false);
        let before = problems.len();
        for (line, pattern) in (1..).zip(file.text.lines()) {
            let wrong = match is_slashes(pattern) {
                // To Git it matches nothing, here it would everything.
                true => Some("it names nothing".to_owned()),
                false => builder.add_line(None, pattern).err().map(|error| error.to_string()),
            };
            if let Some(wrong) = wrong {
                let message = format!("`{pattern}` is no pattern as of a .gitignore: {wrong}");
                problems.push(Problem::error(message).at(&file, Span { line, column: 1 }).hint(LEFT_ALONE));
            }
        }
        if problems.len() > before {
            wrong.push(folder.clone());
        }
        all.extend(builder.build().ok().map(|matcher| (folder, matcher)));
    }
    for problem in files.refused() {
        let Some(place) = &problem.place else { continue };
        if let Some(folder) = folder_of(&place.file) {
            wrong.push(folder);
            problems.push(problem);
        }
    }
    all.sort_by_key(|(folder, _)| folder.len());
    Matchers { all, wrong }
}

/// True for a pattern of slashes alone.
fn is_slashes(pattern: &str) -> bool {
    let pattern = pattern.trim();
    let pattern = pattern.strip_prefix('!').unwrap_or(pattern);
    !pattern.is_empty() && pattern.bytes().all(|byte| byte == b'/')
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
    fn where_what_excludes_files_is_wrong_none_is_read() {
        let files = [
            ("a.yaml", ""),
            ("in/.reconciledignore", "*.md\n[z-a].yaml\n"),
            ("in/b.yaml", ""),
            ("in/c/d.yaml", ""),
        ];
        let choice = check(&files, &["."], &[], &["0:a.yaml"]);
        assert_eq!(choice.unsure, [Arc::from("in/b.yaml"), "in/c/d.yaml".into()]);
        let told = choice.problems[0].to_string();
        assert!(
            told.contains("`[z-a].yaml` is no pattern") && told.contains("in/.reconciledignore:2:1"),
            "{told}"
        );
        // What to Git is nothing would be everything here, and what is not closed something else.
        for pattern in ["/", "//", "/ ", "!/", "[a"] {
            let wrong = [("a.yaml", ""), ("in/.reconciledignore", pattern), ("in/b.yaml", "")];
            assert_eq!(check(&wrong, &["."], &[], &["0:a.yaml"]).unsure.len(), 1, "{pattern}");
        }
        // It counts for nothing that is read.
        let files = [files[1], ("out/a.yaml", "")];
        assert_eq!(check(&files, &["out"], &[], &["0:out/a.yaml"]).problems, []);
        // A link is read as little as any other.
        let mut linked = folder(&[("a.yaml", ""), ("in/b.yaml", "")]);
        linked.refused = vec![Problem::error("it is a link").in_file("in/.reconciledignore")];
        let choice = choose(&linked, &[".".into()], &[]);
        assert_eq!((choice.unsure, choice.problems.len()), (vec!["in/b.yaml".into()], 1));
    }

    #[test]
    fn a_path_that_is_not_there_is_a_problem() {
        let choice = check(&[("a.yaml", "")], &[".", "env/prd"], &[], &["0:a.yaml"]);
        assert!(choice.problems[0].message.contains("no folder `env/prd`"));
        assert_eq!(choice.missing, [Arc::from("env/prd")]);
    }
}
