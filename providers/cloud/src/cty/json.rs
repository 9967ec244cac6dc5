//! JSON of values: the form in which state is kept and given back to a provider.

use super::{Number, Type, Value};
use serde_json::Value as Json;

/// Writes a wholly known value of a type; what is unknown becomes null.
pub fn write_json(value: &Value, of: &Type) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(value, of, &mut out);
    out
}

/// Reads a value of a type: the form in which some providers give back a state that they had nothing to change in. Numbers have
/// as many digits as a double has.
///
/// Errors: what is wrong with it, without quoting it.
pub fn read_json(bytes: &[u8], of: &Type) -> Result<Value, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|_| String::from("it is no JSON"))?;
    read(&json, of).ok_or_else(|| "it is of another type".into())
}

fn read(json: &Json, of: &Type) -> Option<Value> {
    Some(match (json, of) {
        (Json::Null, _) => Value::Null,
        (Json::Bool(set), Type::Bool) => Value::Bool(*set),
        (Json::Number(number), Type::Number) => Value::Number(Number::parse(&number.to_string())?),
        (Json::String(text), Type::Number) => Value::Number(Number::parse(text)?),
        (Json::String(text), Type::String) => Value::text(text),
        (Json::Array(all), Type::List(of)) => Value::Seq(each(all, of)?),
        (Json::Array(all), Type::Set(of)) => Value::set(each(all, of)?),
        (Json::Array(all), Type::Tuple(parts)) if all.len() == parts.len() => {
            Value::Seq(all.iter().zip(parts).map(|(one, of)| read(one, of)).collect::<Option<_>>()?)
        }
        (Json::Object(all), Type::Map(of)) => {
            let fields = all.iter().map(|(key, one)| Some((key.as_str().into(), read(one, of)?)));
            Value::Map(fields.collect::<Option<_>>()?)
        }
        (Json::Object(all), Type::Object(types)) if all.keys().all(|key| types.contains_key(&**key)) => {
            let field = |(name, of): (&std::sync::Arc<str>, &Type)| {
                Some((name.clone(), all.get(&**name).map_or(Some(Value::Null), |one| read(one, of))?))
            };
            Value::Map(types.iter().map(field).collect::<Option<_>>()?)
        }
        (Json::Object(all), Type::Dynamic) => {
            let of = Type::parse(all.get("type")?.to_string().as_bytes()).ok()?;
            let value = read(all.get("value")?, &of)?;
            Value::Dynamic(Box::new((of, value)))
        }
        _ => return None,
    })
}

fn each(all: &[Json], of: &Type) -> Option<Vec<Value>> {
    all.iter().map(|one| read(one, of)).collect()
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

    #[test]
    fn a_value_is_read_from_its_json_and_nothing_else_is() {
        let of = Type::parse(
            br#"["object",{"n":"number","s":["set","string"],"m":["map","bool"],"l":["list","number"],"d":"dynamic"}]"#,
        )
        .unwrap();
        let json = r#"{"d":{"value":["x"],"type":["list","string"]},"l":[1,2.5],"m":{"a":true},"n":null,"s":["a","b"]}"#;
        let value = read_json(json.as_bytes(), &of).unwrap();
        assert_eq!(String::from_utf8(write_json(&value, &of)).unwrap(), json);
        for (wrong, why) in [
            ("{", "it is no JSON"),
            (r#"{"other":1}"#, "it is of another type"),
            (r#"{"n":true}"#, "it is of another type"),
            (r#"{"s":"a"}"#, "it is of another type"),
        ] {
            assert_eq!(read_json(wrong.as_bytes(), &of).unwrap_err(), why, "{wrong}");
        }
    }
}
