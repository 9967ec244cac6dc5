//! Carrying out: one step towards the certificate that is declared, from whatever is there.
//!
//! Every kind of action takes the same way, because everything that was begun is on disk: what is being made is looked up,
//! not remembered. The key is kept before anybody hears of it; the certificate is kept before it is put in place; services
//! are told last, and that they were is kept, so that a reload that failed is done again.

use crate::{
    Config,
    compare::Difference,
    deliver,
    kept::{Attempt, Issued, Keep, Private},
    key,
    observe::{self, Standing},
    sign,
    wish::{Issue, Wish},
    x509,
};
use reconciled_provider::{Batch, Claim, Cx, Error, Journal, Op, Outcome, Resource, Secret, Tracked};
use std::{collections::BTreeSet, process::Stdio, time::Duration};

/// How long to wait for a certificate of ours that signs.
const SIGNER: Duration = Duration::from_secs(2);

/// How far a certificate is.
pub(crate) enum Step {
    /// It was issued.
    Issued(sign::Signed),
    /// It is on its way.
    Waiting(Duration, Vec<Claim>),
}

/// What a pass works with.
pub(crate) struct Desk<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) config: &'a Config,
    pub(crate) keep: &'a Keep,
    pub(crate) acme: &'a crate::acme::Acme,
}

/// Carries out a batch.
pub(crate) async fn apply(desk: &Desk<'_>, batch: &Batch, journal: &dyn Journal) -> Result<(), Error> {
    for action in &batch.actions {
        if desk.cx.stop.is_set() {
            return Ok(());
        }
        journal.started(&[action.id]).await?;
        let outcome = match &action.op {
            Op::Delete { .. } => desk.delete(&batch.scope.name),
            Op::Create { desired, .. }
            | Op::Update { desired, .. }
            | Op::Replace { desired, .. }
            | Op::Continue { desired, .. } => {
                let carried = match &action.op {
                    Op::Continue { claims, .. } => {
                        let synced = claims.iter().filter(|claim| claim.synced);
                        synced.map(|claim| claim.key.to_string()).collect()
                    }
                    _ => BTreeSet::new(),
                };
                desk.advance(desired, &carried).await
            }
        };
        journal.finished(vec![(action.id, outcome)]).await?;
    }
    Ok(())
}

impl Desk<'_> {
    fn delete(&self, name: &str) -> Outcome {
        let removed = || -> Result<(), Error> {
            if let Some(issued) = self.keep.issued(name)? {
                deliver::withdraw(name, &issued.wish.output)?;
            }
            self.keep.forget(name)
        };
        match removed() {
            Ok(()) => Outcome::Gone,
            Err(error) => Outcome::Unknown(error),
        }
    }

    async fn advance(&self, desired: &Resource, carried: &BTreeSet<String>) -> Outcome {
        let Some(wish) = desired.spec.bytes().and_then(Wish::decode) else {
            return Outcome::Failed(Error::unexpected(format!(
                "what is declared of {} cannot be read",
                desired.id
            )));
        };
        match self.step(&desired.id.0, &wish, carried).await {
            Ok(None) => self.done(desired, &wish),
            Ok(Some((recheck_after, claims))) => {
                Outcome::Pending { tracked: self.tracked(desired, &wish), recheck_after, claims }
            }
            // Much may have been done before it failed; the next look says what.
            Err(error) => Outcome::Unknown(error),
        }
    }

    fn tracked(&self, desired: &Resource, wish: &Wish) -> Tracked {
        let mut tracked = Tracked::new(desired.id.clone(), desired.spec.hash().unwrap_or_default());
        if let Ok(Some(standing)) = Standing::look(self.cx, self.keep, &desired.id.0, wish) {
            tracked.outputs = observe::outputs(wish, &standing);
        }
        tracked
    }

    fn done(&self, desired: &Resource, wish: &Wish) -> Outcome {
        Outcome::Done(self.tracked(desired, wish))
    }

    /// One step; none when the certificate is where and what it should be.
    async fn step(
        &self,
        name: &str,
        wish: &Wish,
        carried: &BTreeSet<String>,
    ) -> Result<Option<(Duration, Vec<Claim>)>, Error> {
        if let Some(other) = deliver::other_owner(name, &wish.output) {
            return Err(deliver::taken(&wish.output, &other));
        }
        let standing = Standing::look(self.cx, self.keep, name, wish)?;
        let is_good = standing.as_ref().is_some_and(|standing| standing.unlike.is_empty());
        if standing.as_ref().is_some_and(|standing| standing.issued.is_none()) {
            self.keep_theirs(name, wish)?;
            if is_good {
                observe::take_over(self.keep, name, wish)?;
            }
        }
        if !is_good {
            let why = standing.map(|standing| standing.unlike).unwrap_or_default();
            match self.issue(name, wish, carried, &why).await? {
                Step::Waiting(recheck, claims) => return Ok(Some((recheck, claims))),
                Step::Issued(_) => {}
            }
        }
        self.put_in_place(name, wish).await?;
        Ok(None)
    }

    /// What somebody else put where ours goes is kept: it may be the only copy of a key.
    fn keep_theirs(&self, name: &str, wish: &Wish) -> Result<(), Error> {
        let files = deliver::found(&wish.output.directory);
        let files: Vec<_> = files.iter().map(|(name, bytes)| (*name, bytes.to_vec())).collect();
        self.keep.put_replaced(name, self.cx.clock.now().as_secs(), &files)
    }

    async fn issue(
        &self,
        name: &str,
        wish: &Wish,
        carried: &BTreeSet<String>,
        why: &[Difference],
    ) -> Result<Step, Error> {
        let ca = match &wish.issuer {
            Issue::Certificate(_) | Issue::Secret { .. } => {
                match observe::signing(self.cx, self.keep, &wish.issuer)? {
                    Some(ca) => Some(ca),
                    None => return Ok(Step::Waiting(SIGNER, Vec::new())),
                }
            }
            Issue::SelfSigned | Issue::Acme(_) => None,
        };
        let attempt = self.attempt(name, wish, why).await?;
        let key = attempt.key.secret();
        let now = self.cx.clock.now().as_secs();
        let signed = match (&wish.issuer, ca) {
            (Issue::Acme(authority), _) => {
                match self.acme.advance(self, name, wish, authority, attempt, carried).await? {
                    Step::Issued(signed) => signed,
                    waiting => return Ok(waiting),
                }
            }
            (_, Some(ca)) => sign::signed(wish, &key, &ca, now)?,
            (_, None) => sign::self_signed(wish, &key, now)?,
        };
        let facts = verify(wish, &key, &signed.chain, now)?;
        let before = self.keep.issued(name)?;
        let issued = Issued {
            key: Private::of(&key)?,
            chain: signed.chain.clone(),
            ca: Some(signed.ca.clone()).filter(|ca| !ca.is_empty()),
            issuer: Some(wish.issuer.identity()),
            // Where the files of today are is known until they moved.
            wish: Wish {
                output: before
                    .as_ref()
                    .map_or_else(|| wish.output.clone(), |issued| issued.wish.output.clone()),
                ..wish.clone()
            },
            told: before.and_then(|issued| issued.told).filter(|told| *told == facts.fingerprint),
            suggested: None,
            renew_now: false,
        };
        self.keep.put_issued(name, &issued)?;
        (self.config.passed)("certificate.kept");
        self.keep.end_attempt(name)?;
        self.keep.end_refusals(name)?;
        Ok(Step::Issued(signed))
    }

    /// What was begun for this wish, or a new beginning; durable when this returns.
    async fn attempt(&self, name: &str, wish: &Wish, why: &[Difference]) -> Result<Attempt, Error> {
        let material = wish.material();
        let begun = self.keep.attempt(name)?;
        if let Some(attempt) = begun.filter(|attempt| attempt.material == material) {
            return Ok(attempt);
        }
        let issued = self.keep.issued(name)?.filter(|_| wish.keep_key);
        // A key of another kind, or one that another certificate stands beside, is not kept.
        let is_fit = !why.iter().any(|difference| matches!(&*difference.path, "privateKey" | "certificate"));
        let key = match issued.filter(|_| is_fit) {
            Some(issued) => issued.key.secret(),
            None => key::make(wish.key).await?,
        };
        let attempt = Attempt {
            material,
            key: Private::of(&key)?,
            order: None,
            ordered_at: 0,
            challenges: Vec::new(),
            answered: false,
        };
        self.keep.put_attempt(name, &attempt)?;
        Ok(attempt)
    }

    /// Puts what is kept where it is used, and tells services of it.
    async fn put_in_place(&self, name: &str, wish: &Wish) -> Result<(), Error> {
        let Some(mut issued) = self.keep.issued(name)? else {
            return Err(Error::unexpected(format!("the certificate {name} was issued, and is not kept")));
        };
        let fingerprint = issued.facts()?.fingerprint;
        let key = issued.key.secret();
        let files = deliver::files(&wish.output, key.reveal(), &issued.chain, issued.ca.as_deref());
        let is_elsewhere = issued.wish.output.directory != wish.output.directory;
        if !deliver::troubles(&wish.output, &files)?.is_empty() {
            if issued.told.take().is_some() {
                self.keep.put_issued(name, &issued)?;
            }
            deliver::put(name, &fingerprint[..16], &wish.output, &files, self.config.passed)?;
            (self.config.passed)("certificate.put");
        }
        if is_elsewhere {
            deliver::withdraw(name, &issued.wish.output)?;
        }
        let is_told = wish.reload.is_empty() || issued.told.as_ref() == Some(&fingerprint);
        if issued.wish != *wish {
            issued.wish = wish.clone();
            self.keep.put_issued(name, &issued)?;
        }
        if !is_told {
            for unit in &wish.reload {
                self.tell(unit).await?;
            }
            (self.config.passed)("certificate.told");
            issued.told = Some(fingerprint);
            self.keep.put_issued(name, &issued)?;
        }
        Ok(())
    }

    /// Makes a service read its files again.
    async fn tell(&self, unit: &str) -> Result<(), Error> {
        let mut argv = self.config.reload.iter().map(|argument| argument.replace("{unit}", unit));
        let program = argv.next().unwrap_or_default();
        let what = format!("reload {unit} with {program}");
        let mut command = tokio::process::Command::new(&program);
        command.args(argv).stdin(Stdio::null()).kill_on_drop(true);
        let output = match tokio::time::timeout(self.config.timeout, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                let hint = "`reload` of the provider entry is the command; is the program there?";
                return Err(Error::unavailable(what).caused_by(error).hint(hint));
            }
            Err(_) => return Err(Error::unavailable(format!("{what}: no answer in time"))),
        };
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let clean = |c: char| if c.is_control() { ' ' } else { c };
        let said: String = said.trim().chars().map(clean).take(300).collect();
        Err(Error::unavailable(format!("{what}: {}: {said}", output.status)).hint(format!(
            "the new certificate is in place, and {unit} does not use it yet: what does its log say?"
        )))
    }
}

/// Says whether what came is what was asked for.
fn verify(wish: &Wish, key: &Secret, chain: &str, now: u64) -> Result<x509::Facts, Error> {
    let facts = x509::leaf("what the issuer gave", chain)?;
    let wrong = |why: &str| Error::invalid(format!("what the issuer gave for {} {why}", wish.subject()));
    if facts.public != key::public("the key of the certificate", key)? {
        return Err(wrong("is for another key"));
    }
    if !wish.names.is_subset(&facts.names) || !wish.addresses.is_subset(&facts.addresses) {
        return Err(wrong("is not for all of its names"));
    }
    if facts.not_after <= now {
        return Err(wrong("is over already").hint("is the clock of this machine right?"));
    }
    Ok(facts)
}
