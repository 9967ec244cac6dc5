//! HTTP as it goes over the wire: nothing between a test and what it says.

use serde_json::Value;
use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

/// Where a daemon listens.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Address(String),
    Socket(PathBuf),
}

/// What came back; the status is 0 where nothing did.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn of(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let mut body = bytes.get(end + 4..).unwrap_or_default().to_vec();
        if head.contains("transfer-encoding: chunked") {
            body = unchunked(&body);
        }
        Answer { status, head, body }
    }
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
    /// It is refused in the one form there is: why, and for whom.
    #[track_caller]
    pub(crate) fn is_refused(&self, status: u16, word: &str) {
        assert_eq!(self.status, status, "{} {}", self.head, self.text());
        let json = self.json();
        let error = &json["error"];
        let text = format!("{} {}", error["message"].as_str().unwrap(), error["hint"].as_str().unwrap_or(""));
        assert!(text.contains(word), "{text}");
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let digits = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let Ok(length) = usize::from_str_radix(digits.trim(), 16) else { break };
        let chunk = &bytes[end + 2..];
        if length == 0 || chunk.len() < length + 2 {
            break;
        }
        whole.extend_from_slice(&chunk[..length]);
        bytes = &chunk[length + 2..];
    }
    whole
}

impl Place {
    /// Says these bytes and reads until the other side has ended.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let limit = Some(Duration::from_secs(90));
        let mut answer = Vec::new();
        // Who is refused early is answered while it still speaks.
        match self {
            Place::Address(address) => {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(limit).unwrap();
                let _ = stream.write_all(bytes);
                let _ = stream.read_to_end(&mut answer);
            }
            Place::Socket(path) => {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(limit).unwrap();
                let _ = stream.write_all(bytes);
                let _ = stream.read_to_end(&mut answer);
            }
        }
        Answer::of(&answer)
    }

    /// Asks with these headers and this body.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if method != "GET" || !body.is_empty() {
            head += &format!("content-length: {}\r\n", body.len());
        }
        self.raw(&[format!("{head}\r\n").as_bytes(), body].concat())
    }

    pub(crate) fn get(&self, path: &str, token: &str) -> Answer {
        self.ask("GET", path, &[("authorization", &format!("Bearer {token}"))], b"")
    }

    pub(crate) fn post(&self, path: &str, token: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        self.ask("POST", path, &headers, body.as_bytes())
    }
}
