//! post-receive: has what was pushed applied, and tells how it goes. The push is taken whatever happens here.

use super::{
    Exit, Options, Out, Update,
    daemon::{Daemon, within},
    pre::ways,
    received,
};
use crate::{
    cli::follow::{counts, held, is_suspended, tell},
    client::Client,
    config::Environment,
    operation::{PushFollow, PushSource, SyncLine, SyncOutcome},
    session::Failure,
};
use std::{path::Path, time::Duration};

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
    let wait = options.wait.unwrap_or(daemon.push_timeout());
    for update in updates {
        let Some(commit) = update.new.and_then(|new| received.commit(new).ok().flatten()) else { continue };
        for source in daemon.target.sources.iter().filter(|source| source.follows(&update.reference)) {
            let ask = PushFollow {
                repository: received.place().to_string_lossy().into_owned(),
                source: source.name.clone(),
                reference: update.reference.clone(),
                commit: commit.oid.to_string(),
                wait: (!wait.is_zero() && !daemon.is_slow)
                    .then(|| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                accept_rewind: is_meant(options, &commit.oid.to_string()),
                approve: options.approve.clone(),
                claimed: NAMES.iter().find_map(|name| environment.var(name)).map(String::from),
            };
            let limit = match daemon.is_slow {
                // It is told all the same who pushed, and looks when it can.
                true => PATIENCE,
                false if wait.is_zero() => daemon.plan_timeout(),
                false => wait + GRACE,
            };
            let label = commit.short();
            // Why it does not answer was said before the push was taken.
            let Ok(client) = &daemon.client else {
                out.talk(&format!("{label} is taken, and applied once the daemon looks"));
                continue;
            };
            if let Err(failure) = within(limit, follow(client, &ask, source, &label, out)).await {
                out.talk(&format!("{label} is taken, and goes on without being followed: {failure}"));
            }
        }
    }
    Ok(Exit::Good)
}

fn patience(options: &Options) -> Duration {
    let consents = !options.approve.is_empty() || options.accept_rewind.is_some();
    if consents { Duration::MAX } else { PATIENCE }
}

fn is_meant(options: &Options, commit: &str) -> bool {
    options.accept_rewind.as_ref().is_some_and(|wish| wish.len() >= 7 && commit.starts_with(wish.as_str()))
}

/// Tells how it goes, until the end.
async fn follow(
    client: &Client,
    ask: &PushFollow,
    source: &PushSource,
    label: &str,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut lines = client.lines::<SyncLine>("/v1/push/follow", ask).await?;
    while let Some(line) = lines.next().await? {
        match &line {
            SyncLine::Revision { .. } => {}
            // Warnings were shown before the push was taken.
            SyncLine::Message { text } if text.starts_with("warning") => {}
            SyncLine::End { outcome, outcomes, left, invalid, milliseconds, .. } => {
                for (scope, stance) in left {
                    out.talk(&format!("{scope} is {stance}"));
                }
                let did = match outcomes.is_empty() {
                    true if *outcome == SyncOutcome::Converged => "nothing to change".into(),
                    true => "nothing changed so far".into(),
                    false => counts(outcomes),
                };
                let source = &ask.source;
                out.talk(&match outcome {
                    SyncOutcome::Held if is_suspended(left) => format!(
                        "{source} is suspended at {label}: {did}; it goes on once that is over (reconciled status)"
                    ),
                    SyncOutcome::Failed if *invalid => format!(
                        "{source} has errors in manifests at {label}: {did}; what they declare stays as it is until they are mended"
                    ),
                    outcome => conclusion(*outcome, source, label, &did, *milliseconds),
                });
                return Ok(());
            }
            SyncLine::Held { domain, digest, reasons, once } => {
                out.talk(&held(domain, reasons, once.as_deref()));
                consent(digest, source).iter().for_each(|hint| out.talk(hint));
            }
            line => tell(line, out),
        }
    }
    Err(Failure::plain("the daemon ended before it said how it went"))
}

/// What whoever pushed can do about what is held. Not everybody who pushes may use a shell on the daemon's host, nor does every
/// source let its users consent.
fn consent(digest: &str, source: &PushSource) -> Vec<String> {
    let approve = format!("reconciled approve {} --reason \"…\"", digest.get(..8).unwrap_or(digest));
    let mut hints = ways(&[digest.into()], &[source]);
    if source.socket {
        hints.push(format!("hint: to consent on the daemon's host: {approve}"));
    } else if hints.is_empty() {
        hints.push(format!("hint: root or the daemon's own user consents on its host: {approve}"));
    }
    hints
}

/// The one line that says how it ended.
fn conclusion(outcome: SyncOutcome, source: &str, label: &str, did: &str, milliseconds: u64) -> String {
    match outcome {
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
