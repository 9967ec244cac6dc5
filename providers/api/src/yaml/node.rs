//! The positioned tree.

use crate::reference::Reference;
use std::sync::{Arc, OnceLock};

/// A position: line and column from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// A file of a source, kept while its manifests are loaded so that problems can show the line.
#[derive(Debug)]
pub struct SourceFile {
    /// Path within the source.
    pub path: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
    /// Where each line begins: found out for the first problem, so that thousands of them cost one scan.
    starts: OnceLock<Vec<usize>>,
}

impl SourceFile {
    /// Wraps `text` read from `path`.
    pub fn new(path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> SourceFile {
        SourceFile { path: path.into(), text: text.into(), starts: OnceLock::new() }
    }
    /// Line `number`, counted from 1.
    pub fn line(&self, number: u32) -> Option<&str> {
        let starts = self.starts.get_or_init(|| {
            let after = self.text.match_indices('\n').map(|(index, _)| index + 1);
            std::iter::once(0).chain(after).filter(|start| *start < self.text.len()).collect()
        });
        let start = *starts.get((number as usize).checked_sub(1)?)?;
        self.text[start..].lines().next()
    }
}

/// How a scalar was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// Plain `true` or `false`.
    Bool,
    /// A plain integer.
    Int,
    /// A plain number with a fraction or exponent.
    Float,
    /// Any other plain text, and everything quoted or in a block.
    Str,
    /// A text that holds references whose values are not known yet; the text is the template.
    Unknown(Arc<[Reference]>),
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeValue {
    /// `null`, `~` or nothing.
    Null,
    /// A scalar as it was written, without its quotes.
    Scalar(Box<str>, ScalarKind),
    /// A sequence.
    Seq(Vec<Node>),
    /// A mapping in the order written; keys are unique.
    Map(Vec<(Node, Node)>),
}

/// One node of a document and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where the node begins.
    pub span: Span,
    /// What it holds.
    pub value: NodeValue,
}

impl Node {
    /// The value under `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, value)| value)
    }
    /// The key node and value node under `key`.
    pub fn entry(&self, key: &str) -> Option<(&Node, &Node)> {
        let NodeValue::Map(entries) = &self.value else { return None };
        entries.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(k, v)| (k, v))
    }
    /// The written text of a scalar.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(text, _) => Some(text),
            _ => None,
        }
    }
    /// The elements of a sequence; empty for everything else.
    pub fn elements(&self) -> &[Node] {
        match &self.value {
            NodeValue::Seq(nodes) => nodes,
            _ => &[],
        }
    }
    /// The entries of a mapping; empty for everything else.
    pub fn entries(&self) -> &[(Node, Node)] {
        match &self.value {
            NodeValue::Map(entries) => entries,
            _ => &[],
        }
    }
    /// True for `null`, `~` and nothing.
    pub fn is_null(&self) -> bool {
        self.value == NodeValue::Null
    }
    /// What a reader would call this node: "a number", "a list".
    pub fn describe(&self) -> &'static str {
        match &self.value {
            NodeValue::Null => "nothing",
            NodeValue::Scalar(_, ScalarKind::Bool) => "a boolean",
            NodeValue::Scalar(_, ScalarKind::Int | ScalarKind::Float) => "a number",
            NodeValue::Scalar(..) => "text",
            NodeValue::Seq(_) => "a list",
            NodeValue::Map(_) => "a mapping",
        }
    }
    /// Calls `change` on every scalar that is a value (never on keys), outermost first.
    pub fn for_each_scalar_mut(&mut self, change: &mut impl FnMut(Span, &mut Box<str>, &mut ScalarKind)) {
        match &mut self.value {
            NodeValue::Null => {}
            NodeValue::Scalar(text, kind) => change(self.span, text, kind),
            NodeValue::Seq(nodes) => nodes.iter_mut().for_each(|node| node.for_each_scalar_mut(change)),
            NodeValue::Map(entries) => {
                entries.iter_mut().for_each(|(_, node)| node.for_each_scalar_mut(change))
            }
        }
    }
}

#[cfg(test)]
mod line_tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_number_whatever_ends_it() {
        for text in ["", "a", "a\n", "a\r\nb", "\n\nb\n", "é\n\n"] {
            let file = SourceFile::new("f", text);
            let lines: Vec<_> = (1..=9).map_while(|number| file.line(number)).collect();
            assert_eq!(lines, text.lines().collect::<Vec<_>>(), "{text:?}");
            assert_eq!(file.line(0), None);
        }
    }
}
