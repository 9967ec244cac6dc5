//! Webhooks: by which path and secret a forge says that somebody pushed.
//!
//! Guarantees: whoever does not know the secret does not know the path.

use crate::{
    config::{Forge, SourceConfig, Webhook, describe_secret},
    failure::Failure,
};
use reconciled_provider::{Secret, Secrets};
use std::sync::Arc;

/// Fewest bytes of a secret. The path is made of it, and may stand in the logs of others.
const SHORTEST: usize = 16;
/// What every path of a webhook begins with.
const PREFIX: &str = "/hooks/";

/// The secret of a webhook.
///
/// Errors: it cannot be read, or is too short.
pub fn secret_of(webhook: &Webhook, secrets: &dyn Secrets) -> Result<Secret, Failure> {
    let secret = secrets.reveal(&webhook.secret)?;
    if secret.reveal().len() < SHORTEST {
        return Err(Failure::hinted(
            format!(
                "{} is too short for a webhook: {SHORTEST} bytes are the least",
                describe_secret(&webhook.secret)
            ),
            "make one: openssl rand -hex 32",
        ));
    }
    Ok(secret)
}

/// The path of the webhook of `source`: whoever does not know the secret does not know it either.
pub fn path_of(source: &str, secret: &Secret) -> String {
    let key = blake3::derive_key("reconciled 2026 path of a webhook", secret.reveal());
    let digits = blake3::keyed_hash(&key, source.as_bytes()).to_hex();
    format!("{PREFIX}{source}/{}", &digits[..32])
}

/// One webhook.
pub(crate) struct Hook {
    pub(crate) source: Arc<str>,
    pub(crate) forge: Forge,
    path: String,
    pub(crate) secret: Secret,
}

/// The webhooks of one configuration.
#[derive(Default)]
pub struct Hooks(Vec<Hook>);

impl Hooks {
    /// Reads the secrets of `sources`. A webhook whose secret cannot be read hears nothing, which is logged.
    pub fn of(sources: &[SourceConfig], secrets: &dyn Secrets) -> Hooks {
        let hook = |source: &SourceConfig| {
            let webhook = source.webhook.as_ref()?;
            match secret_of(webhook, secrets) {
                Ok(secret) => {
                    let path = path_of(&source.name, &secret);
                    Some(Hook { source: source.name.clone(), forge: webhook.forge, path, secret })
                }
                Err(failure) => {
                    let hint = failure.hint().unwrap_or_default();
                    tracing::error!(source = &*source.name, error = %failure, hint, "webhook hears nothing");
                    None
                }
            }
        };
        Hooks(sources.iter().filter_map(hook).collect())
    }

    /// The webhook of this path, compared in constant time.
    pub(crate) fn at(&self, path: &str) -> Option<&Hook> {
        let asked = blake3::hash(path.as_bytes());
        self.0.iter().find(|hook| blake3::hash(hook.path.as_bytes()) == asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, HostSecrets};
    use reconciled_provider::SecretRef;

    #[test]
    fn a_path_tells_sources_and_secrets_apart_and_gives_neither_secret_away() {
        let path = |source: &str, secret: &str| path_of(source, &Secret::new(secret.as_bytes().to_vec()));
        let one = path("infra", "0123456789abcdef");
        assert_eq!(one.len(), "/hooks/infra/".len() + 32);
        assert_eq!(one, path("infra", "0123456789abcdef"));
        assert_ne!(one, path("infra", "0123456789abcdeg"));
        assert_ne!(one[13..], path("other", "0123456789abcdef")[13..]);
    }

    #[test]
    fn a_secret_that_could_be_guessed_is_refused_without_showing_it() {
        let secrets = HostSecrets::new([0; 32], Environment::of([("HOOK", "canary")]), Default::default());
        let webhook = Webhook { forge: Forge::Github, secret: SecretRef::Env("HOOK".into()) };
        let failure = secret_of(&webhook, &secrets).err().unwrap();
        assert!(
            failure.to_string().contains("16 bytes") && !failure.to_string().contains("canary"),
            "{failure}"
        );
    }
}
