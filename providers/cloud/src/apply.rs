//! Carrying out what was planned.
//!
//! A deletion and a creation of one replacement are one action; what is there after the first half is told if the second
//! fails. Where the new one is to be made first, the old one is remembered with it, and deleted once what refers to it has
//! had its time. Who wishes to stop waits for what is under way: a creation that is broken off would have to be deleted and
//! made anew. The provider itself is asked to come to an end only past the limit of an `apply`, and when this program ends,
//! before it does; its answer is waited for: what it did must be known.

use crate::{
    catalog::ResourceType,
    change,
    config::Named,
    cty::Value,
    host::Host,
    kept::{Former, Kept},
    kind,
    mark::Mark,
    normalize::Declared,
    observe::{is_still_it, outputs, remote, state_of},
    plan::{self, Plans},
    plugin::{Applied, Class, Known, Planned, Plugin},
    said::had_no_answer,
    schema::canonical::Clear,
};
use futures_core::future::BoxFuture;
use reconciled_provider::{
    Action, Batch, Cx, Delta, Error, Hash, Journal, Op, Outcome, Owner, Resource, Tracked,
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// How long an `apply` may take: databases and clusters take more than an hour.
pub(crate) const LIMIT: Duration = Duration::from_secs(7200);
/// How long a provider may take to hear that it is to come to an end, and to plan when somebody wishes to stop.
const HEARS: Duration = Duration::from_secs(5);
/// How long what is under way may go on when everything ends: half of the minute that the daemon waits.
const LAST: Duration = Duration::from_secs(30);

/// Carries out a batch, one action after the other.
pub(crate) async fn apply(host: &Host, cx: &Cx, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
    let began = cx.clock.now();
    for action in &batch.actions {
        if cx.stop.is_set() {
            return Ok(());
        }
        if kind::data_in(action.op.id()).is_some() {
            // It is adopted as soon as it can be read, and nothing else is done with it.
            let text =
                format!("{} {}: data is read, and nothing is made of it", action.op.word(), action.op.id());
            journal.started(&[action.id]).await?;
            journal.finished(vec![(action.id, Outcome::Failed(Error::unexpected(text)))]).await?;
            continue;
        }
        // What keeps a provider from starting had no effect, and is about all of them.
        let plugin = host.running(cx).await?;
        let of = plugin.catalog.resource(kind::type_in(action.op.id()))?;
        let account = host.said(&plugin.catalog)?.1;
        let prepared = match named(cx, action) {
            Ok(clear) => {
                let has_turn = AtomicBool::new(false);
                let (plugin, of, mark) = (&plugin, &of, host.config.mark.as_ref());
                let doing = Doing { cx, began, plugin, of, action, clear, account, mark, has_turn };
                doing.prepared().await.map(|work| (doing, work))
            }
            Err(error) => Err(error),
        };
        if cx.stop.is_set() {
            return Ok(());
        }
        journal.started(&[action.id]).await?;
        let outcome = match prepared {
            Ok((doing, work)) => {
                if let Work::Succeed { old, .. } = &work {
                    // Two exist for a while: a crash in between must leave a word about it.
                    journal.progress(action.id, doing.old(old, true)).await?;
                }
                doing.carry_out(work).await
            }
            Err(error) => Outcome::Failed(error),
        };
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
}

/// What is remembered of what is there.
fn kept(action: &Action) -> Result<Option<Kept>, Error> {
    match &action.op {
        Op::Update { observed, .. } | Op::Replace { observed, .. } | Op::Delete { observed, .. } => {
            Kept::open(&observed.private)
        }
        Op::Continue { tracked, .. } => Kept::open(&tracked.private),
        Op::Create { .. } => Ok(None),
    }
}

/// True where nobody declares it any more, and our mark on it is to go.
fn leaves(action: &Action) -> bool {
    matches!(&action.op, Op::Update { delta, .. } if delta.leaves)
}

/// The secrets of what is declared, and of what is there.
fn named<'a>(cx: &'a Cx, action: &Action) -> Result<Named<'a>, Error> {
    let declared = action.op.desired().filter(|_| !leaves(action));
    let declared = declared.and_then(|desired| Declared::read(desired.spec.bytes()?));
    let before = kept(action)?.into_iter().flat_map(|kept| kept.secrets);
    Named::of(cx, declared.as_ref().map(|declared| &declared.config), before)
}

/// What is to be sent.
enum Work {
    Change {
        prior: Known,
        planned: Planned,
        config: Value,
        former: Vec<Former>,
        ends: bool,
    },
    Replace {
        old: Kept,
        prior: Known,
        goes: Planned,
        planned: Planned,
        config: Value,
    },
    /// The new one first; the old one goes later.
    Succeed {
        old: Kept,
        planned: Planned,
        config: Value,
    },
    Delete {
        old: Kept,
        prior: Known,
        planned: Planned,
    },
}

impl Work {
    /// False where nothing is sent, and where one of those that were in its place before is looked at first.
    fn begins_with_a_write(&self) -> bool {
        match self {
            Work::Change { prior, planned, .. } => planned.state != prior.state,
            Work::Replace { old, .. } | Work::Delete { old, .. } => old.former.is_empty(),
            Work::Succeed { .. } => true,
        }
    }
}

/// How a deletion came to nothing.
enum Left {
    Untouched(Error),
    InPart(Applied, Error),
    Unknown(Error),
}

impl Left {
    fn error(self) -> Error {
        match self {
            Left::Untouched(error) | Left::InPart(_, error) | Left::Unknown(error) => error,
        }
    }
}

struct Doing<'a> {
    cx: &'a Cx,
    /// When the batch began.
    began: Duration,
    plugin: &'a Plugin,
    of: &'a ResourceType,
    action: &'a Action,
    clear: Named<'a>,
    account: Hash,
    mark: Option<&'a Mark>,
    /// It has waited for the turn of its first write.
    has_turn: AtomicBool,
}

impl Doing<'_> {
    fn label(&self) -> String {
        format!("{} {}", self.action.op.word(), self.action.op.id())
    }

    fn declared(&self) -> Option<Declared> {
        Declared::read(self.action.op.desired()?.spec.bytes()?)
    }

    /// What comes before the first write: nothing is lost when it is given up, and it is when it takes too long.
    async fn prepared(&self) -> Result<Work, Error> {
        let given_up = async {
            let stopped = async {
                self.cx.stop.wished().await;
                tokio::time::sleep(HEARS).await;
            };
            tokio::select! {
                () = stopped => {}
                () = tokio::time::sleep(self.cx.deadline) => {}
            }
        };
        let work = tokio::select! {
            work = self.prepare() => work?,
            () = given_up => {
                let text = format!("{}: provider `{}` gave no plan in time", self.label(), self.plugin.name());
                return Err(Error::unavailable(text));
            }
        };
        if work.begins_with_a_write() {
            // Here and not before it is sent: what is noted down as begun may have begun.
            self.turn(Class::Writes).await;
            self.has_turn.store(true, Ordering::Relaxed);
        }
        Ok(work)
    }

    /// Waits for its turn, but not while somebody wishes to stop: before the first write nothing begins any more then, and
    /// after it what is left must not be kept waiting.
    async fn turn(&self, class: Class) {
        tokio::select! {
            () = self.plugin.turn(self.cx, class) => {}
            () = self.cx.stop.wished() => {}
        }
    }

    async fn prepare(&self) -> Result<Work, Error> {
        let lost = || Error::conflict(format!("{}: there is no plan for it", self.label()));
        let plans = |delta: &Delta| Plans::open(&delta.planned).ok_or_else(lost);
        let kept = kept(self.action)?;
        if kept.as_ref().is_some_and(|kept| kept.is_making) {
            return Err(self.unanswered());
        }
        let nothing = || Error::unexpected(format!("{}: nothing is remembered of it", self.label()));
        match &self.action.op {
            Op::Update { delta, .. } if delta.leaves => {
                let mark = self.mark.ok_or_else(lost)?;
                let old = kept.ok_or_else(nothing)?;
                let (prior, planned, config) =
                    plan::without_mark(self.plugin, self.of, mark, &old, self.clear.hidden()).await?;
                Ok(Work::Change { prior, planned, config, former: old.former, ends: false })
            }
            Op::Update { delta, .. } if delta.planned.is_empty() => {
                // What another instance marked is taken over, and is as declared.
                let (Some(declared), Some(mark)) = (self.declared(), self.mark) else { return Err(lost()) };
                let old = kept.ok_or_else(nothing)?;
                let mark = (&declared, mark);
                let (prior, planned, config) =
                    plan::mark_alone(self.plugin, self.of, mark, &old, &self.clear).await?;
                Ok(Work::Change { prior, planned, config, former: old.former, ends: false })
            }
            Op::Create { delta, .. } | Op::Update { delta, .. } => {
                let plans = plans(delta)?;
                let state = plans.prior(self.of).ok_or_else(lost)?;
                let (planned, config) = plans.step.planned(self.of).ok_or_else(lost)?;
                let private = kept.as_ref().map(Kept::private).unwrap_or_default();
                let prior = Known { state, private, identity: kept.and_then(|kept| kept.identity) };
                let (former, ends) = (plans.former, plans.ends_former);
                Ok(Work::Change { prior, planned, config, former, ends })
            }
            Op::Replace { delta, .. } => {
                let plans = plans(delta)?;
                let (planned, config) =
                    plans.anew.as_ref().and_then(|step| step.planned(self.of)).ok_or_else(lost)?;
                let old = kept.ok_or_else(nothing)?;
                if self.declared().is_some_and(|declared| declared.lifecycle.create_before_destroy) {
                    return Ok(Work::Succeed { old, planned, config });
                }
                let (prior, goes) = plan::deletion(self.plugin, self.of, &old).await?;
                Ok(Work::Replace { old, prior, goes, planned, config })
            }
            Op::Delete { .. } => {
                let old = kept.ok_or_else(nothing)?;
                let (prior, planned) = plan::deletion(self.plugin, self.of, &old).await?;
                Ok(Work::Delete { old, prior, planned })
            }
            Op::Continue { .. } => {
                Err(Error::unexpected(format!("{}: nothing of it is pending", self.label())))
            }
        }
    }

    fn unanswered(&self) -> Error {
        let text = format!(
            "{}: the one that takes its place was being made and got no answer, so it may exist",
            self.label()
        );
        Error::invalid(text).hint(
            "look which of the two are there; then reconciled forget ADDRESS, give the id of the one to keep as \
             reconciled/import in its manifest, reconciled adopt ADDRESS, and delete the other by hand",
        )
    }

    async fn carry_out(&self, work: Work) -> Outcome {
        match work {
            Work::Change { prior, planned, config, former, ends } => {
                let outcome = match planned.state == prior.state {
                    // Only what is remembered of it changes.
                    true => Outcome::Done(self.tracked(&prior, false)),
                    false => self.change(&prior.state, &planned, &config).await,
                };
                match (outcome, ends) {
                    (Outcome::Done(tracked), true) => self.end_former(tracked, former).await,
                    (outcome, _) => with_former(outcome, former),
                }
            }
            Work::Delete { old, prior, planned } => match self.end(old, &prior, &planned).await {
                Ok(()) => Outcome::Gone,
                Err(outcome) => outcome,
            },
            Work::Replace { old, prior, goes, planned, config } => {
                if let Err(outcome) = self.end(old, &prior, &goes).await {
                    return outcome;
                }
                match self.change(&Value::Null, &planned, &config).await {
                    // The old one is gone: the next pass makes the new one.
                    Outcome::Failed(_) => Outcome::Gone,
                    other => other,
                }
            }
            Work::Succeed { old, planned, config } => {
                match self.change(&Value::Null, &planned, &config).await {
                    Outcome::Failed(error) => Outcome::Partial(self.old(&old, false), error),
                    outcome => {
                        let since = self.cx.clock.now().as_secs();
                        let mut former = old.former.clone();
                        former.push(Former { kept: Kept { former: Vec::new(), ..old }, since });
                        self.without_itself(outcome, former)
                    }
                }
            }
        }
    }

    /// Remembers those that are to be deleted, without what is the new one itself: to make something under a name that is
    /// there already is a change of it to many clouds.
    fn without_itself(&self, outcome: Outcome, former: Vec<Former>) -> Outcome {
        let (Outcome::Done(tracked) | Outcome::Partial(tracked, _)) = &outcome else { return outcome };
        let Ok(Some(new)) = Kept::open(&tracked.private) else { return outcome };
        let block = &self.of.schema.block;
        let (same, former): (Vec<Former>, Vec<Former>) =
            former.into_iter().partition(|one| one.kept.is_of_one_thing_with(&new, block));
        let outcome = match (outcome, same.first()) {
            (Outcome::Done(tracked), Some(one)) => {
                let text = format!(
                    "{}: the new one is the one that it takes the place of ({}), changed; nothing is deleted",
                    self.label(),
                    one.id(self.of)
                );
                let hint = "leave `createBeforeDestroy` out, or declare a name that changes with it";
                Outcome::Partial(tracked, Error::unexpected(text).hint(hint))
            }
            (outcome, _) => outcome,
        };
        with_former(outcome, former)
    }

    /// What is there already, while the one that takes its place is made or after that came to nothing.
    fn old(&self, old: &Kept, is_making: bool) -> Tracked {
        let op = &self.action.op;
        let mut tracked = match op {
            Op::Replace { tracked: Some(tracked), .. } => Tracked::clone(tracked),
            _ => Tracked::new(op.id().clone(), Hash::default()),
        };
        tracked.private = Kept { is_making, ..old.clone() }.seal();
        tracked
    }

    /// Deletes those that were in its place before.
    async fn end_former(&self, tracked: Tracked, mut former: Vec<Former>) -> Outcome {
        // Invariant: what is tracked is not among what is deleted.
        if let Ok(Some(live)) = Kept::open(&tracked.private) {
            former.retain(|one| !one.kept.is_of_one_thing_with(&live, &self.of.schema.block));
        }
        match self.delete_former(former).await {
            Ok(()) => with_former(Outcome::Done(tracked), Vec::new()),
            Err((left, error)) => with_former(Outcome::Partial(tracked, error), left),
        }
    }

    /// Errors: those that are still there, as far as is known, and why.
    async fn delete_former(&self, former: Vec<Former>) -> Result<(), (Vec<Former>, Error)> {
        let mut left = former.into_iter();
        while let Some(one) = left.next() {
            if let Err(error) = self.delete_one(&one.kept).await {
                return Err((std::iter::once(one).chain(left).collect(), error));
            }
        }
        Ok(())
    }

    async fn delete_one(&self, kept: &Kept) -> Result<(), Error> {
        let hidden = self.clear.hidden();
        let before = state_of(self.plugin, self.of, kept).await?;
        self.turn(Class::Reads).await;
        let known = self.plugin.read_at_once(self.of, &before, hidden).await?;
        let is_elsewhere = kept.account.as_ref().is_some_and(|was| *was != self.account.to_string());
        let (id, block) = (self.action.op.id(), &self.of.schema.block);
        is_still_it(id, block, (&before, &known), is_elsewhere, self.mark)?;
        if known.state.is_null() {
            return Ok(());
        }
        let planned = self.plugin.plan(self.of, &known, &Value::Null, hidden).await?;
        self.delete(&known.state, &planned).await.map_err(Left::error)
    }

    /// Deletes a resource, and those that were in its place before it.
    ///
    /// Errors: what is left, with all that was remembered of it: it still has to go for the same reasons.
    async fn end(&self, old: Kept, prior: &Known, planned: &Planned) -> Result<(), Outcome> {
        let remembered = |known: &Known, former: Vec<Former>| {
            let mut tracked = self.tracked(known, false);
            if let Ok(Some(kept)) = Kept::open(&tracked.private) {
                tracked.private = Kept { former, ..kept.going_on_from(&old) }.seal();
            }
            tracked
        };
        if let Err((left, error)) = self.delete_former(old.former.clone()).await {
            return Err(Outcome::Partial(remembered(prior, left), error));
        }
        self.delete(&prior.state, planned).await.map_err(|left| match left {
            Left::Untouched(error) => Outcome::Failed(error),
            Left::InPart(applied, error) => Outcome::Partial(remembered(&applied.now, Vec::new()), error),
            Left::Unknown(error) => Outcome::Unknown(error),
        })
    }

    async fn delete(&self, prior: &Value, planned: &Planned) -> Result<(), Left> {
        let applied = match self.send(prior, planned, &Value::Null).await {
            Ok((applied, _)) => applied,
            Err(error) => return Err(Left::Unknown(error)),
        };
        match (applied.error.clone(), applied.now.state.is_null()) {
            (None, true) => Ok(()),
            (Some(error), true) => Err(Left::Unknown(error)),
            (Some(error), false) if applied.now.state == *prior => Err(Left::Untouched(error)),
            (Some(error), false) => Err(Left::InPart(applied, error)),
            (None, false) => {
                let text = format!("{}: the provider says it is still there", self.label());
                Err(Left::Unknown(Error::unexpected(text)))
            }
        }
    }

    async fn change(&self, prior: &Value, planned: &Planned, config: &Value) -> Outcome {
        let (applied, was_ended) = match self.send(prior, planned, config).await {
            Ok(answer) => answer,
            Err(error) => return Outcome::Unknown(error),
        };
        let is_new = prior.is_null();
        let state = &applied.now.state;
        let tracked = |is_tainted| self.tracked(&applied.now, is_tainted);
        match applied.error.clone() {
            // The cloud may have made it and not been heard: made again, it would be there twice.
            Some(error) if is_new && state.is_null() && (was_ended || had_no_answer(&error)) => {
                Outcome::Unknown(error)
            }
            Some(error) if *state == *prior => Outcome::Failed(error),
            // A creation that failed half way has made something that is not whole.
            Some(error) => Outcome::Partial(tracked(is_new), error),
            None if state.is_null() => {
                let text = format!("{}: the provider says nothing came of it", self.label());
                Outcome::Unknown(Error::unexpected(text))
            }
            // The old SDK says nothing of what it leaves out.
            None if leaves(self.action) && self.bears_our_mark(state) => {
                let text = format!("{}: our mark is still there", self.label());
                Outcome::Partial(tracked(false), Error::unexpected(text))
            }
            None => match change::check_applied(&self.of.schema.value_type, &planned.state, state) {
                Err(path) if !(planned.is_legacy || applied.is_legacy) => {
                    // A key in it may be a secret.
                    let path = self.clear.hidden().scrub(&path);
                    let text =
                        format!("{}: {path} did not come about as the provider planned it", self.label());
                    let hint = "this is a mistake of the provider; its maintainers want to know";
                    Outcome::Partial(tracked(false), Error::unexpected(text).hint(hint))
                }
                _ => Outcome::Done(tracked(false)),
            },
        }
    }

    fn bears_our_mark(&self, state: &Value) -> bool {
        self.mark.is_some_and(|mark| mark.owner(&self.of.schema.block, state) == Owner::Ours)
    }

    /// Sends it and waits for its answer, also when somebody wishes to stop. Past the limit of an `apply` the provider is
    /// asked to come to an end, with all that it is doing: the engine waits no longer than that once more. True where it was.
    async fn send(&self, prior: &Value, planned: &Planned, config: &Value) -> Result<(Applied, bool), Error> {
        let label = self.label();
        if !self.has_turn.swap(false, Ordering::Relaxed) {
            self.turn(Class::Writes).await;
        }
        let mut call: BoxFuture<'_, _> =
            Box::pin(self.plugin.apply(self.of, &label, prior, planned, config, self.clear.hidden()));
        tokio::select! {
            answer = &mut call => return answer.map(|applied| (applied, false)),
            () = self.is_late() => {}
        }
        let heard = tokio::time::timeout(HEARS, self.plugin.cancel());
        tokio::join!(call, heard).0.map(|applied| (applied, true))
    }

    /// Returns once somebody wishes to stop and the limit of an `apply` is over, or all of it ends.
    async fn is_late(&self) {
        let is_over = async {
            self.cx.stop.wished().await;
            let end = self.began + LIMIT;
            self.cx.clock.sleep(end.saturating_sub(self.cx.clock.now())).await;
        };
        let all_ends = async {
            self.cx.stop.ending().await;
            self.cx.clock.sleep(LAST).await;
        };
        tokio::select! {
            () = is_over => {}
            () = all_ends => {}
        }
    }

    fn tracked(&self, known: &Known, is_tainted: bool) -> Tracked {
        let state = &known.state;
        let op = &self.action.op;
        let applied_hash =
            op.desired().and_then(|desired: &Resource| desired.spec.hash()).unwrap_or_default();
        let mut tracked = Tracked::new(op.id().clone(), applied_hash);
        let mut kept = Kept::new(self.of, known, self.account);
        self.plugin.told_as(self.of, state, &kept.state);
        kept.is_tainted = is_tainted;
        kept.secrets = self.clear.hidden().within(state);
        let declared = self.declared();
        kept.triggers = declared.as_ref().and_then(|declared| declared.lifecycle.made_with());
        tracked.private = kept.seal();
        tracked.remote = remote(&self.clear, &self.of.schema.block, state);
        if !state.is_null() {
            tracked.outputs = outputs(&self.clear, self.of, (state, declared.as_ref()), true);
        }
        tracked
    }
}

/// Remembers with what is there now what was in its place before.
fn with_former(outcome: Outcome, former: Vec<Former>) -> Outcome {
    let put = |mut tracked: Tracked| {
        if let Ok(Some(kept)) = Kept::open(&tracked.private) {
            tracked.private = Kept { former, ..kept }.seal();
        }
        tracked
    };
    match outcome {
        Outcome::Done(tracked) => Outcome::Done(put(tracked)),
        Outcome::Partial(tracked, error) => Outcome::Partial(put(tracked), error),
        other => other,
    }
}
