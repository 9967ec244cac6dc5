//! A provider of a fake Cloudflare.

mod play;

use crate::{
    fake::{self, Fake},
    world,
};
pub(crate) use play::*;
use reconciled_dns::cloudflare::{Config, connect};
use reconciled_provider::{Cx, Provider, SecretRef};
use std::sync::Arc;

/// A provider of the fake with the marks of `instance`.
pub(crate) fn provider(fake: &Fake<Cloudflare>, instance: &str) -> Arc<dyn Provider> {
    provider_with(fake, instance, |_| {})
}

/// A provider whose configuration `change` changes.
pub(crate) fn provider_with(
    fake: &Fake<Cloudflare>,
    instance: &str,
    change: impl FnOnce(&mut Config),
) -> Arc<dyn Provider> {
    let (url, account) = (fake.url.clone(), Some(ACCOUNT.into()));
    let mut config = Config { url, account, ..Config::default() };
    config.options.timeout = fake::PATIENCE;
    change(&mut config);
    connect("test", instance, config, SecretRef::Named("token".into())).unwrap()
}

/// A context with the right token.
pub(crate) fn cx() -> Cx {
    world::cx(TOKEN)
}
