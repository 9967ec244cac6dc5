//! Signature version 4 of AWS: a request is bound to its content, the time and a key derived for one day, one
//! region and one service.
//!
//! Rules: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use data_encoding::HEXLOWER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use ring::{digest, hmac};
use std::{fmt::Write, time::Duration};
use time::OffsetDateTime;

/// What is escaped: all but what is unreserved (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What is signed. Its headers may hold a session token, so that it cannot be shown.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// Not encoded.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// Names in lower case, without `x-amz-date`.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
}

/// With what it is signed.
pub(crate) struct Key<'a> {
    pub(crate) id: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
}

/// The values of `x-amz-date` and `authorization`.
pub(crate) fn sign(request: &Request<'_>, key: &Key<'_>, now: Duration) -> (String, String) {
    let (day, stamp) = stamps(now);
    let mut headers: Vec<(&str, &str)> = request.headers.to_vec();
    headers.push(("x-amz-date", &stamp));
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, encode(request.query));
    for (name, value) in &headers {
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let body = HEXLOWER.encode(digest::digest(&digest::SHA256, request.body).as_ref());
    let _ = write!(canonical, "\n{names}\n{body}");
    let scope = format!("{day}/{}/{}/aws4_request", key.region, key.service);
    let hash = HEXLOWER.encode(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hash}");
    let mut derived = mac(format!("AWS4{}", key.secret).as_bytes(), &day);
    for word in [key.region, key.service, "aws4_request"] {
        derived = mac(derived.as_ref(), word);
    }
    let signature = HEXLOWER.encode(mac(derived.as_ref(), &text).as_ref());
    let id = key.id;
    let header =
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    (stamp, header)
}

fn mac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// Day and second in the basic form of ISO 8601.
fn stamps(now: Duration) -> (String, String) {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(0);
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let day = format!("{:04}{:02}{:02}", at.year(), u8::from(at.month()), at.day());
    let stamp = format!("{day}T{:02}{:02}{:02}Z", at.hour(), at.minute(), at.second());
    (day, stamp)
}

/// A query, sorted and encoded as RFC 3986 has it; what is signed and what is sent must not differ.
pub(crate) fn encode(query: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> =
        query.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

fn escape(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2015-08-30 12:36:00 UTC, the time of AWS's own examples.
    const NOW: Duration = Duration::from_secs(1_440_938_160);

    fn check(service: &str, headers: &[(&str, &str)], query: &[(&str, &str)], names: &str, signature: &str) {
        let request = Request { method: "GET", path: "/", query, headers, body: b"" };
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let key = Key { id: "AKIDEXAMPLE", secret, region: "us-east-1", service };
        let (stamp, header) = sign(&request, &key, NOW);
        assert_eq!(stamp, "20150830T123600Z");
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, \
             SignedHeaders={names}, Signature={signature}"
        );
        assert_eq!(header, expected);
    }

    #[test]
    fn the_examples_that_aws_publishes_have_their_signatures() {
        check(
            "service",
            &[("host", "example.amazonaws.com")],
            &[],
            "host;x-amz-date",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        );
        check(
            "iam",
            &[
                ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
                ("host", "iam.amazonaws.com"),
            ],
            &[("Version", "2010-05-08"), ("Action", "ListUsers")],
            "content-type;host;x-amz-date",
            "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        );
    }

    #[test]
    fn a_query_is_encoded_byte_by_byte_and_sorted() {
        assert_eq!(
            encode(&[("name", "*.a b/é"), ("maxitems", "300")]),
            "maxitems=300&name=%2A.a%20b%2F%C3%A9"
        );
    }
}
