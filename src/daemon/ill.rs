//! What keeps sources from bringing what they have into force, as `status` shows it: in the same groups as what keeps
//! resources from being in sync, so that whoever watches one watches both.

use super::{Following, Instance, follower::NotInForce};
use crate::store::{ConditionEntry, Stamp, Status};
use std::time::Duration;

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
        let (behind, broken) = troubles(name, following);
        if behind.is_none() && broken.is_none() {
            continue;
        }
        found.extend(behind.into_iter().chain(broken));
        status.sources.iter_mut().filter(|source| *source.source == **name).for_each(|s| s.converged = false);
    }
    if let Some(NotInForce { error, hint, since }) = instance.follower.failure() {
        let said = (format!("no revision can come into force: {error}"), hint.as_deref().unwrap_or(""));
        found.push(trouble("sources", "stalled", "NotInForce", said, Stamp(since)));
        status.sources.iter_mut().for_each(|source| source.converged = false);
    }
    found.append(&mut status.conditions);
    status.conditions = found;
}

/// Why a source is behind, and that its manifests have an error.
fn troubles(name: &str, following: &Following) -> (Option<ConditionEntry>, Option<ConditionEntry>) {
    let subject = format!("source {name}");
    let force = match following.label.as_str() {
        "" => "nothing is in force yet".to_owned(),
        label => format!("{label} stays in force"),
    };
    let behind = following.behind.as_ref().zip(following.behind_since);
    let behind = behind.map(|((error, hint), (since, needs_person))| {
        let kind = if needs_person { "stalled" } else { "waiting" };
        trouble(&subject, kind, "SourceBehind", (format!("{error}; {force}"), hint), Stamp(since))
    });
    let broken = following.broken_since.map(|since| {
        let withheld = !following.offered.is_empty() && following.offered != following.commit;
        let message = match withheld {
            true => format!("its manifests have errors; {force}"),
            false => "its manifests have errors: the rest is applied, nothing of it is deleted".to_owned(),
        };
        let hint = "to see them all: reconciled plan";
        trouble(&subject, "stalled", "InvalidManifests", (message, hint), Stamp(since))
    });
    (behind, broken)
}

fn trouble(
    subject: &str,
    kind: &str,
    reason: &str,
    (message, hint): (String, &str),
    since: Stamp,
) -> ConditionEntry {
    ConditionEntry {
        scope: subject.into(),
        id: None,
        address: None,
        kind: kind.into(),
        reason: reason.into(),
        message,
        hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()),
        since,
        next_try: None,
    }
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
        let (behind, broken) = troubles("infra", &following);
        let behind = behind.unwrap();
        assert_eq!((behind.kind.as_str(), behind.since.0, broken), ("waiting", at(5), None));
        assert_eq!(behind.message, "it is away; abc1234 stays in force");
        following.fall_behind(Some(true), at(10));
        assert_eq!(troubles("infra", &following).0.unwrap().kind, "stalled");
        following.fall_behind(None, at(11));
        following.broken_since = Some(at(12));
        let (behind, broken) = troubles("infra", &following);
        assert_eq!((behind, broken.unwrap().kind.as_str()), (None, "stalled"));
    }
}
