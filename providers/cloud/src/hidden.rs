//! Values that nobody may see: what an entry and a manifest name as secrets, and what a schema calls so, in clear.
//!
//! *Guarantees*: a text that holds one of them is told, and an error is written without them, however the provider has
//! broken its lines. *Caveats*: three letters or fewer are too few to be looked for inside other texts. What a schema alone
//! calls secret is looked for only where it is more than a word: a level of `3` or `true` would hide everything.

use crate::cty::Value;
use reconciled_provider::Mask;
use std::{collections::BTreeSet, fmt, sync::Arc};

/// Shorter ones are parts of everything.
const SHORTEST: usize = 4;

/// As many digits are a port, or a number of seconds.
const DIGITS: usize = 5;

/// Secrets in clear. Printed as their number alone.
#[derive(Clone, Default)]
pub struct Hidden {
    /// Named as secrets.
    named: Vec<Arc<str>>,
    /// Called so by a schema, as they are looked for elsewhere.
    copied: Vec<Arc<str>>,
    /// What is in Git as it is: shown, whatever of `copied` it holds.
    open: BTreeSet<Arc<str>>,
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
        all.named.extend(more.into_iter().filter(|secret| !secret.is_empty()));
        all
    }

    /// These, and of those that a schema calls secret what is worth to be looked for elsewhere; not in texts that are `open`.
    pub fn and_copies(
        &self,
        of_schema: impl IntoIterator<Item = Arc<str>>,
        open: BTreeSet<Arc<str>>,
    ) -> Hidden {
        let mut all = self.clone();
        all.copied.extend(of_schema.into_iter().filter(|secret| is_telling(secret)));
        all.open.extend(open);
        all
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.named.iter().chain(&self.copied)
    }

    /// True when the text is one of them, or holds one.
    pub fn hides(&self, text: &str) -> bool {
        let is_named =
            |secret: &Arc<str>| **secret == *text || secret.len() >= SHORTEST && text.contains(&**secret);
        let holds_copy = || self.copied.iter().any(|secret| text.contains(&**secret));
        self.named.iter().any(is_named) || holds_copy() && !self.open.contains(text)
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

    /// True when a key of a map is one of them, or holds one: where it stands must not be told either.
    pub fn hides_key<'k>(&self, mut keys: impl Iterator<Item = &'k Arc<str>>) -> bool {
        keys.any(|key| self.hides(key))
    }

    /// Those named as secrets that a part of the value is, or holds.
    pub fn within(&self, value: &Value) -> Vec<Arc<str>> {
        let is_there = |secret: &&Arc<str>| Hidden::from_iter([(*secret).clone()]).hides_in(value);
        self.named.iter().filter(is_there).cloned().collect()
    }

    /// The text on one line and without any of them.
    pub fn scrub(&self, text: &str) -> String {
        Mask::of(self.iter().map(|secret| &**secret)).on_one_line(text)
    }
}

/// False for what is in many a text by chance.
fn is_telling(secret: &str) -> bool {
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
    fn what_a_schema_calls_secret_is_looked_for_where_it_is_more_than_a_word() {
        let open: BTreeSet<Arc<str>> = ["db://u:made-by-it@h", "other"].map(Arc::from).into();
        let of_schema = ["made-by-it", "a", "abc", "true", "False", "3", "5432"].map(Arc::from);
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
