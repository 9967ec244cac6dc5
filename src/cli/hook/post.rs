//! post-receive: has what was pushed applied, and tells how it goes. The push is taken whatever happens here.

use super::{
    consent::{EMPTY, ways},
    daemon::{Daemon, told, within},
    input::{Update, received},
    options::Options,
};
use crate::{
    cli::{
        Exit, Out,
        follow::{counts, held, is_suspended, tell},
    },
    client::Client,
    config::{Approver, Environment},
    failure::Failure,
    operation::{PushFollow, PushMove, PushSource, SyncLine, SyncOutcome},
    source::{CommitInfo, Oid},
    text::{short_commit, short_digest},
};
use futures_util::future::join_all;
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Variables in which a server of repositories says who pushes.
const NAMES: [&str; 5] = ["REMOTE_USER", "GL_USERNAME", "GL_USER", "GITEA_PUSHER_NAME", "GL_ID"];

/// How much longer than asked for the daemon may take to say that the time is over.
const GRACE: Duration = Duration::from_secs(2);

/// How long the daemon may take to say what it knows of the repository: whoever pushes has waited for that once. What the
/// push consents to is lost without an answer, so that is waited for as before.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the hook.
pub(super) async fn run(
    socket: &Path,
    environment: &Environment,
    updates: &[Update],
    options: &Options,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let received = received(environment)?;
    let daemon = Daemon::find(socket, &received, patience(options)).await;
    let moved = moved(&daemon, updates, |new| received.commit(new).ok().flatten());
    let wait = options.wait.unwrap_or(daemon.push_timeout());
    let all: Vec<PushMove> = moved.iter().map(Moved::told).collect();
    let ask = |moved: &Moved<'_>| PushFollow {
        repository: received.place().to_string_lossy().into_owned(),
        source: moved.source.name.clone(),
        reference: moved.reference.into(),
        commit: moved.commit.oid.to_string(),
        wait: (!wait.is_zero() && !daemon.is_slow)
            .then(|| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        accept_rewind: options.accepts_rewind(&moved.commit.oid.to_string()),
        approve: options.approve.clone(),
        claimed: NAMES.iter().find_map(|name| environment.var(name)).map(String::from),
        moves: if all.len() > 1 && daemon.target.knows_moves { all.clone() } else { Vec::new() },
    };
    let limit = match daemon.is_slow {
        // It is told all the same who pushed, and looks when it can.
        true => PATIENCE,
        false if wait.is_zero() => daemon.plan_timeout(),
        false => wait + GRACE,
    };
    let screen = Screen { out: Mutex::new(out), told: Mutex::default() };
    let followed = moved.iter().map(|moved| one(&daemon, ask(moved), moved.source, limit, &screen));
    let unheard = join_all(followed).await.into_iter().flatten().next();
    if let Some(unheard) = unheard.filter(|_| !options.approve.is_empty()) {
        let consents = daemon.target.sources.iter().any(|source| source.consents);
        let mut out = screen.out();
        unheard.tell("nothing is approved", "whether anything is approved", "reconciled approvals", &mut out);
        consent_again(options, consents).iter().for_each(|hint| out.talk(hint));
    }
    Ok(Exit::Good)
}

/// A source that the push moves.
struct Moved<'a> {
    source: &'a PushSource,
    reference: &'a str,
    commit: CommitInfo,
}

impl Moved<'_> {
    fn told(&self) -> PushMove {
        PushMove {
            source: self.source.name.clone(),
            reference: self.reference.into(),
            commit: self.commit.oid.to_string(),
        }
    }
}

/// What the push moves, by the commits that `commit` finds.
fn moved<'a>(
    daemon: &'a Daemon,
    updates: &'a [Update],
    commit: impl Fn(Oid) -> Option<CommitInfo>,
) -> Vec<Moved<'a>> {
    let mut moved = Vec::new();
    for update in updates {
        let Some(commit) = update.new.and_then(&commit) else { continue };
        let follow = daemon.target.sources.iter().filter(|source| source.follows(&update.reference));
        let reference = update.reference.as_str();
        moved.extend(follow.map(|source| Moved { source, reference, commit: commit.clone() }));
    }
    moved
}

/// Where those who are followed beside each other are told of: what one was told, the others do not say again.
struct Screen<'a> {
    out: Mutex<&'a mut Out>,
    /// By source.
    told: Mutex<Vec<(String, SyncLine)>>,
}

impl<'a> Screen<'a> {
    fn out(&self) -> MutexGuard<'_, &'a mut Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn talk(&self, text: &str) {
        self.out().talk(text);
    }

    /// True for what another source was told in the same words.
    fn is_known(&self, source: &str, line: &SyncLine) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.iter().any(|(other, known)| other != source && known == line) {
            return true;
        }
        told.push((source.to_owned(), line.clone()));
        false
    }
}

/// Follows one source, and says what there is to say where that came to nothing; returns why the daemon has not heard of it.
async fn one(
    daemon: &Daemon,
    ask: PushFollow,
    source: &PushSource,
    limit: Duration,
    screen: &Screen<'_>,
) -> Option<Unheard> {
    let label = short_commit(&ask.commit);
    let mut at: Option<At> = None;
    let lost = match &daemon.client {
        Ok(client) => {
            let following = follow(client, &ask, source, label, &mut at, screen);
            let Err(failure) = within(limit, following).await else { return None };
            let why = told(&failure);
            screen.talk(&format!("{label} is taken, and goes on without being followed: {why}"));
            Unheard::Perhaps
        }
        Err(failure) => {
            screen.talk(&untold(&ask, source, label));
            Unheard::Surely(told(failure))
        }
    };
    if ask.accept_rewind && at.as_ref().is_none_or(|at| at.commit != ask.commit) {
        rewind(&ask, source, &lost, &mut screen.out());
    }
    // It says where a source is once it has put down what is consented to.
    at.is_none().then_some(lost)
}

/// Whether what the push consents to has not come to the daemon, which keeps it in memory until the push was taken.
enum Unheard {
    Perhaps,
    /// And why.
    Surely(String),
}

impl Unheard {
    fn tell(&self, nothing: &str, whether: &str, verb: &str, out: &mut Out) {
        out.talk(&match self {
            Unheard::Surely(why) => format!("note: {nothing}: {why}"),
            Unheard::Perhaps => format!("note: {whether} is not known; to see it: {verb}"),
        });
    }
}

/// A push of which nobody could be told.
fn untold(ask: &PushFollow, source: &PushSource, label: &str) -> String {
    if ask.accept_rewind {
        return format!("{label} is taken");
    }
    let conditions = match (source.is_line(), source.verifies) {
        (true, false) => "",
        (true, true) => ", if it is signed by an allowed key",
        (false, false) => ", if it is the highest version",
        (false, true) => ", if it is the highest version and signed by an allowed key",
    };
    format!("{label} is taken, and applied once the daemon looks{conditions}")
}

/// What to type where a rewind was consented to in vain.
fn rewind(ask: &PushFollow, source: &PushSource, unheard: &Unheard, out: &mut Out) {
    let nothing = format!("nobody has consented to the rewind, and {} stays where it is", source.name);
    unheard.tell(&nothing, "whether the rewind is consented to", "reconciled status", out);
    let line = format!("reconciled sync --source {} --accept-rewind {}", source.name, ask.commit);
    out.talk(&format!("hint: to rewind on purpose, on the daemon's host: {line}"));
    if source.consents {
        let line = "git push -o reconciled.accept-rewind=$(git rev-parse HEAD)";
        out.talk(&format!("hint: or with a push: {EMPTY}, then {line}"));
    }
}

/// What to type where other consent was given in vain.
fn consent_again(options: &Options, by_push: bool) -> Vec<String> {
    let digests: Vec<Arc<str>> = options.approve.iter().map(|digest| Arc::from(&**digest)).collect();
    // A trailer takes whole digests, and the pusher may have written less.
    let mut hints = if by_push { ways(&digests, &[]) } else { Vec::new() };
    hints.extend(
        digests.iter().map(|digest| format!("hint: to consent on the daemon's host: {}", approve(digest))),
    );
    hints
}

fn patience(options: &Options) -> Duration {
    let consents = !options.approve.is_empty() || !options.accept_rewind.is_empty();
    if consents { Duration::MAX } else { PATIENCE }
}

/// Where a source is, as the daemon says.
struct At {
    /// Full commit id.
    commit: String,
    label: String,
}

/// Tells how it goes, until the end; `at` is where the source is, once that is told.
async fn follow(
    client: &Client,
    ask: &PushFollow,
    source: &PushSource,
    label: &str,
    at: &mut Option<At>,
    screen: &Screen<'_>,
) -> Result<(), Failure> {
    let mut lines = client.lines::<SyncLine>("/v1/push/follow", ask).await?;
    while let Some(line) = lines.next().await? {
        let mut out = screen.out();
        match line {
            SyncLine::Revision { source, commit, label } if source == ask.source => {
                *at = Some(At { commit, label });
            }
            SyncLine::Revision { .. } => {}
            // Warnings were shown before the push was taken.
            SyncLine::Message { text } if text.starts_with("warning") => {}
            SyncLine::End { outcome, outcomes, left, invalid, missed, milliseconds, .. } => {
                for (scope, stance) in &left {
                    out.talk(&format!("{scope} is {stance}"));
                }
                let elsewhere = at.as_ref().filter(|at| is_elsewhere(ask, source, at, outcome));
                let did = match outcomes.is_empty() {
                    true if outcome != SyncOutcome::Converged => "nothing changed so far".into(),
                    true if missed && elsewhere.is_none() => String::new(),
                    true => "nothing to change".into(),
                    false => counts(&outcomes),
                };
                if let Some(at) = elsewhere {
                    let version = ask.reference.strip_prefix("refs/tags/").unwrap_or(label);
                    out.talk(&format!("{version} is taken; {} is at {}", ask.source, at.label));
                }
                let (source, label) = (&ask.source, elsewhere.map_or(label, |at| &at.label));
                out.talk(&match outcome {
                    SyncOutcome::Held if is_suspended(&left) => format!(
                        "{source} is suspended at {label}: {did}; it goes on once that is over (reconciled status)"
                    ),
                    SyncOutcome::Failed if invalid => format!(
                        "{source} has errors in manifests at {label}: {did}; what they declare stays as it is until they are mended"
                    ),
                    outcome => conclusion(outcome, source, label, &did, milliseconds),
                });
                return Ok(());
            }
            line if screen.is_known(&ask.source, &line) => {}
            SyncLine::Held { domain, digest, reasons, once, ways } => {
                out.talk(&held(&domain, &reasons, once.as_deref()));
                consent(&digest, &ways).iter().for_each(|hint| out.talk(hint));
            }
            line => tell(&line, &mut out),
        }
    }
    Err(Failure::plain("the daemon ended before it said how it went"))
}

/// Whether the source is at another commit than the pushed one, and stays there: of a range of versions another may be the
/// highest.
fn is_elsewhere(ask: &PushFollow, source: &PushSource, at: &At, outcome: SyncOutcome) -> bool {
    let is_known = !matches!(outcome, SyncOutcome::Accepted | SyncOutcome::TimedOut);
    is_known && !source.is_line() && !at.commit.is_empty() && at.commit != ask.commit
}

/// What whoever pushed can do about what is held, by the `open` ways. Not everybody who pushes may use a shell on the daemon's
/// host, nor does every source let its users consent.
fn consent(digest: &str, open: &[Approver]) -> Vec<String> {
    let by = |way| if open.contains(&way) { vec![Arc::from(digest)] } else { Vec::new() };
    let mut hints = ways(&by(Approver::PushOption), &by(Approver::Trailer));
    if open.contains(&Approver::Socket) {
        hints.push(format!("hint: to consent on the daemon's host: {}", approve(digest)));
    } else if hints.is_empty() {
        hints.push(format!("hint: root or the daemon's own user consents on its host: {}", approve(digest)));
    }
    hints
}

fn approve(digest: &str) -> String {
    format!("reconciled approve {} --reason \"…\"", short_digest(digest))
}

/// The one line that says how it ended.
fn conclusion(outcome: SyncOutcome, source: &str, label: &str, did: &str, milliseconds: u64) -> String {
    match outcome {
        // What was done before anybody asked is not known here.
        SyncOutcome::Converged if did.is_empty() => {
            format!("{source} is in sync at {label} ({milliseconds} ms)")
        }
        SyncOutcome::Converged => format!("{source} is in sync at {label}: {did} ({milliseconds} ms)"),
        SyncOutcome::Accepted => format!("{label} is taken; to follow it: reconciled sync --wait"),
        SyncOutcome::Held => format!("{source} is held at {label}: {did}; a person must consent or act"),
        SyncOutcome::Failed => {
            format!("{source} failed at {label}: {did}; it is tried again by itself (reconciled status)")
        }
        SyncOutcome::Superseded => format!("{label} is superseded: {source} is at a newer revision"),
        SyncOutcome::Missing => {
            format!("{source} does not offer {label} after {milliseconds} ms; it is applied once it does")
        }
        SyncOutcome::TimedOut => {
            format!("{source} is still going at {label} after {milliseconds} ms; it goes on without you")
        }
    }
}
