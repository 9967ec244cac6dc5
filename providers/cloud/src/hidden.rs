//! Values that nobody may see: what an entry and a manifest name as secrets, and what a schema calls so, in clear.
//!
//! *Guarantees*: a text that holds one of them is told, also as addresses, headers, JSON and markup have it, and an error is
//! written without them, however the provider has broken its lines. *Caveats*: three octets or fewer are too few to be
//! looked for inside other texts, and five or fewer in base64. What a schema alone calls secret is looked for only where it is more than a word: a level
//! of `3` or `true` would hide everything.

use crate::cty::Value;
use reconciled_provider::Mask;
use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, OnceLock},
};

/// Shorter ones are parts of everything.
const SHORTEST: usize = 4;

/// As many digits are a port, or a number of seconds.
const DIGITS: usize = 5;

/// Secrets in clear. Printed as their number alone.
#[derive(Clone, Default)]
pub struct Hidden {
    /// Named as secrets.
    named: Vec<Arc<Secret>>,
    /// Called so by a schema, as they are looked for elsewhere.
    copied: Vec<Arc<Secret>>,
    /// What is in Git as it is: shown, whatever of `copied` it holds.
    open: BTreeSet<Arc<str>>,
}

struct Secret {
    text: Arc<str>,
    /// Made when it is first looked for: most never are.
    spellings: OnceLock<Mask>,
}

impl Secret {
    fn new(text: Arc<str>) -> Arc<Secret> {
        Arc::new(Secret { text, spellings: OnceLock::new() })
    }

    /// True when the text is this one, or holds it in any spelling.
    fn is_in(&self, text: &str) -> bool {
        *self.text == *text || self.spellings.get_or_init(|| Mask::of_whole([&*self.text])).finds(text)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hidden({})", self.iter().count())
    }
}

impl FromIterator<Arc<str>> for Hidden {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(all: I) -> Hidden {
        Hidden::default().and(all)
    }
}

impl Hidden {
    /// These and those.
    pub fn and(&self, more: impl IntoIterator<Item = Arc<str>>) -> Hidden {
        let mut all = self.clone();
        all.named.extend(more.into_iter().filter(|secret| !secret.is_empty()).map(Secret::new));
        all
    }

    /// These, and of those that a schema calls secret what is worth to be looked for elsewhere; not in texts that are `open`.
    pub fn and_copies(
        &self,
        of_schema: impl IntoIterator<Item = Arc<str>>,
        open: BTreeSet<Arc<str>>,
    ) -> Hidden {
        let mut all = self.clone();
        all.copied.extend(of_schema.into_iter().filter(|secret| is_telling(secret)).map(Secret::new));
        all.open.extend(open);
        all
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.named.iter().chain(&self.copied).map(|secret| &secret.text)
    }

    /// True when the text is one of them, or holds one.
    pub fn hides(&self, text: &str) -> bool {
        let holds_copy = || self.copied.iter().any(|secret| secret.is_in(text));
        self.named.iter().any(|secret| secret.is_in(text)) || holds_copy() && !self.open.contains(text)
    }

    /// True when a part of the value is one of them, or holds one.
    pub fn hides_in(&self, value: &Value) -> bool {
        any_text(value, &|text| self.hides(text))
    }

    /// True when a key of a map is one of them, or holds one: where it stands must not be told either.
    pub fn hides_key<'k>(&self, mut keys: impl Iterator<Item = &'k Arc<str>>) -> bool {
        keys.any(|key| self.hides(key))
    }

    /// Those named as secrets that a part of the value is, or holds.
    pub fn within(&self, value: &Value) -> Vec<Arc<str>> {
        let is_there = |secret: &&Arc<Secret>| any_text(value, &|text| secret.is_in(text));
        self.named.iter().filter(is_there).map(|secret| secret.text.clone()).collect()
    }

    /// The text on one line and without any of them.
    pub fn scrub(&self, text: &str) -> String {
        Mask::of(self.iter().map(|secret| &**secret)).on_one_line(text)
    }
}

/// True when `is_it` of a text in the value, or of the key of a map.
fn any_text(value: &Value, is_it: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_it(text),
        Value::Number(number) => is_it(number.as_str()),
        Value::Seq(all) => all.iter().any(|one| any_text(one, is_it)),
        Value::Map(all) => all.iter().any(|(key, one)| is_it(key) || any_text(one, is_it)),
        Value::Dynamic(inner) => any_text(&inner.1, is_it),
        Value::Null | Value::Unknown | Value::Bool(_) => false,
    }
}

/// False for what is in many a text by chance.
fn is_telling(secret: &str) -> bool {
    // It is looked for on one line as well.
    let secret = secret.trim();
    let is_truth = ["true", "false"].iter().any(|word| secret.eq_ignore_ascii_case(word));
    let is_small = secret.len() <= DIGITS && secret.bytes().all(|byte| byte.is_ascii_digit());
    secret.len() >= SHORTEST && !is_truth && !is_small
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cty::Number;

    #[test]
    fn no_secret_is_left_in_a_text_however_its_lines_are_broken() {
        let check = |secrets: &[&str], text: &str, expect: &str| {
            let hidden: Hidden = secrets.iter().map(|secret| Arc::from(*secret)).collect();
            assert_eq!(hidden.scrub(text), expect);
        };
        check(&["hunter2"], "no\n hunter2.", "no (secret).");
        check(&["two words"], "say two\n  words", "say (secret)");
        check(&["BEGIN\nline-one"], r#"key "BEGIN\nline-one" is wrong"#, r#"key "(secret)" is wrong"#);
        check(&["a", ""], "a text", "a text");
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

    #[test]
    fn a_secret_is_told_as_addresses_headers_and_json_have_it() {
        let secret: Arc<str> = "P@ss/w+rd&9\"canary".into();
        let named = Hidden::from_iter([secret.clone()]);
        let copied = Hidden::default().and_copies([secret.clone()], BTreeSet::new());
        for text in [
            "db://u:P%40ss%2Fw%2Brd%269%22canary@h",
            "db://u:P%40ss%2fw%2brd%269%22canary@h",
            "Basic dTpQQHNzL3crcmQmOSJjYW5hcnk=",
            r#"{"password":"P@ss/w+rd&9\"canary"}"#,
            r#"{"password":"P@ss/w+rd\u00269\u0022canary"}"#,
            "<password>P@ss/w+rd&amp;9&quot;canary</password>",
            "db://u:P@ss/w+rd%269%22canary@h",
        ] {
            assert!(named.hides(text) && copied.hides(text), "{text}");
            assert_eq!(named.within(&Value::text(text)), std::slice::from_ref(&secret));
        }
        assert!(!named.hides("db://u:P%40ss@h") && !copied.hides("canary"));
        // A file has a line feed at its end, and whoever is given what it holds has not.
        let file = Hidden::from_iter(["p@ss-word\n".into()]);
        assert!(file.hides("db://u:p%40ss-word@h") && !file.hides("db://u:p%40ss@h"));
        // One line of several says nothing: many a file begins like that.
        let key = Hidden::from_iter(["-----BEGIN CERTIFICATE-----\nMIIBkT\n".into()]);
        assert!(
            !key.hides("-----BEGIN CERTIFICATE-----\nother\n")
                && key.hides("x MIIBkT -----BEGIN CERTIFICATE----- MIIBkT")
        );
    }

    #[test]
    fn what_a_schema_calls_secret_is_looked_for_where_it_is_more_than_a_word() {
        let open: BTreeSet<Arc<str>> = ["db://u:made-by-it@h", "other"].map(Arc::from).into();
        let of_schema = ["made-by-it", "a", "abc", "true", "False", "true\n", "3", "5432"].map(Arc::from);
        let hidden = Hidden::from_iter(["key-of-it".into()]).and_copies(of_schema, open);
        for (text, expect) in [
            ("db://u:made-by-it@other", true),
            ("made-by-it", true),
            // It is in Git as it is.
            ("db://u:made-by-it@h", false),
            ("a", false),
            ("abc", false),
            ("true", false),
            ("False", false),
            ("3", false),
            ("5432", false),
            ("yes true", false),
            ("key-of-it", true),
        ] {
            assert_eq!(hidden.hides(text), expect, "{text}");
        }
        assert!(!hidden.hides_in(&Value::Number(Number::from(3))));
        // What is remembered with a resource is what a manifest named.
        assert_eq!(hidden.within(&Value::text("made-by-it key-of-it")), ["key-of-it".into()]);
        assert!(hidden.hides_key([Arc::from("x-made-by-it")].iter()));
        assert_eq!(hidden.scrub("no made-by-it here"), "no (secret) here");
    }
}
