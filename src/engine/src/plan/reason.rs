//! Why a resource differs: told apart by what moved since it was last applied.

use super::{CLAIMS, ScopeInput};
use crate::{
    desired::ManifestMeta,
    store::{ClaimRow, Row},
};
use reconciled_provider::{Observed, Resource, ResourceId};
use std::{fmt, sync::Arc};

/// Why a step is in the plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The declaration changed with this revision.
    Commit(Arc<str>),
    /// The configuration of the host makes another thing of the declaration, with the commit as it was.
    Configuration,
    /// A person keeps it at an earlier revision.
    Rollback(Arc<str>),
    /// The remote was changed by somebody else.
    Drift,
    /// Nobody changed anything: it is due, as a certificate that is to be renewed.
    Due,
    /// The resource is tracked and gone from the remote.
    Restore,
    /// A secret was rotated or an output changed.
    Input,
    /// The resource is taken over.
    Adopt,
    /// A new version of this program sees a difference.
    Upgrade,
    /// Another resource claims it.
    Claim,
    /// The remote was on its way, or a write of ours is not finished.
    Continue,
}

impl Reason {
    /// True when the guard counts the step: drift repair, renewals, restores and claims go on while a commit is held.
    pub fn is_guarded(&self) -> bool {
        !self.is_heal() && !matches!(self, Reason::Claim | Reason::Continue)
    }

    /// True when what was applied is only made again as it was declared then.
    pub(super) fn is_heal(&self) -> bool {
        matches!(self, Reason::Drift | Reason::Due | Reason::Restore)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Commit(label) if label.is_empty() => f.write_str("commit"),
            Reason::Commit(label) => write!(f, "commit {label}"),
            Reason::Configuration => f.write_str("configuration"),
            Reason::Rollback(label) => write!(f, "rollback {label}"),
            Reason::Drift => f.write_str("drift"),
            Reason::Due => f.write_str("due"),
            Reason::Restore => f.write_str("restore"),
            Reason::Input => f.write_str("input"),
            Reason::Adopt => f.write_str("adopt"),
            Reason::Upgrade => f.write_str("upgrade"),
            Reason::Claim => f.write_str("claim"),
            Reason::Continue => f.write_str("continue"),
        }
    }
}

/// The revision a person keeps this resource at, if one does.
pub(super) fn rollback(input: &ScopeInput<'_>, id: &ResourceId) -> Option<Reason> {
    let pinned = &input.desired.pinned;
    let pinned = (!pinned.is_empty()).then(|| pinned.get(&(input.scope.clone(), id.clone())))??;
    Some(Reason::Rollback(pinned.label.clone()))
}

/// The revision that is in force of the manifest's source.
pub(super) fn commit(input: &ScopeInput<'_>, manifest: Option<&ManifestMeta>) -> Reason {
    let source = manifest.and_then(|m| input.desired.sources.get(m.key.source()));
    Reason::Commit(source.map(|s| s.label.clone()).unwrap_or_default())
}

/// The reason for a difference between `desired` and `observed`.
///
/// Same template as last applied: nobody wrote anything, so the remote moved (drift, restore), unless the
/// resolved content moved (input) before it was found gone. Another template with the same document: the normalizer moved (upgrade).
pub(super) fn of(
    input: &ScopeInput<'_>,
    manifest: Option<&ManifestMeta>,
    desired: &Resource,
    row: Option<&Row>,
    observed: Option<&Observed>,
) -> Reason {
    let Some(manifest) = manifest else { return Reason::Claim };
    let commit = || rollback(input, &desired.id).unwrap_or_else(|| commit(input, Some(manifest)));
    let Some(row) = row.filter(|r| r.manifest.source() != CLAIMS) else { return commit() };
    if row.merge && row.template == desired.spec.template() {
        let asks = |claim: &ClaimRow| claim.id == desired.id && !claim.synced;
        return match observed {
            None => Reason::Restore,
            // Nobody took anything away: what is there of ours has no declaration any more.
            Some(_) if input.shared.only_goes.contains(&desired.id) => commit(),
            Some(_) if input.memory.claims_here.iter().any(asks) => Reason::Claim,
            Some(_) => Reason::Drift,
        };
    }
    if row.template == desired.spec.template() {
        return match desired.spec.hash() {
            // What somebody took away is restored, or left, whatever moves later.
            _ if observed.is_none() && was_gone(input, &desired.id) => Reason::Restore,
            Some(hash) if hash != row.tracked.applied => Reason::Input,
            _ if observed.is_none() => Reason::Restore,
            _ => Reason::Drift,
        };
    }
    let upgraded = row.normalizer != input.provider.info().normalizer
        && input.memory.documents.get(&row.manifest) == Some(&manifest.content);
    match commit() {
        _ if upgraded => Reason::Upgrade,
        Reason::Commit(label) if is_reconfigured(input, manifest, row, &label) => Reason::Configuration,
        reason => reason,
    }
}

/// True for what an earlier look found gone. What goes together with what it is made of, as what is in a network that is made anew,
/// was found so by none.
fn was_gone(input: &ScopeInput<'_>, id: &ResourceId) -> bool {
    let memory = input.memory;
    let drift = memory.drifts.binary_search_by(|drift| drift.id.cmp(id)).ok();
    drift.and_then(|at| memory.drifts.get(at)).is_some_and(|drift| drift.missing)
        || memory.ailments.iter().any(|ailment| ailment.is_left_out() && ailment.id.as_ref() == Some(id))
}

/// True when the commit in force was carried out before and asks for something else now: it was planned as it came into
/// force, or this was written for it. What is left of a commit that was never planned is its own.
fn is_reconfigured(input: &ScopeInput<'_>, manifest: &ManifestMeta, row: &Row, label: &Arc<str>) -> bool {
    let planned = input.memory.documents.get(&row.manifest);
    let was = input.desired.reconfigured.get(&manifest.key);
    was.is_some() && (row.revision == *label || planned == was)
}
