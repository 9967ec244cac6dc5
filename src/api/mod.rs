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

mod answer;
mod caller;
mod connections;
mod hook;
mod metrics;
mod open;
mod openapi;
mod peer;
mod route;
mod routes;
mod signature;
mod socket;
mod takes;
mod token;

pub use hook::{Hooks, path_of, secret_of};
pub use openapi::openapi;
pub use socket::{BARRED, Found, Socket, barred, look_at};
pub use token::{TokenHash, Tokens, hash_of, new_token};

/// The number of a group of this host.
pub fn group_id(name: &str) -> Option<u32> {
    peer::group(name).map(|group| group.id)
}

/// What to do where there is no group that `api.group` names.
pub fn no_group(name: &str) -> (String, String) {
    (
        format!("there is no group `{name}`, which `api.group` names"),
        format!("make it: groupadd --system {name}"),
    )
}

/// The name of a user of this host, or its number where it has none.
pub fn user(uid: u32) -> String {
    peer::user(uid)
}

use crate::daemon::Daemon;
use caller::Patience;
use connections::Limits;
use peer::{Door, Peer};
use std::{sync::Arc, time::Duration};

/// Processes of this host: they may take their time, and plans of pushes wait for each other.
const SOCKET: Limits = Limits { connections: 256, head: Duration::from_secs(30), stall: None };
const SOCKET_AT_ONCE: usize = 4;
/// Whoever reaches the address.
const ADDRESS: Limits =
    Limits { connections: 128, head: Duration::from_secs(10), stall: Some(Duration::from_secs(60)) };
const ADDRESS_AT_ONCE: usize = 2;
/// How long a request may take to arrive, after its head.
const PATIENCE: Patience = Patience { usual: Duration::from_secs(30), large: Duration::from_secs(300) };

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
