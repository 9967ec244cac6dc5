//! Calls to the HTTP API, and what each way of failing means.
//!
//! Guarantees: a call that reached the server and brought no answer is told apart from one that was refused
//! ([`Failure`]); no redirect is followed, so the key goes nowhere else; error texts hold no secret, no
//! control characters and at most [`EXCERPT`] characters of what the server said.

use super::config::{CONNECT_TIMEOUT, Config};
use bytes::Bytes;
use reconciled_provider::{Cx, Error, ErrorKind, SecretRef};
use reqwest::{Method, StatusCode, Url, header};
use std::time::Duration;

/// Characters of a server's answer that are shown.
const EXCERPT: usize = 300;

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
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Refused { error, .. }
            | Failure::CutShort(error)
            | Failure::NotSent(error)
            | Failure::Lost(error) => error,
        }
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

/// A connection pool to one server.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    api: Url,
    key: SecretRef,
    timeout: Duration,
}

impl Client {
    /// Prepares calls; sends nothing.
    pub(crate) fn new(config: &Config, key: SecretRef) -> Result<Client, Error> {
        let api = config.api()?;
        super::install_crypto();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("reconciled/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        if api.scheme() == "http" {
            // Plain HTTP is for this machine and its neighbours: no proxy, no certificate store in memory.
            builder = builder.tls_certs_only([]).no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Error::unexpected(format!("prepare calls to {api}")).caused_by(error))?;
        Ok(Client { http, api, key, timeout: config.timeout })
    }

    /// The address of the API, for messages.
    pub(crate) fn address(&self) -> &str {
        self.api.as_str()
    }

    /// Sends one request and returns the body of a successful answer.
    pub(crate) async fn call(
        &self,
        cx: &Cx,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        doing: &str,
    ) -> Result<Bytes, Failure> {
        let what = format!("{doing} at {}", self.api);
        let key = self.header(cx).map_err(Failure::NotSent)?;
        let url = format!("{}{path}", self.api);
        let is_write = method != Method::GET;
        let mut request =
            self.http.request(method, &url).header("X-API-Key", key).timeout(self.timeout.min(cx.deadline));
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        }
        let mut response = request.send().await.map_err(|error| lost(&what, error, is_write))?;
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok());
        let retry_after = retry_after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let mut answer = Vec::with_capacity(response.content_length().unwrap_or(0).min(64 << 20) as usize);
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => answer.extend_from_slice(&chunk),
                Ok(None) => break,
                // A refusal stands even if its text was cut.
                Err(_) if !status.is_success() => break,
                Err(error) => return Err(lost(&what, error, is_write)),
            }
        }
        if status.is_success() {
            return Ok(answer.into());
        }
        Err(refused(&what, status, &answer, retry_after, is_write))
    }

    fn header(&self, cx: &Cx) -> Result<header::HeaderValue, Error> {
        let secret = cx.secrets.reveal(&self.key)?;
        let text = secret.reveal_str()?.trim_end_matches(['\r', '\n']);
        let mut value = header::HeaderValue::from_str(text).map_err(|_| {
            Error::invalid("the API key of a powerdns entry cannot be sent in a header")
                .hint("it must be one line of ASCII text")
        })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// What no answer means: nothing happened if there was no connection, else nobody knows.
fn lost(what: &str, error: reqwest::Error, is_write: bool) -> Failure {
    let was_sent = !error.is_connect() && !error.is_builder();
    let why = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    let hint = if error.is_connect() {
        "is the server running, with `api=yes` and `webserver=yes`, and is `url` right?"
    } else {
        "the server may be overloaded; `timeout` of the entry says how long to wait"
    };
    let is_cut_short = was_body_cut(&error);
    // The address is in the text already, and an address may hold a query.
    let error = Error::unavailable(format!("{what}: {why}")).hint(hint).caused_by(error.without_url());
    match (was_sent && is_write, is_cut_short) {
        (true, true) => Failure::CutShort(error),
        (true, false) => Failure::Lost(error),
        (false, _) => Failure::NotSent(error),
    }
}

/// True when the connection broke while the body was being written: the server cannot have all of it.
///
/// The HTTP library tells it by this text only. Were it to change, the outcome would be unknown instead of
/// known to be nothing, which is safe.
fn was_body_cut(error: &reqwest::Error) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        if error.to_string().starts_with("error writing a body to connection") {
            return true;
        }
        next = error.source();
    }
    false
}

fn refused(
    what: &str,
    status: StatusCode,
    answer: &[u8],
    retry_after: Option<Duration>,
    is_write: bool,
) -> Failure {
    let text = said(answer);
    let number = status.as_u16();
    let (kind, hint) = match number {
        401 | 403 => (
            ErrorKind::PermissionDenied,
            Some("compare the key of this entry (`apiKey`) with `api-key` of the server"),
        ),
        404 => (ErrorKind::Conflict, Some("was the zone removed? if every zone is missing, check `url`")),
        409 => (ErrorKind::Conflict, Some("the zone was created by somebody else meanwhile")),
        422 => (ErrorKind::Invalid, None),
        429 => (ErrorKind::RateLimited, None),
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
    error.retry_after = retry_after;
    // A server that fails may have committed before it did; so may one behind a failing proxy.
    if is_write && status.is_server_error() {
        return Failure::Lost(error);
    }
    Failure::Refused { status, text, error }
}

/// The server's words: the `error` of a JSON answer, else its text; one line, cut.
fn said(answer: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Body {
        error: String,
    }
    let text = match serde_json::from_slice::<Body>(answer) {
        Ok(body) => body.error,
        Err(_) => String::from_utf8_lossy(&answer[..answer.len().min(4 * EXCERPT)]).into_owned(),
    };
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(clean).take(EXCERPT).collect()
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

    #[test]
    fn a_zone_with_a_slash_has_a_path_of_its_own() {
        assert_eq!(zone_path("0/25.2.0.192.in-addr.arpa."), "/zones/0=2F25.2.0.192.in-addr.arpa.");
        assert_eq!(zone_path("_a.example.com."), "/zones/=5Fa.example.com.");
    }

    #[test]
    fn the_servers_words_are_one_short_line_without_control_characters() {
        assert_eq!(said(b"{\"error\": \"bad\\u001b[31m\\nname\"}"), "bad [31m name");
        assert_eq!(said("x".repeat(5_000).as_bytes()).len(), EXCERPT);
        assert_eq!(said(b"Not Found"), "Not Found");
    }

    #[test]
    fn a_status_decides_what_the_engine_does() {
        let kind = |status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            refused("x", status, b"", None, false).into_error().kind
        };
        assert_eq!(kind(401), ErrorKind::PermissionDenied);
        assert_eq!(kind(404), ErrorKind::Conflict);
        assert_eq!(kind(422), ErrorKind::Invalid);
        assert_eq!(kind(429), ErrorKind::RateLimited);
        assert_eq!(kind(502), ErrorKind::Unavailable);
        assert_eq!(kind(302), ErrorKind::Invalid);
        assert_eq!(kind(418), ErrorKind::Unexpected);
    }
}
