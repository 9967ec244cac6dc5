//! Whether what an entry manages can be reached: the cheapest question that a remote has to answer.
//!
//! Guarantees: nothing is said to answer that was not asked; nothing is written.

use crate::{config::ProviderEntry, session::Session};
use reconciled_provider::{Error, ErrorKind, Observer, Scope};
use std::fs;

/// Fits no zone, so that a list of zones is all that is asked for (RFC 6761 6.4 keeps the name free).
const NO_ZONE: &str = "reconciled-check.invalid*";

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It answered.
    Answered,
    /// There is nothing that could be asked without naming something; why.
    NotAsked(&'static str),
}

/// Asks what is behind an entry, with the help of the `scopes` that are declared.
///
/// Errors: it cannot be reached, or does not take the credentials.
pub(super) async fn ask(
    session: &Session,
    entry: &ProviderEntry,
    observer: &dyn Observer,
    scopes: &[Scope],
) -> Result<Answer, Error> {
    let cx = &session.surveyor.cx;
    match &*entry.type_name {
        // Versions of nothing: one list of zones.
        "powerdns" => observer.versions(cx, &[]).await.map(drop)?,
        "rfc2136" => {
            observer.versions(cx, &[]).await?;
            // Knot looks at no key before it looks for the zone, so only one that it serves proves anything.
            let own: Vec<Scope> =
                scopes.iter().filter(|scope| *scope.provider == *entry.name).cloned().collect();
            if own.is_empty() || observer.versions(cx, &own).await?.is_empty() {
                return Ok(Answer::NotAsked(
                    "it answers; whether it takes the key shows at a zone that it serves, and no manifest without errors declares one",
                ));
            }
        }
        "cloudflare" | "route53" | "zonefile" => observer.discover(cx, NO_ZONE).await.map(drop)?,
        // The protocol knows no zones: that none fits is said by what answered.
        "webhook" => match observer.discover(cx, NO_ZONE).await {
            Err(error) if error.kind == ErrorKind::Invalid && error.message.contains(NO_ZONE) => {}
            other => drop(other?),
        },
        // The service manager, or the helper with its version and what it allows.
        "host" => {
            root(entry)?;
            observer.versions(cx, &[]).await.map(drop)?;
        }
        "terraform" => {
            // Its kinds may be known from an earlier start: whether it may still be started is not.
            observer.versions(cx, &[]).await?;
            return Ok(Answer::NotAsked(
                "its program is there and told its kinds, now or when it was started last; what it manages was not asked",
            ));
        }
        // Where a host implies it and nobody declares any, none has to be put anywhere.
        "certificates"
            if *entry.name != *entry.type_name
                || scopes.iter().any(|scope| *scope.provider == *entry.name) =>
        {
            observer.versions(cx, &[]).await?;
            return Ok(Answer::NotAsked(
                "its directories can be used; authorities are asked when one is ordered",
            ));
        }
        _ => return Ok(Answer::NotAsked("it has no remote of its own")),
    }
    Ok(Answer::Answered)
}

/// The root of a host.
fn root(entry: &ProviderEntry) -> Result<(), Error> {
    let root = entry.rest.get("root").and_then(|node| node.as_str()).unwrap_or("/");
    fs::read_dir(root).map(drop).map_err(|error| {
        Error::unavailable(format!("list {root}")).caused_by(error).hint("check `root` of the entry")
    })
}
