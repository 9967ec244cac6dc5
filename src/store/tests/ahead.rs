//! Rows that are put into the transaction of a commit before it comes.

use super::*;
use crate::store::{
    kept::Kept,
    message::{Commit, Message, QUEUE},
    writer::Writer,
};

/// So many are put ahead.
const MANY: usize = 600;

fn many(revision: &str) -> Vec<Row> {
    let row = |number| {
        row(&format!("www{number:03}/A")).with(|row| {
            row.state = RowState::Applied;
            row.written_at = NOW;
            row.revision = revision.into();
        })
    };
    (0..MANY).map(row).collect()
}

/// A state with a writer that does nothing unasked.
struct Desk {
    dir: TempDir,
    writer: Writer,
    queue: mpsc::Sender<Message>,
}

impl Desk {
    async fn new() -> Desk {
        let (dir, db) = new().await;
        db.close().await;
        let file = dir.path().join(DATABASE);
        let mut conn = open::connect(&file).await.unwrap();
        let seal = Arc::new(open::seal_of(&mut conn, dir.path()).await.unwrap());
        let clock = Arc::new(At(NOW));
        let epoch = open::raise_epoch(&mut conn, &*clock).await.unwrap();
        let ((sender, queue), kept) = (mpsc::channel(QUEUE), Arc::<Kept>::default());
        kept.keep(10_000);
        let (touched, spared, lock, ahead) = (Vec::new(), 0, None, None);
        let writer = Writer { conn, seal, epoch, file, queue, lock, kept, touched, spared, ahead, clock };
        Desk { dir, writer, queue: sender }
    }

    /// Has `writes` carried out as one commit.
    async fn commit(&mut self, writes: Vec<Write>) {
        let (reply, answer) = oneshot::channel();
        self.writer.serve(vec![Commit { writes, reply }]).await;
        answer.await.unwrap().unwrap();
        assert!(self.writer.ahead.is_none() && !is_open(&self.dir).await, "a transaction was left open");
    }

    /// All that is stored of rows.
    async fn dump(&mut self) -> Vec<String> {
        let all = "SELECT json_array(scope, id, manifest, address, file, hex(template), hex(applied), state, written_at,
                       revision, synced_at, healthy_at, stamp) FROM inventory
                   UNION ALL SELECT json_array(scope, stamp, settled, settled_at) FROM inventory_stamp
                   UNION ALL SELECT json_array(number, total, ended, outcomes) FROM journal ORDER BY 1";
        sqlx::query_scalar(all).fetch_all(&mut self.writer.conn).await.unwrap()
    }

    async fn pragma(&mut self, name: &str) -> i64 {
        let sql = format!("PRAGMA {name}");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.writer.conn).await.unwrap()
    }

    async fn is_as_opened(&mut self) {
        assert_eq!(self.pragma("wal_autocheckpoint").await, 1000);
        assert_eq!(self.pragma("busy_timeout").await, 5000);
    }
}

/// True while a transaction that writes is open; whoever asks waits for nothing.
async fn is_open(dir: &TempDir) -> bool {
    let file = dir.path().join(DATABASE);
    let mut other = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    sqlx::query("PRAGMA busy_timeout = 0").execute(&mut other).await.unwrap();
    let begun = sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await;
    other.close().await.unwrap();
    begun.is_err()
}

/// What the file has, whoever keeps what in memory.
async fn rows(dir: &TempDir) -> Vec<Row> {
    let reader = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap();
    reader.scope(&zone()).await.unwrap().rows.to_vec()
}

#[tokio::test]
async fn rows_that_came_as_foreseen_are_as_if_they_had_not_been() {
    let (mut one, mut other) = (Desk::new().await, Desk::new().await);
    for (revision, first) in [("first", 1), ("second", 1_001)] {
        let numbers = first..first + MANY as u64;
        let intents = || many(revision).into_iter().zip(numbers.clone());
        let begun = || vec![start(intents().map(|(row, number)| intent(number, row)).collect(), vec![])];
        let endings = || numbers.clone().map(|number| ending(number, "done")).collect();
        let ended = || {
            let batch = Write::Event(event("batch", "600"));
            vec![Write::End(endings()), Write::Rows(many(revision).into()), batch]
        };
        one.commit(begun()).await;
        other.commit(begun()).await;

        let before = rows(&one.dir).await;
        one.writer.foresee(many(revision).into()).await;
        assert!(one.writer.ahead.is_some() && is_open(&one.dir).await);
        assert_eq!(rows(&one.dir).await, before, "of what is foreseen nobody sees anything");
        one.commit(ended()).await;
        other.commit(ended()).await;

        assert_eq!(one.dump().await, other.dump().await);
        assert_eq!(rows(&one.dir).await, many(revision));
        let stamp = inventory::stamp(&mut one.writer.conn, &zone().to_string()).await.unwrap();
        assert_eq!(
            one.writer.kept.at(&zone(), stamp).unwrap(),
            other.writer.kept.at(&zone(), stamp).unwrap()
        );
        one.is_as_opened().await;
    }
}

#[tokio::test]
async fn what_did_not_come_as_foreseen_is_written_as_it_came() {
    let mut desk = Desk::new().await;
    let foreseen = async |desk: &mut Desk| {
        desk.writer.foresee(many("foreseen").into()).await;
        assert!(desk.writer.ahead.is_some());
    };
    foreseen(&mut desk).await;
    desk.commit(vec![Write::Rows(many("other").into())]).await;
    assert_eq!(rows(&desk.dir).await, many("other"));

    foreseen(&mut desk).await;
    let fewer = many("foreseen").split_off(1);
    desk.commit(vec![Write::Rows(fewer.clone().into())]).await;
    let all: Vec<Row> = many("other").into_iter().take(1).chain(fewer).collect();
    assert_eq!(rows(&desk.dir).await, all);

    // What comes before rows may be about them.
    foreseen(&mut desk).await;
    let gone = Write::Gone(zone(), many("foreseen").iter().map(|row| row.tracked.id.clone()).collect());
    desk.commit(vec![gone, Write::Rows(many("foreseen").into())]).await;
    assert_eq!(rows(&desk.dir).await, many("foreseen"));

    // Others take the place of those before.
    foreseen(&mut desk).await;
    desk.writer.foresee(many("last").into()).await;
    assert!(desk.writer.ahead.is_some());
    desk.commit(vec![Write::Rows(many("last").into())]).await;
    assert_eq!(rows(&desk.dir).await, many("last"));
    desk.is_as_opened().await;
}

#[tokio::test]
async fn whoever_waits_for_an_answer_comes_before_what_is_foreseen() {
    let mut desk = Desk::new().await;
    let (reply, _answer) = oneshot::channel();
    assert!(desk.queue.try_send(Message::Recovered(reply)).is_ok());
    desk.writer.foresee(many("foreseen").into()).await;
    assert!(desk.writer.ahead.is_none() && !is_open(&desk.dir).await);
    desk.is_as_opened().await;

    // Nor is waited for whoever else has the file.
    let file = desk.dir.path().join(DATABASE);
    let mut other = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    assert!(desk.writer.next().await.is_some());
    desk.writer.foresee(many("foreseen").into()).await;
    assert!(desk.writer.ahead.is_none());
    other.close().await.unwrap();
    desk.is_as_opened().await;
    desk.commit(vec![Write::Rows(many("foreseen").into())]).await;
    assert_eq!(rows(&desk.dir).await, many("foreseen"));
}

#[tokio::test]
async fn a_commit_that_does_not_come_keeps_nobody_from_the_file() {
    let mut desk = Desk::new().await;
    desk.writer.foresee(many("foreseen").into()).await;
    assert!(desk.writer.ahead.is_some());
    let Desk { dir, mut writer, queue } = desk;
    let others = async {
        for _ in 0..10_000 {
            if !is_open(&dir).await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!is_open(&dir).await);
        // It waited for all that time, and nobody can ask any more.
        drop(queue);
    };
    let (message, ()) = tokio::join!(writer.next(), others);
    assert!(message.is_none() && writer.ahead.is_none());
}

#[tokio::test]
async fn the_state_as_it_is_opened_forgets_what_is_foreseen_for_all_else() {
    let (dir, db) = new().await;
    for round in 0..20 {
        db.foresee(many("foreseen").into());
        tokio::task::yield_now().await;
        match round % 3 {
            0 => db.commit(vec![Write::Rows(many("foreseen").into())]).await.unwrap(),
            1 => db.recovered().await.unwrap(),
            _ => db.commit(vec![Write::Event(event("batch", "other"))]).await.unwrap(),
        }
        assert!(!is_open(&dir).await);
        assert_eq!(rows(&dir).await, many("foreseen"));
    }
    db.foresee(many("never").into());
    db.close().await;
    assert_eq!(rows(&dir).await, many("foreseen"));
}
