//! The process behind an entry: started when it is first needed, shared by all calls, started anew when it died or no
//! longer answers, or when a secret of the entry changed.
//!
//! *Guarantees*: there is one process for an entry, apart from one that still ends what it began before it was replaced;
//! one that is at work is not ended for being idle; one is used only with the schemas that it tells itself; and a start that
//! came to nothing is not repeated for each resource ([`Refused`]).

use crate::{
    Config,
    catalog::{Catalog, ResourceType},
    config::Places,
    find::Found,
    hidden::Hidden,
    owner,
    plugin::{Pace, Plugin, write_value},
    refused::{Given, Refused},
    said::{cut, said},
    schema::canonical::{self, Clear},
    wire::{Launch, Process, Protocol, Status},
};
use prost::bytes::Bytes;
use reconciled_provider::{Cx, Error, Hash, Version};
use serde_json::Value as Json;
use std::{
    collections::BTreeSet,
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError, Weak},
    time::Duration,
};
use tokio::{sync::Mutex, task::JoinSet};

/// How soon one that is at work is looked at again, at the earliest.
const SOON: Duration = Duration::from_millis(10);

/// As many warnings are remembered as told.
const WARNED: usize = 1_000;

/// How long each call may take that comes before the first resource.
const FIRST_CALLS: Duration = Duration::from_secs(60);

/// What runs of one entry.
#[derive(Debug, Default)]
struct Running {
    /// Started for its schemas, not configured yet, and the hash of its variables.
    waits: Option<(Process, Hash)>,
    plugin: Option<(Arc<Plugin>, Secrets)>,
    /// The last start came to nothing.
    refused: Option<Refused>,
    /// Somebody sees to it that it ends when nobody needs it.
    is_watched: bool,
}

impl Running {
    /// Errors: what the last start was told, where another one would be told the same.
    fn may_try(&self, cx: &Cx, given: &Given) -> Result<(), Error> {
        let refused = self.refused.as_ref().and_then(|refused| refused.again(given, cx.clock.now()));
        refused.map_or(Ok(()), Err)
    }

    /// Remembers what came of a start.
    fn tried<T>(&mut self, cx: &Cx, given: Given, begun: Result<T, Error>) -> Result<T, Error> {
        self.refused = begun.as_ref().err().map(|error| Refused::new(given, error, cx.clock.now()));
        begun
    }
}

/// Hashes of the secrets that a process was given: it has to be another one when they are others.
#[derive(Debug, PartialEq)]
struct Secrets {
    variables: Hash,
    config: Hash,
}

/// A program that may be started.
pub(crate) struct Startable {
    found: Found,
    /// It, where what was looked at is what has to be run.
    opened: Option<Arc<OwnedFd>>,
}

/// The process of one entry.
#[derive(Debug)]
pub(crate) struct Host {
    entry: Arc<str>,
    pub(crate) config: Config,
    found: Mutex<Option<Found>>,
    catalog: OnceLock<Arc<Catalog>>,
    said: OnceLock<(Json, Hash)>,
    running: Arc<Mutex<Running>>,
    watches: std::sync::Mutex<JoinSet<()>>,
    pace: Arc<Pace>,
    /// What was warned of already.
    warned: std::sync::Mutex<BTreeSet<String>>,
    /// Tells what was seen by this host from what was seen by one before, whose account may have been another.
    life: OnceLock<Version>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("used", &self.used()).finish_non_exhaustive()
    }
}

impl Host {
    /// Nothing is started yet.
    pub(crate) fn new(entry: &str, config: Config) -> Host {
        Host {
            entry: entry.into(),
            config,
            found: Mutex::default(),
            catalog: OnceLock::new(),
            said: OnceLock::new(),
            running: Arc::default(),
            watches: std::sync::Mutex::default(),
            pace: Arc::default(),
            warned: std::sync::Mutex::default(),
            life: OnceLock::new(),
        }
    }

    /// Tells what a provider warns of, each warning of a type once: a hundred resources have the same one. Who asked is told
    /// each time, the log for as long as this host is there.
    pub(crate) fn warn(&self, cx: &Cx, of: &ResourceType, warnings: BTreeSet<String>) {
        for warning in warnings {
            if cx.warnings.tell(&format!("provider `{}`: {}: {warning}", self.entry, of.name)) {
                continue;
            }
            let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
            // Some have a time in them, or a number.
            if warned.len() >= WARNED {
                warned.clear();
            }
            if warned.insert(format!("{}: {warning}", of.name)) {
                tracing::warn!(entry = %self.entry, resource_type = %of.name, said = %warning, "the provider warns");
            }
        }
    }

    /// What a scope is at that this host has seen and that may rest until the next resync.
    pub(crate) fn resting(&self, cx: &Cx) -> Version {
        let life = || Version::resting(&format!("{} {}", std::process::id(), cx.clock.now().as_nanos()));
        self.life.get_or_init(life).clone()
    }

    /// The schemas, if they were read already.
    pub(crate) fn known(&self) -> Option<&Arc<Catalog>> {
        self.catalog.get()
    }

    /// What the entry says by the provider's own schema, and what tells its account from others. Every call asks for it, and
    /// a large provider has hundreds of keys: it is read once.
    ///
    /// Errors: `Invalid` with the first problem and its place.
    pub(crate) fn said(&self, catalog: &Catalog) -> Result<&(Json, Hash), Error> {
        if let Some(said) = self.said.get() {
            return Ok(said);
        }
        let declared = self.config.declared(&catalog.provider.block)?;
        let account = self.config.account(&declared);
        Ok(self.said.get_or_init(|| (declared, account)))
    }

    /// The schemas: from what an earlier process of the same program said, where that is kept. The entry's `config` is
    /// not given to the provider for that, so what is wrong with it stops nobody else.
    pub(crate) async fn catalog(&self, cx: &Cx) -> Result<Arc<Catalog>, Error> {
        if let Some(catalog) = self.catalog.get() {
            return Ok(catalog.clone());
        }
        let mut running = self.running.lock().await;
        // Who had the lock before may have been here for the same.
        if let Some(catalog) = self.catalog.get() {
            return Ok(catalog.clone());
        }
        let found = self.found(cx).await?;
        if let Some(catalog) = self.read_kept(&found.program).await {
            return Ok(self.catalog.get_or_init(|| catalog.into()).clone());
        }
        let given = self.given(cx, &found.program)?;
        running.may_try(cx, &given)?;
        let variables = given.variables;
        let started = self.start(cx).await;
        let (process, catalog) = running.tried(cx, given, started)?;
        running.waits = Some((process, variables));
        self.watch(&mut running);
        Ok(catalog)
    }

    /// Looks at the program as a start does before it runs it: what is kept of its schemas says nothing about that.
    ///
    /// Errors: `Invalid` when it is not there, cannot be run, or is none that the entry allows.
    pub(crate) async fn may_start(&self, cx: &Cx) -> Result<Startable, Error> {
        let found = self.found(cx).await?;
        can_be_run(&found.program)?;
        let opened = found.check().await?.map(Arc::new);
        Ok(Startable { found, opened })
    }

    /// Where its program is. It is looked for again once it is gone.
    async fn found(&self, cx: &Cx) -> Result<Found, Error> {
        let mut found = self.found.lock().await;
        if let Some(found) = found.as_ref().filter(|found| found.program.exists()) {
            return Ok(found.clone());
        }
        Ok(found.insert(self.config.program.find(&cx.answers).await?).clone())
    }

    /// What an earlier process of the same program said. Tens of megabytes are read, which is no work for a thread of the
    /// runtime.
    async fn read_kept(&self, program: &Path) -> Option<Catalog> {
        let path = self.kept_at(program)?;
        let read = move || {
            let (protocol, bytes) = parse_kept(fs::read(path).ok()?)?;
            Catalog::read(bytes, protocol).ok()
        };
        tokio::task::spawn_blocking(read).await.ok()?
    }

    /// The process, configured.
    pub(crate) async fn running(&self, cx: &Cx) -> Result<Arc<Plugin>, Error> {
        let mut running = self.running.lock().await;
        if let Some((plugin, given)) = &running.plugin
            && !plugin.is_broken()
            && plugin.used() < self.config.max_calls
            // What cannot be read now was told already, and need not be told again.
            && self.secrets(cx, &plugin.catalog).map_or(true, |now| now == *given)
        {
            return Ok(plugin.clone());
        }
        // Whoever still uses the old one keeps it.
        if let Some(old) = running.plugin.take().and_then(|(old, _)| Arc::into_inner(old)) {
            old.end().await;
        }
        // Before they are read: what changes meanwhile is noticed the next time.
        let mut given = self.given(cx, &self.found(cx).await?.program)?;
        running.may_try(cx, &given)?;
        let waits = running.waits.take();
        let begun = self.begin(cx, waits, &mut given).await;
        let (plugin, secrets) = running.tried(cx, given, begun)?;
        running.plugin = Some((plugin.clone(), secrets));
        self.watch(&mut running);
        Ok(plugin)
    }

    /// What a process would be started with now.
    fn given(&self, cx: &Cx, program: &Path) -> Result<Given, Error> {
        let config = self.known().map(|catalog| self.secrets(cx, catalog)).transpose()?;
        let (program, variables) = (identity(program), self.variables(cx)?);
        Ok(Given { program, variables, config: config.map(|secrets| secrets.config) })
    }

    /// A process that was given its configuration: the one that `waits`, if it still does, or another one.
    async fn begin(
        &self,
        cx: &Cx,
        waits: Option<(Process, Hash)>,
        given: &mut Given,
    ) -> Result<(Arc<Plugin>, Secrets), Error> {
        let variables = given.variables;
        let waits = waits.filter(|(process, was)| !process.has_ended() && *was == variables);
        let (process, catalog) = match (waits, self.known()) {
            (Some((process, _)), Some(catalog)) => (process, catalog.clone()),
            _ => self.start(cx).await?,
        };
        let secrets = Secrets { variables, ..self.secrets(cx, &catalog)? };
        given.config = Some(secrets.config);
        Ok((self.configure(cx, process, catalog).await?.into(), secrets))
    }

    /// Sees to it that the process ends when nobody needs it.
    fn watch(&self, running: &mut Running) {
        let Some(idle) = self.config.idle.filter(|_| !running.is_watched) else { return };
        running.is_watched = true;
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        while watches.try_join_next().is_some() {}
        watches.spawn(end_when_idle(Arc::downgrade(&self.running), idle));
    }

    fn variables(&self, cx: &Cx) -> Result<Hash, Error> {
        Ok(hash(&self.config.secret_variables(cx)?))
    }

    fn secrets(&self, cx: &Cx, catalog: &Catalog) -> Result<Secrets, Error> {
        let (declared, _) = self.said(catalog)?;
        let config = canonical::revealed(declared, &Places(cx, Hidden::default()))?;
        Ok(Secrets { variables: self.variables(cx)?, config: hash(&config) })
    }

    async fn start(&self, cx: &Cx) -> Result<(Process, Arc<Catalog>), Error> {
        let Startable { found, opened } = self.may_start(cx).await?;
        let hidden: Hidden = self.config.secret_variables(cx)?.into_iter().collect();
        let launch = Launch {
            path: found.program.clone(),
            keeper: self.config.keeper.clone(),
            environment: self.config.environment(cx)?,
            allow_tcp: self.config.allow_tcp,
            sandbox: self.config.sandbox.clone(),
            opened,
        };
        // It may print what it was given before it dies.
        let process = Process::start(&launch).await;
        let process = process.map_err(|mut error| {
            error.message = hidden.scrub(&error.message);
            error
        })?;
        let protocol = process.calls.protocol();
        // Providers of the old SDK must be asked for their schemas before anything else, known or not.
        let bytes = self.within(process.calls.schemas(), &hidden).await?;
        let folder = self.kept_at(&found.program).zip(self.config.cache.clone());
        let known = self.known().cloned();
        let read = move || {
            let catalog = Catalog::read(bytes.clone(), protocol)?;
            let is_same = known.is_none_or(|known| known.is_same(&catalog));
            if let Some((path, folder)) = folder.filter(|(path, _)| !is_same || !path.exists()) {
                keep(&path, &folder, protocol, &bytes);
            }
            Ok(is_same.then_some(catalog))
        };
        let failed = |_| Error::unexpected("read the schemas of the provider: it was broken off");
        match tokio::task::spawn_blocking(read).await.map_err(failed)?? {
            Some(catalog) => Ok((process, self.catalog.get_or_init(|| catalog.into()).clone())),
            None => Err(self.another(&found.program)),
        }
    }

    /// Manifests were read by the schemas that were known, and states would be kept as of them.
    fn another(&self, program: &Path) -> Error {
        let (entry, program) = (&self.entry, program.display());
        let text = format!("{program} of provider `{entry}` is another program now, with other schemas");
        Error::invalid(text).hint(
            "to have manifests read by them: systemctl reload reconciled; or put back the program that was there",
        )
    }

    async fn configure(&self, cx: &Cx, process: Process, catalog: Arc<Catalog>) -> Result<Plugin, Error> {
        let block = &catalog.provider.block;
        let (declared, _) = self.said(&catalog)?;
        let hidden: Hidden = self.config.secret_variables(cx)?.into_iter().collect();
        let clear = Places(cx, hidden);
        let config = canonical::to_value(declared, block, &clear)?;
        let hidden = clear.hidden().and(canonical::revealed(declared, &clear)?);
        let hidden = hidden.and(crate::change::secrets(block, &config));
        let value = || write_value(&config, &catalog.provider.value_type);
        let doing = format!("configure provider `{}`", self.entry);
        let checked = self.within(process.calls.validate_provider(value()), &hidden).await?;
        if let Some(error) = said(&doing, &checked.diagnostics, &hidden) {
            return Err(error);
        }
        let configured = self.within(process.calls.configure(value()), &hidden).await?;
        if let Some(error) = said(&doing, &configured.diagnostics, &hidden) {
            return Err(error);
        }
        let (name, limit) = (self.entry.clone(), self.config.timeout);
        Ok(Plugin::new((name, limit), process, catalog, hidden, self.pace.clone()))
    }

    /// One call of a start, which may not take for ever: everybody waits for it.
    async fn within<A>(
        &self,
        call: impl Future<Output = Result<A, Status>>,
        hidden: &Hidden,
    ) -> Result<A, Error> {
        let failed = |why: String| Error::unavailable(format!("speak to provider `{}`: {why}", self.entry));
        match tokio::time::timeout(FIRST_CALLS, call).await {
            Ok(answer) => answer.map_err(|status| failed(cut(hidden.scrub(&status.to_string())))),
            Err(_) => Err(failed(format!("it gave no answer for {} s", FIRST_CALLS.as_secs()))),
        }
    }

    /// Where the schemas of this very program are kept.
    fn kept_at(&self, program: &Path) -> Option<PathBuf> {
        let key = identity(program)?;
        Some(self.config.cache.as_ref()?.join(format!("{}.schemas", blake3::hash(key.as_bytes()).to_hex())))
    }
}

/// What tells this very program from another one that is put into its place.
fn identity(program: &Path) -> Option<String> {
    let meta = fs::metadata(program).ok()?;
    Some(format!("{program:?} {} {} {}", meta.len(), meta.mtime(), meta.mtime_nsec()))
}

/// Ends what runs once it had nothing to do for as long as `idle`.
async fn end_when_idle(running: Weak<Mutex<Running>>, idle: Duration) {
    let mut wait = idle;
    loop {
        tokio::time::sleep(wait).await;
        let Some(running) = running.upgrade() else { return };
        let mut running = running.lock().await;
        if let Some((plugin, _)) = &running.plugin
            // Whoever makes a call has one more.
            && (plugin.rested() < idle || Arc::strong_count(plugin) > 1)
        {
            wait = idle.saturating_sub(plugin.rested()).max(idle / 10).max(SOON);
            continue;
        }
        running.is_watched = false;
        if let Some(plugin) = running.plugin.take().and_then(|(plugin, _)| Arc::into_inner(plugin)) {
            plugin.end().await;
        }
        if let Some((process, _)) = running.waits.take() {
            process.stop().await;
        }
        return;
    }
}

/// Keeps schemas for the next start, as far as that can be done.
fn keep(path: &Path, folder: &Path, protocol: Protocol, bytes: &Bytes) {
    // The folder is made in a state that is there; no reading verb makes one.
    if !folder.parent().is_some_and(Path::is_dir) || fs::create_dir_all(folder).is_err() {
        return;
    }
    let number = if protocol == Protocol::V5 { 5 } else { 6 };
    if let Ok(mut file) = tempfile::NamedTempFile::new_in(folder) {
        use std::io::Write;
        let hash = blake3::hash(bytes);
        let written = file.write_all(&[number]).and_then(|()| file.write_all(hash.as_bytes()));
        if written.and_then(|()| file.write_all(bytes)).is_ok() && file.persist(path).is_ok() {
            let name = folder.file_name().and_then(|name| name.to_str());
            let _ = folder.parent().zip(name).map(|(state, name)| owner::hand_over(state, name));
        }
    }
}

fn hash(secrets: &[Arc<str>]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for secret in secrets {
        // With its length, so that no two lists look alike.
        hasher.update(&(secret.len() as u64).to_le_bytes()).update(secret.as_bytes());
    }
    Hash::of(hasher.finalize().as_bytes())
}

/// Errors: `Invalid` when there is no program at `path`, or none that can be run.
fn can_be_run(path: &Path) -> Result<(), Error> {
    let shown = path.display();
    if let Err(error) = rustix::fs::access(path, rustix::fs::Access::EXEC_OK) {
        let error = Error::invalid(format!("the provider's program {shown} cannot be run")).caused_by(error);
        return Err(error.hint("install the provider there, or correct `path` of the entry"));
    }
    if !path.is_file() {
        return Err(Error::invalid(format!("{shown} is no program"))
            .hint("`path` names the program itself, not its folder"));
    }
    Ok(())
}

fn parse_kept(kept: Vec<u8>) -> Option<(Protocol, Bytes)> {
    let kept = Bytes::from(kept);
    let (number, hash, bytes) = (*kept.first()?, kept.get(1..33)?, kept.slice(33..));
    (blake3::hash(&bytes).as_bytes() == hash).then_some((Protocol::of(number.into())?, bytes))
}
