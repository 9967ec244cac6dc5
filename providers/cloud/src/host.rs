//! The process behind an entry: started when it is first needed, shared by all calls, started anew when it died.
//!
//! *Guarantees*: there is one process for an entry, apart from one that still ends what it began before it was replaced.

use crate::{
    Config,
    catalog::Catalog,
    config::Places,
    plugin::{Plugin, said, write_value},
    schema::canonical,
    wire::{Launch, Process, Protocol},
};
use prost::bytes::Bytes;
use reconciled_provider::{Cx, Error};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, OnceLock},
};
use tokio::sync::Mutex;

/// A process is replaced after so many calls: some providers grow.
const CALLS: u64 = 200_000;

/// The process of one entry.
#[derive(Debug)]
pub(crate) struct Host {
    entry: Arc<str>,
    pub(crate) config: Config,
    catalog: OnceLock<Arc<Catalog>>,
    running: Mutex<Option<Arc<Plugin>>>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("used", &self.used()).finish_non_exhaustive()
    }
}

impl Host {
    /// Nothing is started yet.
    pub(crate) fn new(entry: &str, config: Config) -> Host {
        Host { entry: entry.into(), config, catalog: OnceLock::new(), running: Mutex::default() }
    }

    /// The schemas, if they were read already.
    pub(crate) fn known(&self) -> Option<&Arc<Catalog>> {
        self.catalog.get()
    }

    /// The schemas: from what an earlier process of the same program said, where that is kept.
    pub(crate) async fn catalog(&self, cx: &Cx) -> Result<Arc<Catalog>, Error> {
        if let Some(catalog) = self.catalog.get() {
            return Ok(catalog.clone());
        }
        let kept = self.kept_at().and_then(|path| fs::read(path).ok());
        if let Some((protocol, bytes)) = kept.and_then(parse_kept)
            && let Ok(catalog) = Catalog::read(bytes, protocol)
        {
            return Ok(self.catalog.get_or_init(|| catalog.into()).clone());
        }
        Ok(self.running(cx).await?.catalog.clone())
    }

    /// The process, configured.
    pub(crate) async fn running(&self, cx: &Cx) -> Result<Arc<Plugin>, Error> {
        let mut running = self.running.lock().await;
        if let Some(plugin) = running.as_ref().filter(|plugin| !plugin.has_ended() && plugin.used() < CALLS) {
            return Ok(plugin.clone());
        }
        // Whoever still uses the old one keeps it.
        *running = None;
        let plugin = Arc::new(self.start(cx).await?);
        *running = Some(plugin.clone());
        Ok(plugin)
    }

    async fn start(&self, cx: &Cx) -> Result<Plugin, Error> {
        let launch = Launch {
            path: self.config.path.clone(),
            keeper: self.config.keeper.clone(),
            environment: self.config.environment(cx)?,
        };
        let process = Process::start(&launch).await?;
        let failed = |status| Error::unavailable(format!("speak to provider `{}`: {status}", self.entry));
        let protocol = process.calls.protocol();
        // Providers of the old SDK must be asked for their schemas before anything else, known or not.
        let bytes = process.calls.schemas().await.map_err(failed)?;
        let catalog = match self.catalog.get() {
            Some(catalog) => catalog.clone(),
            None => {
                let catalog = Catalog::read(bytes.clone(), protocol)?;
                self.keep(protocol, &bytes);
                self.catalog.get_or_init(|| catalog.into()).clone()
            }
        };
        let block = &catalog.provider.block;
        let declared = self.config.declared(block)?;
        let config = canonical::to_value(&declared, block, &Places(cx))?;
        let hidden: Vec<Arc<str>> = crate::change::secrets(block, &config);
        let value = || write_value(&config, &catalog.provider.value_type);
        let doing = format!("configure provider `{}`", self.entry);
        let checked = process.calls.validate_provider(value()).await.map_err(failed)?;
        if let Some(error) = said(&doing, &checked.diagnostics, &hidden) {
            return Err(error);
        }
        let configured = process.calls.configure(value()).await.map_err(failed)?;
        if let Some(error) = said(&doing, &configured.diagnostics, &hidden) {
            return Err(error);
        }
        Ok(Plugin::new(self.entry.clone(), process, catalog))
    }

    /// Where the schemas of this very program are kept.
    fn kept_at(&self) -> Option<PathBuf> {
        let meta = fs::metadata(&self.config.path).ok()?;
        let key = format!("{:?} {} {} {}", self.config.path, meta.len(), meta.mtime(), meta.mtime_nsec());
        Some(self.config.cache.as_ref()?.join(format!("{}.schemas", blake3::hash(key.as_bytes()).to_hex())))
    }

    /// Keeps schemas for the next start, as far as that can be done.
    fn keep(&self, protocol: Protocol, bytes: &Bytes) {
        let (Some(path), Some(folder)) = (self.kept_at(), &self.config.cache) else { return };
        // The folder is made in a state that is there; no reading verb makes one.
        if !folder.parent().is_some_and(|state| state.is_dir()) || fs::create_dir_all(folder).is_err() {
            return;
        }
        let number = if protocol == Protocol::V5 { 5 } else { 6 };
        if let Ok(mut file) = tempfile::NamedTempFile::new_in(folder) {
            use std::io::Write;
            let hash = blake3::hash(bytes);
            let written = file.write_all(&[number]).and_then(|()| file.write_all(hash.as_bytes()));
            if written.and_then(|()| file.write_all(bytes)).is_ok() {
                let _ = file.persist(path);
            }
        }
    }
}

fn parse_kept(kept: Vec<u8>) -> Option<(Protocol, Bytes)> {
    let kept = Bytes::from(kept);
    let (number, hash, bytes) = (*kept.first()?, kept.get(1..33)?, kept.slice(33..));
    (blake3::hash(&bytes).as_bytes() == hash).then_some((Protocol::of(number.into())?, bytes))
}
