//! One conversation with a remote: connect, list its refs, fetch the one that is wanted if it is new.
//!
//! # Guarantees
//! - TLS is verified by libgit2; no callback here ever accepts a certificate.
//! - An ssh host offers a key its `known_hosts` file lists, or nothing is sent to it.
//! - Redirects to another host are not followed, so credentials reach the configured host only.
//! - What arrives is bounded in bytes, objects and time.

use std::path::Path;
use std::time::{Duration, Instant};

use git2::cert::Cert;
use git2::{
    AutotagOption, CertificateCheckStatus, Direction, ErrorClass, ErrorCode, FetchOptions, FetchPrune,
    ProxyOptions, RemoteCallbacks, RemoteRedirect, Repository,
};

use super::advertised::advertised;
use super::credentials::{Credentials, Shown};
use super::error::{Cause, HostPort};
use super::hostkeys::{KnownKeys, Verdict, fingerprint};
use super::listing::{Known, Listings};
use super::reference::{Offer, Reference, select};
use super::url::{Place, RemoteUrl};
use super::{SourceError, process};

/// How much one fetch may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    pub bytes: u64,
    pub objects: usize,
    pub time: Duration,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { bytes: 256 << 20, objects: 2_000_000, time: Duration::from_secs(300) }
    }
}

/// With whom to talk, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer<'a> {
    pub(super) url: &'a RemoteUrl,
    pub(super) credentials: &'a Credentials,
    pub(super) known_hosts: Option<&'a Path>,
    pub(super) limits: FetchLimits,
    pub(super) state_dir: &'a Path,
    /// What others were told who ask the same.
    pub(super) listings: Option<&'a Listings>,
    /// Since when it is wished for.
    pub(super) wished: Instant,
}

/// At which point something went wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connect,
    /// From here on both repositories are at work, and libgit2 does not say which one failed.
    Download,
}

/// Lists the refs of the remote and makes sure that `repository` has the commit `reference` names.
///
/// # Errors
/// Everything [`SourceError`] knows about remotes and references; [`SourceError::Corrupt`] where objects cannot
/// be stored or are not what they should be.
pub(super) fn pull(
    repository: &Repository,
    peer: &Peer<'_>,
    reference: &Reference,
) -> Result<Offer, SourceError> {
    let shown = Shown::new(peer.url, peer.credentials);
    let known_keys = known_keys(peer)?;
    allow_local(peer)?;
    if matches!(peer.url.place(), Place::Http { .. }) {
        process::trust_roots()?;
    }
    let fail = |stage, error| classify(repository.path(), peer.url, &shown, stage, error);
    let callbacks = || callbacks(peer, &shown, known_keys.as_ref());

    let is_here = |offer: &Offer| -> Result<bool, SourceError> {
        let odb = repository.odb().map_err(|error| fail(Stage::Download, error))?;
        Ok(odb.exists(offer.commit) && offer.tag.as_ref().is_none_or(|(_, tag)| odb.exists(*tag)))
    };
    let slot = peer.listings.map(|listings| listings.of(peer.url.raw()));
    let turn = match slot.as_ref().map(|slot| slot.since(peer.wished)) {
        Some(Known::Refs(refs)) => {
            let offer = select(reference, &refs, &peer.url.to_string())?;
            if is_here(&offer)? {
                return Ok(offer);
            }
            None
        }
        Some(Known::Turn(turn)) => Some(turn),
        Some(Known::Nothing) | None => None,
    };

    let mut remote =
        repository.remote_anonymous(peer.url.raw()).map_err(|error| fail(Stage::Connect, error))?;
    let mut connection = remote
        .connect_auth(Direction::Fetch, Some(callbacks()), Some(proxy(peer.url)))
        .map_err(|error| fail(Stage::Connect, error))?;
    let heads = connection.list().map_err(|error| fail(Stage::Connect, error))?;
    let heads = advertised(heads);
    if let Some(turn) = turn {
        turn.end(&heads);
    }
    let offer = select(reference, &heads, &peer.url.to_string())?;
    if is_here(&offer)? {
        return Ok(offer);
    }

    let refspecs: Vec<String> = match &offer.name {
        Some(name) => vec![format!("+{name}:refs/reconciled/offered")],
        None => ["heads", "tags"].map(|kind| format!("+refs/{kind}/*:refs/{kind}/*")).to_vec(),
    };
    let mut options = FetchOptions::new();
    options
        .remote_callbacks(callbacks())
        .proxy_options(proxy(peer.url))
        .prune(FetchPrune::Off)
        .update_fetchhead(false)
        .download_tags(AutotagOption::None)
        .follow_redirects(RemoteRedirect::None);
    connection
        .remote()
        .download(&refspecs, Some(&mut options))
        .map_err(|error| fail(Stage::Download, error))?;
    Ok(offer)
}

/// Says whether the next url of a list may do better.
pub(super) fn is_of_remote(error: &SourceError) -> bool {
    matches!(
        error,
        SourceError::Unreachable { .. }
            | SourceError::Authentication { .. }
            | SourceError::Credential { .. }
            | SourceError::UnknownHostKey { .. }
            | SourceError::HostKeyMismatch { .. }
            | SourceError::Tls { .. }
            | SourceError::RepositoryNotFound { .. }
            | SourceError::NotOwned { .. }
            | SourceError::Protocol { .. }
            | SourceError::TransferTooSlow { .. }
    )
}

/// Lets libgit2 open a local repository whoever owns it: that it is configured is consent.
fn allow_local(peer: &Peer<'_>) -> Result<(), SourceError> {
    let Place::Local(path) = peer.url.place() else {
        return Ok(());
    };
    // Where nothing is, libgit2 would take the path for a url of an unknown kind.
    std::fs::metadata(path).map_err(|error| SourceError::RepositoryNotFound {
        url: peer.url.to_string(),
        cause: Cause::new(error.to_string()),
    })?;
    process::allow_local(peer.state_dir, path)
}

/// Returns the proxy of the environment, except for hosts no proxy could reach.
fn proxy(url: &RemoteUrl) -> ProxyOptions<'static> {
    let mut options = ProxyOptions::new();
    if matches!(url.place(), Place::Http { is_loopback: false, .. }) {
        options.auto();
    }
    options
}

fn callbacks<'a>(
    peer: &'a Peer<'_>,
    shown: &'a Shown<'_>,
    known_keys: Option<&'a (HostPort, KnownKeys)>,
) -> RemoteCallbacks<'a> {
    let deadline = Instant::now() + peer.limits.time;
    let is_late = move || {
        let is_late = Instant::now() > deadline;
        if is_late {
            *shown.failure.borrow_mut() = Some(SourceError::TransferTooSlow {
                url: peer.url.to_string(),
                seconds: peer.limits.time.as_secs(),
            });
        }
        is_late
    };
    let mut callbacks = RemoteCallbacks::new();
    callbacks.credentials(|_, user, allowed| shown.answer(user, allowed));
    callbacks
        .certificate_check(move |certificate, _| check_certificate(peer, shown, known_keys, certificate));
    callbacks.sideband_progress(move |_| !is_late());
    callbacks.transfer_progress(move |progress| {
        let limits = peer.limits;
        let limit = if progress.received_bytes() as u64 > limits.bytes {
            limits.bytes
        } else if progress.total_objects() > limits.objects {
            limits.objects as u64
        } else {
            return !is_late();
        };
        *shown.failure.borrow_mut() =
            Some(SourceError::TransferTooLarge { url: peer.url.to_string(), limit });
        false
    });
    callbacks
}

/// Returns what is known about an ssh host, and has libgit2 ask it for a key of a known type.
fn known_keys(peer: &Peer<'_>) -> Result<Option<(HostPort, KnownKeys)>, SourceError> {
    let Place::Ssh { host, .. } = peer.url.place() else {
        return Ok(None);
    };
    let text = match peer.known_hosts.map(std::fs::read) {
        Some(Ok(text)) => String::from_utf8_lossy(&text).into_owned(),
        Some(Err(cause)) if cause.kind() != std::io::ErrorKind::NotFound => {
            return Err(SourceError::Io {
                doing: "read",
                path: peer.known_hosts.unwrap_or(Path::new("")).to_owned(),
                cause,
            });
        }
        Some(Err(_)) | None => String::new(),
    };
    let keys = KnownKeys::find(&text, host);
    process::prefer_host_keys(peer.state_dir, host, keys.lines())?;
    Ok(Some((host.clone(), keys)))
}

/// Decides about a host key. About a TLS certificate libgit2 decides.
///
/// libgit2 takes `CertificateOk` as an order to trust, whatever it found out itself, so that answer is given only
/// after a host key was found in the file.
fn check_certificate(
    peer: &Peer<'_>,
    shown: &Shown<'_>,
    known_keys: Option<&(HostPort, KnownKeys)>,
    certificate: &Cert<'_>,
) -> Result<CertificateCheckStatus, git2::Error> {
    let (Some(hostkey), Some((host, keys))) = (certificate.as_hostkey(), known_keys) else {
        return Ok(CertificateCheckStatus::CertificatePassthrough);
    };
    let key = hostkey.hostkey().unwrap_or_default();
    let verdict = keys.judge(key);
    if verdict == Verdict::Known {
        return Ok(CertificateCheckStatus::CertificateOk);
    }
    let host = host.clone();
    let key_type = hostkey.hostkey_type().map_or("a key", |key_type| key_type.name());
    let fingerprint = fingerprint(key);
    let failure = match (verdict, peer.known_hosts) {
        (Verdict::Mismatch, Some(known_hosts)) => {
            SourceError::HostKeyMismatch { host, key_type, fingerprint, known_hosts: known_hosts.to_owned() }
        }
        (_, known_hosts) => SourceError::UnknownHostKey {
            host,
            key_type,
            fingerprint,
            known_hosts: known_hosts.map(ToOwned::to_owned),
        },
    };
    *shown.failure.borrow_mut() = Some(failure);
    Err(git2::Error::new(ErrorCode::Certificate, ErrorClass::Callback, "the host key is not trusted"))
}

/// Turns what libgit2 said into the state an operator knows.
fn classify(
    mirror: &Path,
    url: &RemoteUrl,
    shown: &Shown<'_>,
    stage: Stage,
    error: git2::Error,
) -> SourceError {
    if let Some(failure) = shown.failure.take() {
        return failure;
    }
    let message = url.redact(error.message());
    let cause = Cause::new(message.trim().trim_end_matches('.'));
    let is_local = matches!(url.place(), Place::Local(_));
    let url = url.to_string();
    let tried = shown.tried.get();
    match (error.code(), error.class()) {
        (ErrorCode::Auth, _) => SourceError::Authentication { url, tried, cause },
        (ErrorCode::Owner, _) => SourceError::NotOwned { url, cause },
        (ErrorCode::Certificate, _) => SourceError::Tls { url, cause },
        (ErrorCode::Timeout, _) => SourceError::Unreachable { url, cause },
        (_, ErrorClass::Os | ErrorClass::Repository | ErrorClass::Filesystem)
            if is_local && stage == Stage::Connect =>
        {
            SourceError::RepositoryNotFound { url, cause }
        }
        // What the proxy says is no word of the server behind it.
        (_, ErrorClass::Http) if message.contains("proxy") => SourceError::Unreachable { url, cause },
        (_, ErrorClass::Http) => match status(&message) {
            Some(401 | 403) => SourceError::Authentication { url, tried, cause },
            Some(404 | 410) => SourceError::RepositoryNotFound { url, cause },
            Some(429 | 500..) => SourceError::Unreachable { url, cause },
            _ => SourceError::Protocol { url, cause },
        },
        (_, ErrorClass::Ssh) if message.contains("authenticat") => {
            SourceError::Authentication { url, tried, cause }
        }
        _ if message.contains("not appear to be a git repository") || message.contains("ot found.") => {
            SourceError::RepositoryNotFound { url, cause }
        }
        _ if message.contains("redirect") => SourceError::Protocol { url, cause },
        (_, ErrorClass::Ssl) if message.contains("certificate") => SourceError::Tls { url, cause },
        (_, ErrorClass::Net | ErrorClass::Ssl | ErrorClass::Ssh) if !is_local => {
            SourceError::Unreachable { url, cause }
        }
        // A refused connection; while downloading it is the disk.
        (_, ErrorClass::Os) if !is_local && stage == Stage::Connect => {
            SourceError::Unreachable { url, cause }
        }
        _ if stage == Stage::Download => super::commit::broken(mirror, error),
        _ => SourceError::Protocol { url, cause },
    }
}

/// Returns the status in `unexpected http status code: 404`.
fn status(message: &str) -> Option<u16> {
    message.rsplit_once("status code: ")?.1.trim().parse().ok()
}
