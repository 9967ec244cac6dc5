//! The XML of the API: what is read, and what is written.

use serde::{Deserialize, de::IgnoredAny};

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
    #[serde(rename = "ChangeInfo")]
    _change_info: IgnoredAny,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SetBody {
    pub(crate) name: String,
    pub(crate) r#type: String,
    pub(crate) set_identifier: Option<String>,
    #[serde(rename = "TTL")]
    pub(crate) ttl: Option<u32>,
    pub(crate) resource_records: Option<Records>,
    pub(crate) alias_target: Option<Alias>,
    pub(crate) health_check_id: Option<String>,
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
pub(crate) struct Alias {
    #[serde(rename = "DNSName")]
    pub(crate) dns_name: String,
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

/// A name as the API lists it, with `\052` for `*`: octal, where zone files have decimal.
pub(crate) fn name(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        out += &rest[..at];
        rest = &rest[at..];
        let octal = rest.get(1..4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte @ (b'!'..=b'~'))
                if !matches!(byte, b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$') =>
            {
                out.push(char::from(byte));
                rest = &rest[4..];
            }
            Some(byte) => {
                out += &format!("\\{byte:03}");
                rest = &rest[4..];
            }
            None => {
                let end = rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at);
                out += &rest[..end];
                rest = &rest[end..];
            }
        }
    }
    crate::name::observed(&(out + rest)).into_owned()
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
