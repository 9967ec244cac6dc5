//! The provider: `type: host`.

use crate::{
    Config, apply,
    balancer::{self, BALANCER},
    compare,
    cron::{self, CRON, History},
    deployment::{self, DEPLOYMENTS},
    directories,
    export::export,
    hands::{Afar, Bus, Change, Hands, Here, Manager},
    keep, kind,
    normalize::{self, FILES, LEFT_BELOW},
    observe::{self, Target},
    path::FilePath,
    state::{self, Shape},
    systemd::{self, Places, SYSTEMD},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use futures_util::stream::{self, StreamExt};
use reconciled_provider::{
    Around, Batch, Claim, Cx, Delta, Deltas, Error, Fact, Fencing, Finding, Focus, Found, GuardDomain,
    Health, Hint, Identity, Inputs, Journal, Kinds, LeftAlone, Linted, Manifest, Marking, Merged, Normalized,
    Observation, Observed, Observer, Provider, ProviderInfo, Resource, ResourceId, Scope, Slot, Tracked,
    Unwell, Version, Want, diff_by_compare,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Static facts.
pub const INFO: ProviderInfo = ProviderInfo {
    type_name: "host",
    static_kinds: &[
        kind::FILE,
        kind::DIRECTORY,
        cron::CRON_JOB,
        systemd::UNIT,
        deployment::DEPLOYMENT,
        BALANCER,
    ],
    guard: GuardDomain::Apart,
    fencing: Fencing::None,
    identity: Identity::Deterministic,
    marking: Marking::InventoryOnly,
    lists: false,
    reads_ahead: false,
    lists_scopes: false,
    atomic_batch: false,
    // Units start and stop beside each other.
    concurrency: 16,
    consistency_window: Duration::ZERO,
    apply_limit: Duration::from_secs(300),
    create_backoff: ProviderInfo::BACKOFF,
    normalizer: 3,
};

/// Prepares an entry called `entry` that works in this process, or through the helper it names. Touches nothing.
///
/// Errors: `Invalid` when the configuration cannot work.
pub fn open(entry: &str, config: Config) -> Result<Arc<dyn Provider>, Error> {
    config.validate()?;
    let config = Arc::new(config.settled()?);
    if let Some(socket) = &config.helper {
        let afar = Arc::new(Afar::new(socket));
        return with_hands(entry, config.clone(), afar.clone(), Some(afar));
    }
    // Unit files are below a directory of their own, which `paths` need not name.
    let mut reach = Config::clone(&config);
    let manager = config.bus_address().map(|address| {
        let places = config.places.clone();
        reach.paths.push(places.home().unwrap_or(places.directory()).to_owned());
        reach.paths.extend(places.control().clone());
        reach.paths.push(places.runtime().to_owned());
        Arc::new(Bus::of(&address, Some(&config.root), places)) as Arc<dyn Manager>
    });
    with_hands(entry, config, Arc::new(Here::new(Arc::new(reach))), manager)
}

/// Prepares an entry whose work other hands do.
///
/// Errors: as [`open`].
pub fn with_hands(
    entry: &str,
    config: Arc<Config>,
    hands: Arc<dyn Hands>,
    manager: Option<Arc<dyn Manager>>,
) -> Result<Arc<dyn Provider>, Error> {
    config.validate()?;
    Ok(Arc::new(Host::of(entry, config, hands, manager)))
}

/// An entry that normalizes whatever could be right on some host, for checking manifests where nothing is configured.
pub fn sample(entry: &str) -> Arc<dyn Observer> {
    let config = Arc::new(Config::anywhere());
    let hands = Arc::new(Here::new(config.clone()));
    Arc::new(Host::of(entry, config, hands, None))
}

#[derive(Debug)]
struct Host {
    entry: Arc<str>,
    config: Arc<Config>,
    hands: Arc<dyn Hands>,
    manager: Option<Arc<dyn Manager>>,
    kinds: Arc<Kinds>,
    /// The runs of jobs, as last looked at.
    runs: Mutex<BTreeMap<ResourceId, History>>,
    /// Units that systemd passes over, and why, as last looked at.
    passed: Mutex<BTreeMap<ResourceId, String>>,
    /// Instances of deployments that did not do their work when they were last looked at.
    unwell: Mutex<BTreeMap<ResourceId, Unwell>>,
    /// The services that read a file, as last looked at.
    readers: Arc<Mutex<Readers>>,
}

/// Services by the files that they read.
type Readers = BTreeMap<FilePath, BTreeSet<ResourceId>>;

impl Host {
    fn of(
        entry: &str,
        config: Arc<Config>,
        hands: Arc<dyn Hands>,
        manager: Option<Arc<dyn Manager>>,
    ) -> Host {
        let (kinds, runs, readers) = (Arc::new(kind::kinds()), Mutex::default(), Arc::default());
        let (passed, unwell) = (Mutex::default(), Mutex::default());
        Host { entry: entry.into(), config, hands, manager, kinds, runs, passed, unwell, readers }
    }

    fn manager(&self) -> Result<&dyn Manager, Error> {
        self.manager.as_deref().ok_or_else(|| {
            Error::unsupported(format!("provider `{}` manages no units: it has no `bus`", self.entry))
                .hint("in the host configuration, write bus: system for this entry")
        })
    }
}

/// A unit that every systemd has.
const ROOT_SLICE: &str = "-.slice";

impl Host {
    /// Asks the helper, or the service manager: the least that either has to answer.
    async fn answers(&self) -> Result<(), Error> {
        self.hands.look(&[]).await?;
        match &self.manager {
            // Which units it may be asked about is the helper's to say.
            Some(manager) if self.config.helper.is_none() => {
                manager.units(&[ROOT_SLICE.to_owned()]).await.map(drop)
            }
            _ => Ok(()),
        }
    }
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
        match &*manifest.api_version {
            systemd::API_VERSION if &*manifest.kind == deployment::DEPLOYMENT => {
                deployment::normalize(&self.config, manifest, inputs)
            }
            systemd::API_VERSION if &*manifest.kind == BALANCER => {
                balancer::normalize(&self.config, manifest, inputs)
            }
            systemd::API_VERSION => systemd::normalize(&self.config, manifest, inputs),
            _ if &*manifest.kind == cron::CRON_JOB => cron::normalize(&self.config, manifest, inputs),
            _ => normalize::normalize(&self.config, manifest, inputs),
        }
    }

    fn lint(&self, scope: &Scope, declared: &[Linted<'_>], _: Around<'_>) -> Vec<Finding> {
        if &*scope.name == FILES { lint(declared) } else { Vec::new() }
    }

    async fn versions(&self, _: &Cx, scopes: &[Scope]) -> Result<BTreeMap<Scope, Version>, Error> {
        // There are none; who asks for those of nothing wants to know whether somebody answers.
        if scopes.is_empty() {
            self.answers().await?;
        }
        Ok(BTreeMap::new())
    }

    async fn observe(&self, cx: &Cx, want: &Want<'_>) -> Result<Observation, Error> {
        match &*want.scope.name {
            SYSTEMD => {
                if *want.focus == Focus::All {
                    // Before anything is looked at: a change from here on is about them.
                    *self.readers.lock().unwrap_or_else(PoisonError::into_inner) = readers(want);
                }
                systemd::observe(cx, &*self.hands, self.manager()?, SYSTEMD, want).await
            }
            CRON => {
                let manager = self.manager()?;
                let mut seen = systemd::observe(cx, &*self.hands, manager, CRON, want).await?;
                let runs = cron::remember(manager, want, &mut seen).await?;
                let mut known = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
                known.retain(|id, _| !want.focus.covers(id));
                known.extend(runs);
                Ok(seen)
            }
            DEPLOYMENTS => deployment::observe(cx, &*self.hands, self.manager()?, want).await,
            _ => observe::observe(&*self.hands, cx, want).await,
        }
    }

    fn points_at(&self, scope: &Scope) -> Option<String> {
        let config = &self.config;
        let helper = config.helper.as_deref().unwrap_or(Path::new("")).display();
        // Whose units there are is no matter of files.
        let bus = config.bus_address().filter(|_| &*scope.name != FILES).unwrap_or_default();
        Some(format!("{} {helper} {bus}", config.root.display()))
    }

    fn compare(&self, desired: &Resource, observed: &Observed) -> Option<Delta> {
        match &*desired.scope.name {
            SYSTEMD | CRON => systemd::compare(desired, observed),
            DEPLOYMENTS if balancer::is_balancer(&desired.id.0) => balancer::compare(desired, observed),
            DEPLOYMENTS => deployment::compare(desired, observed),
            _ => compare::compare(desired, observed),
        }
    }

    async fn diff(&self, _: &Cx, want: &Want<'_>, seen: &Observation) -> Result<Deltas, Error> {
        match &*want.scope.name {
            SYSTEMD | CRON => {
                let manager = self.manager()?;
                return systemd::tell_ends(manager, systemd::diff(manager, want, seen).await?).await;
            }
            DEPLOYMENTS => {
                let manager = self.manager()?;
                return systemd::tell_ends(manager, deployment::diff(manager, want, seen).await?).await;
            }
            _ => {}
        }
        let mut deltas = diff_by_compare(|desired, observed| self.compare(desired, observed), want, seen);
        for desired in want.desired {
            let Some(observed) = seen.get(&desired.id) else { continue };
            if let Some(error) = compare::refused(desired, observed) {
                deltas.insert(desired.id.clone(), Err(error));
            }
        }
        let homeless = directories::missing(&*self.hands, want, seen).await?;
        deltas.extend(homeless.into_iter().map(|(id, error)| (id, Err(error))));
        Ok(deltas)
    }

    fn left_alone(
        &self,
        _: &Scope,
        rules: &[Arc<str>],
        observed: &Observed,
        _: &Observation,
    ) -> Option<LeftAlone> {
        // What nobody declares goes from purged directories alone.
        let path = FilePath::parse(&observed.id.0).ok();
        let is_purged = path.is_some_and(|path| rules.iter().any(|rule| path.below(rule).is_some()));
        let is_left = |rule: &Arc<str>| {
            if let Some(begin) = rule.strip_prefix(LEFT_BELOW) {
                let is_way = begin.starts_with(&format!("{}/", observed.id.0));
                return observed.id.0.starts_with(begin) || is_way;
            }
            let other = rule.strip_prefix('!').unwrap_or_default();
            other == &*observed.id.0 || other.starts_with(&format!("{}/", observed.id.0))
        };
        (!is_purged || rules.iter().any(is_left)).then_some(LeftAlone::Custom)
    }

    fn tells_health(&self) -> bool {
        true
    }

    fn was_unwell(&self, scope: &Scope, unwell: &[Unwell]) {
        if &*scope.name == DEPLOYMENTS {
            let unwell = unwell.iter().map(|one| (one.id.clone(), one.clone())).collect();
            *self.unwell.lock().unwrap_or_else(PoisonError::into_inner) = unwell;
        }
    }

    async fn health(&self, cx: &Cx, want: &Want<'_>) -> Result<Vec<(ResourceId, Health)>, Error> {
        match &*want.scope.name {
            SYSTEMD | CRON => {
                let mut passed = BTreeMap::new();
                let told = systemd::health(cx, self.manager()?, want, &mut passed).await?;
                if &*want.scope.name == SYSTEMD {
                    let mut known = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
                    known.retain(|id, _| !want.focus.covers(id));
                    known.extend(passed);
                }
                Ok(told)
            }
            DEPLOYMENTS => {
                let before = self.unwell.lock().unwrap_or_else(PoisonError::into_inner).clone();
                deployment::health(cx, &*self.hands, self.manager()?, want, &before).await
            }
            // A file that is as declared is well.
            _ => Ok(Vec::new()),
        }
    }

    async fn facts(&self, cx: &Cx, scope: &Scope) -> Result<Vec<Fact>, Error> {
        if &*scope.name == SYSTEMD {
            let known = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
            let fact =
                |(id, why): (&ResourceId, &String)| Fact { name: id.0.to_string(), value: why.clone() };
            return Ok(known.iter().map(fact).collect());
        }
        if &*scope.name != CRON {
            return Ok(Vec::new());
        }
        let known = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let now = cx.clock.now();
        let of_job = |(id, history): (&ResourceId, &History)| {
            let name = format!("run of {}", id.0.trim_end_matches(".service"));
            let lines = history.lines(now).into_iter();
            lines.map(move |value| Fact { name: name.clone(), value }).collect::<Vec<Fact>>()
        };
        Ok(known.iter().flat_map(of_job).collect())
    }

    async fn discover(&self, cx: &Cx, query: &str) -> Result<Vec<Found>, Error> {
        let scope = Scope::new(self.entry.clone(), FILES);
        let found = match query {
            SYSTEMD => {
                let resources = systemd::discover(&*self.hands, self.manager()?).await?;
                return Ok(vec![Found::new(Scope::new(self.entry.clone(), SYSTEMD), resources)]);
            }
            CRON | DEPLOYMENTS => {
                let text = format!("`{query}` cannot be imported: on a host these are units");
                return Err(Error::unsupported(text).hint(format!("import `{SYSTEMD}`")));
            }
            FILES => self.hands.list_all().await?,
            path => {
                let path = FilePath::parse(path).map_err(|why| {
                    Error::invalid(format!("`{path}` {why}")).hint(format!(
                        "write a path such as /etc/nginx, `{FILES}` for all that may be managed, or `{SYSTEMD}` for units"
                    ))
                })?;
                let mut found = self.hands.look(std::slice::from_ref(&path)).await?;
                found.extend(self.hands.list(&path).await?);
                found
            }
        };
        let target = |path: &FilePath| Target { id: path.as_str().into(), desired: None, tracked: None };
        // What no manifest of a file could name.
        let found = found.iter().filter(|seen| !self.config.is_of_units(&seen.path));
        let resources = found.filter_map(|seen| observe::observed(cx, &target(&seen.path), seen));
        let mut resources: Vec<Observed> = resources.collect();
        resources.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(vec![Found::new(scope, resources)])
    }

    fn export(&self, found: &Found) -> Result<Vec<Bytes>, Error> {
        Ok(export(&self.entry, found))
    }

    fn part(&self, scope: &Scope, id: &ResourceId) -> Option<Arc<str>> {
        match &*scope.name {
            DEPLOYMENTS => Some(deployment::parts(&id.0)?.1?.to_string().into()),
            CRON => cron::part(&id.0).map(Arc::from),
            _ => None,
        }
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
        // Units are JSON, and no shape of a file begins with a brace.
        match bytes.first() {
            Some(b'{') => deployment::show(bytes)
                .or_else(|| balancer::show(bytes))
                .unwrap_or_else(|| systemd::show(bytes)),
            _ => Shape::decode(bytes).map(|shape| shape.show()).unwrap_or_default(),
        }
    }

    fn keep(&self, desired: &Resource, observed: &Observed, ignored: &[Arc<str>]) -> Result<Vec<u8>, Error> {
        let (wanted, seen) = (desired.spec.bytes().unwrap_or_default(), &observed.bytes[..]);
        match &*desired.scope.name {
            SYSTEMD | CRON => systemd::keep(&desired.id, wanted, seen, ignored),
            DEPLOYMENTS => Ok(deployment::keep(wanted, seen, ignored)),
            _ => Ok(keep::keep(wanted, seen, ignored)),
        }
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
        let entry = self.entry.clone();
        let (places, readers) = (self.config.places.clone(), self.readers.clone());
        let files = self.hands.changes().flat_map(move |changes| {
            let readers = readers.lock().unwrap_or_else(PoisonError::into_inner);
            stream::iter(hints_of(&entry, &places, &readers, &changes))
        });
        let Some(manager) = &self.manager else { return Box::pin(files) };
        let entry = self.entry.clone();
        let units = manager.changes().flat_map(move |name| {
            stream::iter(match name {
                Some(name) => unit_hints(&entry, &name),
                None => [SYSTEMD, CRON, DEPLOYMENTS].map(|scope| all_of(&entry, scope)).into(),
            })
        });
        Box::pin(stream::select(files, units))
    }
}

#[async_trait]
impl Provider for Host {
    async fn apply(&self, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
        match &*batch.scope.name {
            SYSTEMD | CRON => systemd::apply(&*self.hands, self.manager()?, cx, batch, journal).await,
            DEPLOYMENTS => deployment::apply(&*self.hands, self.manager()?, cx, batch, journal).await,
            _ => apply::apply(&*self.hands, cx, batch, journal).await,
        }
    }
}

/// Which of the declared services read which files.
fn readers(want: &Want<'_>) -> Readers {
    let mut readers = Readers::new();
    for desired in want.desired {
        let unit = desired.spec.bytes().and_then(systemd::Unit::decode);
        for path in unit.iter().flat_map(systemd::Unit::read_paths) {
            readers.entry(path).or_default().insert(desired.id.clone());
        }
    }
    readers
}

/// Where to look again after a change of files: those of units are about the unit.
fn hints_of(entry: &Arc<str>, places: &Places, readers: &Readers, changes: &[Change]) -> Vec<Hint> {
    changes
        .iter()
        .flat_map(|change| match change {
            Change::Anywhere => [FILES, SYSTEMD, CRON, DEPLOYMENTS].map(|scope| all_of(entry, scope)).into(),
            // Which blocks a file has is known to who looks: a focus on the path means the file as a whole.
            Change::At(path) => {
                let mut hints = [FILES, DEPLOYMENTS]
                    .map(|scope| only(entry, scope, [path.as_str().into()].into()))
                    .to_vec();
                hints.extend(readers.get(path).map(|units| only(entry, SYSTEMD, units.clone())));
                if let Some(unit) = places.about(path) {
                    hints.extend(unit_hints(entry, &unit.0));
                }
                hints
            }
        })
        .collect()
}

/// Where to look again after a change of a unit: at the unit, and at the deployment that it may belong to.
fn unit_hints(entry: &Arc<str>, unit: &str) -> Vec<Hint> {
    let mut hints: Vec<Hint> = [SYSTEMD, CRON].map(|scope| only(entry, scope, [unit.into()].into())).into();
    if let Some((name, _)) = deployment::parts(unit) {
        let ids: BTreeSet<ResourceId> = [deployment::template(name).into(), unit.into()].into();
        hints.push(only(entry, DEPLOYMENTS, ids));
    }
    hints
}

fn only(entry: &Arc<str>, scope: &str, ids: BTreeSet<ResourceId>) -> Hint {
    Hint { scope: Scope::new(entry.clone(), scope), focus: Focus::Only(ids.into_iter().collect()) }
}

fn all_of(entry: &Arc<str>, scope: &str) -> Hint {
    Hint { scope: Scope::new(entry.clone(), scope), focus: Focus::All }
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
