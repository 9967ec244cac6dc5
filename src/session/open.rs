//! What an invocation works with, and the ways in: to look, to write, for a daemon that begins or reads its configuration anew.

use super::{
    infirmary::Infirmary, renamed::renames, siblings::Siblings, sources::Mirrors, state::make_first,
    suspended::at_each_survey,
};
use crate::{
    clock::SystemClock,
    config::{self, Config, Environment, HostSecrets, ProviderEntry},
    failure::Failure,
    layer,
    manifest::{Cache, EntryView},
    registry,
    store::{Db, KEY_FILE, Reader, Seal, StoreError},
    telemetry::Metrics,
};
use reconciled_engine::{
    plan::guard::GuardLimits,
    survey::{Calls, Early, Hurry, Judged, Recall, Rooms, Surveyor, Watched},
};
use reconciled_provider::{Clock, Cx, Observer, Pace, Problem, Provider, Stop};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::OnceCell;

/// How long one read of a scope may take in all. A provider's own `timeout` bounds each call.
const READ_LIMIT: Duration = Duration::from_secs(300);

/// How long a daemon waits for entries to tell their kinds before it goes on without those that have not: far less than a
/// service manager allows for a start. What is kept of a program is read within a second.
const SHORTLY: Duration = Duration::from_secs(5);

/// Parsed files of earlier revisions, by source and commit.
type Earlier = Mutex<BTreeMap<(Arc<str>, Arc<str>), Arc<Mutex<Cache>>>>;

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
    pub(super) mirrors: Arc<Mirrors>,
    pub(super) siblings: OnceCell<Arc<Siblings>>,
    /// Entries that do not tell their kinds.
    pub(super) infirmary: Infirmary,
    /// What was parsed before: only blobs that changed are parsed again.
    pub(super) cache: Arc<Mutex<Cache>>,
    /// The same for earlier revisions that something is kept at.
    pub(super) earlier: Earlier,
    /// What is going on at the remotes.
    pub tally: Arc<layer::Tally>,
    /// What the process has counted, also for sessions before.
    pub metrics: Arc<Metrics>,
    /// The rate limits, by entry.
    pub buckets: BTreeMap<Arc<str>, Arc<layer::Bucket>>,
    /// There is no state yet, nor its key: what secrets are marked with here is not what they will be marked with.
    is_stateless: bool,
    /// The state that was made with this session, open already: for its first writer.
    pub(super) made: Mutex<Option<Db>>,
    /// A survey met the file that suspends, since somebody put this down last.
    pub(crate) met_file: Arc<AtomicBool>,
}

impl Session {
    /// Reads the configuration, builds its providers and waits until each has told its kinds or why it cannot. Reaches no
    /// remote but the registry that a program is installed from.
    ///
    /// Errors: no configuration, or every problem in it.
    pub async fn open(argument: Option<&Path>, environment: Environment) -> Result<Session, Failure> {
        Session::open_at(argument, environment, Arc::new(SystemClock)).await
    }

    /// As [`Session::open`], under this clock.
    pub(crate) async fn open_at(
        argument: Option<&Path>,
        environment: Environment,
        clock: Arc<dyn Clock>,
    ) -> Result<Session, Failure> {
        let read = read(argument, &environment)?;
        Session::with(read, environment, Arc::default(), clock, None).await
    }

    /// As [`Session::open`], for a verb that writes: makes the state where there never was one, so that its key
    /// is there before anything is marked with it.
    pub async fn open_to_write(
        argument: Option<&Path>,
        environment: Environment,
    ) -> Result<Session, Failure> {
        let (read, made) = read_to_write(argument, &environment).await?;
        let session = Session::with(read, environment, Arc::default(), Arc::new(SystemClock), None).await?;
        Ok(Session { made, ..session })
    }

    /// As [`Session::open_to_write`], for a daemon, which goes on without entries that are slow: they
    /// [ail](Session::ailing) until they have told their kinds, and keep nothing else from being looked after.
    pub async fn open_to_run(argument: Option<&Path>, environment: Environment) -> Result<Session, Failure> {
        let (read, made) = read_to_write(argument, &environment).await?;
        let clock = Arc::new(SystemClock);
        let session = Session::with(read, environment, Arc::default(), clock, Some(SHORTLY)).await?;
        Ok(Session { made, ..session })
    }

    /// As [`Session::open_to_run`], in place of one that counted in `metrics`: the state is there.
    pub async fn open_anew(
        argument: Option<&Path>,
        environment: Environment,
        metrics: Arc<Metrics>,
    ) -> Result<Session, Failure> {
        let read = read(argument, &environment)?;
        Session::with(read, environment, metrics, Arc::new(SystemClock), Some(SHORTLY)).await
    }

    /// Waits for no entry longer than `patience`.
    async fn with(
        (config, config_path, warnings): Read,
        environment: Environment,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
        patience: Option<Duration>,
    ) -> Result<Session, Failure> {
        let seal = Seal::load(&config.state_dir)?;
        let secrets = Arc::new(secrets_of(&config, &environment, seal.as_ref())?);
        let cx = context(secrets.clone(), clock.clone());
        let tally = Arc::new(layer::Tally::default());
        let mut buckets = BTreeMap::new();
        let mut entries = BTreeMap::new();
        let mut writers: BTreeMap<Arc<str>, Arc<dyn Provider>> = BTreeMap::new();
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
            let watched = Watched { observer, policy: entry.policy, guard: limits(entry, &config) };
            entries.insert(entry.name.clone(), watched);
            writers.insert(entry.name.clone(), provider);
        }
        if !problems.is_empty() {
            return Err(Failure::Problems(problems));
        }
        // One that cannot be used, or hangs, keeps no other from anything.
        let infirmary = Infirmary::default();
        let observer = |entry: &ProviderEntry| -> Arc<dyn Observer> { writers[&entry.name].clone() };
        let asked =
            config.providers.iter().map(|entry| infirmary.ask(entry, &observer(entry), &cx)).collect();
        Infirmary::wait(asked, patience, &*clock).await;
        let view = |entry: &ProviderEntry| EntryView {
            name: entry.name.clone(),
            observer: observer(entry),
            kinds: infirmary.kinds(entry),
        };
        let views = config.providers.iter().map(view).collect();
        let config = Arc::new(config);
        let met_file = Arc::default();
        let outside = Some(at_each_survey(&config, &clock, &met_file));
        let (recall, hurry, rooms) = (Recall::default(), Hurry::default(), Rooms::default());
        let (judged, calls, early) = (Judged::default(), Calls::default(), Early::default());
        let surveyor = Surveyor { entries, cx, outside, recall, hurry, rooms, judged, calls, early };
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
            siblings: OnceCell::new(),
            infirmary,
            cache: Arc::default(),
            earlier: Default::default(),
            tally,
            metrics,
            buckets,
            is_stateless: seal.is_none(),
            made: Mutex::default(),
            met_file,
        })
    }

    /// As [`Session::reader`], also where something has another name in the state, or where that was lost.
    pub async fn reader_as_it_is(&self) -> Result<Reader, Failure> {
        match Reader::open(&self.config.state_dir, self.clock.clone()).await {
            Err(StoreError::NotThere(_)) => Ok(Reader::empty(self.clock.clone()).await?),
            other => Ok(other?),
        }
    }

    /// Opens the state for reading; an empty one where there is none yet.
    ///
    /// Errors: the state was lost (the key is there, the database is not); an entry or a source was renamed, and no
    /// writer has seen that yet. A plan would show what is not so.
    pub async fn reader(&self) -> Result<Reader, Failure> {
        let dir = &self.config.state_dir;
        let reader = match Reader::open(dir, self.clock.clone()).await {
            Err(StoreError::NotThere(_)) if !dir.join(KEY_FILE).exists() => {
                Reader::empty(self.clock.clone()).await?
            }
            other => other?,
        };
        reader.has_its_names(&renames(&self.config)).await?;
        Ok(reader)
    }

    /// True where digests of this session's plans are nobody else's: they have marks of secrets in them, and the key of these ends
    /// with the session.
    pub fn has_fleeting_digests(&self) -> bool {
        self.is_stateless && self.secrets.has_marked()
    }

    /// What was parsed, for who ends with it.
    pub fn parsed(&self) -> Arc<Mutex<Cache>> {
        self.cache.clone()
    }

    /// The observer of an entry, for showing values.
    pub fn observer(&self, entry: &str) -> Option<&dyn Observer> {
        self.surveyor.entries.get(entry).map(|watched| &*watched.observer)
    }
}

/// The secrets of this host, marked with the key of its state; where there is none yet, with one of now.
pub(super) fn secrets_of(
    config: &Config,
    environment: &Environment,
    seal: Option<&Seal>,
) -> Result<HostSecrets, StoreError> {
    let key = seal.map_or_else(Seal::any_mark_key, |seal| Ok(seal.mark_key()))?;
    Ok(HostSecrets::new(key, environment.clone(), config.secrets.clone()).with_sops(&config.sops))
}

/// The context of calls of an invocation.
pub(super) fn context(secrets: Arc<HostSecrets>, clock: Arc<dyn Clock>) -> Cx {
    Cx {
        clock,
        secrets,
        deadline: READ_LIMIT,
        stop: Stop::default(),
        pace: Pace::default(),
        answers: Default::default(),
        warnings: Default::default(),
    }
}

/// The configuration, where it was read from, and warnings about it.
type Read = (Config, PathBuf, Vec<Problem>);

fn read(argument: Option<&Path>, environment: &Environment) -> Result<Read, Failure> {
    let path = config::locate(argument, environment)?;
    let (config, problems) = config::read(&path, environment);
    match config {
        Some(config) => Ok((config, path, problems)),
        None => Err(Failure::Problems(problems)),
    }
}

/// As [`read`], and makes the state where there never was one.
async fn read_to_write(
    argument: Option<&Path>,
    environment: &Environment,
) -> Result<(Read, Mutex<Option<Db>>), Failure> {
    let read = read(argument, environment)?;
    let made = make_first(&read.0.state_dir, Arc::new(SystemClock)).await?;
    Ok((read, Mutex::new(made)))
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
