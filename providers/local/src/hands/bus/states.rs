//! How units stand, asked for in as few calls as that takes.
//!
//! One call says of all units whether they are loaded and run. Of each one alone are asked: what its files do not say with
//! certainty ([`super::disk`]), and why it could not be loaded or failed. A thousand units that are as they were when systemd
//! last read its files are four calls.

use super::{
    connection::{AT_ONCE, Bus, CALL},
    disk::{self, Disk, Loaded, Said, is_template},
    ends::ended,
    objects::{MANAGER, PATH, PROPERTIES, SERVICE, UNIT, UNITS, unescape},
    words::{Trouble, Word},
};
use data_encoding::HEXLOWER;
use futures_util::future::{join, try_join_all};
use reconciled_provider::Error;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
    time::Duration,
};
use zbus::{OwnedObjectPath, OwnedVariant};

/// How a unit stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitState {
    /// `loaded`, `not-found`, `bad-setting`, `error`, `masked`.
    pub load: String,
    /// Why it could not be loaded.
    pub load_error: String,
    /// `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`.
    pub active: String,
    /// The same, more exactly, in words of its type.
    pub sub: String,
    /// `enabled`, `disabled`, `static`, `masked` and others; empty where no file is.
    pub file: String,
    /// Its files are others than those that were loaded.
    pub needs_reload: bool,
    /// Changes with every start; empty when it never ran.
    pub invocation: String,
    /// How the last run of a service that failed, or that systemd is about to start again, ended: `exit-code`, `timeout` and
    /// others.
    pub result: String,
    /// The exit status of its last main process.
    pub status: i32,
}

impl UnitState {
    /// True when it runs or is about to.
    pub fn is_running(&self) -> bool {
        matches!(&*self.active, "active" | "reloading" | "activating")
    }
    /// How its last run ended, in words, where it ended badly.
    pub(crate) fn end(&self) -> Option<String> {
        (!matches!(&*self.result, "" | "success")).then(|| ended(&self.result, self.status))
    }
}

/// One line of the list of units: its names, what it is, how it stands, and its job.
type Line = (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

/// What the list says of a unit.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    load: String,
    active: String,
    sub: String,
    path: OwnedObjectPath,
    /// One of its files is a pipe: nothing is asked for which systemd would read them.
    pub(super) is_piped: bool,
}

impl From<Line> for Listed {
    fn from((_, _, load, active, sub, _, path, ..): Line) -> Listed {
        Listed { load, active, sub, path, is_piped: false }
    }
}

impl Listed {
    /// Where it is on the bus; none of a name that is none of a unit, and of what may not be loaded.
    pub(super) fn object(&self) -> Option<OwnedObjectPath> {
        self.is_loaded().then(|| self.path.clone())
    }
    /// systemd knows it, as whatever its files say or said.
    pub(super) fn is_loaded(&self) -> bool {
        self.path.as_str() != PATH
    }
}

impl Bus {
    /// How these units stand, in their order.
    pub(super) async fn states(&self, names: &[String]) -> Result<Vec<UnitState>, Error> {
        // Before their files are looked at: what is written later is newer than this, and asked for.
        let disk = self.disk(names).await;
        let units: Vec<String> = names.iter().filter(|name| !is_template(name)).cloned().collect();
        let listed = units.iter().zip(self.listed_by(&units, disk.as_ref()).await?);
        let all: BTreeMap<&String, Listed> =
            listed.filter_map(|(name, listed)| Some((name, listed?))).collect();
        let said = said(disk, names).await;
        let lines: Vec<(&String, &Said, Option<&Listed>)> =
            names.iter().zip(&said).map(|(name, said)| (name, said, all.get(&name))).collect();
        let mut states = Vec::with_capacity(lines.len());
        for some in lines.chunks(AT_ONCE) {
            let asked = some.iter().map(|(name, said, listed)| self.completed(name, said, *listed));
            states.extend(try_join_all(asked).await?);
        }
        Ok(states)
    }

    /// How one unit stands.
    pub(super) async fn state(&self, name: &str) -> Result<UnitState, Error> {
        Ok(self.states(&[name.to_owned()]).await?.pop().unwrap_or_default())
    }

    /// What the files of the units say, where they can be seen.
    async fn disk(&self, names: &[String]) -> Option<Disk> {
        let root = self.0.root.clone()?;
        let loaded = self.loaded().await?;
        let names: BTreeSet<String> = names.iter().cloned().collect();
        let looked = tokio::task::spawn_blocking(move || disk::look(&root, &loaded, &names));
        looked.await.ok()
    }

    /// When systemd last read its files, and where from; none where it does not say.
    pub(super) async fn loaded(&self) -> Option<Loaded> {
        let ask = |key| self.property::<OwnedVariant>(PATH, MANAGER, key);
        let (at, paths) = join(ask("UnitsLoadTimestamp"), ask("UnitPath")).await;
        let at = Duration::from_micros(u64::try_from(at.ok()?).ok()?);
        let own = self.0.places.directory().to_owned();
        Some(Loaded { at, directories: Vec::<String>::try_from(paths.ok()?).ok()?, own })
    }

    /// What the list of units says of these, in their order; none of one that is not to be had.
    pub(super) async fn listed(&self, names: &[String]) -> Result<Vec<Option<Listed>>, Error> {
        let disk = if names.is_empty() { None } else { self.disk(names).await };
        self.listed_by(names, disk.as_ref()).await
    }

    /// The same, by what was seen of their files: none is loaded while systemd would wait at a pipe to load one.
    async fn listed_by(&self, names: &[String], disk: Option<&Disk>) -> Result<Vec<Option<Listed>>, Error> {
        let mut all = match disk.and_then(|disk| disk.pipe.as_deref()) {
            None => self.listed_and_loaded(names).await?,
            Some(pipe) => {
                let asked = names.iter().map(|name| self.listed_as_it_is(name, pipe));
                try_join_all(asked).await?.into_iter().map(Some).collect()
            }
        };
        for (name, listed) in names.iter().zip(&mut all) {
            if let (Some(disk), Some(listed)) = (disk, listed) {
                listed.is_piped = disk.is_piped(name);
            }
        }
        Ok(all)
    }

    /// The same, each of them loaded for it.
    async fn listed_and_loaded(&self, names: &[String]) -> Result<Vec<Option<Listed>>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        match self.manager("ListUnitsByNames", &(names,), CALL).await {
            Ok(message) => {
                let lines: Vec<Line> =
                    message.body().deserialize().map_err(|error| self.unreachable(error))?;
                // What it does not take for a name is left out, without a word as to which.
                if lines.len() == names.len() {
                    return Ok(lines.into_iter().map(|line| Some(line.into())).collect());
                }
            }
            // It is about one of them.
            Err(Trouble::Refused(Word::Nothing | Word::No, _)) => {}
            Err(trouble) => return Err(trouble.error("ask systemd for units")),
        }
        let mut listed = Vec::with_capacity(names.len());
        for some in names.chunks(AT_ONCE) {
            listed.extend(try_join_all(some.iter().map(|name| self.listed_alone(name))).await?);
        }
        Ok(listed)
    }

    /// What is said of a unit, by any of its names, that nobody may load now: systemd would wait at `pipe`.
    pub(super) async fn listed_as_it_is(&self, name: &str, pipe: &Path) -> Result<Listed, Error> {
        let doing = |trouble: Trouble| trouble.error(&format!("ask systemd for {name}"));
        let known: Option<OwnedObjectPath> = match self.manager("GetUnit", &(name,), CALL).await {
            Ok(message) => Some(message.body().deserialize().map_err(|error| self.unreachable(error))?),
            Err(Trouble::Refused(Word::Nothing, _)) => None,
            Err(trouble) => return Err(doing(trouble)),
        };
        if let Some(id) = known.and_then(|path| unescape(path.as_str().strip_prefix(UNITS)?)) {
            let (states, ids): (Vec<&str>, Vec<&str>) = (Vec::new(), vec![&id]);
            let message = self.manager("ListUnitsByPatterns", &(states, ids), CALL).await.map_err(doing)?;
            let lines: Vec<Line> = message.body().deserialize().map_err(|error| self.unreachable(error))?;
            // One that was not found is looked for again by whoever asks anything of it.
            let listed = lines.into_iter().next().map(Listed::from);
            if let Some(listed) = listed.filter(|listed| listed.load != "not-found") {
                return Ok(listed);
            }
        }
        let path = OwnedObjectPath::try_from(PATH).map_err(|error| self.unreachable(error))?;
        let why = format!("{} is a pipe, and would keep systemd waiting", pipe.display());
        Ok(Listed { load: "error".into(), active: "inactive".into(), sub: why, path, is_piped: false })
    }

    /// Units that others name and systemd did not find.
    pub(super) async fn not_found(&self) -> Result<Vec<String>, Error> {
        let (states, all): (Vec<&str>, Vec<&str>) = (vec!["not-found"], Vec::new());
        let message = self.manager("ListUnitsByPatterns", &(states, all), CALL).await;
        let message = message.map_err(|trouble| trouble.error("ask systemd for units"))?;
        let lines: Vec<Line> = message.body().deserialize().map_err(|error| self.unreachable(error))?;
        Ok(lines.into_iter().map(|(name, ..)| name).collect())
    }

    async fn listed_alone(&self, name: &str) -> Result<Option<Listed>, Error> {
        match self.manager("ListUnitsByNames", &([name],), CALL).await {
            Ok(message) => {
                let lines: Vec<Line> =
                    message.body().deserialize().map_err(|error| self.unreachable(error))?;
                Ok(lines.into_iter().next().map(Listed::from))
            }
            Err(Trouble::Refused(Word::Nothing, _)) => Ok(None),
            Err(Trouble::Refused(Word::No, text)) => {
                let path = OwnedObjectPath::try_from(PATH).map_err(|error| self.unreachable(error))?;
                let (load, active) = ("error".to_owned(), String::new());
                Ok(Some(Listed { load, active, sub: text, path, is_piped: false }))
            }
            Err(trouble) => Err(trouble.error(&format!("ask systemd for {name}"))),
        }
    }

    /// What the list does not say.
    async fn completed(&self, name: &str, said: &Said, listed: Option<&Listed>) -> Result<UnitState, Error> {
        let doing = |trouble: Trouble| trouble.error(&format!("ask systemd for {name}"));
        let mut state = UnitState { file: self.file(name, said).await?, ..UnitState::default() };
        let Some(Listed { load, active, sub, path, .. }) = listed.cloned() else { return Ok(state) };
        (state.load, state.active, state.sub) = (load, active, sub);
        if path.as_str() == PATH {
            state.load_error = std::mem::take(&mut state.sub);
            return Ok(state);
        }
        if !matches!(&*state.load, "loaded" | "not-found" | "masked") {
            let why = self.property::<(String, String)>(&path, UNIT, "LoadError").await;
            state.load_error = why.map_err(doing)?.1;
        }
        state.needs_reload = match said.is_loaded {
            true => false,
            false => self.property(&path, UNIT, "NeedDaemonReload").await.map_err(doing)?,
        };
        if !matches!(&*state.active, "inactive" | "failed") {
            state.invocation = match &said.invocation {
                Some(known) => known.clone(),
                None => {
                    let bytes = self.property::<Vec<u8>>(&path, UNIT, "InvocationID").await.map_err(doing)?;
                    HEXLOWER.encode(&bytes)
                }
            };
        }
        // How a run ended counts where it failed alone.
        let has_failed = state.active == "failed" || state.sub == "auto-restart";
        if name.ends_with(".service") && has_failed {
            state.result = self.property(&path, SERVICE, "Result").await.map_err(doing)?;
            state.status = self.property(&path, SERVICE, "ExecMainStatus").await.map_err(doing)?;
        }
        Ok(state)
    }

    /// Whether it is enabled, as `systemctl is-enabled` says it. systemd reads all its directories to answer that, so it is
    /// asked only where the files leave a doubt.
    async fn file(&self, name: &str, said: &Said) -> Result<String, Error> {
        if let Some(known) = said.file {
            return Ok(known.into());
        }
        match self.manager("GetUnitFileState", &(name,), CALL).await {
            Ok(message) => Ok(message.body().deserialize().unwrap_or_default()),
            Err(Trouble::Refused(Word::Nothing, _)) => Ok(String::new()),
            Err(Trouble::Refused(Word::No, _)) => Ok("bad".into()),
            Err(trouble) => Err(trouble.error(&format!("ask systemd for {name}"))),
        }
    }

    /// One property of what is at `path`.
    pub(super) async fn property<T: TryFrom<OwnedVariant>>(
        &self,
        path: &str,
        interface: &str,
        key: &str,
    ) -> Result<T, Trouble> {
        let message = self.call((path, PROPERTIES, "Get"), &(interface, key), CALL).await?;
        let value: OwnedVariant =
            message.body().deserialize().map_err(|error| Trouble::Lost(self.unreachable(error)))?;
        typed(key, value)
    }

    /// All properties of what is at `path`: a unit that does not run is loaded for each question anew.
    pub(super) async fn properties(&self, path: &str, interface: &str) -> Result<Properties, Trouble> {
        let message = self.call((path, PROPERTIES, "GetAll"), &(interface,), CALL).await?;
        let all = message.body().deserialize().map_err(|error| Trouble::Lost(self.unreachable(error)))?;
        Ok(Properties(all))
    }
}

/// Properties by name.
pub(super) struct Properties(pub(super) HashMap<String, OwnedVariant>);

impl Properties {
    pub(super) fn take<T: TryFrom<OwnedVariant>>(&mut self, key: &str) -> Result<T, Trouble> {
        let missing = || Trouble::Lost(Error::unexpected(format!("systemd does not say {key}")));
        typed(key, self.0.remove(key).ok_or_else(missing)?)
    }
}

/// What files say of each of these, in their order. They are read where waiting for a disk keeps nobody else waiting.
async fn said(disk: Option<Disk>, names: &[String]) -> Vec<Said> {
    let (asked, nothing) = (names.to_vec(), vec![Said::default(); names.len()]);
    let Some(disk) = disk else { return nothing };
    let said = tokio::task::spawn_blocking(move || asked.iter().map(|name| disk.said(name)).collect());
    said.await.unwrap_or(nothing)
}

fn typed<T: TryFrom<OwnedVariant>>(key: &str, value: OwnedVariant) -> Result<T, Trouble> {
    T::try_from(value).map_err(|_| {
        Trouble::Lost(Error::unexpected(format!("systemd says something else of {key} than it should")))
    })
}
