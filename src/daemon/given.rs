//! Consent that came with a push which Git has not taken yet, and whether it has.
//!
//! Guarantees: it is handed out only to who gave it, for the commit and the ref that it was given with, and once. Whether Git has
//! taken the push is seen in the repository: whoever may use the socket can say so. A reload
//! keeps it; a restart forgets it, after which nothing is consented to. Whether it counts by the configuration of then is
//! asked by who [takes](crate::operation::take) it.

use super::follower::Follower;
use crate::{
    config::Config,
    failure::Failure,
    operation::{Given, PushAsk, PushFollow, moved},
    session::{judge_pushed, reach},
    source::Reach,
    text::short_commit,
};
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// Of so many pushes it is remembered.
const KEPT: usize = 100;

/// The consent of the newest pushes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<VecDeque<Push>>);

#[derive(Debug)]
struct Push {
    repository: String,
    reference: String,
    commit: String,
    actor: String,
    /// How the ref stood to the commit then.
    before: Reach,
    /// None once it was handed out.
    given: Option<Vec<Given>>,
}

impl Pending {
    /// Remembers what `actor` consents to if the push is taken, in place of what they said with the same push before, and how its
    /// ref stood to its commit `before` that.
    pub(crate) fn put(&self, ask: &PushAsk, actor: &str, given: Vec<Given>, before: Reach) {
        if ask.approve.is_empty() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|push| !push.is(&ask.repository, &ask.reference, &ask.commit, actor));
        if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(Push {
            repository: ask.repository.clone(),
            reference: ask.reference.clone(),
            commit: ask.commit.clone(),
            actor: actor.to_owned(),
            before,
            given: Some(given),
        });
    }

    /// What `actor` consents to with the push that was taken, and how its ref stood to it before; nothing the second time, where
    /// several sources follow it. None where no plan was made with it.
    pub(super) fn take(&self, ask: &PushFollow, actor: &str) -> Option<(Vec<Given>, Reach)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let push =
            all.iter_mut().find(|push| push.is(&ask.repository, &ask.reference, &ask.commit, actor))?;
        let mut given = push.given.take().unwrap_or_default();
        given.retain(|given| ask.approve.contains(&given.text));
        Some((given, push.before))
    }
}

/// Looks whether Git has taken the push since its ref stood `before` so to its commit, and every source that it moves takes it.
///
/// Errors: why it is no push that may consent; the repository cannot be read.
pub(super) async fn was_taken(
    config: &Config,
    follower: &Follower,
    ask: &PushFollow,
    before: Reach,
) -> Result<(), Failure> {
    let PushFollow { repository, reference, commit, .. } = ask;
    if !reach(repository, reference, commit).await?.came_since(before) {
        let short = short_commit(commit);
        let why = format!("{reference} of {repository} has not come to {short} since that was planned");
        return Err(Failure::plain(why));
    }
    let following = follower.sources();
    for source in moved(config, repository, reference) {
        let in_force = following.get(&source.name).map(|following| following.commit.as_str());
        let in_force = in_force.filter(|commit| !commit.is_empty());
        judge_pushed(&source, repository, reference, in_force, commit).await?;
    }
    Ok(())
}

impl Push {
    fn is(&self, repository: &str, reference: &str, commit: &str, actor: &str) -> bool {
        self.repository == repository
            && self.reference == reference
            && self.commit == commit
            && self.actor == actor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Form, Upload};
    use reconciled_engine::store::Hold;
    use reconciled_provider::Hash;
    use std::{collections::BTreeSet, time::Duration};

    #[test]
    fn consent_is_handed_out_once_to_who_gave_it_with_the_same_push() {
        let ask = |commit: &str| PushAsk {
            repository: "/r".into(),
            reference: "refs/heads/main".into(),
            commit: commit.into(),
            upload: Upload::default(),
            approve: vec!["aaaaaa".into(), "bbbbbb".into()],
            trailers: Vec::new(),
            form: Form::default(),
            signed: None,
        };
        let follow = |commit: &str, approve: &[&str]| PushFollow {
            repository: "/r".into(),
            source: "infra".into(),
            reference: "refs/heads/main".into(),
            commit: commit.into(),
            wait: None,
            accept_rewind: false,
            approve: approve.iter().map(ToString::to_string).collect(),
            claimed: None,
            moves: Vec::new(),
        };
        let given = |text: &str| Given {
            text: text.into(),
            hold: Hold {
                domain: "pdns/a".into(),
                digest: Hash::of(text.as_bytes()),
                reasons: Vec::new(),
                counts: [0; 4],
                revision: "".into(),
                since: Duration::ZERO,
                once: None,
            },
            about: BTreeSet::new(),
        };
        let pending = Pending::default();
        let nothing = |before| Some((Vec::new(), before));
        pending.put(&ask("1"), "ann", vec![given("aaaaaa"), given("bbbbbb")], Reach::Beyond);
        assert_eq!(pending.take(&follow("1", &["aaaaaa"]), "bob"), None);
        assert_eq!(pending.take(&follow("2", &["aaaaaa"]), "ann"), None);
        let taken = pending.take(&follow("1", &["aaaaaa"]), "ann");
        assert_eq!(taken, Some((vec![given("aaaaaa")], Reach::Beyond)));
        assert_eq!(pending.take(&follow("1", &["aaaaaa"]), "ann"), nothing(Reach::Beyond));
        // Planned with consent, and pushed without.
        pending.put(&ask("1"), "ann", vec![given("aaaaaa")], Reach::Without);
        assert_eq!(pending.take(&follow("1", &[]), "ann"), nothing(Reach::Without));
        for commit in 0..=KEPT {
            pending.put(&ask(&format!("c{commit}")), "ann", Vec::new(), Reach::Without);
        }
        assert_eq!(pending.take(&follow("c0", &[]), "ann"), None);
        assert_eq!(pending.take(&follow("c1", &[]), "ann"), nothing(Reach::Without));
    }
}
