//! Small schemas for unit tests.

use super::{Block, Schema};
use crate::{cty::Value, wire::message};

/// A text, with rights in letters: `r`equired, `o`ptional, `c`omputed, `s`ensitive.
pub(crate) fn text(name: &str, rights: &str) -> message::Attribute {
    message::Attribute {
        name: name.into(),
        type_json: br#""string""#.to_vec(),
        required: rights.contains('r'),
        optional: rights.contains('o'),
        computed: rights.contains('c'),
        sensitive: rights.contains('s'),
        ..message::Attribute::default()
    }
}

/// A block below another one; `nesting` is the number of the protocol.
pub(crate) fn nested(name: &str, nesting: i32, attributes: Vec<message::Attribute>) -> message::NestedBlock {
    let block = Some(message::Block { attributes, ..Default::default() });
    message::NestedBlock { type_name: name.into(), block, nesting, ..Default::default() }
}

/// A block as it is read.
pub(crate) fn block(attributes: Vec<message::Attribute>, block_types: Vec<message::NestedBlock>) -> Block {
    let block = Some(message::Block { attributes, block_types, ..Default::default() });
    Schema::of(message::Schema { version: 0, block }).unwrap().block
}

/// An object.
pub(crate) fn map(fields: &[(&str, Value)]) -> Value {
    Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}
