//! `backup`, `restore`, `state init`: the state as a file.

use super::{
    Args, Exit, Out,
    destination::{replaces_file, spares_own},
    host::Host,
    interrupt,
    person::consent,
};
use crate::{
    config::Environment,
    failure::Failure,
    file,
    session::HostState,
    store::{self, DATABASE, Init, KEY_FILE},
};
use clap::{Args as ClapArgs, Subcommand};
use reconciled_engine::{Pin, Store, Suspension};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// Arguments of `backup`.
#[derive(Clone, Debug, ClapArgs)]
pub struct BackupArgs {
    /// Where to write it, outside of the state directory; a file of that name is replaced
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `restore`.
#[derive(Clone, Debug, ClapArgs)]
pub struct RestoreArgs {
    /// A file written by `backup`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Do not ask, which only happens at a terminal
    #[arg(short, long)]
    pub yes: bool,
}

/// Arguments of `state`.
#[derive(Clone, Debug, ClapArgs)]
pub struct StateArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: StateVerb,
}

/// What `state` does.
#[derive(Clone, Debug, Subcommand)]
pub enum StateVerb {
    /// Make a new state
    Init {
        /// Put a lost or damaged state aside; deletions are held until all was found in sync
        #[arg(long)]
        recover: bool,
    },
}

/// Runs `backup`.
pub(super) async fn run(
    args: &Args,
    backup: &BackupArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let file = backup.file.display();
    if backup.file == Path::new("-") {
        return Err(Failure::hinted(
            "a backup is not written to standard output",
            "name a file, and copy it from there: reconciled backup FILE",
        ));
    }
    if backup.file.is_dir() {
        let hint = format!("name a file in it: reconciled backup {}", backup.file.join(DATABASE).display());
        return Err(Failure::hinted(format!("{file} is a directory"), hint));
    }
    replaces_file(&backup.file)?;
    spares_own(&backup.file, args, &environment)?;
    let host = Host::of_state(args, &environment, out).await?;
    let (whose, beside) = match &host {
        Host::Daemon(client) => {
            let content = client.bytes("/v1/backup").await?;
            file::replace(&backup.file, &content).map_err(|error| {
                let hint = "name a file in a directory that is there, and that you may write to";
                Failure::hinted(format!("write {file}: {error}"), hint)
            })?;
            match &args.server {
                // What of these is there is not known here.
                Some(_) => {
                    let beside = BESIDE.map(|name| format!("{name} of its state directory"));
                    (client.place.clone(), beside.to_vec())
                }
                None => of_here(&HostState::open(args.config.as_deref(), &environment)?),
            }
        }
        Host::Alone(state) => {
            let reader = state.reader_of_some().await?;
            let to = backup.file.clone();
            let copying = async move { reader.backup(&to).await.map_err(Failure::from) };
            interrupt::until_signal(copying, hung(&backup.file)).await?;
            of_here(state)
        }
    };
    out.talk(&format!("state of {whose} written to {file}"));
    out.talk(&format!("hint: keep {}", too(&beside)));
    Ok(Exit::Good)
}

/// A copy that did not go after a signal: it gets its name once it is whole, and stays beside it until then.
fn hung(file: &Path) -> Failure {
    let file = file.display();
    Failure::hinted(
        format!(
            "ended by a signal: the disk of {file}, or of the state, does not answer, so that file is as it was, or whole"
        ),
        format!("what is called {file}.*.part is no backup; it can be removed once the disk answers"),
    )
}

/// What of a state directory cannot be made anew, and is not in its database: the key that this is sealed with, keys of
/// certificates and of accounts at authorities, and what files of the host were before.
const BESIDE: [&str; 3] = [KEY_FILE, "certificates", "originals"];

/// The state directory, and what of it is in no backup, for people.
fn of_here(state: &HostState) -> (String, Vec<String>) {
    let dir = &state.config.state_dir;
    let is_there = |path: &PathBuf| path.ends_with(KEY_FILE) || path.exists();
    let beside = BESIDE.map(|name| dir.join(name)).into_iter().filter(is_there);
    (dir.display().to_string(), beside.map(|path| path.display().to_string()).collect())
}

/// What is to be kept beside a backup.
fn too(beside: &[String]) -> String {
    match beside {
        [others @ .., last] if !others.is_empty() => {
            format!("{} and {last} too, and elsewhere: they are not in the backup", others.join(", "))
        }
        _ => format!("{} too, and elsewhere: it is not in the backup", beside.concat()),
    }
}

/// Runs `restore`.
pub(super) async fn restore(
    args: &Args,
    restore: &RestoreArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let state = HostState::open(args.config.as_deref(), &environment)?;
    let dir = &state.config.state_dir;
    let question = format!("Replace {} by {}?", dir.join(DATABASE).display(), restore.file.display());
    if !consent(restore.yes, &question, out)? {
        return Ok(Exit::Error);
    }
    let restored = store::restore(dir, &restore.file, &*state.clock).await?;
    if let Some(replaced) = &restored.replaced {
        out.talk(&format!("the state it replaced is {}", replaced.display()));
    }
    out.data(&format!("restored: {} tracked resources", restored.tracked));
    let reader = state.reader_of_some().await?;
    tell_words(&reader.suspensions().await?, &reader.pins().await?, state.clock.now(), out);
    if !restored.knows_words {
        out.talk("what was suspended, resumed, rolled back or forgotten since the backup is not known: see reconciled status before a daemon is started");
    }
    out.talk("hint: to see what changed since the backup: reconciled plan");
    Ok(Exit::Good)
}

/// Says what a state that was restored has persons stop, and keep at earlier revisions.
fn tell_words(suspensions: &[Suspension], pins: &[Pin], now: Duration, out: &mut Out) {
    for one in suspensions.iter().filter(|one| !one.is_over(now)) {
        out.talk(&format!("suspended: {} by {}: {}", one.extent, one.actor, one.reason));
    }
    let mut rollbacks: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for pin in pins {
        *rollbacks.entry((&pin.label, &pin.actor, &pin.reason)).or_default() += 1;
    }
    for ((label, actor, reason), count) in rollbacks {
        let are = if count == 1 { "1 resource is".to_owned() } else { format!("{count} resources are") };
        out.talk(&format!("rolled back: {are} kept at {label} by {actor}: {reason}"));
    }
}

/// Runs `state`.
pub(super) async fn state(
    args: &Args,
    arguments: &StateArgs,
    environment: Environment,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let state = HostState::open(args.config.as_deref(), &environment)?;
    let StateVerb::Init { recover } = arguments.verb;
    let how = if recover { Init::Recover } else { Init::New };
    let dir = &state.config.state_dir;
    if let Some(aside) = store::init(dir, how, state.clock.clone()).await? {
        out.talk(&format!("the old state was put aside as {}", aside.display()));
    }
    out.data(&format!("new state in {}", dir.display()));
    if recover {
        out.talk("deletions are held until everything was found in sync");
    }
    out.talk("now: reconciled plan");
    Ok(Exit::Good)
}
