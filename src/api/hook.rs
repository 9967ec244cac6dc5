//! Webhooks: a forge says that somebody pushed, and the source is looked at.
//!
//! Guarantees: nothing of what is sent is used, or even parsed; it wakes a poll, and a poll decides. Whoever does
//! not know path and secret gets the same answer to everything. Saying it again is harmless: polls are coalesced.

use super::{answer::Refused, caller::received, signature::is_signed};
use crate::{
    config::{Forge, SourceConfig, Webhook, describe_secret},
    daemon::Daemon,
    failure::Failure,
};
use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use reconciled_provider::{Secret, Secrets};
use std::{sync::Arc, time::Duration};

/// Fewest bytes of a secret. The path is made of it, and may stand in the logs of others.
const SHORTEST: usize = 16;
/// How long a webhook may take to arrive, after its head.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of what a forge sends.
pub(super) const LIMIT: usize = 1 << 20;
/// What every path of a webhook begins with.
pub(super) const PREFIX: &str = "/hooks/";

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
struct Hook {
    source: Arc<str>,
    forge: Forge,
    path: String,
    secret: Secret,
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
    fn at(&self, path: &str) -> Option<&Hook> {
        let asked = blake3::hash(path.as_bytes());
        self.0.iter().find(|hook| blake3::hash(hook.path.as_bytes()) == asked)
    }
}

/// Hears what is sent to a path below [`PREFIX`].
pub(super) async fn hear(State(daemon): State<Arc<Daemon>>, request: Request) -> Response {
    match heard(&daemon, request).await {
        Ok(()) => (StatusCode::ACCEPTED, "ok\n").into_response(),
        Err(refused) => refused.into_response(),
    }
}

async fn heard(daemon: &Daemon, request: Request) -> Result<(), Refused> {
    // Strangers shall not have it hold a body.
    if daemon.instance().hooks.at(request.uri().path()).is_none() {
        return Err(Refused::nowhere());
    }
    let (parts, body) = received(request, LIMIT, PATIENCE).await?.into_parts();
    // Already here and of a size that was looked at.
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let instance = daemon.instance();
    let now = instance.session.clock.now().as_secs();
    let path = Uri::path(&parts.uri);
    let hook = instance.hooks.at(path);
    let hook = hook.filter(|hook| is_signed(hook.forge, hook.secret.reveal(), &parts.headers, &body, now));
    // Who is wrong is not told in what.
    let hook = hook.ok_or_else(Refused::nowhere)?;
    tracing::debug!(source = &*hook.source, "webhook");
    instance.follower.hint(hook.source.clone());
    Ok(())
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
