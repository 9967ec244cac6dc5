//! `ignore` of a zone: records that others manage, by name, type and data.
//!
//! Guarantees: what a rule names is neither changed nor pruned; declaring it is an error with both places. An ACME
//! challenge that nobody declares is never pruned either, rule or not: somebody waits for a certificate; nor are addresses
//! of name servers that the zone itself names.
//! Deliberately not done: ignoring single values. A rule on data leaves the whole RRset alone.

use crate::{
    kind::IgnoreSpec,
    name::{Name, NameError, international, repeats_zone},
    rdata::{self, Refusal, Type},
    record::{self, RrSet},
};
use reconciled_provider::{
    At, Each, LeftAlone, Manifest, Observation, Place, Problem, ResourceId, Scope, Spec, address::glob,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A rule with patterns of canonical text; what is left out fits everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl Rule {
    /// Errors: what can never fit. What it is to protect would go without a word.
    fn of(spec: &IgnoreSpec, zone: &Name) -> Result<Rule, Refusal> {
        let name = spec.name.as_ref().map(|name| absolute(name, zone)).transpose()?;
        let kind = spec.kind.as_ref().map(|kind| kind.to_ascii_uppercase());
        if let Some(word) = kind.as_ref().filter(|word| !is_pattern(word) && !Type::may_be(word)) {
            return Err(Type::refuse(word));
        }
        Ok(Rule { name, kind, target: spec.target.clone() })
    }

    fn fits(&self, id: &ResourceId, bytes: Option<&[u8]>) -> bool {
        let Some((name, kind)) = record::parts(id) else { return false };
        self.name.as_ref().is_none_or(|pattern| glob(pattern, name))
            && self.kind.as_ref().is_none_or(|pattern| glob(pattern, kind))
            && self.target.as_ref().is_none_or(|pattern| {
                let set = bytes.and_then(RrSet::decode);
                set.is_some_and(|set| set.values.iter().any(|value| fits_data(pattern, kind, value)))
            })
    }
}

/// The pattern of an absolute name. What is no wildcard in it is written as a name is.
fn absolute(text: &str, zone: &Name) -> Result<String, Refusal> {
    let refuse = |error: NameError| Refusal { message: error.to_string(), hint: error.hint() };
    if !is_pattern(text) {
        let name = Name::within(text, zone).map_err(refuse)?;
        if !repeats_zone(text, zone) {
            return Ok(name.as_str().to_owned());
        }
    }
    if repeats_zone(text, zone) {
        let message =
            format!("`{text}` without a dot at the end means `{text}.{zone}`, which nothing is called");
        return Err(Refusal::new(message, format!("write `{text}.`")));
    }
    // DNS has such a label in another spelling, of which a part says nothing.
    if let Some(label) = text.split('.').find(|label| !label.is_ascii() && is_pattern(label)) {
        let message = format!("`{label}` has a wildcard among letters beyond ASCII, so it fits no name");
        let hint = "write out each such label, as in `*.bücher`; or name them by `type` and `target`";
        return Err(Refusal::new(message, hint));
    }
    let pattern = international(text).map_err(refuse)?.to_ascii_lowercase();
    Ok(if pattern.ends_with('.') { pattern } else { format!("{pattern}.{zone}") })
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Data as manifests write them, so TXT without quotes; names with or without the dot at the end, in whatever case.
fn fits_data(pattern: &str, kind: &str, value: &str) -> bool {
    let value = record::without_ttl(value);
    let kind = Type::of(kind);
    let written = kind.and_then(|kind| rdata::for_manifest(kind, value));
    let text = written.as_deref().unwrap_or(value);
    let fits = |pattern: &str, text: &str| {
        glob(pattern, text) || text.strip_suffix('.').is_some_and(|text| glob(pattern, text))
    };
    let has_names = kind != Some(Type::Txt);
    fits(pattern, text) || has_names && fits(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase())
}

/// The rules of a zone, for its own normalization.
#[derive(Default)]
pub(crate) struct Ignored {
    rules: Vec<(Rule, Place)>,
    /// Of the manifest that writes them.
    source: Option<Arc<str>>,
}

impl Ignored {
    /// The rules that `manifest` writes for `zone`; what is wrong with them is a problem of that manifest.
    pub(crate) fn of(
        manifest: &Manifest,
        specs: &Each<IgnoreSpec>,
        zone: &Name,
        problems: &mut Vec<Problem>,
    ) -> Ignored {
        let mut rules = Vec::new();
        for At { value, span, .. } in specs.iter() {
            if value.name.is_none() && value.kind.is_none() && value.target.is_none() {
                let problem = manifest.error(*span, "a rule of `ignore` names nothing");
                problems.push(problem.hint("write at least one of `name`, `type` and `target`"));
                continue;
            }
            let place = Place { file: manifest.file.path.clone(), line: span.line, column: span.column };
            match Rule::of(value, zone) {
                Ok(rule) => rules.push((rule, place)),
                Err(Refusal { message, hint }) => {
                    problems.push(Problem { hint, ..manifest.error(*span, format!("`ignore`: {message}")) });
                }
            }
        }
        Ignored { rules, source: Some(manifest.key.source().into()) }
    }

    /// The rules as text, for the engine to hand back.
    pub(crate) fn texts(&self) -> impl Iterator<Item = Arc<str>> {
        self.rules.iter().filter_map(|(rule, _)| serde_json::to_string(rule).ok()).map(Arc::from)
    }

    /// What stands at the place of a rule that names something of `manifest`.
    pub(crate) fn word(&self, manifest: &Manifest) -> String {
        match self.source.as_deref().filter(|source| *source != manifest.key.source()) {
            Some(source) => format!("the rule of source `{source}` that names it"),
            None => "the rule that names it".into(),
        }
    }

    /// Where a rule stands that names this declared record.
    pub(crate) fn place_of(&self, id: &ResourceId, spec: &Spec) -> Option<&Place> {
        self.rules.iter().find(|(rule, _)| rule.fits(id, spec.bytes())).map(|(_, place)| place)
    }
}

/// Consent to manage SOA and NS of the zone itself, among its rules. No rule reads like it.
pub(crate) const APEX: &str = "apex: true";

/// Whether a record that nobody declares is left to others, and why.
pub fn left_alone(scope: &Scope, rules: &[Arc<str>], id: &ResourceId, bytes: &[u8]) -> Option<LeftAlone> {
    // A zone that lost its delegation is gone for all: what the consent was for stays when the consent goes.
    if record::is_apex(scope, id) && !rules.iter().any(|rule| &**rule == APEX) {
        return Some(LeftAlone::OfScope);
    }
    let fits =
        |text: &Arc<str>| serde_json::from_str::<Rule>(text).is_ok_and(|rule| rule.fits(id, Some(bytes)));
    if rules.iter().any(fits) {
        return Some(LeftAlone::Ignored);
    }
    let (name, kind) = record::parts(id)?;
    let is_challenge = name.starts_with("_acme-challenge.") && matches!(kind, "TXT" | "CNAME" | "NS");
    is_challenge.then_some(LeftAlone::Custom)
}

/// True for the address of a name server that the zone itself names: without it nobody reaches the zone.
pub(crate) fn is_name_server(scope: &Scope, id: &ResourceId, seen: &Observation) -> bool {
    let Some((name, "A" | "AAAA")) = record::parts(id) else { return false };
    let servers = seen.get(&ResourceId(format!("{}/NS", record::zone_name(scope)).into()));
    let servers = servers.and_then(|servers| RrSet::decode(&servers.bytes));
    servers.is_some_and(|servers| servers.values.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Focus, Observed, Version};

    #[test]
    fn addresses_of_the_name_servers_of_the_zone_are_left_alone() {
        let resources = ["example.com./NS", "ns1.example.com./A", "www.example.com./A"]
            .map(|id| Observed::new(id.into(), "300\nns1.example.com.\nns2.example.org."));
        let seen = Observation {
            covered: Focus::All,
            complete: true,
            version: Version::Unknown,
            resources: resources.into(),
        };
        let scope = Scope::new("pdns", "example.com");
        let is = |id: &str| is_name_server(&scope, &id.into(), &seen);
        assert!(is("ns1.example.com./A") && is("ns1.example.com./AAAA"));
        assert!(!is("www.example.com./A") && !is("ns1.example.com./TXT"));
    }

    fn check(rule: (&str, &str, &str), id: &str, value: &str, fits: bool) {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let spec = IgnoreSpec { name: some(rule.0), kind: some(rule.1), target: some(rule.2) };
        let rule = Rule::of(&spec, &Name::zone("example.com").unwrap()).unwrap();
        let text: Arc<str> = serde_json::to_string(&rule).unwrap().into();
        let scope = Scope::new("pdns", "example.com");
        let found = left_alone(&scope, &[text], &id.into(), format!("300\n{value}").as_bytes());
        assert_eq!(found == Some(LeftAlone::Ignored), fits, "{rule:?} {id} {value}");
    }

    #[test]
    fn a_rule_is_by_name_type_and_data_and_all_of_it_has_to_fit() {
        let (www, apex) = ("www.example.com./A", "example.com./TXT");
        check(("www", "", ""), www, "192.0.2.1", true);
        check(("WWW.Example.com.", "a", ""), www, "192.0.2.1", true);
        check(("*", "", ""), www, "192.0.2.1", true);
        check(("*", "", ""), apex, "\"x\"", false);
        check(("@", "TXT", ""), apex, "\"x\"", true);
        check(("w*", "AAAA", ""), www, "192.0.2.1", false);
        check(("", "", "192.0.2.*"), www, "198.51.100.1\n192.0.2.1", true);
        check(("", "TXT", "v=spf1*"), apex, "\"v=spf1 -all\"", true);
        check(("", "", "*.elb.example.net"), "a.example.com./CNAME", "lb.elb.example.net.", true);
        check(("", "MX", "10 *"), "example.com./MX", "20 a.example.net.", false);
        check(("www", "", ""), "example.com.", "zone", false);
    }

    #[test]
    fn an_international_label_fits_whole_and_with_a_wildcard_in_it_is_refused() {
        let (one, below) = ("xn--b-eha.example.com./A", "a.xn--b-eha.example.com./A");
        check(("bü", "", ""), one, "192.0.2.1", true);
        check(("*.bü", "", ""), below, "192.0.2.1", true);
        check(("*.bü.example.com.", "", ""), below, "192.0.2.1", true);
        for name in ["bü*", "*ü", "b?ü.example.com.", "*.ü*"] {
            let spec = IgnoreSpec { name: Some(name.into()), kind: None, target: None };
            let refused = Rule::of(&spec, &Name::zone("example.com").unwrap()).unwrap_err();
            assert!(refused.message.contains("wildcard among letters"), "{name}: {}", refused.message);
        }
    }

    #[test]
    fn a_challenge_is_left_alone_without_a_rule() {
        let scope = Scope::new("pdns", "example.com");
        let of = |id: &str| left_alone(&scope, &[], &id.into(), b"60\n\"token\"");
        assert_eq!(of("_acme-challenge.example.com./TXT"), Some(LeftAlone::Custom));
        assert_eq!(of("_acme-challenge.www.example.com./CNAME"), Some(LeftAlone::Custom));
        assert_eq!(of("acme-challenge.example.com./TXT"), None);
        assert_eq!(of("_acme-challenge.example.com./A"), None);
    }
}
