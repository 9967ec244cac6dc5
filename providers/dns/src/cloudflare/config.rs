//! Host configuration of a `type: cloudflare` entry.

use crate::{family::Options, http::base_url};
use reconciled_provider::Error;
use serde::Deserialize;

/// Keys of the entry besides those every entry has; the token (`token`) is handed over apart.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Base address of the API, for tests and proxies.
    #[serde(default = "default_url")]
    pub url: String,
    /// Id of the account in which zones are created; without it none is. Also tells zones of one name apart.
    pub account: Option<String>,
    /// Write who owns a record into its comment.
    #[serde(default = "default_marks")]
    pub marks: bool,
    /// What every DNS entry may say; handed over apart.
    #[serde(skip)]
    #[schemars(skip)]
    pub options: Options,
}

fn default_url() -> String {
    "https://api.cloudflare.com/client/v4".into()
}

fn default_marks() -> bool {
    true
}

impl Default for Config {
    fn default() -> Config {
        Config { url: default_url(), account: None, marks: default_marks(), options: Options::default() }
    }
}

impl Config {
    /// The address of the API, without a slash at the end.
    pub(crate) fn api(&self) -> Result<String, Error> {
        let is_id = |text: &String| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if let Some(account) = self.account.as_ref().filter(|account| !is_id(account)) {
            return Err(Error::invalid(format!("account `{account}` of a cloudflare entry is no id"))
                .hint("it is the 32 letters and digits that the dashboard shows under `Account ID`"));
        }
        base_url("cloudflare", &self.url)
    }
}
