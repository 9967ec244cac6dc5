//! `status`: one header, then what is not in sync, grouped by what it needs.

mod stopped;
mod tracked;

pub use tracked::{facts, rests, rows, tracked};

use self::stopped::{rolled_back, suspension};
use crate::{
    operation::{SourceHealth, UNSEEN, said},
    session::FROZEN,
    store::{
        ConditionEntry, DegradedEntry, DriftEntry, HoldEntry, Stamp, Status, SuspensionEntry,
        UnassignedEntry, UnassignedManifest,
    },
    text::{
        clean, short_digest,
        time::{age, span},
    },
};
use reconciled_engine::{HealthState, plan::STILL_THERE};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

/// Drifts that are named, and resources that are degraded.
const NAMED: usize = 10;

/// Title of what will be held: it can be consented to, and nobody has to yet.
pub(super) const LATER: &str = "WILL NEED A PERSON";

/// The whole of it.
pub fn status(
    instance: &str,
    status: &Status,
    health: &BTreeMap<String, SourceHealth>,
    now: Duration,
) -> String {
    let mut out = header(instance, status, health, now);
    out.push('\n');
    let problems = problems(status, now);
    if !problems.is_empty() {
        let _ = write!(out, "\n{problems}");
    }
    // How many a hold is about is known, and not which: some of these may be nothing that is tracked.
    let at_least = if status.holds.iter().any(|hold| hold.once.is_none()) { " at least" } else { "" };
    let _ = write!(out, "\n{} well{at_least}", status.well);
    let pending: u64 = status.scopes.iter().map(|s| s.pending).sum();
    let applied: u64 = status.scopes.iter().map(|s| s.applied).sum();
    let missing: u64 = health.values().filter_map(|of| of.resources.get(HealthState::Missing.word())).sum();
    for (count, what) in [
        (pending, "on their way"),
        (applied, "written and not yet seen"),
        (status.drifts.len() as u64, "drifted"),
        (missing, "missing"),
        (status.open, "sent without an answer"),
    ] {
        if count > 0 {
            let _ = write!(out, " · {count} {what}");
        }
    }
    out.push('\n');
    out
}

fn header(instance: &str, status: &Status, health: &BTreeMap<String, SourceHealth>, now: Duration) -> String {
    let mut parts = vec![format!("instance {}", clean(instance))];
    for source in &status.sources {
        let label = if source.label.is_empty() { &source.commit } else { &source.label };
        let fares = health.get(&source.source).map(|health| format!(", {}", health.health));
        parts.push(format!(
            "source {} at {} (in force for {}{})",
            clean(&source.source),
            clean(label),
            span(now.saturating_sub(source.since.0)),
            fares.unwrap_or_default(),
        ));
    }
    if status.sources.is_empty() {
        parts.push("no revision in force yet".into());
    }
    let tracked: u64 = status.scopes.iter().map(|s| s.tracked).sum();
    let scopes = status.scopes.len();
    parts.push(format!("{tracked} tracked in {scopes} scope{}", if scopes == 1 { "" } else { "s" }));
    let foreign: u64 = status.scopes.iter().filter_map(|s| s.foreign).sum();
    if foreign > 0 {
        parts.push(format!("{foreign} foreign"));
    }
    parts.join(" · ")
}

/// What is not in sync, grouped by what it needs; empty when there is nothing.
pub fn problems(status: &Status, now: Duration) -> String {
    let Status { conditions, holds, suspensions, pins, drifts, unassigned, elsewhere, .. } = status;
    let mut groups = Vec::new();
    // What keeps a scope and what is in it is one trouble, told with what is in it.
    fn trouble(c: &ConditionEntry) -> (&str, &str, &str) {
        (&c.scope, &c.kind, &c.message)
    }
    let (of_parts, of_wholes): (Vec<_>, Vec<_>) = conditions.iter().partition(|c| c.id.is_some());
    let parts: BTreeSet<_> = of_parts.into_iter().map(trouble).collect();
    let wholes: BTreeMap<_, _> = of_wholes.into_iter().map(|c| (trouble(c), c.next_try)).collect();
    let of = |kind: &str| -> Vec<String> {
        let here = conditions.iter().filter(|c| c.kind == kind && ![FROZEN, UNSEEN].contains(&&*c.reason));
        let told = here.filter(|c| c.id.is_some() || !parts.contains(&trouble(c)));
        let with_next_try = |c: &ConditionEntry| {
            let next_try = c.next_try.or_else(|| wholes.get(&trouble(c)).copied().flatten());
            condition(&ConditionEntry { next_try, ..c.clone() }, now)
        };
        told.map(with_next_try).collect()
    };
    let (now_held, later): (Vec<_>, Vec<_>) = holds.iter().partition(|hold| hold.once.is_none());
    let mut person: Vec<String> = now_held.iter().map(|h| hold(h, now)).collect();
    person.extend(of("held"));
    person.extend(of("stalled"));
    person.extend(ill("Degraded", &status.degraded, now));
    groups.push(("NEEDS A PERSON", person));
    groups.push((LATER, later.iter().map(|h| hold(h, now)).collect()));
    let frozen: Vec<&ConditionEntry> = conditions.iter().filter(|c| c.reason == FROZEN).collect();
    groups.push(("FROZEN", named(&frozen, |one| condition(one, now))));
    let unseen: Vec<&ConditionEntry> = conditions.iter().filter(|c| c.reason == UNSEEN).collect();
    let mut waiting = named(&unseen, |one| condition(one, now));
    waiting.extend(of("waiting"));
    waiting.extend(ill("Progressing", &status.progressing, now));
    groups.push(("WAITING", waiting));
    // What waits for one suspension is counted there.
    let of_one = |c: &&ConditionEntry, one: &SuspensionEntry| {
        c.kind == "suspended" && c.hint.as_ref() == Some(&one.hint)
    };
    let mut suspended: Vec<String> = suspensions
        .iter()
        .map(|one| suspension(one, conditions.iter().filter(|c| of_one(c, one)).count(), now))
        .collect();
    let others = conditions.iter().filter(|c| c.kind == "suspended");
    let others = others.filter(|c| !suspensions.iter().any(|one| of_one(c, one)));
    suspended.extend(others.map(|c| condition(c, now)));
    groups.push(("SUSPENDED", suspended));
    groups.push(("DRIFTED", drifted(drifts, now)));
    groups.push(("ROLLED BACK", rolled_back(pins, now)));
    let mut alone: Vec<String> = unassigned.iter().map(left_alone).collect();
    alone.extend(for_others(elsewhere));
    groups.push(("UNASSIGNED", alone));
    let shown = groups.iter().filter(|(_, entries)| !entries.is_empty());
    shown
        .map(|(name, entries)| format!("{name} ({})\n{}", entries.len(), entries.concat()))
        .collect::<Vec<_>>()
        .join("\n")
}

fn condition(condition: &ConditionEntry, now: Duration) -> String {
    let place = condition.address.as_deref().unwrap_or(&condition.scope);
    let mut out = format!("  {}  {}  {}", clean(place), condition.reason, age(now, condition.since.0));
    let next = match condition.reason == STILL_THERE {
        true => stays(condition.next_try, now),
        false => next_try(condition.next_try, now),
    };
    let _ = writeln!(out, "{next}\n    {}", clean(&condition.message));
    if let Some(hint) = &condition.hint {
        let _ = writeln!(out, "    hint: {}", clean(hint));
    }
    out
}

fn next_try(at: Option<Stamp>, now: Duration) -> String {
    match at.map(|at| at.0.saturating_sub(now)) {
        None => String::new(),
        // Without a daemon nobody tries before somebody asks for it.
        Some(wait) if wait.as_secs() == 0 => {
            ", next try is due at the next pass or `reconciled apply`".into()
        }
        Some(wait) => format!(", next try in {}", span(wait)),
    }
}

/// How long something stays that goes by itself.
fn stays(until: Option<Stamp>, now: Duration) -> String {
    match until.map(|until| until.0.saturating_sub(now)) {
        None => String::new(),
        Some(Duration::ZERO) => ", its time is over, and it was not looked at since".into(),
        Some(left) => format!(", stays for {}", span(left)),
    }
}

/// What is tracked for whom the configuration does not know.
fn left_alone(one: &UnassignedEntry) -> String {
    let (kind, name, tracked) = (&one.kind, clean(&one.name), one.tracked);
    let forget = match kind.as_str() {
        "source" => format!("--source {name}"),
        _ => "ADDRESS".to_owned(),
    };
    format!(
        "  {kind} {name}  {tracked} tracked\n    it is not configured, and what is tracked for it is left alone\n    \
         hint: to let go of that: reconciled forget {forget}\n"
    )
}

/// Manifests for entries that are not configured here, by name as far as there are few.
pub fn for_others(list: &[UnassignedManifest]) -> Vec<String> {
    named(list, |one| {
        let (address, source) = (clean(&one.address), clean(&one.source));
        let why = match &one.provider {
            Some(provider) => format!("provider `{}` is not configured on this host", clean(provider)),
            None => "no provider that is configured on this host knows its kind".into(),
        };
        let hint = one.hint.as_ref().map(|hint| format!("    hint: {}\n", clean(hint))).unwrap_or_default();
        format!("  {address}  of source {source}\n    {why}\n{hint}")
    })
}

/// What was changed by somebody else, the newest first, by name as far as there are few.
fn drifted(drifts: &[DriftEntry], now: Duration) -> Vec<String> {
    named(drifts, |drift| {
        let (address, seen) = (clean(&drift.address), age(now, drift.first_seen.0));
        format!("  {address}  {}  {seen}\n    {}\n", drift.outcome, clean(&said(drift)))
    })
}

/// What does not do its work, by name as far as there are few.
fn ill(word: &str, all: &[DegradedEntry], now: Duration) -> Vec<String> {
    named(all, |one| {
        let (address, since) = (clean(&one.address), age(now, one.since.0));
        let (next, message) = (next_try(one.next_try, now), clean(&one.message));
        format!(
            "  {address}  {word}  {since}{next}\n    {message}\n    \
             hint: to have it looked at now: reconciled sync '{address}'; without a daemon: reconciled apply\n"
        )
    })
}

/// The first of `all` as `entry` tells them, and how many more there are.
fn named<T>(all: &[T], entry: impl Fn(&T) -> String) -> Vec<String> {
    let mut entries: Vec<String> = all.iter().take(NAMED).map(entry).collect();
    // The number at the head of a group is that of its entries.
    entries.extend(all.iter().skip(NAMED).map(|_| String::new()));
    if all.len() > NAMED {
        entries[NAMED] = format!("  and {} more: reconciled status '*/*' -o json\n", all.len() - NAMED);
    }
    entries
}

/// One hold with its digest, reasons and the line that consents, or who did.
pub fn hold(hold: &HoldEntry, now: Duration) -> String {
    let counts = [
        ("create", hold.creates),
        ("update", hold.updates),
        ("replace", hold.replaces),
        ("delete", hold.deletes),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} to {what}")).collect();
    let mut out = format!(
        "  {}  {}  {}  {}  digest {}\n",
        clean(&hold.domain),
        age(now, hold.since.0),
        clean(&hold.revision),
        counts.join(", "),
        short_digest(&hold.digest)
    );
    for reason in &hold.reasons {
        let _ = writeln!(out, "    {}", clean(reason));
    }
    if let Some(once) = &hold.once {
        let _ = writeln!(out, "    held {}", clean(once));
    }
    match hold.approval.as_ref().filter(|approval| approval.expires_at.0 > now) {
        Some(approval) => {
            let (actor, at) = (clean(&approval.actor), age(now, approval.at.0));
            let goes_on = match &hold.once {
                Some(_) => {
                    format!("then it goes on, if that is within {}", span(approval.expires_at.0 - now))
                }
                None => "the next pass or `apply` carries it out".into(),
            };
            let _ = writeln!(out, "    approved by {actor} ({at}); {goes_on}");
        }
        None => {
            let digest = short_digest(&hold.digest);
            let _ = writeln!(out, "    hint: to consent: reconciled approve {digest} --reason \"…\"");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FieldEntry, PinEntry, ScopeStatus, SourceStatus, Stamp};
    use insta::assert_snapshot;

    const NOW: Duration = Duration::from_secs(10_000);

    fn before(seconds: u64) -> Stamp {
        Stamp(NOW - Duration::from_secs(seconds))
    }

    fn matter(kind: &str, reason: &str, message: &str, hint: Option<&str>) -> ConditionEntry {
        ConditionEntry {
            scope: "pdns/example.com".into(),
            id: Some("www.example.com./A".into()),
            address: Some("Zone/example.com#www/A".into()),
            kind: kind.into(),
            reason: reason.into(),
            message: message.into(),
            hint: hint.map(str::to_string),
            since: before(180),
            next_try: (kind == "waiting").then(|| Stamp(NOW + Duration::from_secs(30))),
        }
    }

    fn pin(name: &str) -> PinEntry {
        PinEntry {
            address: format!("Zone/example.com#{name}/A"),
            scope: "pdns/example.com".into(),
            id: format!("{name}.example.com./A"),
            source: "infra".into(),
            label: "8e1b0aa".into(),
            reason: "the new addresses are wrong".into(),
            actor: "ada".into(),
            since: before(60),
            until: Some(Stamp(NOW + Duration::from_secs(7_200))),
        }
    }

    fn example() -> Status {
        Status {
            sources: vec![SourceStatus {
                source: "infra".into(),
                commit: "9f2c1ab0".repeat(5),
                label: "9f2c1ab".into(),
                author: "ada".into(),
                subject: "more".into(),
                since: before(7_200),
                manifests: 3,
                converged: false,
                restored: None,
            }],
            scopes: vec![ScopeStatus {
                scope: "pdns/example.com".into(),
                tracked: 12,
                applied: 1,
                pending: 0,
                well: 9,
                foreign: Some(148),
            }],
            conditions: vec![
                matter("waiting", "Unavailable", "reading pdns/example.com: connection refused", None),
                matter("stalled", "Conflict", "it exists and differs", Some("reconciled adopt X")),
                matter("suspended", "Suspended", "its manifest says `suspend`", None),
                matter(
                    "suspended",
                    "SuspendedByPerson",
                    "suspended by ada: moving the database",
                    Some("to resume: reconciled resume 4f2a9c11"),
                ),
            ],
            holds: vec![HoldEntry {
                domain: "pdns/example.com".into(),
                digest: "7f3a91127f3a9112".into(),
                reasons: vec!["12 deletes, limit 5 (guard.maxDeletes)".into()],
                creates: 0,
                updates: 1,
                replaces: 0,
                deletes: 12,
                revision: "9f2c1ab".into(),
                since: before(300),
                once: None,
                approval: None,
            }],
            suspensions: vec![SuspensionEntry {
                id: "4f2a9c11".into(),
                what: "--all".into(),
                except: vec!["Zone/b.example".into()],
                reason: "moving the database".into(),
                actor: "ada".into(),
                since: before(600),
                until: Some(Stamp(NOW + Duration::from_secs(3_000))),
                hint: "to resume: reconciled resume 4f2a9c11".into(),
                is_window: false,
            }],
            pins: ["www", "mail"].map(pin).into(),
            drifts: Vec::new(),
            unassigned: Vec::new(),
            elsewhere: Vec::new(),
            degraded: vec![DegradedEntry {
                address: "Zone/example.com#mail/A".into(),
                scope: "pdns/example.com".into(),
                id: "mail.example.com./A".into(),
                message: "ns2.example.com (192.0.2.53) answers 198.51.100.9".into(),
                since: before(90),
                next_try: None,
            }],
            progressing: vec![DegradedEntry {
                address: "Zone/example.com#new/A".into(),
                scope: "pdns/example.com".into(),
                id: "new.example.com./A".into(),
                message: "ns2.example.com (192.0.2.53) has the version before".into(),
                since: before(10),
                next_try: Some(Stamp(NOW + Duration::from_secs(2))),
            }],
            well: 9,
            open: 0,
        }
    }

    fn fares(health: &str) -> BTreeMap<String, SourceHealth> {
        let health = SourceHealth { health: health.into(), resources: BTreeMap::new() };
        [("infra".to_owned(), health)].into()
    }

    #[test]
    fn drifts_are_named_as_far_as_they_are_few() {
        let drift = |number: usize| DriftEntry {
            address: format!("Zone/example.com#h{number}/A"),
            scope: "pdns/example.com".into(),
            id: format!("h{number}.example.com./A"),
            mode: "warn".into(),
            first_seen: before(60),
            missing: number == 1,
            fields: vec![FieldEntry {
                path: "ttl".into(),
                remote: Some("60".into()),
                declared: Some("300".into()),
            }],
            outcome: "reported".into(),
            ended_at: None,
            action: None,
        };
        let status = Status { drifts: (0..12).map(drift).collect(), ..Status::default() };
        let text = problems(&status, NOW);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..5],
            [
                "DRIFTED (12)",
                "  Zone/example.com#h0/A  reported  60s",
                "    ttl is `60`, declared `300`",
                "  Zone/example.com#h1/A  reported  60s",
                "    it is gone from the remote",
            ]
        );
        assert_eq!(lines.last(), Some(&"  and 2 more: reconciled status '*/*' -o json"));
    }

    #[test]
    fn problems_are_grouped_by_what_they_need() {
        assert_snapshot!(status("dns1", &example(), &fares("Degraded"), NOW), @r#"
        instance dns1 · source infra at 9f2c1ab (in force for 2h, Degraded) · 12 tracked in 1 scope · 148 foreign

        NEEDS A PERSON (3)
          pdns/example.com  5m  9f2c1ab  1 to update, 12 to delete  digest 7f3a9112
            12 deletes, limit 5 (guard.maxDeletes)
            hint: to consent: reconciled approve 7f3a9112 --reason "…"
          Zone/example.com#www/A  Conflict  3m
            it exists and differs
            hint: reconciled adopt X
          Zone/example.com#mail/A  Degraded  90s
            ns2.example.com (192.0.2.53) answers 198.51.100.9
            hint: to have it looked at now: reconciled sync 'Zone/example.com#mail/A'; without a daemon: reconciled apply

        WAITING (2)
          Zone/example.com#www/A  Unavailable  3m, next try in 30s
            reading pdns/example.com: connection refused
          Zone/example.com#new/A  Progressing  10s, next try in 2s
            ns2.example.com (192.0.2.53) has the version before
            hint: to have it looked at now: reconciled sync 'Zone/example.com#new/A'; without a daemon: reconciled apply

        SUSPENDED (2)
          4f2a9c11  --all --except Zone/b.example  10m, 50m to go, by ada
            moving the database
            1 change waits for it
            hint: to resume: reconciled resume 4f2a9c11
          Zone/example.com#www/A  Suspended  3m
            its manifest says `suspend`

        ROLLED BACK (1)
          Zone/example.com#www/A, Zone/example.com#mail/A  at 8e1b0aa  60s, 2h to go, by ada
            the new addresses are wrong
            hint: to let it go on: reconciled resume --source infra

        9 well at least · 1 written and not yet seen
        "#);
    }

    #[test]
    fn what_is_over_and_was_not_looked_at_since_is_told_as_that() {
        let over = Some(before(10));
        let person = SuspensionEntry { until: over, ..example().suspensions.remove(0) };
        let window = SuspensionEntry { is_window: true, ..person.clone() };
        let pins = vec![PinEntry { until: over, ..pin("www") }];
        let text = problems(&Status { suspensions: vec![person, window], pins, ..Status::default() }, NOW);
        let of_person = "10m, over, by ada";
        let of_window = "ada  open by now, and not looked at since";
        for part in [of_person, of_window, "60s, over, and not looked at since, by ada"] {
            assert!(text.contains(part), "`{part}` is missing in:\n{text}");
        }
        assert!(!text.contains("to go") && !text.contains("opens in"), "{text}");
    }

    #[test]
    fn a_try_for_which_no_time_is_left_is_due_when_somebody_looks() {
        for next_try in [before(5), Stamp(NOW), Stamp(NOW + Duration::from_millis(999))] {
            let away = matter("waiting", "Unavailable", "connection refused", None);
            let conditions = vec![ConditionEntry { next_try: Some(next_try), ..away }];
            let text = problems(&Status { conditions, ..Status::default() }, NOW);
            let due = "Unavailable  3m, next try is due at the next pass or `reconciled apply`\n";
            assert!(text.contains(due), "{text}");
        }
    }

    #[test]
    fn a_predecessor_that_is_still_there_is_told_with_how_long_it_stays() {
        let told = |next_try| {
            let still = matter("waiting", STILL_THERE, "thing-1 is still there", None);
            let conditions = vec![ConditionEntry { id: None, next_try: Some(next_try), ..still }];
            problems(&Status { conditions, ..Status::default() }, NOW)
        };
        let (stays, over) = (told(Stamp(NOW + Duration::from_secs(45))), told(before(5)));
        assert!(stays.contains("StillThere  3m, stays for 45s\n    thing-1"), "{stays}");
        assert!(
            over.contains("StillThere  3m, its time is over, and it was not looked at since\n"),
            "{over}"
        );
    }

    #[test]
    fn a_state_in_which_nothing_happened_has_no_groups() {
        assert_snapshot!(status("dns1", &Status::default(), &BTreeMap::new(), NOW), @"
        instance dns1 · no revision in force yet · 0 tracked in 0 scopes

        0 well
        ");
    }
}
