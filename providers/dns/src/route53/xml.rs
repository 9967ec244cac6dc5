//! The XML of the API: what is read, and what is written.

use serde::{Deserialize, Serialize, de::IgnoredAny};
use std::borrow::Cow;

/// Namespace of every document.
pub(crate) const NAMESPACE: &str = "https://route53.amazonaws.com/doc/2013-04-01/";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ZoneList {
    pub(crate) hosted_zones: HostedZones,
    pub(crate) is_truncated: bool,
    pub(crate) next_marker: Option<String>,
}

/// The zones from a name on; of these only the first ones matter.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ZonesByName {
    pub(crate) hosted_zones: HostedZones,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HostedZones {
    #[serde(rename = "HostedZone", default)]
    pub(crate) list: Vec<HostedZone>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct HostedZone {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) config: Option<ZoneConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ZoneConfig {
    #[serde(default)]
    pub(crate) private_zone: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Created {
    pub(crate) hosted_zone: HostedZone,
}

/// Answer to every change.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Changed {
    pub(crate) change_info: ChangeInfo,
}

/// How far a change has come.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ChangeInfo {
    /// `/change/C123`
    pub(crate) id: String,
    /// `PENDING` or `INSYNC`.
    pub(crate) status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SetList {
    pub(crate) resource_record_sets: Sets,
    pub(crate) is_truncated: bool,
    pub(crate) next_record_name: Option<String>,
    pub(crate) next_record_type: Option<String>,
    pub(crate) next_record_identifier: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Sets {
    #[serde(rename = "ResourceRecordSet", default)]
    pub(crate) list: Vec<SetBody>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SetBody {
    pub(crate) name: String,
    pub(crate) r#type: String,
    pub(crate) set_identifier: Option<String>,
    pub(crate) weight: Option<u8>,
    pub(crate) region: Option<String>,
    pub(crate) geo_location: Option<Geo>,
    pub(crate) failover: Option<String>,
    #[serde(default)]
    pub(crate) multi_value_answer: bool,
    #[serde(rename = "TTL")]
    pub(crate) ttl: Option<u32>,
    pub(crate) resource_records: Option<Records>,
    pub(crate) alias_target: Option<Alias>,
    pub(crate) health_check_id: Option<String>,
    // What is not written by this version: it is only known to be there.
    pub(crate) traffic_policy_instance_id: Option<IgnoredAny>,
    pub(crate) cidr_routing_config: Option<IgnoredAny>,
    pub(crate) geo_proximity_location: Option<IgnoredAny>,
}

impl SetBody {
    /// True for a routing policy that is not known here, so that the set cannot be written as it is.
    pub(crate) fn is_strange(&self) -> bool {
        self.traffic_policy_instance_id.is_some()
            || self.cidr_routing_config.is_some()
            || self.geo_proximity_location.is_some()
            || (self.health_check_id.is_some() && self.set_identifier.is_none())
    }
    /// The set as an element, in the order of the API's schema.
    pub(crate) fn element(&self) -> String {
        let mut out = String::from("<ResourceRecordSet>");
        put(&mut out, "Name", Some(&self.name));
        put(&mut out, "Type", Some(&self.r#type));
        put(&mut out, "SetIdentifier", self.set_identifier.as_deref());
        put(&mut out, "Weight", self.weight.map(|weight| weight.to_string()).as_deref());
        put(&mut out, "Region", self.region.as_deref());
        if let Some(geo) = &self.geo_location {
            out += "<GeoLocation>";
            put(&mut out, "ContinentCode", geo.continent_code.as_deref());
            put(&mut out, "CountryCode", geo.country_code.as_deref());
            put(&mut out, "SubdivisionCode", geo.subdivision_code.as_deref());
            out += "</GeoLocation>";
        }
        put(&mut out, "Failover", self.failover.as_deref());
        put(&mut out, "MultiValueAnswer", self.multi_value_answer.then_some("true"));
        put(&mut out, "TTL", self.ttl.map(|ttl| ttl.to_string()).as_deref());
        if let Some(records) = &self.resource_records {
            out += "<ResourceRecords>";
            for record in &records.list {
                out += "<ResourceRecord>";
                put(&mut out, "Value", Some(&record.value));
                out += "</ResourceRecord>";
            }
            out += "</ResourceRecords>";
        }
        if let Some(alias) = &self.alias_target {
            out += "<AliasTarget>";
            put(&mut out, "HostedZoneId", alias.hosted_zone_id.as_deref());
            put(&mut out, "DNSName", Some(&alias.dns_name));
            put(&mut out, "EvaluateTargetHealth", Some(&alias.evaluate_target_health.to_string()));
            out += "</AliasTarget>";
        }
        put(&mut out, "HealthCheckId", self.health_check_id.as_deref());
        out + "</ResourceRecordSet>"
    }
    /// The values as the API has them.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        self.resource_records.iter().flat_map(|records| &records.list).map(|record| record.value.as_str())
    }
}

/// Adds an element with a text, if there is one.
fn put(out: &mut String, name: &str, text: Option<&str>) {
    if let Some(text) = text {
        *out += &format!("<{name}>{}</{name}>", escape(text));
    }
}

/// A place; the same words in canonical bytes, shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Geo {
    #[serde(rename(serialize = "continent"), alias = "ContinentCode", alias = "continent")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) continent_code: Option<String>,
    #[serde(rename(serialize = "country"), alias = "CountryCode", alias = "country")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) country_code: Option<String>,
    #[serde(rename(serialize = "subdivision"), alias = "SubdivisionCode", alias = "subdivision")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subdivision_code: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Records {
    #[serde(rename = "ResourceRecord", default)]
    pub(crate) list: Vec<Record>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Record {
    pub(crate) value: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Alias {
    pub(crate) hosted_zone_id: Option<String>,
    #[serde(rename = "DNSName")]
    pub(crate) dns_name: String,
    #[serde(default)]
    pub(crate) evaluate_target_health: bool,
}

/// Either form of an error: a code with a message, or the messages of a batch.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ErrorBody {
    pub(crate) error: Option<OneError>,
    pub(crate) messages: Option<Messages>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct OneError {
    pub(crate) code: String,
    pub(crate) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Messages {
    #[serde(default)]
    pub(crate) message: Vec<String>,
}

/// Text as content of an element.
pub(crate) fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

/// A name as the API lists it, in canonical form: `\052` is `*`.
pub(crate) fn name(text: &str) -> String {
    crate::name::observed(&decimal(text)).into_owned()
}

/// Text of the API as zone files have it. What stands behind a backslash is octal there, decimal here
/// (DomainNameFormat and "TXT record type" of the developer guide).
pub(crate) fn decimal(text: &str) -> Cow<'_, str> {
    codes(text, |code| {
        let octet = u8::from_str_radix(code, 8).ok().filter(|_| code.len() == 3)?;
        Some((3, format!("\\{octet:03}")))
    })
}

/// A canonical name as the API has it. A dot or a backslash within a label is a code, too.
pub(crate) fn octal_name(name: &str) -> Cow<'_, str> {
    octal_with(name, b".\\")
}

/// A value of a zone file as the API has it; `\"` and `\\` within quotes are the same there.
pub(crate) fn octal(value: &str) -> Cow<'_, str> {
    octal_with(value, b".")
}

/// Makes codes of what is one here, and of `bytes` behind a backslash.
fn octal_with<'t>(text: &'t str, bytes: &[u8]) -> Cow<'t, str> {
    codes(text, |code| match code.as_bytes().first()? {
        byte if bytes.contains(byte) => Some((1, format!("\\{byte:03o}"))),
        _ => {
            let octet = code.parse::<u8>().ok().filter(|_| code.len() == 3)?;
            Some((3, format!("\\{octet:03o}")))
        }
    })
}

/// Replaces what stands behind each backslash, of which `replace` is shown up to three characters and says how
/// many it takes; the others stay, with the character that they escape.
fn codes<'t>(text: &'t str, replace: impl Fn(&str) -> Option<(usize, String)>) -> Cow<'t, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once('\\') {
        out += before;
        let code = behind.get(..3).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()));
        let code = code.unwrap_or_else(|| behind.chars().next().map_or("", |c| &behind[..c.len_utf8()]));
        match replace(code) {
            Some((taken, code)) => {
                out += &code;
                rest = &behind[taken..];
            }
            None => {
                let end = behind.chars().next().map_or(0, char::len_utf8);
                out.push('\\');
                out += &behind[..end];
                rest = &behind[end..];
            }
        }
    }
    (out + rest).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_characters_in_octal() {
        assert_eq!(name("\\052.Example.com."), "*.example.com.");
        assert_eq!(name("a\\057b.example.com."), "a/b.example.com.");
        assert_eq!(name("www.example.com."), "www.example.com.");
        assert_eq!(name("bad\\"), "bad\\");
    }

    #[test]
    fn codes_are_octal_there_and_decimal_here() {
        let check = |here: &str, there: &str| {
            assert_eq!(octal(here), there);
            assert_eq!(decimal(there), here);
        };
        check(r#""\195\164 \"a\" \255\000""#, r#""\303\244 \"a\" \377\000""#);
        check("plain;text", "plain;text");
        check(r"a\032b.example.com.", r"a\040b.example.com.");
        assert_eq!(octal(r#"a\.b\\195\"ä"#), r#"a\056b\\195\"ä"#);
        assert_eq!(octal_name(r"a\.b\\c.example.com."), r"a\056b\134c.example.com.");
        assert_eq!(name(&octal_name(r"a\.b\\c.example.com.")), r"a\.b\\c.example.com.");
        // What is no octet, or cut off, stays as it is.
        assert_eq!(decimal(r"\400 \19 \189 \"), r"\400 \19 \189 \");
        assert_eq!(octal(r"\256 \19 \"), r"\256 \19 \");
    }

    #[test]
    fn an_error_has_two_forms() {
        let one = "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>Throttling</Code>\
                   <Message>Rate exceeded</Message></Error></ErrorResponse>";
        let error: ErrorBody = quick_xml::de::from_str(one).unwrap();
        assert_eq!(error.error.unwrap().code, "Throttling");
        let batch = "<InvalidChangeBatch><Messages><Message>a</Message><Message>b</Message></Messages></InvalidChangeBatch>";
        let error: ErrorBody = quick_xml::de::from_str(batch).unwrap();
        assert_eq!(error.messages.unwrap().message, ["a", "b"]);
    }
}
