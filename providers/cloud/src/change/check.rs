//! Whether what a provider plans is a plan, and what it did is what it planned.
//!
//! Providers made with the old SDK break these rules by nature and say so (`legacy_type_system`): nobody asks here for
//! them.

use crate::{
    cty::Value,
    schema::{Attribute, Block, NestedBlock, Nesting},
};

/// Checks that a plan keeps to what is declared: an attribute is as in the configuration or as it was, unless the
/// provider may fill it in and nobody declared it.
///
/// Errors: the path that breaks the rule.
pub fn check_plan(block: &Block, prior: &Value, config: &Value, planned: &Value) -> Result<(), String> {
    match (config, planned) {
        (Value::Null, Value::Null) => Ok(()),
        (Value::Null, _) | (_, Value::Null) => Err("whether it is to exist".into()),
        _ => block_plan(block, prior, config, planned, ""),
    }
}

fn block_plan(block: &Block, prior: &Value, config: &Value, planned: &Value, at: &str) -> Result<(), String> {
    for (name, attribute) in &block.attributes {
        let path = join(at, name);
        let (prior, config, planned) = (prior.get(name), config.get(name), planned.get(name));
        attribute_plan(attribute, prior, config, planned, &path)?;
    }
    for (name, nested) in &block.blocks {
        let path = join(at, name);
        nested_plan(nested, prior.get(name), config.get(name), planned.get(name), &path)?;
    }
    Ok(())
}

fn attribute_plan(
    attribute: &Attribute,
    prior: &Value,
    config: &Value,
    planned: &Value,
    path: &str,
) -> Result<(), String> {
    if attribute.write_only {
        return if planned.is_null() { Ok(()) } else { Err(path.into()) };
    }
    let is_free = attribute.computed && config.is_null();
    let is_said = planned == config || planned == prior;
    match is_free || is_said || !config.is_known() || attribute.nested.is_some() {
        true => Ok(()),
        false => Err(path.into()),
    }
}

fn nested_plan(
    nested: &NestedBlock,
    prior: &Value,
    config: &Value,
    planned: &Value,
    path: &str,
) -> Result<(), String> {
    if *config == Value::Unknown {
        return Ok(());
    }
    match nested.nesting {
        Nesting::Set => Ok(()),
        Nesting::List => {
            let (all, planned) = (config.elements(), planned.elements());
            if all.len() != planned.len() {
                return Err(path.into());
            }
            all.iter().zip(planned).enumerate().try_for_each(|(index, (config, planned))| {
                let prior = prior.elements().get(index).unwrap_or(&Value::Null);
                block_plan(&nested.block, prior, config, planned, &format!("{path}[{index}]"))
            })
        }
        Nesting::Map => match (config, planned) {
            (Value::Map(all), Value::Map(planned)) if all.len() == planned.len() => {
                all.iter().try_for_each(|(key, config)| {
                    let planned = planned.get(key).ok_or_else(|| join(path, key))?;
                    block_plan(&nested.block, prior.get(key), config, planned, &join(path, key))
                })
            }
            _ => Err(path.into()),
        },
        Nesting::Single | Nesting::Group => match (config, planned) {
            (Value::Null, Value::Null) => Ok(()),
            (Value::Null, _) | (_, Value::Null) => Err(path.into()),
            _ => block_plan(&nested.block, prior, config, planned, path),
        },
    }
}

/// Checks that what came about is what was planned, wherever that was known.
///
/// Errors: the path that differs.
pub fn check_applied(planned: &Value, applied: &Value) -> Result<(), String> {
    compatible(planned, applied, "")
}

fn compatible(planned: &Value, applied: &Value, at: &str) -> Result<(), String> {
    match (planned, applied) {
        (Value::Unknown, _) => Ok(()),
        (Value::Dynamic(a), Value::Dynamic(b)) => compatible(&a.1, &b.1, at),
        (Value::Map(a), Value::Map(b)) => a
            .iter()
            .try_for_each(|(name, a)| compatible(a, b.get(name).unwrap_or(&Value::Null), &join(at, name))),
        (Value::Seq(a), Value::Seq(b)) if a.len() == b.len() && planned.is_known() => {
            if a == b {
                Ok(())
            } else {
                Err(at.into())
            }
        }
        (Value::Seq(a), Value::Seq(b)) if a.len() == b.len() => Ok(()),
        (a, b) if a == b => Ok(()),
        _ => Err(if at.is_empty() { "whether it exists".into() } else { at.into() }),
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.into() } else { format!("{at}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cty::Type,
        schema::fixture::{self, map},
    };

    #[test]
    fn a_plan_says_nothing_that_nobody_said() {
        let block = fixture::block(vec![fixture::text("a", "o"), fixture::text("b", "oc")], Vec::new());
        let (text, null) = (Value::text, Value::Null);
        let check = |prior: [Value; 2], config: [Value; 2], planned: [Value; 2], expect: Result<(), &str>| {
            let of = |[a, b]: [Value; 2]| map(&[("a", a), ("b", b)]);
            let found = check_plan(&block, &of(prior), &of(config), &of(planned));
            assert_eq!(found, expect.map_err(String::from));
        };
        let none = || [Value::Null, Value::Null];
        check(none(), [text("x"), null.clone()], [text("x"), Value::Unknown], Ok(()));
        check(none(), [text("x"), null.clone()], [text("y"), null.clone()], Err("a"));
        check([text("y"), null.clone()], [text("x"), null.clone()], [text("y"), null.clone()], Ok(()));
        check(none(), [null.clone(), text("x")], [null.clone(), text("y")], Err("b"));
        check(none(), [Value::Unknown, null.clone()], [Value::Unknown, null.clone()], Ok(()));
        let gone = check_plan(&block, &null, &map(&[("a", text("x"))]), &null);
        assert_eq!(gone, Err("whether it is to exist".into()));
    }

    #[test]
    fn what_came_about_is_what_was_planned() {
        let planned = map(&[("a", Value::text("x")), ("b", Value::Unknown)]);
        assert_eq!(
            check_applied(&planned, &map(&[("a", Value::text("x")), ("b", Value::text("id"))])),
            Ok(())
        );
        assert_eq!(
            check_applied(&planned, &map(&[("a", Value::text("y")), ("b", Value::Null)])),
            Err("a".into())
        );
        assert_eq!(check_applied(&planned, &Value::Null), Err("whether it exists".into()));
        let any = |value| Value::Dynamic(Box::new((Type::Dynamic, value)));
        let (open, done) = (map(&[("a", Value::Unknown)]), map(&[("a", Value::text("x"))]));
        assert_eq!(check_applied(&any(open.clone()), &any(done.clone())), Ok(()));
        assert_eq!(check_applied(&any(done), &any(map(&[("a", Value::text("y"))]))), Err("a".into()));
    }
}
