//! A person's consent to one held plan, bound to its digest.

use super::suspend::reasoned;
use crate::{
    config::{Approver, SourceConfig},
    consent::{Concerned, barring},
    failure::Failure,
    store::Reader,
    text::short_digest,
};
use reconciled_engine::{
    Desired, Store, Write,
    store::{Approval, Event, Hold},
};
use reconciled_provider::Hash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Fewest digits of a digest.
pub(super) const FEWEST: usize = 6;

/// Consent to this.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApproveAsk {
    /// Digest of the held plan, or its first six digits or more.
    pub digest: String,
    /// Why; kept in the audit trail.
    pub reason: String,
}

/// What was consented to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Approved {
    /// The guard domain, or the plan where it was not held here.
    pub domain: String,
    /// The whole digest.
    pub digest: String,
    /// A plan with this digest is held. Otherwise it is consent ahead of time, which counts once one is.
    #[serde(default)]
    pub held: bool,
    /// When it goes on, in words, where that is not at once: what stops it now, stops a person's word too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<String>,
}

/// Whether somebody who may use the API, and has no other right here, may consent: where `approve` of a source that the
/// plan is about does not name `socket`, consent comes by another way.
///
/// Errors: a source does not let them, or it is not known which sources the plan is about and one of all does not.
pub async fn may_approve(
    sources: &[SourceConfig],
    reader: &Reader,
    desired: &Desired,
    ask: &ApproveAsk,
) -> Result<(), Failure> {
    if sources.iter().all(|source| source.approve.contains(&Approver::Socket)) {
        return Ok(());
    }
    let holds = reader.holds().await?;
    let concerned = Concerned::of(reader, &[desired]).await?;
    let about = find(&holds, &ask.digest).ok().map(|hold| concerned.about(&hold.domain));
    match barring(sources, about.as_ref(), Approver::Socket) {
        None => Ok(()),
        Some(source) => Err(Failure::hinted(
            format!("source {} does not let users of the socket approve", source.name),
            barred_hint(&source.approve),
        )),
    }
}

/// By which of `ways`, those of a source that bars another one, it is consented to.
fn barred_hint(ways: &[Approver]) -> String {
    let ways: Vec<&str> = ways
        .iter()
        .filter_map(|way| match way {
            Approver::Socket => None,
            Approver::PushOption => Some("by `git push -o reconciled.approve=DIGEST`"),
            Approver::Trailer => Some("by a line `Reconciled-Approve: DIGEST` in a commit's message"),
        })
        .collect();
    let other = "as root or the daemon's own user on its host";
    match ways.is_empty() {
        true => format!("consent {other}, or have `approve: [socket]` written there"),
        false => format!("consent {}, or {other}", ways.join(" or ")),
    }
}

/// Puts the consent of `actor` down.
///
/// Errors: no held plan has this digest, or several begin with it; no reason is given.
pub async fn approve(
    store: &dyn Store,
    ask: &ApproveAsk,
    actor: &str,
    at: Duration,
) -> Result<Approved, Failure> {
    reasoned(&ask.reason)?;
    let holds = store.holds().await?;
    let (hold, held) = match (find(&holds, &ask.digest), Hash::from_hex(&ask.digest.to_lowercase())) {
        (Ok(hold), _) => (hold.clone(), true),
        // A whole digest is what a plan made elsewhere showed, and binds as much as a recorded hold.
        (Err(_), Some(digest)) => (unrecorded(digest), false),
        (Err(failure), None) => return Err(failure),
    };
    store.commit(consent(&hold, &ask.reason, actor, at)).await?;
    let once = hold.goes_on().map(str::to_owned);
    Ok(Approved { domain: hold.domain.to_string(), digest: hold.digest.to_string(), held, once })
}

/// What is written when `actor` consents to `hold`.
pub(super) fn consent(hold: &Hold, reason: &str, actor: &str, at: Duration) -> Vec<Write> {
    let event = Event {
        at,
        kind: "approve".into(),
        scope: hold.domain.parse().ok(),
        address: None,
        revision: hold.revision.clone(),
        actor: actor.into(),
        reason: reason.into(),
        message: format!("{} approved: {}", hold.domain, hold.reasons.join("; ")).into(),
    };
    let approval =
        Approval { digest: hold.digest, reason: reason.into(), actor: actor.into(), at, used_at: None };
    vec![Write::Approve(approval), Write::Event(event)]
}

/// A plan that was shown and never applied has left no hold.
fn unrecorded(digest: Hash) -> Hold {
    let reasons = vec!["as planned".into()];
    Hold {
        domain: format!("plan {digest}").into(),
        digest,
        reasons,
        counts: [0; 4],
        revision: "".into(),
        since: Default::default(),
        once: None,
    }
}

/// The hold that `text` means.
fn find<'a>(holds: &'a [Hold], text: &str) -> Result<&'a Hold, Failure> {
    let text = text.to_lowercase();
    let meant: Vec<&Hold> =
        holds.iter().filter(|h| text.len() >= FEWEST && h.digest.to_string().starts_with(&text)).collect();
    if let [hold] = meant[..] {
        return Ok(hold);
    }
    let list: Vec<String> =
        holds.iter().map(|h| format!("{} ({})", short_digest(&h.digest.to_string()), h.domain)).collect();
    let hint = match list.is_empty() {
        true => "nothing is held now; `reconciled apply` looks again, and of what was only planned all 32 digits count".to_string(),
        false => format!("held now: {}", list.join(", ")),
    };
    let message = match meant.len() {
        _ if text.len() < FEWEST => format!("`{text}` is too short: write at least {FEWEST} digits"),
        0 => format!("no held plan has the digest `{text}`"),
        many => format!("`{text}` means {many} held plans"),
    };
    Err(Failure::hinted(message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::Hash;
    use std::time::Duration;

    fn hold(byte: u8) -> Hold {
        Hold {
            domain: format!("pdns/{byte}").into(),
            digest: Hash([0xab, 0xcd, 0xef, byte, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            reasons: Vec::new(),
            counts: [0; 4],
            revision: "".into(),
            since: Duration::ZERO,
            once: None,
        }
    }

    #[test]
    fn who_is_barred_is_told_the_ways_that_are_open() {
        assert!(barred_hint(&[Approver::PushOption]).starts_with("consent by `git push -o"));
        assert!(barred_hint(&[]).starts_with("consent as root"));
    }

    #[test]
    fn a_digest_is_meant_by_six_digits_that_no_other_begins_with() {
        let holds = [hold(1), hold(2)];
        assert_eq!(find(&holds[..1], "ABCDEF").unwrap().domain, holds[0].domain);
        assert_eq!(find(&holds, "abcdef02").unwrap().domain, holds[1].domain);
        for wrong in ["abcde", "abcdef", "123456"] {
            let failure = find(&holds, wrong).unwrap_err();
            assert!(failure.hint().unwrap().contains("abcdef01 (pdns/1), abcdef02 (pdns/2)"), "{failure}");
        }
        assert!(find(&[], "abcdef").unwrap_err().hint().unwrap().starts_with("nothing is held"));
    }
}
