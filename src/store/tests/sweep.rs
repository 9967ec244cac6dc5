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
        Write::Rows(vec![row("a")].into()),
        Write::Documents(zone(), vec![(key("example.com"), Some(content))]),
        Write::LookedAt(zone(), 1),
        Write::Place(zone(), Hash::of(b"here")),
        ailment(&zone()),
    ])
    .await
    .unwrap();
    let tables = ["document", "looked_at", "health", "scope_place"];
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

#[tokio::test]
async fn what_was_claimed_goes_with_the_last_word_of_who_claimed_it() {
    let (dir, db) = new().await;
    let certs = Scope::new("cert", "web");
    let tracked = |id: &str| row(id).with(|row| row.scope = certs.clone().into());
    let claims = |id: &str| {
        let claim = ClaimRow { owner: id.into(), ..claim("a", &zone(), &certs) };
        Write::Claims(certs.clone(), id.into(), vec![claim])
    };
    db.commit(vec![Write::Rows(vec![tracked("web"), tracked("api")].into()), claims("web"), claims("api")])
        .await
        .unwrap();
    db.commit(vec![Write::Gone(certs.clone(), vec!["web".into()])]).await.unwrap();
    let owners = |memory: ScopeMemory| -> Vec<ResourceId> {
        memory.claims_here.into_iter().map(|claim| claim.owner).collect()
    };
    assert_eq!(owners(db.scope(&zone()).await.unwrap()), ["api".into()]);
    // As an earlier version left it.
    let converged = Converged { source: "infra".into(), commit: "c1".into(), inputs: Hash::of(b"i") };
    db.commit(vec![claims("web"), Write::Converged(Ok(converged.clone()))]).await.unwrap();
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(owners(db.scope(&zone()).await.unwrap()), ["api".into()]);
    assert_eq!(db.converged("infra").await.unwrap(), None, "everything is looked at once more");
    db.commit(vec![Write::Converged(Ok(converged.clone()))]).await.unwrap();
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(db.converged("infra").await.unwrap(), Some(converged), "nothing was left over");
    db.close().await;
}
