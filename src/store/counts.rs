//! How many there are of what: for metrics, which ask often and want numbers only.

use super::{error::Result, read::faring, reader::Reader};
use crate::telemetry::metrics::Counts;
use reconciled_engine::HealthState;
use sqlx::SqliteConnection;
use std::collections::BTreeMap;

impl Reader {
    /// Counts, in one consistent snapshot.
    pub async fn counts(&self) -> Result<Counts> {
        let mut tx = self.snapshot().await?;
        counts(&mut tx).await.map_err(|error| error.of(&self.file))
    }
}

async fn counts(conn: &mut SqliteConnection) -> Result<Counts> {
    let by_word = async |conn: &mut SqliteConnection, sql: &'static str| -> Result<BTreeMap<String, u64>> {
        let found: Vec<(String, i64)> = sqlx::query_as(sql).fetch_all(conn).await?;
        Ok(found.into_iter().map(|(word, count)| (word, count as u64)).collect())
    };
    let number = async |conn: &mut SqliteConnection, sql: &'static str| -> Result<u64> {
        Ok(sqlx::query_scalar::<_, i64>(sql).fetch_one(conn).await? as u64)
    };
    Ok(Counts {
        resources: by_word(conn, "SELECT state, count(*) FROM inventory_now GROUP BY state").await?,
        conditions: by_word(conn, "SELECT kind, count(*) FROM condition GROUP BY kind").await?,
        degraded: faring(conn, HealthState::Degraded).await?.len() as u64,
        drifts: by_word(conn, "SELECT mode, count(*) FROM drift WHERE ended_at IS NULL GROUP BY mode")
            .await?,
        holds: number(conn, "SELECT count(*) FROM hold WHERE once IS NULL").await?,
        suspensions: number(conn, "SELECT count(*) FROM suspension").await?,
    })
}
