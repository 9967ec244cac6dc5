//! The TXT records that change together with a record: our mark comes and goes with it, and the mark of whom it was
//! taken over from goes.
//!
//! Guarantees: a mark is touched only together with its record, next to it in the same batch; marks of others go only where a
//! person agreed to the takeover; our mark goes with our last value in a set; other values in the same RRset stay. A mark is
//! there before its record comes and until it is gone, so that a death in between leaves a mark too many and never a record
//! without. One whose record is gone is the planner's to delete ([`remains`](reconciled_provider::Observer::remains)): what no
//! plan showed, no policy, suspension or guard could keep.

use super::{
    label,
    marks::{Mark, Marks},
    naming::Naming,
    seal::SealKey,
};
use crate::{
    merge,
    record::{self, DEFAULT_TTL, RrSet},
};
use reconciled_provider::{
    Action, ActionId, Batch, Error, OWNER_FIELD, Op, Origin, PolicyId, Resource, ResourceId, Scope, Spec,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// First of the ids of actions on marks; the engine counts from 1 and never sees them.
const FIRST: u64 = 1 << 63;

/// Where actions on TXT RRsets that hold marks say they come from.
const BESIDE: Origin = Origin { manifest: u32::MAX, line: u32::MAX };

/// How we write marks.
pub(crate) struct Writer<'a> {
    pub(crate) naming: &'a Naming,
    pub(crate) instance: &'a str,
    pub(crate) key: Option<SealKey>,
}

impl Writer<'_> {
    /// Where the mark of a record stands, if it gets one. A challenge is there for minutes, and others put theirs
    /// beside it.
    pub(crate) fn place(&self, id: &ResourceId, zone: &str) -> Option<ResourceId> {
        let (name, kind) = record::parts(id)?;
        if kind == "SOA" || name.starts_with("_acme-challenge.") {
            return None;
        }
        Some(record::id(&self.naming.place(name, kind, zone)?, "TXT"))
    }

    /// The canonical value of the mark at `place`.
    fn value(&self, place: &ResourceId, zone: &str) -> Result<String, Error> {
        let mut text = label::write(self.instance, zone);
        if let (Some(key), Some((name, _))) = (&self.key, record::parts(place)) {
            text = key.seal(name, &text)?;
        }
        let mut value = String::new();
        crate::text::quote(text.as_bytes(), &mut value);
        Ok(value)
    }
}

/// A batch with the actions on marks in it.
pub(crate) struct Beside {
    /// All actions, in order.
    pub(crate) actions: Vec<Action>,
    /// The actions of the batch that each action on a mark belongs to.
    pub(crate) belongs: BTreeMap<ActionId, Vec<ActionId>>,
    /// Actions that must not be carried out.
    pub(crate) refused: Vec<(ActionId, Error)>,
}

/// What happens to one TXT RRset.
#[derive(Default)]
struct Edit {
    remove: BTreeSet<String>,
    add: BTreeSet<String>,
    /// Indexes of the actions it belongs to.
    with: Vec<usize>,
    /// It follows its action.
    is_after: bool,
}

/// True when a person agreed that this action takes the record over from another owner.
pub(crate) fn takes_over(op: &Op) -> bool {
    let (Op::Update { delta, .. } | Op::Replace { delta, .. }) = op else { return false };
    delta.fields.iter().any(|field| &*field.path == OWNER_FIELD)
}

/// True for a RRset that is written because a mark in it comes or goes: what else is in it stays whose it is.
pub(super) fn is_beside(resource: &Resource) -> bool {
    resource.origin == BESIDE
}

/// Adds to `batch` what happens to marks.
pub(crate) fn beside(batch: &Batch, marks: &Marks, writer: Option<&Writer<'_>>) -> Result<Beside, Error> {
    let zone = record::zone_name(&batch.scope);
    let taken: BTreeSet<&ResourceId> =
        batch.actions.iter().filter(|a| takes_over(&a.op)).map(|a| a.op.id()).collect();
    let changed: BTreeSet<&ResourceId> = batch.actions.iter().map(|a| a.op.id()).collect();
    let mut edits: BTreeMap<ResourceId, Edit> = BTreeMap::new();
    let mut refused = Vec::new();
    for (index, action) in batch.actions.iter().enumerate() {
        let id = action.op.id();
        if record::parts(id).is_none() {
            continue;
        }
        if let Err(error) = may_take(id, marks, &taken) {
            refused.push((action.id, error));
            continue;
        }
        let mut edit = |txt: &ResourceId, is_after: bool, change: &dyn Fn(&mut Edit)| {
            // Whoever declares the RRset of a mark has said what shall be in it.
            if !changed.contains(txt) {
                let found = edits.entry(txt.clone()).or_default();
                found.with.push(index);
                found.is_after = is_after && (found.is_after || found.with.len() == 1);
                change(found);
            }
        };
        if matches!(action.op, Op::Delete { .. }) || merge::is_left(action) {
            for mark in marks.of(id).filter(|mark| mark.other().is_none()) {
                edit(&mark.txt, true, &|found| _ = found.remove.insert(mark.value.to_string()));
            }
            continue;
        }
        let is_taken = taken.contains(id);
        for mark in marks.of(id).filter(|mark| is_taken && mark.other().is_some()) {
            edit(&mark.txt, false, &|found| _ = found.remove.insert(mark.value.to_string()));
        }
        // What is shared with another owner stays under the other's mark.
        let has_mark = marks.of(id).any(|mark| mark.other().is_none() || !is_taken);
        if let (Some(writer), false) = (writer, has_mark)
            && let Some(place) = writer.place(id, &zone).filter(|place| !marks.is_taken_by_cname(place))
        {
            let value = writer.value(&place, &zone)?;
            // One that an earlier record left there, sealed with another key, would be one too many.
            let left = || marks.within(&place).filter(|mark| mark.is_left());
            edit(&place, false, &|found| {
                found.remove.extend(left().map(|mark| mark.value.to_string()));
                found.add.insert(value.clone());
            });
        }
    }
    let mut out = Beside { actions: Vec::new(), belongs: BTreeMap::new(), refused };
    let mut before: BTreeMap<usize, Vec<Action>> = BTreeMap::new();
    let mut after: BTreeMap<usize, Vec<Action>> = BTreeMap::new();
    for (txt, edit) in edits {
        let Some(first) = edit.with.first().copied() else { continue };
        let Some(op) = operation(&txt, &edit, marks, &batch.scope) else { continue };
        let id = ActionId(FIRST + out.belongs.len() as u64);
        out.belongs.insert(id, edit.with.iter().map(|index| batch.actions[*index].id).collect());
        let token = format!("{}-mark", batch.actions[first].token).into();
        let side = if edit.is_after { &mut after } else { &mut before };
        side.entry(first).or_default().push(Action { id, token, op });
    }
    for (index, action) in batch.actions.iter().enumerate() {
        if out.refused.iter().any(|(id, _)| *id == action.id) {
            continue;
        }
        out.actions.extend(before.remove(&index).unwrap_or_default());
        out.actions.push(action.clone());
        out.actions.extend(after.remove(&index).unwrap_or_default());
    }
    Ok(out)
}

/// Errors: the mark would have to go, and it is the mark of other records as well.
fn may_take(id: &ResourceId, marks: &Marks, taken: &BTreeSet<&ResourceId>) -> Result<(), Error> {
    if !taken.contains(id) {
        return Ok(());
    }
    let left = |mark: &Mark| mark.of.iter().find(|other| !taken.contains(other)).cloned();
    for mark in marks.of(id).filter(|mark| mark.other().is_some()) {
        let Some(other) = left(mark) else { continue };
        let text =
            format!("the ownership mark {} is that of {other} as well, which stays with its owner", mark.txt);
        return Err(Error::invalid(text).hint(format!(
            "take both over, or let a newer ExternalDNS write a mark for each type, which replaces this one: {id}"
        )));
    }
    Ok(())
}

/// The operation that an edit comes to; none when nothing changes.
fn operation(txt: &ResourceId, edit: &Edit, marks: &Marks, scope: &Scope) -> Option<Op> {
    let observed = marks.set(txt);
    let before = observed.and_then(|observed| RrSet::decode(&observed.bytes));
    let (ttl, values): (u32, BTreeSet<String>) = match &before {
        Some(set) => (set.ttl, set.values.iter().map(|value| value.to_string()).collect()),
        None => (DEFAULT_TTL, BTreeSet::new()),
    };
    let next: BTreeSet<String> =
        values.iter().filter(|value| !edit.remove.contains(*value)).chain(&edit.add).cloned().collect();
    if next == values {
        return None;
    }
    if next.is_empty() {
        return Some(Op::Delete { observed: observed?.clone().into(), tracked: None });
    }
    // What else the provider knows of it, such as a note, stays.
    let extra = before.as_ref().map_or("", |set| set.extra);
    let bytes = record::encode_with(ttl, extra, &mut next.into_iter().collect::<Vec<_>>());
    let delta = observed.and_then(|observed| record::compare(&bytes, &observed.bytes)).unwrap_or_default();
    let desired =
        Resource::new(txt.clone(), Arc::new(scope.clone()), Spec::known(bytes), BESIDE, PolicyId::default());
    Some(match observed {
        Some(observed) => {
            Op::Update { desired, delta: delta.into(), observed: observed.clone().into(), tracked: None }
        }
        None => Op::Create { desired, delta: Default::default() },
    })
}
