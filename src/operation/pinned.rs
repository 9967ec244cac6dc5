//! What is kept at an earlier revision: which of it is meant, and how it goes on.

use super::Meant;
use crate::{
    failure::Failure,
    store::{Db, PinEntry, Reader, TrackedEntry},
};
use reconciled_engine::{Desired, Extent, Pin, Store, Write, store::Event};
use reconciled_provider::{Address, Pattern};
use std::time::Duration;

/// Lets what `meant` names go on from the revision it is kept at. What a label means is known to plans only.
pub(super) async fn release(
    db: &Db,
    desired: Option<&Desired>,
    meant: &Meant,
    reason: &str,
    actor: &str,
    now: Duration,
) -> Result<Vec<PinEntry>, Failure> {
    // What has no `/` is what a suspension is called.
    if meant.address.as_ref().is_some_and(|text| !text.contains('/')) {
        return Ok(Vec::new());
    }
    let extent = meant.extent()?;
    let mut writes = Vec::new();
    let mut released = Vec::new();
    for pin in db.pins().await?.iter().filter(|pin| means(&extent, pin, desired)) {
        let message = format!("no longer kept at {}, as {} wished: {}", pin.label, pin.actor, pin.reason);
        writes.push(Write::Unpin(pin.scope.clone(), pin.id.clone()));
        writes.push(event("resume", pin, reason, message, actor, now));
        released.push(PinEntry::from(pin));
    }
    if !writes.is_empty() {
        db.commit(writes).await?;
    }
    Ok(released)
}

/// What `extent` means of what is kept at an earlier revision.
pub(super) async fn kept(
    db: &Db,
    desired: Option<&Desired>,
    extent: &Extent,
) -> Result<Vec<PinEntry>, Failure> {
    let pins = db.pins().await?;
    Ok(pins.iter().filter(|pin| means(extent, pin, desired)).map(PinEntry::from).collect())
}

/// What `pattern` means of what is kept at an earlier revision.
pub(super) async fn meant(
    reader: &Reader,
    desired: Option<&Desired>,
    pattern: &Pattern,
) -> Result<Vec<Pin>, Failure> {
    let pins = reader.pins().await.map_err(Failure::Remote)?;
    Ok(pins.into_iter().filter(|pin| concerns(pattern, pin, desired)).collect())
}

/// What is tracked at these addresses, and of `pins`: a commit may have moved what is tracked as it was declared then.
pub(super) async fn rows(
    reader: &Reader,
    pattern: &Pattern,
    pins: &[Pin],
) -> Result<Vec<TrackedEntry>, Failure> {
    let mut rows = reader.rows(Some(pattern)).await?;
    for pin in pins.iter().filter(|pin| !pattern.matches(&pin.address, pin.manifest.group())) {
        let mut of_pin = reader.rows(Some(&Pattern(pin.address.clone()))).await?;
        of_pin.retain(|row| row.scope == pin.scope.to_string() && *row.id == *pin.id.0);
        of_pin.retain(|row| rows.iter().all(|known| (&known.scope, &known.id) != (&row.scope, &row.id)));
        rows.append(&mut of_pin);
    }
    Ok(rows)
}

/// True when `pattern` means what is pinned, by the address it had then or by the one that the newest revision has it at.
fn concerns(pattern: &Pattern, pin: &Pin, desired: Option<&Desired>) -> bool {
    let newest = desired.and_then(|desired| desired.newest(&pin.scope, &pin.id)).is_some_and(|manifest| {
        let address = Address { part: pin.address.part.clone(), ..manifest.address.clone() };
        pattern.matches(&address, manifest.key.group())
    });
    newest || pattern.matches(&pin.address, pin.manifest.group())
}

fn means(extent: &Extent, pin: &Pin, desired: Option<&Desired>) -> bool {
    match extent {
        Extent::All => true,
        Extent::Source(name) => pin.manifest.source() == &**name,
        Extent::Provider(name) => pin.scope.provider == *name,
        Extent::Address(pattern) => concerns(pattern, pin, desired),
        Extent::Labels(_) => false,
    }
}

/// What the audit trail has of `pin`.
pub(super) fn event(
    kind: &str,
    pin: &Pin,
    reason: &str,
    message: String,
    actor: &str,
    at: Duration,
) -> Write {
    Write::Event(Event {
        at,
        kind: kind.into(),
        scope: Some(pin.scope.clone()),
        address: Some(pin.address.clone()),
        revision: pin.label.clone(),
        actor: actor.into(),
        reason: reason.into(),
        message: message.into(),
    })
}
