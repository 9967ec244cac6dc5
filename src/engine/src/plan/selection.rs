//! What of a plan the user selected.

use crate::selector::Selector;
use reconciled_provider::{Address, ManifestKey, Pattern};
use std::{collections::BTreeMap, sync::Arc};

/// What the user selected with `--target`, `-l` and `--source`. Empty selects everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Address patterns; any may match.
    pub targets: Vec<Pattern>,
    /// Labels a manifest must have.
    pub labels: Vec<Selector>,
    /// The source it must be of. All sources are read all the same: what another one declares is no prune.
    pub source: Option<Arc<str>>,
}

impl Selection {
    /// True when everything is selected.
    pub fn is_all(&self) -> bool {
        self.targets.is_empty() && self.labels.is_empty() && self.source.is_none()
    }
    /// True where a part of what such a manifest declares may be selected.
    pub(crate) fn may_select(
        &self,
        key: &ManifestKey,
        address: &Address,
        labels: Option<&BTreeMap<Arc<str>, Arc<str>>>,
    ) -> bool {
        let address = address.without_part();
        let mut targets = self.targets.iter().map(|target| Pattern(target.0.without_part()));
        self.source.as_deref().is_none_or(|source| key.source() == source)
            && (self.targets.is_empty() || targets.any(|target| target.matches(&address, key.group())))
            && self.has_labels(labels)
    }
    /// True where what has this address is selected.
    pub(super) fn selects(
        &self,
        address: &Address,
        group: &str,
        labels: Option<&BTreeMap<Arc<str>, Arc<str>>>,
    ) -> bool {
        let targeted = self.targets.is_empty() || self.targets.iter().any(|t| t.matches(address, group));
        targeted && self.has_labels(labels)
    }
    fn has_labels(&self, labels: Option<&BTreeMap<Arc<str>, Arc<str>>>) -> bool {
        let has = |selector: &Selector| labels.is_some_and(|l| selector.matches(|key| l.get(key)));
        self.labels.iter().all(has)
    }
}
