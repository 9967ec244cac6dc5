//! An issuer gave nothing, or nothing of use: it is asked again after a time that grows, and in time for what is in use.

use crate::{
    desk::{Desk, Records, Step, address},
    kept::{LONGEST_REFUSAL, Refusals},
    moment::moment,
    wish::Wish,
};
use reconciled_provider::{Error, Hash};
use std::time::Duration;

/// Waits after refusals in a row; the last one counts for all further ones.
const WAITS: [u64; 9] = [60, 300, 900, 3_600, 7_200, 14_400, 28_800, 57_600, LONGEST_REFUSAL];
/// So many waits at least fit between a refusal and the end of the certificate in use.
const TRIES: u64 = 8;
/// A wait is not shortened below this, as authorities take five failures for a name in an hour; nor below this share of the
/// whole time, where that is a matter of hours.
const SHORTEST: u64 = 720;
const SHORTEST_SHARE: u64 = 96;

/// How long to wait after so many refusals in a row, where the certificate in use is valid `from` and `until` these moments.
///
/// The nearer its end, the sooner: what went wrong may be mended just in time. Past the end it is the other way round.
fn wait_after(count: u32, valid: Option<(u64, u64)>, now: u64) -> u64 {
    let wait = WAITS[(count as usize).clamp(1, WAITS.len()) - 1];
    let Some((from, until)) = valid else { return wait };
    let shortest = SHORTEST.min(until.saturating_sub(from) / SHORTEST_SHARE);
    wait.min((until.abs_diff(now) / TRIES).max(shortest).max(WAITS[0]))
}

/// An issuer's no, or what came of it that cannot be used.
pub(crate) struct Refusal<'r> {
    /// The certificate.
    pub(crate) name: &'r str,
    /// What it was asked for.
    pub(crate) wish: &'r Wish,
    /// The order that came to nothing: it counts once.
    pub(crate) order: Option<String>,
    /// Why.
    pub(crate) message: String,
    /// The key that the issuer will not have.
    pub(crate) bad_key: Option<Hash>,
}

impl Desk<'_> {
    /// Why nobody is asked now: a refusal, or a wish to be left alone.
    pub(crate) fn left_alone(
        &self,
        name: &str,
        wish: &Wish,
        records: &Records,
    ) -> Result<Option<Step>, Error> {
        let now = self.cx.clock.now().as_secs();
        let identity = wish.issuer.words();
        if let Some(busy) =
            self.keep.busy(name)?.filter(|busy| busy.is_on(now) && wish.issuer.is(&busy.server))
        {
            let until = moment(busy.until);
            let message = format!("{identity} asked to be left alone until {until}: {}", busy.message);
            let hint = format!("to try at once all the same: reconciled renew {}", address(name));
            let left = Duration::from_secs(busy.until - now);
            return Err(Error::rate_limited(message).retry_after(left).hint(hint));
        }
        let refusals = self.keep.refusals(name)?;
        if refusals.material != wish.material() || !refusals.is_on(now) {
            return Ok(None);
        }
        if records.are_claimed() {
            return Ok(Some(Step::Waiting(Duration::ZERO, Vec::new())));
        }
        let times = match refusals.count {
            1 => "once".into(),
            count => format!("{count} times in a row"),
        };
        let error = Error::unavailable(format!("{identity}: refused {times}: {}", refusals.message));
        let hint = format!("to try at once after mending it: reconciled renew {}", address(name));
        Err(error.retry_after(Duration::from_secs(refusals.until - now)).hint(hint))
    }

    /// Remembers that an issuer gave nothing.
    pub(crate) fn refused(&self, refusal: Refusal<'_>) -> Result<(), Error> {
        let in_use = self.keep.issued(refusal.name)?.and_then(|issued| issued.facts().ok());
        let valid = in_use.map(|facts| (facts.not_before, facts.not_after));
        self.refused_while(valid, refusal)
    }

    /// The same, where it is waited no longer than makes sense for a certificate that is `valid` from and until these moments.
    pub(crate) fn refused_while(
        &self,
        valid: Option<(u64, u64)>,
        Refusal { name, wish, order, message, bad_key }: Refusal<'_>,
    ) -> Result<(), Error> {
        let before = self.keep.refusals(name)?;
        let material = wish.material();
        let is_same = before.material == material;
        if is_same && order.is_some() && before.order == order {
            return Ok(());
        }
        let count = if is_same { before.count + 1 } else { 1 };
        let bad_key = bad_key.or(before.bad_key.filter(|_| is_same));
        let now = self.cx.clock.now().as_secs();
        let until = now + wait_after(count, valid, now);
        self.keep.put_refusals(name, &Refusals { material, count, until, message, order, bad_key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_the_end_of_a_certificate_the_sooner_who_refused_is_asked_again() {
        const HOUR: u64 = 3_600;
        let check = |count, valid, now, expect| {
            assert_eq!(wait_after(count, valid, now), expect, "{count} times, {valid:?}, at {now}");
        };
        check(1, None, 0, 60);
        check(9, None, 0, 32 * HOUR);
        check(40, None, 0, 32 * HOUR);
        let day = Some((0, 24 * HOUR));
        check(1, day, 12 * HOUR, 60);
        check(9, day, 12 * HOUR, 5_400);
        check(9, day, 20 * HOUR, 1_800);
        check(9, day, 24 * HOUR - 1, 720);
        check(9, day, 32 * HOUR, HOUR);
        check(9, Some((0, 6 * HOUR)), 6 * HOUR, 225);
        check(9, Some((0, HOUR)), HOUR, 60);
        check(9, Some((0, 90 * 24 * HOUR)), 60 * 24 * HOUR, 32 * HOUR);
    }
}
