//! Signed calls, at most five a second, and what their answers mean.
//!
//! Route 53 takes five requests a second from an account, whoever sends them. Calls of one entry take their turn;
//! a refusal for too many stops them all for a while.

use super::{
    config::{Config, Login},
    login::{AccessKey, Keys},
    sign::{self, Key},
    xml::ErrorBody,
};
use crate::http::{self, Answer, Client, Failure, printable};
use reconciled_provider::{Cx, Error, ErrorKind};
use reqwest::Method;
use serde::de::DeserializeOwned;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Least time from one call to the next.
const TURN: Duration = Duration::from_millis(200);

/// More than the calls of one entry ever wait for each other. Only a clock that was set back makes a turn later.
const LATEST_TURN: Duration = Duration::from_secs(60);

/// How long to wait after too many calls; the answer never says.
const PAUSE: Duration = Duration::from_secs(10);

/// What bodies are.
const CONTENT_TYPE: &str = "application/xml";

/// The version of the API, first part of every path.
pub(crate) const VERSION: &str = "/2013-04-01";

/// What the API says of a refusal.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Its word for it, such as `NoSuchHostedZone`.
    pub(crate) code: String,
    /// What is wrong with which part.
    pub(crate) messages: Vec<String>,
}

/// Why a call failed.
pub(crate) type Refusal = Failure<Said>;

/// The API with the credentials of one entry.
#[derive(Debug)]
pub(crate) struct Api {
    client: Client,
    base: String,
    region: String,
    keys: Keys,
    next: Mutex<Duration>,
}

impl Api {
    /// Prepares calls; sends nothing.
    pub(crate) fn new(config: &Config, login: Login) -> Result<Api, Error> {
        let base = config.base()?;
        let client = Client::new(&base, config.options.timeout)?;
        Ok(Api {
            client,
            base,
            region: config.region.clone(),
            keys: Keys::new(login)?,
            next: Mutex::default(),
        })
    }

    /// The address of the API, for messages.
    pub(crate) fn address(&self) -> &str {
        &self.base
    }

    /// Sends one request and reads its answer as a `T`.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        cx: &Cx,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<String>,
        doing: &str,
    ) -> Result<T, Refusal> {
        let what = format!("{doing} at {}", self.base);
        let key = self.keys.key(cx).await.map_err(Refusal::NotSent)?;
        self.take_turn(cx).await;
        let is_write = method != Method::GET;
        let body = body.unwrap_or_default();
        let request = self.signed(cx, &key, method, path, query, body).map_err(Refusal::NotSent)?;
        let sent = self.client.send(cx, request, &what, is_write).await;
        let answer = sent.map_err(Failure::without_details)?;
        if !answer.status.is_success() {
            return Err(self.refused(cx, &what, &answer, is_write));
        }
        let text = String::from_utf8_lossy(&answer.body);
        quick_xml::de::from_str(&text).map_err(|error| {
            let error = Error::unexpected(format!("{what}: the answer is not what the API gives"))
                .hint("is `url` the API of Route 53?")
                .caused_by(answer.malformed(error));
            match is_write {
                true => Refusal::Lost(error),
                false => Refusal::Refused(error, Said::default()),
            }
        })
    }

    /// Waits until it is this call's turn.
    async fn take_turn(&self, cx: &Cx) {
        let wait = {
            let now = cx.clock.now();
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = if *next > now.saturating_add(LATEST_TURN) { now } else { (*next).max(now) };
            *next = at + TURN;
            at - now
        };
        if !wait.is_zero() {
            cx.clock.sleep(wait).await;
        }
    }

    fn signed(
        &self,
        cx: &Cx,
        AccessKey { id, secret, token }: &AccessKey,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: String,
    ) -> Result<reqwest::RequestBuilder, Error> {
        let url =
            url::Url::parse(&self.base).map_err(|_| Error::invalid("url of a route53 entry is none"))?;
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let full = format!("{}{VERSION}{path}", url.path().trim_end_matches('/'));
        let mut headers = vec![("host", host.as_str())];
        if !body.is_empty() {
            headers.push(("content-type", CONTENT_TYPE));
        }
        if let Some(token) = token {
            headers.push(("x-amz-security-token", token.as_str()));
        }
        let signing = sign::Request {
            method: method.as_str(),
            path: &full,
            query,
            headers: &headers,
            body: body.as_bytes(),
        };
        let key = Key { id, secret, region: &self.region, service: "route53" };
        let (date, authorization) = sign::sign(&signing, &key, cx.clock.now());
        let mut target = format!("{}{VERSION}{path}", self.base);
        if !query.is_empty() {
            target += &format!("?{}", sign::encode(query));
        }
        let header = |text: &str| {
            let value = reqwest::header::HeaderValue::from_str(text);
            let mut value = value.map_err(|_| {
                Error::invalid("the credentials of a route53 entry cannot be sent in a header")
                    .hint("each must be one line of ASCII text")
            })?;
            value.set_sensitive(true);
            Ok::<_, Error>(value)
        };
        let mut request = self.client.request(method, &target).header("x-amz-date", date);
        request = request.header("authorization", header(&authorization)?);
        if let Some(token) = token {
            request = request.header("x-amz-security-token", header(token)?);
        }
        if !body.is_empty() {
            request = request.header("content-type", CONTENT_TYPE).body(body);
        }
        Ok(request)
    }

    fn refused(&self, cx: &Cx, what: &str, answer: &Answer, is_write: bool) -> Refusal {
        let body = quick_xml::de::from_str::<ErrorBody>(&String::from_utf8_lossy(&answer.body));
        let body = body.unwrap_or_default();
        let error = body.error.unwrap_or_default();
        let mut messages = body.messages.map(|messages| messages.message).unwrap_or_default();
        let code = if messages.is_empty() { error.code } else { "InvalidChangeBatch".to_owned() };
        if messages.is_empty() && !error.message.is_empty() {
            messages.push(error.message);
        }
        let kind = kind_of(&code, answer);
        let told = match messages.join("; ") {
            text if text.is_empty() => answer.excerpt(),
            text => printable(&text),
        };
        let word = if code.is_empty() { answer.status.as_u16().to_string() } else { code.clone() };
        let mut error = Error::new(kind, format!("{what}: answered {word}: {told}"));
        match kind {
            ErrorKind::RateLimited => {
                error.retry_after = Some(PAUSE);
                if code != "PriorRequestNotComplete" {
                    self.client.pause(cx, PAUSE);
                }
            }
            ErrorKind::Unavailable if answer.status.as_u16() == 403 => {
                error.hint = Some("set the clock of this host (NTP): AWS accepts five minutes".into());
            }
            ErrorKind::PermissionDenied => {
                error.hint = Some("docs/dns-route53.md lists what the key must be allowed to do".into());
            }
            _ => {}
        }
        if is_write && answer.status.is_server_error() && kind != ErrorKind::RateLimited {
            return Refusal::Lost(error);
        }
        Refusal::Refused(error, Said { code, messages })
    }
}

fn kind_of(code: &str, answer: &Answer) -> ErrorKind {
    match code {
        "Throttling" | "ThrottlingException" | "PriorRequestNotComplete" => ErrorKind::RateLimited,
        "RequestTimeTooSkewed" | "RequestExpired" => ErrorKind::Unavailable,
        "NoSuchHostedZone" | "HostedZoneAlreadyExists" | "ConflictingDomainExists" => ErrorKind::Conflict,
        "InvalidClientTokenId"
        | "SignatureDoesNotMatch"
        | "AccessDenied"
        | "ExpiredToken"
        | "MissingAuthenticationToken" => ErrorKind::PermissionDenied,
        _ => http::kind_of(answer.status),
    }
}
