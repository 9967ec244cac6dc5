//! The service manager, over D-Bus.
//!
//! Guarantees: a job is waited for by the signal that ends it, listened for before the job is asked for; where that signal
//! is lost, the unit itself is asked. A connection that broke is made again by the next call.
//! What a call says is read again afterwards: signals and answers may be about a moment that has passed.

use super::Fault;
use async_trait::async_trait;
use futures_core::stream::{BoxStream, Stream};
use futures_util::{future::try_join_all, stream};
use reconciled_provider::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    future::poll_fn,
    num::NonZeroUsize,
    pin::Pin,
    process::Stdio,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::sync::Mutex;
use zbus::{
    Connection, MatchRule, Message, MessageStream, OwnedObjectPath, OwnedVariant, connection::Builder,
    message::Type,
};

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
/// What the paths of units begin with.
const UNITS: &str = "/org/freedesktop/systemd1/unit/";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// Longest time a call may take, and the one that runs every generator of the machine.
const CALL: Duration = Duration::from_secs(25);
const RELOAD: Duration = Duration::from_secs(180);
/// Signals that may wait to be taken. While that many wait for one listener, its connection brings nothing to anybody.
const QUEUED: usize = 1_024;
/// Units that are asked about at one time: systemd answers one after the other, and need not wait for us in between.
const AT_ONCE: usize = 32;
/// How long a bus that is away is left alone.
const AWAY: Duration = Duration::from_secs(2);
/// Longest time a job is waited for; systemd's own limit for a start is 90 s.
const JOB: Duration = Duration::from_secs(120);

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
    /// How the last run of a service that failed ended: `exit-code`, `timeout` and others.
    pub result: String,
    /// The exit status of its last main process.
    pub status: i32,
}

impl UnitState {
    /// True when it runs or is about to.
    pub fn is_running(&self) -> bool {
        matches!(&*self.active, "active" | "reloading" | "activating")
    }
}

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
    /// Changes the links of a unit; done a second time it changes nothing.
    async fn link(&self, name: &str, link: Link) -> Result<(), Fault>;
    /// Reads all unit files again.
    async fn reload(&self) -> Result<(), Fault>;
    /// Does a job and waits for its end.
    async fn job(&self, name: &str, job: Job) -> Result<(), Fault>;
    /// Forgets that a unit failed.
    async fn reset_failed(&self, name: &str) -> Result<(), Fault>;
    /// From now on changes of these units are told for `scope`, and of no others.
    fn watch(&self, scope: &'static str, names: BTreeSet<String>);
    /// Units that changed, from now on; none means that nobody knows which.
    fn changes(&self) -> BoxStream<'static, Option<String>>;
    /// What `systemd-analyze verify` says against a new unit file, where the tool is there.
    async fn verify(&self, name: &str, content: &str) -> Result<(), Error>;
}

/// A service manager behind a bus.
#[derive(Clone, Debug)]
pub struct Bus(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    address: String,
    /// Whether the tools of this machine speak of the same one.
    is_here: bool,
    connection: Mutex<Option<Connection>>,
    watched: std::sync::Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
}

impl Bus {
    /// The manager that is reached at `address`; nothing is called before it is needed.
    pub fn new(address: &str, is_here: bool) -> Bus {
        let address = address.to_owned();
        Bus(Arc::new(Kept { address, is_here, connection: Mutex::default(), watched: Default::default() }))
    }

    /// A stream of the manager's signals that are called `member`, or of all.
    async fn signals(&self, connection: &Connection, member: Option<&str>) -> Result<MessageStream, Error> {
        // Without a subscriber systemd tells nothing; asking twice is refused, and does no harm.
        let subscribe = connection.call_method(Some(NAME), PATH, Some(MANAGER), "Subscribe", &());
        let _ = tokio::time::timeout(CALL, subscribe).await;
        let rule = MatchRule::builder().msg_type(Type::Signal).path_namespace(PATH);
        let rule = match member {
            Some(member) => rule.member(member),
            None => rule,
        };
        let rule = rule.build().map_err(|error| self.unreachable(error))?;
        let stream = MessageStream::for_match_rule(rule, connection, NonZeroUsize::new(QUEUED));
        stream.await.map_err(|error| self.unreachable(error))
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
        self.signals(&self.connect().await?, None).await
    }

    async fn connection(&self) -> Result<Connection, Error> {
        let mut kept = self.0.connection.lock().await;
        if let Some(connection) = &*kept {
            return Ok(connection.clone());
        }
        let connection = self.connect().await?;
        Ok(kept.insert(connection).clone())
    }

    /// One call. A broken connection is thrown away, so that the next call makes a new one.
    async fn call<B: Serialize + zbus::DynamicType + Sync>(
        &self,
        (path, interface, method): (&str, &str, &str),
        body: &B,
        limit: Duration,
    ) -> Result<Message, Trouble> {
        let connection = self.connection().await.map_err(Trouble::NotSent)?;
        let call = connection.call_method(Some(NAME), path, Some(interface), method, body);
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(zbus::Error::MethodError(name, text, _))) => {
                Err(Trouble::Refused(name.to_string(), text.unwrap_or_default()))
            }
            Ok(Err(zbus::Error::FDO(error))) => {
                Err(Trouble::Refused("org.freedesktop.DBus.Error".into(), error.to_string()))
            }
            Ok(Err(error)) => {
                *self.0.connection.lock().await = None;
                Err(Trouble::Lost(self.unreachable(error)))
            }
            Err(_) => Err(Trouble::Lost(late(method))),
        }
    }

    async fn manager<B: Serialize + zbus::DynamicType + Sync>(
        &self,
        method: &str,
        body: &B,
        limit: Duration,
    ) -> Result<Message, Trouble> {
        self.call((PATH, MANAGER, method), body, limit).await
    }

    async fn properties(
        &self,
        path: &str,
        interface: &str,
    ) -> Result<HashMap<String, OwnedVariant>, Trouble> {
        let message = self.call((path, PROPERTIES, "GetAll"), &(interface,), CALL).await?;
        message.body().deserialize().map_err(|error| Trouble::Lost(self.unreachable(error)))
    }

    async fn unit(&self, name: &str) -> Result<UnitState, Error> {
        let doing = || format!("ask systemd for {name}");
        let mut state = UnitState::default();
        match self.manager("GetUnitFileState", &(name,), CALL).await {
            Ok(message) => state.file = message.body().deserialize().unwrap_or_default(),
            // No such file.
            Err(Trouble::Refused(..)) => {}
            Err(trouble) => return Err(trouble.error(&doing())),
        }
        // GetUnit fails for what is not loaded; this loads it, as `systemctl status` does.
        let loaded = match self.manager("LoadUnit", &(name,), CALL).await {
            Ok(message) => message,
            // A template has no unit.
            Err(Trouble::Refused(..)) => return Ok(state),
            Err(trouble) => return Err(trouble.error(&doing())),
        };
        let path: OwnedObjectPath = loaded.body().deserialize().map_err(|error| self.unreachable(error))?;
        let all = self.properties(path.as_str(), UNIT).await.map_err(|trouble| trouble.error(&doing()))?;
        let text =
            |key: &str| all.get(key).and_then(|value| String::try_from(&**value).ok()).unwrap_or_default();
        (state.load, state.active, state.sub) = (text("LoadState"), text("ActiveState"), text("SubState"));
        state.needs_reload =
            all.get("NeedDaemonReload").and_then(|value| bool::try_from(value).ok()).unwrap_or(false);
        let bytes =
            all.get("InvocationID").and_then(|value| Vec::<u8>::try_from(value.try_clone().ok()?).ok());
        state.invocation = bytes.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(Ok((_, why))) =
            all.get("LoadError").map(|value| <(String, String)>::try_from(value.clone()))
        {
            state.load_error = why;
        }
        // How a run ended counts where it failed alone, and asking costs more than all else together.
        if name.ends_with(".service") && state.active == "failed" {
            let service =
                self.properties(path.as_str(), SERVICE).await.map_err(|trouble| trouble.error(&doing()))?;
            let result = service.get("Result").and_then(|value| String::try_from(&**value).ok());
            state.result = result.unwrap_or_default();
            state.status =
                service.get("ExecMainStatus").and_then(|value| i32::try_from(value).ok()).unwrap_or(0);
        }
        Ok(state)
    }
}

/// Why a call brought no answer that could be used.
enum Trouble {
    /// It never left.
    NotSent(Error),
    /// systemd would not: the name of the error, and its words.
    Refused(String, String),
    /// It may have been carried out.
    Lost(Error),
}

impl Trouble {
    fn error(self, doing: &str) -> Error {
        match self {
            Trouble::NotSent(error) | Trouble::Lost(error) => error,
            Trouble::Refused(name, text) => {
                let kind = match &*name {
                    _ if name.ends_with("AccessDenied")
                        || name.ends_with("InteractiveAuthorizationRequired") =>
                    {
                        ErrorKind::PermissionDenied
                    }
                    _ => ErrorKind::Invalid,
                };
                Error::new(kind, format!("{doing}: {text}"))
            }
        }
    }
    fn fault(self, doing: &str) -> Fault {
        match self {
            Trouble::Lost(error) => Fault::Unknown(error),
            other => Fault::NoEffect(other.error(doing)),
        }
    }
}

fn late(method: &str) -> Error {
    Error::unavailable(format!("systemd did not answer in time ({method})"))
}

#[async_trait]
impl Manager for Bus {
    async fn units(&self, names: &[String]) -> Result<Vec<UnitState>, Error> {
        let mut states = Vec::with_capacity(names.len());
        for some in names.chunks(AT_ONCE) {
            states.extend(try_join_all(some.iter().map(|name| self.unit(name))).await?);
        }
        Ok(states)
    }

    async fn link(&self, name: &str, link: Link) -> Result<(), Fault> {
        let names = [name];
        let (word, result) = match link {
            Link::Enable => {
                ("enable", self.manager("EnableUnitFiles", &(&names[..], false, true), CALL).await)
            }
            Link::Disable => ("disable", self.manager("DisableUnitFiles", &(&names[..], false), CALL).await),
            Link::Mask => ("mask", self.manager("MaskUnitFiles", &(&names[..], false, false), CALL).await),
            Link::Unmask => ("unmask", self.manager("UnmaskUnitFiles", &(&names[..], false), CALL).await),
        };
        result.map(drop).map_err(|trouble| trouble.fault(&format!("{word} {name}")))
    }

    async fn reload(&self) -> Result<(), Fault> {
        let result = self.manager("Reload", &(), RELOAD).await;
        result.map(drop).map_err(|trouble| trouble.fault("have systemd read its unit files"))
    }

    async fn job(&self, name: &str, job: Job) -> Result<(), Fault> {
        let (method, word) = match job {
            Job::Start => ("StartUnit", "start"),
            Job::Stop => ("StopUnit", "stop"),
            Job::Restart => ("RestartUnit", "restart"),
            Job::Reload => ("ReloadOrRestartUnit", "reload"),
        };
        let doing = format!("{word} {name}");
        let mut ends = self.signals(&self.connection().await?, Some("JobRemoved")).await?;
        let asked = self.manager(method, &(name, "replace"), CALL).await;
        let path: OwnedObjectPath = asked
            .map_err(|trouble| trouble.fault(&doing))?
            .body()
            .deserialize()
            .map_err(|error| Fault::Unknown(self.unreachable(error)))?;
        let end = tokio::time::timeout(JOB, ended(&mut ends, &path)).await;
        let result = match end {
            Ok(Some(result)) => result,
            // The signal was lost, with the bus or in a reload: what counts is how it stands.
            Ok(None) | Err(_) => {
                match self.unit(name).await.map_err(Fault::Unknown)?.is_running() == (job != Job::Stop) {
                    true => "done".to_owned(),
                    false => "timeout".to_owned(),
                }
            }
        };
        match &*result {
            "done" | "skipped" => Ok(()),
            result => Err(Fault::Unknown(
                Error::unavailable(format!("{doing}: the job ended with `{result}`"))
                    .hint(format!("systemctl status {name}; journalctl -u {name}")),
            )),
        }
    }

    async fn reset_failed(&self, name: &str) -> Result<(), Fault> {
        match self.manager("ResetFailedUnit", &(name,), CALL).await {
            // It is not loaded, so it is not known to have failed.
            Ok(_) | Err(Trouble::Refused(..)) => Ok(()),
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
                    Some(Err(_)) | None => signals = None,
                }
            }
        }))
    }

    async fn verify(&self, name: &str, content: &str) -> Result<(), Error> {
        if !self.0.is_here {
            return Ok(());
        }
        verify(name, content).await
    }
}

/// Waits for the signal that ends the job at `path`; none where no more signals come.
async fn ended(signals: &mut MessageStream, path: &OwnedObjectPath) -> Option<String> {
    loop {
        let message = poll_fn(|cx| Pin::new(&mut *signals).poll_next(cx)).await?.ok()?;
        let Ok((_, job, _, result)) = message.body().deserialize::<(u32, OwnedObjectPath, String, String)>()
        else {
            continue;
        };
        if job == *path {
            return Some(result);
        }
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

/// Runs `systemd-analyze verify`. It asks for the unit by its name, so the draft has it, in a folder of its own.
pub(super) async fn verify(name: &str, content: &str) -> Result<(), Error> {
    let folder = tempfile::tempdir();
    let folder =
        folder.map_err(|error| Error::unavailable("make a folder for systemd-analyze").caused_by(error))?;
    let folder = folder.path();
    let file = folder.join(name);
    let written = std::fs::write(&file, content);
    written
        .map_err(|error| Error::unavailable(format!("write {name} for systemd-analyze")).caused_by(error))?;
    let child = tokio::process::Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&file)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(CALL, child).await {
        Ok(Ok(output)) => output,
        // Not installed, or hung: systemd will say what it has against the unit.
        Ok(Err(_)) | Err(_) => return Ok(()),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).replace(&*folder.to_string_lossy(), "");
    let ours: Vec<&str> = said.lines().filter(|line| line.contains(name)).collect();
    let said = if ours.is_empty() { said.trim().to_owned() } else { ours.join("; ") };
    let said: String = said.chars().filter(|c| !c.is_control()).take(500).collect();
    Err(Error::invalid(format!("`systemd-analyze verify` refuses {name}: {said}"))
        .hint("mend the unit in the repository"))
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
