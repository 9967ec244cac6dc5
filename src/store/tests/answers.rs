//! What an answer costs does not grow with what was answered before.

use super::*;
use crate::store::journal::OPEN;
use sqlx::AssertSqlSafe;

#[tokio::test]
async fn groups_that_were_answered_are_not_read_for_an_answer() {
    let (_dir, db) = new().await;
    let mut conn = db.reader().snapshot().await.unwrap();
    let plan = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {OPEN}"));
    let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(plan).fetch_all(&mut *conn).await.unwrap();
    let reads: Vec<&str> =
        steps.iter().map(|step| &*step.3).filter(|step| step.contains("journal")).collect();
    assert_eq!(reads, ["SCAN journal USING INDEX journal_open"]);
}
