//! Values that nobody may see: what an entry and a manifest name as secrets, in clear.
//!
//! *Guarantees*: a text that holds one of them is told, and an error is written without them, however the provider has
//! broken its lines. *Caveats*: three letters or fewer are too few to be looked for inside other texts.

use crate::cty::Value;
use reconciled_provider::Mask;
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
        Mask::of(self.0.iter().map(|secret| &**secret)).on_one_line(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
