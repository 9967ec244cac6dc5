//! The service manager, over D-Bus.
//!
//! Guarantees: a job is waited for by the signal that ends it, listened for before the job is asked for; where that signal
//! is lost, the unit itself is asked. A connection that broke is made again by the next call.
//! What a call says is read again afterwards: signals and answers may be about a moment that has passed. That nobody
//! answers, as while systemd executes itself anew, is never taken for "there is no such unit".

mod connection;
mod disk;
mod ends;
mod jobs;
mod objects;
mod runs;
mod starts;
mod states;
mod words;

use super::{Draft, Fault, TICK, analyze};
use crate::systemd::Places;
use async_trait::async_trait;
pub use connection::Bus;
use connection::{CALL, RELOAD};
use disk::Opens;
pub(crate) use ends::ended;
use futures_core::stream::{BoxStream, Stream};
use futures_util::stream;
pub use jobs::Job;
use jobs::is_about;
use objects::{UNITS, unescape};
use reconciled_provider::Error;
pub use runs::Run;
use serde::{Deserialize, Serialize};
pub use starts::Start;
pub use states::UnitState;
use std::{
    collections::BTreeSet,
    fmt,
    future::poll_fn,
    path::{Path, PathBuf},
    pin::Pin,
    sync::PoisonError,
    time::Duration,
};
use words::{Trouble, Word};
use zbus::{Message, MessageStream, OwnedObjectPath};

/// How long a bus that is away is left alone.
const AWAY: Duration = Duration::from_secs(2);

/// What is to be done to the links that enable and mask units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// Have it started at boot, as its `[Install]` says.
    Enable,
    /// No longer.
    Disable,
    /// Nobody may start it.
    Mask,
    /// No longer.
    Unmask,
}

/// The service manager of a machine.
#[async_trait]
pub trait Manager: Send + Sync + fmt::Debug {
    /// How these units stand, in their order.
    async fn units(&self, names: &[String]) -> Result<Vec<UnitState>, Error>;
    /// The units that a socket or the like starts; none of a socket that starts one for each connection.
    async fn triggers(&self, name: &str) -> Result<Vec<String>, Error>;
    /// The last run of each of these services, in their order.
    async fn runs(&self, names: &[String]) -> Result<Vec<Run>, Error>;
    /// What systemd says about starting and stopping each of these units, in their order.
    async fn starts(&self, names: &[String]) -> Result<Vec<Start>, Error>;
    /// Changes the links of a unit; done a second time it changes nothing.
    async fn link(&self, name: &str, link: Link) -> Result<(), Fault>;
    /// Reads all unit files again.
    async fn reload(&self) -> Result<(), Fault>;
    /// Does a job and waits for its end. All but a start are about the run `of` the unit, as [`Manager::units`] told of it:
    /// to another one nothing is done.
    async fn job(&self, name: &str, job: Job, of: &str) -> Result<(), Fault>;
    /// Forgets that a unit failed.
    async fn reset_failed(&self, name: &str) -> Result<(), Fault>;
    /// From now on changes of these units are told for `scope`, and of no others.
    fn watch(&self, scope: &'static str, names: BTreeSet<String>);
    /// Units that changed, from now on; none means that nobody knows which.
    fn changes(&self) -> BoxStream<'static, Option<String>>;
    /// What `systemd-analyze verify` says against new unit files and drop-ins, where the tool is there.
    async fn verify(&self, units: &[Draft]) -> Vec<Result<(), Error>>;
    /// Where its unit files are.
    fn places(&self) -> &Places;
}

impl Bus {
    /// The unit that a signal is about, if it is one that is watched.
    fn change(&self, message: &Message) -> Option<Option<String>> {
        let header = message.header();
        match header.member()?.as_str() {
            // A link came or went: it is not said which.
            "UnitFilesChanged" => Some(None),
            "PropertiesChanged" => {
                let name = unescape(header.path()?.as_str().strip_prefix(UNITS)?)?;
                let watched = self.0.watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.values().any(|names| names.contains(&name)).then_some(Some(name))
            }
            _ => None,
        }
    }

    /// A pipe that systemd would open, by its path on its machine.
    async fn pipe(&self, opens: Opens) -> Option<PathBuf> {
        let (root, loaded) = (self.0.root.clone()?, self.loaded().await?);
        tokio::task::spawn_blocking(move || disk::pipe(&root, &loaded, opens)).await.ok()?
    }

    /// Errors: systemd would have to load a unit for a job, and whatever that one names, while there is a pipe among its files.
    async fn may_load(&self, name: &str, job: Job, doing: &str) -> Result<(), Fault> {
        let Some(pipe) = self.pipe(Opens::ToLoad).await else { return Ok(()) };
        let is_loaded = self.listed_as_it_is(name, &pipe).await?.is_loaded();
        match is_loaded && (job == Job::Stop || !self.finds_more().await?) {
            true => Ok(()),
            false => Err(waits_at(&pipe, doing)),
        }
    }

    /// Whether a unit has a file by now that systemd did not find when it loaded what names that unit. For each job but a stop it
    /// looks for all of these again that the job brings with it, however long the unit of the job is loaded.
    async fn finds_more(&self) -> Result<bool, Error> {
        let (Some(root), Some(loaded)) = (self.0.root.clone(), self.loaded().await) else { return Ok(true) };
        let names = self.not_found().await?;
        let is_any = move || names.iter().any(|name| disk::is_there(&root, &loaded, name));
        Ok(tokio::task::spawn_blocking(is_any).await.unwrap_or(true))
    }
}

/// systemd would wait there for ever, and with it whatever the machine starts and stops.
fn waits_at(pipe: &Path, doing: &str) -> Fault {
    let pipe = pipe.display();
    let text =
        format!("{doing}: {pipe} is a pipe, and systemd would wait for ever for somebody to write into it");
    Error::unavailable(text).hint(format!("remove it: rm {pipe}")).into()
}

#[async_trait]
impl Manager for Bus {
    async fn units(&self, names: &[String]) -> Result<Vec<UnitState>, Error> {
        self.states(names).await
    }

    async fn triggers(&self, name: &str) -> Result<Vec<String>, Error> {
        self.triggered(name).await
    }

    async fn runs(&self, names: &[String]) -> Result<Vec<Run>, Error> {
        self.last_runs(names).await
    }

    async fn starts(&self, names: &[String]) -> Result<Vec<Start>, Error> {
        self.last_starts(names).await
    }

    async fn link(&self, name: &str, link: Link) -> Result<(), Fault> {
        let names = [name];
        let word = match link {
            Link::Enable => "enable",
            Link::Disable => "disable",
            Link::Mask => "mask",
            Link::Unmask => "unmask",
        };
        // How it is enabled stands in its files, and in those that it names: they are read for each call.
        if matches!(link, Link::Enable | Link::Disable)
            && let Some(pipe) = self.pipe(Opens::ToEnable).await
        {
            return Err(waits_at(&pipe, &format!("{word} {name}")));
        }
        let result = match link {
            // Not by force: a link of that name which leads elsewhere is somebody's.
            Link::Enable => self.manager("EnableUnitFiles", &(&names[..], false, false), CALL).await,
            Link::Disable => self.manager("DisableUnitFiles", &(&names[..], false), CALL).await,
            Link::Mask => self.manager("MaskUnitFiles", &(&names[..], false, false), CALL).await,
            Link::Unmask => self.manager("UnmaskUnitFiles", &(&names[..], false), CALL).await,
        };
        result.map(drop).map_err(|trouble| match trouble {
            // Of several links some may have been made.
            Trouble::Refused(Word::No, text) => Fault::Unknown(
                Error::invalid(format!("{word} {name}: {text}"))
                    .hint(format!("a link or file that is in the way is somebody's: systemctl cat {name}; ls -l /etc/systemd/system")),
            ),
            trouble => trouble.fault(&format!("{word} {name}")),
        })
    }

    async fn reload(&self) -> Result<(), Fault> {
        let doing = "have systemd read its unit files";
        if let Some(pipe) = self.pipe(Opens::ToLoad).await {
            return Err(waits_at(&pipe, doing));
        }
        // What was written just now is older than the load that begins.
        tokio::time::sleep(TICK).await;
        let result = self.manager("Reload", &(), RELOAD).await;
        result.map(drop).map_err(|trouble| trouble.fault(doing))
    }

    async fn job(&self, name: &str, job: Job, of: &str) -> Result<(), Fault> {
        let (method, word) = match job {
            Job::Start => ("StartUnit", "start"),
            Job::Stop => ("StopUnit", "stop"),
            Job::Restart => ("RestartUnit", "restart"),
            Job::Reload => ("ReloadOrRestartUnit", "reload"),
        };
        let doing = format!("{word} {name}");
        // Done to one that runs a start does nothing.
        let run = if job == Job::Start { String::new() } else { self.state(name).await?.invocation };
        if !is_about(job, of, &run) {
            let text = format!("{doing}: it is in another run than the one that was looked at");
            return Err(Error::conflict(text).into());
        }
        // What runs is loaded, and that is all that a stop takes.
        if job != Job::Stop || run.is_empty() {
            self.may_load(name, job, &doing).await?;
        }
        if matches!(job, Job::Start | Job::Restart) {
            self.keep(name).await;
        }
        let mut ends = self.signals(&self.told().await?, Some("JobRemoved")).await?;
        let asked = self.manager(method, &(name, "replace"), CALL).await;
        let path: OwnedObjectPath = asked
            .map_err(|trouble| trouble.fault(&doing))?
            .body()
            .deserialize()
            .map_err(|error| Fault::Unknown(self.unreachable(error)))?;
        let result = self.ending((name, job, of), &path, &mut ends).await.map_err(Fault::Unknown)?;
        match &*result {
            "done" | "skipped" => {
                if job == Job::Stop {
                    self.let_go(name).await;
                }
                Ok(())
            }
            result => {
                let start = self.last_starts(&[name.to_owned()]).await.unwrap_or_default().pop();
                let why = start.filter(|_| result == "assert").and_then(|start| start.why());
                let why = match why {
                    Some(why) => why,
                    None => {
                        let end = self.state(name).await.unwrap_or_default().end();
                        format!(
                            "the job ended with `{result}`{}",
                            end.map_or_else(String::new, |end| format!(": {end}"))
                        )
                    }
                };
                Err(Fault::Unknown(
                    Error::unavailable(format!("{doing}: {why}"))
                        .hint(format!("systemctl status {name}; journalctl -u {name}")),
                ))
            }
        }
    }

    async fn reset_failed(&self, name: &str) -> Result<(), Fault> {
        self.let_go(name).await;
        match self.manager("ResetFailedUnit", &(name,), CALL).await {
            // It is not loaded, so it is not known to have failed.
            Ok(_) | Err(Trouble::Refused(Word::Nothing | Word::No, _)) => Ok(()),
            Err(trouble) => Err(trouble.fault(&format!("forget that {name} failed"))),
        }
    }

    fn watch(&self, scope: &'static str, names: BTreeSet<String>) {
        self.0.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(scope, names);
    }

    fn changes(&self) -> BoxStream<'static, Option<String>> {
        let begin = (self.clone(), None::<MessageStream>);
        Box::pin(stream::unfold(begin, async |(bus, mut signals)| {
            loop {
                let Some(open) = &mut signals else {
                    // A connection of its own: one whose signals nobody takes would keep answers back.
                    match bus.listen().await {
                        // What happened while nobody listened is not known.
                        Ok(open) => return Some((None, (bus, Some(open)))),
                        Err(_) => tokio::time::sleep(AWAY).await,
                    }
                    continue;
                };
                match poll_fn(|cx| Pin::new(&mut *open).poll_next(cx)).await {
                    Some(Ok(message)) => {
                        if let Some(change) = bus.change(&message) {
                            return Some((change, (bus, signals)));
                        }
                    }
                    // Who looks finds out whether it is away.
                    Some(Err(_)) | None => return Some((None, (bus, None))),
                }
            }
        }))
    }

    async fn verify(&self, units: &[Draft]) -> Vec<Result<(), Error>> {
        // The tools of this machine speak of this machine.
        if self.0.root.as_deref() != Some(Path::new("/")) {
            return units.iter().map(|_| Ok(())).collect();
        }
        analyze::verify(units, self.0.places.home()).await
    }

    fn places(&self) -> &Places {
        &self.0.places
    }
}
