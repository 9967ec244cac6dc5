//! What is kept from one load to the next: envelopes by blob, normalizations by blob and inputs.
//!
//! No tree is kept. An entry is used only if everything it came from is equal: the blob, the values put in
//! the place of `${…}`, and each recorded use of other inputs.

use super::{envelope::Verbatim, parse::ParsedFile, product::Product};
use reconciled_provider::{
    Finding, Hash, Kinds, ManifestKey, Observer, Policies, Reference, Resource, Scope, SecretMark, SecretRef,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    sync::{Arc, Weak},
};

/// Results of earlier loads. Belongs to one set of sources and entries.
#[derive(Debug, Default)]
pub struct Cache {
    pub(super) files: HashMap<FileKey, CachedFile>,
    pub(super) outcomes: HashMap<OutcomeKey, Outcome>,
    pub(super) lints: HashMap<Scope, Lints>,
    pub(super) lists: HashMap<Scope, List>,
    /// Grows only: the policy ids in `outcomes` stay valid.
    pub(super) policies: Policies,
    /// The verbatim fields that envelopes were read with.
    pub(super) verbatim: Verbatim,
}

/// Source and path: problems name the path, so equal blobs elsewhere are other entries.
pub(super) type FileKey = (Arc<str>, Arc<str>);

#[derive(Clone, Debug)]
pub(super) struct CachedFile {
    pub(super) oid: [u8; 20],
    pub(super) parsed: Arc<ParsedFile>,
}

/// What was looked at, and what was seen: equal uses, equal result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Uses {
    pub(super) blobs: BTreeMap<Arc<str>, Option<[u8; 20]>>,
    /// By who names it.
    pub(super) secrets: BTreeMap<(ManifestKey, SecretRef), Option<SecretMark>>,
    pub(super) outputs: BTreeMap<Reference, Option<Arc<str>>>,
    pub(super) siblings: BTreeMap<Arc<str>, Hash>,
    /// Of other sources, by kind and scope.
    pub(super) beside: BTreeMap<(Arc<str>, Scope), Hash>,
    /// Of all sources, and of which nothing is made here.
    pub(super) absent: BTreeMap<Arc<str>, Hash>,
    /// Selectors of hosts.
    pub(super) selectors: BTreeMap<Arc<str>, bool>,
    /// Hash of the names of the entries, if they were asked for.
    pub(super) entries: Option<Hash>,
    /// Whether everything could be read, if that was asked.
    pub(super) is_all_read: Option<bool>,
    /// Whether nothing can be hidden, if that was asked, and otherwise whether this kind can be, under this name.
    pub(super) hides_nothing: Option<bool>,
    pub(super) hidden: BTreeMap<(Arc<str>, Arc<str>), bool>,
    /// Hash of the scopes, if they were asked for.
    pub(super) scopes: Option<Hash>,
}

impl Uses {
    /// The files that were looked at, with the ids of their contents.
    pub(super) fn blobs(&self) -> impl Iterator<Item = (&Arc<str>, Option<[u8; 20]>)> {
        self.blobs.iter().map(|(path, oid)| (path, *oid))
    }
    /// True when the mark of the secret with this name was asked for.
    pub(super) fn ask_for(&self, name: &str) -> bool {
        let is_named = |secret: &SecretRef| matches!(secret, SecretRef::Named(asked) if **asked == *name);
        self.secrets.keys().any(|(_, secret)| is_named(secret))
    }
    /// True when a secret could not be had.
    pub(super) fn lack_secret(&self) -> bool {
        self.secrets.values().any(Option::is_none)
    }
}

/// Source, path, number of the manifest in the file, entry.
pub(super) type OutcomeKey = (Arc<str>, Arc<str>, usize, Arc<str>);

/// What one entry made of one manifest, and from what.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) oid: [u8; 20],
    /// Hash of content and substituted values.
    pub(super) input: Hash,
    pub(super) observer: Weak<dyn Observer>,
    pub(super) normalizer: u32,
    pub(super) kinds: Weak<Kinds>,
    pub(super) is_sole: bool,
    pub(super) uses: Uses,
    /// Scopes it declares by itself, without knowing those of others.
    pub(super) scopes: Arc<BTreeSet<Scope>>,
    pub(super) product: Arc<Product>,
}

/// The resources of one scope, each declared once, and what they were made from.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) runs: Vec<Run>,
    pub(super) resources: Arc<Vec<Resource>>,
}

/// Resources of one scope that come in a row.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Held, so that no other product can come to lie at the same address.
    pub(super) product: Arc<Product>,
    pub(super) range: Range<usize>,
    /// The index of the manifest.
    pub(super) manifest: u32,
}

impl Run {
    /// True where it is all that came of its manifest, as it shall be.
    pub(super) fn is_all(&self) -> bool {
        let resources = &self.product.resources;
        let is_of_it = |resource: &Resource| resource.origin.manifest == self.manifest;
        self.range == (0..resources.len()) && resources.iter().all(is_of_it)
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        Arc::ptr_eq(&self.product, &other.product)
            && (&self.range, self.manifest) == (&other.range, other.manifest)
    }
}

/// What was said of a scope, and of what.
#[derive(Debug)]
pub(super) struct Lints {
    pub(super) observer: Arc<dyn Observer>,
    /// Held, so that no other product can come to lie at the same address.
    pub(super) products: Vec<Arc<Product>>,
    pub(super) is_exclusive: bool,
    pub(super) within: Vec<Scope>,
    pub(super) findings: Vec<Finding>,
}
