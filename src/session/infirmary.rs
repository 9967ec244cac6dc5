//! Entries that do not tell their kinds: a provider's program that is missing, broken, slow or cannot tell its schemas.
//!
//! *Guarantees*: what may be theirs is neither planned nor pruned nor given to another entry, and everything else goes on.
//! All are asked at once, each by a task of its own, so that none waits for another and nobody who reads manifests waits
//! for any. One that failed is asked again a minute later, until it answers or the session ends.

use crate::{
    config::ProviderEntry,
    manifest::{Ailing, EntryView},
    registry,
};
use reconciled_provider::{Clock, Cx, Error, Kinds, Observer, Problem};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinSet,
};

/// How long an entry that failed is left alone.
const AGAIN: Duration = Duration::from_secs(60);

/// The entries of a session, until each has told its kinds.
#[derive(Default)]
pub(super) struct Infirmary {
    ward: Arc<Ward>,
    /// Who asks them. They end with the session.
    asking: Mutex<JoinSet<()>>,
}

/// What is known of them.
#[derive(Default)]
struct Ward {
    patients: Mutex<Patients>,
    /// Counts what became known.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct Patients(BTreeMap<Arc<str>, Patient>);

struct Patient {
    ailing: Ailing,
    /// What it told.
    kinds: Option<Arc<Kinds>>,
    place: Problem,
}

/// Returns once an entry has answered for the first time, whatever it said.
pub(super) struct Answered(oneshot::Receiver<()>);

impl Patients {
    fn kinds(&self, name: &str) -> Option<Arc<Kinds>> {
        self.0.get(name)?.kinds.clone()
    }
    fn ailing(&self) -> BTreeMap<Arc<str>, Ailing> {
        let still = self.0.iter().filter(|(_, patient)| patient.kinds.is_none());
        still.map(|(name, patient)| (name.clone(), patient.ailing.clone())).collect()
    }
}

impl Ward {
    fn patients(&self) -> MutexGuard<'_, Patients> {
        self.patients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, name: &Arc<str>, told: Result<Arc<Kinds>, Error>) {
        let mut patients = self.patients();
        let Some(patient) = patients.0.get_mut(name) else { return };
        match told {
            Ok(kinds) => patient.kinds = Some(kinds),
            Err(error) => {
                let (why, hint) = (Arc::from(error.chain()), error.hint.as_deref().map(Arc::from));
                if patient.ailing.why == why && patient.ailing.hint == hint {
                    return;
                }
                tracing::warn!(provider = &**name, error = &*why, "provider cannot be used");
                (patient.ailing.why, patient.ailing.hint) = (why, hint);
            }
        }
        drop(patients);
        self.news.send_modify(|count| *count += 1);
    }
}

impl Infirmary {
    /// Has an entry asked for its kinds.
    pub(super) fn ask(&self, entry: &ProviderEntry, observer: &Arc<dyn Observer>, cx: &Cx) -> Answered {
        let ailing = Ailing {
            name: entry.name.clone(),
            groups: registry::groups(entry),
            why: "it has not told its kinds yet".into(),
            hint: Some("its manifests wait until its program is there and has said what it can do".into()),
        };
        let place = Problem::error("").at(&entry.file, entry.span);
        self.ward.patients().0.insert(entry.name.clone(), Patient { ailing, kinds: None, place });
        let (first, answered) = oneshot::channel();
        let asking = ask(self.ward.clone(), entry.name.clone(), observer.clone(), cx.clone(), first);
        self.asking.lock().unwrap_or_else(PoisonError::into_inner).spawn(asking);
        Answered(answered)
    }

    /// Waits until all of `entries` have answered, for at most `patience`.
    pub(super) async fn wait(entries: Vec<Answered>, patience: Option<Duration>, clock: &dyn Clock) {
        let all = async {
            for entry in entries {
                // Nothing is sent: its end says that it was asked.
                let _ = entry.0.await;
            }
        };
        match patience {
            None => all.await,
            Some(patience) => tokio::select! {
                () = all => {}
                () = clock.sleep(patience) => {}
            },
        }
    }

    /// What an entry told; until then what its type has in any case.
    pub(super) fn kinds(&self, entry: &ProviderEntry) -> Arc<Kinds> {
        self.ward.patients().kinds(&entry.name).unwrap_or_else(|| {
            let known = registry::types().iter().find(|known| *known.name == *entry.type_name);
            known.map(|known| known.kinds.clone()).unwrap_or_default()
        })
    }

    /// Those that have not told theirs.
    pub(super) fn ailing(&self) -> BTreeMap<Arc<str>, Ailing> {
        self.ward.patients().ailing()
    }

    /// The same, with what the others told put into `views`, all as it is at one moment.
    pub(super) fn at_this_moment(&self, views: &mut [EntryView]) -> BTreeMap<Arc<str>, Ailing> {
        let patients = self.ward.patients();
        for view in views {
            if let Some(kinds) = patients.kinds(&view.name) {
                view.kinds = kinds;
            }
        }
        patients.ailing()
    }

    /// What keeps them from being used, at the place of each in the host configuration.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let patients = self.ward.patients();
        let still = patients.0.values().filter(|patient| patient.kinds.is_none());
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

    /// Changes whenever one has told its kinds, or fails for another reason.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.ward.news.subscribe()
    }
}

/// Asks an entry until it tells its kinds. `first` ends with the first answer.
async fn ask(
    ward: Arc<Ward>,
    name: Arc<str>,
    observer: Arc<dyn Observer>,
    cx: Cx,
    first: oneshot::Sender<()>,
) {
    let mut first = Some(first);
    loop {
        let told = tokio::select! {
            told = observer.kinds(&cx) => told,
            () = cx.stop.wished() => return,
        };
        let is_well = told.is_ok();
        ward.hear(&name, told);
        drop(first.take());
        if is_well {
            return;
        }
        tokio::select! {
            () = cx.clock.sleep(AGAIN) => {}
            () = cx.stop.wished() => return,
        }
    }
}
