//! Having it done now, and telling how it goes.
//!
//! Guarantees: the end is told only after every scope that was meant ended a pass that began after the question.
//! Telling never holds up a pass: who reads too slowly misses lines, never the end.

mod asked;
mod errand;

use self::{
    asked::{Asked, Lines, tell},
    errand::follow,
};
use super::{
    current::Daemon,
    follow::held,
    follower::stopping,
    given::was_taken,
    instance::Instance,
    wishes::{What, Wish},
};
use crate::{
    config::Approver,
    failpoint,
    failure::Failure,
    operation::{self, Adoptable, Forgotten, PushFollow, Pushed, SyncAsk, SyncLine, followed, is_line, take},
    session::oid,
    store::{TrackedEntry, with_claim},
    text::{clean, cut},
};
use reconciled_engine::scheduler::Priority;
use reconciled_provider::{Focus, Scope};
use std::{collections::BTreeSet, sync::Arc};

/// Longest name that a pusher may claim to have, in characters.
const LONGEST_CLAIM: usize = 200;

/// Does what `ask` says and tells how it goes.
pub(crate) async fn sync(daemon: &Daemon, ask: SyncAsk, actor: &str, lines: &Lines) -> Result<(), Failure> {
    let instance = daemon.instance();
    let asked = Asked::of(&instance, ask)?;
    let rewind = match (&asked.ask.accept_rewind, &asked.source(&instance)?) {
        (Some(commit), Some(source)) => {
            let (commit, actor) = (commit.as_str().into(), actor.into());
            Some(instance.wishes.put(source, What::Rewind { commit, actor, is_push: false }))
        }
        _ => None,
    };
    follow_on(daemon, instance, asked, rewind.into_iter().collect(), actor, lines).await
}

/// Has a pushed source looked at, and tells how it goes.
///
/// Errors: the source does not follow what was pushed to; a push may not consent to a rewind of it.
pub(crate) async fn pushed(
    daemon: &Daemon,
    ask: &PushFollow,
    actor: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    let instance = daemon.instance();
    let source = followed(&instance.session.config, ask)?;
    let may_consent = source.approve.contains(&Approver::PushOption);
    if ask.accept_rewind && !may_consent {
        return Err(Failure::plain(format!("source {} does not let a push accept a rewind", source.name)));
    }
    if ask.accept_rewind {
        oid(&ask.commit)?;
    }
    let claimed = ask.claimed.as_deref().map(|name| clean(&cut(name, LONGEST_CLAIM)).into_owned());
    let who = with_claim(actor, claimed.as_deref());
    if !ask.approve.is_empty() {
        approve(&instance, ask, actor, &who, lines).await?;
        failpoint::hit("push.approved");
    }
    let pushed = Pushed {
        reference: ask.reference.clone(),
        commit: ask.commit.clone(),
        actor: actor.to_string(),
        claimed,
    };
    let asked = SyncAsk {
        source: Some(ask.source.clone()),
        only_changes: true,
        wait: ask.wait,
        // Of a range of versions another tag may be the one that counts.
        rev: is_line(&source.reference).then(|| ask.commit.clone()),
        ..SyncAsk::default()
    };
    let asked = Asked::of(&instance, asked)?;
    let mut said = vec![instance.wishes.put(&source.name, What::Push(pushed))];
    if ask.accept_rewind {
        let (commit, actor) = (ask.commit.as_str().into(), who.into());
        said.push(instance.wishes.put(&source.name, What::Rewind { commit, actor, is_push: true }));
    }
    instance.gathered.all(ask, actor, &*instance.session.clock).await;
    follow_on(daemon, instance, asked, said, actor, lines).await
}

/// Follows over reloads: what ended an instance is no end of what was asked of it, and the next one knows what was `said`.
async fn follow_on(
    daemon: &Daemon,
    mut instance: Arc<Instance>,
    asked: Asked,
    said: Vec<Arc<Wish>>,
    actor: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    loop {
        let followed = follow(&instance, &asked, &said, actor, lines).await;
        if followed.is_ok() || !instance.is_ending() {
            return followed;
        }
        if !daemon.stop.is_set() {
            let text =
                "note: the configuration is read anew; what was asked for goes on after that".to_owned();
            tell(lines, SyncLine::Message { text }).await;
        }
        instance = daemon.after(&instance).await.ok_or_else(stopping)?;
    }
}

/// Puts down what the push of `actor` consents to, now that it was taken, with `who` that is by their own account.
async fn approve(
    instance: &Instance,
    ask: &PushFollow,
    actor: &str,
    who: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    let hint = "hint: reconciled status shows what is held, and how to consent to it";
    let refused = |why: &str| SyncLine::Message { text: format!("note: nothing is approved: {why}\n{hint}") };
    let Some((given, before)) = instance.pending.take(ask, actor) else {
        tell(lines, refused("the daemon has made no plan of this push, or began anew since")).await;
        return Ok(());
    };
    if given.is_empty() {
        return Ok(());
    }
    if let Err(why) = was_taken(&instance.session.config, &instance.follower, ask, before).await {
        tell(lines, refused(&why.to_string())).await;
        return Ok(());
    }
    let (db, sources) = (&instance.writing.db, &instance.session.config.sources);
    let now = instance.session.clock.now();
    let in_force = instance.follower.desired();
    for (domain, source) in take(db, sources, &in_force, &given, who, now).await? {
        let why = format!("source {source}, which that plan is about, lets no push approve any more");
        tell(lines, SyncLine::Message { text: format!("note: {domain} is not approved: {why}\n{hint}") })
            .await;
    }
    Ok(())
}

/// Has the scopes of a domain looked at: somebody consented.
fn consented(instance: &Instance) {
    instance.scheduler.wake(held(&instance.scheduler), Priority::Operator, Focus::All);
}

/// Has the scopes of `domain` looked at: a person consented to what is held there.
pub(crate) fn approved(instance: &Instance, domain: &str) {
    let is_in = |scope: &Scope| *scope.provider == *domain || *scope.to_string() == *domain;
    instance.scheduler.bid(instance.scheduler.standing().into_keys().filter(is_in).collect());
    consented(instance);
}

/// Puts down that `actor` takes over what was `shown`, and has it looked at, whatever else its scopes wait for.
///
/// Errors: what was shown is no such thing; the state cannot be written.
pub(crate) async fn adopt(instance: &Instance, shown: &[Adoptable], actor: &str) -> Result<(), Failure> {
    operation::adopt(&*instance.writing.db, shown, actor, instance.session.clock.now()).await?;
    let scopes: BTreeSet<Scope> = shown.iter().filter_map(|one| one.scope.parse().ok()).collect();
    instance.scheduler.wake(scopes, Priority::Operator, Focus::All);
    consented(instance);
    Ok(())
}

/// Has `actor` let go of what was `shown`, and has looked at where it was, and at where it claimed something.
///
/// Errors: the state can be neither read nor written.
pub(crate) async fn forget(
    instance: &Instance,
    shown: Vec<TrackedEntry>,
    actor: &str,
) -> Result<Forgotten, Failure> {
    let (db, now) = (&instance.writing.db, instance.session.clock.now());
    let scopes: BTreeSet<Scope> = shown.iter().filter_map(|entry| entry.scope.parse().ok()).collect();
    let entries = scopes.iter().map(|scope| scope.provider.clone()).collect();
    let let_go = async {
        let claimed = operation::claimed(db.reader(), &shown).await?;
        let forgotten = operation::forget(db, shown, actor, now).await?;
        Ok::<_, Failure>((forgotten, claimed))
    };
    // A pass that has planned already would write what it found, and its row with it.
    let (forgotten, claimed) = instance.scheduler.alone(&entries, let_go).await?;
    // What it claimed goes, as at the end of a pass that lets go of its owner.
    instance.scheduler.wake(claimed, Priority::Operator, Focus::All);
    consented(instance);
    // Of what several declared together the others take over theirs.
    asked_for(instance, scopes);
    Ok(forgotten)
}

/// Has scopes looked at: a person asked for it.
pub(crate) fn asked_for(instance: &Instance, scopes: impl IntoIterator<Item = Scope>) {
    let scopes: BTreeSet<Scope> = scopes.into_iter().collect();
    instance.scheduler.acquit(&scopes);
    instance.scheduler.bid(scopes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        daemon::hour::{Hand, Place, begun, until},
        operation::AdoptAsk,
    };
    use reconciled_engine::scheduler::Stance;
    use std::fs;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_taken_over_is_looked_at_although_its_zone_waits_for_another_try() {
        let (place, clock) = (Place::new(), Hand::new());
        // What is written is loaded by nobody, and the time of the next try does not come: the clock stands still.
        place.configure("resync: 10m", "resync: 10m, reload: ['false']");
        let instance = begun(&place, &clock).await;
        let waits = || {
            let standing = instance.scheduler.standing();
            let known = standing.get(&Scope::new("zones", "example.com"));
            known.is_some_and(|known| {
                let is_at_rest = !known.is_unseen && !known.is_queued && known.running_since.is_none();
                is_at_rest && known.stance == Stance::Failed
            })
        };
        until("it waits for another try", waits).await;
        let file = place.at("zones/example.com.zone");
        fs::write(&file, format!("{}ftp 300 IN A 192.0.2.66\n", place.zone())).unwrap();
        place.commit(&["www", "ftp"]);
        instance.follower.ask(Some("infra".into()), Vec::new()).await.unwrap();
        until("it waits once more", waits).await;

        let ask = AdoptAsk { address: "Zone/example.com#ftp/A".into(), from_instance: None };
        let found = operation::adoptable(&instance.session, &*instance.writing.db, &ask).await.unwrap().found;
        assert_eq!(found.len(), 1, "{found:?}");
        adopt(&instance, &found, "ann").await.unwrap();
        until("it is as declared", || !place.zone().contains("192.0.2.66")).await;
        instance.stop();
        instance.ended().await;
    }
}
