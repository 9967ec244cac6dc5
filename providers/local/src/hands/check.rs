//! Whether something answers: a URL, an address, a command of the host.

use super::command::{self, Unwell};
use crate::config::Commands;
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, ErrorKind},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(2);
/// Octets of an answer that are read: the status line is all that counts.
const HEAD: usize = 64;

/// What must answer. `%i` in a URL or an address is the number of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// A URL, `http://HOST:PORT/PATH`.
    Http(String),
    /// An address, `HOST:PORT`.
    Tcp(String),
    /// The name of a command of the host configuration.
    Command(String),
}

/// Whom a check is about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Name of the unit.
    pub unit: &'a str,
    /// Number of the instance.
    pub instance: u32,
}

/// Host and port, and the path, of a URL that is asked without TLS.
pub(crate) fn url(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("http://")?;
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let is_plain = !path.contains(|c: char| c.is_whitespace() || c.is_control());
    (is_address(host) && is_plain).then_some((host, path))
}

/// True for `HOST:PORT`, where the port may be the number of the instance.
pub(crate) fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-[]:%_".contains(c);
    let port = port.replace("%i", "1");
    !host.is_empty() && host.chars().all(is_host) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Asks once.
///
/// Errors: what was asked and what came back. Whoever does not answer in time was asked.
pub(crate) async fn run(
    check: &Check,
    asked: Asked<'_>,
    commands: Option<&Commands>,
    limit: Duration,
) -> Result<(), Unwell> {
    let fill = |text: &str| text.replace("%i", &asked.instance.to_string());
    match check {
        Check::Http(text) => {
            let text = fill(text);
            within(&text, get(&text)).await
        }
        Check::Tcp(address) => {
            let address = fill(address);
            within(&address, async { connect(&address).await.map(drop) }).await
        }
        Check::Command(name) => {
            let commands = commands.into_iter().flatten();
            let Some((_, argv)) = commands.clone().find(|(known, _)| ***known == **name) else {
                let error = command::unknown(name, commands.map(|(known, _)| &**known));
                return Err(Unwell::NotAsked(error));
            };
            let number = asked.instance.to_string();
            let fill = |word: &String| word.replace("{unit}", asked.unit).replace("{instance}", &number);
            let words: Vec<String> = argv.iter().map(fill).collect();
            command::accepts_unit(name, &words, limit, asked.unit).await
        }
    }
}

/// Why no answer came that counts.
enum Trouble {
    /// What is asked did not give one.
    There(String),
    /// This process could not ask.
    Here(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        use ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
            NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof,
        };
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | HostUnreachable
            | NetworkUnreachable | NotConnected | TimedOut | UnexpectedEof => {
                Trouble::There(error.to_string())
            }
            // Such as no descriptor or port left, a name that nobody knows, or a sandbox.
            _ => Trouble::Here(error.to_string()),
        }
    }
}

async fn within(what: &str, asking: impl Future<Output = Result<(), Trouble>>) -> Result<(), Unwell> {
    let failed = |why: String| Unwell::No(Error::unavailable(format!("{what} does not answer well: {why}")));
    match tokio::time::timeout(LIMIT, asking).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Trouble::There(why))) => Err(failed(why)),
        Ok(Err(Trouble::Here(why))) => {
            Err(Unwell::NotAsked(Error::unavailable(format!("{what} cannot be asked: {why}"))))
        }
        Err(_) => Err(failed(format!("nothing came within {} s", LIMIT.as_secs()))),
    }
}

async fn connect(address: &str) -> Result<TcpStream, Trouble> {
    Ok(TcpStream::connect(address).await?)
}

/// One request, of HTTP/1.0, so that the answer ends with the connection.
async fn get(text: &str) -> Result<(), Trouble> {
    let no_url = || Trouble::Here("it is no URL that can be asked".into());
    let (host, path) = url(text).ok_or_else(no_url)?;
    let mut stream = connect(host).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: reconciled\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while head.len() < HEAD && !head.contains(&b'\n') {
        let mut part = [0; HEAD];
        match stream.read(&mut part).await? {
            0 => break,
            length => head.extend_from_slice(&part[..length]),
        }
    }
    let status = status(&head).ok_or_else(|| Trouble::There("what came is no answer of HTTP".into()))?;
    if status < 400 { Ok(()) } else { Err(Trouble::There(format!("its status is {status}"))) }
}

/// The status of an answer that begins so.
fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r' || *byte == b'\n').next()?).ok()?;
    let mut words = line.split(' ');
    words.next().filter(|word| word.starts_with("HTTP/1."))?;
    words.next()?.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_asked_is_told_from_what_cannot() {
        assert_eq!(url("http://127.0.0.1:%i/health?x=1"), Some(("127.0.0.1:%i", "/health?x=1")));
        assert_eq!(url("http://[::1]:80%i"), Some(("[::1]:80%i", "/")));
        for text in
            ["https://a:1/", "http://a/", "http://a:0/", "http://me@a:1/", "http://a:1/x\r\nHost: b", "a:1"]
        {
            assert_eq!(url(text), None, "{text}");
        }
        assert!(
            is_address("localhost:8000")
                && !is_address(":8000")
                && !is_address("a:b")
                && !is_address("a b:1")
        );
    }

    #[test]
    fn the_status_is_read_from_the_first_line_alone() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nX: 500"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\r\n"), Some(503));
        assert_eq!(
            (status(b"SSH-2.0-OpenSSH\r\n"), status(b""), status(b"HTTP/1.1 0 \r\n")),
            (None, None, None)
        );
    }
}
