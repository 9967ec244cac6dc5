//! Calls to what is told something: collectors, chats, forges.
//!
//! Guarantees: an error names the host at most, never path, query or headers, which may hold a token; no redirect
//! is followed, so what is sent goes nowhere else; a call has an end. What a server says is shown short and clean.

use crate::render::{clean, cut};
use reqwest::{Client, RequestBuilder, Url};
use std::time::Duration;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a call may take in all.
const WHOLE: Duration = Duration::from_secs(20);
/// Characters of an answer that are shown.
const EXCERPT: usize = 200;
/// Bytes of an answer that are read.
const READ: usize = 16 << 10;
/// Parts of an address of at least this length may be a token.
const LIKE_A_TOKEN: usize = 8;

/// Why a call did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The server said no.
    #[error("{host} answered {status}{said}")]
    Refused {
        /// Who.
        host: String,
        /// HTTP status.
        status: u16,
        /// `: ` and what it said, or nothing.
        said: String,
    },
    /// The server said no, by gRPC.
    #[error("{host} answered gRPC status {code}{said}")]
    Status {
        /// Who.
        host: String,
        /// Code of gRPC.
        code: u32,
        /// `: ` and what it said, or nothing.
        said: String,
    },
    /// No answer came, or nothing could be sent.
    #[error("{host}: {why}")]
    NoAnswer {
        /// Who.
        host: String,
        /// The cause chain.
        why: String,
    },
}

impl CallError {
    /// True when the same call will be refused again.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, CallError::Refused { status: 400 | 413 | 415 | 422, .. })
    }
}

/// A client for `url`: no certificates in memory where none is looked at.
pub(crate) fn client(url: &Url) -> Result<Client, CallError> {
    // An error says that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("reconciled/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .timeout(WHOLE)
        .pool_max_idle_per_host(1);
    if url.scheme() == "http" {
        builder = builder.tls_certs_only([]).no_proxy();
    }
    builder.build().map_err(|error| no_answer(url.host_str(), error))
}

/// Sends and returns what a successful answer says, as far as it is read.
pub(crate) async fn send(request: RequestBuilder) -> Result<Vec<u8>, CallError> {
    let (client, request) = request.build_split();
    let request = request.map_err(|error| no_answer(None, error))?;
    let host = request.url().host_str().map(str::to_owned);
    let secrets = secrets(&request);
    let mut response = client.execute(request).await.map_err(|error| no_answer(host.as_deref(), error))?;
    let status = response.status();
    let mut body = Vec::new();
    while body.len() < READ {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) if status.is_success() => return Err(no_answer(host.as_deref(), error)),
            Err(_) => break,
        }
    }
    if status.is_success() {
        return Ok(body);
    }
    let text = String::from_utf8_lossy(&body);
    // Some servers repeat the path or a header in what they say.
    let is_echo = secrets.iter().any(|secret| text.contains(secret.as_str()));
    let said = if is_echo { String::new() } else { excerpt(&text) };
    Err(CallError::Refused { host: host.unwrap_or_default(), status: status.as_u16(), said })
}

/// `: ` and what a server said, short and clean; nothing where it said nothing.
pub(crate) fn excerpt(said: &str) -> String {
    match clean(&cut(said.trim(), EXCERPT)) {
        text if text.is_empty() => String::new(),
        text => format!(": {text}"),
    }
}

/// Parts of a request that may be a token: long parts of the path and the query, words of headers that say who asks.
fn secrets(request: &reqwest::Request) -> Vec<String> {
    let url = request.url();
    let parts = url.path().split('/').chain(url.query().unwrap_or_default().split(['&', '=']));
    let headers = request.headers().iter().filter(|(_, value)| value.is_sensitive());
    let words = headers.filter_map(|(_, value)| value.to_str().ok()).flat_map(str::split_whitespace);
    parts.chain(words).filter(|part| part.len() >= LIKE_A_TOKEN).map(str::to_owned).collect()
}

fn no_answer(host: Option<&str>, error: reqwest::Error) -> CallError {
    let why = crate::failure::chain(&error.without_url());
    CallError::NoAnswer { host: host.unwrap_or("the server").to_owned(), why }
}
