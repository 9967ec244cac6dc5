//! What happened and what was consented to, as tables.

use super::{
    clean, status,
    table::Table,
    time::{age, rfc3339},
};
use crate::store::{ApprovalEntry, Approvals, EventEntry, HistoryEntry, HoldEntry};
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
    if !found.holds.is_empty() {
        let counts = |a: &&ApprovalEntry| a.used_at.is_none() && a.expires_at.0 > now;
        let consent = |hold: &HoldEntry| {
            found.approvals.iter().filter(counts).find(|approval| approval.digest == hold.digest)
        };
        let holds = found.holds.iter().map(|hold| status::hold(hold, consent(hold), now));
        parts.push(format!("NEEDS A PERSON ({})\n{}", found.holds.len(), holds.collect::<String>()));
    }
    let mut table = Table::new(["DIGEST", "BY", "GIVEN", "EXPIRES", "USED", "REASON"]);
    for approval in found.approvals.iter().filter(|a| a.expires_at.0 > now) {
        table.row([
            status::short(&approval.digest),
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
    use crate::store::Stamp;
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
        };
        let (open, given) =
            (Approvals { holds: vec![hold.clone()], approvals: vec![approval("bbbb", 999_000)] }, "aaaa");
        assert!(approvals(&open, now).contains("hint: to consent: reconciled approve aaaaaaaa"));
        let given =
            approvals(&Approvals { holds: vec![hold], approvals: vec![approval(given, 999_000)] }, now);
        assert!(given.contains("approved by ada (16m)") && !given.contains("hint:"), "{given}");
    }
}
