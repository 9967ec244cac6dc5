//! What was seen of scopes, kept as long as their versions stand: what a push was planned from need not be read again
//! to carry it out.
//!
//! Guarantees: nothing is recalled but a complete observation, of all or of just what is asked for, at the very version that
//! the remote just named; a survey that was told to list everything recalls nothing, nor does one that would make
//! something or shares something with others: a version may miss what came about past the API. It deliberately keeps a
//! bounded number of resources, those of the scopes that were looked at last, and one observation of each.

use reconciled_provider::{Focus, Observation, Scope, Version};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// What was seen of a scope.
type Seen = (Scope, Arc<Observation>);

/// The last observations by scope; clones share them. The default keeps none.
#[derive(Clone, Debug, Default)]
pub struct Recall {
    most: usize,
    /// The one used last comes last; what was only read with all the rest comes first.
    kept: Arc<Mutex<VecDeque<Seen>>>,
}

impl Recall {
    /// Keeps observations of at most so many resources in all.
    pub fn of(most: usize) -> Recall {
        Recall { most, ..Recall::default() }
    }

    /// What was seen of `scope` at `version`, when that was all of it or what `focus` means.
    pub(super) fn at(
        &self,
        scope: &Scope,
        version: Option<&Version>,
        focus: &Focus,
    ) -> Option<Arc<Observation>> {
        let version = version.filter(|version| matches!(version, Version::At(_)))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.iter().position(|(kept, _)| kept == scope)?;
        let found = kept.remove(index).filter(|(_, seen)| seen.version == *version)?;
        let seen = found.1.clone();
        kept.push_back(found);
        is_enough(&seen, focus).then_some(seen)
    }

    /// Keeps what was seen, in place of what was seen before. `reads_ahead`: it does not depend on what is desired.
    /// `everything`: all scopes are read in turn, so this one is no nearer to being asked for again than it was.
    pub(super) fn keep(&self, reads_ahead: bool, everything: bool, scope: &Scope, seen: &Arc<Observation>) {
        // Elsewhere an observation covers what was asked for then, not what is asked for now.
        let is_kept = reads_ahead
            && seen.complete
            && matches!(seen.version, Version::At(_))
            && weight(seen) <= self.most;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.iter().position(|(kept, _)| kept == scope);
        let is_no_more =
            |before: &Observation| before.version == seen.version && is_enough(before, &seen.covered);
        if is_kept && before.is_some_and(|index| seen.covered != Focus::All && is_no_more(&kept[index].1)) {
            return;
        }
        if let Some(index) = before {
            kept.remove(index);
        }
        if is_kept {
            let index = if everything { before.unwrap_or(0) } else { kept.len() };
            kept.insert(index, (scope.clone(), seen.clone()));
        }
        let mut all: usize = kept.iter().map(|(_, seen)| weight(seen)).sum();
        while all > self.most
            && let Some((_, oldest)) = kept.pop_front()
        {
            all -= weight(&oldest);
        }
    }
}

/// More than is asked for would meet what the inventory stands in for, so it is all or just that.
fn is_enough(seen: &Observation, focus: &Focus) -> bool {
    seen.covered == Focus::All || seen.covered == *focus
}

/// Resources, and one for the scope itself.
fn weight(seen: &Observation) -> usize {
    seen.resources.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Observed, ResourceId};

    fn at(token: &'static str) -> Version {
        Version::At(token.as_bytes().into())
    }

    fn seen(version: Version, resources: usize) -> Arc<Observation> {
        let resources = (0..resources).map(|n| Observed::new(n.to_string().as_str().into(), b"x"));
        let resources = resources.collect();
        Arc::new(Observation { covered: Focus::All, complete: true, version, resources })
    }

    #[test]
    fn only_the_very_version_is_recalled_and_another_one_ends_it() {
        let (recall, scope) = (Recall::of(10), Scope::new("zone", "z"));
        recall.keep(true, false, &scope, &seen(at("1"), 2));
        assert_eq!(recall.at(&scope, None, &Focus::All).map(|_| ()), None);
        assert_eq!(recall.at(&scope, Some(&at("1")), &Focus::All).unwrap().resources.len(), 2);
        assert!(recall.at(&scope, Some(&at("2")), &Focus::All).is_none());
        assert!(
            recall.at(&scope, Some(&at("1")), &Focus::All).is_none(),
            "a version may come back, what was seen does not"
        );
    }

    #[test]
    fn what_is_incomplete_or_has_no_version_is_not_kept() {
        let (recall, scope) = (Recall::of(10), Scope::new("zone", "z"));
        let version = at("1");
        let whole = seen(version.clone(), 1);
        recall.keep(true, false, &scope, &whole);
        recall.keep(true, false, &scope, &Arc::new(Observation { complete: false, ..(*whole).clone() }));
        assert!(recall.at(&scope, Some(&version), &Focus::All).is_none());
        recall.keep(false, false, &scope, &whole);
        assert!(recall.at(&scope, Some(&version), &Focus::All).is_none(), "nobody asked for the rest");
        recall.keep(true, false, &scope, &seen(Version::Absent, 0));
        assert!(recall.at(&scope, Some(&Version::Absent), &Focus::All).is_none());
    }

    #[test]
    fn a_part_answers_for_no_more_and_does_not_displace_the_whole() {
        let (recall, scope) = (Recall::of(10), Scope::new("zone", "z"));
        let only = |ids: &[&str]| Focus::Only(ids.iter().copied().map(ResourceId::from).collect());
        let part = |version, ids| {
            let whole = seen(version, 1);
            Arc::new(Observation { covered: only(ids), ..(*whole).clone() })
        };
        let is_known = |version, focus: &Focus| recall.at(&scope, Some(&at(version)), focus).is_some();
        recall.keep(true, false, &scope, &part(at("1"), &["0", "1"]));
        assert!(is_known("1", &only(&["0", "1"])));
        for other in [only(&["1"]), only(&["0", "1", "2"]), Focus::All] {
            assert!(!is_known("1", &other), "{other:?}");
        }
        recall.keep(true, false, &scope, &seen(at("1"), 3));
        recall.keep(true, false, &scope, &part(at("1"), &["0"]));
        assert!(is_known("1", &Focus::All), "the whole says more");
        recall.keep(true, false, &scope, &part(at("2"), &["0"]));
        assert!(!is_known("1", &Focus::All) && !is_known("2", &Focus::All));
        recall.keep(true, false, &scope, &part(at("2"), &["0"]));
        assert!(is_known("2", &only(&["0"])));
    }

    #[test]
    fn reading_everything_drives_nothing_out() {
        let (recall, version) = (Recall::of(10), at("1"));
        let [pushed, other] = ["a", "b"].map(|name| Scope::new("zone", name));
        recall.keep(true, false, &pushed, &seen(version.clone(), 6));
        for scope in [&pushed, &other] {
            recall.keep(true, true, scope, &seen(at("2"), 6));
        }
        assert!(recall.at(&other, Some(&at("2")), &Focus::All).is_none(), "there is no room for both");
        assert!(
            recall.at(&pushed, Some(&at("2")), &Focus::All).is_some(),
            "what is asked for is what was read last"
        );
    }

    #[test]
    fn what_was_looked_at_least_recently_goes_first() {
        let (recall, version) = (Recall::of(10), at("1"));
        let scopes = ["a", "b", "c"].map(|name| Scope::new("zone", name));
        recall.keep(true, false, &scopes[0], &seen(version.clone(), 4));
        recall.keep(true, false, &scopes[1], &seen(version.clone(), 4));
        assert!(recall.at(&scopes[0], Some(&version), &Focus::All).is_some());
        recall.keep(true, false, &scopes[2], &seen(version.clone(), 4));
        assert_eq!(
            scopes.each_ref().map(|s| recall.at(s, Some(&version), &Focus::All).is_some()),
            [true, false, true]
        );
        recall.keep(true, false, &scopes[1], &seen(version.clone(), 11));
        assert!(recall.at(&scopes[1], Some(&version), &Focus::All).is_none(), "too large to be kept at all");
    }
}
