//! Carrying out: one step towards the certificate that is declared, from whatever is there.
//!
//! Every kind of action takes the same way, because everything that was begun is on disk: what is being made is looked up,
//! not remembered. The key is kept before anybody hears of it; the certificate is kept before it is put in place; services
//! are told last, and that they were is kept, so that a reload that failed is done again.

pub(crate) mod begin;
mod place;
mod refuse;
mod restored;

use crate::{
    Config, acme,
    aside::aside,
    choose::both,
    compare::{self, Difference},
    deliver::{self, There, View},
    heirs::Heirs,
    kept::{Issued, Keep, Private},
    observe::{self, Standing},
    renewal,
    served::Sights,
    sign,
    watch::Watches,
    wish::{Issue, Solver, Wish},
    x509::Facts,
};
use reconciled_provider::{Batch, Claim, Cx, Error, Journal, Op, Outcome, Resource, Sealed, Tracked};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long to wait at first for a certificate of ours that signs.
const SIGNER: Duration = Duration::from_secs(2);
/// How long what is deleted waits at a time for a pass over whom it was seen to make room for.
const HEIR: Duration = Duration::from_secs(2);
/// Longest wait for what is on its way.
const LONGEST: u64 = 300;
/// When to look again at what is waited for since `since`: after `first`, and later the longer it takes.
pub(crate) fn patience(first: Duration, since: u64, now: u64) -> Duration {
    first.max(Duration::from_secs((now.saturating_sub(since) / 4).min(LONGEST)))
}

pub(crate) use refuse::{LONGEST_REFUSAL, Refusal};

/// What a person types for the certificate whose scope is called `name`.
pub(crate) fn address(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((namespace, name)) => format!("{namespace}/Certificate/{name}"),
        None => format!("Certificate/{name}"),
    }
}

/// How far a certificate is.
pub(crate) enum Step {
    /// It was issued.
    Issued(sign::Signed),
    /// It is on its way.
    Waiting(Duration, Vec<Claim>),
    /// The issuer wants nothing to do with our account there, which asking again does not change.
    Barred(Error),
}

/// How the records fare that prove names.
#[derive(Default)]
pub(crate) struct Records {
    /// Keys of claims, carried out or not: they stand until an outcome says that they are not needed.
    pub(crate) claimed: BTreeSet<String>,
    /// Keys of those that are carried out.
    pub(crate) carried: BTreeSet<String>,
}

impl Records {
    /// True when there are claims.
    pub(crate) fn are_claimed(&self) -> bool {
        !self.claimed.is_empty()
    }
    /// True when these are the claims that stand.
    fn are(&self, claims: &[Claim]) -> bool {
        let keys: BTreeSet<&str> = claims.iter().map(|claim| &*claim.key).collect();
        self.claimed.iter().map(String::as_str).eq(keys)
    }
}

/// What a pass works with.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) config: &'a Config,
    pub(crate) keep: &'a Keep,
    pub(crate) acme: &'a acme::Acme,
    pub(crate) watches: &'a Watches,
    pub(crate) heirs: &'a Heirs,
    pub(crate) sights: &'a Sights,
}

/// Carries out a batch.
pub(crate) async fn apply(desk: &Desk<'_>, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
    for action in &batch.actions {
        if desk.cx.stop.is_set() {
            return Ok(());
        }
        journal.started(&[action.id]).await?;
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
                desk.advance(desired, &records).await
            }
        };
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
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
            let is_of = |version: &str| issued.has_version(version);
            match self.heirs.heir(name, &output.directory) {
                // A manifest that was renamed: there is no moment without files.
                Some(heir) => {
                    if self.keep.issued(&heir)?.is_none() {
                        self.keep.put_issued(&heir, &issued)?;
                    }
                    let (mark, heir) = (self.keep.mark(name), self.keep.mark(&heir));
                    deliver::hand_over(place, &mark, &heir, &output).await?;
                }
                None => deliver::withdraw(place, &self.keep.mark(name), &output, is_of).await?,
            }
            for left in &left {
                deliver::withdraw(place, &self.keep.mark(name), left, is_of).await?;
            }
        }
        self.end_attempts(name).await?;
        self.keep.forget(name)
    }

    async fn advance(&self, desired: &Resource, records: &Records) -> Outcome {
        let Some(wish) = desired.spec.bytes().and_then(Wish::decode) else {
            return Outcome::Failed(Error::unexpected(format!(
                "what is declared of {} cannot be read",
                desired.id
            )));
        };
        match self.step(&desired.id.0, &wish, records).await {
            Ok(None) => Outcome::Done(self.tracked(desired, &wish).await),
            Ok(Some((recheck_after, claims))) => {
                Outcome::Pending { tracked: self.tracked(desired, &wish).await, recheck_after, claims }
            }
            // Much may have been done before it failed; the next look says what.
            Err(error) => Outcome::Unknown(error),
        }
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
            return match observe::comes_after(self.cx, self.keep, self.heirs, name, &view)? {
                Some(since) => {
                    let now = self.cx.clock.now().as_secs();
                    Ok(Some((patience(SIGNER, since.as_secs(), now), Vec::new())))
                }
                None => Err(deliver::taken(&wish.output, &other)),
            };
        }
        aside(|| self.keep_newer(name, wish, &view))?;
        let standing = aside(|| Standing::look(self.cx, self.keep, name, wish, &view))?;
        let is_good = standing.as_ref().is_some_and(|standing| standing.unlike.is_empty());
        if standing.as_ref().is_some_and(|standing| standing.issued.is_none()) {
            self.keep_theirs(name, wish, &view)?;
            if is_good {
                observe::take_over(self.keep, name, wish, &view)?;
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
            self.acme.introduce(self.cx, self.config, self.keep, authority).await?;
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

    /// One step at one issuer.
    pub(crate) async fn issue_by(
        &self,
        name: &str,
        wish: &Wish,
        records: &Records,
        why: &[Difference],
    ) -> Result<Step, Error> {
        if let Some(step) = self.left_alone(name, wish, records)? {
            return Ok(step);
        }
        let attempt = self.begin(name, wish, why).await?;
        let now = self.cx.clock.now().as_secs();
        let ca = match &wish.issuer {
            Issue::Certificate(_) | Issue::Secret { .. } => {
                match observe::signing(self.cx, self.keep, &wish.issuer)? {
                    Some(ca) => Some(ca),
                    None => {
                        return Ok(Step::Waiting(patience(SIGNER, attempt.begun_at, now), Vec::new()));
                    }
                }
            }
            Issue::SelfSigned | Issue::Acme(_) => None,
        };
        let key = attempt.key.secret();
        let order = attempt.order.clone();
        let signed = match (&wish.issuer, ca) {
            (Issue::Acme(authority), _) => {
                match self.acme.advance(self, name, wish, authority, attempt, &records.carried).await {
                    Ok(Step::Issued(signed)) => signed,
                    // Without an order no record proves anything: they go before it is said why there is none.
                    Ok(Step::Barred(_)) | Err(_) if records.are_claimed() && !self.has_order(name)? => {
                        return Ok(Step::Waiting(Duration::ZERO, Vec::new()));
                    }
                    other => return other,
                }
            }
            (_, Some(ca)) => sign::signed(wish, &key, &ca, now)?,
            (_, None) => sign::self_signed(wish, &key, now)?,
        };
        let facts = match begin::verify(wish, &key, &signed.chain, now) {
            Ok(facts) => facts,
            Err(error) => return self.unfit(name, wish, records, order, error).await,
        };
        let before = self.keep.issued(name)?;
        let is_hurried = before.as_ref().is_some_and(|before| is_hurried(wish, before, why, now));
        let account = self.keep.attempt(name)?.and_then(|attempt| attempt.account);
        let mut over = BTreeSet::new();
        for output in before.iter().map(|issued| &issued.wish.output).chain([&wish.output]) {
            over.extend(deliver::version(&*self.config.place, output).await?);
        }
        let issued = Issued {
            key: Private::of(&key)?,
            chain: signed.chain.clone(),
            ca: Some(signed.ca.clone()).filter(|ca| !ca.is_empty()),
            issuer: Some(wish.issuer.identity()),
            account,
            // Where the files of today are is known until they moved.
            wish: Wish {
                output: before
                    .as_ref()
                    .map_or_else(|| wish.output.clone(), |issued| issued.wish.output.clone()),
                ..wish.clone()
            },
            leaving: before.as_ref().map(|issued| issued.leaving.clone()).unwrap_or_default(),
            told: before.and_then(|issued| issued.told).filter(|told| *told == facts.fingerprint),
            told_units: BTreeSet::new(),
            restarted_units: BTreeSet::new(),
            told_at: 0,
            told_again: 0,
            suggested: None,
            unasked_until: 0,
            over,
            packed: None,
            parsed: Arc::default(),
        };
        let signer = observe::signer(self.cx, self.keep, &wish.issuer);
        let unlike = compare::unlike(wish, &facts, Some(&issued), signer.as_ref(), now);
        let refusal = |message: String| Refusal { name, wish, order, message, bad_key: None };
        match unlike.first() {
            // It may want this one replaced at once as well, and each that follows.
            None if is_hurried => {
                let message = "the one it gave before was new, and it suggested to replace it".into();
                self.refused_while(Some((facts.not_before, facts.not_after)), refusal(message))?;
            }
            None => self.keep.end_refusals(name)?,
            // It is used, as it is better than none; another one at once would be no better, however soon this one ends.
            Some(first) => {
                let message = format!("the new certificate is not as declared ({first})");
                self.refused_while(None, refusal(message))?;
            }
        }
        self.keep.put_issued(name, &issued)?;
        // With another key of its own it has signed nothing yet.
        self.watches.wake_signed_by(name);
        (self.config.passed)("certificate.kept");
        self.end_attempt(name).await?;
        self.keep.end_busy(name)?;
        if wish.issuer.authority().is_none_or(|by| by.solvers.iter().all(|(_, how)| *how != Solver::Persist))
        {
            self.keep.end_lasting(name)?;
        }
        // One that was asked for since then is for this certificate, and stands.
        if self.keep.renewal(name)?.is_some_and(|asked| asked.fingerprint != facts.fingerprint) {
            self.keep.end_renewal(name)?;
        }
        Ok(Step::Issued(signed))
    }

    fn has_order(&self, name: &str) -> Result<bool, Error> {
        Ok(self.keep.attempt(name)?.is_some_and(|attempt| attempt.order.is_some()))
    }

    /// Forgets what was begun at any issuer.
    pub(crate) async fn end_attempts(&self, name: &str) -> Result<(), Error> {
        for keep in &self.keep.issuers(name)? {
            Desk { keep, ..*self }.end_attempt(name).await?;
        }
        Ok(())
    }

    /// Forgets what was begun, and takes away what proved its names.
    pub(crate) async fn end_attempt(&self, name: &str) -> Result<(), Error> {
        if let Some(attempt) = self.keep.attempt(name)? {
            acme::remove_answers(&*self.config.place, &attempt).await?;
        }
        self.keep.end_attempt(name)
    }
}

/// What is wrong with the files while another certificate is on its way. That one is not slowed down by it, not even where a
/// person has to mend it: the next look is when it was told to be.
fn meanwhile(error: Error, recheck: Duration) -> Error {
    let hint = error.hint.clone();
    let message = format!("another certificate is on its way, and then {}", error.chain());
    let told = Error::rate_limited(message).retry_after(recheck);
    match hint {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

/// True when nothing but a moment that the authority suggested is a reason to replace a certificate, which is new.
fn is_hurried(wish: &Wish, today: &Issued, why: &[Difference], now: u64) -> bool {
    let is_suggested = |facts: Facts| {
        let usual = renewal::due_at(facts.not_before, facts.not_after, wish.renew, None);
        now < usual && renewal::is_new(facts.not_before, facts.not_after, now)
    };
    !why.is_empty() && why.iter().all(|why| why.path == "notAfter") && today.facts().is_ok_and(is_suggested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_begins_with_the_namespace() {
        assert_eq!([address("web"), address("shop/web")], ["Certificate/web", "shop/Certificate/web"]);
    }

    #[test]
    fn what_takes_long_is_looked_at_less_often_and_never_forgotten() {
        let wait = |since: u64| patience(SIGNER, 1_000, 1_000 + since).as_secs();
        assert_eq!([0, 8, 40, 400, 1_000_000].map(wait), [2, 2, 10, 100, 300]);
        assert_eq!(patience(SIGNER, 1_000, 0), SIGNER, "a clock that went back");
    }
}
