//! Calls to the HTTP API, and what each way of failing means.
//!
//! Guarantees: those of [`crate::http`]; and a request that the server cut short is told apart from one that it
//! has ([`Failure::CutShort`]).

use super::config::Config;
use crate::http::{self, Answer, printable};
use reconciled_provider::{Cx, Error, ErrorKind, SecretRef};
use reqwest::{Method, StatusCode, header};
use std::time::Duration;

/// How long to wait after "too many calls" where the server, or what stands before it, does not say.
const PAUSE: Duration = Duration::from_secs(60);

/// What to do where nobody listens.
const UNREACHABLE: &str = "is the server running, with `api=yes` and `webserver=yes`, and is `url` right?";

/// A request body below this is not refused for its size.
const SMALL_BODY: usize = 64 << 10;

/// How a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server answered no: nothing took effect.
    Refused {
        /// HTTP status.
        status: StatusCode,
        /// What the server said, fit to be shown.
        text: String,
        /// What it means to the engine.
        error: Error,
    },
    /// The server closed the connection before it had the whole request, as it does when the request is too
    /// large for it: nothing took effect.
    CutShort(Error),
    /// Nothing was sent.
    NotSent(Error),
    /// The request may have taken effect.
    Lost(Error),
}

impl Failure {
    /// What it means to the engine.
    pub(crate) fn error(&self) -> &Error {
        match self {
            Failure::Refused { error, .. }
            | Failure::CutShort(error)
            | Failure::NotSent(error)
            | Failure::Lost(error) => error,
        }
    }
    /// The same, for good.
    pub(crate) fn into_error(self) -> Error {
        self.error().clone()
    }
    /// True when the server may find a body of `size` too large.
    pub(crate) fn is_size(&self, size: usize) -> bool {
        let may_be = match self {
            Failure::CutShort(_) => true,
            Failure::Refused { status, .. } => {
                matches!(*status, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE)
            }
            _ => false,
        };
        may_be && size > SMALL_BODY
    }
    /// True when no answer came, as it also happens when the server closed on a body of `size` half-way.
    pub(crate) fn may_be_size(&self, size: usize) -> bool {
        matches!(self, Failure::Lost(_)) && size > SMALL_BODY
    }
    /// True when the server refuses the content.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Failure::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, .. })
    }
    /// True when the server knows no such zone.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Failure::Refused { status: StatusCode::NOT_FOUND, .. })
    }
}

/// One server with the key of an entry.
#[derive(Debug)]
pub(crate) struct Client {
    client: http::Client,
    api: String,
    key: SecretRef,
}

impl Client {
    /// Prepares calls; sends nothing.
    pub(crate) fn new(config: &Config, key: SecretRef) -> Result<Client, Error> {
        let api = config.api()?;
        let client = http::Client::new(&api, config.options.timeout)?.unreachable(UNREACHABLE);
        Ok(Client { client, api, key })
    }

    /// The address of the API, for messages.
    pub(crate) fn address(&self) -> &str {
        &self.api
    }

    /// Sends one request and returns a successful answer.
    pub(crate) async fn call(
        &self,
        cx: &Cx,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        doing: &str,
    ) -> Result<Answer, Failure> {
        let what = format!("{doing} at {}", self.api);
        let key = http::secret_header(cx, &self.key, "", "the API key of a powerdns entry");
        let key = key.map_err(Failure::NotSent)?;
        let is_write = method != Method::GET;
        let mut request =
            self.client.request(method, &format!("{}{path}", self.api)).header("X-API-Key", key);
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        }
        let sent = self.client.send(cx, request, &what, is_write).await;
        let answer = sent.map_err(|failure| match failure {
            http::Failure::Lost(error) if was_body_cut(&error) => Failure::CutShort(error),
            http::Failure::Lost(error) => Failure::Lost(error),
            http::Failure::NotSent(error) | http::Failure::Refused(error, ()) => Failure::NotSent(error),
        })?;
        if answer.status.is_success() {
            return match is_write && answer.status == StatusCode::OK {
                // It says 201 and 204 to these; somebody in between may say this of what never came there.
                true => Err(Failure::Lost(not_its_answer(&what))),
                false => Ok(answer),
            };
        }
        let failure = refused(&what, &answer, is_write);
        if let Failure::Refused { error, .. } = &failure
            && error.kind == ErrorKind::RateLimited
        {
            self.client.pause(cx, error.retry_after.unwrap_or(PAUSE));
        }
        Err(failure)
    }
}

/// A write was answered by something that is not the server.
fn not_its_answer(what: &str) -> Error {
    Error::new(ErrorKind::Unexpected, format!("{what}: answered 200, as PowerDNS answers no write"))
        .hint("is `url` that of the API itself? a proxy in between must pass on its answers")
}

/// True when the connection broke while the body was being written: the server cannot have all of it.
///
/// The HTTP library tells it by this text only. Were it to change, the outcome would be unknown instead of
/// known to be nothing, which is safe.
fn was_body_cut(error: &Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        if error.to_string().starts_with("error writing a body to connection") {
            return true;
        }
        next = error.source();
    }
    false
}

fn refused(what: &str, answer: &Answer, is_write: bool) -> Failure {
    let (status, text) = (answer.status, said(answer));
    let number = status.as_u16();
    let (kind, hint) = match number {
        401 | 403 => (
            ErrorKind::PermissionDenied,
            Some("compare the key of this entry (`apiKey`) with `api-key` of the server"),
        ),
        404 => (ErrorKind::Conflict, Some("was the zone removed? if every zone is missing, check `url`")),
        409 => (ErrorKind::Conflict, Some("the zone was created by somebody else meanwhile")),
        422 => (ErrorKind::Invalid, None),
        429 => (
            ErrorKind::RateLimited,
            Some("set `rate` of this entry below what the server takes: `rate: 5/s`"),
        ),
        400 | 413 => (
            ErrorKind::Invalid,
            Some("if the request is large, lower `maxBody` below the server's `webserver-max-bodysize`"),
        ),
        300..=399 => {
            (ErrorKind::Invalid, Some("redirects are not followed: put the final address into `url`"))
        }
        500..=599 => (ErrorKind::Unavailable, Some("the log of the server says more")),
        _ => (ErrorKind::Unexpected, None),
    };
    let told = if text.is_empty() { String::new() } else { format!(": {text}") };
    let mut error = Error::new(kind, format!("{what}: answered {number}{told}"));
    error.hint = hint.map(str::to_owned);
    error.retry_after = answer.retry_after();
    if kind == ErrorKind::RateLimited {
        error.retry_after.get_or_insert(PAUSE);
    }
    // A server that fails may have committed before it did; so may one behind a failing proxy.
    if is_write && status.is_server_error() {
        return Failure::Lost(error);
    }
    Failure::Refused { status, text, error }
}

/// The server's words: the `error` of a JSON answer, else its text.
fn said(answer: &Answer) -> String {
    #[derive(serde::Deserialize)]
    struct Body {
        error: String,
    }
    serde_json::from_slice::<Body>(&answer.body)
        .map_or_else(|_| answer.excerpt(), |body| printable(&body.error))
}

/// The id of a zone in paths: letters, digits, dots and hyphens stand, all else is `=XX`.
pub(crate) fn zone_path(zone: &str) -> String {
    let mut out = String::from("/zones/");
    for byte in zone.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => out.push(char::from(byte)),
            _ => out += &format!("={byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn answer(status: u16, body: &str) -> Answer {
        let (status, headers) = (StatusCode::from_u16(status).unwrap(), header::HeaderMap::new());
        let body = Bytes::copy_from_slice(body.as_bytes());
        Answer { status, headers, body, hidden: Default::default() }
    }

    #[test]
    fn a_zone_with_a_slash_has_a_path_of_its_own() {
        assert_eq!(zone_path("0/25.2.0.192.in-addr.arpa."), "/zones/0=2F25.2.0.192.in-addr.arpa.");
        assert_eq!(zone_path("_a.example.com."), "/zones/=5Fa.example.com.");
    }

    #[test]
    fn the_servers_words_are_one_short_line_without_control_characters() {
        let said = |body: &str| said(&answer(500, body));
        assert_eq!(said("{\"error\": \"bad\\u001b[31m\\nname\"}"), "bad [31m name");
        assert_eq!(said(&"x".repeat(5_000)).len(), http::EXCERPT);
        assert_eq!(said("Not Found"), "Not Found");
    }

    #[test]
    fn a_status_decides_what_the_engine_does() {
        let kind = |status: u16| refused("x", &answer(status, ""), false).into_error().kind;
        assert_eq!(kind(401), ErrorKind::PermissionDenied);
        assert_eq!(kind(404), ErrorKind::Conflict);
        assert_eq!(kind(422), ErrorKind::Invalid);
        assert_eq!(kind(429), ErrorKind::RateLimited);
        assert_eq!(kind(502), ErrorKind::Unavailable);
        assert_eq!(kind(302), ErrorKind::Invalid);
        assert_eq!(kind(418), ErrorKind::Unexpected);
    }
}
