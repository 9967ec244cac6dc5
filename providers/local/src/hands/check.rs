//! Whether something answers: a URL, an address, a command of the host.

use super::command;
use crate::config::Commands;
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};
use std::time::Duration;
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
/// Errors: what was asked and what came back.
pub(crate) async fn run(
    check: &Check,
    asked: Asked<'_>,
    commands: Option<&Commands>,
    limit: Duration,
) -> Result<(), Error> {
    let fill = |text: &str| text.replace("%i", &asked.instance.to_string());
    match check {
        Check::Http(text) => {
            let text = fill(text);
            within(&text, get(&text)).await
        }
        Check::Tcp(address) => {
            let address = fill(address);
            let connect =
                async { TcpStream::connect(&address).await.map(drop).map_err(|error| error.to_string()) };
            within(&address, connect).await
        }
        Check::Command(name) => {
            let commands = commands.into_iter().flatten();
            let Some((_, argv)) = commands.clone().find(|(known, _)| ***known == **name) else {
                return Err(super::unknown_command(name, commands.map(|(known, _)| &**known)));
            };
            let number = asked.instance.to_string();
            let fill = |word: &String| word.replace("{unit}", asked.unit).replace("{instance}", &number);
            let words: Vec<String> = argv.iter().map(fill).collect();
            command::accepts_unit(name, &words, limit, asked.unit).await
        }
    }
}

async fn within(what: &str, asking: impl Future<Output = Result<(), String>>) -> Result<(), Error> {
    let failed = |why: String| Error::unavailable(format!("{what} does not answer well: {why}"));
    match tokio::time::timeout(LIMIT, asking).await {
        Ok(answer) => answer.map_err(failed),
        Err(_) => Err(failed(format!("nothing came within {} s", LIMIT.as_secs()))),
    }
}

/// One request, of HTTP/1.0, so that the answer ends with the connection.
async fn get(text: &str) -> Result<(), String> {
    let (host, path) = url(text).ok_or("it is no URL that can be asked")?;
    let mut stream = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: reconciled\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut head = Vec::new();
    while head.len() < HEAD && !head.contains(&b'\n') {
        let mut part = [0; HEAD];
        match stream.read(&mut part).await.map_err(|error| error.to_string())? {
            0 => break,
            length => head.extend_from_slice(&part[..length]),
        }
    }
    let status = status(&head).ok_or("what came is no answer of HTTP")?;
    if status < 400 { Ok(()) } else { Err(format!("its status is {status}")) }
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
