//! Carrying out: one step towards the certificate that is declared, from whatever is there.
//!
//! Every kind of action takes the same way, because everything that was begun is on disk: what is being made is looked up,
//! not remembered. The key is kept before anybody hears of it; the certificate is kept before it is put in place; services
//! are told last, and that they were is kept, so that a reload that failed is done again.

mod begin;
mod broken;
mod issue;
mod place;
mod restored;

use crate::{
    aside::aside,
    choose::both,
    deliver::{self, There, View},
    desk::{Desk, Effects, Records, SIBLING, Step, address, patience},
    found,
    kept::{Refusals, Unread},
    observe::{self, Standing},
    owner,
    wish::{Issue, Wish},
};
use reconciled_provider::{
    Batch, Claim, Error, Journal, OWNER_FIELD, Op, Outcome, Owner, Resource, Sealed, Tracked,
};
use std::{sync::Arc, time::Duration};

/// How long what is deleted waits at a time for a pass over whom it was seen to make room for.
const HEIR: Duration = Duration::from_secs(2);

/// Carries out a batch.
pub(crate) async fn apply(desk: &Desk<'_>, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
    for action in &batch.actions {
        if desk.cx.stop.is_set() {
            return Ok(());
        }
        journal.started(&[action.id]).await?;
        let effects = &Effects::default();
        let desk = &Desk { claimant: Some((journal, action.id)), effects, ..*desk };
        let outcome = match &action.op {
            Op::Delete { .. } => desk.delete(&batch.scope.name).await,
            Op::Create { desired, .. }
            | Op::Update { desired, .. }
            | Op::Replace { desired, .. }
            | Op::Continue { desired, .. } => {
                let mut records = Records::default();
                if let Op::Continue { claims, .. } = &action.op {
                    let synced = claims.iter().filter(|claim| claim.synced);
                    records.carried = synced.map(|claim| claim.key.to_string()).collect();
                    records.claimed = claims.iter().map(|claim| claim.key.to_string()).collect();
                }
                desk.advance(desired, &action.op, &records).await
            }
        };
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
}

/// True when the resource is remembered, so that what is left of it is found again whatever comes of this.
fn is_tracked(op: &Op) -> bool {
    match op {
        Op::Create { .. } => false,
        Op::Update { tracked, .. } | Op::Replace { tracked, .. } | Op::Delete { tracked, .. } => {
            tracked.is_some()
        }
        Op::Continue { .. } => true,
    }
}

/// The instance that the certificate is taken from, as a person said.
fn from_instance(op: &Op) -> Option<&Arc<str>> {
    let (Op::Update { delta, observed, .. } | Op::Replace { delta, observed, .. }) = op else { return None };
    let is_agreed = delta.fields.iter().any(|field| &*field.path == OWNER_FIELD);
    match &observed.owner {
        Owner::Other(from) if is_agreed => Some(from),
        _ => None,
    }
}

impl Desk<'_> {
    async fn delete(&self, name: &str) -> Outcome {
        if let Err(error) = self.await_heir(name).await {
            return Outcome::Failed(error);
        }
        match self.remove(name).await {
            Ok(()) => {
                self.heirs.gone(name);
                self.watches.end(name);
                self.sights.forget(name);
                Outcome::Gone
            }
            Err(error) => Outcome::Unknown(error),
        }
    }

    /// Lets a pass begin with the certificate that wants this directory, if one was seen that does: it runs beside this one,
    /// or comes after it.
    async fn await_heir(&self, name: &str) -> Result<(), Error> {
        let Some(issued) = self.keep.issued(name)? else { return Ok(()) };
        let directory = &issued.wish.output.directory;
        let Some(heir) = self.heirs.seen_heir(name, directory) else { return Ok(()) };
        let has_begun = || self.heirs.heir(name, directory).is_some();
        if !has_begun() {
            // It may have been looked at while this one was still declared, and have stopped at that.
            self.watches.wake(&heir);
        }
        let until = self.cx.clock.now() + HEIR;
        while !has_begun() && self.cx.clock.now() < until && !self.cx.stop.is_set() {
            self.cx.clock.sleep(HEIR / 20).await;
        }
        match has_begun() || !self.heirs.puts_off(name, self.cx.clock.now()) {
            true => Ok(()),
            // No failure: what runs at a time is limited, and it may be waiting for this one to make room.
            false => Err(Error::rate_limited(format!(
                "{} goes once {} has begun to take over {directory}",
                address(name),
                address(&heir)
            ))
            .retry_after(HEIR)
            .hint("where nothing comes of that within a minute, it goes with its files")),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), Error> {
        let place = &*self.config.place;
        if let Some(mut issued) = self.keep.issued(name)? {
            let output = issued.wish.output.clone();
            let left = std::mem::take(&mut issued.leaving);
            match self.heirs.heir(name, &output.directory) {
                // A manifest that was renamed: there is no moment without files.
                Some(heir) => {
                    match self.keep.in_use(&heir) {
                        Ok(Some(_)) => {}
                        Ok(None) => self.keep.put_issued(&heir, &issued)?,
                        // It waits for this one, which has what takes its place.
                        Err(Unread::Broken(path)) => {
                            self.set_aside(&heir, &path, "what is handed over takes its place")?;
                            self.keep.put_issued(&heir, &issued)?;
                        }
                        Err(Unread::Failed(error)) => return Err(error),
                    }
                    let (mark, heir) = (self.keep.mark(name), self.keep.mark(&heir));
                    deliver::hand_over(place, &mark, &heir, &output).await?;
                }
                None => deliver::withdraw(place, &self.keep.mark(name), &output, &issued).await?,
            }
            for left in &left {
                deliver::withdraw(place, &self.keep.mark(name), left, &issued).await?;
            }
        }
        self.end_attempts(name).await?;
        self.keep.forget(name)
    }

    async fn advance(&self, desired: &Resource, op: &Op, records: &Records) -> Outcome {
        let Some(wish) = desired.spec.bytes().and_then(Wish::decode) else {
            return Outcome::Failed(Error::unexpected(format!(
                "what is declared of {} cannot be read",
                desired.id
            )));
        };
        let taken = match from_instance(op) {
            Some(from) => self.take_from(from, &desired.id.0, &wish).await,
            None => Ok(()),
        };
        let stepped = match taken {
            Ok(()) => self.step(&desired.id.0, &wish, records).await,
            Err(error) => Err(error),
        };
        match stepped {
            Ok(None) => Outcome::Done(self.tracked(desired, &wish).await),
            Ok(Some((recheck_after, claims))) => {
                Outcome::Pending { tracked: self.tracked(desired, &wish).await, recheck_after, claims }
            }
            Err(error) => match self.had_no_effect(&desired.id.0, &wish, is_tracked(op)).await {
                Ok(true) => Outcome::Failed(error),
                // Much may have been done before it failed; the next look says what.
                Ok(false) | Err(_) => Outcome::Unknown(error),
            },
        }
    }

    /// True when a step that failed certainly changed nothing, and no order is left of it.
    ///
    /// Of what nothing is remembered nobody would find again what was begun: that is ended, with a key that nobody has heard of. That
    /// it was tried stays known, as a person may want it tried again.
    async fn had_no_effect(&self, name: &str, wish: &Wish, is_tracked: bool) -> Result<bool, Error> {
        // What is broken may be of an order, and is set aside by a step that comes so far.
        let is_broken = !self.keep.broken_besides(name)?.is_empty();
        if is_broken || self.effects.are_any() || self.is_ordered(name)? {
            return Ok(false);
        }
        if is_tracked {
            return Ok(true);
        }
        if self.keep.issued(name)?.is_some() {
            return Ok(false);
        }
        let was_begun = self.keep.is_begun(name)?;
        self.end_attempts(name).await?;
        if was_begun && !self.keep.is_tried(name)? {
            self.keep.put_refusals(name, &Refusals { material: wish.material(), ..Refusals::default() })?;
        }
        Ok(true)
    }

    /// Takes the directory of the certificate `name` from another instance, at once: an order may take its time.
    async fn take_from(&self, from: &str, name: &str, wish: &Wish) -> Result<(), Error> {
        let (view, mark) = (self.view(wish).await, self.keep.mark(name));
        if view.other_instance(&mark)? != Some(from) {
            // Somebody else's by now, or nobody's: the step finds out.
            return Ok(());
        }
        self.effects.note();
        let kept = self.keep.issued(name)?;
        let is_kept = kept.zip(view.version()).is_some_and(|(kept, version)| kept.has_version(version));
        if !is_kept {
            self.keep_theirs(name, wish, &view)?;
        }
        deliver::take(&*self.config.place, &view, &mark).await
    }

    /// What is in the directory of a certificate now.
    async fn view(&self, wish: &Wish) -> View {
        View::of(&*self.config.place, &wish.output).await
    }

    async fn tracked(&self, desired: &Resource, wish: &Wish) -> Tracked {
        let view = self.view(wish).await;
        let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
        if let Ok(standing) = Standing::look(self.cx, self.keep, &desired.id.0, wish, &view) {
            let issued = standing.as_ref().and_then(|standing| standing.issued.as_ref());
            observe::watch(self.cx, self.watches, &desired.id.0, wish, issued);
            tracked.outputs = standing.map_or_else(Sealed::default, |it| observe::outputs(wish, &it));
        }
        tracked
    }

    /// One step; none when the certificate is where and what it should be.
    async fn step(
        &self,
        name: &str,
        wish: &Wish,
        records: &Records,
    ) -> Result<Option<(Duration, Vec<Claim>)>, Error> {
        self.heirs.worked_on(name, &wish.output.directory);
        let view = self.view(wish).await;
        if let Some(other) = view.other_owner(&self.keep.mark(name))? {
            return match owner::comes_after(self.cx, self.keep, self.heirs, name, &view)? {
                Some(since) => {
                    let now = self.cx.clock.now().as_secs();
                    Ok(Some((patience(SIBLING, since.as_secs(), now), Vec::new())))
                }
                None => Err(deliver::taken(&wish.output, &other)),
            };
        }
        aside(|| self.set_broken_aside(name, wish, &view))?;
        aside(|| self.keep_newer(name, wish, &view))?;
        let standing = aside(|| Standing::look(self.cx, self.keep, name, wish, &view))?;
        let is_good = standing.as_ref().is_some_and(|standing| standing.unlike.is_empty());
        if standing.as_ref().is_some_and(|standing| standing.issued.is_none()) {
            self.keep_theirs(name, wish, &view)?;
            if is_good {
                self.effects.note();
                found::take_over(self.keep, name, wish, &view)?;
            }
        }
        if is_good {
            // A process that died before it was done, or something else that was wished for meanwhile, left it.
            self.end_attempts(name).await?;
        } else {
            let put_back = self.put_back(name, wish, standing.as_ref()).await;
            let why = standing.map(|standing| standing.unlike).unwrap_or_default();
            match self.issue(name, wish, records, &why).await {
                Ok(Step::Waiting(recheck, claims)) => match put_back {
                    // An error leaves claims as they are, so it is said once that is how they shall be.
                    Err(error) if records.are(&claims) => return Err(meanwhile(error, recheck)),
                    _ => return Ok(Some((recheck, claims))),
                },
                Ok(Step::Issued(_)) => {}
                Ok(Step::Barred(error)) | Err(error) => {
                    return Err(match put_back {
                        Err(before) => both(error, &before),
                        Ok(()) => error,
                    });
                }
            }
        }
        if records.are_claimed() {
            // The records go first: what follows may fail for long, and an error keeps them.
            return Ok(Some((Duration::ZERO, Vec::new())));
        }
        if is_good && let Err(error) = self.introduce(wish).await {
            // It is still to be told, and nothing else has to wait for that.
            if let Some(issued) = self.keep.issued(name)? {
                let Wish { issuer, others, issuer_names, .. } = issued.wish;
                self.put_in_place(name, &Wish { issuer, others, issuer_names, ..wish.clone() }).await?;
            }
            return Err(error);
        }
        self.put_in_place(name, wish).await?;
        if !is_good {
            self.introduce(wish).await?;
        }
        Ok(None)
    }

    /// Tells authorities where they may write to.
    async fn introduce(&self, wish: &Wish) -> Result<(), Error> {
        for authority in wish.issuers().filter_map(Issue::authority) {
            let told = self.acme.introduce(self.cx, self.config, self.keep, authority).await;
            // It may have heard of it.
            told.inspect_err(|_| self.effects.note())?;
        }
        Ok(())
    }

    /// Puts the certificate of today back while another one is to be had: one that is not over is better than none.
    async fn put_back(&self, name: &str, wish: &Wish, standing: Option<&Standing>) -> Result<(), Error> {
        let now = self.cx.clock.now().as_secs();
        let issued = standing.filter(|standing| standing.is_of_use(now)).and_then(|it| it.issued.as_ref());
        let Some(issued) = issued else { return Ok(()) };
        // What it was asked for stays as it was: that is how it differs from what is declared.
        let today = Wish {
            output: wish.output.clone(),
            reload: wish.reload.clone(),
            serve: wish.serve.clone(),
            ..issued.wish.clone()
        };
        self.put_in_place(name, &today).await
    }

    /// What somebody else put where ours goes is kept: it may be the only copy of a key.
    fn keep_theirs(&self, name: &str, wish: &Wish, view: &View) -> Result<(), Error> {
        for (file, there) in deliver::found(view, &wish.output)? {
            let is_replaced = [deliver::CHAIN, deliver::KEY].contains(&file);
            // Whether the others are replaced is known when there is something to put there.
            if is_replaced || !matches!(there, There::Huge | There::Other) {
                let (file, bytes) = deliver::copy(&wish.output, file, there)?;
                self.keep.put_replaced(name, &file, &bytes)?;
            }
        }
        Ok(())
    }
}

/// What is wrong with the files while another certificate is on its way. That one is not slowed down by it, not even where a
/// person has to mend it: the next look is when it was told to be.
fn meanwhile(error: Error, recheck: Duration) -> Error {
    let message = format!("another certificate is on its way, and then {}", error.chain());
    Error::rate_limited(message).retry_after(recheck).hint_if(error.into_told().hint)
}
