//! Stopping all writes to what is meant, and letting them go on. Needs the state alone, no source and no remote.

use super::{Meant, pattern, pinned, read::means};
use crate::{
    config::Config,
    failure::Failure,
    store::{Db, PinEntry, SuspensionEntry},
};
use reconciled_engine::{Desired, Extent, StoppedBy, Store, Suspension, Write, store::Event};
use reconciled_provider::{Hash, ManifestKey, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Digits of what a suspension is called.
const DIGITS: usize = 8;
/// Longest time for which something may be suspended or rolled back: ten years.
const LONGEST: Duration = Duration::from_hours(24 * 3_653);

/// Write nothing there.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspendAsk {
    /// What is meant.
    pub meant: Meant,
    /// What is not meant all the same.
    #[serde(default)]
    pub except: Vec<String>,
    /// Why; kept in the audit trail.
    pub reason: String,
    /// For how many milliseconds; until it is resumed without.
    pub period: Option<u64>,
}

/// What was suspended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suspended {
    /// How it is known from now on.
    pub suspension: SuspensionEntry,
    /// How many tracked resources are meant now. What a label means is known to plans only: it may be fewer.
    pub tracked: usize,
    /// A pass that began before still writes what it had sent; it was asked to stop.
    #[serde(default)]
    pub is_writing: bool,
}

/// Write there again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeAsk {
    /// What was meant, or what the suspension is called.
    pub meant: Meant,
    /// Why; kept in the audit trail.
    pub reason: Option<String>,
}

/// What goes on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resumed {
    /// The suspension that is over.
    pub ended: Option<SuspensionEntry>,
    /// What is no longer kept at an earlier revision.
    #[serde(default)]
    pub released: Vec<PinEntry>,
    /// What is meant and still kept at an earlier revision: that a suspension is over ends no rollback.
    #[serde(default)]
    pub kept: Vec<PinEntry>,
    /// What stays suspended.
    pub left: Vec<SuspensionEntry>,
}

/// Suspends what `ask` means, in place of an earlier suspension of the same.
///
/// Errors: it means nothing, several things, or an entry or source nobody knows; it gives no reason.
pub async fn suspend(
    db: &Db,
    config: &Config,
    ask: &SuspendAsk,
    actor: &str,
    now: Duration,
) -> Result<Suspended, Failure> {
    let extent = ask.meant.extent()?;
    reasoned(&ask.reason)?;
    let until = until(ask.period, now)?;
    let rows = db.reader().rows(None).await?;
    let sources = rows.iter().map(|row| ManifestKey(row.manifest.as_str().into()).source().to_string());
    match &extent {
        Extent::Provider(name) => {
            let tracked = rows.iter().filter_map(|row| row.scope.split('/').next().map(String::from));
            known("provider", name, config.providers.iter().map(|entry| entry.name.to_string()), tracked)?;
        }
        Extent::Source(name) => {
            known("source", name, config.sources.iter().map(|source| source.name.to_string()), sources)?;
        }
        _ => {}
    }
    // Whatever the provider or source was called when it was suspended.
    let known = db.suspensions().await?.into_iter().find(|known| known.extent == extent);
    let mut suspension = Suspension {
        id: known.map_or_else(|| id(&extent).into(), |known| known.id),
        extent,
        except: ask.except.iter().map(|text| pattern(text)).collect::<Result<_, _>>()?,
        reason: ask.reason.as_str().into(),
        actor: actor.into(),
        since: now,
        until,
        stopped_by: StoppedBy::Person,
        scopes: BTreeSet::new(),
    };
    let mut tracked = 0;
    for row in rows.iter().filter(|row| means(&suspension, row)).collect::<Vec<_>>() {
        tracked += 1;
        suspension.scopes.extend(row.scope.parse::<Scope>());
    }
    let entry = SuspensionEntry::from(&suspension);
    let until = entry.until.map(|until| format!(" until {until}")).unwrap_or_default();
    let except = match entry.except.is_empty() {
        true => String::new(),
        false => format!(" --except {}", entry.except.join(" --except ")),
    };
    let message = format!("{}{except} suspended{until}", entry.what);
    let event = event("suspend", &suspension.extent, &ask.reason, message, actor, now);
    db.commit(vec![Write::Suspend(suspension), Write::Event(event)]).await?;
    Ok(Suspended { suspension: entry, tracked, is_writing: false })
}

/// Ends the suspension that `ask` means; where there is none, what is kept there at an earlier revision. What was changed
/// by hand meanwhile is healed: a person says so. `desired` is what sources declare, where that is known.
///
/// Errors: there is neither.
pub async fn resume(
    db: &Db,
    desired: Option<&Desired>,
    ask: &ResumeAsk,
    actor: &str,
    now: Duration,
) -> Result<Resumed, Failure> {
    let all = db.suspensions().await?;
    let name = ask.meant.address.as_deref().filter(|text| !text.contains('/'));
    let found = match name.map(str::to_lowercase) {
        Some(name) => all.iter().find(|suspension| *suspension.id == *name),
        None => {
            let extent = ask.meant.extent()?;
            all.iter().find(|suspension| suspension.extent == extent)
        }
    };
    let reason = ask.reason.as_deref().unwrap_or("");
    let Some(found) = found else {
        let released = pinned::release(db, desired, &ask.meant, reason, actor, now).await?;
        if !released.is_empty() {
            return Ok(Resumed {
                ended: None,
                released,
                kept: Vec::new(),
                left: all.iter().map(SuspensionEntry::from).collect(),
            });
        }
        let list: Vec<String> = all.iter().map(|s| format!("{} ({})", s.id, s.extent)).collect();
        let pins: Vec<String> = db.pins().await?.iter().map(|pin| pin.address.to_string()).collect();
        let now = [("suspended", list), ("rolled back", pins)];
        let now = now.into_iter().filter(|(_, all)| !all.is_empty());
        let now: Vec<String> = now.map(|(what, all)| format!("{what} now: {}", all.join(", "))).collect();
        let hint = match now.is_empty() {
            true => {
                "nothing is suspended or rolled back by a verb; reconciled status shows a file that suspends"
                    .into()
            }
            false => now.join("; "),
        };
        return Err(Failure::hinted("no suspension is called or means that, and no rollback", hint));
    };
    let message = format!("{} goes on; suspended by {}: {}", found.extent, found.actor, found.reason);
    let event = event("resume", &found.extent, reason, message, actor, now);
    db.commit(vec![Write::Resume(found.id.clone()), Write::Event(event)]).await?;
    let left = all.iter().filter(|other| other.id != found.id);
    Ok(Resumed {
        ended: Some(found.into()),
        released: Vec::new(),
        kept: pinned::kept(db, desired, &found.extent).await?,
        left: left.map(SuspensionEntry::from).collect(),
    })
}

/// That somebody said why.
///
/// Errors: nothing is said.
pub(super) fn reasoned(reason: &str) -> Result<(), Failure> {
    match reason.trim().is_empty() {
        true => Err(Failure::hinted("the reason is empty", "say why, for the audit trail: --reason \"…\"")),
        false => Ok(()),
    }
}

/// When a period of so many milliseconds is over.
///
/// Errors: it is longer than [`LONGEST`].
pub(super) fn until(period: Option<u64>, now: Duration) -> Result<Option<Duration>, Failure> {
    match period.map(Duration::from_millis) {
        Some(period) if period > LONGEST => Err(Failure::hinted(
            "this is longer than ten years",
            "leave the time out: then it is over once you say `reconciled resume`",
        )),
        period => Ok(period.map(|period| now + period)),
    }
}

/// What the suspension of an extent is called. One extent has one suspension, so saying it again replaces it.
fn id(extent: &Extent) -> String {
    let mut digits = Hash::of(extent.to_string().as_bytes()).to_string();
    digits.truncate(DIGITS);
    digits
}

fn known(
    what: &str,
    name: &str,
    configured: impl Iterator<Item = String>,
    mut tracked: impl Iterator<Item = String>,
) -> Result<(), Failure> {
    let configured: Vec<String> = configured.collect();
    if configured.iter().any(|known| known == name) || tracked.any(|known| known == name) {
        return Ok(());
    }
    Err(Failure::hinted(
        format!("no {what} is called `{name}`"),
        format!("configured {what}s: {}", configured.join(", ")),
    ))
}

fn event(kind: &str, extent: &Extent, reason: &str, message: String, actor: &str, at: Duration) -> Event {
    let address = match extent {
        Extent::Address(pattern) if !pattern.0.to_string().contains(['*', '?']) => Some(pattern.0.clone()),
        _ => None,
    };
    let (actor, reason) = (Arc::from(actor), Arc::from(reason));
    Event {
        at,
        kind: kind.into(),
        scope: None,
        address,
        revision: "".into(),
        actor,
        reason,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_something() {
        assert!(reasoned("moving the database").is_ok());
        for nothing in ["", " ", "\n"] {
            assert!(reasoned(nothing).is_err(), "{nothing:?}");
        }
    }

    #[test]
    fn a_period_is_ten_years_at_most() {
        let now = Duration::from_secs(1_700_000_000);
        assert_eq!(until(None, now).unwrap(), None);
        assert_eq!(until(Some(1_000), now).unwrap(), Some(now + Duration::from_secs(1)));
        let longest = u64::try_from(LONGEST.as_millis()).unwrap();
        assert!(until(Some(longest), now).is_ok());
        for too_long in [longest + 1, u64::MAX] {
            assert!(until(Some(too_long), now).unwrap_err().to_string().contains("ten years"));
        }
    }
}
