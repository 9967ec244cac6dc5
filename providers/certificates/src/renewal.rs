//! When a certificate is due. Pure.
//!
//! Never past the last twentieth of its time, whatever the authority suggests or a manifest says: an outage of the authority
//! must not become one of the service.

use crate::wish::Renew;
use serde::{Deserialize, Serialize};

/// Up to this lifetime half of the time is kept in reserve instead of a third.
const SHORT: u64 = 10 * 86_400;
const HOUR: u64 = 3_600;

/// A moment that the authority suggested (ARI, RFC 9773), chosen once within its window and kept while the window stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggested {
    /// The window, in seconds since 1970.
    pub window: (u64, u64),
    /// The moment chosen in it.
    pub at: u64,
    /// The window was over when the authority told of it first: it has taken the certificate back, or is about to.
    #[serde(default)]
    pub is_over: bool,
    /// When the authority is asked again.
    pub ask_again: u64,
    /// Why, where it says so.
    pub explanation: Option<String>,
}

/// When a certificate that is valid from `not_before` to `not_after` is due.
pub fn due_at(not_before: u64, not_after: u64, renew: Renew, suggested: Option<&Suggested>) -> u64 {
    let lifetime = not_after.saturating_sub(not_before);
    let share = if lifetime <= SHORT { lifetime / 2 } else { lifetime / 3 };
    let reserve = match renew {
        Renew::Usual => share,
        // A reserve as long as the whole time would renew for ever.
        Renew::Before(seconds) if seconds >= lifetime => share,
        Renew::Before(seconds) => seconds,
        Renew::Percent(percent) => lifetime.saturating_mul(u64::from(percent.min(99))) / 100,
    };
    let latest = not_after.saturating_sub(lifetime / 20);
    let usual = not_after.saturating_sub(reserve).min(latest);
    // A window that begins before the certificate does was not meant for it, and would renew it for ever.
    let suggested = suggested.filter(|suggested| suggested.window.0 >= not_before);
    match (suggested, renew) {
        // What a person wrote counts more than what the authority would like, but for a window that came early.
        (Some(suggested), Renew::Usual) => suggested.at.min(latest),
        (Some(suggested), _) => suggested.at.min(usual),
        (None, _) => usual,
    }
}

/// True when one that is valid from `not_before` to `not_after` is so new that nobody has use for another one, unless the
/// authority took it back.
pub fn is_new(not_before: u64, not_after: u64, now: u64) -> bool {
    let lifetime = not_after.saturating_sub(not_before);
    // Most are dated back by an hour.
    now < not_before + (lifetime / 20).max(HOUR.min(lifetime / 4))
}

/// When to tell a person that a renewal is late: half of the time between when it was due and the end.
pub fn late_at(due_at: u64, not_after: u64) -> u64 {
    due_at + not_after.saturating_sub(due_at) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn a_third_is_kept_in_reserve_and_half_of_a_short_time() {
        let check = |days, renew, expect| {
            assert_eq!(due_at(DAY, DAY + days * DAY, renew, None), DAY + expect, "{days} days, {renew:?}")
        };
        check(90, Renew::Usual, 60 * DAY);
        check(45, Renew::Usual, 30 * DAY);
        check(10, Renew::Usual, 5 * DAY);
        check(90, Renew::Before(10 * DAY), 80 * DAY);
        check(90, Renew::Percent(50), 45 * DAY);
        check(1, Renew::Percent(99), DAY - DAY * 99 / 100);
        assert_eq!(due_at(0, 299, Renew::Percent(50), None), 150, "shares of a short time are not cut");
        assert!(due_at(0, u64::MAX, Renew::Percent(99), None) > 0);
        // A reserve of the whole time is none, and one of nothing is a twentieth.
        check(90, Renew::Before(90 * DAY), 60 * DAY);
        check(100, Renew::Before(0), 95 * DAY);
    }

    #[test]
    fn what_the_authority_suggests_counts_but_never_near_the_end() {
        let at = |at| Suggested { window: (at, at + 1), at, is_over: false, ask_again: 0, explanation: None };
        assert_eq!(due_at(0, 90 * DAY, Renew::Usual, Some(&at(70 * DAY))), 70 * DAY);
        assert_eq!(due_at(0, 90 * DAY, Renew::Usual, Some(&at(5 * DAY))), 5 * DAY, "revoked");
        assert_eq!(due_at(0, 100 * DAY, Renew::Usual, Some(&at(99 * DAY))), 95 * DAY);
        assert_eq!(due_at(DAY, 91 * DAY, Renew::Usual, Some(&at(DAY - 1))), 61 * DAY, "before it began");
        assert_eq!(due_at(0, 90 * DAY, Renew::Before(30 * DAY), Some(&at(80 * DAY))), 60 * DAY);
    }

    #[test]
    fn new_is_what_was_issued_a_moment_ago_as_times_go() {
        let check = |lifetime, until| {
            let is_new = |after| is_new(DAY, DAY + lifetime, DAY + after);
            assert_eq!([is_new(0), is_new(until - 1), is_new(until)], [true, true, false], "{lifetime}");
        };
        check(90 * DAY, 90 * DAY / 20);
        check(6 * DAY, 6 * DAY / 20);
        check(6 * HOUR, HOUR);
        check(HOUR, HOUR / 4);
        assert!(is_new(DAY, 91 * DAY, 0), "a clock that is behind");
    }

    #[test]
    fn late_is_half_way_between_due_and_the_end() {
        assert_eq!(late_at(60 * DAY, 90 * DAY), 75 * DAY);
        assert_eq!(late_at(90, 80), 90);
    }
}
