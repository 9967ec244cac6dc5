//! Rows are read some hundred at a time: where one such part ends, nothing is left out, told twice or told of another scope.

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
        Row { scope: scope_of(number), state: RowState::Applied, ..fresh }
    };
    (0..count).map(one).collect()
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
