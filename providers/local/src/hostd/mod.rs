//! The helper: a small process with the rights that the daemon should not have.
//!
//! Guarantees: it does what [`crate::hands::wire`] can ask for, where its own configuration allows it, for the users that
//! this names; what it refuses, it refuses with a reason and before anything is changed. It keeps nothing between
//! requests: whatever is asked names what it expects to find, so that it may be killed at any moment. It has no network,
//! reads no repository, and decides nothing.

mod busy;
mod config;

pub use config::Allowed;

use crate::{
    hands::{
        Asked, Bus, Change, Check, Fault, Hands, Here, Manager, Run, Seen, Start, UnitState, Unwell, What,
        wire::{self, Answer, Ask, Frames, OneCheck, send},
    },
    path::FilePath,
    state::Refusal,
};
use busy::Busy;
use futures_util::{StreamExt, stream};
use reconciled_provider::{Error, Told};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use tracing::{info, warn};

/// Connections at one time; more wait.
const MOST: usize = 48;
/// Those of them that may be at something that takes long: whoever only looks finds a seat all the same.
const LONG: usize = 32;
/// How soon whoever found no seat for that may ask again.
const SOON: Duration = Duration::from_secs(1);
/// How long a question may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Paths that are looked at before the answers go out: each may be of the largest size.
const AT_ONCE: usize = 16;

/// Answers `first` and whoever connects to `listener`; ends when nobody was there for `idle`: the socket starts it again.
///
/// Errors: those of the listener.
pub async fn serve(
    listener: UnixListener,
    first: Option<UnixStream>,
    allowed: Allowed,
    idle: Duration,
) -> io::Result<()> {
    let helper = Arc::new(Helper::of(allowed));
    let mut connections = JoinSet::new();
    if let Some(stream) = first {
        let helper = helper.clone();
        connections.spawn(async move { helper.attend(stream).await });
    }
    loop {
        let is_full = connections.len() >= MOST;
        let is_empty = connections.is_empty();
        tokio::select! {
            accepted = listener.accept(), if !is_full => {
                let (stream, _) = accepted?;
                let helper = helper.clone();
                connections.spawn(async move { helper.attend(stream).await });
            }
            _ = connections.join_next(), if !is_empty => {}
            _ = tokio::time::sleep(idle), if is_empty => return Ok(()),
        }
    }
}

/// Answers one connection with `why`, whatever it asks.
///
/// A helper that ended instead would be started by the socket for each question, until the socket gives up.
pub async fn refuse(stream: UnixStream, why: &Error) {
    let (read, mut to) = stream.into_split();
    if question(&mut Frames::of(read)).await.is_ok() {
        warn!(error = %why.chain(), "request failed or refused");
        let _ = say(&mut to, &Answer::Failed(why.into())).await;
    }
}

#[derive(Debug)]
struct Helper {
    allowed: Allowed,
    here: Here,
    manager: Option<Bus>,
    /// Who looks at a file waits for what is being written there: a request whose caller died is over before the next one
    /// sees how it stands.
    files: Busy,
    /// Seats for what takes long.
    long: Semaphore,
}

type Reader = Frames<OwnedReadHalf>;

impl Helper {
    fn of(allowed: Allowed) -> Helper {
        let here = Here::new(allowed.config.clone());
        let manager =
            allowed.config.bus_address().map(|address| Bus::new(&address, Some(&allowed.config.root)));
        Helper { allowed, here, manager, files: Busy::default(), long: Semaphore::new(LONG) }
    }

    /// One connection. Whatever goes wrong with it is the caller's matter.
    async fn attend(&self, stream: UnixStream) {
        let Ok(peer) = stream.peer_cred() else { return };
        let (read, mut to) = stream.into_split();
        let mut from = Frames::of(read);
        let ask = match self.allowed.caller(peer.uid(), peer.gid()) {
            Ok(()) => question(&mut from).await,
            Err(error) => Err(Some(error)),
        };
        let end = match ask {
            Ok(ask) => match self.answer(ask, &mut from, &mut to).await {
                Ok(end) => end,
                // Nobody is there to be told.
                Err(_) => return,
            },
            Err(Some(error)) => Err(error.into()),
            Err(None) => return,
        };
        if let Err(Fault::NoEffect(error) | Fault::Unknown(error)) = &end {
            let why = error.chain();
            warn!(uid = peer.uid(), pid = peer.pid(), error = %why, "request failed or refused");
        }
        let _ = timeout(PATIENCE, send(&mut to, &Answer::from(end))).await;
    }

    /// Answers everything but how it ended, which is returned. The outer error is that of the connection.
    async fn answer(
        &self,
        ask: Ask,
        from: &mut Reader,
        to: &mut OwnedWriteHalf,
    ) -> io::Result<Result<(), Fault>> {
        // Nobody waits for one, or those who wait would be in the way of those who look.
        let _seat = match ask.is_long().then(|| self.long.try_acquire()) {
            Some(Err(_)) => return Ok(Err(is_busy().into())),
            seat => seat,
        };
        Ok(match ask {
            Ask::Look(paths) => {
                for paths in paths.chunks(AT_ONCE) {
                    let seen = match self.look(paths).await {
                        Ok(seen) => seen,
                        Err(error) => return Ok(Err(error.into())),
                    };
                    tell(to, seen).await?;
                }
                Ok(())
            }
            Ask::List(directory) => match self.list(&directory).await {
                Ok(seen) => tell(to, seen).await.map(Ok)?,
                Err(error) => Err(error.into()),
            },
            Ask::ListAll => match self.here.list_all().await {
                Ok(seen) => tell(to, self.allowed_of(seen)).await.map(Ok)?,
                Err(error) => Err(error.into()),
            },
            Ask::Units(names) => match self.units(&names).await {
                Ok(states) => say(to, &Answer::Units(states)).await.map(Ok)?,
                Err(error) => Err(error.into()),
            },
            Ask::Triggers(name) => match self.triggers(&name).await {
                Ok(names) => say(to, &Answer::Names(names)).await.map(Ok)?,
                Err(error) => Err(error.into()),
            },
            Ask::Runs(names) => match self.runs(&names).await {
                Ok(runs) => say(to, &Answer::Runs(runs)).await.map(Ok)?,
                Err(error) => Err(error.into()),
            },
            Ask::Starts(names) => match self.starts(&names).await {
                Ok(starts) => say(to, &Answer::Starts(starts)).await.map(Ok)?,
                Err(error) => Err(error.into()),
            },
            Ask::Check(one) => match self.check(&one, to).await {
                Ok(()) => Ok(()),
                Err(Unwell::No(error)) => say(to, &Answer::Unwell((&error).into())).await.map(Ok)?,
                Err(Unwell::NotAsked(error)) => Err(error.into()),
            },
            Ask::ListenFiles(number, watched) => return self.tell_files(number, watched, from, to).await,
            Ask::ListenUnits(number, names) => return self.tell_units(number, names, from, to).await,
            one => self.change(one, to).await,
        })
    }

    /// Runs the command of a check.
    async fn check(&self, one: &OneCheck, to: &OwnedWriteHalf) -> Result<(), Unwell> {
        let Check::Command(name) = &one.check else {
            let text = "the helper has no network: it asks no URLs and addresses";
            return Err(Unwell::NotAsked(Error::unsupported(text)));
        };
        self.allowed.unit(&one.unit).map_err(Unwell::NotAsked)?;
        self.allowed.command(name).map_err(Unwell::NotAsked)?;
        is_wanted(to).map_err(Unwell::NotAsked)?;
        let asked = Asked { unit: &one.unit, instance: one.instance };
        self.here.check(&one.check, asked).await
    }

    /// Whatever changes something. It may have waited for a connection that was free.
    async fn change(&self, ask: Ask, to: &OwnedWriteHalf) -> Result<(), Fault> {
        is_wanted(to)?;
        match ask {
            Ask::Put(put) => {
                self.allowed.path(&put.path)?;
                self.allowed.make(&put)?;
                let _alone = self.files.claim(&put.path).await;
                is_wanted(to)?;
                self.here.put(&put).await?;
                info!(path = %put.path, "written");
            }
            Ask::Remove(remove) => {
                self.allowed.path(&remove.path)?;
                let _alone = self.files.claim(&remove.path).await;
                is_wanted(to)?;
                self.here.remove(&remove).await?;
                info!(path = %remove.path, "removed");
            }
            Ask::Link(unit, link) => {
                self.manager(&unit)?.link(&unit, link).await?;
                info!(unit, ?link, "linked");
            }
            Ask::Job(unit, job, of) => {
                self.manager(&unit)?.job(&unit, job, &of).await?;
                info!(unit, ?job, "job done");
            }
            Ask::ResetFailed(unit) => self.manager(&unit)?.reset_failed(&unit).await?,
            Ask::Reload => {
                self.allowed.units()?;
                self.bus()?.reload().await?;
            }
            _ => return Err(Error::unexpected("this changes nothing").into()),
        }
        Ok(())
    }

    fn bus(&self) -> Result<&Bus, Error> {
        self.allowed.units()?;
        self.manager.as_ref().ok_or_else(|| Error::unexpected("the helper has units and no bus"))
    }

    /// The manager, for a unit that is allowed.
    fn manager(&self, unit: &str) -> Result<&Bus, Error> {
        self.allowed.unit(unit)?;
        self.bus()
    }

    /// Paths that are not allowed are refused each for itself: one declared path that is wrong is no matter of others.
    async fn look(&self, paths: &[FilePath]) -> Result<Vec<Seen>, Error> {
        let is_allowed = |path: &&FilePath| self.allowed.path(path).is_ok();
        let some: Vec<FilePath> = paths.iter().filter(is_allowed).cloned().collect();
        self.files.quiet(|busy| some.contains(busy)).await;
        let mut seen = self.here.look(&some).await?.into_iter();
        let one = |path: &FilePath| match self.allowed.path(path) {
            Ok(()) => seen.next(),
            Err(error) => {
                let Told { kind, message, hint, .. } = error.into_told();
                let what = What::Refused(Refusal { kind, message, hint });
                Some(Seen::only(path.clone(), what))
            }
        };
        Ok(paths.iter().filter_map(one).collect())
    }

    async fn list(&self, directory: &FilePath) -> Result<Vec<Seen>, Error> {
        self.allowed.list(directory)?;
        self.files.quiet(|busy| busy.directory().as_ref() == Some(directory)).await;
        Ok(self.allowed_of(self.here.list(directory).await?))
    }

    fn allowed_of(&self, seen: Vec<Seen>) -> Vec<Seen> {
        seen.into_iter().filter(|seen| self.allowed.path(&seen.path).is_ok()).collect()
    }

    /// Of units that are not allowed nothing is known.
    async fn units(&self, names: &[String]) -> Result<Vec<UnitState>, Error> {
        let is_allowed = |name: &&String| self.allowed.unit(name).is_ok();
        let some: Vec<String> = names.iter().filter(is_allowed).cloned().collect();
        let mut states = self.bus()?.units(&some).await?.into_iter();
        let one = |name: &String| match self.allowed.unit(name) {
            Ok(()) => states.next(),
            Err(_) => Some(UnitState::default()),
        };
        Ok(names.iter().filter_map(one).collect())
    }

    /// What a unit that is allowed starts, where all of that is allowed too.
    async fn triggers(&self, name: &str) -> Result<Vec<String>, Error> {
        let triggered = self.manager(name)?.triggers(name).await?;
        // They are stopped and started with it, so one that is out of reach is no reason to begin.
        triggered.iter().try_for_each(|unit| self.allowed.unit(unit).map(drop))?;
        Ok(triggered)
    }

    /// Nor how they ran.
    async fn runs(&self, names: &[String]) -> Result<Vec<Run>, Error> {
        let is_allowed = |name: &&String| self.allowed.unit(name).is_ok();
        let some: Vec<String> = names.iter().filter(is_allowed).cloned().collect();
        let mut runs = self.bus()?.runs(&some).await?.into_iter();
        let one = |name: &String| match self.allowed.unit(name) {
            Ok(()) => runs.next(),
            Err(_) => Some(Run::default()),
        };
        Ok(names.iter().filter_map(one).collect())
    }

    /// Nor how they are started.
    async fn starts(&self, names: &[String]) -> Result<Vec<Start>, Error> {
        let is_allowed = |name: &&String| self.allowed.unit(name).is_ok();
        let some: Vec<String> = names.iter().filter(is_allowed).cloned().collect();
        let mut starts = self.bus()?.starts(&some).await?.into_iter();
        let one = |name: &String| match self.allowed.unit(name) {
            Ok(()) => starts.next(),
            Err(_) => Some(Start::default()),
        };
        Ok(names.iter().filter_map(one).collect())
    }

    /// Tells of files until the caller goes. Each listener has watches of its own.
    async fn tell_files(
        &self,
        mut number: u64,
        mut watched: crate::hands::Watched,
        from: &mut Reader,
        to: &mut OwnedWriteHalf,
    ) -> io::Result<Result<(), Fault>> {
        let hands = Here::new(self.allowed.config.clone());
        let mut changes = hands.changes();
        if !hands.is_told() {
            // Before it is said that somebody listens.
            let error = Error::unavailable("the kernel tells of no changes");
            return Ok(Err(error.hint("raise fs.inotify.max_user_instances").into()));
        }
        loop {
            watched.paths.retain(|path| self.allowed.told_of(path));
            watched.directories.retain(|path| self.allowed.path(path).is_ok());
            if let Err(error) = hands.watch("", std::mem::take(&mut watched)).await {
                return Ok(Err(error.into()));
            }
            say(to, &Answer::Listening(number)).await?;
            let frame = loop {
                tokio::select! {
                    frame = from.next() => break frame?,
                    told = changes.next() => match told {
                        Some(told) => say(to, &Answer::Files(self.of_allowed(told))).await?,
                        None => return Ok(Err(Error::unavailable("the kernel tells of no changes").into())),
                    },
                }
            };
            (number, watched) = match frame.map(|frame| wire::question(&frame)) {
                None => return Ok(Ok(())),
                Some(Ok(Ask::ListenFiles(number, watched))) => (number, watched),
                Some(Ok(_)) => return Ok(Err(Error::invalid("who listens asks nothing else").into())),
                Some(Err(error)) => return Ok(Err(error.into())),
            };
        }
    }

    fn of_allowed(&self, changes: Vec<Change>) -> Vec<Change> {
        let is_allowed = |change: &Change| match change {
            Change::At(path) => self.allowed.told_of(path),
            Change::Anywhere => true,
        };
        changes.into_iter().filter(is_allowed).collect()
    }

    /// The same of units.
    async fn tell_units(
        &self,
        mut number: u64,
        mut names: std::collections::BTreeSet<String>,
        from: &mut Reader,
        to: &mut OwnedWriteHalf,
    ) -> io::Result<Result<(), Fault>> {
        // Without units there is nothing to tell, which is no error: the daemon asks whatever it manages.
        let bus = self.allowed.config.bus_address().map(|address| Bus::new(&address, None));
        let mut changes = bus.as_ref().map_or_else(|| stream::pending().boxed(), Bus::changes);
        loop {
            names.retain(|name| self.allowed.unit(name).is_ok());
            if let Some(bus) = &bus {
                bus.watch("", std::mem::take(&mut names));
            }
            say(to, &Answer::Listening(number)).await?;
            let frame = loop {
                tokio::select! {
                    frame = from.next() => break frame?,
                    Some(told) = changes.next() => say(to, &Answer::Unit(told)).await?,
                }
            };
            (number, names) = match frame.map(|frame| wire::question(&frame)) {
                None => return Ok(Ok(())),
                Some(Ok(Ask::ListenUnits(number, names))) => (number, names),
                Some(Ok(_)) => return Ok(Err(Error::invalid("who listens asks nothing else").into())),
                Some(Err(error)) => return Ok(Err(error.into())),
            };
        }
    }
}

/// Why something that takes long is not begun.
fn is_busy() -> Error {
    let text =
        format!("the helper is at {LONG} changes and checks, and begins no other before one of them is over");
    Error::unavailable(text).retry_after(SOON)
}

/// Refuses to begin what nobody waits for any longer: whoever looks now plans for what is there now. What was begun before
/// its caller died is over before the next one sees how things stand.
fn is_wanted(to: &OwnedWriteHalf) -> Result<(), Error> {
    let mut caller = [PollFd::new(to.as_ref(), PollFlags::empty())];
    let asked = poll(&mut caller, Some(&Timespec::default()));
    let is_gone = asked.is_ok() && caller.iter().any(|one| one.revents().contains(PollFlags::HUP));
    if is_gone { Err(Error::unavailable("the caller is gone, and nothing was begun")) } else { Ok(()) }
}

/// The question of a new connection; why it is none, or nothing where nobody asks.
async fn question(from: &mut Reader) -> Result<Ask, Option<Error>> {
    match timeout(PATIENCE, from.next()).await {
        Ok(Ok(Some(frame))) => wire::question(&frame).map_err(Some),
        Ok(Ok(None)) => Err(None),
        Ok(Err(error)) => Err(Some(Error::invalid("read a question").caused_by(error))),
        Err(_) => Err(Some(Error::invalid(format!("no question came within {} s", PATIENCE.as_secs())))),
    }
}

async fn tell(to: &mut OwnedWriteHalf, all: Vec<Seen>) -> io::Result<()> {
    for seen in all {
        say(to, &Answer::Seen(seen)).await?;
    }
    Ok(())
}

async fn say(to: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    timeout(PATIENCE, send(to, answer)).await?
}
