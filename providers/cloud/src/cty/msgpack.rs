//! MessagePack of values, as providers read and write it (`object-wire-format.md` of the plugin protocol).
//!
//! Unknown is any extension; what a provider knows of an unknown value (code 12) is not used.

use super::{Number, Type, Value};
use std::{collections::BTreeMap, sync::Arc};

/// Nothing in a schema is nested deeper.
const DEEPEST: usize = 64;

/// Writes a value of a type.
pub fn encode(value: &Value, of: &Type) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(value, of, &mut out);
    out
}

fn write(value: &Value, of: &Type, out: &mut Vec<u8>) {
    if *of == Type::Dynamic {
        return match value {
            Value::Null => out.push(0xc0),
            Value::Unknown => out.extend([0xd4, 0, 0]),
            Value::Dynamic(inner) => {
                out.push(0x92);
                binary(inner.0.to_json().to_string().as_bytes(), out);
                write(&inner.1, &inner.0, out);
            }
            // A value of a type that nobody wrote down has the one it looks like.
            bare => {
                let own = look(bare);
                out.push(0x92);
                binary(own.to_json().to_string().as_bytes(), out);
                write(bare, &own, out);
            }
        };
    }
    match value {
        Value::Null => out.push(0xc0),
        Value::Unknown => out.extend([0xd4, 0, 0]),
        Value::Bool(set) => out.push(if *set { 0xc3 } else { 0xc2 }),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => string(text, out),
        Value::Seq(elements) => {
            head(elements.len(), 0x90, 0xdc, out);
            for (index, element) in elements.iter().enumerate() {
                let of = match of {
                    Type::List(inner) | Type::Set(inner) => inner,
                    Type::Tuple(parts) => parts.get(index).unwrap_or(&Type::Dynamic),
                    _ => &Type::Dynamic,
                };
                write(element, of, out);
            }
        }
        Value::Map(fields) => match of {
            Type::Object(types) => {
                head(types.len(), 0x80, 0xde, out);
                for (name, of) in types {
                    string(name, out);
                    write(fields.get(name).unwrap_or(&Value::Null), of, out);
                }
            }
            _ => {
                head(fields.len(), 0x80, 0xde, out);
                for (name, field) in fields {
                    string(name, out);
                    write(field, if let Type::Map(inner) = of { inner } else { &Type::Dynamic }, out);
                }
            }
        },
        Value::Dynamic(inner) => write(&inner.1, of, out),
    }
}

/// The type a value looks like.
fn look(value: &Value) -> Type {
    match value {
        Value::Null | Value::Unknown => Type::Dynamic,
        Value::Bool(_) => Type::Bool,
        Value::Number(_) => Type::Number,
        Value::String(_) => Type::String,
        Value::Seq(elements) => Type::Tuple(elements.iter().map(look).collect()),
        Value::Map(fields) => {
            Type::Object(fields.iter().map(|(name, field)| (name.clone(), look(field))).collect())
        }
        Value::Dynamic(inner) => inner.0.clone(),
    }
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    if let Some(int) = number.as_int() {
        match int {
            0..=127 => out.push(int as u8),
            -32..=-1 => out.push(int as i8 as u8),
            _ => {
                out.push(0xd3);
                out.extend(int.to_be_bytes());
            }
        }
    } else if let Some(float) = number.as_exact_float() {
        out.push(0xcb);
        out.extend(float.to_be_bytes());
    } else {
        string(number.as_str(), out);
    }
}

fn head(length: usize, small: u8, wide: u8, out: &mut Vec<u8>) {
    match length {
        0..=15 => out.push(small | length as u8),
        16..=0xffff => {
            out.push(wide);
            out.extend((length as u16).to_be_bytes());
        }
        _ => {
            out.push(wide + 1);
            out.extend((length as u32).to_be_bytes());
        }
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    match text.len() {
        length @ 0..=31 => out.push(0xa0 | length as u8),
        length @ 32..=0xff => out.extend([0xd9, length as u8]),
        length @ 0x100..=0xffff => {
            out.push(0xda);
            out.extend((length as u16).to_be_bytes());
        }
        length => {
            out.push(0xdb);
            out.extend((length as u32).to_be_bytes());
        }
    }
    out.extend(text.as_bytes());
}

fn binary(bytes: &[u8], out: &mut Vec<u8>) {
    match bytes.len() {
        length @ 0..=0xff => out.extend([0xc4, length as u8]),
        length @ 0x100..=0xffff => {
            out.push(0xc5);
            out.extend((length as u16).to_be_bytes());
        }
        length => {
            out.push(0xc6);
            out.extend((length as u32).to_be_bytes());
        }
    }
    out.extend(bytes);
}

/// Reads a value of a type.
///
/// Errors: what is wrong with it; no part of the value is in the error.
pub fn decode(bytes: &[u8], of: &Type) -> Result<Value, String> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(of, 0)?;
    match reader.rest.is_empty() {
        true => Ok(value),
        false => Err("there is more after the value".into()),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or("the value is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    fn uint(&mut self, length: usize) -> Result<u64, String> {
        Ok(self.take(length)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn value(&mut self, of: &Type, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err("it is nested too deep".into());
        }
        let wrong = |found: &str| Err(format!("{found} where {of} is expected"));
        let first = self.uint(1)? as u8;
        let extension = |reader: &mut Self, length: usize| reader.take(length + 1).map(|_| Value::Unknown);
        match first {
            0xc0 => return Ok(Value::Null),
            0xd4..=0xd8 => return extension(self, 1 << (first - 0xd4)),
            0xc7..=0xc9 => {
                let length = self.uint(1 << (first - 0xc7))? as usize;
                return extension(self, length);
            }
            _ => {}
        }
        if *of == Type::Dynamic {
            if first != 0x92 {
                return wrong("a value without a type");
            }
            let json = self.bytes()?;
            let own = Type::parse(json)?;
            let value = self.value(&own, depth + 1)?;
            return Ok(Value::Dynamic(Box::new((own, value))));
        }
        match first {
            0xc2 | 0xc3 if *of == Type::Bool => Ok(Value::Bool(first == 0xc3)),
            0xc2 | 0xc3 => wrong("true or false"),
            0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff | 0xca | 0xcb => {
                let number = self.number(first)?;
                match of {
                    Type::Number => Ok(Value::Number(number)),
                    _ => wrong("a number"),
                }
            }
            0xa0..=0xbf | 0xd9..=0xdb => {
                let text = self.text(first)?;
                match of {
                    Type::String => Ok(Value::String(text.into())),
                    Type::Number => {
                        Number::parse(text).map(Value::Number).ok_or("a text that is no number".into())
                    }
                    _ => wrong("text"),
                }
            }
            0x90..=0x9f | 0xdc | 0xdd => {
                let length = self.length(first, 0x90, 0xdc)?;
                let mut elements = Vec::with_capacity(length.min(self.rest.len()));
                for index in 0..length {
                    let inner = match of {
                        Type::List(inner) | Type::Set(inner) => inner,
                        Type::Tuple(parts) => parts.get(index).ok_or("a tuple with too many elements")?,
                        _ => return wrong("a list"),
                    };
                    elements.push(self.value(inner, depth + 1)?);
                }
                match of {
                    Type::Set(_) => Ok(Value::set(elements)),
                    Type::Tuple(parts) if parts.len() != length => {
                        Err("a tuple with too few elements".into())
                    }
                    Type::List(_) | Type::Tuple(_) => Ok(Value::Seq(elements)),
                    _ => wrong("a list"),
                }
            }
            0x80..=0x8f | 0xde | 0xdf => {
                let length = self.length(first, 0x80, 0xde)?;
                let mut fields = BTreeMap::new();
                for _ in 0..length {
                    let first = self.uint(1)? as u8;
                    let name: Arc<str> = self.text(first)?.into();
                    let inner = match of {
                        Type::Map(inner) => inner,
                        Type::Object(types) => types
                            .get(&name)
                            .ok_or_else(|| format!("`{name}`, which the schema does not have"))?,
                        _ => return wrong("a mapping"),
                    };
                    let value = self.value(inner, depth + 1)?;
                    fields.insert(name, value);
                }
                if let Type::Object(types) = of {
                    for name in types.keys() {
                        fields.entry(name.clone()).or_insert(Value::Null);
                    }
                }
                match of {
                    Type::Map(_) | Type::Object(_) => Ok(Value::Map(fields)),
                    _ => wrong("a mapping"),
                }
            }
            _ => Err("a byte that no value begins with".into()),
        }
    }

    fn number(&mut self, first: u8) -> Result<Number, String> {
        let int = match first {
            0x00..=0x7f => i64::from(first),
            0xe0..=0xff => i64::from(first.cast_signed()),
            0xcc => self.uint(1)? as i64,
            0xcd => self.uint(2)? as i64,
            0xce => self.uint(4)? as i64,
            0xcf => {
                let wide = self.uint(8)?;
                return Number::parse(&wide.to_string()).ok_or("no number".into());
            }
            0xd0 => i64::from((self.uint(1)? as u8).cast_signed()),
            0xd1 => i64::from((self.uint(2)? as u16).cast_signed()),
            0xd2 => i64::from((self.uint(4)? as u32).cast_signed()),
            0xd3 => self.uint(8)?.cast_signed(),
            0xca => {
                let float = f32::from_bits(self.uint(4)? as u32);
                return Number::of_float(float.into()).ok_or("a number that is not finite".into());
            }
            _ => {
                let float = f64::from_bits(self.uint(8)?);
                return Number::of_float(float).ok_or("a number that is not finite".into());
            }
        };
        Ok(int.into())
    }

    fn text(&mut self, first: u8) -> Result<&'a str, String> {
        let length = match first {
            0xa0..=0xbf => usize::from(first & 31),
            0xd9 => self.uint(1)? as usize,
            0xda => self.uint(2)? as usize,
            0xdb => self.uint(4)? as usize,
            _ => return Err("a name that is no text".into()),
        };
        std::str::from_utf8(self.take(length)?).map_err(|_| "text that is not UTF-8".into())
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let first = self.uint(1)? as u8;
        let length = match first {
            0xc4 => self.uint(1)? as usize,
            0xc5 => self.uint(2)? as usize,
            0xc6 => self.uint(4)? as usize,
            _ => return self.text(first).map(str::as_bytes),
        };
        self.take(length)
    }

    fn length(&mut self, first: u8, small: u8, wide: u8) -> Result<usize, String> {
        let length = match first {
            _ if first == wide => self.uint(2)?,
            _ if first == wide + 1 => self.uint(4)?,
            _ => u64::from(first - small),
        };
        // Every element has a byte: a length that lies is told before room is made for it.
        match length <= self.rest.len() as u64 {
            true => Ok(length as usize),
            false => Err("the value is cut off".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(fields: &[(&str, Type)]) -> Type {
        Type::Object(fields.iter().map(|(name, of)| (Arc::from(*name), of.clone())).collect())
    }

    #[test]
    fn bytes_are_those_of_the_protocol() {
        let check = |value: Value, of: Type, bytes: &[u8]| {
            assert_eq!(encode(&value, &of), bytes, "{of:?}");
            assert_eq!(decode(bytes, &of), Ok(value));
        };
        check(Value::Null, Type::String, &[0xc0]);
        check(Value::Unknown, Type::String, &[0xd4, 0, 0]);
        check(Value::Bool(true), Type::Bool, &[0xc3]);
        check(Value::Number(5.into()), Type::Number, &[5]);
        check(Value::Number((-1).into()), Type::Number, &[0xff]);
        check(
            Value::Number(Number::parse("0.5").unwrap()),
            Type::Number,
            &[0xcb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0],
        );
        check(Value::Number(Number::parse("0.1").unwrap()), Type::Number, b"\xa30.1");
        let of = object(&[("a", Type::String), ("b", Type::List(Type::Bool.into()))]);
        let value = Value::Map([("a".into(), Value::text("x")), ("b".into(), Value::Seq(vec![]))].into());
        check(value, of.clone(), b"\x82\xa1a\xa1x\xa1b\x90");
        // What is not said is null, and every attribute is sent.
        assert_eq!(encode(&Value::Map(BTreeMap::new()), &of), b"\x82\xa1a\xc0\xa1b\xc0");
        let any = Value::Dynamic(Box::new((Type::String, Value::text("x"))));
        check(any, Type::Dynamic, b"\x92\xc4\x08\"string\"\xa1x");
        // An unknown value may say what is known of it, or have no payload at all.
        for unknown in [&b"\xc7\x02\x0c\x81\x01"[..], b"\xc7\x00\x00", b"\xd5\x0c\x81\x01"] {
            assert_eq!(decode(unknown, &Type::Number), Ok(Value::Unknown), "{unknown:?}");
        }
    }

    #[test]
    fn nonsense_is_an_error_without_the_value() {
        let of = object(&[("a", Type::String)]);
        for (bytes, part) in [
            (&b"\x81\xa1b\xa6canary"[..], "`b`, which the schema does not have"),
            (b"\x81\xa1a\x01", "a number where text is expected"),
            (b"\x81\xa1a", "cut off"),
            (b"\xdf\xff\xff\xff\xff", "cut off"),
            (b"\x81\xa1a\xa6canary\xc0", "more after the value"),
            (b"\xc1", "no value begins with"),
            (b"\x92\xa1a\xa1b", "a list where a mapping is expected"),
            (b"", "cut off"),
        ] {
            let error = decode(bytes, &of).unwrap_err();
            assert!(error.contains(part) && !error.contains("canary"), "{bytes:?}: {error}");
        }
        let deep: Vec<u8> =
            std::iter::repeat_n(&b"\x92\xc4\x09\"dynamic\""[..], 100).flatten().copied().collect();
        assert!(decode(&deep, &Type::Dynamic).is_err());
    }

    fn any_value() -> impl Strategy<Value = (Type, Value)> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(|set| (Type::Bool, Value::Bool(set))),
            any::<i64>().prop_map(|int| (Type::Number, Value::Number(int.into()))),
            any::<f64>()
                .prop_filter_map("finite", |f| Some((Type::Number, Value::Number(Number::of_float(f)?)))),
            ".{0,40}".prop_map(|text| (Type::String, Value::text(&text))),
            Just((Type::String, Value::Unknown)),
            Just((Type::Number, Value::Null)),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|parts| {
                    let (types, values) = parts.into_iter().unzip();
                    (Type::Tuple(types), Value::Seq(values))
                }),
                prop::collection::btree_map("[a-z]{1,3}", inner.clone(), 0..4).prop_map(|fields| {
                    let (mut types, mut values) = (BTreeMap::new(), BTreeMap::new());
                    for (name, (of, value)) in fields {
                        types.insert(Arc::from(&*name), of);
                        values.insert(Arc::from(&*name), value);
                    }
                    (Type::Object(types), Value::Map(values))
                }),
                inner.prop_map(|inner| (Type::Dynamic, Value::Dynamic(inner.into()))),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again((of, value) in any_value()) {
            prop_assert_eq!(decode(&encode(&value, &of), &of), Ok(value));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes, &Type::Dynamic);
            let _ = decode(&bytes, &object(&[("a", Type::Set(Type::Dynamic.into()))]));
        }
    }
}
