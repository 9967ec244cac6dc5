//! Octets to the server and back, over TCP (RFC 7766 §8) and UDP.
//!
//! Guarantees: a message that was not given to the network whole is told apart from one that was and brought no
//! answer; no wait is without an end.

use super::config::Config;
use reconciled_provider::{Cx, Error};
use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket, lookup_host},
    time::timeout,
};

/// How an exchange failed.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The server cannot have the message.
    NotSent(Error),
    /// The server may have the message, and nothing came back.
    Lost(Error),
}

impl Broken {
    /// What it means to the engine.
    pub(crate) fn into_error(self) -> Error {
        let (Broken::NotSent(error) | Broken::Lost(error)) = self;
        error
    }
}

/// The addresses of the server.
async fn addresses(config: &Config, doing: &str) -> Result<Vec<SocketAddr>, Error> {
    let address = config.address()?;
    let found = timeout(config.options.timeout, lookup_host(address))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let found: Vec<SocketAddr> = found
        .map_err(|error| {
            Error::unavailable(format!("{doing} at {}: the name of the server is not found", config.server))
                .hint("is `server` of the entry right?")
                .caused_by(error)
        })?
        .collect();
    if found.is_empty() {
        return Err(Error::unavailable(format!("{doing} at {}: the server has no address", config.server)));
    }
    Ok(found)
}

/// A connection for one piece of work; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Tcp<'c> {
    stream: TcpStream,
    server: &'c str,
    limit: Duration,
}

impl<'c> Tcp<'c> {
    /// Connects; every wait on the connection ends after the timeout of the entry.
    pub(crate) async fn connect(config: &'c Config, cx: &Cx, doing: &str) -> Result<Tcp<'c>, Error> {
        let limit = config.options.timeout.min(cx.deadline);
        let mut last = None;
        for address in addresses(config, doing).await? {
            match timeout(limit, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // One small message at a time, each waited for.
                    let _ = stream.set_nodelay(true);
                    return Ok(Tcp { stream, server: &config.server, limit });
                }
                Ok(Err(error)) => last = Some(error),
                Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
            }
        }
        let error = Error::unavailable(format!("{doing} at {}: no connection", config.server))
            .hint("is the server running, does it listen on TCP, and is `server` of the entry right?");
        Err(last.into_iter().fold(error, Error::caused_by))
    }

    /// Sends one message.
    pub(crate) async fn send(&mut self, message: &[u8], doing: &str) -> Result<(), Broken> {
        let length = u16::try_from(message.len()).map_err(|_| {
            Broken::NotSent(Error::unexpected(format!(
                "{doing}: a message of {} octets is too long",
                message.len()
            )))
        })?;
        let mut framed = Vec::with_capacity(message.len() + 2);
        framed.extend(length.to_be_bytes());
        framed.extend_from_slice(message);
        let broken = |error: io::Error| {
            let error = Error::unavailable(format!("{doing} at {}: the connection broke", self.server))
                .caused_by(error);
            // The last octets never left: no server acts on half a message.
            Broken::NotSent(error)
        };
        match timeout(self.limit, self.stream.write_all(&framed)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(broken(error)),
            Err(_) => Err(broken(io::ErrorKind::TimedOut.into())),
        }
    }

    /// The next message.
    pub(crate) async fn receive(&mut self, doing: &str) -> Result<Vec<u8>, Broken> {
        let server = self.server;
        let read = async {
            let length = self.stream.read_u16().await?;
            let mut message = vec![0; usize::from(length)];
            self.stream.read_exact(&mut message).await?;
            Ok(message)
        };
        let lost =
            |why: &str, hint: &str| Error::unavailable(format!("{doing} at {server}: {why}")).hint(hint);
        match timeout(self.limit, read).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(error)) => {
                let error: io::Error = error;
                let hint = "the log of the server says why; nothing is concluded from what came before";
                Err(Broken::Lost(lost("the connection broke", hint).caused_by(error)))
            }
            Err(_) => {
                let hint = "the server may be overloaded; `timeout` of the entry says how long to wait";
                Err(Broken::Lost(lost("no answer in time", hint)))
            }
        }
    }
}

/// A socket for questions of one packet.
#[derive(Debug)]
pub(crate) struct Udp(UdpSocket);

impl Udp {
    /// A socket that hears from the server alone; none where there cannot be one.
    pub(crate) async fn open(config: &Config, doing: &str) -> Result<Option<Udp>, Error> {
        for address in addresses(config, doing).await? {
            let any: SocketAddr =
                if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
            if let Ok(socket) = UdpSocket::bind(any).await
                && socket.connect(address).await.is_ok()
            {
                return Ok(Some(Udp(socket)));
            }
        }
        Ok(None)
    }

    /// Sends a packet; one that is lost is noticed by its answer that does not come.
    pub(crate) async fn send(&self, packet: &[u8]) {
        let _ = self.0.send(packet).await;
    }

    /// The next packet; none when nothing came in time, or nobody listens there.
    pub(crate) async fn receive(&self, limit: Duration) -> Option<Vec<u8>> {
        let mut packet = vec![0; 4_096];
        let length = timeout(limit, self.0.recv(&mut packet)).await.ok()?.ok()?;
        packet.truncate(length);
        Some(packet)
    }
}
