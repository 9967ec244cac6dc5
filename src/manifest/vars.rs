//! Variables of a source: written in the host configuration, or in files of the repository.

use super::Files;
use crate::config::Vars;
use reconciled_provider::{
    Node, Problem, SourceFile,
    yaml::{Limits, NodeValue, ScalarKind, parse},
};
use std::{collections::BTreeMap, sync::Arc};

/// Values by dotted name.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    pub(super) values: BTreeMap<String, (Box<str>, ScalarKind)>,
    /// A file of variables could not be read: names that are missing are its fault.
    pub(super) incomplete: bool,
}

/// Reads the variables of a source; later files override earlier ones.
pub(super) fn read(vars: &Vars, files: &dyn Files, problems: &mut Vec<Problem>) -> Variables {
    let mut all = Variables::default();
    match vars {
        Vars::Inline(node) => all.add("", node),
        Vars::Files(paths) => {
            for path in paths {
                if let Err(problem) = all.add_file(path, files) {
                    all.incomplete = true;
                    problems.push(*problem);
                }
            }
        }
    }
    all
}

impl Variables {
    fn add_file(&mut self, path: &Arc<str>, files: &dyn Files) -> Result<(), Box<Problem>> {
        let file = super::read_text(files, path)?;
        for node in parse(&file, Limits::default())? {
            if !matches!(node.value, NodeValue::Map(_)) {
                let message = format!("expected variables as `name: value`, found {}", node.describe());
                return Err(Box::new(Problem::error(message).at(&file, node.span)));
            }
            self.add("", &node);
        }
        Ok(())
    }

    fn add(&mut self, prefix: &str, node: &Node) {
        for (key, value) in node.entries() {
            let Some(key) = key.as_str() else { continue };
            let name = if prefix.is_empty() { key.to_string() } else { format!("{prefix}.{key}") };
            match &value.value {
                NodeValue::Scalar(text, kind) => {
                    self.values.insert(name, (text.clone(), kind.clone()));
                }
                NodeValue::Map(_) => self.add(&name, value),
                // A list cannot stand in a scalar; naming it is an unknown variable.
                NodeValue::Seq(_) | NodeValue::Null => {}
            }
        }
    }
}

/// Reads a file of a source as text.
pub(super) fn source_file(path: &Arc<str>, bytes: &[u8]) -> Result<SourceFile, Box<Problem>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(SourceFile::new(path.clone(), text)),
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            let message = format!("line {line} is not UTF-8 text");
            Err(Box::new(Problem::error(message).in_file(path).hint("save the file as UTF-8")))
        }
    }
}
