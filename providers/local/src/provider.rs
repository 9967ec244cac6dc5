//! The provider: `type: host`.

use crate::{
    Config, apply, compare,
    export::export,
    hands::{Change, Hands, Here},
    kind,
    normalize::{self, FILES},
    observe::{self, Target},
    path::FilePath,
    state::{self, Shape},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::{BoxStream, Stream};
use reconciled_provider::{
    Batch, Claim, Cx, Delta, Deltas, Error, Fencing, Finding, Focus, Found, GuardDomain, Health, Hint,
    Identity, Inputs, Journal, Kinds, LeftAlone, Linted, Manifest, Marking, Merged, Normalized, Observation,
    Observed, Observer, Provider, ProviderInfo, Resource, ResourceId, Scope, Slot, Tracked, Version, Want,
    diff_by_compare,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "host",
    static_kinds: &[kind::FILE, kind::DIRECTORY],
    guard: GuardDomain::Provider,
    fencing: Fencing::None,
    identity: Identity::Deterministic,
    marking: Marking::InventoryOnly,
    lists: false,
    atomic_batch: false,
    concurrency: 1,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(300),
    normalizer: 1,
};

/// Prepares an entry called `entry` that works in this process. Touches nothing.
///
/// Errors: `Invalid` when the configuration cannot work.
pub fn open(entry: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    let config = Arc::new(config);
    with_hands(entry, config.clone(), Arc::new(Here::new(config)))
}

/// Prepares an entry whose work other hands do.
///
/// Errors: as [`open`].
pub fn with_hands(
    entry: &str,
    config: Arc<Config>,
    hands: Arc<dyn Hands>,
) -> Result<Arc<dyn Provider>, Error> {
    config.validate()?;
    Ok(Arc::new(Host { entry: entry.into(), config, hands, kinds: Arc::new(kind::kinds()) }))
}

/// An entry that normalizes whatever could be right on some host, for checking manifests where nothing is configured.
pub fn sample(entry: &str) -> Arc<dyn Observer> {
    let config = Arc::new(Config::anywhere());
    let hands = Arc::new(Here::new(config.clone()));
    Arc::new(Host { entry: entry.into(), config, hands, kinds: Arc::new(kind::kinds()) })
}

#[derive(Debug)]
struct Host {
    entry: Arc<str>,
    config: Arc<Config>,
    hands: Arc<dyn Hands>,
    kinds: Arc<Kinds>,
}

#[async_trait]
impl Observer for Host {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(self.kinds.clone())
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        normalize::normalize(&self.config, manifest, inputs)
    }

    fn lint(&self, _: &Scope, declared: &[Linted<'_>], _: bool) -> Vec<Finding> {
        lint(declared)
    }

    async fn versions(&self, _: &Cx, _: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        Ok(BTreeMap::new())
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        observe::observe(&*self.hands, cx, want).await
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        compare::compare(desired, observed)
    }

    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = diff_by_compare(|desired, observed| self.compare(desired, observed), want, seen);
        for desired in want.desired {
            let Some(observed) = seen.get(&desired.id) else { continue };
            if let Some(error) = compare::refused(desired, observed) {
                deltas.insert(desired.id.clone(), Err(error));
            }
        }
        Ok(deltas)
    }

    fn left_alone(&self, rules: &[Arc<str>], observed: &Observed) -> Option<LeftAlone> {
        // What nobody declares goes from purged directories alone.
        let path = FilePath::parse(&observed.id.0).ok();
        let is_purged = path.is_some_and(|path| rules.iter().any(|rule| path.below(rule).is_some()));
        (!is_purged).then_some(LeftAlone::Custom)
    }

    async fn health(&self, _: &Cx, _: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        Ok(Vec::new())
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let scope = Scope::new(self.entry.clone(), FILES);
        let found = match query {
            FILES => self.hands.list_all().await?,
            path => {
                let path = FilePath::parse(path).map_err(|why| {
                    Error::invalid(format!("`{path}` {why}")).hint(format!(
                        "write a path such as /etc/nginx, or `{FILES}` for all that may be managed"
                    ))
                })?;
                let mut found = self.hands.look(std::slice::from_ref(&path)).await?;
                found.extend(self.hands.list(&path).await?);
                found
            }
        };
        let target = |path: &FilePath| Target { id: path.as_str().into(), desired: None, tracked: None };
        let resources = found.iter().filter_map(|seen| observe::observed(cx, &target(&seen.path), seen));
        let mut resources: Vec<Observed> = resources.collect();
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(vec![Found { scope, resources }])
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        Ok(export(&self.entry, found))
    }

    fn part(&self, _: &Scope, _: &ResourceId) -> Option<Arc<str>> {
        None
    }

    fn slot(&self, id: &ResourceId) -> Option<Slot> {
        // Blocks share a file; whoever has the file as a whole shares it with nobody.
        let (path, block) = state::parts(id);
        Some(Slot { name: path.into(), alone: block.is_none() })
    }

    fn guard_word(&self, _: &Scope, _: &ResourceId) -> Option<&'static str> {
        None
    }

    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        Shape::decode(bytes).map(|shape| shape.show()).unwrap_or_default()
    }

    fn place(&self, claim: &Claim, _: &BTreeSet<Scope>) -> Result<(Scope, ResourceId), Error> {
        Err(Error::unsupported(format!("a host carries no claim of kind `{}`", claim.kind)))
    }

    fn merge(
        &self,
        _: &[&Resource],
        _: Option<&Observed>,
        _: Option<&Tracked>,
        _: &[Claim],
    ) -> Result<Option<Merged>, Error> {
        Err(Error::unsupported("a file has one author")
            .hint("leave `reconciled/merge` out; `block: NAME` manages a part of a file"))
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        Box::pin(Hints { scope: Scope::new(self.entry.clone(), FILES), changes: self.hands.changes() })
    }
}

#[async_trait]
impl Provider for Host {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        apply::apply(&*self.hands, cx, batch, journal).await
    }
}

/// Changes of files as hints for their scope.
struct Hints {
    scope: Scope,
    changes: BoxStream<'static, Vec<Change>>,
}

impl Stream for Hints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        let changes = ready!(self.changes.as_mut().poll_next(cx));
        let focus = |change: &Change| match change {
            // Which blocks a file has is known to who looks: a focus on the path means the file as a whole.
            Change::At(path) => Focus::Only([ResourceId::from(path.as_str())].into()),
            Change::Anywhere => Focus::All,
        };
        let focus = changes.map(|changes| {
            let nothing = Focus::Only([].into());
            changes.iter().map(focus).fold(nothing, |all, one| all.union(&one))
        });
        Poll::Ready(focus.map(|focus| Hint { scope: self.scope.clone(), focus }))
    }
}

/// What can never be: something as a whole and a block of it, or something below what is no directory.
fn lint(declared: &[Linted<'_>]) -> Vec<Finding> {
    let paths: BTreeMap<&str, usize> = declared
        .iter()
        .enumerate()
        .filter_map(|(index, linted)| match state::parts(&linted.resource.id) {
            (path, None) => Some((path, index)),
            (_, Some(_)) => None,
        })
        .collect();
    let is_directory = |index: usize| {
        let bytes = declared[index].resource.spec.bytes();
        matches!(bytes.and_then(Shape::decode), None | Some(Shape::Directory(_)))
    };
    let mut findings = Vec::new();
    let mut clash = |index: usize, other: usize, message: String, hint: &str| {
        findings.push(Finding {
            index,
            other: Some(other),
            rule: "path-clash",
            is_error: true,
            message,
            hint: Some(hint.into()),
        });
    };
    for (index, linted) in declared.iter().enumerate() {
        let (path, block) = state::parts(&linted.resource.id);
        if let (Some(name), Some(whole)) = (block, paths.get(path)) {
            let message = format!("block `{name}` is in {path}, which is declared as a whole");
            clash(index, *whole, message, "declare the file as blocks, or put the lines into its content");
        }
        let mut above = path;
        while let Some((parent, _)) = above.rsplit_once('/') {
            above = parent;
            if let Some(other) = paths.get(parent).filter(|other| !is_directory(**other)) {
                let message = format!("{path} is below {parent}, which is declared and no directory");
                clash(index, *other, message, "declare it with kind: Directory, or elsewhere");
            }
        }
    }
    findings
}
