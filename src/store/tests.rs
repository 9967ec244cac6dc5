mod kept;
mod sweep;

use super::*;
use futures_util::future::join_all;
use reconciled_engine::{
    DriftEnd, DriftField, Drifted, Extent, HealthState, RowState,
    store::{Ailment, ClaimRow, Condition, ConditionKind, Consent, Ending, Event, Intent, OpenIntent},
};
use reconciled_provider::{
    ActionId, Claim, Deletion, Drift, ErrorKind, Lives, Pattern, ResourceId, Sealed, Tracked, Version,
};
use sqlx::{AssertSqlSafe, Connection as _};
use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};
use tempfile::TempDir;

struct At(Duration);

#[async_trait]
impl Clock for At {
    fn now(&self) -> Duration {
        self.0
    }
    async fn sleep(&self, _: Duration) {}
}

const NOW: Duration = Duration::from_secs(1_700_000_000);
const DAY: Duration = Duration::from_hours(24);

fn create() -> OpenOptions {
    OpenOptions { create: true, clock: Arc::new(At(NOW)) }
}

fn existing() -> OpenOptions {
    OpenOptions { create: false, ..create() }
}

async fn new() -> (TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open_writer(dir.path(), create()).await.unwrap();
    (dir, db)
}

fn zone() -> Scope {
    Scope::new("pdns", "example.com")
}

fn key(name: &str) -> ManifestKey {
    ManifestKey::new("infra", "dns", "Zone", "", name)
}

fn row(id: &str) -> Row {
    Row {
        scope: zone(),
        tracked: Tracked::new(id.into(), Hash::of(id.as_bytes())),
        manifest: key("example.com"),
        address: format!("Zone/example.com#{id}").parse().unwrap(),
        file: "zones/example.com.yaml".into(),
        template: Hash::of(b"template"),
        normalizer: 3,
        deletion: Deletion::Delete,
        drift: Drift::Heal,
        merge: false,
        state: RowState::Settled,
        written_at: Duration::ZERO,
        revision: "abc1234".into(),
    }
}

fn rich_row(id: &str) -> Row {
    let tracked = Tracked {
        remote: Some("arn:1".into()),
        private: Sealed(b"canary-private".to_vec().into()),
        outputs: Sealed(br#"{"arn":"canary-outputs"}"#.to_vec().into()),
        after: [key("a"), key("b")].into(),
        ..row(id).tracked
    };
    let state = RowState::Pending { recheck_at: NOW };
    Row { tracked, state, merge: true, deletion: Deletion::Protect, drift: Drift::Ignore, ..row(id) }
}

fn intent(action: u64, row: Row) -> Intent {
    Intent {
        action: ActionId(action),
        op: "create".into(),
        token: "token".into(),
        before: None,
        after: Some(row.tracked.applied),
        reason: "commit abc1234".into(),
        row: row.into(),
    }
}

fn start(intents: Vec<Intent>, fence: Vec<(ManifestKey, u64)>) -> Write {
    Write::Start { scope: zone(), intents, fence, at: NOW }
}

fn ending(action: u64, outcome: &str) -> Ending {
    let error = (outcome == "unknown").then(|| "connection reset".into());
    Ending { action: ActionId(action), outcome: outcome.into(), error }
}

fn revision(commit: &str) -> Revision {
    Revision {
        source: "infra".into(),
        commit: commit.into(),
        label: commit.into(),
        author: "Ada".into(),
        subject: "add www".into(),
        path: ".".into(),
    }
}

fn in_force(commit: &str, manifests: &[(&str, &str)]) -> Write {
    let manifests = manifests.iter().map(|(name, text)| (key(name), Hash::of(text.as_bytes()))).collect();
    Write::InForce { revision: revision(commit), manifests, at: NOW }
}

fn condition(reason: &str, message: &str, since: Duration) -> Condition {
    Condition {
        id: Some("www/A".into()),
        address: Some("Zone/example.com#www/A".parse().unwrap()),
        kind: ConditionKind::Stalled,
        reason: reason.into(),
        message: message.into(),
        hint: Some("reconciled adopt Zone/example.com#www/A".into()),
        since,
        next_try: Some(since + DAY),
    }
}

fn event(kind: &str, message: &str) -> Event {
    Event {
        at: NOW,
        kind: kind.into(),
        scope: Some(zone()),
        address: Some("Zone/example.com#www/A".parse().unwrap()),
        revision: "abc1234".into(),
        actor: "ada".into(),
        reason: "because".into(),
        message: message.into(),
    }
}

fn hold(digest: &str) -> Hold {
    Hold {
        domain: "pdns/example.com".into(),
        digest: Hash::of(digest.as_bytes()),
        reasons: vec!["7 deletes, the limit is 5".into()],
        counts: [1, 2, 3, 7],
        revision: "abc1234".into(),
        since: NOW,
    }
}

fn approval(at: Duration) -> Approval {
    Approval { digest: Hash::of(b"plan"), reason: "ok".into(), actor: "ada".into(), at, used_at: None }
}

fn claim(key: &str, scope: &Scope, owner_scope: &Scope) -> ClaimRow {
    ClaimRow {
        owner_scope: owner_scope.clone(),
        owner: "web".into(),
        claim: Claim {
            key: key.into(),
            provider: "pdns".into(),
            kind: "dns-txt".into(),
            spec: b"\x00\xff".to_vec().into(),
            lives: Lives::WhilePending,
        },
        scope: scope.clone(),
        id: "_acme-challenge/TXT".into(),
        synced: false,
    }
}

/// Changes the database behind the store's back.
async fn tamper(dir: &TempDir, sql: &str) {
    let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

#[tokio::test]
async fn rows_read_back_as_they_were_written_and_stay_after_a_restart() {
    let (dir, db) = new().await;
    let mut rows: Vec<Row> = (0..300).map(|n| row(&format!("h{n:03}/A"))).collect();
    rows.push(rich_row("z/A"));
    rows.push(Row { state: RowState::Applied, written_at: NOW, drift: Drift::Warn, ..row("zz/A") });
    db.commit(vec![Write::Rows(rows.clone())]).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, rows);
    let other = rich_row("z/A");
    let other = Row { tracked: Tracked { private: Sealed::default(), ..other.tracked }, ..other };
    db.commit(vec![Write::Rows(vec![other.clone()]), Write::Settled(zone(), vec!["zz/A".into()])])
        .await
        .unwrap();
    db.commit(vec![Write::Gone(zone(), vec!["h000/A".into(), "unknown".into()])]).await.unwrap();
    rows.remove(0);
    rows[299] = other;
    rows[300].state = RowState::Settled;
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(*db.all().await.unwrap().remove(&zone()).unwrap().rows, rows);
    assert_eq!(db.rows_of(&key("example.com")).await.unwrap(), rows);
    assert_eq!(db.rows_of(&key("none")).await.unwrap(), []);
}

#[tokio::test]
async fn dependants_follow_the_edges_of_their_rows() {
    let (_dir, db) = new().await;
    let after = |keys: &[&str]| {
        let tracked = Tracked { after: keys.iter().map(|k| key(k)).collect(), ..row("x").tracked };
        vec![Write::Rows(vec![Row { tracked, ..row("x") }])]
    };
    let names = async |k: &str| db.dependants(&key(k)).await.unwrap().len();
    db.commit(after(&["a", "b"])).await.unwrap();
    assert_eq!((names("a").await, names("b").await, names("c").await), (1, 1, 0));
    db.commit(after(&["b", "c"])).await.unwrap();
    assert_eq!((names("a").await, names("b").await, names("c").await), (0, 1, 1));
    db.commit(after(&[])).await.unwrap();
    assert_eq!((names("b").await, names("c").await), (0, 0));
    db.commit(after(&["a"])).await.unwrap();
    db.commit(vec![Write::Gone(zone(), vec!["x".into()])]).await.unwrap();
    assert_eq!(names("a").await, 0);
}

#[tokio::test]
async fn an_intent_stays_open_until_it_has_a_known_outcome() {
    let (dir, db) = new().await;
    let intents = vec![intent(1, rich_row("a")), intent(2, row("b")), intent(3, row("c"))];
    db.commit(vec![start(intents.clone(), vec![])]).await.unwrap();
    db.commit(vec![start(vec![intent(4, row("d"))], vec![])]).await.unwrap();
    let open = |list: &[&Intent]| -> Vec<OpenIntent> {
        list.iter().map(|i| OpenIntent { intent: (*i).clone(), started_at: NOW }).collect()
    };
    let fourth = intent(4, row("d"));
    let [first, second, third] = &intents[..] else { unreachable!() };
    assert_eq!(db.scope(&zone()).await.unwrap().open, open(&[first, second, third, &fourth]));
    db.commit(vec![Write::End(vec![
        ending(1, "unknown"),
        ending(2, "done"),
        ending(4, "failed"),
        ending(9, "done"),
    ])])
    .await
    .unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap().open, open(&[first, third]));
    assert_eq!(db.reader().status().await.unwrap().open, 2);
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(db.all().await.unwrap()[&zone()].open, open(&[first, third]));
    db.commit(vec![Write::End(vec![ending(1, "observed"), ending(3, "gone")])]).await.unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap(), ScopeMemory::default());
    // An answer is final: what comes late changes nothing.
    db.commit(vec![Write::End(vec![ending(3, "unknown")])]).await.unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap(), ScopeMemory::default());
    let history = db.reader().history(&HistoryFilter::default()).await.unwrap();
    let mut told: Vec<_> =
        history.iter().map(|e| (e.address.as_deref().unwrap(), e.outcome.as_deref().unwrap())).collect();
    told.sort_unstable();
    let address = |id: &str| format!("Zone/example.com#{id}");
    let (a, b, c, d) = (address("a"), address("b"), address("c"), address("d"));
    assert_eq!(told, [(&*a, "observed"), (&*b, "done"), (&*c, "gone"), (&*d, "failed")]);
}

#[tokio::test]
async fn a_start_from_an_old_generation_writes_nothing_and_names_the_manifest() {
    let (_dir, db) = new().await;
    db.commit(vec![in_force("c1", &[("a", "1"), ("b", "1")])]).await.unwrap();
    let before = db.generations("infra").await.unwrap();
    assert_eq!(before.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>(), [key("a"), key("b")]);
    db.commit(vec![start(vec![intent(1, row("x"))], before.clone())]).await.unwrap();
    db.commit(vec![in_force("c2", &[("a", "1"), ("b", "2"), ("c", "1")])]).await.unwrap();
    let after = db.generations("infra").await.unwrap();
    assert_eq!(after[0], before[0], "what did not change keeps its generation");
    assert!(after[1].1 > before[1].1);
    let error = db.commit(vec![start(vec![intent(2, row("y"))], before.clone())]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("infra/dns/Zone//b"), "{error}");
    assert_eq!(db.scope(&zone()).await.unwrap().open.len(), 1);
    // Gone is generation 0, and coming back is not the same generation again.
    db.commit(vec![in_force("c3", &[("a", "1")])]).await.unwrap();
    assert!(db.commit(vec![start(vec![], vec![(key("b"), 0)])]).await.is_ok());
    assert!(db.commit(vec![start(vec![], after.clone())]).await.is_err());
    db.commit(vec![in_force("c4", &[("a", "1"), ("b", "2")])]).await.unwrap();
    assert!(db.generations("infra").await.unwrap()[1].1 > after[1].1);
    assert_eq!(db.in_force("infra").await.unwrap(), Some(revision("c4")));
    assert_eq!(db.in_force("other").await.unwrap(), None);
}

#[tokio::test]
async fn the_other_words_read_back_as_they_were_written() {
    let (dir, db) = new().await;
    let certs = Scope::new("cert", "web");
    let (here, there) = (claim("a", &zone(), &certs), claim("b", &zone(), &certs));
    let known = |token: &[u8]| KnownVersion { version: Version::At(token.to_vec().into()), foreign: 7 };
    let absent = KnownVersion { version: Version::Absent, foreign: 0 };
    let converged = Converged { source: "infra".into(), commit: "c1".into(), inputs: Hash::of(b"i") };
    let adopt = Consent::Adopt { observed: Hash::of(b"o"), from: Some("dns2".into()) };
    let plain =
        Condition { id: None, address: None, hint: None, next_try: None, ..condition("Waiting", "m", NOW) };
    db.commit(vec![
        Write::Conditions(zone(), vec![condition("Conflict", "differs", NOW), plain.clone()]),
        Write::Hold(hold("one")),
        Write::Hold(Hold { domain: "host".into(), ..hold("two") }),
        Write::Consent(zone(), "x".into(), adopt.clone()),
        Write::Consent(zone(), "y".into(), Consent::Barred),
        Write::Claims(certs.clone(), "web".into(), vec![here.clone(), there.clone()]),
        Write::Version(zone(), Some(known(b"1"))),
        Write::Version(certs.clone(), Some(absent.clone())),
        Write::Version(Scope::new("a", "gone"), Some(absent.clone())),
        Write::Converged(Ok(converged.clone())),
    ])
    .await
    .unwrap();
    db.commit(vec![
        Write::Version(zone(), Some(known(b"2"))),
        Write::Version(Scope::new("a", "gone"), None),
        Write::ClaimSynced(certs.clone(), "web".into(), "b".into(), true),
        Write::Release("host".into()),
        Write::Hold(hold("three")),
    ])
    .await
    .unwrap();
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    let there = ClaimRow { synced: true, ..there };
    let memory = db.scope(&zone()).await.unwrap();
    assert_eq!(memory.conditions, [condition("Conflict", "differs", NOW), plain]);
    assert_eq!(memory.consents, [("x".into(), adopt), ("y".into(), Consent::Barred)]);
    assert_eq!(memory.claims_here, [here.clone(), there.clone()]);
    assert_eq!((memory.claims_made.len(), memory.version.clone()), (0, Some(known(b"2"))));
    assert_eq!(db.scope(&certs).await.unwrap().claims_made, [here, there.clone()]);
    assert_eq!(db.holds().await.unwrap(), [hold("three")]);
    assert_eq!(db.versions().await.unwrap(), [(certs.clone(), absent), (zone(), known(b"2"))]);
    // The scope whose version went left no source in sync as a whole.
    assert_eq!(db.converged("infra").await.unwrap(), None);
    db.commit(vec![Write::Converged(Ok(converged.clone()))]).await.unwrap();
    assert_eq!(db.converged("infra").await.unwrap(), Some(converged));
    assert_eq!(db.all().await.unwrap().remove(&zone()).unwrap(), memory);
    db.commit(vec![
        Write::Conditions(zone(), vec![]),
        Write::ConsentSpent(zone(), "x".into()),
        Write::Claims(certs.clone(), "web".into(), vec![there.clone()]),
        Write::Converged(Err("infra".into())),
    ])
    .await
    .unwrap();
    let memory = db.scope(&zone()).await.unwrap();
    assert_eq!((memory.conditions.len(), memory.consents.len()), (0, 1));
    assert_eq!(memory.claims_here, [there]);
    assert_eq!(db.converged("infra").await.unwrap(), None);
}

#[tokio::test]
async fn a_condition_keeps_its_age_while_the_trouble_is_the_same() {
    let (_dir, db) = new().await;
    let later = NOW + DAY;
    let put = async |condition| {
        db.commit(vec![Write::Conditions(zone(), vec![condition])]).await.unwrap();
        db.scope(&zone()).await.unwrap().conditions.remove(0)
    };
    put(condition("Unavailable", "timed out after 3 s", NOW)).await;
    let same = put(condition("Unavailable", "timed out after 4 s", later)).await;
    assert_eq!((same.since, &*same.message), (NOW, "timed out after 4 s"));
    assert_eq!(put(condition("Conflict", "differs", later)).await.since, later);
}

#[tokio::test]
async fn an_approval_is_used_once_and_not_after_a_day() {
    let (_dir, db) = new().await;
    let digest = approval(NOW).digest;
    assert_eq!(db.approval(digest).await.unwrap(), None);
    db.commit(vec![Write::Approve(approval(NOW))]).await.unwrap();
    assert_eq!(db.approval(digest).await.unwrap(), Some(approval(NOW)));
    let late = db.commit(vec![Write::UseApproval(digest, NOW + DAY)]).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Conflict);
    db.commit(vec![Write::UseApproval(digest, NOW)]).await.unwrap();
    assert_eq!(db.commit(vec![Write::UseApproval(digest, NOW)]).await.unwrap_err().kind, ErrorKind::Conflict);
    db.commit(vec![Write::Approve(approval(NOW))]).await.unwrap();
    assert_eq!(db.approval(digest).await.unwrap(), None, "the same consent said twice is used once");
    db.commit(vec![Write::Approve(approval(NOW - DAY + Duration::from_secs(1)))]).await.unwrap();
    db.commit(vec![Write::Approve(approval(NOW + Duration::from_secs(1)))]).await.unwrap();
    assert!(db.approval(digest).await.unwrap().is_some(), "a new consent is a new one");
    let entry = db.reader().approvals().await.unwrap().approvals.remove(0);
    assert_eq!((entry.actor.as_str(), entry.used_at), ("ada", None));
    assert_eq!(entry.expires_at.to_string(), "2023-11-15T22:13:21Z");
}

#[tokio::test]
async fn an_approval_of_yesterday_is_not_offered() {
    let (_dir, db) = new().await;
    db.commit(vec![Write::Approve(approval(NOW - DAY))]).await.unwrap();
    assert_eq!(db.approval(approval(NOW).digest).await.unwrap(), None);
}

#[tokio::test]
async fn a_writer_whose_epoch_is_over_writes_nothing() {
    let (dir, first) = new().await;
    let second = Db::open_locked(dir.path(), &existing(), None, Init::New).await.unwrap();
    assert!(second.epoch() > first.epoch());
    let error = first.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("epoch"), "{error}");
    assert_eq!(first.recovered().await.unwrap_err().kind, ErrorKind::Conflict);
    second.commit(vec![Write::Rows(vec![row("b")])]).await.unwrap();
    let rows = first.scope(&zone()).await.unwrap().rows;
    assert_eq!(*rows, [row("b")], "readers of the old writer see what the new one committed");
}

#[tokio::test]
async fn a_commit_that_fails_takes_nobody_of_its_group_along() {
    let (_dir, db) = new().await;
    // On this single-threaded runtime all of them are queued before the writer runs: one group.
    let commits = (0..40).map(|n| {
        let fence = if n % 4 == 0 { vec![(key("none"), 1)] } else { vec![] };
        let writes = vec![Write::Rows(vec![row(&format!("r{n}"))]), start(vec![intent(n, row("x"))], fence)];
        db.commit(writes)
    });
    let answers = join_all(commits).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 10);
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), n % 4 == 0);
    }
    let memory = db.scope(&zone()).await.unwrap();
    assert_eq!((memory.rows.len(), memory.open.len()), (30, 30));
    assert!(
        memory.rows.iter().all(|r| &*r.tracked.id.0 != "r4"),
        "a failed commit leaves nothing, not a part"
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_touches_no_page() {
    let (dir, db) = new().await;
    let certs = Scope::new("cert", "web");
    let same = || {
        vec![
            Write::Settled(zone(), vec!["a".into()]),
            Write::Gone(zone(), vec![]),
            Write::End(vec![]),
            Write::Conditions(zone(), vec![condition("Conflict", "differs", NOW)]),
            in_force("c1", &[("a", "1")]),
            Write::Hold(hold("one")),
            Write::Release("nobody".into()),
            Write::Consent(zone(), "x".into(), Consent::Barred),
            Write::Claims(certs.clone(), "web".into(), vec![claim("a", &zone(), &certs)]),
            Write::ClaimSynced(certs.clone(), "web".into(), "a".into(), false),
            Write::Version(zone(), Some(KnownVersion { version: Version::Absent, foreign: 1 })),
            Write::Converged(Ok(Converged { source: "s".into(), commit: "c".into(), inputs: Hash::of(b"") })),
        ]
    };
    db.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap();
    db.commit(same()).await.unwrap();
    let size = || fs::metadata(dir.path().join("state.db-wal")).unwrap().len();
    let before = size();
    db.commit(same()).await.unwrap();
    assert_eq!(size(), before);
    db.commit(vec![Write::Release("pdns/example.com".into())]).await.unwrap();
    assert!(size() > before, "the measure works");
}

#[tokio::test]
async fn the_event_chain_shows_what_was_changed_or_removed() {
    let check = async |sql: &str| {
        let (dir, db) = new().await;
        for n in 0..5 {
            db.commit(vec![Write::Event(event("adopt", &format!("n{n}")))]).await.unwrap();
        }
        let whole = db.reader().verify_events().await.unwrap();
        assert_eq!(whole, Verification { checked: 5, broken: None });
        db.close().await;
        tamper(&dir, &format!("DROP TRIGGER event_is_append_only; {sql}")).await;
        let db = Db::open_reader(dir.path(), Arc::new(At(NOW))).await.unwrap();
        db.verify_events().await.unwrap().broken.map(|broken| broken.number)
    };
    assert_eq!(check("SELECT 1").await, None);
    assert_eq!(check("UPDATE event SET actor = 'eve' WHERE number = 3").await, Some(3));
    assert_eq!(check("UPDATE event SET scope = NULL WHERE number = 1").await, Some(1));
    assert_eq!(check("DELETE FROM event WHERE number = 2").await, Some(2));
    assert_eq!(check("DELETE FROM event WHERE number = 5").await, Some(5));
    assert_eq!(check("DELETE FROM event").await, Some(1));
    assert_eq!(check("UPDATE event SET number = number + 1 WHERE number = 5").await, Some(5));
}

#[tokio::test]
async fn events_cannot_be_changed_by_accident() {
    let (_dir, db) = new().await;
    db.commit(vec![Write::Event(event("adopt", "x"))]).await.unwrap();
    let mut conn = open::connect(&db.reader.file).await.unwrap();
    assert!(sqlx::query("UPDATE event SET actor = 'eve'").execute(&mut conn).await.is_err());
}

#[tokio::test]
async fn history_tells_revisions_actions_and_events_newest_first() {
    let (_dir, db) = new().await;
    let later = |event: Event| Event { at: NOW + DAY, ..event };
    db.commit(vec![
        in_force("c1", &[("example.com", "1")]),
        start(vec![intent(1, row("www/A"))], vec![]),
        Write::Event(event("create", "told by the journal")),
        Write::Event(later(event("adopt", "taken over"))),
    ])
    .await
    .unwrap();
    let reader = db.reader();
    let told = async |filter: HistoryFilter| -> Vec<String> {
        let entries = reader.history(&filter).await.unwrap();
        entries
            .iter()
            .map(|e| format!("{} {} {}", e.kind, e.actor, e.outcome.as_deref().unwrap_or("-")))
            .collect()
    };
    let all = ["adopt ada -", "revision Ada -", "create engine open"];
    assert_eq!(told(HistoryFilter::default()).await, all);
    let of = |text: &str| Some(text.parse::<Pattern>().unwrap());
    assert_eq!(
        told(HistoryFilter { address: of("Zone/*#www/A"), ..Default::default() }).await,
        [all[0], all[2]]
    );
    assert_eq!(told(HistoryFilter { address: of("Zone/example.org"), ..Default::default() }).await, [""; 0]);
    assert_eq!(told(HistoryFilter { actor: Some("Ada".into()), ..Default::default() }).await, [all[1]]);
    assert_eq!(told(HistoryFilter { since: Some(NOW + DAY), ..Default::default() }).await, [all[0]]);
    let events = reader.events(&EventFilter::default(), 1, 10).await.unwrap();
    assert_eq!(events.iter().map(|e| e.number).collect::<Vec<_>>(), [2]);
    let adopted = EventFilter { kinds: vec!["adopt".into()], ..Default::default() };
    assert_eq!(reader.events(&adopted, 0, 10).await.unwrap().len(), 1);
    assert_eq!(reader.last_event().await.unwrap(), 2);
}

#[tokio::test]
async fn status_counts_what_is_tracked_and_names_what_is_in_force() {
    let (_dir, db) = new().await;
    db.commit(vec![
        in_force("c1", &[("example.com", "1")]),
        Write::Converged(Ok(Converged {
            source: "infra".into(),
            commit: "c1".into(),
            inputs: Hash::of(b""),
        })),
        Write::Rows(vec![
            row("a"),
            rich_row("b"),
            Row { state: RowState::Applied, written_at: NOW, ..row("c") },
        ]),
        Write::Version(zone(), Some(KnownVersion { version: Version::Absent, foreign: 9 })),
        Write::Conditions(zone(), vec![condition("Conflict", "differs", NOW)]),
        Write::Hold(hold("one")),
    ])
    .await
    .unwrap();
    let status = db.reader().status().await.unwrap();
    let scope = &status.scopes[0];
    assert_eq!((scope.tracked, scope.applied, scope.pending, scope.foreign), (3, 1, 1, Some(9)));
    let source = &status.sources[0];
    assert_eq!((source.label.as_str(), source.manifests, source.converged), ("c1", 1, true));
    assert_eq!((status.conditions.len(), status.holds[0].deletes, status.open), (1, 7, 0));
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["conditions"][0]["nextTry"], "2023-11-15T22:13:20Z");
    let rows = db.reader().rows(Some(&"Zone/*#b".parse().unwrap())).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].depends_on, ["infra/dns/Zone//a", "infra/dns/Zone//b"]);
    assert_eq!(db.reader().rows(None).await.unwrap().len(), 3);
}

#[tokio::test]
async fn the_views_for_people_can_all_be_read() {
    let (_dir, db) = new().await;
    db.commit(vec![
        in_force("c1", &[("a", "1")]),
        Write::Rows(vec![row("a")]),
        start(vec![intent(1, row("a"))], vec![]),
        Write::End(vec![ending(1, "done")]),
        Write::Conditions(zone(), vec![condition("Conflict", "differs", NOW)]),
        Write::Hold(hold("one")),
        Write::Approve(approval(NOW)),
        Write::Suspend(suspension("one", None)),
        Write::Pin(pin("one", None)),
        Write::Drifted(vec![drift("a", None)]),
        Write::Ailments(zone(), vec![ailment("a", HealthState::Degraded)]),
        Write::Event(event("adopt", "x")),
    ])
    .await
    .unwrap();
    let mut conn = db.reader().conn().await.unwrap();
    let views: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'view'")
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    assert_eq!(views.len(), 11);
    for view in views {
        let rows =
            sqlx::query(AssertSqlSafe(format!("SELECT * FROM {view}"))).fetch_all(&mut *conn).await.unwrap();
        assert_eq!(rows.len(), 1, "{view}");
    }
    let outcome: String =
        sqlx::query_scalar("SELECT outcome FROM actions").fetch_one(&mut *conn).await.unwrap();
    assert_eq!(outcome, "done");
}

#[tokio::test]
async fn sealed_bytes_are_nowhere_on_the_disk_in_clear() {
    let (dir, db) = new().await;
    let intents = vec![intent(1, rich_row("open")), intent(2, rich_row("closed"))];
    db.commit(vec![start(intents, vec![]), Write::Rows(vec![rich_row("a")])]).await.unwrap();
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
    db.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap();
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
    db.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap();
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
    db.commit(vec![Write::Rows(vec![rich_row("a")])]).await.unwrap();
    assert_eq!(*reader.scope(&zone()).await.unwrap().rows, [rich_row("a")]);
    let refused = reader.commit(vec![Write::Rows(vec![row("b")])]).await.unwrap_err();
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
    assert_eq!(schema, open::newest_schema());
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
    db.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap();
    db.close().await;
    tamper(&dir, "PRAGMA user_version = 0").await;
    let error = Reader::open(dir.path(), Arc::new(At(NOW))).await.unwrap_err();
    assert!(matches!(error, StoreError::OlderSchema { found: 0, .. }), "{error:?}");
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a")]);
    let copy = open::read_pool(&dir.path().join("state.db.schema-0")).await.unwrap();
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM inventory").fetch_one(&copy).await.unwrap();
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn damage_is_found_at_the_start_and_told_with_a_way_out() {
    let (dir, db) = new().await;
    let rows = (0..2000).map(|n| row(&format!("h{n:04}/A"))).collect();
    db.commit(vec![Write::Rows(rows)]).await.unwrap();
    db.close().await;
    let file = dir.path().join(DATABASE);
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = (bad.len() / 2) & !4095;
    bad[middle..middle + 4096].fill(0x5a);
    for bytes in [&bad[..], b"this is no database, it is a text that is longer than a hundred bytes, which is what the header of a database has"] {
        fs::write(&file, bytes).unwrap();
        let error = Db::open_writer(dir.path(), existing()).await.unwrap_err();
        assert!(error.is_damage(), "{error:?}");
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
    db.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap();
    let (epoch, seal) = (db.epoch(), db.seal().clone());
    db.close().await;
    let file = dir.path().join(DATABASE);
    let mut conn = open::connect(&file).await.unwrap();
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut conn).await.unwrap();
    let limit = format!("PRAGMA max_page_count = {}", pages + 8);
    sqlx::query(AssertSqlSafe(limit)).execute(&mut conn).await.unwrap();
    let db = Db::begin(conn, seal, epoch, &file, &existing(), None).await.unwrap();
    let many = || Write::Rows((0..2000).map(|n| row(&format!("h{n:04}/A"))).collect());
    let too_much = || vec![Write::Release("x".into()), start(vec![intent(1, row("x"))], vec![]), many()];
    let error = db.commit(too_much()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("no space left") && error.message.contains("state.db"), "{error}");
    assert!(error.hint.is_some());
    let memory = db.scope(&zone()).await.unwrap();
    assert_eq!((&**memory.rows, memory.open.len()), (&[row("a")][..], 0));
    let small = || db.commit(vec![Write::Rows(vec![row("b")])]);
    let (first, full, last) = futures_util::join!(small(), db.commit(too_much()), small());
    assert!(first.is_ok() && full.is_err() && last.is_ok(), "a small commit in the same group goes through");
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a"), row("b")]);
    db.close().await;
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    db.commit(too_much()).await.unwrap();
    assert_eq!(db.scope(&zone()).await.unwrap().rows.len(), 2002);
}

#[tokio::test]
async fn a_restore_brings_back_the_backup_and_fences_who_knew_the_old_state() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    db.commit(vec![Write::Rows(vec![rich_row("a")])]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    db.commit(vec![Write::Rows(vec![row("b")])]).await.unwrap();
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
    assert_eq!(db.reader().verify_events().await.unwrap().broken, None);
}

#[tokio::test]
async fn what_cannot_be_restored_replaces_nothing() {
    let (dir, db) = new().await;
    db.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap();
    db.close().await;
    let file = dir.path().join("backup.db");
    let missing = restore(dir.path(), &file, &At(NOW)).await.unwrap_err();
    assert!(matches!(missing, StoreError::File { .. }), "{missing:?}");
    fs::write(&file, "no database, but long enough for a header, which has a hundred bytes, so that SQLite reads it at all").unwrap();
    assert!(restore(dir.path(), &file, &At(NOW)).await.unwrap_err().is_damage());
    fs::write(&file, "").unwrap();
    let empty = restore(dir.path(), &file, &At(NOW)).await.unwrap_err();
    assert!(matches!(empty, StoreError::Foreign(_)), "{empty:?}");
    let db = Db::open_writer(dir.path(), existing()).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a")]);
}

#[tokio::test]
async fn a_restore_into_a_new_directory_needs_no_database_there() {
    let (dir, db) = new().await;
    let file = dir.path().join("backup.db");
    db.commit(vec![Write::Rows(vec![row("a")])]).await.unwrap();
    db.reader().backup(&file).await.unwrap();
    let other = dir.path().join("other");
    assert_eq!(restore(&other, &file, &At(NOW)).await.unwrap().replaced, None);
    let db = Db::open_writer(&other, existing()).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, [row("a")]);
}

#[tokio::test]
async fn ids_that_look_like_sql_or_glob_are_only_texts() {
    let (_dir, db) = new().await;
    let odd = ["'; DROP TABLE inventory; --", "*.example.com./A", "ä\u{10ffff}\"\\", "%", "[\"x\"]"];
    let mut rows: Vec<Row> =
        odd.iter().map(|id| Row { address: "Zone/a".parse().unwrap(), ..row(id) }).collect();
    rows.sort_by(|a, b| a.tracked.id.cmp(&b.tracked.id));
    db.commit(vec![
        Write::Rows(rows.clone()),
        start(rows.iter().map(|r| intent(1, r.clone())).collect(), vec![]),
    ])
    .await
    .unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, rows);
    assert_eq!(db.scope(&zone()).await.unwrap().open.len(), rows.len());
    db.commit(vec![Write::Gone(zone(), odd.iter().map(|id| ResourceId::from(*id)).collect())]).await.unwrap();
    assert_eq!(*db.scope(&zone()).await.unwrap().rows, []);
}

fn suspension(id: &str, until: Option<Duration>) -> Suspension {
    Suspension {
        id: id.into(),
        extent: Extent::All,
        except: vec!["Zone/a.example#www/*".parse().unwrap()],
        reason: "moving".into(),
        actor: "ada".into(),
        since: NOW,
        until,
        stopped_by: Default::default(),
        scopes: [zone(), Scope::new("pdns", "other.example")].into(),
    }
}

#[tokio::test]
async fn suspensions_read_back_as_they_were_put_and_go_with_their_last_scope() {
    let (_dir, db) = new().await;
    let extents = [
        Extent::All,
        Extent::Source("infra".into()),
        Extent::Provider("pdns".into()),
        Extent::Address("Zone/*.example#www/A".parse().unwrap()),
        Extent::Labels(vec![("team".into(), "web".into()), ("env".into(), "prod".into())]),
    ];
    let put: Vec<Suspension> = (0..)
        .zip(extents)
        .map(|(id, extent)| Suspension { extent, ..suspension(&format!("{id}"), Some(NOW)) })
        .collect();
    db.commit(put.iter().cloned().map(Write::Suspend).collect()).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), put);
    db.commit(vec![Write::Resume("1".into()), Write::Looked("0".into(), zone())]).await.unwrap();
    let left = db.suspensions().await.unwrap();
    assert_eq!(
        left.iter().map(|s| (&*s.id, s.scopes.len())).collect::<Vec<_>>(),
        [("0", 1), ("2", 2), ("3", 2), ("4", 2)]
    );
    db.commit(vec![Write::Looked("0".into(), Scope::new("pdns", "other.example"))]).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), put[2..]);
    // Said again, it is another in its place; what is over and left nothing in doubt goes meanwhile.
    let again = Suspension { scopes: [].into(), ..suspension("2", Some(NOW)) };
    let other = Suspension { since: NOW + Duration::from_secs(1), ..suspension("9", None) };
    db.commit(vec![Write::Suspend(again), Write::Suspend(other.clone())]).await.unwrap();
    assert_eq!(db.suspensions().await.unwrap(), [put[3].clone(), put[4].clone(), other]);
}

fn pin(id: &str, until: Option<Duration>) -> Pin {
    Pin {
        scope: zone(),
        id: id.into(),
        address: format!("Zone/a#{id}/A").parse().unwrap(),
        manifest: key("a"),
        commit: "0123456789".repeat(4).into(),
        label: "0123456".into(),
        template: until.map(|_| Hash::of(b"newest")),
        content: until.map(|_| Hash::of(b"content")),
        declared: until.is_some(),
        reason: "it is down".into(),
        actor: "ada".into(),
        since: NOW,
        until,
    }
}

#[tokio::test]
async fn pins_read_back_as_they_were_put_and_fence_their_manifest() {
    let (_dir, db) = new().await;
    db.commit(vec![in_force("c1", &[("a", "1"), ("b", "1")])]).await.unwrap();
    let generations = async || db.generations("infra").await.unwrap();
    let mut seen = vec![generations().await];
    let pins = [pin("one", None), pin("two", Some(NOW))];
    db.commit(pins.iter().cloned().map(Write::Pin).collect()).await.unwrap();
    assert_eq!(db.pins().await.unwrap(), pins);
    seen.push(generations().await);
    db.commit(vec![Write::Unpin(zone(), "one".into())]).await.unwrap();
    assert_eq!(db.pins().await.unwrap(), pins[1..]);
    seen.push(generations().await);
    db.commit(vec![Write::Unpin(zone(), "one".into())]).await.unwrap();
    assert_eq!(generations().await, seen[2], "what was no pin fences nothing");
    for (before, after) in [(0, 1), (1, 2), (0, 2)] {
        assert_ne!(seen[before][0], seen[after][0], "a plan from before writes nothing");
        assert_eq!(seen[before][1], seen[after][1], "the other manifest is not concerned");
    }
}

#[tokio::test]
async fn a_trail_without_its_beginning_holds_together_and_so_does_its_export() {
    let (_dir, db) = new().await;
    let at = |second: u64| NOW + Duration::from_secs(second);
    for second in 0..6 {
        let event = Event { at: at(second), ..event("adopt", "x") };
        db.commit(vec![Write::Event(event)]).await.unwrap();
    }
    let lines = |events: &[Exported]| {
        events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect::<String>()
    };
    let all = db.reader().exported(0, 100).await.unwrap();
    assert_eq!(all.len(), 6);
    let verified = |text: &str| export::verify(text.as_bytes()).unwrap();
    assert_eq!(verified(&lines(&all)), Verification { checked: 6, broken: None });

    assert_eq!(db.trim_events(at(3)).await.unwrap(), 3);
    assert_eq!(db.reader().verify_events().await.unwrap(), Verification { checked: 3, broken: None });
    assert_eq!(db.trim_events(at(100)).await.unwrap(), 2, "the last one stays");
    assert_eq!(db.trim_events(at(100)).await.unwrap(), 0);
    db.commit(vec![Write::Event(event("adopt", "y"))]).await.unwrap();
    assert_eq!(db.reader().verify_events().await.unwrap(), Verification { checked: 2, broken: None });
    assert!(db.reader().continues(&all[5]).await.unwrap());
    assert!(db.reader().continues(&all[1]).await.unwrap(), "what follows it is gone, not another");
    let other = Exported { message: "another".into(), ..all[5].clone() };
    assert!(!db.reader().continues(&other).await.unwrap());

    // An export is checked from its first line on, whatever that is.
    let later = db.reader().exported(all[5].number - 1, 100).await.unwrap();
    assert_eq!(verified(&lines(&later)), Verification { checked: 2, broken: None });
    let broken = |change: &dyn Fn(&mut Vec<Exported>)| {
        let mut changed = all.clone();
        change(&mut changed);
        verified(&lines(&changed)).broken.map(|broken| broken.number)
    };
    assert_eq!(broken(&|all| all[0].actor = "mallory".into()), Some(1));
    assert_eq!(broken(&|all| all[3].at += 1), Some(4));
    assert_eq!(broken(&|all| drop(all.remove(2))), Some(4));
    assert!(export::verify("{}\n".as_bytes()).is_err());
}

fn drift(id: &str, action: Option<u64>) -> Drifted {
    Drifted {
        scope: zone(),
        id: id.into(),
        address: format!("Zone/example.com#{id}").parse().unwrap(),
        manifest: key("example.com"),
        mode: Drift::Heal,
        first_seen: NOW,
        missing: false,
        fields: vec![DriftField { path: "ttl".into(), remote: Some("60".into()), declared: None }],
        action: action.map(ActionId),
    }
}

fn ailment(id: &str, state: HealthState) -> Ailment {
    Ailment { id: Some(id.into()), state, message: "it exits with 1".into(), since: NOW }
}

#[tokio::test]
async fn a_drift_is_one_entry_until_it_is_over_and_goes_with_its_time() {
    let (_dir, db) = new().await;
    let open = async || db.reader().scope(&zone()).await.unwrap().drifts;
    let over = |end, at| Write::DriftOver(zone(), vec![("a".into(), end)], at);
    db.commit(vec![Write::Drifted(vec![drift("a", None)])]).await.unwrap();
    assert_eq!(open().await, [drift("a", None)]);
    // The intent that heals it, and a later look that knows of none: first seen and action stay.
    let later = Drifted { first_seen: NOW + DAY, ..drift("a", Some(7)) };
    db.commit(vec![Write::Drifted(vec![later])]).await.unwrap();
    db.commit(vec![Write::Drifted(vec![drift("a", None)])]).await.unwrap();
    assert_eq!(open().await, [drift("a", Some(7))]);
    db.commit(vec![Write::NotHealed(zone(), vec!["a".into()])]).await.unwrap();
    assert_eq!(open().await, [drift("a", None)]);
    db.commit(vec![over(DriftEnd::Gone, NOW + DAY)]).await.unwrap();
    assert_eq!(open().await, []);
    db.commit(vec![Write::Drifted(vec![drift("a", Some(8))]), over(DriftEnd::Healed, NOW + DAY * 3)])
        .await
        .unwrap();
    db.commit(vec![Write::Drifted(vec![drift("b", None)])]).await.unwrap();
    let words = async || -> Vec<String> {
        let all = db.reader().drifts(None, false).await.unwrap();
        all.iter().map(|entry| format!("{} {}", entry.id, entry.outcome)).collect()
    };
    assert_eq!(words().await, ["b open", "a healed", "a gone"]);
    assert_eq!(db.reader().drifts(None, true).await.unwrap().len(), 1);
    // What is open stays, however old it is.
    db.trim_events(NOW + DAY * 2).await.unwrap();
    assert_eq!(words().await, ["b open", "a healed"]);
    db.trim_events(NOW + DAY * 9).await.unwrap();
    assert_eq!(words().await, ["b open"]);
}

#[tokio::test]
async fn what_is_not_healthy_is_remembered_until_it_is_and_nothing_of_what_is() {
    let (_dir, db) = new().await;
    let settled = Row { state: RowState::Settled, ..row("a") };
    let whole = Ailment { id: None, ..ailment("a", HealthState::Unknown) };
    let list = vec![whole, ailment("a", HealthState::Degraded)];
    let looked = Write::LookedAt(zone(), 3);
    let writes = vec![Write::Rows(vec![settled]), Write::Ailments(zone(), list.clone()), looked];
    db.commit(writes).await.unwrap();
    let memory = db.reader().scope(&zone()).await.unwrap();
    assert_eq!((memory.ailments, memory.looked_at), (list, 3));
    assert_eq!(db.reader().parts(Parts::Ailing).await.unwrap().len(), 1);
    db.commit(vec![Write::Ailments(zone(), Vec::new())]).await.unwrap();
    assert_eq!(db.reader().scope(&zone()).await.unwrap().ailments, []);
    assert!(db.reader().parts(Parts::Ailing).await.unwrap().is_empty());
    let all = db.reader().parts(Parts::All).await.unwrap();
    let part = all.values().next().unwrap();
    assert!(part.synced_at.is_some() && part.healthy_at >= part.synced_at, "{part:?}");
    assert_eq!((part.looked_at, part.generation), (Some(3), None));
}
