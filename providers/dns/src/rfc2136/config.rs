//! Host configuration of a `type: rfc2136` entry.

use super::tsig::Key;
use crate::{endpoint, family::Options};
use reconciled_provider::Error;
use serde::Deserialize;
use std::time::Duration;

/// Keys of the entry besides those every entry has; the keys of TSIG are handed over apart.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// The primary server of the zones: `127.0.0.1:53`, `ns1.example.com` or `[2001:db8::53]:5353`. Default port: 53.
    pub server: String,
    /// Largest message in octets, at most 65535. What does not fit is sent in several.
    #[serde(default = "default_max_message")]
    pub max_message: usize,
    /// How long an answer in a packet is waited for before the question is asked again; only tests say so.
    #[serde(skip, default = "default_patience")]
    #[schemars(skip)]
    pub patience: Duration,
    /// What every DNS entry may say; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub options: Options,
}

/// The keys that messages are signed with.
#[derive(Clone, Debug)]
pub struct Keys {
    /// For updates.
    pub update: Key,
    /// For reading: transfers and serials.
    pub transfer: Key,
}

fn default_patience() -> Duration {
    Duration::from_millis(700)
}

fn default_max_message() -> usize {
    usize::from(u16::MAX)
}

impl Config {
    /// A configuration that says only where the server is.
    pub fn new(server: impl Into<String>) -> Config {
        Config {
            server: server.into(),
            max_message: default_max_message(),
            patience: default_patience(),
            options: Options::default(),
        }
    }

    /// Host and port of the server.
    pub(crate) fn address(&self) -> Result<(String, u16), Error> {
        let bad = || {
            Error::invalid(format!("server `{}` of a rfc2136 entry is no address", self.server))
                .hint("write it like 127.0.0.1:53, ns1.example.com or [2001:db8::53]:53")
        };
        if !(1_000..=usize::from(u16::MAX)).contains(&self.max_message) {
            return Err(Error::invalid(format!(
                "maxMessage {} of a rfc2136 entry is out of range",
                self.max_message
            ))
            .hint("a message over TCP has at most 65535 octets; write 1000 to 65535"));
        }
        endpoint::parse(&self.server).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_an_address_or_a_host_with_or_without_port() {
        let check = |text: &str, host: &str, port: u16| {
            assert_eq!(Config::new(text).address().unwrap(), (host.to_owned(), port), "{text}");
        };
        check("127.0.0.1:5353", "127.0.0.1", 5353);
        check("127.0.0.1", "127.0.0.1", 53);
        check("ns1.example.com", "ns1.example.com", 53);
        check("[2001:db8::53]:54", "2001:db8::53", 54);
        check("2001:db8::53", "2001:db8::53", 53);
        for text in ["", ":53", "a:b", "http://a", "127.0.0.1:0", "2001:db8::x:53"] {
            let error = Config::new(text).address().unwrap_err();
            assert!(error.hint.as_ref().unwrap().contains("ns1.example.com"), "{text}");
        }
        assert!(Config { max_message: 70_000, ..Config::new("a") }.address().is_err());
    }
}
