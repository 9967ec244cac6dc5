//! Commits that are written together leave what each of them would have left by itself.

use super::{
    super::{
        together::{apply as carry_out, together as taken},
        transaction::Tx,
    },
    *,
};

/// A number below `most` that depends on all of `seed`.
fn dice(seed: impl fmt::Debug, most: usize) -> usize {
    usize::from(Hash::of(format!("{seed:?}").as_bytes()).0[0]) % most
}

fn scope_of(number: usize) -> Scope {
    Scope::new("toy", format!("Trivial/t{number}"))
}

fn row_of(scope: &Scope, seed: impl fmt::Debug) -> Row {
    let id = ["a", "b", "c"][dice(("id", &seed), 3)];
    let known = if dice(("rich", &seed), 2) == 0 { rich_row(id) } else { row(id) };
    let state = if dice(("state", &seed), 2) == 0 { RowState::Applied } else { known.state.clone() };
    known.with(|row| {
        row.scope = scope.clone().into();
        row.state = state;
    })
}

/// Some write of a scope; `seed` decides which.
fn write(scope: &Scope, seed: (usize, usize, usize)) -> Write {
    let ids = || vec!["a".into(), ["b", "c"][dice(("ids", seed), 2)].into()];
    let at = NOW + Duration::from_millis(seed.0 as u64);
    let hash = || Hash::of(format!("{seed:?}").as_bytes());
    let (step, commit, index) = seed;
    let action = |step: usize, commit: usize| (step * 100 + commit) as u64;
    match dice(seed, 15) {
        0 | 1 => {
            let intents = vec![intent(action(step, commit) * 10 + index as u64, row_of(scope, seed))];
            let fence = vec![(key("example.com"), 1)];
            Write::Start { scope: scope.clone(), intents, fence, at }
        }
        // As a rule of what began in the step before.
        2 | 3 => {
            let before = |index| action(step.saturating_sub(1), commit) * 10 + index;
            let word = ["done", "unknown", "failed"][dice(("word", seed), 3)];
            Write::End((0..4).map(|index| ending(before(index), word)).collect())
        }
        4 | 5 => Write::Rows((0..2).map(|n| row_of(scope, (seed, n))).collect::<Vec<_>>().into()),
        6 => Write::Settled(scope.clone(), ids()),
        7 => {
            let content = (dice(("content", seed), 2) == 0).then(hash);
            Write::Documents(scope.clone(), vec![(key("example.com"), content), (key("b"), Some(hash()))])
        }
        8 => Write::Version(scope.clone(), None),
        9 => {
            let version = match dice(("version", seed), 3) {
                0 => Version::At(b"\0\xff-7".to_vec().into()),
                1 => Version::Absent,
                _ => Version::Unknown,
            };
            Write::Version(scope.clone(), Some(KnownVersion { version, foreign: step as u32 }))
        }
        10 => Write::LookedAt(scope.clone(), step as u64 / 2),
        11 => Write::Gone(scope.clone(), ids()),
        12 => Write::Conditions(scope.clone(), vec![condition("Invalid", "no", at)]),
        13 => Write::Place(scope.clone(), hash()),
        _ => {
            let message = if dice(("nul", seed), 3) == 0 { "a\0b" } else { "it \"is\" ✓" };
            Write::Event(Event { scope: Some(scope.clone()), at, ..event("create", message) })
        }
    }
}

/// All that is there and has no chance in it; in no order where different commits have none.
async fn dump(dir: &TempDir, db: &Db) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (scope, memory) in db.all().await.unwrap() {
        out.push(format!("{scope} {memory:?}"));
    }
    let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
    for sql in [
        "SELECT json_array(scope, epoch, started_at, total, ended, outcomes, numbers, rows IS NULL, actions, common)
             FROM journal JOIN intent USING (number) ORDER BY scope, number",
        "SELECT json_array(scope, stamp) FROM inventory_stamp",
        "SELECT json_array(scope, id, state, synced_at, healthy_at) FROM inventory_now",
        "SELECT json_array(scope, state, hex(token), foreigners) FROM scope_version",
        "SELECT json_array(scope, manifest, hex(content)) FROM document",
        "SELECT json_array(scope, generation) FROM looked_at",
        "SELECT json_array(scope, hex(place)) FROM scope_place",
        "SELECT json_array(at, kind, scope, address, hex(message)) AS line FROM event ORDER BY line",
    ] {
        let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut conn).await.unwrap();
        out.extend(rows);
    }
    conn.close().await.unwrap();
    out
}

#[tokio::test]
async fn commits_of_different_scopes_leave_together_what_each_would_leave_alone() {
    let ((dir, db), (dir_alone, alone)) = (new().await, new().await);
    let reader = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
    for db in [&db, &alone] {
        db.keep_rows(50);
        db.commit(vec![in_force("abc1234", &[("example.com", "x")])]).await.unwrap();
    }
    for step in 0..60 {
        let commits: Vec<Vec<Write>> = (0..1 + dice(("commits", step), 12))
            .map(|commit| {
                let scope = scope_of((commit + step) % 12);
                (0..1 + dice(("writes", step, commit), 4)).map(|n| write(&scope, (step, commit, n))).collect()
            })
            .collect();
        let together = commits.iter().map(|writes| db.commit(writes.clone()));
        let together: Vec<_> = join_all(together).await;
        for (writes, answer) in commits.iter().zip(together) {
            let expect = alone.commit(writes.clone()).await;
            assert_eq!(answer.is_ok(), expect.is_ok(), "step {step}: {answer:?} {expect:?}");
        }
        assert_eq!(dump(&dir, &db).await, dump(&dir_alone, &alone).await, "step {step}");
        for number in 0..12 {
            let scope = scope_of(number);
            let stored = reader.scope(&scope).await.unwrap();
            assert_eq!(db.scope(&scope).await.unwrap(), stored, "step {step}");
        }
    }
    assert!(db.reader().verify_events().await.unwrap().broken.is_none());
}

/// Where a statement for many fails, each commit goes by itself, and what is left is right: that would hide it.
#[tokio::test]
async fn statements_for_many_hold() {
    let (dir, db) = new().await;
    db.commit(vec![in_force("abc1234", &[("example.com", "x")])]).await.unwrap();
    let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
    for step in 0..60 {
        let commits: Vec<Vec<Write>> = (0..12)
            .map(|commit| (0..4).map(|n| write(&scope_of(commit), (step, commit, n))).collect())
            .collect();
        let slices: Vec<&[Write]> = commits.iter().map(Vec::as_slice).collect();
        sqlx::query("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
        let mut tx = Tx::new(&mut conn, db.seal(), db.epoch(), NOW);
        tx.marked = 1;
        for some in &taken(&slices).unwrap() {
            carry_out(&mut tx, some).await.unwrap();
        }
        sqlx::query("COMMIT").execute(&mut conn).await.unwrap();
    }
}

#[test]
fn only_commits_about_scopes_of_their_own_are_taken_together() {
    let (one, other) = (scope_of(1), scope_of(2));
    let settled = |scope: &Scope| Write::Settled(scope.clone(), vec!["a".into()]);
    let event = || Write::Event(event("create", "made"));
    let check = |commits: &[&[Write]], expect: Option<&[usize]>| {
        let all = taken(commits);
        let sizes = all.map(|all| all.iter().map(Vec::len).collect::<Vec<_>>());
        assert_eq!(sizes.as_deref(), expect, "{commits:?}");
    };
    check(&[&[settled(&one), event()], &[settled(&other), event()]], Some(&[2, 2]));
    check(&[&[settled(&one), event()], &[event()], &[settled(&other)]], Some(&[2, 1, 1]));
    // One after the other, in their order.
    check(&[&[settled(&one)], &[settled(&one)]], None);
    check(&[&[settled(&one)], &[settled(&other), settled(&one)]], None);
    check(&[&[settled(&one)], &[Write::Release("toy".into())]], None);
}
