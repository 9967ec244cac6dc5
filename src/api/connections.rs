//! Connections: accepted while there is room, ended when their other side does not go on.
//!
//! Guarantees: who says nothing, says it byte by byte or reads no answer holds up nobody for long, and as many as
//! may be connected at once are a bound for memory and descriptors.

use super::peer::Peer;
use crate::clock::SystemClock;
use axum::{Router, serve::Listener};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use reconciled_provider::{Clock, Stop};
use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Semaphore,
};
use tokio_util::task::TaskTracker;

/// How long answers may take to end once the daemon shall stop.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Most bytes of a request's head.
const HEAD: usize = 32 << 10;

/// What the connections of one listener may take.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// How many at once; more wait to be accepted.
    pub(super) connections: usize,
    /// How long the head of a request may take, the time before it begins included.
    pub(super) head: Duration,
    /// How long an answer may wait to be read; none waits without end.
    pub(super) stall: Option<Duration>,
}

/// Answers those who come to `listener`, until `stop`.
pub(super) async fn serve<L: Listener>(
    mut listener: L,
    peer: fn(&L::Io, &L::Addr) -> Peer,
    router: Router,
    limits: Limits,
    stop: Stop,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    while let Ok(place) = room.clone().acquire_owned().await {
        let (io, address) = tokio::select! {
            biased;
            () = stop.wished() => break,
            accepted = listener.accept() => accepted,
        };
        let peer = peer(&io, &address);
        let io = Patient { inner: io, limit: limits.stall, stalled: None };
        let (router, stop) = (router.clone(), stop.clone());
        drop(connections.spawn(async move {
            one(io, peer, router, limits.head, &stop).await;
            drop(place);
        }));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Answers one connection.
async fn one<S>(io: S, peer: Peer, router: Router, head: Duration, stop: &Stop)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answers = TowerToHyperService::new(router);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        hyper::service::Service::call(&answers, request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_header_size(HEAD)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.wished() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                // Who says nothing on an open connection holds up nobody.
                () = SystemClock.sleep(LAST_WORDS) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, ?peer, "connection ended");
    }
}

/// A stream that ends when the other side does not take what is written for too long.
struct Patient<S> {
    inner: S,
    limit: Option<Duration>,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S: Unpin> Patient<S> {
    /// `written`, or an error when it has been pending for too long.
    fn judge<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let (Poll::Pending, Some(limit)) = (&written, self.limit) else {
            self.stalled = None;
            return written;
        };
        let waits =
            self.stalled.get_or_insert_with(|| Box::pin(async move { SystemClock.sleep(limit).await }));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(written, cx)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(flushed, cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(ended, cx)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.judge(written, cx)
    }
    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    const LIMITS: Limits =
        Limits { connections: 2, head: Duration::from_millis(200), stall: Some(Duration::from_millis(200)) };

    /// Serves while `work` goes on, which gets a way to connect.
    async fn while_serving<W: Future<Output = ()>>(work: impl FnOnce(std::net::SocketAddr) -> W) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(async || "hello"))
            .route("/much", get(async || vec![0_u8; 64 << 20]));
        let stop = Stop::default();
        let serving = serve(listener, |_, address| Peer::Network(*address), router, LIMITS, stop.clone());
        tokio::join!(serving, async {
            work(address).await;
            stop.set();
        });
    }

    async fn rest(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await;
        let _ = read.expect("the connection is ended by the server");
        String::from_utf8_lossy(&all).into_owned()
    }

    #[tokio::test]
    async fn who_says_nothing_or_half_a_head_is_let_go_and_makes_room() {
        while_serving(async |address| {
            let mut silent = TcpStream::connect(address).await.unwrap();
            let mut slow = TcpStream::connect(address).await.unwrap();
            slow.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
            // Both places are taken: the third is answered once one of them is free.
            let mut third = TcpStream::connect(address).await.unwrap();
            third.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
            assert!(rest(&mut third).await.ends_with("hello"));
            assert!(!rest(&mut silent).await.contains("hello"));
            assert!(!rest(&mut slow).await.contains("hello"));
        })
        .await;
    }

    #[tokio::test]
    async fn an_open_connection_is_let_go_when_no_other_question_comes() {
        while_serving(async |address| {
            let mut kept = TcpStream::connect(address).await.unwrap();
            kept.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            assert!(rest(&mut kept).await.ends_with("hello"));
        })
        .await;
    }

    #[tokio::test]
    async fn who_reads_no_answer_is_let_go() {
        while_serving(async |address| {
            let mut deaf =
                [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
            for stream in &mut deaf {
                stream.write_all(b"GET /much HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            }
            let mut third = TcpStream::connect(address).await.unwrap();
            third.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
            assert!(rest(&mut third).await.ends_with("hello"));
        })
        .await;
    }

    #[tokio::test]
    async fn a_head_of_any_size_is_no_head() {
        while_serving(async |address| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(HEAD));
            let _ = stream.write_all(head.as_bytes()).await;
            assert!(!rest(&mut stream).await.contains("hello"));
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!(
                "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: {}\r\n\r\n",
                "y".repeat(HEAD / 4)
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            assert!(rest(&mut stream).await.ends_with("hello"), "a smaller one is");
        })
        .await;
    }
}
