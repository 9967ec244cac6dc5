//! What a group of actions has in common is stored once, and reads back whole.

use super::*;

async fn stored(dir: &TempDir) -> Vec<(String, String, Option<String>)> {
    let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
    let found = sqlx::query_as(
        "SELECT common, actions, rows FROM journal JOIN intent USING (number) ORDER BY number",
    );
    let found = found.fetch_all(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    found
}

#[tokio::test]
async fn what_a_group_has_in_common_is_there_once_and_what_differs_is_each_ones_own() {
    let (dir, db) = new().await;
    let other = row("d").with(|row| {
        row.file = "zones/other.yaml".into();
        row.manifest = key("other");
    });
    let groups = [
        vec![intent(1, row("a")), intent(2, row("b").with(|row| row.template = Hash::of(b"own")))],
        vec![
            intent(3, rich_row("c")),
            Intent { reason: "".into(), op: "update".into(), ..intent(4, other) },
            Intent {
                consented: Some(Hash::of(b"plan")),
                ..intent(5, row("e").with(|row| row.revision = "".into()))
            },
        ],
    ];
    for group in &groups {
        db.commit(vec![start(group.clone(), vec![])]).await.unwrap();
    }
    let found: Vec<Intent> =
        db.scope(&zone()).await.unwrap().open.into_iter().map(|open| open.intent).collect();
    assert_eq!(found, groups.concat());

    let stored = stored(&dir).await;
    let (common, actions, rows) = &stored[0];
    for word in
        ["create", "commit abc1234", "infra/dns/Zone//example.com", "zones/example.com.yaml", "settled"]
    {
        assert!(common.contains(word), "{word}: {common}");
        assert!(
            !actions.contains(word) && !rows.as_ref().unwrap().contains(word),
            "{word}: {actions} {rows:?}"
        );
    }
    assert_eq!(stored[1].0, "{}");
    let mut conn = db.reader().conn().await.unwrap();
    let sql = "SELECT op || ' ' || reason FROM actions WHERE id IN ('a', 'b')";
    let said: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut *conn).await.unwrap();
    assert_eq!(said, ["create commit abc1234"; 2]);
    drop(conn);
    for (what, id) in [("create", "c"), ("update", "d"), ("create", "e")] {
        let sql = "SELECT op || ' ' || reason FROM actions WHERE id = ?1";
        let mut conn = db.reader().conn().await.unwrap();
        let said: String = sqlx::query_scalar(sql).bind(id).fetch_one(&mut *conn).await.unwrap();
        assert!(said.starts_with(what), "{said}");
    }
}

#[tokio::test]
async fn intents_of_the_schema_before_are_answered_after_an_upgrade() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(DATABASE);
    open::make_file(&file).unwrap();
    let mut conn = open::connect(&file).await.unwrap();
    let before: Vec<_> =
        migrations::MIGRATIONS.iter().filter(|migration| migration.version < 16).cloned().collect();
    let before = sqlx::migrate::Migrator { migrations: before.into(), ..sqlx::migrate::Migrator::DEFAULT };
    before.run(&mut conn).await.unwrap();
    let hash = |text: &str| Hash::of(text.as_bytes()).to_string();
    let actions = format!(
        r#"[{{"action":7,"op":"create","id":"a","address":"Zone/example.com#a","manifest":"infra/dns/Zone//example.com",
             "token":"token","after":"{}","reason":"commit abc1234","revision":"abc1234"}}]"#,
        hash("a")
    );
    let rows = format!(
        r#"[{{"file":"zones/example.com.yaml","template":"{}","applied":"{}","normalizer":3,"deletion":"delete",
             "drift":"heal","state":"pending","recheck_at":5000,"written_at":0,"depends_on":["infra/dns/Zone//b"]}}]"#,
        hash("template"),
        hash("a")
    );
    let journal = "INSERT INTO journal (number, scope, epoch, started_at, total, numbers, rows) VALUES (1, ?1, 1, 0, 1, '[[7,1]]', ?2)";
    sqlx::query(journal).bind(zone().to_string()).bind(rows).execute(&mut conn).await.unwrap();
    let intents = "INSERT INTO intent (number, actions) VALUES (1, ?1)";
    sqlx::query(intents).bind(actions).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();

    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    let open = db.scope(&zone()).await.unwrap().open;
    let state = RowState::Pending { recheck_at: Duration::from_secs(5) };
    let expect = row("a").with(|row| {
        row.state = state;
        row.tracked.after = [key("b")].into();
    });
    let found: Vec<Intent> = open.into_iter().map(|open| open.intent).collect();
    assert_eq!(found, [intent(7, expect)]);
    db.commit(vec![Write::End(vec![ending(7, "done")])]).await.unwrap();
    assert!(db.scope(&zone()).await.unwrap().open.is_empty());
}
