//! An entry or a source that has another name now: what is known of it goes along, so that nothing is made twice, let go
//! of or deleted for a word in a file.
//!
//! Guarantees: one transaction for all of it; nothing is renamed while a write has no answer, since what that made would
//! be looked for under the wrong name, and nothing where both names track the same resource. It deliberately leaves the
//! audit trail as it was written, with an event that says what was renamed.

use super::{
    db::Db,
    error::{Result, StoreError},
    events, inventory,
    message::Message,
    named::{Named, Rename},
    reader::Reader,
    rows,
    seal::{Part, Seal},
};
use reconciled_engine::store::Event;
use reconciled_provider::{Error, ResourceId, Scope};
use sqlx::{AssertSqlSafe, SqliteConnection};
use std::{collections::BTreeSet, time::Duration};
use tokio::sync::oneshot;

/// Columns that hold a scope, as PROVIDER/NAME, or an entry alone.
const SCOPES: [(&str, &str); 15] = [
    ("inventory", "scope"),
    ("edge", "scope"),
    ("journal", "scope"),
    ("condition", "scope"),
    ("hold", "domain"),
    ("consent", "scope"),
    ("claim", "scope"),
    ("claim", "owner_scope"),
    ("claim", "provider"),
    ("suspension_scope", "scope"),
    ("pin", "scope"),
    ("document", "scope"),
    ("drift", "scope"),
    ("health", "scope"),
    ("scope_place", "scope"),
];

/// Columns that hold the key of a manifest, as SOURCE/GROUP/KIND/NAMESPACE/NAME.
const MANIFESTS: [(&str, &str); 6] = [
    ("inventory", "manifest"),
    ("edge", "manifest"),
    ("document", "manifest"),
    ("pin", "manifest"),
    ("drift", "manifest"),
    ("manifest", "key"),
];

/// `column` is ?1, or begins with it and a slash.
fn is_of(column: &str) -> String {
    // '0' comes after '/'.
    format!("({column} = ?1 OR {column} >= ?1 || '/' AND {column} < ?1 || '0')")
}

impl Rename {
    fn columns(&self) -> &'static [(&'static str, &'static str)] {
        match self.what {
            Named::Provider => &SCOPES,
            Named::Source => &MANIFESTS,
        }
    }

    /// True when something is known under the name before.
    async fn is_due(&self, conn: &mut SqliteConnection) -> Result<bool> {
        for (table, column) in self.columns() {
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {})", is_of(column));
            if self.ask(conn, &sql).await? {
                return Ok(true);
            }
        }
        let kind = if self.what == Named::Provider { "provider" } else { "source" };
        let suspended =
            format!("SELECT EXISTS (SELECT 1 FROM suspension WHERE extent = '{kind}' AND name = ?1)");
        if self.ask(conn, &suspended).await? {
            return Ok(true);
        }
        match self.what {
            Named::Provider => Ok(false),
            Named::Source => self.ask(conn, "SELECT EXISTS (SELECT 1 FROM revision WHERE source = ?1)").await,
        }
    }

    async fn ask(&self, conn: &mut SqliteConnection, sql: &str) -> Result<bool> {
        let mut asked = sqlx::query_scalar(AssertSqlSafe(sql)).bind(&*self.from);
        if sql.contains("?2") {
            asked = asked.bind(&*self.to);
        }
        Ok(asked.fetch_one(conn).await?)
    }

    /// Errors: a write has no answer yet, or both names track one resource.
    async fn check(&self, conn: &mut SqliteConnection) -> Result<()> {
        let open = match self.what {
            Named::Provider => is_of("scope"),
            Named::Source => format!(
                "EXISTS (SELECT 1 FROM intent i, json_each(i.actions) a WHERE i.number = journal.number AND {})",
                is_of("coalesce(a.value ->> 'manifest', i.common ->> 'manifest')")
            ),
        };
        let open = format!("SELECT EXISTS (SELECT 1 FROM journal WHERE ended < total AND {open})");
        if self.ask(conn, &open).await? {
            return Err(StoreError::RenameOpen(self.clone()));
        }
        let twice = "SELECT EXISTS (SELECT 1 FROM inventory a JOIN inventory b ON a.id = b.id
             AND b.scope = ?2 || substr(a.scope, length(?1) + 1) WHERE a.scope >= ?1 || '/' AND a.scope < ?1 || '0')";
        if self.what == Named::Provider && self.ask(conn, twice).await? {
            return Err(StoreError::RenameTwice(self.clone()));
        }
        Ok(())
    }

    async fn run(&self, conn: &mut SqliteConnection, sql: &str) -> Result<u64> {
        let mut asked = sqlx::query(AssertSqlSafe(sql)).bind(&*self.from);
        if sql.contains("?2") {
            asked = asked.bind(&*self.to);
        } else if !sql.contains("?1") {
            asked = sqlx::query(AssertSqlSafe(sql));
        }
        Ok(asked.execute(conn).await?.rows_affected())
    }

    async fn apply(&self, conn: &mut SqliteConnection, seal: &Seal, at: Duration) -> Result<()> {
        self.check(conn).await?;
        // What another process keeps of these rows counts no more, under either name.
        let mut scopes: BTreeSet<String> = self.scopes(conn).await?;
        if self.what == Named::Provider {
            self.seal_again(conn, seal).await?;
            self.unmark(conn).await?;
            // What is left of a plan is known by the name before: it is held again.
            self.run(conn, &format!("DELETE FROM begun WHERE {}", is_of("domain"))).await?;
        }
        let mut count = 0;
        // What is in force under the new name came later, so it stays.
        let known = "DELETE FROM manifest WHERE source = ?1
             AND EXISTS (SELECT 1 FROM manifest WHERE source = ?2)";
        if self.what == Named::Source {
            self.run(conn, known).await?;
        }
        for (table, column) in self.columns() {
            let sql = format!(
                "UPDATE OR REPLACE {table} SET {column} = ?2 || substr({column}, length(?1) + 1) WHERE {}",
                is_of(column)
            );
            let moved = self.run(conn, &sql).await?;
            count += if *table == "inventory" { moved } else { 0 };
        }
        scopes.extend(self.scopes(conn).await?);
        for sql in self.rest() {
            self.run(conn, sql).await?;
        }
        let scopes = scopes.iter().map(|scope| rows::scope(scope)).collect::<Result<BTreeSet<_>>>()?;
        inventory::touch(conn, &scopes.iter().collect::<Vec<_>>()).await?;
        let event = Event {
            at,
            kind: "rename".into(),
            scope: None,
            address: None,
            revision: "".into(),
            actor: "engine".into(),
            reason: "the configuration says `was`".into(),
            message: format!("{self}; resources that go along: {count}").into(),
        };
        events::append(conn, &event).await
    }

    /// The scopes whose rows change.
    async fn scopes(&self, conn: &mut SqliteConnection) -> Result<BTreeSet<String>> {
        let column = if self.what == Named::Provider { "scope" } else { "manifest" };
        // What comes after a manifest of a source may be of another one.
        let sql = format!(
            "SELECT scope FROM inventory WHERE {0} UNION SELECT scope FROM edge WHERE {0}",
            is_of(column)
        );
        let mut found: BTreeSet<String> = sqlx::query_scalar(AssertSqlSafe(&*sql))
            .bind(&*self.from)
            .fetch_all(&mut *conn)
            .await?
            .into_iter()
            .collect();
        let now: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(&*sql)).bind(&*self.to).fetch_all(&mut *conn).await?;
        found.extend(now);
        Ok(found)
    }

    /// Statements that are of no column's form. Versions go: the scope shall be looked at once under its new name.
    fn rest(&self) -> &'static [&'static str] {
        match self.what {
            Named::Provider => &[
                "DELETE FROM scope_version WHERE scope >= ?1 || '/' AND scope < ?1 || '0' OR scope >= ?2 || '/' AND scope < ?2 || '0'",
                "DELETE FROM looked_at WHERE scope >= ?1 || '/' AND scope < ?1 || '0'",
                "DELETE FROM converged",
                "UPDATE suspension SET name = ?2 WHERE extent = 'provider' AND name = ?1",
                "UPDATE OR REPLACE trouble SET subject = ?2 || substr(subject, length(?1) + 1),
                     body = iif(json_extract(body, '$.provider') = ?1, json_set(body, '$.provider', ?2), body)
                 WHERE subject = ?1 OR subject >= ?1 || '/' AND subject < ?1 || '0'",
                "UPDATE OR REPLACE announcement SET subject = ?2 || substr(subject, length(?1) + 1)
                 WHERE subject = ?1 OR subject >= ?1 || '/' AND subject < ?1 || '0'",
            ],
            Named::Source => &[
                "UPDATE inventory SET depends_on = (SELECT json_group_array(iif(value >= ?1 || '/' AND value < ?1 || '0',
                     ?2 || substr(value, length(?1) + 1), value)) FROM json_each(depends_on))
                 WHERE EXISTS (SELECT 1 FROM json_each(depends_on) WHERE value >= ?1 || '/' AND value < ?1 || '0')",
                "UPDATE manifest SET source = ?2 WHERE source = ?1",
                "UPDATE revision SET source = ?2 WHERE source = ?1",
                "UPDATE OR REPLACE meta SET key = 'restored/' || ?2 WHERE key = 'restored/' || ?1",
                "DELETE FROM converged",
                "UPDATE suspension SET name = ?2 WHERE extent = 'source' AND name = ?1",
                "UPDATE OR REPLACE commit_status SET source = ?2 WHERE source = ?1",
                "UPDATE OR REPLACE trouble SET subject = 'source ' || ?2,
                     body = iif(json_extract(body, '$.source') = ?1, json_set(body, '$.source', ?2), body)
                 WHERE subject = 'source ' || ?1",
                "UPDATE OR REPLACE announcement SET subject = 'source ' || ?2 WHERE subject = 'source ' || ?1",
            ],
        }
    }

    /// A mark is about the rows that a scope had when it was made, and none that come from another.
    async fn unmark(&self, conn: &mut SqliteConnection) -> Result<()> {
        let is_meant = |column| format!("({} OR {})", is_of(column), is_of(column).replace("?1", "?2"));
        let rows = format!(
            "UPDATE inventory SET state = 'settled', synced_at = mark.settled_at, healthy_at = mark.settled_at
             FROM inventory_stamp AS mark
             WHERE mark.scope = inventory.scope AND {} AND inventory.state = 'applied' AND inventory.stamp <= mark.settled",
            is_meant("inventory.scope")
        );
        self.run(conn, &rows).await?;
        let marks =
            "UPDATE inventory_stamp SET settled = NULL, settled_at = NULL WHERE settled IS NOT NULL AND";
        self.run(conn, &format!("{marks} {}", is_meant("scope"))).await?;
        Ok(())
    }

    /// What is sealed is bound to its scope, so it is sealed for the new one.
    async fn seal_again(&self, conn: &mut SqliteConnection, seal: &Seal) -> Result<()> {
        let sql = format!(
            "SELECT scope, id, private, outputs FROM inventory
             WHERE (private IS NOT NULL OR outputs IS NOT NULL) AND {}",
            is_of("scope")
        );
        type Found = (String, String, Option<Vec<u8>>, Option<Vec<u8>>);
        let found: Vec<Found> =
            sqlx::query_as(AssertSqlSafe(sql)).bind(&*self.from).fetch_all(&mut *conn).await?;
        for (text, id, private, outputs) in found {
            let old = rows::scope(&text)?;
            let new = Scope::new(&*self.to, &*old.name);
            let id = ResourceId::from(&*id);
            let again = |part, bytes: Option<Vec<u8>>| -> Result<Option<Vec<u8>>> {
                let Some(bytes) = bytes else { return Ok(None) };
                seal.seal(&new, &id, part, &seal.open(&old, &id, part, &bytes)?)
            };
            sqlx::query("UPDATE inventory SET private = ?3, outputs = ?4 WHERE scope = ?1 AND id = ?2")
                .bind(text)
                .bind(&*id.0)
                .bind(again(Part::Private, private)?)
                .bind(again(Part::Outputs, outputs)?)
                .execute(&mut *conn)
                .await?;
        }
        Ok(())
    }
}

/// Carries out all of them, inside the transaction the writer opened.
pub(super) async fn apply(
    conn: &mut SqliteConnection,
    seal: &Seal,
    list: &[Rename],
    at: Duration,
) -> Result<()> {
    for rename in list {
        rename.apply(conn, seal, at).await?;
    }
    Ok(())
}

impl Reader {
    /// Those of `list` of which something is still known under the name before.
    ///
    /// Errors: one of them cannot be carried out as things are.
    pub async fn due(&self, list: &[Rename]) -> Result<Vec<Rename>> {
        let mut due = Vec::new();
        if list.is_empty() {
            return Ok(due);
        }
        let mut tx = self.snapshot().await?;
        for rename in list {
            if rename.is_due(&mut tx).await.map_err(|error| error.of(&self.file))? {
                rename.check(&mut tx).await.map_err(|error| error.of(&self.file))?;
                due.push(rename.clone());
            }
        }
        Ok(due)
    }

    /// Errors: something is known under a name before, so what would be planned now is not what would be done.
    pub async fn has_its_names(&self, list: &[Rename]) -> Result<()> {
        match self.due(list).await?.into_iter().next() {
            Some(rename) => Err(StoreError::Renamed(rename)),
            None => Ok(()),
        }
    }
}

impl Db {
    /// Gives what is known of entries and sources the names they have now; nothing where that was done.
    pub async fn rename(&self, list: &[Rename]) -> Result<(), Error> {
        let due = self.reader.due(list).await?;
        if due.is_empty() {
            return Ok(());
        }
        due.iter().for_each(|rename| tracing::info!(from = %rename.from, to = %rename.to, "renamed"));
        let (reply, answer) = oneshot::channel();
        self.queue.send(Message::Rename(due, reply)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}
