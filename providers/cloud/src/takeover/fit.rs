//! The declaration of what exists: as much of its state as a provider accepts and plans no change for.
//!
//! A state holds what was declared, what was left to the provider and what both left empty, and does not tell them
//! apart. So everything that may be declared and says something is, then what the provider refuses is left out, and the
//! provider's own plan tells what else is needed.

use super::{elsewhere::LeftToOthers, marked::Marked};
use crate::{
    catalog::ResourceType,
    change,
    cty::{Value, write_json},
    hidden::Hidden,
    plugin::{Known, Plugin},
    schema::{Attribute, Block, NestedBlock},
};
use reconciled_provider::Error;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What the large clouds give, though a person could: declared, it would be in the way of what it follows from.
const GIVEN: [&str; 3] = ["id", "arn", "tags_all"];

/// How often what the provider plans is put right.
const ROUNDS: usize = 4;

/// A declaration that changes nothing.
pub(super) struct Fit {
    /// What is declared.
    pub(super) config: Value,
    /// What is left as it is, since it is secret.
    pub(super) ignore: Vec<Arc<str>>,
    /// Secrets that have to be declared, by attribute, in clear.
    pub(super) secrets: BTreeMap<Arc<str>, Arc<str>>,
    /// What is there and was left to others.
    pub(super) left: BTreeSet<Arc<str>>,
}

/// Finds one. What stands `elsewhere` too, as rules of their own do, is left to who declares it there, as far as the
/// provider lets it be.
///
/// Errors: what the provider says of all that was tried, or what its plan would change.
pub(super) async fn fit(
    plugin: &Plugin,
    of: &ResourceType,
    known: &Known,
    marked: &Marked,
    elsewhere: &LeftToOthers,
) -> Result<Fit, Error> {
    let state = &known.state;
    let block = &of.schema.block;
    let hidden = marked.values.and_copies(change::secrets(block, state), BTreeSet::new());
    let mut ignore = ignored(block, state, marked);
    let names = block.attributes.keys().chain(block.blocks.keys());
    let open = |name: &&Arc<str>| is_declarable(block, name);
    let may_be: BTreeSet<Arc<str>> =
        names.clone().filter(open).filter(|name| !ignore.contains(*name)).cloned().collect();
    // The versioning of a bucket is a flag in a block of old, and a word in the resource that took its place.
    let is_theirs = |name: &Arc<str>| {
        elsewhere.has(name) || elsewhere.is_named && block.blocks.get(name).is_some_and(|b| b.deprecated)
    };
    let theirs: BTreeSet<Arc<str>> =
        may_be.iter().filter(|name| is_theirs(name) && !is_zero(state.get(name))).cloned().collect();
    // Whether a provider fills in blocks, no schema says: its plan does.
    let is_given =
        |name: &Arc<str>| GIVEN.contains(&&**name) && is_computed(block, name) || theirs.contains(name);
    let says_something =
        |name: &&Arc<str>| !is_zero(state.get(name)) && !is_deprecated(block, name) && !is_given(name);
    let chosen: BTreeSet<Arc<str>> =
        may_be.iter().filter(|name| is_required(block, name) || says_something(name)).cloned().collect();
    let written = |chosen: &BTreeSet<Arc<str>>| config(block, state, &|name| chosen.contains(name));
    let valid = |chosen| accepted(plugin, of, state, chosen, &hidden);
    let mut chosen = match valid(chosen.clone()).await {
        Ok(chosen) => chosen,
        // A secret may be what is missing: one that can be named, or all of them; or what others declare.
        Err(refusal) => {
            let can_be_named =
                |name: &&Arc<str>| is_nameable(block, marked, name) && state.get(name).as_str().is_some();
            let nameable: Vec<Arc<str>> = ignore.iter().filter(can_be_named).cloned().collect();
            let each = nameable.iter().map(|name| vec![name.clone()]);
            let mut found = None;
            let of_others: Option<Vec<Arc<str>>> =
                (!theirs.is_empty()).then(|| theirs.iter().cloned().collect());
            for more in each.chain((nameable.len() > 1).then(|| nameable.clone())).chain(of_others) {
                let with = chosen.iter().chain(&more).cloned().collect();
                if let Ok(valid) = valid(with).await
                    && more.iter().all(|name| valid.contains(name))
                {
                    found = Some(valid);
                    break;
                }
            }
            found.ok_or(refusal)?
        }
    };
    ignore.retain(|name| !chosen.contains(name));
    let mut tried: BTreeSet<Arc<str>> = BTreeSet::new();
    for _ in 0..ROUNDS {
        let config = written(&chosen);
        let asked = change::leave_ignored(config.clone(), state, &ignore);
        let planned = plugin.plan_leaving(of, known, (&asked, &ignore), &hidden).await?;
        if planned.state == *state && planned.replace.is_empty() {
            plugin.validate(of, &config, &hidden).await?;
            let secrets = secrets(block, &config, marked);
            let open = without(&config, &secrets);
            let hint = "write its manifest by hand, with {secret: NAME} in that place";
            if would_show(block, &open) {
                let text = "a secret within one of its blocks has to be declared";
                return Err(Error::invalid(text).hint(hint));
            }
            let written = serde_json::from_slice(&write_json(&open, &of.schema.value_type));
            let repeated = || repeats(&open, &hidden).map(|name| name.to_string());
            if let Some(name) = marked.in_what_is_written(&written.unwrap_or_default()).or_else(repeated) {
                let text = format!("`{name}` has to be declared, and holds what is secret");
                return Err(Error::invalid(text).hint(hint));
            }
            let left = theirs.iter().filter(|name| !chosen.contains(*name)).cloned().collect();
            return Ok(Fit { config, ignore, secrets, left });
        }
        let differs = |name: &&Arc<str>| planned.state.get(name) != state.get(name);
        let differing: Vec<&Arc<str>> = names.clone().filter(differs).collect();
        let mut moved = false;
        let may_change = |name: &&Arc<str>| may_be.contains(*name) && !is_required(block, name);
        for name in differing.iter().copied().filter(may_change) {
            if !tried.insert(name.clone()) {
                continue;
            }
            moved = true;
            if !chosen.remove(name) && !state.get(name).is_null() {
                chosen.insert(name.clone());
            }
        }
        if !moved {
            let words: Vec<&str> = differing.iter().map(|name| &***name).collect();
            return Err(Error::invalid(format!("the provider would change {}", words.join(", "))));
        }
    }
    Err(Error::invalid("the provider would change it whatever is declared"))
}

/// As much of what was `chosen` as the provider accepts: what it fills in itself may contradict what was declared.
///
/// Errors: what it says last, where it accepts nothing.
async fn accepted(
    plugin: &Plugin,
    of: &ResourceType,
    state: &Value,
    mut chosen: BTreeSet<Arc<str>>,
    hidden: &Hidden,
) -> Result<BTreeSet<Arc<str>>, Error> {
    let block = &of.schema.block;
    let written = |chosen: &BTreeSet<Arc<str>>| config(block, state, &|name| chosen.contains(name));
    let Err(mut refusal) = plugin.validate(of, &written(&chosen), hidden).await else { return Ok(chosen) };
    let mut spare: Vec<Arc<str>> = chosen.iter().filter(|name| !is_required(block, name)).cloned().collect();
    spare.sort_by_key(|name| !is_computed(block, name));
    for name in spare {
        chosen.remove(&name);
        match plugin.validate(of, &written(&chosen), hidden).await {
            Ok(_) => return Ok(chosen),
            Err(error) if error.message == refusal.message => drop(chosen.insert(name)),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// Optional parts with secrets: what is not declared there stays as it is.
fn ignored(block: &Block, state: &Value, marked: &Marked) -> Vec<Arc<str>> {
    let is_marked = |name: &Arc<str>| marked.names().contains(name);
    let attributes = block.attributes.iter().filter(|(name, attribute)| {
        (attribute.has_secret() || is_marked(name))
            && attribute.is_declarable()
            && !attribute.required
            && !attribute.write_only
    });
    let blocks = block
        .blocks
        .iter()
        .filter(|(name, nested)| (nested.block.has_secret() || is_marked(name)) && nested.min == 0);
    let names = attributes.map(|(name, _)| name).chain(blocks.map(|(name, _)| name));
    names.filter(|name| !is_zero(state.get(name))).cloned().collect()
}

/// True where all of an attribute is a secret, which a manifest can name.
fn is_nameable(block: &Block, marked: &Marked, name: &str) -> bool {
    block.attributes.get(name).is_some_and(|attribute| attribute.has_secret() || marked.is_all_of(name))
}

/// Attributes that are declared and secret.
fn secrets(block: &Block, config: &Value, marked: &Marked) -> BTreeMap<Arc<str>, Arc<str>> {
    let names = block.attributes.keys().filter(|name| is_nameable(block, marked, name));
    names.filter_map(|name| Some((name.clone(), Arc::from(config.get(name).as_str()?)))).collect()
}

/// What would stand in the manifest in clear.
fn without(config: &Value, named: &BTreeMap<Arc<str>, Arc<str>>) -> Value {
    let Value::Map(fields) = config else { return config.clone() };
    let rest = fields.iter().filter(|(name, _)| !named.contains_key(*name));
    Value::Map(rest.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// True when a secret of the schema would.
fn would_show(block: &Block, open: &Value) -> bool {
    !change::secrets(block, open).is_empty()
}

/// What repeats a secret that is known from elsewhere.
fn repeats<'v>(open: &'v Value, hidden: &Hidden) -> Option<&'v Arc<str>> {
    let Value::Map(fields) = open else { return None };
    fields.iter().find(|(_, value)| hidden.hides_in(value)).map(|(name, _)| name)
}

fn is_declarable(block: &Block, name: &str) -> bool {
    match block.attributes.get(name) {
        Some(attribute) => attribute.is_declarable() && !attribute.write_only,
        None => block.blocks.contains_key(name),
    }
}

fn is_required(block: &Block, name: &str) -> bool {
    match block.attributes.get(name) {
        Some(attribute) => attribute.required,
        None => block.blocks.get(name).is_some_and(|nested| nested.min > 0),
    }
}

fn is_computed(block: &Block, name: &str) -> bool {
    block.attributes.get(name).is_some_and(|attribute| attribute.computed)
}

fn is_deprecated(block: &Block, name: &str) -> bool {
    block.attributes.get(name).is_some_and(|attribute| attribute.deprecated)
}

/// What the old SDK cannot tell from nothing.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Unknown | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_str() == "0",
        Value::String(text) => text.is_empty(),
        Value::Seq(all) => all.iter().all(is_zero),
        Value::Map(all) => all.values().all(is_zero),
        Value::Dynamic(inner) => is_zero(&inner.1),
    }
}

/// What of a state is declared, where `is_chosen` says so; all of what is below that says something.
fn config(block: &Block, state: &Value, is_chosen: &dyn Fn(&str) -> bool) -> Value {
    let mut fields = BTreeMap::new();
    for (name, attribute) in &block.attributes {
        let is_declared = is_chosen(name) && attribute.is_declarable() && !attribute.write_only;
        let value = if is_declared { of_attribute(attribute, state.get(name)) } else { Value::Null };
        fields.insert(name.clone(), value);
    }
    for (name, nested) in &block.blocks {
        let value = if is_chosen(name) { of_block(nested, state.get(name)) } else { nested.empty() };
        fields.insert(name.clone(), value);
    }
    Value::Map(fields)
}

fn of_attribute(attribute: &Attribute, value: &Value) -> Value {
    let Some(nested) = &attribute.nested else { return value.clone() };
    let block = Block { attributes: nested.attributes.clone(), ..Block::default() };
    nested.nesting.each(value, &|one| config(&block, one, &inner(&block, one)))
}

fn of_block(nested: &NestedBlock, value: &Value) -> Value {
    if value.is_null() {
        return nested.empty();
    }
    let block = &nested.block;
    nested.nesting.each(value, &|one| config(block, one, &inner(block, one)))
}

fn inner<'a>(block: &'a Block, one: &'a Value) -> impl Fn(&str) -> bool + 'a {
    move |name| is_required(block, name) || !is_zero(one.get(name)) && !is_deprecated(block, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema::fixture::{self, map},
        wire::message::NestedBlock,
    };

    /// `key` of its own, and `login` with `user` and `password` that has to be there.
    fn block() -> Block {
        let login =
            fixture::nested("login", 1, vec![fixture::text("user", "r"), fixture::text("password", "rs")]);
        let login = NestedBlock { min_items: 1, ..login };
        fixture::block(vec![fixture::text("key", "rs")], vec![login])
    }

    #[test]
    fn a_secret_that_cannot_be_named_apart_would_show() {
        let block = block();
        let text = |text: &str| Value::String(text.into());
        let config = |password: Value| {
            map(&[("key", text("k")), ("login", map(&[("user", text("u")), ("password", password)]))])
        };
        let state = config(text("p"));
        let named = secrets(&block, &state, &Marked::default());
        assert_eq!(named.keys().map(|name| &**name).collect::<Vec<_>>(), ["key"]);
        assert!(would_show(&block, &without(&state, &named)));
        let bare = config(Value::Null);
        assert!(!would_show(&block, &without(&bare, &named)));
        assert!(would_show(&block, &without(&bare, &BTreeMap::new())));
    }
}
