//! Laws of writing: what was planned is done, once.

use super::{
    check::{Check, ensure, skip},
    driver::Process,
    play::{Play, exactly},
    subject::Sample,
};
use reconciled_provider::{Identity, Observed, Outcome, Resource, Spec};
use std::sync::Arc;

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

pub(super) async fn an_update_leaves_what_is_ignored_as_it_is(play: &Play<'_>) -> Check {
    let (process, initial) = play.start_with(Sample::Initial).await?;
    let changed = play.desired(&process, Sample::Changed).await?;
    let (victim, _) = play.victims(&process).await?;
    play.subject.put_by_hand(&process.scope, &victim).await;
    let fields = |desired: &Resource, observed: &Observed| {
        process.provider.compare(desired, observed).map(|delta| delta.fields).unwrap_or_default()
    };
    let one = |list: &[Resource]| list.iter().find(|resource| resource.id == victim).cloned();
    let seen = process.observe(&initial).await?;
    let (Some(was), Some(by_hand)) = (one(&initial), seen.get(&victim)) else {
        return skip("what was changed by hand is not there any more");
    };
    let ignored: Vec<Arc<str>> = fields(&was, by_hand).into_iter().map(|field| field.path).collect();
    let seen = process.observe(&changed).await?;
    let (Some(declared), Some(by_hand)) = (one(&changed), seen.get(&victim)) else {
        return skip("Changed does not have what was changed by hand");
    };
    let whole = fields(&declared, by_hand);
    let mut left = None;
    for path in ignored {
        let Ok(kept) = process.provider.keep(&declared, by_hand, std::slice::from_ref(&path)) else {
            continue;
        };
        let kept =
            declared.clone().with(|resource| resource.spec = Spec::resolved(kept, declared.spec.template()));
        let told = fields(&kept, by_hand);
        for field in &told {
            ensure!(whole.contains(field), "{victim}: keep makes a difference of its own: {field:?}");
        }
        let is_left = told.iter().all(|field| field.path != path);
        // Best one where there is something else to write.
        if is_left && (left.is_none() || !told.is_empty()) {
            left = Some((path, kept));
        }
    }
    let Some((path, kept)) = left else {
        return skip("nothing of it can be left while the rest is written, which a plan says");
    };
    let written: Vec<Resource> = changed
        .iter()
        .map(|resource| if resource.id == victim { &kept } else { resource })
        .cloned()
        .collect();
    let batch = process.plan(&written, &seen).await?;
    process.apply(&batch).await?.expect(&batch, &["done", "gone", "pending"])?;
    let seen = process.converge(&written).await?;
    let Some(after) = seen.get(&victim) else {
        ensure!(false, "{victim} is gone after an update");
        return Ok(());
    };
    for field in fields(&kept, after) {
        ensure!(field.path != path, "{victim} was written where it is ignored: {field:?}");
    }
    Ok(())
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
