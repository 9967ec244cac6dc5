//! What remotes tell by themselves: a hint wakes its scope, and the pass finds out what is there.
//!
//! Guarantees: hints that come while a look is due are one look at each scope; a hint is believed for nothing but where to
//! look. What is told of rarely is looked at at once, however much is told of others. It deliberately does not tell our own
//! writes from those of others: the look after ours finds nothing to do.

use super::instance::Instance;
use futures_util::{FutureExt, StreamExt};
use reconciled_engine::scheduler::Priority;
use reconciled_provider::{Focus, Hint, Observer, ResourceId, Scope};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// At least so much lies between two looks at one resource in the long run: a service that fails and is started again all
/// the time makes many hints.
const PAUSE: Duration = Duration::from_millis(200);
/// So many looks at it may follow each other at once after a quiet time: what a person breaks is mended at once, and so is
/// what the second half of an editor's saving breaks again.
const BURST: u32 = 10;
/// What looks take is that part of the time, in the long run.
const SHARE: u32 = 4;
/// So long a quiet time counts for looks afterwards.
const CREDIT: Duration = Duration::from_secs(8);
/// No look waits longer than that, whatever the clock says.
const LONGEST: Duration = Duration::from_secs(60);

/// Follows the hints of one entry until they end or the instance stops.
pub(super) async fn watch(instance: Arc<Instance>, observer: Arc<dyn Observer>) {
    let cx = &instance.session.surveyor.cx;
    let mut hints = observer.hints();
    let mut pace = Pace::default();
    loop {
        let now = cx.clock.now();
        let rest = pace.next(now).map(|at| at.saturating_sub(now));
        let due = async {
            match rest {
                Some(rest) => cx.clock.sleep(rest).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cx.stop.wished() => return,
            hint = hints.next() => {
                let Some(first) = hint else { return };
                let now = cx.clock.now();
                pace.told(first, now);
                // What is told already is one look; what comes later is the next one.
                while let Some(Some(hint)) = hints.next().now_or_never() {
                    pace.told(hint, now);
                }
            }
            () = due => {}
        }
        let now = cx.clock.now();
        let ready = pace.take(now);
        if ready.is_empty() {
            continue;
        }
        let standing = instance.scheduler.standing();
        for (scope, focus) in ready {
            // A scope of which nothing is declared or tracked is nobody's.
            let Some(standing) = standing.get(&scope) else { continue };
            tracing::debug!(%scope, "remote tells of a change");
            pace.looked(standing.took.unwrap_or_default(), now);
            instance.scheduler.wake([scope], Priority::Hint, focus);
        }
    }
}

/// A resource, or all of a scope.
type What = (Scope, Option<ResourceId>);

/// When what is told of is looked at.
#[derive(Debug, Default)]
struct Pace {
    /// When the looks so far would be over if each took a pause.
    quiet_from: BTreeMap<What, Duration>,
    /// What waits, and until when.
    waiting: BTreeMap<What, Duration>,
    /// When the looks so far would be over if each took [`SHARE`] times what it took.
    paid_at: Duration,
}

impl Pace {
    fn told(&mut self, hint: Hint, now: Duration) {
        let ids: Vec<Option<ResourceId>> = match &hint.focus {
            Focus::All => vec![None],
            Focus::Only(ids) => ids.iter().cloned().map(Some).collect(),
        };
        self.quiet_from.retain(|_, from| *from > now);
        for id in ids {
            let what = (hint.scope.clone(), id);
            if self.waiting.contains_key(&what) {
                continue;
            }
            let from = self.quiet_from.entry(what.clone()).or_insert(now);
            // A clock that was set back makes nothing wait longer than a pause.
            *from = (*from + PAUSE).min(now + PAUSE * (BURST + 1));
            let due = from.saturating_sub(PAUSE * BURST).max(now);
            self.waiting.insert(what, due);
        }
    }

    /// A look begins that is likely to take so long.
    fn looked(&mut self, took: Duration, now: Duration) {
        // A pass that wrote took longer than its look; nobody pays for that with more than the longest wait.
        let paid_at = self.paid_at.max(now.saturating_sub(CREDIT)) + took * SHARE;
        self.paid_at = paid_at.min(now + LONGEST);
    }

    /// When something is to be looked at.
    fn next(&self, now: Duration) -> Option<Duration> {
        let first = self.waiting.values().min().copied()?;
        Some(first.max(self.paid_at).min(now + LONGEST))
    }

    /// What is to be looked at now.
    fn take(&mut self, now: Duration) -> BTreeMap<Scope, Focus> {
        let mut ready: BTreeMap<Scope, Focus> = BTreeMap::new();
        // So far ahead no look is paid for: the clock was set back.
        if self.paid_at > now && self.paid_at <= now + LONGEST {
            return ready;
        }
        self.paid_at = self.paid_at.min(now);
        self.waiting.retain(|(scope, id), due| {
            // The same of what waits.
            if *due > now && *due <= now + PAUSE {
                return true;
            }
            let focus = match id {
                Some(id) => Focus::Only([id.clone()].into()),
                None => Focus::All,
            };
            let known = ready.entry(scope.clone()).or_insert_with(|| focus.clone());
            *known = known.union(&focus);
            false
        });
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Duration = Duration::from_secs(50_000);
    const MS: Duration = Duration::from_millis(1);

    fn hint(id: &str) -> Hint {
        Hint { scope: Scope::new("host", "systemd"), focus: Focus::Only([ResourceId::from(id)].into()) }
    }

    /// How many looks `id` gets in a second in which it is told of every ten milliseconds.
    fn looks(pace: &mut Pace, id: &str, from: Duration) -> usize {
        let tick = |step: u32| {
            let now = from + MS * 10 * step;
            pace.told(hint(id), now);
            pace.take(now).len()
        };
        (0..100).map(tick).sum()
    }

    #[test]
    fn who_is_told_of_all_the_time_keeps_nobody_else_waiting() {
        let mut pace = Pace::default();
        assert_eq!(looks(&mut pace, "crashes", NOON), 10 + 5 - 1);
        assert_eq!(
            looks(&mut pace, "crashes", NOON + Duration::from_secs(1)),
            5,
            "five a second in the long run"
        );
        let now = NOON + Duration::from_secs(2);
        // What waited until now is no matter of what follows.
        pace.take(now);
        pace.told(hint("crashes"), now);
        pace.told(hint("other"), now);
        assert_eq!(pace.take(now)[&hint("other").scope], hint("other").focus);
        assert!(pace.next(now).unwrap() <= now + PAUSE, "and none is forgotten");
        assert_eq!(pace.take(now + PAUSE)[&hint("crashes").scope], hint("crashes").focus);
    }

    #[test]
    fn looks_take_a_quarter_of_the_time_in_the_long_run() {
        let (mut pace, mut spent) = (Pace::default(), Duration::ZERO);
        for step in 0..10_000 {
            let now = NOON + MS * 10 * step;
            pace.told(hint(&format!("r{step}")), now);
            for _ in pace.take(now) {
                pace.looked(MS * 100, now);
                spent += MS * 100;
            }
        }
        let share = spent.as_secs_f64() / 100.0;
        assert!((0.25..0.30).contains(&share), "{share}");
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_nothing_waiting() {
        let mut pace = Pace::default();
        looks(&mut pace, "a", NOON);
        pace.looked(Duration::from_secs(20), NOON);
        let morning = NOON / 2;
        pace.told(hint("a"), morning);
        pace.told(hint("b"), morning);
        let next = pace.next(morning).unwrap();
        assert!(next <= morning + LONGEST);
        assert_eq!(pace.take(next).len(), 1);
    }
}
