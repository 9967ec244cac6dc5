//! What the inventory has of a resource.

use reconciled_provider::{Address, Deletion, Drift, EntryPolicy, Hash, ManifestKey, Scope, Tracked};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

/// One tracked resource: what this instance created or adopted, what held when it was last applied, and where it stands.
///
/// It has the fields of [`Known`] and [`Terms`] as well. Of many thousand rows clones share these, until one of them is changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What stays the same while its state moves.
    pub known: Arc<Known>,
    /// What it is waiting for, if anything.
    pub state: RowState,
    /// When this instance last wrote it, since the epoch; zero if never. A read may show an older state until
    /// the provider's consistency window after this has passed, also after a newer state was seen once.
    pub written_at: Duration,
}

/// What is known of a tracked resource, whatever it is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What others mostly have too.
    pub terms: Arc<Terms>,
    /// What the provider gets back.
    pub tracked: Tracked,
    /// Address for people, with its part.
    pub address: Address,
    /// Hash of the declaration with references unresolved, as last applied.
    pub template: Hash,
}

/// The terms on which it was last applied: resources that one manifest declared in one commit mostly have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The scope it lives in.
    pub scope: Arc<Scope>,
    /// The manifest that declared it last; its source is the one that may prune it.
    pub manifest: ManifestKey,
    /// File of the manifest when it was last applied.
    pub file: Arc<str>,
    /// Normalizer version of the provider when it was last applied.
    pub normalizer: u32,
    /// Deletion mode as last applied: removing a manifest cannot remove its own protection.
    pub deletion: Deletion,
    /// What its manifest let be written, as last applied: what is taken out lets no more than that.
    pub writes: EntryPolicy,
    /// Drift mode as last applied.
    pub drift: Drift,
    /// Declared with `merge: true`: only the values in `tracked.private` are ours.
    pub merge: bool,
    /// The revision that last changed it, as people call it.
    pub revision: Arc<str>,
    /// Other addresses that it had, the latest last: a commit that moved it may be taken back.
    pub formerly: Vec<Address>,
}

impl Terms {
    /// These, or the `last` ones where they say the same; they are the last ones from now on. Neighbours mostly share them; where
    /// two alternate, none does.
    pub fn shared(self, last: &mut Option<Arc<Terms>>) -> Arc<Terms> {
        match last {
            Some(last) if **last == self => last.clone(),
            _ => last.insert(self.into()).clone(),
        }
    }
}

impl Row {
    /// A row in this state.
    pub fn new(known: Known, state: RowState, written_at: Duration) -> Row {
        Row { known: known.into(), state, written_at }
    }

    /// This row with something changed.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Row)) -> Row {
        change(&mut self);
        self
    }

    /// Puts what is tracked. Where that is the same already, which it mostly is, it goes on sharing it.
    pub(crate) fn track(&mut self, tracked: Tracked) {
        if self.tracked != tracked {
            self.tracked = tracked;
        }
    }

    /// Remembers that it has, or had, this address too.
    pub(crate) fn know_as(&mut self, address: &Address) {
        if !self.formerly.contains(address) {
            self.formerly.push(address.clone());
        }
    }
}

impl Deref for Row {
    type Target = Known;
    fn deref(&self) -> &Known {
        &self.known
    }
}

impl DerefMut for Row {
    fn deref_mut(&mut self) -> &mut Known {
        Arc::make_mut(&mut self.known)
    }
}

impl Deref for Known {
    type Target = Terms;
    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl DerefMut for Known {
    fn deref_mut(&mut self) -> &mut Terms {
        Arc::make_mut(&mut self.terms)
    }
}

impl Row {
    /// The row of a resource that is settled, of which nothing is told.
    pub fn settled(scope: Scope, id: &str, manifest: ManifestKey) -> Row {
        let known = Known {
            tracked: Tracked::new(id.into(), Hash::default()),
            address: Address::of(&manifest, None),
            template: Hash::default(),
            terms: Arc::new(Terms {
                scope: scope.into(),
                manifest,
                file: "".into(),
                normalizer: 0,
                deletion: Deletion::Delete,
                writes: EntryPolicy::Sync,
                drift: Drift::Heal,
                merge: false,
                revision: "".into(),
                formerly: Vec::new(),
            }),
        };
        Row::new(known, RowState::Settled, Duration::ZERO)
    }
}

/// Where a tracked resource stands.
#[derive(Clone, Debug, PartialEq)]
pub enum RowState {
    /// Written and not yet seen to be as written.
    Applied,
    /// Seen to be as written, after a write or by adoption.
    Settled,
    /// The remote is on its way; look again at this time (since the epoch).
    Pending {
        /// When to take the next step.
        recheck_at: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_what_is_known_until_one_of_them_is_changed() {
        let one = Row::settled(Scope::new("toy", "a"), "a", ManifestKey::new("s", "toy", "Thing", "", "a"));
        let same = one.clone().with(|row| {
            row.state = RowState::Applied;
            row.track(one.tracked.clone());
        });
        assert!(Arc::ptr_eq(&one.known, &same.known));
        let another = one.clone().with(|row| row.template = Hash::of(b"another"));
        assert_eq!((one.template, another.template), (Hash::default(), Hash::of(b"another")));
        assert!(Arc::ptr_eq(&one.terms, &another.terms));
    }

    #[test]
    fn neighbours_share_the_terms_that_they_have_in_common() {
        let terms = |revision: &str| {
            let manifest = ManifestKey::new("s", "toy", "Thing", "", "a");
            let row = Row::settled(Scope::new("toy", "a"), "a", manifest);
            Terms { revision: revision.into(), ..Terms::clone(&row.terms) }
        };
        let mut last = None;
        let [a, b, c] = ["one", "one", "two"].map(|revision| terms(revision).shared(&mut last));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!((&*a.revision, &*c.revision), ("one", "two"));
    }
}
