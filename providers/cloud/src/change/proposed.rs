//! The state that a provider is asked to plan for: the configuration, with what it leaves to the provider taken from
//! the state before.

use crate::{
    cty::Value,
    schema::{Attribute, Block, Nested, NestedBlock, Nesting},
};
use std::{collections::BTreeMap, sync::Arc};

/// Merges `config` over `prior`, which is null where nothing exists.
pub fn proposed(block: &Block, prior: &Value, config: &Value) -> Value {
    match (prior, config) {
        (_, Value::Null) => Value::Null,
        (_, Value::Unknown) => Value::Unknown,
        (Value::Null, _) => within(block, &block.empty(), config),
        _ => within(block, prior, config),
    }
}

fn within(block: &Block, prior: &Value, config: &Value) -> Value {
    let attributes = block
        .attributes
        .iter()
        .map(|(name, attribute)| (name.clone(), of_attribute(attribute, prior.get(name), config.get(name))));
    let blocks = block
        .blocks
        .iter()
        .map(|(name, nested)| (name.clone(), of_block(nested, prior.get(name), config.get(name))));
    Value::Map(attributes.chain(blocks).collect())
}

fn of_attribute(attribute: &Attribute, prior: &Value, config: &Value) -> Value {
    if attribute.computed && config.is_null() {
        // Something declared earlier was taken out of the configuration: what is left is not the provider's word.
        let was_declared = attribute.optional
            && attribute
                .nested
                .as_ref()
                .is_some_and(|nested| holds_declared(&nested.attributes, nested.nesting, prior));
        return if was_declared { Value::Null } else { prior.clone() };
    }
    match &attribute.nested {
        Some(nested) => of_nested(nested, prior, config),
        None => config.clone(),
    }
}

/// True when a value holds something that no provider fills in by itself.
fn holds_declared(attributes: &BTreeMap<Arc<str>, Attribute>, nesting: Nesting, value: &Value) -> bool {
    each(nesting, value).into_iter().any(|object| {
        attributes.iter().any(|(name, attribute)| {
            let value = object.get(name);
            !value.is_null()
                && match &attribute.nested {
                    Some(nested) => holds_declared(&nested.attributes, nested.nesting, value),
                    None => !attribute.computed,
                }
        })
    })
}

fn each(nesting: Nesting, value: &Value) -> Vec<&Value> {
    match (nesting, value) {
        (Nesting::Single | Nesting::Group, Value::Map(_)) => vec![value],
        (_, Value::Seq(all)) => all.iter().collect(),
        (_, Value::Map(all)) => all.values().collect(),
        _ => Vec::new(),
    }
}

fn of_nested(nested: &Nested, prior: &Value, config: &Value) -> Value {
    let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
    held(&block, nested.nesting, prior, config)
}

fn of_block(nested: &NestedBlock, prior: &Value, config: &Value) -> Value {
    held(&nested.block, nested.nesting, prior, config)
}

fn held(block: &Block, nesting: Nesting, prior: &Value, config: &Value) -> Value {
    match (nesting, config) {
        (_, Value::Null | Value::Unknown) => config.clone(),
        (Nesting::Single | Nesting::Group, _) => proposed(block, prior, config),
        (Nesting::List, Value::Seq(all)) => {
            let one = |(index, config): (usize, &Value)| match prior.elements().get(index) {
                Some(prior) => proposed(block, prior, config),
                None => proposed(block, &Value::Null, config),
            };
            Value::Seq(all.iter().enumerate().map(one).collect())
        }
        (Nesting::Map, Value::Map(all)) => {
            let one =
                |(key, config): (&Arc<str>, &Value)| (key.clone(), proposed(block, prior.get(key), config));
            Value::Map(all.iter().map(one).collect())
        }
        (Nesting::Set, Value::Seq(all)) => {
            let mut left: Vec<&Value> = prior.elements().iter().collect();
            let mut one = |config: &Value| {
                let prior = left.iter().position(|prior| comes_from(block, prior, config));
                match prior.map(|at| left.remove(at)) {
                    Some(prior) => proposed(block, prior, config),
                    None => proposed(block, &Value::Null, config),
                }
            };
            Value::set(all.iter().map(&mut one).collect())
        }
        _ => config.clone(),
    }
}

/// True when `prior` may be what became of `config`: it differs only in what the provider fills in.
fn comes_from(block: &Block, prior: &Value, config: &Value) -> bool {
    if prior == config {
        return true;
    }
    if !matches!((prior, config), (Value::Map(_), Value::Map(_))) {
        return false;
    }
    let attributes = block.attributes.iter().all(|(name, attribute)| {
        let (prior, config) = (prior.get(name), config.get(name));
        match (&attribute.nested, attribute.computed && config.is_null()) {
            (_, true) => true,
            (Some(nested), false) => {
                let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
                all_come_from(&block, nested.nesting, prior, config)
            }
            (None, false) => prior == config,
        }
    });
    attributes
        && block.blocks.iter().all(|(name, nested)| {
            all_come_from(&nested.block, nested.nesting, prior.get(name), config.get(name))
        })
}

fn all_come_from(block: &Block, nesting: Nesting, prior: &Value, config: &Value) -> bool {
    match (nesting, prior, config) {
        _ if prior == config => true,
        (Nesting::Set, ..) => false,
        (Nesting::List, Value::Seq(a), Value::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| comes_from(block, a, b))
        }
        (Nesting::Map, Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| comes_from(block, a, b)))
        }
        (Nesting::Single | Nesting::Group, ..) => comes_from(block, prior, config),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::fixture::{lettered, value};
    use serde_json::{Value as Json, json};

    #[test]
    fn what_is_proposed_is_the_configuration_over_what_was() {
        let schema = lettered();
        let check = |name: &str, prior: Json, config: Json, expect: Json| {
            let value = |json: &Json| value(json, &schema.value_type);
            let found = proposed(&schema.block, &value(&prior), &value(&config));
            // Values print no content: JSON tells what differs.
            let show =
                |value: &Value| String::from_utf8(crate::cty::write_json(value, &schema.value_type)).unwrap();
            assert!(
                found == value(&expect),
                "{name}\n found {}\nexpect {}",
                show(&found),
                show(&value(&expect))
            );
        };
        let null = Json::Null;
        check("both null", null.clone(), null.clone(), null.clone());
        check("a deletion", json!({"r": "a"}), null.clone(), null.clone());
        check("a creation", null.clone(), json!({"r": "a"}), json!({"r": "a"}));
        check("an unknown value stays", json!({"r": "a"}), json!({"r": "?"}), json!({"r": "?"}));
        check(
            "computed is as it was",
            json!({"r": "a", "c": "x"}),
            json!({"r": "b"}),
            json!({"r": "b", "c": "x"}),
        );
        check(
            "so is what may be computed",
            json!({"oc": "x"}),
            json!({"r": "b"}),
            json!({"r": "b", "oc": "x"}),
        );
        check("unless it is declared", json!({"oc": "x"}), json!({"oc": "y"}), json!({"oc": "y"}));
        check("what is optional goes", json!({"o": "x"}), json!({"r": "b"}), json!({"r": "b"}));
        check(
            "a map is one value",
            json!({"omap": {"a": "1"}}),
            json!({"omap": {"b": "2"}}),
            json!({"omap": {"b": "2"}}),
        );
        check(
            "a single block is merged",
            json!({"single": {"r": "a", "oc": "x"}}),
            json!({"single": {"r": "b"}}),
            json!({"single": {"r": "b", "oc": "x"}}),
        );
        check("or goes", json!({"single": {"r": "a"}}), json!({}), json!({}));
        check(
            "lists go by place",
            json!({"list": [{"r": "a", "oc": "1"}, {"r": "b", "oc": "2"}]}),
            json!({"list": [{"r": "b"}]}),
            json!({"list": [{"r": "b", "oc": "1"}]}),
        );
        check(
            "a longer list has new elements",
            json!({"list": [{"r": "a", "oc": "1"}]}),
            json!({"list": [{"r": "a"}, {"r": "b"}]}),
            json!({"list": [{"r": "a", "oc": "1"}, {"r": "b"}]}),
        );
        check(
            "maps go by key",
            json!({"map": {"k": {"r": "a", "oc": "1"}, "gone": {"r": "b"}}}),
            json!({"map": {"k": {"r": "c"}, "new": {"r": "d"}}}),
            json!({"map": {"k": {"r": "c", "oc": "1"}, "new": {"r": "d"}}}),
        );
        check(
            "elements of sets are found by what was declared of them",
            json!({"set": [{"r": "a", "oc": "1"}, {"r": "b", "oc": "2"}]}),
            json!({"set": [{"r": "b"}, {"r": "c"}]}),
            json!({"set": [{"r": "b", "oc": "2"}, {"r": "c"}]}),
        );
        check(
            "and each is found once",
            json!({"set": [{"r": "a", "oc": "1"}]}),
            json!({"set": [{"r": "a"}, {"r": "a", "oc": "2"}]}),
            json!({"set": [{"r": "a", "oc": "1"}, {"r": "a", "oc": "2"}]}),
        );
        check(
            "a group is always there",
            json!({"group": {"r": "a", "oc": "x"}}),
            json!({"group": {"r": "b"}}),
            json!({"group": {"r": "b", "oc": "x"}}),
        );
        check(
            "an attribute with attributes is merged",
            json!({"oc1": {"r": "a", "oc": "x"}}),
            json!({"oc1": {"r": "b"}}),
            json!({"oc1": {"r": "b", "oc": "x"}}),
        );
        check(
            "what was declared in it goes with it",
            json!({"oc1": {"r": "a", "oc": "x"}}),
            json!({}),
            json!({}),
        );
        check(
            "what was only computed stays",
            json!({"oc1": {"oc": "x"}}),
            json!({}),
            json!({"oc1": {"oc": "x"}}),
        );
        check(
            "lists of such go by place",
            json!({"oc2": [{"r": "a", "oc": "1"}]}),
            json!({"oc2": [{"r": "b"}, {"r": "c"}]}),
            json!({"oc2": [{"r": "b", "oc": "1"}, {"r": "c"}]}),
        );
        check(
            "maps of such go by key",
            json!({"oc4": {"k": {"r": "a", "oc": "1"}, "gone": {"r": "b"}}}),
            json!({"oc4": {"k": {"r": "c"}, "new": {"r": "d"}}}),
            json!({"oc4": {"k": {"r": "c", "oc": "1"}, "new": {"r": "d"}}}),
        );
        check(
            "elements of sets of such are found by what was declared of them",
            json!({"oc3": [{"r": "a", "oc": "1"}, {"r": "b", "oc": "2"}]}),
            json!({"oc3": [{"r": "b"}, {"r": "c"}]}),
            json!({"oc3": [{"r": "b", "oc": "2"}, {"r": "c"}]}),
        );
        check(
            "a set of such that was only computed stays",
            json!({"oc3": [{"oc": "x"}]}),
            json!({}),
            json!({"oc3": [{"oc": "x"}]}),
        );
        check(
            "what was declared in one of them goes with all",
            json!({"oc4": {"k": {"oc": "x"}, "l": {"r": "a"}}}),
            json!({}),
            json!({}),
        );
        check(
            "a set within a set is what it is found by",
            json!({"deep": [{"r": "a", "oc": "1", "set": [{"r": "x"}]}, {"r": "a", "oc": "2", "set": [{"r": "y"}]}]}),
            json!({"deep": [{"r": "a", "set": [{"r": "y"}]}]}),
            json!({"deep": [{"r": "a", "oc": "2", "set": [{"r": "y"}]}]}),
        );
        check(
            "what is filled in within it says that it is another one",
            json!({"deep": [{"r": "a", "oc": "1", "set": [{"r": "x", "oc": "3"}]}]}),
            json!({"deep": [{"r": "a", "set": [{"r": "x"}]}]}),
            json!({"deep": [{"r": "a", "set": [{"r": "x"}]}]}),
        );
        check(
            "what is known in part is as it is declared",
            json!({"omap": {"a": "1"}, "oc1": {"r": "a", "oc": "x"}}),
            json!({"omap": {"a": "?", "b": "2"}, "oc1": {"r": "?"}}),
            json!({"omap": {"a": "?", "b": "2"}, "oc1": {"r": "?", "oc": "x"}}),
        );
        check(
            "an element of a set of which a part is unknown is a new one",
            json!({"set": [{"r": "a", "oc": "1"}], "oc3": [{"r": "a", "oc": "1"}]}),
            json!({"set": [{"r": "?"}], "oc3": [{"r": "?"}]}),
            json!({"set": [{"r": "?"}], "oc3": [{"r": "?"}]}),
        );
        check(
            "an attribute with attributes that is unknown is unknown",
            json!({"oc2": [{"r": "a", "oc": "1"}]}),
            json!({"oc2": "?"}),
            json!({"oc2": "?"}),
        );
        check(
            "an unknown block is unknown",
            json!({"list": [{"r": "a"}]}),
            json!({"list": "?"}),
            json!({"list": "?"}),
        );
    }
}
