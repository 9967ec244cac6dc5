//! What is kept in memory of rows is what the database holds, whatever happens to it.

use super::*;
use reconciled_provider::Hash;
use std::sync::Arc;

/// A number below `most` that depends on all of `seed`.
fn dice(seed: impl fmt::Debug, most: usize) -> usize {
    usize::from(Hash::of(format!("{seed:?}").as_bytes()).0[0]) % most
}

fn scope_of(number: usize) -> Scope {
    Scope::new("pdns", format!("z{number}.test"))
}

/// Some write; `step` and `part` decide which.
fn write(step: usize, part: usize) -> Write {
    let scope = scope_of(dice(("scope", step, part), 3));
    let id = |n: usize| ResourceId::from(format!("h{}/A", dice(("id", step, part, n), 12)).as_str());
    let ids: Vec<ResourceId> = (0..1 + dice(("many", step, part), 4)).map(id).collect();
    match dice(("kind", step, part), 4) {
        0 => Write::Gone(scope, ids),
        1 => Write::Settled(scope, ids),
        _ => {
            let fresh = |id: ResourceId| {
                let time = NOW + Duration::from_nanos(step as u64 * 1_234_567);
                let state = match dice(("state", step, part, &id), 3) {
                    0 => RowState::Applied,
                    1 => RowState::Pending { recheck_at: time },
                    _ => RowState::Settled,
                };
                let rich = rich_row(&id.0);
                rich.with(|row| {
                    row.scope = scope.clone().into();
                    row.state = state;
                    row.written_at = time;
                })
            };
            Write::Rows(ids.into_iter().map(fresh).collect::<Vec<_>>().into())
        }
    }
}

/// Refused by the store.
fn refused() -> Write {
    Write::UseApproval(Hash::of(b"nobody gave it"), NOW)
}

#[tokio::test]
async fn what_is_kept_of_rows_is_what_the_database_holds() {
    let (dir, db) = new().await;
    let reader = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
    let (mut found, mut failed) = (0, 0);
    for step in 0..300 {
        // At times nothing fits, at times all of it.
        db.keep_rows([0, 20, 1_000][step / 10 % 3]);
        let commits = (0..1 + dice(("commits", step), 4)).map(|commit| {
            let mut writes: Vec<Write> =
                (0..1 + dice(step, 3)).map(|n| write(step, commit * 10 + n)).collect();
            if dice(("refused", step, commit), 5) == 0 {
                writes.push(refused());
            }
            db.commit(writes)
        });
        failed += join_all(commits).await.iter().filter(|answer| answer.is_err()).count();
        for number in 0..3 {
            let scope = scope_of(number);
            let stored = reader.scope(&scope).await.unwrap();
            assert_eq!(db.scope(&scope).await.unwrap(), stored, "step {step}");
            // Once more, now that it was read.
            assert_eq!(db.scope(&scope).await.unwrap(), stored, "step {step}");
            found += stored.rows.len();
        }
        let rows = |memories: BTreeMap<Scope, ScopeMemory>| -> Vec<_> {
            memories.into_iter().map(|(scope, memory)| (scope, memory.rows)).collect()
        };
        assert_eq!(rows(db.all().await.unwrap()), rows(reader.all().await.unwrap()), "step {step}");
    }
    assert!(found > 1_000 && failed > 20, "{found} rows, {failed} refused");
}

#[tokio::test]
async fn rows_that_another_writer_changed_are_read_again() {
    let (dir, db) = new().await;
    db.keep_rows(1_000);
    db.commit(vec![Write::Rows(vec![row("a"), row("b")].into())]).await.unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), 2);
    tamper(&dir, "DELETE FROM inventory WHERE id = 'a'; UPDATE inventory_stamp SET stamp = stamp + 1").await;
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("b")]);
    db.commit(vec![Write::Rows(vec![row("c")].into())]).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("b"), row("c")]);
}

#[tokio::test]
async fn a_look_at_every_scope_reads_again_what_changed_alone_and_keeps_what_there_is_room_for() {
    let (dir, db) = new().await;
    for number in 0..4 {
        let rows = ["a", "b"].map(|id| row(id).with(|row| row.scope = scope_of(number).into()));
        db.commit(vec![Write::Rows(rows.to_vec().into())]).await.unwrap();
    }
    let sizes =
        async || -> Vec<usize> { db.all().await.unwrap().values().map(|memory| memory.rows.len()).collect() };
    // Room for two of them.
    db.keep_rows(8);
    assert_eq!(sizes().await, [2, 2, 2, 2]);
    // What is gone without a new stamp shows what was read.
    tamper(&dir, "DELETE FROM inventory WHERE id = 'a'").await;
    assert_eq!(sizes().await, [2, 2, 1, 1]);
    tamper(&dir, "UPDATE inventory_stamp SET stamp = stamp + 1 WHERE scope LIKE '%z0.test%'").await;
    assert_eq!(sizes().await, [1, 2, 1, 1]);
}

#[tokio::test]
async fn what_rows_have_in_common_is_there_once() {
    let (dir, db) = new().await;
    let reader = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
    db.keep_rows(100);
    let written = [row("a"), row("b")];
    db.commit(vec![Write::Rows(written.to_vec().into())]).await.unwrap();
    let (kept, read) = (db.scope(&zone()).await.unwrap().rows, reader.scope(&zone()).await.unwrap().rows);
    assert_eq!((&*kept, &*read), (&written.to_vec(), &written.to_vec()));
    // What is kept goes on sharing with who wrote it; what is read shares with its neighbour.
    assert!(kept.iter().zip(&written).all(|(kept, written)| Arc::ptr_eq(&kept.known, &written.known)));
    assert!(Arc::ptr_eq(&read[0].terms, &read[1].terms));
}

#[tokio::test]
async fn what_is_sealed_of_rows_counts_for_as_many_as_have_room_in_it() {
    for (most, kept) in [(11, 0), (12, 1)] {
        let (dir, db) = new().await;
        let mut long = row("a");
        long.tracked.outputs = Sealed::new(vec![7; 3_200]);
        db.commit(vec![Write::Rows(vec![long].into())]).await.unwrap();
        db.keep_rows(most);
        assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), 1);
        tamper(&dir, "DELETE FROM inventory").await;
        assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), kept, "{most}");
    }
}

#[tokio::test]
async fn what_came_to_rows_while_somebody_had_them_counts_like_any_other() {
    let (dir, db) = new().await;
    db.keep_rows(6);
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    let held = db.scope(&zone()).await.unwrap();
    let more: Vec<Row> = ["b", "c", "d", "e", "f", "g"].map(row).into();
    db.commit(vec![Write::Rows(more.into())]).await.unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), 7);
    assert_eq!(*held.rows, [row("a")]);
    tamper(&dir, "DELETE FROM inventory").await;
    assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), 0, "there is no room for them");
}

#[tokio::test]
async fn rows_of_a_new_scope_are_kept_as_they_were_written() {
    let (dir, db) = new().await;
    db.keep_rows(1_000);
    db.commit(vec![Write::Rows(vec![row("b"), row("a")].into())]).await.unwrap();
    tamper(&dir, "DELETE FROM inventory").await;
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a"), row("b")]);
}

#[tokio::test]
async fn rows_from_before_there_were_stamps_are_read_with_the_first_that_is_written() {
    let (dir, db) = new().await;
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    tamper(&dir, "DELETE FROM inventory_stamp").await;
    db.keep_rows(1_000);
    db.commit(vec![Write::Rows(vec![row("b")].into())]).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a"), row("b")]);
}

#[tokio::test]
async fn rows_from_before_there_were_stamps_are_in_a_look_at_every_scope() {
    let (dir, db) = new().await;
    for number in 0..3 {
        let row = row("a").with(|row| row.scope = scope_of(number).into());
        db.commit(vec![Write::Rows(vec![row].into())]).await.unwrap();
    }
    db.close().await;
    tamper(&dir, "DELETE FROM inventory_stamp WHERE scope NOT LIKE '%z1.test'").await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    db.keep_rows(1_000);
    for _ in 0..2 {
        assert_eq!(db.all().await.unwrap().len(), 3);
    }
}

#[tokio::test]
async fn a_write_that_changes_no_row_gives_no_new_stamp() {
    let (dir, db) = new().await;
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    let stamp = async || {
        let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
        let stamp = inventory::stamp(&mut conn, &zone().to_string()).await.unwrap();
        conn.close().await.unwrap();
        stamp
    };
    let before = stamp().await;
    db.commit(vec![Write::Settled(zone(), vec!["a".into()]), Write::Gone(zone(), vec!["b".into()])])
        .await
        .unwrap();
    assert_eq!(stamp().await, before);
    db.commit(vec![Write::Gone(zone(), vec!["a".into()])]).await.unwrap();
    assert_eq!(stamp().await, before + 1);
}

#[tokio::test]
async fn what_rows_were_planned_from_is_taken_over_from_the_schema_before() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(DATABASE);
    open::make_file(&file).unwrap();
    let mut conn = open::connect(&file).await.unwrap();
    let before: Vec<_> =
        migrations::MIGRATIONS.iter().filter(|migration| migration.version < 5).cloned().collect();
    let before = sqlx::migrate::Migrator { migrations: before.into(), ..sqlx::migrate::Migrator::DEFAULT };
    before.run(&mut conn).await.unwrap();
    let document = Hash::of(b"document");
    for (id, content) in [("a/A", document), ("b/A", document), ("c/A", Hash::default())] {
        let manifest = if id == "c/A" { key("claim") } else { key("example.com") };
        sqlx::query(
            "INSERT INTO inventory (scope, id, manifest, address, file, content, template, applied, normalizer, deletion,
                 drift, merged, state, written_at, revision)
             VALUES (?1, ?2, ?3, 'Zone/example.com', '', ?4, ?4, ?4, 1, 'delete', 'heal', 0, 'settled', 0, '')",
        )
        .bind(zone().to_string())
        .bind(id)
        .bind(manifest.0.clone())
        .bind(&content.0[..])
        .execute(&mut conn)
        .await
        .unwrap();
    }
    conn.close().await.unwrap();
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    let memory = db.scope(&zone()).await.unwrap();
    assert_eq!(memory.rows.len(), 3);
    assert_eq!(memory.documents, BTreeMap::from([(key("example.com"), document)]));
}
