//! The hands of another process, which has the rights for it: the helper behind a socket.
//!
//! Guarantees: a request whose answer was lost may have been carried out, and is reported so; one that could not be sent
//! was not. Nothing is kept between requests, so a helper that is started anew is not missed. *Caveat*: what needs no
//! rights is done here: URLs and addresses are asked, and `systemd-analyze verify` runs, in this process.

use super::{
    Asked, Change, Check, Draft, Fault, Hands, Job, Link, Manager, Put, Remove, Run, Seen, Start, UnitState,
    Unwell, Watched, analyze, check,
    wire::{Answer, Ask, Frames, OneCheck, Question, VERSION, send},
};
use crate::{path::FilePath, systemd::Places};
use async_trait::async_trait;
use futures_core::stream::BoxStream;
use futures_util::stream;
use reconciled_provider::Error;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Semaphore, watch},
};

/// Longest time an answer may take: a job and a reload have limits of their own, which are shorter.
const LIMIT: Duration = Duration::from_secs(240);
/// How long a helper that is away is left alone.
const AWAY: Duration = Duration::from_secs(2);
/// The same, at most, of one that says again and again that it tells of no changes.
const LONG_AWAY: Duration = Duration::from_secs(30);
/// Jobs, checks, and other things that take long, that are asked for at one time: no more than the helper has seats for, and apart
/// from each other, so that a rolling update of hundreds keeps no file from being written.
const JOBS: usize = 16;
const CHECKS: usize = 8;
const OTHERS: usize = 8;
/// How long is waited for changes to be told of something else.
const SOON: Duration = Duration::from_secs(5);

/// Hands and service manager behind the socket of the helper.
#[derive(Clone, Debug)]
pub struct Afar(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    socket: PathBuf,
    files: Wish<Watched>,
    units: Wish<BTreeSet<String>>,
    seats: Arc<Seats>,
    /// A helper has the rights of root, and the units of the machine.
    places: Places,
}

/// How much may be asked of a helper at one time, whichever entry asks: it has no more seats for two of them than for one.
#[derive(Debug)]
struct Seats {
    jobs: Semaphore,
    checks: Semaphore,
    others: Semaphore,
}

impl Seats {
    /// Those of the helper at `socket`.
    fn of(socket: &Path) -> Arc<Seats> {
        static ALL: Mutex<BTreeMap<PathBuf, Weak<Seats>>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, seats| seats.strong_count() > 0);
        if let Some(seats) = all.get(socket).and_then(Weak::upgrade) {
            return seats;
        }
        let [jobs, checks, others] = [JOBS, CHECKS, OTHERS].map(Semaphore::new);
        let seats = Arc::new(Seats { jobs, checks, others });
        all.insert(socket.into(), Arc::downgrade(&seats));
        seats
    }
}

/// What changes shall be told of, by scope, and what they are told of.
#[derive(Debug)]
struct Wish<T> {
    by_scope: Mutex<BTreeMap<&'static str, T>>,
    /// Counts the wishes.
    asked: watch::Sender<u64>,
    /// The one that is fulfilled; none while nobody listens.
    heard: watch::Sender<Option<u64>>,
}

impl<T> Default for Wish<T> {
    fn default() -> Wish<T> {
        Wish { by_scope: Mutex::default(), asked: watch::Sender::new(0), heard: watch::Sender::new(None) }
    }
}

impl<T: Clone + PartialEq> Wish<T> {
    /// Puts down a wish; the number of it.
    fn set(&self, scope: &'static str, what: T) -> u64 {
        let mut by_scope = self.by_scope.lock().unwrap_or_else(PoisonError::into_inner);
        by_scope.insert(scope, what);
        self.asked.send_modify(|number| *number += 1);
        *self.asked.borrow()
    }
    /// The same, where another one was put down before.
    fn set_new(&self, scope: &'static str, what: T) {
        let is_new = {
            let by_scope = self.by_scope.lock().unwrap_or_else(PoisonError::into_inner);
            by_scope.get(scope) != Some(&what)
        };
        if is_new {
            self.set(scope, what);
        }
    }
    /// All that is wished for, and the number of the last wish.
    fn all(&self) -> (u64, Vec<T>) {
        let by_scope = self.by_scope.lock().unwrap_or_else(PoisonError::into_inner);
        (*self.asked.borrow(), by_scope.values().cloned().collect())
    }
    /// Waits until a wish is fulfilled, if somebody is there to do it.
    async fn heard(&self, number: u64) {
        let mut heard = self.heard.subscribe();
        let is_so = heard.wait_for(|heard| heard.is_none_or(|heard| heard >= number));
        // What is not told in time is found by the next look.
        let _ = tokio::time::timeout(SOON, is_so).await;
    }
}

type Connection = (Frames<OwnedReadHalf>, OwnedWriteHalf);

/// A connection on which changes are told. Whoever waits for a wish to be heard waits no more once it is gone, also where
/// the stream of changes was dropped and nobody opens another one.
struct Ear<T: 'static> {
    afar: Afar,
    wish: fn(&Kept) -> &Wish<T>,
    answers: Frames<OwnedReadHalf>,
    to: OwnedWriteHalf,
}

impl<T> Drop for Ear<T> {
    fn drop(&mut self) {
        (self.wish)(&self.afar.0).heard.send_replace(None);
    }
}

impl Afar {
    /// The helper at `socket`; nothing is asked before it is needed.
    pub fn new(socket: &Path) -> Afar {
        Afar(Arc::new(Kept {
            socket: socket.into(),
            files: Wish::default(),
            units: Wish::default(),
            seats: Seats::of(socket),
            places: Places::system(),
        }))
    }

    fn lost(&self, error: io::Error) -> Error {
        let text = format!("ask the helper at {}", self.0.socket.display());
        Error::unavailable(text)
            .hint("systemctl status reconciled-hostd.socket; journalctl -u reconciled-hostd")
            .caused_by(error)
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let (read, write) =
            UnixStream::connect(&self.0.socket).await.map_err(|error| self.lost(error))?.into_split();
        Ok((Frames::of(read), write))
    }

    /// Asks one thing; what was said until it was done.
    async fn ask(&self, ask: Ask) -> Result<Vec<Answer>, Fault> {
        let room = match &ask {
            Ask::Job(..) => &self.0.seats.jobs,
            Ask::Check(_) => &self.0.seats.checks,
            _ => &self.0.seats.others,
        };
        let _room = match ask.is_long() {
            true => Some(room.acquire().await.expect("nobody closes it")),
            false => None,
        };
        let (mut answers, mut to) = self.connect().await?;
        let asking = async {
            // Who is refused is told so, even where not all of the question was taken.
            let sent = send(&mut to, &Question { version: VERSION, ask }).await;
            let mut said = Vec::new();
            loop {
                match answers.words().await {
                    Ok(Some(Answer::Done)) => return Ok(said),
                    Ok(Some(Answer::Failed(why))) => return Err(Fault::NoEffect(why.into())),
                    Ok(Some(Answer::Unknown(why))) => return Err(Fault::Unknown(why.into())),
                    Ok(Some(answer)) => said.push(answer),
                    Ok(None) => {
                        let error = sent.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
                        return Err(Fault::Unknown(self.lost(error)));
                    }
                    Err(error) => return Err(Fault::Unknown(self.lost(error))),
                }
            }
        };
        let late = |_| Fault::Unknown(self.lost(io::ErrorKind::TimedOut.into()));
        tokio::time::timeout(LIMIT, asking).await.map_err(late)?
    }

    /// Asks something that changes nothing.
    async fn read(&self, ask: Ask) -> Result<Vec<Answer>, Error> {
        self.ask(ask).await.map_err(|(Fault::NoEffect(error) | Fault::Unknown(error))| error)
    }

    async fn change(&self, ask: Ask) -> Result<(), Fault> {
        self.ask(ask).await.map(drop)
    }

    /// What the helper tells of what is wished for. `unknown`: anything may have happened, since nobody listened, or the helper
    /// went away.
    fn listen<T, U>(
        &self,
        wish: fn(&Kept) -> &Wish<T>,
        ask: fn(u64, Vec<T>) -> Ask,
        told: fn(Answer) -> Option<U>,
        unknown: U,
    ) -> BoxStream<'static, U>
    where
        T: Clone + PartialEq + Send + Sync + 'static,
        U: Clone + Send + Sync + 'static,
    {
        let asked = wish(&self.0).asked.subscribe();
        let begin = (self.clone(), asked, None::<Ear<T>>, unknown, Duration::ZERO);
        Box::pin(stream::unfold(begin, move |(afar, mut asked, mut open, unknown, mut wait)| async move {
            let all = |asked: &mut watch::Receiver<u64>| {
                asked.mark_unchanged();
                let (number, all) = wish(&afar.0).all();
                Question { version: VERSION, ask: ask(number, all) }
            };
            loop {
                let Some(ear) = &mut open else {
                    tokio::time::sleep(wait).await;
                    if let Ok((answers, mut to)) = afar.connect().await
                        && send(&mut to, &all(&mut asked)).await.is_ok()
                    {
                        open = Some(Ear { afar: afar.clone(), wish, answers, to });
                    } else {
                        wait = AWAY;
                    }
                    continue;
                };
                let next = tokio::select! {
                    answer = ear.answers.words() => answer,
                    _ = asked.changed() => match send(&mut ear.to, &all(&mut asked)).await {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    },
                };
                match next {
                    Ok(Some(Answer::Listening(number))) => {
                        let was = wish(&afar.0).heard.send_replace(Some(number));
                        if was.is_none() {
                            return Some((unknown.clone(), (afar, asked, open, unknown, wait)));
                        }
                    }
                    // It will not listen, or not any longer, and would say the same again at once.
                    Ok(Some(Answer::Failed(_) | Answer::Unknown(_) | Answer::Done)) => {
                        let was_heard = wish(&afar.0).heard.borrow().is_some();
                        open = None;
                        wait = if was_heard { AWAY } else { (wait * 2).clamp(AWAY, LONG_AWAY) };
                        if was_heard {
                            return Some((unknown.clone(), (afar, asked, open, unknown, wait)));
                        }
                    }
                    Ok(Some(answer)) => {
                        if let Some(told) = told(answer) {
                            return Some((told, (afar, asked, open, unknown, wait)));
                        }
                    }
                    Ok(None) | Err(_) => {
                        let was_heard = wish(&afar.0).heard.borrow().is_some();
                        open = None;
                        // Once, and not for each one that goes again at once: who looks finds out whether it is away.
                        wait = if was_heard { Duration::ZERO } else { AWAY };
                        if was_heard {
                            return Some((unknown.clone(), (afar, asked, open, unknown, wait)));
                        }
                    }
                }
            }
        }))
    }
}

fn seen(answers: Vec<Answer>) -> Vec<Seen> {
    let one = |answer| if let Answer::Seen(seen) = answer { Some(seen) } else { None };
    answers.into_iter().filter_map(one).collect()
}

#[async_trait]
impl Hands for Afar {
    async fn look(&self, paths: &[FilePath]) -> Result<Vec<Seen>, Error> {
        self.read(Ask::Look(paths.to_vec())).await.map(seen)
    }

    async fn list(&self, directory: &FilePath) -> Result<Vec<Seen>, Error> {
        self.read(Ask::List(directory.clone())).await.map(seen)
    }

    async fn list_all(&self) -> Result<Vec<Seen>, Error> {
        self.read(Ask::ListAll).await.map(seen)
    }

    async fn put(&self, put: &Put) -> Result<(), Fault> {
        self.change(Ask::Put(put.clone())).await
    }

    async fn remove(&self, remove: &Remove) -> Result<(), Fault> {
        self.change(Ask::Remove(remove.clone())).await
    }

    async fn check(&self, check: &Check, asked: Asked<'_>) -> Result<(), Unwell> {
        match check {
            // The helper has no network.
            Check::Http(_) | Check::Tcp(_) => check::run(check, asked, None, SOON).await,
            Check::Command(_) => {
                let (check, unit) = (check.clone(), asked.unit.to_owned());
                let ask = Ask::Check(OneCheck { check, unit, instance: asked.instance });
                let said = self.read(ask).await.map_err(Unwell::NotAsked)?;
                let no = said.into_iter().find_map(|answer| match answer {
                    Answer::Unwell(why) => Some(Unwell::No(why.into())),
                    _ => None,
                });
                no.map_or(Ok(()), Err)
            }
        }
    }

    async fn watch(&self, scope: &'static str, watched: Watched) -> Result<(), Error> {
        // Told again where nothing else is wished for: a directory of that name may be another one than before, and the
        // kernel tells of the one that was there.
        let number = self.0.files.set(scope, watched);
        self.0.files.heard(number).await;
        Ok(())
    }

    fn changes(&self) -> BoxStream<'static, Vec<Change>> {
        let ask = |number, all: Vec<Watched>| {
            let mut whole = Watched::default();
            for one in all {
                whole.paths.extend(one.paths);
                whole.directories.extend(one.directories);
            }
            Ask::ListenFiles(number, whole)
        };
        let told = |answer| if let Answer::Files(changes) = answer { Some(changes) } else { None };
        self.listen(|kept| &kept.files, ask, told, vec![Change::Anywhere])
    }
}

#[async_trait]
impl Manager for Afar {
    async fn units(&self, names: &[String]) -> Result<Vec<UnitState>, Error> {
        let said = self.read(Ask::Units(names.to_vec())).await?;
        let states = said.into_iter().find_map(|answer| match answer {
            Answer::Units(states) if states.len() == names.len() => Some(states),
            _ => None,
        });
        states.ok_or_else(|| Error::unexpected("the helper did not say how the units stand"))
    }

    async fn triggers(&self, name: &str) -> Result<Vec<String>, Error> {
        let said = self.read(Ask::Triggers(name.to_owned())).await?;
        let names = said.into_iter().find_map(|answer| match answer {
            Answer::Names(names) => Some(names),
            _ => None,
        });
        names.ok_or_else(|| Error::unexpected(format!("the helper did not say what {name} starts")))
    }

    async fn runs(&self, names: &[String]) -> Result<Vec<Run>, Error> {
        let said = self.read(Ask::Runs(names.to_vec())).await?;
        let runs = said.into_iter().find_map(|answer| match answer {
            Answer::Runs(runs) if runs.len() == names.len() => Some(runs),
            _ => None,
        });
        runs.ok_or_else(|| Error::unexpected("the helper did not say how the units ran"))
    }

    async fn starts(&self, names: &[String]) -> Result<Vec<Start>, Error> {
        let said = self.read(Ask::Starts(names.to_vec())).await?;
        let starts = said.into_iter().find_map(|answer| match answer {
            Answer::Starts(starts) if starts.len() == names.len() => Some(starts),
            _ => None,
        });
        starts.ok_or_else(|| Error::unexpected("the helper did not say how the units are started"))
    }

    async fn link(&self, name: &str, link: Link) -> Result<(), Fault> {
        self.change(Ask::Link(name.to_owned(), link)).await
    }

    async fn reload(&self) -> Result<(), Fault> {
        self.change(Ask::Reload).await
    }

    async fn job(&self, name: &str, job: Job, of: &str) -> Result<(), Fault> {
        self.change(Ask::Job(name.to_owned(), job, of.to_owned())).await
    }

    async fn reset_failed(&self, name: &str) -> Result<(), Fault> {
        self.change(Ask::ResetFailed(name.to_owned())).await
    }

    fn watch(&self, scope: &'static str, names: BTreeSet<String>) {
        self.0.units.set_new(scope, names);
    }

    fn changes(&self) -> BoxStream<'static, Option<String>> {
        let ask = |number, all: Vec<BTreeSet<String>>| {
            Ask::ListenUnits(number, all.into_iter().flatten().collect())
        };
        let told = |answer| if let Answer::Unit(unit) = answer { Some(unit) } else { None };
        self.listen(|kept| &kept.units, ask, told, None)
    }

    async fn verify(&self, units: &[Draft]) -> Vec<Result<(), Error>> {
        analyze::verify(units, None).await
    }

    fn places(&self) -> &Places {
        &self.0.places
    }
}
