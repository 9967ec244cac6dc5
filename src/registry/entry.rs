//! What of an entry is its backend's: decoded with all that is wrong with it, each at its place.

use crate::config::{ProviderEntry, SecretPlace};
use reconciled_provider::{Error, Node, Problem, SecretRef, problem::did_you_mean, yaml::NodeValue};
use serde::de::DeserializeOwned;

/// Decodes what of an entry is its backend's. `taken` are the keys that are read apart, such as those of secrets: they and the keys of
/// every entry are known as well.
pub(super) fn decode<T: DeserializeOwned>(
    entry: &ProviderEntry,
    rest: &Node,
    taken: &[&str],
) -> (Option<T>, Vec<Problem>) {
    let (value, mut problems) = rest.decode(&entry.file);
    let others: Vec<&str> = taken.iter().copied().chain(ProviderEntry::COMMON).collect();
    for (key, _) in rest.entries() {
        let Some(word) = key.as_str() else { continue };
        let unknown = format!("unknown field `{word}`");
        let is_here = |problem: &&mut Problem| {
            let place = problem.place.as_ref();
            problem.message == unknown
                && place.is_some_and(|place| (place.line, place.column) == (key.span.line, key.span.column))
        };
        let Some(problem) = problems.iter_mut().find(is_here) else { continue };
        let hint = problem.hint.take().unwrap_or_default();
        let near = hint.strip_prefix("did you mean `").and_then(|near| near.strip_suffix("`?"));
        let known = hint.strip_prefix("known fields: ").unwrap_or_default();
        let meant = did_you_mean(word, near.into_iter().chain(others.iter().copied()));
        problem.hint = Some(match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => {
                let known = known.split(", ").filter(|known| !known.is_empty());
                let more = others.iter().copied().filter(|other| !["name", "type"].contains(other));
                let mut all: Vec<&str> = Vec::new();
                known.chain(more).for_each(|key| {
                    if !all.contains(&key) {
                        all.push(key);
                    }
                });
                format!("known fields: {}", all.join(", "))
            }
        });
        // What stands there may be the secret itself.
        if meant.is_some_and(|meant| taken.contains(&meant)) {
            problem.source_line = None;
        }
    }
    Problem::hide_lines(&mut problems);
    (value, problems)
}

/// Takes the value of `key` out of a mapping.
pub(super) fn take(node: &mut Node, key: &str) -> Option<Node> {
    let NodeValue::Map(entries) = &mut node.value else { return None };
    let index = entries.iter().position(|(k, _)| k.as_str() == Some(key))?;
    Some(entries.remove(index).1)
}

/// The place of the secret at `key`, which `entry` needs.
pub(super) fn secret(
    entry: &ProviderEntry,
    node: Option<Node>,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Option<SecretRef> {
    let Some(node) = node else {
        let message = format!("`{}` needs `{key}`", entry.name);
        problems.push(
            Problem::error(message)
                .at(&entry.file, entry.span)
                .hint(format!("write {key}: {{file: /path/of/the/secret}}")),
        );
        return None;
    };
    let (place, found) = node.decode::<SecretPlace>(&entry.file);
    problems.extend(found);
    place.map(|place| place.0)
}

/// What keeps a backend from being made of `entry`.
pub(super) fn at_entry(entry: &ProviderEntry, error: &Error) -> Vec<Problem> {
    let problem = Problem::error(format!("`{}`: {}", entry.name, error.chain())).at(&entry.file, entry.span);
    vec![problem.hint_if(error.hint.as_deref())]
}
