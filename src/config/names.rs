//! Names of sources, entries and others: what can be one, and who else has it or had it.

use reconciled_provider::{Place, Problem, SourceFile, Span, problem::did_you_mean};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the source that a folder without a name is: what it tracked must be nobody else's.
pub const FOLDER: &str = "dir";

/// Names of sources and entries stand in scopes, identities and file names.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Says which of `names` are none, are reserved, or are somebody else's too.
pub(super) fn check_names<'a>(
    what: &str,
    names: impl Iterator<Item = (&'a str, Span)>,
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) {
    let mut seen = BTreeMap::new();
    for (name, span) in names {
        if !is_name(name) {
            let problem = Problem::error(format!("`{name}` is not a name for a {what}"));
            problems.push(problem.at(file, span).hint("use small letters, digits and `-`, at most 63"));
        } else if what == "source" && name == FOLDER {
            let problem = Problem::error(format!("`{name}` is reserved for a source"));
            let hint = "it is what a folder without a source is called (`--dir`); choose another name";
            problems.push(problem.at(file, span).hint(hint));
        }
        if let Some(first) = seen.insert(name, span) {
            problems.push(Problem::error(format!("two {what}s are named `{name}`")).at(file, span).related(
                Place { file: file.path.clone(), line: first.line, column: first.column },
                "first named here",
            ));
        }
    }
}

/// What was known under a former name goes to the new one: nobody else may have either.
pub(super) fn check_former(
    what: &str,
    all: &[(&str, Option<&str>, Span)],
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) {
    let mut seen = BTreeSet::new();
    for (name, was, span) in all {
        let Some(was) = was else { continue };
        let (message, hint) = if !is_name(was) || what == "source" && *was == FOLDER {
            (format!("`{was}` is not a name a {what} can have had"), "write the name it had before")
        } else if all.iter().any(|(other, ..)| other == was) {
            let message = format!("{what} `{name}` was `{was}`, and a {what} of that name is configured");
            (message, "take out `was`, or the other of the two")
        } else if !seen.insert(*was) {
            (format!("two {what}s say that they were `{was}`"), "leave `was` to the one that goes on with it")
        } else {
            continue;
        };
        problems.push(Problem::error(message).at(file, *span).hint(hint));
    }
}

/// What is said where a name is used that nobody has.
pub(super) fn unknown_name(what: &str, name: &str, known: &[&str]) -> Problem {
    let problem = Problem::error(format!("there is no {what} `{name}`"));
    match did_you_mean(name, known.iter().copied()) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem.hint(format!("known: {}", known.join(", "))),
    }
}
