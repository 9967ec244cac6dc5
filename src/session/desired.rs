//! What Git wants, as an invocation asks for it: sources polled, manifests loaded.

use super::{
    ailing::Entries,
    apart::{await_unasked, left_by},
    folder::{self, Folder},
    newest::set_aside,
    open::Session,
    outlook::Outlook,
    outputs::KnownOutputs,
    pins::Pins,
    reconfigured::reconfigured,
    siblings::Siblings,
    sources::{self, Called, Known, Snapshot, TreeFiles, blocking},
};
use crate::{
    config::{Allow, SourceConfig},
    failure::Failure,
    manifest::{self, Cache, Files, KnownSecrets, Loaded, Owners, SourceRequest},
    registry,
    source::{CommitTree, Tree},
    text::short_commit,
};
use reconciled_engine::{Store, plan::Selection};
use reconciled_provider::Scope;
use std::{
    collections::{BTreeMap, BTreeSet},
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

impl Ask {
    /// True where all that is declared is meant, and nothing in the place of a repository.
    pub fn is_everything(&self) -> bool {
        self.selection.is_all() && self.folder.is_none() && self.source.is_none()
    }
}

impl Session {
    /// Polls the sources that are meant. Nothing is parsed yet.
    pub async fn snapshots(&self, ask: &Ask, store: &dyn Store) -> Result<Vec<Snapshot>, Failure> {
        let (named, siblings) = (self.named(ask)?, self.siblings().await?);
        // Sources of one remote ask it once.
        let wished = Instant::now();
        if let Some(folder) = &ask.folder {
            let (given, stands_for) = (folder.clone(), named.clone());
            let files = blocking(move || folder::snapshot(&given, stands_for.as_ref())).await?;
            let Some(named) = named else { return Ok(vec![files]) };
            // What other sources declare is no prune of this one.
            let mut snapshots = vec![files];
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
    pub async fn poll(&self, source: &SourceConfig, known: Known) -> Result<Snapshot, Failure> {
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
        outlook.desired.unasked = unasked(&self.config.sources, &outlook.snapshots);
        outlook.desired.reconfigured = reconfigured(&outlook.desired, store).await?;
        let (pins, problems) = self.put_back(&mut outlook, store).await?;
        let errors = problems.iter().filter(|reported| reported.problem.is_error());
        outlook.broken.extend(errors.map(|reported| reported.source.clone()));
        outlook.reported.extend(problems);
        outlook.pins = pins;
        Ok(outlook)
    }

    /// Puts outputs in place that came about or changed since `outlook` was loaded; true when there were any.
    pub async fn renew(&self, outlook: &mut Outlook, store: &dyn Store) -> Result<bool, Failure> {
        if !self.has_news(&outlook.outputs, store).await? {
            return Ok(false);
        }
        let snapshots = std::mem::take(&mut outlook.snapshots);
        let new = self.load(snapshots, store).await?;
        // What was wrong with a revision that is withheld is not seen in the one that is in its place.
        let withheld = std::mem::take(&mut outlook.withheld);
        let (reported, broken) = match withheld.is_empty() {
            true => (new.reported, new.broken),
            false => (std::mem::take(&mut outlook.reported), std::mem::take(&mut outlook.broken)),
        };
        *outlook = Outlook { reported, broken, withheld, ..new };
        Ok(true)
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
            let files: Vec<TreeFiles<'_>> = snapshots.iter().map(|s| TreeFiles::new(&*s.tree)).collect();
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
            drop(requests);
            if let Some(error) = files.into_iter().find_map(TreeFiles::into_failure) {
                // Whatever was made of that is not kept: the file is whole again once the mirror is.
                *cache = Cache::default();
                return Err(error.into());
            }
            drop(cache);
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
    let is_alone = is_alone(configured, snapshots);
    configured
        .iter()
        .filter(move |source| !is_alone && !snapshots.iter().any(|snapshot| snapshot.name == source.name))
}

/// The configured sources that are not asked beside a folder that stands for none of them.
fn unasked(configured: &[SourceConfig], snapshots: &[Snapshot]) -> BTreeSet<Arc<str>> {
    let others = configured.iter().filter(|_| is_alone(configured, snapshots));
    others.map(|source| source.name.clone()).collect()
}

/// True where a folder is looked at that stands for no source.
fn is_alone(configured: &[SourceConfig], snapshots: &[Snapshot]) -> bool {
    let is_configured = |snapshot: &Snapshot| configured.iter().any(|source| source.name == snapshot.name);
    !snapshots.iter().all(is_configured)
}

/// The sources with an error in their manifests.
fn broken(loaded: &Loaded) -> BTreeSet<Arc<str>> {
    let errors = loaded.problems.iter().filter(|reported| reported.problem.is_error());
    errors.map(|reported| reported.source.clone()).collect()
}
