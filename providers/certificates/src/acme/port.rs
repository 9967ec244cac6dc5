//! A port of our own that is open only while somebody waits for a name to be proven.
//!
//! No task of its own: whoever waits takes connections meanwhile, and answers for everybody who waits.

use futures_util::{StreamExt, stream::FuturesUnordered};
use reconciled_provider::Error;
use rustix::{io::Errno, net::sockopt::set_ipv6_v6only};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Mutex,
    time::timeout,
};

/// How long one question may take, and one answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are answered at a time; others wait, as any machine may connect here.
const MOST: usize = 64;
/// Connections that wait to be taken.
const WAITING: u32 = 1_024;
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
        let listener = listen_anyway(address, listen).map_err(|error| {
            let message = format!("listen at {address} for {what}");
            match error.kind() {
                io::ErrorKind::PermissionDenied => Error::permission_denied(message).caused_by(error).hint(
                    "ports below 1024 need a capability: AmbientCapabilities= and CapabilityBoundingSet= with \
                     CAP_NET_BIND_SERVICE in a drop-in of the service; or another port that what has this one passes on to",
                ),
                io::ErrorKind::AddrInUse => Error::unavailable(message).caused_by(error).hint(hint),
                _ => Error::unavailable(message).caused_by(error).hint("does this machine have that address?"),
            }
        })?;
        let listener = Arc::new(listener);
        *shared = Arc::downgrade(&listener);
        Ok(listener)
    }
}

/// Listens at an address; where it is every address of the machine, and there is no IPv6, at every one of IPv4.
fn listen_anyway<T>(address: SocketAddr, listen: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let is_every = address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let is_off = |error: &io::Error| {
        let none = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].map(Errno::raw_os_error);
        error.raw_os_error().is_some_and(|number| none.contains(&number))
    };
    match listen(address) {
        Err(error) if is_every && is_off(&error) => {
            // What went wrong first is what is declared.
            listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()))).map_err(|_| error)
        }
        listening => listening,
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        // Every address is those of IPv4 as well, also where `net.ipv6.bindv6only` says otherwise.
        set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// Does `work`, and answers connections meanwhile. Those that were taken are answered before this returns.
pub(super) async fn during<T, A: Future<Output = io::Result<()>>>(
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
    async fn every_address_is_also_those_of_ipv4() {
        // A machine without IPv6 is another test's.
        let Ok(listener) = listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))) else { return };
        let port = listener.local_addr().unwrap().port();
        let connected = TcpStream::connect(("127.0.0.1", port)).await;
        assert!(connected.is_ok(), "{connected:?}");
    }

    #[test]
    fn where_there_is_no_ipv6_every_address_is_those_of_ipv4() {
        let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 80));
        let check = |address: SocketAddr, errno: Errno| {
            listen_anyway(address, |address| match address.is_ipv6() {
                true => Err(io::Error::from(errno)),
                false => Ok(address.to_string()),
            })
        };
        for off in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            assert_eq!(check(every, off).unwrap(), "0.0.0.0:80");
            assert!(check(SocketAddr::from((Ipv6Addr::LOCALHOST, 80)), off).is_err(), "that one is meant");
        }
        assert_eq!(check(every, Errno::ADDRINUSE).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn an_address_that_the_machine_does_not_have_is_taken_by_no_other_program() {
        // TEST-NET-1, RFC 5737.
        let address = SocketAddr::from(([192, 0, 2, 1], 0));
        let error = Port::default().open(address, "nothing", "another program").await.unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("does this machine have that address?"));
    }

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
