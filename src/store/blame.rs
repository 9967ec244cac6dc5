//! Who is behind an action: whose commit it was done for, who pushed that, and who consented.
//!
//! Guarantees: only what the audit trail and the revisions say. It deliberately guesses nothing: a commit of which no
//! revision is kept any more has no author here.

use super::{
    entry::HistoryEntry,
    error::Result,
    rows::{at, ms},
};
use sqlx::{Row as _, SqliteConnection};
use std::{collections::HashMap, time::Duration};

/// Kind of the event that says that a consent was used.
const USED: &str = "consented";

/// How long after a consent was used what nobody wrote into a commit still counts as done by it.
const SOON: Duration = Duration::from_secs(60);

/// A consent that was used.
struct Used {
    at: Duration,
    domain: String,
    revision: String,
    actor: String,
    reason: String,
}

/// Who did what, by commit.
pub(super) struct Blame {
    /// By source and label.
    authors: HashMap<(String, String), String>,
    /// By label.
    pushers: HashMap<String, Vec<(String, String)>>,
    /// The newest first.
    used: Vec<Used>,
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
            pushers.entry(row.try_get(0)?).or_default().push((row.try_get(1)?, row.try_get(2)?));
        }
        let mut used = Vec::new();
        let found = sqlx::query(
            "SELECT at, message, revision, actor, reason FROM event WHERE kind = ?1 ORDER BY number DESC",
        );
        for row in found.bind(USED).fetch_all(conn).await? {
            let message: &str = row.try_get(1)?;
            used.push(Used {
                at: at(row.try_get(0)?),
                domain: message.split(' ').next().unwrap_or_default().to_owned(),
                revision: row.try_get(2)?,
                actor: row.try_get(3)?,
                reason: row.try_get(4)?,
            });
        }
        Ok(Blame { authors, pushers, used })
    }

    /// Completes an action of a manifest of `source`.
    pub(super) fn put(&self, entry: &mut HistoryEntry, source: &str) {
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
        if matches!(entry.reason.as_str(), "drift" | "due" | "restore" | "claim" | "continue") {
            return;
        }
        let scope = entry.scope.clone().unwrap_or_default();
        let used = self.used.iter().find(|used| {
            let of_domain = used.domain == scope || scope.split('/').next() == Some(&*used.domain);
            // Journal and trail are to the millisecond.
            let after = entry.at.0.checked_sub(used.at);
            let by_commit =
                label.as_ref().is_some_and(|label| used.revision.split('+').any(|one| one == label));
            of_domain && after.is_some_and(|after| by_commit || ms(after) <= ms(SOON))
        });
        if let Some(used) = used {
            entry.approver = Some(used.actor.clone());
            entry.approval_reason = Some(used.reason.clone());
        }
    }
}
