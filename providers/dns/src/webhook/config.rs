//! Host configuration of a `type: webhook` entry.

use crate::family::Options;
use reconciled_provider::Error;
use serde::Deserialize;

/// How TXT data are written into `targets`, of which the protocol says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TxtForm {
    /// In quotes, as ExternalDNS writes the records of its own registry.
    #[default]
    Quoted,
    /// The bare text.
    Plain,
}

/// Keys of the entry besides those every entry has.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Address of the webhook provider.
    #[serde(default = "default_url")]
    pub url: String,
    /// How TXT data are written.
    #[serde(default)]
    pub txt: TxtForm,
    /// Most records changed by one request.
    #[serde(default = "default_max_changes")]
    pub max_changes: usize,
    /// What every DNS entry may say; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub options: Options,
}

fn default_url() -> String {
    "http://127.0.0.1:8888".into()
}

fn default_max_changes() -> usize {
    1_000
}

impl Config {
    /// A configuration that says only where the provider is.
    pub fn new(url: impl Into<String>) -> Config {
        Config {
            url: url.into(),
            txt: TxtForm::default(),
            max_changes: default_max_changes(),
            options: Options::default(),
        }
    }

    /// The address without a slash at the end.
    pub(crate) fn base(&self) -> Result<String, Error> {
        if self.max_changes == 0 {
            return Err(Error::invalid("maxChanges of a webhook entry is 0, so nothing could be written"));
        }
        crate::http::base_url("webhook", &self.url)
    }
}
