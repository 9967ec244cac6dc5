//! Where the mark of a record stands: the names of ExternalDNS's TXT registry.
//!
//! `--txt-prefix`, `--txt-suffix` and `--txt-wildcard-replacement` decide; what they would name for a record is
//! worked out forward, so nothing has to be guessed where they are known.

use crate::{
    name::{self, Name},
    rdata::Type,
};
use reconciled_provider::Error;

/// Stands for the type of the record in a prefix or suffix.
const TYPE: &str = "%{record_type}";

/// Types that ExternalDNS recognizes in front of a name, as it writes them.
pub(crate) const TYPES: [&str; 10] =
    ["a", "aaaa", "cname", "dname", "mx", "naptr", "ns", "ptr", "srv", "txt"];

/// How the names of marks are made. The default is that of ExternalDNS: `a-www.example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    prefix: String,
    suffix: String,
    wildcard: String,
}

impl Naming {
    /// The naming that these values of the options of ExternalDNS make; empty ones as if left out.
    ///
    /// Errors: no name of a record can come of them.
    pub fn new(prefix: &str, suffix: &str, wildcard: &str) -> Result<Naming, Error> {
        if !prefix.is_empty() && !suffix.is_empty() {
            return Err(Error::invalid("marks have a prefix and a suffix")
                .hint("ExternalDNS knows only one of the two: leave one out"));
        }
        for (word, text) in [("prefix", prefix), ("suffix", suffix), ("wildcard", wildcard)] {
            let rest = if word == "wildcard" { text.into() } else { text.replace(TYPE, "") };
            let is_odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            if rest.contains(is_odd) || rest.starts_with('.') && word == "prefix" || rest.contains("..") {
                return Err(Error::invalid(format!("{word} `{text}` of marks makes no name"))
                    .hint(format!("letters, digits, hyphens, underscores and dots; `{TYPE}` is the type")));
            }
        }
        let lower = str::to_ascii_lowercase;
        Ok(Naming { prefix: lower(prefix), suffix: lower(suffix), wildcard: lower(wildcard) })
    }

    /// Name of the mark of the record `name`/`kind`, wherever that is.
    pub(crate) fn typed(&self, name: &str, kind: &str) -> String {
        let (first, rest) = self.first(name);
        let (prefix, suffix) = self.affixes(&kind.to_ascii_lowercase());
        format!("{prefix}{first}{suffix}{rest}")
    }

    /// Name of the mark without the type, which ExternalDNS wrote up to version 0.11 and still reads for all types
    /// but AAAA; none where it would read a type in it.
    pub(crate) fn untyped(&self, name: &str) -> Option<String> {
        let (first, rest) = self.first(name);
        if begins_with_type(first) {
            return None;
        }
        let [prefix, suffix] = [&self.prefix, &self.suffix].map(|affix| affix.replace(TYPE, ""));
        Some(format!("{prefix}{first}{suffix}{rest}"))
    }

    /// Name under which a mark of `name`/`kind` can be written; none where there is no such place: beside the zone
    /// (`a-example.com`), under a `*`, or too long.
    pub(crate) fn place(&self, name: &str, kind: &str, zone: &str) -> Option<String> {
        let is_bare_wildcard = name.starts_with("*.") && self.wildcard.is_empty();
        let place = Name::absolute(&self.typed(name, kind)).ok().filter(|_| !is_bare_wildcard)?;
        let place = place.as_str();
        (place != zone && name::is_within(place, zone)).then(|| place.to_owned())
    }

    /// True for the name that the mark of a record of some type has by these rules.
    pub(crate) fn may_name(&self, mark: &str) -> bool {
        Type::all().any(|kind| {
            let kind = kind.word().to_ascii_lowercase();
            let (prefix, suffix) = self.affixes(&kind);
            // One character of the name of the record at least.
            let rest = mark.strip_prefix(&*prefix).and_then(|rest| rest.get(1..));
            rest.is_some_and(|rest| rest.contains(&*suffix))
        })
    }

    /// What stands in front of the first label of a record of the type `kind`, and behind it.
    fn affixes(&self, kind: &str) -> (String, String) {
        let [prefix, suffix] = [&self.prefix, &self.suffix].map(|affix| affix.replace(TYPE, kind));
        match self.prefix.contains(TYPE) || self.suffix.contains(TYPE) {
            true => (prefix, suffix),
            false => (format!("{prefix}{kind}-"), suffix),
        }
    }

    fn first<'n>(&'n self, name: &'n str) -> (&'n str, &'n str) {
        let first = name::labels(name).next().unwrap_or_default();
        let rest = &name[first.len()..];
        (if first == "*" && !self.wildcard.is_empty() { &self.wildcard } else { first }, rest)
    }
}

/// True when ExternalDNS takes what is before the first hyphen for a type.
pub(crate) fn begins_with_type(label: &str) -> bool {
    label.split_once('-').is_some_and(|(word, _)| TYPES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(affixes: [&str; 3], record: (&str, &str), typed: &str, untyped: Option<&str>) {
        let naming = Naming::new(affixes[0], affixes[1], affixes[2]).unwrap();
        assert_eq!(naming.typed(record.0, record.1), typed, "{affixes:?}");
        assert!(naming.may_name(typed), "{affixes:?}");
        assert_eq!(naming.untyped(record.0).as_deref(), untyped, "{affixes:?}");
    }

    #[test]
    fn names_are_those_of_externaldns() {
        let www = ("www.ex.com.", "A");
        check(["", "", ""], www, "a-www.ex.com.", Some("www.ex.com."));
        check(["", "", ""], ("www.ex.com.", "CNAME"), "cname-www.ex.com.", Some("www.ex.com."));
        check(["foo.", "", ""], www, "foo.a-www.ex.com.", Some("foo.www.ex.com."));
        check(["ExtDNS-", "", ""], www, "extdns-a-www.ex.com.", Some("extdns-www.ex.com."));
        check(["", "-sfx", ""], www, "a-www-sfx.ex.com.", Some("www-sfx.ex.com."));
        let template = ["%{record_type}-abc-.", "", ""];
        check(template, ("www.ex.com.", "CNAME"), "cname-abc-.www.ex.com.", Some("-abc-.www.ex.com."));
        check(template, ("ex.com.", "CNAME"), "cname-abc-.ex.com.", Some("-abc-.ex.com."));
        check(["", "-%{record_type}", ""], www, "www-a.ex.com.", Some("www-.ex.com."));
        check(["", "", "any"], ("*.ex.com.", "A"), "a-any.ex.com.", Some("any.ex.com."));
        check(["", "", ""], ("*.ex.com.", "A"), "a-*.ex.com.", Some("*.ex.com."));
        check(["", "", ""], ("mx-1.ex.com.", "A"), "a-mx-1.ex.com.", None);
    }

    #[test]
    fn other_names_are_those_of_no_mark() {
        let no = |prefix: &str, suffix: &str, name: &str| {
            assert!(!Naming::new(prefix, suffix, "").unwrap().may_name(name), "{prefix} {suffix} {name}");
        };
        no("own-", "", "old-a-www.ex.com.");
        no("own-", "", "own-www.ex.com.");
        no("%{record_type}-own.", "", "a-old.www.ex.com.");
        no("%{record_type}-own.", "", "b-own.www.ex.com.");
        no("", "-own", "a-www.ex.com.");
    }

    #[test]
    fn a_mark_is_written_only_within_its_zone() {
        let place = |prefix: &str, wildcard: &str, name: &str| {
            Naming::new(prefix, "", wildcard).unwrap().place(name, "A", "ex.com.")
        };
        assert_eq!(place("", "", "ex.com."), None);
        assert_eq!(place("%{record_type}-.", "", "ex.com.").as_deref(), Some("a-.ex.com."));
        assert_eq!(place("", "", "*.ex.com."), None);
        assert_eq!(place("", "any", "*.ex.com.").as_deref(), Some("a-any.ex.com."));
        assert_eq!(place("", "", &format!("{}.ex.com.", "x".repeat(62))), None);
    }

    #[test]
    fn what_makes_no_name_is_refused() {
        for (prefix, suffix, wildcard) in
            [("a-", "-b", ""), ("a b", "", ""), (".a", "", ""), ("", "", "*"), ("a..", "", "")]
        {
            let error = Naming::new(prefix, suffix, wildcard).unwrap_err();
            assert!(error.hint.is_some(), "{prefix} {suffix} {wildcard}");
        }
    }
}
