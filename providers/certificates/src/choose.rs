//! Which of its issuers a certificate is asked of: in the order declared, the next one where one fails.
//!
//! One has failed when it refused, wants nothing to do with our account there, asked to be left alone for long, or has not
//! answered for long. What is wrong with what is declared is no failure: another issuer would only hide it. What was begun at one
//! is gone on with first, so that no order is left behind.

use crate::{
    compare::Difference,
    desk::{Desk, Records, Step, address},
    kept::Asked,
    moment::moment,
    wish::{Authority, Issue, Solver, Wish},
};
use reconciled_provider::{Error, ErrorKind, Hash, Renewal};

/// How long an issuer may be away, or ask to be left alone, before the next one is asked.
const PATIENCE: u64 = 600;
/// How often one that is away is asked again meanwhile.
const PROBE: u64 = 900;

impl Desk<'_> {
    /// One step towards a certificate, at the first issuer that does not fail.
    pub(crate) async fn issue(
        &self,
        name: &str,
        wish: &Wish,
        records: &Records,
        why: &[Difference],
    ) -> Result<Step, Error> {
        let mut failed: Option<Error> = None;
        for (number, wish) in self.candidates(name, wish)? {
            let keep = self.keep.of_issuer(number);
            let desk = Desk { keep: &keep, ..*self };
            let (error, has_failed) = match desk.issue_unless_away(name, &wish, records, why).await {
                Ok(Step::Issued(signed)) => {
                    // What was begun at others is of no use any more.
                    self.end_attempts(name).await?;
                    return Ok(Step::Issued(signed));
                }
                Ok(waiting @ Step::Waiting(..)) => return Ok(waiting),
                Ok(Step::Barred(error)) => (error, true),
                Err(error) => {
                    let has_failed = desk.has_failed(name, &wish, &error)?;
                    (error, has_failed)
                }
            };
            failed = Some(match failed {
                None => error,
                Some(before) => both(before, &error),
            });
            if !has_failed {
                break;
            }
        }
        Err(failed.unwrap_or_else(|| Error::unexpected(format!("nobody issues the certificate {name}"))))
    }

    /// What is wished for of each issuer, in the order they are asked, and the number that what is kept of it has.
    fn candidates(&self, name: &str, wish: &Wish) -> Result<Vec<(usize, Wish)>, Error> {
        let fingerprint = match self.keep.issued(name)? {
            Some(issued) => issued.facts().map(|facts| facts.fingerprint).unwrap_or_default(),
            None => String::new(),
        };
        let mut asked =
            self.keep.renewal(name)?.filter(|asked| asked.fingerprint == fingerprint).unwrap_or_default();
        if asked.issuer.as_ref().is_some_and(|issuer| !wish.issuer_names.contains(issuer)) {
            // It is not declared any more.
            asked = Asked::default();
        }
        let is_meant = |place: usize| match &asked.issuer {
            Some(issuer) => wish.issuer_names.get(place) == Some(issuer),
            None => true,
        };
        let wishes: Vec<Wish> =
            wish.issuers().map(|issuer| by_way(wish.by(issuer), asked.solver.as_deref())).collect();
        let numbers = self.numbers(name, &wishes)?;
        let all = numbers.into_iter().zip(wishes).enumerate();
        let mut all: Vec<(usize, Wish)> =
            all.filter(|(place, _)| is_meant(*place)).map(|(_, candidate)| candidate).collect();
        let mut begun = Vec::new();
        for (number, wish) in &all {
            let attempt = self.keep.of_issuer(*number).attempt(name)?;
            begun.push(attempt.is_some_and(|it| it.order.is_some() && it.material == wish.material()));
        }
        if let Some(first) = begun.iter().position(|begun| *begun) {
            let candidate = all.remove(first);
            all.insert(0, candidate);
        }
        Ok(all)
    }

    /// The number that what is kept of each of these has. They may have been declared in another order when it was begun, or
    /// refused.
    fn numbers(&self, name: &str, wishes: &[Wish]) -> Result<Vec<usize>, Error> {
        let mut kept = Vec::new();
        for keep in self.keep.issuers(name)? {
            let (attempt, refusals) = (keep.attempt(name)?, keep.refusals(name)?);
            let refused = Some(refusals.material).filter(|_| refusals.count > 0);
            kept.push((keep.number(), [attempt.map(|attempt| attempt.material), refused]));
        }
        let mut numbers: Vec<Option<usize>> = vec![None; wishes.len()];
        for (place, wish) in wishes.iter().enumerate() {
            let material = Some(wish.material());
            let is_own = |(number, materials): &&(usize, [Option<Hash>; 2])| {
                materials.contains(&material) && !numbers.contains(&Some(*number))
            };
            let mut own = kept.iter().filter(is_own).map(|(number, _)| *number);
            let first = own.next();
            numbers[place] = if own.any(|number| number == place) { Some(place) } else { first };
        }
        for place in 0..numbers.len() {
            let is_free = |number: &usize| !numbers.contains(&Some(*number));
            let free = std::iter::once(place).chain(0..).find(is_free);
            numbers[place] = numbers[place].or(free);
        }
        Ok(numbers.into_iter().flatten().collect())
    }

    /// As [`Desk::issue_by`], but one that is known to be away is not asked again at every retry.
    async fn issue_unless_away(
        &self,
        name: &str,
        wish: &Wish,
        records: &Records,
        why: &[Difference],
    ) -> Result<Step, Error> {
        let now = self.cx.clock.now().as_secs();
        if let Some(outage) = self.keep.outage(name)?
            && outage.asked_at.saturating_sub(outage.since) >= PATIENCE
            && (outage.asked_at..outage.asked_at + PROBE).contains(&now)
        {
            let (who, since) = (wish.issuer.identity(), moment(outage.since));
            let error =
                Error::unavailable(format!("{who} has not answered since {since}: {}", outage.message));
            let left = std::time::Duration::from_secs(outage.asked_at + PROBE - now);
            return Err(error.retry_after(left));
        }
        self.issue_by(name, wish, records, why).await
    }

    /// True when an error is one that the next issuer makes up for.
    fn has_failed(&self, name: &str, wish: &Wish, error: &Error) -> Result<bool, Error> {
        let now = self.cx.clock.now().as_secs();
        let refusals = self.keep.refusals(name)?;
        if refusals.material == wish.material() && refusals.is_on(now) {
            return Ok(true);
        }
        let wait = error.retry_after.unwrap_or_default().as_secs();
        if error.kind == ErrorKind::RateLimited && wait >= PATIENCE {
            return Ok(true);
        }
        let outage = self.keep.outage(name)?;
        Ok(outage.is_some_and(|outage| now.saturating_sub(outage.since) >= PATIENCE))
    }
}

/// Refuses a way that a certificate cannot be had in.
pub(crate) fn check(name: &str, wish: &Wish, way: &Renewal) -> Result<(), Error> {
    if let Some(issuer) = way.issuer.as_ref().filter(|issuer| !wish.issuer_names.contains(issuer)) {
        let all = wish.issuer_names.join(", ");
        return Err(Error::unsupported(format!("`{issuer}` is no issuer of {}", address(name)))
            .hint(format!("it has {all}; another one is named in `issuerRefs`")));
    }
    let Some(word) = &way.solver else { return Ok(()) };
    let numbers = wish.issuer_names.iter().zip(wish.issuers());
    let meant = numbers.filter(|(known, _)| way.issuer.as_ref().is_none_or(|issuer| issuer == *known));
    let can = |issuer: &Issue| match issuer {
        Issue::Acme(authority) => {
            authority.solvers.iter().all(|(name, solver)| other(authority, name, solver, word).is_some())
        }
        _ => false,
    };
    let mut issuers = meant.map(|(_, issuer)| issuer).peekable();
    if issuers.peek().is_some() && issuers.any(can) {
        return Ok(());
    }
    Err(Error::unsupported(format!("no solver `{word}` of its issuer proves all names of {}", address(name)))
        .hint("the words are dns01, http01, tlsAlpn01 and dnsPersist01, and one such has to be in `solvers` of the issuer"))
}

/// The same, proven in this way as far as its names can be.
fn by_way(mut wish: Wish, way: Option<&str>) -> Wish {
    if let (Some(word), Issue::Acme(authority)) = (way, &mut wish.issuer) {
        let solvers = authority.solvers.iter();
        let solvers = solvers.map(|(name, solver)| {
            let other = other(authority, name, solver, word).unwrap_or(solver);
            (name.clone(), other.clone())
        });
        authority.solvers = solvers.collect();
    }
    wish
}

/// How `name` is proven in the way that `word` names.
fn other<'a>(authority: &'a Authority, name: &str, solver: &'a Solver, word: &str) -> Option<&'a Solver> {
    let is_meant = |solver: &Solver| [solver.key(), solver.word()].contains(&word);
    if is_meant(solver) {
        return Some(solver);
    }
    let mut others = authority.others.iter().filter(|(other, _)| other == name);
    others.find(|(_, other)| is_meant(other)).map(|(_, other)| other)
}

/// Two things failed: both are said, and the one that may be tried first says when.
pub(crate) fn both(first: Error, second: &Error) -> Error {
    let wait = first.retry_after.into_iter().chain(second.retry_after).min();
    // The first one is asked again, whatever is wrong with the second.
    let kind = if second.kind.stalls() { first.kind } else { second.kind };
    let mut error = Error::new(kind, format!("{}; and then {}", first.chain(), second.chain()));
    error.hint = first.into_told().hint.or_else(|| second.hint.clone());
    error.retry_after = wait;
    error
}

impl Asked {
    /// What a person wants at `at`, in seconds since 1970, of the certificate with this fingerprint.
    pub(crate) fn of(fingerprint: String, way: &Renewal, at: u64) -> Asked {
        Asked { fingerprint, issuer: way.issuer.clone(), solver: way.solver.clone(), at }
    }
}
