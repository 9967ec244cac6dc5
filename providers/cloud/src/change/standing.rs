//! What nobody declares any more, as a declaration that asks for nothing but what is there.

use crate::{
    cty::Value,
    schema::{Attribute, Block},
};

/// A declaration of all that is there. What the provider may fill in is left to it; what it keeps nowhere is not asked for.
pub(crate) fn standing(block: &Block, state: &Value) -> Value {
    let attributes = block
        .attributes
        .iter()
        .map(|(name, attribute)| (name.clone(), of_attribute(attribute, state.get(name))));
    let blocks = block.blocks.iter().map(|(name, nested)| {
        let of = |one: &Value| standing(&nested.block, one);
        (name.clone(), nested.nesting.each(state.get(name), &of))
    });
    Value::Map(attributes.chain(blocks).collect())
}

fn of_attribute(attribute: &Attribute, value: &Value) -> Value {
    if !attribute.is_declarable() || attribute.write_only {
        return Value::Null;
    }
    match &attribute.nested {
        // What was declared in it would go with it.
        Some(nested) => {
            let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
            nested.nesting.each(value, &|one| standing(&block, one))
        }
        None if attribute.computed => Value::Null,
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        change::proposed,
        schema::fixture::{lettered, value},
    };
    use serde_json::{Value as Json, json};

    /// What is asked for, and that it changes nothing.
    fn check(state: Json, expect: Json) {
        let schema = lettered();
        let [state, expect] = [state, expect].map(|json| value(&json, &schema.value_type));
        let found = standing(&schema.block, &state);
        assert_eq!(found, expect);
        assert_eq!(proposed(&schema.block, &state, &found), state);
    }

    #[test]
    fn what_is_there_is_asked_for_and_what_is_filled_in_is_left_to_the_provider() {
        check(
            json!({"r": "a", "o": "b", "oc": "c", "c": "d", "omap": {"k": "v"}, "olist": ["x"], "group": {"r": "g"}}),
            json!({"r": "a", "o": "b", "omap": {"k": "v"}, "olist": ["x"], "group": {"r": "g"}}),
        );
        let all = json!([{"r": "a", "oc": "1"}, {"r": "b", "oc": "2"}]);
        let bare = json!([{"r": "a"}, {"r": "b"}]);
        for name in ["list", "set", "oc2", "oc3"] {
            check(
                json!({"r": "a", name: all, "group": {"r": "g"}}),
                json!({"r": "a", name: bare, "group": {"r": "g"}}),
            );
        }
        check(
            json!({"r": "a", "oc1": {"r": "a", "oc": "1"}, "oc4": {"k": {"r": "a", "oc": "1"}}, "group": {"r": "g"}}),
            json!({"r": "a", "oc1": {"r": "a"}, "oc4": {"k": {"r": "a"}}, "group": {"r": "g"}}),
        );
    }
}
