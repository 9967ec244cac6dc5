//! `explain ADDRESS`: what keeps it from being in sync, what a look shows, what is tracked of it, and what was last.

use super::status;
use crate::{
    operation::{
        Explanation, MISSING, RESTORED, ResourceEntry, UNASSIGNED, UNTRACKED, Wanted, plan::Condition, said,
    },
    session::FROZEN,
    store::{ConditionEntry, Stamp, SuspensionEntry},
    text::{clean_lines, short_digest},
};
use reconciled_engine::plan::STILL_THERE;
use std::{fmt::Write as _, time::Duration};

/// What is known of `what`: why it is not in sync, what a look shows, what is tracked, and what was last.
pub fn explanation(what: &str, found: &Explanation, now: Duration) -> String {
    let mut text = String::new();
    troubles(found, now, &mut text);
    text.push_str(&status::for_others(&found.elsewhere).concat());
    if text.is_empty() {
        text = headline(what, found) + "\n";
    }
    rollbacks(found, now, &mut text);
    if !found.now.is_empty() {
        text.push_str("\nnow:\n");
    }
    for one in &found.now {
        let _ = writeln!(text, "  {} ({})", one.address, one.scope);
        match &one.wanted {
            Some(Wanted { file, line, source, commit }) => {
                let commit = if commit.is_empty() { "no commit" } else { commit };
                let _ = writeln!(text, "    wanted by {file}:{line} of source {source} at {commit}");
            }
            None if let Some(by) = &one.foreign_to => {
                let _ =
                    writeln!(text, "    foreign: nobody declared it; {by} is exclusive, and would delete it");
            }
            None if one.left.as_ref().is_some_and(|left| left.reason == FROZEN) => {
                text.push_str("    not known to be declared\n");
            }
            None => text.push_str("    no longer declared\n"),
        }
        for line in &one.declared {
            let _ = writeln!(text, "    declared   {line}");
        }
        match &one.remote {
            Some(lines) => lines.iter().for_each(|line| {
                let _ = writeln!(text, "    at remote  {line}");
            }),
            None if one.is_in_doubt => text.push_str("    at remote  not known\n"),
            None => text.push_str("    at remote  not there\n"),
        }
        if let Some(change) = &one.change {
            let _ = writeln!(text, "    planned    {change}");
        }
        if let Some(left) = &one.left {
            let _ = writeln!(text, "    left so    {}", left.message);
        }
    }
    if !found.tracked.is_empty() {
        text.push_str("\ntracked:\n");
    }
    for resource in &found.tracked {
        let row = &resource.tracked;
        let _ = writeln!(text, "  {}", row.address);
        standing(resource, &mut text);
        if row.state == UNTRACKED {
            let _ = writeln!(text, "    {} {}, not tracked", row.scope, row.id);
            continue;
        }
        let _ = writeln!(
            text,
            "    {} {}, {}, from {} at {}",
            row.scope, row.id, row.state, row.file, row.revision
        );
        let written =
            row.written_at.map_or("adopted as it was".to_string(), |at| format!("last written {at}"));
        let merge = if row.merge { ", only some values are ours" } else { "" };
        let _ = writeln!(text, "    {written}, deletion: {}, drift: {}{merge}", row.deletion, row.drift);
        if !row.depends_on.is_empty() {
            let _ = writeln!(text, "    depends on {}", row.depends_on.join(", "));
        }
    }
    if !found.drifts.is_empty() {
        text.push_str("\ndrift:\n");
    }
    for drift in &found.drifts {
        let over = drift.ended_at.map(|at| format!(" at {at}")).unwrap_or_default();
        let by = match (drift.outcome.as_str(), drift.action) {
            ("healed", Some(action)) => format!(" by action {action}"),
            _ => String::new(),
        };
        let (seen, address, outcome) = (drift.first_seen, &drift.address, &drift.outcome);
        let _ = writeln!(text, "  {seen} · {address} · {outcome}{over}{by} · {}", said(drift));
    }
    if !found.history.is_empty() {
        text.push_str("\nlast:\n");
    }
    for entry in &found.history {
        let _ = write!(text, "  {} {}", entry.at, entry.kind);
        let parts = [
            entry.address.as_deref().unwrap_or(""),
            &entry.reason,
            entry.outcome.as_deref().unwrap_or(""),
            &entry.message,
        ];
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let _ = write!(text, " · {part}");
        }
        text.push('\n');
    }
    clean_lines(&text)
}

/// Why a resource is not in sync though nothing is done about it and nobody waits.
fn not_in_sync(resource: &ResourceEntry) -> Option<&str> {
    let synced = resource.conditions.iter().find(|side| side.kind == "Synced" && side.status != "True");
    synced.filter(|side| [UNASSIGNED, RESTORED, MISSING].contains(&&*side.reason)).map(|side| &*side.message)
}

/// How it stands in one line, where nothing is told that keeps it from being in sync.
fn headline(what: &str, found: &Explanation) -> String {
    let (rows, now) = (&found.tracked, &found.now);
    if now.iter().any(|one| one.change.is_some()) {
        return format!("{what} is not in sync");
    }
    if let Some(why) = rows.iter().find_map(not_in_sync) {
        return format!("{what}: {why}");
    }
    if let Some((one, left)) = now.iter().find_map(|one| Some((one, one.left.as_ref()?))) {
        return format!("{}: {}", one.address, left.message);
    }
    if now.iter().any(|one| !one.is_in_sync()) {
        return format!("{what} is not in sync");
    }
    if rows.iter().any(|row| row.tracked.state == "pending") {
        return format!("{what} is on its way: the remote has accepted it, but it is not there yet");
    }
    match (rows.is_empty(), now.is_empty()) {
        (_, false) => format!("{what} is in sync"),
        (false, true) => format!("{what} was in sync when it was last looked at"),
        (true, true) if !found.messages.is_empty() => format!("{what} cannot be looked at now"),
        (true, true) => format!("{what} is not tracked any more"),
    }
}

/// Writes what a person keeps at an earlier revision: what is declared below is what was declared then.
fn rollbacks(found: &Explanation, now: Duration, text: &mut String) {
    for pin in &found.pins {
        let until = until(pin.until, now);
        let (what, label, since, actor) = (&pin.address, &pin.label, pin.since, &pin.actor);
        let _ = writeln!(
            text,
            "{what} is rolled back to {label} by {actor} since {since}{until}: {}",
            pin.reason
        );
        let _ = writeln!(text, "  hint: to let it go on: reconciled resume {what}");
    }
}

/// Until when something counts, also where that is over and nobody has looked since.
fn until(at: Option<Stamp>, now: Duration) -> String {
    match at {
        None => String::new(),
        Some(at) if at.0 > now => format!(" until {at}"),
        Some(at) => format!(" until {at}, which is over, and was not looked at since"),
    }
}

/// Writes how a resource stands: both conditions, and what they are about where all is not well.
fn standing(resource: &ResourceEntry, text: &mut String) {
    for side in &resource.conditions {
        let since = side.since.map(|since| format!(" since {since}")).unwrap_or_default();
        let _ = write!(text, "    {}: {} ({}){since}", side.kind, side.status, side.reason);
        if !side.message.is_empty() {
            let _ = write!(text, ": {}", side.message);
        }
        text.push('\n');
    }
    let observed = resource.conditions.first().and_then(|side| side.observed_generation);
    if let Some(generation) = resource.generation {
        let observed = observed.map_or("none".to_owned(), |observed| observed.to_string());
        let _ = writeln!(text, "    generation {generation} in force, {observed} looked at");
    }
}

/// What a look found that the last pass did not, but for suspensions, which are told with who said so.
fn seen_now(found: &Explanation) -> impl Iterator<Item = &Condition> {
    let is_recorded = |one: &&Condition| {
        let of_it = |known: &ConditionEntry| {
            known.scope == *one.scope
                && known.id.as_deref() == one.id.as_deref()
                && known.reason == *one.reason
        };
        let stops = |known: &SuspensionEntry| one.hint.as_deref() == Some(&*known.hint);
        found.conditions.iter().any(of_it) || found.suspensions.iter().any(stops)
    };
    found.now.iter().flat_map(|one| &one.conditions).filter(move |one| !is_recorded(one))
}

/// Writes what keeps the resources from being in sync, and who stopped them.
fn troubles(found: &Explanation, now: Duration, text: &mut String) {
    for condition in &found.conditions {
        let who = condition.address.as_deref().unwrap_or(&condition.scope);
        let _ =
            writeln!(text, "{who} is {} ({}) since {}", condition.kind, condition.reason, condition.since);
        let _ = writeln!(text, "  {}", condition.message);
        if let Some(next) = condition.next_try {
            let _ = match (next.0 > now, condition.reason == STILL_THERE) {
                (true, true) => writeln!(text, "  it stays until {next}"),
                (true, false) => writeln!(text, "  next try {next}"),
                (false, _) => writeln!(text, "  next try is due since {next}"),
            };
        }
        if let Some(hint) = &condition.hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
    }
    for condition in seen_now(found) {
        let who = condition.address.as_deref().unwrap_or(&condition.scope);
        let _ = writeln!(text, "{who} is {} ({})", condition.kind.word(), condition.reason);
        let _ = writeln!(text, "  {}", condition.message);
        if let Some(next) = &condition.next_try {
            let _ = writeln!(text, "  next try {next}");
        }
        if let Some(hint) = &condition.hint {
            let _ = writeln!(text, "  hint: {hint}");
        }
    }
    for hold in &found.holds {
        let (domain, since, reasons) = (&hold.domain, hold.since, hold.reasons.join("; "));
        let _ = match &hold.once {
            Some(once) => writeln!(text, "{domain} is held {once}, known since {since}: {reasons}"),
            None => writeln!(text, "{domain} is held since {since}: {reasons}"),
        };
        if let Some(approval) = &hold.approval {
            let (actor, until) = (&approval.actor, approval.expires_at);
            let _ = writeln!(text, "  approved by {actor}, until {until}");
            continue;
        }
        let short = short_digest(&hold.digest);
        let _ = writeln!(text, "  hint: to consent: reconciled approve {short} --reason \"…\"");
    }
    // What a condition said of it need not be said again.
    let is_told = |hint: &String| found.conditions.iter().any(|c| c.hint.as_ref() == Some(hint));
    for one in found.suspensions.iter().filter(|one| !is_told(&one.hint)) {
        let until = until(one.until, now);
        let _ = match one.is_window {
            true if one.until.is_some_and(|at| at.0 <= now) => {
                writeln!(text, "{}: {}; that is over, and was not looked at since", one.actor, one.reason)
            }
            true => writeln!(text, "{}: {}", one.actor, one.reason),
            false => {
                let (what, since, actor) = (&one.what, one.since, &one.actor);
                writeln!(text, "{what} suspended by {actor} since {since}{until}: {}", one.reason)
            }
        };
        let _ = writeln!(text, "  hint: {}", one.hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_and_was_not_looked_at_since_is_told_as_that() {
        let at = |seconds| Stamp(Duration::from_secs(seconds));
        let suspension = SuspensionEntry {
            id: "4f2a9c11".into(),
            what: "--all".into(),
            except: Vec::new(),
            reason: "moving".into(),
            actor: "ada".into(),
            since: at(1_000_000),
            until: Some(at(1_000_060)),
            hint: "to resume: reconciled resume 4f2a9c11".into(),
            is_window: false,
        };
        let found = Explanation { suspensions: vec![suspension], ..Explanation::default() };
        let told = |now| explanation("x", &found, Duration::from_secs(now));
        let until = "--all suspended by ada since 1970-01-12T13:46:40Z until 1970-01-12T13:47:40Z";
        assert!(told(1_000_059).contains(&format!("{until}: moving")), "{}", told(1_000_059));
        let over = format!("{until}, which is over, and was not looked at since: moving");
        assert!(told(1_000_060).contains(&over), "{}", told(1_000_060));
    }
}
