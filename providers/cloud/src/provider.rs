//! The provider: `type: terraform`.

use crate::{
    Config, apply,
    find::{From, Program},
    host::Host,
    kept::Kept,
    kind,
    lifecycle::Lifecycle,
    normalize,
    normalize::Declared,
    observe, plan,
    schema::canonical,
    takeover,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use reconciled_provider::{
    Batch, Claim, Cx, Delta, Deltas, Error, Fencing, FieldChange, Found, GuardDomain, Health, Hint, Identity,
    Inputs, Journal, Kinds, Manifest, Marking, Merged, Normalized, Observation, Observed, Observer, Provider,
    ProviderInfo, RemoteNames, Resource, ResourceId, Scope, Sealed, Shown, Slot, Tracked, Version, Want,
    no_hints,
};
use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "terraform",
    static_kinds: &[kind::RESOURCE, kind::DATA],
    guard: GuardDomain::Provider,
    fencing: Fencing::None,
    identity: Identity::Assigned { client_token: false },
    marking: Marking::InventoryOnly,
    lists: false,
    reads_ahead: false,
    lists_scopes: false,
    atomic_batch: false,
    // As many as Terraform does at once.
    concurrency: 10,
    // Providers wait until what they made can be read, and not always long enough: IAM takes most of a minute.
    consistency_window: Duration::from_secs(60),
    apply_limit: apply::LIMIT,
    // What a quota refuses is refused in a minute too, and some of it is billed.
    create_backoff: Duration::from_secs(1_800),
    normalizer: 1,
};

/// Prepares an entry called `entry`. Starts nothing, and does not even look for its program: that it is missing concerns
/// nobody else, and is told when it is needed.
///
/// Errors: `Invalid` when `path`, `mirror` or `sandbox` is no absolute path.
pub fn open(entry: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    let named = match &config.program {
        Program::At(path) => Some(("path", path, "the provider's program")),
        Program::Wanted(wanted) => match &wanted.from {
            From::Mirror(path) => Some(("mirror", path, "the folder of the mirror")),
            From::Registry(_) => None,
        },
    };
    let sandbox = config.sandbox.as_ref().map(|path| ("sandbox", path, "the socket of the unit"));
    if let Some((key, path, what)) = named.into_iter().chain(sandbox).find(|(_, path, _)| !path.is_absolute())
    {
        let error = Error::invalid(format!("`{key}: {}` is no absolute path", path.display()));
        return Err(error.hint(format!("write the whole path of {what}")));
    }
    let info = ProviderInfo { consistency_window: config.settle, ..INFO };
    Ok(Arc::new(Terraform { host: Some(Host::new(entry, config)), entry: entry.into(), info }))
}

/// An entry without a program, for checking manifests where nothing is configured: it knows the form of
/// `terraform/v1 Resource` alone.
pub fn sample(entry: &str) -> Arc<dyn Observer> {
    Arc::new(Terraform { host: None, entry: entry.into(), info: INFO })
}

#[derive(Debug)]
struct Terraform {
    host: Option<Host>,
    entry: Arc<str>,
    info: ProviderInfo,
}

impl Terraform {
    fn host(&self) -> Result<&Host, Error> {
        self.host.as_ref().ok_or_else(|| Error::unsupported(format!("`{}` has no program", self.entry)))
    }

    /// What a resource that is remembered is called.
    fn names(&self, id: &ResourceId, kept: &Kept) -> RemoteNames {
        let type_name = kind::type_in(id);
        let of = self.host.as_ref().and_then(Host::known).and_then(|known| known.resource(type_name).ok());
        kept.remote_names(type_name, of.as_ref().map(|of| &of.schema.block))
    }

    /// True where the attribute, or a part of it, is a secret, as far as the schema was read.
    fn is_secret(&self, id: &ResourceId, name: &str) -> bool {
        let Some(catalog) = self.host.as_ref().and_then(Host::known) else { return true };
        let of = match kind::data_in(id) {
            Some(name) => catalog.data_source(name),
            None => catalog.resource(kind::type_in(id)),
        };
        let Ok(of) = of else { return true };
        let block = &of.schema.block;
        let attribute = block.attributes.get(name).map(|attribute| attribute.has_secret());
        attribute.or_else(|| block.blocks.get(name).map(|nested| nested.block.has_secret())).unwrap_or(true)
    }

    fn side(&self, id: &ResourceId, name: &str, value: Option<&Json>) -> Shown {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Shown::Absent };
        if self.is_secret(id, name) || value.get("$mark").is_some() {
            return Shown::Sensitive;
        }
        Shown::Text(match canonical::shown(value) {
            Json::String(text) => text,
            other => other.to_string(),
        })
    }
}

#[async_trait]
impl Observer for Terraform {
    fn info(&self) -> &ProviderInfo {
        &self.info
    }

    async fn kinds(&self, cx: &Cx) -> Result<Arc<Kinds>, Error> {
        let Some(host) = &self.host else { return Ok(Arc::new(kind::static_kinds())) };
        let catalog = host.catalog(cx).await?;
        // A mistake in `config` is told at once, and not with the first resource.
        host.said(&catalog)?;
        Ok(Arc::new(kind::kinds(&catalog, &host.config.source)))
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        let catalog = self.host.as_ref().and_then(Host::known).map(|catalog| &**catalog);
        let mark = self.host.as_ref().and_then(|host| host.config.mark.as_ref());
        normalize::normalize(catalog, mark, manifest, inputs)
    }

    async fn versions(&self, cx: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        // Of nothing: whether there is somebody to ask. Its schemas may be known from a time when there was.
        if let (true, Some(host)) = (scopes.is_empty(), &self.host) {
            host.may_start(cx).await?;
        }
        // Nobody tells what moved: what was seen stands for as long as no resync looks.
        let Some(host) = &self.host else { return Ok(BTreeMap::new()) };
        Ok(scopes.iter().map(|scope| (scope.clone(), host.resting(cx))).collect())
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(self.host()?, cx, want).await
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        let (after, before) = (Declared::read(desired.spec.bytes()?)?, Declared::read(&observed.bytes)?);
        let empty = serde_json::Map::new();
        let (a, b) =
            (before.config.as_object().unwrap_or(&empty), after.config.as_object().unwrap_or(&empty));
        let names: BTreeSet<&String> = b.keys().collect();
        let fields: Vec<FieldChange> = names
            .into_iter()
            .filter(|name| a.get(*name) != b.get(*name))
            .map(|name| FieldChange {
                path: name.as_str().into(),
                before: self.side(&desired.id, name, a.get(name)),
                after: self.side(&desired.id, name, b.get(name)),
            })
            .collect();
        (!fields.is_empty()).then(|| Delta { fields, ..Delta::default() })
    }

    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        plan::diff(self.host()?, cx, want, seen).await
    }

    fn heeds_interval(&self) -> bool {
        true
    }

    fn only_reads(&self, id: &ResourceId) -> bool {
        kind::data_in(id).is_some()
    }

    fn takes_marks_away(&self, _: &ResourceId) -> bool {
        self.host.as_ref().is_some_and(|host| host.config.mark.is_some())
    }

    fn identity(&self, tracked: &Tracked) -> Option<Arc<str>> {
        let kept = Kept::open(&tracked.private).ok().flatten()?;
        let identity = kept.identity.as_ref()?;
        let type_name = kind::type_in(&tracked.id);
        let of = self.host.as_ref().and_then(Host::known).and_then(|known| known.resource(type_name).ok());
        let hidden = of.map_or_else(|| kept.hidden(), |of| kept.hidden_by(&of.schema.block));
        Some(observe::identified(&hidden, type_name, identity))
    }

    fn remote_names(&self, id: &ResourceId, private: &Sealed) -> RemoteNames {
        let kept = Kept::open(private).ok().flatten();
        kept.map(|kept| self.names(id, &kept)).unwrap_or_default()
    }

    fn former_names(&self, id: &ResourceId, private: &Sealed) -> Vec<RemoteNames> {
        let kept = Kept::open(private).ok().flatten();
        let former = kept.into_iter().flat_map(|kept| kept.former);
        former.map(|former| self.names(id, &former.kept)).collect()
    }

    async fn health(&self, _: &Cx, _: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        Ok(Vec::new())
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let existing = takeover::existing::existing(self.host()?, cx, query).await?;
        let found = existing.all.into_iter().map(|one| {
            let (scope, id) = kind::place(&self.entry, &one.type_name, "", &one.name);
            let declared = Declared {
                config: one.config,
                ignore: one.ignore,
                import: Some(one.import),
                lifecycle: Lifecycle::default(),
                interval: None,
            };
            let mut observed = Observed::new(id, declared.bytes());
            observed.private = one.private;
            Found::new(scope, vec![observed])
        });
        let mut found: Vec<Found> = found.collect();
        if !existing.left_out.is_empty() {
            let scope = Scope::new(self.entry.clone(), query);
            found.push(Found { left_out: existing.left_out, ..Found::new(scope, Vec::new()) });
        }
        Ok(found)
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        let host = self.host()?;
        let catalog = host.known().ok_or_else(|| Error::unexpected("its schemas are not known yet"))?;
        let one = |resource: &Observed| {
            let declared = Declared::read(&resource.bytes)
                .ok_or_else(|| Error::unexpected(format!("{} is no declaration", resource.id)))?;
            let type_name = kind::type_in(&resource.id);
            let name = resource.id.0.split_once('.').map_or("", |(_, name)| name);
            let content = (&declared.ignore[..], &declared.config);
            let import = declared.import.as_deref();
            Ok(takeover::manifest(catalog, &self.entry, type_name, name, import, content).into())
        };
        found.resources.iter().map(one).collect()
    }

    fn part(&self, _: &Scope, _: &ResourceId) -> Option<Arc<str>> {
        None
    }

    fn slot(&self, _: &ResourceId) -> Option<Slot> {
        None
    }

    fn guard_word(&self, _: &Scope, _: &ResourceId) -> Option<&'static str> {
        None
    }

    fn show(&self, id: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        let Some(declared) = Declared::read(bytes) else { return Vec::new() };
        let fields = declared.config.as_object().cloned().unwrap_or_default();
        let shown = fields.iter().map(|(name, value)| {
            let text = match self.side(id, name, Some(value)) {
                Shown::Text(text) => text,
                Shown::Sensitive => "(secret)".into(),
                Shown::Unknown | Shown::Absent => String::new(),
            };
            (Arc::from(&**name), text)
        });
        shown.collect()
    }

    fn keep(&self, desired: &Resource, _: &Observed, _: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        // What is ignored is part of the content, and a plan asks for it as it was.
        Ok(desired.spec.so_far().unwrap_or_default().to_vec())
    }

    fn place(&self, claim: &Claim, _: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        Err(Error::unsupported(format!("a Terraform provider carries no claim of kind `{}`", claim.kind)))
    }

    fn merge(
        &self,
        _: &[&Resource],
        _: Option<&Observed>,
        _: Option<&Tracked>,
        _: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        Err(Error::unsupported("a cloud resource has one author").hint("leave `reconciled/merge` out"))
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        no_hints()
    }
}

#[async_trait]
impl Provider for Terraform {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(self.host()?, cx, batch, journal).await
    }
}
