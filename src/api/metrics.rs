//! `/metrics`: what the process counted and how it stands, for Prometheus.

use super::answer::Answer;
use crate::{
    daemon::{self, Daemon},
    failure::Failure,
};
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use std::sync::Arc;

/// Prometheus' text form.
pub(super) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(daemon: Arc<Daemon>) -> Answer<Response> {
    let instance = daemon.instance();
    let session = &instance.session;
    let counts = instance.writing.db.reader().counts().await.map_err(Failure::from)?;
    let standing = instance.scheduler.standing();
    session.metrics.ends(&session.endings(standing.keys().cloned()).await);
    session.metrics.stands(&daemon::source_states(&instance), &daemon::failing_upkeep(&instance));
    let text = session.metrics.scrape(&counts, &standing, &session.buckets, session.clock.now());
    Ok(([(header::CONTENT_TYPE, TEXT)], text).into_response())
}
