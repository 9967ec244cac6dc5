//! The daemon's API: HTTP and JSON over its unix socket, and over an address where one is configured.
//!
//! ```text
//! connections ─► caller: peer or token ─► gate: may they, and how much ─► routes ─► operation
//!            └─► open: is the daemon well, and webhooks
//! ```
//!
//! Guarantees: nobody gets in whom the socket's group and the peer's credentials, or a token, do not let in; what a
//! request says about who asks is never believed. Every answer is an operation's, the same that a verb working alone
//! gives. It deliberately decides nothing.

mod accounts;
mod answer;
mod caller;
mod connections;
mod metrics;
mod open;
mod openapi;
mod peer;
mod route;
mod routes;
mod signature;
mod socket;
mod takes;

pub use accounts::{group_id, no_group, user};
pub use socket::{BARRED, Found, Socket, barred, look_at};

use crate::daemon::Daemon;
use connections::Limits;
use peer::{Door, Peer};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// Processes of this host: they may take their time.
const SOCKET: Limits = Limits { connections: 256, head: Duration::from_secs(30), stall: None };
/// Whoever reaches the address.
const ADDRESS: Limits =
    Limits { connections: 128, head: Duration::from_secs(10), stall: Some(Duration::from_secs(60)) };

/// The published description of the API (OpenAPI 3.1).
pub fn openapi() -> Value {
    openapi::describe(&routes::all())
}

/// Answers until the daemon stops.
pub async fn serve(mut socket: Socket, daemon: Arc<Daemon>) {
    let (local, address) = socket.take();
    let door = Door::of(&daemon.instance().session.config.api);
    let on_socket = async {
        let Some(listener) = local else { return };
        let router = routes::for_socket(daemon.clone(), door);
        connections::serve(listener, |io, _| Peer::of(io), router, SOCKET, daemon.stop.clone()).await;
    };
    let on_address = async {
        let Some(listener) = address else { return };
        let router = routes::for_address(daemon.clone());
        let peer = |_: &_, address: &_| Peer::Network(*address);
        connections::serve(listener, peer, router, ADDRESS, daemon.stop.clone()).await;
    };
    tokio::join!(on_socket, on_address);
}
