//! Whose a resource is, written in a tag of it: two instances that declare one resource notice each other.
//!
//! *Guarantees*: a mark is no difference. It is written with what is made and with what is changed for another reason, and is
//! neither declared nor shown as declared; what carries another instance's is never changed without consent. From what is
//! abandoned it goes, and nothing else with it. Types without tags bear none.

use crate::{
    cty::{Type, Value},
    schema::Block,
};
use reconciled_provider::Owner;
use serde_json::{Map, Value as Json};
use std::{collections::BTreeMap, sync::Arc};

/// The tag that says whose a resource is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its key.
    pub key: Arc<str>,
    /// Its value on what is ours.
    pub instance: Arc<str>,
}

/// What clouds call tags.
const PLACES: [&str; 2] = ["tags", "labels"];

impl Mark {
    /// The key where nobody says one: of letters that every cloud takes.
    pub const KEY: &str = "reconciled-instance";

    /// The attribute with the tags of a type, if it has one.
    fn place(block: &Block) -> Option<&'static str> {
        PLACES.into_iter().find(|name| {
            block.attributes.get(*name).is_some_and(|attribute| {
                attribute.is_declarable()
                    && !attribute.has_secret()
                    && attribute.value_type == Type::Map(Type::String.into())
            })
        })
    }

    /// The mark of something.
    pub(crate) fn of<'v>(&self, block: &Block, state: &'v Value) -> Option<&'v str> {
        state.get(Mark::place(block)?).get(&self.key).as_str()
    }

    /// Whose it is.
    pub(crate) fn owner(&self, block: &Block, state: &Value) -> Owner {
        match self.of(block, state) {
            None | Some("") => Owner::Unmarked,
            Some(owner) if *owner == *self.instance => Owner::Ours,
            Some(owner) => Owner::Other(owner.into()),
        }
    }

    /// A declaration with the mark `owner`. Left as it is where there is no place for it, or what is there is ignored.
    pub(crate) fn put(
        &self,
        block: &Block,
        config: Value,
        prior: &Value,
        (owner, ignored): (&str, &[Arc<str>]),
    ) -> Value {
        let Some(place) = Mark::place(block).filter(|place| !ignored.iter().any(|path| **path == **place))
        else {
            return config;
        };
        let Value::Map(mut all) = config else { return config };
        let tags = match all.get(place) {
            Some(Value::Map(tags)) => Some(tags.clone()),
            None | Some(Value::Null) => {
                // What the provider may fill in itself would otherwise go.
                let is_computed = block.attributes.get(place).is_some_and(|attribute| attribute.computed);
                match prior.get(place) {
                    Value::Map(tags) if is_computed => Some(tags.clone()),
                    _ => Some(BTreeMap::new()),
                }
            }
            // Not known yet.
            Some(_) => None,
        };
        if let Some(mut tags) = tags {
            tags.insert(self.key.clone(), Value::text(owner));
            all.insert(place.into(), Value::Map(tags));
        }
        Value::Map(all)
    }

    /// A state as it would be without a mark.
    pub(crate) fn without(&self, block: &Block, state: &Value) -> Value {
        let (Some(place), Value::Map(all)) = (Mark::place(block), state) else { return state.clone() };
        let mut all = all.clone();
        if let Some(Value::Map(tags)) = all.get_mut(place) {
            tags.remove(&self.key);
        }
        Value::Map(all)
    }

    /// A declaration as it would be without a mark.
    pub(crate) fn take_out(&self, block: &Block, config: Value, prior: &Value) -> Value {
        let (Some(place), Value::Map(mut all)) = (Mark::place(block), config.clone()) else { return config };
        let left = self.without(block, prior);
        // Where the provider may fill them in, tags that nobody declares would stay as they are.
        let is_computed = block.attributes.get(place).is_some_and(|attribute| attribute.computed);
        let left = match left.get(place) {
            Value::Map(tags) if tags.is_empty() && !is_computed => Value::Null,
            left => left.clone(),
        };
        all.insert(place.into(), left);
        Value::Map(all)
    }

    /// Makes sure that what is planned differs from what is there in the mark alone, and in what the provider itself says of its
    /// resource.
    ///
    /// Errors: what would change besides.
    pub(crate) fn goes_alone(
        &self,
        block: &Block,
        prior: &Value,
        planned: &Value,
    ) -> Result<(), Vec<String>> {
        let place = Mark::place(block);
        let is_the_providers = |name: &str| {
            let attribute = block.attributes.get(name);
            attribute.is_some_and(|one| {
                one.computed && (!one.is_declarable() || *planned.get(name) == Value::Unknown)
            })
        };
        let differs = |name: &&Arc<str>| {
            let (was, is) = (prior.get(name), planned.get(name));
            let is_tags =
                place == Some(&***name) || block.attributes.get(*name).is_some_and(|one| one.computed);
            was != is && !is_the_providers(name) && !(is_tags && self.is_all_but_ours(was, is))
        };
        let names = block.attributes.keys().chain(block.blocks.keys());
        let others: Vec<String> = names.filter(differs).map(ToString::to_string).collect();
        if others.is_empty() { Ok(()) } else { Err(others) }
    }

    /// True for the same tags without the mark; no tags and nothing are the same.
    fn is_all_but_ours(&self, was: &Value, is: &Value) -> bool {
        let Value::Map(was) = was else { return false };
        let mut left = was.clone();
        left.remove(&self.key);
        match is {
            Value::Map(is) => left == *is,
            Value::Null => left.is_empty(),
            _ => false,
        }
    }

    /// Takes the mark out of what becomes a manifest.
    pub(crate) fn leave_out(&self, block: &Block, attributes: &mut Map<String, Json>) {
        let Some(place) = Mark::place(block) else { return };
        if let Some(Json::Object(tags)) = attributes.get_mut(place)
            && tags.remove(&*self.key).is_some()
            && tags.is_empty()
        {
            attributes.remove(place);
        }
    }

    /// The attribute in which a declaration has the key that is ours alone.
    pub(crate) fn declared_in(&self, block: &Block, config: &Json) -> Option<&'static str> {
        Mark::place(block).filter(|place| config[*place].get(&*self.key).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::fixture::{block, block as block_of, map, text};
    use crate::wire::message;

    fn mark() -> Mark {
        Mark { key: "owner".into(), instance: "one".into() }
    }

    fn tagged(rights: &str) -> Block {
        let mut tags: message::Attribute = text("tags", rights);
        tags.type_json = br#"["map","string"]"#.to_vec();
        block(vec![text("name", "r"), tags], Vec::new())
    }

    #[test]
    fn a_mark_is_put_beside_what_is_declared_and_seen_apart_from_it() {
        let (one, block) = (Value::text("one"), tagged("o"));
        let put = |config: &Value, prior: &Value, ignored: &[Arc<str>]| {
            mark().put(&block, config.clone(), prior, ("one", ignored))
        };
        let team = || map(&[("team", Value::text("web"))]);
        let both = || map(&[("owner", one.clone()), ("team", Value::text("web"))]);
        let of = |tags: Value| map(&[("name", Value::text("a")), ("tags", tags)]);
        assert_eq!(put(&of(team()), &Value::Null, &[]), of(both()));
        assert_eq!(put(&of(Value::Null), &of(team()), &[]), of(map(&[("owner", one.clone())])));
        assert_eq!(put(&of(Value::Unknown), &Value::Null, &[]), of(Value::Unknown));
        assert_eq!(put(&of(team()), &Value::Null, &["tags".into()]), of(team()));
        assert_eq!(mark().without(&block, &of(both())), of(team()));
        assert_eq!(mark().without(&block, &of(map(&[("owner", one.clone())]))), of(map(&[])));
        assert_eq!(mark().owner(&block, &of(both())), Owner::Ours);
        assert_eq!(mark().owner(&block, &of(team())), Owner::Unmarked);
        let other = of(map(&[("owner", Value::text("two"))]));
        assert_eq!(mark().owner(&block, &other), Owner::Other("two".into()));
    }

    #[test]
    fn the_mark_goes_alone_or_not_at_all() {
        let (one, web) = (Value::text("one"), Value::text("web"));
        let all = [("owner", one.clone()), ("team", web.clone())];
        let of = |name: &str, tags: Value, more: Value| {
            map(&[("name", Value::text(name)), ("tags", tags), ("tags_all", more)])
        };
        let mut tags_all: message::Attribute = text("tags_all", "oc");
        tags_all.type_json = br#"["map","string"]"#.to_vec();
        let mut block = tagged("o");
        block.attributes.extend(block_of(vec![tags_all], Vec::new()).attributes);
        let prior = of("a", map(&all), map(&all));
        let check = |planned: Value, expect: Result<(), &[&str]>| {
            let found = mark().goes_alone(&block, &prior, &planned);
            assert_eq!(found, expect.map_err(|names| names.iter().map(ToString::to_string).collect()));
        };
        let team = || map(&all[1..]);
        check(of("a", team(), team()), Ok(()));
        check(of("a", team(), Value::Unknown), Ok(()));
        check(of("b", team(), team()), Err(&["name"]));
        check(of("a", map(&[]), team()), Err(&["tags"]));
        check(of("a", Value::Unknown, team()), Err(&["tags"]));
        check(of("a", team(), map(&[])), Err(&["tags_all"]));

        let only = |rights: &str| {
            let prior = map(&[("name", Value::text("a")), ("tags", map(&all[..1]))]);
            let config = map(&[("name", Value::text("a")), ("tags", map(&all[..1]))]);
            mark().take_out(&tagged(rights), config, &prior).get("tags").clone()
        };
        assert_eq!((only("o"), only("oc")), (Value::Null, map(&[])));
        let untagged = crate::schema::fixture::block(vec![text("name", "r")], Vec::new());
        let config = map(&[("name", Value::text("a"))]);
        assert_eq!(mark().take_out(&untagged, config.clone(), &config), config);
    }

    #[test]
    fn tags_that_the_provider_fills_in_stay_and_what_is_no_place_for_tags_is_left() {
        let prior = map(&[("tags", map(&[("by", Value::text("cloud"))]))]);
        let config = map(&[("tags", Value::Null)]);
        let put = mark().put(&tagged("oc"), config.clone(), &prior, ("one", &[]));
        assert_eq!(put.get("tags"), &map(&[("by", Value::text("cloud")), ("owner", Value::text("one"))]));
        for rights in ["c", "os"] {
            assert_eq!(mark().put(&tagged(rights), config.clone(), &prior, ("one", &[])), config);
        }
        let textual = block(vec![text("tags", "o")], Vec::new());
        assert_eq!(mark().put(&textual, config.clone(), &prior, ("one", &[])), config);
    }
}
