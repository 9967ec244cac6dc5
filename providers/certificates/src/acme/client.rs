//! Calls to one authority: nonces, signed requests, and what each way of failing means.

use super::{
    jws::{AccountKey, Signer},
    login::Login,
    message::{Directory, Problem},
    wait,
};
use crate::{
    Config,
    kept::{LONGEST_WAIT, Wait},
    moment::moment,
    wish::Authority,
    x509,
};
use reconciled_provider::{Cx, Error, ErrorKind};
use reqwest::{Certificate, Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a request is signed anew because its nonce was not taken. Half of them refused is a storm that passes.
const NONCES: usize = 20;
/// Nonces kept for later.
const POOL: usize = 64;
/// Longest answer: a chain has some KiB.
const LARGEST: usize = 1 << 20;
/// How long to leave one alone that does not say.
const BUSY: Duration = Duration::from_secs(600);
/// After this the directory is read anew: services move, and profiles come and go.
const FRESH: Duration = Duration::from_secs(24 * 3_600);
/// How long one certificate waits for another that asks for the directory.
const BESIDE: Duration = Duration::from_secs(2);
/// How long an authority that did not answer is not asked, at first and at most.
const SILENT: Duration = Duration::from_secs(1);
const SILENT_LONGEST: Duration = Duration::from_secs(60);

/// An answer that was no refusal.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) location: Option<String>,
    pub(super) retry_after: Option<Duration>,
    /// Other chains.
    pub(super) alternates: Vec<String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn json<T: DeserializeOwned>(&self, what: &str) -> Result<T, Fault> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let error =
                Error::unexpected(format!("{what}: the answer is not what RFC 8555 says")).caused_by(error);
            Fault::Error(error)
        })
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The authority said no, for this reason.
    Refused { what: String, problem: Problem, status: u16 },
    /// It could not be asked, or must not be for a while.
    Error(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

impl Fault {
    /// The last part of the type of the problem; empty where there is none.
    pub(super) fn word(&self) -> &str {
        match self {
            Fault::Refused { problem, .. } => problem.word(),
            Fault::Error(_) => "",
        }
    }
    /// What it means to the engine.
    pub(super) fn into_error(self) -> Error {
        match self {
            Fault::Error(error) => error,
            Fault::Refused { what, problem, status } => {
                let kind = match (problem.word(), status) {
                    ("unauthorized" | "externalAccountRequired" | "userActionRequired", _) => {
                        ErrorKind::PermissionDenied
                    }
                    _ => ErrorKind::Unavailable,
                };
                let error = Error::new(kind, format!("{what}: {}", problem.text()));
                match problem.word() {
                    "unauthorized" => error.hint(
                        "was the account deactivated there? its file is in certificates/ENTRY/accounts of the state \
                         directory: once that is moved away, another account is made",
                    ),
                    _ => error,
                }
            }
        }
    }
}

/// An authority does not answer: who else needs it need not find that out by waiting.
#[derive(Debug, Default)]
struct Silence {
    /// Calls without an answer since the last one that had any.
    lost: u32,
    /// Until when nobody asks, since the epoch.
    until: Duration,
    /// The last answer was that it cannot answer.
    is_broken: bool,
    /// What the last call without an answer came to, and what to do about it: who does not ask says the same.
    why: String,
    hint: &'static str,
}

/// Connections to one authority, and the account there.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    server: String,
    /// Where its services are, and when it was asked for that.
    directory: Mutex<Option<(Duration, Arc<Directory>)>>,
    asking: tokio::sync::Mutex<()>,
    silence: Mutex<Silence>,
    nonces: Mutex<Vec<String>>,
    pub(super) login: Arc<Login>,
    passed: fn(&str),
}

impl Client {
    pub(super) fn new(login: Arc<Login>, authority: &Authority, config: &Config) -> Result<Client, Error> {
        // An error says that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("reconciled/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(config.timeout);
        if let Some(bundle) = &authority.bundle {
            let bad = |error: &dyn std::fmt::Display| Error::invalid(format!("`caBundle`: {error}"));
            let ders = x509::chain("caBundle", bundle)?.into_iter();
            let certificates: Result<Vec<_>, _> = ders.map(|der| Certificate::from_der(&der)).collect();
            builder = builder.tls_certs_only(certificates.map_err(|error| bad(&error))?);
        }
        let http = builder.build().map_err(|error| {
            Error::unexpected(format!("prepare calls to {}", authority.server)).caused_by(error)
        })?;
        let server = authority.server.clone();
        Ok(Client {
            http,
            server,
            directory: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            silence: Mutex::default(),
            nonces: Mutex::default(),
            login,
            passed: config.passed,
        })
    }

    /// Refuses to ask while the authority wants to be left alone by all of the account, unless a person said otherwise since
    /// then, at `asked`; `is_order` when a new order is needed.
    pub(super) fn may_ask(&self, cx: &Cx, asked: u64, is_order: bool) -> Result<(), Error> {
        let wait = self.login.wait(cx)?.filter(|wait| asked <= wait.since);
        let Some(wait) = wait.filter(|wait| is_order || !wait.is_of_orders) else { return Ok(()) };
        let (server, until) = (&self.server, moment(wait.until));
        let message = format!("{server} asked to be left alone until {until}: {}", wait.message);
        let left = wait.until.saturating_sub(cx.clock.now().as_secs());
        Err(Error::rate_limited(message).retry_after(Duration::from_secs(left)))
    }

    /// What is left alone where the answer from `url` is that there is too much: all, new orders, or only what was asked for.
    fn is_of_orders(&self, url: &str) -> Option<bool> {
        if url == self.server {
            return Some(false);
        }
        let known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, directory) = known.as_ref()?;
        match url {
            url if url == directory.new_nonce || url == directory.new_account => Some(false),
            url if url == directory.new_order => Some(true),
            _ => None,
        }
    }

    /// Refuses to ask while it is known not to answer.
    pub(super) fn answers(&self, cx: &Cx) -> Result<(), Error> {
        let silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        let left = silence.until.saturating_sub(cx.clock.now());
        // A clock that went back is no reason to wait longer than ever.
        if silence.lost == 0 || left.is_zero() || left > SILENT_LONGEST {
            return Ok(());
        }
        let message = format!("{} did not answer just now: {}", self.server, silence.why);
        Err(Error::unavailable(message).hint(silence.hint).retry_after(left))
    }

    /// True when the last call had no answer of use; who comes next need not find that out by waiting.
    pub(super) fn is_away(&self, cx: &Cx) -> bool {
        self.is_silent(cx) || self.silence.lock().unwrap_or_else(PoisonError::into_inner).is_broken
    }

    /// The same where there was no answer at all.
    pub(super) fn is_silent(&self, cx: &Cx) -> bool {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        if silence.lost > 0 {
            let wait = SILENT.saturating_mul(1 << (silence.lost - 1).min(16)).min(SILENT_LONGEST);
            silence.until = cx.clock.now() + wait;
        }
        silence.lost > 0
    }

    /// True while one certificate waits for its directory, for all.
    pub(super) fn is_being_asked(&self) -> bool {
        self.asking.try_lock().is_err()
    }

    /// Where its services are, as it said within a day.
    pub(super) async fn directory(&self, cx: &Cx) -> Result<Arc<Directory>, Fault> {
        self.directory_within(cx, FRESH).await
    }

    /// Where its services are, as it says now.
    pub(super) async fn directory_of_now(&self, cx: &Cx) -> Result<Arc<Directory>, Fault> {
        self.directory_within(cx, Duration::ZERO).await
    }

    async fn directory_within(&self, cx: &Cx, fresh: Duration) -> Result<Arc<Directory>, Fault> {
        let known = || {
            let known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
            let is_fresh = |(at, _): &&(Duration, _)| (*at..*at + fresh).contains(&cx.clock.now());
            known.as_ref().filter(is_fresh).map(|(_, directory)| directory.clone())
        };
        if let Some(known) = known() {
            return Ok(known);
        }
        // One asks; the others do not wait as long as it does for one that never answers.
        let Ok(_asking) = tokio::time::timeout(BESIDE, self.asking.lock()).await else {
            let message = format!("{} is being asked for its directory, and does not answer", self.server);
            return Err(Error::unavailable(message).into());
        };
        if let Some(known) = known() {
            return Ok(known);
        }
        let what = format!("ask {} for its directory", self.server);
        let directory: Arc<Directory> = Arc::new(self.get(cx, &self.server, &what).await?.json(&what)?);
        let mut known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((cx.clock.now(), directory.clone()));
        Ok(directory)
    }

    /// A request that is not signed.
    pub(super) async fn get(&self, cx: &Cx, url: &str, what: &str) -> Result<Answer, Fault> {
        cx.pace.turn().await;
        let sent = self.heard(cx, self.http.get(url).send().await, what)?;
        self.read(cx, url, sent, what).await
    }

    /// A request signed with `key`; tried again with a new nonce as often as that is what is wrong.
    pub(super) async fn send(
        &self,
        cx: &Cx,
        key: &AccountKey,
        signer: Signer<'_>,
        url: &str,
        payload: Option<&Value>,
        what: &str,
    ) -> Result<Answer, Fault> {
        let mut last = None;
        for _ in 0..NONCES {
            let nonce = self.nonce(cx, what).await?;
            cx.pace.turn().await;
            (self.passed)("authority.before");
            let body = key.sign(signer, &nonce, url, payload)?;
            let request =
                self.http.post(url).header(header::CONTENT_TYPE, "application/jose+json").body(body);
            let sent = self.heard(cx, request.send().await, what)?;
            let answer = self.read(cx, url, sent, what).await;
            (self.passed)("authority.after");
            match answer {
                Err(fault) if fault.word() == "badNonce" => last = Some(fault),
                answer => return answer,
            }
        }
        let error = last.map_or_else(|| Error::unavailable(what.to_owned()), Fault::into_error);
        Err(Fault::Error(
            Error::unavailable(format!("{what}: {NONCES} nonces in a row were refused")).caused_by(error),
        ))
    }

    /// The answer of a request, once it is counted.
    fn heard(&self, cx: &Cx, sent: reqwest::Result<Response>, what: &str) -> Result<Response, Fault> {
        cx.answers.answered(sent.as_ref().ok().map(|response| response.status().as_u16()));
        sent.map_err(|error| self.lost(what, error))
    }

    async fn nonce(&self, cx: &Cx, what: &str) -> Result<String, Fault> {
        let kept = self.nonces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(nonce) = kept {
            return Ok(nonce);
        }
        let url = self.directory(cx).await?.new_nonce.clone();
        cx.pace.turn().await;
        let sent = self.heard(cx, self.http.head(&url).send().await, what)?;
        let nonce = text(&sent, "replay-nonce");
        self.read(cx, &url, sent, what).await?;
        let kept = self.nonces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let missing = || Error::unexpected(format!("{what}: {} gives no nonce", self.server));
        Ok(kept.or(nonce).ok_or_else(missing)?)
    }

    async fn read(&self, cx: &Cx, url: &str, mut sent: Response, what: &str) -> Result<Answer, Fault> {
        if let Some(nonce) = text(&sent, "replay-nonce") {
            let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
            if nonces.len() < POOL {
                nonces.push(nonce);
            }
        }
        let (status, now) = (sent.status(), cx.clock.now());
        {
            let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
            (silence.lost, silence.is_broken) = (0, status.is_server_error());
        }
        let mut answer = Answer {
            location: text(&sent, "location"),
            retry_after: text(&sent, "retry-after").and_then(|text| wait::said(&text, now)).map(at_most),
            alternates: alternates(&sent),
            body: Vec::new(),
        };
        while let Some(part) = sent.chunk().await.map_err(|error| self.lost(what, error))? {
            if answer.body.len() + part.len() > LARGEST {
                return Err(
                    Error::unexpected(format!("{what}: the answer is larger than any should be")).into()
                );
            }
            answer.body.extend_from_slice(&part);
        }
        if status.is_success() {
            return Ok(answer);
        }
        let problem: Problem = serde_json::from_slice(&answer.body).unwrap_or_default();
        let said = if problem.kind.is_empty() { status.to_string() } else { problem.text() };
        let is_limit = status == StatusCode::TOO_MANY_REQUESTS || problem.word() == "rateLimited";
        let mut wait = answer.retry_after;
        if is_limit {
            wait = wait.or_else(|| wait::told(&problem.detail, now).map(at_most)).or(Some(BUSY));
        }
        // One certificate finds it out for all.
        if let Some(wait) = wait.filter(|_| is_limit || status == StatusCode::SERVICE_UNAVAILABLE)
            && let Some(is_of_orders) = self.is_of_orders(url).filter(|_| !problem.is_of_names())
        {
            let since = cx.clock.now().as_secs();
            let (until, message) = (since + wait.as_secs(), format!("{what}: {said}"));
            self.login.leave_alone(&Wait { since, until, is_of_orders, message })?;
        }
        if is_limit {
            let busy = Error::rate_limited(format!("{what}: {said}"));
            return Err(busy.retry_after(wait.unwrap_or(BUSY)).into());
        }
        if status.is_server_error() || problem.kind.is_empty() {
            let error = Error::unavailable(format!("{what}: {said}"));
            return Err(match answer.retry_after {
                Some(wait) => error.retry_after(wait),
                None => error,
            }
            .into());
        }
        Err(Fault::Refused { what: what.to_owned(), problem, status: status.as_u16() })
    }

    fn lost(&self, what: &str, error: reqwest::Error) -> Fault {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        silence.lost = silence.lost.saturating_add(1);
        let (message, hint) = match distrust(&error) {
            Some(hint) => (format!("{what}: its own certificate is not trusted"), hint),
            None => (what.to_owned(), "is the authority reachable from here?"),
        };
        let error = Error::unavailable(message).caused_by(error.without_url()).hint(hint);
        (silence.why, silence.hint) = (error.chain(), hint);
        Fault::Error(error)
    }
}

/// What to do where the authority is there and nobody vouches for it.
const UNTRUSTED: &str = "set `caBundle` of the issuer to the certificate of the CA that signed it, in PEM and base64; without \
                         it, the CAs that this machine trusts count";

/// The same where its certificate is known, and not of this moment or not for this name.
const OVER: &str =
    "is the clock of this machine right? else whoever runs the authority has to renew its own certificate";
const EARLY: &str = "is the clock of this machine right? the certificate is for a time to come";
const ELSEWHERE: &str = "write `server` of the issuer with a name that its certificate is for";

/// What to do where a call failed because the certificate of the server was refused.
fn distrust(error: &reqwest::Error) -> Option<&'static str> {
    // By its words: the error of rustls is within others whose layers hide its type.
    let below = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let mut said = below.map(|error| error.to_string());
    said.find(|said| said.contains("invalid peer certificate")).map(|said| remedy(&said))
}

/// What to do about a certificate that was refused in these words.
fn remedy(said: &str) -> &'static str {
    match said {
        said if said.contains("certificate expired") => OVER,
        said if said.contains("certificate not valid yet") => EARLY,
        said if said.contains("certificate not valid for name") => ELSEWHERE,
        _ => UNTRUSTED,
    }
}

fn at_most(wait: Duration) -> Duration {
    wait.min(Duration::from_secs(LONGEST_WAIT))
}

fn text(sent: &Response, name: &str) -> Option<String> {
    sent.headers().get(name)?.to_str().ok().map(String::from)
}

/// URLs of `Link: <…>;rel="alternate"`.
fn alternates(sent: &Response) -> Vec<String> {
    let links = sent.headers().get_all(header::LINK).iter().filter_map(|value| value.to_str().ok());
    let alternate = links.flat_map(|value| value.split(',')).filter(|link| {
        let parameters = link.split(';').skip(1).map(str::trim);
        parameters.into_iter().any(|part| part == "rel=\"alternate\"" || part == "rel=alternate")
    });
    alternate.filter_map(|link| Some(link.split_once('<')?.1.split_once('>')?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{
        CertificateError,
        pki_types::{ServerName, UnixTime},
    };

    #[test]
    fn what_to_do_about_a_certificate_of_an_authority_depends_on_what_is_wrong_with_it() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let check = |why: CertificateError, expect: &str| {
            let said = rustls::Error::InvalidCertificate(why).to_string();
            assert!(said.contains("invalid peer certificate"), "{said}");
            assert_eq!(remedy(&said), expect, "{said}");
        };
        check(CertificateError::ExpiredContext { time: at(9), not_after: at(5) }, OVER);
        check(CertificateError::NotValidYetContext { time: at(5), not_before: at(9) }, EARLY);
        let expected = ServerName::try_from("a.example").unwrap();
        check(CertificateError::NotValidForNameContext { expected, presented: Vec::new() }, ELSEWHERE);
        check(CertificateError::UnknownIssuer, UNTRUSTED);
    }
}
