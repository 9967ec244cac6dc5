//! What keeps sources from bringing what they have into force, as `status` shows it: in the same groups as what keeps
//! resources from being in sync, so that whoever watches one watches both.

use super::{
    follower::{Following, NotInForce},
    instance::Instance,
};
use crate::{
    failure::Failure,
    operation::{self, RESTORED},
    source::SourceError,
    store::{ConditionEntry, Stamp, Status},
};
use reconciled_engine::store::ConditionKind;
use std::{collections::BTreeMap, time::Duration};

impl Following {
    /// Takes over whether it is behind, and whether a person has to act.
    pub(super) fn fall_behind(&mut self, needs_person: Option<bool>, now: Duration) {
        let since = self.behind_since.map_or(now, |(since, _)| since);
        self.behind_since = needs_person.map(|needs_person| (since, needs_person));
    }
}

/// Adds the troubles of sources to what is not well.
pub(crate) fn add_sources(instance: &Instance, status: &mut Status) {
    let following = instance.follower.sources();
    let mut found = Vec::new();
    for (name, following) in &following {
        let Some(behind) = behind(name, following) else { continue };
        // That says also what is wrong.
        status.conditions.retain(|known| known.reason != RESTORED || known.scope != behind.scope);
        found.push(behind);
        status.sources.iter_mut().filter(|source| *source.source == **name).for_each(|s| s.converged = false);
    }
    if let Some(NotInForce { error, hint, since }) = instance.follower.failure() {
        let said = (format!("no revision can come into force: {error}"), hint.as_deref().unwrap_or(""));
        found.push(trouble("sources", ConditionKind::Stalled, "NotInForce", said, Stamp(since)));
        status.sources.iter_mut().for_each(|source| source.converged = false);
    }
    found.append(&mut status.conditions);
    status.conditions = found;
}

/// Says in what is wrong with a source of which nothing is in force since when that is known.
pub(crate) fn since_when(instance: &Instance, mut failure: Failure) -> Failure {
    if let Failure::Source(error) = &mut failure
        && let SourceError::NothingInForce { name, since, .. } = &mut **error
    {
        let following = instance.follower.sources();
        let behind = following.get(name.as_str()).and_then(|following| following.behind_since);
        *since = behind.map(|(since, _)| Stamp(since).to_string());
    }
    failure
}

/// Of which sources nothing is in force, with what keeps them from it, for whoever asked about what nobody knows.
pub(crate) async fn without_revision(instance: &Instance) -> Result<Vec<String>, Failure> {
    let (config, now) = (&instance.session.config, instance.session.clock.now());
    let mut status = operation::of_sources(instance.writing.db.reader()).await?;
    add_sources(instance, &mut status);
    operation::add_without_revision(config, &mut status, now);
    Ok(operation::without_revision(config, &status))
}

/// How many sources stand how, for metrics: what needs a person in `status` does here.
pub(crate) fn source_states(instance: &Instance) -> BTreeMap<String, u64> {
    let is_in_force = instance.follower.failure().is_none();
    let mut states = BTreeMap::new();
    for following in instance.follower.sources().values() {
        *states.entry(state(following, is_in_force).to_owned()).or_default() += 1;
    }
    states
}

fn state(following: &Following, is_in_force: bool) -> &'static str {
    match following.behind_since {
        _ if !is_in_force => "stalled",
        Some((_, true)) => "stalled",
        _ if following.broken => "invalid",
        Some((_, false)) => "waiting",
        None => "well",
    }
}

/// Why a source is behind.
fn behind(name: &str, following: &Following) -> Option<ConditionEntry> {
    let force = match following.label.as_str() {
        "" => "nothing is in force yet".to_owned(),
        label => format!("{label} stays in force"),
    };
    let ((error, hint), (since, needs_person)) = following.behind.as_ref().zip(following.behind_since)?;
    let kind = if needs_person { ConditionKind::Stalled } else { ConditionKind::Waiting };
    let said = (format!("{error}; {force}"), &**hint);
    Some(trouble(&format!("source {name}"), kind, "SourceBehind", said, Stamp(since)))
}

fn trouble(
    subject: &str,
    kind: ConditionKind,
    reason: &str,
    (message, hint): (String, &str),
    since: Stamp,
) -> ConditionEntry {
    let told = ConditionEntry::of(subject, kind, reason, message, since);
    if hint.is_empty() { told } else { told.hint(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_waits_for_a_network_and_needs_a_person_for_the_rest() {
        let at = Duration::from_secs;
        let mut following = Following {
            label: "abc1234".into(),
            behind: Some(("it is away".into(), "look".into())),
            ..Following::default()
        };
        following.fall_behind(Some(false), at(5));
        following.fall_behind(Some(false), at(9));
        let found = behind("infra", &following).unwrap();
        assert_eq!((found.kind.as_str(), found.since.0), ("waiting", at(5)));
        assert_eq!((state(&following, true), state(&following, false)), ("waiting", "stalled"));
        assert_eq!(found.message, "it is away; abc1234 stays in force");
        following.fall_behind(Some(true), at(10));
        assert_eq!(behind("infra", &following).unwrap().kind, "stalled");
        assert_eq!(state(&following, true), "stalled");
        following.fall_behind(None, at(11));
        assert_eq!((behind("infra", &following), state(&following, true)), (None, "well"));
        following.broken = true;
        assert_eq!(state(&following, true), "invalid");
    }
}
