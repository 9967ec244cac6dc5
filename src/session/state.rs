//! The state of an instance without its providers and sources: for verbs that work where neither can be reached.

use super::renamed::take_along;
use crate::{
    clock::SystemClock,
    config::{self, Config, Environment},
    failure::Failure,
    registry,
    store::{self, DATABASE, Db, Init, KEY_FILE, OpenOptions, Reader, StoreError},
};
use reconciled_provider::{Clock, Problem};
use std::{path::Path, sync::Arc};

/// Where the state is, and how to open it.
pub struct HostState {
    /// The host configuration.
    pub config: Config,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl HostState {
    /// Reads the configuration. Builds no provider, reads no secret, opens nothing yet.
    pub fn open(argument: Option<&Path>, environment: &Environment) -> Result<HostState, Failure> {
        let path = config::locate(argument, environment)?;
        let (config, problems) = config::read(&path, environment);
        let Some(config) = config else { return Err(Failure::Problems(problems)) };
        Ok(HostState { config, clock: Arc::new(SystemClock) })
    }

    /// Opens the state for reading; none where there never was one.
    ///
    /// Errors: it was lost (the key is there, the database is not), and what keeps it from being read.
    pub async fn reader(&self) -> Result<Option<Reader>, Failure> {
        match Reader::open(&self.config.state_dir, self.clock.clone()).await {
            Err(StoreError::NotThere(_)) if !self.config.state_dir.join(KEY_FILE).exists() => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    /// Opens the state for writing. Never makes one.
    ///
    /// Errors: there never was one, so that there is nothing yet to say anything about; and as [`HostState::reader`].
    pub async fn writer(&self) -> Result<Db, Failure> {
        let db = self.writer_as_named().await?;
        take_along(&self.config, &db).await?;
        Ok(db)
    }

    /// The same, where all keeps the names that it has in the state: to let go of what keeps it from being renamed.
    pub async fn writer_as_named(&self) -> Result<Db, Failure> {
        let options = OpenOptions { create: false, clock: self.clock.clone() };
        let dir = &self.config.state_dir;
        match Db::open_writer(dir, options).await {
            Err(StoreError::NotThere(_)) if !dir.join(KEY_FILE).exists() => Err(Failure::hinted(
                none_yet(dir),
                "`reconciled apply` or a daemon makes it; to have either write nothing, also at its first start: touch /etc/reconciled/suspended",
            )),
            other => Ok(other?),
        }
    }

    /// As [`HostState::writer`], and makes the state where there never was one: for consent to what a plan without one showed.
    pub async fn writer_from_the_first(&self) -> Result<Db, Failure> {
        match make_first(&self.config.state_dir, self.clock.clone()).await? {
            Some(made) => Ok(made),
            None => self.writer().await,
        }
    }

    /// Opens the state for reading, for a verb that has nothing to do where there never was one.
    pub async fn reader_of_some(&self) -> Result<Reader, Failure> {
        self.reader().await?.ok_or_else(|| {
            Failure::hinted(none_yet(&self.config.state_dir), "`reconciled apply` or a daemon makes it")
        })
    }
}

/// What keeps entries of `config` from being used, such as an unknown key: no session is opened with it. What belongs to a
/// backend is read with its provider only, so that the rest of a configuration can be right. Reaches no remote.
pub fn wrong_entries(config: &Config) -> Vec<Problem> {
    config.providers.iter().filter_map(|entry| registry::build(entry, config).err()).flatten().collect()
}

fn none_yet(dir: &Path) -> String {
    format!("no state in {} yet: nothing was applied", dir.display())
}

/// Makes the state where neither it nor its key is there, so that none was lost; none where one was made before.
pub(super) async fn make_first(dir: &Path, clock: Arc<dyn Clock>) -> Result<Option<Db>, Failure> {
    if dir.join(KEY_FILE).exists() || dir.join(DATABASE).exists() {
        return Ok(None);
    }
    Ok(Some(store::make(dir, Init::New, clock).await?.0))
}
