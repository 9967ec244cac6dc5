//! Host configuration of a `type: powerdns` entry.

use crate::{family::Options, http};
use reconciled_provider::Error;
use serde::Deserialize;
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
    /// Write who owns a record into its comments.
    #[serde(default = "default_marks")]
    pub marks: bool,
    /// Largest request body in bytes. Must stay below the server's `webserver-max-bodysize` (2 MB).
    #[serde(default = "default_max_body")]
    pub max_body: usize,
    /// Name servers of zones created here whose manifest does not manage the apex.
    #[serde(default)]
    pub nameservers: Vec<String>,
    /// What every DNS entry may say; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub options: Options,
}

fn default_server() -> String {
    "localhost".into()
}

fn default_marks() -> bool {
    true
}

fn default_max_body() -> usize {
    1_900_000
}

impl Config {
    /// A configuration that says only where the server is.
    pub fn new(url: impl Into<String>) -> Config {
        Config {
            url: url.into(),
            server: default_server(),
            marks: default_marks(),
            max_body: default_max_body(),
            nameservers: Vec::new(),
            options: Options::default(),
        }
    }

    /// The address under which the zones are found, without a slash at the end.
    pub(crate) fn api(&self) -> Result<String, Error> {
        let base = http::base_url("powerdns", &self.url);
        let base = base.map_err(|error| error.hint("write it like http://127.0.0.1:8081"))?;
        if self.max_body < 1_000 {
            return Err(Error::invalid("maxBody of a powerdns entry is below 1000 bytes"));
        }
        // People paste the address with and without the path of the API.
        let none = |error| Error::invalid(format!("url of a powerdns entry is none: {error}"));
        let mut api = Url::parse(&base).map_err(none)?;
        let path = api.path().trim_end_matches('/').trim_end_matches("/api/v1").to_owned();
        api.set_path(&format!("{path}/api/v1/servers/{}", self.server));
        Ok(api.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(url: &str) -> String {
        Config::new(url).api().unwrap_or_else(|error| error.to_string())
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
        let text = api("admin:canary@a.example");
        assert!(text.contains("url `…@a.example`") && !text.contains("canary"), "{text}");
    }
}
