//! Following what a daemon does: the lines of `sync`, `apply` and a push, as text.

use super::{Exit, Out};
use crate::{
    client::Client,
    failure::Failure,
    operation::{SyncAsk, SyncLine, SyncOutcome},
    text::short_digest,
};
use std::collections::BTreeMap;

/// Asks the daemon and has `hear` told what it answers, line by line, until the end.
pub(super) async fn follow(
    client: &Client,
    ask: &SyncAsk,
    out: &mut Out,
    mut hear: impl FnMut(&SyncLine, &mut Out),
) -> Result<Exit, Failure> {
    let mut lines = client.lines::<SyncLine>("/v1/sync", ask).await?;
    let mut exit = None;
    while let Some(line) = lines.next().await? {
        match &line {
            SyncLine::End { outcome, .. } => exit = Some(of(*outcome)),
            // The daemon says why it does not go on.
            SyncLine::Message { text } if text.starts_with("error: ") => exit = Some(Exit::Error),
            _ => {}
        }
        hear(&line, out);
    }
    exit.ok_or_else(|| Failure::plain("the daemon ended before it said how it went"))
}

fn of(outcome: SyncOutcome) -> Exit {
    match outcome {
        SyncOutcome::Converged | SyncOutcome::Accepted | SyncOutcome::Superseded => Exit::Good,
        SyncOutcome::Held => Exit::Person,
        SyncOutcome::Failed => Exit::Error,
        SyncOutcome::TimedOut | SyncOutcome::Missing => Exit::Late,
    }
}

/// What is held, or will be.
pub(super) fn held(domain: &str, reasons: &[String], once: Option<&str>) -> String {
    let once = once.map(|once| format!(" {once}")).unwrap_or_default();
    format!("held{once}: {domain}: {}", reasons.join("; "))
}

/// Tells one line to a person: how it ended is data, all else is talk.
pub(super) fn tell(line: &SyncLine, out: &mut Out) {
    let mut said = words(line);
    let ending = if matches!(line, SyncLine::End { .. }) { said.pop() } else { None };
    said.iter().for_each(|text| out.talk(text));
    ending.iter().for_each(|text| out.say(text));
}

/// The same beside an answer for programs, which alone is data.
pub(super) fn tell_beside(line: &SyncLine, out: &mut Out) {
    words(line).iter().for_each(|text| out.talk(text));
}

/// What a line says to a person; of the end, the last of it is how it ended.
pub(super) fn words(line: &SyncLine) -> Vec<String> {
    let mut said = Vec::new();
    match line {
        SyncLine::Message { text } => said.push(text.clone()),
        SyncLine::Revision { source, label, .. } if label.is_empty() => {
            said.push(format!("source {source} has no revision yet"));
        }
        SyncLine::Revision { source, label, .. } => said.push(format!("source {source} at {label}")),
        SyncLine::Begun { .. } => {}
        SyncLine::Scope { scope, stance, outcomes, error, milliseconds } => {
            let did = if outcomes.is_empty() { String::new() } else { format!(": {}", counts(outcomes)) };
            // A pass that only saw what the one before had written says nothing new.
            if !outcomes.is_empty() || stance != "in sync" {
                // What was written is looked at once more before it counts as in sync.
                let is =
                    if stance == "waiting" && !outcomes.is_empty() { "" } else { &format!(" is {stance}") };
                said.push(format!("{scope}{is}{did} ({milliseconds} ms)"));
            }
            if let Some(error) = error {
                said.push(format!("error: {scope}: {error}"));
            }
        }
        SyncLine::Held { domain, digest, reasons, once, .. } => {
            said.push(held(domain, reasons, once.as_deref()));
            let short = short_digest(digest);
            said.push(format!("hint: to consent: reconciled approve {short} --reason \"…\""));
        }
        SyncLine::End { outcome, outcomes, left, invalid, milliseconds, .. } => {
            said.extend(left.iter().map(|(scope, stance)| format!("{scope} is {stance}")));
            if !left.is_empty() {
                said.push("hint: to see why: reconciled status".into());
            }
            if *invalid {
                said.push("hint: mend the manifests that are named above, and push; to check them before: reconciled validate DIR".into());
            }
            let ended = match outcome {
                SyncOutcome::Converged => "in sync",
                SyncOutcome::Accepted => "asked for; to follow it: reconciled sync --wait",
                SyncOutcome::Held if is_suspended(left) => "suspended; it goes on once that is over",
                SyncOutcome::Held => "needs a person",
                SyncOutcome::Failed if *invalid => "manifests have errors; what they declare stays as it is",
                SyncOutcome::Failed => "failed; it is tried again by itself",
                SyncOutcome::Superseded => "superseded by a newer revision",
                SyncOutcome::Missing => "the commit has not come",
                SyncOutcome::TimedOut => "still going; to follow it: reconciled status --watch",
            };
            let did = if outcomes.is_empty() { String::new() } else { format!("{}; ", counts(outcomes)) };
            said.push(format!("{did}{ended} ({milliseconds} ms)"));
        }
    }
    said
}

/// True where all that is left to do is suspended: by a window, or by a person, whose time may be over by itself too.
pub(super) fn is_suspended(left: &BTreeMap<String, String>) -> bool {
    !left.is_empty() && left.values().all(|stance| stance == "suspended")
}

/// `create done` → 3 as `3 created`; what did not simply succeed keeps its word.
pub(super) fn counts(outcomes: &BTreeMap<String, usize>) -> String {
    let of = |(what, count): (&String, &usize)| match what.split_once(' ') {
        Some((change, "done")) => format!("{count} {}", past(change)),
        Some(("delete", "gone")) => format!("{count} deleted"),
        Some((change, outcome)) => format!("{count} {change} {outcome}"),
        None => format!("{count} {what}"),
    };
    outcomes.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn past(change: &str) -> String {
    let stem = change.strip_suffix('e').unwrap_or(change);
    format!("{stem}ed")
}
