//! Calls to what is told something: collectors, chats, forges.
//!
//! Guarantees: an error names the host at most, never path, query or headers, which may hold a token; no redirect
//! is followed, so what is sent goes nowhere else; a call has an end. What a server says is shown short and clean, and
//! without what may be a token of the request, however that is spelled there.

use crate::text::{clean, cut};
use reconciled_provider::Mask;
use reqwest::{Client, RequestBuilder, Url};
use std::time::Duration;
use url::form_urlencoded;

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
    // Some servers repeat the path or a header in what they say.
    let said = excerpt(&secrets.over(&String::from_utf8_lossy(&body)));
    Err(CallError::Refused { host: host.unwrap_or_default(), status: status.as_u16(), said })
}

/// `: ` and what a server said, short and clean; nothing where it said nothing.
pub(crate) fn excerpt(said: &str) -> String {
    match clean(&cut(said.trim(), EXCERPT)) {
        text if text.is_empty() => String::new(),
        text => format!(": {text}"),
    }
}

/// Parts of a request that may be a token: long parts of the path and the query, as they are there and as what they stand
/// for, and headers that say who asks, of `Bearer TOKEN` the token too.
fn secrets(request: &reqwest::Request) -> Mask {
    let url = request.url();
    let path = url.path().split('/').flat_map(|part| [part.to_owned(), unescaped(part)]);
    let query = url.query().unwrap_or_default().split(['&', '=']).map(str::to_owned);
    let pairs = url.query_pairs().flat_map(|(name, value)| [name.into_owned(), value.into_owned()]);
    let parts = path.chain(query).chain(pairs).filter(|part| part.len() >= LIKE_A_TOKEN);
    let headers = request.headers().values().filter(|value| value.is_sensitive());
    let words = headers.flat_map(|value| {
        let whole = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let token = whole.split_once(' ').map(|(_, token)| token.to_owned());
        [Some(whole), token].into_iter().flatten()
    });
    let all: Vec<String> = parts.chain(words).collect();
    Mask::of(all.iter().map(String::as_str))
}

/// A part of a path without its escapes.
fn unescaped(part: &str) -> String {
    // Read as a name of a form, in which these would be more than themselves.
    let name = part.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(name.as_bytes()).map(|(name, _)| name).collect()
}

fn no_answer(host: Option<&str>, error: reqwest::Error) -> CallError {
    let why = crate::failure::chain(&error.without_url());
    CallError::NoAnswer { host: host.unwrap_or("the server").to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::{Method, Request, header::HeaderValue};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    #[test]
    fn what_may_be_a_token_is_masked_in_every_spelling() {
        let url = Url::parse("https://a.example/hook/s%2Fcret+a%3Db?key=p%40ss+words").unwrap();
        let mut request = Request::new(Method::POST, url);
        let mut value = HeaderValue::from_static("Bearer hunter2");
        value.set_sensitive(true);
        request.headers_mut().insert("authorization", value);
        request.headers_mut().insert("accept", HeaderValue::from_static("application/json"));
        let secrets = secrets(&request);
        let check = |text: &str, expect: &str| assert_eq!(secrets.over(text), expect);
        check("no /hook/s%2Fcret+a%3Db", "no /hook/(secret)");
        check("no /hook/s/cret+a=b", "no /hook/(secret)");
        check(r#"{"path":"\/hook\/s\/cret+a=b"}"#, r#"{"path":"\/hook\/(secret)"}"#);
        check("?key=p%40ss+words, p@ss words", "?key=(secret), (secret)");
        check("Bearer hunter2, hunter2, aHVudGVyMg==", "(secret), (secret), (secret)");
        check("application/json is not taken", "application/json is not taken");
    }

    #[tokio::test]
    async fn what_a_server_repeats_of_a_token_is_not_shown() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = Url::parse(&format!("http://{address}/hook/s%2Fcret-token")).unwrap();
        let answer = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).await.unwrap() > 0);
            let body = "no such hook: s/cret-token";
            let length = body.len();
            let answer = format!("HTTP/1.1 404 Not Found\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let request = client(&url).unwrap().post(url.clone());
        let (told, ()) = tokio::join!(send(request), answer);
        assert_eq!(told.unwrap_err().to_string(), "127.0.0.1 answered 404: no such hook: (secret)");
    }
}
