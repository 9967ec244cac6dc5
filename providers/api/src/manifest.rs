//! What users write: one document with `apiVersion`, `kind`, `metadata` and `spec`.

use crate::{
    error::Error,
    name::{ManifestKey, Origin, ResourceId, Scope},
    policy::{Policy, PolicyId},
    problem::{Place, Problem},
    secret::{SecretMark, SecretRef},
    spec::{Reference, Resource},
    yaml::{Node, SourceFile, Span},
};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One manifest, envelope parsed, `spec` still a tree.
///
/// Variables and host values in the spec are substituted; references whose value is not known are
/// [`crate::yaml::ScalarKind::Unknown`] scalars.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Index in the desired set.
    pub index: u32,
    /// Identity.
    pub key: ManifestKey,
    /// Value of `apiVersion`.
    pub api_version: Arc<str>,
    /// Value of `kind`.
    pub kind: Arc<str>,
    /// Value of `metadata.name`.
    pub name: Arc<str>,
    /// Value of `metadata.labels`.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Value of `metadata.annotations`.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Entries it names (`spec.provider`, `spec.providers`, `reconciled/provider`); none means "whoever is right".
    pub providers: Option<Arc<[Arc<str>]>>,
    /// What its annotations say about treatment.
    pub policy: Policy,
    /// The file it is in.
    pub file: Arc<SourceFile>,
    /// Where the document begins.
    pub span: Span,
    /// Content of `spec`.
    pub spec: Node,
}

impl Manifest {
    /// Decodes `spec` as a `T`, with every problem at its place.
    ///
    /// Beside an error the value lacks what is wrong: it serves to find more problems, and nothing of a file with
    /// an error is applied.
    pub fn spec<T: DeserializeOwned>(&self) -> (Option<T>, Vec<Problem>) {
        self.spec.decode_all(&self.file)
    }
    /// Where something in this manifest was declared.
    pub fn origin(&self, span: Span) -> Origin {
        Origin { manifest: self.index, line: span.line }
    }
    /// An error at `span` of this manifest's file.
    pub fn error(&self, span: Span, message: impl Into<String>) -> Problem {
        Problem::error(message).at(&self.file, span)
    }
    /// True when this manifest names `entry`, or names none and `entry` is the only one that knows its kind.
    pub fn is_for(&self, entry: &str, is_sole: bool) -> bool {
        match &self.providers {
            Some(names) => names.iter().any(|name| &**name == entry),
            None => is_sole,
        }
    }
}

/// A value that another resource puts out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// It is there.
    Known(Arc<str>),
    /// It will be known after apply.
    Unknown,
}

/// All that a manifest may look at besides itself. Each use is recorded: it is the cache key.
pub trait Inputs {
    /// Name of the entry that normalizes.
    fn entry(&self) -> &str;
    /// True when no other entry knows the manifest's kind.
    fn is_sole(&self) -> bool;
    /// Another file of the repository.
    fn blob(&self, path: &str) -> Result<Bytes, Error>;
    /// The mark of a secret that the manifest may name.
    fn secret(&self, reference: &SecretRef) -> Result<SecretMark, Error>;
    /// The mark of a secret that `other`, a sibling, names and may name: what this manifest refers to may have secrets that it
    /// must not name itself.
    fn secret_of(&self, other: &Manifest, reference: &SecretRef) -> Result<SecretMark, Error>;
    /// An output of another resource.
    fn output(&self, reference: &Reference) -> Value;
    /// The scopes that manifests of any source declare, at any entry: what belongs to the longest of them must not go to
    /// a shorter one that is another entry's.
    fn scopes(&self) -> &BTreeSet<Scope>;
    /// The names of the entries that are configured on this host; none where no host is at hand, or it is not known.
    fn entries(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }
    /// True where the manifests of one source are checked without those beside it: what none of them declares may be declared
    /// by another source.
    fn is_apart(&self) -> bool {
        false
    }
    /// False where something that declares manifests could not be read: what none of them declares may be declared there, and
    /// [`Normalized::is_unsure`] says so in place of an error.
    fn is_all_read(&self) -> bool {
        true
    }
    /// True where what could not be read, or is in error, may be a manifest of `kind`, as in `dns/Zone`, that declares a scope of this
    /// name at some entry: what would belong there must not go to another scope meanwhile.
    fn may_hide(&self, _kind: &str, _name: &str) -> bool {
        !self.is_all_read()
    }
    /// The manifests of `kind` in any source of which nothing is made here: they are for other hosts, for entries that are not
    /// configured here, or in error. What contributes to a scope that these alone declare goes with it, see
    /// [`Normalized::absent`].
    fn absent(&self, _kind: &str) -> Vec<&Manifest> {
        Vec::new()
    }
    /// The other manifests of `kind` in the same source.
    fn siblings(&self, kind: &str) -> Vec<&Manifest>;
    /// The manifests of `kind` in the other sources that may manage `scope`, in the order of the configuration: what one of them
    /// says of a scope that it declares counts for what this manifest contributes to it.
    fn beside(&self, _kind: &str, _scope: &Scope) -> Vec<&Manifest> {
        Vec::new()
    }
    /// Whether a selector of hosts, as `reconciled/hosts` has it, is for this host. Where no host is at hand every one is.
    ///
    /// Errors: it is no selector.
    fn selects(&self, _selector: &str) -> Result<bool, Error> {
        Ok(true)
    }
    /// Interns a policy that differs from the manifest's own.
    fn policy(&self, policy: Policy) -> PolicyId;
}

/// What a manifest came to.
#[derive(Clone, Debug, Default)]
pub struct Normalized {
    /// Its resources, canonical.
    pub resources: Vec<Resource>,
    /// Where resources are declared that stand in another file than the manifest, one that it includes. Their origin
    /// is the line that includes it.
    pub places: BTreeMap<(Arc<Scope>, ResourceId), Place>,
    /// Scopes in which everything undeclared shall go (`exclusive: true`).
    pub exclusive: Vec<Scope>,
    /// Rules about what others manage in a scope, in the words of the provider: what they name is neither pruned nor
    /// listed as foreign. The provider reads them in [`Observer::left_alone`](crate::Observer::left_alone).
    pub ignored: Vec<(Scope, Arc<str>)>,
    /// What the remote calls a resource, where the manifest says so (`reconciled/import`): two resources of an entry that
    /// are called the same would be one, written by both.
    pub remotes: Vec<(Arc<Scope>, ResourceId, Arc<str>)>,
    /// What of this host a resource has for itself, such as a directory: two at one place would overwrite each other, whatever their
    /// entries.
    pub on_host: Vec<(Arc<Scope>, ResourceId, Arc<str>)>,
    /// Resources that it declares for other hosts ([`Inputs::selects`]): what is tracked of them goes, as the guard counts what is no
    /// longer meant for a host.
    pub unselected: Vec<(Arc<Scope>, ResourceId)>,
    /// Scopes to which it contributes and that only an absent manifest declares, with that ([`Inputs::absent`]): what is tracked
    /// of it there fares as what that one tracked. It is no problem of this one.
    pub absent: Vec<(Scope, ManifestKey)>,
    /// Resources that it declares, and of which it is not known in which scope ([`Inputs::may_hide`]), with each that may be, or what
    /// they shall be, for the problems they have: none of them is made, and what is tracked of them stays as it is.
    pub unsettled: Vec<(Arc<Scope>, ResourceId)>,
    /// What is wrong with it; one bad record is one problem, the others stand.
    pub problems: Vec<Problem>,
    /// It belongs to the entry, also where nothing comes of it: what it contributes to is declared.
    pub is_taken: bool,
    /// What it contributes to may be declared where nothing can be read ([`Inputs::is_all_read`]): nothing is made of it, and what
    /// it declared stays as it is.
    pub is_unsure: bool,
}
