//! How a section is decoded: with all its problems, and what of it may be written in two ways.

use reconciled_provider::{Node, Problem, SourceFile, yaml::NodeValue};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// Accepts anything and keeps nothing: the value is decoded apart, from its node.
pub(super) type DecodedApart = Option<IgnoredAny>;

/// Decodes a mapping and notes every problem of every entry.
pub(super) fn decode_all<T: DeserializeOwned>(
    node: &Node,
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let (value, found) = node.decode_all::<T>(file);
    problems.extend(found);
    value
}

/// The elements of the list under `key`; none where there is no such key, and a problem where it is no list.
pub(super) fn list<'a>(
    root: &'a Node,
    key: &str,
    file: &SourceFile,
    problems: &mut Vec<Problem>,
) -> &'a [Node] {
    let Some(node) = root.get(key).filter(|node| !node.is_null()) else { return &[] };
    if !matches!(node.value, NodeValue::Seq(_)) {
        let message = format!("expected a list under `{key}`, found {}", node.describe());
        problems.push(Problem::error(message).at(file, node.span));
    }
    node.elements()
}

/// One value or a list of them.
pub(super) struct OneOrMore<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de> + From<String>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMore<T>, D::Error> {
        struct EitherVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + From<String>> Visitor<'de> for EitherVisitor<T> {
            type Value = OneOrMore<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of texts")
            }
            fn visit_str<E>(self, text: &str) -> Result<OneOrMore<T>, E> {
                Ok(OneOrMore(vec![T::from(text.to_string())]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<OneOrMore<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = access.next_element()? {
                    all.push(one);
                }
                Ok(OneOrMore(all))
            }
        }
        deserializer.deserialize_any(EitherVisitor(PhantomData))
    }
}
