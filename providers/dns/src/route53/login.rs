//! Where a key of AWS comes from: places of its own, a shared credentials file, or what lends keys to a machine or
//! container.
//!
//! Guarantees: a lent key is asked for again five minutes before it ends; what is lent is kept in memory alone, and no
//! error holds any of it.
//! Deliberately not done: roles that are assumed (STS), SSO, programs that print keys.

use super::config::{Credentials, Login};
use crate::http::{Answer, Client, Failure};
use reconciled_provider::{Cx, Error, SecretRef};
use reqwest::{Method, RequestBuilder};
use serde::Deserialize;
use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use url::{Host, Url};
use zeroize::Zeroizing;

/// How long before its end a lent key is asked for again.
const MARGIN: Duration = Duration::from_secs(300);

/// How long the metadata service may take; it is on the same machine.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where a container asks, when it is told a path alone.
const CONTAINER: &str = "http://169.254.170.2";

/// Addresses besides those of this machine that a container may be told to ask without TLS: ECS and EKS.
const LENDERS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// A key, ready to sign with.
#[derive(Clone)]
pub(crate) struct AccessKey {
    pub(crate) id: Zeroizing<String>,
    pub(crate) secret: Zeroizing<String>,
    pub(crate) token: Option<Zeroizing<String>>,
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessKey")
    }
}

/// A key of the one who lends it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Lent {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

/// The source of keys of an entry.
#[derive(Debug)]
pub(crate) struct Keys {
    login: Login,
    client: Client,
    lent: Mutex<Option<(AccessKey, Duration)>>,
}

impl Keys {
    /// Prepares; asks nobody.
    pub(crate) fn new(login: Login) -> Result<Keys, Error> {
        // What lends keys answers without TLS, on the same machine, and past any proxy.
        Ok(Keys { login, client: Client::new("http://", TIMEOUT)?, lent: Mutex::default() })
    }

    /// The key to sign with now.
    pub(crate) async fn key(&self, cx: &Cx) -> Result<AccessKey, Error> {
        if let Some(key) = self.still_lent(cx) {
            return Ok(key);
        }
        let lent = match &self.login {
            Login::Key(places) => return of_places(cx, places),
            Login::Shared { file, profile } => return of_file(reveal(cx, file)?.as_str(), profile),
            Login::Instance { url } => self.of_instance(cx, url).await?,
            Login::Container => self.of_container(cx).await?,
        };
        let end = lent.expiration.as_deref().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        let end = end.and_then(|end| u64::try_from(end.unix_timestamp()).ok()).map(Duration::from_secs);
        let key = AccessKey {
            id: Zeroizing::new(lent.access_key_id),
            secret: Zeroizing::new(lent.secret_access_key),
            token: lent.token.map(Zeroizing::new),
        };
        // Without an end that can be read it is asked for each time.
        let until = end.map_or(Duration::ZERO, |end| end.saturating_sub(MARGIN));
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Some((key.clone(), until));
        Ok(key)
    }

    fn still_lent(&self, cx: &Cx) -> Option<AccessKey> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.as_ref().filter(|(_, until)| cx.clock.now() < *until).map(|(key, _)| key.clone())
    }

    /// The role of the machine, from its metadata service in the second version, which needs a token.
    async fn of_instance(&self, cx: &Cx, url: &str) -> Result<Lent, Error> {
        let doing = format!("ask the metadata service at {url} for credentials");
        let hint = "has the machine a role (instance profile), and may this process reach the service?";
        let path = "meta-data/iam/security-credentials/";
        let request = self.client.request(Method::PUT, &format!("{url}/latest/api/token"));
        let token = request.header("x-aws-ec2-metadata-token-ttl-seconds", "21600");
        let token = text(&ask(&self.client, cx, token, &doing, hint).await?, &doing)?;
        let get = |path: &str| {
            let request = self.client.request(Method::GET, &format!("{url}/latest/{path}"));
            header(request, "x-aws-ec2-metadata-token", &token)
        };
        let roles = text(&ask(&self.client, cx, get(path)?, &doing, hint).await?, &doing)?;
        let role = roles.lines().next().unwrap_or_default().trim();
        if role.is_empty() {
            return Err(Error::permission_denied(format!("{doing}: the machine has no role")).hint(hint));
        }
        lent(&ask(&self.client, cx, get(&format!("{path}{role}"))?, &doing, hint).await?, &doing, hint)
    }

    /// What lends keys to a container of ECS or EKS, as its environment says.
    async fn of_container(&self, cx: &Cx) -> Result<Lent, Error> {
        let variable =
            |name: &str| reveal(cx, &SecretRef::Env(name.into())).ok().filter(|text| !text.is_empty());
        let relative =
            variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{CONTAINER}{}", *path));
        let full = || variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(|url| url.to_string());
        let url = relative.or_else(full).ok_or_else(|| {
            Error::permission_denied("nothing lends credentials to this process as a container").hint(
                "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI is set by ECS and EKS",
            )
        })?;
        may_ask(&url)?;
        let doing = "ask for the credentials of the container";
        let hint = "has the task, or the service account, a role?";
        let far = url.starts_with("https:").then(|| Client::new(&url, TIMEOUT)).transpose()?;
        let client = far.as_ref().unwrap_or(&self.client);
        let mut request = client.request(Method::GET, &url);
        let from_file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
            .map(|path| reveal(cx, &SecretRef::File(path.as_str().into())))
            .transpose()?;
        if let Some(token) = from_file.or_else(|| variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
            request = header(request, "authorization", &token)?;
        }
        lent(&ask(client, cx, request, doing, hint).await?, doing, hint)
    }
}

async fn ask(
    client: &Client,
    cx: &Cx,
    request: RequestBuilder,
    doing: &str,
    hint: &str,
) -> Result<Answer, Error> {
    let answer = client.send(cx, request, doing, false).await.map_err(Failure::into_error)?;
    if answer.status.is_success() {
        return Ok(answer);
    }
    let text = format!("{doing}: answered {}", answer.status.as_u16());
    Err(match answer.status.is_server_error() || answer.status.as_u16() == 429 {
        true => Error::unavailable(text),
        false => Error::permission_denied(text).hint(hint),
    })
}

/// The key in an answer. An error does not say what is there instead, which a parser would: it may be a key all the same.
fn lent(answer: &Answer, doing: &str, hint: &str) -> Result<Lent, Error> {
    serde_json::from_slice(&answer.body)
        .map_err(|_| Error::unexpected(format!("{doing}: the answer is not what the API gives")).hint(hint))
}

/// Errors: keys would travel in the clear, or somewhere that lends none.
fn may_ask(url: &str) -> Result<(), Error> {
    let parsed = Url::parse(url).ok();
    let is_near = match parsed.as_ref().and_then(Url::host) {
        Some(Host::Ipv4(address)) => address.is_loopback() || LENDERS.contains(&&*address.to_string()),
        Some(Host::Ipv6(address)) => address.is_loopback() || LENDERS.contains(&&*address.to_string()),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    match parsed.as_ref().map(Url::scheme) {
        Some("https") => Ok(()),
        Some("http") if is_near => Ok(()),
        _ => Err(Error::invalid("AWS_CONTAINER_CREDENTIALS_FULL_URI is no address that lends credentials")
            .hint("it must be https, or an address of this machine, ECS or EKS")),
    }
}

fn text(answer: &Answer, doing: &str) -> Result<Zeroizing<String>, Error> {
    let text = std::str::from_utf8(&answer.body).ok().filter(|text| text.len() <= 4_096);
    let text = text.ok_or_else(|| Error::unexpected(format!("{doing}: the answer is no text")))?;
    Ok(Zeroizing::new(text.trim().to_owned()))
}

fn header(request: RequestBuilder, name: &str, value: &str) -> Result<RequestBuilder, Error> {
    let mut value = reqwest::header::HeaderValue::from_str(value.trim())
        .map_err(|_| Error::invalid(format!("the token for {name} cannot be sent in a header")))?;
    value.set_sensitive(true);
    Ok(request.header(name, value))
}

fn reveal(cx: &Cx, place: &SecretRef) -> Result<Zeroizing<String>, Error> {
    let secret = cx.secrets.reveal(place)?;
    Ok(Zeroizing::new(secret.reveal_str()?.trim().to_owned()))
}

fn of_places(cx: &Cx, places: &Credentials) -> Result<AccessKey, Error> {
    Ok(AccessKey {
        id: reveal(cx, &places.access_key_id)?,
        secret: reveal(cx, &places.secret_access_key)?,
        token: places.session_token.as_ref().map(|place| reveal(cx, place)).transpose()?,
    })
}

/// The key of a profile in a file such as `~/.aws/credentials`.
fn of_file(text: &str, profile: &str) -> Result<AccessKey, Error> {
    let (mut is_in, mut was_in) = (false, false);
    let (mut id, mut secret, mut token) = (None, None, None);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_in = name.trim() == profile;
            was_in |= is_in;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_in) {
            let value = Some(Zeroizing::new(value.trim().to_owned()));
            match key.trim() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    match (id, secret) {
        (Some(id), Some(secret)) => Ok(AccessKey { id, secret, token }),
        _ if !was_in => {
            Err(Error::permission_denied(format!("the credentials file has no profile `{profile}`"))
                .hint("`profile` of `credentials` names a section of the file; the default is `default`"))
        }
        _ => Err(Error::permission_denied(format!(
            "profile `{profile}` of the credentials file has no access key"
        ))
        .hint("only keys are read: aws_access_key_id, aws_secret_access_key, aws_session_token")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_a_shared_file_is_a_key() {
        let file = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=S=\n\n[ dns ]\n; other\n\
                    aws_access_key_id=B\naws_secret_access_key = T\naws_session_token = U\nregion = x\n[role]\nrole_arn = r\n";
        let key = of_file(file, "default").unwrap();
        assert_eq!((key.id.as_str(), key.secret.as_str(), key.token), ("A", "S=", None));
        let key = of_file(file, "dns").unwrap();
        assert_eq!((key.id.as_str(), key.token.unwrap().as_str()), ("B", "U"));
        assert!(of_file(file, "none").unwrap_err().message.contains("no profile `none`"));
        assert!(of_file(file, "role").unwrap_err().message.contains("has no access key"));
        assert_eq!(format!("{:?}", of_file(file, "dns").unwrap()), "AccessKey");
    }

    #[test]
    fn a_container_asks_only_what_lends_keys() {
        for url in [
            "http://127.0.0.1:80/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1",
            "https://a.example/",
        ] {
            assert!(may_ask(url).is_ok(), "{url}");
        }
        for url in ["http://a.example/", "http://169.254.169.254/", "file:///etc/passwd", ""] {
            assert!(may_ask(url).is_err(), "{url}");
        }
    }
}
