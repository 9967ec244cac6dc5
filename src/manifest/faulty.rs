//! The manifests of a source that are in error, and what they may declare: what would belong there goes nowhere else meanwhile.
//!
//! What a manifest calls its scope is in its name, or in a text at the top of its spec: which one it is only backends know, and
//! what is misspelt nobody. Guarantees: what fits none of these texts is not held up.

use super::envelope::scope_name;
use reconciled_provider::{Manifest, yaml::NodeValue};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The manifests in error of one source.
#[derive(Default)]
pub(super) struct Faulty {
    all: Vec<InError>,
    known: OnceCell<Known>,
}

struct InError {
    unit: usize,
    /// `GROUP/KIND`.
    kind: Arc<str>,
    /// Nobody knows the kind: it may be meant for any.
    is_strange: bool,
}

/// One manifest in error, and what it may declare.
pub(super) struct Suspect {
    pub(super) unit: usize,
    /// `GROUP/KIND`; none where nobody knows it.
    kind: Option<Arc<str>>,
    names: Names,
}

impl Suspect {
    /// Whether it may be a manifest of `kind` (`GROUP/KIND`) that declares a scope of this name.
    pub(super) fn may_declare(&self, kind: &str, name: &str) -> bool {
        self.kind.as_deref().is_none_or(|own| own == kind) && self.names.have(name)
    }
}

#[derive(Default)]
struct Known {
    kinds: BTreeMap<Arc<str>, Names>,
    strange: Names,
}

impl Faulty {
    /// Notes one; before any is asked about.
    pub(super) fn note(&mut self, unit: usize, kind: Arc<str>, is_strange: bool) {
        self.all.push(InError { unit, kind, is_strange });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of them may be a manifest of `kind` (`GROUP/KIND`) that declares a scope of this name.
    pub(super) fn may_declare<'a>(
        &self,
        manifest: impl Fn(usize) -> &'a Manifest,
        kind: &str,
        name: &str,
    ) -> bool {
        let known = self.known.get_or_init(|| self.known(manifest));
        known.strange.have(name) || known.kinds.get(kind).is_some_and(|names| names.have(name))
    }

    /// Each of them by itself, for who asks which one it is.
    pub(super) fn suspects<'a>(&self, manifest: impl Fn(usize) -> &'a Manifest) -> Vec<Suspect> {
        let suspect = |InError { unit, kind, is_strange }: &InError| {
            let mut names = Names::default();
            names.add(manifest(*unit));
            Suspect { unit: *unit, kind: (!is_strange).then(|| kind.clone()), names }
        };
        self.all.iter().map(suspect).collect()
    }

    fn known<'a>(&self, manifest: impl Fn(usize) -> &'a Manifest) -> Known {
        let mut known = Known::default();
        for InError { unit, kind, is_strange } in &self.all {
            let names = match *is_strange {
                true => &mut known.strange,
                false => known.kinds.entry(kind.clone()).or_default(),
            };
            names.add(manifest(*unit));
        }
        known
    }
}

/// Names that manifests may declare.
#[derive(Default)]
struct Names {
    all: BTreeSet<Box<str>>,
    /// One of them may be any: it waits for a value, or is written otherwise than where it is in use.
    is_open: bool,
}

impl Names {
    fn add(&mut self, manifest: &Manifest) {
        let of_spec = match &manifest.spec.value {
            NodeValue::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        let texts = of_spec.iter().filter_map(|(_, value)| value.as_str());
        for text in texts.chain([&*manifest.name]) {
            let Some(name) = scope_name(text) else { continue };
            self.is_open |= !text.is_ascii() || text.contains('\\') || text.contains("${");
            self.all.insert(name);
        }
    }

    fn have(&self, name: &str) -> bool {
        self.is_open || self.all.contains(name)
    }
}
