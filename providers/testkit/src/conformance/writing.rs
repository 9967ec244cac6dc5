//! Laws of writing: what was planned is done, once.

use super::{
    Sample,
    driver::Process,
    play::{Check, Play, ensure, exactly, skip},
};
use reconciled_provider::{Identity, Outcome, Resource};

/// Brings `desired` about in one batch that does `words` and nothing else.
async fn in_one_batch(process: &Process<'_>, desired: &[Resource], words: &[&str]) -> Check {
    let (_, batch) = process.survey(desired).await?;
    for word in words {
        let is_there = batch.actions.iter().any(|action| action.op.word() == *word);
        ensure!(is_there, "the plan has no {word}: {:?}", batch.actions);
    }
    process.apply(&batch).await?.expect(&batch, &["done", "gone", "pending"])?;
    exactly(&process.converge(desired).await?, desired, &[])
}

pub(super) async fn one_batch_creates_updates_and_deletes(play: &Play<'_>) -> Check {
    let (process, _) = play.start_with(Sample::Initial).await?;
    let mixed = play.desired(&process, Sample::Mixed).await?;
    in_one_batch(&process, &mixed, &["create", "delete"]).await?;
    let initial = play.desired(&process, Sample::Initial).await?;
    in_one_batch(&process, &initial, &["create", "delete"]).await?;
    in_one_batch(&process, &play.desired(&process, Sample::Changed).await?, &["update"]).await?;
    in_one_batch(&process, &play.desired(&process, Sample::Shrunk).await?, &["delete"]).await
}

pub(super) async fn one_batch_swaps_what_cannot_coexist(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let swapped = play.desired(&process, Sample::Swapped).await?;
    let initial = play.desired(&process, Sample::Initial).await?;
    process.converge(&initial).await?;
    let (_, batch) = process.survey(&swapped).await?;
    let replaces = batch.actions.iter().any(|action| action.op.word() == "replace");
    let slots = |word: &str| {
        let of_word = batch.actions.iter().filter(move |action| action.op.word() == word);
        of_word.filter_map(|action| process.provider.slot(action.op.id())).collect::<Vec<_>>()
    };
    let shares_a_slot =
        slots("delete").iter().any(|slot| slots("create").iter().any(|other| slot.clashes_with(other)));
    ensure!(replaces || shares_a_slot, "Swapped swaps nothing: {:?}", batch.actions);
    in_one_batch(&process, &swapped, &[]).await?;
    in_one_batch(&process, &initial, &[]).await
}

pub(super) async fn what_was_changed_by_hand_is_restored(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let (victim, gone) = play.victims(&process).await?;
    play.subject.put_by_hand(&process.scope, &victim).await;
    play.subject.delete_by_hand(&process.scope, &gone).await;
    let (seen, _) = process.survey(&desired).await?;
    let drifted = desired.iter().find(|r| r.id == victim).and_then(|r| r.spec.hash());
    ensure!(seen.get(&victim).map(|o| o.hash) != drifted, "the change of {victim} by hand was not seen");
    ensure!(seen.get(&gone).is_none(), "{gone} was deleted by hand and is still seen");
    exactly(&process.converge(&desired).await?, &desired, &[])
}

pub(super) async fn everything_created_can_be_deleted(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let (_, batch) = process.survey(&[]).await?;
    ensure!(batch.actions.len() == desired.len(), "{} are to be deleted: {batch:?}", desired.len());
    process.apply(&batch).await?.expect(&batch, &["done", "gone"])?;
    let seen = process.observe(&desired).await?;
    exactly(&seen, &[], &[])?;
    ensure!(process.memory.rows().is_empty(), "deleted and still tracked: {:?}", process.memory.rows());
    // What is gone can come again.
    process.converge(&desired).await.map(|_| ())
}

pub(super) async fn a_batch_that_took_effect_is_done_again_without_harm(play: &Play<'_>) -> Check {
    let (process, _) = play.start_with(Sample::Initial).await?;
    if process.provider.info().identity == (Identity::Assigned { client_token: false }) {
        return skip("the remote assigns identities and knows no client tokens: the engine observes first");
    }
    let mixed = play.desired(&process, Sample::Mixed).await?;
    let (_, batch) = process.survey(&mixed).await?;
    process.apply(&batch).await?.expect(&batch, &["done", "gone", "pending"])?;
    // As after a crash that lost the outcomes: the same actions against what is there now.
    let mut again = batch.clone();
    again.base = process.observe(&mixed).await?.version;
    let applied = process.apply(&again).await?;
    applied.expect(&again, &["done", "gone", "pending"])?;
    for action in &again.actions {
        let is_gone = matches!(applied.seen.outcomes.get(&action.id), Some(Outcome::Gone));
        let is_delete = action.op.desired().is_none();
        ensure!(is_gone == is_delete, "{} {} ended as if it were not", action.op.word(), action.op.id());
    }
    exactly(&process.converge(&mixed).await?, &mixed, &[])
}

pub(super) async fn a_refused_write_had_no_effect_and_says_so(play: &Play<'_>) -> Check {
    let (process, _) = play.start_with(Sample::Initial).await?;
    let changed = play.desired(&process, Sample::Changed).await?;
    if !play.subject.refuse_next(&process.scope).await {
        return skip("the subject cannot make its remote refuse a write");
    }
    // What works in steps may write in a later pass only.
    loop {
        let (before, batch) = process.survey(&changed).await?;
        ensure!(!batch.actions.is_empty(), "a write was to be refused and nothing says so");
        let applied = process.apply(&batch).await?;
        let says_so = |o: &Outcome| o.error().is_some();
        let after = process.observe(&changed).await?;
        for action in &batch.actions {
            if !matches!(applied.seen.outcomes.get(&action.id), Some(Outcome::Failed(_))) {
                continue;
            }
            let (was, is) = (before.get(action.op.id()), after.get(action.op.id()));
            ensure!(was == is, "{} failed, which means no effect, and is now {is:?}", action.op.id());
        }
        if matches!(applied.result, Some(Err(_))) || applied.seen.outcomes.values().any(says_so) {
            break;
        }
    }
    exactly(&process.converge(&changed).await?, &changed, &[])
}
