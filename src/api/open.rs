//! What is answered to anybody who reaches a listener: whether the daemon is well, and webhooks, which prove
//! themselves. Nothing here names a source, a resource or a file.
//!
//! Guarantees: nothing of what a webhook sends is used, or even parsed; it wakes a poll, and a poll decides. Whoever does
//! not know path and secret gets the same answer to everything. Saying it again is harmless: polls are coalesced.

use super::{answer::Refused, caller::received, signature::is_signed};
use crate::daemon::Daemon;
use axum::{
    Router,
    body::to_bytes,
    extract::{DefaultBodyLimit, Request, State},
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use std::{sync::Arc, time::Duration};

/// How long a webhook may take to arrive, after its head.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of what a forge sends.
const LIMIT: usize = 1 << 20;

/// Routes that need neither token nor peer.
pub(super) fn router() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .method_not_allowed_fallback(async || Refused::method())
}

/// Routes for forges, on the address other hosts reach.
pub(super) fn webhooks() -> Router<Arc<Daemon>> {
    Router::new()
        .route("/hooks/{*path}", post(hear))
        .method_not_allowed_fallback(async || Refused::method())
        .layer(DefaultBodyLimit::max(LIMIT))
}

async fn readyz(State(daemon): State<Arc<Daemon>>) -> (StatusCode, String) {
    match daemon.instance().waits_for() {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Hears what is sent to the path of a webhook.
async fn hear(State(daemon): State<Arc<Daemon>>, request: Request) -> Response {
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
