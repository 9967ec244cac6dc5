//! Keys whose feature this version does not have yet.
//!
//! Their shape is checked, so that a file written for a later version is checked here too, and each gives one
//! warning, so that nobody believes in an effect that is not there.

use reconciled_provider::{Node, Problem, SourceFile};
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// Accepts anything and keeps nothing: the value is looked at elsewhere, or has no fixed shape.
pub(super) type Elsewhere = Option<IgnoredAny>;

type Check = fn(&Node, &SourceFile) -> Vec<Problem>;

/// Keys of the whole file.
const OF_CONFIG: &[(&str, Check)] = &[("commands", commands)];

/// What an argument of a command may leave open.
const BLANKS: &[&str] = &["file"];

/// Each command is an argv, never a line for a shell.
fn commands(node: &Node, file: &SourceFile) -> Vec<Problem> {
    let (table, mut problems) = node.decode::<BTreeMap<String, Vec<String>>>(file);
    for (name, argv) in table.iter().flatten() {
        let span = node.entry(name).map_or(node.span, |(_, value)| value.span);
        let mut error = |message: String, hint: &str| {
            problems.push(Problem::error(message).at(file, span).hint(hint));
        };
        let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
            error(
                format!("command `{name}` names no program"),
                "write NAME: [program, argument, \"{file}\"]",
            );
            continue;
        };
        if program.contains(char::is_whitespace) || program.contains('{') {
            let hint = "each argument is an element of the list: no shell splits or fills in the first one";
            error(format!("command `{name}` begins with `{program}`, which is no program"), hint);
        }
        for argument in &argv[1..] {
            let blank = argument.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
            if let Some((blank, _)) = blank.filter(|(blank, _)| !BLANKS.contains(blank)) {
                error(format!("command `{name}` has `{{{blank}}}`, which nothing fills in"), "write {file}");
            }
        }
    }
    problems
}

fn look(node: &Node, keys: &[(&str, Check)], file: &SourceFile, problems: &mut Vec<Problem>) {
    for (word, check) in keys {
        let Some((key, value)) = node.entry(word) else { continue };
        problems.extend(check(value, file));
        problems.push(has_no_effect(word).at(file, key.span));
    }
}

/// The warning for a key that does nothing.
pub(super) fn has_no_effect(key: &str) -> Problem {
    Problem::warning(format!("`{key}` is not supported by this version and has no effect"))
}

/// Checks the keys of the whole file.
pub(super) fn in_config(root: &Node, file: &SourceFile, problems: &mut Vec<Problem>) {
    look(root, OF_CONFIG, file, problems);
}
