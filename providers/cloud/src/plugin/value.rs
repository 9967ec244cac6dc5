//! Values in messages: how one is written, whether there is one, and what of it is kept.

use crate::{
    cty::{self, Type, Value},
    schema::{Block, Nesting},
    wire::message::DynamicValue,
};
use prost::bytes::Bytes;

/// True where there is a value, be it null.
pub(super) fn says_something(value: &DynamicValue) -> bool {
    !(value.msgpack.is_empty() && value.json.is_empty())
}

/// A value for a message.
pub fn write_value(value: &Value, of: &Type) -> DynamicValue {
    DynamicValue { msgpack: cty::encode(value, of).into(), json: Bytes::new() }
}

/// A value as it is kept. The old SDK says null for blocks that are not there, where an empty list is meant; and what is
/// only written would be a secret in clear.
pub(super) fn settled(block: &Block, value: Value) -> Value {
    let Value::Map(mut all) = value else { return value };
    for (name, attribute) in &block.attributes {
        let Some(inner) = all.get_mut(name) else { continue };
        if attribute.write_only {
            *inner = Value::Null;
        } else if let Some(nested) = &attribute.nested {
            let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
            *inner = held(&block, nested.nesting, std::mem::replace(inner, Value::Null));
        }
    }
    for (name, nested) in &block.blocks {
        let inner = match all.remove(name).unwrap_or(Value::Null) {
            Value::Null => nested.empty(),
            inner => held(&nested.block, nested.nesting, inner),
        };
        all.insert(name.clone(), inner);
    }
    Value::Map(all)
}

fn held(block: &Block, nesting: Nesting, value: Value) -> Value {
    match (value, nesting) {
        (Value::Seq(each), Nesting::Set) => {
            Value::set(each.into_iter().map(|one| settled(block, one)).collect())
        }
        (Value::Seq(each), _) => Value::Seq(each.into_iter().map(|one| settled(block, one)).collect()),
        (Value::Map(each), Nesting::Map) => {
            Value::Map(each.into_iter().map(|(key, one)| (key, settled(block, one))).collect())
        }
        (one, _) => settled(block, one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change,
        schema::fixture::{lettered, value},
    };
    use serde_json::{Value as Json, json};

    #[test]
    fn what_is_only_written_is_not_kept() {
        let schema = lettered();
        let check = |told: Json, expect: Json| {
            let kept = |json: &Json| settled(&schema.block, value(json, &schema.value_type));
            assert!(kept(&told) == kept(&expect), "{told}");
            assert_eq!(change::check_write_only(&schema.block, &kept(&told)), Ok(()), "{told}");
        };
        check(json!({"r": "x", "ow": "y"}), json!({"r": "x"}));
        for name in ["single", "group", "oc1"] {
            check(json!({ name: {"r": "a", "ow": "x"} }), json!({ name: {"r": "a"} }));
        }
        for name in ["list", "set", "oc2", "oc3"] {
            check(json!({ name: [{"r": "a"}, {"ow": "x"}] }), json!({ name: [{"r": "a"}, {}] }));
        }
        for name in ["map", "oc4"] {
            check(json!({ name: {"k": {"ow": "x"}} }), json!({ name: {"k": {}} }));
        }
        check(json!({"deep": [{"set": [{"ow": "x"}]}]}), json!({"deep": [{"set": [{}]}]}));
    }
}
