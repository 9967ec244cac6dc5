//! What happened and what was consented to, as tables.

use super::{status, table::Table};
use crate::{
    store::{Approvals, EventEntry, HistoryEntry},
    text::{
        clean, short_digest,
        time::{age, rfc3339},
    },
};
use std::time::Duration;

/// History, one line a row.
pub fn history(entries: &[HistoryEntry]) -> String {
    let mut table =
        Table::new(["AT", "KIND", "ADDRESS", "REVISION", "ACTOR", "REASON", "OUTCOME", "MESSAGE"]);
    for entry in entries {
        table.row([
            rfc3339(entry.at.0).as_str(),
            &entry.kind,
            entry.address.as_deref().or(entry.scope.as_deref()).unwrap_or(""),
            &entry.revision,
            &entry.actor,
            &entry.reason,
            entry.outcome.as_deref().unwrap_or(""),
            &said(entry),
        ]);
    }
    table.render(None)
}

/// The message, and who is behind an action.
fn said(entry: &HistoryEntry) -> String {
    let mut parts = vec![entry.message.clone()];
    let by = |word: &str, who: &Option<String>| who.as_ref().map(|who| format!("{word} {who}"));
    parts.extend(by("author", &entry.author));
    parts.extend(by("pushed by", &entry.pusher));
    parts.extend(by("approved by", &entry.approver).map(|by| match &entry.approval_reason {
        Some(reason) => format!("{by}: {reason}"),
        None => by,
    }));
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The audit trail, one event a row.
pub fn events(entries: &[EventEntry]) -> String {
    let mut table = Table::new(["NUMBER", "AT", "KIND", "ADDRESS", "REVISION", "ACTOR", "REASON", "MESSAGE"]);
    for entry in entries {
        table.row([
            entry.number.to_string().as_str(),
            &rfc3339(entry.at.0),
            &entry.kind,
            entry.address.as_deref().or(entry.scope.as_deref()).unwrap_or(""),
            &entry.revision,
            &entry.actor,
            &entry.reason,
            &entry.message,
        ]);
    }
    table.render(None)
}

/// One event as a line: what is empty is left out.
pub fn event(entry: &EventEntry) -> String {
    let place = entry.address.as_deref().or(entry.scope.as_deref()).unwrap_or("");
    let revision = if entry.revision.is_empty() || entry.reason.contains(&entry.revision) {
        String::new()
    } else {
        format!("at {}", entry.revision)
    };
    let parts = [place, &revision, &entry.actor, &entry.reason, &entry.message];
    let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(|part| clean(part)).collect();
    format!("{}  {}  {}", rfc3339(entry.at.0), clean(&entry.kind), parts.join(" · "))
}

/// Holds with the line that consents, then consents that have not expired.
pub fn approvals(found: &Approvals, now: Duration) -> String {
    let mut parts = Vec::new();
    let (held, later): (Vec<_>, Vec<_>) = found.holds.iter().partition(|hold| hold.once.is_none());
    for (title, holds) in [("NEEDS A PERSON", held), (status::LATER, later)] {
        if !holds.is_empty() {
            let told: String = holds.iter().map(|hold| status::hold(hold, now)).collect();
            parts.push(format!("{title} ({})\n{told}", holds.len()));
        }
    }
    let mut table = Table::new(["DIGEST", "BY", "GIVEN", "EXPIRES", "USED", "REASON"]);
    for approval in found.approvals.iter().filter(|a| a.expires_at.0 > now) {
        table.row([
            short_digest(&approval.digest),
            &approval.actor,
            &age(now, approval.at.0),
            &age(now, approval.expires_at.0),
            &approval.used_at.map_or_else(|| "no".into(), |at| age(now, at.0)),
            &approval.reason,
        ]);
    }
    if !table.is_empty() {
        parts.push(table.render(None));
    }
    if parts.is_empty() {
        return "nothing is held, nothing was approved in the last 24 hours\n".into();
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ApprovalEntry, HoldEntry, Stamp};
    use insta::assert_snapshot;

    #[test]
    fn consents_that_have_expired_are_not_shown() {
        let now = Duration::from_secs(1_000_000);
        let approval = |digest: &str, at: u64| ApprovalEntry {
            digest: digest.repeat(4),
            reason: "planned".into(),
            actor: "ada".into(),
            at: Stamp(Duration::from_secs(at)),
            expires_at: Stamp(Duration::from_secs(at + 86_400)),
            used_at: None,
        };
        let found =
            Approvals { holds: Vec::new(), approvals: vec![approval("aaaa", 999_000), approval("bbbb", 1)] };
        assert_snapshot!(approvals(&found, now), @"
        DIGEST    BY   GIVEN  EXPIRES  USED  REASON
        aaaaaaaa  ada  16m    in 23h   no    planned
        ");
        assert!(approvals(&Approvals::default(), now).starts_with("nothing is held"));
        let hold = HoldEntry {
            domain: "host".into(),
            digest: "aaaa".repeat(4),
            reasons: Vec::new(),
            creates: 0,
            updates: 0,
            replaces: 0,
            deletes: 9,
            revision: "abc1234".into(),
            since: Stamp(Duration::from_secs(998_000)),
            once: None,
            approval: None,
        };
        let of = |hold: &HoldEntry| {
            approvals(&Approvals { holds: vec![hold.clone()], approvals: Vec::new() }, now)
        };
        assert!(of(&hold).contains("hint: to consent: reconciled approve aaaaaaaa"));
        let given = HoldEntry { approval: Some(approval("aaaa", 999_000)), ..hold };
        let later = of(&HoldEntry { once: Some("once the window opens".into()), ..given.clone() });
        assert!(later.starts_with("WILL NEED A PERSON (1)") && later.contains("held once the window opens"));
        assert!(later.contains("approved by ada (16m); then it goes on, if that is within 23h"), "{later}");
        let given = of(&given);
        assert!(given.contains("approved by ada (16m)") && !given.contains("hint:"), "{given}");
    }
}
