//! The connection to a service manager's bus: made when it is needed, and made again once it broke; calls and signals on it.

use super::{
    objects::{MANAGER, NAME, PATH},
    words::{Trouble, Word},
};
use crate::systemd::Places;
use reconciled_provider::Error;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::sync::{Mutex, Semaphore};
use zbus::{Connection, MatchRule, Message, MessageStream, connection::Builder, message::Type};

/// Longest time a call may take, and the one that runs every generator of the machine.
pub(super) const CALL: Duration = Duration::from_secs(25);
pub(super) const RELOAD: Duration = Duration::from_secs(180);
/// Signals that may wait to be taken. While that many wait for one listener, its connection brings nothing to anybody.
const QUEUED: usize = 1_024;
/// Calls that may wait for answers at one time: a bus lets one connection wait for 128 of them, and refuses the next
/// (`max_replies_per_connection` of dbus-daemon).
pub(super) const AT_ONCE: usize = 64;

/// A service manager behind a bus.
#[derive(Clone, Debug)]
pub struct Bus(pub(super) Arc<Kept>);

#[derive(Debug)]
pub(super) struct Kept {
    address: String,
    /// Where the root of its machine is seen.
    pub(super) root: Option<PathBuf>,
    pub(super) places: Places,
    connection: Mutex<Option<Open>>,
    /// Calls that may wait for their answers.
    room: Semaphore,
    pub(super) watched: std::sync::Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
    /// Units that systemd remembers for this connection.
    pub(super) kept: std::sync::Mutex<BTreeSet<String>>,
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
    pub(super) async fn signals(
        &self,
        connection: &Connection,
        member: Option<&str>,
    ) -> Result<MessageStream, Error> {
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

    pub(super) fn unreachable(&self, error: zbus::Error) -> Error {
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

    pub(super) async fn listen(&self) -> Result<MessageStream, Error> {
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
    pub(super) async fn told(&self) -> Result<Connection, Error> {
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
    pub(super) async fn call<B: Serialize + zbus::DynamicType + Sync>(
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

    pub(super) async fn manager<B: Serialize + zbus::DynamicType + Sync>(
        &self,
        method: &str,
        body: &B,
        limit: Duration,
    ) -> Result<Message, Trouble> {
        self.call((PATH, MANAGER, method), body, limit).await
    }
}

fn late(method: &str) -> Error {
    Error::unavailable(format!("systemd did not answer in time ({method})"))
}
