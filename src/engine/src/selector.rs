//! Selectors: `role=web,env!=staging`, in the syntax of Kubernetes label selectors. All terms must hold.

use std::{fmt, str::FromStr, sync::Arc};

/// A condition on labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Term {
    Exists(Arc<str>),
    Absent(Arc<str>),
    In(Arc<str>, Vec<Arc<str>>),
    NotIn(Arc<str>, Vec<Arc<str>>),
}

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a term of a selector", self.0)
    }
}

impl std::error::Error for SelectorError {}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.0.iter().map(Term::to_string).collect();
        f.write_str(&terms.join(","))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Exists(key) => f.write_str(key),
            Term::Absent(key) => write!(f, "!{key}"),
            Term::In(key, values) if values.len() == 1 => write!(f, "{key}={}", values[0]),
            Term::NotIn(key, values) if values.len() == 1 => write!(f, "{key}!={}", values[0]),
            Term::In(key, values) => write!(f, "{key} in ({})", values.join(",")),
            Term::NotIn(key, values) => write!(f, "{key} notin ({})", values.join(",")),
        }
    }
}

impl Selector {
    /// The same whatever the order in which its terms were written.
    pub fn sorted(mut self) -> Selector {
        for term in &mut self.0 {
            if let Term::In(_, values) | Term::NotIn(_, values) = term {
                values.sort();
                values.dedup();
            }
        }
        self.0.sort();
        self
    }

    /// True when all terms hold for what `value` says of each key.
    pub fn matches<'v>(&self, value: impl Fn(&str) -> Option<&'v Arc<str>>) -> bool {
        self.0.iter().all(|term| match term {
            Term::Exists(key) => value(key).is_some(),
            Term::Absent(key) => value(key).is_none(),
            Term::In(key, values) => value(key).is_some_and(|value| values.contains(value)),
            // As in Kubernetes: what does not have the label is not in the set.
            Term::NotIn(key, values) => value(key).is_none_or(|value| !values.contains(value)),
        })
    }
}

impl FromStr for Selector {
    type Err = SelectorError;
    fn from_str(text: &str) -> Result<Selector, SelectorError> {
        terms(text).into_iter().map(|term| parse(term.trim())).collect::<Result<_, _>>().map(Selector)
    }
}

/// Splits at commas that are not inside parentheses.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn parse(term: &str) -> Result<Term, SelectorError> {
    let wrong = || SelectorError(term.to_string());
    let word = |text: &str| -> Result<Arc<str>, SelectorError> {
        let text = text.trim();
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if text.is_empty() || !text.chars().all(is_word) { Err(wrong()) } else { Ok(text.into()) }
    };
    // Labels may hold any text, also none; what means something to a selector cannot be said.
    let value = |text: &str| -> Result<Arc<str>, SelectorError> {
        let text = text.trim();
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "(),=!".contains(c);
        if text.contains(is_odd) { Err(wrong()) } else { Ok(text.into()) }
    };
    if let Some((head, list)) = term.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(wrong)?;
        let values = list.split(',').map(value).collect::<Result<Vec<_>, _>>()?;
        let mut words = head.split_whitespace();
        let term = match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => Term::In(word(key)?, values),
            (Some(key), Some("notin"), None) => Term::NotIn(word(key)?, values),
            _ => return Err(wrong()),
        };
        return Ok(term);
    }
    if let Some((key, text)) = term.split_once("!=") {
        return Ok(Term::NotIn(word(key)?, vec![value(text)?]));
    }
    if let Some((key, text)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Term::In(word(key)?, vec![value(text)?]));
    }
    match term.strip_prefix('!') {
        Some(key) => word(key).map(Term::Absent),
        None => word(term).map(Term::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_form_of_a_selector_is_understood() {
        let labels: BTreeMap<&str, Arc<str>> =
            [("role", "web".into()), ("env", "prod".into()), ("name", "web1".into())].into();
        let check = |text: &str, expect| {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.matches(|key| labels.get(key)), expect, "{text}");
            assert_eq!(selector.to_string().parse(), Ok(selector), "{text}");
        };
        check("role=web", true);
        check("role==web,env!=staging", true);
        check("role=web, env = staging", false);
        check("env in (prod, staging)", true);
        check("env notin (prod,staging)", false);
        check("zone notin (a)", true);
        check("role", true);
        check("!role", false);
        check("!gpu", true);
        check("name=web1", true);
        check("name in (web2,web3)", false);
        check("gpu!=a100", true);
        check("owner=ops@example.com", false);
        check("role=", false);
    }

    #[test]
    fn a_text_that_is_no_selector_is_refused() {
        for text in ["", "=a", "a=b=c", "a=b,,c", "a in b", "a in (b", "a of (b)", "a b"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_means_the_same_is_written_the_same() {
        let sorted = |text: &str| text.parse::<Selector>().unwrap().sorted();
        assert_eq!(sorted("tier in (b,a,b), role=web"), sorted("role==web,tier in (a,b)"));
    }
}
