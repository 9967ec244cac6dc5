//! The side of a session that writes: the one writer of the state, and the engine.

use super::{Failure, Session, Snapshot};
use crate::store::{Db, OpenOptions};
use reconciled_engine::{Desired, Store, Write, pass::Engine, store::Revision};
use reconciled_provider::ManifestKey;
use std::sync::Arc;

/// A session that may write.
pub struct Writing {
    /// The state, locked.
    pub db: Arc<Db>,
    /// The engine.
    pub engine: Engine,
}

impl Session {
    /// Opens the state for writing.
    ///
    /// Errors: another process has it; it was lost (the key is there, the database is not).
    pub async fn writer(&self) -> Result<Writing, Failure> {
        let options = OpenOptions { create: false, clock: self.clock.clone() };
        let db = Arc::new(Db::open_writer(&self.config.state_dir, options).await?);
        let store: Arc<dyn Store> = db.clone();
        let engine =
            Engine::new(self.surveyor.clone(), self.writers.clone(), store, self.config.instance.clone());
        Ok(Writing { db, engine })
    }
}

impl Writing {
    /// Brings the revisions of `snapshots` into force: from here on an older plan writes nothing.
    pub async fn bring_into_force(&self, snapshots: &[Snapshot], desired: &Desired) -> Result<(), Failure> {
        let mut writes = Vec::new();
        for snapshot in snapshots {
            let manifests: Vec<(ManifestKey, _)> = desired
                .manifests
                .iter()
                .filter(|m| m.key.source() == &*snapshot.name)
                .map(|m| (m.key.clone(), m.content))
                .collect();
            let before = self.db.in_force(&snapshot.name).await?;
            let path = snapshot.path();
            let same = before.is_some_and(|r| {
                r.commit == snapshot.revision && *r.path == *path && !snapshot.revision.is_empty()
            });
            if same {
                continue;
            }
            let commit = snapshot.commit.as_ref();
            let revision = Revision {
                source: snapshot.name.clone(),
                commit: snapshot.revision.clone(),
                label: snapshot.label.clone(),
                author: commit.map_or_else(String::new, |c| c.author.clone()).into(),
                subject: commit.map_or_else(String::new, |c| c.subject.clone()).into(),
                path: path.into(),
            };
            writes.push(Write::InForce { revision, manifests, at: self.engine.surveyor.cx.clock.now() });
        }
        if !writes.is_empty() {
            self.db.commit(writes).await?;
        }
        Ok(())
    }
}
