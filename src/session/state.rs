//! The state of an instance without its providers and sources: for verbs that work where neither can be reached.

use super::{Failure, take_along};
use crate::{
    clock::SystemClock,
    config::{self, Config, Environment},
    store::{Db, KEY_FILE, OpenOptions, Reader, StoreError},
};
use reconciled_provider::Clock;
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
                format!("no state in {} yet: nothing was applied", dir.display()),
                "`reconciled apply` or a daemon makes it; to have either write nothing, also at its first start: touch /etc/reconciled/suspended",
            )),
            other => Ok(other?),
        }
    }
}
