//! What keeps changes from being made by somebody's word, or by the clock: suspensions, closed windows, rollbacks.

use crate::{
    store::{PinEntry, SuspensionEntry},
    text::{
        clean,
        time::{age, span},
    },
};
use std::{fmt::Write as _, time::Duration};

/// Resources of one rollback that are named.
const PINS: usize = 4;

/// One suspension: who, why, until when, and how much waits for it.
pub(super) fn suspension(one: &SuspensionEntry, waiting: usize, now: Duration) -> String {
    if one.is_window {
        return window(one, waiting, now);
    }
    let until = match one.until.map(|until| until.0.checked_sub(now).filter(|left| !left.is_zero())) {
        None => String::new(),
        Some(Some(left)) => format!(", {} to go", span(left)),
        Some(None) => ", over".into(),
    };
    let mut out = format!("  {}  {}", clean(&one.id), clean(&one.what));
    for address in &one.except {
        let _ = write!(out, " --except {}", clean(address));
    }
    let _ = writeln!(out, "  {}{until}, by {}", age(now, one.since.0), clean(&one.actor));
    let _ = writeln!(out, "    {}", clean(&one.reason));
    if waiting > 0 {
        let what = if waiting == 1 { "change waits" } else { "changes wait" };
        let _ = writeln!(out, "    {waiting} {what} for it");
    }
    if until == ", over" {
        let _ =
            writeln!(out, "    what was changed by hand meanwhile is held until it is approved or resumed");
    }
    let _ = writeln!(out, "    hint: {}", clean(&one.hint));
    out
}

/// What is kept at an earlier revision: one entry for each rollback, its resources by name as far as they are few.
pub(super) fn rolled_back(pins: &[PinEntry], now: Duration) -> Vec<String> {
    let same = |a: &PinEntry, b: &PinEntry| {
        (&a.label, &a.actor, &a.reason, a.since) == (&b.label, &b.actor, &b.reason, b.since)
    };
    let entry = |group: &[PinEntry]| {
        let one = &group[0];
        let until = one.until.map(|until| match until.0.saturating_sub(now) {
            Duration::ZERO => ", over, and not looked at since".to_owned(),
            left => format!(", {} to go", span(left)),
        });
        let mut names: Vec<&str> = group.iter().map(|pin| pin.address.as_str()).take(PINS).collect();
        let more = format!("and {} more", group.len().saturating_sub(PINS));
        if group.len() > PINS {
            names.push(&more);
        }
        let what = match group {
            [one] => one.address.clone(),
            _ => format!("--source {}", one.source),
        };
        format!(
            "  {}  at {}  {}{}, by {}\n    {}\n    hint: to let it go on: reconciled resume {}\n",
            clean(&names.join(", ")),
            clean(&one.label),
            age(now, one.since.0),
            until.unwrap_or_default(),
            clean(&one.actor),
            clean(&one.reason),
            clean(&what),
        )
    };
    pins.chunk_by(same).map(entry).collect()
}

/// A window that is closed: until when, and how much waits for it.
fn window(one: &SuspensionEntry, waiting: usize, now: Duration) -> String {
    let left = one.until.map(|until| match until.0.saturating_sub(now) {
        Duration::ZERO => "  open by now, and not looked at since".to_owned(),
        left => format!("  opens in {}", span(left)),
    });
    let left = left.unwrap_or_default();
    let mut out = format!("  {}{left}\n    {}\n", clean(&one.actor), clean(&one.reason));
    if waiting > 0 {
        let what = if waiting == 1 { "change waits" } else { "changes wait" };
        let _ = writeln!(out, "    {waiting} {what} for it");
    }
    let _ = writeln!(out, "    hint: {}", clean(&one.hint));
    out
}
