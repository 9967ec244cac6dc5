//! JSON of values: the form in which state is kept and given back to a provider.

use super::{Type, Value};

/// Writes a wholly known value of a type; what is unknown becomes null.
pub fn write_json(value: &Value, of: &Type) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(value, of, &mut out);
    out
}

fn write(value: &Value, of: &Type, out: &mut Vec<u8>) {
    if let (Type::Dynamic, Value::Dynamic(inner)) = (of, value) {
        out.extend(b"{\"value\":");
        write(&inner.1, &inner.0, out);
        out.extend(b",\"type\":");
        out.extend(inner.0.to_json().to_string().as_bytes());
        out.push(b'}');
        return;
    }
    match value {
        Value::Null | Value::Unknown => out.extend(b"null"),
        Value::Bool(set) => out.extend(if *set { &b"true"[..] } else { b"false" }),
        // As it is: JSON has numbers of any length.
        Value::Number(number) => out.extend(number.as_str().as_bytes()),
        Value::String(text) => string(text, out),
        Value::Seq(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                let of = match of {
                    Type::List(inner) | Type::Set(inner) => inner,
                    Type::Tuple(parts) => parts.get(index).unwrap_or(&Type::Dynamic),
                    _ => &Type::Dynamic,
                };
                write(element, of, out);
            }
            out.push(b']');
        }
        Value::Map(fields) => {
            out.push(b'{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                string(name, out);
                out.push(b':');
                let of = match of {
                    Type::Map(inner) => inner,
                    Type::Object(types) => types.get(name).unwrap_or(&Type::Dynamic),
                    _ => &Type::Dynamic,
                };
                write(field, of, out);
            }
            out.push(b'}');
        }
        Value::Dynamic(inner) => write(&inner.1, &inner.0, out),
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("text is JSON, and a Vec grows");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cty::Number;

    #[test]
    fn every_digit_is_kept() {
        let of = Type::Object(
            [
                ("n".into(), Type::Number),
                ("s".into(), Type::Set(Type::String.into())),
                ("d".into(), Type::Dynamic),
            ]
            .into(),
        );
        let number = Number::parse("123456789012345678901234567890.5").unwrap();
        let value = Value::Map(
            [
                ("n".into(), Value::Number(number)),
                ("s".into(), Value::set(vec![Value::text("b\"")])),
                ("d".into(), Value::Dynamic(Box::new((Type::Bool, Value::Bool(true))))),
            ]
            .into(),
        );
        let json = String::from_utf8(write_json(&value, &of)).unwrap();
        let expect = r#"{"d":{"value":true,"type":"bool"},"n":123456789012345678901234567890.5,"s":["b\""]}"#;
        assert_eq!(json, expect);
    }
}
