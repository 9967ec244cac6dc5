//! The service manager, over D-Bus.
//!
//! Guarantees: a job is waited for by the signal that ends it, listened for before the job is asked for; where that signal
//! is lost, the unit itself is asked. A connection that broke is made again by the next call.
//! What a call says is read again afterwards: signals and answers may be about a moment that has passed. That nobody
//! answers, as while systemd executes itself anew, is never taken for "there is no such unit".

mod disk;
mod ends;
mod jobs;
mod runs;
mod starts;
mod states;
mod words;

use super::{Draft, Fault, analyze};
use crate::systemd::Places;
use async_trait::async_trait;
use disk::Opens;
pub(crate) use ends::ended;
use futures_core::stream::{BoxStream, Stream};
use futures_util::stream;
use jobs::is_about;
use reconciled_provider::Error;
pub use runs::Run;
use serde::{Deserialize, Serialize};
pub use starts::Start;
pub use states::UnitState;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::poll_fn,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::sync::{Mutex, Semaphore};
use words::{Trouble, Word};
use zbus::{
    Connection, MatchRule, Message, MessageStream, OwnedObjectPath, connection::Builder, message::Type,
};

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
/// What the paths of units begin with.
const UNITS: &str = "/org/freedesktop/systemd1/unit/";

/// Longest time a call may take, and the one that runs every generator of the machine.
const CALL: Duration = Duration::from_secs(25);
const RELOAD: Duration = Duration::from_secs(180);
/// Signals that may wait to be taken. While that many wait for one listener, its connection brings nothing to anybody.
const QUEUED: usize = 1_024;
/// How long files have to be older than the moment at which systemd reads them, to be known as those it read: the kernel
/// gives files the time of its last tick.
const TICK: Duration = Duration::from_millis(12);
/// How long a bus that is away is left alone.
const AWAY: Duration = Duration::from_secs(2);
/// Calls that may wait for answers at one time: a bus lets one connection wait for 128 of them, and refuses the next
/// (`max_replies_per_connection` of dbus-daemon).
const AT_ONCE: usize = 64;

/// What is to be done to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Start it.
    Start,
    /// Stop it.
    Stop,
    /// Stop and start it, as one job.
    Restart,
    /// Have it read its configuration, or restart it where it cannot.
    Reload,
}

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

/// A service manager behind a bus.
#[derive(Clone, Debug)]
pub struct Bus(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    address: String,
    /// Where the root of its machine is seen.
    root: Option<PathBuf>,
    places: Places,
    connection: Mutex<Option<Open>>,
    /// Calls that may wait for their answers.
    room: Semaphore,
    watched: std::sync::Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
    /// Units that systemd remembers for this connection.
    kept: std::sync::Mutex<BTreeSet<String>>,
}

/// A connection, and whether systemd sends signals to it.
#[derive(Clone, Debug)]
struct Open {
    connection: Connection,
    is_told: bool,
}

impl Bus {
    /// The manager that is reached at `address`; nothing is called before it is needed. `root` is where its machine is
    /// seen from here, if anywhere: what its files say need not be asked for.
    pub fn new(address: &str, root: Option<&Path>) -> Bus {
        Bus::of(address, root, Places::system())
    }

    /// The same, of a manager whose files are in `places`.
    pub fn of(address: &str, root: Option<&Path>, places: Places) -> Bus {
        let (address, root) = (address.to_owned(), root.map(Path::to_owned));
        let (connection, room, watched) = (Mutex::default(), Semaphore::new(AT_ONCE), Default::default());
        let kept = Default::default();
        Bus(Arc::new(Kept { address, root, places, connection, room, watched, kept }))
    }

    /// A stream of the manager's signals that are called `member`, or of all.
    async fn signals(&self, connection: &Connection, member: Option<&str>) -> Result<MessageStream, Error> {
        let rule = MatchRule::builder().msg_type(Type::Signal).path_namespace(PATH).sender(NAME);
        let rule = match member {
            Some(member) => rule.member(member),
            None => rule,
        };
        let rule = rule.build().map_err(|error| self.unreachable(error))?;
        let stream = MessageStream::for_match_rule(rule, connection, NonZeroUsize::new(QUEUED));
        stream.await.map_err(|error| self.unreachable(error))
    }

    /// Has systemd tell a connection what happens: without a subscriber it tells nothing. Asking twice is refused, and does
    /// no harm.
    async fn subscribe(&self, connection: &Connection) {
        let subscribe = connection.call_method(Some(NAME), PATH, Some(MANAGER), "Subscribe", &());
        let _ = tokio::time::timeout(CALL, subscribe).await;
    }

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

    fn unreachable(&self, error: zbus::Error) -> Error {
        Error::unavailable(format!("reach systemd at {}", self.0.address))
            .hint(
                "is the bus there, and may this process use it? `bus` of the provider entry says where it is",
            )
            .caused_by(error)
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let built = Builder::address(&*self.0.address).method_timeout(RELOAD).build();
        let built = tokio::time::timeout(CALL, built).await;
        built.map_err(|_| late("connect to the bus"))?.map_err(|error| self.unreachable(error))
    }

    async fn listen(&self) -> Result<MessageStream, Error> {
        let connection = self.connect().await?;
        let signals = self.signals(&connection, None).await?;
        self.subscribe(&connection).await;
        Ok(signals)
    }

    async fn connection(&self) -> Result<Connection, Error> {
        let mut kept = self.0.connection.lock().await;
        if let Some(open) = &*kept {
            return Ok(open.connection.clone());
        }
        let connection = self.connect().await?;
        Ok(kept.insert(Open { connection, is_told: false }).connection.clone())
    }

    /// The connection of all calls, on which signals come.
    async fn told(&self) -> Result<Connection, Error> {
        let connection = self.connection().await?;
        let is_told = |open: &Open| open.is_told && open.connection.unique_name() == connection.unique_name();
        if !self.0.connection.lock().await.as_ref().is_some_and(is_told) {
            self.subscribe(&connection).await;
            let mut kept = self.0.connection.lock().await;
            let same = kept.as_mut().filter(|open| open.connection.unique_name() == connection.unique_name());
            same.into_iter().for_each(|open| open.is_told = true);
        }
        Ok(connection)
    }

    /// One call. A broken connection is thrown away, so that the next call makes a new one.
    async fn call<B: Serialize + zbus::DynamicType + Sync>(
        &self,
        (path, interface, method): (&str, &str, &str),
        body: &B,
        limit: Duration,
    ) -> Result<Message, Trouble> {
        let _seat = self.0.room.acquire().await.expect("nobody closes it");
        let connection = self.connection().await.map_err(Trouble::NotSent)?;
        let call = connection.call_method(Some(NAME), path, Some(interface), method, body);
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(error)) => match Word::of(&error) {
                Some((word, text)) => Err(Trouble::Refused(word, text)),
                None => Err(self.lost(self.unreachable(error)).await),
            },
            Err(_) => Err(self.lost(late(method)).await),
        }
    }

    /// The next call makes a connection of its own: who is at the other end of this one may be nobody.
    async fn lost(&self, error: Error) -> Trouble {
        *self.0.connection.lock().await = None;
        // It remembers them as long as that is there.
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Trouble::Lost(error)
    }

    async fn manager<B: Serialize + zbus::DynamicType + Sync>(
        &self,
        method: &str,
        body: &B,
        limit: Duration,
    ) -> Result<Message, Trouble> {
        self.call((PATH, MANAGER, method), body, limit).await
    }
}

/// systemd would wait there for ever, and with it whatever the machine starts and stops.
fn waits_at(pipe: &Path, doing: &str) -> Fault {
    let pipe = pipe.display();
    let text =
        format!("{doing}: {pipe} is a pipe, and systemd would wait for ever for somebody to write into it");
    Error::unavailable(text).hint(format!("remove it: rm {pipe}")).into()
}

fn late(method: &str) -> Error {
    Error::unavailable(format!("systemd did not answer in time ({method})"))
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

/// The name of a unit from the last part of its path: what is no letter or digit is `_` and two digits.
fn unescape(part: &str) -> Option<String> {
    let (mut out, mut bytes) = (Vec::new(), part.bytes());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'_' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_on_the_bus_names_a_unit() {
        assert_eq!(unescape("web_401_2eservice").as_deref(), Some("web@1.service"));
        assert_eq!(unescape("a"), Some("a".into()));
        assert_eq!((unescape("a_"), unescape("a_zz")), (None, None));
    }
}
