//! Cloudflare against a fake that enforces its documented rules, and fails as it does.

mod content;
mod reading;
mod writing;

use crate::{
    fake::{Fake, Fault, Reply},
    fake_cloudflare::{self, Cloudflare, TOKEN, cx, provider, provider_with},
    world::{self, Notes, apply, batch, converge, desired, normalize, observe, plan, scope},
};
use reconciled_provider::{Clock, Cx, ErrorKind, Op, Owner, Provider, Resource, Tracked, Version};
use reconciled_testkit::context::HandClock;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ZONE: &str = "example.com";

fn with_zone(plan: &str) -> (Fake<Cloudflare>, Arc<dyn Provider>) {
    let fake = fake_cloudflare::start();
    fake.with(|cloudflare| cloudflare.add_zone(ZONE, plan));
    let provider = provider(&fake, "dns1");
    (fake, provider)
}

fn records(list: &[&str]) -> Vec<String> {
    list.iter().map(|record| format!("{{{record}}}")).collect()
}

fn hosts(count: usize) -> Vec<String> {
    let host =
        |i: usize| format!("{{name: h{i}, type: A, values: [10.{}.{}.{}]}}", i >> 16, i >> 8 & 255, i & 255);
    (0..count).map(host).collect()
}

/// A clock that a test moves, and a context with it.
fn with_clock() -> (Arc<HandClock>, Cx) {
    let clock = Arc::new(HandClock::default());
    (clock.clone(), Cx { clock, ..cx() })
}

async fn plan_of(
    provider: &dyn Provider,
    wanted: &[Resource],
    seen: &reconciled_provider::Observation,
) -> reconciled_provider::Batch {
    plan(provider, &cx(), ZONE, wanted, &[], seen).await
}
