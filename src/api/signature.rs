//! Whether a webhook was sent by who knows its secret. Pure: headers and raw body in, yes or no out.
//!
//! What is compared with anything secret is compared in constant time. The body is bytes: nothing of it is parsed.

use crate::config::Forge;
use axum::http::HeaderMap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac::{HMAC_SHA256, Key, verify};

/// What the signing tokens of GitLab begin with; its secret tokens are any text.
const SIGNING: &str = "whsec_";
/// How far the clock of the other side may be off, in seconds.
const OFF: u64 = 300;

/// True when `forge` signed `body` with `secret`; `now` is in seconds since the epoch.
pub(super) fn is_signed(forge: Forge, secret: &[u8], headers: &HeaderMap, body: &[u8], now: u64) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let tagged = |name: &str| header(name).and_then(|text| text.strip_prefix("sha256="));
    let signed = |digits: Option<&str>| digits.is_some_and(|digits| is_hmac(secret, digits, body));
    match forge {
        // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
        Forge::Github => signed(tagged("x-hub-signature-256")),
        // https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/ (secure webhooks)
        Forge::Bitbucket => signed(tagged("x-hub-signature")),
        // https://docs.gitea.com/usage/webhooks; Forgejo sends both.
        Forge::Gitea => signed(header("x-gitea-signature").or_else(|| header("x-forgejo-signature"))),
        Forge::Generic => signed(tagged("x-signature-256")),
        // https://docs.gitlab.com/user/project/integrations/webhooks/: a signing token signs as Standard Webhooks
        // say, a secret token is sent as it is.
        Forge::Gitlab => match std::str::from_utf8(secret).ok().and_then(|text| text.strip_prefix(SIGNING)) {
            Some(key) => is_standard(key, headers, body, now),
            None => headers.get("x-gitlab-token").is_some_and(|token| is_same(token.as_bytes(), secret)),
        },
    }
}

/// Standard Webhooks: HMAC-SHA256 of `ID.TIMESTAMP.BODY`, in one of several signatures `v1,BASE64`.
fn is_standard(key: &str, headers: &HeaderMap, body: &[u8], now: u64) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(id), Some(time), Some(signatures), Ok(key)) = (
        header("webhook-id"),
        header("webhook-timestamp"),
        header("webhook-signature"),
        STANDARD.decode(key),
    ) else {
        return false;
    };
    if time.parse::<u64>().is_ok_and(|time| now.abs_diff(time) > OFF) || time.parse::<u64>().is_err() {
        return false;
    }
    let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
    let key = Key::new(HMAC_SHA256, &key);
    let given = signatures.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
    given.take(8).any(|tag| verify(&key, &signed, &tag).is_ok())
}

fn is_hmac(secret: &[u8], digits: &str, body: &[u8]) -> bool {
    let Ok(tag) = blake3::Hash::from_hex(digits) else { return false };
    verify(&Key::new(HMAC_SHA256, secret), body, tag.as_bytes()).is_ok()
}

/// Compares in a time that depends on the lengths alone.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    blake3::hash(one) == blake3::hash(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use data_encoding::HEXLOWER;
    use ring::hmac::sign;

    const NOW: u64 = 1_790_000_000;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn hex(secret: &[u8], body: &[u8]) -> String {
        let tag = sign(&Key::new(HMAC_SHA256, secret), body);
        HEXLOWER.encode(tag.as_ref())
    }

    #[test]
    fn the_example_of_github_holds_and_nothing_near_it() {
        let secret = b"It's a Secret to Everybody";
        let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let check = |headers: HeaderMap, secret: &[u8], body: &[u8], expect: bool| {
            assert_eq!(is_signed(Forge::Github, secret, &headers, body, NOW), expect);
        };
        check(headers(&[("X-Hub-Signature-256", good)]), secret, b"Hello, World!", true);
        check(headers(&[("X-Hub-Signature-256", good)]), secret, b"Hello, World?", false);
        check(headers(&[("X-Hub-Signature-256", good)]), b"another secret", b"Hello, World!", false);
        check(headers(&[("X-Hub-Signature-256", &good[..70])]), secret, b"Hello, World!", false);
        check(headers(&[("X-Hub-Signature-256", &good[7..])]), secret, b"Hello, World!", false);
        check(headers(&[("X-Hub-Signature-256", "sha256=")]), secret, b"Hello, World!", false);
        check(headers(&[("X-Hub-Signature", good)]), secret, b"Hello, World!", false);
        check(HeaderMap::new(), secret, b"Hello, World!", false);
    }

    #[test]
    fn the_example_of_bitbucket_holds_and_nothing_near_it() {
        let secret = b"It's a Secret to Everybody";
        let good = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9";
        for (body, expect) in [("Hello World!", true), ("Hello World?", false)] {
            let headers = headers(&[("X-Hub-Signature", good)]);
            assert_eq!(is_signed(Forge::Bitbucket, secret, &headers, body.as_bytes(), NOW), expect, "{body}");
        }
    }

    /// By which the libraries of Standard Webhooks are tested, and GitLab signs.
    #[test]
    fn the_example_of_standard_webhooks_holds_and_nothing_near_it() {
        let secret = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let headers = headers(&[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ]);
        for (body, expect) in [(r#"{"test": 2432232314}"#, true), (r#"{"test":2432232314}"#, false)] {
            let found = is_signed(Forge::Gitlab, secret, &headers, body.as_bytes(), 1_614_265_330);
            assert_eq!(found, expect, "{body}");
        }
    }

    #[test]
    fn each_forge_signs_in_its_own_header_and_in_no_other() {
        let (secret, body) = (b"a secret of sixteen bytes".as_slice(), b"\xff\x00 no text".as_slice());
        let (plain, tagged) = (hex(secret, body), format!("sha256={}", hex(secret, body)));
        let all = [
            (Forge::Github, "x-hub-signature-256", &tagged),
            (Forge::Bitbucket, "x-hub-signature", &tagged),
            (Forge::Gitea, "x-gitea-signature", &plain),
            (Forge::Gitea, "x-forgejo-signature", &plain),
            (Forge::Generic, "x-signature-256", &tagged),
        ];
        for (forge, name, value) in all {
            assert!(is_signed(forge, secret, &headers(&[(name, value)]), body, NOW), "{name}");
            for (other, other_name, _) in all.into_iter().filter(|(other, ..)| *other != forge) {
                let found = is_signed(other, secret, &headers(&[(name, value)]), body, NOW);
                assert!(!found, "{other_name} takes {name}");
            }
        }
    }

    #[test]
    fn a_bit_more_or_less_of_a_signature_is_none() {
        let (secret, body) = (b"secret".as_slice(), b"body".as_slice());
        let good = hex(secret, body);
        for place in 0..good.len() {
            let mut other = good.clone().into_bytes();
            other[place] = if other[place] == b'0' { b'1' } else { b'0' };
            let other = String::from_utf8(other).unwrap();
            assert!(!is_signed(Forge::Gitea, secret, &headers(&[("x-gitea-signature", &other)]), body, NOW));
        }
    }

    #[test]
    fn gitlab_shows_its_secret_token_or_signs_with_its_signing_token_but_never_both_ways() {
        let token = headers(&[("X-Gitlab-Token", "a secret token")]);
        assert!(is_signed(Forge::Gitlab, b"a secret token", &token, b"{}", NOW));
        assert!(!is_signed(Forge::Gitlab, b"a secret token!", &token, b"{}", NOW));
        assert!(!is_signed(Forge::Gitlab, b"a secret token", &HeaderMap::new(), b"{}", NOW));

        let key = [7_u8; 32];
        let secret = format!("whsec_{}", STANDARD.encode(key));
        let signed = |id: &str, time: u64| {
            let text = format!("{id}.{time}.{{}}");
            let tag = STANDARD.encode(sign(&Key::new(HMAC_SHA256, &key), text.as_bytes()));
            format!("v1,AAAA v1,{tag}")
        };
        let check = |id: &str, time: u64, signature: &str, expect: bool| {
            let time = time.to_string();
            let headers = headers(&[
                ("webhook-id", id),
                ("webhook-timestamp", &time),
                ("webhook-signature", signature),
                ("X-Gitlab-Token", &secret),
            ]);
            assert_eq!(is_signed(Forge::Gitlab, secret.as_bytes(), &headers, b"{}", NOW), expect);
        };
        check("a", NOW, &signed("a", NOW), true);
        check("a", NOW - OFF, &signed("a", NOW - OFF), true);
        check("a", NOW - OFF - 1, &signed("a", NOW - OFF - 1), false);
        check("a", NOW, &signed("b", NOW), false);
        check("a", NOW, &signed("a", NOW)[8..].replace("v1,", "v2,"), false);
        // Where a signing token is configured, showing it is no signature.
        check("a", NOW, "", false);
    }
}
