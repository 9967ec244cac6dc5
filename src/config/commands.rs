//! `commands`: what a manifest may have run, by name. Each is an argument list, never a line for a shell.

use reconciled_provider::{Node, Problem, SourceFile};
use std::{collections::BTreeMap, sync::Arc};

/// Argument lists by name; `{file}` in an argument is filled in.
pub type Commands = BTreeMap<Arc<str>, Vec<String>>;

/// What an argument may leave open: the new file of a `validate`, or whose health is asked for.
const BLANKS: &[&str] = &["file", "unit", "instance"];
/// What may be written instead of something else.
const HINT: &str =
    "write {file}; in a command that asks for the health of a deployment, {unit} or {instance}";

/// Reads the table, which may be left out.
pub(super) fn read(root: &Node, file: &SourceFile, problems: &mut Vec<Problem>) -> Commands {
    let Some(node) = root.get("commands").filter(|node| !node.is_null()) else { return Commands::new() };
    let (table, found) = node.decode::<BTreeMap<String, Vec<String>>>(file);
    problems.extend(found);
    let table = table.unwrap_or_default();
    for (name, argv) in &table {
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
            if argument.contains("{file}") && argument.contains(char::is_whitespace) {
                let hint = "a path in a line for a shell would be run: write [sh, -c, 'nginx -t -c \"$1\"', check, \"{file}\"]";
                error(
                    format!("command `{name}` fills `{{file}}` into `{argument}`, which is a line of words"),
                    hint,
                );
            }
            let blank = argument.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
            if let Some((blank, _)) = blank.filter(|(blank, _)| !BLANKS.contains(blank)) {
                error(format!("command `{name}` has `{{{blank}}}`, which nothing fills in"), HINT);
            }
        }
    }
    let shells = ["sh", "bash", "dash", "ash", "zsh", "ksh"];
    for (name, argv) in &table {
        let program = argv.first().map_or("", |program| program.rsplit('/').next().unwrap_or(program));
        let lines = argv.windows(2).filter(|pair| pair[0].starts_with('-') && pair[0].ends_with('c'));
        if shells.contains(&program) && lines.into_iter().any(|pair| pair[1].contains("{file}")) {
            let span = node.entry(name).map_or(node.span, |(_, value)| value.span);
            let text = format!("command `{name}` has a shell run what `{{file}}` fills in");
            let hint =
                "write it as an argument of its own: [sh, -c, 'nginx -t -c \"$1\"', check, \"{file}\"]";
            problems.push(Problem::error(text).at(file, span).hint(hint));
        }
    }
    table.into_iter().map(|(name, argv)| (name.into(), argv)).collect()
}
