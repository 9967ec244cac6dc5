//! Intents in the form that the journal has them in: actions of a group as JSON, the rows that they shall become, and what all
//! of a group have in common, once. What writes and reads that is in [`super::journal`].

use super::{
    error::{Result, StoreError},
    inventory::is_alike,
    rows::{address, at, ms, parse_json, parse_state, state_columns, unseal},
    seal::{Part, Seal},
};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use reconciled_engine::{
    Row,
    store::{Intent, Known, Terms},
};
use reconciled_provider::{Deletion, Drift, EntryPolicy, Hash, ManifestKey, ResourceId, Scope, Tracked};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};

/// Actions in one row of the journal: whoever answers, reads or ends them has that many in memory.
pub(super) const PART: usize = 500;

/// One action in `intent.actions`. What is empty in it is as the [`Common`] of its group says.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredAction<'a> {
    pub(super) action: u64,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) op: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) address: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) manifest: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) token: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Hash>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) reason: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    pub(super) revision: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) consented: Option<Hash>,
}

/// What all actions of a group have in common, in `intent.common`: of thousands that one commit creates it is half of the text.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Common<'a> {
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    op: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    manifest: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    reason: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    revision: Cow<'a, str>,
    /// Of several rows alone; it stays when they go, as one of up to [`PART`].
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) row: Option<AlikeRow<'a>>,
}

impl<'a> Common<'a> {
    pub(super) fn of(intents: &'a [Intent]) -> Common<'a> {
        let Some((first, rest)) = intents.split_first() else { return Common::default() };
        let shared = |of: fn(&Intent) -> &str| -> Cow<'a, str> {
            if rest.iter().all(|one| of(one) == of(first)) { of(first).into() } else { "".into() }
        };
        let are_alike = !rest.is_empty() && rest.iter().all(|one| is_alike(&one.row, &first.row));
        Common {
            op: shared(|intent| &intent.op),
            manifest: shared(|intent| &intent.row.manifest.0),
            reason: shared(|intent| &intent.reason),
            revision: shared(|intent| &intent.row.revision),
            row: are_alike.then(|| AlikeRow::of(&first.row)),
        }
    }

    /// An action without what is said here.
    pub(super) fn rest_of(&self, intent: &'a Intent) -> StoredAction<'a> {
        let own =
            |said: &str, text: &'a str| -> Cow<'a, str> { if said.is_empty() { text } else { "" }.into() };
        StoredAction {
            action: intent.action.0,
            op: own(&self.op, &intent.op),
            id: (&*intent.row.tracked.id.0).into(),
            address: intent.row.address.to_string().into(),
            manifest: own(&self.manifest, &intent.row.manifest.0),
            token: (&*intent.token).into(),
            before: intent.before,
            after: intent.after,
            reason: own(&self.reason, &intent.reason),
            revision: own(&self.revision, &intent.row.revision),
            consented: intent.consented,
        }
    }
}

/// The actions of a group, and what their rows have in common.
pub(super) fn actions<'a>(
    actions: &'a str,
    common: &'a str,
) -> Result<(Vec<StoredAction<'a>>, Option<AlikeRow<'a>>)> {
    let mut actions: Vec<StoredAction<'a>> = parse_json(actions)?;
    let Common { op, manifest, reason, revision, row } = parse_json(common)?;
    let fill = |into: &mut Cow<'a, str>, said: &Cow<'a, str>| {
        if !said.is_empty() {
            *into = said.clone();
        }
    };
    for action in &mut actions {
        fill(&mut action.op, &op);
        fill(&mut action.manifest, &manifest);
        fill(&mut action.reason, &reason);
        fill(&mut action.revision, &revision);
    }
    Ok((actions, row))
}

/// One answer in `journal.outcomes`, at the position its action has in `intent.actions`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredOutcome {
    pub(super) outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl StoredOutcome {
    /// An unknown outcome is a question, so it leaves the intent open.
    pub(super) fn is_final(&self) -> bool {
        self.outcome != "unknown"
    }
}

/// An inventory row as JSON, without what the action of the journal beside it says.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRow<'a> {
    template: Hash,
    applied: Hash,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    remote: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    private: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outputs: Option<String>,
    /// Nothing where the group says it for all of its rows.
    #[serde(borrow, flatten)]
    alike: Option<AlikeRow<'a>>,
}

/// What rows that are written together mostly have in common.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AlikeRow<'a> {
    #[serde(borrow)]
    file: Cow<'a, str>,
    normalizer: u32,
    deletion: Deletion,
    #[serde(default, skip_serializing_if = "is_unrestricted")]
    writes: EntryPolicy,
    drift: Drift,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    merge: bool,
    #[serde(borrow)]
    state: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recheck_at: Option<i64>,
    written_at: i64,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    formerly: Vec<String>,
}

/// As most are.
fn is_unrestricted(writes: &EntryPolicy) -> bool {
    *writes == EntryPolicy::Sync
}

impl<'a> AlikeRow<'a> {
    pub(super) fn of(row: &'a Row) -> AlikeRow<'a> {
        let (state, recheck_at) = state_columns(&row.state);
        AlikeRow {
            file: (&*row.file).into(),
            normalizer: row.normalizer,
            deletion: row.deletion,
            writes: row.writes,
            drift: row.drift,
            merge: row.merge,
            state: state.into(),
            recheck_at,
            written_at: ms(row.written_at),
            depends_on: row.tracked.after.iter().map(|key| (&*key.0).into()).collect(),
            formerly: row.formerly.iter().map(ToString::to_string).collect(),
        }
    }
}

impl<'a> StoredRow<'a> {
    /// What a row has of its own.
    pub(super) fn of(row: &'a Row, alike: Option<AlikeRow<'a>>, seal: &Seal) -> Result<StoredRow<'a>> {
        let Tracked { id, remote, private, applied, after: _, outputs } = &row.tracked;
        let sealed = |part, clear| -> Result<_> {
            Ok(seal.seal(&row.scope, id, part, clear)?.map(|bytes| HEXLOWER.encode(&bytes)))
        };
        Ok(StoredRow {
            template: row.template,
            applied: *applied,
            remote: remote.as_deref().map(Cow::from),
            private: sealed(Part::Private, private)?,
            outputs: sealed(Part::Outputs, outputs)?,
            alike,
        })
    }

    /// The row of `action`; `last` has the terms of the one before.
    pub(super) fn row(
        self,
        scope: &Arc<Scope>,
        action: &StoredAction<'_>,
        common: Option<&AlikeRow<'_>>,
        last: &mut Option<Arc<Terms>>,
        seal: Option<&Seal>,
    ) -> Result<Row> {
        let id = ResourceId::from(&*action.id);
        let opened = |part, text: Option<String>| {
            let bytes = text.map(|text| HEXLOWER_PERMISSIVE.decode(text.as_bytes())).transpose();
            let bytes =
                bytes.map_err(|_| StoreError::Unreadable("sealed value in the journal".to_string()))?;
            unseal(seal, scope, &id, part, bytes.as_deref())
        };
        let unreadable = || StoreError::Unreadable(format!("row of {scope} {id}"));
        let alike = self.alike.as_ref().or(common).ok_or_else(unreadable)?;
        let tracked = Tracked {
            private: opened(Part::Private, self.private)?,
            outputs: opened(Part::Outputs, self.outputs)?,
            remote: self.remote.as_deref().map(Arc::from),
            applied: self.applied,
            after: alike.depends_on.iter().map(|key| ManifestKey(Arc::from(&**key))).collect(),
            id,
        };
        let terms = Terms {
            scope: scope.clone(),
            manifest: ManifestKey(Arc::from(&*action.manifest)),
            file: Arc::from(&*alike.file),
            normalizer: alike.normalizer,
            deletion: alike.deletion,
            writes: alike.writes,
            drift: alike.drift,
            merge: alike.merge,
            revision: Arc::from(&*action.revision),
            formerly: alike.formerly.iter().map(|one| address(one)).collect(),
        };
        let known = Known {
            terms: terms.shared(last),
            tracked,
            address: address(&action.address),
            template: self.template,
        };
        Ok(Row::new(known, parse_state(&alike.state, alike.recheck_at)?, at(alike.written_at)))
    }
}
