//! The four calls of the protocol, and what their answers mean.

use super::{config::Config, endpoint::Endpoint, filter::Filter};
use crate::http::{self, Answer, Client, Failure};
use reconciled_provider::{Cx, Error, ErrorKind};
use reqwest::{Method, StatusCode, header};
use serde::Serialize;
use std::time::Duration;

/// The one media type and version of the protocol, compared byte by byte.
pub(crate) const MEDIA_TYPE: &str = "application/external.dns.webhook+json;version=1";

/// How long to wait after "too many calls" where the provider does not say.
const PAUSE: Duration = Duration::from_secs(60);

const NOT_A_PROVIDER: &str = "is `url` a webhook provider of ExternalDNS?";

/// Changes of one request. Old and new sides of updates are paired by their place.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changes {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) create: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) update_old: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) update_new: Vec<Endpoint>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) delete: Vec<Endpoint>,
}

/// One provider.
#[derive(Debug)]
pub(crate) struct Remote {
    client: Client,
    base: String,
}

impl Remote {
    /// Prepares calls; sends nothing.
    pub(crate) fn new(config: &Config) -> Result<Remote, Error> {
        let base = config.base()?;
        let client = Client::new(&base, config.options.timeout)?;
        Ok(Remote { client, base })
    }

    /// The address of the provider, for messages.
    pub(crate) fn address(&self) -> &str {
        &self.base
    }

    /// Asks which names the provider serves, and makes sure that it speaks this version of the protocol.
    pub(crate) async fn negotiate(&self, cx: &Cx) -> Result<Filter, Error> {
        let what = format!("negotiate with {}", self.base);
        let request = self.client.request(Method::GET, &format!("{}/", self.base));
        let answer = self.read(cx, request.header(header::ACCEPT, MEDIA_TYPE), &what).await?;
        // As ExternalDNS does it: the version is agreed upon here, and other answers may leave it out.
        let kind = answer.header("content-type");
        if kind != MEDIA_TYPE {
            let text = format!("{what}: the answer is `{}`, not `{MEDIA_TYPE}`", http::printable(kind));
            return Err(Error::unexpected(text).hint(NOT_A_PROVIDER));
        }
        Filter::parse(&answer.body, &what)
    }

    /// All records of the provider.
    pub(crate) async fn records(&self, cx: &Cx) -> Result<Vec<Endpoint>, Error> {
        let what = format!("list records of {}", self.base);
        let request = self.client.request(Method::GET, &format!("{}/records", self.base));
        let answer = self.read(cx, request.header(header::ACCEPT, MEDIA_TYPE), &what).await?;
        // An empty list is `null` where the provider is written in Go; an empty body is no answer.
        answer.json::<Option<Vec<Endpoint>>>(&what, NOT_A_PROVIDER).map(Option::unwrap_or_default)
    }

    /// What the provider makes of `endpoints`.
    pub(crate) async fn adjust(&self, cx: &Cx, endpoints: &[Endpoint]) -> Result<Vec<Endpoint>, Error> {
        let what = format!("ask {} to adjust {} records", self.base, endpoints.len());
        let request = self.client.request(Method::POST, &format!("{}/adjustendpoints", self.base));
        let request = request
            .header(header::ACCEPT, MEDIA_TYPE)
            .header(header::CONTENT_TYPE, MEDIA_TYPE)
            .body(body(&endpoints));
        let answer = self.read(cx, request, &what).await?;
        answer.json::<Option<Vec<Endpoint>>>(&what, NOT_A_PROVIDER).map(Option::unwrap_or_default)
    }

    /// Sends changes. What a refusal left behind nobody knows: the protocol does not say that all or nothing
    /// takes effect.
    pub(crate) async fn change(&self, cx: &Cx, changes: &Changes, doing: &str) -> Result<(), Failure> {
        let what = format!("{doing} at {}", self.base);
        let request = self.client.request(Method::POST, &format!("{}/records", self.base));
        let request = request.header(header::CONTENT_TYPE, MEDIA_TYPE).body(body(changes));
        let answer = self.client.send(cx, request, &what, true).await?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(()),
            // ExternalDNS takes only 204; other successes have no meaning in the protocol.
            status if status.is_success() => Err(Failure::Lost(
                Error::unexpected(format!("{what}: answered {}, not 204", status.as_u16()))
                    .hint(NOT_A_PROVIDER),
            )),
            // Said by what stands before the provider, which may still be at it.
            StatusCode::REQUEST_TIMEOUT
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                let mut error = self.refused(cx, &what, &answer);
                error.kind = ErrorKind::Unavailable;
                Err(Failure::Lost(error))
            }
            _ => Err(Failure::Refused(self.refused(cx, &what, &answer), ())),
        }
    }

    async fn read(&self, cx: &Cx, request: reqwest::RequestBuilder, what: &str) -> Result<Answer, Error> {
        let answer = self.client.send(cx, request, what, false).await;
        let answer = answer.map_err(Failure::into_error)?;
        if answer.status != StatusCode::OK {
            let mut error = self.refused(cx, what, &answer);
            if error.kind == ErrorKind::Invalid || error.kind == ErrorKind::Conflict {
                // Nothing was said about a record, so no manifest can mend it.
                error.kind = ErrorKind::Unexpected;
            }
            return Err(error);
        }
        Ok(answer)
    }

    fn refused(&self, cx: &Cx, what: &str, answer: &Answer) -> Error {
        let told = match answer.excerpt() {
            text if text.is_empty() => text,
            text => format!(": {text}"),
        };
        let kind = http::kind_of(answer.status);
        let mut error = Error::new(kind, format!("{what}: answered {}{told}", answer.status.as_u16()));
        error.hint = match answer.status.as_u16() {
            429 => Some("set `rate` of the entry below what the provider takes: `rate: 5/s`".into()),
            401 | 403 => Some(
                "the protocol has no credentials: look at what stands before the provider, and at its own"
                    .into(),
            ),
            413 => Some("lower `maxChanges` of the entry".into()),
            300..=399 => Some("redirects are not followed: put the final address into `url`".into()),
            _ => Some("the log of the provider says more".into()),
        };
        if kind == ErrorKind::RateLimited {
            let wait = answer.retry_after().unwrap_or(PAUSE);
            self.client.pause(cx, wait);
            error.retry_after = Some(wait);
        }
        error
    }
}

fn body(value: &impl Serialize) -> Vec<u8> {
    // Writing plain data into memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}
