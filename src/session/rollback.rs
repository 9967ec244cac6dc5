//! Rollbacks as a session sees them: pinned resources are put back into a desired state that was just read.
//!
//! Guarantees: a source with a pin that cannot be kept stays wholly as it is, never silently at the newest revision, and
//! others go on. What is over is left out here and ended by whoever writes.

use super::{
    open::Session,
    outlook::Outlook,
    outputs::KnownOutputs,
    pins::Pins,
    sources::{Known, Snapshot},
};
use crate::{
    failure::Failure,
    manifest::{Loaded, Owners, Reported},
    text::short_commit,
};
use reconciled_engine::{
    Desired, Pin, SourceState, Store,
    desired::circles,
    pin::{Standing, put_back},
};
use reconciled_provider::{Address, ManifestKey, Problem, Reference, Resource, Spec};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
};

impl Session {
    /// Puts pinned resources back into `desired`, which was read from the newest revisions. What keeps that from being
    /// done for a source is a problem of it, and nothing of it is desired then.
    pub(super) async fn put_back(
        &self,
        outlook: &mut Outlook,
        store: &dyn Store,
    ) -> Result<(Pins, Vec<Reported>), Failure> {
        let Outlook { desired, outputs, secrets, .. } = outlook;
        let now = self.clock.now();
        let mut pins = Pins::default();
        for pin in store.pins().await? {
            // Of a source that is not looked at nothing is desired here.
            if !desired.sources.contains_key(pin.manifest.source()) {
                continue;
            }
            match pin.standing(desired, now) {
                Standing::Kept => pins.kept.push(pin),
                Standing::Unseen => pins.unseen.push(pin),
                Standing::Over(why) => pins.over.push((pin, why)),
            }
        }
        let mut groups: BTreeMap<(&str, &str), Vec<&Pin>> = BTreeMap::new();
        for pin in &pins.kept {
            groups.entry((pin.manifest.source(), &pin.commit)).or_default().push(pin);
        }
        let mut reported = Vec::new();
        for ((source, commit), group) in groups {
            let Pin { address, label, .. } = group[0];
            let so_far = (&mut *desired, &mut *outputs);
            let then = self.kept_at((source, commit), &group, &pins.kept, so_far, store).await;
            let problem = match then {
                Ok(mut then) => {
                    secrets.extend(then.secrets);
                    // What is put back, too, waits for nothing that is never put out without a word.
                    for (reference, why) in std::mem::take(&mut then.desired.vain) {
                        desired.vain.entry(reference).or_insert(why);
                    }
                    put_back(desired, &then.desired, &group).err().map(|address| {
                        let text = format!(
                            "{address} is kept at {label}, which declares it otherwise on this host by now"
                        );
                        Problem::error(text).hint(format!("to let it go on: reconciled resume {address}"))
                    })
                }
                Err(failure) => {
                    let text = format!("{address} is kept at {label}, which cannot be read: {failure}");
                    Some(Problem::error(text).hint(format!("to let it go on: reconciled resume {address}")))
                }
            };
            if let Some(problem) = problem {
                // Who has it by now has it as the newest revision declares it.
                let newest: &Desired = desired;
                let heirs = group.iter().filter_map(|pin| pin.heir(newest));
                let holders: BTreeSet<Arc<str>> =
                    heirs.map(|key| key.source().into()).chain([source.into()]).collect();
                for source in holders {
                    freeze(desired, &source);
                    reported.push(Reported { source, problem: problem.clone() });
                }
            }
        }
        let kept: &Desired = desired;
        reported.extend(circles(kept).iter().flat_map(|circle| waiting(kept, &pins.kept, circle)));
        Ok((pins, reported))
    }

    /// What a source desired at the commit that `group` is kept at, with the outputs that go into that: by now nobody else may refer to
    /// them. So `desired` and `outputs` take them in beside those that the newest revisions refer to.
    async fn kept_at(
        &self,
        (source, commit): (&str, &str),
        group: &[&Pin],
        kept: &[Pin],
        (desired, outputs): (&mut Desired, &mut KnownOutputs),
        store: &dyn Store,
    ) -> Result<Loaded, Failure> {
        loop {
            let then = self.desired_at(source, commit, outputs, store).await?;
            let on = awaited(&then.desired, group);
            let more: BTreeSet<ManifestKey> = {
                let known = outputs.manifests();
                let targets = on.iter().map(|reference| &reference.target);
                targets.filter(|target| !known.contains(*target)).cloned().collect()
            };
            desired.referred.extend(on);
            if more.is_empty() {
                return Ok(then);
            }
            let says_something = outputs.read_more(&more, desired, kept, store).await?;
            desired.outputs = outputs.put_out();
            if !says_something {
                return Ok(then);
            }
            // Once more, since of a text with several that are not known only one is named.
        }
    }

    /// What a source desired at one of its commits; from its mirror. Where that needs what other sources declare, as a
    /// record needs its zone, these are as they are in force now.
    ///
    /// Errors: it cannot be read, or not all of it.
    pub async fn desired_at(
        &self,
        source: &str,
        commit: &str,
        outputs: &KnownOutputs,
        store: &dyn Store,
    ) -> Result<Loaded, Failure> {
        let has_errors = |loaded: &Loaded| {
            loaded.problems.iter().any(|one| &*one.source == source && one.problem.is_error())
        };
        // What goes into what others declare is not known without them, which is no error.
        let is_sure = |loaded: &Loaded| {
            let is_whole = loaded.desired.sources.get(source).is_some_and(SourceState::is_whole);
            is_whole && loaded.desired.set_aside.is_empty()
        };
        let mut loaded = self.read_at(source, commit, outputs, Vec::new()).await?;
        if (has_errors(&loaded) || !is_sure(&loaded)) && self.config.sources.len() > 1 {
            let mut others = self.in_force(store).await?;
            others.retain(|snapshot| &*snapshot.name != source);
            loaded = self.read_at(source, commit, outputs, others).await?;
        }
        // What is broken declares nothing, and that would be deleted. A file may be broken by what is told elsewhere.
        let label = short_commit(commit);
        let mut errors = loaded.problems.iter().filter(|one| &*one.source == source);
        if let Some(error) = errors.find(|one| one.problem.is_error()) {
            return Err(Failure::hinted(
                format!("revision {label} of source {source} has errors now: {}", error.problem.message),
                format!("to see them: reconciled plan --source {source} --rev {label}"),
            ));
        }
        if loaded.desired.sources.get(source).is_none_or(|state| !state.is_whole()) {
            return Err(Failure::plain(format!(
                "not all of revision {label} of source {source} can be read"
            )));
        }
        Ok(loaded)
    }

    /// Reads a source at one of its commits, beside `others`.
    async fn read_at(
        &self,
        source: &str,
        commit: &str,
        outputs: &KnownOutputs,
        others: Vec<Snapshot>,
    ) -> Result<Loaded, Failure> {
        let mut snapshots = vec![self.snapshot_at(source, commit, None).await?];
        snapshots.extend(others);
        // Each revision has a cache of its own: the one of the newest shall not be emptied by it.
        let cache = {
            let mut caches = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (Arc::from(source), Arc::from(commit));
            if caches.len() > EARLIER && !caches.contains_key(&key) {
                caches.clear();
            }
            caches.entry(key).or_default().clone()
        };
        let given = (Owners::new(), outputs.clone());
        let (_, loaded) = self.parse(snapshots, &self.entries_of_then(), given, cache).await?;
        Ok(loaded)
    }

    /// Every source at its revision in force; from the mirrors. What was never had declared nothing yet.
    pub async fn in_force(&self, store: &dyn Store) -> Result<Vec<Snapshot>, Failure> {
        let mut snapshots = Vec::new();
        for source in &self.config.sources {
            let in_force = store.in_force(&source.name).await?.map(|r| r.commit).filter(|c| c.len() == 40);
            if let Some(commit) = in_force {
                snapshots.push(self.snapshot_at(&source.name, &commit, None).await?);
            }
        }
        Ok(snapshots)
    }

    /// One source at one of its commits, or at `rev`, which may be anything that names one; from its mirror.
    pub async fn snapshot_at(
        &self,
        source: &str,
        commit: &str,
        rev: Option<String>,
    ) -> Result<Snapshot, Failure> {
        let configured = self.config.sources.iter().find(|configured| *configured.name == *source);
        let Some(configured) = configured else {
            return Err(Failure::plain(format!("no source is called `{source}`")));
        };
        let in_force = Some(commit.into());
        let known = Known { in_force, rev, is_local: true, is_alone: true, ..Known::default() };
        self.poll(configured, known).await
    }
}

/// Tells each source of manifests that wait for each other, since something of them is kept at other revisions than the rest. No
/// error: what is in place already waits for nothing.
fn waiting(desired: &Desired, kept: &[Pin], circle: &[&ManifestKey]) -> Vec<Reported> {
    let address = |key: &&ManifestKey| {
        let manifest = desired.manifests.iter().find(|manifest| manifest.key == **key);
        manifest.map_or_else(|| key.to_string(), |manifest| manifest.address.to_string())
    };
    let mut names: Vec<String> = circle.iter().map(address).collect();
    names.extend(names.first().cloned());
    let text = format!("what rollbacks keep waits for itself: {}", names.join(" → "));
    let problem = Problem::warning(text).hint_if(remedy(desired, kept, circle));
    let sources: BTreeSet<&str> = circle.iter().map(|key| key.source()).collect();
    let told = |source: &str| Reported { source: source.into(), problem: problem.clone() };
    sources.into_iter().map(told).collect()
}

/// What lets a circle go on: the end of any rollback in it. Where several parts of a manifest are in it, all of that has to go on.
fn remedy(desired: &Desired, kept: &[Pin], circle: &[&ManifestKey]) -> Option<String> {
    let waits = |resource: &Resource| {
        let on = match &resource.spec {
            Spec::Waiting { on, .. } => &**on,
            Spec::Known { .. } => &[],
        };
        let after = desired.after(resource).into_iter().flat_map(|after| after.iter());
        after.chain(on.iter().map(|reference| &reference.target)).any(|key| circle.contains(&key))
    };
    let is_in = |pin: &&Pin| {
        let mut declaring = desired.declaring(&pin.scope, &pin.id).iter();
        declaring.any(|one| circle.contains(&&desired.manifest(one.origin).key) && waits(one))
    };
    let mut found: BTreeMap<Address, Vec<&Address>> = BTreeMap::new();
    for pin in kept.iter().filter(is_in) {
        let whole = pin.address.without_part();
        found.entry(whole).or_default().push(&pin.address);
    }
    let names = found.iter().map(|(whole, parts)| match parts[..] {
        [one] => one.to_string(),
        _ => whole.to_string(),
    });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| format!("to let it go on: reconciled resume {}", names.join(" or ")))
}

/// What outputs of others the `pinned` resources lack, as `then` declares them. Which of those that were known they refer to is not
/// told of each resource.
fn awaited(then: &Desired, pinned: &[&Pin]) -> BTreeSet<Reference> {
    let declared = pinned.iter().flat_map(|pin| {
        let declaring = then.declaring(&pin.scope, &pin.id).iter();
        declaring.filter(move |one| then.manifest(one.origin).key.source() == pin.manifest.source())
    });
    let lacking = declared.filter_map(|resource| match &resource.spec {
        Spec::Waiting { on, .. } => Some(on),
        Spec::Known { .. } => None,
    });
    lacking.flat_map(|on| on.iter().cloned()).collect()
}

/// Takes out what a source declares, and has all of it stay as it is.
fn freeze(desired: &mut Desired, source: &str) {
    let Desired { sources, manifests, scopes, exclusive, .. } = desired;
    let is_of = |index: u32| manifests[index as usize].key.source() == source;
    if let Some(state) = sources.get_mut(source) {
        state.broken.extend(manifests.iter().filter(|m| m.key.source() == source).map(|m| m.file.clone()));
        state.prunes = false;
    }
    for list in scopes.values_mut() {
        if list.iter().any(|resource| is_of(resource.origin.manifest)) {
            Arc::make_mut(list).retain(|resource| !is_of(resource.origin.manifest));
        }
    }
    scopes.retain(|_, list| !list.is_empty());
    exclusive.values_mut().for_each(|by| by.retain(|index| !is_of(*index)));
    exclusive.retain(|_, by| !by.is_empty());
}

/// Earlier revisions whose parsed files are kept.
const EARLIER: usize = 4;
