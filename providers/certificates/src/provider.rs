//! The provider: `type: certificates`.

use crate::{
    Config,
    acme::Acme,
    apply,
    aside::aside,
    calm::Memory,
    choose, compare, deliver,
    desk::{Desk, Effects, address},
    health,
    heirs::Heirs,
    kept::{Asked, Keep},
    keystore, kind, lint, normalize,
    observe::{self, Eye},
    served::Sights,
    sweep,
    watch::Watches,
    wish::Wish,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use reconciled_provider::{
    Around, Batch, Cx, Delta, Deltas, Ending, Error, Fact, Fencing, Finding, Focus, Found, GuardDomain,
    Health, Hint, Identity, Inputs, Journal, Kinds, Linted, Manifest, Marking, Normalized, Observation,
    Observed, Observer, Provider, ProviderInfo, Renewal, Resource, ResourceId, Scope, Slot, Version, Want,
    diff_by_compare,
};
use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "certificates",
    static_kinds: &[kind::ISSUER, kind::CLUSTER_ISSUER, kind::CERTIFICATE],
    guard: GuardDomain::Apart,
    fencing: Fencing::None,
    identity: Identity::Deterministic,
    marking: Marking::Companion,
    lists: false,
    reads_ahead: false,
    lists_scopes: false,
    atomic_batch: false,
    concurrency: 20,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(300),
    // An authority counts orders that fail.
    create_backoff: Duration::from_secs(1_800),
    normalizer: 1,
};

/// Prepares an entry called `entry`. Touches nothing.
///
/// Errors: `Invalid` when the configuration cannot work.
pub fn open(entry: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    config.validate()?;
    Ok(Arc::new(Certificates::new(entry, config)))
}

/// An entry that normalizes whatever could be right on some host, for checking manifests where nothing is configured.
pub fn sample(entry: &str) -> Arc<dyn Observer> {
    Arc::new(Certificates::new(entry, Config::anywhere()))
}

#[derive(Debug)]
struct Certificates {
    entry: Arc<str>,
    keep: Keep,
    acme: Acme,
    watches: Arc<Watches>,
    heirs: Heirs,
    sights: Sights,
    memory: Memory,
    config: Config,
    kinds: Arc<Kinds>,
}

impl Certificates {
    fn new(entry: &str, config: Config) -> Certificates {
        Certificates {
            entry: entry.into(),
            keep: Keep::new(entry, &config.state).formerly(&config.former).for_instance(&config.instance),
            acme: Acme::default(),
            watches: Arc::default(),
            heirs: Heirs::default(),
            sights: Sights::default(),
            memory: Memory::default(),
            config,
            kinds: Arc::new(kind::kinds()),
        }
    }
}

#[async_trait]
impl Observer for Certificates {
    fn info(&self) -> &ProviderInfo {
        &INFO
    }

    async fn kinds(&self, _: &Cx) -> Result<Arc<Kinds>, Error> {
        Ok(self.kinds.clone())
    }

    fn normalize(&self, _: &Kinds, manifest: &Manifest, inputs: &dyn Inputs) -> Normalized {
        normalize::normalize(&self.config, manifest, inputs)
    }

    fn lint(&self, _: &Scope, declared: &[Linted<'_>], _: Around<'_>) -> Vec<Finding> {
        lint::lint(declared)
    }

    /// There are none. Asked of nothing it says whether certificates can be put anywhere at all.
    async fn versions(&self, _: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        if scopes.is_empty() {
            let place = &self.config.place;
            // Where a helper has the rights, it is asked at least whether it answers.
            place.look(&[]).await?;
            for path in &self.config.paths {
                place.trust(&Path::new(path).join("NAME")).await?;
            }
        }
        Ok(BTreeMap::new())
    }

    fn sweep(&self, cx: &Cx, scopes: &[Scope]) -> Option<Box<dyn Any + Send>> {
        let Memory { sweeps, seen, .. } = &self.memory;
        let begun = sweeps.begin();
        let files = seen.files(scopes.iter().map(|scope| &*scope.name));
        if files.len() >= sweep::MANY {
            // Where there can be no thread, the pass looks at all of it.
            let _ = sweeps.look_ahead(files, self.config.place.clone(), cx.clock.clone());
        }
        Some(Box::new(begun))
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        let Certificates { keep, watches, heirs, sights, memory, .. } = self;
        let eye = Eye { keep, watches, heirs, sights, memory };
        observe::observe(&*self.config.place, cx, &eye, want).await
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        compare::compare(desired, observed)
    }

    async fn diff(&self, cx: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        let mut deltas = diff_by_compare(compare::compare, want, seen);
        let is_new =
            |id: &ResourceId| seen.get(id).is_none() && !want.tracked.iter().any(|tracked| tracked.id == *id);
        for desired in want.desired {
            let (observed, is_new) = (seen.get(&desired.id), is_new(&desired.id));
            if observed.is_some() && !deltas.contains_key(&desired.id) {
                // As declared, as nearly all are: nothing is read once more for that.
                continue;
            }
            let Some(wish) = desired.spec.bytes().and_then(Wish::decode) else { continue };
            let output = &wish.output;
            let checked = match observed.and_then(compare::taken) {
                // What a person consents to would not come about.
                Some(owner) => Err(deliver::taken(output, &owner)),
                // An order for what can be put nowhere would count at its authority.
                None if is_new => keystore::check(cx, output).and(aside(|| deliver::check_owner(output))),
                None => keystore::check(cx, output),
            };
            if let Err(error) = checked {
                deltas.insert(desired.id.clone(), Err(error));
            }
        }
        Ok(deltas)
    }

    fn tells_health(&self) -> bool {
        true
    }

    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        let Certificates { keep, watches, heirs, sights, memory, .. } = self;
        let eye = Eye { keep, watches, heirs, sights, memory };
        health::health(&self.acme, cx, &self.config, &eye, want).await
    }

    async fn facts(&self, _: &Cx, scope: &Scope) -> Result<Vec<Fact>, Error> {
        health::facts(&*self.config.place, &self.keep, &scope.name).await
    }

    async fn endings(&self, cx: &Cx, scope: &Scope) -> Result<Vec<Ending>, Error> {
        let Certificates { keep, watches, heirs, sights, memory, .. } = self;
        let ending = health::ending(cx, &Eye { keep, watches, heirs, sights, memory }, &scope.name);
        ending.map(Option::into_iter).map(Iterator::collect)
    }

    async fn discover(&self, _: &Cx, _: &str) -> Result<Vec<Found>, Error> {
        Err(Error::unsupported(format!("provider `{}` finds no certificates by itself", self.entry)).hint(
            "declare one with the directory its files are in: if they are as declared, they are adopted",
        ))
    }

    fn export(&self, _: &Found) -> Result<Vec<Bytes>, Error> {
        Ok(Vec::new())
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

    fn show(&self, _: &ResourceId, bytes: &[u8]) -> Vec<(Arc<str>, String)> {
        compare::show(bytes)
    }

    fn keep(&self, desired: &Resource, _: &Observed, _: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        // Another certificate has what is declared, or it would be another one again.
        Ok(desired.spec.bytes().unwrap_or_default().to_vec())
    }

    fn woken(&self) -> BTreeSet<Scope> {
        let scope = |name| Scope::new(self.entry.clone(), name);
        self.watches.take_woken().into_iter().map(scope).collect()
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        let entry = self.entry.clone();
        let hint = move |name: String| Hint { scope: Scope::new(entry.clone(), name), focus: Focus::All };
        Box::pin(self.watches.changes().flat_map(move |names| {
            let hints: Vec<Hint> = names.into_iter().map(&hint).collect();
            stream::iter(hints)
        }))
    }
}

#[async_trait]
impl Provider for Certificates {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        let Certificates { config, keep, acme, watches, heirs, sights, .. } = self;
        keep.settle()?;
        let effects = &Effects::default();
        let desk = Desk { cx, config, keep, acme, watches, heirs, sights, effects, claimant: None };
        apply::apply(&desk, batch, journal).await
    }

    async fn can_renew(&self, _: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        let name = &scope.name;
        match self.keep.issued(name)? {
            Some(issued) => return choose::check(name, &issued.wish, way),
            // What else it could be had from is known once it was put in place.
            None if !self.keep.is_tried(name)? => {}
            None if *way == Renewal::default() => return Ok(()),
            None => {
                return Err(Error::unsupported(format!(
                    "{id} was never issued, so nobody and no way is chosen for it"
                ))
                .hint(format!("to try at once, as it is declared: reconciled renew {}", address(name))));
            }
        }
        Err(Error::unsupported(format!("{id} was not issued here, so it cannot be renewed"))
            .hint("the next apply takes over what was adopted, and asks for what was never asked for"))
    }

    async fn renew(&self, cx: &Cx, scope: &Scope, id: &ResourceId, way: &Renewal) -> Result<(), Error> {
        self.can_renew(cx, scope, id, way).await?;
        self.keep.settle()?;
        // Whoever asks has mended what an authority refused.
        self.keep.end_waits(&scope.name)?;
        let issued = self.keep.issued(&scope.name)?;
        let fingerprint =
            issued.map_or(Ok(String::new()), |issued| issued.facts().map(|it| it.fingerprint))?;
        self.keep.put_renewal(&scope.name, &Asked::of(fingerprint, way, cx.clock.now().as_secs()))
    }
}
