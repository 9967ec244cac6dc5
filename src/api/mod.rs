//! The daemon's API: HTTP and JSON over its unix socket.
//!
//! Guarantees: nobody gets in whom the socket's group and the peer's credentials do not let in; what a request
//! says about who asks is never believed. Every answer is an operation's, the same that a verb working alone
//! gives. It deliberately decides nothing.

mod answer;
mod metrics;
mod peer;
mod routes;
mod socket;

pub use socket::Socket;

/// The number of a group of this host.
pub fn group_id(name: &str) -> Option<u32> {
    peer::group(name).map(|group| group.id)
}

use crate::{clock::SystemClock, daemon::Daemon};
use reconciled_provider::Clock;
use std::{sync::Arc, time::Duration};

/// How long answers may take to end once the daemon shall stop.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Answers until the daemon stops.
pub async fn serve(mut socket: Socket, daemon: Arc<Daemon>) {
    let Some(listener) = socket.take() else { return };
    let (stop, last) = (daemon.stop.clone(), daemon.stop.clone());
    let api = daemon.instance().session.config.api.clone();
    let router = routes::router(daemon, peer::Door::of(&api));
    let service = router.into_make_service_with_connect_info::<peer::Peer>();
    let served = axum::serve(listener, service).with_graceful_shutdown(async move { stop.wished().await });
    tokio::select! {
        result = served => {
            if let Err(error) = result {
                tracing::error!(%error, "the API ended");
            }
        }
        // Who says nothing on an open connection holds up nobody.
        () = async { last.wished().await; SystemClock.sleep(LAST_WORDS).await } => {}
    }
}
