//! gRPC over HTTP/2: one message there, one or some back, and a status (`PROTOCOL-HTTP2` of gRPC).
//!
//! Guarantees: no more of an answer is kept than its caller allows. *Caveats*: how long a call may take is the caller's business.
//!
//! By hand on `h2`: what providers and collectors are asked is a dozen calls without compression, TLS or balancing, and a stream
//! of messages is of use here only once it is there as a whole.

use h2::client::SendRequest;
use http::{HeaderMap, Request, Version};
use prost::{
    Message,
    bytes::{BufMut, Bytes, BytesMut},
};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::JoinSet,
};

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Who was asked answered with a code of gRPC and a message.
    Code(u32, String),
    /// The connection broke, or what came was no gRPC.
    Broken(String),
    /// There was no answer for so long, and nobody waits for it any more.
    Late(Duration),
}

impl Status {
    /// Who was asked does not know the call.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Status::Code(12, _))
    }
    /// Who was asked is no longer there, as far as one can tell from here.
    pub fn is_broken(&self) -> bool {
        matches!(self, Status::Broken(_) | Status::Code(14, _))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Code(code, message) if message.is_empty() => write!(f, "gRPC status {code}"),
            Status::Code(code, message) => write!(f, "{message} (gRPC status {code})"),
            Status::Broken(why) => write!(f, "the connection broke: {why}"),
            Status::Late(limit) => write!(f, "none came within {limit:?}"),
        }
    }
}

impl std::error::Error for Status {}

/// A connection. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub struct Channel {
    send: SendRequest<Bytes>,
    authority: Arc<str>,
    ended: watch::Receiver<bool>,
    /// Drives the connection; aborted when nobody needs it.
    _driver: Arc<JoinSet<()>>,
}

impl Channel {
    /// Speaks HTTP/2 over `io` with who is called `authority` (`HOST:PORT`), with room for so many bytes of an answer on
    /// their way.
    pub async fn over(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        authority: &str,
        room: u32,
    ) -> Result<Channel, Status> {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(room).initial_connection_window_size(4 * room);
        let (send, connection) = builder.handshake::<_, Bytes>(io).await.map_err(broken)?;
        let mut driver = JoinSet::new();
        let (end, ended) = watch::channel(false);
        driver.spawn(async move {
            // How it ends is told to every call that is under way, or to the next one.
            let _ = connection.await;
            end.send_replace(true);
        });
        Ok(Channel { send, authority: authority.into(), ended, _driver: driver.into() })
    }

    /// Becomes true once the connection has ended.
    pub fn ended(&self) -> watch::Receiver<bool> {
        self.ended.clone()
    }

    /// True while it takes calls, as far as is known: one that the other side has closed does not.
    pub async fn is_open(&self) -> bool {
        self.send.clone().ready().await.is_ok()
    }

    /// One call, whose answer has `largest` bytes at most.
    pub async fn call<A: Message + Default>(
        &self,
        path: &str,
        message: &impl Message,
        largest: usize,
    ) -> Result<A, Status> {
        let mut answers = unframe(self.ask(path, &[], message, largest).await?)?;
        match (answers.pop(), answers.is_empty()) {
            (Some(answer), true) => decode(path, answer),
            (None, _) => Err(broken("an answer without a message")),
            (Some(_), false) => Err(broken("more than one answer")),
        }
    }

    /// One call that is answered with a stream, whose messages have `largest` bytes at most together.
    pub async fn call_all<A: Message + Default>(
        &self,
        path: &str,
        message: &impl Message,
        largest: usize,
    ) -> Result<Vec<A>, Status> {
        let answers = unframe(self.ask(path, &[], message, largest).await?)?;
        answers.into_iter().map(|answer| decode(path, answer)).collect()
    }

    /// One call with these headers beside gRPC's own. Returns what was answered as it came, in gRPC's frames, which is nothing
    /// where headers are all of the answer; it has `largest` bytes at most.
    pub async fn ask(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        message: &impl Message,
        largest: usize,
    ) -> Result<Bytes, Status> {
        let request = Request::builder()
            .version(Version::HTTP_2)
            .method("POST")
            .uri(format!("http://{}{path}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).map_err(broken)?;
        let mut send = self.send.clone().ready().await.map_err(broken)?;
        let (answer, mut stream) = send.send_request(request, false).map_err(broken)?;
        // Who refuses a call, such as one that it does not know, may have answered before it heard all of it.
        let sent = stream.send_data(frame(message), true);
        let answer = match (answer.await, sent) {
            (Ok(answer), _) => answer,
            (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(broken(error)),
        };
        if answer.status() != 200 {
            return Err(broken(format!("HTTP status {}, which is no answer of gRPC", answer.status())));
        }
        if let Some(status) = status(answer.headers()) {
            // An answer of headers alone: an error, or a stream of nothing.
            return status.map(|()| Bytes::new());
        }
        let mut body = answer.into_body();
        let mut all = BytesMut::new();
        while let Some(part) = body.data().await {
            let part = part.map_err(broken)?;
            body.flow_control().release_capacity(part.len()).map_err(broken)?;
            if all.len() + part.len() > largest {
                return Err(broken(format!("an answer of more than {}", size(largest))));
            }
            all.extend_from_slice(&part);
        }
        let trailers = body.trailers().await.map_err(broken)?.unwrap_or_default();
        status(&trailers).unwrap_or_else(|| Err(broken("an answer without a status of gRPC")))?;
        Ok(all.freeze())
    }
}

fn decode<A: Message + Default>(path: &str, answer: Bytes) -> Result<A, Status> {
    A::decode(answer).map_err(|error| broken(format!("{path} was answered with what is no message: {error}")))
}

fn broken(error: impl fmt::Display) -> Status {
    Status::Broken(error.to_string())
}

/// Bytes as people say it.
fn size(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

/// A message with gRPC's five bytes before it: not compressed, and its length.
fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(length + 5);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    message.encode(&mut bytes).expect("a BytesMut grows");
    bytes.freeze()
}

/// The messages of a body.
fn unframe(mut body: Bytes) -> Result<Vec<Bytes>, Status> {
    let wrong = |why: &str| Err(broken(why));
    let mut messages = Vec::new();
    while !body.is_empty() {
        let Some((head, _)) = body.split_first_chunk::<5>() else {
            return wrong("an answer that is cut off");
        };
        if head[0] != 0 {
            return wrong("a compressed answer, which nobody asked for");
        }
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if body.len() - 5 < length {
            return wrong("an answer that is cut off");
        }
        let mut message = body.split_to(5 + length);
        messages.push(message.split_off(5));
    }
    Ok(messages)
}

/// The status in headers or trailers, if there is one.
fn status(headers: &HeaderMap) -> Option<Result<(), Status>> {
    let code = headers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse().ok());
    Some(match code {
        Some(0) => Ok(()),
        Some(code) => {
            let message = headers.get("grpc-message").map(|m| unescape(m.as_bytes())).unwrap_or_default();
            Err(Status::Code(code, message))
        }
        None => Err(broken("a status of gRPC that is no number")),
    })
}

/// Undoes the percent-encoding of messages.
fn unescape(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let decoded = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(decoded.unwrap_or(*byte));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_frame_and_what_is_cut_off_does_not() {
        let framed = frame(&());
        assert_eq!(&framed[..], [0, 0, 0, 0, 0]);
        assert_eq!(unframe(framed), Ok(vec![Bytes::new()]));
        assert_eq!(unframe(Bytes::new()), Ok(Vec::new()));
        let two = Bytes::from_static(b"\0\0\0\0\x01a\0\0\0\0\x02bc");
        assert_eq!(unframe(two), Ok(vec!["a".into(), "bc".into()]));
        for wrong in [&b"\0\0\0\0"[..], b"\x01\0\0\0\0", b"\0\0\0\0\x02a", b"\0\0\0\0\x01ab"] {
            assert!(unframe(Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
        assert_eq!(unframe(frame(&"a".to_owned())), Ok(vec!["\n\u{1}a".into()]));
    }

    #[test]
    fn messages_are_read_as_they_were_meant() {
        assert_eq!(unescape(b"a%20b%C3%A9%"), "a bé%");
        let mut headers = HeaderMap::new();
        assert_eq!(status(&headers), None);
        headers.insert("grpc-status", "12".parse().unwrap());
        headers.insert("grpc-message", "no%0Asuch".parse().unwrap());
        assert_eq!(status(&headers), Some(Err(Status::Code(12, "no\nsuch".into()))));
        assert_eq!([16 << 10, 64 << 20].map(size), ["16 KiB", "64 MiB"]);
    }
}
