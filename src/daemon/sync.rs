//! Having it done now, and telling how it goes.
//!
//! Guarantees: the end is told only after every scope that was meant ended a pass that began after the question.
//! Telling never holds up a pass: who reads too slowly misses lines, never the end.

use super::{
    Daemon, Following, Instance, News,
    arrival::{Arrived, arrived, is_commit, is_in_force, is_refused, missing},
    follow::held,
    meant::{busy, left_over, meant, named, released, sole},
    stopping,
    wishes::{What, Wish},
};
use crate::{
    config::Approver,
    consent::Concerned,
    failpoint,
    operation::{PushFollow, Pushed, SyncAsk, SyncLine, SyncOutcome, followed, is_line, take},
    render::{clean, cut},
    session::Failure,
    store::with_claim,
};
use reconciled_engine::{
    Store,
    scheduler::{Priority, Progress, Stance, Standing},
};
use reconciled_provider::{Clock, Focus, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;

/// Longest name that a pusher may claim to have, in characters.
const LONGEST_CLAIM: usize = 200;

/// Resources that do not do their work and are named at the end.
const NAMED: usize = 10;

/// How often a source is asked for a commit that it does not have yet.
const POLL: Duration = Duration::from_secs(2);

/// How long nothing may be under way before those that wait for others are not waited for: what others put out has to be read by
/// who refers to it.
const STUCK: Duration = Duration::from_secs(3);

/// How long a question that nobody waits for may take, so that most are told what they brought to light.
const MOMENT: Duration = Duration::from_secs(2);

/// Where the lines go. Who stopped reading stops the telling, not the work.
pub(crate) type Lines = mpsc::Sender<SyncLine>;

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
    follow_on(daemon, instance, asked, said, actor, lines).await
}

/// A question that can be answered, so that nothing is kept of what was said with one that cannot.
struct Asked {
    ask: SyncAsk,
    /// Also with the next instance it is the same request.
    request: String,
    began: Duration,
}

impl Asked {
    fn of(instance: &Instance, ask: SyncAsk) -> Result<Asked, Failure> {
        if let Some(rev) = ask.rev.as_deref().filter(|rev| !is_commit(rev)) {
            let hint = "write its hexadecimal digits, the first seven or more";
            return Err(Failure::hinted(format!("`{rev}` is no commit id"), hint));
        }
        let began = instance.session.clock.now();
        let request = instance.requests.name(ask.request.as_deref(), began)?;
        let asked = Asked { ask, request, began };
        asked.source(instance)?;
        Ok(asked)
    }

    /// The source that is meant, where one is.
    fn source(&self, instance: &Instance) -> Result<Option<Arc<str>>, Failure> {
        match &self.ask.source {
            Some(name) => named(instance, name).map(Some),
            None if self.ask.rev.is_some() || self.ask.accept_rewind.is_some() => sole(instance).map(Some),
            None => Ok(None),
        }
    }
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
    let Some(given) = instance.pending.take(ask, actor) else {
        let why = "the daemon has made no plan of this push, or began anew since";
        tell(lines, SyncLine::Message { text: format!("note: nothing is approved: {why}\n{hint}") }).await;
        return Ok(());
    };
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

/// Follows as far as `instance` goes; a failure of one that ends is no answer.
async fn follow(
    instance: &Instance,
    asked: &Asked,
    said: &[Arc<Wish>],
    actor: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    let Asked { ask, request, began } = asked;
    let (clock, began) = (instance.session.clock.clone(), *began);
    let until = ask.wait.map(|milliseconds| began + Duration::from_millis(milliseconds));
    let mut progress = instance.scheduler.watch();
    let source = asked.source(instance)?;
    let is_push = said.iter().any(|wish| matches!(wish.what, What::Push(_)));
    // Who does not wait for the end does not wait for a remote that says nothing either.
    let answered_by = until.unwrap_or(clock.now() + MOMENT);
    let news = looked_at(instance, source.clone(), said.to_vec());
    let news = in_time(&*clock, answered_by, news).await?;
    let mut is_late = news.is_none();
    let mut news = news.unwrap_or_default();
    // A commit that the remote does not have yet is waited for, whatever is wrong with the one it has.
    while let (Some(rev), Some(source), Some(until)) = (&ask.rev, &source, until) {
        let left = until.saturating_sub(clock.now());
        let is_over = left.is_zero() || is_late || is_refused(instance, source);
        if is_over || arrived(instance, source, rev).await?.is_some() {
            break;
        }
        clock.sleep(left.min(POLL)).await;
        // A question at the last moment is answered too late, which says nothing of the remote.
        if clock.now() >= until {
            break;
        }
        match in_time(&*clock, until, looked_at(instance, Some(source.clone()), Vec::new())).await? {
            Some(more) => {
                news.changed.extend(more.changed);
                news.moved.extend(more.moved);
                (news.messages, news.has_errors) = (more.messages, more.has_errors);
            }
            None => is_late = true,
        }
    }
    for (name, following) in instance.follower.sources() {
        if source.as_ref().is_some_and(|meant| *meant != name) {
            continue;
        }
        if let Some((error, hint)) = &following.behind {
            let text = format!("error: source {name}: {error}");
            // A load told it, with what stays in force; where there was none nobody did.
            if !news.messages.contains(&text) {
                tell(lines, SyncLine::Message { text: format!("{text}\nhint: {hint}") }).await;
            }
        }
        let (commit, label) = (following.commit, following.label);
        tell(lines, SyncLine::Revision { source: name.to_string(), commit, label }).await;
    }
    for text in news.messages {
        tell(lines, SyncLine::Message { text }).await;
    }
    let (scopes, nothing) = match ask.only_changes {
        true => (ask.scopes.iter().filter_map(|text| text.parse().ok()).collect(), Vec::new()),
        false => meant(instance, ask, source.as_deref()).await?,
    };
    for one in nothing {
        tell(lines, SyncLine::Message { text: one.warning() }).await;
    }
    if ask.try_again || !ask.addresses.is_empty() {
        instance.scheduler.insist(&scopes);
    }
    // What changed is under way since it came into force.
    let ticket = (!scopes.is_empty()).then(|| match ask.follows_up {
        true => instance.scheduler.reread(&scopes),
        false => instance.scheduler.sync(&scopes),
    });
    if !is_push {
        instance.requests.asked(request.clone(), actor, began, ticket.clone());
    }
    let mut scopes: BTreeSet<Scope> = scopes.into_iter().chain(news.changed).collect();
    if is_push {
        // Race: a poll may have found the commit before the question came; then its passes are under way.
        scopes.extend(busy(instance, source.as_deref()));
        // The push may have consented to what an earlier one had held.
        let released = released(instance).await?;
        instance.scheduler.wake(released.clone(), Priority::Operator, Focus::All);
        scopes.extend(released);
        // A source is not in sync while anything of it waits, whatever the push is about.
        scopes.extend(left_over(instance, source.as_deref()));
    }
    tell(lines, SyncLine::Begun { scopes: scopes.len(), request: request.clone() }).await;
    // Race: a poll or a reload may have found the commit before the question came; what they set off may be done.
    let missed = is_push && !source.as_ref().is_some_and(|source| news.moved.contains(source));
    let end = |outcome, outcomes, left, invalid| SyncLine::End {
        outcome,
        outcomes,
        left,
        invalid,
        missed,
        milliseconds: milliseconds(clock.now().saturating_sub(began)),
        request: request.clone(),
    };
    let Some(until) = until else {
        tell(lines, end(SyncOutcome::Accepted, BTreeMap::new(), BTreeMap::new(), false)).await;
        return Ok(());
    };
    let mut outcomes = BTreeMap::new();
    let mut handled = ticket.is_none();
    let mut stuck_since = None;
    // The few digits of what is offered are not looked up again with each pass that ends.
    let offered = source.as_ref().and_then(|source| instance.follower.sources().remove(source));
    let offered = offered.map(|following| following.offered);
    let rev = ask.rev.clone().map(|rev| offered.filter(|all| all.starts_with(&rev)).unwrap_or(rev));
    let outcome = loop {
        if lines.is_closed() {
            return Ok(());
        }
        let standing = instance.scheduler.standing();
        if let (Some(rev), Some(source)) = (&rev, &source) {
            match arrived(instance, source, rev).await? {
                // With `onInvalid: hold` a revision with errors never comes into force.
                Some(Arrived::Offered) if news.has_errors && !is_in_force(instance, source, rev) => {
                    break SyncOutcome::Failed;
                }
                Some(Arrived::Offered) => {}
                Some(Arrived::Before) => break SyncOutcome::Superseded,
                None if is_refused(instance, source) => break SyncOutcome::Held,
                None if is_late => break SyncOutcome::TimedOut,
                None => match missing(instance, source, rev) {
                    Some(text) => {
                        tell(lines, SyncLine::Message { text }).await;
                        break SyncOutcome::Missing;
                    }
                    None => break SyncOutcome::TimedOut,
                },
            }
        }
        if is_late {
            break SyncOutcome::TimedOut;
        }
        if handled && scopes.iter().all(|scope| standing.get(scope).is_none_or(is_at_rest)) {
            break worst(&scopes, &standing);
        }
        let now = clock.now();
        let mut left = until.saturating_sub(now);
        stuck_since = (handled && is_stuck(&scopes, &standing)).then(|| stuck_since.unwrap_or(now));
        if let Some(since) = stuck_since {
            let stuck = STUCK.saturating_sub(now.saturating_sub(since));
            if stuck.is_zero() {
                let has_failed = standing.values().any(|s| s.stance == Stance::Failed);
                break if has_failed { SyncOutcome::Failed } else { SyncOutcome::Held };
            }
            left = left.min(stuck);
        }
        if left.is_zero() {
            break SyncOutcome::TimedOut;
        }
        let done = async {
            match &ticket {
                Some(ticket) if !handled => instance.scheduler.handled(ticket).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = done => handled = true,
            event = progress.next() => match event {
                Some(event) => ended(event, &scopes, &instance.scheduler.standing(), &mut outcomes, lines).await,
                None => return Err(stopping()),
            },
            () = clock.sleep(left) => {}
        }
    };
    // What an instance leaves undone because it ends is not how it went.
    if instance.is_ending() && !matches!(outcome, SyncOutcome::Converged | SyncOutcome::TimedOut) {
        return Err(stopping());
    }
    let standing = instance.scheduler.standing();
    let left: BTreeMap<String, String> = scopes
        .iter()
        .filter_map(|scope| Some((scope, standing.get(scope)?)))
        .filter(|(_, s)| s.stance != Stance::InSync)
        .map(|(scope, s)| {
            let why = s.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            (scope.to_string(), format!("{}{why}", word(s.stance)))
        })
        .collect();
    let config = &instance.session.config;
    let names = config.sources.iter().map(|source| &*source.name);
    let by: Vec<&str> = names.filter(|name| source.as_deref().is_none_or(|meant| meant == *name)).collect();
    let mut concerned = None;
    for hold in instance.writing.db.holds().await? {
        let concerns = |scope: &Scope| *scope.to_string() == *hold.domain || *scope.provider == *hold.domain;
        let is_said = hold.once.is_some() && instance.writing.db.approval(hold.digest).await?.is_some();
        if !is_said && scopes.iter().any(concerns) {
            let reasons = hold.reasons.iter().map(ToString::to_string).collect();
            let (domain, digest) = (hold.domain.to_string(), hold.digest.to_string());
            let once = hold.once.map(|once| once.to_string());
            let known = match concerned.take() {
                Some(known) => known,
                None => {
                    let desired = instance.follower.desired();
                    Concerned::of(instance.writing.db.reader(), &[&desired]).await?
                }
            };
            let ways = concerned.insert(known).ways(&config.sources, &domain, &by);
            tell(lines, SyncLine::Held { domain, digest, reasons, once, ways }).await;
        }
    }
    // As declared, which is what was waited for; whether it does its work is another question.
    let degraded = instance.writing.db.reader().degraded().await?;
    let mine =
        degraded.iter().filter(|one| one.scope.parse::<Scope>().is_ok_and(|scope| scopes.contains(&scope)));
    for one in mine.take(NAMED) {
        let text = format!("{} is Degraded: {}", one.address, one.message);
        tell(lines, SyncLine::Message { text }).await;
    }
    let outcome = match outcome {
        // An error counts for more than what waits for a person.
        SyncOutcome::Converged | SyncOutcome::Held if news.has_errors => {
            of_sources(instance, source.as_ref())
        }
        outcome => outcome,
    };
    let has_failed =
        scopes.iter().filter_map(|scope| standing.get(scope)).any(|s| s.stance == Stance::Failed);
    let invalid = outcome == SyncOutcome::Failed && !has_failed && is_broken(instance, source.as_ref());
    tell(lines, end(outcome, outcomes, left, invalid)).await;
    Ok(())
}

/// Whether manifests of a source that is meant have errors.
fn is_broken(instance: &Instance, source: Option<&Arc<str>>) -> bool {
    let sources = instance.follower.sources();
    let mut meant = sources.iter().filter(|(name, _)| source.is_none_or(|source| source == *name));
    meant.any(|(_, following)| following.broken)
}

/// How it ends where all is in sync, or held, but what keeps sources from bringing more into force.
fn of_sources(instance: &Instance, source: Option<&Arc<str>>) -> SyncOutcome {
    let sources = instance.follower.sources();
    let meant = sources.iter().filter(|(name, _)| source.is_none_or(|source| source == *name));
    let ill: Vec<&Following> =
        meant.map(|(_, one)| one).filter(|one| one.broken || one.behind_since.is_some()).collect();
    let is_for_person = |one: &&Following| !one.broken && one.behind_since.is_some_and(|(_, is_so)| is_so);
    match !ill.is_empty() && ill.iter().all(is_for_person) {
        true => SyncOutcome::Held,
        false => SyncOutcome::Failed,
    }
}

/// Has the scopes of a domain looked at: somebody consented.
pub(crate) fn consented(instance: &Instance) {
    instance.scheduler.wake(held(&instance.scheduler), Priority::Operator, Focus::All);
}

/// Has the scopes of `domain` looked at: a person consented to what is held there.
pub(crate) fn approved(instance: &Instance, domain: &str) {
    let is_in = |scope: &Scope| *scope.provider == *domain || *scope.to_string() == *domain;
    instance.scheduler.bid(instance.scheduler.standing().into_keys().filter(is_in).collect());
    consented(instance);
}

/// Has scopes looked at: a person asked for it.
pub(crate) fn asked_for(instance: &Instance, scopes: impl IntoIterator<Item = Scope>) {
    let scopes: BTreeSet<Scope> = scopes.into_iter().collect();
    instance.scheduler.acquit(&scopes);
    instance.scheduler.bid(scopes);
}

/// True when those of `scopes` that are not at rest wait for others, nothing anywhere is under way, and something is left that
/// somebody has to do, or that is tried again later: nothing will come of waiting for them.
fn is_stuck(scopes: &BTreeSet<Scope>, standing: &BTreeMap<Scope, Standing>) -> bool {
    let waits = |s: &Standing| s.stance == Stance::Waiting && s.waits;
    let is_idle = |s: &Standing| is_at_rest(s) || waits(s) && !s.is_queued && s.running_since.is_none();
    scopes.iter().filter_map(|scope| standing.get(scope)).all(is_idle)
        && standing.values().all(is_idle)
        && standing.values().any(|s| is_at_rest(s) && s.stance != Stance::InSync && !s.is_as_wished)
}

/// A scope at rest changes only when somebody does something.
pub(super) fn is_at_rest(standing: &Standing) -> bool {
    !standing.is_queued
        && standing.running_since.is_none()
        && standing.ended_at.is_some()
        && standing.stance != Stance::Waiting
}

fn worst(scopes: &BTreeSet<Scope>, standing: &BTreeMap<Scope, Standing>) -> SyncOutcome {
    let any = |stances: &[Stance]| {
        scopes.iter().any(|scope| standing.get(scope).is_some_and(|s| stances.contains(&s.stance)))
    };
    // What its own manifest suspends is as it is wished for.
    let has_suspended = scopes
        .iter()
        .filter_map(|scope| standing.get(scope))
        .any(|s| s.stance == Stance::Suspended && !s.is_as_wished);
    if any(&[Stance::Failed]) {
        SyncOutcome::Failed
    } else if any(&[Stance::Held, Stance::Stalled]) || has_suspended {
        SyncOutcome::Held
    } else {
        SyncOutcome::Converged
    }
}

async fn looked_at(
    instance: &Instance,
    source: Option<Arc<str>>,
    said: Vec<Arc<Wish>>,
) -> Result<News, Failure> {
    let news = instance.follower.ask(source, said).await;
    news.map_err(|failure| Failure::Other(failure.to_string(), failure.hint()))
}

/// The answer, unless it comes after `until`: a remote may take longer than anybody waits.
async fn in_time(
    clock: &dyn Clock,
    until: Duration,
    answer: impl Future<Output = Result<News, Failure>>,
) -> Result<Option<News>, Failure> {
    tokio::select! {
        // What is asked goes on, also where nobody waits for it.
        biased;
        news = answer => news.map(Some),
        () = clock.sleep(until.saturating_sub(clock.now())) => Ok(None),
    }
}

async fn ended(
    event: Progress,
    scopes: &BTreeSet<Scope>,
    standing: &BTreeMap<Scope, Standing>,
    total: &mut BTreeMap<String, usize>,
    lines: &Lines,
) {
    let Progress::PassEnded { scope, outcomes, adopted, error, took, .. } = event else { return };
    if !scopes.contains(&scope) {
        return;
    }
    let mut counts: BTreeMap<String, usize> = outcomes
        .into_iter()
        .map(|((change, outcome), count)| (format!("{change} {outcome}"), count))
        .collect();
    if adopted > 0 {
        counts.insert("adopt done".into(), adopted);
    }
    for (what, count) in &counts {
        *total.entry(what.clone()).or_default() += count;
    }
    let stance = standing.get(&scope).map_or(Stance::Unknown, |s| s.stance);
    let line = SyncLine::Scope {
        scope: scope.to_string(),
        stance: word(stance).into(),
        outcomes: counts,
        error: error.map(|error| error.to_string()),
        milliseconds: milliseconds(took),
    };
    tell(lines, line).await;
}

/// The word for a stance.
fn word(stance: Stance) -> &'static str {
    match stance {
        Stance::Unknown => "unknown",
        Stance::InSync => "in sync",
        Stance::Waiting => "waiting",
        Stance::Held => "held",
        Stance::Stalled => "stalled",
        Stance::Failed => "failed",
        Stance::Suspended => "suspended",
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

async fn tell(lines: &Lines, line: SyncLine) {
    // Nobody reads any more: the work goes on without an audience.
    let _ = lines.send(line).await;
}
