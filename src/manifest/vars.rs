//! Variables of a source: written in the host configuration, or in files of the repository.

use super::files::{Files, read_text};
use crate::config::Vars;
use reconciled_provider::{
    Node, Problem,
    yaml::{Limits, NodeValue, ScalarKind, parse},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Values by dotted name.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    pub(super) values: BTreeMap<String, (Box<str>, ScalarKind)>,
    /// The same as they are written, with lists: what templates see.
    pub(super) tree: serde_json::Map<String, serde_json::Value>,
    /// A file of variables could not be read: it may have set any name.
    pub(super) incomplete: bool,
    /// Names that were set since, whatever was in that file.
    set_since: BTreeSet<String>,
}

/// Reads the variables of a source; later files override earlier ones.
pub(super) fn read(vars: &Vars, files: &dyn Files, problems: &mut Vec<Problem>) -> Variables {
    let mut all = Variables::default();
    match vars {
        Vars::Inline(node) => all.add_all(node),
        Vars::Files(paths) => {
            for path in paths {
                if let Err(problem) = all.add_file(path, files) {
                    all.incomplete = true;
                    all.set_since.clear();
                    problems.push(*problem);
                }
            }
        }
    }
    all
}

impl Variables {
    /// False where a file that cannot be read may say otherwise.
    pub(super) fn is_certain(&self, name: &str) -> bool {
        !self.incomplete || self.set_since.contains(name)
    }

    /// What is set under a dotted name and is no single value.
    pub(super) fn shape(&self, name: &str) -> Option<&'static str> {
        let mut names = name.split('.');
        let first = self.tree.get(names.next()?)?;
        match names.try_fold(first, |within, name| within.get(name))? {
            serde_json::Value::Array(_) => Some("a list"),
            serde_json::Value::Object(_) => Some("a mapping"),
            serde_json::Value::Null => Some("empty"),
            _ => None,
        }
    }

    fn add_file(&mut self, path: &Arc<str>, files: &dyn Files) -> Result<(), Box<Problem>> {
        let file = read_text(files, path).map_err(|problem| match problem.hint {
            Some(_) => problem,
            None => Box::new(problem.hint(match path.contains("${") {
                true => "`vars` names files as they are called: nothing is substituted in it; what differs from host to host is a mapping, or `host.labels`",
                false => "correct `vars` of the source in the host configuration",
            })),
        })?;
        for node in parse(&file, Limits::default())? {
            if !matches!(node.value, NodeValue::Map(_)) {
                let message = format!("expected variables as `name: value`, found {}", node.describe());
                return Err(Box::new(Problem::error(message).at(&file, node.span)));
            }
            self.add_all(&node);
        }
        Ok(())
    }

    fn add_all(&mut self, node: &Node) {
        self.add("", node);
        if let serde_json::Value::Object(more) = tree(node) {
            over(&mut self.tree, more);
        }
    }

    fn add(&mut self, prefix: &str, node: &Node) {
        for (key, value) in node.entries() {
            let Some(key) = key.as_str() else { continue };
            let name = if prefix.is_empty() { key.to_string() } else { format!("{prefix}.{key}") };
            // What is no mapping takes the place of one, and a mapping that of a value.
            if !matches!(value.value, NodeValue::Map(_)) {
                let below = format!("{name}.");
                let known = self.values.range(below.clone()..).map(|(known, _)| known);
                let gone: Vec<String> =
                    known.take_while(|known| known.starts_with(&below)).cloned().collect();
                gone.iter().for_each(|known| drop(self.values.remove(known)));
            }
            self.values.remove(&name);
            match &value.value {
                NodeValue::Scalar(text, kind) => {
                    self.set_since.insert(name.clone());
                    self.values.insert(name, (text.clone(), kind.clone()));
                }
                NodeValue::Map(_) => self.add(&name, value),
                // A list cannot stand in a scalar.
                NodeValue::Seq(_) | NodeValue::Null => {}
            }
        }
    }
}

/// A template sees no longer value: it could join many of them.
const LONGEST: usize = 64 << 10;

/// Puts `more` over `all`, mapping by mapping.
fn over(
    all: &mut serde_json::Map<String, serde_json::Value>,
    more: serde_json::Map<String, serde_json::Value>,
) {
    for (name, value) in more {
        match (all.get_mut(&name), value) {
            (Some(serde_json::Value::Object(old)), serde_json::Value::Object(new)) => over(old, new),
            (_, value) => drop(all.insert(name, value)),
        }
    }
}

fn tree(node: &Node) -> serde_json::Value {
    match &node.value {
        NodeValue::Null => serde_json::Value::Null,
        NodeValue::Scalar(text, ScalarKind::Bool) => (&**text == "true").into(),
        NodeValue::Scalar(text, ScalarKind::Int) => {
            text.parse::<i64>().map_or_else(|_| (&**text).into(), Into::into)
        }
        NodeValue::Scalar(text, _) => (&**text).into(),
        NodeValue::Seq(nodes) => nodes
            .iter()
            .map(tree)
            .filter(|value| value.as_str().is_none_or(|text| text.len() <= LONGEST))
            .collect(),
        NodeValue::Map(entries) => {
            let is_long = |node: &Node| node.as_str().is_some_and(|text| text.len() > LONGEST);
            let named = |(key, value): &(Node, Node)| {
                key.as_str().filter(|_| !is_long(value)).map(|key| (key.to_owned(), tree(value)))
            };
            serde_json::Value::Object(entries.iter().filter_map(named).collect())
        }
    }
}
