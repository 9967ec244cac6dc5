//! What was asked for, on its way: looked for, set off, waited for and told, as far as one instance goes.
//!
//! Deliberately no reloads: over those goes [`super::follow_on`].

use super::asked::{Asked, Lines, tell};
use crate::{
    consent::Concerned,
    daemon::{
        arrival::{Arrived, arrived, is_in_force, is_refused, missing},
        follower::{Following, News, stopping},
        instance::Instance,
        meant::{busy, is_at_rest, left_over, meant, released},
        wishes::{What, Wish},
    },
    failure::Failure,
    operation::{SyncAsk, SyncLine, SyncOutcome},
};
use reconciled_engine::{
    Store,
    scheduler::{Priority, Progress, Stance, Standing, Ticket, Watch},
};
use reconciled_provider::{Clock, Focus, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Resources that do not do their work and are named at the end.
const NAMED: usize = 10;

/// How often a source is asked for a commit that it does not have yet.
const POLL: Duration = Duration::from_secs(2);

/// How long nothing may be under way before those that wait for others are not waited for: what others put out has to be read by
/// who refers to it.
const STUCK: Duration = Duration::from_secs(3);

/// How long a question that nobody waits for may take, so that most are told what they brought to light.
const MOMENT: Duration = Duration::from_secs(2);

/// Follows as far as `instance` goes; a failure of one that ends is no answer.
pub(super) async fn follow(
    instance: &Instance,
    asked: &Asked,
    said: &[Arc<Wish>],
    actor: &str,
    lines: &Lines,
) -> Result<(), Failure> {
    let mut progress = instance.scheduler.watch();
    let errand = Errand::of(instance, asked, said, actor, lines)?;
    let looked = errand.look(said).await?;
    errand.tell_sources(&looked.news).await;
    errand.tell_rewind(&looked).await;
    let work = errand.set_off(&looked.news.changed).await?;
    let begun = SyncLine::Begun { scopes: work.scopes.len(), request: asked.request.clone() };
    tell(lines, begun).await;
    let Some(until) = errand.until else {
        let (outcomes, left) = (BTreeMap::new(), BTreeMap::new());
        tell(lines, errand.end(&looked.news, SyncOutcome::Accepted, outcomes, left, false)).await;
        return Ok(());
    };
    match errand.wait(&looked, &work, until, &mut progress).await? {
        Some((outcome, outcomes)) => errand.conclude(&looked.news, &work.scopes, outcome, outcomes).await,
        None => Ok(()),
    }
}

/// One question, and who asked it.
struct Errand<'a> {
    instance: &'a Instance,
    ask: &'a SyncAsk,
    request: &'a str,
    actor: &'a str,
    lines: &'a Lines,
    /// The source that is meant, where one is.
    source: Option<Arc<str>>,
    is_push: bool,
    began: Duration,
    /// Until when somebody waits for the end; none where nobody does.
    until: Option<Duration>,
}

/// What a look at the sources came to.
struct Looked {
    news: News,
    /// There was no answer in time.
    is_late: bool,
}

/// What is waited for.
struct Work {
    scopes: BTreeSet<Scope>,
    /// None where nothing had to be looked at.
    ticket: Option<Ticket>,
}

impl<'a> Errand<'a> {
    fn of(
        instance: &'a Instance,
        asked: &'a Asked,
        said: &[Arc<Wish>],
        actor: &'a str,
        lines: &'a Lines,
    ) -> Result<Errand<'a>, Failure> {
        let Asked { ask, request, began } = asked;
        Ok(Errand {
            instance,
            ask,
            request,
            actor,
            lines,
            source: asked.source(instance)?,
            is_push: said.iter().any(|wish| matches!(wish.what, What::Push(_))),
            began: *began,
            until: ask.wait.map(|milliseconds| *began + Duration::from_millis(milliseconds)),
        })
    }

    /// Has the source looked at, and again until it has the commit that is waited for.
    async fn look(&self, said: &[Arc<Wish>]) -> Result<Looked, Failure> {
        let (instance, clock) = (self.instance, &*self.instance.session.clock);
        // Who does not wait for the end does not wait for a remote that says nothing either.
        let answered_by = self.until.unwrap_or(clock.now() + MOMENT);
        let news = looked_at(instance, self.source.clone(), said.to_vec());
        let news = in_time(clock, answered_by, news).await?;
        let mut is_late = news.is_none();
        let mut news = news.unwrap_or_default();
        // A commit that the remote does not have yet is waited for, whatever is wrong with the one it has.
        while let (Some(rev), Some(source), Some(until)) = (&self.ask.rev, &self.source, self.until) {
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
            match in_time(clock, until, looked_at(instance, Some(source.clone()), Vec::new())).await? {
                Some(more) => {
                    news.changed.extend(more.changed);
                    news.moved.extend(more.moved);
                    (news.messages, news.has_errors) = (more.messages, more.has_errors);
                }
                None => is_late = true,
            }
        }
        Ok(Looked { news, is_late })
    }

    /// Tells at which commits the sources are that are meant, and what is wrong with them.
    async fn tell_sources(&self, news: &News) {
        for (name, following) in self.instance.follower.sources() {
            if self.source.as_ref().is_some_and(|meant| *meant != name) {
                continue;
            }
            if let Some((error, hint)) = &following.behind {
                let text = format!("error: source {name}: {error}");
                // A load told it, with what stays in force; where there was none nobody did.
                if !news.messages.contains(&text) {
                    self.say(format!("{text}\nhint: {hint}")).await;
                }
            }
            let (commit, label) = (following.commit, following.label);
            tell(self.lines, SyncLine::Revision { source: name.to_string(), commit, label }).await;
        }
        for text in &news.messages {
            self.say(text.clone()).await;
        }
    }

    /// Tells where consent to a rewind came to nothing: it counts for the commit that it names, and for no other.
    async fn tell_rewind(&self, looked: &Looked) {
        let (Some(commit), Some(source), false) = (&self.ask.accept_rewind, &self.source, looked.is_late)
        else {
            return;
        };
        let following = self.instance.follower.sources().remove(source);
        // What keeps it from being had, such as a rewind to another commit, was told with what to do.
        let at_another =
            following.filter(|following| following.behind.is_none() && following.offered != *commit);
        if let Some(Following { offered, .. }) = at_another {
            self.say(format!(
                "note: nothing was rewound: source {source} is at {offered}, and not at {commit}\n\
                 hint: name the commit that is meant to be there: git rev-parse COMMIT"
            ))
            .await;
        }
    }

    /// Has the scopes looked at that are meant. Those that `changed` are under way since that came into force.
    async fn set_off(&self, changed: &BTreeSet<Scope>) -> Result<Work, Failure> {
        let (instance, ask, source) = (self.instance, self.ask, self.source.as_deref());
        let (scopes, nothing) = match ask.only_changes {
            true => (ask.scopes.iter().filter_map(|text| text.parse().ok()).collect(), Vec::new()),
            false => meant(instance, ask, source).await?,
        };
        for one in nothing {
            self.say(one.warning()).await;
        }
        if ask.try_again || !ask.addresses.is_empty() {
            instance.scheduler.insist(&scopes);
        }
        let ticket = (!scopes.is_empty()).then(|| match ask.follows_up {
            true => instance.scheduler.reread(&scopes),
            false => instance.scheduler.sync(&scopes),
        });
        if !self.is_push {
            instance.requests.asked(self.request.to_owned(), self.actor, self.began, ticket.clone());
        }
        let mut scopes: BTreeSet<Scope> = scopes.into_iter().chain(changed.iter().cloned()).collect();
        if self.is_push {
            // Race: a poll may have found the commit before the question came; then its passes are under way.
            scopes.extend(busy(instance, source));
            // The push may have consented to what an earlier one had held.
            let released = released(instance).await?;
            instance.scheduler.wake(released.clone(), Priority::Operator, Focus::All);
            scopes.extend(released);
            // A source is not in sync while anything of it waits, whatever the push is about.
            scopes.extend(left_over(instance, source));
        }
        Ok(Work { scopes, ticket })
    }

    /// Waits for the end, and tells of each pass until then. How it ended, and what ended altogether; none once nobody reads
    /// any more.
    async fn wait(
        &self,
        looked: &Looked,
        work: &Work,
        until: Duration,
        progress: &mut Watch,
    ) -> Result<Option<(SyncOutcome, BTreeMap<String, usize>)>, Failure> {
        let (scheduler, clock) = (&self.instance.scheduler, &*self.instance.session.clock);
        let Work { scopes, ticket } = work;
        let rev = self.awaited();
        let mut outcomes = BTreeMap::new();
        let mut handled = ticket.is_none();
        let mut stuck_since = None;
        let outcome = loop {
            if self.lines.is_closed() {
                return Ok(None);
            }
            let standing = scheduler.standing();
            if let Some(outcome) = self.without_commit(rev.as_deref(), looked).await? {
                break outcome;
            }
            if looked.is_late {
                break SyncOutcome::TimedOut;
            }
            if handled && scopes.iter().all(|scope| standing.get(scope).is_none_or(is_at_rest)) {
                break worst(scopes, &standing);
            }
            let now = clock.now();
            let mut left = until.saturating_sub(now);
            // A remote that is away keeps nothing from going on that is in force.
            let is_broken = is_broken(self.instance, self.source.as_ref());
            stuck_since =
                (handled && is_stuck(scopes, &standing, is_broken)).then(|| stuck_since.unwrap_or(now));
            if let Some(since) = stuck_since {
                let stuck = STUCK.saturating_sub(now.saturating_sub(since));
                if stuck.is_zero() {
                    let has_failed = standing.values().any(|s| s.stance == Stance::Failed);
                    break if has_failed { SyncOutcome::Failed } else { SyncOutcome::Held };
                }
                left = left.min(stuck);
            }
            if left.is_zero() {
                break self.late(looked.news.has_errors, scopes, &standing);
            }
            let done = async {
                match ticket {
                    Some(ticket) if !handled => scheduler.handled(ticket).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                () = done => handled = true,
                event = progress.next() => match event {
                    Some(event) => ended(event, scopes, &scheduler.standing(), &mut outcomes, self.lines).await,
                    None => return Err(stopping()),
                },
                () = clock.sleep(left) => {}
            }
        };
        Ok(Some((outcome, outcomes)))
    }

    /// How it ends where the time is over and something is still under way: what failed or needs a person counts for more.
    fn late(
        &self,
        has_errors: bool,
        scopes: &BTreeSet<Scope>,
        standing: &BTreeMap<Scope, Standing>,
    ) -> SyncOutcome {
        let at_rest = scopes.iter().filter(|scope| standing.get(*scope).is_some_and(is_at_rest));
        match worst(&at_rest.cloned().collect(), standing) {
            SyncOutcome::Converged if has_errors => of_sources(self.instance, self.source.as_ref()),
            SyncOutcome::Converged => SyncOutcome::TimedOut,
            worse => worse,
        }
    }

    /// The commit that is waited for, with all its digits where it is what is offered: a few are not looked up again with each
    /// pass that ends.
    fn awaited(&self) -> Option<String> {
        let rev = self.ask.rev.clone()?;
        let following = self.source.as_ref().and_then(|name| self.instance.follower.sources().remove(name));
        let offered = following.map(|following| following.offered);
        Some(offered.filter(|all| all.starts_with(&rev)).unwrap_or(rev))
    }

    /// How it ends without the commit that is waited for; none where that is what is offered, or none is waited for.
    async fn without_commit(
        &self,
        rev: Option<&str>,
        looked: &Looked,
    ) -> Result<Option<SyncOutcome>, Failure> {
        let (Some(rev), Some(source)) = (rev, &self.source) else { return Ok(None) };
        let instance = self.instance;
        let outcome = match arrived(instance, source, rev).await? {
            // With `onInvalid: hold` a revision with errors never comes into force.
            Some(Arrived::Offered) if looked.news.has_errors && !is_in_force(instance, source, rev) => {
                SyncOutcome::Failed
            }
            Some(Arrived::Offered) => return Ok(None),
            Some(Arrived::Before) => SyncOutcome::Superseded,
            None if is_refused(instance, source) => SyncOutcome::Held,
            None if looked.is_late => SyncOutcome::TimedOut,
            None => match missing(instance, source, rev) {
                Some(text) => {
                    self.say(text).await;
                    SyncOutcome::Missing
                }
                None => SyncOutcome::TimedOut,
            },
        };
        Ok(Some(outcome))
    }

    /// Tells what is left to do, and the end.
    async fn conclude(
        &self,
        news: &News,
        scopes: &BTreeSet<Scope>,
        outcome: SyncOutcome,
        outcomes: BTreeMap<String, usize>,
    ) -> Result<(), Failure> {
        let instance = self.instance;
        // What an instance leaves undone because it ends is not how it went.
        if instance.is_ending() && !matches!(outcome, SyncOutcome::Converged | SyncOutcome::TimedOut) {
            return Err(stopping());
        }
        let standing = instance.scheduler.standing();
        self.tell_held(scopes).await?;
        self.tell_degraded(scopes).await?;
        let outcome = match outcome {
            // An error counts for more than what waits for a person.
            SyncOutcome::Converged | SyncOutcome::Held if news.has_errors => {
                of_sources(instance, self.source.as_ref())
            }
            outcome => outcome,
        };
        let has_failed =
            scopes.iter().filter_map(|scope| standing.get(scope)).any(|s| s.stance == Stance::Failed);
        let invalid =
            outcome == SyncOutcome::Failed && !has_failed && is_broken(instance, self.source.as_ref());
        let left = left(scopes, &standing);
        tell(self.lines, self.end(news, outcome, outcomes, left, invalid)).await;
        Ok(())
    }

    /// Tells which of these scopes wait for consent, or will.
    async fn tell_held(&self, scopes: &BTreeSet<Scope>) -> Result<(), Failure> {
        let instance = self.instance;
        let sources = &instance.session.config.sources;
        let source = self.source.as_deref();
        let names = sources.iter().map(|source| &*source.name);
        let by: Vec<&str> = names.filter(|name| source.is_none_or(|meant| meant == *name)).collect();
        let mut concerned = None;
        for hold in instance.writing.db.holds().await? {
            let concerns =
                |scope: &Scope| *scope.to_string() == *hold.domain || *scope.provider == *hold.domain;
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
                let ways = concerned.insert(known).ways(sources, &domain, &by);
                tell(self.lines, SyncLine::Held { domain, digest, reasons, once, ways }).await;
            }
        }
        Ok(())
    }

    /// Tells what of these scopes is as declared, which is what was waited for, and does not do its work.
    async fn tell_degraded(&self, scopes: &BTreeSet<Scope>) -> Result<(), Failure> {
        let degraded = self.instance.writing.db.reader().degraded().await?;
        let mine = degraded
            .iter()
            .filter(|one| one.scope.parse::<Scope>().is_ok_and(|scope| scopes.contains(&scope)))
            .map(|one| format!("{} is Degraded: {}", one.address, one.message));
        let texts: Vec<String> = mine.take(NAMED).collect();
        for text in texts {
            self.say(text).await;
        }
        Ok(())
    }

    /// The last line.
    fn end(
        &self,
        news: &News,
        outcome: SyncOutcome,
        outcomes: BTreeMap<String, usize>,
        left: BTreeMap<String, String>,
        invalid: bool,
    ) -> SyncLine {
        let has_moved = self.source.as_ref().is_some_and(|source| news.moved.contains(source));
        SyncLine::End {
            outcome,
            outcomes,
            left,
            invalid,
            // Race: a poll or a reload may have found the commit before the question came; what they set off may be done.
            missed: self.is_push && !has_moved,
            milliseconds: milliseconds(self.instance.session.clock.now().saturating_sub(self.began)),
            request: self.request.to_owned(),
        }
    }

    /// A word for people.
    async fn say(&self, text: String) {
        tell(self.lines, SyncLine::Message { text }).await;
    }
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

/// True when those of `scopes` that are not at rest wait for others, nothing anywhere is under way, and something is left that
/// somebody has to do, such as to mend manifests where one `is_broken`, or that is tried again later: nothing will come of waiting
/// for them.
fn is_stuck(scopes: &BTreeSet<Scope>, standing: &BTreeMap<Scope, Standing>, is_broken: bool) -> bool {
    let waits = |s: &Standing| s.stance == Stance::Waiting && s.waits;
    let is_idle = |s: &Standing| is_at_rest(s) || waits(s) && !s.is_queued && s.running_since.is_none();
    scopes.iter().filter_map(|scope| standing.get(scope)).all(is_idle)
        && standing.values().all(is_idle)
        && (is_broken
            || standing.values().any(|s| is_at_rest(s) && s.stance != Stance::InSync && !s.is_as_wished))
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

/// Scopes that are not in sync, and how they stand: what to do about an error is on a line of its own.
fn left(scopes: &BTreeSet<Scope>, standing: &BTreeMap<Scope, Standing>) -> BTreeMap<String, String> {
    scopes
        .iter()
        .filter_map(|scope| Some((scope, standing.get(scope)?)))
        .filter(|(_, s)| s.stance != Stance::InSync)
        .map(|(scope, s)| {
            let why = s.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let hint = s.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            (scope.to_string(), format!("{}{why}{hint}", s.stance.word()))
        })
        .collect()
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
        stance: stance.word().into(),
        outcomes: counts,
        error: error.map(|error| error.to_string()),
        milliseconds: milliseconds(took),
    };
    tell(lines, line).await;
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_done_about_an_error_is_told_with_the_scope_that_it_keeps() {
        let failed = |hint: Option<&str>| {
            let mut standing = Standing::default();
            standing.stance = Stance::Failed;
            standing.error = Some("answered 403".into());
            standing.hint = hint.map(Arc::from);
            standing
        };
        let scope = |name: &str| Scope::new("pdns", name);
        let standing =
            BTreeMap::from([(scope("a"), failed(Some("give it the right key"))), (scope("b"), failed(None))]);
        let told = left(&standing.keys().cloned().collect(), &standing);
        let expect = ["failed: answered 403\nhint: give it the right key", "failed: answered 403"];
        assert_eq!(told.into_values().collect::<Vec<_>>(), expect);
    }
}
