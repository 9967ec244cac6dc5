//! Endpoints of the protocol ↔ canonical RRsets.
//!
//! An endpoint is an RRset: name without its last dot, type, targets, a TTL where 0 means "whatever the provider
//! takes". Endpoints with a set identifier are one of several answers for a name; they are seen and kept, never
//! written. The order of targets, properties and endpoints is the provider's and means nothing: what is compared is
//! [`Set::sorted`], what is sent back is as it was read. A provider may tell international names as people read them: they are
//! compared as DNS holds them.

use super::config::TxtForm;
use crate::{
    name, rdata,
    record::{self, RrSet},
    text,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One endpoint. What is not ours is carried as it came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    pub(crate) dns_name: String,
    pub(crate) targets: Option<Vec<String>>,
    pub(crate) record_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) set_identifier: Option<String>,
    #[serde(rename = "recordTTL", skip_serializing_if = "Option::is_none")]
    pub(crate) record_ttl: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) labels: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider_specific: Option<Vec<Map<String, Value>>>,
}

/// How a value begins that is one of several answers.
pub(crate) const ROUTED: &str = "(set ";

/// Canonical name and type.
pub(crate) type Key = (String, String);

impl Endpoint {
    /// What it is about.
    pub(crate) fn key(&self) -> Key {
        let name = format!("{}.", self.dns_name.trim_end_matches('.'));
        (name::observed(&name::in_ascii(&name)).into_owned(), self.record_type.to_ascii_uppercase())
    }
    fn identifier(&self) -> Option<&str> {
        self.set_identifier.as_deref().filter(|text| !text.is_empty())
    }
    /// The TTL, where it says one.
    pub(crate) fn ttl(&self) -> Option<u32> {
        self.record_ttl.filter(|ttl| *ttl > 0).and_then(|ttl| u32::try_from(ttl).ok())
    }
    fn sorted(&self) -> Endpoint {
        let mut sorted = self.clone();
        sorted.targets.iter_mut().for_each(|targets| targets.sort_unstable());
        let name = |property: &Map<String, Value>| property.get("name").map(Value::to_string);
        sorted.provider_specific.iter_mut().for_each(|properties| properties.sort_by_key(name));
        sorted
    }
    /// Keeps the properties and labels of `old` that this one does not set itself: they may belong to others.
    pub(crate) fn inherit(&mut self, old: &Endpoint) {
        let mut properties = self.provider_specific.take().unwrap_or_default();
        for property in old.provider_specific.iter().flatten() {
            if !properties.iter().any(|own| own.get("name") == property.get("name")) {
                properties.push(property.clone());
            }
        }
        self.provider_specific = (!properties.is_empty()).then_some(properties);
        if self.labels.as_ref().is_none_or(Map::is_empty) {
            self.labels.clone_from(&old.labels);
        }
    }
}

/// Endpoints of one name and type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set(pub(crate) Vec<Endpoint>);

impl Set {
    /// True when some of it is one of several answers.
    pub(crate) fn is_routed(&self) -> bool {
        self.0.iter().any(|endpoint| endpoint.identifier().is_some())
    }
    /// The TTL, where an endpoint says one.
    pub(crate) fn ttl(&self) -> Option<u32> {
        self.0.iter().filter_map(Endpoint::ttl).min()
    }
    /// The same whatever the order in which the provider tells of it.
    pub(crate) fn sorted(&self) -> Vec<Endpoint> {
        let mut sorted: Vec<Endpoint> = self.0.iter().map(Endpoint::sorted).collect();
        sorted.sort_by(|a, b| (a.identifier(), &a.targets).cmp(&(b.identifier(), &b.targets)));
        sorted
    }
    /// Canonical bytes. `ttl` stands in where no endpoint says one; 0 says that nobody knows it.
    pub(crate) fn bytes(&self, ttl: u32) -> Vec<u8> {
        let mut values: Vec<String> = Vec::new();
        for endpoint in &self.0 {
            let (_, kind) = endpoint.key();
            for target in endpoint.targets.iter().flatten() {
                let value = read(&kind, target).replace('\n', "\\010");
                values.push(match endpoint.identifier() {
                    Some(identifier) => format!("{ROUTED}{}) {value}", crate::http::printable(identifier)),
                    None => value,
                });
            }
        }
        record::encode(self.ttl().unwrap_or(ttl), &mut values)
    }
    /// All of it as one endpoint, as it is to be sent as the old side of a change.
    pub(crate) fn united(&self) -> Option<Endpoint> {
        let mut united = self.0.first()?.clone();
        let more = self.0[1..].iter().flat_map(|endpoint| endpoint.targets.iter().flatten());
        united.targets.get_or_insert_default().extend(more.cloned());
        Some(united)
    }
}

/// Endpoints by name and type.
pub(crate) fn group(endpoints: impl IntoIterator<Item = Endpoint>) -> BTreeMap<Key, Set> {
    let mut sets: BTreeMap<Key, Set> = BTreeMap::new();
    for endpoint in endpoints {
        sets.entry(endpoint.key()).or_default().0.push(endpoint);
    }
    sets
}

/// The endpoint of a canonical RRset.
pub(crate) fn endpoint(name: &str, kind: &str, set: &RrSet<'_>, txt: TxtForm) -> Endpoint {
    Endpoint {
        dns_name: name.trim_end_matches('.').into(),
        targets: Some(set.values.iter().map(|value| write(kind, value, txt)).collect()),
        record_type: kind.into(),
        record_ttl: Some(set.ttl.into()),
        ..Endpoint::default()
    }
}

fn read(kind: &str, target: &str) -> String {
    let absolute = |host: &str| format!("{}.", name::in_ascii(host.trim_end_matches('.')));
    let presentation = match kind {
        "CNAME" | "NS" | "PTR" | "DNAME" => absolute(target),
        // The host is the last word.
        "MX" | "SRV" | "NAPTR" => match target.trim().rsplit_once(' ') {
            Some((before, host)) => format!("{before} {}", absolute(host)),
            None => target.to_owned(),
        },
        "TXT" if target.starts_with('"') && text::unquote(target).is_some() => target.to_owned(),
        "TXT" => {
            let mut out = String::new();
            text::quote(target.as_bytes(), &mut out);
            out
        }
        _ => target.to_owned(),
    };
    rdata::observed(kind, &presentation).into_owned()
}

fn write(kind: &str, value: &str, txt: TxtForm) -> String {
    match (kind, txt) {
        ("CNAME" | "NS" | "PTR" | "DNAME", _) => value.trim_end_matches('.').to_owned(),
        ("MX", _) => match value.rsplit_once(' ') {
            Some((before, host)) if host != "." => format!("{before} {}", host.trim_end_matches('.')),
            _ => value.to_owned(),
        },
        // Who adds the quotes adds them around all of it: sent along, those of several strings would be part of the text.
        ("TXT", TxtForm::Plain) => match text::unquote(value).map(String::from_utf8) {
            Some(Ok(text)) => text,
            _ => value.to_owned(),
        },
        // SRV and NAPTR keep their dot: ExternalDNS refuses them without.
        _ => rdata::wire(kind, value, 0).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{rdata::tests::canonical_values, strings};
    use proptest::prelude::*;

    fn check(kind: &str, canonical: &str, txt: TxtForm, target: &str) {
        let set = RrSet { ttl: 60, extra: "", values: vec![canonical] };
        let endpoint = endpoint("www.example.com.", kind, &set, txt);
        assert_eq!(endpoint.targets.as_deref(), Some(&[target.to_owned()][..]), "{kind}");
        assert_eq!(endpoint.key(), ("www.example.com.".into(), kind.into()));
        let again = if txt == TxtForm::Plain { uncut(canonical) } else { canonical.to_owned() };
        assert_eq!(Set(vec![endpoint]).bytes(0), format!("60\n{again}").into_bytes());
    }

    /// What a text is that is sent without quotes.
    fn uncut(canonical: &str) -> String {
        strings::joined(canonical).unwrap_or_else(|| canonical.to_owned())
    }

    #[test]
    fn each_type_has_its_form_in_targets() {
        use TxtForm::{Plain, Quoted};
        check("A", "192.0.2.1", Quoted, "192.0.2.1");
        check("CNAME", "a.example.org.", Quoted, "a.example.org");
        check("MX", "10 mail.example.org.", Quoted, "10 mail.example.org");
        check("MX", "0 .", Quoted, "0 .");
        check("SRV", "10 60 5060 sip.example.org.", Quoted, "10 60 5060 sip.example.org.");
        check("TXT", "\"v=spf1 -all\"", Quoted, "\"v=spf1 -all\"");
        check("TXT", "\"v=spf1 -all\"", Plain, "v=spf1 -all");
        check("TXT", "\"a \\\"b\\\"\"", Plain, "a \"b\"");
        check("TXT", "\"path=/x\" \"rp=lp\"", Quoted, "\"path=/x\" \"rp=lp\"");
        check("TXT", "\"path=/x\" \"rp=lp\"", Plain, "path=/xrp=lp");
    }

    proptest! {
        #[test]
        fn any_value_comes_back_from_a_provider_as_it_was_sent((kind, value) in canonical_values()) {
            let is_served = ["A", "AAAA", "CAA", "CNAME", "DNAME", "MX", "NAPTR", "NS", "PTR", "SRV", "TXT"];
            prop_assume!(is_served.contains(&kind.word()));
            prop_assert_eq!(read(kind.word(), &write(kind.word(), &value, TxtForm::Quoted)), &*value);
            // A text in quotes is taken for a quoted one.
            let plain = uncut(&value);
            if !plain.starts_with("\"\\\"") {
                prop_assert_eq!(read(kind.word(), &write(kind.word(), &value, TxtForm::Plain)), plain);
            }
        }
    }

    #[test]
    fn hosts_that_are_told_as_people_read_them_are_those_that_dns_holds() {
        for (kind, told, value) in [
            ("CNAME", "Bücher.example.org", "xn--bcher-kva.example.org."),
            ("MX", "10 bücher.example.org.", "10 xn--bcher-kva.example.org."),
            ("SRV", "10 60 5060 bücher.example.org.", "10 60 5060 xn--bcher-kva.example.org."),
            ("TXT", "bücher", "\"bücher\""),
        ] {
            assert_eq!(read(kind, told), value, "{kind}");
        }
    }

    #[test]
    fn a_ttl_of_nothing_is_not_known() {
        let mut endpoint = endpoint(
            "a.example.",
            "A",
            &RrSet { ttl: 60, extra: "", values: vec!["192.0.2.1"] },
            TxtForm::Plain,
        );
        endpoint.record_ttl = None;
        assert_eq!(Set(vec![endpoint.clone()]).bytes(77), b"77\n192.0.2.1");
        endpoint.record_ttl = Some(0);
        assert_eq!(Set(vec![endpoint]).bytes(0), b"0\n192.0.2.1");
    }

    #[test]
    fn properties_and_labels_of_others_are_kept() {
        let parse = |text: &str| serde_json::from_str::<Endpoint>(text).unwrap();
        let old = parse(
            r#"{"providerSpecific": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}], "labels": {"owner": "x"}}"#,
        );
        let mut new = parse(r#"{"providerSpecific": [{"name": "a", "value": "9"}]}"#);
        new.inherit(&old);
        let shown = serde_json::to_string(&new).unwrap();
        assert!(shown.contains(r#"[{"name":"a","value":"9"},{"name":"b","value":"2"}]"#), "{shown}");
        assert!(shown.contains(r#""labels":{"owner":"x"}"#), "{shown}");
    }

    #[test]
    fn the_order_in_which_a_provider_tells_is_no_content() {
        let parse = |text: &str| group(serde_json::from_str::<Vec<Endpoint>>(text).unwrap());
        let one = parse(
            r#"[{"dnsName": "a", "targets": ["1", "2"], "recordType": "A", "setIdentifier": "x",
                 "providerSpecific": [{"name": "p", "value": "1"}, {"name": "q", "value": "0"}]},
                {"dnsName": "a", "targets": ["3"], "recordType": "A", "setIdentifier": "y"}]"#,
        );
        let other = parse(
            r#"[{"dnsName": "a", "targets": ["3"], "recordType": "A", "setIdentifier": "y"},
                {"dnsName": "a", "targets": ["2", "1"], "recordType": "A", "setIdentifier": "x",
                 "providerSpecific": [{"name": "q", "value": "0"}, {"name": "p", "value": "1"}]}]"#,
        );
        let sorted = |sets: &BTreeMap<Key, Set>| sets.values().next().unwrap().sorted();
        assert_eq!(sorted(&one), sorted(&other));
    }

    #[test]
    fn one_of_several_answers_is_shown_as_such() {
        let one = |identifier: &str, target: &str| Endpoint {
            dns_name: "a.example".into(),
            record_type: "A".into(),
            set_identifier: Some(identifier.into()),
            targets: Some(vec![target.into()]),
            ..Endpoint::default()
        };
        let set = Set(vec![one("blue", "192.0.2.1"), one("green", "192.0.2.2")]);
        assert!(set.is_routed());
        assert_eq!(set.bytes(300), b"300\n(set blue) 192.0.2.1\n(set green) 192.0.2.2");
    }
}
