//! Having it done now, and telling how it goes.
//!
//! Guarantees: the end is told only after every scope that was meant ended a pass that began after the question.
//! Telling never holds up a pass: who reads too slowly misses lines, never the end.

use super::{Following, Instance, News, follow::held};
use crate::{
    config::Approver,
    failpoint,
    operation::{PushFollow, Pushed, SyncAsk, SyncLine, SyncOutcome, followed, is_line, pattern, take},
    render::{clean, cut},
    session::Failure,
};
use reconciled_engine::{
    Store,
    scheduler::{Priority, Progress, Stance, Standing},
};
use reconciled_provider::{Clock, Focus, Pattern, Scope};
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
pub(crate) async fn sync(
    instance: &Instance,
    ask: &SyncAsk,
    actor: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    follow(instance, ask, None, actor, lines).await
}

/// Has a pushed source looked at, and tells how it goes.
///
/// Errors: the source does not follow what was pushed to; a push may not consent to a rewind of it.
pub(crate) async fn pushed(
    instance: &Instance,
    ask: &PushFollow,
    actor: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    let source = followed(&instance.session.config, ask)?;
    if ask.accept_rewind && !source.approve.contains(&Approver::PushOption) {
        return Err(Failure::plain(format!("source {} does not let a push accept a rewind", source.name)));
    }
    if !ask.approve.is_empty() {
        approve(instance, ask, actor, lines).await?;
        failpoint::hit("push.approved");
    }
    let claimed = ask.claimed.as_deref().map(|name| clean(&cut(name, LONGEST_CLAIM)).into_owned());
    let pushed = Pushed {
        reference: ask.reference.clone(),
        commit: ask.commit.clone(),
        actor: actor.to_string(),
        claimed,
    };
    let ask = SyncAsk {
        source: Some(ask.source.clone()),
        accept_rewind: ask.accept_rewind.then(|| ask.commit.clone()),
        only_changes: true,
        wait: ask.wait,
        // Of a range of versions another tag may be the one that counts.
        rev: is_line(&source.reference).then(|| ask.commit.clone()),
        ..SyncAsk::default()
    };
    follow(instance, &ask, Some(pushed), actor, lines).await
}

/// Puts down what the push consents to, now that it was taken.
async fn approve(instance: &Instance, ask: &PushFollow, actor: &str, lines: &Lines) -> Result<(), Failure> {
    match instance.pending.take(ask, actor) {
        Some(given) => take(&instance.writing.db, &given, actor, instance.session.clock.now()).await,
        None => {
            let why = "the daemon has made no plan of this push, or began anew since";
            let hint = "reconciled status shows what is held, and how to consent to it";
            let text = format!("note: nothing is approved: {why}\nhint: {hint}");
            tell(lines, SyncLine::Message { text }).await;
            Ok(())
        }
    }
}

async fn follow(
    instance: &Instance,
    ask: &SyncAsk,
    pushed: Option<Pushed>,
    actor: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    let clock = instance.session.clock.clone();
    let began = clock.now();
    let until = ask.wait.map(|milliseconds| began + Duration::from_millis(milliseconds));
    let mut progress = instance.scheduler.watch();
    let request = instance.requests.name(ask.request.as_deref(), began)?;
    let source = match &ask.source {
        Some(name) => Some(named(instance, name)?),
        None if ask.rev.is_some() || ask.accept_rewind.is_some() => Some(sole(instance)?),
        None => None,
    };
    let is_push = pushed.is_some();
    if let Some(rev) = ask.rev.as_deref().filter(|rev| !is_commit(rev)) {
        let hint = "write its hexadecimal digits, the first seven or more";
        return Err(Failure::hinted(format!("`{rev}` is no commit id"), hint));
    }
    let accept_rewind = ask.accept_rewind.as_deref().map(|commit| (Arc::from(commit), Arc::from(actor)));
    // Who does not wait for the end does not wait for a remote that says nothing either.
    let answered_by = until.unwrap_or(began + MOMENT);
    let news = asked(instance, source.clone(), accept_rewind, pushed);
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
        match in_time(&*clock, until, asked(instance, Some(source.clone()), None, None)).await? {
            Some(more) => {
                news.changed.extend(more.changed);
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
    let scopes = match ask.only_changes {
        true => ask.scopes.iter().filter_map(|text| text.parse().ok()).collect(),
        false => meant(instance, ask, source.as_deref()).await?,
    };
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
    let end = |outcome, outcomes, left| SyncLine::End {
        outcome,
        outcomes,
        left,
        milliseconds: milliseconds(clock.now().saturating_sub(began)),
        request: request.clone(),
    };
    let Some(until) = until else {
        tell(lines, end(SyncOutcome::Accepted, BTreeMap::new(), BTreeMap::new())).await;
        return Ok(());
    };
    let mut outcomes = BTreeMap::new();
    let mut handled = ticket.is_none();
    let mut stuck_since = None;
    let outcome = loop {
        if lines.is_closed() {
            return Ok(());
        }
        let standing = instance.scheduler.standing();
        if let (Some(rev), Some(source)) = (&ask.rev, &source) {
            match arrived(instance, source, rev).await? {
                // With `onInvalid: hold` a revision with errors never comes into force.
                Some(Arrived::Offered) if news.has_errors && !is_in_force(instance, source, rev) => {
                    break SyncOutcome::Failed;
                }
                Some(Arrived::Offered) => {}
                Some(Arrived::Before) => break SyncOutcome::Superseded,
                None if is_refused(instance, source) => break SyncOutcome::Held,
                None => break SyncOutcome::TimedOut,
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
                None => return Err(Failure::plain("the daemon is stopping; what is on its way is in its journal")),
            },
            () = clock.sleep(left) => {}
        }
    };
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
    for hold in instance.writing.db.holds().await? {
        let concerns = |scope: &Scope| *scope.to_string() == *hold.domain || *scope.provider == *hold.domain;
        if scopes.iter().any(concerns) {
            let reasons = hold.reasons.iter().map(ToString::to_string).collect();
            let (domain, digest) = (hold.domain.to_string(), hold.digest.to_string());
            tell(lines, SyncLine::Held { domain, digest, reasons }).await;
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
        SyncOutcome::Converged if news.has_errors => of_sources(instance, source.as_ref()),
        outcome => outcome,
    };
    tell(lines, end(outcome, outcomes, left)).await;
    Ok(())
}

/// How it ends where all is in sync but what keeps sources from bringing more into force.
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

/// The scopes in which something is held that somebody consented to.
async fn released(instance: &Instance) -> Result<BTreeSet<Scope>, Failure> {
    let db = &instance.writing.db;
    let mut domains = BTreeSet::new();
    for hold in db.holds().await? {
        if db.approval(hold.digest).await?.is_some() {
            domains.insert(hold.domain);
        }
    }
    let is_in = |scope: &Scope| domains.contains(&scope.provider) || domains.contains(&*scope.to_string());
    Ok(instance.scheduler.standing().into_keys().filter(is_in).collect())
}

/// The source that a commit is of where none is named: the only one there is.
fn sole(instance: &Instance) -> Result<Arc<str>, Failure> {
    match &instance.session.config.sources[..] {
        [source] => Ok(source.name.clone()),
        sources => {
            let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
            let hint = match names.is_empty() {
                true => "there is none in the configuration".to_owned(),
                false => format!("write --source with one of {}", names.join(", ")),
            };
            Err(Failure::hinted("it is not said which source the commit is of", hint))
        }
    }
}

fn named(instance: &Instance, name: &str) -> Result<Arc<str>, Failure> {
    let sources = &instance.session.config.sources;
    let found = sources.iter().find(|source| *source.name == *name);
    let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
    found.map(|source| source.name.clone()).ok_or_else(|| {
        Failure::hinted(
            format!("no source is called `{name}`"),
            format!("configured sources: {}", names.join(", ")),
        )
    })
}

/// The scopes that `ask` means.
async fn meant(instance: &Instance, ask: &SyncAsk, source: Option<&str>) -> Result<BTreeSet<Scope>, Failure> {
    let desired = instance.follower.desired();
    let of_source = |scope: &Scope| {
        let from = |resource: &reconciled_provider::Resource| {
            source.is_none_or(|source| desired.manifest(resource.origin).key.source() == source)
        };
        source.is_none() || desired.in_scope(scope).iter().any(from)
    };
    let of_provider = |scope: &Scope| ask.provider.as_deref().is_none_or(|name| *scope.provider == *name);
    let patterns = ask.addresses.iter().map(|text| pattern(text)).collect::<Result<Vec<Pattern>, _>>()?;
    let mut tracked = BTreeSet::new();
    for pattern in &patterns {
        let rows = instance.writing.db.reader().rows(Some(pattern)).await?;
        tracked.extend(rows.iter().filter_map(|row| row.scope.parse::<Scope>().ok()));
    }
    let named = |scope: &Scope| {
        let observer = instance.session.observer(&scope.provider);
        patterns.is_empty()
            || tracked.contains(scope)
            || desired.in_scope(scope).iter().any(|resource| {
                let manifest = desired.manifest(resource.origin);
                let part = observer.and_then(|observer| observer.part(scope, &resource.id));
                let address = reconciled_provider::Address { part, ..manifest.address.clone() };
                patterns.iter().any(|pattern| pattern.matches(&address, manifest.key.group()))
            })
    };
    let known: BTreeSet<Scope> =
        desired.scopes.keys().cloned().chain(instance.scheduler.standing().into_keys()).collect();
    let found: BTreeSet<Scope> =
        known.into_iter().filter(|scope| of_source(scope) && of_provider(scope) && named(scope)).collect();
    if found.is_empty() && (!patterns.is_empty() || ask.provider.is_some()) {
        return Err(Failure::hinted(
            "nothing that is declared or tracked is meant by that",
            "to see what is tracked: reconciled status '*/*'",
        ));
    }
    Ok(found)
}

/// The scopes in which something of `source`, or what nobody desires any more, is about to be looked at.
fn busy(instance: &Instance, source: Option<&str>) -> Vec<Scope> {
    of_source(instance, source, |s| s.is_queued || s.running_since.is_some())
}

/// The same of what is at rest and not in sync: held, stalled, failed or suspended. What nobody desires any more may
/// be another source's, where there are several.
fn left_over(instance: &Instance, source: Option<&str>) -> Vec<Scope> {
    let desired = instance.follower.desired();
    let mut scopes = of_source(instance, source, |s| is_at_rest(s) && s.stance != Stance::InSync);
    scopes
        .retain(|scope| source.is_none() || desired.sources.len() < 2 || !desired.in_scope(scope).is_empty());
    scopes
}

fn of_source(instance: &Instance, source: Option<&str>, is_meant: impl Fn(&Standing) -> bool) -> Vec<Scope> {
    let desired = instance.follower.desired();
    let is_of_source = |scope: &Scope| {
        let declared = desired.in_scope(scope);
        let of = |resource: &reconciled_provider::Resource| {
            Some(desired.manifest(resource.origin).key.source()) == source
        };
        declared.is_empty() || declared.iter().any(of)
    };
    let standing = instance.scheduler.standing().into_iter();
    standing.filter(|(scope, s)| is_meant(s) && is_of_source(scope)).map(|(scope, _)| scope).collect()
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
fn is_at_rest(standing: &Standing) -> bool {
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

/// How a commit that is waited for stands to what the source offers.
enum Arrived {
    /// It is what is offered.
    Offered,
    /// It came before what is offered.
    Before,
}

/// None while the source does not offer the commit or a later one.
async fn arrived(instance: &Instance, source: &Arc<str>, rev: &str) -> Result<Option<Arrived>, Failure> {
    let sources = instance.follower.sources();
    let Some(offered) = sources.get(source).map(|s| s.offered.as_str()).filter(|o| !o.is_empty()) else {
        return Ok(None);
    };
    if offered.starts_with(rev) {
        return Ok(Some(Arrived::Offered));
    }
    let is_before = instance.session.descends(source, rev, offered).await?;
    Ok(is_before.then_some(Arrived::Before))
}

fn is_in_force(instance: &Instance, source: &Arc<str>, rev: &str) -> bool {
    instance.follower.sources().get(source).is_some_and(|following| following.commit.starts_with(rev))
}

/// True when a source offers nothing until a person does something, such as a commit that is not signed.
fn is_refused(instance: &Instance, source: &Arc<str>) -> bool {
    let sources = instance.follower.sources();
    sources.get(source).and_then(|following| following.behind_since).is_some_and(|(_, for_person)| for_person)
}

/// A commit as people write it: its first digits.
fn is_commit(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.chars().all(|digit| digit.is_ascii_hexdigit())
}

async fn asked(
    instance: &Instance,
    source: Option<Arc<str>>,
    accept_rewind: Option<(Arc<str>, Arc<str>)>,
    pushed: Option<Pushed>,
) -> Result<News, Failure> {
    let news = instance.follower.ask(source, accept_rewind, pushed).await;
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
