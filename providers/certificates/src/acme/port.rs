//! A port of our own that is open only while somebody waits for a name to be proven.
//!
//! No task of its own: whoever waits takes connections meanwhile, and answers for everybody who waits.

use futures_util::{StreamExt, stream::FuturesUnordered};
use reconciled_provider::Error;
use std::{
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
    time::timeout,
};

/// How long one question may take, and one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The port, while it is open.
#[derive(Debug, Default)]
pub(super) struct Port(Mutex<Weak<TcpListener>>);

impl Port {
    /// Opens the port, or shares it with those who have it open. `what` is asked there, and `hint` says what to do when
    /// it is taken.
    pub(super) async fn open(
        &self,
        address: SocketAddr,
        what: &str,
        hint: &str,
    ) -> Result<Arc<TcpListener>, Error> {
        let mut shared = self.0.lock().await;
        if let Some(listener) = shared.upgrade() {
            return Ok(listener);
        }
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let message = format!("listen at {address} for {what}");
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => Error::permission_denied(message).caused_by(error).hint(
                    "ports below 1024 need a capability: AmbientCapabilities= and CapabilityBoundingSet= with \
                     CAP_NET_BIND_SERVICE in a drop-in of the service; or another port that what has this one passes on to",
                ),
                _ => Error::unavailable(message).caused_by(error).hint(hint),
            }
        })?;
        let listener = Arc::new(listener);
        *shared = Arc::downgrade(&listener);
        Ok(listener)
    }
}

/// Does `work`, and answers connections meanwhile. Those that were taken are answered before this returns.
pub(super) async fn during<T, A: Future<Output = std::io::Result<()>>>(
    listener: &TcpListener,
    answer: impl Fn(TcpStream) -> A,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut open = FuturesUnordered::new();
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            taken = listener.accept() => if let Ok((stream, _)) = taken {
                open.push(timeout(PATIENCE, answer(stream)));
            },
            Some(_) = open.next() => {}
        }
    };
    while open.next().await.is_some() {}
    done
}
