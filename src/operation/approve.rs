//! A person's consent to one held plan, bound to its digest.

use crate::{
    config::{Approver, SourceConfig},
    session::Failure,
    store::Reader,
};
use reconciled_engine::{
    Desired, Store, Write,
    store::{Approval, Event, Hold},
};
use reconciled_provider::{Hash, ManifestKey, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, time::Duration};

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
    let about = match find(&holds, &ask.digest) {
        Ok(hold) => {
            let is_of = |scope: &Scope| *hold.domain == *scope.to_string() || hold.domain == scope.provider;
            let declared = desired.scopes.iter().filter(|(scope, _)| is_of(scope));
            let declared = declared.flat_map(|(_, list)| list);
            let mut about: BTreeSet<String> =
                declared.map(|resource| desired.manifest(resource.origin).key.source().to_string()).collect();
            let rows = reader.rows(None).await?;
            let rows = rows.iter().filter(|row| row.scope.parse::<Scope>().is_ok_and(|scope| is_of(&scope)));
            about.extend(rows.map(|row| ManifestKey(row.manifest.as_str().into()).source().to_string()));
            Some(about)
        }
        Err(_) => None,
    };
    match barring(sources, about.as_ref()) {
        None => Ok(()),
        Some(source) => Err(Failure::hinted(
            format!("source {} does not let users of the socket approve", source.name),
            barred_hint(&source.approve),
        )),
    }
}

/// The first source that bars it; `about` none for a plan that may be about any.
fn barring<'s>(sources: &'s [SourceConfig], about: Option<&BTreeSet<String>>) -> Option<&'s SourceConfig> {
    let is_meant = |source: &&SourceConfig| about.is_none_or(|about| about.contains(&*source.name));
    sources.iter().filter(is_meant).find(|source| !source.approve.contains(&Approver::Socket))
}

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
/// Errors: no held plan has this digest, or several begin with it.
pub async fn approve(
    store: &dyn Store,
    ask: &ApproveAsk,
    actor: &str,
    at: Duration,
) -> Result<Approved, Failure> {
    let holds = store.holds().await?;
    let hold = match (find(&holds, &ask.digest), Hash::from_hex(&ask.digest.to_lowercase())) {
        (Ok(hold), _) => hold.clone(),
        // A whole digest is what a plan made elsewhere showed, and binds as much as a recorded hold.
        (Err(_), Some(digest)) => unrecorded(digest),
        (Err(failure), None) => return Err(failure),
    };
    store.commit(consent(&hold, &ask.reason, actor, at)).await?;
    Ok(Approved { domain: hold.domain.to_string(), digest: hold.digest.to_string() })
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
        holds.iter().map(|h| format!("{} ({})", &h.digest.to_string()[..8], h.domain)).collect();
    let hint = match list.is_empty() {
        true => "nothing is held now; `reconciled apply` looks again".to_string(),
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
        }
    }

    #[test]
    fn the_socket_consents_only_where_every_source_of_the_plan_lets_it() {
        let text = "sources:\n  - {name: a, url: /a, allow: all}\n  - {name: b, url: /b, allow: all, approve: [push-option]}\n";
        let file = reconciled_provider::SourceFile::new("c.yaml", text);
        let (config, problems) = crate::config::parse(file.into(), &Default::default());
        assert_eq!(problems, []);
        let sources = config.unwrap().sources;
        let barred = |about: Option<&[&str]>| {
            let about = about.map(|names| names.iter().map(ToString::to_string).collect());
            barring(&sources, about.as_ref()).map(|source| source.name.to_string())
        };
        assert_eq!(barred(Some(&["a"])), None);
        assert_eq!(barred(Some(&["a", "b"])).as_deref(), Some("b"));
        assert_eq!(
            barred(None).as_deref(),
            Some("b"),
            "a plan of which nothing is known may be of any source"
        );
        assert!(barred_hint(&sources[1].approve).starts_with("consent by `git push -o"));
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
