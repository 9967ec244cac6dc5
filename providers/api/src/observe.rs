//! What is asked of a remote and what was seen there.

pub use crate::health::{Health, Unwell};

use crate::{
    claim::ClaimState,
    name::{Hash, ManifestKey, ResourceId, Scope},
    secret::Sealed,
    spec::Resource,
};
use bytes::Bytes;
use std::{fmt, sync::Arc, time::Duration};

/// A change token of a scope: while it stands, the scope has not changed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Version {
    /// The scope does not exist at the remote.
    Absent,
    /// The token: a serial, an ETag, a generation. It begins with [`UNTIL`] or [`RESTING`] only where [`Version::until`] or
    /// [`Version::resting`] made it.
    At(Bytes),
    /// The remote has no token; nothing may be concluded.
    #[default]
    Unknown,
}

/// How the token of a version begins that stands by itself.
pub const UNTIL: &[u8] = b"until ";

/// How the token of a version begins that stands until the scope is looked at for any other reason than a commit.
pub const RESTING: &[u8] = b"resting ";

impl Version {
    /// The version of a scope that need not be looked at before `time`, since the epoch: until then it stands without a
    /// question to the remote, unless somebody asks about the scope. [`Duration::MAX`]: for as long as nobody does.
    ///
    /// ```
    /// use reconciled_provider::Version;
    /// use std::time::Duration;
    /// let noon = Duration::from_secs(43_200);
    /// assert_eq!(Version::until(noon).stands_until(), Some(noon));
    /// assert_eq!(Version::until(Duration::MAX).stands_until(), Some(Duration::MAX));
    /// assert_eq!(Version::At("2026112401".into()).stands_until(), None);
    /// ```
    pub fn until(time: Duration) -> Version {
        let mut token = UNTIL.to_vec();
        if time != Duration::MAX {
            token.extend(time.as_secs().to_string().bytes());
        }
        Version::At(token.into())
    }
    /// As [`Version::until`], told at `now`: where the clock was ahead then and is put back, it stands no longer.
    ///
    /// ```
    /// use reconciled_provider::Version;
    /// use std::time::Duration;
    /// let (nine, noon) = (Duration::from_secs(32_400), Duration::from_secs(43_200));
    /// let version = Version::until_from(nine, noon);
    /// assert_eq!(version.stands_until(), Some(noon));
    /// assert!(version.stands_at(nine) && !version.stands_at(noon));
    /// assert!(!version.stands_at(nine - Duration::from_secs(1)));
    /// ```
    pub fn until_from(now: Duration, time: Duration) -> Version {
        Version::At([UNTIL, format!("{} {}", time.as_secs(), now.as_secs()).as_bytes()].concat().into())
    }
    /// The version of a scope whose remote has no token, seen in the `life` of an observer, which answers
    /// [`versions`](crate::Observer::versions) with the same: a commit that asks for nothing else there need not look at the
    /// scope again. Whoever asks about it does, and so does every resync; it says nothing about the remote.
    ///
    /// ```
    /// use reconciled_provider::Version;
    /// assert!(Version::resting("5f1c").is_resting());
    /// assert!(!Version::At("2026112401".into()).is_resting());
    /// ```
    pub fn resting(life: &str) -> Version {
        Version::At([RESTING, life.as_bytes()].concat().into())
    }
    /// True where [`Version::resting`] made it.
    pub fn is_resting(&self) -> bool {
        matches!(self, Version::At(token) if token.starts_with(RESTING))
    }
    /// True where it may stand without a word of the remote's: one of [`Version::until`] or [`Version::resting`].
    pub fn stands_unasked(&self) -> bool {
        self.is_resting() || self.stands_until().is_some()
    }
    /// Until when it stands by itself, since the epoch; none where the remote is to be asked.
    pub fn stands_until(&self) -> Option<Duration> {
        self.stands().map(|(_, until)| until)
    }
    /// True where it stands by itself at `now`.
    pub fn stands_at(&self, now: Duration) -> bool {
        self.stands().is_some_and(|(from, until)| from <= now && now < until)
    }
    /// From when on, and until when, it stands by itself.
    fn stands(&self) -> Option<(Duration, Duration)> {
        let Version::At(token) = self else { return None };
        let text = std::str::from_utf8(token.strip_prefix(UNTIL)?).ok()?;
        let seconds = |text: &str| text.parse().ok().map(Duration::from_secs);
        match text.split_once(' ') {
            None if text.is_empty() => Some((Duration::ZERO, Duration::MAX)),
            None => Some((Duration::ZERO, seconds(text)?)),
            Some((until, from)) => Some((seconds(from)?, seconds(until)?)),
        }
    }
}

/// How much of a scope is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Focus {
    /// All of it. Only this can prune.
    All,
    /// These resources.
    Only(Arc<[ResourceId]>),
}

impl Focus {
    /// True when `id` is meant.
    pub fn covers(&self, id: &ResourceId) -> bool {
        match self {
            Focus::All => true,
            Focus::Only(ids) => ids.contains(id),
        }
    }
    /// Both together: `Only ∪ Only`, and `All` absorbs.
    ///
    /// ```
    /// use reconciled_provider::{Focus, ResourceId};
    /// let one = |id: &str| Focus::Only([ResourceId::from(id)].into());
    /// assert_eq!(one("a").union(&Focus::All), Focus::All);
    /// assert!(one("a").union(&one("b")).covers(&"b".into()));
    /// ```
    pub fn union(&self, other: &Focus) -> Focus {
        let (Focus::Only(a), Focus::Only(b)) = (self, other) else { return Focus::All };
        let mut ids: Vec<_> = a.iter().chain(b.iter()).cloned().collect();
        ids.sort();
        ids.dedup();
        Focus::Only(ids.into())
    }
}

/// What a read is about: where, how much, and what is known of it so far.
///
/// A remote that cannot list looks up what is `desired` or `tracked`.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// The scope.
    pub scope: &'a Scope,
    /// How much of it.
    pub focus: &'a Focus,
    /// What Git wants in this scope, focus or not.
    pub desired: &'a [Resource],
    /// What the inventory holds of this scope, focus or not.
    pub tracked: &'a [Tracked],
    /// State of the claims that resources of this scope made.
    pub claims: &'a [ClaimState],
}

/// What the inventory remembers of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Remote key.
    pub id: ResourceId,
    /// Identifier the remote assigned, where the key is not enough.
    pub remote: Option<Arc<str>>,
    /// What the provider wants back next time.
    pub private: Sealed,
    /// Hash of the content last applied and verified.
    pub applied: Hash,
    /// Manifests that this resource depends on: kept, because at delete time its own manifest is gone.
    pub after: Arc<[ManifestKey]>,
    /// Outputs others may refer to, as a JSON object; what of them is a secret stands in [`secret_output`](crate::secret_output).
    pub outputs: Sealed,
}

impl Tracked {
    /// A tracked resource with content `applied` and nothing else to remember.
    pub fn new(id: ResourceId, applied: Hash) -> Tracked {
        Tracked {
            id,
            remote: None,
            private: Sealed::default(),
            applied,
            after: Arc::default(),
            outputs: Sealed::default(),
        }
    }
}

/// Who marked a resource as theirs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Owner {
    /// Nobody.
    #[default]
    Unmarked,
    /// This instance.
    Ours,
    /// Another instance, or another tool such as `externaldns/OWNER`.
    Other(Arc<str>),
    /// The remote itself (a zone's SOA): never counted as foreign, never deleted unless declared.
    System,
}

/// Why a resource that nobody declares is left to others, whatever else is said of its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// A rule of the scope names it: it is not even listed.
    Ignored,
    /// It comes and goes by itself, such as an ACME challenge, or something that is not managed here needs it: listed,
    /// never pruned.
    Custom,
    /// It is of the scope itself, such as the SOA of a zone: it comes and goes with that, and never alone.
    OfScope,
}

/// What a remote calls a resource, as hashes: it may hold a secret, and is compared without being shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteNames {
    /// Of what tells it from all others, as [`Observed::identity`] is.
    pub identity: Option<Hash>,
    /// Of the identifier that the remote assigned, within its type.
    pub remote: Option<Hash>,
}

impl RemoteNames {
    /// True when both are of one thing, by the first that both have; none where they have nothing in common.
    ///
    /// ```
    /// use reconciled_provider::{Hash, RemoteNames};
    /// let (one, other) = (Some(Hash::of(b"1")), Some(Hash::of(b"2")));
    /// let known = RemoteNames { identity: None, remote: one };
    /// assert_eq!(known.is(&RemoteNames { identity: other, remote: one }), Some(true));
    /// assert_eq!(known.is(&RemoteNames { identity: other, remote: None }), None);
    /// ```
    pub fn is(&self, other: &RemoteNames) -> Option<bool> {
        let both = |one: Option<Hash>, other: Option<Hash>| Some(one? == other?);
        both(self.identity, other.identity).or_else(|| both(self.remote, other.remote))
    }
}

/// One resource as the remote reports it, in the canonical form of [`crate::Spec`].
#[derive(Clone, PartialEq)]
pub struct Observed {
    /// Remote key.
    pub id: ResourceId,
    /// Canonical bytes.
    pub bytes: Arc<[u8]>,
    /// Hash of `bytes`.
    pub hash: Hash,
    /// Who marked it.
    pub owner: Owner,
    /// Health, where reading says so anyway.
    pub health: Option<Box<Health>>,
    /// Outputs others may refer to, as a JSON object; they replace the remembered ones. Empty: this read does not
    /// tell. What of them is a secret stands in [`secret_output`](crate::secret_output).
    pub outputs: Sealed,
    /// Identifier the remote assigned.
    pub remote: Option<Arc<str>>,
    /// What tells it from everything else that its entry can reach, where the remote says so and the key does not. Two resources
    /// of one entry with one identity are one thing: neither is written before a person says whose it is.
    pub identity: Option<Arc<str>>,
    /// What the provider wants back in `apply`.
    pub private: Sealed,
    /// What is private of it says more than what is tracked: it is remembered although the resource is as declared. Only of
    /// what is known for certain to be the one that is tracked.
    pub has_news: bool,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Observed { id, bytes, hash, owner, health, outputs, remote, identity, private, has_news } = self;
        // As text: a secret would be found by nobody in a list of numbers.
        let bytes = Bytes::copy_from_slice(bytes);
        f.debug_struct("Observed")
            .field("id", id)
            .field("bytes", &bytes)
            .field("hash", hash)
            .field("owner", owner)
            .field("health", health)
            .field("outputs", outputs)
            .field("remote", remote)
            .field("identity", identity)
            .field("private", private)
            .field("has_news", has_news)
            .finish()
    }
}

impl Observed {
    /// An unmarked resource with content `bytes`.
    pub fn new(id: ResourceId, bytes: impl AsRef<[u8]>) -> Observed {
        let bytes = bytes.as_ref();
        Observed::hashed(id, bytes.into(), Hash::of(bytes))
    }
    /// As [`Observed::new`], where the hash of `bytes` is known: what is as declared shares both with its
    /// [`Spec`](crate::Spec).
    pub fn hashed(id: ResourceId, bytes: Arc<[u8]>, hash: Hash) -> Observed {
        Observed {
            id,
            hash,
            bytes,
            owner: Owner::Unmarked,
            health: None,
            outputs: Sealed::default(),
            remote: None,
            identity: None,
            private: Sealed::default(),
            has_news: false,
        }
    }
}

/// What one `observe` saw.
///
/// Law: a desired id that exists remotely is in `resources`, tracked or not, unless only the inventory knows how
/// to find it ([`ProviderInfo::finds_untracked`](crate::ProviderInfo::finds_untracked)).
///
/// Invariant: nothing is deleted on the word of an observation that is not `complete` or covers a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// How much was looked at; at least what was asked for.
    pub covered: Focus,
    /// True when everything covered was seen.
    pub complete: bool,
    /// Change token of the whole scope at the time of the read.
    pub version: Version,
    /// What exists, sorted by id.
    pub resources: Vec<Observed>,
}

impl Observation {
    /// The resource `id`, found by binary search.
    pub fn get(&self, id: &ResourceId) -> Option<&Observed> {
        let index = self.resources.binary_search_by(|o| o.id.cmp(id)).ok()?;
        self.resources.get(index)
    }
}

/// Something changed: which scope, and where known which resources, to look at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The scope.
    pub scope: Scope,
    /// How much of it.
    pub focus: Focus,
}

/// Something to know of a scope that no resource says, such as the serial at one of its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is about.
    pub name: String,
    /// What is so, in a few words.
    pub value: String,
}

/// Something that ends at a time that is known, and is made anew before: a certificate.
///
/// ```
/// use reconciled_provider::Ending;
/// use std::time::Duration;
/// let at = |day: u64| Duration::from_secs(day * 86_400);
/// let ending = Ending { id: "web".into(), at: at(90), renewed_at: at(60), served: Vec::new() };
/// assert_eq!(ending.late_at(), at(75));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The resource.
    pub id: ResourceId,
    /// When it ends, since the epoch.
    pub at: Duration,
    /// When it is made anew, since the epoch.
    pub renewed_at: Duration,
    /// What services show of it, as far as they were asked lately and have answered.
    pub served: Vec<Served>,
}

/// What a service shows where it should show a resource that ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where: `127.0.0.1:443`.
    pub address: Arc<str>,
    /// It is the resource as it is now, not an older one or one of somebody else.
    pub is_current: bool,
    /// When that ends which it shows, since the epoch.
    pub until: Duration,
}

impl Ending {
    /// When a person should know that it was not made anew: half of the time that is left then.
    pub fn late_at(&self) -> Duration {
        self.renewed_at + self.at.saturating_sub(self.renewed_at) / 2
    }
}

/// What `discover` found in one scope, for import.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The scope.
    pub scope: Scope,
    /// What exists in it.
    pub resources: Vec<Observed>,
    /// What exists too and cannot be declared, with the reason, in words.
    pub left_out: Vec<String>,
}

impl Found {
    /// `resources` of `scope`, which is all there is.
    pub fn new(scope: Scope, resources: Vec<Observed>) -> Found {
        Found { scope, resources, left_out: Vec::new() }
    }
}
