//! The two traits. `plan` holds an [`Observer`], a type without `apply`; [`Provider`] adds the call that writes.

use crate::{
    apply::{Batch, Claim, Journal},
    context::Cx,
    diff::{Delta, Deltas},
    error::Error,
    kind::Kinds,
    lint::{Around, Finding, Linted},
    manifest::{Inputs, Manifest, Normalized},
    name::{ResourceId, Scope},
    observe::{
        Ending, Fact, Found, Health, Hint, LeftAlone, Observation, Observed, RemoteNames, Tracked, Unwell,
        Version, Want,
    },
    secret::Sealed,
    spec::Resource,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// What the guard counts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardDomain {
    /// Each scope on its own: a DNS zone.
    Scope,
    /// All scopes of the entry together: a host, a Terraform entry.
    Provider,
    /// All scopes of the entry together as well. But each has a remote of its own: it is run by itself, and that it fails, or
    /// takes long, says nothing of the others and keeps none of them back. Certificates.
    Apart,
}

/// What the remote does against a write that was planned from an old view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// It refuses: compare-and-swap, preconditions.
    Native,
    /// Nothing, but asking for the version right before the write is cheap.
    Probe,
    /// Nothing.
    None,
}

/// Who gives a resource its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The key says it all: creating twice is creating once.
    Deterministic,
    /// The remote assigns it.
    Assigned {
        /// The remote honours a client token: the same token twice is one resource.
        client_token: bool,
    },
}

/// How ownership can be written at the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// On the resource itself: a comment, a label, a tag.
    Native,
    /// In a resource beside it: a TXT record.
    Companion,
    /// Nowhere: only the inventory knows.
    InventoryOnly,
}

/// Static facts of a provider; capabilities select the conformance tests and generate the docs.
#[derive(Clone, Debug)]
pub struct ProviderInfo {
    /// Value of `type` in the host configuration.
    pub type_name: &'static str,
    /// Kinds it knows without asking anyone.
    pub static_kinds: &'static [&'static str],
    /// What the guard counts over.
    pub guard: GuardDomain,
    /// Protection against stale writes.
    pub fencing: Fencing,
    /// Who assigns identity.
    pub identity: Identity,
    /// How ownership is written.
    pub marking: Marking,
    /// It can list what nobody asked for, so foreign resources are seen.
    pub lists: bool,
    /// An observation of a whole scope does not depend on what is desired: it may be made before that is known, and used
    /// again while the version stands.
    pub reads_ahead: bool,
    /// [`Observer::versions`] tells which of many scopes are not there, by fewer calls than to read each takes: a scope of which
    /// nothing is remembered is not read where it says [`Version::Absent`].
    pub lists_scopes: bool,
    /// A batch takes effect wholly or not at all.
    pub atomic_batch: bool,
    /// Scopes that are read at once, and those that are written at once besides, whoever asks for it.
    pub concurrency: usize,
    /// How long a write may stay unseen by reads.
    pub consistency_window: Duration,
    /// How long an `apply` may take before it is given up for lost.
    pub apply_limit: Duration,
    /// Longest wait until a creation, or a step of one, that failed again and again is tried once more. A remote that counts
    /// or bills what it is asked to make wants more than [`ProviderInfo::BACKOFF`].
    pub create_backoff: Duration,
    /// Raised when `normalize` gives other bytes for the same manifest; tells `upgrade` from `commit`.
    pub normalizer: u32,
}

impl ProviderInfo {
    /// Longest wait after anything else that failed.
    pub const BACKOFF: Duration = Duration::from_secs(300);

    /// True when a resource can be found though nobody remembers it: by its key, by a mark, or in a list.
    ///
    /// Where it is false (Terraform), only [`Tracked::remote`](crate::Tracked::remote) or
    /// [`Tracked::private`](crate::Tracked::private) leads to it, and adopting needs the remote's id from a person.
    pub fn finds_untracked(&self) -> bool {
        self.lists || self.identity == Identity::Deterministic || self.marking != Marking::InventoryOnly
    }
}

/// A resource that we share with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// All values, ours and theirs.
    pub resource: Resource,
    /// Which of them are ours: kept in [`Tracked::private`], also of the intent, so that a crash between write
    /// and answer does not make our values theirs.
    pub ours: Sealed,
}

/// How a person wants something made anew this once, in the words of what is declared. Default: as declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// By this one of those it may be had from.
    pub issuer: Option<String>,
    /// Proven in this way.
    pub solver: Option<String>,
}

/// A place that resources take: a DNS name, for CNAME ↔ A.
///
/// ```
/// use reconciled_provider::Slot;
/// let (a, txt) = (Slot { name: "www".into(), alone: false }, Slot { name: "www".into(), alone: false });
/// let cname = Slot { name: "www".into(), alone: true };
/// assert!(cname.clashes_with(&a) && a.clashes_with(&cname) && !a.clashes_with(&txt));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Name of the place.
    pub name: Arc<str>,
    /// This resource tolerates no other in its place (RFC 1034 §3.6.2: a CNAME).
    pub alone: bool,
}

impl Slot {
    /// True when the two cannot both exist.
    pub fn clashes_with(&self, other: &Slot) -> bool {
        self.name == other.name && (self.alone || other.alone)
    }
    /// The slots that clash with this one, for look-ups.
    pub fn clashing(&self) -> impl Iterator<Item = Slot> + '_ {
        let all = [true, false].into_iter().filter(|alone| *alone || self.alone);
        all.map(|alone| Slot { name: self.name.clone(), alone })
    }
}

/// Everything that reads.
///
/// Laws, checked by the conformance suite:
/// - `normalize(export(normalize(x))) == normalize(x)`, and `export(observe())` plans nothing;
/// - a desired id that exists remotely is in the observation, tracked or not, where
///   [`ProviderInfo::finds_untracked`] says so;
/// - where [`ProviderInfo::reads_ahead`] says so, an observation of a whole scope does not depend on what is desired;
/// - an error is never an empty list: what could not be read is an `Err` or `complete: false`.
///
/// `docs/writing-a-provider.md` builds one from nothing.
#[async_trait]
pub trait Observer: Send + Sync + fmt::Debug {
    /// Static facts. No I/O.
    fn info(&self) -> &ProviderInfo;

    /// The kinds this entry knows; may ask the remote for a schema.
    async fn kinds(&self, cx: &Cx) -> Result<Arc<Kinds>, Error>;

    /// Turns a manifest into canonical resources. Pure; takes only what is its own.
    fn normalize(&self, kinds: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized;

    /// What can be said of everything that is declared in one scope, whoever declares it: what can never work, and what
    /// is bad practice. Pure, and linear.
    fn lint(&self, _scope: &Scope, _declared: &[Linted<'_>], _around: Around<'_>) -> Vec<Finding> {
        Vec::new()
    }

    /// Change tokens of many scopes in as few calls as possible. A scope left out is unknown.
    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error>;

    /// Says that these scopes are looked at one after the other until what is returned is dropped: what they have in common need
    /// be looked at but once in that time, and never before it. Default: each look is by itself. Waits for nothing.
    fn sweep(&self, _cx: &Cx, _scopes: &[Scope]) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// Reads a scope. Never writes.
    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error>;

    /// How `observed` differs from `desired`, or nothing. Pure.
    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta>;

    /// Deltas of all desired resources that exist and differ. May read, never writes; usually
    /// [`crate::diff_by_compare`].
    ///
    /// A remote that plans by itself also plans what does not exist yet: that delta comes with the create. An
    /// error inside is about this one resource and its content. What keeps the remote from answering at all is the
    /// error of the call, or nobody tries again.
    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error>;

    /// Whether a resource that is neither declared nor claimed is left to others. `rules` are those of its scope
    /// ([`Normalized::ignored`]), `seen` is all that was observed there with it. Pure.
    fn left_alone(
        &self,
        _scope: &Scope,
        _rules: &[Arc<str>],
        _observed: &Observed,
        _seen: &Observation,
    ) -> Option<LeftAlone> {
        None
    }

    /// The resource that all others of a scope are in, as a zone: it is deleted only where nothing is in it that
    /// is not to be deleted as well. Default: none is.
    fn holder(&self, _: &Scope) -> Option<ResourceId> {
        None
    }

    /// What its ids are names in, whatever scope they are in and whatever entry has that, such as `dns`: what is declared in
    /// another scope than before goes from the old one once it is there in the new one, or the name would mean nothing
    /// meanwhile. Default: each scope has names of its own. No I/O.
    fn shared_names(&self) -> Option<&'static str> {
        None
    }

    /// True where nobody sees what `other` has by this id as long as `scope` is there, as a server that has a zone and one within it
    /// answers from the inner one: what was declared in `scope` and is declared in `other` now stays in `scope`, or its name would
    /// mean nothing. `scope` is of this entry, `other` of any: where that is another entry, it counts only where `other`
    /// [sends there](Observer::sends). Asked only where names are [shared](Observer::shared_names). Default: no scope hides another. Pure.
    fn hides(&self, _scope: &Scope, _other: &Scope, _id: &ResourceId) -> bool {
        false
    }

    /// True where `id` of `other` sends whoever asks `other` for what is in `scope` to somebody else, as the NS records of a delegation
    /// do: `scope` is asked for it then, at whatever entry it is. Asked as [`hides`](Observer::hides). Default: nothing does. Pure.
    fn sends(&self, _scope: &Scope, _other: &Scope, _id: &ResourceId) -> bool {
        false
    }

    /// What the configuration of the entry says of where a scope is, without credentials: the address of a server, a directory.
    /// What is tracked was made there. Once the entry says something else, what has the same name may be somebody else's, and is
    /// not changed on the word of the inventory alone. No I/O.
    ///
    /// Default: nothing says it, or what is kept of each resource does.
    fn points_at(&self, _scope: &Scope) -> Option<String> {
        None
    }

    /// True when it heeds [`Policy::interval`](crate::Policy::interval), by versions that stand by themselves
    /// ([`Version::until`]); elsewhere an interval is an error. No I/O.
    fn heeds_interval(&self) -> bool {
        false
    }

    /// True for what is only read and never made: what its manifest depends on comes first, or the read would not find what
    /// that makes. No I/O.
    fn only_reads(&self, _id: &ResourceId) -> bool {
        false
    }

    /// True where `apply` can take our mark away from `id` and leave all else as it is, which is what it does with an
    /// [`Op::Update`](crate::Op::Update) whose delta [`leaves`](Delta::leaves) it to others. `desired` is then what was
    /// observed. Asked only of what was seen to be [`Owner::Ours`](crate::Owner::Ours). No I/O.
    ///
    /// Default: a mark stays on what is abandoned.
    fn takes_marks_away(&self, _id: &ResourceId) -> bool {
        false
    }

    /// What is left in `seen` of `id`, which is not there itself any more: our mark, where that stands beside what it is of. It is
    /// deleted when the inventory lets go of `id`, or it would say later of what somebody else puts there that it is ours. Asked
    /// only where all of the scope was seen. No I/O.
    ///
    /// Default: a mark is a part of what it is of.
    fn remains<'s>(&self, _scope: &Scope, _id: &ResourceId, _seen: &'s Observation) -> Option<&'s Observed> {
        None
    }

    /// True where a mark of ours may stay in the scope when the inventory forgets `id`, which is not there any more: one that
    /// [`remains`](Observer::remains) does not tell of, or that may not be deleted. The engine then remembers that `id` was let go of, so that
    /// such a mark gives away nothing that somebody else puts there. Asked only where all of the scope was seen. No I/O.
    ///
    /// Default: a mark is a part of what it is of.
    fn leaves_mark(&self, _scope: &Scope, _id: &ResourceId, _seen: &Observation) -> bool {
        false
    }

    /// True where whoever marked `observed` writes all of it, and takes out what others put beside its values: then consent is
    /// needed to share it ([`Policy::merge`](crate::Policy::merge)), and that takes it over. Asked only of what is
    /// [`Owner::Other`](crate::Owner::Other). Pure.
    ///
    /// Default: whoever shares it leaves the values of others alone.
    fn is_owned_whole(&self, _observed: &Observed) -> bool {
        false
    }

    /// What [`Observed::identity`] was when a resource was last seen, as far as that is remembered: for what need not be looked
    /// at. Pure.
    fn identity(&self, _tracked: &Tracked) -> Option<Arc<str>> {
        None
    }

    /// What the remote calls a resource, from what is to be given back with it: by this what [`Observer::discover`] found is known
    /// to be what is tracked. Default: nothing but its key. Pure.
    fn remote_names(&self, _id: &ResourceId, _private: &Sealed) -> RemoteNames {
        RemoteNames::default()
    }

    /// What the remote calls those that were in the place of a resource before it and are to be deleted yet, from what is to be
    /// given back with it: one of them that is another resource by now is not deleted. Default: there are none. Pure.
    fn former_names(&self, _id: &ResourceId, _private: &Sealed) -> Vec<RemoteNames> {
        Vec::new()
    }

    /// True when [`Observer::health`] ever says anything; else it is never called. No I/O.
    fn tells_health(&self) -> bool {
        false
    }

    /// Says before each [`Observer::health`] what did not do its work as far as is remembered, sorted by id: for who remembers
    /// the rest in the process alone, and asks little by little. No I/O.
    fn was_unwell(&self, _scope: &Scope, _unwell: &[Unwell]) {}

    /// Health, on its own clock: a list that was skipped must not freeze health. Of what is left out, nothing is known
    /// to be wrong.
    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error>;

    /// What else a person may want to know of a scope, asked for anew each time.
    async fn facts(&self, _cx: &Cx, _scope: &Scope) -> Result<Vec<Fact>, Error> {
        Ok(Vec::new())
    }

    /// What of a scope ends at a time that is known: for metrics, and to tell persons in time. Asks no remote.
    async fn endings(&self, _cx: &Cx, _scope: &Scope) -> Result<Vec<Ending>, Error> {
        Ok(Vec::new())
    }

    /// What exists, for import. `query` names a scope, in the words of this provider.
    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error>;

    /// Manifests (YAML documents) that declare what was found. Where what stands for the scope itself was taken
    /// out of it, they contribute to a scope that is declared elsewhere.
    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error>;

    /// What of it they do not declare, because no manifest can, each in words.
    fn undeclarable(&self, _found: &Found) -> Vec<String> {
        Vec::new()
    }

    /// The part of an address that names `id` within its manifest: `www/A`. None: the manifest as a whole.
    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>>;

    /// True when that is `part`. It is asked of everything that is tracked: worth an answer that does not make the text.
    fn is_part(&self, scope: &Scope, id: &ResourceId, part: Option<&str>) -> bool {
        self.part(scope, id).as_deref() == part
    }

    /// The place that `id` takes, where resources can be in each other's way: a delete comes before the create
    /// that takes its place, and both together are a change, not a loss. None: no such thing.
    fn slot(&self, id: &ResourceId) -> Option<Slot>;

    /// The guard word a change of `id` needs consent for, whatever the counts: `zone-delete`, `apex-ns`.
    /// Words ending in `-delete` hold only deletions.
    fn guard_word(&self, scope: &Scope, id: &ResourceId) -> Option<&'static str>;

    /// Scopes that writes of this process gave a reason to look at again, each told once: for who looks until nothing is due,
    /// and does not listen to [`Observer::hints`], which tell the same. No I/O.
    fn woken(&self) -> BTreeSet<Scope> {
        BTreeSet::new()
    }

    /// Canonical bytes as fields and values a person can read, for plans.
    fn show(&self, id: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)>;

    /// The content of `desired` with what is at `ignored` paths ([`Policy::ignore`](crate::Policy::ignore), `*` for all of it)
    /// as it was observed: that is compared and written in its place, so that a write leaves alone what nobody asked to have
    /// changed. Asked only where [`Observer::compare`] tells of such a path. Pure.
    ///
    /// What [`Observer::diff`] then still tells of such a path is no reason to write; where there is another one, the plan shows
    /// it, and it is overwritten. So it is with what cannot be left while the rest is written, such as the names in a
    /// certificate. A remote whose `diff` heeds by itself what is ignored gives the content of `desired`.
    ///
    /// Errors: it cannot be left as it is, and must not be overwritten either, as a content that may not be read. Nothing is
    /// written then, and a person is told.
    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error>;

    /// Which scope and resource carry a claim. Default: none does.
    fn place(&self, claim: &Claim, _scopes: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        let (entry, kind) = (&claim.provider, &claim.kind);
        Err(Error::unsupported(format!("provider `{entry}` carries no claim of kind `{kind}`")))
    }

    /// The scopes that would carry a claim in place of `scope`, or where there is none, were they declared: the kind of manifest that
    /// declares one (`dns/Zone`) and its name, the next best first. While such a manifest may be where nothing can be read, nothing new is
    /// claimed. Default: there are none.
    fn would_carry(&self, _claim: &Claim, _scope: Option<&Scope>) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Unites values that are ours (declared and claimed) with those of others in one resource.
    ///
    /// `tracked.private` tells which of the seen values were ours: what an earlier call returned as
    /// [`Merged::ours`]. None: nothing is left, the resource can go. Default: each resource has one author.
    fn merge(
        &self,
        _declared: &[&Resource],
        _seen: Option<&Observed>,
        _tracked: Option<&Tracked>,
        _claims: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        Err(Error::unsupported("what is managed here has one author").hint("leave `reconciled/merge` out"))
    }

    /// Changes the remote tells of by itself. [`no_hints`] where it does not.
    fn hints(&self) -> BoxStream<'static, Hint>;
}

/// Adds the one call that writes.
#[async_trait]
pub trait Provider: Observer {
    /// Carries out `batch` in order.
    ///
    /// - Every action is `started` before its call and `finished` after its answer.
    /// - Idempotent: an action that already took effect finishes as `Done`.
    /// - Cancel-safe: a process killed at any instant leaves nothing that the next `observe` cannot see.
    /// - Fenced: returns `Conflict`, having written nothing, when `batch.base` is stale.
    /// - Checks `cx.stop` between calls; the engine never drops a running `apply`.
    ///
    /// Errors: what kept the batch as a whole from going on. Actions without an outcome had no effect unless
    /// they were `started`.
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error>;

    /// Says whether [`Provider::renew`] makes sense for `id`. Changes nothing, so that a person who asks for several is told
    /// before the first one is made anew.
    ///
    /// Errors: `Unsupported`, as of `renew`.
    async fn can_renew(&self, _cx: &Cx, scope: &Scope, id: &ResourceId, _way: &Renewal) -> Result<(), Error> {
        Err(cannot_renew(scope, id))
    }

    /// A person wants `id` made anew although it is as declared. Durable when this returns, and done by the next pass,
    /// which then observes a difference.
    ///
    /// Errors: `Unsupported` where that makes no sense, as for everything that is the same afterwards.
    async fn renew(&self, _cx: &Cx, scope: &Scope, id: &ResourceId, _way: &Renewal) -> Result<(), Error> {
        Err(cannot_renew(scope, id))
    }
}

fn cannot_renew(scope: &Scope, id: &ResourceId) -> Error {
    Error::unsupported(format!("{id} of {scope} cannot be renewed"))
        .hint("certificates can; what is not as declared is put right by: reconciled sync; without a daemon: reconciled apply")
}

/// The hints of a remote that tells nothing by itself: a stream that has ended.
///
/// ```
/// use futures_core::Stream;
/// assert_eq!(reconciled_provider::no_hints().size_hint(), (0, Some(0)));
/// ```
pub fn no_hints() -> BoxStream<'static, Hint> {
    struct Ended;
    impl futures_core::Stream for Ended {
        type Item = Hint;
        fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Hint>> {
            Poll::Ready(None)
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (0, Some(0))
        }
    }
    Box::pin(Ended)
}
