//! Answers over HTTP (RFC 8555 §8.3).

use super::port::{self, Port};
use reconciled_provider::Error;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What to do where the port is taken.
const TAKEN: &str = "if another program has the port, give `listen` of the provider entry another one and let that \
                     program pass on /.well-known/acme-challenge/";
/// Where challenges are asked for.
const PREFIX: &str = "/.well-known/acme-challenge/";
/// Longest head of a question.
const LONGEST: usize = 8 << 10;

/// What is answered, and the port while it is open.
#[derive(Debug, Default)]
pub(super) struct Responder {
    answers: Mutex<BTreeMap<String, String>>,
    port: Port,
}

/// Answers that go away with this.
#[derive(Debug)]
pub(super) struct Served<'a> {
    responder: &'a Responder,
    tokens: Vec<String>,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let mut answers = self.responder.answers.lock().unwrap_or_else(PoisonError::into_inner);
        self.tokens.iter().for_each(|token| drop(answers.remove(token)));
    }
}

impl Responder {
    /// Answers `answers` (token → text) as long as the result lives.
    pub(super) fn serve(&self, answers: Vec<(String, String)>) -> Served<'_> {
        let tokens = answers.iter().map(|(token, _)| token.clone()).collect();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
        Served { responder: self, tokens }
    }

    /// Opens the port, or shares it with those who have it open.
    pub(super) async fn open(&self, address: SocketAddr) -> Result<Arc<TcpListener>, Error> {
        self.port.open(address, "challenges over HTTP", TAKEN).await
    }

    /// Does `work`, and answers meanwhile.
    pub(super) async fn during<T>(&self, listener: &TcpListener, work: impl Future<Output = T>) -> T {
        port::during(listener, |stream| self.answer(stream), work).await
    }

    async fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        let mut part = [0; 1_024];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < LONGEST {
            let read = stream.read(&mut part).await?;
            if read == 0 {
                return Ok(());
            }
            head.extend_from_slice(&part[..read]);
        }
        let head = String::from_utf8_lossy(&head);
        let path = head.strip_prefix("GET ").and_then(|rest| rest.split_whitespace().next());
        let token = path.and_then(|path| path.strip_prefix(PREFIX));
        let answer = token.and_then(|token| {
            self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
        });
        let (status, body) = match answer {
            Some(answer) => ("200 OK", answer),
            None => ("404 Not Found", String::new()),
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn what_is_waited_for_is_answered_and_nothing_else_and_not_for_ever() {
        let responder = Responder::default();
        let listener = responder.open(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = responder.serve(vec![("token".into(), "token.print".into())]);
        let other = responder.open(address).await.unwrap();
        assert_eq!(other.local_addr().unwrap(), address, "the port is shared");
        let (good, bad) = responder
            .during(&listener, async {
                (ask(address, "/.well-known/acme-challenge/token").await, ask(address, "/etc/passwd").await)
            })
            .await;
        assert!(good.starts_with("HTTP/1.1 200") && good.ends_with("\r\n\r\ntoken.print"), "{good}");
        assert!(bad.starts_with("HTTP/1.1 404"), "{bad}");
        drop(served);
        let late = responder.during(&listener, ask(address, "/.well-known/acme-challenge/token")).await;
        assert!(late.starts_with("HTTP/1.1 404"), "{late}");
        drop((listener, other));
        assert!(TcpStream::connect(address).await.is_err(), "the port is closed again");
    }
}
