//! When the authority would like a certificate renewed (ARI, RFC 9773).

use super::{Acme, client::Fault, jws::base64url, message::RenewalInfo};
use crate::{
    Config,
    kept::{Issued, Keep},
    moment::now,
    renewal::Suggested,
    wish::Authority,
    x509::Facts,
};
use reconciled_provider::{Cx, Error};
use ring::rand::{SecureRandom, SystemRandom};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// How soon the authority is asked again: at least, where it does not say, and at most.
const SOONEST: u64 = 3_600;
const USUAL: u64 = 6 * 3_600;
const LATEST: u64 = 86_400;
const MINUTE: u64 = 60;

/// Names a certificate: which key signed it, and its serial number as it stands there (§4.1).
pub(super) fn id(facts: &Facts) -> Option<String> {
    Some(format!("{}.{}", base64url(facts.authority.as_ref()?), base64url(&facts.serial)))
}

/// Asks, if it is time to, and keeps what came. The moment is chosen once and stays while the window does. One that was
/// adopted may be of another authority, which this one says then.
///
/// What goes wrong is no reason to worry: then the certificate is renewed as if nobody had been asked. One that does not answer
/// is asked by one of its certificates for all, and again as soon as others ask it.
pub async fn suggest(
    acme: &Acme,
    cx: &Cx,
    config: &Config,
    keep: &Keep,
    name: &str,
    authority: &Authority,
) -> Result<(), Error> {
    let Some(issued) = keep.issued(name)? else { return Ok(()) };
    let ask_again = issued.suggested.as_ref().map_or(issued.unasked_until, |suggested| suggested.ask_again);
    // A clock that went back is no reason to wait longer than ever.
    if (now(cx) + 1..=now(cx) + LATEST).contains(&ask_again) {
        return Ok(());
    }
    let facts = issued.facts()?;
    // Of one that is valid for an hour it has to be asked more often.
    let often = |wait: u64| wait.min((facts.not_after.saturating_sub(facts.not_before) / 10).max(MINUTE));
    let Some(id) = id(&facts) else { return Ok(()) };
    let client = acme.client(keep, authority, config)?;
    client.answers(cx)?;
    client.may_ask(cx, 0, false)?;
    let asked = async || -> Result<Option<Suggested>, Fault> {
        let Some(url) = client.directory(cx).await?.renewal_info.clone() else { return Ok(None) };
        let what = format!("ask when {name} should be renewed");
        let answer = client.get(cx, &format!("{}/{id}", url.trim_end_matches('/')), &what).await?;
        let wait = answer.retry_after.map_or(USUAL, |wait| wait.as_secs().clamp(SOONEST, LATEST));
        let info: RenewalInfo = answer.json(&what)?;
        let bad = || Error::unexpected(format!("{what}: the window is none"));
        let seconds = |text: &str| {
            let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| bad())?;
            Ok::<u64, Error>(moment.unix_timestamp().max(0) as u64)
        };
        let window = (seconds(&info.suggested_window.start)?, seconds(&info.suggested_window.end)?);
        if window.0 >= window.1 {
            return Err(bad().into());
        }
        let before = issued.suggested.as_ref().filter(|before| before.window == window);
        let at = before.map_or_else(|| choose(window), |before| before.at);
        // One that was to come when it was told is no such thing, however late it is by now.
        let is_over = before.map_or(window.1 <= now(cx), |before| before.is_over);
        let ask_again = now(cx) + often(wait);
        Ok(Some(Suggested { window, at, is_over, ask_again, explanation: info.explanation }))
    };
    let (suggested, unasked_until, result) = match asked().await {
        Ok(Some(suggested)) => (Some(suggested), 0, Ok(())),
        // It is not known to have nothing to say.
        Err(fault) if client.is_silent(cx) || client.is_being_asked() => return Err(fault.into_error()),
        // Also one that suggests nothing to anybody is asked again later, with what was said before still standing: each process
        // would have to ask whether it does by now.
        other => {
            let ask_again = now(cx) + often(USUAL);
            let before = issued.suggested.clone().map(|before| Suggested { ask_again, ..before });
            (before, ask_again, other.map(drop).map_err(Fault::into_error))
        }
    };
    // Another one may have been issued meanwhile, which must not be lost.
    if let Some(today) = keep.issued(name)?.filter(|today| today.chain == issued.chain) {
        keep.put_issued(name, &Issued { suggested, unasked_until, ..today })?;
    }
    result
}

/// A moment within the window, at random: not everybody at once.
fn choose((start, end): (u64, u64)) -> u64 {
    let mut bytes = [0; 8];
    let random = match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    };
    start + random % (end - start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_name_of_a_certificate_is_that_of_the_rfc() {
        // RFC 9773 §4.1, the example.
        let facts = Facts {
            names: BTreeSet::new(),
            addresses: BTreeSet::new(),
            common_name: None,
            issuer: String::new(),
            key: None,
            is_ca: false,
            usages: BTreeSet::new(),
            not_before: 0,
            not_after: 0,
            public: Vec::new(),
            fingerprint: String::new(),
            authority: Some(vec![
                0x69, 0x88, 0x5B, 0x6B, 0x87, 0x46, 0x40, 0x41, 0xE1, 0xB3, 0x7B, 0x84, 0x7B, 0xA0, 0xAE,
                0x2C, 0xDE, 0x01, 0xC8, 0xD4,
            ]),
            subject_key: None,
            serial: vec![0x00, 0x87, 0x65, 0x43, 0x21],
        };
        assert_eq!(id(&facts).as_deref(), Some("aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"));
    }

    #[test]
    fn the_moment_is_in_the_window() {
        for _ in 0..100 {
            assert!((10..13).contains(&choose((10, 13))));
        }
    }
}
