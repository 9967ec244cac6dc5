//! What a field may be besides one plain value: [`At`] keeps its place, [`TextOr`], [`TextOrList`] and [`TextListOr`] have a short form,
//! [`Each`] goes on behind a bad element.
//!
//! The decoder knows them by their names, which no struct of a kind can have.

use super::node::Span;
use crate::reference::Reference;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::{fmt, marker::PhantomData};

pub(super) const AT: &str = "$reconciled::At";
pub(super) const TEXT_OR: &str = "$reconciled::TextOr";
pub(super) const TEXT_OR_LIST: &str = "$reconciled::TextOrList";
pub(super) const TEXT_LIST_OR: &str = "$reconciled::TextListOr";
pub(super) const UNSHOWN: &str = "$reconciled::Unshown";
pub(super) const FLAG: &str = "$reconciled::Flag";

/// Reads with `visitor` what is no secret but has one in its place when it is written wrongly: whatever is wrong with it, the
/// problem says what was expected, and repeats neither the value nor its line.
///
/// ```
/// use reconciled_provider::yaml::{parse, unshown, Limits, SourceFile};
/// use serde::{Deserialize, Deserializer, de::{self, Visitor}};
/// # use std::fmt;
/// struct Name(String);
/// impl<'de> Deserialize<'de> for Name {
///     fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
///         struct NameVisitor;
///         impl<'de> Visitor<'de> for NameVisitor {
///             type Value = Name;
///             fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///                 f.write_str("a name in small letters")
///             }
///             fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
///                 let is_name = text.chars().all(|c| c.is_ascii_lowercase());
///                 is_name.then(|| Name(text.into())).ok_or_else(|| E::custom(format!("`{text}` is no name")))
///             }
///         }
///         unshown(deserializer, NameVisitor)
///     }
/// }
/// let file = SourceFile::new("z.yaml", "S3CR3T\n");
/// let (name, problems) = parse(&file, Limits::default()).unwrap()[0].decode::<Name>(&file);
/// assert!(name.is_none());
/// assert_eq!(problems[0].to_string(), "error: expected a name in small letters\n  --> z.yaml:1:1");
/// ```
pub fn unshown<'de, D: Deserializer<'de>, V: Visitor<'de>>(
    deserializer: D,
    visitor: V,
) -> Result<V::Value, D::Error> {
    deserializer.deserialize_newtype_struct(UNSHOWN, visitor)
}

/// Reads a yes or no that may also stand in quotes: as a value of an annotation it has to, and who writes the same word as a field
/// writes it alike.
///
/// ```
/// use reconciled_provider::yaml::{flag, parse, Limits, SourceFile};
/// #[derive(serde::Deserialize)]
/// struct Record { #[serde(default, deserialize_with = "flag")] suspend: bool }
/// let suspends = |text: &str| {
///     let file = SourceFile::new("z.yaml", text);
///     parse(&file, Limits::default()).unwrap()[0].decode::<Record>(&file).0.map(|record| record.suspend)
/// };
/// assert_eq!(suspends("suspend: true"), Some(true));
/// assert_eq!(suspends("suspend: 'false'"), Some(false));
/// assert_eq!(suspends("suspend: 'yes'"), None);
/// ```
pub fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct FlagVisitor;
    impl Visitor<'_> for FlagVisitor {
        type Value = bool;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("`true` or `false`")
        }
        fn visit_bool<E>(self, flag: bool) -> Result<bool, E> {
            Ok(flag)
        }
    }
    deserializer.deserialize_newtype_struct(FLAG, FlagVisitor)
}

/// A value and where it was written, with the references in it that are not known yet.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    /// Where the value begins.
    pub span: Span,
    /// References inside the value that had no value yet; the texts still hold their `${…}`.
    pub unknown: Vec<Reference>,
    /// The value.
    pub value: T,
}

/// What may be written as a text or as a mapping. Any scalar is a text, as it was written: `1.10` and `true` too.
///
/// ```
/// use reconciled_provider::yaml::{parse, Each, Limits, SourceFile, TextOr};
/// use std::collections::BTreeMap;
/// let file = SourceFile::new("z.yaml", "[1.10, {priority: 10}]\n");
/// let node = parse(&file, Limits::default()).unwrap().remove(0);
/// let values = node.decode::<Each<TextOr<BTreeMap<String, String>>>>(&file).0.unwrap();
/// assert_eq!(values[0].value, TextOr::Text("1.10".into()));
/// assert_eq!(values[1].value, TextOr::Map([("priority".into(), "10".into())].into()));
/// ```
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema)]
#[schemars(untagged)]
pub enum TextOr<T> {
    /// A scalar.
    Text(String),
    /// A mapping.
    Map(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextOr<T>, D::Error> {
        struct EitherVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EitherVisitor<T> {
            type Value = TextOr<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a mapping")
            }
            fn visit_str<E>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text.into()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, access: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(access)).map(TextOr::Map)
            }
        }
        deserializer.deserialize_newtype_struct(TEXT_OR, EitherVisitor(PhantomData))
    }
}

/// Text, or a list of texts. Scalars of any kind are taken as they were written, as by [`TextOr`].
///
/// ```
/// use reconciled_provider::yaml::{parse, Limits, SourceFile, TextOrList};
/// let file = SourceFile::new("z.yaml", "[1.10, true]\n");
/// let node = parse(&file, Limits::default()).unwrap().remove(0);
/// let texts: TextOrList = node.decode(&file).0.unwrap();
/// assert_eq!(texts, TextOrList::List(vec!["1.10".into(), "true".into()]));
/// assert!(texts.iter().eq(TextOrList::Text("1.10, true".into()).iter()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema)]
#[schemars(untagged)]
pub enum TextOrList {
    /// A scalar.
    Text(String),
    /// A list of scalars.
    List(Vec<String>),
}

impl TextOrList {
    /// Each text; one text is parted at its commas.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (list, text) = match self {
            TextOrList::List(list) => (&list[..], ""),
            TextOrList::Text(text) => (&[][..], text.as_str()),
        };
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        list.iter().map(String::as_str).chain(parts)
    }
    /// All of it as one text: as it was written, or the list with commas.
    pub fn joined(&self) -> String {
        match self {
            TextOrList::List(list) => list.join(","),
            TextOrList::Text(text) => text.clone(),
        }
    }
}

impl<'de> Deserialize<'de> for TextOrList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextOrList, D::Error> {
        struct EitherVisitor;
        impl<'de> Visitor<'de> for EitherVisitor {
            type Value = TextOrList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a list of texts")
            }
            fn visit_str<E>(self, text: &str) -> Result<TextOrList, E> {
                Ok(TextOrList::Text(text.into()))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<TextOrList, A::Error> {
                let mut list = Vec::new();
                while let Some(text) = access.next_element()? {
                    list.push(text);
                }
                Ok(TextOrList::List(list))
            }
        }
        deserializer.deserialize_newtype_struct(TEXT_OR_LIST, EitherVisitor)
    }
}

/// Text, a list of texts, or a mapping. Scalars of any kind are taken as they were written, as by [`TextOr`].
///
/// ```
/// use reconciled_provider::yaml::{parse, Each, Limits, SourceFile, TextListOr};
/// use std::collections::BTreeMap;
/// let file = SourceFile::new("z.yaml", "[1.10, [a, 2], {k: rsa}]\n");
/// let node = parse(&file, Limits::default()).unwrap().remove(0);
/// let values = node.decode::<Each<TextListOr<BTreeMap<String, String>>>>(&file).0.unwrap();
/// assert_eq!(values[0].value, TextListOr::Text("1.10".into()));
/// assert_eq!(values[1].value, TextListOr::List(vec!["a".into(), "2".into()]));
/// assert_eq!(values[2].value, TextListOr::Map([("k".into(), "rsa".into())].into()));
/// ```
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema)]
#[schemars(untagged)]
pub enum TextListOr<T> {
    /// A scalar.
    Text(String),
    /// A list of scalars.
    List(Vec<String>),
    /// A mapping.
    Map(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextListOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextListOr<T>, D::Error> {
        struct AnyVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for AnyVisitor<T> {
            type Value = TextListOr<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, a list of texts or a mapping")
            }
            fn visit_str<E>(self, text: &str) -> Result<TextListOr<T>, E> {
                Ok(TextListOr::Text(text.into()))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<TextListOr<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(text) = access.next_element()? {
                    list.push(text);
                }
                Ok(TextListOr::List(list))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, access: A) -> Result<TextListOr<T>, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(access)).map(TextListOr::Map)
            }
        }
        deserializer.deserialize_newtype_struct(TEXT_LIST_OR, AnyVisitor(PhantomData))
    }
}

/// A list whose bad elements are reported while the good ones stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Each<T>(pub Vec<At<T>>);

impl<T> Default for Each<T> {
    fn default() -> Each<T> {
        Each(Vec::new())
    }
}

impl<T> std::ops::Deref for Each<T> {
    type Target = [At<T>];
    fn deref(&self) -> &[At<T>] {
        &self.0
    }
}

impl<T: schemars::JsonSchema> schemars::JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

impl<T: schemars::JsonSchema> schemars::JsonSchema for Each<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Vec::<T>::schema_name()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<T>::json_schema(generator)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<At<T>, D::Error> {
        struct AtVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for AtVisitor<T> {
            type Value = At<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its position")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<At<T>, A::Error> {
                let missing = || de::Error::custom("a position is only known when decoding a node");
                let span: u64 = access.next_entry::<&str, _>()?.ok_or_else(missing)?.1;
                let value = access.next_entry::<&str, _>()?.ok_or_else(missing)?.1;
                let unknown: Vec<Reference> = access.next_entry::<&str, _>()?.ok_or_else(missing)?.1;
                Ok(At { span: Span { line: (span >> 32) as u32, column: span as u32 }, unknown, value })
            }
        }
        deserializer.deserialize_struct(AT, &["span", "value", "unknown"], AtVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Each<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Each<T>, D::Error> {
        struct EachVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EachVisitor<T> {
            type Value = Each<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Each<T>, A::Error> {
                let mut good = Vec::with_capacity(access.size_hint().unwrap_or(0));
                loop {
                    match access.next_element::<At<T>>() {
                        Ok(Some(element)) => good.push(element),
                        Ok(None) => return Ok(Each(good)),
                        // Already reported by the sequence, which goes on behind the bad element.
                        Err(_) => {}
                    }
                }
            }
        }
        deserializer.deserialize_seq(EachVisitor(PhantomData))
    }
}
