//! Values that nobody may see: what an entry and a manifest name as secrets, in clear.
//!
//! *Guarantees*: a text that holds one of them is told, and an error is written without them, however the provider has
//! broken its lines. *Caveats*: three letters or fewer are too few to be looked for inside other texts.

use crate::cty::Value;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use std::{fmt, sync::Arc};

/// Shorter ones are parts of everything.
const SHORTEST: usize = 4;

/// Secrets in clear. Printed as their number alone.
#[derive(Clone, Default)]
pub struct Hidden(Vec<Arc<str>>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hidden({})", self.0.len())
    }
}

impl FromIterator<Arc<str>> for Hidden {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(all: I) -> Hidden {
        Hidden(all.into_iter().filter(|secret| !secret.is_empty()).collect())
    }
}

impl Hidden {
    /// These and those.
    pub fn and(&self, more: impl IntoIterator<Item = Arc<str>>) -> Hidden {
        self.0.iter().cloned().chain(more).collect()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }

    /// True when the text is one of them, or holds one.
    pub fn hides(&self, text: &str) -> bool {
        self.0.iter().any(|secret| **secret == *text || secret.len() >= SHORTEST && text.contains(&**secret))
    }

    /// True when a part of the value is one of them, or holds one.
    pub fn hides_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.hides(text),
            Value::Number(number) => self.hides(number.as_str()),
            Value::Seq(all) => all.iter().any(|one| self.hides_in(one)),
            Value::Map(all) => all.iter().any(|(key, one)| self.hides(key) || self.hides_in(one)),
            Value::Dynamic(inner) => self.hides_in(&inner.1),
            Value::Null | Value::Unknown | Value::Bool(_) => false,
        }
    }

    /// Those that a part of the value is, or holds.
    pub fn within(&self, value: &Value) -> Vec<Arc<str>> {
        let is_there = |secret: &&Arc<str>| Hidden(vec![(*secret).clone()]).hides_in(value);
        self.0.iter().filter(is_there).cloned().collect()
    }

    /// The text on one line and without any of them.
    pub fn scrub(&self, text: &str) -> String {
        let forms = self.forms();
        let replaced = |text: &str| {
            forms.iter().fold(text.to_string(), |text, form| text.replace(form.as_str(), "(secret)"))
        };
        // Once as it came, and once more for what only its line breaks kept apart.
        replaced(&one_line(&replaced(text)))
    }

    /// Each as it is, on one line, as a quoted text, and each of its lines; the longest first, so that none leaves the
    /// rest of a longer one behind.
    fn forms(&self) -> Vec<String> {
        let mut forms: Vec<String> = Vec::new();
        for secret in &self.0 {
            forms.extend([secret.to_string(), one_line(secret)]);
            let quoted = serde_json::to_string(&**secret).unwrap_or_default();
            forms.extend(quoted.strip_prefix('"').and_then(|q| q.strip_suffix('"')).map(String::from));
            forms.extend(secret.lines().map(|line| line.trim().to_string()));
            // Short ones in another spelling are in any text.
            if secret.len() >= ENCODED {
                forms.extend(encoded(secret));
            }
        }
        forms.retain(|form| form.len() >= SHORTEST);
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        forms
    }
}

/// Secrets from so many octets on are looked for as they are in addresses and headers, too.
const ENCODED: usize = 6;

/// A secret as it is in a URL, in a header, and in what Go writes as JSON.
fn encoded(secret: &str) -> Vec<String> {
    let percent = |keeps: &[u8]| {
        let one = |byte: u8| match byte {
            byte if byte.is_ascii_alphanumeric() || keeps.contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        secret.bytes().map(one).collect::<String>()
    };
    // net/url leaves these as they are in a path, in a query, and in a user or password.
    let urls = [percent(b"-_.~$&+,/:;=@"), percent(b"-_.~"), percent(b"-_.~$&+,;=")];
    let plus = urls[1].replace("%20", "+");
    let lower: Vec<String> = urls.iter().map(|text| lower_escapes(text)).collect();
    // Behind other bytes, as in `user:secret`, too: the letters that are its own alone, for each place in a group of three.
    let base64 = (0..3).flat_map(|before| {
        let bytes = [&[0; 2][..before], secret.as_bytes()].concat();
        let own = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        [STANDARD.encode(&bytes), URL_SAFE.encode(&bytes)].map(|text| text[own.clone()].to_owned())
    });
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let go = [('&', "\\u0026"), ('<', "\\u003c"), ('>', "\\u003e")];
    let go = go.iter().fold(quoted.trim_matches('"').to_owned(), |text, (from, to)| text.replace(*from, to));
    let whole = [STANDARD.encode(secret), URL_SAFE.encode(secret)];
    urls.into_iter().chain(lower).chain([plus, go]).chain(whole).chain(base64).collect()
}

/// `%4A` as `%4a`.
fn lower_escapes(text: &str) -> String {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (digits, rest) = part.split_at(part.len().min(2));
        format!("{text}%{}{rest}", digits.to_ascii_lowercase())
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_secret_is_left_in_a_text() {
        let check = |secrets: &[&str], text: &str, expect: &str| {
            let hidden: Hidden = secrets.iter().map(|secret| Arc::from(*secret)).collect();
            assert_eq!(hidden.scrub(text), expect);
        };
        check(&["hunter2"], "no\n hunter2.", "no (secret).");
        // The longer one first, whatever the order.
        check(&["abcd", "abcd-efgh"], "abcd-efgh abcd", "(secret) (secret)");
        check(&["two  words"], "say two  words", "say (secret)");
        check(&["two words"], "say two\n  words", "say (secret)");
        check(&["BEGIN\nline-one\nline-two\nEND"], "bad line: line-two", "bad line: (secret)");
        check(&["BEGIN\nline-one"], r#"key "BEGIN\nline-one" is wrong"#, r#"key "(secret)" is wrong"#);
        check(&["a", ""], "a text", "a text");
        check(&["p@ss word"], "postgres://u:p%40ss%20word@h", "postgres://u:(secret)@h");
        check(&["p@ss word"], "https://h/?key=p%40ss+word&a=b", "https://h/?key=(secret)&a=b");
        check(&["p@ss word"], "Basic cEBzcyB3b3Jk", "Basic (secret)");
        check(&["hunter2"], "Basic dXNlcjpodW50ZXIy", "Basic dXNlcjp(secret)");
        check(&["p@ss+word"], "u:p%40ss%2bword@h", "u:(secret)@h");
        check(&["p&ss<word"], r#"{"password":"p\u0026ss\u003cword"}"#, r#"{"password":"(secret)"}"#);
    }

    #[test]
    fn a_leaf_that_holds_a_secret_is_told() {
        let hidden: Hidden = ["hunter2".into(), "a".into()].into_iter().collect();
        assert!(hidden.hides("postgres://u:hunter2@db") && hidden.hides("a") && !hidden.hides("banana"));
        let value = Value::Map([("x".into(), Value::Seq(vec![Value::text("=hunter2=")]))].into());
        assert!(hidden.hides_in(&value) && !hidden.hides_in(&Value::text("else")));
        assert_eq!(hidden.within(&value), ["hunter2".into()]);
        assert_eq!(format!("{hidden:?}"), "Hidden(2)");
    }
}
