//! `reconciled/ignore`: what is ignored is asked for as it is.

use crate::cty::Value;
use std::sync::Arc;

/// The configuration with the values of `prior` at ignored paths, so that the provider plans no change of them.
///
/// A path is names and keys with dots between them; `*` is everything.
pub fn leave_ignored(config: Value, prior: &Value, ignored: &[Arc<str>]) -> Value {
    if prior.is_null() {
        return config;
    }
    ignored.iter().fold(config, |config, path| match &**path {
        "*" => config,
        path => {
            let steps: Vec<&str> = path.split('.').collect();
            put(config, prior, &steps)
        }
    })
}

fn put(config: Value, prior: &Value, steps: &[&str]) -> Value {
    let [first, rest @ ..] = steps else { return prior.clone() };
    match (config, prior) {
        (Value::Map(mut all), Value::Map(before)) => {
            match (before.get(*first), rest) {
                (Some(prior), _) => {
                    let config = all.remove(*first).unwrap_or(Value::Null);
                    all.insert((*first).into(), put(config, prior, rest));
                }
                // A key of a map that is not there and ignored stays away.
                (None, []) => {
                    all.remove(*first);
                }
                (None, _) => {}
            }
            Value::Map(all)
        }
        // A map that is not declared gets the one key.
        (Value::Null, Value::Map(before)) if rest.is_empty() => match before.get(*first) {
            Some(prior) => Value::Map([((*first).into(), prior.clone())].into()),
            None => Value::Null,
        },
        (config, _) => config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
