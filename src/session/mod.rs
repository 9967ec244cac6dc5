//! One invocation put together: configuration, providers, sources, desired state, memory.
//!
//! A [`Session`] looks; what writes is opened apart ([`writer`]), so that a verb that only reads cannot create
//! or migrate anything.

mod ailing;
mod desired;
#[cfg(test)]
mod docs;
mod endings;
mod error;
mod fast;
mod outputs;
mod pins;
mod renamed;
mod sources;
mod state;
mod suspended;
mod writer;

pub use desired::{Ask, Folder, Outlook, SourceAsk};
pub use error::{Failure, Kind, chain};
pub use fast::Standing;
pub use outputs::KnownOutputs;
pub use pins::Pins;
pub use renamed::{renames, take_along};
pub use sources::{Snapshot, TreeFiles, is_at, reference, tree_limits, verify};
pub use state::HostState;
pub use suspended::{by_files, by_windows, outside};
pub use writer::Writing;

use sources::Mirrors;

use crate::{
    clock::SystemClock,
    config::{self, Config, Environment, HostSecrets, ProviderEntry},
    layer,
    manifest::{Cache, EntryView},
    registry,
    store::{self, DATABASE, Init, KEY_FILE, Reader, Seal, StoreError},
    telemetry::Metrics,
};
use reconciled_engine::{
    plan::guard::GuardLimits,
    survey::{Recall, Surveyor, Watched},
};
use reconciled_provider::{Clock, Cx, Observer, Pace, Problem, Provider, Stop};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

/// How long one read of a scope may take in all. A provider's own `timeout` bounds each call.
const READ_LIMIT: Duration = Duration::from_secs(300);

/// Everything an invocation works with.
pub struct Session {
    /// The host configuration.
    pub config: Arc<Config>,
    /// Where it was read from.
    pub config_path: PathBuf,
    /// Warnings about it.
    pub warnings: Vec<Problem>,
    /// The surroundings of the process.
    pub environment: Environment,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Looks.
    pub surveyor: Surveyor,
    /// Writes, by entry.
    pub writers: BTreeMap<Arc<str>, Arc<dyn Provider>>,
    /// The entries as the manifest loader sees them.
    pub views: Vec<EntryView>,
    /// The secrets of this host.
    pub secrets: Arc<HostSecrets>,
    mirrors: Arc<Mirrors>,
    /// Entries that do not tell their kinds.
    infirmary: ailing::Infirmary,
    /// What was parsed before: only blobs that changed are parsed again.
    cache: Arc<Mutex<Cache>>,
    /// The same for earlier revisions that something is kept at.
    earlier: pins::Earlier,
    /// What is going on at the remotes.
    pub tally: Arc<layer::Tally>,
    /// What the process has counted, also for sessions before.
    pub metrics: Arc<Metrics>,
    /// The rate limits, by entry.
    pub buckets: BTreeMap<Arc<str>, Arc<layer::Bucket>>,
}

impl Session {
    /// Reads the configuration and builds its providers. Reaches no remote.
    ///
    /// Errors: no configuration, or every problem in it.
    pub async fn open(argument: Option<&Path>, environment: Environment) -> Result<Session, Failure> {
        Session::open_counting(argument, environment, Arc::default()).await
    }

    /// As [`Session::open`], for a process that has counted before.
    pub async fn open_counting(
        argument: Option<&Path>,
        environment: Environment,
        metrics: Arc<Metrics>,
    ) -> Result<Session, Failure> {
        Session::open_at(argument, environment, metrics, Arc::new(SystemClock)).await
    }

    /// As [`Session::open_counting`], under this clock.
    pub(crate) async fn open_at(
        argument: Option<&Path>,
        environment: Environment,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
    ) -> Result<Session, Failure> {
        let config_path = config::locate(argument, &environment)?;
        let (config, problems) = config::read(&config_path, &environment);
        let Some(config) = config else { return Err(Failure::Problems(problems)) };
        Session::with(config, config_path, problems, environment, metrics, clock).await
    }

    /// As [`Session::open`], for a verb that writes: makes the state where there never was one, so that its key
    /// is there before anything is marked with it.
    pub async fn open_to_write(
        argument: Option<&Path>,
        environment: Environment,
    ) -> Result<Session, Failure> {
        let config_path = config::locate(argument, &environment)?;
        let (config, problems) = config::read(&config_path, &environment);
        let Some(config) = config else { return Err(Failure::Problems(problems)) };
        let is_new = !config.state_dir.join(KEY_FILE).exists() && !config.state_dir.join(DATABASE).exists();
        if is_new {
            store::init(&config.state_dir, Init::New, Arc::new(SystemClock)).await?;
        }
        Session::with(config, config_path, problems, environment, Arc::default(), Arc::new(SystemClock)).await
    }

    async fn with(
        config: Config,
        config_path: PathBuf,
        warnings: Vec<Problem>,
        environment: Environment,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
    ) -> Result<Session, Failure> {
        let seal = Seal::load(&config.state_dir)?;
        // Without a state there is nothing marks could be compared with.
        let key = seal.as_ref().map_or([0; 32], Seal::mark_key);
        let secrets = Arc::new(
            HostSecrets::new(key, environment.clone(), config.secrets.clone()).with_sops(&config.sops),
        );
        let cx = Cx {
            clock: clock.clone(),
            secrets: secrets.clone(),
            deadline: READ_LIMIT,
            stop: Stop::default(),
            pace: Pace::default(),
        };
        let tally = Arc::new(layer::Tally::default());
        let mut buckets = BTreeMap::new();
        let mut entries = BTreeMap::new();
        let mut writers = BTreeMap::new();
        let mut views = Vec::new();
        let infirmary = ailing::Infirmary::default();
        let mut problems = Vec::new();
        for entry in &config.providers {
            let (provider, bucket) = match registry::build(entry, &config) {
                Ok(provider) => {
                    let (clock, tally) = (clock.clone(), tally.clone());
                    layer::wrap(provider, &entry.name, entry.rate, clock, tally, metrics.clone())
                }
                Err(found) => {
                    problems.extend(found);
                    continue;
                }
            };
            buckets.extend(bucket.map(|bucket| (entry.name.clone(), bucket)));
            let observer: Arc<dyn Observer> = provider.clone();
            // One that cannot be used keeps no other from anything.
            let kinds = match observer.kinds(&cx).await {
                Ok(kinds) => kinds,
                Err(error) => infirmary.take(entry, &error, clock.now()),
            };
            views.push(EntryView { name: entry.name.clone(), observer: observer.clone(), kinds });
            let watched = Watched { observer, policy: entry.policy, guard: limits(entry, &config) };
            entries.insert(entry.name.clone(), watched);
            writers.insert(entry.name.clone(), provider);
        }
        if !problems.is_empty() {
            return Err(Failure::Problems(problems));
        }
        let config = Arc::new(config);
        let outside = Some(suspended::at_each_survey(&config, &clock));
        let surveyor = Surveyor { entries, cx, outside, recall: Recall::default() };
        Ok(Session {
            config,
            config_path,
            warnings,
            environment,
            clock,
            surveyor,
            writers,
            views,
            secrets,
            mirrors: Arc::default(),
            infirmary,
            cache: Arc::default(),
            earlier: Default::default(),
            tally,
            metrics,
            buckets,
        })
    }

    /// As [`Session::reader`], also where something has another name in the state.
    pub async fn reader_as_it_is(&self) -> Result<Reader, Failure> {
        match Reader::open(&self.config.state_dir, self.clock.clone()).await {
            Err(StoreError::NotThere(_)) => Ok(Reader::empty(self.clock.clone()).await?),
            other => Ok(other?),
        }
    }

    /// Opens the state for reading; an empty one where there is none yet.
    ///
    /// Errors: an entry or a source was renamed, and no writer has seen that yet: a plan would show what is not so.
    pub async fn reader(&self) -> Result<Reader, Failure> {
        let reader = self.reader_as_it_is().await?;
        reader.has_its_names(&renames(&self.config)).await?;
        Ok(reader)
    }

    /// The observer of an entry, for showing values.
    pub fn observer(&self, entry: &str) -> Option<&dyn Observer> {
        self.surveyor.entries.get(entry).map(|watched| &*watched.observer)
    }
}

fn limits(entry: &ProviderEntry, config: &Config) -> GuardLimits {
    let limits = entry.guard.as_ref().unwrap_or(&config.guard);
    GuardLimits {
        max_deletes: limits.max_deletes,
        max_delete_percent: limits.max_delete_percent.into(),
        max_updates: limits.max_updates,
        max_update_percent: limits.max_update_percent.into(),
        always: limits.always.iter().map(|word| Arc::from(word.word())).collect(),
    }
}
