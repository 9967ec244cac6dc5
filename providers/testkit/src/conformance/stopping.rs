//! Laws of ending early: a wish to stop, a plan that is no longer in force.

use super::{
    check::{Check, ensure, skip},
    memory::Notes,
    play::{Play, exactly},
    subject::{INSTANCE, Sample},
};
use reconciled_provider::{ActionId, ResourceId};
use std::collections::BTreeSet;

pub(super) async fn nothing_begins_after_a_wish_to_stop(play: &Play<'_>) -> Check {
    let (process, _) = play.start_with(Sample::Initial).await?;
    let mixed = play.desired(&process, Sample::Mixed).await?;
    let (before, batch) = process.survey(&mixed).await?;
    process.cx.stop.set();
    let applied = process.apply(&batch).await?;
    ensure!(
        applied.seen.started.is_empty(),
        "after the wish to stop, {:?} was started",
        applied.seen.started
    );
    let process = process.restart(INSTANCE).await;
    // Asked for the same: what cannot list says of a resource what is declared of it.
    let after = process.observe(&mixed).await?;
    ensure!(before.resources == after.resources, "after the wish to stop, the remote changed");
    exactly(&process.converge(&mixed).await?, &mixed, &[])
}

pub(super) async fn a_wish_to_stop_is_heard_between_calls(play: &Play<'_>) -> Check {
    let (process, _) = play.start_with(Sample::Initial).await?;
    let mixed = play.desired(&process, Sample::Mixed).await?;
    let (_, batch) = process.survey(&mixed).await?;
    let notes = Notes::new(&process.memory, &batch).stop_at_first_outcome(process.cx.stop.clone());
    let applied = process.apply_with(&batch, notes).await?;
    ensure!(applied.seen.late == 0, "{} calls began after the wish to stop", applied.seen.late);
    let open = applied.seen.started.iter().flatten().filter(|id| !applied.seen.outcomes.contains_key(id));
    ensure!(open.count() == 0, "a call was given up that had begun: {:?}", applied.seen);
    let process = process.restart(INSTANCE).await;
    exactly(&process.converge(&mixed).await?, &mixed, &[])
}

pub(super) async fn nothing_is_sent_that_the_journal_refused(play: &Play<'_>) -> Check {
    for nth in 0.. {
        let (process, _) = play.start_with(Sample::Initial).await?;
        let mixed = play.desired(&process, Sample::Mixed).await?;
        let (before, batch) = process.survey(&mixed).await?;
        let notes = Notes::new(&process.memory, &batch).refuse_from(nth);
        let applied = process.apply_with(&batch, notes).await?;
        if !applied.seen.was_refused {
            ensure!(nth > 0, "apply never asked the journal: {:?}", batch.actions);
            return Ok(());
        }
        ensure!(
            matches!(applied.result, Some(Err(_))),
            "the journal refused to go on and apply returned {:?}",
            applied.result
        );
        let started: BTreeSet<&ActionId> = applied.seen.started.iter().flatten().collect();
        let untouched = batch.actions.iter().filter(|action| !started.contains(&action.id));
        let after = process.observe(&mixed).await?;
        let ids: Vec<&ResourceId> = untouched.map(|action| action.op.id()).collect();
        for id in ids {
            let (was, is) = (before.get(id), after.get(id));
            ensure!(was == is, "{id} was never started and went from {was:?} to {is:?}");
        }
        let process = process.restart(INSTANCE).await;
        exactly(&process.converge(&mixed).await?, &mixed, &[])?;
    }
    skip("no end")
}
