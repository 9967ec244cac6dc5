//! A bare mirror of a remote in the state directory: what is polled, and what desired state is read from.
//!
//! # Guarantees
//! - One poll asks the remote once for its refs, or not at all where another one was told since it was wished for; it fetches only
//!   when the commit that counts is not here yet.
//! - Whatever a poll returns, the revision in force stays readable: nothing is deleted from a mirror that works.
//! - A branch or tag that moved to a commit that does not descend from the one in force is refused, unless the
//!   caller consents to exactly that commit.
//! - Where signatures are asked for, nothing is offered to the caller that is not proven.
//! - Locks that a killed process left are removed, once nobody can hold them any more.
//! - A damaged mirror is cloned again beside itself and replaced by a rename, once per poll.
//!
//! # Caveats
//! Everything blocks; an async caller uses a thread for blocking work. Reading does not wait for a poll.
//! A mirror is polled by one process at a time: the one that holds the state directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use git2::{ErrorClass, ErrorCode, Oid as GitOid, Repository};

use super::bare::{called, descends, init_bare, keep, open, remove};
use super::commit::{broken, find_commit};
use super::compact::compact;
use super::credentials::Credentials;
use super::error::{Cause, io_error};
use super::listing::Listings;
use super::reference::{Offer, Reference};
use super::remote::{self, FetchLimits, Peer};
use super::stale::unlock;
use super::tree::{Limits, Paths};
use super::url::RemoteUrl;
use super::verify::{self, Verify};
use super::{CommitInfo, CommitTree, Oid, SourceError, process};
use crate::trust::Signer;

/// What to mirror.
#[derive(Clone, Debug)]
pub struct RemoteSpec {
    /// Names the mirror's directory.
    pub name: String,
    /// Tried in order: the next one only when one cannot be read.
    pub urls: Vec<RemoteUrl>,
    pub reference: Reference,
    pub credentials: Credentials,
    /// Which keys ssh hosts may have; without it no ssh host is known.
    pub known_hosts: Option<PathBuf>,
    pub limits: Limits,
    pub fetch: FetchLimits,
    /// What has to be signed; nothing without.
    pub verify: Option<Verify>,
    /// What mirrors of the same urls with the same credentials share.
    pub listings: Option<Listings>,
}

impl RemoteSpec {
    /// Returns a specification without credentials and with the usual limits.
    pub fn new(name: impl Into<String>, urls: Vec<RemoteUrl>, reference: Reference) -> Self {
        Self {
            name: name.into(),
            urls,
            reference,
            credentials: Credentials::default(),
            known_hosts: None,
            limits: Limits::default(),
            fetch: FetchLimits::default(),
            verify: None,
            listings: None,
        }
    }
}

/// What a poll found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// The remote offers what is in force.
    Unchanged(CommitInfo),
    /// The remote offers another commit, which is now in the mirror.
    Changed {
        from: Option<Oid>,
        to: CommitInfo,
        /// Who signed it, where that was asked for.
        signer: Option<Signer>,
    },
}

/// A bare mirror.
#[derive(Debug)]
pub struct Mirror {
    state_dir: PathBuf,
    directory: PathBuf,
    spec: RemoteSpec,
    /// Held for a whole poll.
    polling: Mutex<()>,
    /// Held shared while the repository is opened, exclusively while it is replaced.
    replacing: Arc<RwLock<()>>,
}

/// Keeps what was offered last, and what is in force, from being collected by a `git gc`.
const OFFERED: &str = "refs/reconciled/offered";
const IN_FORCE: &str = "refs/reconciled/in-force";
/// What was in force before something that does not descend from it, each by its name.
const LEFT: &str = "refs/reconciled/left/";
/// What a person asked for by a name that is not the source's, each by its name.
const ASKED: &str = "refs/reconciled/asked/";
/// A file in the mirror that says: an object turned out to be damaged.
const MARKER: &str = "damaged";

impl Mirror {
    /// Opens the mirror below `state_dir`, creating an empty one where there is none. Touches no network.
    ///
    /// # Errors
    /// What is wrong with the specification, or [`SourceError::Io`]. A damaged mirror is no error: the next poll
    /// replaces it.
    pub fn open(state_dir: &Path, spec: RemoteSpec) -> Result<Self, SourceError> {
        check_name(&spec.name)?;
        spec.reference.check()?;
        if spec.urls.is_empty() {
            return Err(SourceError::NoUrl { name: spec.name });
        }
        process::init(state_dir)?;
        let mirror = Self {
            state_dir: state_dir.to_owned(),
            directory: state_dir.join("git").join(format!("{}.git", spec.name)),
            spec,
            polling: Mutex::new(()),
            replacing: Arc::default(),
        };
        mirror.prepare()?;
        Ok(mirror)
    }

    /// Gives the mirror of a source that was renamed its new name, unless there is one already.
    pub fn rename(state_dir: &Path, from: &str, to: &str) -> std::io::Result<()> {
        let of = |name: &str| state_dir.join("git").join(format!("{name}.git"));
        if of(to).exists() || !of(from).exists() {
            return Ok(());
        }
        fs::rename(of(from), of(to))
    }

    /// Returns the directory of the mirror.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Asks the remote what it offers and compares that with what is in force.
    ///
    /// `accept_rewind` consents to one commit that does not descend from `in_force`.
    ///
    /// # Errors
    /// A state of the remote or of the mirror. The caller keeps what is in force.
    pub fn poll(&self, in_force: Option<Oid>, accept_rewind: Option<Oid>) -> Result<Polled, SourceError> {
        self.poll_since(in_force, accept_rewind, Instant::now())
    }

    /// As [`Self::poll`], where what a mirror that shares its listings was told since it was `wished` for is enough.
    ///
    /// # Errors
    /// As [`Self::poll`].
    pub fn poll_since(
        &self,
        in_force: Option<Oid>,
        accept_rewind: Option<Oid>,
        wished: Instant,
    ) -> Result<Polled, SourceError> {
        let _polling = self.polling.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = if self.directory.join(MARKER).exists() {
            Err(SourceError::Corrupt {
                path: self.directory.clone(),
                cause: Cause::new("an object could not be read"),
            })
        } else {
            match self.poll_in(&self.directory, in_force, accept_rewind, wished) {
                Err(error) if !matches!(error, SourceError::Corrupt { .. }) && unlock(&self.directory) => {
                    tracing::debug!(source = self.spec.name, %error, "mirror was locked, polling again");
                    self.poll_in(&self.directory, in_force, accept_rewind, wished)
                }
                polled => polled,
            }
        };
        match polled {
            Err(SourceError::Corrupt { cause, .. }) => {
                tracing::warn!(source = self.spec.name, %cause, "mirror is damaged, cloning it again");
                self.clone_again(in_force, accept_rewind, wished)
            }
            polled => polled,
        }
    }

    /// Lists the files of a commit that is in the mirror.
    ///
    /// # Errors
    /// [`SourceError::CommitNotFound`], [`SourceError::PathNotFound`], a passed limit, [`SourceError::Corrupt`].
    pub fn tree_at(&self, commit: Oid, paths: &Paths) -> Result<CommitTree, SourceError> {
        let marker = self.directory.join(MARKER);
        let (directory, replacing) = (self.directory.clone(), self.replacing.clone());
        let open = Box::new(move || open_beside(&replacing, &directory));
        CommitTree::new(open, commit, paths, self.spec.limits, Some(marker))
    }

    /// Returns the commit a person means by `rev`: a branch or tag, a commit that is in the mirror, `main~1`. A name that
    /// is not in the mirror is asked of the remote, and of nothing that comes is said that it may come into force.
    ///
    /// # Errors
    /// [`SourceError::RevisionNotFound`], [`SourceError::Corrupt`].
    pub fn resolve(&self, rev: &str) -> Result<CommitInfo, SourceError> {
        let found = self.resolve_here(rev);
        match &found {
            Err(SourceError::RevisionNotFound { .. }) => self.fetch_named(rev).map_or(found, Ok),
            _ => found,
        }
    }

    /// Fetches the tag or branch of this name; none where the remote has no such thing, or cannot be asked.
    fn fetch_named(&self, rev: &str) -> Option<CommitInfo> {
        // What names a commit by its digits is no name.
        if rev.parse::<Oid>().is_ok() {
            return None;
        }
        let _polling = self.polling.lock().unwrap_or_else(PoisonError::into_inner);
        let repository = self.repository().ok()?;
        let names = [Reference::Tag(rev.to_owned()), Reference::Branch(rev.to_owned())];
        names.iter().filter(|name| name.check().is_ok()).find_map(|name| {
            let offer = self.pull(&repository, name, Instant::now()).ok()?;
            let commit = self.look_at(&repository, offer.commit).ok()?;
            // Nothing else leads to it, and a rollback may be kept at it.
            keep(&repository, &format!("{ASKED}{}", commit.oid), offer.commit).ok()?;
            Some(commit)
        })
    }

    /// As [`Self::resolve`], from the mirror alone.
    fn resolve_here(&self, rev: &str) -> Result<CommitInfo, SourceError> {
        let repository = self.repository()?;
        let no_such = |error: git2::Error| SourceError::RevisionNotFound {
            rev: rev.to_owned(),
            place: format!("source {}", self.spec.name),
            cause: error.into(),
        };
        // libgit2's own error for this looks like damage.
        let wanted = if rev.contains('\0') { "" } else { rev };
        let found = repository.revparse_single(wanted).and_then(|object| object.peel_to_commit());
        let commit = found.map_err(|error| match (error.code(), error.class()) {
            // What it cannot parse, or finds too long, has many codes; damage shows where objects are read.
            (ErrorCode::NotFound | ErrorCode::Ambiguous | ErrorCode::InvalidSpec | ErrorCode::Peel, _) => {
                no_such(error)
            }
            (
                _,
                ErrorClass::Odb | ErrorClass::Object | ErrorClass::Zlib | ErrorClass::Tree | ErrorClass::Os,
            ) => broken(&self.directory, error),
            _ => no_such(error),
        })?;
        Ok(CommitInfo::of(&commit))
    }

    /// Returns what a commit says about itself.
    ///
    /// # Errors
    /// [`SourceError::CommitNotFound`], [`SourceError::Corrupt`].
    pub fn commit(&self, oid: Oid) -> Result<CommitInfo, SourceError> {
        let repository = self.repository()?;
        let commit = find_commit(&repository, oid)?;
        Ok(CommitInfo::of(&commit))
    }

    /// Returns what was offered last and not refused, whether it came into force or not; none before the first poll.
    ///
    /// # Errors
    /// [`SourceError::CommitNotFound`], [`SourceError::Corrupt`].
    pub fn accepted(&self) -> Result<Option<CommitInfo>, SourceError> {
        let repository = self.repository()?;
        match repository.refname_to_id(&self.published()) {
            Ok(oid) => Ok(Some(CommitInfo::of(&find_commit(&repository, oid.into())?))),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(broken(&self.directory, error)),
        }
    }

    /// Says whether a commit that was accepted once would be so now: signatures may be asked for since. Which tag led to it is not
    /// known any more, nor are the keys where they cannot be read: then it stays accepted.
    ///
    /// # Errors
    /// [`SourceError::Corrupt`].
    pub fn still_accepts(&self, in_force: Option<Oid>, commit: Oid) -> Result<bool, SourceError> {
        match self.judge(in_force, commit) {
            Err(SourceError::Unverified { .. }) => {
                Ok(matches!(self.spec.reference, Reference::Tag(_) | Reference::Semver(_)))
            }
            Ok(_) | Err(SourceError::Keys { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Says whether `commit` is `ancestor` or descends from it. A commit that is not here has no descendants.
    ///
    /// # Errors
    /// [`SourceError::CommitNotFound`] for `commit`, [`SourceError::Corrupt`].
    pub fn descends(&self, ancestor: Oid, commit: Oid) -> Result<bool, SourceError> {
        let repository = self.repository()?;
        find_commit(&repository, commit)?;
        descends(&repository, ancestor, commit)
    }

    /// The commits here whose ids begin with these digits, sorted.
    ///
    /// # Errors
    /// [`SourceError::Corrupt`].
    pub fn called(&self, digits: &str) -> Result<Vec<Oid>, SourceError> {
        called(&self.repository()?, digits)
    }

    /// Creates the directory, and finishes what a crash in [`Self::replace_by`] left.
    fn prepare(&self) -> Result<(), SourceError> {
        let old = self.sibling("old");
        if !self.directory.exists() && old.exists() {
            fs::rename(&old, &self.directory).map_err(io_error("restore", &old))?;
        }
        for left in [old, self.sibling("new")] {
            remove(&left)?;
        }
        if self.directory.exists() {
            return Ok(());
        }
        init_bare(&self.directory)
    }

    /// Returns a directory beside the mirror. No mirror has this name: theirs end in `.git`.
    fn sibling(&self, suffix: &str) -> PathBuf {
        self.directory.with_file_name(format!("{}.git.{suffix}", self.spec.name))
    }

    fn repository(&self) -> Result<Repository, SourceError> {
        open_beside(&self.replacing, &self.directory)
    }

    fn poll_in(
        &self,
        directory: &Path,
        in_force: Option<Oid>,
        accept_rewind: Option<Oid>,
        wished: Instant,
    ) -> Result<Polled, SourceError> {
        let repository = open(directory)?;
        let damaged = |error| broken(directory, error);
        let is_here = |oid| repository.odb().map(|odb| odb.exists(oid)).map_err(damaged);
        let offer = match &self.spec.reference {
            // A commit that is here already cannot change.
            Reference::Commit(oid) if is_here((*oid).into())? => Offer::commit((*oid).into()),
            reference => self.pull(&repository, reference, wished)?,
        };
        let offered = offer.commit;
        let to = self.look_at(&repository, offered)?;
        keep(&repository, OFFERED, offered)?;
        if let Some(in_force) = in_force
            && is_here(in_force.into())?
        {
            keep(&repository, IN_FORCE, in_force.into())?;
        }
        if in_force == Some(to.oid) {
            self.publish(&repository, offered)?;
            return Ok(Polled::Unchanged(to));
        }
        let is_rewound = |in_force| match self.spec.reference {
            Reference::Branch(_) | Reference::Tag(_) => descends(&repository, in_force, to.oid).map(|it| !it),
            // It moves between release branches, but back only where a tag is gone, or a url lags behind another.
            Reference::Semver(_) if is_here(in_force.into())? => descends(&repository, to.oid, in_force),
            Reference::Semver(_) => Ok(true),
            // Chosen by hand.
            Reference::Commit(_) => Ok(false),
        };
        if let Some(in_force) = in_force
            && accept_rewind != Some(to.oid)
            && is_rewound(in_force)?
        {
            if is_here(in_force.into())? {
                self.withdraw(&repository, in_force)?;
            }
            return Err(SourceError::Rewound {
                name: self.spec.name.clone(),
                reference: self.spec.reference.to_string(),
                in_force,
                offered: to.oid,
            });
        }
        let signer = self.verify(&repository, in_force, to.oid, offer.tag)?;
        if let Some(in_force) = in_force
            && is_here(in_force.into())?
            && !descends(&repository, in_force, to.oid)?
        {
            // Nothing leads to it any more, and a rollback may be kept at it or at what led to it.
            keep(&repository, &format!("{LEFT}{in_force}"), in_force.into())?;
        }
        self.publish(&repository, offered)?;
        compact(&repository);
        Ok(Polled::Changed { from: in_force, to, signer })
    }

    /// Judges a commit that is in the mirror, as a poll judges what is offered.
    ///
    /// # Errors
    /// [`SourceError::Unverified`], [`SourceError::Keys`], [`SourceError::Corrupt`].
    pub fn judge(&self, in_force: Option<Oid>, commit: Oid) -> Result<Option<Signer>, SourceError> {
        let repository = self.repository()?;
        // What is in force, and what led to it, was judged when it came.
        if let Some(in_force) = in_force
            && descends(&repository, commit, in_force)?
        {
            return Ok(None);
        }
        self.verify(&repository, in_force, commit, None)
    }

    fn verify(
        &self,
        repository: &Repository,
        in_force: Option<Oid>,
        tip: Oid,
        tag: Option<(String, GitOid)>,
    ) -> Result<Option<Signer>, SourceError> {
        let Some(verify) = &self.spec.verify else { return Ok(None) };
        let tag = tag.filter(|_| matches!(self.spec.reference, Reference::Tag(_) | Reference::Semver(_)));
        let objects = verify::objects(repository, in_force, tip, tag, verify.history)?;
        verify.judge(&self.spec.name, &objects).map(Some)
    }

    /// Asks the urls in order; what is offered is then in `repository`.
    fn pull(
        &self,
        repository: &Repository,
        reference: &Reference,
        wished: Instant,
    ) -> Result<Offer, SourceError> {
        let mut attempts = Vec::new();
        for url in &self.spec.urls {
            let peer = Peer {
                url,
                credentials: &self.spec.credentials,
                known_hosts: self.spec.known_hosts.as_deref(),
                limits: self.spec.fetch,
                state_dir: &self.state_dir,
                listings: self.spec.listings.as_ref(),
                wished,
            };
            match remote::pull(repository, &peer, reference) {
                Ok(offer) => {
                    for error in attempts {
                        tracing::warn!(source = self.spec.name, %error, %url, "url cannot be read, another one answered");
                    }
                    return Ok(offer);
                }
                Err(error) if remote::is_of_remote(&error) => attempts.push(error),
                Err(error) => return Err(error),
            }
        }
        match attempts.len() {
            1 => Err(attempts.remove(0)),
            _ => Err(SourceError::EveryUrl { attempts }),
        }
    }

    /// Returns the offered commit, if it is one and its root is readable.
    fn look_at(&self, repository: &Repository, offered: GitOid) -> Result<CommitInfo, SourceError> {
        let damaged = |error| broken(repository.path(), error);
        let object = repository.find_object(offered, None).map_err(|error| match &self.spec.reference {
            Reference::Commit(oid) if error.code() == ErrorCode::NotFound => SourceError::CommitNotFound {
                commit: *oid,
                place: format!("any branch or tag of source {}", self.spec.name),
            },
            _ => damaged(error),
        })?;
        let Some(commit) = object.as_commit() else {
            return Err(SourceError::InvalidReference {
                text: self.spec.reference.to_string(),
                problem: "it names no commit".to_owned(),
            });
        };
        commit.tree().map_err(damaged)?;
        Ok(CommitInfo::of(commit))
    }

    /// Lets the names of the mirror follow what was accepted, so that `resolve` knows them.
    fn publish(&self, repository: &Repository, commit: GitOid) -> Result<(), SourceError> {
        let name = self.published();
        keep(repository, &name, commit)?;
        let damaged = |error| broken(repository.path(), error);
        let head = repository.find_reference("HEAD").map_err(damaged)?;
        if head.symbolic_target().ok().flatten() != Some(name.as_str()) {
            repository
                .reference_symbolic("HEAD", &name, true, "reconciled: follow the source")
                .map_err(damaged)?;
        }
        Ok(())
    }

    /// Has what is in force count as accepted last, unless what was accepted descends from it: else that was judged by what was in force
    /// before, and is as little to be believed as what is refused now.
    fn withdraw(&self, repository: &Repository, in_force: Oid) -> Result<(), SourceError> {
        match repository.refname_to_id(&self.published()) {
            Ok(accepted) if !descends(repository, in_force, accepted.into())? => {
                self.publish(repository, in_force.into())
            }
            _ => Ok(()),
        }
    }

    /// The name of what was accepted last.
    fn published(&self) -> String {
        match &self.spec.reference {
            Reference::Branch(branch) => format!("refs/heads/{branch}"),
            Reference::Tag(tag) => format!("refs/tags/{tag}"),
            Reference::Semver(_) | Reference::Commit(_) => "refs/reconciled/tip".to_owned(),
        }
    }

    /// Clones into a sibling and takes that in place of the damaged mirror, which stays until then.
    fn clone_again(
        &self,
        in_force: Option<Oid>,
        accept_rewind: Option<Oid>,
        wished: Instant,
    ) -> Result<Polled, SourceError> {
        let new = self.sibling("new");
        remove(&new)?;
        init_bare(&new)?;
        let polled = self.poll_in(&new, in_force, accept_rewind, wished);
        match polled {
            // Twice in a row is not the disk: the remote sends what cannot be used.
            Err(SourceError::Corrupt { cause, .. }) => Err(SourceError::Protocol {
                url: self.spec.urls.first().map_or_else(String::new, ToString::to_string),
                cause,
            }),
            Ok(_)
            | Err(SourceError::Rewound { .. } | SourceError::Unverified { .. } | SourceError::Keys { .. }) => {
                self.replace_by(&new)?;
                polled
            }
            Err(error) => Err(error),
        }
    }

    fn replace_by(&self, new: &Path) -> Result<(), SourceError> {
        let old = self.sibling("old");
        remove(&old)?;
        let replacing = self.replacing.write().unwrap_or_else(PoisonError::into_inner);
        if self.directory.exists() {
            fs::rename(&self.directory, &old).map_err(io_error("move", &self.directory))?;
        }
        fs::rename(new, &self.directory).map_err(io_error("move", new))?;
        drop(replacing);
        remove(&old)
    }
}

/// Opens a mirror when none is just taking its place.
fn open_beside(replacing: &RwLock<()>, directory: &Path) -> Result<Repository, SourceError> {
    let _replacing = replacing.read().unwrap_or_else(PoisonError::into_inner);
    open(directory)
}

fn check_name(name: &str) -> Result<(), SourceError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let starts_plain = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    // `config` and `home` are process-wide directories beside the mirrors, but have no `.git` suffix.
    if starts_plain && name.len() <= 128 && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(SourceError::InvalidName { name: name.to_owned() })
}
