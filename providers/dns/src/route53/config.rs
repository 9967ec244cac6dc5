//! Host configuration of a `type: route53` entry.

use crate::family::Options;
use reconciled_provider::{Error, SecretRef};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Keys of the entry besides those every entry has; the credentials are handed over apart.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Address of the API, for tests and proxies.
    #[serde(default = "default_url")]
    pub url: String,
    /// The region that requests are signed for. Route 53 itself is everywhere.
    #[serde(default = "default_region")]
    pub region: String,
    /// Manage private zones instead of public ones.
    #[serde(default)]
    pub private: bool,
    /// Ids of zones, by name: which one is meant where an account has several of one name.
    #[serde(default)]
    pub zone_ids: BTreeMap<String, String>,
    /// Create zones that are declared and missing. A zone costs money, and gets name servers of its own.
    #[serde(default)]
    pub create_zones: bool,
    /// A change counts as done when every name server has it, and not when the API has taken it.
    #[serde(default)]
    pub insync: bool,
    /// What every DNS entry may say; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub options: Options,
}

fn default_url() -> String {
    "https://route53.amazonaws.com".into()
}

fn default_region() -> String {
    "us-east-1".into()
}

impl Default for Config {
    fn default() -> Config {
        Config {
            url: default_url(),
            region: default_region(),
            private: false,
            zone_ids: BTreeMap::new(),
            create_zones: false,
            insync: false,
            options: Options::default(),
        }
    }
}

impl Config {
    /// The ids of zones by their names as Route 53 tells them.
    ///
    /// Errors: `Invalid` for what is no id, or two ids of one zone.
    pub(crate) fn zones(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut zones = BTreeMap::new();
        for (zone, id) in &self.zone_ids {
            let name = zone.trim_end_matches('.').to_ascii_lowercase();
            let bare = id.strip_prefix("/hostedzone/").unwrap_or(id);
            if bare.is_empty() || !bare.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) {
                return Err(Error::invalid(format!("`zoneIds`: `{id}` of {zone} is no id of a zone"))
                    .hint("they begin with Z: aws route53 list-hosted-zones"));
            }
            if zones.insert(name, bare.to_owned()).is_some() {
                return Err(Error::invalid(format!("`zoneIds` has {zone} twice")));
            }
        }
        Ok(zones)
    }

    /// The address without a slash at the end.
    pub(crate) fn base(&self) -> Result<String, Error> {
        let is_region = !self.region.is_empty()
            && self.region.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !is_region {
            return Err(Error::invalid(format!("region `{}` of a route53 entry is none", self.region))
                .hint("leave it out, or write us-east-1"));
        }
        crate::http::base_url("route53", &self.url)
    }
}

/// Where keys come from.
#[derive(Clone, Debug)]
pub enum Login {
    /// A key in places of its own.
    Key(Credentials),
    /// A section of a file such as `~/.aws/credentials`.
    Shared {
        /// Where the file is.
        file: SecretRef,
        /// Name of the section.
        profile: String,
    },
    /// The metadata service of the machine, in its second version.
    Instance {
        /// Its address.
        url: String,
    },
    /// What lends keys to a container, as its environment says.
    Container,
}

impl Login {
    /// The metadata service where every machine of AWS has it.
    pub fn instance() -> Login {
        Login::Instance { url: "http://169.254.169.254".into() }
    }
}

impl From<Credentials> for Login {
    fn from(places: Credentials) -> Login {
        Login::Key(places)
    }
}

/// Where the parts of a key are.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The id of the access key.
    pub access_key_id: SecretRef,
    /// The secret of the access key.
    pub secret_access_key: SecretRef,
    /// The token of a session; optional where it is looked up in the environment by default.
    pub session_token: Option<SecretRef>,
}

impl Default for Credentials {
    /// The variables that every tool of AWS knows.
    fn default() -> Credentials {
        Credentials {
            access_key_id: SecretRef::Env("AWS_ACCESS_KEY_ID".into()),
            secret_access_key: SecretRef::Env("AWS_SECRET_ACCESS_KEY".into()),
            session_token: None,
        }
    }
}
