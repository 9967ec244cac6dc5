//! Times that are to come: the clock was ahead when they were put down, and is right by now.
//!
//! How long ago that was cannot be told. So it counts as the moment at which this process first met such a time: what may not show
//! yet waits for as long as ever from there on, and not until the clock has caught up with what it once said.

use crate::store::{Row, RowState, ScopeMemory};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// When this process first met times that were to come; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Early(Arc<Mutex<BTreeMap<Duration, Duration>>>);

impl Early {
    /// Has nothing in `memory` be of later than `now`.
    pub(super) fn correct(&self, memory: &mut ScopeMemory, now: Duration) {
        let is_early = |row: &Row| row.written_at > now;
        let has_early = memory.rows.iter().any(is_early);
        if !has_early && memory.open.iter().all(|open| open.started_at <= now) {
            return;
        }
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        met.retain(|at, _| *at > now);
        // The clock may have been put back once more since. What was met then would get no older until the clock is there again.
        let mut first = |at: Duration| {
            let first = met.entry(at).or_insert(now);
            *first = now.min(*first);
            *first
        };
        if has_early {
            for row in Arc::make_mut(&mut memory.rows).iter_mut().filter(|row| is_early(row)) {
                let at = first(row.written_at);
                if let RowState::Pending { recheck_at } = &mut row.state {
                    *recheck_at = recheck_at.saturating_sub(row.written_at.saturating_sub(at));
                }
                row.written_at = at;
            }
        }
        for open in memory.open.iter_mut().filter(|open| open.started_at > now) {
            open.started_at = first(open.started_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{ManifestKey, Scope};

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_of_a_time_to_come_is_of_the_moment_at_which_it_was_met_first() {
        let (was, later) = (seconds(7_300), seconds(9_000));
        let key = ManifestKey::new("infra", "dns", "Zone", "", "one");
        let settled = |id: &str| Row::settled(Scope::new("toy", "one"), id, key.clone());
        let row = |id: &str, state, written_at| Row { state, written_at, ..settled(id) };
        let pending = RowState::Pending { recheck_at: was + seconds(30) };
        let memory = || ScopeMemory {
            rows: vec![
                row("a", RowState::Settled, seconds(90)),
                row("b", RowState::Applied, was),
                row("c", pending.clone(), was),
                row("d", RowState::Applied, later),
            ]
            .into(),
            ..ScopeMemory::default()
        };
        let early = Early::default();
        let told = |early: &Early, now| {
            let mut memory = memory();
            early.correct(&mut memory, seconds(now));
            memory.rows.iter().map(|row| (row.written_at.as_secs(), row.state.clone())).collect::<Vec<_>>()
        };
        let recheck = |at| RowState::Pending { recheck_at: seconds(at) };
        let expect = |b, c, d| {
            [(90, RowState::Settled), (b, RowState::Applied), (b, recheck(c)), (d, RowState::Applied)]
        };
        assert_eq!(told(&early, 100), expect(100, 130, 100));
        // It gets older as time goes on, for whoever met it.
        assert_eq!(told(&early.clone(), 160), expect(100, 130, 100));
        assert_eq!(told(&Early::default(), 160), expect(160, 190, 160));
        // The same from where the clock is put back to once more.
        assert_eq!(told(&early, 95), expect(95, 125, 95));
        assert_eq!(told(&early, 98), expect(95, 125, 95));
        // Nothing is to come of what the clock has come to.
        assert_eq!(told(&early, 8_000), expect(7_300, 7_330, 95));
    }
}
