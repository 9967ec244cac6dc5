//! A provider of a fake Route 53.

mod play;

use crate::{
    fake::{self, Fake},
    world,
};
pub(crate) use play::*;
use reconciled_dns::route53::{Config, Credentials, Login, connect};
use reconciled_provider::{Cx, Provider, SecretRef};
use std::sync::Arc;

/// A provider of the fake.
pub(crate) fn provider(fake: &Fake<Route53>) -> Arc<dyn Provider> {
    provider_with(fake, |_| {})
}

/// A provider whose configuration `change` changes.
pub(crate) fn provider_with(fake: &Fake<Route53>, change: impl FnOnce(&mut Config)) -> Arc<dyn Provider> {
    let url = fake.url.clone();
    let mut config = Config { url, create_zones: true, ..Config::default() };
    config.options.timeout = fake::PATIENCE;
    change(&mut config);
    let key = || SecretRef::Named("key".into());
    let credentials = Credentials { access_key_id: key(), secret_access_key: key(), session_token: None };
    connect("test", config, credentials).unwrap()
}

/// A provider of the fake that gets its key from `login`.
pub(crate) fn provider_of(fake: &Fake<Route53>, login: Login) -> Arc<dyn Provider> {
    connect("test", Config { url: fake.url.clone(), ..Config::default() }, login).unwrap()
}

/// A context with the right credentials.
pub(crate) fn cx() -> Cx {
    world::cx(SECRET)
}
