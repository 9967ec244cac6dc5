//! What is remembered of scopes goes once nothing is tracked or declared there.

use super::*;
use reconciled_engine::{health::HealthState, store::Ailment};
use sqlx::AssertSqlSafe;

fn ailment(scope: &Scope) -> Write {
    let ailment =
        Ailment { id: Some("www/A".into()), state: HealthState::Degraded, message: "why".into(), since: NOW };
    Write::Ailments(scope.clone(), vec![ailment])
}

async fn count(db: &Db, table: &str) -> i64 {
    let mut conn = db.reader().snapshot().await.unwrap();
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    sqlx::query_scalar(sql).fetch_one(&mut *conn).await.unwrap()
}

#[tokio::test]
async fn a_scope_that_is_gone_leaves_nothing_behind_and_one_that_is_tracked_keeps_all() {
    let (_dir, db) = new().await;
    let content = Hash::of(b"1");
    db.commit(vec![
        in_force("one", &[("example.com", "1")]),
        Write::Rows(vec![row("a")]),
        Write::Documents(zone(), vec![(key("example.com"), Some(content))]),
        Write::LookedAt(zone(), 1),
        ailment(&zone()),
    ])
    .await
    .unwrap();
    let tables = ["document", "looked_at", "health"];
    db.commit(vec![in_force("two", &[])]).await.unwrap();
    for table in tables {
        assert_eq!(count(&db, table).await, 1, "{table}: its row is still to be deleted");
    }
    db.commit(vec![Write::Gone(zone(), vec!["a".into()])]).await.unwrap();
    db.commit(vec![in_force("three", &[("example.net", "1")])]).await.unwrap();
    for table in tables {
        assert_eq!(count(&db, table).await, 0, "{table}");
    }
    db.close().await;
}
