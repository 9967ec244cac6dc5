//! The domain filter of a provider: which names it serves.
//!
//! Its form is that of ExternalDNS's code (`include`, `exclude`, `regexInclude`, `regexExclude`). The OpenAPI
//! file of the protocol says `filters`, which some providers send; it means `include`.

use crate::name;
use reconciled_provider::Error;
use regex::Regex;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    include: Option<Vec<String>>,
    #[serde(default)]
    filters: Option<Vec<String>>,
    #[serde(default)]
    exclude: Option<Vec<String>>,
    #[serde(default)]
    regex_include: Option<String>,
    #[serde(default)]
    regex_exclude: Option<String>,
}

/// Which names a provider serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
    regex_include: Option<Regex>,
    regex_exclude: Option<Regex>,
}

impl Filter {
    /// Reads the answer of a negotiation. `what` says what was being done.
    pub(crate) fn parse(body: &[u8], what: &str) -> Result<Filter, Error> {
        let bad = |why: String| {
            Error::unexpected(format!("{what}: the domain filter {why}"))
                .hint("is `url` a webhook provider of ExternalDNS?")
        };
        // A list is no filter, though it could be read as the fields of one in their order.
        let body = serde_json::from_slice::<Option<serde_json::Map<_, _>>>(body)
            .and_then(|map| serde_json::from_value::<Body>(map.unwrap_or_default().into()))
            .map_err(|error| bad("is none".into()).caused_by(error))?;
        let clean = |list: Option<Vec<String>>| {
            let names = list.unwrap_or_default().into_iter();
            let names =
                names.map(|name| name::in_ascii(name.trim().trim_end_matches('.')).to_ascii_lowercase());
            names.filter(|name| !name.is_empty()).collect::<Vec<_>>()
        };
        let expression = |text: Option<String>| match text.filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => Regex::new(&text).map(Some).map_err(|error| {
                bad(format!("has an expression nobody understands, `{text}`")).caused_by(error)
            }),
        };
        let filter = Filter {
            include: clean(body.include.or(body.filters)),
            exclude: clean(body.exclude),
            regex_include: expression(body.regex_include)?,
            regex_exclude: expression(body.regex_exclude)?,
        };
        let has_regex = filter.regex_include.is_some() || filter.regex_exclude.is_some();
        if has_regex && (!filter.include.is_empty() || !filter.exclude.is_empty()) {
            return Err(bad("has both lists and expressions".into()));
        }
        Ok(filter)
    }

    /// True when the provider serves `name` (without its last dot), as ExternalDNS decides it.
    pub(crate) fn serves(&self, name: &str) -> bool {
        if self.regex_include.is_some() || self.regex_exclude.is_some() {
            let is_excluded = self.regex_exclude.as_ref().is_some_and(|regex| regex.is_match(name));
            return !is_excluded && self.regex_include.as_ref().is_none_or(|regex| regex.is_match(name));
        }
        let is_in = |list: &[String]| list.iter().any(|filter| covers(filter, name));
        (self.include.is_empty() || is_in(&self.include)) && !is_in(&self.exclude)
    }

    /// True when something in `zone` may be served: the zone itself, or names below it.
    pub(crate) fn touches(&self, zone: &str) -> bool {
        let is_below = |filter: &String| {
            let name = filter.trim_start_matches('.');
            name == zone || name.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.'))
        };
        self.regex_include.is_some() || self.serves(zone) || self.include.iter().any(is_below)
    }

    /// The zones that the filter names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.include.iter().map(|name| name.trim_start_matches('.'))
    }

    /// The filter for people.
    pub(crate) fn shown(&self) -> String {
        let mut words = Vec::new();
        if !self.include.is_empty() {
            words.push(self.include.join(", "));
        }
        words.extend(self.regex_include.as_ref().map(|regex| format!("what fits `{regex}`")));
        let mut excluded = self.exclude.clone();
        excluded.extend(self.regex_exclude.as_ref().map(|regex| format!("what fits `{regex}`")));
        if !excluded.is_empty() {
            words.push(format!("not {}", excluded.join(", ")));
        }
        if words.is_empty() { "everything".into() } else { words.join("; ") }
    }
}

fn covers(filter: &str, name: &str) -> bool {
    match filter.starts_with('.') {
        // Names below it, not itself.
        true => name.ends_with(filter),
        false => name == filter || name.strip_suffix(filter).is_some_and(|rest| rest.ends_with('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(body: &str) -> Filter {
        Filter::parse(body.as_bytes(), "ask").unwrap()
    }

    #[test]
    fn a_filter_decides_as_externaldns_does() {
        let all = filter("{}");
        assert!(all.serves("a.example") && all.touches("a.example") && all.shown() == "everything");
        let lists =
            filter(r#"{"include": ["example.com.", ".sub.example.org"], "exclude": ["x.example.com"]}"#);
        let serves: Vec<bool> = [
            "example.com",
            "www.example.com",
            "badexample.com",
            "x.example.com",
            "y.x.example.com",
            "sub.example.org",
            "a.sub.example.org",
        ]
        .map(|name| lists.serves(name))
        .into();
        assert_eq!(serves, [true, true, false, false, false, false, true]);
        assert!(lists.touches("example.org") && !lists.touches("example.net"));
        let expressions = filter(r#"{"regexInclude": "\\.example\\.(com|org)$", "regexExclude": "^test"}"#);
        assert!(expressions.serves("www.example.org") && !expressions.serves("test.example.org"));
        assert!(filter(r#"{"filters": ["example.com"]}"#).serves("a.example.com"));
        assert!(filter(r#"{"include": ["Bücher.example"]}"#).serves("a.xn--bcher-kva.example"));
    }

    #[test]
    fn what_is_no_filter_is_an_error_and_never_everything() {
        for body in ["", "[]", "<html>", r#"{"include": "x"}"#, r#"{"regexInclude": "("}"#] {
            assert!(Filter::parse(body.as_bytes(), "ask").is_err(), "{body}");
        }
        assert!(Filter::parse(br#"{"include": ["a"], "regexExclude": "b"}"#, "ask").is_err());
    }
}
