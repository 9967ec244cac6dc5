//! The way to a daemon: its unix socket, or an address with a token.
//!
//! A token goes only where it was sent: over TLS or this host's loopback, and never after a redirect.
//! What the daemon refuses comes back as the [`Failure`] it would have been here, with its hint.

use crate::failure::Failure;
use bytes::{Bytes, BytesMut};
use reconciled_provider::problem::without_userinfo;
use reqwest::{Method, RequestBuilder, Response, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs,
    io::{self, Read},
    marker::PhantomData,
    path::Path,
    sync::OnceLock,
    time::Duration,
};
use zeroize::Zeroizing;

/// How long to wait for a connection. A daemon answers at once or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a daemon may take to say who it is, which needs no work.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest token file.
const LONGEST_TOKEN: u64 = 4096;

/// A connection to one daemon.
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<Zeroizing<String>>,
    /// Where it is, for messages.
    pub place: String,
    /// It is not this host's own.
    is_away: bool,
    /// The version that who answers is of, once it said so.
    version: OnceLock<String>,
}

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Why, and what to do.
    pub error: Told,
}

/// A failure as data.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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

    /// The daemon at `server`, asked with the token in `file`.
    ///
    /// Errors: `server` is no address, or one at which the token would be readable on its way; no token is there.
    pub fn remote(server: &str, file: Option<&Path>) -> Result<Client, Failure> {
        let base = base(server)?;
        let file = file.ok_or_else(|| {
            Failure::hinted(
                "there is no token to show",
                "put it into a file and name that: RECONCILED_TOKEN_FILE=/path/to/token",
            )
        })?;
        let token = token(file)?;
        let place = base.as_str().trim_end_matches('/').to_string();
        // A proxy between would read the token of plain http, and loopback needs none.
        let http = reqwest::Client::builder();
        let http = if base.scheme() == "http" { http.tls_certs_only([]).no_proxy() } else { http };
        Ok(Client { is_away: true, ..Client::build(http, base, Some(token), place)? })
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
        Ok(Client { http, base, token, place, is_away: false, version: OnceLock::new() })
    }

    /// Asks who answers; none when nobody does.
    ///
    /// Errors: somebody is there and does not let us in, or is no reconciled.
    pub async fn identity(&self) -> Result<Option<Identity>, Failure> {
        self.identity_within(IDENTITY_TIMEOUT).await
    }

    /// As [`Client::identity`], for who does not wait longer than `limit`.
    pub async fn identity_within(&self, limit: Duration) -> Result<Option<Identity>, Failure> {
        match self.request(Method::GET, "/v1/instance").timeout(limit).send().await {
            Err(error) => match io_kind(&error) {
                Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) if !self.is_away => Ok(None),
                Some(io::ErrorKind::PermissionDenied) => Err(Failure::hinted(
                    format!("{} may not be used by this user", self.place),
                    "become a member of the group named by `api.group`, or use sudo",
                )),
                _ => Err(self.unreachable(&error)),
            },
            Ok(response) => {
                let identity: Identity = self.answer(response).await?;
                let _ = self.version.set(identity.version.clone());
                Ok(Some(identity))
            }
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
        let base = self.base.as_str().trim_end_matches('/');
        let request = self.http.request(method, format!("{base}/{}", path.trim_start_matches('/')));
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
                one_version(self.version.get()),
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
            Err(_) if status.is_redirection() => Failure::hinted(
                format!(
                    "{} answers {status}: it sends us elsewhere, where the token would go too",
                    self.place
                ),
                "name the address itself: --server URL",
            ),
            Err(_) if matches!(status.as_u16(), 401 | 403) => Failure::hinted(
                format!("{} answers {status}, and not as reconciled does", self.place),
                "what stands before the daemon refuses us; see what it wants",
            ),
            Err(_) => Failure::hinted(
                format!("{} answers {status}", self.place),
                match self.is_away {
                    true if status.is_server_error() => {
                        "see on its host whether the daemon runs: systemctl status reconciled".into()
                    }
                    true => "no reconciled is there: check host, port and path of --server".into(),
                    false => one_version(self.version.get()),
                },
            ),
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() && !error.is_connect() && !self.is_away {
            return Failure::Silent(format!("the daemon at {} does not answer in time", self.place));
        }
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            text = next.to_string();
            cause = next.source();
        }
        // What TLS makes of an answer in plain HTTP.
        if text.contains("InvalidContentType") {
            text = "what is there speaks no TLS; the daemon itself speaks plain HTTP, with its own host: \
                    --server http://127.0.0.1:PORT"
                .into();
        }
        let message = format!("the daemon at {} does not answer: {text}", self.place);
        if self.is_away { Failure::Away(message) } else { Failure::Unreachable(message) }
    }
}

/// What to do where an answer cannot be read: most of all where this program was upgraded and the daemon not started since.
fn one_version(daemon: Option<&String>) -> String {
    match daemon.filter(|daemon| *daemon != VERSION) {
        Some(daemon) => format!(
            "the daemon is version {daemon}, and this program {VERSION}: after an upgrade: systemctl restart reconciled"
        ),
        None => "use the same version as the daemon".into(),
    }
}

impl Identity {
    /// Which versions talk with each other, where they are two.
    pub fn other_version(&self) -> Option<String> {
        let is_other = self.version != VERSION;
        is_other.then(|| format!("daemon version {}, this program {VERSION}", self.version))
    }
}

/// What the paths are joined to; https, or http where the way is this host's own.
fn base(server: &str) -> Result<Url, Failure> {
    let hint = "write https://HOST, or http://127.0.0.1:PORT";
    let none = |error| format!("`{}` is no address: {error}", without_userinfo(server));
    let url = Url::parse(server).map_err(|error| Failure::hinted(none(error), hint))?;
    let is_loopback = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let has_more = !url.username().is_empty() || url.password().is_some() || url.query().is_some();
    match url.scheme() {
        _ if has_more || url.fragment().is_some() => Err(Failure::hinted(
            "--server takes scheme, host, port and path, and nothing else",
            "the token is read from the file that $RECONCILED_TOKEN_FILE names",
        )),
        "https" => Ok(url),
        "http" if is_loopback => Ok(url),
        "http" => Err(Failure::hinted(
            format!("`{server}` is plain http: everybody between could read the token"),
            "use https, which a reverse proxy speaks; or a tunnel: ssh -L 9440:127.0.0.1:9440 HOST, and \
             --server http://127.0.0.1:9440",
        )),
        scheme => Err(Failure::hinted(format!("`{scheme}` is no way to reach a daemon"), hint)),
    }
}

/// The token in `file`.
fn token(file: &Path) -> Result<Zeroizing<String>, Failure> {
    let shown = file.display();
    let mut text = Zeroizing::new(String::new());
    fs::File::open(file).and_then(|file| file.take(LONGEST_TOKEN).read_to_string(&mut text)).map_err(
        |error| {
            Failure::hinted(
                format!("read the token in {shown}: {error}"),
                "name the file that holds it: RECONCILED_TOKEN_FILE",
            )
        },
    )?;
    let token = Zeroizing::new(text.trim().to_string());
    if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Failure::hinted(
            format!("{shown} holds no token"),
            "it is one line, as `reconciled token new` prints it",
        ));
    }
    Ok(token)
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
                    Failure::hinted(
                        format!("{} sent what is no answer: {error}", self.client.place),
                        one_version(self.client.version.get()),
                    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_goes_over_tls_or_loopback_and_nowhere_else() {
        for good in [
            "https://dns1.example.com",
            "https://dns1.example.com/reconciled/",
            "http://127.0.0.1:9440",
            "http://127.9.9.9",
            "http://[::1]:9440/",
            "http://localhost:9440",
        ] {
            assert!(base(good).is_ok(), "{good}");
        }
        for bad in [
            "http://dns1.example.com",
            "http://10.0.0.1:9440",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "http://127.0.0.1@example.com",
            "http://[::ffff:10.0.0.1]",
            "https://token@dns1.example.com",
            "https://dns1.example.com/?token=x",
            "ftp://127.0.0.1",
            "file:///etc",
            "dns1:9440",
            "",
        ] {
            assert!(base(bad).is_err(), "{bad}");
        }
        let error = base("https://me:CANARY@h:x").unwrap_err().to_string();
        assert!(error.contains("is no address") && !error.contains("CANARY"), "{error}");
    }

    #[test]
    fn an_answer_that_cannot_be_read_says_which_versions_talk() {
        let hint = one_version(Some(&"0.0.9".to_owned()));
        assert!(hint.contains("the daemon is version 0.0.9") && hint.contains("systemctl restart"), "{hint}");
        assert_eq!(one_version(Some(&VERSION.to_owned())), "use the same version as the daemon");
        let identity = Identity {
            instance: "dns1".into(),
            version: "0.0.9".into(),
            state_dir: "/var/lib/reconciled".into(),
            sources: Vec::new(),
        };
        let other = identity.other_version().unwrap();
        assert!(other.starts_with("daemon version 0.0.9, this program "), "{other}");
        assert_eq!(Identity { version: VERSION.into(), ..identity }.other_version(), None);
    }

    #[test]
    fn what_answers_got_since_their_first_form_may_be_missing_in_those_of_an_older_daemon() {
        fn reads<T: DeserializeOwned>(answer: &serde_json::Value) {
            let read = serde_json::from_value::<T>(answer.clone());
            assert!(read.is_ok(), "{}: {:?}", std::any::type_name::<T>(), read.err());
        }
        reads::<crate::daemon::Following>(&json!({"commit": "9f2c1ab", "label": "9f2c1ab"}));
        reads::<crate::store::Status>(
            &json!({"sources": [], "scopes": [], "conditions": [], "holds": [], "open": 0}),
        );
        reads::<crate::operation::Explanation>(&json!({
            "conditions": [], "holds": [], "suspensions": [], "tracked": [], "history": [], "messages": [],
            "now": [{"address": "Zone/a", "scope": "pdns/a", "declared": []}],
        }));
    }

    #[test]
    fn a_token_is_one_line_of_a_file_and_no_error_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "rcd_canary\n").unwrap();
        assert_eq!(*token(&file).unwrap(), "rcd_canary");
        for wrong in ["", "\n", "rcd_canary\nrcd_canary", "rcd canary", "\u{e9}canary"] {
            fs::write(&file, wrong).unwrap();
            let failure = token(&file).unwrap_err();
            assert!(!failure.to_string().contains("canary"), "{failure}");
        }
        assert!(token(&folder.path().join("none")).is_err());
    }
}
