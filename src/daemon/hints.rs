//! What remotes tell by themselves: a hint wakes its scope, and the pass finds out what is there.
//!
//! Guarantees: hints that come while a look is due are one look at each scope, and looks are rare in the long run; a hint is believed for nothing but where to
//! look. It deliberately does not tell our own writes from those of others: the look after ours finds nothing to do.

use super::Instance;
use futures_util::{FutureExt, StreamExt};
use reconciled_engine::scheduler::Priority;
use reconciled_provider::{Focus, Observer, Scope};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// At least so much lies between the looks that hints lead to in the long run: a service that fails and is started again
/// all the time makes many.
const PAUSE: Duration = Duration::from_millis(200);

/// So many looks may follow each other at once after a quiet time: what a person breaks is mended at once, and so is what
/// the second half of an editor's saving breaks again.
const BURST: u32 = 5;

/// Follows the hints of one entry until they end or the instance stops.
pub(super) async fn watch(instance: Arc<Instance>, observer: Arc<dyn Observer>) {
    let cx = &instance.session.surveyor.cx;
    let mut hints = observer.hints();
    // When the looks so far would be over if each took a pause.
    let mut quiet_from = cx.clock.now();
    loop {
        let first = tokio::select! {
            () = cx.stop.wished() => return,
            hint = hints.next() => hint,
        };
        let Some(first) = first else { return };
        let mut told: BTreeMap<Scope, Focus> = BTreeMap::from([(first.scope, first.focus)]);
        // What is told already is one look; what comes later is the next one.
        while let Some(Some(hint)) = hints.next().now_or_never() {
            let focus = told.entry(hint.scope).or_insert_with(|| hint.focus.clone());
            *focus = focus.union(&hint.focus);
        }
        let standing = instance.scheduler.standing();
        // A scope of which nothing is declared or tracked is nobody's.
        for (scope, focus) in told.into_iter().filter(|(scope, _)| standing.contains_key(scope)) {
            tracing::debug!(%scope, "remote tells of a change");
            instance.scheduler.wake([scope], Priority::Hint, focus);
        }
        let now = cx.clock.now();
        // A clock that was set back makes nothing wait longer than a pause.
        quiet_from = (quiet_from.max(now) + PAUSE).min(now + PAUSE * (BURST + 1));
        let Some(wait) = quiet_from.checked_sub(now + PAUSE * BURST).filter(|wait| !wait.is_zero()) else {
            continue;
        };
        // Hints that come meanwhile wait with whoever makes them.
        tokio::select! {
            () = cx.stop.wished() => return,
            () = cx.clock.sleep(wait) => {}
        }
    }
}
