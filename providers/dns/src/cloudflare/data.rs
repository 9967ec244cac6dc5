//! Record data: the API's JSON ↔ canonical text.
//!
//! Hosts come and go without the dot at the end. TXT content is a sequence of quoted strings for records of
//! today; of older ones it is the bare text, and both mean the same. Types with several fields have them in
//! `data`; `content` serves where it is missing.

use crate::{rdata, text};
use reconciled_provider::Error;
use serde_json::{Map, Value};

/// How a field stands in `data`.
#[derive(Clone, Copy, Debug)]
enum Field {
    Number,
    /// With a fraction.
    Decimal,
    /// The same with an `m` in the presentation form.
    Metres,
    /// A host, without its last dot.
    Host,
    /// A character string, without quotes.
    Text,
    /// One word.
    Word,
    /// All that is left.
    Rest,
}

use Field::{Decimal, Host, Metres, Number, Rest, Text, Word};

/// Types with fields of their own, in the order of the presentation form.
const FIELDS: &[(&str, &[(&str, Field)])] = &[
    ("CAA", &[("flags", Number), ("tag", Word), ("value", Text)]),
    ("DNSKEY", &[("flags", Number), ("protocol", Number), ("algorithm", Number), ("public_key", Rest)]),
    ("DS", &[("key_tag", Number), ("algorithm", Number), ("digest_type", Number), ("digest", Rest)]),
    ("HTTPS", &[("priority", Number), ("target", Host), ("value", Rest)]),
    (
        "LOC",
        &[
            ("lat_degrees", Number),
            ("lat_minutes", Number),
            ("lat_seconds", Decimal),
            ("lat_direction", Word),
            ("long_degrees", Number),
            ("long_minutes", Number),
            ("long_seconds", Decimal),
            ("long_direction", Word),
            ("altitude", Metres),
            ("size", Metres),
            ("precision_horz", Metres),
            ("precision_vert", Metres),
        ],
    ),
    (
        "NAPTR",
        &[
            ("order", Number),
            ("preference", Number),
            ("flags", Text),
            ("service", Text),
            ("regex", Text),
            ("replacement", Host),
        ],
    ),
    ("SMIMEA", &[("usage", Number), ("selector", Number), ("matching_type", Number), ("certificate", Rest)]),
    ("SRV", &[("priority", Number), ("weight", Number), ("port", Number), ("target", Host)]),
    ("SSHFP", &[("algorithm", Number), ("type", Number), ("fingerprint", Rest)]),
    ("SVCB", &[("priority", Number), ("target", Host), ("value", Rest)]),
    ("TLSA", &[("usage", Number), ("selector", Number), ("matching_type", Number), ("certificate", Rest)]),
    // Its priority stands beside `data`.
    ("URI", &[("weight", Number), ("target", Text)]),
];

/// The type as the API calls it.
pub(crate) fn type_of(kind: &str) -> &str {
    if kind == "ALIAS" { "CNAME" } else { kind }
}

fn fields_of(kind: &str) -> Option<&'static [(&'static str, Field)]> {
    FIELDS.iter().find(|(word, _)| *word == kind).map(|(_, fields)| *fields)
}

fn absolute(host: &str) -> String {
    format!("{}.", host.trim_end_matches('.'))
}

fn relative(host: &str) -> &str {
    match host.trim_end_matches('.') {
        "" => ".",
        host => host,
    }
}

/// The canonical value of one record as the API reports it.
pub(crate) fn read(
    kind: &str,
    content: &str,
    priority: Option<u32>,
    data: Option<&Map<String, Value>>,
) -> String {
    let presentation = match kind {
        "ALIAS" | "CNAME" | "NS" | "PTR" => absolute(content),
        "MX" => format!("{} {}", priority.unwrap_or(0), absolute(content)),
        "TXT" if is_quoted(content) => content.to_owned(),
        "TXT" => {
            let mut out = String::new();
            text::quote(content.as_bytes(), &mut out);
            out
        }
        _ => {
            let from_data = fields_of(kind).zip(data).and_then(|(fields, data)| from_data(fields, data));
            match (from_data, priority) {
                (Some(text), Some(priority)) if kind == "URI" => format!("{priority} {text}"),
                (Some(text), _) => text,
                (None, Some(priority)) if kind == "SRV" || kind == "URI" => format!("{priority} {content}"),
                (None, _) => content.to_owned(),
            }
        }
    };
    rdata::observed(kind, &presentation).into_owned()
}

/// True for a sequence of quoted strings. A bare text that begins with a quote is taken for one as well: the
/// server serves it so.
fn is_quoted(content: &str) -> bool {
    content.starts_with('"') && text::unquote(content).is_some()
}

fn from_data(fields: &[(&str, Field)], data: &Map<String, Value>) -> Option<String> {
    let mut out = String::new();
    for (key, field) in fields {
        let value = match (data.get(*key)?, field) {
            (Value::Number(number), Metres) => format!("{}m", number.as_f64()?),
            (Value::Number(number), _) => number.as_f64()?.to_string(),
            (Value::String(text), Host) => absolute(text),
            (Value::String(text), Text) => {
                let mut quoted = String::new();
                text::quote(text.as_bytes(), &mut quoted);
                quoted
            }
            (Value::String(text), _) => text.clone(),
            _ => return None,
        };
        if !out.is_empty() && !value.is_empty() {
            out.push(' ');
        }
        out += &value;
    }
    Some(out)
}

/// The fields of a request that carry the canonical `value`.
///
/// Errors: `Unsupported` for a type that this backend cannot write.
pub(crate) fn write(kind: &str, value: &str) -> Result<Map<String, Value>, Error> {
    let content = |text: &str| Map::from_iter([("content".to_owned(), Value::from(text))]);
    let malformed = || Error::invalid(format!("`{value}` is no {kind} data that the API can carry"));
    match kind {
        "A" | "AAAA" => Ok(content(value)),
        "ALIAS" | "CNAME" | "NS" | "PTR" => Ok(content(relative(value))),
        "TXT" => Ok(content(&rdata::wire(kind, value, 0))),
        "MX" => {
            let (priority, host) = value.split_once(' ').ok_or_else(malformed)?;
            let priority: u32 = priority.parse().map_err(|_| malformed())?;
            let mut out = content(relative(host));
            out.insert("priority".into(), priority.into());
            Ok(out)
        }
        "OPENPGPKEY" => Ok(content(value)),
        "URI" => {
            let (priority, rest) = value.split_once(' ').ok_or_else(malformed)?;
            let priority: u32 = priority.parse().map_err(|_| malformed())?;
            let data = fields_of(kind).and_then(|fields| to_data(fields, rest)).ok_or_else(malformed)?;
            Ok(Map::from_iter([("priority".into(), priority.into()), ("data".into(), data.into())]))
        }
        _ => {
            let fields = fields_of(kind).ok_or_else(|| {
                Error::unsupported(format!("records of type {kind} cannot be written at Cloudflare"))
            })?;
            let data = to_data(fields, value).ok_or_else(malformed)?;
            Ok(Map::from_iter([("data".to_owned(), Value::from(data))]))
        }
    }
}

fn to_data(fields: &[(&str, Field)], value: &str) -> Option<Map<String, Value>> {
    let mut data = Map::new();
    let mut left = value;
    for (key, field) in fields {
        let (word, rest) = match field {
            Rest => (left, ""),
            _ => first_word(left),
        };
        left = rest;
        let value = match field {
            Number => Value::from(word.parse::<u32>().ok()?),
            Decimal | Metres => Value::from(word.trim_end_matches('m').parse::<f64>().ok()?),
            Host => relative(word).into(),
            // JSON has no octets: another text in place of these would differ for ever.
            Text => String::from_utf8(text::unquote(word)?).ok()?.into(),
            Word | Rest => word.into(),
        };
        data.insert((*key).to_owned(), value);
    }
    left.is_empty().then_some(data)
}

/// The first word, quoted or bare, and what follows it.
fn first_word(text: &str) -> (&str, &str) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::{Type, tests::canonical_values};
    use proptest::prelude::*;
    use serde_json::json;

    /// Writes a canonical value and reads back what the server would report.
    fn check(kind: &str, value: &str, fields: Value) {
        let written = write(kind, value).unwrap();
        assert_eq!(Value::from(written.clone()), fields, "{kind} {value}");
        let content = written.get("content").and_then(Value::as_str).unwrap_or_default();
        let priority = written.get("priority").and_then(Value::as_u64).map(|p| p as u32);
        let data = written.get("data").and_then(Value::as_object);
        assert_eq!(read(kind, content, priority, data), value, "{kind}");
    }

    #[test]
    fn each_type_has_its_form_in_the_api() {
        check("A", "192.0.2.1", json!({"content": "192.0.2.1"}));
        check("CNAME", "www.example.com.", json!({"content": "www.example.com"}));
        check("ALIAS", "www.example.com.", json!({"content": "www.example.com"}));
        check("MX", "10 mail.example.com.", json!({"content": "mail.example.com", "priority": 10}));
        check("MX", "0 .", json!({"content": ".", "priority": 0}));
        check("TXT", "\"v=spf1 -all\"", json!({"content": "\"v=spf1 -all\""}));
        check("TXT", "\"ä\"", json!({"content": "\"\\195\\164\""}));
        check(
            "SRV",
            "10 60 5060 sip.example.com.",
            json!({"data": {"priority": 10, "weight": 60, "port": 5060, "target": "sip.example.com"}}),
        );
        check(
            "CAA",
            "0 issue \"le.org; a=b\"",
            json!({"data": {"flags": 0, "tag": "issue", "value": "le.org; a=b"}}),
        );
        check(
            "NAPTR",
            r#"100 50 "s" "http+E2U" "" _http._tcp.example.com."#,
            json!({"data": {"order": 100, "preference": 50, "flags": "s", "service": "http+E2U", "regex": "",
                "replacement": "_http._tcp.example.com"}}),
        );
        check(
            "TLSA",
            "3 1 1 abcdef",
            json!({"data": {"usage": 3, "selector": 1, "matching_type": 1, "certificate": "abcdef"}}),
        );
        check("HTTPS", "1 . alpn=h2", json!({"data": {"priority": 1, "target": ".", "value": "alpn=h2"}}));
        check(
            "LOC",
            "51 30 12.748 N 0 7 39.611 W 10.00m 1.00m 10000.00m 10.00m",
            json!({"data": {"lat_degrees": 51, "lat_minutes": 30, "lat_seconds": 12.748, "lat_direction": "N",
                "long_degrees": 0, "long_minutes": 7, "long_seconds": 39.611, "long_direction": "W", "altitude": 10.0,
                "size": 1.0, "precision_horz": 10000.0, "precision_vert": 10.0}}),
        );
        check(
            "OPENPGPKEY",
            "mQENBFVHm5sBCADEQ1jWAAECAw==",
            json!({"content": "mQENBFVHm5sBCADEQ1jWAAECAw=="}),
        );
        check(
            "URI",
            "10 1 \"ftp://ftp1.example.com/a b\"",
            json!({"priority": 10, "data": {"weight": 1, "target": "ftp://ftp1.example.com/a b"}}),
        );
        assert!(write("LOC", "51 30 12.748 N").is_err());
        assert!(write("DNAME", "a.example.").unwrap_err().message.contains("DNAME cannot be written"));
        assert!(write("SRV", "1 2").is_err());
    }

    proptest! {
        #[test]
        fn any_value_comes_back_from_the_api_as_it_was_sent((kind, value) in canonical_values()) {
            let word = kind.word();
            prop_assume!(!matches!(kind, Type::Dname | Type::Soa));
            let Ok(written) = write(word, &value) else {
                // JSON has no octets: a text within data has to be UTF-8.
                prop_assert!(value.contains('\\'), "{word} {value} is refused");
                return Ok(());
            };
            let content = written.get("content").and_then(Value::as_str).unwrap_or_default();
            let priority = written.get("priority").and_then(Value::as_u64).map(|p| p as u32);
            prop_assert_eq!(read(word, content, priority, written.get("data").and_then(Value::as_object)), value);
        }
    }

    #[test]
    fn an_old_text_without_quotes_is_the_same_as_a_new_one_with() {
        let check = |content: &str, canonical: &str| assert_eq!(read("TXT", content, None, None), canonical);
        check("v=spf1 -all", "\"v=spf1 -all\"");
        check("\"v=spf1 -all\"", "\"v=spf1 -all\"");
        check("\"two \" \"strings\"", "\"two \" \"strings\"");
        check("half \"quoted\"", "\"half \\\"quoted\\\"\"");
        check("\"open", "\"\\\"open\"");
        check("", "\"\"");
    }

    #[test]
    fn content_serves_where_data_are_missing() {
        assert_eq!(read("CAA", "0 issue \"le.org\"", None, None), "0 issue \"le.org\"");
        assert_eq!(read("SRV", "60 5060 sip.example.com", Some(10), None), "10 60 5060 sip.example.com.");
        assert_eq!(read("LOC", "51 30 12.748 N", None, None), "51 30 12.748 N");
    }
}
