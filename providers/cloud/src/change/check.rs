//! Whether what a provider plans is a plan, and what it did is what it planned.
//!
//! Providers made with the old SDK break these rules by nature and say so (`legacy_type_system`): nobody asks here for
//! them.

use crate::{
    cty::{Type, Value},
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
    let is_free = attribute.computed && config.is_null();
    // What the provider was not told it may fill in.
    if attribute.write_only || is_free || *config == Value::Unknown {
        return Ok(());
    }
    // Nothing stays nothing where something is declared, and goes where nothing is.
    let is_kept = planned == prior && !prior.is_null() && !config.is_null();
    if planned == config || is_kept {
        return Ok(());
    }
    match &attribute.nested {
        Some(nested) => {
            let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
            held_plan(&block, nested.nesting, prior, config, planned, path)
        }
        None if config.is_known() => Err(path.into()),
        None => Ok(()),
    }
}

fn nested_plan(
    nested: &NestedBlock,
    prior: &Value,
    config: &Value,
    planned: &Value,
    path: &str,
) -> Result<(), String> {
    match *config == Value::Unknown {
        true => Ok(()),
        false => held_plan(&nested.block, nested.nesting, prior, config, planned, path),
    }
}

/// Blocks, or objects of an attribute: there are those that are declared, and each is what it may be.
fn held_plan(
    block: &Block,
    nesting: Nesting,
    prior: &Value,
    config: &Value,
    planned: &Value,
    path: &str,
) -> Result<(), String> {
    match (nesting, config, planned) {
        (_, Value::Null, Value::Null) => Ok(()),
        (_, Value::Null, _) | (_, _, Value::Null | Value::Unknown) => Err(path.into()),
        (Nesting::Single | Nesting::Group, ..) => block_plan(block, prior, config, planned, path),
        (Nesting::List, Value::Seq(all), Value::Seq(planned)) if all.len() == planned.len() => {
            all.iter().zip(planned).enumerate().try_for_each(|(index, (config, planned))| {
                let prior = prior.elements().get(index).unwrap_or(&Value::Null);
                element_plan(block, prior, config, planned, &format!("{path}[{index}]"))
            })
        }
        (Nesting::Map, Value::Map(all), Value::Map(planned)) if all.len() == planned.len() => {
            all.iter().try_for_each(|(key, config)| {
                let planned = planned.get(key).ok_or_else(|| join(path, key))?;
                element_plan(block, prior.get(key), config, planned, &join(path, key))
            })
        }
        // What an element of a set was before, nobody can say: any of them may be it.
        (Nesting::Set, Value::Seq(all), Value::Seq(planned)) => {
            let fits = |config: &Value, planned: &Value| {
                let mut priors = std::iter::once(&Value::Null).chain(prior.elements());
                priors.any(|prior| element_plan(block, prior, config, planned, path).is_ok())
            };
            if each_has_another(all, planned, fits) { Ok(()) } else { Err(path.into()) }
        }
        _ => Err(path.into()),
    }
}

fn element_plan(
    block: &Block,
    prior: &Value,
    config: &Value,
    planned: &Value,
    path: &str,
) -> Result<(), String> {
    match (config, planned) {
        (Value::Unknown, _) | (Value::Null, Value::Null) => Ok(()),
        (Value::Null, _) | (_, Value::Null | Value::Unknown) => Err(path.into()),
        _ => block_plan(block, prior, config, planned, path),
    }
}

/// True where each of these has one of those that fits it, and the other way round. How many there are says nothing: what
/// turns out to be equal is one.
fn each_has_another(these: &[Value], those: &[Value], fits: impl Fn(&Value, &Value) -> bool) -> bool {
    these.iter().all(|this| those.iter().any(|that| fits(this, that)))
        && those.iter().all(|that| these.iter().any(|this| fits(this, that)))
}

/// Checks that nothing comes back of what is given and never kept.
///
/// Errors: the path where it does.
pub fn check_write_only(block: &Block, planned: &Value) -> Result<(), String> {
    write_only(block, planned, "")
}

fn write_only(block: &Block, planned: &Value, at: &str) -> Result<(), String> {
    for (name, attribute) in &block.attributes {
        let (path, planned) = (join(at, name), planned.get(name));
        if attribute.write_only && !planned.is_null() {
            return Err(path);
        }
        if let Some(nested) = &attribute.nested {
            let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
            held_write_only(&block, nested.nesting, planned, &path)?;
        }
    }
    block.blocks.iter().try_for_each(|(name, nested)| {
        held_write_only(&nested.block, nested.nesting, planned.get(name), &join(at, name))
    })
}

fn held_write_only(block: &Block, nesting: Nesting, planned: &Value, path: &str) -> Result<(), String> {
    match (nesting, planned) {
        (Nesting::Map, Value::Map(all)) => {
            all.iter().try_for_each(|(key, one)| write_only(block, one, &join(path, key)))
        }
        (_, Value::Seq(all)) => all.iter().try_for_each(|one| write_only(block, one, path)),
        (_, one) => write_only(block, one, path),
    }
}

/// Checks that what came about is what was planned, wherever that was known. Both are values of the type `of`.
///
/// Errors: the path that differs.
pub fn check_applied(of: &Type, planned: &Value, applied: &Value) -> Result<(), String> {
    compatible(of, planned, applied, "")
}

fn compatible(of: &Type, planned: &Value, applied: &Value, at: &str) -> Result<(), String> {
    let differs = || Err(if at.is_empty() { "whether it exists".into() } else { at.into() });
    match (of, planned, applied) {
        (_, Value::Unknown, _) => Ok(()),
        (_, Value::Dynamic(a), Value::Dynamic(b)) if a.0 == b.0 || !a.1.is_known() => {
            compatible(&a.0, &a.1, &b.1, at)
        }
        (Type::Object(types), Value::Map(a), Value::Map(b)) => types.iter().try_for_each(|(name, of)| {
            let [a, b] = [a, b].map(|all| all.get(name).unwrap_or(&Value::Null));
            compatible(of, a, b, &join(at, name))
        }),
        (Type::Map(of), Value::Map(a), Value::Map(b)) => {
            if let Some(more) = b.keys().find(|key| !a.contains_key(*key)) {
                return Err(join(at, more));
            }
            a.iter().try_for_each(|(key, a)| {
                let b = b.get(key).ok_or_else(|| join(at, key))?;
                compatible(of, a, b, &join(at, key))
            })
        }
        (Type::List(of), Value::Seq(a), Value::Seq(b)) if a.len() == b.len() => {
            let mut each = a.iter().zip(b).enumerate();
            each.try_for_each(|(index, (a, b))| compatible(of, a, b, &format!("{at}[{index}]")))
        }
        (Type::Tuple(parts), Value::Seq(a), Value::Seq(b))
            if a.len() == b.len() && a.len() == parts.len() =>
        {
            let mut each = parts.iter().zip(a.iter().zip(b)).enumerate();
            each.try_for_each(|(index, (of, (a, b)))| compatible(of, a, b, &format!("{at}[{index}]")))
        }
        (Type::Set(of), Value::Seq(a), Value::Seq(b)) => {
            match each_has_another(a, b, |a, b| compatible(of, a, b, at).is_ok()) {
                true => Ok(()),
                false => differs(),
            }
        }
        (_, a, b) if a == b => Ok(()),
        _ => differs(),
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.into() } else { format!("{at}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::fixture::{lettered, map, value};
    use serde_json::{Value as Json, json};

    #[test]
    fn a_plan_says_nothing_that_nobody_said() {
        let schema = lettered();
        let check = |prior: Json, config: Json, planned: Json, expect: Result<(), &str>| {
            let [was, says, plans] = [&prior, &config, &planned].map(|json| value(json, &schema.value_type));
            let found = check_plan(&schema.block, &was, &says, &plans);
            assert_eq!(found, expect.map_err(String::from), "{prior} {config} {planned}");
        };
        let none = || json!(null);
        check(none(), json!({"o": "x"}), json!({"o": "x", "oc": "?", "c": "?"}), Ok(()));
        check(none(), json!({"o": "x"}), json!({"o": "y"}), Err("o"));
        check(json!({"o": "y"}), json!({"o": "x"}), json!({"o": "y"}), Ok(()));
        check(none(), json!({"o": "x"}), json!({}), Err("o"));
        check(json!({"o": "x"}), json!({}), json!({"o": "x"}), Err("o"));
        check(json!({"oc": "x"}), json!({}), json!({"oc": "x"}), Ok(()));
        check(none(), json!({"oc": "x"}), json!({"oc": "y"}), Err("oc"));
        check(none(), json!({"o": "?"}), json!({"o": "?"}), Ok(()));
        check(none(), json!({}), json!({"o": "x"}), Err("o"));
        check(none(), json!({"r": "x"}), none(), Err("whether it is to exist"));
        check(json!({"r": "x"}), none(), json!({"r": "x"}), Err("whether it is to exist"));
        check(none(), json!({"omap": {"a": "1"}}), json!({"omap": {"a": "1", "b": "2"}}), Err("omap"));
        check(none(), json!({"olist": ["a", "?"]}), json!({"olist": ["a", "?"]}), Ok(()));
        // What is given and never kept is checked by itself.
        check(none(), json!({"ow": "x"}), json!({}), Ok(()));

        // One object, as a block and as an attribute.
        for name in ["single", "oc1"] {
            let of = |inner: Json| json!({ name: inner });
            check(none(), of(json!({"r": "a"})), of(json!({"r": "a", "oc": "?"})), Ok(()));
            check(none(), of(json!({"r": "a"})), of(json!({"r": "b"})), Err(&format!("{name}.r")));
            check(none(), of(json!({"r": "a"})), json!({}), Err(name));
            check(none(), of(json!({"r": "a"})), of(json!("?")), Err(name));
            check(of(json!({"r": "z"})), of(json!({"r": "a"})), of(json!({"r": "z"})), Ok(()));
            check(none(), of(json!({"r": "?"})), of(json!({"r": "?", "oc": "x"})), Ok(()));
            check(none(), of(json!("?")), of(json!("?")), Ok(()));
        }
        // Nobody declared a block; an attribute may be filled in.
        check(none(), json!({}), json!({"single": {"r": "a"}}), Err("single"));
        check(none(), json!({}), json!({"oc1": {"r": "a"}}), Ok(()));
        check(none(), json!({"group": {"r": "a"}}), json!({"group": {"r": "b"}}), Err("group.r"));

        for name in ["list", "oc2"] {
            let of = |inner: Json| json!({ name: inner });
            check(none(), of(json!([{"r": "a"}])), of(json!([{"r": "a", "oc": "x"}])), Ok(()));
            check(none(), of(json!([{"r": "a"}])), of(json!([{"r": "a"}, {"r": "b"}])), Err(name));
            check(none(), of(json!([{"r": "a"}, {"r": "b"}])), of(json!([{"r": "a"}])), Err(name));
            check(
                none(),
                of(json!([{"r": "a"}, {"r": "b"}])),
                of(json!([{"r": "a"}, {"r": "c"}])),
                Err(&format!("{name}[1].r")),
            );
            check(none(), of(json!([{"r": "a"}])), of(json!([null])), Err(&format!("{name}[0]")));
        }
        for name in ["map", "oc4"] {
            let of = |inner: Json| json!({ name: inner });
            check(none(), of(json!({"k": {"r": "a"}})), of(json!({"k": {"r": "a", "oc": "x"}})), Ok(()));
            check(
                none(),
                of(json!({"k": {"r": "a"}})),
                of(json!({"l": {"r": "a"}})),
                Err(&format!("{name}.k")),
            );
            check(none(), of(json!({"k": {"r": "a"}})), of(json!({})), Err(name));
            let (one, other) = (of(json!({"k": {"r": "a"}})), of(json!({"k": {"r": "b"}})));
            check(none(), one, other, Err(&format!("{name}.k.r")));
        }
        for name in ["set", "oc3"] {
            let of = |inner: Json| json!({ name: inner });
            let filled = json!([{"r": "b", "oc": "2"}, {"r": "a", "oc": "1"}]);
            check(none(), of(json!([{"r": "a"}, {"r": "b"}])), of(filled), Ok(()));
            check(none(), of(json!([{"r": "a"}])), of(json!([{"r": "b"}])), Err(name));
            check(none(), of(json!([{"r": "a"}])), of(json!([{"r": "a"}, {"r": "b"}])), Err(name));
            check(none(), of(json!([{"r": "a"}, {"r": "b"}])), of(json!([{"r": "a"}])), Err(name));
            // What was there may be kept as it was.
            let (was, is) = (of(json!([{"r": "A", "oc": "1"}])), of(json!([{"r": "a"}])));
            check(was.clone(), is, was, Ok(()));
            check(none(), of(json!([{"r": "?"}])), of(json!([{"r": "?"}])), Ok(()));
        }
        let deep = |r: &str| json!({"deep": [{"r": "a", "set": [{"r": r}]}]});
        check(none(), deep("x"), deep("x"), Ok(()));
        check(none(), deep("x"), deep("y"), Err("deep"));
    }

    #[test]
    fn what_is_only_written_does_not_come_back() {
        let schema = lettered();
        let check = |planned: Json, expect: Result<(), &str>| {
            let found = check_write_only(&schema.block, &value(&planned, &schema.value_type));
            assert_eq!(found, expect.map_err(String::from), "{planned}");
        };
        check(json!(null), Ok(()));
        check(json!({"r": "x", "oc1": {"r": "a"}, "list": [{"r": "a"}]}), Ok(()));
        check(json!({"ow": "x"}), Err("ow"));
        check(json!({"ow": "?"}), Err("ow"));
        for name in ["single", "group", "oc1"] {
            check(json!({ name: { "ow": "x" } }), Err(&format!("{name}.ow")));
        }
        for name in ["list", "set", "oc2", "oc3"] {
            check(json!({ name: [{"r": "a"}, {"ow": "x"}] }), Err(&format!("{name}.ow")));
        }
        for name in ["map", "oc4"] {
            check(json!({ name: {"k": {"ow": "x"}} }), Err(&format!("{name}.k.ow")));
        }
        check(json!({"deep": [{"set": [{"ow": "x"}]}]}), Err("deep.set.ow"));
    }

    #[test]
    fn what_came_about_is_what_was_planned() {
        let schema = lettered();
        let check = |planned: Json, applied: Json, expect: Result<(), &str>| {
            let [plans, is] = [&planned, &applied].map(|json| value(json, &schema.value_type));
            let found = check_applied(&schema.value_type, &plans, &is);
            assert_eq!(found, expect.map_err(String::from), "{planned} {applied}");
        };
        check(json!({"o": "x", "c": "?"}), json!({"o": "x", "c": "id"}), Ok(()));
        check(json!({"o": "x", "c": "?"}), json!({"o": "y"}), Err("o"));
        check(json!({"o": "x"}), json!(null), Err("whether it exists"));
        check(json!({}), json!({"o": "x"}), Err("o"));
        check(json!({"omap": {"a": "1"}}), json!({"omap": {"a": "1", "b": "2"}}), Err("omap.b"));
        check(json!({"omap": {"a": "1", "b": "2"}}), json!({"omap": {"a": "1"}}), Err("omap.b"));
        check(json!({"omap": {"a": "?"}}), json!({"omap": {"a": "1"}}), Ok(()));
        // A part that is unknown says nothing about the others.
        check(json!({"olist": ["a", "?"]}), json!({"olist": ["a", "b"]}), Ok(()));
        check(json!({"olist": ["a", "?"]}), json!({"olist": ["c", "b"]}), Err("olist[0]"));
        check(json!({"olist": ["a"]}), json!({"olist": ["a", "b"]}), Err("olist"));
        check(json!({"list": [{"r": "a", "oc": "?"}]}), json!({"list": [{"r": "b"}]}), Err("list[0].r"));
        check(json!({"oc2": [{"r": "a", "oc": "?"}]}), json!({"oc2": [{"r": "a", "oc": "1"}]}), Ok(()));
        // Elements of a set that turn out to be equal are one.
        for name in ["oset", "set", "oc3"] {
            let (a, b) = if name == "oset" { ("a", "b") } else { ("r", "oc") };
            let of = |all: &[(&str, &str)]| {
                let all: Vec<Json> = all.iter().map(|(x, y)| json!({ a: x, b: y })).collect();
                json!({ name: all })
            };
            check(of(&[("x", "1"), ("?", "1")]), of(&[("x", "1")]), Ok(()));
            check(of(&[("x", "?"), ("?", "1")]), of(&[("x", "1"), ("y", "1")]), Ok(()));
            check(of(&[("x", "?")]), of(&[("y", "1")]), Err(name));
            check(of(&[("x", "1")]), of(&[("x", "1"), ("y", "1")]), Err(name));
            check(of(&[("x", "1"), ("y", "1")]), of(&[("x", "1")]), Err(name));
        }
        let any =
            |value| Value::Dynamic(Box::new((Type::Object([("a".into(), Type::String)].into()), value)));
        let (open, done) = (map(&[("a", Value::Unknown)]), map(&[("a", Value::text("x"))]));
        let check = |planned, applied| check_applied(&Type::Dynamic, &planned, &applied);
        assert_eq!(check(any(open), any(done.clone())), Ok(()));
        assert_eq!(check(any(done), any(map(&[("a", Value::text("y"))]))), Err("a".into()));
    }
}
