//! Nodes → typed structs, collecting every problem instead of stopping at the first.
//!
//! A bad element of an [`Each`](super::Each) is a problem of its own while the good ones stand. Unknown fields are refused for every struct, with "did you mean".

use super::{
    node::{Node, NodeValue, ScalarKind, SourceFile, Span},
    scalar::{Resolved, resolve},
    typed::{AT, FLAG, TEXT_LIST_OR, TEXT_OR, TEXT_OR_LIST, UNSHOWN},
};
use crate::{
    problem::{Problem, did_you_mean},
    reference::Reference,
};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use std::{cell::RefCell, fmt};

impl Node {
    /// Decodes the node as a `T`.
    ///
    /// Returns the value, if there is one, and all problems: unknown fields and bad elements of an [`Each`]
    /// are problems beside a value; a wrong type or a missing field leaves no value.
    ///
    /// ```
    /// use reconciled_provider::yaml::{parse, Each, Limits, SourceFile};
    /// #[derive(serde::Deserialize)]
    /// struct Zone { zone: String, #[serde(default)] ttls: Each<u32> }
    /// let file = SourceFile::new("z.yaml", "zone: a.example\nttls: [60, x, 300]\nzoen: b\n");
    /// let node = parse(&file, Limits::default()).unwrap().remove(0);
    /// let (zone, problems) = node.decode::<Zone>(&file);
    /// assert_eq!(zone.unwrap().ttls.len(), 2);
    /// assert_eq!(problems.len(), 2);
    /// ```
    pub fn decode<T: DeserializeOwned>(&self, file: &SourceFile) -> (Option<T>, Vec<Problem>) {
        let state = State { problems: RefCell::default(), references: RefCell::default() };
        let result = T::deserialize(Decoder { node: self, state: &state });
        let value = match result {
            Ok(value) => Some(value),
            Err(error) => {
                state.report(&error, self.span);
                None
            }
        };
        let mut found = state.problems.into_inner();
        found.sort_by_key(|found| found.span);
        (value, found.into_iter().map(|found| found.into_problem(file)).collect())
    }
}

/// What is wrong somewhere.
struct Wrong {
    span: Span,
    message: String,
    hint: Option<String>,
    /// The line must not be repeated.
    is_unshown: bool,
}

impl Wrong {
    fn into_problem(self, file: &SourceFile) -> Problem {
        let problem = Problem { hint: self.hint, ..Problem::error(self.message) }.at(file, self.span);
        if self.is_unshown { problem.without_line() } else { problem }
    }
}

struct State {
    problems: RefCell<Vec<Wrong>>,
    references: RefCell<Vec<Reference>>,
}

impl State {
    fn report(&self, error: &DecodeError, fallback: Span) {
        // What refuses a field that is not its own says so after it was reported with what was meant.
        let is_told = |told: &Wrong| told.message == error.message;
        if error.reported || error.is_unknown_field && self.problems.borrow().iter().any(is_told) {
            return;
        }
        let (span, message) = (error.span.unwrap_or(fallback), error.message.clone());
        let (hint, is_unshown) = (error.hint.clone(), error.is_unshown);
        self.problems.borrow_mut().push(Wrong { span, message, hint, is_unshown });
    }
}

/// Why decoding stopped, and where.
#[derive(Debug)]
pub struct DecodeError {
    span: Option<Span>,
    message: String,
    hint: Option<String>,
    /// The field that is missing.
    missing: Option<&'static str>,
    reported: bool,
    is_unknown_field: bool,
    is_unshown: bool,
}

impl DecodeError {
    fn new(span: Option<Span>, message: String) -> DecodeError {
        DecodeError {
            span,
            message,
            hint: None,
            missing: None,
            reported: false,
            is_unknown_field: false,
            is_unshown: false,
        }
    }
    fn or_at(mut self, span: Span) -> DecodeError {
        self.span.get_or_insert(span);
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> DecodeError {
        DecodeError::new(None, message.to_string())
    }
    fn missing_field(field: &'static str) -> DecodeError {
        DecodeError { missing: Some(field), ..de::Error::custom(format!("field `{field}` is missing")) }
    }
    fn unknown_field(field: &str, _: &'static [&'static str]) -> DecodeError {
        DecodeError { is_unknown_field: true, ..de::Error::custom(unknown(field)) }
    }
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> DecodeError {
        let near =
            did_you_mean(variant, expected.iter().copied()).map(|near| format!(" (did you mean `{near}`?)"));
        let list = expected.join(", ");
        de::Error::custom(format!(
            "unknown value `{variant}`, expected one of: {list}{}",
            near.unwrap_or_default()
        ))
    }
}

/// How a list is written where text stands.
const LIST: &str = "a list is written `[A, B]`, and one of a single element `[A]`";

/// How a secret of a file is named; what names one whole was put in place before.
const SOPS: &str = "write both, and nothing else: `{sops: PATH, key: KEY}`";

fn unknown(field: &str) -> String {
    format!("unknown field `{field}`")
}

#[derive(Clone, Copy)]
struct Decoder<'a> {
    node: &'a Node,
    state: &'a State,
}

impl<'a> Decoder<'a> {
    fn of(self, node: &'a Node) -> Decoder<'a> {
        Decoder { node, state: self.state }
    }

    fn wrong(self, expected: &str) -> DecodeError {
        let message = match &self.node.value {
            // In quotes it reads like what is expected, and is not.
            NodeValue::Scalar(text, ScalarKind::Str)
                if text.len() <= 60
                    && matches!(
                        resolve(text),
                        Resolved::Kind(ScalarKind::Bool | ScalarKind::Int | ScalarKind::Float)
                    ) =>
            {
                format!("expected {expected}, found the text `{text}`")
            }
            NodeValue::Scalar(text, kind) if !matches!(kind, ScalarKind::Unknown(_)) && text.len() <= 60 => {
                format!("expected {expected}, found `{text}`")
            }
            _ => format!("expected {expected}, found {}", self.node.describe()),
        };
        DecodeError::new(Some(self.node.span), message)
    }

    /// The same for a number, with what to write where it is plain what was meant.
    fn no_number(self) -> DecodeError {
        let text = self.node.as_str().unwrap_or_default();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let is_number =
            !digits.is_empty() && digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit());
        let hint = match &text[digits.len()..] {
            "" if is_number => Some(format!("write it without quotes: {digits}")),
            "s" | "m" | "h" | "d" | "w" if is_number => {
                Some("write a number without a unit: of a time, its seconds, such as 3600".into())
            }
            _ => None,
        };
        DecodeError { hint, ..self.wrong("a number") }
    }

    /// Any value; an error says what is expected, and nothing of what is there.
    fn deserialize_unshown<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let message = format!("expected {}", &visitor as &dyn de::Expected);
        let (before, span) = (self.state.problems.borrow().len(), Some(self.node.span));
        self.deserialize_any(visitor).map_err(|_| {
            // An element of a list has been reported by itself.
            self.state.problems.borrow_mut().truncate(before);
            DecodeError { is_unshown: true, ..DecodeError::new(span, message) }
        })
    }

    /// The scalar's text, noting references that have no value yet.
    fn text(self) -> Option<&'a str> {
        match &self.node.value {
            NodeValue::Scalar(text, kind) => {
                if let ScalarKind::Unknown(references) = kind {
                    self.state.references.borrow_mut().extend(references.iter().cloned());
                }
                Some(text)
            }
            _ => None,
        }
    }

    fn number<T: std::str::FromStr>(self, expected: impl FnOnce() -> String) -> Result<T, DecodeError> {
        let text = self.text().ok_or_else(|| self.no_number())?;
        let text = match &self.node.value {
            NodeValue::Scalar(_, ScalarKind::Str | ScalarKind::Bool) => return Err(self.no_number()),
            // Any number will do: [`At::unknown`] says that it is not the value.
            NodeValue::Scalar(_, ScalarKind::Unknown(_)) => "0",
            _ => text,
        };
        text.parse().map_err(|_| self.wrong(&expected()))
    }
}

/// What is expected where an integer is.
fn between(least: impl fmt::Display, most: impl fmt::Display) -> String {
    format!("a whole number from {least} to {most}")
}

macro_rules! numbers {
    ($expected:expr; $($method:ident $visit:ident $type:ident),*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            let number = self.number(|| $expected($type::MIN, $type::MAX))?;
            visitor.$visit::<DecodeError>(number).map_err(|e| e.or_at(self.node.span))
        }
    )* };
}

impl<'de> Deserializer<'de> for Decoder<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.value {
            NodeValue::Null => visitor.visit_unit(),
            NodeValue::Scalar(_, ScalarKind::Bool) => self.deserialize_bool(visitor),
            NodeValue::Scalar(text, ScalarKind::Int) if text.starts_with('-') => {
                self.deserialize_i64(visitor)
            }
            NodeValue::Scalar(text, ScalarKind::Int) if text.parse::<u64>().is_ok() => {
                self.deserialize_u64(visitor)
            }
            NodeValue::Scalar(text, ScalarKind::Float) if text.parse::<f64>().is_ok() => {
                self.deserialize_f64(visitor)
            }
            NodeValue::Scalar(..) => self.deserialize_str(visitor),
            NodeValue::Seq(_) => self.deserialize_seq(visitor),
            NodeValue::Map(_) => self.deserialize_map(visitor),
        }
    }

    numbers!(between; deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
        deserialize_i128 visit_i128 i128, deserialize_u128 visit_u128 u128);
    numbers!(|_, _| "a number".into(); deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64);

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.value {
            NodeValue::Scalar(text, ScalarKind::Bool) => {
                visitor.visit_bool(text.eq_ignore_ascii_case("true"))
            }
            _ => Err(self.wrong("`true` or `false`")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let text = self.text().ok_or_else(|| self.wrong("text"))?;
        visitor.visit_str::<DecodeError>(text).map_err(|e| e.or_at(self.node.span))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.node.is_null() { visitor.visit_unit() } else { Err(self.wrong("nothing")) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match &self.node.value {
            // Which fields there are is not known here: what is missing says it.
            NodeValue::Map(entries) if name == TEXT_OR => self.deserialize_map(visitor).map_err(|error| {
                let other = entries.iter().find_map(|(key, _)| key.as_str());
                let hint = error.missing.zip(other).map(|(field, key)| match did_you_mean(key, [field]) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if field == "secret" && key == "sops" => SOPS.to_owned(),
                    None if field == "secret" => {
                        format!("there is no `{key}` here; write text, `{{secret: NAME}}` or `{{sops: PATH, key: KEY}}`")
                    }
                    None => format!("there is no `{key}` here; write text, or a mapping with `{field}`"),
                });
                DecodeError { hint: hint.or(error.hint.clone()), ..error }
            }),
            NodeValue::Map(_) if name == TEXT_LIST_OR => self.deserialize_map(visitor),
            NodeValue::Seq(_) if name == TEXT_OR_LIST || name == TEXT_LIST_OR => {
                self.deserialize_seq(visitor)
            }
            NodeValue::Scalar(..) if [TEXT_OR, TEXT_OR_LIST, TEXT_LIST_OR].contains(&name) => {
                self.deserialize_str(visitor)
            }
            NodeValue::Scalar(text, ScalarKind::Str)
                if name == FLAG && matches!(&**text, "true" | "false") =>
            {
                visitor.visit_bool(&**text == "true")
            }
            _ if name == FLAG => self.deserialize_bool(visitor),
            _ if name == UNSHOWN => self.deserialize_unshown(visitor),
            _ if name == TEXT_OR_LIST => Err(self.wrong("text or a list of texts")),
            _ if name == TEXT_OR => Err(self.wrong("text or a mapping")),
            _ if name == TEXT_LIST_OR => Err(self.wrong("text, a list of texts or a mapping")),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let NodeValue::Seq(nodes) = &self.node.value else {
            let hint = matches!(self.node.value, NodeValue::Scalar(..)).then(|| LIST.to_owned());
            return Err(DecodeError { hint, ..self.wrong("a list") });
        };
        visitor.visit_seq(Elements { decoder: self, rest: nodes.iter() }).map_err(|e| e.or_at(self.node.span))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let NodeValue::Map(entries) = &self.node.value else { return Err(self.wrong("a mapping")) };
        visitor
            .visit_map(Entries { decoder: self, rest: entries.iter(), value: None })
            .map_err(|e| e.or_at(self.node.span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if name == AT {
            return visitor.visit_map(AtAccess { decoder: self, step: 0, outer: Vec::new() });
        }
        let NodeValue::Map(entries) = &self.node.value else { return Err(self.wrong("a mapping")) };
        for (key, _) in entries {
            let Some(word) = key.as_str().filter(|word| !fields.contains(word)) else { continue };
            let hint = match did_you_mean(word, fields.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known fields: {}", fields.join(", ")),
            };
            let (span, message, hint) = (key.span, unknown(word), Some(hint));
            self.state.problems.borrow_mut().push(Wrong { span, message, hint, is_unshown: false });
        }
        visitor
            .visit_map(Entries { decoder: self, rest: entries.iter(), value: None })
            .map_err(|e| e.or_at(self.node.span))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match &self.node.value {
            NodeValue::Scalar(text, _) => visitor
                .visit_enum(IntoDeserializer::<DecodeError>::into_deserializer(&**text))
                .map_err(|e: DecodeError| e.or_at(self.node.span)),
            NodeValue::Map(entries) if entries.len() == 1 => {
                let access = de::value::MapAccessDeserializer::new(Entries {
                    decoder: self,
                    rest: entries.iter(),
                    value: None,
                });
                visitor.visit_enum(access).map_err(|e| e.or_at(self.node.span))
            }
            _ => Err(self.wrong("one value, or a mapping with one key")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }
}

struct Elements<'a> {
    decoder: Decoder<'a>,
    rest: std::slice::Iter<'a, Node>,
}

impl<'de> de::SeqAccess<'de> for Elements<'_> {
    type Error = DecodeError;
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(node) = self.rest.next() else { return Ok(None) };
        seed.deserialize(self.decoder.of(node)).map(Some).map_err(|mut error| {
            self.decoder.state.report(&error, node.span);
            error.reported = true;
            error
        })
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Entries<'a> {
    decoder: Decoder<'a>,
    rest: std::slice::Iter<'a, (Node, Node)>,
    value: Option<&'a Node>,
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = DecodeError;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(self.decoder.of(key)).map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let node = self.value.take().expect("serde asks for a value only after its key");
        // What a type refuses after it read a text (a duration, a pattern) points at that text.
        seed.deserialize(self.decoder.of(node)).map_err(|error| error.or_at(node.span))
    }
}

/// Serves the three entries of an [`At`]: position, value, and the references the value turned out to hold.
struct AtAccess<'a> {
    decoder: Decoder<'a>,
    step: u8,
    outer: Vec<Reference>,
}

impl<'de> de::MapAccess<'de> for AtAccess<'_> {
    type Error = DecodeError;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let names = ["span", "value", "unknown"];
        let Some(name) = names.get(self.step as usize) else { return Ok(None) };
        self.step += 1;
        seed.deserialize(de::value::BorrowedStrDeserializer::new(name)).map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let state = self.decoder.state;
        match self.step {
            1 => {
                let span = self.decoder.node.span;
                let packed = u64::from(span.line) << 32 | u64::from(span.column);
                seed.deserialize(packed.into_deserializer())
            }
            2 => {
                self.outer = state.references.take();
                seed.deserialize(self.decoder)
            }
            _ => {
                let inner = state.references.take();
                let mut all = std::mem::take(&mut self.outer);
                all.extend(inner.iter().cloned());
                state.references.replace(all);
                seed.deserialize(de::value::SeqDeserializer::new(inner.into_iter()))
            }
        }
    }
}
impl<'de> IntoDeserializer<'de, DecodeError> for Reference {
    type Deserializer = de::value::SeqDeserializer<std::array::IntoIter<String, 2>, DecodeError>;
    fn into_deserializer(self) -> Self::Deserializer {
        de::value::SeqDeserializer::new([self.target.0.to_string(), self.path.to_string()].into_iter())
    }
}

#[cfg(test)]
mod tests;
