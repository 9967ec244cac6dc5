//! The side of a session that writes: the one writer of the state, and the engine.

use super::{open::Session, pins::Pins, renamed::take_along, sources::Snapshot};
use crate::{
    config::{Approver, Config},
    consent::Concerned,
    failure::Failure,
    store::{Db, OpenOptions},
    telemetry::Measured,
};
use futures_util::future::{Either, select};
use reconciled_engine::{
    Desired, Store, Write,
    pass::Engine,
    plan::guard,
    store::{Approval, Consent, Event, Revision},
    survey::SurveyOptions,
};
use reconciled_provider::{Hash, ManifestKey, ResourceId, Scope};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// Rows that are kept in memory, about 400 bytes each: what one pass wrote the next one looks at.
const KEPT: usize = 20_000;

/// How long remotes are looked at to find out which plan a trailer means.
const CONSENT_LIMIT: Duration = Duration::from_secs(30);

/// What the audit trail has of a commit beside that it came into force: who pushed it, or consented to its being a rewind.
pub type Accounts<'a> = &'a (dyn Fn(&Snapshot, Duration) -> Vec<Event> + Sync);

/// What came of bringing revisions into force.
#[derive(Debug, Default)]
pub struct Brought {
    /// Any of their commits consents to something.
    pub has_consent: bool,
    /// The sources that have another commit now.
    pub moved: BTreeSet<Arc<str>>,
}

/// A session that may write.
pub struct Writing {
    /// The state, locked.
    pub db: Arc<Db>,
    /// The engine.
    pub engine: Arc<Engine>,
    pub(super) config: Arc<Config>,
}

impl Session {
    /// Opens the state for writing.
    ///
    /// Errors: another process has it; it was lost (the key is there, the database is not).
    pub async fn writer(&self) -> Result<Writing, Failure> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).take();
        let options = OpenOptions { create: false, clock: self.clock.clone() };
        let db = match made {
            Some(db) => Arc::new(db),
            None => Arc::new(Db::open_writer(&self.config.state_dir, options).await?),
        };
        take_along(&self.config, &db).await?;
        Ok(self.writing(db))
    }

    /// Closes the state that was made with this session, if no writer has come for it.
    pub async fn leave_state(&self) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(db) = made {
            db.close().await;
        }
    }

    /// Writes through a state that is open.
    pub fn writing(&self, db: Arc<Db>) -> Writing {
        db.keep_rows(KEPT);
        let store: Arc<dyn Store> = Arc::new(Measured::new(db.clone(), self.metrics.clone()));
        let engine =
            Engine::new(self.surveyor.clone(), self.writers.clone(), store, self.config.instance.clone());
        Writing { db, engine: Arc::new(engine), config: self.config.clone() }
    }
}

impl Writing {
    /// Lifts the bars of identities that nothing declares any more.
    ///
    /// `desired` must be whole: every source, nothing invalid, nothing selected. A bar is what keeps a forgotten
    /// resource from being adopted, so it stays where its manifest may only be out of sight.
    pub async fn lift_bars(&self, desired: &Desired) -> Result<(), Failure> {
        let bars = self.db.reader().bars().await?;
        let writes = lifted(bars, desired, |entry| self.engine.surveyor.entries.contains_key(entry));
        if !writes.is_empty() {
            self.db.commit(writes).await?;
        }
        Ok(())
    }

    /// Ends what is no longer kept at an earlier revision.
    pub async fn end_pins(&self, pins: &Pins) -> Result<(), Failure> {
        let writes = pins.endings(self.engine.surveyor.cx.clock.now());
        if !writes.is_empty() {
            self.db.commit(writes).await?;
        }
        Ok(())
    }

    /// Ends a recovery, if there is one: everything was found in sync.
    pub async fn end_recovery(&self) -> Result<(), Failure> {
        if self.db.is_recovering().await? {
            self.db.recovered().await?;
        }
        Ok(())
    }

    /// Brings the revisions of `snapshots` into force, and what their commits consent to: from here on an older plan
    /// writes nothing.
    ///
    /// `confirm_path` takes a changed `path` as consented to. What `accounts` says of a commit that was not in force is in
    /// the same transaction: no kill leaves one in force of which the audit trail does not know who it is from.
    pub async fn bring_into_force(
        &self,
        snapshots: &[&Snapshot],
        desired: &Desired,
        confirm_path: bool,
        accounts: Accounts<'_>,
    ) -> Result<Brought, Failure> {
        let (mut writes, mut events, mut consenting) = (Vec::new(), Vec::new(), Vec::new());
        let mut moved = BTreeSet::new();
        for &snapshot in snapshots {
            let manifests: Vec<(ManifestKey, Hash)> = desired
                .manifests
                .iter()
                .filter(|m| m.key.source() == &*snapshot.name)
                .map(|m| (m.key.clone(), m.content))
                .collect();
            let before = self.db.in_force(&snapshot.name).await?;
            let known = before.as_ref();
            let path_changed = desired.sources.get(&snapshot.name).is_some_and(|s| s.path_changed);
            // A changed path stays unconfirmed until a whole apply went through: else its hold would be gone the
            // next time. A folder in place of a repository moves neither commit nor path: both guard rewinds.
            let is_folder = snapshot.revision.is_empty();
            let path = match known {
                Some(known) if is_folder || path_changed && !confirm_path => known.path.to_string(),
                _ => snapshot.path(),
            };
            let commit_id = match known {
                Some(known) if is_folder => known.commit.clone(),
                _ => snapshot.revision.clone(),
            };
            // What a backup says is in force comes into force anew once it was had.
            let is_restored = known.is_some_and(|r| r.is_restored);
            let same = known.is_some_and(|r| r.commit == commit_id && *r.path == *path && !is_folder);
            let same = same && !is_restored;
            let manifests = match same {
                true => match self.with_new(&snapshot.name, manifests).await? {
                    Some(all) => all,
                    None => continue,
                },
                false => manifests,
            };
            let commit = snapshot.commit.as_ref();
            let revision = Revision {
                source: snapshot.name.clone(),
                commit: commit_id,
                label: snapshot.label.clone(),
                author: commit.map_or_else(String::new, |c| c.author.clone()).into(),
                subject: commit.map_or_else(String::new, |c| c.subject.clone()).into(),
                path: path.into(),
                is_restored: is_restored && is_folder,
            };
            let at = self.engine.surveyor.cx.clock.now();
            // Once for each time a commit comes into force, and not again when the same one is loaded anew.
            if known.is_none_or(|r| r.commit != revision.commit) {
                consenting.extend(snapshot.approvals(at).into_iter().map(|approval| (snapshot, approval)));
                events.extend(accounts(snapshot, at).into_iter().map(Write::Event));
                moved.insert(snapshot.name.clone());
            }
            writes.push(Write::InForce { revision, manifests, at });
        }
        let consents = self.consents(consenting, desired).await?;
        let has_consent = !consents.is_empty();
        writes.extend(consents);
        writes.extend(events);
        if !writes.is_empty() {
            self.db.commit(writes).await?;
        }
        Ok(Brought { has_consent, moved })
    }

    /// What is in force of a source, with those of `manifests` that are new though the commit is not: the configuration of the
    /// host has an entry or a label that they are for. None where there are none. What the configuration makes another thing
    /// of, or takes away, stays what the commit says.
    async fn with_new(
        &self,
        source: &str,
        manifests: Vec<(ManifestKey, Hash)>,
    ) -> Result<Option<Vec<(ManifestKey, Hash)>>, Failure> {
        let mut all: BTreeMap<ManifestKey, Hash> = self.db.contents(source).await?.into_iter().collect();
        let before = all.len();
        for (key, content) in manifests {
            all.entry(key).or_insert(content);
        }
        Ok((all.len() > before).then(|| all.into_iter().collect()))
    }

    /// What of `given` counts: a trailer consents only to plans that its source has to do with, and only where all
    /// sources of such a plan let trailers consent.
    ///
    /// A digest does not say of which guard domain it is. Where there are several sources it is looked for among what is
    /// held, and in plans of the domains that would do; what cannot be looked at then is not consented to.
    async fn consents(
        &self,
        given: Vec<(&Snapshot, Approval)>,
        desired: &Desired,
    ) -> Result<Vec<Write>, Failure> {
        let sources = &self.config.sources;
        if given.is_empty() || sources.len() == 1 {
            return Ok(given.into_iter().flat_map(|(by, approval)| consent(by, approval)).collect());
        }
        let concerned = Concerned::of(self.db.reader(), &[desired]).await?;
        let counts = |domain: &str, by: &Snapshot| {
            concerned.counts(sources, domain, Approver::Trailer, &[&*by.name]).is_ok()
        };
        let may_be_meant = |scope: &&Scope| {
            let Some(entry) = self.engine.surveyor.entries.get(&scope.provider) else { return false };
            let domain = guard::domain(entry.observer.info(), scope);
            given.iter().any(|(by, _)| counts(&domain, by))
        };
        let only: BTreeSet<Scope> = concerned.scopes().filter(may_be_meant).cloned().collect();
        let mut plans: Vec<(Arc<str>, Hash)> =
            self.db.holds().await?.into_iter().map(|hold| (hold.domain, hold.digest)).collect();
        let is_meant = |plans: &[(Arc<str>, Hash)], by: &Snapshot, given: Hash| {
            plans.iter().any(|(domain, digest)| *digest == given && counts(domain, by))
        };
        if !only.is_empty() && given.iter().any(|(by, approval)| !is_meant(&plans, by, approval.digest)) {
            let options =
                SurveyOptions { only: Some(only), asked: Some(BTreeSet::new()), ..SurveyOptions::default() };
            let cx = &self.engine.surveyor.cx;
            let survey = pin!(self.engine.surveyor.survey(&*self.db, desired, &options));
            // Who calls has more to do than to wait for one remote that hangs.
            let is_stopped = pin!(cx.stop.wished());
            let enough = select(cx.clock.sleep(CONSENT_LIMIT), is_stopped);
            if let Either::Left((survey, _)) = select(survey, enough).await {
                for mut domain in survey?.domains.into_values() {
                    let wanted = domain.wanted().into_iter().map(|wanted| wanted.hold);
                    plans.extend(wanted.map(|hold| (hold.domain, hold.digest)));
                }
            }
        }
        let mut writes = Vec::new();
        for (by, approval) in given {
            if is_meant(&plans, by, approval.digest) {
                writes.extend(consent(by, approval));
                continue;
            }
            tracing::warn!(
                source = &*by.name,
                commit = &*by.label,
                digest = %approval.digest,
                "trailer approves no plan that its source has to do with and all sources of which let trailers approve"
            );
        }
        Ok(writes)
    }
}

/// The consent of a commit, and that it was given.
fn consent(snapshot: &Snapshot, approval: Approval) -> [Write; 2] {
    let event = Event {
        at: approval.at,
        kind: "approve".into(),
        scope: None,
        address: None,
        revision: snapshot.label.clone(),
        actor: approval.actor.clone(),
        reason: approval.reason.clone(),
        message: format!("plan {} approved by a trailer of source {}", approval.digest, snapshot.name).into(),
    };
    [Write::Approve(approval), Write::Event(event)]
}

/// That `actor` consented to the rewind that the commit of `snapshot` is.
pub(crate) fn rewound(snapshot: &Snapshot, actor: &str, at: Duration) -> Event {
    Event {
        at,
        kind: "rewind".into(),
        scope: None,
        address: None,
        revision: snapshot.label.clone(),
        actor: actor.into(),
        reason: "accept-rewind".into(),
        message: format!("source {} rewound to {}", snapshot.name, snapshot.revision).into(),
    }
}

fn lifted(
    bars: Vec<(Scope, ResourceId)>,
    desired: &Desired,
    is_configured: impl Fn(&str) -> bool,
) -> Vec<Write> {
    let is_gone = |(scope, id): &(Scope, ResourceId)| {
        is_configured(&scope.provider)
            && desired.in_scope(scope).binary_search_by(|resource| resource.id.cmp(id)).is_err()
    };
    bars.into_iter().filter(is_gone).map(|(scope, id)| Write::Consent(scope, id, Consent::LetGo)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Origin, PolicyId, Resource, Spec};

    #[test]
    fn a_bar_is_lifted_once_nothing_declares_its_identity() {
        let (zone, elsewhere) = (Scope::new("pdns", "a"), Scope::new("gone", "a"));
        let declared = Resource::new(
            "www".into(),
            zone.clone().into(),
            Spec::known(b"1".to_vec()),
            Origin { manifest: 0, line: 1 },
            PolicyId::default(),
        );
        let desired = Desired {
            scopes: [(zone.clone(), Arc::new(vec![declared]))].into_iter().collect(),
            ..Desired::default()
        };
        let bars = vec![
            (zone.clone(), "old".into()),
            (zone.clone(), "www".into()),
            // Its provider is not configured here, so nothing can be said about its manifest.
            (elsewhere, "old".into()),
        ];
        let writes = lifted(bars, &desired, |entry| entry == "pdns");
        assert_eq!(writes, [Write::Consent(zone, "old".into(), Consent::LetGo)]);
    }
}
