//! Entries that do not tell their kinds: a provider's program that is missing, broken or cannot tell its schemas.
//!
//! *Guarantees*: what may be theirs is neither planned nor pruned nor given to another entry, and everything else goes on.
//! Each is asked again, at most once a minute, when manifests are read.

use super::Session;
use crate::{
    config::ProviderEntry,
    manifest::{Ailing, EntryView},
    registry,
};
use reconciled_provider::{Error, Kinds, Problem};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long an entry that failed is left alone.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of them.
#[derive(Default)]
pub(super) struct Infirmary {
    patients: Mutex<BTreeMap<Arc<str>, Patient>>,
}

struct Patient {
    ailing: Ailing,
    /// When it was last asked.
    asked: Duration,
    /// What it told since.
    kinds: Option<Arc<Kinds>>,
    place: Problem,
}

impl Infirmary {
    fn patients(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Patient>> {
        self.patients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an entry that failed. Returns the kinds that its type has in any case.
    pub(super) fn take(&self, entry: &ProviderEntry, error: &Error, now: Duration) -> Arc<Kinds> {
        let place = Problem::error("").at(&entry.file, entry.span);
        let ailing = ailing(entry.name.clone(), registry::group(entry), error);
        self.patients().insert(entry.name.clone(), Patient { ailing, asked: now, kinds: None, place });
        let known = registry::types().into_iter().find(|known| *known.name == *entry.type_name);
        known.map(|known| known.kinds).unwrap_or_default()
    }

    /// Those that still fail.
    pub(super) fn ailing(&self) -> BTreeMap<Arc<str>, Ailing> {
        let patients = self.patients();
        let still = patients.iter().filter(|(_, patient)| patient.kinds.is_none());
        still.map(|(name, patient)| (name.clone(), patient.ailing.clone())).collect()
    }
}

fn ailing(name: Arc<str>, group: Option<Arc<str>>, error: &Error) -> Ailing {
    Ailing { name, group, why: error.chain().into(), hint: error.hint.as_deref().map(Arc::from) }
}

impl Session {
    /// Entries that cannot be used.
    pub fn ailing_names(&self) -> BTreeSet<Arc<str>> {
        self.infirmary.ailing().into_keys().collect()
    }

    /// What keeps entries from being used, at the place of each in the host configuration.
    pub fn ailing(&self) -> Vec<Problem> {
        let patients = self.infirmary.patients();
        let still = patients.values().filter(|patient| patient.kinds.is_none());
        let told = |patient: &Patient| {
            let message =
                format!("provider `{}` cannot be used: {}", patient.ailing.name, patient.ailing.why);
            let problem = Problem { message, ..patient.place.clone() };
            match &patient.ailing.hint {
                Some(hint) => problem.hint(hint.to_string()),
                None => problem,
            }
        };
        still.map(told).collect()
    }

    /// The entries as the loader sees them, with what those tell now that failed before.
    pub(super) async fn views(&self) -> Vec<EntryView> {
        let now = self.clock.now();
        let due: Vec<Arc<str>> = {
            let mut patients = self.infirmary.patients();
            let is_due = |patient: &&mut Patient| patient.kinds.is_none() && patient.asked + AGAIN <= now;
            let due = patients.values_mut().filter(is_due);
            due.map(|patient| {
                patient.asked = now;
                patient.ailing.name.clone()
            })
            .collect()
        };
        for name in due {
            let Some(view) = self.views.iter().find(|view| view.name == name) else { continue };
            let told = view.observer.kinds(&self.surveyor.cx).await;
            if let Some(patient) = self.infirmary.patients().get_mut(&name) {
                match told {
                    Ok(kinds) => patient.kinds = Some(kinds),
                    Err(error) => {
                        patient.ailing = ailing(name.clone(), patient.ailing.group.clone(), &error);
                    }
                }
            }
        }
        let patients = self.infirmary.patients();
        let mut views = self.views.clone();
        for view in &mut views {
            if let Some(kinds) = patients.get(&view.name).and_then(|patient| patient.kinds.clone()) {
                view.kinds = kinds;
            }
        }
        views
    }
}
