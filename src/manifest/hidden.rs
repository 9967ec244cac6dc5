//! Scopes that may be declared and are not known, for who asks once all is loaded: where a claim goes is known only when a
//! resource makes it.
//!
//! Guarantees: names what has to be mended wherever [`Inputs::may_hide`](reconciled_provider::Inputs::may_hide) says yes of this entry, and
//! for each scope that only manifests in error declare; what the host would not let a source declare hides nothing. Of what is for other
//! hosts only what names its scope in clear is known.

use super::{
    allowed,
    faulty::Suspect,
    loading::{Loading, Side},
    place::path,
    unit::{Standing, Unit},
};
use crate::config::Allow;
use reconciled_engine::Hidden;
use reconciled_provider::Scope;
use std::{collections::BTreeMap, sync::Arc};

/// What of one source is not known.
struct Unknown {
    source: Arc<str>,
    allow: Allow,
    /// What could not be read of it, if anything.
    unread: Option<Arc<str>>,
    /// Manifests in error, each with its file.
    suspects: Vec<(Suspect, Arc<str>)>,
}

/// A manifest that is for other hosts.
struct ForOthers {
    source: Arc<str>,
    /// `GROUP/KIND`.
    kind: String,
    names: Vec<Box<str>>,
    /// The entries that it names, if it names any.
    providers: Vec<Arc<str>>,
    told: String,
}

impl ForOthers {
    fn of(loading: &Loading<'_>, unit: &Unit) -> Option<ForOthers> {
        let hosts =
            unit.document.settings.hosts.as_ref().filter(|_| unit.standing == Standing::Unselected)?;
        Some(ForOthers {
            source: loading.sides[unit.source].request.name.clone(),
            kind: format!("{}/{}", unit.document.group(), unit.document.kind),
            names: unit.document.scope_names.clone(),
            providers: unit.document.providers.iter().map(|(name, _)| name.clone()).collect(),
            told: format!("{} is for other hosts: {hosts}", unit.address),
        })
    }

    fn declares(&self, source: &str, entry: &str, kind: &str, name: &str) -> bool {
        let is_meant = self.providers.is_empty() || self.providers.iter().any(|named| **named == *entry);
        *self.source == *source
            && self.kind == kind
            && is_meant
            && self.names.iter().any(|own| **own == *name)
    }
}

/// What is hidden, and what the same source has for other hosts; `aside` are the scopes that only manifests in error declare, each with
/// the source and the file of one that may.
pub(super) fn hidden(loading: &Loading<'_>, aside: BTreeMap<Scope, (Arc<str>, Arc<str>)>) -> Hidden {
    let hidden = unread(loading, aside);
    let for_others: Vec<ForOthers> =
        loading.units.iter().filter_map(|unit| ForOthers::of(loading, unit)).collect();
    if for_others.is_empty() {
        return hidden;
    }
    hidden.and_for_others(move |source, entry, kind, name| {
        let found = for_others.iter().find(|one| one.declares(source, entry, kind, name));
        found.map(|one| one.told.clone())
    })
}

fn unread(loading: &Loading<'_>, aside: BTreeMap<Scope, (Arc<str>, Arc<str>)>) -> Hidden {
    if aside.is_empty() && loading.hides_nothing() {
        return Hidden::default();
    }
    let manifest = |unit: usize| loading.manifest(&loading.units[unit]);
    let unknown = |side: &Side<'_>| {
        let in_its_file = |suspect: Suspect| {
            let file = path(loading, &loading.units[suspect.unit]).clone();
            (suspect, file)
        };
        Unknown {
            source: side.request.name.clone(),
            allow: side.request.rules.allow.clone(),
            unread: side.unread().cloned(),
            suspects: side.faulty.suspects(manifest).into_iter().map(in_its_file).collect(),
        }
    };
    let unknown: Vec<Unknown> = loading.sides.iter().map(unknown).collect();
    let lacking = loading.request.lacking.to_vec();
    Hidden::where_said(move |entry, kind, name| {
        if let Some((source, file)) = aside.get(&Scope::new(entry, name)) {
            return Some(in_file(source, file));
        }
        let in_error = unknown.iter().find_map(|of| of.may_declare(entry, kind, name));
        in_error.or_else(|| {
            let lacks =
                lacking.iter().find(|(_, allow)| allowed::may_declare(allow, Some(entry), kind, name));
            lacks.map(|(source, _)| format!("source `{source}`, of which nothing is known"))
        })
    })
}

impl Unknown {
    /// What of it may declare a scope of this name at `entry` by a manifest of `kind`.
    fn may_declare(&self, entry: &str, kind: &str, name: &str) -> Option<String> {
        if !allowed::may_declare(&self.allow, Some(entry), kind, name) {
            return None;
        }
        let suspect = self.suspects.iter().find(|(suspect, _)| suspect.may_declare(kind, name));
        let file = suspect.map(|(_, file)| file).or(self.unread.as_ref());
        file.map(|file| in_file(&self.source, file))
    }
}

fn in_file(source: &str, file: &str) -> String {
    let of = if source.is_empty() { String::new() } else { format!(" of source `{source}`") };
    match file {
        "" => format!("the files{of}, which have errors"),
        file => format!("{file}{of}, which has errors"),
    }
}
