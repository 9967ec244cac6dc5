//! The key `webhook` of a source: what a forge sends when somebody pushed.

use super::SecretPlace;
use reconciled_provider::SecretRef;
use serde::Deserialize;

/// What a forge sends when somebody pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Who sends it, and so how it is signed.
    pub forge: Forge,
    /// Where the secret is that both sides know.
    pub secret: SecretRef,
}

/// How a webhook is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forge {
    /// GitHub.
    Github,
    /// GitLab.
    Gitlab,
    /// Gitea, and Forgejo.
    #[serde(alias = "forgejo")]
    Gitea,
    /// Bitbucket.
    Bitbucket,
    /// Anything that can compute an HMAC.
    Generic,
}

#[derive(Deserialize)]
pub(super) struct RawWebhook {
    r#type: Forge,
    secret: SecretPlace,
}

impl From<RawWebhook> for Webhook {
    fn from(raw: RawWebhook) -> Webhook {
        Webhook { forge: raw.r#type, secret: raw.secret.0 }
    }
}
