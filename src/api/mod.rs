//! The daemon's API: HTTP and JSON over its unix socket.
//!
//! Guarantees: nobody gets in whom the socket's group and the peer's credentials do not let in; what a request
//! says about who asks is never believed. Every answer is an operation's, the same that a verb working alone
//! gives. It deliberately decides nothing.

mod answer;
mod peer;
mod routes;
mod socket;

pub use socket::Socket;

/// The number of a group of this host.
pub fn group_id(name: &str) -> Option<u32> {
    peer::group(name).map(|group| group.id)
}

use crate::daemon::Daemon;
use std::sync::Arc;

/// Answers until the daemon stops.
pub async fn serve(socket: Socket, daemon: Arc<Daemon>) {
    let stop = daemon.stop.clone();
    let api = daemon.instance().session.config.api.clone();
    let router = routes::router(daemon, peer::Door::of(&api));
    let service = router.into_make_service_with_connect_info::<peer::Peer>();
    let (listener, path) = socket.into_parts();
    let served = axum::serve(listener, service).with_graceful_shutdown(async move { stop.wished().await });
    if let Err(error) = served.await {
        tracing::error!(%error, "the API ended");
    }
    // Who finds no socket knows at once that no daemon is there.
    let _ = std::fs::remove_file(path);
}
