//! What can be wrong with a source, one variant for each state a person meets.
//!
//! No message contains a secret: urls are written without userinfo, and what libgit2 said is stripped of them too.

use std::io;
use std::path::{Path, PathBuf};

use super::Oid;
use crate::trust::{Doubt, KeyFiles, KeysError};

/// What libgit2 said, without secrets.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Cause {
    message: String,
}

impl Cause {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: steady(&message.into()) }
    }
}

impl From<git2::Error> for Cause {
    fn from(error: git2::Error) -> Self {
        Self::new(error.message().trim().trim_end_matches('.'))
    }
}

/// Why a source, or something in it, cannot be read.
///
/// None of these touches the revision in force: it stays readable in the mirror.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("source name {name:?} cannot name a directory")]
    InvalidName { name: String },
    #[error("{url} is not a url to fetch from: {problem}")]
    InvalidUrl { url: String, problem: String },
    #[error("{url} is refused: the scheme {scheme} is not one of https, ssh, file or a local path")]
    RefusedScheme { url: String, scheme: String },
    #[error("{text:?} is not a reference: {problem}")]
    InvalidReference { text: String, problem: String },
    #[error("{path:?} is not a path inside a repository: {problem}")]
    InvalidPath { path: String, problem: &'static str },
    #[error("source {name} has no url")]
    NoUrl { name: String },

    #[error("{url} cannot be reached")]
    Unreachable {
        url: String,
        #[source]
        cause: Cause,
    },
    #[error("{url} did not accept {tried}")]
    Authentication {
        url: String,
        tried: &'static str,
        #[source]
        cause: Cause,
    },
    #[error("the credential for {url} cannot be read")]
    Credential {
        url: String,
        #[source]
        cause: Cause,
    },
    #[error("the host key of {host} is not known: it offered {key_type} {fingerprint}")]
    UnknownHostKey {
        host: HostPort,
        key_type: &'static str,
        fingerprint: String,
        known_hosts: Option<PathBuf>,
    },
    #[error(
        "the host key of {host} is not the one in {known_hosts}: it offered {key_type} {fingerprint}",
        known_hosts = known_hosts.display()
    )]
    HostKeyMismatch { host: HostPort, key_type: &'static str, fingerprint: String, known_hosts: PathBuf },
    #[error("the certificate of {url} is not trusted")]
    Tls {
        url: String,
        #[source]
        cause: Cause,
    },
    #[error("{url} is not a repository, or not one these credentials may read")]
    RepositoryNotFound {
        url: String,
        #[source]
        cause: Cause,
    },
    #[error("{url} belongs to another user")]
    NotOwned {
        url: String,
        #[source]
        cause: Cause,
    },
    #[error("{url} and this program do not understand each other")]
    Protocol {
        url: String,
        #[source]
        cause: Cause,
    },
    #[error("{url} sent more than {limit} bytes or objects")]
    TransferTooLarge { url: String, limit: u64 },
    #[error("{url} did not finish within {seconds} s")]
    TransferTooSlow { url: String, seconds: u64 },
    #[error("none of {} urls can be read: {}", attempts.len(), list(attempts))]
    EveryUrl { attempts: Vec<SourceError> },

    #[error("{url} has no commit yet")]
    Empty { url: String },
    #[error("{url} has no branch {branch}; it has {}", shown(branches))]
    MissingBranch { url: String, branch: String, branches: Vec<String>, nearest: Option<String> },
    #[error("{url} has no tag {tag}; it has {}", shown(tags))]
    MissingTag { url: String, tag: String, tags: Vec<String>, nearest: Option<String> },
    #[error("{url} has no tag that matches {range}; it has {}", shown(tags))]
    NoMatchingTag { url: String, range: String, tags: Vec<String> },
    #[error("commit {commit} is not in {place}")]
    CommitNotFound { commit: Oid, place: String },
    #[error("{rev:?} names no commit of {place}")]
    RevisionNotFound {
        rev: String,
        place: String,
        #[source]
        cause: Cause,
    },
    #[error(
        "{reference} of source {name} was rewound: {offered} does not descend from {in_force}, which is in force"
    )]
    Rewound { name: String, reference: String, in_force: Oid, offered: Oid },
    #[error("commit {commit} of source {name} does not come into force{}", and_others(*others))]
    Unverified {
        name: String,
        /// The oldest that is not proven, abbreviated.
        commit: String,
        /// It has no parent.
        is_first: bool,
        /// How many after it are not proven either.
        others: usize,
        keys: Box<KeyFiles>,
        #[source]
        cause: Box<Doubt>,
    },
    #[error("nothing new of source {name} can be verified")]
    Keys {
        name: String,
        #[source]
        cause: KeysError,
    },
    #[error(
        "the state was restored and nothing of source {name} could be had since, so nothing of it is done"
    )]
    Restored {
        name: String,
        #[source]
        cause: Box<SourceError>,
    },
    #[error("nothing of source {name} is in force yet{}", since_when(since.as_deref()))]
    NothingInForce {
        name: String,
        /// Since when it is known that it cannot be had, if it is.
        since: Option<String>,
        #[source]
        cause: Box<SourceError>,
    },
    #[error("the mirror {path} is damaged", path = path.display())]
    Corrupt {
        path: PathBuf,
        #[source]
        cause: Cause,
    },

    #[error("{path} is not in {revision}")]
    PathNotFound { path: String, revision: String },
    #[error("the files are larger than {limit} bytes together")]
    TreeTooLarge { limit: u64 },
    #[error("there are more than {limit} files and directories")]
    TooManyEntries { limit: usize },
    #[error("{path} is larger than {limit} bytes")]
    FileTooLarge { path: String, limit: u64 },
    #[error("{path} is not a directory", path = path.display())]
    NotADirectory { path: PathBuf },
    #[error("{path} is not part of this tree")]
    NotListed { path: String },
    #[error("cannot {doing} {path}", path = path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot prepare libgit2")]
    Prepare {
        #[source]
        cause: Cause,
    },
    #[error("cannot name content as Git does")]
    Hash {
        #[source]
        cause: Cause,
    },
}

/// A host and its port, as `known_hosts` writes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            22 => f.write_str(&self.host),
            port => write!(f, "[{}]:{port}", self.host),
        }
    }
}

impl SourceError {
    /// True when it was asked for a revision that is not there: nothing is wrong with the source.
    pub fn is_of_the_question(&self) -> bool {
        matches!(self, SourceError::RevisionNotFound { .. } | SourceError::CommitNotFound { .. })
    }

    /// True where nothing of the source is in force yet.
    pub fn is_without_revision(&self) -> bool {
        matches!(self, SourceError::NothingInForce { .. })
    }

    /// True where another try may do without anybody's help: a network that is away, a server that is busy.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::TransferTooSlow { .. }
            | Self::Protocol { .. }
            | Self::Corrupt { .. }
            | Self::Io { .. }
            | Self::Prepare { .. } => true,
            Self::EveryUrl { attempts } => attempts.iter().any(Self::may_pass),
            Self::Restored { cause, .. } | Self::NothingInForce { cause, .. } => cause.may_pass(),
            _ => false,
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::InvalidName { .. } => {
                "use letters, digits, `.`, `_` and `-`, beginning with a letter or digit".into()
            }
            Self::InvalidUrl { .. } | Self::RefusedScheme { .. } => {
                "write an absolute path, https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH".into()
            }
            Self::InvalidReference { .. } => {
                "write a branch, a tag, a range such as `>=1.2, <2` or 40 digits".into()
            }
            Self::InvalidPath { .. } => "write `.` or a path such as `env/prod`".into(),
            Self::NoUrl { .. } => "give the source a `url`".into(),
            Self::Unreachable { cause, .. } if cause.to_string().contains("proxy") => {
                "check the proxy that `https_proxy` names, and whether `no_proxy` should name the host".into()
            }
            Self::Unreachable { .. } => {
                "check the address, the network and that the server is up; it is tried again at the next poll".into()
            }
            Self::Authentication { .. } => {
                "check that the token or key is valid and may read this repository".into()
            }
            Self::Credential { .. } => {
                "check that the file or credential exists and that this user may read it".into()
            }
            Self::UnknownHostKey { host, known_hosts, .. } => {
                let file = known_hosts.as_ref().map_or_else(|| "KNOWN_HOSTS".into(), |path| path.to_string_lossy());
                format!(
                    "run `ssh-keyscan -p {} {} >>{file}` and compare the fingerprint with what the server's operator says",
                    host.port, host.host
                )
            }
            Self::HostKeyMismatch { host, known_hosts, .. } => format!(
                "somebody may be in between; if the server really has a new key, run `ssh-keygen -R '{host}' -f {file}` and `ssh-keyscan -p {} {} >>{file}`",
                host.port,
                host.host,
                file = known_hosts.display()
            ),
            Self::Tls { .. } => {
                "check the server's certificate; a private authority belongs into the system's trust store (SSL_CERT_FILE)".into()
            }
            Self::RepositoryNotFound { .. } => "check the path, and that the credentials may read it".into(),
            Self::NotOwned { .. } => {
                "run as the user that owns it".into()
            }
            Self::Protocol { .. } => {
                "check that the url is a Git repository with SHA-1 object names; it is tried again at the next poll".into()
            }
            Self::TransferTooLarge { .. } => "keep large files out of the repository, or raise the limit".into(),
            Self::TransferTooSlow { .. } => "check the network, or raise the limit".into(),
            Self::EveryUrl { attempts } => attempts.first().map_or_else(String::new, Self::hint),
            Self::Empty { .. } => "push a first commit".into(),
            Self::MissingBranch { nearest: Some(name), .. } | Self::MissingTag { nearest: Some(name), .. } => {
                format!("did you mean {name}?")
            }
            Self::MissingBranch { .. } => "push the branch, or name another as the source's `branch`".into(),
            Self::MissingTag { .. } | Self::NoMatchingTag { .. } => {
                "push the tag, or change the source's `ref`".into()
            }
            Self::CommitNotFound { .. } => "push the commit on a branch or tag of the source".into(),
            Self::RevisionNotFound { .. } => "write a branch or tag of the source, or a commit of what it follows".into(),
            Self::Rewound { name, offered, .. } => format!(
                "if the history was rewritten on purpose: reconciled sync --source {name} --accept-rewind {offered}"
            ),
            Self::Unverified { commit, is_first, keys, cause, .. } => {
                let onto = if *is_first { "--root".to_owned() } else { format!("{commit}~1") };
                unverified_hint(&onto, keys, cause)
            }
            Self::Keys { cause, .. } => cause.hint(),
            Self::Restored { cause, .. } | Self::NothingInForce { cause, .. } => cause.hint(),
            Self::Corrupt { .. } => "nothing: the next poll clones it again".into(),
            Self::PathNotFound { .. } => {
                "correct the source's `path`; to empty a directory on purpose keep a file in it".into()
            }
            Self::TreeTooLarge { .. } | Self::TooManyEntries { .. } | Self::FileTooLarge { .. } => {
                "narrow the source's `path`, or raise the limit".into()
            }
            Self::NotADirectory { .. } => "give the directory that holds the manifests, or - for stdin".into(),
            Self::NotListed { .. } => "read only what the tree lists".into(),
            Self::Io { cause, .. } if cause.kind() == io::ErrorKind::NotFound => "check the path".into(),
            Self::Io { .. } | Self::Prepare { .. } => {
                "check the permissions and the free space of the directory".into()
            }
            Self::Hash { .. } => "this is a fault of the program: report it".into(),
        }
    }

    /// Returns what libgit2 or the operating system said, where that adds something.
    ///
    /// `std::error::Error::source` returns the same; this exists for [`list`].
    fn detail(&self) -> Option<String> {
        std::error::Error::source(self).map(ToString::to_string)
    }
}

/// Says what was being done to which path when the operating system refused.
pub(super) fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SourceError {
    move |cause| SourceError::Io { doing, path: path.to_owned(), cause }
}

/// What libgit2 said of this host's disk.
pub(super) fn disk(error: &git2::Error) -> io::Error {
    io::Error::other(steady(error.message()))
}

/// What libgit2 said, without what it ends the names of its temporary files with: that is another at each try, and what goes
/// on as it was is told once.
fn steady(message: &str) -> String {
    const TEMPORARY: &str = "_git2_";
    let mut parts = message.split(TEMPORARY);
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        said += TEMPORARY;
        said += "…";
        said += part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
    }
    said
}

/// Says all of `attempts` on one line, each with its cause: the chain of one error cannot fork.
fn list(attempts: &[SourceError]) -> String {
    let said = attempts.iter().map(|attempt| match attempt.detail() {
        Some(detail) => format!("{attempt}: {detail}"),
        None => attempt.to_string(),
    });
    said.collect::<Vec<_>>().join("; ")
}

fn since_when(since: Option<&str>) -> String {
    since.map(|since| format!(", since {since}")).unwrap_or_default()
}

fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        n => format!(", and neither do {n} after it"),
    }
}

/// What to do about a commit that is not proven: the committer signs it and what is after it `onto` what is before it, or the
/// operator allows the key.
fn unverified_hint(onto: &str, keys: &KeyFiles, cause: &Doubt) -> String {
    let files = [&keys.allowed_signers, &keys.gpg_keys];
    let files: Vec<String> = files.into_iter().flatten().map(|path| path.display().to_string()).collect();
    // Consent may have come with a commit that changes nothing.
    let amend = "git commit --amend --no-edit --allow-empty -S";
    let sign = format!("sign it anew and push: git rebase --exec '{amend}' {onto}");
    match cause {
        Doubt::NotAllowed { .. } => {
            format!("if the key may sign, add it to {} on the daemon's host; else {sign}", files.join(" or "))
        }
        Doubt::NotValid { .. } => {
            format!("{sign} with a key that counts, or correct {} on the daemon's host", files.join(" or "))
        }
        _ => format!("{sign} with a key that {} allows", files.join(" or ")),
    }
}

/// How many names of branches or tags a message lists.
const SHOWN: usize = 8;

fn shown(names: &[String]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        n if n > SHOWN => format!("{} and {} more", names[..SHOWN].join(", "), n - SHOWN),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::commit::broken;
    use git2::{ErrorClass, ErrorCode};

    #[test]
    fn a_disk_that_stays_full_says_the_same_at_each_try() {
        let full = |pack: &str| {
            let said =
                format!("cannot extend packfile '/m/objects/pack/pack_git2_{pack}': No space left on device");
            let error = git2::Error::new(ErrorCode::GenericError, ErrorClass::Os, said);
            crate::failure::chain(&broken(Path::new("/m"), error))
        };
        assert_eq!(full("0f16ce30c2605eeb"), full("d7c3b8fbce4f7624"));
        assert!(full("0f16ce30c2605eeb").ends_with("/pack_git2_…': No space left on device"));
        assert_eq!(steady("no branch a_git_b"), "no branch a_git_b");
    }
}
