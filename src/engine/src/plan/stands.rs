//! What stands as it is declared: nearly all of a scope, nearly always. It is found without anything being made for it.
//!
//! Guarantees: whatever is said to stand, the table of [`super::resource`] would only count as in sync; debug builds ask it too.
//! It deliberately gives up wherever anything is told besides, of the scope or of the resource: then the table decides.

use super::{Exclusive, ScopePlan, planner::Planner};
use crate::{
    desired::ManifestMeta,
    store::{Known, Row, RowState, Terms},
};
use reconciled_provider::{Address, Deletion, Hash, Observed, Owner, Resource, Spec, Tracked};

impl Planner<'_> {
    /// The row of what is tracked and not on its way, seen as it is declared, and tracked just as it would be once it were applied.
    pub(super) fn stands<'r>(
        &self,
        desired: &Resource,
        row: Option<&'r Row>,
        observed: Option<&Observed>,
    ) -> Option<&'r Row> {
        let (row, observed) = (row.filter(|_| self.is_plain)?, observed?);
        let Spec::Known { hash, .. } = &desired.spec else { return None };
        let is_as_declared = *hash == observed.hash && !self.input.deltas.contains_key(&desired.id);
        let tells_nothing =
            !matches!(observed.owner, Owner::Other(_)) && observed.outputs.is_empty() && !observed.has_news;
        let manifest = self.manifest(desired)?;
        (is_as_declared && tells_nothing && self.is_kept_in(row, desired, *hash, manifest)).then_some(row)
    }

    /// True where the row is as [`Planner::row_for`] would make it, whatever its state.
    fn is_kept_in(&self, row: &Row, desired: &Resource, content: Hash, manifest: &ManifestMeta) -> bool {
        // When it was written, its revision and its former names are its own, whatever is declared.
        let Row { known, state, written_at: _ } = row;
        let Known { terms, tracked, address, template } = &**known;
        let Terms {
            scope,
            manifest: key,
            file,
            normalizer,
            deletion,
            writes,
            drift,
            merge,
            revision: _,
            formerly: _,
        } = &**terms;
        // What is private is another only of what is shared, and outputs only where some were seen.
        let Tracked { id: _, remote: _, private: _, applied, after, outputs: _ } = tracked;
        let input = self.input;
        let policy = input.desired.policies.get(desired.policy);
        !matches!(state, RowState::Pending { .. })
            && *applied == content
            && *template == desired.spec.template()
            && *normalizer == input.provider.info().normalizer
            && *deletion == policy.deletion.unwrap_or(Deletion::Delete)
            && *writes == policy.writes
            && *drift == self.drift_mode(desired)
            && *merge == policy.merge
            && !input.shared.ours.contains_key(&desired.id)
            && *file == manifest.file
            && *after == manifest.after
            && *key == manifest.key
            && **scope == *input.scope
            && self.is_named(address, desired, &manifest.address)
    }

    /// True where the row has the address that the resource has as a part of its manifest.
    fn is_named(&self, address: &Address, desired: &Resource, manifest: &Address) -> bool {
        let Address { whole, part } = address;
        *whole == manifest.whole
            && self.input.provider.is_part(self.input.scope, &desired.id, part.as_deref())
    }

    /// Says of what [`stands`](Self::stands) that it is in sync, and of its row that it is as written where that is news.
    pub(super) fn count(
        &self,
        desired: &Resource,
        row: &Row,
        observed: Option<&Observed>,
        out: &mut ScopePlan,
    ) {
        let is_settled = row.state == RowState::Settled;
        debug_assert!(
            self.is_all_that_is_said(desired, row, observed, is_settled),
            "{} in {}",
            desired.id.0,
            self.input.scope
        );
        out.in_sync += 1;
        if !is_settled {
            out.settled.push(desired.id.clone());
        }
    }

    /// True where the table says the same.
    fn is_all_that_is_said(
        &self,
        desired: &Resource,
        row: &Row,
        observed: Option<&Observed>,
        is_settled: bool,
    ) -> bool {
        let mut alone = ScopePlan::nothing(self.input.scope.clone(), self.input.seen.version.clone());
        self.by_the_table(desired, Some(row), observed, &mut alone);
        alone.in_sync == 1 && alone.settled.is_empty() == is_settled && alone.says_nothing_else()
    }
}

impl ScopePlan {
    /// True where it says nothing of any resource but how many are in sync and which are settled.
    fn says_nothing_else(&self) -> bool {
        let ScopePlan {
            scope: _,
            base: _,
            steps,
            unselected,
            resumed,
            put_off,
            refreshed,
            settled: _,
            lapsed,
            documents,
            foreign,
            foreign_count,
            ignored_count,
            conditions,
            to_come,
            still_refused,
            besides,
            spent,
            let_go,
            tracked,
            in_sync: _,
            frozen,
            unlike,
            left,
            as_declared,
            ignored,
            gone,
            unanswered,
            looked,
            place,
            exclusive,
        } = self;
        [steps.len(), unselected.len(), resumed.len(), refreshed.len(), lapsed.len()] == [0; 5]
            && [documents.len(), foreign.len(), conditions.len(), to_come.len(), still_refused.len()]
                == [0; 5]
            && [spent.len(), let_go.len(), frozen.len(), as_declared.len(), ignored.len(), gone.len()]
                == [0; 6]
            && [unanswered.len(), looked.len(), left.len(), besides.len(), *tracked, *unlike] == [0; 6]
            && [*put_off, *foreign_count, *ignored_count] == [0; 3]
            && place.is_none()
            && *exclusive == Exclusive::AsBefore
    }
}
