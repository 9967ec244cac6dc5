//! Laws of reading: what exists is seen, and nothing else.

use super::{
    check::{Check, ensure, skip, unless_lost},
    play::{Play, exactly, found},
    pure::{same, text_of},
    subject::{INSTANCE, Sample},
};
use reconciled_provider::{ErrorKind, Focus, Observed, Owner, ResourceId, Scope, Tracked, Version, Want};
use std::{collections::BTreeSet, slice};

pub(super) async fn a_scope_that_is_absent_is_complete_and_empty(play: &Play<'_>) -> Check {
    let process = play.start().await;
    let desired = play.desired(&process, Sample::Initial).await?;
    for desired in [&desired[..], &[]] {
        let seen = process.look(&Focus::All, desired, &[]).await?;
        let may_be_there = |o: &&Observed| play.subject.has_scopes() && o.owner == Owner::System;
        let others: Vec<_> = seen.resources.iter().filter(|o| !may_be_there(o)).collect();
        ensure!(others.is_empty(), "an untouched scope holds {others:?}");
    }
    let info = process.provider.info();
    if !info.lists_scopes || play.subject.has_scopes() {
        return Ok(());
    }
    // One alone, and many beside each other: either may be asked for in a way of its own.
    let beside: Vec<Scope> = (0..5).map(|_| play.fresh()).collect();
    for scopes in [&[][..], &beside] {
        let scopes = [slice::from_ref(&process.scope), scopes].concat();
        let told = process.provider.versions(&process.cx, &scopes).await?;
        let is_absent = |scope: &&Scope| told.get(*scope) == Some(&Version::Absent);
        ensure!(
            scopes.iter().all(|scope| is_absent(&scope)),
            "of untouched scopes, versions() says {told:?}"
        );
    }
    process.converge(&desired).await?;
    for scopes in [&[][..], &beside] {
        let scopes = [slice::from_ref(&process.scope), scopes].concat();
        let told = process.provider.versions(&process.cx, &scopes).await?;
        let absent = told.iter().filter(|(_, version)| **version == Version::Absent);
        let is_there = told.get(&process.scope) != Some(&Version::Absent);
        ensure!(
            is_there && absent.count() == scopes.len() - 1,
            "of a scope that was made just now and others that were not, versions() says {told:?}"
        );
    }
    Ok(())
}

pub(super) async fn what_was_created_is_observed_as_desired(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    exactly(&process.observe(&desired).await?, &desired, &[])
}

pub(super) async fn a_second_pass_does_nothing(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let process = process.restart(INSTANCE).await;
    let (seen, batch) = process.survey(&desired).await?;
    ensure!(batch.actions.is_empty(), "a second pass wants {:?}", batch.actions);
    let applied = process.apply(&batch).await?;
    applied.expect(&batch, &[])?;
    ensure!(applied.seen.started.is_empty(), "an empty batch was started");
    let after = process.observe(&desired).await?;
    ensure!(after == seen, "an empty batch changed the remote: {seen:?}, then {after:?}");
    Ok(())
}

pub(super) async fn what_is_desired_is_observed_though_nothing_is_tracked(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    unless_lost(process.provider.info())?;
    let seen = process.look(&Focus::All, &desired, &[]).await?;
    exactly(&seen, &desired, &[])?;
    for resource in &desired {
        let focus = Focus::Only([resource.id.clone()].into());
        let seen = process.look(&focus, &desired, &[]).await?;
        ensure!(seen.get(&resource.id).is_some(), "{} alone was asked for and not seen", resource.id);
    }
    Ok(())
}

pub(super) async fn a_focus_is_covered(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let tracked: Vec<Tracked> = process.memory.rows().into_values().map(|row| row.tracked).collect();
    let all = process.observe(&desired).await?;
    let absent = play.subject.foreign(&process.scope);
    let ids = |list: &[&ResourceId]| Focus::Only(list.iter().map(|id| (*id).clone()).collect());
    let (first, last) = (&desired[0].id, &desired[desired.len() - 1].id);
    for focus in [ids(&[first]), ids(&[last, first]), ids(&[first, &absent]), ids(&[&absent]), ids(&[])] {
        let seen = process.look(&focus, &desired, &tracked).await?;
        for id in [first, last, &absent] {
            if !focus.covers(id) {
                continue;
            }
            let (one, every) = (seen.get(id), all.get(id));
            ensure!(one == every, "{id} is {one:?} in focus and {every:?} among all");
        }
    }
    Ok(())
}

pub(super) async fn a_list_does_not_depend_on_what_is_desired(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let info = process.provider.info();
    if !info.reads_ahead {
        return skip("it sees what it is asked for");
    }
    let changed = play.desired(&process, Sample::Changed).await?;
    let all = process.observe(&desired).await?;
    for other in [&[][..], &changed] {
        let seen = process.look(&Focus::All, other, &[]).await?;
        ensure!(seen == all, "the same scope is {all:?}, and with other wishes {seen:?}");
    }
    Ok(())
}

pub(super) async fn what_was_observed_and_exported_plans_nothing(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let seen = process.observe(&desired).await?;
    let mut exported = found(&process.scope, &[]);
    // What belongs to the remote itself is nobody's to declare.
    exported.resources = seen.resources.iter().filter(|o| o.owner != Owner::System).cloned().collect();
    let text = text_of(process.provider.export(&exported)?);
    let declared = play.declared(&process, &text).await?;
    same(&desired, &declared, &text)?;
    let batch = process.plan(&declared, &seen).await?;
    ensure!(batch.actions.is_empty(), "what was exported wants {:?}\n{text}", batch.actions);
    Ok(())
}

pub(super) async fn what_was_created_is_discovered(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let found = match process.provider.discover(&process.cx, &process.scope.name).await {
        Err(error) if error.kind == ErrorKind::Unsupported => return skip(&error.message),
        found => found?,
    };
    let Some(mine) = found.into_iter().find(|found| found.scope == process.scope) else {
        ensure!(false, "discover does not find {}", process.scope);
        return Ok(());
    };
    for resource in &desired {
        let seen = mine.resources.iter().find(|o| o.id == resource.id);
        let is_same = seen.is_some_and(|o| Some(o.hash) == resource.spec.hash());
        ensure!(is_same, "{} was created and discovered as {seen:?}", resource.id);
    }
    Ok(())
}

pub(super) async fn health_speaks_of_what_was_asked_for(play: &Play<'_>) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let want =
        Want { scope: &process.scope, focus: &Focus::All, desired: &desired, tracked: &[], claims: &[] };
    let ids: BTreeSet<&ResourceId> = desired.iter().map(|r| &r.id).collect();
    let told = process.provider.health(&process.cx, &want).await?;
    let is_asked = process.provider.tells_health();
    ensure!(told.is_empty() || is_asked, "health is told, and `tells_health` says that nobody need ask");
    for (id, health) in told {
        ensure!(ids.contains(&id), "{id} is {health:?}, and nobody asked");
    }
    Ok(())
}

pub(super) async fn a_version_stands_while_nothing_changes_and_moves_when_something_does(
    play: &Play<'_>,
) -> Check {
    let (process, desired) = play.start_with(Sample::Initial).await?;
    let absent = play.fresh();
    let (provider, cx, scope) = (&process.provider, &process.cx, &process.scope);
    let many: Vec<Scope> = [scope.clone(), absent.clone()].into_iter().collect();
    let version =
        async || provider.versions(cx, &many).await.map(|v| v.get(scope).cloned().unwrap_or_default());
    let first = version().await?;
    if first == Version::Unknown {
        let seen = process.observe(&desired).await?;
        ensure!(seen.version == Version::Unknown, "observe has a version and versions() has none");
        return skip("the remote has no change tokens");
    }
    ensure!(matches!(first, Version::At(_)), "the version of a scope that exists is {first:?}");
    ensure!(provider.versions(cx, &[]).await?.is_empty(), "no scopes were asked for and some came back");
    let of_absent = provider.versions(cx, &many).await?.get(&absent).cloned().unwrap_or_default();
    let is_absent = !matches!(of_absent, Version::At(_)) || play.subject.has_scopes();
    ensure!(is_absent, "the version of an absent scope is {of_absent:?}");
    let (second, seen) = (version().await?, process.observe(&desired).await?.version);
    ensure!(first == second, "nothing changed and the version went from {first:?} to {second:?}");
    ensure!(first == seen, "versions() says {first:?} and observe says {seen:?}");
    process.converge(&play.desired(&process, Sample::Changed).await?).await?;
    let ours = version().await?;
    ensure!(ours != first, "a change of ours left the version at {ours:?}");
    let (victim, gone) = play.victims(&process).await?;
    play.subject.put_by_hand(scope, &victim).await;
    let theirs = version().await?;
    ensure!(theirs != ours, "a change of somebody else left the version at {theirs:?}");
    play.subject.delete_by_hand(scope, &gone).await;
    let last = version().await?;
    ensure!(last != theirs, "a deletion by somebody else left the version at {last:?}");
    Ok(())
}
