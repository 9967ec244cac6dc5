//! Opening, closing, copies of the state, and what may be wrong with its files.

use super::*;
use crate::store::migrations::NEWEST;

#[tokio::test]
async fn sealed_bytes_are_nowhere_on_the_disk_in_clear() {
    let (dir, db) = new().await;
    let intents = vec![intent(1, rich_row("open")), intent(2, rich_row("closed"))];
    db.commit(vec![start(intents, vec![]), Write::Rows(vec![rich_row("a")].into())]).await.unwrap();
    db.commit(vec![Write::End(vec![ending(2, "done")])]).await.unwrap();
    db.reader().backup(&dir.path().join("backup")).await.unwrap();
    let contains = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    let mut seen_address = false;
    for entry in fs::read_dir(dir.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        seen_address |= contains(&bytes, b"Zone/example.com#a");
        // Also as hexadecimal, which is how the journal writes bytes.
        for canary in [&b"canary"[..], b"63616e617279"] {
            assert!(!contains(&bytes, canary));
        }
    }
    assert!(seen_address, "the search finds what is there");
}

#[tokio::test]
async fn the_key_is_demanded_while_something_is_sealed_and_only_then() {
    let (dir, db) = new().await;
    let key_file = dir.path().join(KEY_FILE);
    let mark = db.seal().mark(b"x");
    db.close().await;
    fs::remove_file(&key_file).unwrap();
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_ne!(db.seal().mark(b"x"), mark);
    db.commit(vec![start(vec![intent(1, rich_row("a"))], vec![])]).await.unwrap();
    db.close().await;
    let kept = fs::read(&key_file).unwrap();
    fs::remove_file(&key_file).unwrap();
    let error = Db::open_writer(dir.path(), existing()).await.unwrap_err();
    assert!(matches!(error, StoreError::SealKeyMissing(_)), "{error:?}");
    let reader = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
    assert!(reader.scope(&zone()).await.unwrap_err().message.contains("sealing key"));
    assert_eq!(reader.status().await.unwrap().open, 1, "what needs no key can be read");
    fs::write(&key_file, [7; 32]).unwrap();
    let error = Db::open_writer(dir.path(), existing()).await.unwrap_err();
    assert!(matches!(error, StoreError::SealKeyWrong(_)), "{error:?}");
    fs::write(&key_file, kept).unwrap();
    assert!(Db::open_writer(dir.path(), existing()).await.is_ok());
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    let db = Db::open_writer(&dir, create()).await.unwrap();
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    db.reader().backup(&dir.join("backup")).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_second_writer_is_told_who_the_first_one_is() {
    let (dir, db) = new().await;
    let error = Db::open_writer(dir.path(), create()).await.unwrap_err();
    let StoreError::Locked { pid, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*pid, Some(std::process::id()));
    assert!(error.hint().unwrap().contains("let that process finish"));
    db.close().await;
    assert!(Db::open_writer(dir.path(), existing()).await.is_ok());
}

#[tokio::test]
async fn a_writer_that_is_dropped_lets_go_of_the_lock() {
    let (dir, db) = new().await;
    let tasks = db.tasks.clone();
    drop(db);
    tasks.wait().await;
    assert!(Db::open_writer(dir.path(), existing()).await.is_ok());
}

#[tokio::test]
async fn after_close_commits_fail_and_the_wal_is_folded_in() {
    let (dir, db) = new().await;
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    db.close().await;
    assert_eq!(db.commit(vec![Write::Release("x".into())]).await.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!(db.scope(&zone()).await.unwrap_err().kind, ErrorKind::Unavailable);
    assert!(!dir.path().join("state.db-wal").exists());
}

#[tokio::test]
async fn a_reader_creates_nothing_and_reads_beside_a_writer() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    let clock: Arc<dyn Clock> = Arc::new(At(NOW));
    let error = Reader::open(&dir, clock.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::NotThere(_)), "{error:?}");
    assert!(matches!(Db::open_writer(&dir, existing()).await.unwrap_err(), StoreError::NotThere(_)));
    assert!(!dir.exists());
    let db = Db::open_writer(&dir, create()).await.unwrap();
    let reader = Reader::open(&dir, clock).await.unwrap();
    db.commit(vec![Write::Rows(vec![rich_row("a")].into())]).await.unwrap();
    assert_eq!(*reader.scope(&zone()).await.unwrap().rows, [rich_row("a")]);
    let refused = reader.commit(vec![Write::Rows(vec![row("b")].into())]).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::PermissionDenied);
    let mut conn = reader.conn().await.unwrap();
    assert!(sqlx::query("DELETE FROM inventory").execute(&mut *conn).await.is_err());
}

#[tokio::test]
async fn an_empty_state_can_be_read_where_there_is_none() {
    let reader = Reader::empty(Arc::new(At(NOW))).await.unwrap();
    assert_eq!(reader.scope(&zone()).await.unwrap(), ScopeMemory::default());
    assert_eq!(reader.status().await.unwrap(), Status::default());
    assert_eq!(reader.epoch(), 0);
}

#[tokio::test]
async fn the_schema_number_is_that_of_the_newest_migration() {
    let (_dir, db) = new().await;
    let mut conn = db.reader().conn().await.unwrap();
    let schema: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *conn).await.unwrap();
    assert_eq!(schema, NEWEST);
}

#[tokio::test]
async fn newer_and_foreign_databases_are_left_alone() {
    let (dir, db) = new().await;
    db.close().await;
    tamper(&dir, "PRAGMA user_version = 99").await;
    let file = dir.path().join(DATABASE);
    let before = fs::read(&file).unwrap();
    let error = Db::open_writer(dir.path(), create()).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
    let error = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
    assert_eq!(fs::read(&file).unwrap(), before);
    tamper(&dir, "PRAGMA application_id = 7").await;
    let error = Db::open_writer(dir.path(), create()).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)), "{error:?}");
}

#[tokio::test]
async fn an_older_database_is_copied_before_it_is_migrated_and_refused_for_reading() {
    let (dir, db) = new().await;
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    let first = db.epoch();
    db.close().await;
    tamper(&dir, "PRAGMA user_version = 0").await;
    let error = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap_err();
    assert!(matches!(error, StoreError::OlderSchema { found: 0, .. }), "{error:?}");
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a")]);
    // An older program is put back, writes, and goes again.
    db.commit(vec![Write::Rows(vec![row("b")].into())]).await.unwrap();
    let second = db.epoch();
    db.close().await;
    tamper(&dir, "PRAGMA user_version = 0").await;
    Db::open_writer(dir.path(), existing()).await.unwrap().close().await;
    for (epoch, rows) in [(first, 1), (second, 2)] {
        assert_eq!(tracked(&dir.path().join(format!("state.db.schema-0-{epoch}"))).await, rows);
    }
}

#[tokio::test]
async fn damage_is_found_at_the_start_and_told_with_a_way_out() {
    let (dir, db) = new().await;
    let rows: Vec<_> = (0..2000).map(|n| row(&format!("h{n:04}/A"))).collect();
    db.commit(vec![Write::Rows(rows.into())]).await.unwrap();
    db.close().await;
    let file = dir.path().join(DATABASE);
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = (bad.len() / 2) & !4095;
    bad[middle..middle + 4096].fill(0x5a);
    for bytes in [&bad[..], b"this is no database, it is a text that is longer than a hundred bytes, which is what the header of a database has"] {
        fs::write(&file, bytes).unwrap();
        let error = Db::open_writer(dir.path(), existing()).await.unwrap_err();
        let is_damage = matches!(
            error,
            StoreError::Damaged { .. } | StoreError::Database { trouble: Trouble::Damaged, .. }
        );
        assert!(is_damage, "{error:?}");
        assert!(error.hint().unwrap().contains("reconciled restore"));
        assert!(error.to_string().contains("state.db"), "{error}");
    }
    let aside = init(dir.path(), Init::Recover, Arc::new(At(NOW))).await.unwrap().unwrap();
    assert!(aside.exists());
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert!(db.reader().is_recovering().await.unwrap());
    db.recovered().await.unwrap();
    assert!(!db.reader().is_recovering().await.unwrap());
}

#[tokio::test]
async fn a_recovery_that_was_killed_as_soon_as_there_was_a_database_is_one_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    backup::make(&dir.path().join(DATABASE), Init::Recover).await.unwrap();
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert!(db.reader().is_recovering().await.unwrap());
}

#[tokio::test]
async fn init_makes_a_state_once() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, clock) = (parent.path().join("a/b"), Arc::new(At(NOW)));
    assert_eq!(init(&dir, Init::New, clock.clone()).await.unwrap(), None);
    let error = init(&dir, Init::New, clock.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::AlreadyThere(_)), "{error:?}");
    let db = Db::open_writer(&dir, existing()).await.unwrap();
    assert!(!db.reader().is_recovering().await.unwrap());
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_a_clear_error() {
    // Not even root can create files here.
    let error = Db::open_writer(Path::new("/proc/self/reconciled"), create()).await.unwrap_err();
    assert!(matches!(error, StoreError::File { .. }), "{error:?}");
    assert!(error.to_string().contains("/proc/self/reconciled"), "{error}");
    assert!(error.hint().is_some());
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Db::open_writer(file.path(), create()).await.unwrap_err();
    assert!(matches!(error, StoreError::File { .. }), "{error:?}");
}

#[tokio::test]
async fn a_full_disk_leaves_nothing_half_written_and_ends_when_there_is_space() {
    let (dir, db) = new().await;
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    let (epoch, seal) = (db.epoch(), db.seal().clone());
    db.close().await;
    let file = dir.path().join(DATABASE);
    let mut conn = open::connect(&file).await.unwrap();
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut conn).await.unwrap();
    let limit = format!("PRAGMA max_page_count = {}", pages + 8);
    sqlx::query(AssertSqlSafe(limit)).execute(&mut conn).await.unwrap();
    let db = Db::begin(conn, seal, epoch, &file, &existing(), None).await.unwrap();
    let many = || Write::Rows((0..2000).map(|n| row(&format!("h{n:04}/A"))).collect::<Vec<_>>().into());
    let too_much = || vec![Write::Release("x".into()), start(vec![intent(1, row("x"))], vec![]), many()];
    let error = db.commit(too_much()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("no space left") && error.message.contains("state.db"), "{error}");
    assert!(error.hint.is_some());
    let memory = db.scope(&zone()).await.unwrap();
    assert_eq!((&**memory.rows, memory.open.len()), (&[row("a")][..], 0));
    let small = || db.commit(vec![Write::Rows(vec![row("b")].into())]);
    let (first, full, last) = futures_util::join!(small(), db.commit(too_much()), small());
    assert!(first.is_ok() && full.is_err() && last.is_ok(), "a small commit in the same group goes through");
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a"), row("b")]);
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    db.commit(too_much()).await.unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), 2002);
}

#[tokio::test]
async fn a_backup_touches_no_file_but_its_own() {
    let (_dir, db) = new().await;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a.part"), "half a copy of somebody's").unwrap();
    std::os::unix::fs::symlink(at("nosuch"), at("b.part")).unwrap();
    fs::create_dir(at("c")).unwrap();
    for name in ["a", "b"] {
        db.reader().backup(&at(name)).await.unwrap();
    }
    assert!(db.reader().backup(&at("c")).await.is_err(), "a folder has that name");
    let failed = db.reader().backup(&at("nosuch/d")).await.unwrap_err();
    assert_eq!(failed.to_string(), format!("create {}", at("nosuch/d").display()));
    let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a", "a.part", "b", "b.part", "c"]);
    assert_eq!(fs::read_to_string(at("a.part")).unwrap(), "half a copy of somebody's");
    assert!(fs::symlink_metadata(at("b.part")).unwrap().is_symlink());
    for name in ["a", "b"] {
        assert!(fs::symlink_metadata(at(name)).unwrap().is_file());
        assert_eq!(tracked(&at(name)).await, 0);
    }
}

#[tokio::test]
async fn a_restore_brings_back_the_backup_and_fences_who_knew_the_old_state() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    db.commit(vec![Write::Rows(vec![rich_row("a")].into())]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    db.commit(vec![Write::Rows(vec![row("b")].into())]).await.unwrap();
    let locked = restore(dir.path(), &file, &At(NOW)).await.unwrap_err();
    assert!(matches!(locked, StoreError::Locked { .. }), "{locked:?}");
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    let epoch = db.epoch();
    db.close().await;
    let restored = restore(dir.path(), &file, &At(NOW)).await.unwrap();
    assert_eq!(restored.tracked, 1);
    assert!(restored.epoch > epoch);
    assert!(restored.replaced.unwrap().exists());
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [rich_row("a")]);
    assert!(db.epoch() > restored.epoch);
    let events = db.reader().events(&EventFilter::default(), 0, 10).await.unwrap();
    assert_eq!(events.iter().map(|e| e.kind.as_str()).collect::<Vec<_>>(), ["restored"]);
    assert!(db.reader().is_recovering().await.unwrap(), "what was made since is not known");
    assert_eq!(db.reader().verify_events().await.unwrap().broken, None);
}

/// How much is tracked in the database at `file`.
async fn tracked(file: &Path) -> i64 {
    let mut conn = open::connect(file).await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM inventory").fetch_one(&mut conn).await.unwrap()
}

#[tokio::test]
async fn each_state_that_was_replaced_or_put_aside_stays_also_of_one_second() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    db.reader().backup(&file).await.unwrap();
    db.commit(vec![Write::Rows(vec![row("a"), row("b")].into())]).await.unwrap();
    db.close().await;
    let mut replaced = Vec::new();
    for _ in 0..3 {
        replaced.push(restore(dir.path(), &file, &At(NOW)).await.unwrap().replaced.unwrap());
    }
    for (file, expect) in replaced.iter().zip([2, 0, 0]) {
        assert_eq!(tracked(file).await, expect, "{}", file.display());
    }
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    db.close().await;
    for expect in [1, 0] {
        let aside = init(dir.path(), Init::Recover, Arc::new(At(NOW))).await.unwrap().unwrap();
        assert_eq!(tracked(&aside).await, expect, "{}", aside.display());
    }
}

#[tokio::test]
async fn no_database_stands_in_its_place_without_its_wal() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let is = |name: &str, content: &str| assert_eq!(fs::read_to_string(at(name)).unwrap(), content, "{name}");
    let (file, wal) = (at(DATABASE), at("state.db-wal"));
    // It fails at the end: there is no new one.
    let exchange = || backup::exchange(&file, &at("nosuch"), NOW).unwrap_err();
    fs::write(&file, "old").unwrap();
    fs::write(&wal, "").unwrap();
    exchange();
    is(DATABASE, "old");
    fs::write(&wal, "and newer").unwrap();
    exchange();
    is(DATABASE, "old");
    is("state.db-wal", "and newer");
    assert!(!at("state.db.replaced-1700000000-2").exists());
    fs::write(at("new"), "new").unwrap();
    let replaced = at("state.db.replaced-1700000000-2");
    assert_eq!(backup::exchange(&file, &at("new"), NOW).unwrap(), Some(replaced));
    is(DATABASE, "new");
    is("state.db.replaced-1700000000-2", "old");
    is("state.db.replaced-1700000000-2-wal", "and newer");
    assert!(!wal.exists());
    // Nothing may have a name as long as that of its WAL would be.
    fs::write(&file, "old").unwrap();
    fs::write(&wal, "and newer").unwrap();
    backup::leave(&file, &at(&"a".repeat(253))).unwrap_err();
    assert!(!file.exists() && wal.exists());
    // What is left so is put aside by another try, which says so.
    fs::write(at("new"), "new").unwrap();
    let alone = at("state.db.replaced-1700000000-3-wal");
    assert_eq!(backup::exchange(&file, &at("new"), NOW).unwrap(), Some(alone.clone()));
    fs::remove_file(&file).unwrap();
    fs::rename(alone, &wal).unwrap();
    let aside = init(dir.path(), Init::Recover, Arc::new(At(NOW))).await.unwrap();
    assert_eq!(aside, Some(at("state.db.lost-1700000000-wal")));
    is("state.db.lost-1700000000-wal", "and newer");
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert!(db.reader().is_recovering().await.unwrap());
}

/// What is suspended by id, and what is kept at an earlier revision.
async fn words(db: &Db) -> (Vec<Arc<str>>, Vec<ResourceId>) {
    let suspensions = db.suspensions().await.unwrap().into_iter().map(|one| one.id);
    (suspensions.collect(), db.pins().await.unwrap().into_iter().map(|pin| pin.id).collect())
}

#[tokio::test]
async fn what_persons_said_since_the_backup_outlives_its_restore() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    let said = Write::Event(event("suspend", "by ada"));
    db.commit(vec![Write::Suspend(suspension("a", None)), Write::Pin(pin("www", None)), said]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    let taken_back = vec![Write::Resume("a".into()), Write::Unpin(zone(), "www".into())];
    db.commit(taken_back).await.unwrap();
    db.commit(vec![Write::Suspend(suspension("b", None)), Write::Pin(pin("mail", None))]).await.unwrap();
    db.close().await;
    for _ in 0..2 {
        assert!(restore(dir.path(), &file, &At(NOW)).await.unwrap().knows_words);
        let db = Db::open_writer(dir.path(), existing()).await.unwrap();
        assert_eq!(words(&db).await, (vec!["b".into()], vec!["mail".into()]));
        db.close().await;
    }
}

/// What a person says with `forget`.
fn forgotten(id: &str) -> Vec<Write> {
    vec![Write::Consent(zone(), id.into(), Consent::Barred), Write::Gone(zone(), vec![id.into()])]
}

#[tokio::test]
async fn what_was_let_go_of_since_the_backup_is_not_tracked_again_after_its_restore() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    let version = KnownVersion { version: Version::At("v".into()), foreign: 0 };
    let said = Write::Event(event("suspend", "by ada"));
    db.commit(vec![Write::Rows(vec![row("a"), row("b"), row("c")].into()), said]).await.unwrap();
    db.commit(forgotten("c")).await.unwrap();
    db.commit(vec![Write::Version(zone(), Some(version))]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    // `c` is adopted again; a word to adopt that is not carried out was given to what the backup does not know.
    db.commit(vec![Write::ConsentSpent(zone(), "c".into()), Write::Rows(vec![row("c")].into())])
        .await
        .unwrap();
    let adopt = Consent::Adopt { observed: Hash::of(b"x"), from: None };
    db.commit(vec![Write::Consent(zone(), "d".into(), adopt)]).await.unwrap();
    db.commit(forgotten("a")).await.unwrap();
    db.close().await;
    for _ in 0..2 {
        assert_eq!(restore(dir.path(), &file, &At(NOW)).await.unwrap().tracked, 1);
        let db = Db::open_writer(dir.path(), existing()).await.unwrap();
        let memory = db.scope(&zone()).await.unwrap();
        assert_eq!(*memory.rows, [row("b")]);
        assert_eq!(memory.consents, [(ResourceId::from("a"), Consent::Barred)]);
        assert_eq!(memory.version, None, "it was found in sync with a row that is gone");
        db.close().await;
    }
}

#[tokio::test]
async fn what_another_state_let_go_of_stays_tracked_where_a_backup_has_it() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    db.commit(vec![Write::Rows(vec![row("a")].into()), Write::Event(event("suspend", "by ada"))])
        .await
        .unwrap();
    db.commit(forgotten("b")).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    let other = dir.path().join("other");
    let made = Db::open_writer(&other, create()).await.unwrap();
    made.commit(forgotten("a")).await.unwrap();
    made.commit(vec![Write::Event(event("forget", "by bob"))]).await.unwrap();
    made.close().await;
    assert_eq!(restore(&other, &file, &At(NOW)).await.unwrap().tracked, 1);
    let db = Db::open_writer(&other, existing()).await.unwrap();
    let bars = [(zone(), ResourceId::from("a")), (zone(), ResourceId::from("b"))];
    assert_eq!(db.reader().bars().await.unwrap(), bars);
}

#[tokio::test]
async fn a_state_that_does_not_go_on_from_a_backup_takes_nothing_of_it_back() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    let said = Write::Event(event("suspend", "by ada"));
    db.commit(vec![Write::Suspend(suspension("a", None)), Write::Pin(pin("www", None)), said]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    // Made anew since, with words of its own; gone; and one that cannot be read.
    let other = dir.path().join("other");
    let made = Db::open_writer(&other, create()).await.unwrap();
    made.commit(vec![Write::Suspend(suspension("b", None)), Write::Event(event("suspend", "by bob"))])
        .await
        .unwrap();
    made.close().await;
    let none = dir.path().join("none");
    let damaged = dir.path().join("damaged");
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join(DATABASE), "no database").unwrap();
    for (dir, suspended) in [(other, vec!["a", "b"]), (none, vec!["a"]), (damaged, vec!["a"])] {
        assert!(!restore(&dir, &file, &At(NOW)).await.unwrap().knows_words);
        let db = Db::open_writer(&dir, existing()).await.unwrap();
        let suspended: Vec<Arc<str>> = suspended.into_iter().map(Arc::from).collect();
        assert_eq!(words(&db).await, (suspended, vec!["www".into()]));
        db.close().await;
    }
}

#[tokio::test]
async fn what_cannot_be_restored_replaces_nothing() {
    let (dir, db) = new().await;
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    db.close().await;
    let file = dir.path().join("backup.db");
    let missing = restore(dir.path(), &file, &At(NOW)).await.unwrap_err();
    assert!(matches!(missing, StoreError::File { .. }), "{missing:?}");
    fs::write(&file, "no database, but long enough for a header, which has a hundred bytes, so that SQLite reads it at all").unwrap();
    let damaged = restore(dir.path(), &file, &At(NOW)).await.unwrap_err();
    assert!(matches!(damaged, StoreError::NoBackup { .. }), "{damaged:?}");
    fs::write(&file, "").unwrap();
    let empty = restore(dir.path(), &file, &At(NOW)).await.unwrap_err();
    assert!(matches!(empty, StoreError::NoBackup { .. }), "{empty:?}");
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a")]);
}

#[tokio::test]
async fn a_restore_leaves_nothing_beside_what_it_brought_back() {
    let (dir, db) = new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join(DATABASE);
    db.commit(vec![Write::Rows(vec![rich_row("a")].into())]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    db.close().await;
    tamper(&elsewhere, "PRAGMA user_version = 0").await;
    let left = || -> Vec<String> {
        let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        names.filter(|name| name.contains("restoring")).collect()
    };
    restore(dir.path(), &file, &At(NOW)).await.unwrap();
    assert_eq!(left(), [""; 0], "the backup itself is the copy of what was migrated");
    fs::remove_file(dir.path().join(KEY_FILE)).unwrap();
    let refused = restore(dir.path(), &file, &At(NOW)).await.unwrap_err();
    assert!(matches!(refused, StoreError::SealKeyMissing(_)), "{refused:?}");
    assert_eq!(left(), [""; 0]);
}

#[tokio::test]
async fn a_restore_into_a_new_directory_needs_no_database_there() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    let other = dir.path().join("other");
    assert_eq!(restore(&other, &file, &At(NOW)).await.unwrap().replaced, None);
    let db = Db::open_writer(&other, existing()).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a")]);
}

#[tokio::test]
async fn a_new_database_is_whole_before_it_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(DATABASE);
    // What a process left that was killed meanwhile.
    for name in ["state.db.new", "state.db.new-wal", "state.db.new-shm", "state.db.new-journal"] {
        fs::write(dir.path().join(name), "half of it").unwrap();
    }
    backup::make(&file, Init::New).await.unwrap();
    let made: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made, [DATABASE]);
    assert_eq!(fs::read(&file).unwrap()[18..20], [2, 2], "it has a WAL from the beginning");
    let mut conn = open::connect(&file).await.unwrap();
    assert_eq!(open::identify(&mut conn, &file).await.unwrap(), Schema::Ours(NEWEST));
}

#[tokio::test]
async fn a_state_that_cannot_be_looked_at_is_not_taken_for_none() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("round");
    std::os::unix::fs::symlink(&dir, &dir).unwrap();
    let clock = Arc::new(At(NOW));
    let read = Reader::open(&dir, clock.clone()).await.unwrap_err();
    let write = Db::open_writer(&dir, existing()).await.unwrap_err();
    for error in [read, write] {
        assert!(matches!(error, StoreError::File { .. }), "{error:?}");
    }
    // Where only the rights are missing, it is said whose they are; root has all of them, so that the system says nothing.
    let denied = std::io::ErrorKind::PermissionDenied;
    let error = StoreError::barred(&parent.path().join(DATABASE), denied.into());
    assert!(error.to_string().contains("may not be read by this user"), "{error}");
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(parent.path()).unwrap());
    let hint = error.hint().unwrap();
    assert!(hint.contains(if owner == 0 { "as root" } else { "as the user with the id" }), "{hint}");
}

#[test]
fn what_has_no_room_beside_the_database_is_a_full_disk() {
    let trouble = |code| error::trouble_of_code(code);
    assert_eq!(trouble(4874), Trouble::Full, "IOERR_SHMSIZE");
    assert_eq!(trouble(13), Trouble::Full);
    assert_eq!(trouble(266), Trouble::Io, "IOERR_READ");
}

#[test]
fn who_waits_for_its_own_readers_is_told_of_no_other_program() {
    let error = StoreError::from(sqlx::Error::PoolTimedOut).of(Path::new("state.db"));
    let told = format!("{error}; {}", error.hint().unwrap());
    assert!(told.starts_with("state.db: not free to be read"), "{told}");
    assert!(!told.contains("other program"), "{told}");
}
