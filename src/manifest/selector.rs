//! Host selectors: `role=web,env!=staging`, in the syntax of Kubernetes label selectors.
//!
//! `name` stands for the host's name. All terms must hold.

use crate::config::Host;
use std::{fmt, str::FromStr, sync::Arc};

/// A condition on the host's name and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Exists(Arc<str>),
    Absent(Arc<str>),
    In(Arc<str>, Vec<Arc<str>>),
    NotIn(Arc<str>, Vec<Arc<str>>),
}

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectorError(String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a term of a host selector", self.0)
    }
}

impl Selector {
    pub(crate) fn matches(&self, host: &Host) -> bool {
        let value = |key: &str| match key {
            "name" => Some(&host.name),
            _ => host.labels.get(key),
        };
        self.0.iter().all(|term| match term {
            Term::Exists(key) => value(key).is_some(),
            Term::Absent(key) => value(key).is_none(),
            Term::In(key, values) => value(key).is_some_and(|value| values.contains(value)),
            // As in Kubernetes: a host without the label is not in the set.
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
    if let Some((head, list)) = term.split_once('(') {
        let list = list.strip_suffix(')').ok_or_else(wrong)?;
        let values = list.split(',').map(word).collect::<Result<Vec<_>, _>>()?;
        let mut words = head.split_whitespace();
        let term = match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => Term::In(word(key)?, values),
            (Some(key), Some("notin"), None) => Term::NotIn(word(key)?, values),
            _ => return Err(wrong()),
        };
        return Ok(term);
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(Term::NotIn(word(key)?, vec![word(value)?]));
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Ok(Term::In(word(key)?, vec![word(value)?]));
    }
    match term.strip_prefix('!') {
        Some(key) => word(key).map(Term::Absent),
        None => word(term).map(Term::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_selector_is_understood() {
        let host = Host {
            name: "web1".into(),
            labels: [("role".into(), "web".into()), ("env".into(), "prod".into())].into(),
        };
        let check = |text: &str, expect| {
            assert_eq!(text.parse::<Selector>().unwrap().matches(&host), expect, "{text}");
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
    }

    #[test]
    fn a_text_that_is_no_selector_is_refused() {
        for text in ["", "a=", "=a", "a=b,,c", "a in b", "a in (b", "a of (b)", "a b"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
