//! Laws of sudden death: whatever the moment, a new process finds its way.

use super::{
    check::{Check, Stop, ensure, unless_lost},
    memory::Death,
    play::{Play, exactly},
    subject::{INSTANCE, Sample},
};
use reconciled_provider::{Identity, Resource};
use std::time::Duration;

/// Most awaits at which a process is killed; a remote behind a socket has hundreds.
const AWAITS: usize = 24;

/// The ways from one state to another on which a process dies.
const WAYS: &[(Option<Sample>, Sample)] = &[
    (None, Sample::Initial),
    (Some(Sample::Initial), Sample::Mixed),
    (Some(Sample::Initial), Sample::Swapped),
    (Some(Sample::Mixed), Sample::Shrunk),
];

/// How often is looked again where the remote is not done with what it was asked, and after how long.
const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// Dies on the way and starts anew. False when the way ended before the death.
async fn survives(play: &Play<'_>, (from, to): (Option<Sample>, Sample), death: Death) -> Result<bool, Stop> {
    let process = play.start().await;
    let desired: Vec<Resource> = play.desired(&process, to).await?;
    if let Some(from) = from {
        process.converge(&play.desired(&process, from).await?).await?;
    }
    process.memory.kill(death);
    process.run_to_end(&desired).await?;
    let was_killed = process.memory.is_dead();
    let process = process.restart(INSTANCE).await;
    process.cx.clock.sleep(process.provider.info().consistency_window).await;
    let after = |stop| match stop {
        Stop::Fail(text) => Stop::Fail(format!("{from:?} to {to:?}, dead {death:?}: {text}")),
        skip => skip,
    };
    let mut tries = 0;
    let seen = loop {
        match process.converge(&desired).await {
            // The remote may still be at the call of the one that died: who reads half of it is told so, and looks again.
            Err(_) if tries < TRIES => {
                tries += 1;
                process.cx.clock.sleep(PAUSE).await;
            }
            end => break end.map_err(after)?,
        }
    };
    exactly(&seen, &desired, &[]).map_err(after)?;
    let (_, batch) = process.survey(&desired).await?;
    ensure!(batch.actions.is_empty(), "dead {death:?}: the pass after recovery wants {:?}", batch.actions);
    play.inspect_all().await.map_err(after)?;
    Ok(was_killed)
}

/// A create whose answer died with the process can be found again, or sent again with the same token.
async fn unless_a_create_is_lost(play: &Play<'_>) -> Check {
    let process = play.start().await;
    match process.provider.info() {
        info if info.identity == (Identity::Assigned { client_token: true }) => Ok(()),
        info => unless_lost(info),
    }
}

/// The ways that the subject has samples for.
fn ways(play: &Play<'_>) -> impl Iterator<Item = (Option<Sample>, Sample)> {
    let scope = play.fresh();
    let has = move |sample: Sample| play.subject.manifests(&scope, sample).is_some();
    WAYS.iter().copied().filter(move |(_, to)| has(*to))
}

pub(super) async fn a_death_at_any_journal_call_is_recovered_from(play: &Play<'_>) -> Check {
    unless_a_create_is_lost(play).await?;
    for way in ways(play) {
        let mut deaths = 0;
        while survives(play, way, Death::BeforeCall(deaths)).await? {
            survives(play, way, Death::AfterCall(deaths)).await?;
            deaths += 1;
        }
        ensure!(
            deaths >= 2,
            "{way:?} made {deaths} journal calls; at least `started` and `finished` are due"
        );
    }
    Ok(())
}

pub(super) async fn a_death_at_any_await_is_recovered_from(play: &Play<'_>) -> Check {
    unless_a_create_is_lost(play).await?;
    for way in ways(play) {
        for nth in 0..AWAITS {
            if !survives(play, way, Death::AtAwait(nth)).await? {
                break;
            }
        }
    }
    Ok(())
}
