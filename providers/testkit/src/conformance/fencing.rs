//! Laws of writes that were planned from an old view.

use super::{
    check::{Check, Stop, ensure, skip},
    memory::Memory,
    play::{Play, exactly},
    subject::{INSTANCE, Sample},
};
use reconciled_provider::{Error, ErrorKind, Fencing, Version};

fn is_conflict(result: &Option<Result<(), Error>>) -> bool {
    matches!(result, Some(Err(error)) if error.kind == ErrorKind::Conflict)
}

pub(super) async fn a_stale_base_writes_nothing(play: &Play<'_>) -> Check {
    let (process, _) = play.start_with(Sample::Initial).await?;
    if process.provider.info().fencing == Fencing::None {
        return skip("neither the remote nor a probe protects against stale writes");
    }
    let mixed = play.desired(&process, Sample::Mixed).await?;
    let (_, batch) = process.survey(&mixed).await?;
    ensure!(batch.base != Version::Unknown, "the provider fences and its observation has no version");
    // Somebody else touches a resource that the batch does not.
    let foreign = play.subject.foreign(&process.scope);
    play.subject.put_by_hand(&process.scope, &foreign).await;
    let before = process.observe(&mixed).await?;
    let applied = process.apply(&batch).await?;
    ensure!(is_conflict(&applied.result), "apply with a stale base returned {:?}", applied.result);
    let effects = applied.seen.outcomes.values().filter(|o| o.word() != "failed");
    ensure!(effects.count() == 0, "a stale batch ended as {:?}", applied.seen.outcomes);
    let after = process.observe(&mixed).await?;
    ensure!(before == after, "a stale batch changed the remote from {before:?} to {after:?}");
    exactly(&process.converge(&mixed).await?, &mixed, &[foreign])
}

pub(super) async fn a_scope_that_came_to_be_meanwhile_is_not_overwritten(play: &Play<'_>) -> Check {
    let slow = play.start().await;
    if slow.provider.info().fencing == Fencing::None {
        return skip("neither the remote nor a probe protects against stale writes");
    }
    let mixed = play.desired(&slow, Sample::Mixed).await?;
    let (_, batch) = slow.survey(&mixed).await?;
    let quick = play.enter(slow.scope.clone(), Memory::default(), INSTANCE).await;
    let initial = play.desired(&quick, Sample::Initial).await?;
    let before = quick.converge(&initial).await?;
    let applied = slow.apply(&batch).await?;
    let conflicts = is_conflict(&applied.result)
        || applied.seen.outcomes.values().any(|outcome| match outcome {
            reconciled_provider::Outcome::Failed(error) => error.kind == ErrorKind::Conflict,
            _ => false,
        });
    ensure!(conflicts, "the scope exists by now and apply said {:?}", applied.result);
    let after = quick.observe(&initial).await?;
    if before != after {
        return Err(Stop::Fail(format!("the scope existed and went from {before:?} to {after:?}")));
    }
    Ok(())
}
