//! YAML with positions: a transient tree of nodes, decoded into typed structs with every problem collected.
//!
//! Nodes are made straight from the events of serde-saphyr's parser, with strict booleans, no aliases and no duplicate
//! keys, so that what a file costs grows with its size. The tree keeps the written text of scalars (`1.10` stays `1.10`) and the place of each node, so
//! that substitution can happen after parsing and every problem can point at its character.
//! Nodes are dropped once a manifest is normalized; nothing at rest is a tree.

mod all;
mod decode;
mod node;
mod parse;
mod plain;
mod scalar;
mod typed;

pub use node::{Node, NodeValue, ScalarKind, SourceFile, Span};
pub use parse::{Limits, Parsed, parse, parse_all};
pub use scalar::quoted;
pub use typed::{At, Each, TextListOr, TextOr, TextOrList, flag, unshown};
