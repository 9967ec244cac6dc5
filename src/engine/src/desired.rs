//! What Git wants, normalized: the output of the manifest loader and the first input of the planner.

mod edges;

pub use edges::circles;
pub(crate) use edges::{following, preceding};

use reconciled_provider::{
    Address, Drift, Hash, ManifestKey, Origin, Place, Policies, Reference, Resource, ResourceId, Scope,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// The desired state of all sources at their revisions in force.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// The sources that were read, by name.
    pub sources: BTreeMap<Arc<str>, SourceState>,
    /// Every manifest that is desired here; [`Origin::manifest`] indexes it.
    pub manifests: Vec<ManifestMeta>,
    /// The policies that resources index.
    pub policies: Policies,
    /// Desired resources by scope, sorted by id. Equal ids occur only where all of them are `merge: true`. Revisions between
    /// which nothing of a scope changed may share its list.
    pub scopes: BTreeMap<Scope, Arc<Vec<Resource>>>,
    /// Where resources stand that are declared in a file which their manifest includes, by manifest and id.
    pub places: BTreeMap<(u32, ResourceId), Place>,
    /// Scopes in which everything undeclared shall go, each with the manifests that say so.
    pub exclusive: BTreeMap<Scope, Vec<u32>>,
    /// Rules about what others manage, by scope, in the words of the provider.
    pub ignored: BTreeMap<Scope, Vec<Arc<str>>>,
    /// Resources that a person keeps at an earlier revision: `scopes` has them as they were declared then.
    pub pinned: BTreeMap<(Scope, ResourceId), Pinned>,
    /// Resources of manifests that do not count now, since something is wrong with their file or source, or their revision is not
    /// in force; each with the sources that declare it so. Somebody declares them: whoever lets go of one hands it over, and
    /// nothing of it goes.
    pub set_aside: BTreeMap<(Scope, ResourceId), BTreeSet<Arc<str>>>,
    /// Manifests that share a resource (`merge: true`) by the newest revision of their source, where that is not in force, and not by
    /// the one that is: what is ours there may be their word.
    pub shared_by_newest: BTreeMap<(Scope, ResourceId), BTreeSet<ManifestKey>>,
    /// Scopes that may be declared, and of which that is not known.
    pub hidden: Hidden,
    /// Configured sources that were not asked, as a folder stands by itself: what they have stays, and so does what is held of it and
    /// what keeps it.
    pub unasked: BTreeSet<Arc<str>>,
    /// Entries whose manifests were not read, since nobody knows what they can be: nothing of theirs goes. Its manifest may be
    /// there and wait, under whatever name it has by now.
    pub ailing: BTreeSet<Arc<str>>,
    /// Manifests that are another thing than when the commit in force came into force, and what they were then: the
    /// configuration of the host changed them, such as `vars`.
    pub reconfigured: BTreeMap<ManifestKey, Hash>,
    /// What manifests that others refer to put out when this was read.
    pub outputs: BTreeMap<ManifestKey, PutOut>,
    /// Every reference of a manifest to an output of another one.
    pub referred: BTreeSet<Reference>,
    /// References to outputs that manifests which are in sync do not have, each with what to do about it.
    pub vain: BTreeMap<Reference, Arc<str>>,
    /// The generation of each manifest when this came into force: what is planned from it writes nothing once one
    /// of them is raised. Without it each pass takes what is in force when it begins.
    pub generations: Option<Arc<BTreeMap<ManifestKey, u64>>>,
}

impl Desired {
    /// The manifest a resource comes from.
    pub fn manifest(&self, origin: Origin) -> &ManifestMeta {
        &self.manifests[origin.manifest as usize]
    }
    /// Where a resource is declared: in its manifest, or in a file that one includes.
    pub fn place(&self, resource: &Resource) -> Place {
        let Origin { manifest, line } = resource.origin;
        // Most manifests include nothing, and then no key is made.
        let included = match self.places.is_empty() {
            true => None,
            false => self.places.get(&(manifest, resource.id.clone())).cloned(),
        };
        included.unwrap_or_else(|| Place {
            file: self.manifest(resource.origin).file.clone(),
            line,
            column: 0,
        })
    }
    /// The source that declares what is in a scope, or may; none where nothing is declared and there are several.
    pub fn source_of(&self, scope: &Scope) -> Option<(&Arc<str>, &SourceState)> {
        match self.in_scope(scope).first() {
            Some(first) => self.sources.get_key_value(self.manifest(first.origin).key.source()),
            None if self.sources.len() == 1 => self.sources.first_key_value(),
            None => None,
        }
    }
    /// The manifest by which everything undeclared in a scope shall go; none where several say so.
    pub fn exclusive_by(&self, scope: &Scope) -> Option<&ManifestMeta> {
        match self.exclusive.get(scope)?[..] {
            [manifest] => self.manifests.get(manifest as usize),
            _ => None,
        }
    }
    /// The desired resources of one scope.
    pub fn in_scope(&self, scope: &Scope) -> &[Resource] {
        self.scopes.get(scope).map_or(&[], |resources| resources)
    }
    /// All that declares one resource: several where they share it.
    pub fn declaring(&self, scope: &Scope, id: &ResourceId) -> &[Resource] {
        let all = self.in_scope(scope);
        let from = all.partition_point(|resource| resource.id < *id);
        let to = from + all[from..].partition_point(|resource| resource.id == *id);
        &all[from..to]
    }
    /// The manifest by which the newest revision declares what is kept at an earlier one; none where it declares it no longer, or
    /// nothing is kept.
    pub fn newest(&self, scope: &Scope, id: &ResourceId) -> Option<&ManifestMeta> {
        // Mostly nothing is, and then no key is made.
        let pinned = (!self.pinned.is_empty()).then(|| self.pinned.get(&(scope.clone(), id.clone())))??;
        self.manifests.get(pinned.newest? as usize)
    }
    /// What must be ready before a resource: what its manifest comes after, or what it came after at the revision that it is kept at,
    /// since nothing of it needs what only newer ones wait for.
    pub fn after(&self, resource: &Resource) -> Option<&Arc<[ManifestKey]>> {
        // Mostly nothing is kept, and then no key is made.
        let pinned = match self.pinned.is_empty() {
            true => None,
            false => self.pinned.get(&((*resource.scope).clone(), resource.id.clone())),
        };
        let manifest = resource.origin.manifest;
        let then = pinned.and_then(|pinned| pinned.after.get(&manifest));
        then.or_else(|| self.manifests.get(manifest as usize).map(|manifest| &manifest.after))
    }
    /// The manifests whose resource people may call this: the one it comes from, and the [newest](Desired::newest).
    pub fn known_by(&self, scope: &Scope, resource: &Resource) -> impl Iterator<Item = &ManifestMeta> {
        [Some(self.manifest(resource.origin)), self.newest(scope, &resource.id)].into_iter().flatten()
    }
    /// The manifests that share this resource by a revision that is not in force, and not by the one that is.
    pub fn sharing_by_newest(&self, scope: &Scope, id: &ResourceId) -> impl Iterator<Item = &ManifestKey> {
        // Mostly there are none, and then no key is made.
        let found = match self.shared_by_newest.is_empty() {
            true => None,
            false => self.shared_by_newest.get(&(scope.clone(), id.clone())),
        };
        found.into_iter().flatten()
    }
    /// True when all that any source declares at an entry is known: what is not desired there is not declared.
    pub fn is_known(&self, entry: &str) -> bool {
        let is_known = |source: &SourceState| source.is_sure() && source.unassigned.is_empty();
        !self.sources.is_empty() && self.sources.values().all(is_known) && !self.ailing.contains(entry)
    }
    /// True when all that a manifest declares in a scope is known, so that what it does not declare is known too, and has not gone
    /// to a source that is behind.
    pub fn knows(&self, manifest: &ManifestKey, scope: &Scope) -> bool {
        // A declaration may have moved into a file that is broken: one broken file keeps all of the source.
        let of_source = |source: &SourceState| source.is_sure() && !source.is_elsewhere(manifest, scope);
        self.sources.get(manifest.source()).is_some_and(of_source) && !self.ailing.contains(&scope.provider)
    }
}

/// What a manifest put out when the desired state was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutOut {
    /// Tells it apart from other outputs.
    pub hash: Hash,
    /// Where the manifest declared something then, what is kept at an earlier revision included.
    pub declared_in: BTreeSet<Scope>,
}

/// How a resource is kept at an earlier revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// What people call the revision.
    pub label: Arc<str>,
    /// The manifest by which the newest revision declares it, as [`Origin::manifest`]: a commit may have moved it.
    pub newest: Option<u32>,
    /// What it comes after: what it did at that revision, for each manifest that declares it, as [`Origin::manifest`].
    pub after: BTreeMap<u32, Arc<[ManifestKey]>>,
}

/// One source at the revision that was read.
#[derive(Clone, Debug, Default)]
pub struct SourceState {
    /// Full commit id; empty for a folder.
    pub revision: Arc<str>,
    /// What people call the revision: 7 characters of the commit, or the folder.
    pub label: Arc<str>,
    /// What people call the newest revision that is known, where this one is in force in its place.
    pub newest: Option<Arc<str>>,
    /// What is no longer declared goes. False for a folder without a name, and while anything is invalid.
    pub prunes: bool,
    /// Another source of the same repository that is not known to be as far: it may declare by now what this one declares no
    /// longer.
    pub awaits: Option<Arc<str>>,
    /// Files that could not be read or are invalid, and folders of such: what they declared is frozen. The empty one is the root.
    pub broken: BTreeSet<Arc<str>>,
    /// Manifests whose provider is not configured here: what they tracked stays.
    pub unassigned: BTreeSet<ManifestKey>,
    /// Scopes that manifests contribute to and that only manifests for such providers declare: what they tracked there stays.
    pub unassigned_in: BTreeSet<(ManifestKey, Scope)>,
    /// Entries that manifests are for and that are not configured here; nameless where a manifest names none.
    pub elsewhere: BTreeSet<(ManifestKey, Arc<str>)>,
    /// Manifests whose host selector does not match here.
    pub unselected: BTreeSet<ManifestKey>,
    /// Resources whose own host selector does not match here, in manifests that are for this host.
    pub unselected_parts: BTreeSet<(Scope, ResourceId)>,
    /// Scopes that manifests contribute to and that only manifests declare whose host selector does not match here.
    pub unselected_in: BTreeSet<(ManifestKey, Scope)>,
    /// It has several paths, of which later ones lie over earlier ones.
    pub has_layers: bool,
    /// Files over which something may lie that could not be read.
    pub overlaid: BTreeSet<Arc<str>>,
    /// The configured `path` or `ignore` is not the one the revision in force was read with.
    pub path_changed: bool,
    /// Every revision needs a person's consent (`apply: approve`).
    pub needs_consent: bool,
    /// What happens on drift where the manifest does not say.
    pub drift: Option<Drift>,
    /// Where its resources may claim something for a time.
    pub reach: Reach,
}

/// Asked of the scope, the address of the resource that would carry a claim, and the group of the address.
type Asked = dyn Fn(&Scope, &Address, &str) -> bool + Send + Sync;

/// Where resources of a source may claim something for a time, such as a record that answers a challenge: what a source
/// may not declare there, it may not claim there either.
#[derive(Clone, Default)]
pub struct Reach(Option<Arc<Asked>>);

impl Reach {
    /// As far as `may` says.
    pub fn within(may: impl Fn(&Scope, &Address, &str) -> bool + Send + Sync + 'static) -> Reach {
        Reach(Some(Arc::new(may)))
    }
    /// True when a claim may be carried there. Without rules it may be anywhere.
    pub fn covers(&self, scope: &Scope, address: &Address, group: &str) -> bool {
        self.0.as_ref().is_none_or(|may| may(scope, address, group))
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Reach(by rules)" } else { "Reach(anywhere)" })
    }
}

/// Asked of an entry, a kind of manifest (`GROUP/KIND`) and the name of a scope.
type Hides = dyn Fn(&str, &str, &str) -> Option<String> + Send + Sync;

/// Asked of a source, an entry, a kind of manifest (`GROUP/KIND`) and the name of a scope.
type HasElsewhere = dyn Fn(&str, &str, &str, &str) -> Option<String> + Send + Sync;

/// Scopes that may be declared where nothing can be read, and those that only manifests in error declare: what would be claimed there
/// is claimed nowhere else meanwhile. Nor is what would be claimed in a scope that the same source declares for other hosts.
#[derive(Clone, Default)]
pub struct Hidden {
    unread: Option<Arc<Hides>>,
    elsewhere: Option<Arc<HasElsewhere>>,
}

impl Hidden {
    /// What `hides` says, as [`Hidden::by`] does.
    pub fn where_said(hides: impl Fn(&str, &str, &str) -> Option<String> + Send + Sync + 'static) -> Hidden {
        Hidden { unread: Some(Arc::new(hides)), elsewhere: None }
    }
    /// With what `has` says, as [`Hidden::for_others`] does.
    #[must_use]
    pub fn and_for_others(
        self,
        has: impl Fn(&str, &str, &str, &str) -> Option<String> + Send + Sync + 'static,
    ) -> Hidden {
        Hidden { elsewhere: Some(Arc::new(has)), ..self }
    }
    /// What has to be mended before it is known that no manifest of `kind` (`GROUP/KIND`) declares a scope of this name at the
    /// entry; none where it is known.
    pub fn by(&self, entry: &str, kind: &str, name: &str) -> Option<String> {
        self.unread.as_ref().and_then(|hides| hides(entry, kind, name))
    }
    /// The manifest of `kind` by which `source` declares a scope of this name at the entry for other hosts, and for which.
    pub fn for_others(&self, source: &str, entry: &str, kind: &str, name: &str) -> Option<String> {
        self.elsewhere.as_ref().and_then(|has| has(source, entry, kind, name))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hides = self.unread.is_some() || self.elsewhere.is_some();
        f.write_str(if hides { "Hidden(something)" } else { "Hidden(nothing)" })
    }
}

impl SourceState {
    /// True when the manifest is one for a provider that is not configured here, or may be: one of the same kind and name is,
    /// whose group is another. A group that somebody misspelt is none that anybody here can tell from a provider of
    /// another host.
    pub fn may_be_elsewhere(&self, manifest: &ManifestKey) -> bool {
        let of_manifest = manifest.within_group();
        self.unassigned.iter().any(|other| other.within_group() == of_manifest)
    }
    /// The same of what the manifest declares in one scope, which may be another provider's as a whole.
    pub fn is_elsewhere(&self, manifest: &ManifestKey, scope: &Scope) -> bool {
        self.may_be_elsewhere(manifest) || contains(&self.unassigned_in, manifest, scope)
    }
    /// True when there is a scope for which that is known of the manifest.
    pub fn is_unassigned_somewhere(&self, manifest: &ManifestKey) -> bool {
        let from = (manifest.clone(), Scope::new("", ""));
        self.unassigned_in.range(from..).next().is_some_and(|(found, _)| found == manifest)
    }
    /// True for what is declared, and not for this host.
    pub fn is_unselected(&self, manifest: &ManifestKey, scope: &Scope, id: &ResourceId) -> bool {
        let parts = &self.unselected_parts;
        self.unselected.contains(manifest)
            || contains(&self.unselected_in, manifest, scope)
            || !parts.is_empty() && parts.contains(&(scope.clone(), id.clone()))
    }
    /// True when what this file declared is frozen, and declared by another one now. Where files lie over each other what did so may
    /// have moved into any that is broken.
    pub fn is_frozen(&self, file: &str) -> bool {
        if self.has_layers && !self.broken.is_empty() {
            return true;
        }
        let below =
            |folder: &str| file.strip_prefix(folder).map(|rest| rest.is_empty() || rest.starts_with('/'));
        self.broken.iter().any(|broken| broken.is_empty() || below(broken) == Some(true))
    }
    /// True when all that the source declares is known, so that what it does not declare is known too.
    pub fn is_whole(&self) -> bool {
        self.prunes && self.broken.is_empty()
    }
    /// True when what the source does not declare is known, and has not gone to another one that is behind.
    pub fn is_sure(&self) -> bool {
        self.is_whole() && self.awaits.is_none()
    }
}

/// Hardly ever is there anything in it, so nothing is copied to look.
fn contains(set: &BTreeSet<(ManifestKey, Scope)>, manifest: &ManifestKey, scope: &Scope) -> bool {
    !set.is_empty() && set.contains(&(manifest.clone(), scope.clone()))
}

/// What tells whether the declarations of a shared resource are as they were: all of them, and nothing of what others put
/// there.
pub fn shared_template(declaring: &[Resource]) -> Hash {
    let hash = |resource: &Resource| resource.spec.hash().unwrap_or_default().0;
    let each = declaring.iter().flat_map(|resource| [resource.spec.template().0, hash(resource)]);
    Hash::of(&each.collect::<Vec<_>>().concat())
}

/// What stays of a manifest once it is normalized.
#[derive(Clone, Debug)]
pub struct ManifestMeta {
    /// Identity.
    pub key: ManifestKey,
    /// Short address for people.
    pub address: Address,
    /// File and line of the document.
    pub file: Arc<str>,
    /// Line of the document in `file`, from 1.
    pub line: u32,
    /// Hash of the document as written, for telling `commit` from `upgrade`.
    pub content: Hash,
    /// Labels, for `-l`.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Manifests that must be ready first: `depends-on`, references, waves.
    pub after: Arc<[ManifestKey]>,
    /// Where it came from, if it says so.
    pub moved_from: Option<Address>,
}

#[cfg(test)]
impl ManifestMeta {
    /// One of a file of its own that comes after others, and says nothing else.
    pub(crate) fn of_test(key: ManifestKey, after: Arc<[ManifestKey]>) -> ManifestMeta {
        let address = format!("Thing/{}", key.name()).parse().unwrap();
        let (file, content, labels) = ("a.yaml".into(), Hash::default(), BTreeMap::new());
        ManifestMeta { key, address, file, line: 1, content, labels, after, moved_from: None }
    }
}
