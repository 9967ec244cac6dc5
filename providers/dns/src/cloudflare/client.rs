//! Calls to the API v4: the envelope around every answer, what its errors mean, and when to leave it alone.
//!
//! Above 1,200 requests in five minutes Cloudflare refuses every call for five minutes (429). The first refusal
//! stops all calls of the entry until then, so that a refusal is never answered by more calls.

use super::config::Config;
use crate::http::{self, Answer, Client, Failure, printable};
use reconciled_provider::{Cx, Error, ErrorKind, SecretRef};
use reqwest::{Method, header};
use serde::{Deserialize, de::DeserializeOwned};
use std::time::Duration;

/// How long calls are refused after too many, when the answer does not say.
const BLOCK: Duration = Duration::from_secs(300);

/// Longest pause on the word of a `ratelimit` header that says nothing is left.
const LONGEST_HINTED_PAUSE: Duration = Duration::from_secs(300);

const NOT_THE_API: &str = "is `url` the Cloudflare API, such as https://api.cloudflare.com/client/v4?";

/// What stands around every answer.
#[derive(Debug, Deserialize)]
struct Envelope<T> {
    success: bool,
    errors: Option<Vec<ApiError>>,
    result: Option<T>,
    result_info: Option<PageInfo>,
}

/// One error of an answer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ApiError {
    #[serde(default)]
    pub(crate) code: u64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    source: Option<Source>,
    #[serde(default)]
    error_chain: Vec<ApiError>,
}

#[derive(Clone, Debug, Deserialize)]
struct Source {
    #[serde(default)]
    pointer: String,
}

impl ApiError {
    /// Where in the request the error is, if the server says so: `/posts/3/content`.
    pub(crate) fn pointer(&self) -> Option<(&str, usize)> {
        let pointer = &self.source.as_ref()?.pointer;
        let mut words = pointer.split(['/', '.', '[', ']']).filter(|word| !word.is_empty());
        let list = words.find(|word| matches!(*word, "deletes" | "patches" | "puts" | "posts"))?;
        Some((list, words.next()?.parse().ok()?))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PageInfo {
    total_pages: usize,
    total_count: usize,
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page<T> {
    /// What is on it.
    pub(crate) items: Vec<T>,
    /// How many pages there are.
    pub(crate) pages: usize,
    /// How many items there are on all of them.
    pub(crate) total: usize,
}

/// Why a call failed; of a refusal the errors of the API, if it gave any.
pub(crate) type Refusal = Failure<Vec<ApiError>>;

/// The API with the token of one entry.
#[derive(Debug)]
pub(crate) struct Api {
    client: Client,
    base: String,
    token: SecretRef,
    account: Option<String>,
}

impl Api {
    /// Prepares calls; sends nothing.
    pub(crate) fn new(config: &Config, token: SecretRef) -> Result<Api, Error> {
        let base = config.api()?;
        let client = Client::new(&base, config.options.timeout)?;
        Ok(Api { client, base, token, account: config.account.clone() })
    }

    /// The address of the API, for messages.
    pub(crate) fn address(&self) -> &str {
        &self.base
    }

    /// Reads page `number` of a list.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        cx: &Cx,
        path: &str,
        filter: &[(&str, &str)],
        number: usize,
        per_page: usize,
        doing: &str,
    ) -> Result<Page<T>, Error> {
        let path = {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(filter);
            query.extend_pairs([("page", number.to_string()), ("per_page", per_page.to_string())]);
            if let (Some(account), "/zones") = (&self.account, path) {
                query.append_pair("account.id", account);
            }
            format!("{path}?{}", query.finish())
        };
        let called = self.call::<Vec<T>>(cx, Method::GET, &path, None, doing).await;
        let envelope = called.map_err(Refusal::into_error)?;
        // A list without its length, or without itself, is half an answer.
        let (Some(items), Some(info)) = (envelope.result, envelope.result_info) else {
            let text = format!("{doing} at {}: the answer has no list, or no length of it", self.base);
            return Err(Error::unexpected(text).hint(NOT_THE_API));
        };
        Ok(Page { items, pages: info.total_pages, total: info.total_count })
    }

    /// Sends one write; returns its result.
    pub(crate) async fn write<T: DeserializeOwned>(
        &self,
        cx: &Cx,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        doing: &str,
    ) -> Result<Option<T>, Refusal> {
        self.call::<T>(cx, method, path, body, doing).await.map(|envelope| envelope.result)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        cx: &Cx,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        doing: &str,
    ) -> Result<Envelope<T>, Refusal> {
        let what = format!("{doing} at {}", self.base);
        let token = http::secret_header(cx, &self.token, "Bearer ", "the token of a cloudflare entry");
        let token = token.map_err(Refusal::NotSent)?;
        let is_write = method != Method::GET;
        let mut request = self.client.request(method, &format!("{}{path}", self.base));
        request = request.header(header::AUTHORIZATION, token);
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        }
        let answer =
            self.client.send(cx, request, &what, is_write).await.map_err(Failure::without_details)?;
        self.heed(cx, &answer);
        if answer.status.is_success() {
            match answer.json::<Envelope<T>>(&what, NOT_THE_API) {
                Ok(envelope) if envelope.success => return Ok(envelope),
                Ok(_) => {}
                // The server said yes in words nobody understands: it may have done what it was asked for.
                Err(error) if is_write => return Err(Refusal::Lost(error)),
                Err(error) => return Err(Refusal::Refused(error, Vec::new())),
            }
        }
        let answer = answer.into_refusal();
        // The result of a refusal may have any form.
        let errors = serde_json::from_slice::<Envelope<serde::de::IgnoredAny>>(&answer.body);
        let errors = errors.ok().and_then(|body| body.errors).unwrap_or_default();
        Err(self.refused(&what, &answer, errors, is_write))
    }

    /// Pauses when the server asks for it, or says that nothing is left.
    fn heed(&self, cx: &Cx, answer: &Answer) {
        if answer.status.as_u16() == 429 {
            self.client.pause(cx, answer.retry_after().unwrap_or(BLOCK));
        } else if let Some(wait) = exhausted(answer.header("ratelimit")) {
            self.client.pause(cx, wait.min(LONGEST_HINTED_PAUSE));
        }
    }

    fn refused(&self, what: &str, answer: &Answer, errors: Vec<ApiError>, is_write: bool) -> Refusal {
        let kind = kind_of(answer, &errors, is_write);
        let told = match said(&errors) {
            text if text.is_empty() => answer.excerpt(),
            text => text,
        };
        let told = if told.is_empty() { told } else { format!(": {told}") };
        let mut error = Error::new(kind, format!("{what}: answered {}{told}", answer.status.as_u16()));
        error.hint = hint(kind, answer).map(str::to_owned);
        if kind == ErrorKind::RateLimited {
            error.retry_after = Some(answer.retry_after().unwrap_or(BLOCK));
        }
        // A server that fails may have committed before it did; so may one behind a failing proxy.
        if is_write && answer.status.is_server_error() {
            return Refusal::Lost(error);
        }
        Refusal::Refused(error, errors)
    }
}

fn hint(kind: ErrorKind, answer: &Answer) -> Option<&'static str> {
    match (kind, answer.status.as_u16()) {
        (ErrorKind::PermissionDenied, _) => Some(
            "the token needs the permissions Zone:Read and DNS:Edit for this zone, and must not have expired",
        ),
        (_, 300..=399) => Some("redirects are not followed: put the final address into `url`"),
        (ErrorKind::RateLimited, _) => {
            Some("1,200 requests in five minutes are allowed to a user with all of their tokens")
        }
        _ => None,
    }
}

/// The errors in one line.
fn said(errors: &[ApiError]) -> String {
    let chain = errors.iter().flat_map(|error| std::iter::once(error).chain(&error.error_chain));
    let text: Vec<String> = chain.map(|error| format!("{} ({})", error.message, error.code)).collect();
    printable(&text.join("; "))
}

/// Codes of missing or insufficient credentials, whatever the status.
const CREDENTIALS: [u64; 8] = [6003, 6111, 9103, 9106, 9107, 9109, 10_000, 10_001];
/// Codes of what is not there, or is there already, although it was looked at: somebody else was quicker.
const MOVED: [u64; 7] = [1061, 7003, 81_044, 81_053, 81_054, 81_057, 81_058];
/// Codes of too many calls.
const TOO_MANY: [u64; 2] = [971, 10_429];

fn kind_of(answer: &Answer, errors: &[ApiError], is_write: bool) -> ErrorKind {
    let has = |codes: &[u64]| {
        let mut chain = errors.iter().flat_map(|error| std::iter::once(error).chain(&error.error_chain));
        chain.any(|error| codes.contains(&error.code))
    };
    match answer.status.as_u16() {
        429 => ErrorKind::RateLimited,
        _ if has(&TOO_MANY) => ErrorKind::RateLimited,
        _ if has(&CREDENTIALS) => ErrorKind::PermissionDenied,
        _ if has(&MOVED) => ErrorKind::Conflict,
        200..=299 if is_write => ErrorKind::Invalid,
        // A read that is refused without a reason is nothing a manifest can mend.
        200..=299 | 400 if !is_write => ErrorKind::Unexpected,
        _ => http::kind_of(answer.status),
    }
}

/// How long to wait where a header such as `"default";r=0;t=30` says that nothing is left.
fn exhausted(header: &str) -> Option<Duration> {
    let number = |key: &str| {
        let words = header.split([';', ',']).map(str::trim);
        words.filter_map(|word| word.strip_prefix(key)).find_map(|value| value.parse::<u64>().ok())
    };
    (number("r=")? == 0).then(|| number("t=").map(Duration::from_secs)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_says_nothing_is_left_says_for_how_long() {
        assert_eq!(exhausted("\"default\";r=0;t=30"), Some(Duration::from_secs(30)));
        assert_eq!(exhausted("\"default\";r=50;t=30"), None);
        assert_eq!(exhausted(""), None);
        assert_eq!(exhausted("\"default\";r=0"), None);
    }

    #[test]
    fn an_error_may_point_into_the_request() {
        let at = |pointer: &str| {
            let body = serde_json::json!({"code": 9005, "source": {"pointer": pointer}});
            let error: ApiError = serde_json::from_value(body).unwrap();
            error.pointer().map(|(list, index)| (list.to_owned(), index))
        };
        assert_eq!(at("/posts/3/content"), Some(("posts".into(), 3)));
        assert_eq!(at("patches[12].ttl"), Some(("patches".into(), 12)));
        assert_eq!(at("/posts"), None);
        assert_eq!(at("/content"), None);
    }
}
