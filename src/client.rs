//! The way to a daemon: its unix socket, or another host's address with a token.
//!
//! What the daemon refuses comes back as the [`Failure`] it would have been here, with its hint.

use crate::session::Failure;
use bytes::{Bytes, BytesMut};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{io, marker::PhantomData, path::Path, time::Duration};
use zeroize::Zeroizing;

/// How long to wait for a connection. A daemon answers at once or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to one daemon.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<Zeroizing<String>>,
    /// Where it is, for messages.
    pub place: String,
}

/// Who answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Name of the instance.
    pub instance: String,
    /// Version of the program.
    pub version: String,
    /// Where its state is.
    pub state_dir: String,
    /// Its sources and the revisions in force.
    pub sources: Vec<(String, String)>,
}

/// What a daemon answers when it does not do what it was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Why, and what to do.
    pub error: Told,
}

/// A failure as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    /// The word for machines.
    pub kind: String,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl From<&Failure> for Told {
    fn from(failure: &Failure) -> Told {
        Told { kind: failure.kind().into(), message: failure.to_string(), hint: failure.hint() }
    }
}

impl From<Told> for Failure {
    fn from(told: Told) -> Failure {
        Failure::Other(told.message, told.hint)
    }
}

impl Client {
    /// The daemon behind a unix socket.
    pub fn unix(socket: &Path) -> Result<Client, Failure> {
        let http = reqwest::Client::builder().unix_socket(socket.to_path_buf()).tls_certs_only([]).no_proxy();
        let base = Url::parse("http://daemon/").expect("a constant");
        Client::build(http, base, None, socket.display().to_string())
    }

    fn build(
        http: reqwest::ClientBuilder,
        base: Url,
        token: Option<Zeroizing<String>>,
        place: String,
    ) -> Result<Client, Failure> {
        // An error says that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = http
            .user_agent(concat!("reconciled/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| Failure::plain(format!("prepare calls to {place}: {error}")))?;
        Ok(Client { http, base, token, place })
    }

    /// Asks who answers; none when nobody does.
    ///
    /// Errors: somebody is there and does not let us in, or is no reconciled.
    pub async fn identity(&self) -> Result<Option<Identity>, Failure> {
        match self.request(Method::GET, "/v1/instance").send().await {
            Err(error) => match io_kind(&error) {
                Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
                Some(io::ErrorKind::PermissionDenied) => Err(Failure::hinted(
                    format!("{} may not be used by this user", self.place),
                    "become a member of the group named by `api.group`, or use sudo",
                )),
                _ => Err(self.unreachable(&error)),
            },
            Ok(response) => self.answer(response).await.map(Some),
        }
    }

    /// Asks for something.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, ask: &impl Serialize) -> Result<T, Failure> {
        self.send(self.request(Method::GET, path).query(ask)).await
    }

    /// Asks to do something.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, ask: &impl Serialize) -> Result<T, Failure> {
        self.send(self.request(Method::POST, path).json(ask)).await
    }

    /// Asks to do something that takes its time; each line of the answer is one value.
    pub async fn lines<T: DeserializeOwned>(
        &self,
        path: &str,
        ask: &impl Serialize,
    ) -> Result<Lines<'_, T>, Failure> {
        let sent = self.request(Method::POST, path).json(ask).send().await;
        let response = self.checked(sent.map_err(|error| self.unreachable(&error))?).await?;
        Ok(Lines { client: self, response, rest: BytesMut::new(), of: PhantomData })
    }

    /// Asks for bytes.
    pub async fn bytes(&self, path: &str) -> Result<Bytes, Failure> {
        let sent = self.request(Method::GET, path).send().await;
        let response = self.checked(sent.map_err(|error| self.unreachable(&error))?).await?;
        response.bytes().await.map_err(|error| self.unreachable(&error))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{}", self.base, path.trim_start_matches('/')));
        match &self.token {
            Some(token) => request.bearer_auth(token.as_str()),
            None => request,
        }
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.answer(response).await
    }

    async fn answer<T: DeserializeOwned>(&self, response: Response) -> Result<T, Failure> {
        let response = self.checked(response).await?;
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|error| {
            Failure::hinted(
                format!("{} answers what this program does not understand: {error}", self.place),
                "use the same version as the daemon",
            )
        })
    }

    async fn checked(&self, response: Response) -> Result<Response, Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.unwrap_or_default();
        Err(match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) => refusal.error.into(),
            Err(_) => Failure::plain(format!("{} answers {status}", self.place)),
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            text = next.to_string();
            cause = next.source();
        }
        Failure::Unreachable(format!("the daemon at {} does not answer: {text}", self.place))
    }
}

fn io_kind(error: &reqwest::Error) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(next) = cause {
        if let Some(io) = next.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        cause = next.source();
    }
    None
}

/// The lines of an answer, as they come.
pub struct Lines<'a, T> {
    client: &'a Client,
    response: Response,
    rest: BytesMut,
    of: PhantomData<T>,
}

impl<T: DeserializeOwned> Lines<'_, T> {
    /// The next line; none at the end.
    pub async fn next(&mut self) -> Result<Option<T>, Failure> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                let value = serde_json::from_slice(&line).map_err(|error| {
                    Failure::plain(format!("{} sent what is no answer: {error}", self.client.place))
                })?;
                return Ok(Some(value));
            }
            match self.response.chunk().await.map_err(|error| self.client.unreachable(&error))? {
                None => return Ok(None),
                Some(chunk) => self.rest.extend_from_slice(&chunk),
            }
        }
    }
}
