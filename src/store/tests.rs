mod ahead;
mod alike;
mod answers;
mod kept;
mod marks;
mod opening;
mod rename;
mod rows;
mod schema;
mod settled;
mod sweep;
mod together;
mod trail;

use super::*;
use futures_util::future::join_all;
use reconciled_engine::{
    DriftEnd, DriftField, Drifted, Extent, HealthState, RowState,
    store::{Ailment, ClaimRow, Condition, ConditionKind, Consent, Ending, Event, Intent, OpenIntent},
};
use reconciled_provider::{
    ActionId, Claim, Deletion, Drift, EntryPolicy, ErrorKind, Lives, Pattern, ResourceId, Sealed, Version,
};
use sqlx::{AssertSqlSafe, Connection as _};
use std::{fmt, fs, os::unix::fs::PermissionsExt as _, time::Duration};
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
    Row::settled(zone(), id, key("example.com")).with(|row| {
        row.tracked.applied = Hash::of(id.as_bytes());
        row.address = format!("Zone/example.com#{id}").parse().unwrap();
        row.file = "zones/example.com.yaml".into();
        row.template = Hash::of(b"template");
        row.normalizer = 3;
        row.revision = "abc1234".into();
    })
}

fn rich_row(id: &str) -> Row {
    row(id).with(|row| {
        row.tracked.remote = Some("arn:1".into());
        row.tracked.private = Sealed::new(b"canary-private");
        row.tracked.outputs = Sealed::new(br#"{"arn":"canary-outputs"}"#);
        row.tracked.after = [key("a"), key("b")].into();
        row.state = RowState::Pending { recheck_at: NOW };
        row.merge = true;
        row.deletion = Deletion::Protect;
        row.writes = EntryPolicy::CreateOnly;
        row.drift = Drift::Ignore;
        row.formerly = vec!["Zone/former.example".parse().unwrap(), "Zone/first.example".parse().unwrap()];
    })
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
        consented: None,
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
        is_restored: false,
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
        declared: Some(Hash::of(reason.as_bytes())),
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
        once: None,
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

/// Changes the database behind the store's back.
async fn tamper(dir: &TempDir, sql: &str) {
    let mut conn = open::connect(&dir.path().join(DATABASE)).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

#[tokio::test]
async fn dependants_follow_the_edges_of_their_rows() {
    let (_dir, db) = new().await;
    let after = |keys: &[&str]| {
        let row = row("x").with(|row| row.tracked.after = keys.iter().map(|k| key(k)).collect());
        vec![Write::Rows(vec![row].into())]
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
async fn only_what_took_consent_has_an_approver() {
    let (_dir, db) = new().await;
    let digest = Hash::of(b"plan");
    let used = |actor: &str, at| {
        Write::Event(Event {
            at,
            kind: "consented".into(),
            scope: None,
            address: None,
            revision: "abc1234".into(),
            actor: actor.into(),
            reason: "as agreed".into(),
            message: format!("{} goes on with plan {digest}", zone()).into(),
        })
    };
    let taken = |plan: &[u8]| Some(Hash::of(plan));
    let intents = vec![
        Intent { consented: taken(b"plan"), ..intent(1, row("a")) },
        // Of the same commit, and of a plan of which nobody is known to have consented.
        intent(2, row("b")),
        Intent { consented: taken(b"other"), ..intent(3, row("c")) },
    ];
    let later = NOW + Duration::from_secs(1);
    db.commit(vec![used("ada", NOW), start(intents, vec![]), used("bob", later)]).await.unwrap();
    let history = db.reader().history(&HistoryFilter::default()).await.unwrap();
    let approver = |id: &str| {
        let address = format!("Zone/example.com#{id}");
        let entry = history.iter().find(|entry| entry.address.as_deref() == Some(&address)).unwrap();
        (entry.approver.as_deref(), entry.approval_reason.as_deref())
    };
    assert_eq!(approver("a"), (Some("ada"), Some("as agreed")));
    assert_eq!((approver("b"), approver("c")), ((None, None), (None, None)));
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
    let unknown = KnownVersion { version: Version::Unknown, foreign: 1 };
    let (odd, unsure) = (Scope::new("a", "\"ü\\\n"), Scope::new("a", "unsure"));
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
        Write::Consent(zone(), "z".into(), Consent::LetGo),
        Write::Rows(vec![row("web").with(|row| row.scope = certs.clone().into())].into()),
        Write::Claims(certs.clone(), "web".into(), vec![here.clone(), there.clone()]),
        Write::Version(zone(), Some(known(b"1"))),
        Write::Version(certs.clone(), Some(absent.clone())),
        Write::Version(Scope::new("a", "gone"), Some(absent.clone())),
        Write::Version(odd.clone(), Some(known(b"\x80\xff\0"))),
        Write::Version(unsure.clone(), Some(unknown.clone())),
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
    let words = [("x".into(), adopt), ("y".into(), Consent::Barred), ("z".into(), Consent::LetGo)];
    assert_eq!(memory.consents, words);
    assert_eq!(memory.claims_here, [here.clone(), there.clone()]);
    assert_eq!((memory.claims_made.len(), memory.version.clone()), (0, Some(known(b"2"))));
    assert_eq!(db.scope(&certs).await.unwrap().claims_made, [here, there.clone()]);
    assert_eq!(db.holds().await.unwrap(), [hold("three")]);
    let versions =
        [(certs.clone(), absent), (zone(), known(b"2")), (odd, known(b"\x80\xff\0")), (unsure, unknown)];
    assert_eq!(db.versions().await.unwrap(), versions.into());
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
    assert_eq!((memory.conditions.len(), memory.consents.len()), (0, 2));
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
async fn of_two_consents_the_first_that_counts_is_used_and_takes_the_other_along() {
    let (_dir, db) = new().await;
    let by = |actor: &str, at: Duration| Approval { actor: actor.into(), at, ..approval(NOW) };
    let digest = approval(NOW).digest;
    let (first, second) = (by("ada", NOW - DAY + Duration::from_secs(1)), by("bob", NOW));
    db.commit(vec![Write::Approve(first.clone()), Write::Approve(second.clone())]).await.unwrap();
    assert_eq!(db.approval(digest).await.unwrap(), Some(first));
    db.commit(vec![Write::UseApproval(digest, NOW)]).await.unwrap();
    assert_eq!(db.approval(digest).await.unwrap(), None, "one plan was consented to, once");
    let used = db.reader().approvals().await.unwrap().approvals;
    assert_eq!(used.iter().map(|one| &*one.actor).collect::<Vec<_>>(), ["ada"]);
    // Whose day is over counts no more, and whoever said so again has the plan go on.
    let (_dir, db) = new().await;
    let over = by("ada", NOW - DAY);
    db.commit(vec![Write::Approve(over), Write::Approve(second.clone())]).await.unwrap();
    assert_eq!(db.approval(digest).await.unwrap(), Some(second));
    db.commit(vec![Write::UseApproval(digest, NOW)]).await.unwrap();
    let used = db.reader().approvals().await.unwrap().approvals;
    assert_eq!(
        used.iter().filter(|one| one.used_at.is_some()).map(|one| &*one.actor).collect::<Vec<_>>(),
        ["bob"]
    );
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
    let error = first.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("epoch"), "{error}");
    assert_eq!(first.recovered().await.unwrap_err().kind, ErrorKind::Conflict);
    second.commit(vec![Write::Rows(vec![row("b")].into())]).await.unwrap();
    let rows = first.scope(&zone()).await.unwrap().rows;
    assert_eq!(*rows, [row("b")], "readers of the old writer see what the new one committed");
}

#[tokio::test]
async fn a_commit_that_fails_takes_nobody_of_its_group_along() {
    let (_dir, db) = new().await;
    // On this single-threaded runtime all of them are queued before the writer runs: one group.
    let commits = (0..40).map(|n| {
        let fence = if n % 4 == 0 { vec![(key("none"), 1)] } else { vec![] };
        let writes =
            vec![Write::Rows(vec![row(&format!("r{n}"))].into()), start(vec![intent(n, row("x"))], fence)];
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
    db.commit(vec![Write::Rows(vec![row("a")].into())]).await.unwrap();
    db.commit(same()).await.unwrap();
    let size = || fs::metadata(dir.path().join("state.db-wal")).unwrap().len();
    let before = size();
    db.commit(same()).await.unwrap();
    assert_eq!(size(), before);
    db.commit(vec![Write::Release("pdns/example.com".into())]).await.unwrap();
    assert!(size() > before, "the measure works");
}
