//! Host configuration of a `type: powerdns` entry.

use crate::ownership::Ownership;
use reconciled_provider::Error;
use serde::Deserialize;
use std::time::Duration;
use url::Url;

/// Keys of the entry besides those every entry has; the API key (`apiKey`) is handed over apart.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Base address of the API, such as `http://127.0.0.1:8081`.
    pub url: String,
    /// Name of the server in the API; PowerDNS itself knows only `localhost`.
    #[serde(default = "default_server")]
    pub server: String,
    /// How long one call may take in all, such as `30s`.
    #[serde(default = "default_timeout", deserialize_with = "crate::duration::deserialize")]
    #[schemars(with = "String")]
    pub timeout: Duration,
    /// Write who owns a record into its comments.
    #[serde(default = "default_marks")]
    pub marks: bool,
    /// Largest request body in bytes. Must stay below the server's `webserver-max-bodysize` (2 MB).
    #[serde(default = "default_max_body")]
    pub max_body: usize,
    /// Name servers of zones created here whose manifest does not manage the apex.
    #[serde(default)]
    pub nameservers: Vec<String>,
    /// What the entry knows of marks in TXT records; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub ownership: Ownership,
}

fn default_server() -> String {
    "localhost".into()
}

fn default_timeout() -> Duration {
    Duration::from_secs(30)
}

fn default_marks() -> bool {
    true
}

fn default_max_body() -> usize {
    1_900_000
}

/// Longest wait for a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Config {
    /// A configuration that says only where the server is.
    pub fn new(url: impl Into<String>) -> Config {
        Config {
            url: url.into(),
            server: default_server(),
            timeout: default_timeout(),
            marks: default_marks(),
            max_body: default_max_body(),
            nameservers: Vec::new(),
            ownership: Ownership::default(),
        }
    }

    /// The address under which the zones are found, without a slash at the end.
    pub(crate) fn api(&self) -> Result<Url, Error> {
        let bad = |what: String| {
            Error::invalid(format!("url `{}` of a powerdns entry {what}", without_secrets(&self.url)))
                .hint("write it like http://127.0.0.1:8081")
        };
        let mut url = Url::parse(&self.url).map_err(|error| bad(format!("is none: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("is neither http nor https".into()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("holds a user or password, which belong in a secret".into()));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("has a query or fragment".into()));
        }
        if self.max_body < 1_000 {
            return Err(Error::invalid("maxBody of a powerdns entry is below 1000 bytes"));
        }
        // People paste the address with and without the path of the API.
        let path = url.path().trim_end_matches('/').trim_end_matches("/api/v1").to_owned();
        url.set_path(&format!("{path}/api/v1/servers/{}", self.server));
        Ok(url)
    }
}

/// The text without what stands before an `@` in its authority.
fn without_secrets(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}…{}", &url[..scheme + 3], &url[at..]),
        _ => url.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(url: &str) -> String {
        Config::new(url).api().map_or_else(|error| error.to_string(), |url| url.to_string())
    }

    #[test]
    fn the_address_is_completed_and_a_bad_one_refused() {
        assert_eq!(api("http://127.0.0.1:8081"), "http://127.0.0.1:8081/api/v1/servers/localhost");
        assert_eq!(api("https://dns.example/pdns/"), "https://dns.example/pdns/api/v1/servers/localhost");
        assert_eq!(api("http://a.example/api/v1"), "http://a.example/api/v1/servers/localhost");
        assert!(api("ftp://a.example").contains("neither http nor https"));
        assert!(api("127.0.0.1:8081").contains("is none") || api("127.0.0.1:8081").contains("neither"));
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        let text = api("http://admin:canary@a.example");
        assert!(text.contains("belong in a secret") && !text.contains("canary"), "{text}");
    }
}
