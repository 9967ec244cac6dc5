//! `reconciled/ignore`: what is ignored is asked for as it is.
//!
//! A path is names with dots between them, as a plan shows them: `tags.owner`. A key that is no plain word stands in
//! brackets and quotes, `tags["kubernetes.io/name"]`, and an element of a list by its number, `rule[0].port`.

use crate::{
    cty::{Type, Value},
    schema::{Attribute, Block, Nesting},
};
use reconciled_provider::problem::did_you_mean;
use std::{collections::BTreeMap, sync::Arc};

/// Everything.
const ALL: &str = "*";

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(Arc<str>),
    Index(usize),
}

/// What is wrong with a path, and what may help.
pub type Wrong = (String, Option<String>);

/// Reads a path.
fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (step, after) = match quote {
                Some(quote) => {
                    let (key, after) = inside[1..].split_once(quote)?;
                    (Step::Name(key.into()), after.strip_prefix(']')?)
                }
                None => {
                    let (index, after) = inside.split_once(']')?;
                    (Step::Index(index.parse().ok()?), after)
                }
            };
            steps.push(step);
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            if name.is_empty() {
                return None;
            }
            steps.push(Step::Name(name.into()));
            rest = after;
        }
        match rest.chars().next() {
            None => return Some(steps),
            Some('[') => {}
            Some(_) => rest = rest.strip_prefix('.')?,
        }
    }
}

/// Checks that a path leads somewhere in a type.
///
/// Errors: what it says and the type does not have.
pub fn check_ignored(block: &Block, path: &str) -> Result<(), Wrong> {
    if path == ALL {
        return Ok(());
    }
    let Some(steps) = parse(path) else {
        let hint =
            "write names with dots between them, and other keys in quotes: tags[\"example.com/owner\"]";
        return Err((format!("`{path}` is no path"), Some(hint.into())));
    };
    in_block(&block.attributes, Some(block), &steps)
}

fn in_block(
    attributes: &BTreeMap<Arc<str>, Attribute>,
    block: Option<&Block>,
    steps: &[Step],
) -> Result<(), Wrong> {
    let (name, rest) = match steps {
        [] => return Ok(()),
        [Step::Name(name), rest @ ..] => (name, rest),
        [Step::Index(index), ..] => return Err((format!("there is no [{index}], only names"), None)),
    };
    let nested = block.and_then(|block| block.blocks.get(name));
    match (attributes.get(name), nested) {
        (Some(attribute), _) => match &attribute.nested {
            None => in_type(&attribute.value_type, name, rest),
            Some(nested) => {
                held(nested.nesting, name, rest, &|rest| in_block(&nested.attributes, None, rest))
            }
        },
        (None, Some(nested)) => held(nested.nesting, name, rest, &|rest| {
            in_block(&nested.block.attributes, Some(&nested.block), rest)
        }),
        (None, None) => {
            let blocks = block.into_iter().flat_map(|block| block.blocks.keys());
            Err(unknown(name, attributes.keys().chain(blocks)))
        }
    }
}

fn unknown<'n>(name: &str, names: impl Iterator<Item = &'n Arc<str>>) -> Wrong {
    let near = did_you_mean(name, names.map(|name| &**name));
    (format!("there is no attribute `{name}`"), near.map(|near| format!("did you mean `{near}`?")))
}

fn held(
    nesting: Nesting,
    name: &str,
    steps: &[Step],
    inner: &dyn Fn(&[Step]) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    match (nesting, steps) {
        (_, []) => Ok(()),
        (Nesting::Single | Nesting::Group, rest) => inner(rest),
        (Nesting::Map, [Step::Name(_), rest @ ..]) | (Nesting::List, [Step::Index(_), rest @ ..]) => {
            inner(rest)
        }
        (Nesting::Map, _) => Err((format!("`{name}` has keys and no numbers"), None)),
        (Nesting::List, _) => Err(of_list(name)),
        (Nesting::Set, _) => Err(of_set(name)),
    }
}

fn of_list(name: &str) -> Wrong {
    (format!("`{name}` is a list"), Some(format!("name an element by its number: {name}[0]")))
}

fn of_set(name: &str) -> Wrong {
    let hint = format!("ignore all of it: {name}");
    (format!("`{name}` is a set, whose elements have no names"), Some(hint))
}

fn in_type(of: &Type, name: &str, steps: &[Step]) -> Result<(), Wrong> {
    match (of, steps) {
        (_, []) | (Type::Dynamic, _) => Ok(()),
        (Type::Map(inner), [Step::Name(key), rest @ ..]) => in_type(inner, key, rest),
        (Type::Object(types), [Step::Name(field), rest @ ..]) => match types.get(field) {
            Some(inner) => in_type(inner, field, rest),
            None => Err(unknown(field, types.keys())),
        },
        (Type::List(inner), [Step::Index(_), rest @ ..]) => in_type(inner, name, rest),
        (Type::Tuple(parts), [Step::Index(index), rest @ ..]) => match parts.get(*index) {
            Some(inner) => in_type(inner, name, rest),
            None => Err((format!("`{name}` has {} elements", parts.len()), None)),
        },
        (Type::List(_) | Type::Tuple(_), _) => Err(of_list(name)),
        (Type::Set(_), _) => Err(of_set(name)),
        (Type::Map(_) | Type::Object(_), _) => Err((format!("`{name}` has keys and no numbers"), None)),
        (Type::Bool | Type::Number | Type::String, _) => {
            Err((format!("there is nothing below `{name}`"), None))
        }
    }
}

/// True where a secret may be none of what is declared, because it, or all that holds it, is ignored.
pub fn ignores_secret(block: &Block, ignored: &[Arc<str>]) -> bool {
    let is_secret = |name: &Arc<str>| {
        block.attributes.get(name).is_some_and(Attribute::has_secret)
            || block.blocks.get(name).is_some_and(|nested| nested.block.has_secret())
    };
    ignored.iter().any(|path| {
        &**path == ALL || matches!(parse(path).as_deref(), Some([Step::Name(name), ..]) if is_secret(name))
    })
}

/// The configuration with the values of `prior` at ignored paths, so that the provider plans no change of them.
pub fn leave_ignored(config: Value, prior: &Value, ignored: &[Arc<str>]) -> Value {
    if prior.is_null() {
        return config;
    }
    ignored.iter().fold(config, |config, path| match &**path {
        ALL => config,
        path => match parse(path) {
            Some(steps) => put(config, prior, &steps),
            // Who wrote it was told so.
            None => config,
        },
    })
}

fn put(config: Value, prior: &Value, steps: &[Step]) -> Value {
    let [first, rest @ ..] = steps else { return prior.clone() };
    match (config, prior, first) {
        (Value::Map(mut all), Value::Map(before), Step::Name(name)) => {
            match (before.get(name), rest) {
                (Some(prior), _) => {
                    let config = all.remove(name).unwrap_or(Value::Null);
                    all.insert(name.clone(), put(config, prior, rest));
                }
                // A key of a map that is not there and ignored stays away.
                (None, []) => {
                    all.remove(name);
                }
                (None, _) => {}
            }
            Value::Map(all)
        }
        // A map that is not declared gets the one key.
        (Value::Null, Value::Map(before), Step::Name(name)) if rest.is_empty() => match before.get(name) {
            Some(prior) => Value::Map([(name.clone(), prior.clone())].into()),
            None => Value::Null,
        },
        (Value::Seq(mut all), Value::Seq(before), Step::Index(index)) => {
            if let (Some(config), Some(prior)) = (all.get_mut(*index), before.get(*index)) {
                *config = put(std::mem::replace(config, Value::Null), prior, rest);
            }
            Value::Seq(all)
        }
        (Value::Dynamic(inner), Value::Dynamic(before), _) => {
            Value::Dynamic(Box::new((inner.0, put(inner.1, &before.1, steps))))
        }
        (config, _, _) => config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{schema::Schema, wire::message};

    fn map(fields: &[(&str, Value)]) -> Value {
        Value::Map(fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    #[test]
    fn ignored_paths_are_as_they_were() {
        let tags = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(&str, Value)> =
                pairs.iter().map(|(key, value)| (*key, Value::text(value))).collect();
            map(&pairs)
        };
        let config = || map(&[("name", Value::text("new")), ("tags", tags(&[("a", "1"), ("b", "2")]))]);
        let prior = map(&[("name", Value::text("old")), ("tags", tags(&[("a", "9"), ("c", "3")]))]);
        let check = |paths: &[&str], expect: Value| {
            let paths: Vec<Arc<str>> = paths.iter().map(|path| Arc::from(*path)).collect();
            assert!(leave_ignored(config(), &prior, &paths) == expect, "{paths:?}");
        };
        check(&[], config());
        check(&["name"], map(&[("name", Value::text("old")), ("tags", tags(&[("a", "1"), ("b", "2")]))]));
        check(&["tags"], map(&[("name", Value::text("new")), ("tags", tags(&[("a", "9"), ("c", "3")]))]));
        check(
            &["tags.a", "tags.b", "tags.c"],
            map(&[("name", Value::text("new")), ("tags", tags(&[("a", "9"), ("c", "3")]))]),
        );
        assert!(leave_ignored(config(), &Value::Null, &["name".into()]) == config());
    }

    #[test]
    fn a_path_has_names_keys_and_numbers() {
        let (name, index) = (|name: &str| Step::Name(name.into()), Step::Index);
        let check = |path: &str, expect: Option<Vec<Step>>| assert_eq!(parse(path), expect, "{path}");
        check("tags", Some(vec![name("tags")]));
        check("tags.owner", Some(vec![name("tags"), name("owner")]));
        check(r#"tags["a.b/c"]"#, Some(vec![name("tags"), name("a.b/c")]));
        check("tags['a.b'].c", Some(vec![name("tags"), name("a.b"), name("c")]));
        check("rule[0].port", Some(vec![name("rule"), index(0), name("port")]));
        for wrong in ["", ".", "a.", "a..b", "a[", "a[]", "a[x]", r#"a["b]"#, r#"a["b"]c"#, "a[-1]"] {
            check(wrong, None);
        }
    }

    #[test]
    fn keys_with_dots_and_elements_are_left_as_they_were() {
        let text = Value::text;
        let of = |key: &str, port: &str| {
            map(&[
                ("rule", Value::Seq(vec![map(&[("port", text(port)), ("name", text(port))])])),
                ("tags", map(&[("a.b", text(key)), ("c", text(key))])),
            ])
        };
        let paths = [Arc::from(r#"tags["a.b"]"#), Arc::from("rule[0].port"), Arc::from("rule[7].port")];
        let expect = map(&[
            ("rule", Value::Seq(vec![map(&[("port", text("1")), ("name", text("2"))])])),
            ("tags", map(&[("a.b", text("x")), ("c", text("y"))])),
        ]);
        assert!(leave_ignored(of("y", "2"), &of("x", "1"), &paths) == expect);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_told() {
        let attribute = |name: &str, of: &str| message::Attribute {
            name: name.into(),
            type_json: of.as_bytes().to_vec(),
            optional: true,
            ..message::Attribute::default()
        };
        let nested = |name: &str, nesting| message::NestedBlock {
            type_name: name.into(),
            nesting,
            block: Some(message::Block {
                attributes: vec![attribute("port", r#""number""#)],
                ..Default::default()
            }),
            ..Default::default()
        };
        let block = message::Block {
            attributes: vec![
                attribute("name", r#""string""#),
                attribute("tags", r#"["map","string"]"#),
                attribute("words", r#"["set","string"]"#),
            ],
            block_types: vec![nested("rule", 2), nested("label", 3)],
            ..Default::default()
        };
        let schema = Schema::of(message::Schema { version: 0, block: Some(block) }).unwrap();
        for right in ["*", "name", "tags", r#"tags["a.b"]"#, "tags.a", "rule", "rule[0]", "rule[0].port"] {
            assert_eq!(check_ignored(&schema.block, right), Ok(()), "{right}");
        }
        let wrong = |path: &str, message: &str, hint: Option<&str>| {
            let expect = Err((message.to_string(), hint.map(String::from)));
            assert_eq!(check_ignored(&schema.block, path), expect, "{path}");
        };
        wrong("tgas", "there is no attribute `tgas`", Some("did you mean `tags`?"));
        wrong("tags.a.b", "there is nothing below `a`", None);
        wrong("rule.port", "`rule` is a list", Some("name an element by its number: rule[0]"));
        wrong("rule[0].prt", "there is no attribute `prt`", Some("did you mean `port`?"));
        wrong("label.x", "`label` is a set, whose elements have no names", Some("ignore all of it: label"));
        wrong("words[0]", "`words` is a set, whose elements have no names", Some("ignore all of it: words"));
    }
}
