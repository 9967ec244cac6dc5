//! The side of a session that writes: the one writer of the state, and the engine.

use super::{Failure, Pins, Session, Snapshot, take_along};
use crate::{
    store::{Db, OpenOptions},
    telemetry::Measured,
};
use reconciled_engine::{
    Desired, Store, Write,
    pass::Engine,
    store::{Approval, Event, Revision},
};
use reconciled_provider::{ManifestKey, ResourceId, Scope};
use std::{sync::Arc, time::Duration};

/// Rows that are kept in memory, about 400 bytes each: what one pass wrote the next one looks at.
const KEPT: usize = 20_000;

/// A session that may write.
pub struct Writing {
    /// The state, locked.
    pub db: Arc<Db>,
    /// The engine.
    pub engine: Arc<Engine>,
}

impl Session {
    /// Opens the state for writing.
    ///
    /// Errors: another process has it; it was lost (the key is there, the database is not).
    pub async fn writer(&self) -> Result<Writing, Failure> {
        let options = OpenOptions { create: false, clock: self.clock.clone() };
        let db = Arc::new(Db::open_writer(&self.config.state_dir, options).await?);
        take_along(&self.config, &db).await?;
        Ok(self.writing(db))
    }

    /// Writes through a state that is open.
    pub fn writing(&self, db: Arc<Db>) -> Writing {
        db.keep_rows(KEPT);
        let store: Arc<dyn Store> = Arc::new(Measured::new(db.clone(), self.metrics.clone()));
        let engine =
            Engine::new(self.surveyor.clone(), self.writers.clone(), store, self.config.instance.clone());
        Writing { db, engine: Arc::new(engine) }
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
    /// `confirm_path` takes a changed `path` as consented to. Returns whether any of the commits consents to something.
    pub async fn bring_into_force(
        &self,
        snapshots: &[&Snapshot],
        desired: &Desired,
        confirm_path: bool,
    ) -> Result<bool, Failure> {
        let mut writes = Vec::new();
        for snapshot in snapshots {
            let manifests: Vec<(ManifestKey, _)> = desired
                .manifests
                .iter()
                .filter(|m| m.key.source() == &*snapshot.name)
                .map(|m| (m.key.clone(), m.content))
                .collect();
            let before = self.db.in_force(&snapshot.name).await?;
            let known = before.as_ref();
            let moved = desired.sources.get(&snapshot.name).is_some_and(|s| s.path_changed);
            // A changed path stays unconfirmed until a whole apply went through: else its hold would be gone the
            // next time. A folder in place of a repository moves neither commit nor path: both guard rewinds.
            let is_folder = snapshot.revision.is_empty();
            let path = match known {
                Some(known) if is_folder || moved && !confirm_path => known.path.to_string(),
                _ => snapshot.path(),
            };
            let commit_id = match known {
                Some(known) if is_folder => known.commit.clone(),
                _ => snapshot.revision.clone(),
            };
            let same = known.is_some_and(|r| r.commit == commit_id && *r.path == *path && !is_folder);
            if same {
                continue;
            }
            let commit = snapshot.commit.as_ref();
            let revision = Revision {
                source: snapshot.name.clone(),
                commit: commit_id,
                label: snapshot.label.clone(),
                author: commit.map_or_else(String::new, |c| c.author.clone()).into(),
                subject: commit.map_or_else(String::new, |c| c.subject.clone()).into(),
                path: path.into(),
            };
            let at = self.engine.surveyor.cx.clock.now();
            // Once for each time a commit comes into force, and not again when the same one is loaded anew.
            if known.is_none_or(|r| r.commit != revision.commit) {
                writes.extend(consents(snapshot, at));
            }
            writes.push(Write::InForce { revision, manifests, at });
        }
        let has_consent = writes.iter().any(|write| matches!(write, Write::Approve(_)));
        if !writes.is_empty() {
            self.db.commit(writes).await?;
        }
        Ok(has_consent)
    }
}

/// What the commit of `snapshot` consents to, and that it did.
fn consents(snapshot: &Snapshot, at: Duration) -> Vec<Write> {
    let consent = |approval: Approval| {
        let event = Event {
            at,
            kind: "approve".into(),
            scope: None,
            address: None,
            revision: snapshot.label.clone(),
            actor: approval.actor.clone(),
            reason: approval.reason.clone(),
            message: format!("plan {} approved by a trailer of source {}", approval.digest, snapshot.name)
                .into(),
        };
        [Write::Approve(approval), Write::Event(event)]
    };
    snapshot.approvals(at).into_iter().flat_map(consent).collect()
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
    bars.into_iter().filter(is_gone).map(|(scope, id)| Write::ConsentSpent(scope, id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reconciled_provider::{Origin, PolicyId, Resource, Spec};

    #[test]
    fn a_bar_is_lifted_once_nothing_declares_its_identity() {
        let (zone, elsewhere) = (Scope::new("pdns", "a"), Scope::new("gone", "a"));
        let declared = Resource {
            id: "www".into(),
            scope: zone.clone().into(),
            spec: Spec::known(b"1".to_vec()),
            origin: Origin { manifest: 0, line: 1 },
            policy: PolicyId::default(),
        };
        let desired =
            Desired { scopes: [(zone.clone(), vec![declared])].into_iter().collect(), ..Desired::default() };
        let bars = vec![
            (zone.clone(), "old".into()),
            (zone.clone(), "www".into()),
            // Its provider is not configured here, so nothing can be said about its manifest.
            (elsewhere, "old".into()),
        ];
        let writes = lifted(bars, &desired, |entry| entry == "pdns");
        assert_eq!(writes, [Write::ConsentSpent(zone, "old".into())]);
    }
}
