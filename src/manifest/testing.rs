//! A folder in memory, a fake entry, and short ways to load with them.
//!
//! The fake knows `test/v1 Thing`, which declares a scope and resources, and `test/v1 Part`, which contributes
//! to a scope that a Thing declares.

use super::{
    Ailing, Cache, EntryView, Files, Loaded, Output, Outputs, Owners, Request, SecretMarks, SourceRequest,
    SourceRules, load,
};
use crate::{
    config::{Allow, Host, Wanted},
    sops::Refused,
};
use bytes::Bytes;
use reconciled_provider::{
    At, Claim, Cx, Delta, Deltas, Each, Error, Fencing, Found, GuardDomain, Hash, Health, Hint, Identity,
    Inputs, Kind, Kinds, Manifest, ManifestKey, Marking, Normalized, Observation, Observed, Observer, Policy,
    Problem, ProviderInfo, Reference, Resource, ResourceId, Scope, Secret, SecretMark, SecretRef, Slot, Spec,
    Tracked, Version, Want, no_hints,
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Files by path; the id of a file is the hash of its content.
#[derive(Clone, Default)]
pub(crate) struct Folder {
    files: BTreeMap<Arc<str>, Bytes>,
    pub(crate) refused: Vec<Problem>,
    /// Nothing can be read of it any more.
    pub(crate) is_lost: bool,
}

pub(crate) fn folder(files: &[(&str, &str)]) -> Folder {
    let files = files.iter().map(|(path, text)| (Arc::from(*path), Bytes::from(text.to_string()))).collect();
    Folder { files, ..Folder::default() }
}

impl Files for Folder {
    fn entries(&self) -> Vec<(Arc<str>, [u8; 20])> {
        let id = |bytes: &Bytes| {
            let mut id = [0; 20];
            id[..16].copy_from_slice(&Hash::of(bytes).0);
            id
        };
        self.files.iter().map(|(path, bytes)| (path.clone(), id(bytes))).collect()
    }
    fn read(&self, path: &str) -> Result<Bytes, Box<Problem>> {
        let found = self.files.get(path).filter(|_| !self.is_lost).cloned();
        found.ok_or_else(|| Box::new(Problem::error("no such file").in_file(path)))
    }
    fn refused(&self) -> Vec<Problem> {
        self.refused.clone()
    }
}

#[derive(Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "provider is read by the loader")]
pub(crate) struct ThingSpec {
    /// Entry that manages it.
    provider: Option<String>,
    #[serde(default)]
    #[schemars(skip)]
    providers: Vec<String>,
    /// Name of the scope.
    zone: Option<String>,
    /// Also delete what nobody declared.
    #[serde(default)]
    exclusive: bool,
    /// What is in it.
    #[serde(default)]
    #[schemars(with = "Vec<Record>")]
    records: Each<Record>,
    /// Text that is never substituted.
    #[schemars(extend("x-reconciled-verbatim" = true))]
    content: Option<String>,
    secret: Option<String>,
    file: Option<String>,
}

/// One record.
#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Record {
    /// Name within the zone.
    name: String,
    /// Seconds.
    #[serde(default = "hour")]
    ttl: u32,
    /// Text.
    value: Option<String>,
    /// What the remote calls it.
    remote: Option<String>,
    #[serde(default)]
    merge: bool,
    #[schemars(skip)]
    hosts: Option<String>,
}

fn hour() -> u32 {
    3600
}

/// Normalizes things; counts how often it is asked.
#[derive(Debug)]
pub(crate) struct Fake {
    info: ProviderInfo,
    pub(crate) asked: AtomicUsize,
}

fn info() -> ProviderInfo {
    ProviderInfo {
        type_name: "fake",
        static_kinds: &["Thing", "Part"],
        guard: GuardDomain::Scope,
        fencing: Fencing::None,
        identity: Identity::Deterministic,
        marking: Marking::InventoryOnly,
        lists: true,
        reads_ahead: true,
        lists_scopes: false,
        atomic_batch: false,
        concurrency: 1,
        consistency_window: Default::default(),
        apply_limit: Default::default(),
        create_backoff: ProviderInfo::BACKOFF,
        normalizer: 1,
    }
}

pub(crate) fn kinds() -> Arc<Kinds> {
    Arc::new(Kinds(vec![
        Kind::of::<ThingSpec>(&["test/v1"], "Thing", "A scope with records"),
        Kind::of::<ThingSpec>(&["test/v1", "test/v1alpha1"], "Part", "Records of a scope declared elsewhere"),
    ]))
}

pub(crate) fn entry(name: &str) -> EntryView {
    EntryView {
        name: name.into(),
        observer: Arc::new(Fake { info: info(), asked: AtomicUsize::new(0) }),
        kinds: kinds(),
    }
}

#[async_trait::async_trait]
impl Observer for Fake {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }
    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut out = Normalized::default();
        let (spec, problems) = manifest.spec::<ThingSpec>();
        out.problems = problems;
        let Some(spec) = spec else { return out };
        let scope = Scope::new(inputs.entry(), spec.zone.as_deref().unwrap_or(&manifest.name));
        let is_mine = match &*manifest.kind {
            "Part" => manifest.is_for(inputs.entry(), true) && inputs.scopes().contains(&scope),
            _ => manifest.is_for(inputs.entry(), inputs.is_sole()),
        };
        if !is_mine {
            return Normalized::default();
        }
        if spec.exclusive {
            out.exclusive.push(scope.clone());
        }
        let scope = Arc::new(scope);
        let policy = inputs.policy(manifest.policy.clone());
        let mut push = |id: String, span, spec, policy| {
            let origin = manifest.origin(span);
            out.resources.push(Resource::new(id.into(), scope.clone(), spec, origin, policy));
        };
        if &*manifest.kind == "Thing" {
            push("scope".to_string(), manifest.span, Spec::known(b"scope".to_vec()), policy);
        }
        for At { span, unknown, value: record } in &*spec.records {
            match record.hosts.as_deref().map_or(Ok(true), |hosts| inputs.selects(hosts)) {
                Ok(true) => {}
                Ok(false) => {
                    out.unselected.push((scope.clone(), record.name.as_str().into()));
                    continue;
                }
                Err(error) => {
                    out.problems.push(manifest.error(*span, error.into_told().message));
                    continue;
                }
            }
            let text = format!("{} {}", record.ttl, record.value.as_deref().unwrap_or(""));
            let content = match unknown.is_empty() {
                true => Spec::known(text.into_bytes()),
                false => Spec::waiting(Hash::of(text.as_bytes()), unknown.clone()),
            };
            let policy = match record.merge {
                true => inputs.policy(Policy { merge: true, ..manifest.policy.clone() }),
                false => policy,
            };
            push(record.name.clone(), *span, content, policy);
        }
        let remotes = spec.records.iter().filter_map(|At { value: record, .. }| {
            let remote = record.remote.as_deref()?;
            Some((scope.clone(), record.name.as_str().into(), remote.into()))
        });
        out.remotes.extend(remotes);
        let mut whole =
            |id: &str, bytes: Vec<u8>| push(id.to_string(), manifest.span, Spec::known(bytes), policy);
        if let Some(content) = spec.content {
            whole("content", content.into_bytes());
        }
        let mut failures = Vec::new();
        if let Some(name) = spec.secret {
            match inputs.secret(&SecretRef::Named(name.into())) {
                Ok(mark) => whole("secret", mark.0.0.to_vec()),
                Err(error) => failures.push(error),
            }
        }
        if let Some(path) = spec.file {
            match inputs.blob(&path) {
                Ok(bytes) => whole("file", bytes.to_vec()),
                Err(error) => failures.push(error),
            }
        }
        let told = |error: Error| {
            let told = error.into_told();
            manifest.error(manifest.span, told.message).hint_if(told.hint)
        };
        out.problems.extend(failures.into_iter().map(told));
        out
    }
    fn part(&self, _: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        Some(id.0.clone())
    }
    fn holder(&self, _: &Scope) -> Option<ResourceId> {
        Some("scope".into())
    }
    fn slot(&self, _: &ResourceId) -> Option<Slot> {
        None
    }
    fn guard_word(&self, _: &Scope, _: &ResourceId) -> Option<&'static str> {
        None
    }
    fn hints(&self) -> futures_core::stream::BoxStream<'static, Hint> {
        no_hints()
    }
    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(kinds())
    }
    async fn versions(&self, _: &Cx, _: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    async fn observe(&self, _: &Cx, _: &Want<'_>) -> Result<Observation, Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    fn compare(&self, _: &Resource, _: &Observed) -> Option<Delta> {
        None
    }
    async fn diff(&self, _: &Cx, _: &Want<'_>, _: &Observation) -> Result<Deltas, Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    async fn health(&self, _: &Cx, _: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    async fn discover(&self, _: &Cx, _: &str) -> Result<Vec<Found>, Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    fn export(&self, _: &Found) -> Result<Vec<Bytes>, Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    fn show(&self, _: &ResourceId, _: &[u8]) -> Vec<(Arc<str>, String)> {
        Vec::new()
    }
    fn keep(&self, _: &Resource, _: &Observed, _: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    fn place(&self, _: &Claim, _: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        Err(Error::unsupported("the fake only normalizes"))
    }
    /// What is called `sole` has one author.
    fn merge(
        &self,
        declared: &[&Resource],
        _: Option<&Observed>,
        _: Option<&Tracked>,
        _: &[Claim],
    ) -> Result<Option<reconciled_provider::Merged>, Error> {
        match declared.iter().any(|resource| &*resource.id.0 == "sole") {
            true => Err(Error::unsupported("it has one author")),
            false => Ok(None),
        }
    }
}

/// One secret with a mark that can be changed.
pub(crate) struct OneSecret(pub(crate) u8);

impl SecretMarks for OneSecret {
    fn mark(&self, _: &str, _: &str, reference: &SecretRef) -> Result<SecretMark, Error> {
        match reference {
            SecretRef::Named(name) if &**name == "db" => Ok(SecretMark(Hash([self.0; 16]))),
            _ => Err(Error::permission_denied("no such secret")),
        }
    }
    fn sealed(&self, wanted: &Wanted<'_>, _: &[u8]) -> Result<SecretMark, Refused> {
        match wanted.key {
            "db" => Ok(SecretMark(Hash([self.0; 16]))),
            "changed" => Err(Refused::Tampered(Error::invalid("it was changed"))),
            _ => Err(Refused::Unreadable(Error::invalid("no key opens it"))),
        }
    }
    fn keys(&self, _: &str) -> Vec<Option<SecretMark>> {
        vec![Some(SecretMark(Hash([self.0; 16])))]
    }
    fn put_out(&self, secret: &Secret) -> SecretMark {
        SecretMark(Hash::of(secret.reveal()))
    }
}

/// A host with two entries, and what a test wants different.
pub(crate) struct Setup {
    pub(crate) sources: Vec<(&'static str, Folder, SourceRules)>,
    /// What sources that could not be had may touch.
    pub(crate) lacking: Vec<Allow>,
    pub(crate) entries: Vec<EntryView>,
    pub(crate) host: Host,
    pub(crate) ailing: BTreeMap<Arc<str>, Ailing>,
    pub(crate) renamed: BTreeMap<Arc<str>, Arc<str>>,
    pub(crate) secret: u8,
    pub(crate) owners: Owners,
    /// By name of the manifest and path; `secret:` before a value makes a secret of it.
    pub(crate) outputs: BTreeMap<String, &'static str>,
    /// Names of manifests that are in sync.
    pub(crate) settled: Vec<&'static str>,
}

impl Setup {
    pub(crate) fn new(files: &[(&str, &str)]) -> Setup {
        let labels = [("role".into(), "web".into()), ("env".into(), "prod".into())].into();
        Setup {
            sources: vec![("infra", folder(files), SourceRules::default())],
            lacking: Vec::new(),
            entries: vec![entry("one")],
            host: Host { name: "h1".into(), labels },
            ailing: BTreeMap::new(),
            renamed: BTreeMap::new(),
            secret: 1,
            owners: Owners::new(),
            outputs: BTreeMap::new(),
            settled: Vec::new(),
        }
    }
    pub(crate) fn rules(&mut self) -> &mut SourceRules {
        &mut self.sources[0].2
    }
    pub(crate) fn load(&self, cache: &mut Cache) -> Loaded {
        let source = |(name, files, rules): &'_ (&'static str, Folder, SourceRules)| {
            (*name, files.clone(), rules.clone())
        };
        let owned: Vec<_> = self.sources.iter().map(source).collect();
        let sources: Vec<SourceRequest<'_>> = owned
            .iter()
            .map(|(name, files, rules)| SourceRequest {
                name: (*name).into(),
                revision: "abc".into(),
                label: "abc".into(),
                files,
                prunes: true,
                rules: rules.clone(),
            })
            .collect();
        let lacking: Vec<(Arc<str>, Allow)> =
            self.lacking.iter().map(|allow| ("afar".into(), allow.clone())).collect();
        load(
            &Request {
                sources: &sources,
                lacking: &lacking,
                entries: &self.entries,
                ailing: &self.ailing,
                renamed: &self.renamed,
                known: &Kinds(kinds().0.iter().cloned().chain([other_kind()]).collect()),
                host: &self.host,
                owners: &self.owners,
                outputs: self,
                secrets: &OneSecret(self.secret),
            },
            cache,
        )
    }
    pub(crate) fn once(&self) -> Loaded {
        self.load(&mut Cache::default())
    }
}

pub(crate) fn other_kind() -> Kind {
    Kind::of::<ThingSpec>(&["other/v1"], "Other", "A kind no entry of the tests knows")
}

impl Outputs for Setup {
    fn get(&self, reference: &Reference) -> Output {
        let found = self.outputs.get(&format!("{}:{}", reference.target.name(), reference.path));
        match found.map(|text| (text, text.strip_prefix("secret:"))) {
            Some((_, Some(clear))) => Output::Secret(Secret::new(clear.as_bytes().to_vec())),
            Some((text, None)) => Output::Text((*text).into()),
            None => Output::Unknown,
        }
    }
    fn names(&self, manifest: &ManifestKey) -> Vec<String> {
        let names = self.outputs.keys().filter_map(|name| name.split_once(':'));
        names.filter(|(name, _)| *name == manifest.name()).map(|(_, path)| path.to_string()).collect()
    }
    fn is_settled(&self, manifest: &ManifestKey) -> bool {
        self.settled.iter().any(|name| *name == manifest.name())
    }
}

/// The problems of a load as a person sees them.
pub(crate) fn shown(loaded: &Loaded) -> String {
    loaded.problems.iter().map(|reported| reported.problem.to_string()).collect::<Vec<_>>().join("\n")
}

/// The desired resources, one line each: `scope id = content`.
pub(crate) fn resources(loaded: &Loaded) -> String {
    let mut lines = Vec::new();
    for (scope, list) in &loaded.desired.scopes {
        for resource in list.iter().filter(|resource| &*resource.id.0 != "scope") {
            let content = match &resource.spec {
                Spec::Known { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
                Spec::Waiting { on, .. } => format!("waits for {} {}", on[0].target, on[0].path),
            };
            lines.push(format!("{scope} {} = {content}", resource.id));
        }
    }
    lines.join("\n")
}
