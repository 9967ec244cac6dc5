//! A scope that is settled as a whole is marked once: whoever reads it sees what rows settled one by one would say.

use super::{
    super::{inventory::MARKED, rename, transaction::Tx, write::apply},
    *,
};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

const LATER: Duration = Duration::from_secs(60);

/// Tells the time that it was set to, in seconds after [`NOW`].
#[derive(Default)]
struct Ticking(AtomicU64);

#[async_trait]
impl Clock for Ticking {
    fn now(&self) -> Duration {
        NOW + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
    async fn sleep(&self, _: Duration) {}
}

fn ids(range: std::ops::Range<usize>) -> Vec<ResourceId> {
    range.map(|n| ResourceId::from(format!("h{n:03}/A").as_str())).collect()
}

fn written(ids: &[ResourceId]) -> Write {
    Write::Rows(
        ids.iter().map(|id| Row { state: RowState::Applied, ..row(&id.0) }).collect::<Vec<_>>().into(),
    )
}

/// The rows of a zone, written and settled as a whole at [`NOW`]; the clock is a minute further.
async fn whole(count: usize) -> (TempDir, Db, Arc<Ticking>) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Ticking::default());
    let db = Db::open_writer(dir.path(), OpenOptions { create: true, clock: clock.clone() }).await.unwrap();
    db.commit(vec![written(&ids(0..count))]).await.unwrap();
    db.commit(vec![Write::Settled(zone(), ids(0..count))]).await.unwrap();
    clock.0.store(LATER.as_secs(), Ordering::Relaxed);
    (dir, db, clock)
}

/// How many rows of the zone say in themselves that they are settled.
async fn one_by_one(dir: &TempDir) -> i64 {
    let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
    let count = "SELECT count(*) FROM inventory WHERE scope = 'pdns/example.com' AND state = 'settled'";
    let count = sqlx::query_scalar(count).fetch_one(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    count
}

/// State, since when it is in sync and since when it is healthy, in seconds after [`NOW`].
async fn part(db: &Db, id: &str) -> (String, Option<u64>, Option<u64>) {
    let mut parts = db.reader().parts(Parts::All).await.unwrap();
    let part = parts.remove(&(zone().to_string(), id.to_string())).unwrap();
    let since = |at: Option<Stamp>| at.map(|at| (at.0 - NOW).as_secs());
    (part.state, since(part.synced_at), since(part.healthy_at))
}

fn settled(synced: u64, healthy: u64) -> (String, Option<u64>, Option<u64>) {
    ("settled".into(), Some(synced), Some(healthy))
}

#[tokio::test]
async fn a_scope_that_is_settled_as_a_whole_is_marked_and_no_row_of_it_changed() {
    for (count, changed) in [(MARKED, 0), (MARKED - 1, MARKED as i64 - 1)] {
        let (dir, db, _) = whole(count).await;
        assert_eq!(one_by_one(&dir).await, changed);
        let memory = db.scope(&zone()).await.unwrap();
        assert_eq!(memory.rows.len(), count);
        assert!(memory.rows.iter().all(|row| row.state == RowState::Settled));
        assert_eq!(part(&db, "h000/A").await, settled(0, 0));
        let status = db.reader().status().await.unwrap();
        assert_eq!((status.well, status.scopes[0].applied), (count as u64, 0));
        assert_eq!(
            db.reader().counts().await.unwrap().resources,
            BTreeMap::from([("settled".into(), count as u64)])
        );
        assert!(db.reader().rows(None).await.unwrap().iter().all(|row| row.state == "settled"));
        assert!(db.reader().parts(Parts::Ailing).await.unwrap().is_empty());
        let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
        let shown = "SELECT count(*) FROM tracked WHERE state = 'settled'";
        let shown: i64 = sqlx::query_scalar(shown).fetch_one(&mut conn).await.unwrap();
        assert_eq!(shown, count as i64, "persons see it as well");
        conn.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_kept_in_memory_follows_a_mark() {
    let (dir, db) = new().await;
    db.keep_rows(1_000);
    db.commit(vec![written(&ids(0..MARKED))]).await.unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap().rows[0].state, RowState::Applied);
    db.commit(vec![Write::Settled(zone(), ids(0..MARKED))]).await.unwrap();
    let reader = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
    let stored = reader.scope(&zone()).await.unwrap();
    assert_eq!(stored.rows[0].state, RowState::Settled);
    assert_eq!(db.scope(&zone()).await.unwrap(), stored);
}

#[tokio::test]
async fn whether_a_scope_can_be_marked_is_told_by_what_is_kept_of_it_as_by_the_database() {
    let all = MARKED + 2;
    let settled_before = vec![Write::Settled(zone(), ids(3..4))];
    // What was written before, what is settled then, and how many rows are changed for that.
    let cases = [
        (vec![], 0..all, 0),
        (settled_before, 0..all, all as i64),
        (vec![], 0..all - 1, all as i64 - 1),
        (vec![Write::Gone(zone(), ids(5..6))], 0..all, all as i64 - 1),
    ];
    for (before, settled, changed) in cases {
        for most in [0, 1_000] {
            let (dir, db) = new().await;
            db.keep_rows(most);
            db.commit(vec![written(&ids(0..all))]).await.unwrap();
            db.commit(before.clone()).await.unwrap();
            // What was seen before is only said by rows that somebody has read since.
            db.scope(&zone()).await.unwrap();
            db.commit(vec![Write::Settled(zone(), ids(settled.clone()))]).await.unwrap();
            assert_eq!(one_by_one(&dir).await, changed, "{before:?}, {most} kept");
            let reader = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
            let stored = reader.scope(&zone()).await.unwrap();
            assert_eq!(db.scope(&zone()).await.unwrap(), stored, "{before:?}, {most} kept");
        }
    }
    // No row is read where they are kept: one that is gone without a new stamp is not missed.
    for (most, changed) in [(0, all as i64 - 1), (1_000, 0)] {
        let (dir, db) = new().await;
        db.keep_rows(most);
        db.commit(vec![written(&ids(0..all))]).await.unwrap();
        tamper(&dir, "DELETE FROM inventory WHERE id = 'h007/A'").await;
        db.commit(vec![Write::Settled(zone(), ids(0..all))]).await.unwrap();
        assert_eq!(one_by_one(&dir).await, changed, "{most} kept");
    }
}

#[tokio::test]
async fn the_database_is_not_written_for_a_mark_while_somebody_may_wait() {
    let (dir, db) = new().await;
    let all = ids(0..900);
    // The answer to the one after it says that a checkpoint is over.
    let after = || db.commit(vec![Write::Event(event("adopt", "x"))]);
    let file = || fs::read(dir.path().join(DATABASE)).unwrap();
    db.commit(vec![written(&all)]).await.unwrap();
    after().await.unwrap();
    let before = file();
    assert!(before.windows(6).any(|bytes| bytes == b"h899/A"), "rows are written at once");
    db.commit(vec![Write::Settled(zone(), all.clone())]).await.unwrap();
    after().await.unwrap();
    assert!(file() == before, "it is only in the WAL");
    assert_eq!(db.reader().status().await.unwrap().well, 900);
    // Rows that are changed one by one are many pages.
    db.commit(vec![written(&all), Write::Gone(zone(), vec![all[0].clone()])]).await.unwrap();
    db.commit(vec![written(&all[..1])]).await.unwrap();
    assert!(file() != before);
}

#[tokio::test]
async fn only_what_was_written_since_a_mark_is_settled_anew() {
    let (dir, db, _) = whole(MARKED + 50).await;
    // Said again it changes nothing, and no time moves.
    db.commit(vec![Write::Settled(zone(), ids(0..MARKED + 50))]).await.unwrap();
    assert_eq!(part(&db, "h007/A").await, settled(0, 0));
    db.commit(vec![written(&ids(5..6)), Write::Gone(zone(), ids(6..7))]).await.unwrap();
    assert_eq!(part(&db, "h005/A").await, ("applied".into(), None, None));
    assert_eq!(db.reader().status().await.unwrap().scopes[0].applied, 1);
    // So many that they could be marked, had the others no time of their own.
    db.commit(vec![written(&ids(20..20 + MARKED))]).await.unwrap();
    db.commit(vec![Write::Settled(zone(), [ids(5..6), ids(20..20 + MARKED)].concat())]).await.unwrap();
    assert_eq!(part(&db, "h005/A").await, settled(60, 60));
    assert_eq!(part(&db, "h020/A").await, settled(60, 60));
    assert_eq!(part(&db, "h007/A").await, settled(0, 0));
    assert_eq!(one_by_one(&dir).await, 1 + MARKED as i64);
    assert_eq!(db.reader().status().await.unwrap().well, MARKED as u64 + 49);
}

#[tokio::test]
async fn a_scope_that_is_written_as_a_whole_again_is_marked_again() {
    let (dir, db, _) = whole(MARKED).await;
    db.commit(vec![written(&ids(0..MARKED))]).await.unwrap();
    assert_eq!(part(&db, "h000/A").await, ("applied".into(), None, None));
    db.commit(vec![Write::Settled(zone(), ids(0..MARKED))]).await.unwrap();
    assert_eq!(part(&db, "h000/A").await, settled(60, 60));
    assert_eq!(one_by_one(&dir).await, 0);
}

#[tokio::test]
async fn nothing_is_marked_of_which_a_row_is_not_named_pending_or_not_there() {
    let check = async |before: Write, named: Vec<ResourceId>, expect: i64| {
        let (dir, db) = new().await;
        db.commit(vec![before]).await.unwrap();
        db.commit(vec![Write::Settled(zone(), named)]).await.unwrap();
        assert_eq!(one_by_one(&dir).await, expect);
        db.reader().parts(Parts::Ailing).await.unwrap().len()
    };
    let most = MARKED as i64;
    let rows = || written(&ids(0..MARKED + 1));
    assert_eq!(check(rows(), ids(0..MARKED), most).await, 1);
    let other = [ids(0..MARKED), vec!["other".into()]].concat();
    assert_eq!(check(rows(), other, most).await, 1);
    let Write::Rows(mut list) = rows() else { unreachable!() };
    Arc::make_mut(&mut list)[3].state = RowState::Pending { recheck_at: NOW };
    assert_eq!(check(Write::Rows(list), ids(0..MARKED + 1), most + 1).await, 0);
    assert_eq!(check(rows(), ids(0..MARKED + 1), 0).await, 0, "but this is");
}

#[tokio::test]
async fn who_is_marked_as_settled_and_put_as_settled_stays_so_since_then() {
    let (dir, db, _) = whole(MARKED).await;
    let moved = row("h001/A").with(|row| row.file = "elsewhere.yaml".into());
    db.commit(vec![Write::Rows(vec![moved.clone(), row("new")].into())]).await.unwrap();
    assert_eq!(part(&db, "h001/A").await, settled(0, 0));
    assert_eq!(part(&db, "new").await, ("settled".into(), Some(60), None));
    assert_eq!(db.scope(&zone()).await.unwrap().rows[1], moved);
    assert_eq!(one_by_one(&dir).await, 2, "the others are as they were");
}

#[tokio::test]
async fn what_a_scope_that_was_read_fails_at_leaves_the_rest_of_it_well() {
    let (_dir, db, _) = whole(MARKED).await;
    let well = async |writes| {
        db.commit(writes).await.unwrap();
        db.reader().status().await.unwrap().well
    };
    let of_all = |reason| vec![Condition { id: None, ..condition(reason, "the reload failed", NOW) }];
    assert_eq!(well(vec![Write::Conditions(zone(), of_all("unavailable"))]).await, MARKED as u64);
    // What it was for an older commit says nothing of this one, and what cannot be read says nothing at all.
    assert_eq!(well(vec![Write::Conditions(zone(), of_all("OutOfDate"))]).await, 0);
    let unseen = Ailment { id: None, ..ailment("", HealthState::Unknown) };
    let writes = vec![Write::Conditions(zone(), vec![]), Write::Ailments(zone(), vec![unseen])];
    assert_eq!(well(writes).await, 0);
}

#[tokio::test]
async fn while_something_is_held_all_but_as_many_as_it_is_about_are_well() {
    let (_dir, db, _) = whole(MARKED).await;
    let well = async |hold| {
        db.commit(vec![Write::Hold(hold)]).await.unwrap();
        let status = db.reader().status().await.unwrap();
        // In which scope they are nobody remembers: whoever takes one out of the count takes all of it.
        assert_eq!(status.scopes[0].well, MARKED as u64);
        status.well
    };
    assert_eq!(well(hold("one")).await, MARKED as u64 - 12, "what is to be created is not tracked");
    assert_eq!(well(Hold { counts: [0, 0, 0, u32::MAX], ..hold("strays") }).await, 0);
    // What will be held is stopped by something else, which says so of each.
    assert_eq!(well(Hold { once: Some("once its window opens".into()), ..hold("one") }).await, MARKED as u64);
}

#[tokio::test]
async fn times_of_one_row_move_alone() {
    let (_dir, db, clock) = whole(MARKED).await;
    let stalled = |id: &str| Condition { id: Some(id.into()), ..condition("Invalid", "no", NOW) };
    db.commit(vec![
        Write::Conditions(zone(), vec![stalled("h001/A")]),
        Write::Ailments(zone(), vec![ailment("h002/A", HealthState::Degraded)]),
        Write::Drifted(vec![drift("h003/A", None), Drifted { missing: true, ..drift("h004/A", None) }]),
    ])
    .await
    .unwrap();
    assert_eq!(db.reader().degraded().await.unwrap().len(), 1);
    assert_eq!(db.reader().status().await.unwrap().well, MARKED as u64 - 4);
    clock.0.store(90, Ordering::Relaxed);
    let ends = vec![("h003/A".into(), DriftEnd::Gone), ("h004/A".into(), DriftEnd::Healed)];
    db.commit(vec![
        Write::Conditions(zone(), vec![]),
        Write::Ailments(zone(), vec![]),
        Write::DriftOver(zone(), ends, NOW + Duration::from_secs(90)),
    ])
    .await
    .unwrap();
    let expect = [settled(0, 0), settled(90, 90), settled(0, 90), settled(90, 0), settled(90, 90)];
    for (number, expect) in expect.into_iter().enumerate() {
        assert_eq!(part(&db, &format!("h{number:03}/A")).await, expect, "h{number:03}/A");
    }
}

#[tokio::test]
async fn a_mark_does_not_go_along_to_another_name_and_what_it_said_does() {
    let (dir, db, _) = whole(MARKED).await;
    db.commit(vec![written(&ids(0..1))]).await.unwrap();
    // Under the new name something is marked as well, and has a newer stamp than what comes.
    let there = |id: &ResourceId| {
        row(&id.0.replace('h', "t")).with(|row| {
            row.scope = Scope::new("dns", "example.com").into();
            row.state = RowState::Applied;
        })
    };
    let there: Vec<Row> = ids(0..MARKED).iter().map(there).collect();
    for _ in 0..9 {
        db.commit(vec![Write::Rows(there.clone().into())]).await.unwrap();
    }
    let names = there.iter().map(|row| row.tracked.id.clone()).collect();
    db.commit(vec![Write::Settled(Scope::clone(&there[0].scope), names)]).await.unwrap();
    let rename = Rename { what: Named::Provider, from: "pdns".into(), to: "dns".into() };
    db.rename(&[rename]).await.unwrap();
    let parts = db.reader().parts(Parts::All).await.unwrap();
    let part = |id: &str| &parts[&("dns/example.com".to_string(), id.to_string())];
    assert_eq!(parts.len(), 2 * MARKED);
    assert_eq!((&*part("h000/A").state, part("h000/A").synced_at), ("applied", None));
    assert_eq!((&*part("h001/A").state, part("h001/A").synced_at), ("settled", Some(Stamp(NOW))));
    assert_eq!((&*part("t001/A").state, part("t001/A").synced_at), ("settled", Some(Stamp(NOW + LATER))));
    assert_eq!(one_by_one(&dir).await, 0, "nothing is left under the old name");
}

#[tokio::test]
async fn a_mark_that_was_lost_leaves_rows_that_are_looked_at_again() {
    let (dir, db, _) = whole(MARKED).await;
    tamper(&dir, "DELETE FROM inventory_stamp").await;
    assert_eq!(db.reader().status().await.unwrap().scopes[0].applied, MARKED as u64);
    // Stamps begin anew, and rows have later ones: no mark can be about them.
    db.commit(vec![written(&ids(0..1))]).await.unwrap();
    db.commit(vec![Write::Settled(zone(), ids(0..MARKED))]).await.unwrap();
    assert_eq!(db.reader().status().await.unwrap().scopes[0].applied, 0);
    db.commit(vec![written(&ids(1..2))]).await.unwrap();
    assert_eq!(db.reader().status().await.unwrap().scopes[0].applied, 1);
}

/// A number below `most` that depends on all of `seed`.
fn dice(seed: impl fmt::Debug, most: usize) -> usize {
    usize::from(Hash::of(format!("{seed:?}").as_bytes()).0[0]) % most
}

/// Some write about one of two scopes; `seed` decides which.
fn write(entry: &str, seed: (usize, usize)) -> Write {
    let scope = Scope::new(entry, format!("z{}", dice(("scope", seed), 2)));
    let one = || ids(0..6).swap_remove(dice(("one", seed), 6));
    let some = || if dice(("all", seed), 3) > 0 { ids(0..6) } else { vec![one()] };
    let at = NOW + Duration::from_secs(seed.0 as u64);
    match dice(("kind", seed), 10) {
        0 => Write::Gone(scope, vec![one()]),
        1..=3 => Write::Settled(scope, some()),
        4 => Write::Conditions(
            scope,
            (0..dice(("ill", seed), 2))
                .map(|_| Condition { id: Some(one()), ..condition("Invalid", "no", at) })
                .collect(),
        ),
        5 => {
            let ill = (0..dice(("ill", seed), 2)).map(|_| ailment(&one().0, HealthState::Degraded));
            Write::Ailments(scope, ill.collect())
        }
        6 => {
            let missing = dice(("missing", seed), 2) == 0;
            Write::Drifted(vec![Drifted { scope, missing, first_seen: at, ..drift(&one().0, None) }])
        }
        7 => Write::DriftOver(scope, ids(0..6).into_iter().map(|id| (id, DriftEnd::Gone)).collect(), at),
        _ => {
            let state = match dice(("state", seed), 6) {
                0 => RowState::Pending { recheck_at: at },
                1 => RowState::Settled,
                _ => RowState::Applied,
            };
            let row = |id: ResourceId| {
                row(&id.0).with(|row| {
                    row.scope = scope.clone().into();
                    row.state = state.clone();
                    row.written_at = at;
                })
            };
            Write::Rows(some().into_iter().map(row).collect::<Vec<_>>().into())
        }
    }
}

/// All that readers are told.
async fn told(db: &Db) -> String {
    let reader = db.reader();
    format!(
        "{:#?} {:#?} {:#?} {:#?} {:#?} {:#?} {:#?} {:#?}",
        db.all().await.unwrap(),
        reader.parts(Parts::All).await.unwrap(),
        reader.parts(Parts::Ailing).await.unwrap(),
        reader.status().await.unwrap(),
        reader.counts().await.unwrap(),
        reader.rows(None).await.unwrap(),
        reader.degraded().await.unwrap(),
        reader.progressing().await.unwrap(),
    )
}

#[tokio::test]
async fn marks_say_what_rows_that_are_settled_one_by_one_say() {
    let ((dir, db), (dir_alone, alone)) = (new().await, new().await);
    let mut marked = open::connect(&dir.path().join(DATABASE)).await.unwrap();
    let mut each = open::connect(&dir_alone.path().join(DATABASE)).await.unwrap();
    let mut by_mark = 0;
    for step in 0..400 {
        let now = NOW + Duration::from_secs(step as u64);
        // The entry has another name now and then.
        let (entry, next) = if step / 20 % 2 == 0 { ("pdns", "dns") } else { ("dns", "pdns") };
        let rename = Rename { what: Named::Provider, from: entry.into(), to: next.into() };
        let writes: Vec<Write> = (0..1 + dice(step, 3)).map(|n| write(entry, (step, n))).collect();
        let mut answers = BTreeSet::new();
        for (conn, least) in [(&mut marked, 1), (&mut each, usize::MAX)] {
            sqlx::query("BEGIN IMMEDIATE").execute(&mut *conn).await.unwrap();
            let mut tx = Tx::new(&mut *conn, db.seal(), db.epoch(), now);
            tx.marked = least;
            for write in &writes {
                apply(&mut tx, write).await.unwrap();
            }
            let touched = format!("{:?} {:?}", tx.touched, tx.begun);
            if step % 20 == 19 {
                rename::apply(&mut *conn, db.seal(), std::slice::from_ref(&rename), now).await.unwrap();
            }
            sqlx::query("COMMIT").execute(&mut *conn).await.unwrap();
            answers.insert(touched);
        }
        assert_eq!(answers.len(), 1, "step {step}: {writes:?} {answers:?}");
        let (one, other) = (told(&db).await, told(&alone).await);
        let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        assert!(one == other, "step {step}: {writes:?} {differs:?}");
        let hidden = "SELECT count(*) FROM inventory JOIN inventory_now AS now USING (scope, id)
             WHERE inventory.state <> now.state";
        by_mark += sqlx::query_scalar::<_, i64>(hidden).fetch_one(&mut marked).await.unwrap();
        let hidden = sqlx::query_scalar::<_, i64>(hidden).fetch_one(&mut each).await.unwrap();
        assert_eq!(hidden, 0, "step {step}");
    }
    assert!(by_mark > 300, "{by_mark} rows were settled by a mark");
    marked.close().await.unwrap();
    each.close().await.unwrap();
}
