//! What a source may show to its server. Each is shown once per connection: libgit2 asks until it gets an error.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use git2::{Cred, CredentialType, ErrorClass, ErrorCode};
use zeroize::Zeroizing;

use super::SourceError;
use super::error::Cause;
use super::url::{Place, RemoteUrl};

/// Where a secret comes from. It is read anew for each connection, so that a rotated one counts at once.
#[derive(Clone)]
pub struct SecretSource(Arc<dyn Fn() -> SecretResult + Send + Sync>);

/// A secret that is wiped when dropped, or why it cannot be read.
pub type SecretResult = Result<Zeroizing<String>, Box<dyn Error + Send + Sync>>;

impl SecretSource {
    pub fn new(read: impl Fn() -> SecretResult + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    fn read(&self) -> SecretResult {
        (self.0)()
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretSource")
    }
}

/// How to prove to an ssh server who is asking.
#[derive(Clone, Debug)]
pub enum SshKey {
    /// The agent at `$SSH_AUTH_SOCK`.
    Agent,
    File {
        path: PathBuf,
        passphrase: Option<SecretSource>,
    },
}

/// What a source may show to its server.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The user for https; by default the url's, else `git`.
    pub username: Option<String>,
    /// The password or access token for https.
    pub token: Option<SecretSource>,
    pub ssh: Option<SshKey>,
}

/// The credentials of one connection.
pub(super) struct Shown<'a> {
    url: &'a RemoteUrl,
    credentials: &'a Credentials,
    is_shown: Cell<bool>,
    /// What was shown or was missing, for the message.
    pub(super) tried: Cell<&'static str>,
    /// Says more than the error libgit2 passes on.
    pub(super) failure: RefCell<Option<SourceError>>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(url: &'a RemoteUrl, credentials: &'a Credentials) -> Self {
        Self {
            url,
            credentials,
            is_shown: Cell::new(false),
            // libgit2 shows a url's own password before it asks.
            tried: Cell::new(if url.has_password() {
                "the password of the url"
            } else {
                "an anonymous reader"
            }),
            failure: RefCell::new(None),
        }
    }

    /// Answers libgit2's question for a credential of one of the `allowed` types.
    pub(super) fn answer(&self, user: Option<&str>, allowed: CredentialType) -> Result<Cred, git2::Error> {
        let user = self.user(user);
        if allowed.contains(CredentialType::USERNAME) {
            return Cred::username(&user);
        }
        if self.is_shown.replace(true) {
            return Err(refused("the server did not accept it"));
        }
        let password = allowed.contains(CredentialType::USER_PASS_PLAINTEXT);
        match (self.url.place(), &self.credentials.token, &self.credentials.ssh) {
            (Place::Http { .. }, Some(token), _) if password => {
                self.tried.set("the token");
                let token = self.read(token)?;
                Cred::userpass_plaintext(&user, &token)
            }
            (Place::Ssh { .. }, _, Some(key)) if allowed.contains(CredentialType::SSH_KEY) => {
                self.ssh_key(&user, key)
            }
            (Place::Ssh { .. }, _, None) if allowed.contains(CredentialType::SSH_KEY) => {
                self.ssh_key(&user, &SshKey::Agent)
            }
            _ => Err(refused("the server wants a credential that is not configured")),
        }
    }

    fn user(&self, asked: Option<&str>) -> String {
        let of_url = match self.url.place() {
            Place::Http { user, .. } => self.credentials.username.as_ref().or(user.as_ref()),
            Place::Ssh { user, .. } => user.as_ref(),
            Place::Local(_) => None,
        };
        of_url.map(String::as_str).or(asked).unwrap_or("git").to_owned()
    }

    fn ssh_key(&self, user: &str, key: &SshKey) -> Result<Cred, git2::Error> {
        match key {
            SshKey::Agent => {
                self.tried.set("a key of the ssh agent");
                Cred::ssh_key_from_agent(user)
            }
            SshKey::File { path, passphrase } => {
                self.tried.set("the ssh key");
                // libssh2 does not tell a missing file from a rejected key.
                if let Err(error) = std::fs::File::open(path) {
                    return Err(self.unreadable(format!("{}: {error}", path.display())));
                }
                let passphrase = passphrase.as_ref().map(|source| self.read(source)).transpose()?;
                Cred::ssh_key(user, None, path, passphrase.as_ref().map(|secret| secret.as_str()))
            }
        }
    }

    fn read(&self, source: &SecretSource) -> Result<Zeroizing<String>, git2::Error> {
        source.read().map_err(|error| self.unreadable(error.to_string()))
    }

    fn unreadable(&self, message: String) -> git2::Error {
        *self.failure.borrow_mut() =
            Some(SourceError::Credential { url: self.url.to_string(), cause: Cause::new(message) });
        refused("the credential cannot be read")
    }
}

fn refused(message: &str) -> git2::Error {
    git2::Error::new(ErrorCode::Auth, ErrorClass::Callback, message)
}
