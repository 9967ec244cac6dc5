//! Laws of living with others in one scope.

use super::{
    check::{Check, ensure, skip, unless_lost},
    memory::Memory,
    play::{Play, content, exactly},
    subject::{INSTANCE, Sample},
};
use reconciled_provider::{Focus, Marking, Owner, Resource, Spec, Tracked};
use std::slice;

pub(super) async fn foreign_resources_are_left_alone(play: &Play<'_>) -> Check {
    let (process, _) = play.start_with(Sample::Initial).await?;
    unless_lost(process.provider.info())?;
    let foreign = play.subject.foreign(&process.scope);
    play.subject.put_by_hand(&process.scope, &foreign).await;
    let tracked = Tracked::new(foreign.clone(), Default::default());
    let look = async || {
        let focus = Focus::Only([foreign.clone()].into());
        process.look(&focus, &[], slice::from_ref(&tracked)).await.map(|seen| seen.get(&foreign).cloned())
    };
    let before = look().await?;
    let Some(seen) = &before else {
        ensure!(false, "{foreign} was made by hand and is not seen by who asks for it");
        return Ok(());
    };
    ensure!(seen.owner == Owner::Unmarked, "{foreign} was made by hand and is marked {:?}", seen.owner);
    for sample in [Sample::Mixed, Sample::Initial, Sample::Changed, Sample::Shrunk] {
        let desired = play.desired(&process, sample).await?;
        let seen = process.converge(&desired).await?;
        exactly(&seen, &desired, slice::from_ref(&foreign))?;
        let is_listed = seen.get(&foreign).is_some();
        ensure!(is_listed == process.provider.info().lists, "{foreign} is foreign; listed: {is_listed}");
        let after = look().await?;
        ensure!(
            after == before,
            "{foreign} is foreign and went from {before:?} to {after:?} with {sample:?}"
        );
    }
    Ok(())
}

pub(super) async fn marks_say_whose_it_is(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    if process.provider.info().marking == Marking::InventoryOnly {
        return skip("the remote has no place for a mark");
    }
    let other = play.enter(process.scope.clone(), Memory::default(), "another").await;
    let (ours, theirs) = (process.observe(&desired).await?, other.observe(&desired).await?);
    for resource in desired.iter().filter(|r| play.subject.is_marked(&r.id)) {
        let owner = |seen: &reconciled_provider::Observation| seen.get(&resource.id).map(|o| o.owner.clone());
        let (mine, his) = (owner(&ours), owner(&theirs));
        ensure!(mine == Some(Owner::Ours), "{} was made by us and is marked {mine:?}", resource.id);
        let is_other = his == Some(Owner::Other(INSTANCE.into()));
        ensure!(is_other, "{} was made by `{INSTANCE}`; to another instance it is {his:?}", resource.id);
    }
    // A mark is no content: the other instance sees nothing to change.
    let (_, batch) = other.survey(&desired).await?;
    ensure!(batch.actions.is_empty(), "the mark of another instance is a difference: {:?}", batch.actions);
    Ok(())
}

pub(super) async fn values_of_others_stay_when_ours_leave(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let shared = play.desired(&process, Sample::Shared).await?;
    let initial = play.desired(&process, Sample::Initial).await?;
    process.converge(&initial).await?;
    let mut extra = shared.iter().filter(|r| content(&initial, &r.id).is_none());
    let (Some(declared), None) = (extra.next(), extra.next()) else {
        ensure!(false, "Shared is not Initial and one more");
        return Ok(());
    };
    let provider = &process.provider;
    let id = &declared.id;
    let ours_alone = provider.merge(&[declared], None, None, &[])?;
    let is_same = ours_alone.as_ref().is_some_and(|m| m.resource.spec.hash() == declared.spec.hash());
    ensure!(is_same, "{id} merged with nothing is {ours_alone:?}");

    // Theirs first, then both.
    play.subject.put_by_hand(&process.scope, id).await;
    let look = async || process.observe(slice::from_ref(declared)).await.map(|seen| seen.get(id).cloned());
    let theirs = look().await?;
    ensure!(theirs.is_some(), "{id} was made by hand and is not seen");
    let Some(both) = provider.merge(&[declared], theirs.as_ref(), None, &[])? else {
        ensure!(false, "{id} is declared and merges to nothing");
        return Ok(());
    };
    let hash = both.resource.spec.hash();
    ensure!(hash != declared.spec.hash(), "merging {id} loses the values of others");
    ensure!(hash != theirs.as_ref().map(|o| o.hash), "merging {id} loses our values");
    let with = |spec: &Spec| {
        let merged = declared.clone().with(|merged| merged.spec = spec.clone());
        let mut all: Vec<Resource> = initial.iter().cloned().chain([merged]).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    };
    process.converge(&with(&both.resource.spec)).await?;
    let seen = look().await?;
    let tracked = Tracked { private: both.ours, ..Tracked::new(id.clone(), hash.unwrap_or_default()) };
    let again = provider.merge(&[declared], seen.as_ref(), Some(&tracked), &[])?;
    let is_stable = again.as_ref().is_some_and(|m| m.resource.spec.hash() == hash);
    ensure!(is_stable, "merging {id} again gives something else: {again:?}");

    // Ours leave.
    let Some(left) = provider.merge(&[], seen.as_ref(), Some(&tracked), &[])? else {
        ensure!(false, "our values of {id} left and theirs went with them");
        return Ok(());
    };
    process.converge(&with(&left.resource.spec)).await?;
    let (left, theirs) = (look().await?.map(|o| o.bytes), theirs.map(|o| o.bytes));
    ensure!(left == theirs, "without our values {id} is {left:?} and was {theirs:?}");

    // With nobody else in it, nothing is left.
    let alone = Tracked {
        private: ours_alone.map(|m| m.ours).unwrap_or_default(),
        ..Tracked::new(id.clone(), declared.spec.hash().unwrap_or_default())
    };
    let bytes = declared.spec.bytes().unwrap_or_default().to_vec();
    let seen = reconciled_provider::Observed::new(id.clone(), bytes);
    let left = provider.merge(&[], Some(&seen), Some(&alone), &[])?;
    ensure!(left.is_none(), "all values of {id} were ours and {left:?} is left");
    Ok(())
}
