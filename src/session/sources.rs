//! The sources of an invocation: which commit, which tree, and what went wrong on the way.

use crate::{
    clock::SystemClock,
    config::{Approver, Config, FOLDER, GitRef, HostSecrets, SourceConfig, beside},
    failure::Failure,
    manifest::{Files, SourceRules},
    source::{
        APPROVE, CommitInfo, CommitTree, Contents, Credentials, Limits, Listings, Mirror, Oid, Paths, Polled,
        Reach, Reference, RemoteSpec, RemoteUrl, SecretSource, SourceError, SshKey, Tree, Verify,
        pushed_objects,
    },
    trust::Signer,
};
use bytes::Bytes;
use reconciled_engine::store::{Approval, Revision};
use reconciled_provider::{Hash, Problem, SecretRef, Secrets};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use zeroize::Zeroizing;

/// One source at the revision that is looked at.
pub struct Snapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Full commit id; empty for a folder.
    pub revision: Arc<str>,
    /// What people call it.
    pub label: Arc<str>,
    /// The commit, for a repository.
    pub commit: Option<CommitInfo>,
    /// Its files.
    pub tree: Box<dyn Tree>,
    /// What is no longer declared may go.
    pub prunes: bool,
    /// How its manifests are read.
    pub rules: SourceRules,
    /// Held plans that its commit consents to once it comes into force, where the source lets a commit do that.
    pub approves: Vec<Hash>,
    /// Who signed it, where that was asked for and it is new.
    pub signer: Option<Signer>,
    /// Why a newer revision could not be had; the one in force is looked at instead.
    pub behind: Option<Arc<SourceError>>,
    /// What was offered last, where this one is looked at in its place: what that declares is not gone.
    pub newest: Option<Box<Snapshot>>,
    /// A person named it: that others are elsewhere is meant.
    pub is_named: bool,
    /// A source of the same repository that was not read since this revision was had.
    pub awaits: Option<Arc<str>>,
}

impl Snapshot {
    /// Which files are meant, as it is remembered with the revision in force: `path`, and what `ignore` leaves out of it.
    pub fn path(&self) -> String {
        format!("{}|{}", self.rules.paths.join(","), self.rules.ignore.join(","))
    }
    /// True when these are the files that `known` means. Before `ignore` was remembered it had no `|`, and says nothing of that.
    pub fn is_path(&self, known: &str) -> bool {
        match known.contains('|') {
            true => self.path() == known,
            false => self.rules.paths.join(",") == known,
        }
    }
    /// The revision that is looked at, and what was offered last.
    pub(super) fn revisions(&self) -> impl Iterator<Item = &Arc<str>> {
        [&self.revision].into_iter().chain(self.newest.iter().map(|newest| &newest.revision))
    }
}

impl Snapshot {
    /// What its commit consents to at `at`.
    pub fn approvals(&self, at: Duration) -> Vec<Approval> {
        let Some(commit) = &self.commit else { return Vec::new() };
        let signer = self.signer.as_ref().map(|signer| format!(", signed by {signer}"));
        let actor: Arc<str> = format!("{}{}", commit.author, signer.unwrap_or_default()).into();
        let reason: Arc<str> = commit.subject.as_str().into();
        let approval = |digest: &Hash| Approval {
            digest: *digest,
            reason: reason.clone(),
            actor: actor.clone(),
            at,
            used_at: None,
        };
        self.approves.iter().map(approval).collect()
    }
}

/// What is known of a source before its remote is asked.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The commit in force.
    pub in_force: Option<Arc<str>>,
    /// A rewind to this commit is consented to.
    pub accept_rewind: Option<Arc<str>>,
    /// Look at this revision instead of the newest.
    pub rev: Option<String>,
    /// Take what is in force from the mirror and ask no remote.
    pub is_local: bool,
    /// Only this commit is meant, whatever was offered since.
    pub is_alone: bool,
    /// What is in force is what a backup says: it is not looked at in place of what its remote has.
    pub is_restored: bool,
    /// What another source of the same remote was told since then is enough; by default nothing is that was told before.
    pub wished: Option<Instant>,
}

impl Known {
    /// What is known where `revision` is in force; a folder is no commit.
    pub fn of(revision: Option<Revision>) -> Known {
        let is_restored = revision.as_ref().is_some_and(|revision| revision.is_restored);
        let in_force = revision.map(|revision| revision.commit).filter(|commit| commit.len() == 40);
        Known { in_force, is_restored, ..Known::default() }
    }
}

/// The mirrors of a session. Each is opened once: two openings would not wait for each other's polls.
#[derive(Default)]
pub(super) struct Mirrors {
    open: Mutex<BTreeMap<Arc<str>, Arc<Mirror>>>,
    /// What sources of one remote share, by the first of them.
    listings: Mutex<BTreeMap<Arc<str>, Listings>>,
}

impl Mirrors {
    /// The mirror of a configured source.
    fn get(
        &self,
        config: &Config,
        source: &SourceConfig,
        secrets: &Arc<HostSecrets>,
    ) -> Result<Arc<Mirror>, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mirror) = open.get(&source.name) {
            return Ok(mirror.clone());
        }
        let mirror = Arc::new(mirror(config, source, secrets, self.listings(config, source))?);
        open.insert(source.name.clone(), mirror.clone());
        Ok(mirror)
    }

    /// None where no other source has the same remote.
    fn listings(&self, config: &Config, source: &SourceConfig) -> Option<Listings> {
        let mut alike = config.sources.iter().filter(|other| other.shares_remote(source));
        let (first, _) = (alike.next()?, alike.next()?);
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        Some(listings.entry(first.name.clone()).or_default().clone())
    }
}

fn mirror(
    config: &Config,
    source: &SourceConfig,
    secrets: &Arc<HostSecrets>,
    listings: Option<Listings>,
) -> Result<Mirror, Failure> {
    // Whoever comes first makes the state directory, and makes it private.
    if !config.state_dir.exists() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&config.state_dir);
        made.map_err(|e| {
            Failure::plain(format!("make the state directory {}: {e}", config.state_dir.display()))
        })?;
    }
    let urls = urls(config, source)?;
    let reference = reference(&source.reference)?;
    let mut spec = RemoteSpec::new(source.name.to_string(), urls, reference);
    spec.credentials = credentials(source, secrets);
    spec.known_hosts = source.known_hosts.clone();
    spec.limits = tree_limits(source);
    spec.verify = verify(source);
    spec.listings = listings;
    Ok(Mirror::open(&config.state_dir, spec)?)
}

fn urls(config: &Config, source: &SourceConfig) -> Result<Vec<RemoteUrl>, SourceError> {
    source.urls.iter().map(|url| RemoteUrl::parse(&absolute(config, url))).collect()
}

/// What `reference` follows.
pub fn reference(reference: &GitRef) -> Result<Reference, Failure> {
    Ok(reference.parsed()?)
}

/// Says whether one of the source's urls is the repository at `directory`, which has no link in it.
pub fn is_at(config: &Config, source: &SourceConfig, directory: &Path) -> bool {
    local_places(config, source).iter().any(|place| place == directory)
}

/// Where the source's local urls are, without links.
pub fn local_places(config: &Config, source: &SourceConfig) -> Vec<PathBuf> {
    let names = |path: &Path| {
        // Git finds a repository under these three names.
        let mut with_suffix = path.as_os_str().to_owned();
        with_suffix.push(".git");
        [path.to_owned(), with_suffix.into(), path.join(".git")]
    };
    let urls = urls(config, source).unwrap_or_default();
    let paths = urls.iter().filter_map(RemoteUrl::local_path).flat_map(names);
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}

/// True where one of the source's urls is a place on this host, whether anything is there or not: asks no file system, which may hang.
pub fn is_local(config: &Config, source: &SourceConfig) -> bool {
    urls(config, source).unwrap_or_default().iter().any(|url| url.local_path().is_some())
}

/// The repository at one of a source's urls, in one spelling, whoever asks there: Git finds `a.git` as `a` too, and `a/.git`.
pub(super) fn repository(config: &Config, url: &str) -> String {
    let url = absolute(config, url);
    let parsed = RemoteUrl::parse(&url).ok();
    let local = parsed.as_ref().and_then(RemoteUrl::local_path).map(|path| path.to_string_lossy());
    let nameless = parsed.as_ref().map(RemoteUrl::to_string);
    let name = local.as_deref().or(nameless.as_deref()).unwrap_or(&url).trim_end_matches('/');
    let name = name.strip_suffix("/.git").or_else(|| name.strip_suffix(".git")).unwrap_or(name);
    name.trim_end_matches('/').to_owned()
}

/// How much of a source's tree is read.
pub fn tree_limits(source: &SourceConfig) -> Limits {
    Limits { file: source.max_file.0, tree: source.max_tree.0, ..Limits::default() }
}

/// What of the source has to be signed.
pub fn verify(source: &SourceConfig) -> Option<Verify> {
    let verify = source.verify.as_ref()?;
    Some(Verify { keys: verify.keys.clone(), history: verify.history, clock: Arc::new(SystemClock) })
}

/// What the source may show to its server; secrets are read anew for each connection.
fn credentials(source: &SourceConfig, secrets: &Arc<HostSecrets>) -> Credentials {
    let secret = |reference: &SecretRef| {
        let (secrets, reference) = (secrets.clone(), reference.clone());
        SecretSource::new(move || {
            let secret = secrets.reveal(&reference)?;
            Ok(Zeroizing::new(secret.reveal_str()?.to_string()))
        })
    };
    let ssh = match &source.ssh_key {
        Some(path) => {
            SshKey::File { path: path.clone(), passphrase: source.ssh_passphrase.as_ref().map(secret) }
        }
        None => SshKey::Agent,
    };
    Credentials {
        username: source.username.as_deref().map(String::from),
        token: source.token.as_ref().map(secret),
        ssh: Some(ssh),
    }
}

/// A relative local url is relative to the configuration file.
fn absolute(config: &Config, url: &str) -> String {
    if url.contains(':') {
        return url.to_string();
    }
    let path = beside(Some(Path::new(&*config.file.path)), Path::new(url));
    path.to_string_lossy().into_owned()
}

/// A commit as it is named where there may be no doubt about which is meant.
///
/// Errors: it is not written with all of its digits.
pub(crate) fn oid(text: &str) -> Result<Oid, Failure> {
    text.parse()
        .map_err(|_| Failure::hinted(format!("`{text}` is no commit id"), "write all 40 hexadecimal digits"))
}

/// Polls a source and opens the tree to look at. Blocks.
///
/// When the remote cannot be asked, or offers what is refused or cannot be listed, the revision in force is looked at instead and
/// the snapshot says why. One that a backup says is in force is not: that is an error.
pub(super) fn poll(
    mirrors: &Mirrors,
    config: &Config,
    source: &SourceConfig,
    secrets: &Arc<HostSecrets>,
    known: &Known,
) -> Result<Snapshot, Failure> {
    let mirror = mirrors.get(config, source, secrets)?;
    let in_force = known.in_force.as_deref().map(oid).transpose()?;
    let accept = known.accept_rewind.as_deref().map(oid).transpose()?;
    let polled = match in_force {
        Some(in_force) if known.is_local => mirror.commit(in_force).map(Polled::Unchanged),
        _ => mirror.poll_since(in_force, accept, known.wished.unwrap_or_else(Instant::now)),
    };
    let (mut commit, mut signer, mut behind) = match (polled, in_force) {
        (Ok(Polled::Unchanged(commit)), _) => (commit, None, None),
        (Ok(Polled::Changed { to, signer, .. }), _) => (to, signer, None),
        (Err(error), Some(_)) if known.is_restored => {
            return Err(
                SourceError::Restored { name: source.name.to_string(), cause: Box::new(error) }.into()
            );
        }
        (Err(error), Some(in_force)) => match mirror.commit(in_force) {
            Ok(commit) => (commit, None, Some(Arc::new(error))),
            // A mirror that was lost does not get it back where the history was rewritten: the poll says what to do.
            Err(SourceError::CommitNotFound { .. }) => return Err(error.into()),
            Err(damaged) => return Err(damaged.into()),
        },
        (Err(error), None) => {
            let (name, cause) = (source.name.to_string(), Box::new(error));
            return Err(SourceError::NothingInForce { name, since: None, cause }.into());
        }
    };
    if let Some(rev) = &known.rev {
        commit = mirror.resolve(rev)?;
        // The mirror also has what was refused.
        signer = mirror.judge(in_force, commit.oid)?;
    }
    // What cannot be listed may declare anything: it is looked at as little as what cannot be had.
    let stays = in_force.filter(|in_force| {
        known.rev.is_none() && !known.is_restored && behind.is_none() && *in_force != commit.oid
    });
    let snapshot = match (at(&mirror, source, commit.clone()), stays) {
        (Err(error), Some(in_force)) => {
            let Ok(good) = mirror.commit(in_force) else { return Err(error.into()) };
            commit = good;
            (signer, behind) = (None, Some(Arc::new(error)));
            at(&mirror, source, commit.clone())?
        }
        (listed, _) => listed?,
    };
    // A commit consents when it comes into force, not for as long as it is.
    // One that was in force before what is now does not consent again.
    let was_before = match in_force {
        Some(in_force) if in_force == commit.oid => true,
        Some(in_force) => match mirror.descends(commit.oid, in_force) {
            // What is in force is nowhere any more: that this one never was cannot be told.
            Err(SourceError::CommitNotFound { .. }) => true,
            told => told?,
        },
        None => false,
    };
    let is_new = !was_before && behind.is_none();
    let approves = match is_new && source.approve.contains(&Approver::Trailer) {
        true => approves(&source.name, &commit),
        false => Vec::new(),
    };
    let offered = match known.is_alone || known.rev.is_some() {
        true => Ok(None),
        false => offered(&mirror, source, in_force, commit.oid),
    };
    // What was offered last and cannot be read may declare anything.
    let (newest, unread) = match offered {
        Ok(newest) => (newest.map(Box::new), None),
        Err(error) => (None, Some(Arc::new(error))),
    };
    let (prunes, behind) = (unread.is_none(), behind.or(unread));
    let is_named = known.rev.is_some();
    Ok(Snapshot { prunes, approves, signer, behind, newest, is_named, ..snapshot })
}

/// What was offered last, where that is not `looked_at` and is signed as it has to be.
fn offered(
    mirror: &Mirror,
    source: &SourceConfig,
    in_force: Option<Oid>,
    looked_at: Oid,
) -> Result<Option<Snapshot>, SourceError> {
    let newest = mirror.accepted()?.filter(|newest| newest.oid != looked_at);
    match newest {
        Some(newest) if mirror.still_accepts(in_force, newest.oid)? => at(mirror, source, newest).map(Some),
        _ => Ok(None),
    }
}

/// A commit with its files. Other files of the repository may be read by name (variables), so the whole tree is listed.
fn at(mirror: &Mirror, source: &SourceConfig, commit: CommitInfo) -> Result<Snapshot, SourceError> {
    let tree = mirror.tree_at(commit.oid, &Paths::all())?;
    Ok(Snapshot {
        revision: commit.oid.to_string().into(),
        label: commit.short().into(),
        commit: Some(commit),
        ..files(Box::new(tree), Some(source))
    })
}

/// The digests that the trailers of `commit` name. Only a whole one is bound to one plan: there may be no hold yet
/// that a few digits could mean.
fn approves(source: &str, commit: &CommitInfo) -> Vec<Hash> {
    let mut digests = Vec::new();
    for said in &commit.approves {
        match Hash::from_hex(&said.to_lowercase()) {
            Some(digest) => digests.push(digest),
            None => tracing::warn!(
                source,
                commit = commit.short(),
                "trailer {APPROVE} has no whole digest and approves nothing"
            ),
        }
    }
    digests
}

/// What the digits of a commit mean in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// No commit that is here.
    Nothing,
    /// The commit that was asked about.
    It,
    /// One that it descends from.
    Earlier,
    /// Another one.
    Other,
    /// One of several.
    Several(Vec<String>),
}

/// What `digits` mean beside `commit`. Blocks.
pub(super) fn called(
    mirrors: &Mirrors,
    config: &Config,
    source: &SourceConfig,
    secrets: &Arc<HostSecrets>,
    digits: &str,
    commit: &str,
) -> Result<Called, Failure> {
    let mirror = mirrors.get(config, source, secrets)?;
    let commit = oid(commit)?;
    Ok(match mirror.called(digits)?[..] {
        [] => Called::Nothing,
        [found] if found == commit => Called::It,
        [found] if mirror.descends(found, commit)? => Called::Earlier,
        [_] => Called::Other,
        ref several => Called::Several(several.iter().map(ToString::to_string).collect()),
    })
}

/// How `reference` of the repository at `directory` stands to a commit.
pub async fn reach(directory: &str, reference: &str, commit: &str) -> Result<Reach, Failure> {
    let (directory, reference, commit) = (PathBuf::from(directory), reference.to_owned(), oid(commit)?);
    blocking(move || Ok(Reach::of(&directory, &reference, commit)?)).await
}

/// What a source says of a commit that was pushed to `reference` of its repository at `directory`, as its next poll will; what is in
/// force was judged when it came.
///
/// Errors: it is not signed as the source wants; keys or commits cannot be read.
pub async fn judge_pushed(
    source: &SourceConfig,
    directory: &str,
    reference: &str,
    in_force: Option<&str>,
    commit: &str,
) -> Result<(), Failure> {
    let (in_force, commit) = (in_force.map(oid).transpose()?, oid(commit)?);
    let Some(verify) = verify(source).filter(|_| in_force != Some(commit)) else { return Ok(()) };
    let (name, directory, reference) = (source.name.clone(), PathBuf::from(directory), reference.to_owned());
    blocking(move || {
        let objects = pushed_objects(&directory, &reference, in_force, commit, verify.history)?;
        verify.judge(&name, &objects)?;
        Ok(())
    })
    .await
}

/// The files of a commit that the mirror has. Blocks.
pub(super) fn tree_at(
    mirrors: &Mirrors,
    config: &Config,
    source: &SourceConfig,
    secrets: &Arc<HostSecrets>,
    commit: &str,
) -> Result<CommitTree, Failure> {
    Ok(mirrors.get(config, source, secrets)?.tree_at(oid(commit)?, &Paths::all())?)
}

/// Files that were read already, in place of a source.
///
/// Named after a configured source it is that source, and prunes; without a name nothing is pruned.
pub(super) fn files(tree: Box<dyn Tree>, name: Option<&SourceConfig>) -> Snapshot {
    Snapshot {
        name: name.map_or_else(|| Arc::from(FOLDER), |s| s.name.clone()),
        revision: "".into(),
        label: "dir".into(),
        commit: None,
        tree,
        prunes: name.is_some(),
        rules: name.map(SourceRules::from).unwrap_or_default(),
        approves: Vec::new(),
        signer: None,
        behind: None,
        newest: None,
        is_named: false,
        awaits: None,
    }
}

/// A tree as the manifest loader reads it.
pub struct TreeFiles<'a> {
    tree: &'a dyn Tree,
    contents: Box<dyn Contents + 'a>,
    failed: RefCell<Option<SourceError>>,
}

impl<'a> TreeFiles<'a> {
    /// Reads `tree`.
    pub fn new(tree: &'a dyn Tree) -> Self {
        Self { tree, contents: tree.contents(), failed: RefCell::default() }
    }

    /// Why a file that is there could not be read, if that was so. What was loaded then is not what the tree declares.
    pub fn into_failure(self) -> Option<SourceError> {
        self.failed.into_inner()
    }
}

impl Files for TreeFiles<'_> {
    fn entries(&self) -> Vec<(Arc<str>, [u8; 20])> {
        self.tree.entries().iter().map(|entry| (entry.path.clone(), *entry.oid.as_bytes())).collect()
    }
    fn read(&self, path: &str) -> Result<Bytes, Box<Problem>> {
        let missing = || Box::new(Problem::error("no such file in this revision").in_file(path));
        let entry = self.tree.find(path).ok_or_else(missing)?;
        self.contents.read(entry).map_err(|error| {
            let problem = Problem::error(error.to_string()).in_file(path).hint(error.hint());
            self.failed.borrow_mut().get_or_insert(error);
            Box::new(problem)
        })
    }
    fn refused(&self) -> Vec<Problem> {
        let told = |refused: &crate::source::Refused| {
            Problem::error(refused.reason.to_string()).in_file(&refused.path)
        };
        self.tree.refused().iter().map(told).collect()
    }
}

/// Runs what blocks (git) away from the tasks.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::plain(format!("reading a source panicked: {error}"))),
    }
}
