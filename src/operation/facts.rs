//! What remotes say of scopes besides their resources, such as the serial of a zone at each name server.
//!
//! The only part of `status` that reaches a remote, and only where it is asked to.

use super::read::{FactEntry, StatusAnswer};
use crate::session::Session;
use futures_util::future::join_all;
use reconciled_provider::{Error, Scope};
use std::{collections::BTreeSet, time::Duration};

/// Scopes asked for at most: an address such as `Zone/*` may mean thousands.
const MOST: usize = 20;
/// How long a person who looks is to wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// Adds the facts of every scope of the resources in `answer`; where it is to be `quick`, of those alone whose remotes are
/// asked how things fare by each pass.
pub async fn add_facts(session: &Session, answer: &mut StatusAnswer, quick: bool) {
    let scopes: BTreeSet<Scope> =
        answer.resources.iter().filter_map(|resource| resource.tracked.scope.parse().ok()).collect();
    if scopes.len() > MOST {
        let text = format!("facts of the first {MOST} of {} scopes are told: name fewer", scopes.len());
        answer.messages.push(text);
    }
    let asked = scopes.iter().take(MOST).filter_map(|scope| {
        let observer = session.observer(&scope.provider)?;
        if quick && !observer.tells_health() {
            return None;
        }
        Some(async move {
            let found = tokio::time::timeout(PATIENCE, observer.facts(&session.surveyor.cx, scope)).await;
            let late = |_| Err(Error::unavailable("no answer in time"));
            (scope, found.unwrap_or_else(late))
        })
    });
    for (scope, found) in join_all(asked).await {
        let entry = |fact: reconciled_provider::Fact| FactEntry {
            scope: scope.to_string(),
            name: fact.name,
            value: fact.value,
        };
        match found {
            Ok(facts) => answer.facts.extend(facts.into_iter().map(entry)),
            Err(error) => answer.messages.push(format!("{scope}: {}", error.chain())),
        }
    }
}
