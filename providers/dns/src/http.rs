//! Calls to HTTP APIs, and what each way of failing means.
//!
//! Guarantees: a call that reached the server and brought no answer is told apart from one that was refused
//! ([`Failure`]); no redirect is followed, so a credential goes nowhere else; nothing is sent while the server
//! asked to be left alone ([`Client::pause`]), whichever scope asks; error texts hold no secret, also where the
//! server echoes what it was sent, no control characters and at most [`EXCERPT`] characters of what it said.
//! Deliberately not done: retrying. The engine waits and looks again.

use crate::hidden::Hidden;
use bytes::Bytes;
use reconciled_provider::{Cx, Error, ErrorKind, SecretRef, problem::one_line};
use reqwest::{Method, StatusCode, Url, header};
use serde::de::DeserializeOwned;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Characters of a server's answer that are shown.
pub(crate) const EXCERPT: usize = 300;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection is kept that nothing is sent on. PowerDNS and Apache close one after 5 s: a request that meets that
/// on its way brings no answer, and nobody knows whether it took effect.
const IDLE: Duration = Duration::from_secs(4);

/// Longest time that a server may ask to be left alone. Past it somebody's clock or number is wrong.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3_600);

/// Largest answer that is read; one that is larger is no answer of an API.
const LARGEST: usize = 256 << 20;

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Its headers.
    pub(crate) headers: header::HeaderMap,
    /// Its body; of a refusal perhaps only a part, and without the secrets of the request.
    pub(crate) body: Bytes,
    /// The secrets of the request.
    pub(crate) hidden: Hidden,
}

/// What is wrong with the form of an answer, without the secrets in it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(String);

impl Answer {
    /// A header as text; empty when it is missing or no text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
    /// How long the server asks to be left alone, if it says so in seconds; a day at most.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.header("retry-after").trim().parse().ok().map(Duration::from_secs);
        seconds.map(|wait| wait.min(LONGEST_PAUSE))
    }
    /// The body as a `T`. What is none is never taken for an empty one.
    pub(crate) fn json<T: DeserializeOwned>(&self, what: &str, hint: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::unexpected(format!("{what}: the answer is not what the API gives"))
                .hint(hint)
                .caused_by(self.malformed(error))
        })
    }
    /// Why the body cannot be read, without secrets: a parser repeats what it does not expect.
    pub(crate) fn malformed(&self, error: impl std::fmt::Display) -> Malformed {
        Malformed(self.hidden.mask(&error.to_string()))
    }
    /// The same as a refusal is: nothing in its body is a secret of the request.
    pub(crate) fn into_refusal(mut self) -> Answer {
        let text = self.hidden.mask(&String::from_utf8_lossy(&self.body));
        self.body = text.into();
        self
    }
    /// What the body says, for people: one line, cut.
    pub(crate) fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(4 * EXCERPT)]);
        printable(&text)
    }
}

/// `text` as one line that is fit to be shown.
pub(crate) fn printable(text: &str) -> String {
    one_line(text, EXCERPT)
}

/// How a call failed. `D` is what an API says of a refusal besides its status.
#[derive(Debug)]
pub(crate) enum Failure<D = ()> {
    /// The server answered no: nothing took effect.
    Refused(Error, D),
    /// Nothing was sent.
    NotSent(Error),
    /// The request may have taken effect.
    Lost(Error),
}

impl<D> Failure<D> {
    /// True when nobody knows whether the request took effect.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Failure::Lost(_))
    }
    /// What it means to the engine.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Refused(error, _) | Failure::NotSent(error) | Failure::Lost(error) => error,
        }
    }
}

impl Failure {
    /// The same for an API that says more of a refusal, and did not.
    pub(crate) fn without_details<D: Default>(self) -> Failure<D> {
        match self {
            Failure::Refused(error, ()) => Failure::Refused(error, D::default()),
            Failure::NotSent(error) => Failure::NotSent(error),
            Failure::Lost(error) => Failure::Lost(error),
        }
    }
}

/// Installs the TLS implementation of the process, if nobody did. Without one no client can be made.
pub fn install_crypto() {
    // An error says that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A connection pool to one server, and whether it wants to be left alone.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    timeout: Duration,
    unreachable: &'static str,
    /// Time of the injected clock until which nothing is sent.
    paused_until: Mutex<Duration>,
}

impl Client {
    /// Prepares calls to `url`; sends nothing.
    pub(crate) fn new(url: &str, timeout: Duration) -> Result<Client, Error> {
        install_crypto();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("reconciled/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE);
        if url.starts_with("http:") {
            // Plain HTTP is for this machine and its neighbours: no proxy, no certificate store in memory.
            builder = builder.tls_certs_only([]).no_proxy();
        }
        let prepared = builder.build();
        let http = prepared
            .map_err(|error| Error::unexpected(format!("prepare calls to {url}")).caused_by(error))?;
        let unreachable = "is the server reachable from here, and is `url` right?";
        Ok(Client { http, timeout, unreachable, paused_until: Mutex::default() })
    }

    /// Says `hint` where nobody listens.
    pub(crate) fn unreachable(self, hint: &'static str) -> Client {
        Client { unreachable: hint, ..self }
    }

    /// A request to `url` that is sent with [`Client::send`].
    pub(crate) fn request(&self, method: Method, url: &str) -> reqwest::RequestBuilder {
        self.http.request(method, url)
    }

    /// Sends nothing for `wait`, or a day where that is longer.
    pub(crate) fn pause(&self, cx: &Cx, wait: Duration) {
        let until = cx.clock.now().saturating_add(wait.min(LONGEST_PAUSE));
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = until.max(*paused);
    }

    /// Sends one request and returns the answer, also one that refuses. `what` says what is being done, to what.
    pub(crate) async fn send(
        &self,
        cx: &Cx,
        request: reqwest::RequestBuilder,
        what: &str,
        is_write: bool,
    ) -> Result<Answer, Failure> {
        // A server may ask to be left alone while others have their turns.
        cx.pace.turn().await;
        let paused = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = paused.saturating_sub(cx.clock.now());
        // More than the longest pause is what a clock that was set back makes of a shorter one.
        if !left.is_zero() && left <= LONGEST_PAUSE {
            let text =
                format!("{what}: not sent, the server wants no calls for another {} s", left.as_secs());
            return Err(Failure::NotSent(Error::rate_limited(text).retry_after(left)));
        }
        let (http, request) = request.timeout(self.timeout.min(cx.deadline)).build_split();
        let request = request.map_err(|error| self.lost(what, error, is_write))?;
        let hidden = Hidden::of(&request);
        let sent = http.execute(request).await;
        cx.answers.answered(sent.as_ref().ok().map(|response| response.status().as_u16()));
        let mut response = sent.map_err(|error| self.lost(what, error, is_write))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::with_capacity(response.content_length().unwrap_or(0).min(64 << 20) as usize);
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > LARGEST => {
                    let error =
                        Error::unexpected(format!("{what}: the answer has more than {LARGEST} bytes"));
                    return Err(if is_write { Failure::Lost(error) } else { Failure::Refused(error, ()) });
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                // A refusal stands even if its text was cut.
                Err(_) if !status.is_success() => break,
                Err(error) => return Err(self.lost(what, error, is_write)),
            }
        }
        let answer = Answer { status, headers, body: body.into(), hidden };
        // What is read of a success is data, and stays as it is.
        Ok(if status.is_success() { answer } else { answer.into_refusal() })
    }

    /// What no answer means: nothing happened if there was no connection, else nobody knows.
    fn lost(&self, what: &str, error: reqwest::Error, is_write: bool) -> Failure {
        let was_sent = !error.is_connect() && !error.is_builder();
        let why = if error.is_timeout() {
            "no answer in time"
        } else if error.is_connect() {
            "no connection"
        } else {
            "the connection broke"
        };
        let hint = if error.is_connect() {
            self.unreachable
        } else {
            "the server may be overloaded; `timeout` of the entry says how long to wait"
        };
        // The address is in the text already, and an address may hold a query.
        let error = Error::unavailable(format!("{what}: {why}")).hint(hint).caused_by(error.without_url());
        if was_sent && is_write { Failure::Lost(error) } else { Failure::NotSent(error) }
    }
}

/// The secret behind `reference` as the value of a header, with `before` in front of it.
pub(crate) fn secret_header(
    cx: &Cx,
    reference: &SecretRef,
    before: &str,
    name: &str,
) -> Result<header::HeaderValue, Error> {
    let secret = cx.secrets.reveal(reference)?;
    let text = secret.reveal_str()?.trim_end_matches(['\r', '\n']);
    let value = header::HeaderValue::from_str(&format!("{before}{text}"));
    let mut value = value.map_err(|_| {
        Error::invalid(format!("{name} cannot be sent in a header")).hint("it must be one line of ASCII text")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The kind of error that a status stands for where the server says nothing more exact.
pub(crate) fn kind_of(status: StatusCode) -> ErrorKind {
    match status.as_u16() {
        401 | 403 => ErrorKind::PermissionDenied,
        404 | 409 => ErrorKind::Conflict,
        429 => ErrorKind::RateLimited,
        300..=399 | 400 | 413 | 422 => ErrorKind::Invalid,
        500..=599 => ErrorKind::Unavailable,
        _ => ErrorKind::Unexpected,
    }
}

/// Reads the base address of an entry of type `kind`: http or https, without credentials, query and final slash.
pub(crate) fn base_url(kind: &str, text: &str) -> Result<String, Error> {
    let shown = without_secrets(text);
    let bad = |what: String| {
        Error::invalid(format!("url `{shown}` of a {kind} entry {what}"))
            .hint("write it like http://127.0.0.1:8080")
    };
    let url = Url::parse(text).map_err(|error| bad(format!("is none: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("is neither http nor https".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("holds a user or password, which belong in a secret".into()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has a query or fragment".into()));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// An address as it may be shown, whatever is wrong with it: without what stands before an `@` and in a query.
pub(crate) fn without_secrets(url: &str) -> String {
    let shown = url.rfind('@').map_or_else(|| url.to_owned(), |at| format!("…{}", &url[at..]));
    match shown.find(['?', '#']) {
        Some(at) => format!("{}…", &shown[..=at]),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(retry_after: &str) -> Answer {
        let mut headers = header::HeaderMap::new();
        headers.insert("retry-after", retry_after.parse().unwrap());
        Answer {
            status: StatusCode::TOO_MANY_REQUESTS,
            headers,
            body: Bytes::new(),
            hidden: Hidden::default(),
        }
    }

    #[test]
    fn no_pause_is_longer_than_a_day() {
        assert_eq!(answer(" 7 ").retry_after(), Some(Duration::from_secs(7)));
        for seconds in ["86401", "18446744073709551615"] {
            assert_eq!(answer(seconds).retry_after(), Some(LONGEST_PAUSE), "{seconds}");
        }
        assert_eq!(answer("soon").retry_after(), None);
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let text = base_url("cloudflare", "http://admin:canary@a.example").unwrap_err().to_string();
        assert!(text.contains("belong in a secret") && !text.contains("canary"), "{text}");
        for url in
            ["admin:canary@host", "https:/admin:canary@host", "//admin:canary@host", "ftp://a:canary@b@c"]
        {
            let text = base_url("x", url).unwrap_err().to_string();
            assert!(!text.contains("canary") && !text.contains("admin"), "{text}");
        }
        let text = base_url("x", "http://a.example/v4?token=canary").unwrap_err().to_string();
        assert!(text.contains("http://a.example/v4?…") && !text.contains("canary"), "{text}");
        assert!(base_url("x", "ftp://a.example").unwrap_err().message.contains("neither http nor https"));
        assert!(base_url("x", "https://a.example/?q=1").unwrap_err().message.contains("query"));
        assert_eq!(base_url("x", "https://a.example").unwrap(), "https://a.example");
        assert_eq!(base_url("x", "https://a.example/v4/").unwrap(), "https://a.example/v4");
    }

    #[test]
    fn what_a_server_says_is_one_short_line_without_control_characters() {
        assert_eq!(printable(" bad\u{1b}[31m\nname "), "bad [31m name");
        assert_eq!(printable("a\u{202e}b"), "a b");
        assert_eq!(printable(&"x".repeat(5_000)).len(), EXCERPT);
    }

    #[test]
    fn a_status_decides_what_the_engine_does() {
        let kind = |status: u16| kind_of(StatusCode::from_u16(status).unwrap());
        assert_eq!(kind(401), ErrorKind::PermissionDenied);
        assert_eq!(kind(404), ErrorKind::Conflict);
        assert_eq!(kind(422), ErrorKind::Invalid);
        assert_eq!(kind(302), ErrorKind::Invalid);
        assert_eq!(kind(429), ErrorKind::RateLimited);
        assert_eq!(kind(502), ErrorKind::Unavailable);
        assert_eq!(kind(418), ErrorKind::Unexpected);
    }
}
