//! How fast the store is: `cargo bench --bench store`. Prints one line per figure; fsync decides most of them.
#![expect(clippy::print_stdout, reason = "a benchmark reports to its user")]

use async_trait::async_trait;
use futures_util::future::join_all;
use reconciled::store::{Db, OpenOptions};
use reconciled_engine::{
    Row, RowState, Store, Write,
    store::{Ending, Intent, Known, Terms},
};
use reconciled_provider::{ActionId, Clock, Deletion, Drift, EntryPolicy, Hash, ManifestKey, Scope, Tracked};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const ROWS: usize = 100_000;

struct Still;

#[async_trait]
impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }
    async fn sleep(&self, _: Duration) {}
}

fn rows(scope: &Scope) -> Vec<Row> {
    let manifest = ManifestKey::new("infra", "dns", "Zone", "", "example.com");
    let terms = Arc::new(Terms {
        scope: scope.clone().into(),
        manifest,
        file: "zones/example.com.yaml".into(),
        normalizer: 1,
        deletion: Deletion::Delete,
        writes: EntryPolicy::Sync,
        drift: Drift::Heal,
        merge: false,
        revision: "abc1234".into(),
        formerly: Vec::new(),
    });
    let row = |n: usize| {
        let known = Known {
            terms: terms.clone(),
            tracked: Tracked::new(format!("host{n:06}.example.com./A").into(), Hash::of(&n.to_le_bytes())),
            address: format!("Zone/example.com#host{n:06}/A").parse().expect("a valid address"),
            template: Hash::of(&n.to_le_bytes()),
        };
        Row::new(known, RowState::Applied, Still.now())
    };
    (0..ROWS).map(row).collect()
}

fn report(what: &str, count: usize, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<44} {:>9.1} ms {rate:>10.0}/s", took.as_secs_f64() * 1e3);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let options = OpenOptions { create: true, clock: Arc::new(Still) };
    let db = Db::open_writer(dir.path(), options.clone()).await?;
    let scope = Scope::new("pdns", "example.com");
    let list = rows(&scope);

    let intent = |(n, row): (usize, &Row)| Intent {
        action: ActionId(n as u64),
        op: "create".into(),
        token: "t".into(),
        row: row.clone().into(),
        before: None,
        after: Some(row.tracked.applied),
        reason: "commit abc1234".into(),
        consented: None,
    };
    let intents: Vec<Intent> = list.iter().enumerate().map(intent).collect();
    let endings = |outcome: &str| -> Vec<Ending> {
        (0..ROWS)
            .map(|n| Ending { action: ActionId(n as u64), outcome: outcome.into(), error: None })
            .collect()
    };
    let (write, ending) = (list.clone(), endings("done"));
    let start = Instant::now();
    db.commit(vec![Write::Start { scope: scope.clone(), intents, fence: vec![], at: Still.now() }]).await?;
    report("start 100,000 intents", ROWS, start.elapsed());
    let start = Instant::now();
    db.commit(vec![Write::Rows(write.into())]).await?;
    report("insert 100,000 rows", ROWS, start.elapsed());
    let start = Instant::now();
    db.commit(vec![Write::End(ending)]).await?;
    report("end 100,000 intents", ROWS, start.elapsed());
    let ids = list.iter().map(|row| row.tracked.id.clone()).collect();
    let start = Instant::now();
    db.commit(vec![Write::Settled(scope.clone(), ids)]).await?;
    report("settle 100,000 rows", ROWS, start.elapsed());
    let write = list.clone();
    let start = Instant::now();
    db.commit(vec![Write::Rows(write.into())]).await?;
    report("replace 100,000 rows", ROWS, start.elapsed());
    let start = Instant::now();
    let memory = db.scope(&scope).await?;
    report("load 100,000 rows", memory.rows.len(), start.elapsed());

    let one = || vec![Write::Rows(vec![list[0].clone()].into())];
    let start = Instant::now();
    for _ in 0..500 {
        db.commit(one()).await?;
    }
    report("500 commits, one caller", 500, start.elapsed());
    let start = Instant::now();
    for _ in 0..20 {
        join_all((0..100).map(|_| db.commit(one()))).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    report("2,000 commits, 100 callers", 2000, start.elapsed());
    let small = Scope::new("pdns", "small.example");
    let start = Instant::now();
    for _ in 0..500 {
        db.scope(&small).await?;
    }
    report("500 reads of an empty scope", 500, start.elapsed());
    let file = dir.path().join("backup");
    let start = Instant::now();
    db.reader().backup(&file).await?;
    report("backup", ROWS, start.elapsed());
    db.close().await;
    println!(
        "database: {} KiB for {ROWS} rows and their journal",
        std::fs::metadata(dir.path().join("state.db"))?.len() >> 10
    );
    let start = Instant::now();
    Db::open_writer(dir.path(), options).await?.close().await;
    report("open and close", 1, start.elapsed());
    Ok(())
}
