//! Who is behind an action: whose commit it was done for, who pushed that, and who consented.
//!
//! Guarantees: only what the audit trail and the revisions say. It deliberately guesses nothing: a commit of which no
//! revision is kept any more has no author here.

use super::{claim, entry::HistoryEntry, error::Result, rows::at};
use reconciled_provider::Hash;
use sqlx::{Row as _, SqliteConnection};
use std::{collections::HashMap, time::Duration};

/// Kind of the event that says that a consent was used; its message ends with the digest of the plan.
const USED: &str = "consented";

/// A consent that was used.
struct Used {
    at: Duration,
    actor: String,
    reason: String,
}

/// Who did what, by commit.
pub(super) struct Blame {
    /// By source and label.
    authors: HashMap<(String, String), String>,
    /// By label.
    pushers: HashMap<String, Vec<(String, String)>>,
    /// By digest of the plan, the newest first.
    used: HashMap<String, Vec<Used>>,
}

impl Blame {
    pub(super) async fn read(conn: &mut SqliteConnection) -> Result<Blame> {
        let mut authors = HashMap::new();
        let found = sqlx::query("SELECT source, label, author FROM revision WHERE author <> ''");
        for row in found.fetch_all(&mut *conn).await? {
            authors.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
        }
        let mut pushers: HashMap<String, Vec<(String, String)>> = HashMap::new();
        let found =
            sqlx::query("SELECT revision, actor, message FROM event WHERE kind = 'push' ORDER BY number");
        for row in found.fetch_all(&mut *conn).await? {
            let message: String = row.try_get(2)?;
            let pusher = claim::with_claim(row.try_get(1)?, claim::in_push(&message));
            pushers.entry(row.try_get(0)?).or_default().push((pusher, message));
        }
        let mut used: HashMap<String, Vec<Used>> = HashMap::new();
        let found =
            sqlx::query("SELECT at, message, actor, reason FROM event WHERE kind = ?1 ORDER BY number DESC");
        for row in found.bind(USED).fetch_all(conn).await? {
            let message: &str = row.try_get(1)?;
            let digest = message.rsplit(' ').next().unwrap_or_default().to_owned();
            let consent = Used { at: at(row.try_get(0)?), actor: row.try_get(2)?, reason: row.try_get(3)? };
            used.entry(digest).or_default().push(consent);
        }
        Ok(Blame { authors, pushers, used })
    }

    /// Completes an action of a manifest of `source`; `consented` is the plan that a person consented to for it.
    pub(super) fn put(&self, entry: &mut HistoryEntry, source: &str, consented: Option<Hash>) {
        let label = entry.reason.strip_prefix("commit ").or_else(|| entry.reason.strip_prefix("rollback "));
        let label = label.filter(|label| !label.is_empty()).map(str::to_owned);
        if let Some(label) = &label {
            // What deletes is not the commit that made it.
            entry.revision.clone_from(label);
            entry.author = self.authors.get(&(source.to_owned(), label.clone())).cloned();
            let of_source = format!("source {source}: ");
            let pushes = self.pushers.get(label).into_iter().flatten();
            entry.pusher =
                pushes.filter(|(_, message)| message.contains(&of_source)).map(|(who, _)| who.clone()).next();
        }
        let consents = consented.and_then(|digest| self.used.get(&digest.to_string()));
        // The same plan may come again, and take another consent.
        if let Some(used) = consents.into_iter().flatten().find(|used| used.at <= entry.at.0) {
            entry.approver = Some(used.actor.clone());
            entry.approval_reason = Some(used.reason.clone());
        }
    }
}
