//! What is answered to anybody who reaches a listener: whether the daemon is well, and webhooks, which prove
//! themselves. Nothing here names a source, a resource or a file.

use super::{answer::Refused, hook};
use crate::daemon::Daemon;
use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    routing::{get, post},
};
use std::sync::Arc;

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
        .route("/hooks/{*path}", post(hook::hear))
        .method_not_allowed_fallback(async || Refused::method())
        .layer(DefaultBodyLimit::max(hook::LIMIT))
}

async fn readyz(State(daemon): State<Arc<Daemon>>) -> (StatusCode, String) {
    match daemon.instance().waits_for() {
        None => (StatusCode::OK, "ready\n".into()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
