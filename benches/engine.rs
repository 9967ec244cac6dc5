//! What a pass that finds nothing to do costs: `cargo bench --bench engine`. Prints CPU time per 1,000 resources.
//!
//! The remotes are in memory, the store is SQLite. `memory` is what the store read, `pass` all that follows: observing,
//! comparing, planning, judging, bookkeeping. A pass that writes anything, to a remote or to the database, fails, and so does
//! one that costs more than the goal.
#![expect(clippy::print_stdout, reason = "a benchmark reports to its user")]

use reconciled::store::{Db, OpenOptions};
use reconciled_engine::{
    Desired, ManifestMeta, SourceState, Store,
    pass::{Engine, Patience, watched},
    plan::{EntryPolicy, guard::GuardLimits},
    survey::{Ahead, Calls, Early, Heard, Hurry, Judged, Recall, Rooms, SurveyOptions, Surveyor},
};
use reconciled_provider::{
    Address, Deletion, Hash, ManifestKey, Origin, Owner, Policy, Provider, Resource, Scope, Spec,
};
use reconciled_testkit::{Calm, Reference, Role, World, context};
use rustix::time::{ClockId, clock_gettime};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

const INSTANCE: &str = "bench";
const PASSES: usize = 9;
/// Milliseconds of CPU that a pass over 1,000 resources may cost, what the store reads for it included.
const GOAL: f64 = 3.0;

/// CPU time that this process has used, all threads together.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn content(scope: usize, n: usize) -> String {
    format!("300\n10.{scope}.{}.{}", n / 256, n % 256)
}

/// One manifest for each scope, as zones have.
fn declare(scopes: usize, each: usize) -> Desired {
    let mut desired = Desired::default();
    let state = SourceState { revision: "abc1234".into(), prunes: true, ..SourceState::default() };
    desired.sources.insert("infra".into(), state);
    let policy = desired.policies.intern(Policy { deletion: Some(Deletion::Delete), ..Policy::default() });
    for number in 0..scopes {
        let scope = Arc::new(Scope::new("zone", format!("z{number}.example")));
        let key = ManifestKey::new("infra", "test", "Thing", "", &scope.name);
        desired.manifests.push(ManifestMeta {
            address: Address::of(&key, None),
            key,
            file: "zone.yaml".into(),
            line: 1,
            content: Hash::of(scope.name.as_bytes()),
            labels: BTreeMap::new(),
            after: [].into(),
            moved_from: None,
        });
        let resource = |n: usize| {
            Resource::new(
                format!("host{n:06}.{}./A", scope.name).into(),
                scope.clone(),
                Spec::known(content(number, n).into_bytes()),
                Origin { manifest: number as u32, line: n as u32 + 1 },
                policy,
            )
        };
        desired.scopes.insert((*scope).clone(), Arc::new((0..each).map(resource).collect()));
    }
    desired
}

/// Everything in the database's files.
fn on_disk(dir: &Path) -> Result<Hash, std::io::Error> {
    let mut bytes = fs::read(dir.join("state.db"))?;
    bytes.extend(fs::read(dir.join("state.db-wal"))?);
    Ok(Hash::of(&bytes))
}

async fn measure(scopes: usize, each: usize) -> Result<(), Box<dyn std::error::Error>> {
    let desired = declare(scopes, each);
    let world = Arc::new(World::default());
    for (scope, list) in &desired.scopes {
        for resource in list.iter() {
            let text = resource.spec.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let owner = Owner::Other(INSTANCE.into());
            world.by_hand(scope, &resource.id.0, text.as_deref(), owner, Duration::ZERO);
        }
    }
    let cx = context::cx();
    let dir = tempfile::tempdir()?;
    let options = OpenOptions { create: true, clock: cx.clock.clone() };
    let db = Arc::new(Db::open_writer(dir.path(), options).await?);
    let reference = Reference::new(Role::Zone, "zone", INSTANCE, world.clone(), Arc::new(Calm));
    let provider: Arc<dyn Provider> = Arc::new(reference);
    let entries = [("zone".into(), watched(&provider, EntryPolicy::Sync, GuardLimits::default()))];
    let surveyor = Surveyor {
        entries: entries.into(),
        cx,
        outside: None,
        recall: Recall::default(),
        hurry: Hurry::default(),
        rooms: Rooms::default(),
        judged: Judged::default(),
        calls: Calls::default(),
        early: Early::default(),
    };
    let writers = [("zone".into(), provider)].into();
    let store: Arc<dyn Store> = db.clone();
    let engine = Engine::new(surveyor, writers, store, INSTANCE.into());

    // What is there already is adopted; then nothing is left to do.
    let options = SurveyOptions { refresh: true, ..SurveyOptions::default() };
    let converge = engine.converge(&desired, &options, &Patience::until(Duration::MAX)).await?;
    assert!(converge.round.is_in_sync(), "the first passes leave everything in sync");
    let (writes, disk) = (world.calls().1, on_disk(dir.path())?);
    let (mut memory, mut pass) = (Vec::new(), Vec::new());
    for _ in 0..PASSES {
        let start = cpu();
        let glance =
            engine.surveyor.glance(&*db, &options, Ahead::Nothing, std::future::ready(Heard::new())).await?;
        let loaded = cpu();
        let survey = engine.surveyor.survey_from(&*db, &desired, glance, &options).await?;
        let report = engine.carry_out(&desired, survey).await?;
        pass.push(cpu() - loaded);
        memory.push(loaded - start);
        assert!(report.is_in_sync(), "nothing changed, so nothing is to be done");
    }
    assert_eq!(world.calls().1, writes, "a pass that finds nothing to do writes nothing to a remote");
    assert_eq!(on_disk(dir.path())?, disk, "a pass that finds nothing to do writes nothing to the database");
    db.close().await;

    let thousands = (scopes * each) as f64 / 1e3;
    let median = |mut list: Vec<Duration>| {
        list.sort();
        list[list.len() / 2].as_secs_f64() * 1e3 / thousands
    };
    let (memory, pass) = (median(memory), median(pass));
    println!(
        "{scopes:>4} scopes of {each:>6}: memory {memory:.2} ms, pass {pass:.2} ms CPU per 1,000 resources; 0 writes"
    );
    if memory + pass > GOAL {
        return Err(format!(
            "a pass over {scopes} scopes of {each} costs more than {GOAL} ms per 1,000 resources"
        )
        .into());
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    measure(1, 10_000).await?;
    measure(100, 1_000).await
}
