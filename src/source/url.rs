//! Where a repository is: local path, `file://`, `https://`, `ssh://` or `user@host:path`.
//!
//! Everything else is refused here, before libgit2 sees it. `http://` is accepted for loopback hosts only, where
//! nobody is in between.

use std::fmt;
use std::path::{Path, PathBuf};

use super::SourceError;
use super::error::HostPort;

/// A url that may be fetched from; printed without userinfo.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteUrl {
    /// What libgit2 gets. May contain a password.
    raw: String,
    redacted: String,
    password: Option<String>,
    place: Place,
}

/// What kind of remote a url names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Local(PathBuf),
    Http { user: Option<String>, is_loopback: bool },
    Ssh { user: Option<String>, host: HostPort },
}

impl RemoteUrl {
    /// Parses what an operator wrote as `url`.
    ///
    /// # Errors
    /// [`SourceError::RefusedScheme`] and [`SourceError::InvalidUrl`].
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(invalid(text, "it contains a control character"));
        }
        if text.starts_with('/') {
            return Ok(Self::local(text, Path::new(text)));
        }
        if text.contains("://") {
            return Self::with_scheme(text);
        }
        match text.split_once(':') {
            Some((authority, path)) if !authority.contains('/') => Self::scp(text, authority, path),
            _ => Err(invalid(text, "a local path must be absolute")),
        }
    }

    /// The path of a repository on this host.
    pub fn local_path(&self) -> Option<&Path> {
        match &self.place {
            Place::Local(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn raw(&self) -> &str {
        &self.raw
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Removes the url's secret from what a library said.
    pub(super) fn redact(&self, message: &str) -> String {
        let message = message.replace(&self.raw, &self.redacted);
        match &self.password {
            Some(password) if !password.is_empty() => message.replace(password.as_str(), "***"),
            _ => message,
        }
    }

    fn local(text: &str, path: &Path) -> Self {
        Self {
            raw: text.to_owned(),
            redacted: text.to_owned(),
            password: None,
            place: Place::Local(path.to_owned()),
        }
    }

    fn with_scheme(text: &str) -> Result<Self, SourceError> {
        let url = url::Url::parse(text).map_err(|error| invalid(text, &error.to_string()))?;
        let host = url.host_str().unwrap_or_default();
        // An address in brackets is an IPv6 address; `known_hosts` and sockets want it bare.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.starts_with('-') || url.path().starts_with("/-") {
            return Err(invalid(text, "a host or path that begins with - reads as an option"));
        }
        let user = Some(url.username()).filter(|user| !user.is_empty()).map(ToOwned::to_owned);
        let place = match url.scheme() {
            "file" if matches!(host, "" | "localhost") => {
                Place::Local(url.to_file_path().map_err(|()| invalid(text, "it has no absolute path"))?)
            }
            "file" => return Err(invalid(text, "a file is on this host")),
            _ if host.is_empty() => return Err(invalid(text, "it names no host")),
            "https" => Place::Http { user, is_loopback: is_loopback(&url) },
            "http" if is_loopback(&url) => Place::Http { user, is_loopback: true },
            "ssh" => {
                Place::Ssh { user, host: HostPort { host: host.to_owned(), port: url.port().unwrap_or(22) } }
            }
            scheme => {
                return Err(SourceError::RefusedScheme { url: redacted(text), scheme: scheme.to_owned() });
            }
        };
        Ok(Self {
            raw: text.to_owned(),
            redacted: redacted(text),
            password: url.password().map(ToOwned::to_owned),
            place,
        })
    }

    /// `user@host:path`; always port 22.
    fn scp(text: &str, authority: &str, path: &str) -> Result<Self, SourceError> {
        if path.starts_with(':') {
            // `ext::COMMAND` is how Git names a remote helper.
            return Err(SourceError::RefusedScheme { url: redacted(text), scheme: authority.to_owned() });
        }
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if host.is_empty() || path.is_empty() || user == Some("") {
            return Err(invalid(text, "it is not USER@HOST:PATH"));
        }
        if host.starts_with('-') || path.starts_with('-') {
            return Err(invalid(text, "a host or path that begins with - reads as an option"));
        }
        if user.is_some_and(|user| user.contains(':')) || host.contains(['[', ']']) {
            return Err(invalid(text, "write it as ssh://USER@HOST:PORT/PATH"));
        }
        Ok(Self {
            raw: text.to_owned(),
            redacted: text.to_owned(),
            password: None,
            place: Place::Ssh {
                user: user.map(ToOwned::to_owned),
                host: HostPort { host: host.to_owned(), port: 22 },
            },
        })
    }
}

fn invalid(text: &str, problem: &str) -> SourceError {
    SourceError::InvalidUrl { url: redacted(text), problem: problem.to_owned() }
}

fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns `text` without what stands between `://` and the last `@` before the path; where there is no `://`, without a user
/// that has a password.
///
/// It works on text so that what is no url at all is redacted as well.
fn redacted(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return match text.rsplit_once('@') {
            Some((user, host)) if user.contains(':') => host.to_owned(),
            _ => text.to_owned(),
        };
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => text.to_owned(),
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted)
    }
}

impl fmt::Debug for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.redacted, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        RemoteUrl::parse(text).unwrap().place
    }

    fn ssh(user: Option<&str>, host: &str, port: u16) -> Place {
        Place::Ssh { user: user.map(ToOwned::to_owned), host: HostPort { host: host.to_owned(), port } }
    }

    #[test]
    fn paths_https_and_ssh_are_accepted() {
        assert_eq!(place("/srv/git/a.git"), Place::Local("/srv/git/a.git".into()));
        assert_eq!(place("file:///srv/a%20b"), Place::Local("/srv/a b".into()));
        assert_eq!(place("https://git.example/a"), Place::Http { user: None, is_loopback: false });
        assert_eq!(place("http://127.0.0.1:80/a"), Place::Http { user: None, is_loopback: true });
        assert_eq!(place("http://[::1]/a"), Place::Http { user: None, is_loopback: true });
        assert_eq!(place("ssh://git@h:2222/a"), ssh(Some("git"), "h", 2222));
        assert_eq!(place("ssh://[::1]/a"), ssh(None, "::1", 22));
        assert_eq!(place("git@h:a/b.git"), ssh(Some("git"), "h", 22));
    }

    #[test]
    fn other_schemes_are_refused_by_name() {
        for (text, scheme) in [
            ("git://h/a", "git"),
            ("ext::sh -c id", "ext"),
            ("http://git.example/a", "http"),
            ("ftp://h/a", "ftp"),
        ] {
            match RemoteUrl::parse(text) {
                Err(SourceError::RefusedScheme { scheme: found, .. }) => assert_eq!(found, scheme),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "",
            "infra.git",
            "./infra.git",
            "git@h:",
            "ssh://-oProxyCommand=x/a",
            "-oX:a",
            "git@h:-x",
            "ssh:///a",
            "file://other/a",
            "/a\0b",
            "https://h\n/a",
        ] {
            let refused = RemoteUrl::parse(text);
            assert!(matches!(refused, Err(SourceError::InvalidUrl { .. })), "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn userinfo_is_never_printed() {
        let url = RemoteUrl::parse("https://ci:hunter2@git.example/a").unwrap();
        assert_eq!(url.to_string(), "https://git.example/a");
        assert_eq!(format!("{url:?}"), "\"https://git.example/a\"");
        assert_eq!(url.redact("bad url https://ci:hunter2@git.example/a"), "bad url https://git.example/a");
        assert_eq!(url.redact("user ci, password hunter2"), "user ci, password ***");
        let urls = [
            "gopher://ci:hunter2@h/a",
            "https://ci:hunter2@/a",
            "https://ci:hunter2@h:x/a",
            "ci::hunter2@h:a",
        ];
        for text in urls {
            let error = RemoteUrl::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
