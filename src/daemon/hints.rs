//! What remotes tell by themselves: a hint wakes its scope, and the pass finds out what is there.
//!
//! Guarantees: any number of hints within a moment is one look at each scope; a hint is believed for nothing but where to
//! look. It deliberately does not tell our own writes from those of others: the look after ours finds nothing to do.

use super::Instance;
use futures_util::StreamExt;
use reconciled_engine::scheduler::Priority;
use reconciled_provider::{Focus, Observer, Scope};
use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

/// How long hints are gathered after the first one: an editor that saves a file makes several.
const MOMENT: Duration = Duration::from_millis(20);

/// At least so much lies between the looks that hints lead to: a service that fails and is started again all the time
/// makes many.
const PAUSE: Duration = Duration::from_millis(200);

/// Follows the hints of one entry until they end or the instance stops.
pub(super) async fn watch(instance: Arc<Instance>, observer: Arc<dyn Observer>) {
    let cx = &instance.session.surveyor.cx;
    let mut hints = observer.hints();
    loop {
        let first = tokio::select! {
            () = cx.stop.wished() => return,
            hint = hints.next() => hint,
        };
        let Some(first) = first else { return };
        let mut told: BTreeMap<Scope, Focus> = BTreeMap::from([(first.scope, first.focus)]);
        let mut moment = pin!(cx.clock.sleep(MOMENT));
        loop {
            tokio::select! {
                () = &mut moment => break,
                Some(hint) = hints.next() => {
                    let focus = told.entry(hint.scope).or_insert_with(|| hint.focus.clone());
                    *focus = focus.union(&hint.focus);
                }
                else => break,
            }
        }
        let standing = instance.scheduler.standing();
        // A scope of which nothing is declared or tracked is nobody's.
        for (scope, focus) in told.into_iter().filter(|(scope, _)| standing.contains_key(scope)) {
            tracing::debug!(%scope, "remote tells of a change");
            instance.scheduler.wake([scope], Priority::Hint, focus);
        }
        // Hints that come meanwhile wait with whoever makes them.
        tokio::select! {
            () = cx.stop.wished() => return,
            () = cx.clock.sleep(PAUSE) => {}
        }
    }
}
