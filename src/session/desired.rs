//! What Git wants, as an invocation asks for it: sources polled, manifests loaded.

use super::{
    KnownOutputs, Pins, Session, Snapshot,
    ailing::Entries,
    apart::{Siblings, await_unasked, left_by},
    newest::set_aside,
    reconfigured::reconfigured,
    sources::{self, Called, Known, TreeFiles},
};
use crate::{
    config::{Allow, SourceConfig},
    failure::{Failure, chain},
    manifest::{self, Cache, Files, KnownSecrets, Loaded, Owners, Reported, SourceRequest},
    registry,
    source::{CommitTree, FolderTree, Limits, Paths, Tree},
    text::short_commit,
};
use reconciled_engine::{Desired, Store, plan::Selection};
use reconciled_provider::{Problem, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Which desired state is meant.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Only this source.
    pub source: Option<String>,
    /// A folder in its place.
    pub folder: Option<Folder>,
    /// This revision instead of the newest.
    pub rev: Option<String>,
    /// Part of it.
    pub selection: Selection,
    /// Lists every scope, also those whose version stands.
    pub refresh: bool,
    /// As for a person who has it applied now.
    pub by_person: bool,
    /// Consent to a rewound branch: source name and commit.
    pub accept_rewind: Option<(Arc<str>, Arc<str>)>,
}

/// Files in place of a source.
#[derive(Clone, Debug)]
pub enum Folder {
    /// On this host; `-` is standard input.
    At(PathBuf),
    /// Somebody sent them.
    Sent(FolderTree),
}

impl Folder {
    /// Reads the files. Blocks.
    pub fn open(self, limits: Limits) -> Result<Box<dyn Tree>, Failure> {
        Ok(Box::new(match self {
            Folder::Sent(tree) => tree,
            Folder::At(dir) if dir == Path::new("-") => {
                FolderTree::from_stream(std::io::stdin().lock(), limits)?
            }
            Folder::At(dir) => FolderTree::open(&dir, &Paths::all(), limits)?,
        }))
    }
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Folder::At(dir) if dir == Path::new("-"))
    }
}

/// How one source is asked for.
pub type SourceAsk = Known;

/// The desired state, and where it came from.
pub struct Outlook {
    /// The sources.
    pub snapshots: Vec<Snapshot>,
    /// The desired state, without what is broken.
    pub desired: Desired,
    /// Problems of manifests and sources.
    pub reported: Vec<Reported>,
    /// Sources with an error and `onInvalid: hold`: their last good revision was loaded instead.
    pub withheld: Vec<Arc<str>>,
    /// Sources with an error in their manifests.
    pub broken: BTreeSet<Arc<str>>,
    /// Sources with something that was not checked here.
    pub unchecked: BTreeSet<Arc<str>>,
    /// The outputs that it was loaded with.
    pub outputs: KnownOutputs,
    /// The secrets that it was loaded with.
    pub secrets: KnownSecrets,
    /// What is kept at earlier revisions.
    pub pins: Pins,
    /// What keeps entries from being used.
    pub ailing: Vec<Problem>,
}

impl Outlook {
    /// What is wrong with sources and manifests, for people.
    pub fn messages(&self) -> Vec<String> {
        let ailing = self.ailing.iter().map(|problem| format!("{problem}\n"));
        ailing.chain(self.sources().iter().flat_map(|name| self.messages_of(name))).collect()
    }

    /// What is wrong with one source, for people.
    pub fn messages_of(&self, name: &str) -> Vec<String> {
        let mut all = Vec::new();
        for snapshot in self.snapshots.iter().filter(|snapshot| *snapshot.name == *name) {
            if let Some(error) = &snapshot.behind {
                all.push(format!("error: source {name}: {}", chain(&**error)));
                all.push(format!("hint: {}; {} stays in force", error.hint(), snapshot.label));
            }
        }
        if let Some(other) = self.desired.sources.get(name).and_then(|state| state.awaits.as_ref()) {
            let is_unasked =
                |one: &Snapshot| *one.name == *name && one.awaits.as_ref().is_some_and(|one| one == other);
            let why = match self.broken.contains(other) && !self.snapshots.iter().any(is_unasked) {
                true => "has errors",
                false => "is not known to be as far",
            };
            all.push(format!(
                "note: source {name} deletes nothing while source {other} of the same repository {why}"
            ));
        }
        all.extend(self.pins.messages_of(name));
        let problems = self.reported.iter().filter(|reported| *reported.source == *name);
        all.extend(problems.map(|reported| format!("{}\n", reported.problem)));
        if self.withheld.iter().any(|withheld| **withheld == *name) {
            let stays = match self.without_revision().any(|without| **without == *name) {
                true => "nothing of it is in force yet",
                false => "the last good one stays",
            };
            all.push(format!(
                "error: source {name}: the revision has errors that keep all of it from coming into force; {stays}"
            ));
        }
        all
    }

    /// The withheld sources of which nothing is in force yet.
    pub fn without_revision(&self) -> impl Iterator<Item = &Arc<str>> {
        let is_had = |name: &Arc<str>| self.snapshots.iter().any(|snapshot| snapshot.name == *name);
        self.withheld.iter().filter(move |name| !is_had(name))
    }

    /// Every source that is spoken of.
    pub fn sources(&self) -> BTreeSet<Arc<str>> {
        let snapshots = self.snapshots.iter().map(|snapshot| snapshot.name.clone());
        snapshots.chain(self.reported.iter().map(|reported| reported.source.clone())).collect()
    }

    /// The sources.
    pub fn snapshots(&self) -> Vec<&Snapshot> {
        self.snapshots.iter().collect()
    }

    /// True when something is wrong that is no mere warning, with manifests, sources or entries.
    pub fn has_errors(&self) -> bool {
        self.is_invalid() || !self.ailing.is_empty() || self.snapshots.iter().any(|s| s.behind.is_some())
    }

    /// True when nothing newer is known of any source than what is looked at.
    pub fn is_newest(&self) -> bool {
        self.snapshots.iter().all(|snapshot| snapshot.newest.is_none())
    }

    /// True when a manifest has an error.
    pub fn is_invalid(&self) -> bool {
        self.reported.iter().any(|reported| reported.problem.is_error())
    }

    /// The problems, whatever source they are in.
    pub fn problems(&self) -> Vec<Problem> {
        self.reported.iter().map(|reported| reported.problem.clone()).collect()
    }
}

impl Session {
    /// Polls the sources that are meant. Nothing is parsed yet.
    pub async fn snapshots(&self, ask: &Ask, store: &dyn Store) -> Result<Vec<Snapshot>, Failure> {
        let (named, siblings) = (self.named(ask)?, self.siblings().await?);
        // Sources of one remote ask it once.
        let wished = Instant::now();
        if let Some(folder) = &ask.folder {
            let (folder, stands_for) = (folder.clone(), named.clone());
            let folder = blocking(move || sources::folder(&folder, stands_for.as_ref())).await?;
            let Some(named) = named else { return Ok(vec![folder]) };
            // What other sources declare is no prune of this one.
            let mut snapshots = vec![folder];
            for source in self.config.sources.iter().filter(|s| s.name != named.name) {
                snapshots.extend(self.snapshot(source, ask, store, false, wished).await?);
            }
            await_unasked(&self.config, &siblings, &mut snapshots);
            return Ok(snapshots);
        }
        if self.config.sources.is_empty() {
            return Err(Failure::hinted(
                format!("{} names no source", self.config_path.display()),
                "add one under `sources:`, or name a folder: reconciled plan --dir DIR",
            ));
        }
        let mut snapshots = Vec::new();
        for source in &self.config.sources {
            let is_meant = named.as_ref().is_none_or(|named| named.name == source.name);
            snapshots.extend(self.snapshot(source, ask, store, is_meant, wished).await?);
        }
        self.ask_again(ask, store, &siblings, &mut snapshots).await?;
        await_unasked(&self.config, &siblings, &mut snapshots);
        Ok(snapshots)
    }

    /// Asks sources once more that were asked before one of their repository, with another ref, was found to have moved: what left that one
    /// may be in them since. What moved between both answers awaits the other one, which would have to be asked again in turn.
    async fn ask_again(
        &self,
        ask: &Ask,
        store: &dyn Store,
        siblings: &Siblings,
        snapshots: &mut [Snapshot],
    ) -> Result<(), Failure> {
        let mut moved = BTreeSet::new();
        for snapshot in snapshots.iter_mut().rev().filter(|snapshot| !snapshot.is_named) {
            let Some(source) = self.config.sources.iter().find(|s| s.name == snapshot.name) else { continue };
            if let Some(other) = left_by(&self.config, siblings, source, &moved) {
                let is_meant = ask.source.as_ref().is_none_or(|named| **named == *source.name);
                match self.snapshot(source, ask, store, is_meant, Instant::now()).await? {
                    Some(again) => {
                        let has_moved = again.revision != snapshot.revision;
                        *snapshot = Snapshot { awaits: has_moved.then(|| other.clone()), ..again };
                    }
                    // It cannot be had any more: what left the other one may be in it.
                    None => snapshot.awaits = Some(other.clone()),
                }
            }
            let known = Known::of(store.in_force(&snapshot.name).await?);
            if known.in_force.as_ref() != Some(&snapshot.revision) {
                moved.insert(snapshot.name.clone());
            }
        }
        Ok(())
    }

    /// Has `tree` stand for the sources `meant` at the commit `revision`, beside what is in force of the others.
    /// Asks no remote.
    pub async fn as_pushed(
        &self,
        meant: &[SourceConfig],
        revision: &str,
        tree: &Arc<dyn Tree>,
        store: &dyn Store,
    ) -> Result<Vec<Snapshot>, Failure> {
        let mut snapshots = Vec::new();
        for source in &self.config.sources {
            if meant.iter().any(|meant| meant.name == source.name) {
                let snapshot = sources::files(Box::new(tree.clone()), Some(source));
                let label = short_commit(revision).into();
                snapshots.push(Snapshot { revision: revision.into(), label, ..snapshot });
                continue;
            }
            // What was never had declared nothing yet.
            let known = Known::of(store.in_force(&source.name).await?);
            if known.in_force.is_some() && !known.is_restored {
                snapshots.push(self.poll(source, Known { is_local: true, ..known }).await?);
            }
        }
        Ok(snapshots)
    }

    /// Polls one source. One that is not meant is read for what it declares; where it was never had, also since the state
    /// was restored, or cannot be had while a rewind of another is accepted, what it declares is not known.
    async fn snapshot(
        &self,
        source: &SourceConfig,
        ask: &Ask,
        store: &dyn Store,
        is_meant: bool,
        wished: Instant,
    ) -> Result<Option<Snapshot>, Failure> {
        let before = Known::of(store.in_force(&source.name).await?);
        let accept = ask.accept_rewind.as_ref().filter(|(name, _)| *name == source.name);
        let never = before.in_force.is_none() || before.is_restored;
        let rev = ask.rev.clone().filter(|_| is_meant);
        let accept_rewind = accept.map(|(_, commit)| commit.clone());
        let known = Known { accept_rewind, rev, wished: Some(wished), ..before };
        let polled = self.poll(source, known).await;
        // One whose mirror was lost keeps nobody from accepting the rewind of another.
        let may_lack = never || ask.accept_rewind.is_some();
        if may_lack && !is_meant { Ok(polled.ok()) } else { polled.map(Some) }
    }

    /// Polls one source, or takes what is in force from its mirror.
    pub async fn poll(&self, source: &SourceConfig, known: SourceAsk) -> Result<Snapshot, Failure> {
        let (mirrors, config, secrets) = (self.mirrors.clone(), self.config.clone(), self.secrets.clone());
        let source = source.clone();
        blocking(move || sources::poll(&mirrors, &config, &source, &secrets, &known)).await
    }

    /// The files of a commit that the mirror of a source has.
    pub async fn tree_at(&self, source: &SourceConfig, commit: &str) -> Result<CommitTree, Failure> {
        let (mirrors, config, secrets) = (self.mirrors.clone(), self.config.clone(), self.secrets.clone());
        let (source, commit) = (source.clone(), commit.to_owned());
        blocking(move || sources::tree_at(&mirrors, &config, &source, &secrets, &commit)).await
    }

    /// What `digits` mean in a source, beside a `commit` that its mirror has.
    pub async fn called(&self, source: &str, digits: &str, commit: &str) -> Result<Called, Failure> {
        let Some(source) = self.config.sources.iter().find(|s| *s.name == *source).cloned() else {
            return Ok(Called::Nothing);
        };
        let (mirrors, config, secrets) = (self.mirrors.clone(), self.config.clone(), self.secrets.clone());
        let (digits, commit) = (digits.to_string(), commit.to_string());
        blocking(move || sources::called(&mirrors, &config, &source, &secrets, &digits, &commit)).await
    }

    /// Polls and loads.
    ///
    /// Errors: a source that cannot be had at all. Invalid manifests are problems of the outlook.
    pub async fn outlook(&self, ask: &Ask, store: &dyn Store) -> Result<Outlook, Failure> {
        let snapshots = self.snapshots(ask, store).await?;
        self.load(snapshots, store).await
    }

    /// Loads the manifests of `snapshots`, with what is kept at earlier revisions in its place.
    pub async fn load(&self, snapshots: Vec<Snapshot>, store: &dyn Store) -> Result<Outlook, Failure> {
        let mut outlook = self.load_newest(snapshots, store).await?;
        outlook.desired.reconfigured = reconfigured(&outlook.desired, store).await?;
        let (pins, problems) = self.put_back(&mut outlook, store).await?;
        outlook.broken.extend(problems.iter().map(|reported| reported.source.clone()));
        outlook.reported.extend(problems);
        outlook.pins = pins;
        Ok(outlook)
    }

    /// Loads the manifests of `snapshots` alone.
    pub async fn load_newest(&self, snapshots: Vec<Snapshot>, store: &dyn Store) -> Result<Outlook, Failure> {
        // Before anything is read: what tells its kinds meanwhile tells them too late.
        let (ailing, entries) = (self.ailing(), self.entries());
        let (snapshots, loaded, outputs) = self.read(snapshots, &entries, store).await?;
        // Where it is what is in force that is refused, by another configuration, something newer was not read yet.
        let is_newest = |one: &&Snapshot| one.newest.is_none() && loaded.withheld.contains(&one.name);
        let refused: BTreeSet<Arc<str>> =
            snapshots.iter().filter(is_newest).map(|one| one.name.clone()).collect();
        let mut outlook = match loaded.withheld.is_empty() {
            true => self.outlook_of(snapshots, loaded, outputs, store).await?,
            false => self.in_place(snapshots, loaded, &entries, store).await?,
        };
        self.keep_what_is_newer(&mut outlook, &refused, &entries, store).await?;
        let siblings = self.siblings().await?;
        self.await_who_is_behind(&siblings, &mut outlook);
        Ok(Outlook { ailing, ..outlook })
    }

    /// `onInvalid: hold`: whole revision or nothing, so the one in force is read in place of what `loaded` withholds.
    async fn in_place(
        &self,
        snapshots: Vec<Snapshot>,
        loaded: Loaded,
        entries: &Entries,
        store: &dyn Store,
    ) -> Result<Outlook, Failure> {
        let mut kept = Vec::new();
        for mut snapshot in snapshots {
            if !loaded.withheld.contains(&snapshot.name) {
                kept.push(snapshot);
                continue;
            }
            let good = Known::of(store.in_force(&snapshot.name).await?);
            let source = self.config.sources.iter().find(|s| s.name == snapshot.name).cloned();
            let source = source.filter(|_| good.in_force.is_some() && !good.is_restored);
            if let Some(source) = source {
                let good = Known { is_local: true, is_alone: true, ..good };
                let good = self.poll(&source, good).await?;
                // What is refused may be what is in force, as its remote is away.
                let (behind, awaits) = (snapshot.behind.take(), snapshot.awaits.clone());
                let newest = snapshot.newest.take().unwrap_or_else(|| Box::new(snapshot));
                let newest = Some(newest).filter(|newest| newest.revision != good.revision);
                kept.push(Snapshot { behind, newest, awaits, ..good });
            }
        }
        let (kept, in_force, outputs) = self.read(kept, entries, store).await?;
        let mut outlook = self.outlook_of(kept, in_force, outputs, store).await?;
        set_aside(&mut outlook.desired, &loaded, &loaded.withheld);
        outlook.broken = broken(&loaded);
        outlook.withheld = loaded.withheld.into_iter().collect();
        outlook.reported = loaded.problems;
        // A secret that can be had by now may be what the newest one lacks.
        outlook.secrets.extend(loaded.secrets);
        Ok(outlook)
    }

    /// Parses and normalizes. What several sources declare belongs to the one it is tracked for, and what others
    /// refer to was put out earlier: the inventory knows both, and is asked about nothing else.
    pub(super) async fn read(
        &self,
        snapshots: Vec<Snapshot>,
        entries: &Entries,
        store: &dyn Store,
    ) -> Result<(Vec<Snapshot>, Loaded, KnownOutputs), Failure> {
        let cache = || self.cache.clone();
        let nothing = (Owners::new(), KnownOutputs::default());
        let (snapshots, loaded) = self.parse(snapshots, entries, nothing, cache()).await?;
        let referred: BTreeSet<_> = loaded.outputs.iter().map(|reference| reference.target.clone()).collect();
        let outputs = KnownOutputs::read(&referred, &loaded.desired, store, self.clock.now()).await?;
        let mut owners = Owners::new();
        let scopes: BTreeSet<&Scope> = loaded.contested.iter().map(|(scope, _)| scope).collect();
        for scope in scopes {
            for row in store.scope(scope).await?.rows.iter() {
                let key = (scope.clone(), row.tracked.id.clone());
                if loaded.contested.contains(&key) {
                    owners.insert(key, row.manifest.source().into());
                }
            }
        }
        if owners.is_empty() && !outputs.says_something() {
            return Ok((snapshots, loaded, outputs));
        }
        let known = (owners, outputs.clone());
        let (snapshots, loaded) = self.parse(snapshots, entries, known, cache()).await?;
        Ok((snapshots, loaded, outputs))
    }

    /// Parses and normalizes, away from the tasks: remotes are asked meanwhile.
    pub(super) async fn parse(
        &self,
        snapshots: Vec<Snapshot>,
        entries: &Entries,
        (owners, outputs): (Owners, KnownOutputs),
        cache: Arc<Mutex<Cache>>,
    ) -> Result<(Vec<Snapshot>, Loaded), Failure> {
        let (entries, config, secrets) = (entries.clone(), self.config.clone(), self.secrets.clone());
        blocking(move || {
            let files: Vec<TreeFiles<'_>> = snapshots.iter().map(|s| TreeFiles(&*s.tree)).collect();
            let request = |(snapshot, files): (&Snapshot, _)| SourceRequest {
                name: snapshot.name.clone(),
                revision: snapshot.revision.clone(),
                label: snapshot.label.clone(),
                files,
                prunes: snapshot.prunes,
                rules: snapshot.rules.clone(),
            };
            let requests: Vec<SourceRequest<'_>> =
                snapshots.iter().zip(files.iter().map(|f| f as &dyn Files)).map(request).collect();
            let known = registry::kinds();
            let lacking: Vec<(Arc<str>, Allow)> = lacking(&config.sources, &snapshots)
                .map(|source| (source.name.clone(), source.allow.clone()))
                .collect();
            let request = manifest::Request {
                sources: &requests,
                lacking: &lacking,
                entries: &entries.views,
                ailing: &entries.ailing,
                renamed: &entries.renamed,
                known: &known,
                host: &config.host,
                owners: &owners,
                outputs: &outputs,
                secrets: &*secrets,
            };
            let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
            let loaded = manifest::load(&request, &mut cache);
            drop(cache);
            drop(requests);
            drop(files);
            let counts = loaded.counts;
            tracing::debug!(
                parsed = counts.parsed,
                normalized = counts.normalized,
                kept = counts.kept,
                "loaded"
            );
            Ok((snapshots, loaded))
        })
        .await
    }

    async fn outlook_of(
        &self,
        snapshots: Vec<Snapshot>,
        mut loaded: Loaded,
        outputs: KnownOutputs,
        store: &dyn Store,
    ) -> Result<Outlook, Failure> {
        for snapshot in &snapshots {
            let before = store.in_force(&snapshot.name).await?;
            if let Some(state) = loaded.desired.sources.get_mut(&snapshot.name) {
                state.path_changed = before.is_some_and(|r| !r.path.is_empty() && !snapshot.is_path(&r.path));
            }
        }
        // Nothing of it is gone, and nothing it may declare is foreign.
        for source in lacking(&self.config.sources, &snapshots) {
            loaded.desired.sources.entry(source.name.clone()).or_default();
        }
        loaded.desired.outputs = outputs.put_out();
        loaded.desired.referred = std::mem::take(&mut loaded.outputs);
        let broken = broken(&loaded);
        let reported = loaded.problems;
        let (desired, unchecked, withheld) = (loaded.desired, loaded.unchecked, Vec::new());
        let (pins, ailing) = (Pins::default(), Vec::new());
        let secrets = loaded.secrets;
        Ok(Outlook {
            snapshots,
            desired,
            reported,
            withheld,
            broken,
            unchecked,
            outputs,
            secrets,
            pins,
            ailing,
        })
    }

    /// True when a secret is not what it was, as far as manifests were read with it.
    pub async fn has_rotated(&self, known: KnownSecrets) -> Result<bool, Failure> {
        let secrets = self.secrets.clone();
        blocking(move || Ok(known.have_changed(&*secrets))).await
    }

    fn named(&self, ask: &Ask) -> Result<Option<SourceConfig>, Failure> {
        let Some(name) = &ask.source else { return Ok(None) };
        let found = self.config.sources.iter().find(|s| *s.name == **name).cloned();
        if found.is_none() {
            let names: BTreeMap<&str, ()> = self.config.sources.iter().map(|s| (&*s.name, ())).collect();
            let near = reconciled_provider::problem::did_you_mean(name, names.keys().copied());
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("configured sources: {}", names.keys().copied().collect::<Vec<_>>().join(", "))
                }
            };
            return Err(Failure::hinted(format!("no source is called `{name}`"), hint));
        }
        Ok(found)
    }
}

/// The configured sources that could not be had: they declare something, nobody knows what. A folder that stands for no
/// source is looked at by itself.
fn lacking<'a>(
    configured: &'a [SourceConfig],
    snapshots: &'a [Snapshot],
) -> impl Iterator<Item = &'a SourceConfig> {
    let is_configured = |snapshot: &Snapshot| configured.iter().any(|source| source.name == snapshot.name);
    let is_alone = !snapshots.iter().all(is_configured);
    configured
        .iter()
        .filter(move |source| !is_alone && !snapshots.iter().any(|snapshot| snapshot.name == source.name))
}

/// The sources with an error in their manifests.
fn broken(loaded: &Loaded) -> BTreeSet<Arc<str>> {
    let errors = loaded.problems.iter().filter(|reported| reported.problem.is_error());
    errors.map(|reported| reported.source.clone()).collect()
}

/// Runs what blocks (git) away from the tasks.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Failure::plain(format!("reading a source panicked: {error}"))),
    }
}
