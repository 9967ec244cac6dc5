//! What a resource puts out for others to refer to.

use super::{
    Block, Nesting,
    canonical::{Clear, plain},
};
use crate::{cty::Value, hidden::Hidden};
use reconciled_provider::secret_output;
use serde_json::{Map, Value as Json};

/// What of a value others may refer to: everything but the secrets that manifests put into it. Those are for the kinds that the
/// host names; what the provider made and calls sensitive goes out as a secret, and so does a copy of it: a leaf that holds one
/// of `copies`.
///
/// Of what is only read (`made` is not set) no secret goes out: it may be one that a manifest put there.
pub fn outputs(value: &Value, block: &Block, made: bool, copies: &Hidden, clear: &dyn Clear) -> Json {
    let mut out = Map::new();
    for (name, attribute) in &block.attributes {
        let value = value.get(name);
        if value.is_null() || clear.hidden().hides_in(value) || !made && copies.hides_in(value) {
            continue;
        }
        match attribute.has_secret() {
            true if made => out.insert(name.to_string(), secret_output(plain(value, false, clear))),
            true => None,
            false => out.insert(name.to_string(), put_out(value, copies, clear)),
        };
    }
    for (name, nested) in &block.blocks {
        let inner = |value: &Value| outputs(value, &nested.block, made, copies, clear);
        let shown = match value.get(name) {
            Value::Map(all)
                if nested.nesting == Nesting::Map
                    && (clear.hidden().hides_key(all.keys()) || copies.hides_key(all.keys())) =>
            {
                continue;
            }
            Value::Map(all) if nested.nesting == Nesting::Map => {
                Json::Object(all.iter().map(|(key, one)| (key.to_string(), inner(one))).collect())
            }
            one @ Value::Map(_) => inner(one),
            Value::Seq(all) => Json::Array(all.iter().map(inner).collect()),
            _ => continue,
        };
        out.insert(name.to_string(), shown);
    }
    Json::Object(out)
}

fn put_out(value: &Value, copies: &Hidden, clear: &dyn Clear) -> Json {
    match value {
        Value::Seq(all) => Json::Array(all.iter().map(|one| put_out(one, copies, clear)).collect()),
        Value::Map(all) if !copies.hides_key(all.keys()) => Json::Object(
            all.iter().map(|(key, one)| (key.to_string(), put_out(one, copies, clear))).collect(),
        ),
        Value::Dynamic(inner) => put_out(&inner.1, copies, clear),
        one if copies.hides_in(one) => secret_output(plain(one, false, clear)),
        one => plain(one, false, clear),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema::fixture::{Bare, block, map, nested, text},
        wire::message,
    };
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn what_the_provider_made_goes_out_as_a_secret_and_what_was_put_in_not_at_all() {
        let login = nested("login", 1, vec![text("user", "o"), text("password", "cs")]);
        let block = block(vec![text("id", "c"), text("key", "os"), text("token", "cs")], vec![login]);
        let login = map(&[("user", Value::text("web")), ("password", Value::text("made"))]);
        let given = [("id", "x"), ("key", "hunter2"), ("token", "tok-hunter2")];
        let mut fields: Vec<(&str, Value)> = given.map(|(name, text)| (name, Value::text(text))).into();
        fields.push(("login", login));
        let clear = Bare(["hunter2".into()].into_iter().collect());
        let none = Hidden::default();
        let check = |made, expect| assert_eq!(outputs(&map(&fields), &block, made, &none, &clear), expect);
        check(true, json!({ "id": "x", "login": { "user": "web", "password": { "$secret": "made" } } }));
        check(false, json!({ "id": "x", "login": { "user": "web" } }));
    }

    #[test]
    fn a_copy_of_what_the_provider_made_goes_out_as_a_secret_by_itself() {
        let tags = message::Attribute { type_json: br#"["map","string"]"#.to_vec(), ..text("tags", "o") };
        let block = block(vec![text("id", "c"), text("token", "cs"), tags], Vec::new());
        let state = |tags: &[(&str, Value)]| {
            map(&[("id", Value::text("x")), ("token", Value::text("made-by-it")), ("tags", map(tags))])
        };
        let copies = Hidden::default().and_copies(["made-by-it".into()], BTreeSet::new());
        let check = |tags: &[(&str, Value)], made, expect| {
            let found = outputs(&state(tags), &block, made, &copies, &Bare(Hidden::default()));
            assert_eq!(found, expect);
        };
        let token = json!({ "$secret": "made-by-it" });
        let (env, url) = (("env", Value::text("test")), ("url", Value::text("db://u:made-by-it@h")));
        let secret = json!({ "$secret": "db://u:made-by-it@h" });
        let expect = json!({ "id": "x", "token": token, "tags": { "env": "test", "url": secret } });
        check(&[env.clone(), url.clone()], true, expect);
        check(&[env.clone(), url], false, json!({ "id": "x" }));
        check(std::slice::from_ref(&env), false, json!({ "id": "x", "tags": { "env": "test" } }));
        let keyed = json!({ "$secret": { "of-made-by-it": "1" } });
        let expect = json!({ "id": "x", "token": token, "tags": keyed });
        check(&[("of-made-by-it", Value::text("1"))], true, expect);
    }
}
