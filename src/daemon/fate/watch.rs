//! The loop that works out fates whenever something may have changed them.

use super::{Changed, Fate, Fates, Found, Owners, Verdict, look};
use crate::daemon::{follower::Left, instance::Instance};
use reconciled_engine::scheduler::Progress;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch::Sender;

/// Least time between two looks at everything.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest time.
const LOOK: Duration = Duration::from_secs(2);

/// Works out fates until the instance stops.
pub(in crate::daemon) async fn watch(instance: Arc<Instance>, fates: Sender<Fates>) {
    let cx = instance.session.surveyor.cx.clone();
    let metrics = &instance.session.metrics;
    let mut progress = instance.scheduler.watch();
    let mut changed = Changed::default();
    // Without it what nobody declares any more is anybody's.
    let last = instance.writing.db.reader().tracking().await.unwrap_or_default();
    let mut owners = Owners { last, ..Owners::default() };
    let (mut last, mut is_stale) = (Duration::ZERO, true);
    loop {
        let event = tokio::select! {
            () = cx.stop.wished() => break,
            event = progress.next() => match event {
                Some(event) => Some(event),
                None => break,
            },
            () = cx.clock.sleep(if is_stale { PAUSE } else { LOOK }) => None,
        };
        let (sources, desired, left) = instance.follower.seen();
        let now = cx.clock.now();
        if let Some(Progress::PassEnded { scope, stance, outcomes, took, .. }) = &event {
            metrics.passed(&scope.provider, *stance, *took);
            // It was told of before what took the place of these commits was.
            let (mut ended, mut was) = (sources.clone(), &desired);
            if let Some(before) = left.first() {
                ended.extend(before.sources.clone());
                was = &before.desired;
            }
            changed.count(&ended, was, &mut owners, scope, outcomes);
        }
        let mut fared: Vec<(Arc<str>, Fate)> = Vec::new();
        for Left { sources, desired, standing } in &left {
            for (name, found) in look(sources, desired, standing, true, &mut owners, &mut changed) {
                let has_converged = found.fate.verdict == Verdict::Converged;
                if has_converged && changed.first(&name, &found.fate.commit) {
                    metrics.converged(&name, found.told.committed, found.told.seen, now);
                }
                fared.push((name, found.fate));
            }
        }
        is_stale |= event.is_some();
        // Many passes end at once; what they come to is looked at together.
        if left.is_empty() && last <= now && now < last + PAUSE {
            continue;
        }
        (last, is_stale) = (now, false);
        // After the sources: what stands must not be older than the commit it is taken for.
        let standing = instance.scheduler.standing();
        let found = look(&sources, &desired, &standing, false, &mut owners, &mut changed);
        fates.send_if_modified(|fates| {
            for (name, Found { fate, told, .. }) in &found {
                let before = fates.get(name).map(|before| &before.now);
                let before = before.filter(|before| before.commit == fate.commit);
                let has_converged = |fate: &Fate| fate.verdict == Verdict::Converged;
                if has_converged(fate) && !before.is_some_and(has_converged) {
                    // Drift that was healed since is no second time.
                    let is_first = changed.first(name, &fate.commit);
                    metrics.converged(name, told.committed, told.seen.filter(|_| is_first), now);
                }
            }
            let mut is_new = !fared.is_empty();
            fates.retain(|name, _| found.contains_key(name));
            for (name, Found { fate, withheld, .. }) in found {
                let fared = fates.entry(name).or_default();
                is_new |= (&fared.now, &fared.withheld) != (&fate, &withheld);
                (fared.now, fared.withheld) = (fate, withheld);
            }
            for (name, fate) in fared {
                let Some(fared) = fates.get_mut(&name) else { continue };
                fared.leave(fate);
            }
            is_new
        });
    }
}
