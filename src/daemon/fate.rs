//! How the commit in force of each source fares: for metrics, notifications and commit statuses.
//!
//! Guarantees: a fate is of one commit, and nothing that was found before the commit came into force decides it. Each commit
//! that another one takes the place of is looked at as it stood then, however quickly that comes.
//! Level-triggered: it is worked out from how things stand, so a missed message delays it and makes nothing wrong
//! but the number of changes.

mod watch;

pub(super) use watch::watch;

use super::follower::{Following, Told};
use reconciled_engine::{
    Desired,
    scheduler::{Stance, Standing},
};
use reconciled_provider::Scope;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Weak},
};

/// How a commit fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It is being brought about, or waits for time.
    #[default]
    Pending,
    /// All of it was found in sync.
    Converged,
    /// A person must consent or act.
    NeedsPerson,
    /// It fails, and is tried again.
    Failing,
    /// Its manifests have an error.
    Invalid,
}

/// How one commit fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Full commit id.
    pub commit: Arc<str>,
    /// In one word.
    pub verdict: Verdict,
    /// Actions that were done since it came into force.
    pub changed: usize,
    /// Scopes that wait for consent.
    pub held: usize,
    /// Scopes that need a person, or fail.
    pub troubled: usize,
}

/// How the commits of a source fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fared {
    /// The one in force.
    pub now: Fate,
    /// The one that its manifests keep from coming into force.
    pub withheld: Option<Fate>,
    /// What those came to that were in force before, the newest last, and not all of them.
    pub left: VecDeque<Fate>,
    /// How many there were of those since the instance began.
    pub count: u64,
}

/// How the commits of each source fare.
pub type Fates = BTreeMap<Arc<str>, Fared>;

/// Commits of a source that are not in force any more and whose fate is kept for whoever looks late.
const LEFT: usize = 16;

impl Fared {
    fn leave(&mut self, fate: Fate) {
        self.left.push_back(fate);
        self.count += 1;
        if self.left.len() > LEFT {
            self.left.pop_front();
        }
    }
}

/// What passes did for each source's commit.
#[derive(Default)]
struct Changed(BTreeMap<Arc<str>, Count>);

#[derive(Default)]
struct Count {
    commit: Arc<str>,
    actions: usize,
    has_converged: bool,
    /// What was last found of it, besides that it is under way.
    found: Option<Fate>,
}

impl Changed {
    fn of(&mut self, name: &Arc<str>, commit: &Arc<str>) -> &mut Count {
        let count = self.0.entry(name.clone()).or_default();
        if count.commit != *commit {
            *count = Count { commit: commit.clone(), ..Count::default() };
        }
        count
    }

    fn count(
        &mut self,
        sources: &BTreeMap<Arc<str>, Following>,
        desired: &Arc<Desired>,
        owners: &mut Owners,
        scope: &Scope,
        outcomes: &BTreeMap<(&'static str, &'static str), usize>,
    ) {
        let is_done = |outcome: &str| matches!(outcome, "done" | "gone" | "observed");
        let done = outcomes.iter().filter(|((_, outcome), _)| is_done(outcome));
        let done: usize = done.map(|(_, count)| count).sum();
        if done == 0 {
            return;
        }
        for name in owners.of(desired, scope) {
            if let Some(told) = sources.get(&name).and_then(|following| following.told.as_ref()) {
                self.of(&name, &told.commit).actions += done;
            }
        }
    }

    /// True the first time a commit is said to have converged.
    fn first(&mut self, name: &Arc<str>, commit: &Arc<str>) -> bool {
        !std::mem::replace(&mut self.of(name, commit).has_converged, true)
    }
}

/// The sources whose each scope is: those that declare something in it, or were the last to.
#[derive(Default)]
struct Owners {
    last: BTreeMap<Scope, BTreeSet<Arc<str>>>,
    /// The desired state that `last` is of for the scopes beside it: all of it is not gone through at every look.
    current: (Weak<Desired>, BTreeSet<Scope>),
}

impl Owners {
    fn of(&mut self, desired: &Arc<Desired>, scope: &Scope) -> BTreeSet<Arc<str>> {
        if !std::ptr::eq(self.current.0.as_ptr(), Arc::as_ptr(desired)) {
            self.current = (Arc::downgrade(desired), BTreeSet::new());
        }
        if self.current.1.contains(scope) {
            return self.last.get(scope).cloned().unwrap_or_default();
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut before = None;
        for resource in desired.in_scope(scope) {
            // Most of what stands side by side is of one manifest.
            if before.replace(resource.origin.manifest) != Some(resource.origin.manifest) {
                names.insert(desired.manifest(resource.origin).key.source());
            }
        }
        let known = desired.sources.keys();
        if names.is_empty() {
            let last = self.last.get(scope);
            return known.filter(|name| last.is_none_or(|last| last.contains(*name))).cloned().collect();
        }
        let owners: BTreeSet<Arc<str>> = known.filter(|name| names.contains(&***name)).cloned().collect();
        self.last.insert(scope.clone(), owners.clone());
        self.current.1.insert(scope.clone());
        owners
    }
}

/// What was found of a source.
struct Found {
    fate: Fate,
    withheld: Option<Fate>,
    told: Told,
}

/// How the commits of `sources` fare; `is_left` where others take their place: then it is their last word.
fn look(
    sources: &BTreeMap<Arc<str>, Following>,
    desired: &Arc<Desired>,
    standing: &BTreeMap<Scope, Standing>,
    is_left: bool,
    owners: &mut Owners,
    changed: &mut Changed,
) -> BTreeMap<Arc<str>, Found> {
    let mut scopes: BTreeMap<Arc<str>, Vec<&Standing>> = BTreeMap::new();
    for (scope, standing) in standing {
        for name in owners.of(desired, scope) {
            scopes.entry(name).or_default().push(standing);
        }
    }
    let mut found = BTreeMap::new();
    for (name, following) in sources {
        let Some(told) = following.told.clone() else { continue };
        let mine = scopes.remove(name).unwrap_or_default();
        // With `onInvalid: hold` it never comes into force.
        let offered = following.offered.as_str();
        let is_withheld = following.withheld && !offered.is_empty() && *offered != *told.commit;
        let withheld = is_withheld.then(|| Fate {
            commit: offered.into(),
            verdict: Verdict::Invalid,
            ..Fate::default()
        });
        let verdict = match verdict(&mine, &told, following.broken && !is_withheld, is_left) {
            // Some of its manifests wait for an entry that cannot be used yet.
            Verdict::Converged if waits_for_entry(desired, name) => Verdict::Pending,
            verdict => verdict,
        };
        let count = changed.of(name, &told.commit);
        let mut fate = Fate {
            commit: told.commit.clone(),
            verdict,
            changed: count.actions,
            held: mine.iter().filter(|s| s.stance == Stance::Held).count(),
            troubled: mine.iter().filter(|s| matches!(s.stance, Stance::Stalled | Stance::Failed)).count(),
        };
        if verdict != Verdict::Pending {
            count.found = Some(fate.clone());
        } else if let Some(found) = count.found.clone().filter(|_| is_left) {
            // Drift was being repaired, as may be at any time.
            fate = found;
        }
        found.insert(name.clone(), Found { fate, withheld, told });
    }
    found
}

fn waits_for_entry(desired: &Desired, source: &str) -> bool {
    !desired.ailing.is_empty()
        && desired.sources.get(source).is_some_and(|state| !state.unassigned.is_empty())
}

fn verdict(scopes: &[&Standing], told: &Told, is_broken: bool, is_left: bool) -> Verdict {
    let is_under_way = |s: &&Standing| {
        // What a commit touches is queued before the commit is told of, and what it does not touch stays as it is found here.
        let stays = matches!(s.stance, Stance::InSync | Stance::Held | Stance::Stalled);
        let looked = stays || s.ended_at.is_some_and(|ended| ended >= told.at);
        // Of a commit that is left nothing more is found; what a pass found that began after it counts.
        !looked || if is_left { s.is_unseen } else { s.is_queued || s.running_since.is_some() }
    };
    let any = |stances: &[Stance]| scopes.iter().any(|s| stances.contains(&s.stance));
    if scopes.iter().any(is_under_way) {
        Verdict::Pending
    } else if is_broken {
        Verdict::Invalid
    } else if any(&[Stance::Failed]) {
        Verdict::Failing
    } else if any(&[Stance::Held, Stance::Stalled]) {
        Verdict::NeedsPerson
    } else if any(&[Stance::Waiting, Stance::Suspended, Stance::Unknown]) {
        Verdict::Pending
    } else {
        Verdict::Converged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_nobody_declares_any_more_is_of_those_who_did() {
        let scope = Scope::new("pdns", "example.com");
        let mut desired = Desired::default();
        for name in ["a", "b"] {
            desired.sources.insert(name.into(), Default::default());
        }
        let desired = Arc::new(desired);
        let last = BTreeMap::from([(scope.clone(), BTreeSet::from(["b".into(), "retired".into()]))]);
        let mut known = Owners { last, ..Owners::default() };
        assert_eq!(known.of(&desired, &scope), ["b".into()].into());
        // Nobody knows whose it was.
        assert_eq!(Owners::default().of(&desired, &scope), ["a".into(), "b".into()].into());
    }

    #[test]
    fn a_commit_has_converged_once_nothing_is_under_way_and_everything_is_in_sync() {
        let told = Told { at: Duration::from_secs(10), ..Told::default() };
        let at = |stance, ended: Option<u64>| {
            let mut standing = Standing::default();
            (standing.stance, standing.ended_at) = (stance, ended.map(Duration::from_secs));
            standing
        };
        let mut queued = at(Stance::InSync, Some(3));
        queued.is_queued = true;
        let mut running = at(Stance::Held, Some(11));
        running.running_since = Some(told.at);
        let verdicts = |scopes: &[Standing], is_broken, expect, left| {
            let scopes: Vec<&Standing> = scopes.iter().collect();
            assert_eq!(verdict(&scopes, &told, is_broken, false), expect, "{scopes:#?}");
            assert_eq!(verdict(&scopes, &told, is_broken, true), left, "{scopes:#?}");
        };
        let check = |scopes: &[Standing], is_broken, expect| verdicts(scopes, is_broken, expect, expect);
        check(&[], false, Verdict::Converged);
        check(&[at(Stance::InSync, Some(3))], false, Verdict::Converged);
        let mut unseen = queued.clone();
        unseen.is_unseen = true;
        check(&[unseen], false, Verdict::Pending);
        // Looked at once more, as may be at any time: what a commit that is left came to was found before.
        verdicts(&[queued], false, Verdict::Pending, Verdict::Converged);
        verdicts(&[running], false, Verdict::Pending, Verdict::NeedsPerson);
        // Nothing of it is about to be looked at again: it waits for a person whatever was committed since.
        check(&[at(Stance::Held, Some(3)), at(Stance::InSync, Some(11))], false, Verdict::NeedsPerson);
        check(&[at(Stance::Stalled, Some(3))], false, Verdict::NeedsPerson);
        // What else it came to before the commit says nothing.
        check(&[at(Stance::Failed, Some(3))], false, Verdict::Pending);
        check(&[at(Stance::Unknown, None)], false, Verdict::Pending);
        check(&[at(Stance::Failed, Some(11)), at(Stance::Held, Some(11))], false, Verdict::Failing);
        check(&[at(Stance::Stalled, Some(11)), at(Stance::InSync, Some(11))], false, Verdict::NeedsPerson);
        check(&[at(Stance::InSync, Some(11))], true, Verdict::Invalid);
    }
}
