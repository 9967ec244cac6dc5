//! Rows read back as they were written. They are read some hundred at a time: where one such part ends, nothing is left out, told twice or told of another scope.

use super::{
    super::rows::{CHUNK, FIRST_CHUNK, next_chunk},
    *,
};

fn scope_of(number: usize) -> Scope {
    Scope::new("pdns", format!("z{number}.test"))
}

/// So many rows of a scope: the first has no name, and some have what is sealed.
fn written(number: usize, count: usize) -> Vec<Row> {
    let one = |n: usize| {
        let id = format!("h{n:04}/A");
        let mut fresh = if n % 7 == 1 { rich_row(&id) } else { row(&id) };
        if n == 0 {
            fresh.tracked.id = "".into();
        }
        fresh.with(|row| {
            row.scope = scope_of(number).into();
            row.state = RowState::Applied;
        })
    };
    (0..count).map(one).collect()
}

#[tokio::test]
async fn rows_read_back_as_they_were_written_and_stay_after_a_restart() {
    let (dir, db) = new().await;
    let mut rows: Vec<Row> = (0..300).map(|n| row(&format!("h{n:03}/A"))).collect();
    rows.push(rich_row("z/A"));
    rows.push(row("zz/A").with(|row| {
        row.state = RowState::Applied;
        row.written_at = NOW;
        row.drift = Drift::Warn;
    }));
    db.commit(vec![Write::Rows(rows.clone().into())]).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, rows);
    let other = rich_row("z/A");
    let other = other.with(|row| row.tracked.private = Sealed::default());
    db.commit(vec![Write::Rows(vec![other.clone()].into()), Write::Settled(zone(), vec!["zz/A".into()])])
        .await
        .unwrap();
    db.commit(vec![Write::Gone(zone(), vec!["h000/A".into(), "unknown".into()])]).await.unwrap();
    rows.remove(0);
    rows[299] = other;
    rows[300].state = RowState::Settled;
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(*db.all().await.unwrap().remove(&zone()).unwrap().rows, rows);
    let rich = db.rows_with_outputs(&key("example.com")).await.unwrap();
    assert_eq!(rich, rows[299..300], "what puts nothing out is not asked for");
    assert_eq!(db.rows_with_outputs(&key("none")).await.unwrap(), []);
}

#[tokio::test]
async fn rows_of_many_scopes_are_read_whole_wherever_a_part_of_them_ends() {
    let (_dir, db) = new().await;
    let counts = [FIRST_CHUNK, CHUNK - 1, CHUNK, CHUNK + 1, 0, 1, 3, 2 * CHUNK];
    let mut all: Vec<Vec<Row>> = counts.iter().enumerate().map(|(n, count)| written(n, *count)).collect();
    for rows in all.iter().filter(|rows| !rows.is_empty()) {
        db.commit(vec![Write::Rows(rows.clone().into())]).await.unwrap();
    }
    // Two scopes are marked, and of one of them a row was written since.
    for number in [2, 3] {
        let ids = all[number].iter().map(|row| row.tracked.id.clone()).collect();
        db.commit(vec![Write::Settled(scope_of(number), ids)]).await.unwrap();
        all[number].iter_mut().for_each(|row| row.state = RowState::Settled);
    }
    all[3][CHUNK].state = RowState::Applied;
    db.commit(vec![Write::Rows(vec![all[3][CHUNK].clone()].into())]).await.unwrap();
    let memories = db.all().await.unwrap();
    assert_eq!(memories.len(), counts.iter().filter(|count| **count > 0).count());
    for (number, rows) in all.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        let scope = scope_of(number);
        assert_eq!(*memories[&scope].rows, *rows, "{scope}");
        assert_eq!(*db.scope(&scope).await.unwrap().rows, *rows, "{scope} by itself");
    }
}

#[test]
fn of_long_rows_fewer_are_asked_for() {
    assert_eq!(next_chunk(32, 32 * 100), CHUNK);
    assert_eq!(next_chunk(32, 32 * 6_000), 10);
    assert_eq!(next_chunk(32, 32 << 20), 1);
}

#[tokio::test]
async fn what_is_tracked_is_a_number_where_it_is_configured_and_a_list_of_scopes_elsewhere() {
    let (_dir, db) = new().await;
    let row = |scope: &str, id: &str| Row::settled(scope.parse().unwrap(), id, key("a"));
    // The name of an entry may begin like that of another one.
    let all =
        ["dns/a", "dns/b", "dns2/a", "gone/a", "gone/b"].map(|scope| [row(scope, "x"), row(scope, "y")]);
    db.commit(vec![Write::Rows(all.concat().into())]).await.unwrap();
    db.commit(vec![Write::Gone("gone/b".parse().unwrap(), vec!["x".into()])]).await.unwrap();
    let tracked = db.reader().tracked_here(&|entry| entry == "dns").await.unwrap();
    let elsewhere = [("dns2/a", 2), ("gone/a", 2), ("gone/b", 1)].map(|(scope, count)| (scope.into(), count));
    assert_eq!(tracked, TrackedHere { here: 4, elsewhere: elsewhere.into(), manifests: Vec::new() });
}
