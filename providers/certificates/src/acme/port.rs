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
/// Connections that are answered at a time; others wait, as any machine may connect here.
const MOST: usize = 64;
/// How long to leave the port alone where no connection can be taken, as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

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
            taken = listener.accept(), if open.len() < MOST => match taken {
                Ok((stream, _)) => open.push(timeout(PATIENCE, answer(stream))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = open.next() => {}
        }
    };
    while open.next().await.is_some() {}
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn so_many_connections_are_answered_at_a_time_and_all_in_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, most, answered) = (Cell::new(0), Cell::new(0), Semaphore::new(0));
        let gate = Semaphore::new(0);
        let answer = |stream: TcpStream| {
            open.set(open.get() + 1);
            most.set(most.get().max(open.get()));
            let (open, gate, answered) = (&open, &gate, &answered);
            async move {
                drop(gate.acquire().await);
                open.set(open.get() - 1);
                answered.add_permits(1);
                drop(stream);
                Ok(())
            }
        };
        let work = async {
            let mut streams = Vec::new();
            for _ in 0..MOST + 16 {
                streams.push(TcpStream::connect(address).await.unwrap());
            }
            while open.get() < MOST {
                tokio::task::yield_now().await;
            }
            // Those that wait would be taken by now.
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            gate.add_permits(1_000);
            drop(answered.acquire_many((MOST + 16) as u32).await.unwrap());
        };
        during(&listener, answer, work).await;
        assert_eq!((most.get(), open.get()), (MOST, 0));
    }
}
