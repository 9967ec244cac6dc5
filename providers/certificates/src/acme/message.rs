//! What an authority says, as JSON. Fields and words that are not known here are left alone.

use reconciled_provider::problem::one_line;
use serde::Deserialize;

/// Where its services are (RFC 8555 §7.1.1).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Directory {
    pub(super) new_nonce: String,
    pub(super) new_account: String,
    pub(super) new_order: String,
    pub(super) renewal_info: Option<String>,
    pub(super) key_change: Option<String>,
    #[serde(default)]
    pub(super) meta: Meta,
}

/// What it says of itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) external_account_required: bool,
    pub(super) profiles: std::collections::BTreeMap<String, serde_json::Value>,
}

/// An order (§7.1.3).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Order {
    pub(super) status: String,
    #[serde(default)]
    pub(super) authorizations: Vec<String>,
    pub(super) finalize: String,
    pub(super) certificate: Option<String>,
    pub(super) error: Option<Problem>,
}

/// Whether a name is proven (§7.1.4).
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Authorization {
    pub(super) identifier: Identifier,
    pub(super) status: String,
    #[serde(default)]
    pub(super) challenges: Vec<Challenge>,
    #[serde(default)]
    pub(super) wildcard: bool,
}

/// A name or an address.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Identifier {
    pub(super) value: String,
}

impl Authorization {
    /// The name as the order had it.
    pub(super) fn name(&self) -> String {
        match self.wildcard {
            true => format!("*.{}", self.identifier.value),
            false => self.identifier.value.clone(),
        }
    }
    /// Why it was refused, as far as it says.
    pub(super) fn refusal(&self) -> String {
        let error = self.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        let why = error.map_or_else(|| format!("it is {}", self.status), Problem::text);
        format!("{}: {why}", self.name())
    }
}

/// A way to prove it (§8). Some have no token.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Challenge {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) token: String,
    #[serde(default)]
    pub(super) status: String,
    pub(super) error: Option<Problem>,
    /// How the authority may be called in a record that stays (draft-ietf-acme-dns-persist).
    #[serde(rename = "issuer-domain-names", default)]
    pub(super) issuer_names: Vec<String>,
}

/// What is wrong (RFC 9457).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) detail: String,
    pub(super) subproblems: Vec<Problem>,
    /// What it is about, of one below another.
    pub(super) identifier: Option<Box<serde_json::Value>>,
}

impl Problem {
    /// The last part of its type: `badNonce`.
    pub(super) fn word(&self) -> &str {
        self.kind.rsplit(':').next().unwrap_or_default()
    }
    /// True when it is about certain names, as the limits of Let's Encrypt say it; another certificate is no part of it.
    pub(super) fn is_of_names(&self) -> bool {
        let words = ["already issued", "failed authorizations", "prevented from requesting"];
        words.iter().any(|words| self.detail.contains(words))
            || self.subproblems.iter().any(|sub| sub.identifier.is_some())
    }
    /// One line for people.
    pub(super) fn text(&self) -> String {
        let mut text = self.detail.clone();
        for sub in &self.subproblems {
            text = format!("{text}; {}", sub.detail);
        }
        let text = one_line(&text, 400);
        if text.is_empty() { self.word().to_owned() } else { format!("{text} ({})", self.word()) }
    }
}

/// When a certificate should be renewed (RFC 9773).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RenewalInfo {
    pub(super) suggested_window: Window,
    #[serde(rename = "explanationURL")]
    pub(super) explanation: Option<String>,
}

/// A span of time, RFC 3339.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Window {
    pub(super) start: String,
    pub(super) end: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_here_is_left_alone() {
        let text = r#"{"identifier": {"type": "dns", "value": "a.example"}, "status": "pending", "wildcard": true,
            "challenges": [{"type": "dns-persist-01", "url": "u", "issuer-domain-names": ["x"]},
                {"type": "dns-01", "url": "v", "token": "t", "status": "pending"}]}"#;
        let found: Authorization = serde_json::from_str(text).unwrap();
        assert_eq!((found.name().as_str(), &*found.challenges[1].token), ("*.a.example", "t"));
        assert_eq!(found.challenges[0].token, "");
    }

    #[test]
    fn some_limits_are_those_of_names() {
        let check = |detail: &str, expect| {
            let problem = Problem { detail: detail.into(), ..Problem::default() };
            assert_eq!(problem.is_of_names(), expect, "{detail}");
        };
        check(
            "too many certificates (5) already issued for this exact set of identifiers in the last 168h0m0s",
            true,
        );
        check("too many certificates (50) already issued for \"example.com\" in the last 168h0m0s", true);
        check("too many failed authorizations (5) for \"example.com\" in the last 1h0m0s", true);
        check("too many new orders (300) from this account in the last 3h0m0s", false);
        check("too many new registrations (10) from this IP address in the last 3h0m0s", false);
        let text =
            r#"{"subproblems": [{"detail": "no", "identifier": {"type": "dns", "value": "a.example"}}]}"#;
        assert!(serde_json::from_str::<Problem>(text).unwrap().is_of_names());
    }

    #[test]
    fn a_problem_is_one_line() {
        let text = r#"{"type": "urn:ietf:params:acme:error:rejectedIdentifier", "detail": "no\nway",
            "subproblems": [{"type": "x:caa", "detail": "CAA says no"}]}"#;
        let problem: Problem = serde_json::from_str(text).unwrap();
        assert_eq!(problem.text(), "no way; CAA says no (rejectedIdentifier)");
    }
}
